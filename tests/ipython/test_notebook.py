"""A notebook runs without a front end, in a real kernel that is started in Jupyter's way."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from minijax.tools.documents.html import colours, layout
from minijax.tools.pages.page import has_script
from tests.ipython.kernel import executed
from tests.page_data import data_of

FAILING = "def g(x):\n    return x if x > 0 else jnp.sin(x)\njit(g)(3.0)"
LOOPING = "for a in (1.0, 2.0):\n    %grad f(a)\nprint('between')\nvalue, slope = %grad f(3.0)\nprint(float(slope))"
RECOMPILING = "@jit\ndef h(x): return jnp.cos(x) + 1.0\nfor size in (2, 3, 4): h(jnp.ones(size))"
CELLS = (
    "%load_ext minijax",
    "import minijax.numpy as jnp\nfrom minijax import grad, jit, vmap, make_jaxpr\n"
    "def f(x): return jnp.sin(x) * 2.0 - x",
    "%grad f(3.0) --check",
    "%%jaxpr x=f32[3]\ny = jnp.sin(x)\ny * 2.0",
    "make_jaxpr(vmap(grad(f)))(jnp.ones(3))",
    "%jit f(3.0)",
    "%hlo f(f32[8]) --stage optimized",
    "%step grad(f)(3.0)",
    FAILING,
    LOOPING,
    "%panels on",
    "grad(f)(3.0)",
    "%grad f(3.0) --chek",
    "1 / 0",
    "float(grad(f)(3.0))",
    "points = jnp.ones(2)",
    "%values f(points)",
    "%panels off",
    "%graph jit(f)(3.0)",
    "%step f(3.0)",
    RECOMPILING,
    "h(jnp.ones(4))",
    "%step grad(f)(2.0)",
    "%step grad(f)(2.0)",
    "%unload_ext minijax",
)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return executed(CELLS, tmp_path_factory.mktemp("jupyter"))


def outputs(notebook: Any, source: str) -> list[Any]:
    return notebook.cells[CELLS.index(source)].outputs


def text(notebook: Any, source: str) -> str:
    """All outputs of a cell as text."""
    pieces = []
    for output in outputs(notebook, source):
        pieces.append(
            output.get("text") or output.get("data", {}).get("text/plain") or "\n".join(output.get("traceback", []))
        )
    return "\n".join(pieces)


def html(notebook: Any, source: str) -> str:
    return "\n".join(output.get("data", {}).get("text/html", "") for output in outputs(notebook, source))


def test_only_the_intended_cells_fail(notebook):
    failed = [cell.source for cell in notebook.cells if any(o.output_type == "error" for o in cell.outputs)]
    assert failed == [FAILING, "1 / 0"]
    assert text(notebook, "%load_ext minijax") == ""


def test_an_exception_shows_user_frames_and_cell_names(notebook):
    shown = re.sub(r"\x1b\[[\d;]*m", "", text(notebook, FAILING))
    assert "TracerBoolConversionError" in shown and "frames of minijax hidden" in shown
    assert "Cell In[9], line 2" in shown and "ipykernel" not in shown and "minijax/" not in shown


def test_a_stepper_needs_no_other_files(notebook):
    (output,) = outputs(notebook, "%step grad(f)(3.0)")
    markup = output["data"]["text/html"]
    assert markup.startswith('<div class="minijax mjw ') and not re.search(r"https?://|\bsrc=|\bhref=", markup)
    data = json.dumps(data_of(markup))
    assert "Cell In[2]" in data and "ipykernel" not in data + markup
    assert len(markup) < 120_000 and "  sin(x) = 0.14112" in output["data"]["text/plain"]


def test_a_graph_is_a_picture(notebook):
    (output,) = outputs(notebook, "%graph jit(f)(3.0)")
    assert set(output["data"]) == {"text/plain", "image/svg+xml"} and "sin" in output["data"]["text/plain"]
    root = ET.fromstring(output["data"]["image/svg+xml"])
    drawn = [each for each in root.iter() if each.tag.endswith(("}rect", "}text", "}path"))]
    # each element names a colour, because viewers without the style draw boxes in black
    assert len(drawn) > 10 and all("fill" in each.attrib for each in drawn)


def test_style_and_script_are_in_one_output(notebook):
    made = [
        output["data"]["text/html"]
        for cell in notebook.cells
        for output in cell.outputs
        if "text/html" in output.get("data", {})
    ]
    documents = [each for each in made if "mjw" not in each]
    assert len(documents) > 8 and [colours() in each for each in documents] == [True] + [False] * (len(documents) - 1)
    steppers = [each for each in made if 'class="minijax mjw' in each]
    assert len(steppers) == 4 and [has_script(each) for each in steppers] == [True, False, False, False]
    # every output has the layout, so that it can be shown without the others
    assert all(layout() in each for each in documents + steppers)
    assert len(json.dumps(steppers[-1])) < 16_000 and "run this cell again" in steppers[-1]


def test_recompiles_are_reported_below_the_cell(notebook):
    (output,) = outputs(notebook, RECOMPILING)
    lines = output["data"]["text/plain"].split("\n")
    assert re.fullmatch(r"2 recompiles, [\d.]+ ms", lines[0])
    changes = ["x: f32[2] became f32[3]", "x: f32[3] became f32[4]"]
    assert [each.split("h: ")[1] for each in lines[1:]] == changes
    markup = output["data"]["text/html"]
    assert re.search(r'<details><summary title="h: x: f32\[2\] became f32\[3\]\nh: x', markup) and "%why" in markup
    assert [output.output_type for output in outputs(notebook, "h(jnp.ones(4))")] == ["execute_result"]
