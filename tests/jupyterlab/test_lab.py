"""The notebook's parts in JupyterLab: ``python -m pytest tests/jupyterlab``, with the extra ``test-jupyterlab``."""

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
import pytest

from tests.browser.page import Browser, browser

# No cell is left out of the page because it is out of sight, and nothing is asked before a kernel starts.
SETTINGS = {
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
}


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

    def errors(self) -> list[str]:
        """What went wrong on the page since this was asked last, but for what JupyterLab's own extensions do."""
        said = [each["message"] for each in self.driver.get_log("browser") if each["level"] == "SEVERE"]
        return [each for each in said if "/lab/extensions/@jupyter-widgets/" not in each]

    def asked_elsewhere(self) -> list[str]:
        """What the page has asked for that is not of its server."""
        names = self.browser.run("return performance.getEntriesByType('resource').map((e) => e.name)")
        return [name for name in names if not name.startswith((self.server.origin, "data:", "blob:"))]


LOAD = (
    "%load_ext minijax\nimport minijax.numpy as jnp\nfrom minijax import grad, jit, vmap\n"
    "def f(x): return jnp.sin(x) * 2.0 - x"
)
PAGE = f"{LOAD}\n%config MinijaxMagics.stepper = 'page'"
CELLS = (LOAD, "%step grad(f)(3.0)", "'the last cell'")
STAGE = ".jp-OutputArea-output .mjw-stage"
STATUS = "return document.querySelector('.mjw-status').textContent"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    if importlib.util.find_spec("jupyterlab") is None:
        pytest.skip("jupyterlab is not installed: it is in the extra test-jupyterlab")
    with server(tmp_path_factory.mktemp("jupyterlab")) as found, browser() as window:
        page = Page(window, found)
        page.start()
        yield page


@pytest.fixture
def opened(lab: Page) -> Iterator[Callable[..., str]]:
    """Opens a notebook of these cells and runs it; it is closed at the end."""

    def open_cells(*sources: str) -> str:
        name = f"{secrets.token_hex(4)}.ipynb"
        lab.server.write(name, sources)
        lab.open(name)
        lab.run_all()
        return name

    yield open_cells
    lab.close()


def ready(lab: Page, count: int = 1) -> None:
    """Until so many steppers are on the page."""
    until(lambda: len(lab.browser.all(STAGE)) == count, 30, lambda: str(lab.shown("error")))


def test_keys_in_the_stepper_step_and_leave_the_notebook_alone(lab: Page, opened: Callable[..., str]):
    opened(*CELLS)
    ready(lab)
    cells = lab.cells()
    # a live stepper has a second output, for where no kernel is
    assert [each[3] for each in cells] == [0, 2, 1]
    lab.browser.one(".mjw [data-pane=stack]").click()
    stepping = {"n": None, "b": None, "i": None, chr(0xE014): None, chr(0xE015): None, chr(0xE011): None}
    for key in stepping:
        before = lab.browser.run(STATUS)
        lab.driver.switch_to.active_element.send_keys(key)
        assert lab.browser.run(STATUS) != before, key
    for place in ("[data-pane=tree]", "[data-pane=rule]", "[data-move=into]", ".mjw-search", "[data-pane=values]"):
        lab.browser.one(f".mjw {place}").click()
        lab.driver.switch_to.active_element.send_keys("ddxazmyrjk n0011cv" + chr(0xE013) + chr(0xE015))
        assert lab.browser.run("return document.querySelector('.mjw').contains(document.activeElement)"), place
        assert lab.cells() == cells, place
    # the same keys outside of it are the notebook's
    lab.activate(2)
    lab.execute("notebook:enter-command-mode")
    lab.waited("app.shell.currentWidget.content.activate();")
    lab.driver.switch_to.active_element.send_keys("dd")
    until(lambda: len(lab.cells()) == 2, 20)


# The words of the outputs that are seen.
SEEN = (
    "return [...document.querySelectorAll('.jp-OutputArea-child')].filter((e) => e.checkVisibility())"
    ".map((e) => e.innerText).join('\\n')"
)


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "somebody else's"])
@pytest.mark.parametrize("load", [LOAD, PAGE], ids=["live", "page"])
def test_a_saved_file_shows_everything_without_a_kernel(
    load: str, trusted: bool, lab: Page, opened: Callable[..., str]
):
    name = opened(load, "%step grad(f)(3.0)", "%grad f(3.0)", "%graph f(3.0)", "%tree {'a': jnp.ones(3)}")
    ready(lab)
    lab.close()
    if not trusted:  # what was not run here has no signature of this server's
        path = lab.server.folder / name
        path.write_text(path.read_text().replace("minijax.numpy as jnp", "minijax.numpy as  jnp"))
    lab.errors()
    lab.open(name, kernel=False)
    assert lab.kernels() == 0
    if trusted and load == PAGE:
        ready(lab)
        lab.browser.one("[data-move=last]").click()
        assert "end" in lab.browser.run(STATUS)
    else:
        until(lambda: lab.browser.all(".mjw-static"), 30)
        assert not lab.browser.all(STAGE)
        assert "sin(x) = 0.14112" in lab.browser.one(".mjw-static").text
    text = until(lambda: lab.browser.run(SEEN), 20)
    assert "-2.979985" in text and "1 array, 3 elements" in text
    assert "Loading widget" not in text and "Error" not in text


SLIDE = (
    "const range = document.querySelector('.mjw-argument input[type=range]'); range.value = arguments[0];"
    "range.dispatchEvent(new Event('input'));"
)


def test_moving_an_argument_of_a_live_stepper_records_the_call_again(lab: Page, opened: Callable[..., str]):
    lab.errors()
    opened(*CELLS)
    ready(lab)
    lab.browser.one("[data-move=over]").click()
    status = lab.browser.run(STATUS)
    assert "sin(x) = 0.14112" in status
    lab.browser.run(SLIDE, -2)
    until(lambda: lab.browser.run(STATUS) != status, 20)
    assert lab.browser.run(STATUS) == status.replace("0.14112", "-0.9092974")
    assert "the log of this recording" not in lab.browser.run(SEEN).lower()
    assert lab.asked_elsewhere() == [] and lab.errors() == []
