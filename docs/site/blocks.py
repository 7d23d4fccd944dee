"""Run code blocks and return their output as HTML.

All blocks of a page run in order in one temporary folder. The words after a block's kind are options:

- ``minijax``: inputs at the prompt, one session per page. ``panels`` also shows the panels; ``text`` shows the
  stepper as text; ``screen 80x24 s s`` presses the key ``s`` twice and shows the full-screen terminal;
- ``ipython``: a cell, in one IPython shell per page that has minijax's extension;
- ``python``: a program; its output is shown. With a file name, the program is also saved under that name;
- ``sh``: shell commands. Those that install minijax (``install``) are not run; tests compare them with the README.

``fails`` means that the last input ends with an error, which is shown. Any other error stops the build.
"""

from __future__ import annotations

import base64
import contextlib
import html
import io
import itertools
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs.site.layout import STEPPER, PageError
from minijax.config import config
from minijax.core.trace import reset_stack
from minijax.errors import set_machinery
from minijax.repl.batch import new_session
from minijax.repl.browser import screen as browser_screen
from minijax.repl.browser.model import StageBrowser
from minijax.repl.keys import PANEL_KEYS
from minijax.repl.stepper import screen as stepper_screen
from minijax.repl.stepper.model import Stepper
from minijax.tools.documents.document import Code, Document, Line, Text, document
from minijax.tools.documents.html import markup
from minijax.tools.documents.lexer import highlight
from minijax.tools.pages.widget import widget_html
from minijax.tools.recording.panels import PANELS
from minijax.tools.session import source
from minijax.tools.session.result import Browse, Step
from minijax.tools.session.session import Outcome, Session

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

ROOT = Path(__file__).resolve().parents[2]
# Output with more lines than this is shown in a box that scrolls.
MOST_LINES = 32
# Time limit of a block, in seconds.
_PATIENCE = 300


