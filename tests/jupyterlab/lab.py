"""A JupyterLab of this environment on a port of this machine's own, and its page in a browser."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat

from tests.browser.page import Browser, missing

# No cell is left out of the page because it is out of sight, and nothing is asked before a kernel starts.
SETTINGS = {
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
}
LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"


def lacking() -> str:
    """Why JupyterLab cannot be tested here; '' if it can."""
    if importlib.util.find_spec("jupyterlab") is None:
        return "jupyterlab is not installed: it is in the extra test-jupyterlab"
    return missing()


class Server:
    """Where the server is reached, and the folder it serves."""

    def __init__(self, folder: Path, port: int, token: str) -> None:
        self.folder = folder
        self.origin = f"http://127.0.0.1:{port}"
        self.token = token

    def answers(self) -> bool:
        """Whether it has started."""
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"{self.origin}/api/status?token={self.token}", timeout=5) as reply:
                return reply.status == 200
        return False

    def write(self, name: str, sources: Sequence[str]) -> None:
        """A notebook with these cells."""
        made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
        made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(made, self.folder / name)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def server(home: Path) -> Iterator[Server]:
    """A server with a home of its own, which knows nothing of this machine's user."""
    for name, content in SETTINGS.items():
        path = home / "settings" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    folder = home / "notebooks"
    folder.mkdir()
    found = Server(folder, _free_port(), secrets.token_hex(16))
    places = ("HOME", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR")
    env = {**os.environ, **{name: str(home / name.lower()) for name in places}}
    env |= {"JUPYTERLAB_SETTINGS_DIR": str(home / "settings"), "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces")}
    command = (
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser"),
        *(f"--ServerApp.root_dir={folder}", f"--ServerApp.port={found.origin.rpartition(':')[2]}"),
        *("--ServerApp.ip=127.0.0.1", f"--IdentityProvider.token={found.token}", "--ServerApp.port_retries=0"),
        *("--LabApp.extension_manager=readonly", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"),
    )
    log = home / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=env, stdout=out, stderr=out, start_new_session=True)
        try:
            until(found.answers, 60, lambda: log.read_text()[-2000:])
            yield found
        finally:
            with contextlib.suppress(ProcessLookupError):  # the kernels too
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(20)


def until(is_so: Callable[[], Any], seconds: float, said: Callable[[], str] = str) -> Any:
    """What ``is_so`` gives as soon as that is true."""
    end = time.monotonic() + seconds
    while not (found := is_so()):
        assert time.monotonic() < end, f"not so after {seconds} s. {said()}"
        time.sleep(0.05)
    return found


class Page:
    """JupyterLab's page, driven through its own commands and through the browser's keys."""

    def __init__(self, browser: Browser, server: Server) -> None:
        self.browser = browser
        self.server = server
        self.driver = browser.driver
        self.driver.set_script_timeout(120)

    def start(self) -> None:
        """Open the page, with nothing in it yet."""
        self.driver.set_window_size(1200, 900)
        self.driver.get(f"{self.server.origin}/lab?reset&token={self.server.token}")
        until(lambda: self.browser.run("return !!(window.jupyterapp && window.jupyterapp.shell)"), 60)
        self.waited("await app.restored;")

    def waited(self, script: str, *args: Any) -> Any:
        """What a piece of JavaScript returns that may await; ``app`` is JupyterLab."""
        body = (
            "const done = arguments[arguments.length - 1]; const app = window.jupyterapp;"
            "(async (...given) => {" + script + "})(...Array.prototype.slice.call(arguments, 0, -1))"
            ".then((value) => done([value === undefined ? null : value, '']),"
            " (error) => done([null, String(error && error.stack || error)]));"
        )
        value, error = self.driver.execute_async_script(body, *args)
        assert not error, error
        return value

    def execute(self, command: str, **args: Any) -> None:
        """Run one of JupyterLab's commands, to its end."""
        self.waited("await app.commands.execute(given[0], given[1]);", command, args)

    def open(self, name: str, kernel: bool = True) -> None:
        """Show a notebook, with a kernel that has started or with none."""
        chosen = {} if kernel else {"kernelPreference": {"shouldStart": False, "canStart": False}}
        self.execute("docmanager:open", path=name, **chosen)
        self.waited("const w = app.shell.currentWidget; await w.context.ready; await w.revealed;")
        if kernel:
            self.waited("await app.shell.currentWidget.sessionContext.ready;")

    def run_all(self) -> None:
        """Run all cells of the notebook that is shown, and write its file."""
        self.execute("notebook:run-all-cells")
        self.save()

    def activate(self, cell: int) -> None:
        """Go to a cell."""
        self.waited("app.shell.currentWidget.content.activeCellIndex = given[0];", cell)

    def kernels(self) -> int:
        """How many kernels there are."""
        script = "const all = app.serviceManager.sessions; await all.refreshRunning(); return [...all.running()].length"
        return self.waited(script)

    def save(self) -> None:
        """Write the notebook's file."""
        self.waited("await app.shell.currentWidget.context.save();")

    def close(self) -> None:
        """Close the notebook that is shown, and end every kernel."""
        self.waited(
            "const w = app.shell.currentWidget; await w.context.save(); w.dispose();"
            "await app.serviceManager.sessions.shutdownAll();"
        )

    def cells(self) -> list[list[Any]]:
        """The cells of the notebook that is shown: which, of what kind, what they say, and how much they show."""
        return self.waited(
            "return app.shell.currentWidget.content.widgets.map(({ model, outputArea }) => "
            "[model.id, model.type, model.sharedModel.source, outputArea ? outputArea.model.length : 0])"
        )

    def shown(self, kind: str) -> list[Any]:
        """The outputs of a kind, as nbformat has them, of all cells."""
        return self.waited(
            "return app.shell.currentWidget.content.widgets"
            ".flatMap(({ outputArea }) => outputArea ? outputArea.model.toJSON() : [])"
            ".filter((output) => output.output_type === given[0])",
            kind,
        )

    def theme(self, name: str) -> None:
        """Change to a theme; until the page has it."""
        self.execute("apputils:change-theme", theme=name)
        light = str(name == LIGHT).lower()
        until(lambda: self.browser.run("return document.body.dataset.jpThemeLight") == light, 20)

    def errors(self) -> list[str]:
        """What went wrong on the page since this was asked last, but for what JupyterLab's own extensions do."""
        said = [each["message"] for each in self.driver.get_log("browser") if each["level"] == "SEVERE"]
        return [each for each in said if "/lab/extensions/@jupyter-widgets/" not in each]

    def asked_elsewhere(self) -> list[str]:
        """What the page has asked for that is not of its server."""
        names = self.browser.run("return performance.getEntriesByType('resource').map((e) => e.name)")
        return [name for name in names if not name.startswith((self.server.origin, "data:", "blob:"))]
