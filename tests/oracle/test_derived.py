"""Calls of transformations with options: auxiliary outputs, argument numbers, axes, static arguments, trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from .subject import MODES, QUICKLY, assert_same, oracle, subject, x64_mode

pytestmark = pytest.mark.usefixtures("compiled_quickly")

VECTOR = np.array([0.5, -1.25, 2.0])
MATRIX = np.arange(6.0).reshape(2, 3) / 4 - 0.5


def arrays(ns: Any, tree: Any) -> Any:
    """The library's own arrays in place of NumPy's: JAX may return a NumPy argument as it came, 64-bit or not."""
    return jax.tree.map(lambda leaf: ns.numpy.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, tree)


def both(program: Callable[..., Any], args: Any) -> tuple[Any, Any]:
    """What ``program(ns, *args)`` answers: evaluated by the subject, and by JAX under ``jit``, to save time."""
    theirs = oracle.jit(lambda *args: program(oracle, *args), compiler_options=QUICKLY)
    return program(subject, *arrays(subject, args)), theirs(*arrays(oracle, args))


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {}


def call(program: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """Decorator: one call to compare."""
    CALLS[program.__name__] = program
    return program


@call
def value_and_grad_with_auxiliary_output(ns, vector, matrix):
    function = lambda x: (ns.numpy.sum(x * x), {"sine": ns.numpy.sin(x), "n": 3})  # noqa: E731
    return ns.value_and_grad(function, has_aux=True)(vector), ns.grad(function, has_aux=True)(vector)


@call
def grad_by_argument_numbers(ns, vector, matrix):
    function = lambda x, y, z: ns.numpy.sum(x * y) * z["k"]  # noqa: E731
    args = (vector, 2.0 * vector, {"k": 3.0})
    return [ns.grad(function, argnums=n)(*args) for n in (0, 1, 2, -1, (0, 2), (2, 0), [1])]


@call
def grad_with_keywords(ns, vector, matrix):
    return ns.grad(lambda x, *, scale: ns.numpy.sum(x) * scale)(vector, scale=2.0)


@call
def vjp_with_auxiliary_output(ns, vector, matrix):
    value, pullback, aux = ns.vjp(lambda x: (x * x, ns.numpy.sum(x)), vector, has_aux=True)
    return value, pullback(vector), aux


@call
def jvp_with_integer_arguments(ns, vector, matrix):
    zeros = np.zeros(3, jax.dtypes.float0)
    return ns.jvp(lambda x, i: (x * i, i + 1), (vector, ns.numpy.arange(3)), (vector, zeros))


@call
def vjp_with_integer_arguments(ns, vector, matrix):
    value, pullback = ns.vjp(lambda x, i: x * i, vector, ns.numpy.arange(3))
    return value, pullback(np.ones(3, value.dtype))


@call
def vmap_along_other_axes(ns, vector, matrix):
    scaled = lambda x, y: (x * y, x.sum())  # noqa: E731
    return (
        ns.vmap(scaled, in_axes=(1, None))(matrix, 2.0),
        ns.vmap(scaled, in_axes=(-1, 0), out_axes=(1, 0))(matrix, vector),
        ns.vmap(scaled, in_axes=(None, 0), out_axes=(-1, 0))(matrix[0], vector),
        ns.vmap(lambda tree: tree["a"][0] + tree["b"], in_axes=({"a": 0, "b": None},))({"a": (vector,), "b": 1.0}),
        ns.vmap(lambda x: {"x": x, "n": 1.0}, out_axes={"x": 1, "n": None})(matrix),
        ns.vmap(lambda: 1.0, axis_size=3)(),
        ns.vmap(lambda x, k: x * k, in_axes=0)(vector, k=vector),
    )


@call
def vmap_of_everything_nested(ns, vector, matrix):
    outer = ns.vmap(ns.vmap(ns.grad(lambda x, y: ns.numpy.sin(x) * y), in_axes=(0, None)), in_axes=(None, 0))
    return outer(vector, matrix[0])


@call
def linear_transposition(ns, vector, matrix):
    transpose = ns.linear_transpose(lambda x: 3.0 * x[1:] + x[:-1], np.zeros(3, np.float32))
    return transpose(np.ones(2, np.float32))


@call
def jit_with_static_arguments(ns, vector, matrix):
    function = ns.jit(
        lambda x, n, mode: x**n if mode == "power" else x * n, static_argnums=(1,), static_argnames="mode"
    )
    return (
        function(vector, 3, mode="power"),
        function(vector, 3, mode="product"),
        function(vector, 2, mode="power"),
    )


@call
def jit_with_trees_and_keywords(ns, vector, matrix):
    function = ns.jit(lambda *args, **options: {"args": args[::-1], "options": options["b"] * 2})
    return function(vector, {"x": 1}, b=2.5)


@call
def stop_gradient_of_a_tree(ns, vector, matrix):
    return ns.grad(lambda x: ns.numpy.sum(ns.lax.stop_gradient({"x": x})["x"] * x))(vector)


@call
def gradients_of_a_gradient_under_jit_of_vmap(ns, vector, matrix):
    third = ns.grad(ns.grad(ns.grad(lambda x: ns.numpy.sin(x) * x**3)))
    return ns.jit(ns.vmap(third))(vector)


@call
def custom_tree_nodes(ns, vector, matrix):
    import collections

    point = collections.namedtuple("point", "x y")
    function = lambda p: point(p.x * p.y, p.x)  # noqa: E731
    value = ns.jit(function)(point(vector, 2.0))
    return tuple(value), tuple(ns.grad(lambda p: ns.numpy.sum(function(p).x))(point(vector, 2.0)))


@call
def ordered_and_default_dictionaries(ns, vector, matrix):
    import collections

    tree = collections.OrderedDict(z=vector, a=2.0)
    gradient = ns.grad(lambda d: ns.numpy.sum(d["z"] * d["a"]))(tree)
    assert list(gradient) == ["z", "a"]
    return list(gradient.values())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", list(CALLS))
def test_call(name: str, mode: str) -> None:
    """The same tree of the same arrays."""
    with x64_mode(mode):
        assert_same(*both(CALLS[name], (VECTOR, MATRIX)))


@pytest.mark.parametrize("mode", MODES)
def test_eval_shape(mode: str) -> None:
    """Shapes and dtypes without computing."""

    def describe(ns: Any) -> list[tuple[Any, ...]]:
        out = ns.eval_shape(lambda x, n: {"y": x @ x.T, "n": n + 1}, MATRIX, 3)
        return [(key, leaf.shape, np.dtype(leaf.dtype).name) for key, leaf in out.items()]

    with x64_mode(mode):
        assert describe(subject) == describe(oracle)


@pytest.mark.parametrize("mode", MODES)
def test_make_jaxpr_options(mode: str) -> None:
    """``return_shape`` and ``static_argnums``; nothing is computed."""

    def describe(ns: Any) -> tuple[Any, ...]:
        make = ns.make_jaxpr(lambda x, n: x**n, static_argnums=1, return_shape=True)
        closed, shape = make(MATRIX, 3)
        abstract = ns.make_jaxpr(lambda x: x * 2)(ns.ShapeDtypeStruct((3,), np.float32))
        names = [eqn.primitive.name for eqn in closed.jaxpr.eqns]
        return names, shape.shape, np.dtype(shape.dtype).name, str(abstract)

    with x64_mode(mode):
        assert describe(subject) == describe(oracle)
