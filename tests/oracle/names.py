"""Which comparison with JAX covers each public name of numpy, lax, nn, random, scipy, ops, image and their submodules.

    python -m tests.oracle.names           how many names each comparison covers in each module; names that none covers
    python -m tests.oracle.names --list    every name with its comparison

The comparisons: ``random_calls`` (random calls); ``a table`` (a text file of expressions, such as ``names.txt``);
``primitives``; ``values`` (constants, types and objects with fields, compared here); ``JAX's code`` (run unchanged);
``borrowed`` (JAX's function, imported); a module (its names are listed separately). The exit status is 1 if no
comparison covers a name.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minijax.core.borrowing import public_names
from minijax.core.primitive import Primitive
from tests.ops.table import expressions

from . import random_calls
from .case import floats
from .primitives import ROWS

TESTS = Path(__file__).parent.parent
CALLS = [expression for expression, _ in expressions(TESTS / "oracle" / "names.txt")]
# types that only annotations use, and a function that JAX cannot compile for several CPU devices
NOT_CALLED = {f"lax.{name}" for name in ("ConvGeneralDilatedDimensionNumbers", "DotDimensionNumbers", "PrecisionLike")}
NOT_CALLED.add("lax.pbroadcast")


def called() -> set[str]:
    """The names that the tables use."""
    texts = [text for text, _ in expressions(TESTS / "ops" / "rows.txt")] + CALLS
    texts += [(TESTS / path).read_text(encoding="utf-8") for path in ("numpy/expressions.txt", "oracle/random.txt")]
    text = "\n".join(texts).replace("jnp.", "numpy.")
    text = re.sub(r"\b(gather|scatter\w*|conv)\(", r"lax.\1(", text).replace("lax.conv(", "lax.conv_general_dilated(")
    return set(re.findall(r"(?:[a-z_]+\.)*\w+", text)) | NOT_CALLED


def evaluated(ns: Any, expression: str) -> Any:
    """The value of an expression of ``names.txt``."""
    importlib.import_module(f"{ns.__name__}.scipy.spatial.transform")
    for module in ("optimize", "interpolate", "stats"):
        importlib.import_module(f"{ns.__name__}.scipy.{module}")
    mesh, spec = ns.sharding.Mesh(np.array(ns.devices()[:2]).reshape(2, 1), ("i", "j")), ns.sharding.PartitionSpec

    def f(*shape: int) -> np.ndarray:
        return floats(*shape, dtype=np.float32)

    def along_i(function: Callable[[Any], Any]) -> Any:
        return ns.vmap(function, axis_name="i")(f(2, 2, 3) if "pswapaxes" not in expression else f(2, 2))

    def over_devices(function: Callable[[Any], Any]) -> Any:
        return ns.shard_map(function, mesh=mesh, in_specs=spec("i"), out_specs=spec(("i", "j")))(f(2, 3))

    def within(context: Any, function: Callable[[], Any]) -> Any:
        with context:
            return function()

    helpers = {"f": f, "along_i": along_i, "over_devices": over_devices, "within": within, "mesh": mesh}
    modules = {"ns": ns, "jnp": ns.numpy, "lax": ns.lax, "random": ns.random, "scipy": ns.scipy, "np": np}
    return eval(expression, {**modules, **helpers, "shaped": lambda sizes: [int(n) for n in sizes]})


def theirs(module: str, name: str) -> Any:
    """JAX's object of this name; a submodule may have to be imported."""
    try:
        return getattr(importlib.import_module(f"jax.{module}"), name)
    except AttributeError:
        return importlib.import_module(f"jax.{module}.{name}")


def comparison(module: str, name: str, drawn: set[str], called: set[str]) -> str:
    """The comparison that covers this public name, '' if none does."""
    whole = f"{module}.{name}"
    if whole in drawn:
        return "random_calls"
    if whole in called:
        return "a table"
    yours = theirs(module, name)
    if isinstance(yours, types.ModuleType):
        return "a module"
    mine = getattr(importlib.import_module(f"minijax.{module}"), name)
    if isinstance(mine, Primitive):
        return "primitives" if mine.name in ROWS else "borrowed" if mine.borrowed_from else ""
    if getattr(mine, "borrowed_from", ""):
        return "borrowed"
    a_function = callable(yours) and not isinstance(yours, type) and not hasattr(yours, "dtype")
    if mine is yours or str(getattr(mine, "__module__", "")).startswith("jax."):
        return "JAX's code"
    return "values" if not a_function and not unlike(mine, yours) else ""


def unlike(mine: Any, yours: Any) -> str:
    """How two constants, element types or classes (their members or fields) differ; '' if they are equal."""
    if isinstance(yours, (int, float, complex, type(None))):
        return "" if repr(mine) == repr(yours) else f"{mine!r}, {yours!r}"
    try:
        wanted = np.dtype(yours)
    except TypeError:
        wanted = None
    if wanted is not None and wanted.kind != "O":
        return "" if np.dtype(mine) == wanted else f"{np.dtype(mine)}, {wanted}"
    if mine is yours:
        return ""
    fields = [[n for n in dir(each) if n[0] != "_"] for each in (mine, yours)]
    missing = sorted(set(fields[1]) - set(fields[0]))
    return f"without {missing}" if missing else ""


def every() -> Iterator[tuple[str, str, str]]:
    """Module, name and comparison of each public name."""
    drawn, tables = set(random_calls.functions(())), called()
    for module, names in public_names().items():
        for name in names:
            yield module, name, comparison(module, name, drawn, tables)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.names")
    parser.add_argument("--list", action="store_true", help="print every name with its comparison")
    asked = parser.parse_args(argv)
    found = list(every())
    counts: dict[str, Counter[str]] = {}
    for module, name, how in found:
        counts.setdefault(module, Counter())[how] += 1
        if asked.list:
            print(f"{module}.{name}: {how or 'NONE'}")
    counts[f"{len(found)} names"] = sum(counts.values(), Counter[str]())
    for module, each in counts.items():
        print(f"{module:28} {each.total():4}: " + ", ".join(f"{n} {how or 'NONE'}" for how, n in each.most_common()))
    absent = [f"{module}.{name}" for module, name, how in found if not how]
    if absent:
        print("in no comparison:", *absent)
    return 1 if absent else 0


if __name__ == "__main__":
    sys.exit(main())
