"""Public names: each is given by one module's ``__all__``, and the packages that users import only join these."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

# What users import, made of other modules by ``import *``.
FACADES = ["minijax.api", "minijax.backend", "minijax.lax", "minijax.numpy", "minijax.pytree", "minijax.tree_util"]


def joined(facade: ModuleType) -> list[ModuleType]:
    """The modules that ``facade`` imports everything from."""
    tree = ast.parse(Path(str(facade.__file__)).read_text(encoding="utf-8"))
    return [
        importlib.import_module(str(node.module))
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and [alias.name for alias in node.names] == ["*"]
    ]


@pytest.mark.parametrize("name", FACADES)
def test_each_name_comes_from_one_module(name: str) -> None:
    """Otherwise the later import would hide the earlier, or hide a module."""
    facade = importlib.import_module(name)
    givers: dict[str, str] = {}
    for module in joined(facade):
        assert len(set(module.__all__)) == len(module.__all__), module.__name__
        for public in module.__all__:
            assert public not in givers, f"{public} is given by {givers[public]} and by {module.__name__}"
            givers[public] = module.__name__
            assert getattr(facade, public) is getattr(module, public)
            hidden = f"{name}.{public}"
            assert hidden == module.__name__ or hidden not in sys.modules, f"{public} hides the module {hidden}"
    assert givers
    if name in ("minijax.lax", "minijax.tree_util"):
        assert set(facade.__all__) == set(givers)
