"""Arguments that the tables of functions rarely pass have JAX's results. Each test runs all its rows in one process."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

import minijax
from minijax.backend import pjrt

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)
EVERYWHERE = (minijax, jax)


def both(program: Any) -> tuple[str, str]:
    """The ``repr`` of ``program(minijax)`` and of ``program(jax)``."""
    ours, theirs = (repr(program(ns)) for ns in EVERYWHERE)
    return ours, theirs


def _of_a_batch(ns: Any) -> Any:
    numbers = ns.lax.GatherDimensionNumbers((), (1,), (1,), (0,), (0,))
    return [ns.lax.gather(ROWS[:n], np.arange(n)[:, None], numbers, (1, 1)) for n in (3, 1)]


def test_values() -> None:
    rows = {
        "empty": lambda ns: ns.numpy.empty((2,)),
        "the sign of zero": lambda ns: ns.lax.sign(ns.numpy.array([-0.0, 3.0])),
        "a compiled complex cosine": lambda ns: ns.jit(ns.numpy.cos)(1 + 2j),
        "sums of nothing": lambda ns: (ns.numpy.sum(np.ones((0, 3)), axis=0), ns.numpy.prod(np.ones(0))),
        "finer draws": lambda ns: ns.random.gumbel(ns.random.key(1), (3,), mode="high"),
        "an array on a device": lambda ns: ns.numpy.array([1.0], device=ns.devices()[0]),
        "a gather with batch axes": _of_a_batch,
        "keys by index": lambda ns: ns.random.key_data(
            ns.jit(lambda k, i: k[i])(ns.random.split(ns.random.key(1)), np.array([1]))
        ),
        "a product of another type": lambda ns: ns.numpy.matmul(
            ns.numpy.array(ROWS), ns.numpy.array(ROWS.T), preferred_element_type=np.float16
        ),
        "dilated windows": lambda ns: ns.lax.reduce_window_shape_tuple(
            (3, 4), (2, 2), (1, 1), ((0, 0), (1, 0)), base_dilation=(2, 1), window_dilation=(1, 2)
        ),
        "no elements by index": lambda ns: ns.numpy.array(ROWS)[np.zeros((0,), int)],
        "the type of a filled array": lambda ns: ns.typeof(ns.lax.full_like(2.0, 1, np.float32)),
        "order F": lambda ns: ns.numpy.reshape(ns.numpy.array(ROWS), (2, 6), order="F"),
        "cached types": lambda ns: ns.typeof(np.ones(3, np.uint8)),
    }
    found = {name: both(program) for name, program in rows.items()}
    assert {name: ours for name, (ours, _) in found.items()} == {name: theirs for name, (_, theirs) in found.items()}
    for ns in EVERYWHERE:
        with pytest.raises(ValueError, match="order"):
            ns.numpy.reshape(ROWS, (2, 6), order="Q")
        with pytest.raises(TypeError, match="does not accept dtype key<fry>"):
            ns.vmap(partial(ns.lax.psum, axis_name="i"), axis_name="i")(ns.random.split(ns.random.key(1)))
        with ns.enable_x64():
            assert ns.jit(lambda x: x.astype(np.complex128))(np.complex64(1 + 2j)) == 1 + 2j


def _of_an_integer(ns: Any) -> Any:
    gradient = ns.jit(ns.grad(lambda n: 2.0 * n, allow_int=True))
    return [np.asarray(gradient(ns.numpy.array(3))).dtype for _ in range(4)]


def _gradients(ns: Any) -> Any:
    @ns.custom_gradient
    def square(x: Any) -> Any:
        return x**2, lambda ct: (ct * x * 5,)

    return ns.grad(square)(3.0), ns.grad(lambda x: square(x) * x)(2.0)


def test_gradients_by_a_custom_gradient_and_of_an_integer() -> None:
    for program in (_gradients, _of_an_integer):
        ours, theirs = both(program)
        assert ours == theirs


def _mesh(ns: Any, kind: str) -> Any:
    return ns.make_mesh((1,), ("i",), axis_types=(getattr(ns.sharding.AxisType, kind),))


def _sharded_types(ns: Any) -> Any:
    spec = ns.sharding.PartitionSpec("i")
    with ns.set_mesh(_mesh(ns, "Explicit")):
        product = ns.make_jaxpr(lambda a, b: ns.numpy.matmul(a, b, out_sharding=spec))
        return ns.typeof(ns.numpy.array([[1.0, 2.0]], out_sharding=spec)), product(ROWS, ROWS.T)


def _constrained_batch(ns: Any, axis: Any) -> Any:
    sharding = ns.sharding.NamedSharding(_mesh(ns, "Auto"), ns.sharding.PartitionSpec())
    return ns.make_jaxpr(ns.vmap(lambda x: ns.lax.with_sharding_constraint(x, sharding), spmd_axis_name=axis))(ROWS)


def _refused_batches(ns: Any) -> None:
    named = ns.sharding.NamedSharding(_mesh(ns, "Auto"), ns.sharding.PartitionSpec("i"))
    for sharding in (named, ns.sharding.SingleDeviceSharding(ns.devices()[0])):
        constrained = partial(ns.lax.with_sharding_constraint, shardings=sharding)
        with pytest.raises(ValueError, match="spmd_axis_name .* cannot appear|NamedSharding"):
            ns.make_jaxpr(ns.vmap(constrained, spmd_axis_name="i"))(ROWS)


def _sharded_argument(ns: Any) -> Any:
    sharding = ns.sharding.NamedSharding(_mesh(ns, "Auto"), ns.sharding.PartitionSpec("i"))
    lowered = ns.jit(lambda x: x + 1).lower(ns.ShapeDtypeStruct((2,), np.float32, sharding=sharding))
    return '{sdy.sharding = #sdy.sharding<@mesh, [{"i"}]>}' in lowered.as_text()


def _resharded_batch(ns: Any) -> Any:
    whole = ns.sharding.PartitionSpec(None)
    with ns.set_mesh(_mesh(ns, "Explicit")):
        rows = ns.numpy.array(ROWS, out_sharding=ns.sharding.PartitionSpec(None, "i"))
        return ns.typeof(ns.vmap(lambda x: ns.sharding.reshard(x, whole), in_axes=1, out_axes=1)(rows))


def test_shardings_over_a_mesh_of_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pjrt, "others_in_use", False)  # as in a process that has used only its first device
    for ns in EVERYWHERE:
        _refused_batches(ns)
    assert _sharded_argument(minijax) is _sharded_argument(jax) is True
    constrained = [lambda ns, axis=axis: _constrained_batch(ns, axis) for axis in (None, "i")]
    for program in (_sharded_types, _resharded_batch, *constrained):
        ours, theirs = both(program)
        assert ours == theirs
