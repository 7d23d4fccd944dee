"""Small programs for rare cases of the transformations, each run in JAX and in minijax.

A row of ``SAME`` must give the same tree with the same shapes, dtypes, weak types and values in both; for a row of
``REFUSED`` both must raise the same class of error. After every row the interpreter stack must be empty.
The last two tests run only minijax.
"""

import copy
import functools
import pickle
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy
import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax.core.trace import stack_depth

pytestmark = pytest.mark.usefixtures("compiled_quickly")

X = np.arange(3, dtype=np.float32) + 1
M = np.arange(6, dtype=np.float32).reshape(2, 3)
FLOAT0 = np.zeros((), jax.dtypes.float0)

Program = Callable[[Any], Any]


def named(name, ns):
    """A jitted function with this name."""

    def double(x):
        return x * 2

    double.__name__ = name
    return ns.jit(double)


def pullback_of_integer(ns):
    return ns.vjp(lambda x, i: (x * i, i), 2.0, 3)[1]


class Scale:
    """A callable object, which multiplies by ``k``."""

    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return x * self.k


def with_method(ns):
    class Scaled(Scale):
        @functools.partial(ns.jit, static_argnums=0)
        def times(self, x):
            return x * self.k

    return Scaled(3.0)


class Duck:
    """An object with a shape and a dtype, and no other attribute of an array."""

    def __init__(self, dtype="float32", shape=(2, 3)):
        self.shape = shape
        self.dtype = np.dtype(dtype)


class WeakDuck(Duck):
    weak_type = True


def types(tree):
    """A tree of ShapeDtypeStructs as text: both libraries print them alike."""
    return repr(tree)


def classes(ns, x):
    """The classes of a Python scalar ``x`` when custom rules receive it and when transformations return it."""
    seen = []

    def note(x):
        seen.append((type(x).__name__, getattr(x, "dtype", None)))
        return x

    f, g = ns.custom_jvp(note), ns.custom_vjp(note)
    f.defjvp(lambda primals, tangents: (note(primals[0]), tangents[0]))
    g.defvjp(lambda x: (note(x), None), lambda res, ct: (ct,))
    for custom in (f, g):
        note(custom(x))
        ns.vmap(lambda a, custom=custom: (custom(x), a)[1])(X)
        ns.grad(lambda a, custom=custom: (custom(x), a)[1])(1.0)
        ns.make_jaxpr(lambda a, custom=custom: a * custom(custom(x)))(1.0)
    note(ns.checkpoint(lambda x: x)(x))
    note(ns.vmap(lambda a, x: (a, x), in_axes=(0, None), out_axes=(0, None))(X, x)[1])
    note(ns.vmap(lambda a: x, out_axes=None)(X))
    note(ns.jvp(lambda a: x, (1.0,), (1.0,))[0])
    note(ns.vjp(lambda a: x, 1.0)[0])
    note(ns.linearize(lambda a: x, 1.0)[0])
    return [(name, str(dtype)) for name, dtype in seen if not name.endswith("Tracer")]


def grad_of_a_scalar_inside(ns):
    f = ns.custom_jvp(lambda x: x * 2)
    f.defjvp(lambda primals, tangents: (f(primals[0]), tangents[0] * 2))
    return ns.jit(lambda a: ns.grad(lambda b: f(3.0) * f(b) * f(2))(a))(2.0)


def twice_sin(ns):
    return lambda x: ns.numpy.sin(x) * 2


def passed_twice(ns, made):
    """Call a jitted function with linear functions of equal structure; return its results and its number of traces."""
    traced = []

    def call(linear, t):
        traced.append(t)
        return linear(t)

    jitted = ns.jit(call)
    return [jitted(made(1.0), 1.0), jitted(made(2.0), 1.0), jitted(made(2.0), 2.0), len(traced)]


def stacked(ns, make):
    return ns.vmap(lambda x: make(twice_sin(ns), x))(X)


