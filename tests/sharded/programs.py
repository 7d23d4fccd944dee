"""Functions that ``shard_map`` runs on a mesh of axes ``x`` and ``y``, over either library's names.

A program is ``function(ns)``, which returns the function to map. Its specs are written as strings: ``"x,y"`` is
``P("x", "y")``, ``""`` is ``P()``, ``"xy,-"`` is ``P(("x", "y"), None)``, and ``"None"`` is None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Function = Callable[..., Any]


class Mapped(NamedTuple):
    """A program. ``shapes``: the shapes of its arguments. ``wrt``: the numbers of the differentiated arguments."""

    make: Callable[[Any], Function]
    in_specs: tuple[str, ...]
    out_specs: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...] = ((8, 8),)
    wrt: tuple[int, ...] = (0,)
    check_vma: bool = True
    axis_names: tuple[str, ...] = ()


PROGRAMS: dict[str, Mapped] = {}


def mapped(
    name: str,
    make: Callable[[Any], Function],
    ins: str | tuple[str, ...] = "x",
    outs: str | tuple[str, ...] = "x",
    **options: Any,
) -> None:
    assert name not in PROGRAMS
    as_tuple = [(s,) if isinstance(s, str) else s for s in (ins, outs)]
    PROGRAMS[name] = Mapped(make, *as_tuple, **options)


def simple(name: str, of: Callable[[Any, Any], Any], *specs: Any, **options: Any) -> None:
    """Register a program with one argument, which computes ``of(ns, x)``."""
    mapped(name, lambda ns: lambda x: of(ns, x), *specs, **options)


simple("psum", lambda ns, x: ns.lax.psum(ns.jnp.sin(x), "x"), "x", "")
simple("psum over both", lambda ns, x: ns.lax.psum(ns.jnp.sin(x), ("x", "y")), "x,y", "")
simple("pmean", lambda ns, x: ns.jnp.tanh(ns.lax.pmean(x, ("x", "y"))) * x, "x,y", "x,y")
simple("sharded by both", lambda ns, x: x * ns.lax.axis_index("x"), "xy", "xy")
simple("pmax", lambda ns, x: ns.lax.pmax(ns.lax.stop_gradient(x), "x") + ns.lax.psum(x, "x"), "x", "")
simple("all_gather", lambda ns, x: ns.jnp.sin(ns.lax.all_gather(x, "x")).sum(0), "x", "x")
simple("all_gather invariant", lambda ns, x: ns.lax.all_gather(ns.jnp.sin(x), "x", to="invarying") * 2.0, "x", "")
simple("psum_scatter", lambda ns, x: ns.lax.psum_scatter(ns.jnp.sin(x), "x", scatter_dimension=1, tiled=True))
simple("ppermute", lambda ns, x: ns.lax.ppermute(ns.jnp.sin(x), "y", [(0, 1)]) + x, "x,y", "x,y")
simple("all_to_all", lambda ns, x: ns.lax.all_to_all(ns.jnp.sin(x), "y", 1, 0, tiled=True), "y", "-,y")
simple("jit inside", lambda ns, x: ns.jit(lambda y: ns.jnp.sin(y) * ns.lax.psum(y, "x"))(x))
simple(
    "scan",
    lambda ns, x: ns.lax.scan(
        lambda c, row: (ns.jnp.tanh(c + row.sum()), c * row), ns.lax.pcast(0.5, ("x",), to="varying"), x
    )[1],
)
simple(
    "scan of collectives",
    lambda ns, x: ns.lax.scan(lambda c, row: (c + ns.lax.psum(row.sum(), "x"), c), 0.0, x)[0],
    "x",
    "",
)
simple("while", lambda ns, x: ns.lax.fori_loop(0, 3, lambda i, y: ns.jnp.sin(y) + i, x))
simple("cond", lambda ns, x: ns.lax.cond(x.sum() > 3, lambda y: ns.jnp.sin(y), lambda y: ns.jnp.ones_like(y), x))
simple("checkpoint", lambda ns, x: ns.checkpoint(lambda y: ns.lax.psum(ns.jnp.sin(ns.jnp.sin(y)), "x"))(x), "x", "")
simple("softmax over the mesh", lambda ns, x: softmax(ns, x), "-,x", "-,x")
simple("unchecked", lambda ns, x: ns.jnp.sin(ns.lax.psum(x, "x")) * 2.0, "x", "", check_vma=False)
simple("along one axis only", lambda ns, x: ns.lax.psum(ns.jnp.sin(x), "x"), "x", "", axis_names=("x",))


simple("a carry like the argument", lambda ns, x: ns.lax.scan(lambda c, r: (c * r, c), ns.jnp.ones_like(x[0]), x)[1])
simple(
    "a loop of the library",
    lambda ns, x: x * ns.jnp.searchsorted(ns.jnp.arange(5), (x * 5).astype("int32")),
    shapes=((8,),),
)
simple("axes in another order", lambda ns, x: x * ns.lax.axis_index(("y", "x")), "yx", "yx")
simple(
    "one mapped function inside another",
    lambda ns, x: ns.jit(ns.shard_map(lambda y: ns.lax.psum(y + y, "x"), in_specs=ns.P(), out_specs=ns.P()))(x),
    "x",
    "",
)
simple("in groups, unchecked", lambda ns, x: ns.lax.psum(x, "x", axis_index_groups=[[0, 1], [2, 3]]), check_vma=False)


# these raise errors in JAX
simple("in groups", lambda ns, x: ns.lax.psum(x, "x", axis_index_groups=[[0, 1], [2, 3]]))
simple("a carry that starts to vary", lambda ns, x: ns.lax.scan(lambda c, r: (c + r.sum(), c), 0.0, x)[1])
simple("branches of two types", lambda ns, x: ns.lax.cond(x[0, 0] > 0, lambda: ns.lax.psum(x, "x"), lambda: x))
simple("not reduced", lambda ns, x: x, "x", "")
simple("an axis left to XLA", lambda ns, x: x, "x", "x,y", axis_names=("x",))
simple("a scalar with a sharded spec", lambda ns, x: x.sum())
simple("no such axis", lambda ns, x: x, "z")


def softmax(ns: Any, x: Any) -> Any:
    top = ns.lax.pmax(ns.lax.stop_gradient(x).max(1, keepdims=True), "x")
    e = ns.jnp.exp(x - top)
    return e / ns.lax.psum(e.sum(1, keepdims=True), "x")


def mean_square(ns: Any, w: Any, x: Any) -> Any:
    return ns.lax.pmean(ns.jnp.mean(ns.jnp.sin(x @ w) ** 2), "x")


two = {"shapes": ((8, 8), (8, 4)), "wrt": (0, 1)}
both = {"shapes": ((8, 8), (8, 8)), "wrt": (0, 1)}
mapped("an argument without a spec", lambda ns: lambda x, w: x * w, ("x", "None"), shapes=((8, 8), (8,)))
mapped("matmul, both sharded", lambda ns: lambda a, b: ns.lax.psum(a @ b, "y"), ("x,y", "y,-"), "x,-", **two)
mapped(
    "two results",
    lambda ns: lambda a, b: (ns.jnp.sin(a) * b[:2], ns.lax.psum(a.sum(), "x") * b),
    ("x", ""),
    ("x", ""),
    **both,
)
mapped(
    "data parallel gradient",
    lambda ns: lambda w, x: ns.grad(lambda w: mean_square(ns, w, x))(w),
    ("", "x"),
    "",
    shapes=((8,), (8, 8)),
)
