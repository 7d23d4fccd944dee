"""JAX's small modules: ``flatten_util``, ``monitoring``, ``stages``, ``typing``, ``version``, beside JAX's own."""

from __future__ import annotations

import importlib
import typing
from typing import Any

import jax
import jax.flatten_util
import jax.monitoring
import jax.stages
import jax.typing
import numpy as np
import pytest

import minijax
from minijax import flatten_util, monitoring, stages
from minijax.typing import ArrayLike, DTypeLike

BOTH = [minijax, jax]


# --- trees as vectors ---------------------------------------------------------------------------------------

TREES: dict[str, Any] = {
    "one dtype": {"a": np.ones((2, 2), np.float32), "b": 2.0},
    "several": {"a": np.ones((2, 2), np.float32), "b": np.arange(3, dtype=np.int32), "c": (True,)},
    "complex": [np.array([1 + 2j], np.complex64), np.ones(1, np.float32)],
    "weak": [1, 2],
    "one leaf": [np.ones((2, 3), np.float32)],
    "numbers of two kinds": [1, 2.5],
    "nothing": ({}, ()),
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_a_tree_as_a_vector_and_back(tree: Any) -> None:
    ours, back = flatten_util.ravel_pytree(tree)
    theirs, their_back = jax.flatten_util.ravel_pytree(tree)
    assert (ours.dtype, ours.shape, ours.weak_type) == (theirs.dtype, theirs.shape, theirs.weak_type)
    np.testing.assert_array_equal(ours, theirs)
    for our, their in zip(jax.tree.leaves(back(ours)), jax.tree.leaves(their_back(theirs)), strict=True):
        assert (our.dtype, our.shape, our.weak_type) == (their.dtype, their.shape, their.weak_type)
        np.testing.assert_array_equal(our, their)
    assert minijax.tree.structure(back(ours)) == minijax.tree.structure(tree)
    for trip, their_trip in ((flatten_util.ravel_pytree, jax.flatten_util.ravel_pytree), (back, their_back)):
        given = (tree, tree) if trip is flatten_util.ravel_pytree else (ours, theirs)
        made, theirs_made = minijax.make_jaxpr(named(trip))(given[0]), jax.make_jaxpr(named(their_trip))(given[1])
        assert str(made).split("lambda")[1] == str(theirs_made).split("lambda")[1].replace(" sharding=None", "")


def named(trip: Any) -> Any:
    """``trip`` without what is no array among its results."""
    return lambda x: found[0] if isinstance(found := trip(x), tuple) and callable(found[-1]) else found


@pytest.mark.parametrize("module", [flatten_util, jax.flatten_util])
def test_what_a_vector_does_not_fit(module: Any) -> None:
    vector, back = module.ravel_pytree(TREES["several"])
    with pytest.raises(TypeError, match="unravel function given array of dtype int32, but expected dtype float32"):
        back(vector.astype(np.int32))
    with pytest.raises(ValueError, match=r"Sum of sizes 8 must be equal to dimension 0 of the operand shape \[3\]"):
        back(vector[:3])
    again = module.ravel_pytree(TREES["several"])[1]
    assert back == again and hash(back) == hash(again) and back != module.ravel_pytree(TREES["weak"])[1]


def test_a_gradient_with_respect_to_a_vector_of_parameters() -> None:
    vector, back = flatten_util.ravel_pytree({"w": minijax.numpy.ones((2, 3)), "b": minijax.numpy.zeros(2)})

    def loss(vector: Any) -> Any:
        params = back(vector)
        return (params["w"].sum(1) * 2.0 + params["b"]).sum()

    np.testing.assert_array_equal(minijax.jit(minijax.grad(loss))(vector), [1.0] * 2 + [2.0] * 6)


# --- events -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [monitoring, jax.monitoring])
def test_listeners_hear_events_until_they_are_removed(module: Any) -> None:
    heard: list[Any] = []

    def listener(*values: Any, **metadata: Any) -> None:
        heard.append((values, metadata))

    kinds = {
        "event": ((), "event", "event"),
        "event_duration_secs": ((1.5,), "event_duration_secs", "event_duration"),
        "event_time_span": ((1.0, 2.5), "event_time_span", "event_time_span"),
        "scalar": ((3,), "scalar", "scalar"),
    }
    for kind, (values, registered, unregistered) in kinds.items():
        getattr(module, f"register_{registered}_listener")(listener)
        getattr(module, f"record_{kind}")("/here", *values, place="x")
        getattr(module, f"unregister_{unregistered}_listener")(listener)
        getattr(module, f"record_{kind}")("/here", *values)
        assert heard == [(("/here", *values), {"place": "x"})]
        heard.clear()


def test_all_listeners_are_removed_at_once_and_none_twice() -> None:
    heard: list[str] = []
    monitoring.register_event_listener(heard.append)
    monitoring.clear_event_listeners()
    monitoring.record_event("/here")
    assert not heard
    with pytest.raises(ValueError, match="is not registered as such a listener. Register it before"):
        monitoring.unregister_event_listener(heard.append)


# --- classes and types --------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", BOTH)
def test_the_stages_of_a_function_have_classes(library: Any) -> None:
    module = importlib.import_module(f"{library.__name__}.stages")
    jitted = library.jit(lambda x: x + 1)
    traced = jitted.trace(1.0)
    assert isinstance(jitted, module.Wrapped) and not isinstance(len, module.Wrapped)
    assert isinstance(traced, module.Traced) and isinstance(traced.lower(), module.Lowered)
    assert isinstance(traced.lower().compile(), module.Compiled)


def test_the_stages_are_called_as_jaxs() -> None:
    assert set(stages.__all__) <= set(dir(jax.stages))
    assert stages.CompilerOptions == dict[str, "str | bool"]


def test_what_counts_as_an_array_and_as_a_dtype() -> None:
    ours, theirs = typing.get_args(ArrayLike), typing.get_args(jax.typing.ArrayLike)
    assert [minijax.Array if kind is jax.Array else kind for kind in theirs] == list(ours)
    assert [kind for kind in typing.get_args(DTypeLike) if kind is not typing.get_args(DTypeLike)[-1]] == list(
        typing.get_args(jax.typing.DTypeLike)[:-1]
    )


@pytest.mark.parametrize("library", BOTH)
def test_devices_have_a_class_and_libraries_a_version(library: Any) -> None:
    assert all(isinstance(device, library.Device) for device in library.devices())
    version = importlib.import_module(f"{library.__name__}.version")
    assert ".".join(map(str, library.__version_info__)) == version.__version__ == library.__version__
    assert version.__version_info__ == library.__version_info__