class Blocks:
    """A context manager that runs the blocks of one page and restores the process afterwards."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.failing = ""
        self._session: Session | None = None
        self._shell: InteractiveShell | None = None
        # the outcome of the last input at the prompt
        self.outcome: Outcome | None = None
        # what the current cell has displayed and printed
        self._given: list[Any] = []
        self._folder = Path()
        self._left = contextlib.ExitStack()

    def __enter__(self) -> Blocks:
        # a short path, so that paths in the output do not make lines wrap
        self._folder = Path(self._left.enter_context(tempfile.TemporaryDirectory()))
        self._left.enter_context(_in_folder(self._folder))
        # tracebacks leave out the code that runs the blocks
        set_machinery((str(ROOT / "docs"), runpy.__file__))
        return self

    def __exit__(self, *_: object) -> None:
        if self._shell is not None:
            self._shell.run_line_magic("unload_ext", "minijax")
            type(self._shell).clear_instance()
        if self._session is not None:
            self._session.live.drop_all()
        set_machinery(())
        config.update("jax_enable_x64", False)
        reset_stack()
        self._left.close()

    def run(self, kind: str, words: list[str], code: str) -> str:
        """Run a block and return its output as HTML."""
        run = {"minijax": self._minijax, "ipython": self._ipython, "python": self._python, "sh": self._sh}.get(kind)
        if run is None:
            raise PageError(f"{self.where}: a block of {kind or 'nothing'} cannot be run:\n{code}")
        return self.neutral("".join(run(code, words)))

    def neutral(self, text: str) -> str:
        """``text`` without this machine's folders: the page's folder becomes ``~``, other paths become relative."""
        text = text.replace(f"{self._folder}/", "").replace(str(self._folder), "~")
        return text.replace(f"{ROOT}/", "")

    def session(self) -> Session:
        if self._session is None:
            self._session = new_session({})
            self._session.settings.panel_keys = dict(PANEL_KEYS)
            self._session.highlight = highlight
        return self._session

    # --- the prompt
    # ------------------------------------------------------------------------------------------------

    def _minijax(self, code: str, words: list[str]) -> Iterator[str]:
        entries = list(source.inputs(code.rstrip("\n")))
        yield '<div class="block">'
        for at, each in enumerate(entries):
            yield self.entry(each, words, fails="fails" in words and at == len(entries) - 1)
        yield "</div>"

    def entry(self, code: str, words: list[str], fails: bool = False) -> str:
        """Run an input at the prompt and show its output."""
        session = self.session()
        session.settings.panels = PANELS if "panels" in words else ()
        number, label = len(session.inputs), session.prompt_label()
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            outcome = session.run_line(code)
        self.outcome = outcome
        if (outcome.error is not None) != fails:
            raise PageError(f"{self.where}: {code}\n{outcome.error!r}")
        shown = self._outcome(outcome, words)
        prompt = f"in [{number}] {label} ›" if label else f"in [{number}]:"
        return (
            f'<div class="entry"><div class="given"><span class="mj-prompt-in">{html.escape(prompt)}</span>'
            f"<div>{_code(code)}</div></div>{_printed(printed.getvalue())}{shown}</div>"
        )

    def _outcome(self, outcome: Outcome, words: list[str]) -> str:
        if outcome.step is not None and "screen" in words:
            return self._screen(outcome.step, words[words.index("screen") + 1 :])
        if isinstance(outcome.step, Step) and "text" not in words:
            step = outcome.step
            return widget_html(step.recording, highlight, start=step.position, in_page=True, rename=self.neutral)
        shown = _shown(outcome.shown)
        if shown and not outcome.command and outcome.error is None:
            prompt = f'<span class="mj-prompt-out">out[{outcome.number}]:</span>'
            shown = f'<div class="gave">{prompt}<div>{shown}</div></div>'
        return shown + (_shown(outcome.summary) if "panels" in words else "")

    def _screen(self, step: Step | Browse, words: list[str]) -> str:
        """The full-screen terminal after the keys in ``words``."""
        size, *keys = words
        columns, rows = map(int, size.split("x"))
        shown: Stepper | StageBrowser
        compose: Callable[[Any, int, int], list[Line]]
        if isinstance(step, Step):
            shown, compose = Stepper(step), stepper_screen.compose
        else:
            shown, compose = StageBrowser(step.stages, step.title), browser_screen.compose
        for key in keys:
            shown.press(key)
        lines = tuple(
            tuple((role, piece) for role, piece in each if not role.startswith("@"))
            for each in compose(shown, columns, rows)
        )
        return f'<div class="screen">{markup(document(Text(lines, wrap=False)))}</div>'

    # --- IPython
    # ---------------------------------------------------------------------------------------------------

    def _ipython(self, code: str, words: list[str]) -> Iterator[str]:
        shell = self._ipython_shell()
        number = shell.execution_count
        with contextlib.redirect_stdout(_Said(self._given)):
            result = shell.run_cell(code.rstrip("\n"), store_history=True)
        shown, self._given[:] = list(self._given), []
        if (result.error_in_exec or result.error_before_exec) and "fails" not in words:
            raise PageError(f"{self.where}: {code}\n{''.join(map(str, shown))}")
        yield '<div class="block"><div class="entry"><div class="given">'
        yield f'<span class="mj-prompt-in">In [{number}]:</span><div>{_code(code)}</div></div>'
        for is_text, group in itertools.groupby(shown, lambda each: isinstance(each, str)):
            if is_text:
                yield _printed("".join(group))
            else:
                yield from map(_displayed, group)
        yield "</div></div>"

    def _ipython_shell(self) -> InteractiveShell:
        """The page's shell. It collects what a notebook would display."""
        if self._shell is None:
            from IPython.core.interactiveshell import InteractiveShell
            from traitlets.config import Config

            InteractiveShell.clear_instance()
            shell = InteractiveShell.instance(config=Config({"HistoryManager": {"hist_file": ":memory:"}}))
            shell.displayhook.write_output_prompt = lambda: None
            shell.displayhook.write_format_data = lambda data, metadata=None: self._given.append(data)
            shell.displayhook.finish_displayhook = lambda: None
            shell.display_pub.publish = lambda data, metadata=None, **_: self._given.append(data)
            self._shell = shell
        return self._shell

    # --- programs
    # --------------------------------------------------------------------------------------------------

    def _python(self, code: str, words: list[str]) -> Iterator[str]:
        file = self._folder / (words[0] if words else "program.py")
        file.write_text(code, encoding="utf-8")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                runpy.run_path(str(file), run_name="__main__")
            except Exception as error:
                raise PageError(f"{self.where}: {error!r} in\n{code}") from error
        name = f'<div class="file">{html.escape(words[0])}</div>' if words else ""
        yield f'<div class="block">{name}{_code(code)}{_printed(printed.getvalue())}</div>'

    def _sh(self, code: str, words: list[str]) -> Iterator[str]:
        yield f'<div class="block"><pre>{html.escape(code.rstrip())}</pre>'
        if "install" not in words:
            yield _printed(self._said(code, "fails" in words))
        yield "</div>"

    def _said(self, code: str, fails: bool) -> str:
        shell = shutil.which("bash") or shutil.which("sh") or "sh"
        done = subprocess.run([shell, "-c", code], capture_output=True, text=True, timeout=_PATIENCE)
        if (done.returncode != 0) != fails:
            raise PageError(f"{self.where}: {code}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout + (done.stderr if fails else "")


@contextlib.contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    """Make ``folder`` the working folder, the home and ``sys.path[0]``; put this Python's programs on PATH."""
    before, environment, path = Path.cwd(), dict(os.environ), list(sys.path)
    bin_folder = Path(sys.executable).parent
    os.environ.update(
        HOME=str(folder),
        PATH=f"{bin_folder}{os.pathsep}{os.environ.get('PATH', '')}",
        PYTHONPATH=f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        XDG_CONFIG_HOME=str(folder / ".config"),
        XDG_STATE_HOME=str(folder / ".state"),
        IPYTHONDIR=str(folder / ".ipython"),
        COLUMNS="96",
        VISUAL="true",  # an editor that changes nothing
    )
    sys.path.insert(0, str(folder))
    known = set(sys.modules)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:] = path
        for name in set(sys.modules) - known:
            if str(getattr(sys.modules[name], "__file__", "") or "").startswith(str(folder)):
                del sys.modules[name]


