"""Notebook outputs in JupyterLab. Run ``python -m pytest tests/jupyterlab`` with the extra ``test-jupyterlab``."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.browser.page import Browser, browser

# With these settings, JupyterLab keeps invisible cells in the page and opens no dialog or notification.
SETTINGS = {
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
}
LOAD = (
    "%load_ext minijax\nimport minijax.numpy as jnp\nfrom minijax import grad, jit, vmap\n"
    "def f(x): return jnp.sin(x) * 2.0 - x"
)
PAGE = f"{LOAD}\n%config MinijaxMagics.stepper = 'page'"
CELLS = (LOAD, "%step grad(f)(3.0)", "'the last cell'")
STAGE = ".jp-OutputArea-output .mjw-stage"
STATUS = "return document.querySelector('.mjw-status').textContent"
# The text of the visible outputs.
SEEN = (
    "return [...document.querySelectorAll('.jp-OutputArea-child')].filter((e) => e.checkVisibility())"
    ".map((e) => e.innerText).join('\\n')"
)
SLIDE = (
    "const range = document.querySelector('.mjw-argument input[type=range]'); range.value = arguments[0];"
    "range.dispatchEvent(new Event('input'));"
)


def until(is_so: Callable[[], Any], report: Callable[[], str] = str) -> Any:
    """Call ``is_so`` until its result is true, and return that result."""
    end = time.monotonic() + 60
    while not (found := is_so()):
        assert time.monotonic() < end, f"not so after a minute. {report()}"
        time.sleep(0.05)
    return found


@contextlib.contextmanager
def server(home: Path) -> Iterator[tuple[str, str]]:
    """The address and the token of a server with its own, empty home folder."""
    for name, content in SETTINGS.items():
        path = home / "settings" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    origin, token, log = f"http://127.0.0.1:{port}", secrets.token_hex(16), home / "server.log"
    places = ("HOME", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR")
    env = {**os.environ, **{name: str(home / name.lower()) for name in places}}
    env |= {"JUPYTERLAB_SETTINGS_DIR": str(home / "settings"), "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces")}
    command = (
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser"),
        *(f"--ServerApp.root_dir={home}", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"),
        *("--ServerApp.ip=127.0.0.1", f"--IdentityProvider.token={token}", "--LabApp.extension_manager=readonly"),
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    )

    def answers() -> bool:
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"{origin}/api/status?token={token}", timeout=5) as reply:
                return reply.status == 200
        return False

    with log.open("wb") as out:
        process = subprocess.Popen(command, env=env, stdout=out, stderr=out, start_new_session=True)
        try:
            until(answers, lambda: log.read_text()[-2000:])
            yield origin, token
        finally:
            with contextlib.suppress(ProcessLookupError):  # kills the kernels too
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


class Page:
    """JupyterLab's page, driven through its own commands and the browser's keys."""

    def __init__(self, browser: Browser, folder: Path, origin: str, token: str) -> None:
        self.browser = browser
        self.folder = folder
        self.origin = origin
        self.driver = browser.driver
        self.driver.set_script_timeout(120)
        self.driver.set_window_size(1200, 900)
        self.driver.get(f"{origin}/lab?reset&token={token}")
        until(lambda: self.browser.run("return !!(window.jupyterapp && window.jupyterapp.shell)"))
        self.waited("await app.restored;")

    def waited(self, script: str, *args: Any) -> Any:
        """Run JavaScript, which may await, and return its result; ``app`` is JupyterLab."""
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
        """Run a JupyterLab command and wait until it ends."""
        self.waited("await app.commands.execute(given[0], given[1]);", command, args)

    def open(self, path: Path, kernel: bool = True) -> None:
        """Show a notebook. With a kernel, run all cells until there is a stepper, and save the file."""
        chosen = {} if kernel else {"kernelPreference": {"shouldStart": False, "canStart": False}}
        self.execute("docmanager:open", path=path.name, **chosen)
        self.waited("const w = app.shell.currentWidget; await w.context.ready; await w.revealed;")
        if kernel:
            self.waited("await app.shell.currentWidget.sessionContext.ready;")
            self.execute("notebook:run-all-cells")
            self.waited("await app.shell.currentWidget.context.save();")
            until(lambda: len(self.browser.all(STAGE)) == 1, lambda: str(self.browser.run(SEEN)))

    def close(self) -> None:
        """Close the shown notebook and end every kernel."""
        self.waited(
            "const w = app.shell.currentWidget; await w.context.save(); w.dispose();"
            "await app.serviceManager.sessions.shutdownAll();"
        )

    def cells(self) -> list[list[Any]]:
        """The cells of the shown notebook: id, type, source, and number of outputs."""
        return self.waited(
            "return app.shell.currentWidget.content.widgets.map(({ model, outputArea }) => "
            "[model.id, model.type, model.sharedModel.source, outputArea ? outputArea.model.length : 0])"
        )

    def faults(self) -> list[str]:
        """Requests to other servers, and new console errors except those of JupyterLab's extensions."""
        errors = [each["message"] for each in self.driver.get_log("browser") if each["level"] == "SEVERE"]
        names = self.browser.run("return performance.getEntriesByType('resource').map((e) => e.name)")
        elsewhere = [name for name in names if not name.startswith((self.origin, "data:", "blob:"))]
        return elsewhere + [each for each in errors if "/lab/extensions/@jupyter-widgets/" not in each]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    pytest.importorskip("jupyterlab", reason="jupyterlab is in the extra test-jupyterlab")
    home = tmp_path_factory.mktemp("jupyterlab")
    with server(home) as (origin, token), browser() as window:
        yield Page(window, home, origin, token)


