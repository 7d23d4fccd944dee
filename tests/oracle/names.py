"""In which comparison with JAX each public name is: numpy, lax, nn, random, scipy, ops, image and what is below them.

    python -m tests.oracle.names           how many names each comparison has, by module; names in none
    python -m tests.oracle.names --list    every name with its comparison
    python -m tests.oracle.names --run 5   and compares the names of ``CALLS`` on so many drawn arguments each

The comparisons: ``random_calls`` (drawn calls), ``CALLS`` of this file (functions that are given functions, shapes or
files, on drawn arrays), ``primitives`` (primitives), ``values`` (constants, types and what has fields, compared here),
``borrowed`` (JAX's function, imported), ``JAX's code`` (run as it is), modules (their names are listed themselves).
The exit status is 1 if a name is in none, or if a call of ``CALLS`` differs.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

import minijax
from minijax.core.lacking import public_names
from minijax.core.primitive import Primitive

from . import random_calls
from .primitive_calls import Draw
from .primitives import ROWS
from .subject import assert_same

CALLS: dict[str, Callable[[Any, Draw], Any]] = {}
# name of a call -> why it may differ
REASONS = {
    "lax.pbroadcast": "JAX cannot compile it on several processors",
}


def f32(draw: Draw, *shape: int) -> np.ndarray:
    return draw.array(shape, "float32", plain=True)


def size(draw: Draw) -> int:
    return draw.int(1, 4)


def in_a_frame(ns: Any) -> Any:
    with ns.numpy.printoptions(precision=3):
        return ns.numpy.get_printoptions()["precision"]


def set_precision(ns: Any) -> Any:
    before = ns.numpy.get_printoptions()["precision"]
    ns.numpy.set_printoptions(precision=before)
    return before


def mapped(ns: Any, x: Any, f: Callable[[Any], Any]) -> Any:
    """``f`` inside of a vmap whose axis is called i."""
    return ns.vmap(f, axis_name="i")(x)


def mesh_of(ns: Any) -> Any:
    """Two devices along an axis i, one along j."""
    return ns.sharding.Mesh(np.array(ns.devices()[:2]).reshape(2, 1), ("i", "j"))


def over_devices(ns: Any, x: Any, f: Callable[[Any], Any]) -> Any:
    """``f`` on the parts of ``x`` along i."""
    spec = ns.sharding.PartitionSpec
    return ns.shard_map(f, mesh=mesh_of(ns), in_specs=spec("i"), out_specs=spec(("i", "j")))(x)


def shaped(function: Callable[..., Any], *args: Any) -> list[int]:
    """What a function of shapes gives: some of JAX's numbers are NumPy's."""
    return [int(n) for n in function(*args)]


def numbers(draw: Draw, low: float = 0.2) -> np.ndarray:
    return draw.array((size(draw),), "float32", low=low, high=3.0)


_LAX: dict[str, Callable[[Any, Draw], Any]] = {
    "all_gather": lambda ns, d: mapped(ns, f32(d, 2, size(d)), lambda x: ns.lax.all_gather(x, "i")),
    "all_to_all": lambda ns, d: mapped(ns, f32(d, 2, 2, size(d)), lambda x: ns.lax.all_to_all(x, "i", 0, 1)),
    "axis_index": lambda ns, d: mapped(ns, f32(d, size(d)), lambda x: ns.lax.axis_index("i") + x),
    "axis_size": lambda ns, d: mapped(ns, f32(d, size(d)), lambda x: ns.lax.axis_size("i") + x),
    "pmax": lambda ns, d: mapped(ns, f32(d, 2, size(d)), lambda x: ns.lax.pmax(x, "i")),
    "pmin": lambda ns, d: mapped(ns, f32(d, 2, size(d)), lambda x: ns.lax.pmin(x, "i")),
    "pmean": lambda ns, d: mapped(ns, f32(d, 2, size(d)), lambda x: ns.lax.pmean(x, "i")),
    "psum": lambda ns, d: mapped(ns, f32(d, 2, size(d)), lambda x: ns.lax.psum(x, "i")),
    "pshuffle": lambda ns, d: mapped(ns, f32(d, 2, size(d)), lambda x: ns.lax.pshuffle(x, "i", (1, 0))),
    "ppermute": lambda ns, d: mapped(ns, f32(d, 2, size(d)), lambda x: ns.lax.ppermute(x, "i", [(0, 1), (1, 0)])),
    "pswapaxes": lambda ns, d: mapped(ns, f32(d, 2, 2), lambda x: ns.lax.pswapaxes(x, "i", 0)),
    "psum_scatter": lambda ns, d: mapped(ns, f32(d, 2, 2), lambda x: ns.lax.psum_scatter(x, "i")),
    "pcast": lambda ns, d: over_devices(ns, f32(d, 2, size(d)), lambda x: ns.lax.pcast(x, "j", to="varying")),
    "with_sharding_constraint": lambda ns, d: ns.lax.with_sharding_constraint(
        f32(d, 2, size(d)), ns.sharding.NamedSharding(mesh_of(ns), ns.sharding.PartitionSpec("i"))
    ),
    "associative_scan": lambda ns, d: ns.lax.associative_scan(ns.lax.add, f32(d, size(d), 2), d.flag()),
    "broadcast_shapes": lambda ns, d: ns.lax.broadcast_shapes((size(d), 1), (1, size(d))),
    "cond": lambda ns, d: ns.lax.cond(d.flag(), ns.lax.sin, ns.lax.cos, f32(d, size(d))),
    "switch": lambda ns, d: ns.lax.switch(d.int(-1, 3), [ns.lax.sin, ns.lax.cos], f32(d, size(d))),
    "fori_loop": lambda ns, d: ns.lax.fori_loop(0, d.int(0, 3), lambda i, x: x * 0.5 + i, f32(d, size(d))),
    "while_loop": lambda ns, d: ns.lax.while_loop(lambda x: x < 9, lambda x: x * 2 + 1, numbers(d)[0]),
    "scan": lambda ns, d: ns.lax.scan(lambda c, x: (c + x, c * x), np.float32(1), f32(d, size(d))),
    "map": lambda ns, d: ns.lax.map(lambda x: x * 2 + 1, f32(d, size(d), 2), batch_size=d.one((None, 2))),
    "reduce": lambda ns, d: ns.lax.reduce(f32(d, 2, size(d)), np.float32(0), ns.lax.add, (d.int(0, 1),)),
    "reduce_window": lambda ns, d: ns.lax.reduce_window(f32(d, 4), np.float32(0), ns.lax.add, (size(d),), (1,), "SAME"),
    "conv": lambda ns, d: ns.lax.conv(f32(d, 1, 2, 4), f32(d, size(d), 2, 2), (1,), "SAME"),
    "conv_general_dilated": lambda ns, d: ns.lax.conv_general_dilated(
        f32(d, 1, 2, 4), f32(d, size(d), 2, 2), (d.int(1, 2),), "VALID"
    ),
    "conv_general_dilated_local": lambda ns, d: ns.lax.conv_general_dilated_local(
        f32(d, 1, 2, 3), f32(d, size(d), 4, 2), (1,), "VALID", (2,)
    ),
    "conv_general_dilated_patches": lambda ns, d: ns.lax.conv_general_dilated_patches(
        f32(d, 1, 2, 4), (size(d),), (1,), "VALID"
    ),
    "conv_transpose": lambda ns, d: ns.lax.conv_transpose(f32(d, 1, 3, 2), f32(d, 2, 2, size(d)), (2,), "SAME"),
    "conv_with_general_padding": lambda ns, d: ns.lax.conv_with_general_padding(
        f32(d, 1, 2, 4), f32(d, size(d), 2, 2), (1,), ((1, size(d)),), None, None
    ),
    "conv_general_permutations": lambda ns, d: ns.lax.conv_general_permutations(("NHWC", "HWIO", "NHWC")),
    "conv_general_shape_tuple": lambda ns, d: shaped(
        ns.lax.conv_general_shape_tuple, (1, 2, 5), (size(d), 2, 2), (1,), "SAME", ("NCH", "OIH", "NCH")
    ),
    "conv_shape_tuple": lambda ns, d: shaped(ns.lax.conv_shape_tuple, (1, 2, 5), (size(d), 2, 2), (1,), "SAME"),
    "conv_transpose_shape_tuple": lambda ns, d: shaped(
        ns.lax.conv_transpose_shape_tuple, (1, 2, 5), (size(d), 2, 2), (1,), "SAME", ("NCH", "OIH", "NCH")
    ),
    "reduce_window_shape_tuple": lambda ns, d: shaped(
        ns.lax.reduce_window_shape_tuple, (5,), (size(d),), (1,), ((0, 1),)
    ),
    "padtype_to_pads": lambda ns, d: ns.lax.padtype_to_pads((5, 4), (size(d), 2), (1, 2), "SAME"),
    "custom_linear_solve": lambda ns, d: ns.lax.custom_linear_solve(
        lambda x: 2 * x, f32(d, size(d)), lambda _, b: b / 2, symmetric=True
    ),
    "custom_root": lambda ns, d: ns.lax.custom_root(
        lambda x: x * x - 4, np.float32(1), lambda f, x: x * 0 + 2, lambda g, y: y / g(np.float32(1))
    ),
    "dtype": lambda ns, d: str(ns.lax.dtype(d.one((1.0, 2, True, np.int8(1))))),
    "optimization_barrier": lambda ns, d: ns.lax.optimization_barrier((f32(d, size(d)), f32(d, 2))),
    "stop_gradient": lambda ns, d: ns.lax.stop_gradient(f32(d, size(d))),
    "pbroadcast": lambda ns, d: ns.pmap(lambda x: ns.lax.pbroadcast(x, "i", 0), axis_name="i")(f32(d, 1, size(d))),
    "ConvGeneralDilatedDimensionNumbers": lambda ns, d: "a name for what is given as dimension numbers",
    "DotDimensionNumbers": lambda ns, d: "a name for what is given as dimension numbers",
    "PrecisionLike": lambda ns, d: "a name for what is given as a precision",
}
CALLS.update({f"lax.{name}": call for name, call in _LAX.items()})
for _name in ("gather", "scatter", "scatter_add", "scatter_max", "scatter_min", "scatter_mul", "scatter_sub"):

    def _indexed(ns: Any, d: Draw, name: str = _name) -> Any:
        where = np.asarray(d.order(4)[: size(d)], "int32")[:, None]
        if name == "gather":
            return ns.lax.gather(f32(d, 4, 2), where, ns.lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 2))
        numbers = ns.lax.ScatterDimensionNumbers((1,), (0,), (0,))
        return getattr(ns.lax, name)(f32(d, 4, 2), where, f32(d, len(where), 2), numbers)

    CALLS[f"lax.{_name}"] = _indexed
CALLS["lax.scatter_apply"] = lambda ns, d: ns.lax.scatter_apply(
    f32(d, 4), np.asarray([[d.int(0, 3)]], "int32"), ns.lax.sin, ns.lax.ScatterDimensionNumbers((), (0,), (0,))
)

_NUMPY: dict[str, Callable[[Any, Draw], Any]] = {
    "broadcast_shapes": lambda ns, d: ns.numpy.broadcast_shapes((size(d), 1), (1, size(d))),
    "einsum": lambda ns, d: ns.numpy.einsum("ij,jk->ki", f32(d, size(d), 2), f32(d, 2, size(d))),
    "einsum_path": lambda ns, d: ns.numpy.einsum_path("ij,jk->ki", f32(d, size(d), 2), f32(d, 2, size(d)))[0],
    "empty": lambda ns, d: ns.numpy.empty((size(d), 0)),
    "empty_like": lambda ns, d: ns.numpy.empty_like(f32(d, 0, size(d))),
    "frompyfunc": lambda ns, d: ns.numpy.frompyfunc(ns.lax.add, 2, 1)(f32(d, 3), f32(d, 3)),
    "get_printoptions": lambda ns, d: ns.numpy.get_printoptions()["precision"],
    "printoptions": lambda ns, d: in_a_frame(ns),
    "set_printoptions": lambda ns, d: set_precision(ns),
    "vectorize": lambda ns, d: ns.numpy.vectorize(ns.numpy.dot, signature="(n),(n)->()")(f32(d, 2, 3), f32(d, 3)),
    "ufunc": lambda ns, d: ns.numpy.frompyfunc(ns.lax.add, 2, 1, identity=0).reduce(f32(d, 2, size(d)), d.int(0, 1)),
    "c_": lambda ns, d: ns.numpy.c_[f32(d, 3), f32(d, 3)],
    "r_": lambda ns, d: ns.numpy.r_[f32(d, size(d)), 0:3, 1.5],
    "index_exp": lambda ns, d: str(ns.numpy.index_exp[1:2, ...]),
    "s_": lambda ns, d: str(ns.numpy.s_[1:2, ...]),
    "mgrid": lambda ns, d: ns.numpy.mgrid[0 : size(d), 0:2:3j],
    "ogrid": lambda ns, d: ns.numpy.ogrid[0 : size(d), 0:2:3j],
    "newaxis": lambda ns, d: f32(d, size(d))[ns.numpy.newaxis],
    "ndarray": lambda ns, d: isinstance(ns.numpy.asarray(f32(d, size(d))), ns.numpy.ndarray),
}
CALLS.update({f"numpy.{name}": call for name, call in _NUMPY.items()})

_OTHERS: dict[str, Callable[[Any, Draw], Any]] = {
    "random.PRNGKey": lambda ns, d: ns.random.PRNGKey(d.int(0, 2**31)),
    "random.key_data": lambda ns, d: ns.random.key_data(ns.random.key(d.int(0, 2**31))),
    "random.key_impl": lambda ns, d: str(ns.random.key_impl(ns.random.key(0))),
    "scipy.optimize.OptimizeResults": lambda ns, d: ns.scipy.optimize.OptimizeResults._fields,
    "scipy.interpolate.RegularGridInterpolator": lambda ns, d: ns.scipy.interpolate.RegularGridInterpolator(
        (np.arange(3.0, dtype="float32"),), f32(d, 3), method=d.one(("linear", "nearest"))
    )(np.float32([[0.3], [1.6]])),
    "scipy.stats.gaussian_kde": lambda ns, d: ns.scipy.stats.gaussian_kde(f32(d, 2, 5))(f32(d, 2, size(d))),
    "scipy.spatial.transform.Rotation": lambda ns, d: ns.scipy.spatial.transform.Rotation.from_rotvec(f32(d, 3)).apply(
        f32(d, 3)
    ),
    "scipy.spatial.transform.Slerp": lambda ns, d: ns.scipy.spatial.transform.Slerp.init(
        ns.numpy.arange(2.0), ns.scipy.spatial.transform.Rotation.from_rotvec(ns.numpy.asarray(f32(d, 2, 3)))
    )(0.3).as_quat(),
    "numpy.finfo": lambda ns, d: [
        float(getattr(ns.numpy.finfo(d.one(("float32", "float16"))), n)) for n in ("eps", "max")
    ],
}
CALLS.update(_OTHERS)


def theirs(module: str, name: str) -> Any:
    """JAX's object of that name; its submodules may have to be imported."""
    try:
        return getattr(importlib.import_module(f"jax.{module}"), name)
    except AttributeError:
        return importlib.import_module(f"jax.{module}.{name}")


