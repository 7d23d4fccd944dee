"""Programs with explicit sharding types, converted from JAX to minijax and back, and parsed from their text.

``python -m tests.sharded.carried [--every-way] [words of names]`` prints a JSON object: the name of each program -> an
object of its differences, empty if there are none:

- "text": minijax's jaxpr differs from JAX's.
- "from_jax": JAX's program, converted to minijax, prints differently. "again": converted back to JAX, it does too.
- "to_jax": minijax's program converted to JAX has neither minijax's text nor JAX's.
- "parsed": the text of minijax's program changes when it is parsed.
- "ours" (not converted), or a way to convert: values on eight devices, or their shardings, differ from JAX's.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")

import jax
import numpy as np

import minijax
from minijax import interop
from minijax.extend.core import parse_jaxpr

# A program: a function that uses one library, and the (shape, spec) of each argument.
Row = tuple[Callable[..., Any], list[tuple[tuple[int, ...], tuple[Any, ...]]]]


def programs(of: Any) -> dict[str, Row]:
    """The programs over the library ``of``. They need a mesh of axes x: 4 and y: 2."""
    jnp, lax, P = of.numpy, of.lax, of.sharding.PartitionSpec
    reshard, auto_axes, shard_map = of.sharding.reshard, of.sharding.auto_axes, of.shard_map
    rows = ((8, 4), ("x",))
    both = ((8, 4), ("x", "y"))
    whole = ((8, 4), ())
    summed = P(reduced={"x"})
    return {
        "a sum": (lambda a, b: a + b * 2.0, [rows, rows]),
        "a product with out_sharding": (
            lambda a, b: jnp.dot(a, b, out_sharding=P("x", None)),
            [((8, 8), ("x", "y")), ((8, 4), ("y",))],
        ),
        "reshard": (lambda a: reshard(a, P(None, "y")) * 2, [rows]),
        "auto_axes": (auto_axes(lambda a: a.T @ a, out_sharding=P("x", None)), [rows]),
        "a reshape with out_sharding": (lambda a: lax.reshape(a, (32,), out_sharding=P("x")), [rows]),
        "broadcasting with out_sharding": (
            lambda a: lax.broadcast_in_dim(a, (8, 4), (1,), out_sharding=P("x", "y")),
            [((4,), ("y",))],
        ),
        "iota": (lambda a: a + lax.broadcasted_iota(np.float32, (8, 4), 0, out_sharding=P("x", None)), [rows]),
        "a gradient": (of.grad(lambda w, a: jnp.tanh(a @ w).sum()), [((4, 8), (None, "y")), rows]),
        "scan": (lambda c, xs: lax.scan(lambda c, x: (c + x, x * 2), c, xs), [((4,), ("y",)), ((8, 4), (None, "y"))]),
        "cond": (lambda a: lax.cond(a.sum() > 1, lambda b: b * 2, lambda b: b, a), [both]),
        "vmap": (of.vmap(lambda a: a * a.sum()), [rows]),
        "gather": (lambda a, i: a.at[i].get(out_sharding=P("x", None)), [whole, ((8,), ("x",), np.int32)]),
        "custom_jvp": (lambda a: of.nn.relu(a) + of.nn.silu(a), [both]),
        "keys": (lambda a: a + of.random.uniform(of.random.key(0), (8, 4), out_sharding=P("x", None)), [rows]),
        "shard_map": (shard_map(lambda a: a * 2, in_specs=P("x", "y"), out_specs=P("x", "y")), [both]),
        "shard_map along one axis": (
            shard_map(lambda a: a + lax.axis_index("x"), in_specs=P("x"), out_specs=P("x"), axis_names={"x"}),
            [both],
        ),
        "shard_map gathering": (
            shard_map(lambda a: lax.all_gather(a, "x", tiled=True, to="invarying"), in_specs=P("x"), out_specs=P(None)),
            [rows],
        ),
        "shard_map's gradient": (
            of.grad(lambda a: shard_map(lambda b: lax.psum(b * b, "x"), in_specs=P("x"), out_specs=P(None))(a).sum()),
            [rows],
        ),
        "shard_map in jit": (
            of.jit(lambda a: shard_map(lambda b: b + 1, in_specs=P("x"), out_specs=P("x"), check_vma=False)(a)),
            [rows],
        ),
        "shard_map over a mesh": (
            shard_map(
                lambda a: a * 2,
                mesh=of.make_mesh((4, 2), ("x", "y"), axis_types=(_explicit(of),) * 2),
                in_specs=P("x"),
                out_specs=P("x"),
            ),
            [rows],
        ),
        "unreduced": (
            lambda a, b: reshard(
                jnp.dot(a, b, out_sharding=P(unreduced={"x"})) * reshard(jnp.ones((8, 4)), summed), P()
            ),
            [((8, 8), (None, "x")), rows],
        ),
        "a gradient of a reduced value": (
            lambda w, a: reshard(of.grad(lambda w: jnp.tanh(a @ (w * 2.0)).sum())(reshard(w, summed)), P()),
            [((4, 8), ()), rows],
        ),
        "sums inside shard_map": (
            shard_map(
                lambda u, x: lax.psum(u, "x") + lax.all_gather(x, "x", tiled=True, to="invarying"),
                in_specs=(P(unreduced={"x"}), P("x")),
                out_specs=P(),
            ),
            [((8, 4), (), np.float32, {"unreduced": {"x"}}), rows],
        ),
        "casts inside shard_map": (
            shard_map(
                lambda w, x: (
                    lax.pcast(lax.pcast(x, "x", to="unreduced"), "y", to="reduced"),
                    lax.psum_scatter(lax.pcast(x @ w, "x", to="unreduced"), "x", scatter_dimension=1, tiled=True),
                    lax.all_gather(x, "x", tiled=True, to="reduced"),
                ),
                in_specs=(P(reduced={"x"}), P("x")),
                out_specs=(P(unreduced={"x"}, reduced={"y"}), P(None, "x"), P(reduced={"x"})),
            ),
            [((4, 4), (), np.float32, {"reduced": {"x"}}), rows],
        ),
        "with_sharding_constraint in auto_axes": (
            auto_axes(lambda a: lax.with_sharding_constraint(a * 2, P("x", None)), out_sharding=P("x", None)),
            [rows],
        ),
    }


def _explicit(of: Any) -> Any:
    return of.sharding.AxisType.Explicit


def argument(
    of: Any, shape: tuple[int, ...], spec: tuple[Any, ...], dtype: Any = np.float32, sums: dict[str, Any] | None = None
) -> Any:
    """A sharded array of the library ``of``. ``sums``: its unreduced or reduced axes, as options of PartitionSpec."""
    values = (np.arange(np.prod(shape)).reshape(shape) % 7 + 1).astype(dtype)
    put = of.device_put(values if dtype is np.int32 else values / 4, of.sharding.PartitionSpec(*spec))
    return of.sharding.reshard(put, of.sharding.PartitionSpec(*spec, **sums)) if sums else put


def text(jaxpr: Any) -> str:
    """The printed jaxpr without addresses, with NumPy integers printed as Python's in both libraries."""
    with np.printoptions(legacy="1.25"):
        return re.sub(r"\s+", " ", re.sub(r" at 0x[0-9a-f]+", "", str(jaxpr)))


