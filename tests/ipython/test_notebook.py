"""A notebook executed headless: a real kernel, as a person's Jupyter would start it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbconvert import HTMLExporter

CELLS = (
    "%load_ext minijax",
    "import minijax.numpy as jnp\nfrom minijax import grad, jit, vmap, make_jaxpr\n"
    "def f(x): return jnp.sin(x) * 2.0 - x",
    "%grad f(3.0) --check",
    "%%jaxpr x=f32[3]\ny = jnp.sin(x)\ny * 2.0",
    "make_jaxpr(vmap(grad(f)))(jnp.ones(3))",
    "%jit f(3.0)",
    "%hlo f(f32[8]) --stage optimized",
    "%config MinijaxMagics.watch = True",
    "grad(f)(3.0)",
    "%grad f(3.0) --chek",
    "1 / 0",
    "float(grad(f)(3.0))",
    "%unload_ext minijax",
)


class ThisPython(KernelSpecManager):
    """The kernel of this environment's Python, without one being installed for it."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="this Python", language="python")


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("jupyter")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(home / name.lower()))
        cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
        made = nbformat.v4.new_notebook(cells=cells)
        manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=ThisPython())
        client = NotebookClient(
            made, km=manager, timeout=120, allow_errors=True, resources={"metadata": {"path": str(home)}}
        )
        client.execute()
    return made


def outputs(notebook: Any, source: str) -> list[Any]:
    return notebook.cells[CELLS.index(source)].outputs


def text(notebook: Any, source: str) -> str:
    """Everything a cell showed, as text."""
    pieces = []
    for output in outputs(notebook, source):
        pieces.append(
            output.get("text") or output.get("data", {}).get("text/plain") or "\n".join(output.get("traceback", []))
        )
    return "\n".join(pieces)


def html(notebook: Any, source: str) -> str:
    return "\n".join(output.get("data", {}).get("text/html", "") for output in outputs(notebook, source))


def test_only_the_cells_meant_to_fail_failed(notebook):
    failed = [cell.source for cell in notebook.cells if any(o.output_type == "error" for o in cell.outputs)]
    assert failed == ["1 / 0"]
    assert text(notebook, "%load_ext minijax") == ""


def test_values_and_text(notebook):
    assert "agrees with finite differences" in text(notebook, "%grad f(3.0) --check")
    assert "-2.979985" in text(notebook, "%grad f(3.0) --check")
    assert "a:f32[3]" in text(notebook, CELLS[3])
    assert "{ lambda" in text(notebook, CELLS[4])
    assert "StableHLO ops" in text(notebook, "%jit f(3.0)") and "compile" in text(notebook, "%jit f(3.0)")
    assert "HloModule" in text(notebook, CELLS[6])
    assert "UsageError: %grad has no option --chek" in text(notebook, "%grad f(3.0) --chek")
    assert "-2.97998" in text(notebook, "float(grad(f)(3.0))")


def test_watched_cells_show_their_panels_and_the_value(notebook):
    shown = text(notebook, "grad(f)(3.0)")
    assert "Array(-2.979985" in shown
    assert " stack    eval ▸ partial_eval:1 ▸ jvp:2" in shown


def test_html(notebook):
    for source in (CELLS[2], CELLS[3], CELLS[4], CELLS[5], CELLS[6], "grad(f)(3.0)"):
        markup = html(notebook, source)
        assert markup.strip().startswith('<div class="minijax"><style>'), source
        assert "<script" not in markup and not re.search(r"https?://", markup)
        assert len(markup) < 60_000
    assert '<span class="mj-primitive">sin</span>' in html(notebook, CELLS[3])
    assert '<span class="mj-keyword">HloModule</span>' in html(notebook, CELLS[6])


def test_it_exports_to_html(notebook, tmp_path: Path):
    body, _ = HTMLExporter().from_notebook_node(notebook)
    assert "mj-primitive" in body