def comparison(module: str, name: str, drawn: set[str]) -> str:
    """The name of the comparison that has this public name, '' if none has."""
    whole = f"{module}.{name}"
    if whole in drawn:
        return "random_calls"
    if whole in CALLS:
        return "CALLS"
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
    """What differs between two constants, element types, or classes with members or fields."""
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
    drawn = set(random_calls.functions(()))
    for module, names in public_names().items():
        for name in names:
            yield module, name, comparison(module, name, drawn)


def difference(whole: str, seed: int) -> str:
    """What differs in one drawn call of ``CALLS``, '' if nothing."""
    found: list[Any] = []
    for ns in (minijax, jax):
        importlib.import_module(f"{ns.__name__}.{whole.rpartition('.')[0]}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found.append((CALLS[whole](ns, Draw(seed)), ""))
            except Exception as error:  # noqa: BLE001  (its class is compared)
                found.append((None, f"{type(error).__name__}"))
    (ours, error), (wanted, their_error) = found
    if error or their_error:
        return "" if error == their_error else f"raises {error or 'nothing'}, JAX {their_error or 'nothing'}"
    if any(isinstance(x, str) for x in jax.tree.leaves(wanted)) or callable(wanted):
        return (
            "" if callable(wanted) == callable(ours) and (callable(ours) or ours == wanted) else f"{ours!r}, {wanted!r}"
        )
    try:
        assert_same(ours, wanted, scale=10.0)
    except (AssertionError, KeyError) as raised:
        return " ".join(str(raised).split())[:300]
    return ""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.names")
    parser.add_argument("--list", action="store_true", help="print every name with its comparison")
    parser.add_argument("--run", type=int, default=0, help="compare the names of CALLS on so many drawn arguments")
    asked = parser.parse_args(argv)
    by_module: dict[str, Counter[str]] = {}
    absent = []
    for module, name, found in every():
        by_module.setdefault(module, Counter())[found] += 1
        if not found:
            absent.append(f"{module}.{name}")
        if asked.list:
            print(f"{module}.{name}: {found or 'NONE'}")
    for module, counts in by_module.items():
        print(
            f"{module:28} {counts.total():4}: " + ", ".join(f"{n} {kind or 'NONE'}" for kind, n in counts.most_common())
        )
    total = sum(by_module.values(), Counter[str]())
    wrong = 0
    for whole in CALLS if asked.run else ():
        for seed in range(asked.run):
            said = difference(whole, seed)
            wrong += bool(said and whole not in REASONS)
            if said:
                print(f"{whole}, drawn by {seed}: {said} ({REASONS.get(whole, 'UNEXPLAINED')})")
    print(f"{total.total()} names: " + ", ".join(f"{n} {kind or 'NONE'}" for kind, n in total.most_common()))
    if asked.run:
        print(f"{asked.run * len(CALLS)} calls of {len(CALLS)} names: {wrong} differ")
    if absent:
        print("in no comparison:", *absent)
    return 1 if absent or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
