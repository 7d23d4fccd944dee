"""On eight devices, explicit sharding types match JAX, and so do arrays created while a mesh is set."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import minijax
import minijax.numpy as jnp
from minijax.sharding import AxisType, NamedSharding
from minijax.sharding import PartitionSpec as P
from tests.on_devices import printed


@pytest.mark.parametrize("table", ["explicit_rows", "reduced_rows", "eager_rows"])
def test_explicit_sharding_types_match_jax(table: str) -> None:
    rows = printed("-m", f"tests.sharded.{table}", quickly=True)
    assert {name: ours for name, (ours, _) in rows.items()} == {name: theirs for name, (_, theirs) in rows.items()}


def _contracted(x: Any) -> Any:
    return x.T @ x


def _sorted(x: Any) -> Any:
    return jnp.sort(x, 0)


def _doubled(x: Any) -> Any:
    return x + x.T


@pytest.mark.parametrize(
    "function, name, types, action",
    [
        (_contracted, "dot_general", ["f32[4,4@x]", "f32[4@x,4]"], "`out_sharding`"),
        (_sorted, "sort", ["f32[4@x,4]"], "sharding.reshard"),
        (_doubled, "add", ["f32[4@x,4]", "f32[4,4@x]"], "sharding.reshard"),
    ],
)
def test_sharding_errors_name_operation_line_types_and_an_action(
    function: Any, name: str, types: list[str], action: str
) -> None:
    mesh = minijax.make_mesh((1,), ("x",))
    x = minijax.device_put(jnp.ones((4, 4)), NamedSharding(mesh, P("x")))
    with pytest.raises(minijax.errors.ShardingTypeError) as caught:
        minijax.jit(function)(x)
    message = str(caught.value)
    line = function.__code__.co_firstlineno + 1
    assert message.startswith(f"{name}: ")
    assert all(each in message for each in types)
    assert action in message
    assert f"test_explicit_rows.py:{line}:" in message


def test_new_arrays_are_sharded_as_asked() -> None:
    key, table = minijax.random.key(0), jnp.arange(8.0).reshape(4, 2)
    draws = [
        functools.partial(minijax.random.normal, key, (4,), "float16"),
        functools.partial(minijax.random.permutation, key, 4),
        functools.partial(minijax.random.permutation, key, table, axis=1, independent=True),
        functools.partial(minijax.random.choice, key, table, (3,), replace=False, axis=0),
        functools.partial(minijax.random.t, key, 4.0, (4,)),
        functools.partial(jnp.array, [1, 2]),
    ]
    with minijax.set_mesh(minijax.make_mesh((1,), ("x",), axis_types=(AxisType.Explicit,))):
        for draw in draws:
            drawn = draw(out_sharding=P("x"))
            assert minijax.typeof(drawn).sharding.spec[0] == "x"
            assert drawn.tolist() == draw().tolist()


def test_collectives_over_an_axis_that_vmap_shards_are_refused() -> None:
    """JAX raises no error here: it sums only one device's part of the mapped axis."""
    mesh = minijax.make_mesh((1, 1), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    added = minijax.shard_map(lambda a: minijax.lax.psum(a, "i"), mesh=mesh, in_specs=P("y"), out_specs=P("y"))
    assert minijax.vmap(added, axis_name="i")(jnp.ones((2, 3))).tolist() == [[2.0] * 3] * 2
    with pytest.raises(NotImplementedError, match="'i' sees one device's part.*along 'x' .spmd_axis_name"):
        minijax.vmap(added, axis_name="i", spmd_axis_name="x")(jnp.ones((2, 3)))


def test_derivatives_of_reduced_and_replicated_values_agree() -> None:
    """For most of these rows JAX raises an error. A sum over devices that comes too early makes the value too large."""
    rows = printed("-m", "tests.sharded.reduced_rows", "--whole", quickly=True)
    assert len(rows) == 15
    assert {name: reduced for name, (reduced, _) in rows.items()} == {name: whole for name, (_, whole) in rows.items()}


MODULES = ("numpy", "lax", "random", "nn", "nn.initializers", "numpy.linalg", "ops")


def signatures() -> Iterator[tuple[str, Any, Any]]:
    """(name, minijax's parameters, JAX's parameters) of each public function with a sharding parameter in JAX."""
    import jax.numpy as jnp

    import minijax.numpy

    def parameters(function: Any) -> Any:
        return [(p.name, p.kind.name) for p in inspect.signature(function).parameters.values()]

    sides = [(f"{m}.", importlib.import_module(f"jax.{m}"), f"minijax.{m}") for m in MODULES]
    sides.append(("x.at[i].", jnp.zeros(1).at[0], ""))
    for prefix, theirs, name in sides:
        ours = importlib.import_module(name) if name else minijax.numpy.zeros(1).at[0]
        for public in dir(theirs):
            function = getattr(theirs, public)
            if public[0] == "_" or not inspect.isroutine(function) and not hasattr(function, "__wrapped__"):
                continue
            try:
                taken = parameters(function)
            except (TypeError, ValueError):
                continue
            if any(p in ("sharding", "out_sharding") for p, _ in taken):
                yield prefix + public, parameters(getattr(ours, public)), taken


# JAX accepts options of jnp.array by position, with a warning; our methods of x.at take **options.
OTHERWISE = ("numpy.array", "x.at[i].")


def test_signatures_match_jax() -> None:
    rows = [*signatures()]
    rows_alike = [row for row in rows if not row[0].startswith(OTHERWISE)]
    differing = {name: (ours, theirs) for name, ours, theirs in rows_alike if ours != theirs}
    assert len(rows) > 60
    assert differing == {}