# programs of ``make(f, x)``, which returns the pullback or the linearization of ``f`` at ``x``
LINEAR = {
    "returned": lambda ns, make: ns.jit(lambda x: make(twice_sin(ns), x))(1.0)(1.0),
    "passed_twice": lambda ns, make: passed_twice(ns, ns.jit(lambda x: make(twice_sin(ns), x))),
    "of_two_calls_differ": lambda ns, make: (
        ns.tree_util.tree_structure(make(ns.numpy.sin, 1.0)) == ns.tree_util.tree_structure(make(ns.numpy.sin, 1.0))
    ),
    "batched": lambda ns, make: ns.vmap(lambda linear: linear(1.0))(stacked(ns, make)),
    "stacked_by_scan": lambda ns, make: ns.vmap(lambda linear: linear(1.0))(
        ns.lax.scan(lambda c, x: (c, make(twice_sin(ns), x)), X[0], X)[1]
    ),
    "differentiated": lambda ns, make: ns.grad(
        lambda x: ns.tree_util.tree_leaves(ns.jit(lambda linear: linear(1.0))(make(twice_sin(ns), x)))[0]
    )(1.0),
}


def identity(ns):
    f = ns.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda res, ct: (ct,))
    return f


def beside(ns):
    """A function that calls a ``custom_vjp`` function (without forward mode), but does not use the result."""
    return lambda x: (identity(ns)(x), x * 2.0)[1]


FLOAT0S = np.zeros((2,), jax.dtypes.float0)


def f0(tree):
    """``tree`` with texts in place of float0 arrays, whose class differs between the libraries."""
    return jax.tree_util.tree_map(lambda x: f"float0{x.shape}" if x.dtype == jax.dtypes.float0 else x, tree)


def takes(ns, keep):
    """The types of the arguments that ``@main`` of each compiled program keeps."""
    programs = [
        (lambda x, y, z: x + z, (X, 2, 3.0)),
        (lambda x, y, z: (ns.numpy.sin(y), x)[1], (X, 2.0, 3.0)),
        (lambda x, y, z: (ns.debug.print("{}", y), x)[1], (X, 2.0, 3.0)),
        (lambda x, y, z: 1.0, (X, 2.0, 3.0)),
        (lambda x, y, z: ns.jit(lambda a, b: a * 2)(x, y), (X, 2.0, 3.0)),
    ]
    texts = [ns.jit(f, keep_unused=keep).lower(*args).as_text() for f, args in programs]
    return [re.findall(r": (tensor<\w+>)", re.search(r"@main\((.*?)\) ->", text)[1]) for text in texts]


def inline(ns):
    return ns.jit(lambda x: ns.numpy.sin(x) * 2, inline=True)


INLINED = {
    "call": lambda ns: str(ns.make_jaxpr(lambda x: inline(ns)(x) + inline(ns)(2.0))(1.0)),
    "grad": lambda ns: str(ns.make_jaxpr(ns.grad(inline(ns)))(1.0)),
    "vmap": lambda ns: str(ns.make_jaxpr(ns.vmap(inline(ns)))(X)),
    "closed_over": lambda ns: str(ns.make_jaxpr(lambda x: ns.jit(lambda y: y + x, inline=True)(x))(X)),
    "values": lambda ns: [inline(ns)(1.0), ns.grad(inline(ns))(1.0), ns.jit(inline(ns))(X)],
}

