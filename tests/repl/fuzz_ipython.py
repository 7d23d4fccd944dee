"""Generated lines as cells of IPython, for ``fuzz``."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from minijax.ipython_ext.magics import magic_name
from minijax.tools.commands.table import COMMANDS
from minijax.tools.session.namespace import initial_names
from tests.repl.fuzz_watch import Report, Watch


class Notebook:
    """An IPython shell with the extension, whose cells are watched."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def __enter__(self) -> Notebook:
        InteractiveShell.clear_instance()
        # its history would be a file, and a thread
        alone = Config({"HistoryManager": {"enabled": False}})
        self.shell: Any = InteractiveShell.instance(config=alone)
        self.shell.run_line_magic("load_ext", "minijax")
        self.shell.run_cell("%panels on")
        # how IPython shows lines around each frame is its own affair, and takes most of the time of an error
        self.shell.run_line_magic("xmode", "Plain")
        self.shell.user_ns.update(initial_names())
        magics: Any = self.shell.magics_manager.registry["MinijaxMagics"]
        self.watch = Watch(self.report, magics.session)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.shell.run_line_magic("unload_ext", "minijax")
        InteractiveShell.clear_instance()

    def run(self, line: str) -> None:
        """Run a line as a cell, and look at what it did."""
        self.report.kinds["in IPython"] += 1
        self.watch.before(line)
        name = line.lstrip("%").split()[0] if line.startswith("%") and line.strip("% \n") else ""
        if name in COMMANDS:
            line = line.replace(name, magic_name(COMMANDS[name]), 1)
        with capture_output() as captured:
            done = self.shell.run_cell(line, store_history=True)
        error = done.error_before_exec or done.error_in_exec
        if error is not None:
            self.watch.failed(error)
        shown = [done.result, *(each.data for each in captured.outputs)]
        for each in shown:
            bundle = each._repr_mimebundle_() if hasattr(each, "_repr_mimebundle_") and name else each
            html = bundle.get("text/html", "") if isinstance(bundle, dict) else ""
            if isinstance(html, str) and "<script" in html and 'data-mjw="' not in html:
                self.watch.violation("a script in what is shown")
        self.watch.after()

    def end(self) -> None:
        """The shell still works."""
        # in the history too: IPython looks at the last cell there for a semicolon, and that may be one without an end
        with capture_output():
            self.shell.run_cell("%pop --all", store_history=True)
            last = "from minijax import grad as _grad, numpy as _jnp; float(_grad(_jnp.sin)(0.0))"
            done = self.shell.run_cell(last, store_history=True)
        if done.result != 1.0:
            error = done.error_before_exec or done.error_in_exec
            self.watch.violation(f"at the end, the gradient of sin at 0 is {done.result!r} {error!r}")