def _values(of: Any, outs: Any) -> list[Any]:
    return [np.asarray(whole(of, leaf)) for leaf in of.tree.leaves(outs)]


def whole(of: Any, x: Any) -> Any:
    """``x`` after the sums over devices that are still pending: those along the unreduced axes of its spec."""
    return of.sharding.reshard(x, of.sharding.PartitionSpec()) if x.sharding.spec.unreduced else x


def _types(of: Any, outs: Any) -> list[str]:
    """The types and shardings of arrays. Specs are shown without unsharded dimensions at the end."""
    return [f"{of.typeof(leaf)} {_without_end(of, leaf.sharding.spec)}" for leaf in of.tree.leaves(outs)]


def _without_end(of: Any, spec: Any) -> Any:
    parts = [*spec.partitions]
    while parts and parts[-1] is None:
        parts.pop()
    return of.sharding.PartitionSpec(*parts, unreduced=spec.unreduced, reduced=spec.reduced)


def differing(name: str, every_way: bool) -> dict[str, Any]:
    """The differences of one program, as in the module docstring."""
    (f, described), (g, _) = programs(minijax)[name], programs(jax)[name]
    mine, others = ([argument(of, *each) for each in described] for of in (minijax, jax))
    found: dict[str, Any] = {}
    ours, theirs = minijax.make_jaxpr(f)(*mine), jax.make_jaxpr(g)(*others)

    def compare(what: str, expected: Any, make: Callable[[], Any], read: Callable[[Any], str] = text) -> None:
        try:
            got = read(make())
        except Exception as error:
            found[what] = f"{type(error).__name__}: {str(error)[:400]}"
            return
        if got != read(expected):
            found[what] = [got, read(expected)]

    compare("text", theirs, lambda: ours)
    compare("from_jax", theirs, lambda: interop.from_jax(theirs))
    there = interop.to_jax(ours)
    compare("to_jax", theirs if text(there) == text(theirs) else ours, lambda: there)
    compare("again", theirs, lambda: interop.to_jax(interop.from_jax(theirs)))
    compare("parsed", ours, lambda: parse_jaxpr(str(ours)), str)
    expected = _values(jax, g(*others)), _types(jax, g(*others))
    ways = {
        "ours": (minijax, lambda: f(*mine)),
        "from_jax of a function": (minijax, lambda: interop.from_jax(g)(*mine)),
        "to_jax of a function": (jax, lambda: interop.to_jax(f)(*others)),
        "there and back": (minijax, lambda: interop.from_jax(interop.to_jax(f))(*mine)),
        "from_jax of a program": (minijax, lambda: minijax.extend.core.jaxpr_as_fun(interop.from_jax(theirs))(*mine)),
        "to_jax of a program": (jax, lambda: jax.extend.core.jaxpr_as_fun(interop.to_jax(ours))(*others)),
    }
    for way, (of, call) in ways.items():
        if not every_way and way not in ("to_jax of a function", "there and back"):
            continue
        try:
            outs = call()
        except Exception as error:
            found[way] = f"{type(error).__name__}: {str(error)[:400]}"
            continue
        if _types(of, outs) != expected[1]:
            found[way] = [_types(of, outs), expected[1]]
            continue
        pairs = zip(_values(of, outs), expected[0], strict=True)
        if not all(np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in pairs):
            found[way] = "the values"
    return found


def main(words: list[str]) -> None:
    every_way = "--every-way" in words
    words = [word for word in words if word != "--every-way"]
    kinds = [(of.sharding.AxisType.Explicit,) * 2 for of in (minijax, jax)]
    meshes = [of.make_mesh((4, 2), ("x", "y"), axis_types=kind) for of, kind in zip((minijax, jax), kinds, strict=True)]
    with minijax.set_mesh(meshes[0]), jax.set_mesh(meshes[1]):
        names = [name for name in programs(jax) if not words or any(word in name for word in words)]
        print(json.dumps({name: differing(name, every_way) for name in names}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