SAME = {
    # Python scalars pass through unchanged
    "classes_of_a_float": lambda ns: classes(ns, 3.0),
    "scalars_to_custom_functions_under_jit": grad_of_a_scalar_inside,
    # ShapeDtypeStructs
    "like": lambda ns: types([ns.ShapeDtypeStruct.like(x) for x in (1.0, X, ns.numpy.ones(2), Duck())]),
    "eval_shape_of_a_weak_duck": lambda ns: types(ns.eval_shape(lambda x: x["a"] * 2, {"a": WeakDuck()})),
    "make_jaxpr_of_a_duck": lambda ns: str(ns.make_jaxpr(lambda x: x * 2)(Duck("float64", [2]))),
    "axis_env": lambda ns: str(
        ns.make_jaxpr(
            lambda x: ns.lax.psum(x, "i") + ns.lax.axis_index("j") + ns.lax.axis_size("i"),
            axis_env=[("i", 4), ("j", 2)],
        )(1.0)
    ),
    "pretty_print_without_types": lambda ns: ns.make_jaxpr(
        lambda x: ns.lax.cond(x > 0, lambda x: x * 2.0, lambda x: x, x)
    )(1.0).pretty_print(print_shapes=False),
    # jit(inline=) and jit(keep_unused=)
    **{f"inline_{name}": transformed for name, transformed in INLINED.items()},
    "main_of_a_program": lambda ns: [takes(ns, keep) for keep in (False, True)],
    "calls_with_unused_arguments": lambda ns: [
        f(x, y, z)
        for f in [ns.jit(lambda x, y, z: x - z)]
        for x in (X, M, X)
        for y in (1, X, ns.numpy.ones(2))
        for z in (2.0, np.float32(3), ns.numpy.ones(3))
    ],
    "compiled_with_unused_arguments": lambda ns: ns.jit(lambda x, y, z: x - z).lower(X, 1, X).compile()(X, 2, 2 * X),
    # pullbacks and linearized functions are pytrees
    **{f"pullback_{n}": (lambda ns, run=run: run(ns, lambda f, x: ns.vjp(f, x)[1])) for n, run in LINEAR.items()},
    **{f"linear_{n}": (lambda ns, run=run: run(ns, lambda f, x: ns.linearize(f, x)[1])) for n, run in LINEAR.items()},
    "pullback_of_several_arguments": lambda ns: ns.jit(
        lambda x, y, i: ns.vjp(lambda a, b, k: ns.numpy.sin(a) * b["k"] * k, x, y, i)[1]
    )(1.0, {"k": X}, 2)(X)[:2],
    # unused parts are not compiled, so they raise no error
    "unused_custom_vjp_in_forward_mode": lambda ns: ns.jit(lambda z: ns.jvp(beside(ns), (z,), (1.0,)))(2.0),
    "unused_custom_vjp_in_a_scan": lambda ns: ns.jit(
        lambda z: ns.jvp(lambda x: ns.lax.scan(lambda c, _: (c * 2.0, identity(ns)(c)), x, None, 2)[0], (z,), (1.0,))
    )(2.0),
    # float0 arguments and results
    "float0_to_jit_again": lambda ns: [f0(f(FLOAT0S, X)) for f in [ns.jit(lambda x, y: (x, y))] for _ in range(3)],
    "float0_to_pmap": lambda ns: f0(ns.pmap(lambda x, y: (x, y))(FLOAT0S[:1], X[:1])),
    "matmul_precision": lambda ns: precisions(ns),
    # a deep copy of a tracer is the tracer itself: a copied trace would give a zero derivative
    "deepcopy_under_grad": lambda ns: ns.grad(lambda x: copy.deepcopy({"a": x})["a"] * 2)(2.0),
    # weak types: constants in derivative rules are weakly typed if the operand is
    "weak_hessian": lambda ns: ns.hessian(lambda t: (t["a"] ** 2).sum() * t["b"] ** 3)({"a": X, "b": 2.0}),
    # dtypes of derivatives of integer outputs, and with respect to integers
    "jacfwd_of_an_integer_output": lambda ns: ns.jacfwd(lambda x: (x, 3))(2.0),
    "jacrev_by_an_integer": lambda ns: ns.jacrev(lambda x: x * 2.0, allow_int=True)(3),
    # an integer output takes any cotangent of its shape
    "float0_cotangent": lambda ns: pullback_of_integer(ns)((1.0, FLOAT0))[0],
    "float_cotangent_of_an_integer": lambda ns: pullback_of_integer(ns)((1.0, 1.5))[0],
    # linear_transpose of an integer function
    "linear_transpose_of_integers": lambda ns: ns.linear_transpose(lambda x: x * 2, 3)(3),
    # function names that are no identifiers in StableHLO still give a valid program
    "a_name_beyond_ascii": lambda ns: ns.jit(lambda x: named("größe", ns)(x))(2.0),
    # jit as a method
    "jitted_method": lambda ns: [with_method(ns).times(2.0), type(with_method(ns).times).__name__],
    # Array and NumPy
    "dlpack_is_read_only": lambda ns: np.from_dlpack(ns.numpy.asarray(X)).flags.writeable,
    "numpy_operand_on_the_left": lambda ns: ns.jit(lambda x: (X * x, X < x, X**x, np.float32(2) - x))(2.0),
}