@pytest.fixture
def opened(lab: Page) -> Iterator[Callable[..., Path]]:
    """Opens a notebook of these cells, runs it, and closes it after the test."""

    def open_cells(*sources: str) -> Path:
        made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
        made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        path = lab.folder / f"{secrets.token_hex(4)}.ipynb"
        nbformat.write(made, path)
        lab.faults()
        lab.open(path)
        return path

    yield open_cells
    lab.close()


def test_keys_in_the_stepper_do_not_reach_the_notebook(lab, opened):
    opened(*CELLS)
    cells = lab.cells()
    # the second output of a live stepper is for pages without a kernel
    assert [each[3] for each in cells] == [0, 2, 1]
    lab.browser.one(".mjw [data-pane=stack]").click()
    for key in ("n", "b", "i", chr(0xE014), chr(0xE015), chr(0xE011)):
        before = lab.browser.run(STATUS)
        lab.driver.switch_to.active_element.send_keys(key)
        assert lab.browser.run(STATUS) != before, key
    for place in ("[data-pane=tree]", "[data-pane=rule]", "[data-move=into]", ".mjw-search", "[data-pane=values]"):
        lab.browser.one(f".mjw {place}").click()
        lab.driver.switch_to.active_element.send_keys("ddxazmyrjk n0011cv" + chr(0xE013) + chr(0xE015))
        assert lab.browser.run("return document.querySelector('.mjw').contains(document.activeElement)"), place
        assert lab.cells() == cells, place
    # outside the stepper, the notebook handles these keys
    lab.waited("app.shell.currentWidget.content.activeCellIndex = 2;")
    lab.execute("notebook:enter-command-mode")
    lab.waited("app.shell.currentWidget.content.activate();")
    lab.driver.switch_to.active_element.send_keys("dd")
    until(lambda: len(lab.cells()) == 2)


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "somebody else's"])
@pytest.mark.parametrize("load", [LOAD, PAGE], ids=["live", "page"])
def test_a_saved_file_shows_everything_without_a_kernel(load, trusted, lab, opened):
    path = opened(load, "%step grad(f)(3.0)", "%grad f(3.0)", "%graph f(3.0)", "%tree {'a': jnp.ones(3)}")
    lab.close()
    if not trusted:  # after this change the file's signature is not valid
        path.write_text(path.read_text().replace("minijax.numpy as jnp", "minijax.numpy as  jnp"))
    lab.open(path, kernel=False)
    if trusted and load == PAGE:
        until(lambda: lab.browser.all(STAGE))
        lab.browser.one("[data-move=last]").click()
        assert "end" in lab.browser.run(STATUS)
    else:
        until(lambda: lab.browser.all(".mjw-static"))
        assert not lab.browser.all(STAGE)
        assert "sin(x) = 0.14112" in lab.browser.one(".mjw-static").text
    text = until(lambda: lab.browser.run(SEEN))
    assert "-2.979985" in text and "1 array, 3 elements" in text
    assert "Loading widget" not in text and "Error" not in text


def test_moving_an_argument_of_a_live_stepper_records_the_call_again(lab, opened):
    opened(*CELLS)
    lab.browser.one("[data-move=over]").click()
    status = lab.browser.run(STATUS)
    assert "sin(x) = 0.14112" in status
    lab.browser.run(SLIDE, -2)
    until(lambda: lab.browser.run(STATUS) != status)
    assert lab.browser.run(STATUS) == status.replace("0.14112", "-0.9092974")
    assert "the log of this recording" not in lab.browser.run(SEEN).lower()
    assert lab.faults() == []