def _displayed(data: dict[str, Any]) -> str:
    """The richest form of a cell's output, as in a notebook: a picture, else HTML, else text."""
    if picture := data.get("image/svg+xml"):
        address = base64.b64encode(picture.encode()).decode("ascii")
        caption = html.escape(data.get("text/plain", "").partition("\n")[0], quote=True)
        return f'<div class="mj-picture"><img src="data:image/svg+xml;base64,{address}" alt="{caption}"></div>'
    return str(data.get("text/html") or _printed(data["text/plain"]))


class _Said(io.StringIO):
    """Appends printed text to the list that also gets the displayed objects, so that their order is kept."""

    def __init__(self, parts: list[Any]) -> None:
        super().__init__()
        self.parts = parts

    def write(self, text: str) -> int:
        self.parts.append(text)
        return len(text)


def _code(code: str) -> str:
    return markup(document(Code(code.strip("\n"), "python")), highlight)


def _shown(doc: Document) -> str:
    """Return ``doc`` as HTML. A long document without a stepper scrolls."""
    made: str = markup(doc, highlight) if doc else ""
    long = made.count("\n") > MOST_LINES and STEPPER not in made
    return f'<div class="long" tabindex="0">{made}</div>' if long else made


def _printed(text: Any) -> str:
    if not text:
        return ""
    long = ' class="long" tabindex="0"' if text.count("\n") > MOST_LINES else ""
    return f'<div class="printed"><pre{long}>{html.escape(text.rstrip())}</pre></div>'