def precisions(ns):
    """The precisions of products staged under a default precision, inside jit, and with an explicit precision."""
    f = ns.jit(lambda x, y: x @ y)
    with ns.default_matmul_precision("high"):
        shown = [ns.make_jaxpr(ns.grad(lambda x: f(x, M.T).sum()))(M)]
        shown.append(ns.make_jaxpr(lambda x: ns.lax.dot(x, M.T, precision="highest"))(M))
        shown.append(ns.make_jaxpr(lambda x: ns.numpy.einsum("ij,kj->ik", x, x))(M))
    shown.append(ns.make_jaxpr(f)(M, M.T))
    return [re.findall(r"precision=(.*)", str(jaxpr)) for jaxpr in shown]


REFUSED = {
    "static_argname_of_a_positional_argument": lambda ns: ns.jit(lambda x, /: x, static_argnames="x"),
    "static_argnames_and_donated_ones": lambda ns: ns.jit(lambda x: x, static_argnames="x", donate_argnames="x"),
    "eval_shape_without_a_dtype": lambda ns: ns.eval_shape(lambda x: x, functools.partial(int)),
    "pickle_of_a_tracer": lambda ns: ns.jit(lambda x: pickle.dumps(x) and x)(X),
    "a_copy_that_cannot_be_avoided": lambda ns: np.array(ns.numpy.asarray(X), dtype=np.float64, copy=False),
    "cotangent_of_an_integer_of_another_shape": lambda ns: pullback_of_integer(ns)((1.0, X)),
    "linear_transpose_from_integer_to_float": lambda ns: ns.linear_transpose(lambda x: x * 2.0, 3),
    "a_bool_as_axis": lambda ns: ns.vmap(lambda x: x, in_axes=(True,))(M),
    "compiled_for_another_tree": lambda ns: ns.jit(lambda t: t["a"]).lower({"a": X}).compile()({"b": X}),
    "compiled_under_jit": lambda ns: ns.jit(ns.jit(lambda x: x * 2).lower(2.0).compile())(2.0),
}


def described(x):
    """``x`` with a comparable tuple in place of each array."""
    if isinstance(x, dict):
        return {k: described(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(described(v) for v in x)
    if isinstance(x, (jax.Array, minijax.Array)):
        return ("array", str(x.dtype), x.shape, x.weak_type, np.asarray(x, np.complex128).round(4).tolist())
    if isinstance(x, np.ndarray):
        return ("numpy", str(x.dtype), x.shape, x.tolist())
    return x


@pytest.mark.parametrize("name", SAME)
def test_both_libraries_give_the_same_result(name):
    program = SAME[name]
    assert described(program(minijax)) == described(program(jax))
    assert stack_depth() == 0


@pytest.mark.parametrize("name", REFUSED)
def test_both_libraries_raise_the_same_error(name):
    program = REFUSED[name]
    with pytest.raises(Exception) as theirs:
        program(jax)
    with pytest.raises(Exception) as ours:
        program(minijax)
    assert ours.type.__name__ == theirs.type.__name__, ours.value
    assert stack_depth() == 0


def test_attributes_of_a_callable_do_not_hide_methods_of_jit():
    class Clip(Scale):
        def __init__(self):
            super().__init__(2.0)
            self.lower = self.trace = self.cache = self._find = self.fun = 0.0

    jitted = minijax.jit(Clip())
    assert float(jitted(1.5)) == 3.0 and jitted.k == 2.0
    assert "func.func public @main" in jitted.lower(1.0).as_text()


def test_memory_shared_with_numpy_does_not_change():
    whole = jnp.asarray(X)
    for array in (whole, jnp.reshape(whole, (3, 1)), whole[1:]):
        view = np.asarray(array)
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.flags.writeable = True
        assert not np.from_dlpack(array).flags.writeable
