"""What people do wrong: one small program per row, for either library, and the words the error must contain.

``test_bad_input`` runs the rows, of this file and of ``missing_rules`` and ``misuses_of_*``. Rows marked ``here``
must also name the line of the user's program, which is in the row's file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

X3, X4 = np.ones(3, np.float32), np.ones(4, np.float32)


@dataclass(frozen=True)
class Misuse:
    """``program(ns)`` must fail with all of ``words``; ``advice`` is asked of minijax alone.

    The type of the error is JAX's. ``ours`` is another one, where JAX only stumbles over the misuse further on.
    """

    name: str
    program: Callable[[Any], Any]
    words: tuple[str, ...]
    here: bool = False
    advice: tuple[str, ...] = ()
    ours: str = ""

    @property
    def file(self) -> str:
        """What the place of the user's program begins with in messages."""
        return os.path.basename(self.program.__code__.co_filename) + ":"


TABLE: list[Misuse] = []


def misuse(*words: str, here: bool = False, advice: tuple[str, ...] = (), ours: str = "") -> Callable[[Any], Any]:
    """Decorator: enter the function into the table."""

    def register(program: Callable[[Any], Any]) -> Callable[[Any], Any]:
        assert all(row.name != program.__name__ for row in TABLE), f"two rows are called {program.__name__}"
        TABLE.append(Misuse(program.__name__, program, words, here, advice, ours))
        return program

    return register


# --- functions that go wrong under a transformation --------------------------------------------------------


def choose(x: Any) -> Any:
    """Python control flow on a value."""
    if x > 0:
        return x
    return -x


BOOL = ("Attempted boolean conversion of traced array with shape bool[]",)
CONCRETE = (
    "Abstract tracer value encountered where concrete value is expected",
    "traced array with shape float32[]",
)


@misuse(*BOOL, "The error occurred while tracing the function choose", "for jit", here=True, advice=("jnp.where",))
def bool_of_a_tracer_under_jit(ns):
    ns.jit(choose)(1.0)


@misuse(*BOOL, here=True, advice=("jnp.where",))
def bool_of_a_tracer_under_vmap(ns):
    ns.vmap(choose)(X3)


@misuse("The truth value of an array with more than one element is ambiguous")
def bool_of_a_vector(ns):
    bool(ns.numpy.ones(3))


@misuse(*CONCRETE, "float", here=True)
def float_of_a_tracer_under_jit(ns):
    ns.jit(lambda x: float(x))(1.0)


@misuse("__index__() method was called on traced array with shape int32[]", here=True, advice=("static",))
def list_index_by_a_tracer(ns):
    ns.jit(lambda i: [1, 2, 3][i])(1)


@misuse("__array__() was called on traced array with shape float32[]", here=True)
def numpy_array_of_a_tracer(ns):
    ns.jit(lambda x: np.asarray(x))(1.0)


@misuse("iteration over a 0-d array")
def iteration_over_a_scalar(ns):
    ns.jit(lambda x: list(x))(1.0)


@misuse("immutable", "item assignment")
def item_assignment(ns):
    ns.numpy.ones(3)[0] = 1.0


# --- shapes and dtypes -------------------------------------------------------------------------------------


@misuse("add got incompatible shapes for broadcasting: (3,), (4,)")
def sum_of_different_shapes(ns):
    ns.numpy.ones(3) + ns.numpy.ones(4)


@misuse("lax.add requires arguments to have", "dtypes", "float32, int32")
def lax_sum_of_different_dtypes(ns):
    ns.lax.add(X3, np.ones(3, np.int32))


@misuse("dot_general requires contracting dimensions to have the same shape, got (3,) and (2,)")
def dot_of_different_shapes(ns):
    ns.numpy.dot(np.ones((2, 3)), np.ones((2, 3)))


@misuse("cannot reshape array of shape (6,) (size 6) into shape (4, 2) (size 8)")
def reshape_to_another_size(ns):
    ns.numpy.ones(6).reshape(4, 2)


@misuse("ncompatible", "broadcasting", "float32[3]", "float32[2,4]")
def broadcast_to_another_shape(ns):
    ns.numpy.broadcast_to(ns.numpy.ones(3), (2, 4))


@misuse("Cannot concatenate arrays with shapes that differ in dimensions other than the one being concatenated")
def concatenation_of_different_widths(ns):
    ns.numpy.concatenate([np.ones((2, 3)), np.ones((2, 4))])


@misuse("Need at least one array to concatenate")
def concatenation_of_nothing(ns):
    ns.numpy.concatenate([])


@misuse("axis 2 is out of bounds for array of dimension 1")
def sum_over_an_axis_that_is_not_there(ns):
    ns.numpy.sum(X3, axis=2)


@misuse("transpose permutation isn't a permutation of operand dimensions", "(0, 0)")
def transposition_by_a_non_permutation(ns):
    ns.numpy.transpose(np.ones((2, 3)), (0, 0))


@misuse("Too many indices", "1-dimensional", "2 were indexed")
def too_many_indices(ns):
    ns.numpy.ones(3)[0, 0]


