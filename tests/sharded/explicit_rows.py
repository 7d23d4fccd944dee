"""Compare with JAX programs that have explicit sharding types, also under transformations.

``python -m tests.sharded.explicit_rows`` prints a JSON object: the name of each program -> [ours, theirs]. A result
comes from ``outcomes.described``. Functions with ``out_sharding=`` are staged too.
"""

from __future__ import annotations

import os
import re
from typing import Any

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")

import numpy as np

from tests.sharded.outcomes import described, kind, print_both, text_of


def _rows(of: Any) -> dict[str, Any]:
    jnp, lax, P = of.numpy, of.lax, of.sharding.PartitionSpec

    def sharded(shape: tuple[int, ...], *spec: Any) -> Any:
        values = (np.arange(np.prod(shape)).reshape(shape) % 7 + 1).astype(np.float32) / 4
        return of.device_put(values, P(*spec))

    rows = sharded((8, 4), "x")
    both = sharded((8, 4), "x", "y")

    left = of.sharding.auto_axes

    def cast_back() -> Any:
        f = of.custom_vjp(jnp.sin)
        f.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (of.sharding.reshard(jnp.cos(x) * g, P(None, None)),))
        return of.grad(lambda a: f(a).sum())(both)

    def reference(a: Any) -> Any:
        ref = of.new_ref(jnp.zeros_like(a))
        ref[...] += a
        return ref[...]

    return {
        "a while loop": lambda: of.vmap(
            lambda a: lax.while_loop(lambda c: c[1].sum() < 30, lambda c: (c[0] + 1.0, c[1] * 2), (jnp.float32(0), a))
        )(rows),
        "branches": lambda: of.vmap(lambda a: lax.cond(a.sum() > 3, lambda: jnp.ones(3), lambda: jnp.zeros(3)))(rows),
        "two levels": lambda: of.vmap(of.vmap(lambda a: of.jit(jnp.sin)(a)))(both),
        "an update that is the same for all": lambda: of.vmap(lambda a: a.at[np.array([1])].add(2.0))(rows),
        "updates that all examples share": lambda: of.vmap(lambda a: jnp.zeros(4).at[np.array([1])].set(a[0]))(rows),
        "a right side that is the same for all": lambda: of.vmap(
            lambda a: lax.linalg.triangular_solve(a, jnp.ones((2, 2)), lower=True)
        )(sharded((8, 2, 2), "x")),
        "gradients of solutions": lambda: of.vmap(of.grad(lambda a, b: jnp.linalg.solve(a, b).sum()))(
            sharded((8, 2, 2), "x") + jnp.eye(2), sharded((8, 2), "x")
        ),
        "keys of numbers": lambda: of.random.key_data(of.vmap(of.random.key)(sharded((8,), "x").astype(int))),
        "a gradient of a loop": lambda: of.vmap(
            of.grad(lambda a: lax.fori_loop(0, 3, lambda i, c: c * a, jnp.ones(4)).sum())
        )(rows),
        "axes that differ": lambda: of.vmap(lambda a, b: a + b)(rows, sharded((8, 4))),
        "a carry of another type": lambda: lax.scan(lambda c, x: (c + x, c), sharded((4,)), sharded((8, 4), None, "y")),
        "branches of other types": lambda: lax.cond(
            True, lambda b: b, lambda b: of.sharding.reshard(b, P(None, None)), both
        ),
        "a pullback of another type": lambda: of.vjp(lambda a: jnp.sin(a) * a, both)[1](sharded((8, 4))),
        "linear functions of NumPy arrays": lambda: [
            of.linearize(lambda a: jnp.sin(a) * a, both)[1](np.ones((8, 4), np.float32)),
            of.linear_transpose(lambda a: a * 2, both)(np.ones((8, 4), np.float32)),
        ],
        "a rule of another type": cast_back,
        "a reference": lambda: of.jit(reference)(both),
        "device_put": lambda: of.jit(lambda a: of.device_put(a, P("y")))(rows),
        "a slice's gradient": lambda: of.grad(lambda a: lax.dynamic_slice(a, (1, 0), (4, 4)).sum())(
            sharded((8, 4), None, "y")
        ),
        "eval_shape": lambda: of.eval_shape(lambda a: a.T, both),
        "a call left to the compiler, mapped": lambda: str(
            of.make_jaxpr(of.vmap(left(of.jit(jnp.sin), out_sharding=P(None))))(rows)
        ).count("8@x"),
        "left to the compiler, mapped": lambda: of.vmap(left(jnp.sin, out_sharding=P("y")))(both),
        "ones in derivative rules": lambda: str(
            of.make_jaxpr(of.grad(lambda a: (jnp.log1p(a) * jnp.tanh(a) + jnp.arctanh(a / 9)).sum()))(rows)
        ),
        "constants and masks": lambda: str(
            of.make_jaxpr(of.grad(lambda a: (jnp.triu(a) + abs(a) + of.nn.softplus(a) + jnp.modf(a)[0]).sum()))(rows)
        ).count("reshard"),
        "einsum of one operand": lambda: [
            jnp.einsum("ij->j", rows, out_sharding=P("y")),
            jnp.einsum("ij->ji", both, out_sharding=P("x")),
            jnp.einsum("ij->", both, out_sharding=P()),
            jnp.einsum("ii->i", sharded((8, 8)), out_sharding=P("y")),
        ],
        "a diagonal by einsum": lambda: jnp.einsum("ii->i", sharded((8, 8), "x")),
        "a diagonal": lambda: jnp.diagonal(rows),
        "a column by at.get": lambda: of.jit(lambda a: a.at[:, 0].get(out_sharding=P("y")))(rows),
        "a row at a traced index": lambda: of.jit(lambda a, i: a.at[i].get(out_sharding=P("y")))(rows.T, 1),
        "a column by at.get outside of jit": lambda: both.at[:, 0].get(out_sharding=P("y")),
        "meshes of calls": lambda: re.findall(
            "ctx_mesh=.*", str(of.make_jaxpr(left(of.jit(lambda a: of.jit(jnp.sin)(a)), out_sharding=P("y")))(both))
        ),
    }


