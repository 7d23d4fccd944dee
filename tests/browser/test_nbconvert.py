"""A notebook with every magic runs in a real kernel, is converted to HTML, and is shown without network access."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nbconvert import HTMLExporter

from minijax.ipython_ext.magics import MAGICS, magic_name
from tests.ipython.kernel import executed
from tests.tools.lines.run import PROGRAM

LOAD = """\
%load_ext minijax
import minijax, minijax.numpy as jnp
from minijax import grad, jit
from minijax.numpy import sin
def f(x): return jnp.sin(x) * 2.0 - x"""
# forms of ``%step`` and ``%grad`` that no command's example has, such as a magic in a loop
MORE = (
    "%step grad(f)(3.0)",
    "%%step\ny = f(2.0)\ny * y",
    "for i in range(2):\n    %grad f(float(i))",
    "kept = %grad f(3.0)",
)
# for every output: its height, and the length of its text (for a picture, the picture's width)
OUTPUTS = """
return [...document.querySelectorAll('.jp-OutputArea-output')].map((each) => {
  const picture = each.querySelector('img');
  return [each.getBoundingClientRect().height, picture ? picture.naturalWidth : each.innerText.trim().length];
});
"""


def cells(folder: Path) -> Iterator[str]:
    """The cells of the notebook: the examples of all commands, with magics."""
    yield LOAD
    yield from MORE
    for command in MAGICS:
        example = command.example.replace("/tmp/", f"{folder}/").replace("train.py", str(PROGRAM))
        lines = example.replace(f"%{command.name}", f"%{magic_name(command)}").split("\n")
        while lines:
            line = lines.pop(0)
            if line.startswith("%%"):
                line, lines = "\n".join([line, *lines]), []
            yield line


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("nbconvert")
    return executed(cells(folder), folder)


def as_html(notebook: Any, theme: str, folder: Path) -> Path:
    """The file that ``nbconvert --to html`` writes, without the libraries that its template loads from the web."""
    exporter = HTMLExporter(theme=theme, embed_images=True, mathjax_url="", require_js_url="")
    path = folder / f"{theme}.html"
    path.write_text(exporter.from_notebook_node(notebook)[0], encoding="utf-8")
    return path


def test_every_magic_shows_something_and_none_fails(notebook):
    silent = [cell.source for cell in notebook.cells[1:] if not cell.outputs]
    assert silent == []
    outputs = [(cell.source, output) for cell in notebook.cells for output in cell.outputs]
    assert [each for each in outputs if each[1].output_type not in ("execute_result", "display_data")] == []
    # an HTML page has no widgets, because they need a kernel
    data = [output.data for _, output in outputs]
    assert "widgets" not in notebook.metadata and not any("widget" in kind for each in data for kind in each)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_of_nbconvert_shows_every_output_without_a_kernel(theme, notebook, window, tmp_path):
    path = as_html(notebook, theme, tmp_path)
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", path.read_text(encoding="utf-8"))
    window.open(path, dark=theme == "dark")
    shown = window.run(OUTPUTS)
    assert len(shown) == sum(len(cell.outputs) for cell in notebook.cells)
    assert all(height > 10 and size for height, size in shown), shown
    stages = window.all(".mjw-stage")
    assert len(stages) == len(window.all(".mjw-static")) >= 4
    assert not any(each.is_displayed() for each in window.all(".mjw-static"))
    # the source pane shows the text that was typed in each cell, including the cell that loaded the extension
    sources = "\n".join(each.text for each in window.all("[data-pane=source]"))
    assert "%load_ext minijax" in sources and "get_ipython" not in sources
    assert window.readable(theme == "dark") > 1000
    # here too, the stepper handles its own keys
    window.run("window.heard = []; document.addEventListener('keydown', (event) => window.heard.push(event.key));")
    for stage in stages:
        stage.send_keys("ddx nbj")
    assert window.run("return window.heard") == []
    assert window.addresses() == {path.as_uri()} and window.console() == []