@misuse("size not equal to one", "(3,)")
def squeeze_of_a_long_axis(ns):
    ns.numpy.squeeze(X3, 0)


@misuse("sin does not accept dtype int32")
def lax_sine_of_an_integer(ns):
    ns.lax.sin(3)


@misuse("and does not accept dtype float32")
def bitwise_and_of_floats(ns):
    ns.lax.bitwise_and(X3, X3)


@misuse("Integers", "negative", "powers")
def integer_to_a_negative_power(ns):
    ns.numpy.arange(3) ** -1


@misuse("must be boolean or integer", "float32")
def select_by_a_float(ns):
    ns.lax.select(X3, X3, X3)


@misuse("pad operand and padding_value must be same dtype: got float32 and int32")
def pad_value_of_another_dtype(ns):
    ns.lax.pad(X3, np.int32(0), ((0, 0, 0),))


@misuse("clamp requires", "(3,)", "(4,)")
def clamp_between_other_shapes(ns):
    ns.lax.clamp(X3, X4, X3)


@misuse("data type 'flot32' not understood")
def unknown_dtype(ns):
    ns.numpy.ones(3, dtype="flot32")


@misuse("object")
def object_dtype(ns):
    ns.numpy.asarray([1], dtype=object)


# --- vmap's axes -------------------------------------------------------------------------------------------


@misuse("vmap in_axes must be an int, None, or a tuple", "len(in_axes)=1, len(args)=2")
def in_axes_too_short(ns):
    ns.vmap(ns.lax.add, in_axes=(0,))(X3, X3)


@misuse("vmap in_axes must be an int, None, or a tuple", "but got a")
def in_axes_of_another_type(ns):
    ns.vmap(ns.lax.add, in_axes="a")(X3, X3)


@misuse("must be a tree prefix of the corresponding value", "vmap in_axes[0]\n", "'a'", "'b'")
def in_axes_with_other_keys(ns):
    ns.vmap(lambda d: d["a"], in_axes=({"b": 0},))({"a": X3})


@misuse("vmap got inconsistent sizes for array axes to be mapped", "d['a']", "d['b']", "float32[3]", "float32[4]")
def mapped_sizes_differ_within_a_tree(ns):
    ns.vmap(lambda d: d["a"] + d["b"])({"a": X3, "b": X4})


@misuse("vmap got inconsistent sizes for array axes to be mapped", "axis_size", "5", "size 3")
def axis_size_differs(ns):
    ns.vmap(lambda x: x, axis_size=5)(X3)


@misuse("vmap was requested to map its argument along axis 1", "rank should be at least 2", "only 1")
def mapped_axis_out_of_range(ns):
    ns.vmap(ns.lax.add, in_axes=(0, 1))(X3, X3)


@misuse("vmap must have at least one non-None value in in_axes")
def nothing_mapped(ns):
    ns.vmap(ns.lax.add, in_axes=None)(X3, X3)


@misuse("vmap wrapped function must be passed at least one argument containing an array")
def nothing_to_map(ns):
    ns.vmap(lambda: 1.0)()


@misuse("vmap", "out_axes", "None")
def out_axes_none_of_a_batched_output(ns):
    ns.vmap(lambda x: x, out_axes=None)(X3)


@misuse("must be a tree prefix of the corresponding value", "vmap out_axes", "tuple")
def out_axes_not_a_prefix(ns):
    ns.vmap(lambda x: x, out_axes=(0, 1))(X3)


@misuse("out of bounds for array of dimension 1")
def out_axes_out_of_range(ns):
    ns.vmap(lambda x: x, out_axes=2)(X3)


# --- static arguments --------------------------------------------------------------------------------------


@misuse("Non-hashable static arguments are", "list", "[1]")
def unhashable_static_argument(ns):
    ns.jit(lambda x, n: x, static_argnums=1)(1.0, [1])


@misuse("static_argnums=(3,)", "but only accepts 1 positional arguments")
def static_argnums_out_of_range(ns):
    ns.jit(lambda x: x, static_argnums=3)(1.0)


@misuse("invalid argnames {'q'} in static_argnames")
def unknown_static_argname(ns):
    ns.jit(lambda x: x, static_argnames="q")(1.0)


@misuse("missing 1 required positional argument: 'y'")
def missing_argument(ns):
    ns.jit(lambda x, y: x)(1.0)


# --- trees and types of tangents and cotangents ------------------------------------------------------------


@misuse("must have the same tree structure", "PyTreeDef(((*, *),))", "PyTreeDef(([*, *],))")
def tangents_of_another_structure(ns):
    ns.jvp(lambda p: p[0], ((1.0, 2.0),), ([1.0, 2.0],))


@misuse("must be tuples or lists; found float and float")
def primals_not_in_a_tuple(ns):
    ns.jvp(ns.numpy.sin, 1.0, 1.0)


@misuse("different primal and tangent shapes", "(3,)", "(4,)")
def tangent_of_another_shape(ns):
    ns.jvp(ns.numpy.sin, (X3,), (X4,))