def _with_out_sharding(of: Any) -> dict[str, Any]:
    """Name -> function with ``out_sharding``. Its argument has the type f32[8@x,16@y]."""
    jnp, lax, random, P = of.numpy, of.lax, of.random, of.sharding.PartitionSpec
    row = np.arange(8.0, dtype="float32") / 8 + 0.1
    along_x = of.sharding.NamedSharding(of.sharding.get_abstract_mesh(), P("x"))
    return {
        "dot": lambda x: jnp.dot(x, x.T, out_sharding=P("x", None)),
        "matmul": lambda x: jnp.matmul(x, x.T, out_sharding=P("x", "y")),
        "tensordot": lambda x: jnp.tensordot(x, x, 2, out_sharding=P()),
        "einsum": lambda x: jnp.einsum("ij,kj->ik", x, x, out_sharding=P("x", None)),
        "einsum of three": lambda x: jnp.einsum("ij,kj,kl->il", x, x, x, out_sharding=P("x", "y")),
        "reshape": lambda x: jnp.reshape(x, (16, 8), out_sharding=P("x", None)),
        "ravel": lambda x: jnp.ravel(x, out_sharding=P(("x", "y"))),
        "broadcast_to": lambda x: jnp.broadcast_to(x, (2, 8, 16), out_sharding=P(None, "x", "y")),
        "zeros": lambda x: jnp.zeros((8, 2), out_sharding=P("x")),
        "full": lambda x: jnp.full((8, 2), 3.0, out_sharding=P(None, "y")),
        "zeros_like": lambda x: jnp.zeros_like(x, out_sharding=P("y", "x")),
        "arange": lambda x: jnp.arange(8, out_sharding=P("x")),
        "array": lambda x: jnp.array(row, out_sharding=P("x")),
        "asarray": lambda x: jnp.asarray([[1.0] * 4] * 8, out_sharding=P("x", "y")),
        "repeat": lambda x: jnp.repeat(x, 2, axis=0, out_sharding=P("x", "y")),
        "lax.full": lambda x: lax.full((8,), 2.0, sharding=along_x),
        "lax.reduce": lambda x: lax.reduce(x, np.float32(0), lax.add, (1,), P("x")),
        "at.get": lambda x: x.at[np.array([3, 1, 0, 1])].get(out_sharding=P("x", "y")),
        "at.set": lambda x: x.at[np.array([3, 1])].set(2.0, out_sharding=P("x", "y")),
        "at.add": lambda x: x.at[jnp.arange(4)].add(1.0, out_sharding=P("y", "x")),
        "at.max": lambda x: x.at[2].max(0.5, out_sharding=P("x", "y")),
        "bernoulli": lambda x: random.bernoulli(random.key(3), row, out_sharding=P("x")),
        "permutation": lambda x: random.permutation(random.key(3), 8, out_sharding=P("x")),
        "uniform": lambda x: random.uniform(random.key(3), (8,), out_sharding=P("x")),
        # these raise errors
        "duplicate axes": lambda x: jnp.zeros((8, 8), out_sharding=P("x", "x")),
        "not divisible": lambda x: jnp.zeros((7,), out_sharding=P("x")),
        "no such axis": lambda x: jnp.ones(8, out_sharding=P("q")),
        "no sharding": lambda x: jnp.ones(8, out_sharding="x"),
        "a device and out_sharding": lambda x: jnp.ones(8, device=of.devices()[0], out_sharding=P("x")),
        "repeat along a sharded dimension": lambda x: jnp.repeat(x, 2, axis=0),
        "lax.reduce by max": lambda x: lax.reduce(x, np.float32(-np.inf), lax.max, (1,), P("x")),
    }


def _text(of: Any, function: Any, x: Any) -> str:
    try:
        # JAX prints the current mesh here; minijax prints the mesh for the axes that are left to the compiler
        return re.sub(r"ctx_mesh=Mesh\(.*?\)\)", "ctx_mesh", text_of(of, function, [x]))
    except Exception as error:
        return kind(error)


def _all(of: Any) -> dict[str, Any]:
    kinds = (of.sharding.AxisType.Explicit,) * 2
    with of.set_mesh(of.make_mesh((4, 2), ("x", "y"), axis_types=kinds)):
        found = {name: described(of, make) for name, make in _rows(of).items()}
        x = of.device_put(np.arange(128.0, dtype="float32").reshape(8, 16) / 100, of.sharding.PartitionSpec("x", "y"))
        for name, function in _with_out_sharding(of).items():
            shown = described(of, lambda function=function: function(x))
            found[f"out_sharding: {name}"] = [shown, _text(of, function, x)]
        return found


if __name__ == "__main__":
    print_both(_all)
