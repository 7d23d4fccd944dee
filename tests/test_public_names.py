"""Each public name is in the ``__all__`` of one module; the packages that users import only combine modules."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from minijax.core.borrowing import names_of
from minijax.core.lazy import late_modules
from minijax.ops import elementwise
from tests.test_layers import MODULES

# Packages that users import. They take their names from other modules with ``import *``.
FACADES = ["minijax.api", "minijax.lax", "minijax.numpy", "minijax.pytree", "minijax.tree_util"]


def joined(facade):
    """The modules that ``facade`` imports with ``*`` or loads lazily."""
    tree = ast.parse(Path(str(facade.__file__)).read_text(encoding="utf-8"))
    at_once = [
        str(node.module)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and [alias.name for alias in node.names] == ["*"]
    ]
    return list(map(importlib.import_module, [*at_once, *late_modules(facade.__name__)]))


@pytest.mark.parametrize("name", FACADES)
def test_each_name_comes_from_one_module(name):
    """If two modules had the same name, the one imported later would hide the other."""
    facade = importlib.import_module(name)
    givers = {}
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
        borrowed = set(names_of(name)) if name == "minijax.lax" else set()
        assert set(facade.__all__) == set(givers) | borrowed


@pytest.mark.parametrize("name", ["minijax.lax", "minijax.numpy"])
def test_facades_do_not_redefine_names(name):
    facade = importlib.import_module(name)
    given = {public for module in joined(facade) for public in module.__all__}
    tree = ast.parse(Path(str(facade.__file__)).read_text(encoding="utf-8"))
    written = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    written |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    written |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert not given & written


def test_load_all_loads_every_primitive():
    """``load_all`` also loads modules that ``import minijax`` does not."""
    defining = [
        name
        for name, path in MODULES.items()
        if re.search(r"[= ]Primitive\(", path.read_text(encoding="utf-8"))
        and not name.startswith(("minijax.interop", "minijax.tools"))  # these make primitives later
    ]
    code = f"import sys; from minijax.core import lazy; lazy.load_all(); print({{*{defining}}} - {{*sys.modules}})"
    assert len(defining) > 10
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"


def test_an_elementwise_primitive_is_listed_in_three_files():
    """The files are the table of primitives, NumPy's functions (if NumPy has it), and one table of the tests.

    This applies only to primitives that no other code uses: examples everywhere use sine and the like. A test of one
    function may also name its primitive. At most one of the tests' tables may name a primitive.
    """
    root = Path(__file__).resolve().parent.parent
    table, ufuncs = root / "minijax" / "ops" / "elementwise.py", root / "minijax" / "numpy" / "ufuncs.py"
    lists = [root / "tests" / part for part in ("oracle/functions.py", "numpy/expressions.txt", "ops/rows.txt")]
    lists.append(root / "tests" / "extend" / "examples.py")
    package = [path for folder in ("minijax", "repl", "ipython_ext") for path in (root / folder).rglob("*.py")]
    given = {table, ufuncs}
    words = {path: set(re.findall(r"\w+", path.read_text(encoding="utf-8"))) for path in [*package, *lists]}
    rows = [name for name in elementwise.__all__ if f"{name}_p" in elementwise.__all__]
    named = {row: {path for path in words if {row, f"{row}_p"} & words[path]} for row in rows}
    alone = {row: found for row, found in named.items() if found - set(lists) <= given}
    assert len(alone) >= 3, sorted(alone)
    for row, found in alone.items():
        assert table in found and len(found & set(lists)) <= 1, (row, sorted(map(str, found)))


@pytest.mark.parametrize("module", ["numpy", "random"])
def test_import_star_gives_borrowed_names_too(module):
    code = f"from minijax.{module} import *; print([n for n in {names_of(f'minijax.{module}')} if n not in globals()])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