@misuse("dtypes must be equal", "float32", "int32")
def tangent_of_another_dtype(ns):
    ns.jvp(ns.numpy.sin, (X3,), (np.ones(3, np.int32),))


@misuse("tangent dtype must be float0", "int32", "float32")
def float_tangent_of_an_integer(ns):
    ns.jvp(lambda x: x, (3,), (1.0,))


@misuse("unexpected tree structure", "tuple", "list")
def cotangent_of_another_structure(ns):
    ns.vjp(lambda x: (x, x), 1.0)[1]([1.0, 2.0])


@misuse("for argument to", "got", "32[4], but expected", "32[3]")
def cotangent_of_another_shape(ns):
    ns.vjp(ns.numpy.sin, X3)[1](X4)


@misuse()
def linear_map_of_another_structure(ns):
    ns.linearize(lambda p: p[0], (1.0, 2.0))[1]([1.0, 2.0])


@misuse("linearized function called on tangent values inconsistent with the original primal values", "float32[4]")
def linear_map_of_another_shape(ns):
    ns.linearize(ns.numpy.sin, X3)[1](X4)


# --- leaks -------------------------------------------------------------------------------------------------

LEAK = (
    "Encountered an unexpected tracer",
    "had a side effect",
    "float32[]",
    "escape the scope of the transformation",
)


def leaked(transform: Callable[[Any], Any], x: Any) -> Any:
    """A tracer that has escaped."""
    kept: list[Any] = []

    def leaky(y: Any) -> Any:
        kept.append(y * 2)
        return y

    transform(leaky)(x)
    return kept[0]


@misuse(*LEAK, "leaky", "jit", here=True)
def tracer_leaked_from_jit(ns):
    leaked(ns.jit, 1.0) + 1


@misuse(*LEAK)
def tracer_leaked_from_vmap_into_grad(ns):
    tracer = leaked(ns.vmap, X3)
    ns.grad(lambda y: y * tracer)(1.0)


@misuse(*LEAK)
def tracer_leaked_as_a_result(ns):
    tracer = leaked(ns.jit, 1.0)
    ns.jit(lambda y: tracer)(1.0)


@misuse(*LEAK)
def tracer_leaked_as_an_argument(ns):
    ns.jit(lambda y: y)(leaked(ns.jit, 1.0))


# --- what is no array --------------------------------------------------------------------------------------

NO_TYPE = ("'str'", "is not a valid JAX type")


@misuse(*NO_TYPE, here=True)
def text_out_of_jit(ns):
    ns.jit(lambda x: "hello")(1.0)


@misuse(*NO_TYPE, here=True)
def text_out_of_vmap(ns):
    ns.vmap(lambda x: "hello")(X3)


@misuse("'str'", "static_argnums")
def text_into_jit(ns):
    ns.jit(lambda x: x)("hello")


@misuse("'object'", "x['b'][1]", "static_argnums")
def object_within_a_tree_into_jit(ns):
    ns.jit(lambda x: x)({"b": [1.0, object()]})


@misuse("hello", *NO_TYPE)
def text_into_grad(ns):
    ns.grad(lambda x: x)("hello")


@misuse("sin requires ndarray or scalar arguments, got <class 'list'> at position 0")
def list_into_a_numpy_function(ns):
    ns.numpy.sin([1.0, 2.0])


@misuse("sin", "'list'")
def list_into_a_lax_function(ns):
    ns.lax.sin([1.0, 2.0])


@misuse("unsupported operand type(s) for +", "'list'")
def sum_with_a_list(ns):
    ns.numpy.ones(2) + [1, 2]


@misuse("Expected a callable value, got 3")
def jit_of_a_number(ns):
    ns.jit(3)


# --- grad --------------------------------------------------------------------------------------------------


@misuse("Gradient only defined for scalar-output functions. Output had shape: (3,)")
def grad_of_a_vector(ns):
    ns.grad(ns.numpy.sin)(X3)


@misuse("Gradient only defined for scalar-output functions")
def grad_of_a_pair(ns):
    ns.grad(lambda x: (x, x))(1.0)


@misuse("Gradient only defined for scalar-output functions. Output was None")
def grad_of_none(ns):
    ns.grad(lambda x: None)(1.0)


@misuse("grad requires real- or complex-valued inputs", "but got int32", "allow_int")
def grad_at_an_integer(ns):
    ns.grad(lambda x: x * 1.0)(3)


@misuse("grad requires real-valued outputs", "but got int32")
def grad_of_an_integer_output(ns):
    ns.grad(lambda x: 3)(3.0)


@misuse("requires at least 3 positional arguments", "2")
def grad_argnums_out_of_range(ns):
    ns.grad(ns.numpy.add, argnums=2)(1.0, 2.0)


@misuse("two-element tuple")
def missing_auxiliary_output(ns):
    ns.value_and_grad(lambda x: x, has_aux=True)(1.0)


@misuse("jacfwd requires real-", "valued inputs", "but got int32")
def jacfwd_at_an_integer(ns):
    ns.jacfwd(lambda x: x * 1.0)(3)
