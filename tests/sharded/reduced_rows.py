"""Compare with JAX programs that have unreduced types: their sums over devices are still pending.

``python -m tests.sharded.reduced_rows`` prints a JSON object: the name of each program -> [ours, theirs]. A result has
the program's primitives, and the types, shardings and summed values of its results; or it is the class of the error.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")

import numpy as np

import minijax
from tests.sharded.carried import text, whole
from tests.sharded.outcomes import kind, print_both

# (function, *arguments), or (function,): without arguments only the result is compared, not the jaxpr.
Row = tuple[Any, ...]


def _rows(of: Any) -> dict[str, Row]:
    jnp, lax, P = of.numpy, of.lax, of.sharding.PartitionSpec
    reshard, NamedSharding = of.sharding.reshard, of.sharding.NamedSharding

    def array(shape: tuple[int, ...], *spec: Any, **sums: Any) -> Any:
        values = (np.arange(np.prod(shape)).reshape(shape) % 7 / 4).astype(np.float32)
        return of.device_put(values, P(*spec, **sums))

    U, R = P(unreduced={"x"}), P(reduced={"x"})
    w, wr, x, xs = array((8, 4)), array((8, 4), reduced={"x"}), array((8, 8), "x", None), array((2, 8, 8), None, "x")
    a, b = array((8, 8), None, "x"), array((8, 4), "x", None)
    dot = lambda a, b: jnp.dot(a, b, out_sharding=U)  # noqa: E731
    u = dot(a, b)

    def mapped(f: Any, in_specs: Any, out_specs: Any, **options: Any) -> Any:
        return of.shard_map(f, in_specs=in_specs, out_specs=out_specs, **options)

    def cast(w: Any) -> Any:
        return lax.pcast(w, "x", to="reduced")

    def added(start: Any, w: Any = w) -> Any:
        return lax.scan(lambda c, _: (c + (reshard(w, R) * 2.0).sum(), None), start, None, length=2)[0]

    def loss(w: Any, x: Any) -> Any:
        return jnp.tanh(x @ w).sum()

    def accumulated(w: Any, xs: Any) -> Any:
        """Each device adds up its gradients of all steps; only then are they summed over the devices, once."""
        w = reshard(w, R)
        g, _ = lax.scan(lambda g, x: (g + of.grad(loss)(w, x), None), reshard(jnp.zeros((8, 4)), U), xs)
        return reshard(g, P())

    def scattered(w: Any, x: Any) -> Any:
        """A sharded weight is gathered for its use; the gradient is summed over the devices and sharded in one step."""
        f = mapped(
            lambda w, x: lax.psum(jnp.tanh(x @ lax.all_gather(w, "x", tiled=True, to="reduced")).sum(), "x"),
            (P("x"), P("x")), P(),
        )  # fmt: skip
        return of.grad(f)(w, x)

    def custom(spec: Any) -> Any:
        h = of.custom_vjp(lambda x, w: x @ w)
        h.defvjp(
            lambda x, w: (x @ w, (x, w)),
            lambda res, g: (g @ res[1].T, jnp.dot(res[0].T, g, out_sharding=spec)),
        )
        return of.grad(lambda w, x: h(x, w).sum())

    of_auto = of.make_mesh((4, 2), ("x", "y"), axis_types=(of.sharding.AxisType.Auto,) * 2)
    mesh = of.make_mesh((4, 2), ("x", "y"), axis_types=(of.sharding.AxisType.Explicit,) * 2)
    return {
        # ---- explicit types
        "a product": (dot, a, b),
        "a gradient of a reduced value": (of.grad(lambda w: (reshard(w, R) * 2.0).sum()), w),
        "a running sum": (lambda u: jnp.cumsum(u, 0), u),
        "reduced": (lambda w: jnp.sin(reshard(w, R)) * 2.0, w),
        "auto_axes": (of.sharding.auto_axes(lambda r: r * 2, out_sharding=P()), wr),
        # ---- derivatives
        "a gradient": (of.grad(loss), wr, x),
        "gradients accumulated": (accumulated, w, xs),
        "a gradient through scan": (
            of.grad(lambda w, xs: lax.scan(lambda c, x: (c + loss(w, x), None), 0.0, xs)[0]), wr, xs,
        ),
        "a loop from a number": (lambda: typed(of, lambda: added(0.0)),),
        "a while loop from a number": (
            lambda: typed(of, lambda: lax.while_loop(lambda c: c < 9, lambda c: c + (wr * 2.0).sum(), 0.0)),
        ),
        "a gradient through cond": (
            of.grad(lambda w, x: lax.cond(x.sum() > 0, lambda w: loss(w, x), lambda w: 0.0, w)), wr, x,
        ),
        "a gradient through checkpoint": (of.grad(of.checkpoint(loss)), wr, x),
        "a gradient of a pending sum": (
            of.grad(lambda a, b: (reshard(dot(a, b), P()) ** 2).sum(), argnums=(0, 1)), a, b,
        ),
        "a custom gradient": (custom(U), wr, x),
        "a custom gradient of another type": (custom(P()), wr, x),
        "a cotangent": (lambda r, u: of.vjp(lambda w: w * w, r)[1](u), wr, u),
        "a cotangent of another type": (lambda r: of.vjp(lambda w: w * w, r)[1](r), wr),
        "vmap": (of.vmap(lambda w, x: x @ w, in_axes=(None, 0)), wr, array((8, 8, 8), "x")),
        # ---- inside shard_map
        "psum": (mapped(lambda u: lax.psum(u, "x"), U, P()), u),
        "psum, specs inferred": (of.shard_map(lambda u: lax.psum(u, "x"), out_specs=P()), u),
        "psum of two kinds": (mapped(lambda u: lax.psum(u, ("x", "y")), U, P()), u),
        "psum_scatter": (mapped(lambda u: lax.psum_scatter(u, "x", tiled=True), U, P("x")), u),
        "all_gather": (mapped(lambda b: lax.all_gather(b, "x", tiled=True, to="reduced"), P("x"), R), b),
        "all_gather of a whole value": (mapped(lambda b: lax.all_gather(b, "x", to="reduced"), P(), R), w),
        "all_gather, groups": (
            mapped(lambda b: lax.all_gather(b, "x", axis_index_groups=[[0, 1], [2, 3]], to="reduced"), P("x"), R), b,
        ),
        "all_gather to an unknown type": (mapped(lambda b: lax.all_gather(b, "x", to="else"), P("x"), R), b),
        "pcast by out_specs": (mapped(lambda b: b * 2, P("x"), U), b),
        "reduced beside varying": (mapped(lambda r, x: x @ r, (R, P("x")), P("x")), wr, x),
        "reduced in shapes": (mapped(lambda r: r.T.reshape(2, 16) * r.reshape(2, 16), R, R), wr),
        "pcast of a shared value to unreduced": (mapped(lambda w: lax.pcast(w, "x", to="unreduced"), P(), P()), w),
        "all_gather of an unreduced value": (mapped(lambda u: lax.all_gather(u, "x"), U, P("x")), u),
        "in_specs without the unreduced axis": (mapped(lambda u: u, P(), P()), u),
        "out_specs without the unreduced axis": (mapped(lambda u: u, U, P()), u),
        "some axes only": (mapped(lambda u: lax.psum(u, "x"), U, P(), axis_names={"x"}), u),
        "over the compiler's axes": (of.shard_map(lambda u: u, mesh=of_auto, in_specs=U, out_specs=U), w),
        "a gradient gathered and scattered": (scattered, b, x),
        "a gradient of a cast value": (mapped(of.grad(lambda w: jnp.sin(cast(w)).sum()), P(), P()), w),
        "a loop over a cast value": (
            mapped(lambda w: lax.scan(lambda c, _: (c + cast(w).sum(), None), 0.0, None, length=2)[0], P(), P()), w,
        ),
        "a gradient of psum": (of.grad(lambda u: mapped(lambda u: lax.psum(u, "x"), U, P())(u).sum()), u),
        # ---- arrays and specs
        "a spec": (
            lambda: [str(P("x", unreduced={"y"})), str(R), str(P(None, reduced={"y"}, unreduced={"x"})), U == R],
        ),
        "a spec with an axis twice": (lambda: P("x", unreduced={"x"}),),
        "a spec with both": (lambda: P(unreduced={"x"}, reduced={"x"}),),
        "a sharding of no axis": (lambda: NamedSharding(mesh, P(unreduced={"z"})),),
        "a sharding over the compiler's axes": (lambda: NamedSharding(of_auto, R),),
        "the value": (lambda: np.asarray(u),),
        "a number": (lambda: float(u.sum()),),
        "device_put to an unreduced spec": (lambda: array((8, 4), unreduced={"x"}),),
        "reshard from another device": (lambda: reshard(of.device_put(w, of.devices()[1]), U),),
        "repr": (lambda: [repr(u), str(u), u.sharding.is_fully_replicated, wr.sharding.is_fully_replicated],),
        "under debug_nans": (lambda: str(of.typeof(of.debug_nans(True)(dot)(a, b))),),
        "parts": (lambda: sorted({float(np.asarray(each.data).sum()) for each in u.addressable_shards}),),
        "eager": (lambda: [str(of.typeof(u + u)), str(of.typeof(u.sum())), str(of.typeof(wr.sum()))],),
        "manual_axis_type": (lambda: str(mapped_type(of, mapped, wr, b)),),
    }  # fmt: skip


def typed(of: Any, f: Any) -> list[Any]:
    """The type, the spec and the values of the result of ``f()`` under jit."""
    x = of.jit(f)()
    return [str(of.typeof(x)), str(x.sharding.spec), np.asarray(x).tolist()]


def mapped_type(of: Any, mapped: Any, wr: Any, b: Any) -> list[Any]:
    """The types of the values inside ``shard_map``."""
    P, found = of.sharding.PartitionSpec, []

    def f(r: Any, b: Any) -> Any:
        for each in (r, b):
            mat = of.typeof(each).manual_axis_type
            found.append([str(of.typeof(each)), sorted(mat.varying), sorted(mat.unreduced), sorted(mat.reduced)])
        return b

    mapped(f, (P(reduced={"x"}), P("x")), P("x"))(wr, b)
    return found


def _described(of: Any, row: Row) -> Any:
    f, *args = row
    try:
        if not args:
            return f()
        jaxpr = str(of.make_jaxpr(f)(*args))
        outs = of.jit(f)(*args)
    except Exception as error:
        # for such specs some of JAX's rules fail before they reach their own NotImplementedError
        stumbled = type(error) is ValueError and " is dangerous when PartitionSpec has " in str(error)
        return "NotImplementedError" if stumbled else kind(error)
    # remove equations that only JAX has: reshards of its rules' constants, and sums along no dimension
    jaxpr = re.sub(r"\w+:f32\[\] = (reshard [\d.]+:f32\[\]|reduce_sum\[axes=\(\).*?\] \w+)", "", text(jaxpr))
    # compare the names of the primitives, and those types that name unreduced, reduced or varying axes
    found: list[Any] = [re.findall(r"= (\w+)", jaxpr), sorted(set(re.findall(r"\w+\[[\w@,()]*\]\{[^}]*\}", jaxpr)))]
    for leaf in of.tree.leaves(outs):
        value = np.asarray(whole(of, leaf))
        found.append([str(of.typeof(leaf)), str(leaf.sharding.spec), [round(float(v), 3) for v in value.ravel()]])
    return found


def _all(of: Any) -> dict[str, Any]:
    kinds = (of.sharding.AxisType.Explicit,) * 2
    with of.set_mesh(of.make_mesh((4, 2), ("x", "y"), axis_types=kinds)):
        return {name: _described(of, row) for name, row in _rows(of).items()}


def _beside_whole() -> dict[str, Any]:
    """Name of a derivative -> (its value for a reduced argument, its value for a replicated argument)."""
    of, P = minijax, minijax.sharding.PartitionSpec
    functions = {"a number": lambda w: (w * w).sum(), "a vector": lambda w: w * w * 3.0}
    functions["a choice"] = lambda w: of.numpy.where(w > 2, w * w * 3.0, 0.0)
    derivatives = {
        "grad under vmap": lambda f: of.vmap(of.grad(lambda w: f(w).sum())),
        "grad of vmap": lambda f: of.grad(lambda v: of.vmap(f)(v).sum()),
        "jacrev": lambda f: of.vmap(of.jacrev(f)),
        "jacfwd": lambda f: of.vmap(of.jacfwd(f)),
        "hessian": lambda f: of.hessian(lambda v: f(v).sum()),
    }
    values, found = of.numpy.arange(6.0).reshape(2, 3), {}
    with of.set_mesh(of.make_mesh((2,), ("x",))):
        for name, function in functions.items():
            reduced = lambda w, f=function: f(of.sharding.reshard(w, P(reduced={"x"})))  # noqa: E731
            for derivative, of_function in derivatives.items():
                first = of.sharding.reshard(of_function(reduced)(values), P())
                found[f"{derivative} of {name}"] = [first.tolist(), of_function(function)(values).tolist()]
    return found


if __name__ == "__main__":
    if sys.argv[1:] == ["--whole"]:
        print(json.dumps(_beside_whole()))
    else:
        print_both(_all)
