"""The cells of a page about divided arrays do the same with both libraries, and what does not is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sharded import pages

PAGE = Path(__file__).with_name("divided.md")


def test_the_page_does_the_same_with_both(capsys: pytest.CaptureFixture[str]) -> None:
    count = PAGE.read_text().count("{code-cell}")
    assert pages.main([str(PAGE)]) == 0, capsys.readouterr().out
    told = capsys.readouterr().out
    assert f"{count} of {count} cells are equal" in told and "JAX itself refuses 0" in told


def test_cells_are_found_in_each_kind_of_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```{code-cell} ipython3\n:id: a\n:tags: [b]\n\nx = 1\n```\ntext\n```{code-cell}\n---\nid: c\n---\nx\n```\n"
        "```python\nnot run\n```\n"
    )
    assert [cell.strip() for cell in pages.cells(page)] == ["x = 1", "x"]
    page.write_text("```python\n%timeit -n 5 -r 5 f(x).g()\n!pip install y\n```\n")
    assert [cell.split() for cell in pages.cells(page)] == [["f(x).g();None"]]
    notebook = tmp_path / "page.ipynb"
    notebook.write_text('{"cells": [{"cell_type": "code", "source": ["a\\n", "b"]}, {"cell_type": "markdown"}]}')
    assert pages.cells(notebook) == ["a\nb"]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("import jax", "import minijax as jax"),
        ("  import jax.numpy as jnp  # why", "  import minijax.numpy as jnp  # why"),
        ("import jax.numpy", "import minijax.numpy; import minijax as jax"),
        ("from jax.sharding import P", "from minijax.sharding import P"),
        ("import jaxtyping", "import jaxtyping"),
    ],
)
def test_imports_are_changed_and_nothing_else(line: str, wanted: str) -> None:
    assert pages.changed(f"x = 'import jax'\n{line}\n") == f"x = 'import jax'\n{wanted}\n"


def test_errors_that_a_cell_catches_are_noted() -> None:
    (found,) = pages.run(["try:\n  {}[1]\nexcept KeyError as e:\n  print('it is', e)\n"])
    assert found["caught"] == [("KeyError", "1")] and pages.shown(found["shown"], found["caught"]) != "it is 1\n"


def test_what_differs_is_told() -> None:
    def cell(shown: str = "", error: str = "", **variables: object) -> dict[str, object]:
        return {"shown": shown, "error": error, "variables": {k: pages.described(v) for k, v in variables.items()}}

    assert not pages.differs(cell("[1.0000001  2.]", "ValueError: a", x=1.0), cell("[1. 2.]", "ValueError: b", x=1.0))
    assert {*pages.differs(cell("[1.1]", "", x=1), cell("[1.2]", "KeyError: b", x=1.0))} == {"shown", "error", "x"}
    mine, other = cell("no: a. Do b.\n"), cell("no: a\n")
    mine["caught"], other["caught"] = [("ValueError", "a. Do b.")], [("ValueError", "a")]
    assert not pages.differs(mine, other)
    other["caught"] = [("KeyError", "a")]
    assert {*pages.differs(mine, other)} == {"shown"}
    picture = "┌───┬───┐\n│   │   │\n│ 0 │ 1 │\n└───┴───┘"
    assert pages.shown(picture) == pages.shown("│0│1│") != pages.shown("│1│0│")
