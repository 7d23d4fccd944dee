"""Common mistakes: each row is a small program for either library, and the words that its error must contain.

``test_bad_input`` runs the rows of this file, ``missing_rules`` and ``misuses_of_*``. For rows marked ``here`` the
error must also name the program's line in the row's file.
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
    """``program(ns)`` must raise an error with all of ``words``; minijax's error must also contain all of ``advice``.

    The error has JAX's type. If JAX fails later for another reason, ``ours`` names minijax's type.
    """

    name: str
    program: Callable[[Any], Any]
    words: tuple[str, ...]
    here: bool = False
    advice: tuple[str, ...] = ()
    ours: str = ""

    @property
    def file(self):
        """The file's name and a colon: a place in the user's program starts with them."""
        return os.path.basename(self.program.__code__.co_filename) + ":"


TABLE = []


def wrong(name, program, *words, **expected):
    """Add a program to the table; ``expected`` sets further fields of ``Misuse``."""
    assert all(row.name != name for row in TABLE), f"two rows are called {name}"
    TABLE.append(Misuse(name, program, words, **expected))


def misuse(*words, **expected):
    """Decorator: add a program of several statements to the table."""
    return lambda program: wrong(program.__name__, program, *words, **expected)


# fmt: off
# --- functions that go wrong under a transformation --------------------------------------------------------
def choose(x):
    """Python control flow that depends on a value."""
    if x > 0:
        return x
    return -x


BOOL = ("Attempted boolean conversion of traced array with shape bool[]",)
CONCRETE = (
    "Abstract tracer value encountered where concrete value is expected",
    "traced array with shape float32[]",
)

wrong("bool_of_a_tracer_under_jit", lambda ns: ns.jit(choose)(1.0), *BOOL,
      "The error occurred while tracing the function choose", "for jit", here=True, advice=("jnp.where",))
wrong("bool_of_a_tracer_under_vmap", lambda ns: ns.vmap(choose)(X3), *BOOL, here=True, advice=("jnp.where",))
wrong("bool_of_a_vector", lambda ns: bool(ns.numpy.ones(3)),
      "The truth value of an array with more than one element is ambiguous")
wrong("float_of_a_tracer_under_jit", lambda ns: ns.jit(lambda x: float(x))(1.0), *CONCRETE, "float", here=True)
wrong("list_index_by_a_tracer", lambda ns: ns.jit(lambda i: [1, 2, 3][i])(1),
      "__index__() method was called on traced array with shape int32[]", here=True, advice=("static",))
wrong("numpy_array_of_a_tracer", lambda ns: ns.jit(lambda x: np.asarray(x))(1.0),
      "__array__() was called on traced array with shape float32[]", here=True)
wrong("iteration_over_a_scalar", lambda ns: ns.jit(lambda x: list(x))(1.0), "iteration over a 0-d array")

@misuse("immutable", "item assignment")
def item_assignment(ns):
    ns.numpy.ones(3)[0] = 1.0

# --- shapes and dtypes -------------------------------------------------------------------------------------
wrong("sum_of_different_shapes", lambda ns: ns.numpy.ones(3) + ns.numpy.ones(4),
      "add got incompatible shapes for broadcasting: (3,), (4,)")
wrong("lax_sum_of_different_dtypes", lambda ns: ns.lax.add(X3, np.ones(3, np.int32)),
      "lax.add requires arguments to have", "dtypes", "float32, int32")
wrong("dot_of_different_shapes", lambda ns: ns.numpy.dot(np.ones((2, 3)), np.ones((2, 3))),
      "dot_general requires contracting dimensions to have the same shape, got (3,) and (2,)")
wrong("reshape_to_another_size", lambda ns: ns.numpy.ones(6).reshape(4, 2),
      "cannot reshape array of shape (6,) (size 6) into shape (4, 2) (size 8)")
wrong("broadcast_to_another_shape", lambda ns: ns.numpy.broadcast_to(ns.numpy.ones(3), (2, 4)), "ncompatible",
      "broadcasting", "float32[3]", "float32[2,4]")
wrong("concatenation_of_different_widths", lambda ns: ns.numpy.concatenate([np.ones((2, 3)), np.ones((2, 4))]),
      "Cannot concatenate arrays with shapes that differ in dimensions other than the one being concatenated")
wrong("keyword_for_an_alias", lambda ns: ns.numpy.mod(x=1.0), "mod() got an unexpected keyword argument 'x'")
wrong("concatenation_of_nothing", lambda ns: ns.numpy.concatenate([]), "Need at least one array to concatenate")
wrong("sum_over_an_axis_that_is_not_there", lambda ns: ns.numpy.sum(X3, axis=2),
      "axis 2 is out of bounds for array of dimension 1")
wrong("transposition_by_a_non_permutation", lambda ns: ns.numpy.transpose(np.ones((2, 3)), (0, 0)),
      "transpose permutation isn't a permutation of operand dimensions", "(0, 0)")
wrong("too_many_indices", lambda ns: ns.numpy.ones(3)[0, 0], "Too many indices", "1-dimensional", "2 were indexed")
wrong("squeeze_of_a_long_axis", lambda ns: ns.numpy.squeeze(X3, 0), "size not equal to one", "(3,)")
wrong("lax_sine_of_an_integer", lambda ns: ns.lax.sin(3), "sin does not accept dtype int32")
wrong("integer_to_a_negative_power", lambda ns: ns.numpy.arange(3) ** -1, "Integers", "negative", "powers")
wrong("select_by_a_float", lambda ns: ns.lax.select(X3, X3, X3), "must be boolean or integer", "float32")
wrong("pad_value_of_another_dtype", lambda ns: ns.lax.pad(X3, np.int32(0), ((0, 0, 0),)),
      "pad operand and padding_value must be same dtype: got float32 and int32")
wrong("clamp_between_other_shapes", lambda ns: ns.lax.clamp(X3, X4, X3), "clamp requires", "(3,)", "(4,)")
wrong("unknown_dtype", lambda ns: ns.numpy.ones(3, dtype="flot32"), "data type 'flot32' not understood")
wrong("object_dtype", lambda ns: ns.numpy.asarray([1], dtype=object), "object")

# --- vmap's axes -------------------------------------------------------------------------------------------
wrong("in_axes_too_short", lambda ns: ns.vmap(ns.lax.add, in_axes=(0,))(X3, X3),
      "vmap in_axes must be an int, None, or a tuple", "len(in_axes)=1, len(args)=2")
wrong("in_axes_of_another_type", lambda ns: ns.vmap(ns.lax.add, in_axes="a")(X3, X3),
      "vmap in_axes must be an int, None, or a tuple", "but got a")
wrong("in_axes_with_other_keys", lambda ns: ns.vmap(lambda d: d["a"], in_axes=({"b": 0},))({"a": X3}),
      "must be a tree prefix of the corresponding value", "vmap in_axes[0]\n", "'a'", "'b'")
wrong("mapped_sizes_differ_within_a_tree", lambda ns: ns.vmap(lambda d: d["a"] + d["b"])({"a": X3, "b": X4}),
      "vmap got inconsistent sizes for array axes to be mapped", "d['a']", "d['b']", "float32[3]", "float32[4]")
wrong("axis_size_differs", lambda ns: ns.vmap(lambda x: x, axis_size=5)(X3),
      "vmap got inconsistent sizes for array axes to be mapped", "axis_size", "5", "size 3")
wrong("nothing_mapped", lambda ns: ns.vmap(ns.lax.add, in_axes=None)(X3, X3),
      "vmap must have at least one non-None value in in_axes")
wrong("nothing_to_map", lambda ns: ns.vmap(lambda: 1.0)(),
      "vmap wrapped function must be passed at least one argument containing an array")
wrong("out_axes_none_of_a_batched_output", lambda ns: ns.vmap(lambda x: x, out_axes=None)(X3), "vmap", "out_axes",
      "None")
wrong("out_axes_not_a_prefix", lambda ns: ns.vmap(lambda x: x, out_axes=(0, 1))(X3),
      "must be a tree prefix of the corresponding value", "vmap out_axes", "tuple")
wrong("out_axes_out_of_range", lambda ns: ns.vmap(lambda x: x, out_axes=2)(X3),
      "out of bounds for array of dimension 1")

# --- static arguments --------------------------------------------------------------------------------------
wrong("unhashable_static_argument", lambda ns: ns.jit(lambda x, n: x, static_argnums=1)(1.0, [1]),
      "Non-hashable static arguments are", "list", "[1]")
wrong("static_argnums_out_of_range", lambda ns: ns.jit(lambda x: x, static_argnums=3)(1.0), "static_argnums=(3,)",
      "but only accepts 1 positional arguments")
wrong("unknown_static_argname", lambda ns: ns.jit(lambda x: x, static_argnames="q")(1.0),
      "invalid argnames {'q'} in static_argnames")
wrong("missing_argument", lambda ns: ns.jit(lambda x, y: x)(1.0), "missing 1 required positional argument: 'y'")

# --- trees and types of tangents and cotangents ------------------------------------------------------------
wrong("tangents_of_another_structure", lambda ns: ns.jvp(lambda p: p[0], ((1.0, 2.0),), ([1.0, 2.0],)),
      "must have the same tree structure", "PyTreeDef(((*, *),))", "PyTreeDef(([*, *],))")
wrong("primals_not_in_a_tuple", lambda ns: ns.jvp(ns.numpy.sin, 1.0, 1.0),
      "must be tuples or lists; found float and float")
wrong("tangent_of_another_shape", lambda ns: ns.jvp(ns.numpy.sin, (X3,), (X4,)), "different primal and tangent shapes",
      "(3,)", "(4,)")
wrong("tangent_of_another_dtype", lambda ns: ns.jvp(ns.numpy.sin, (X3,), (np.ones(3, np.int32),)),
      "dtypes must be equal", "float32", "int32")
wrong("float_tangent_of_an_integer", lambda ns: ns.jvp(lambda x: x, (3,), (1.0,)), "tangent dtype must be float0",
      "int32", "float32")
wrong("cotangent_of_another_structure", lambda ns: ns.vjp(lambda x: (x, x), 1.0)[1]([1.0, 2.0]),
      "unexpected tree structure", "tuple", "list")
wrong("cotangent_of_another_shape", lambda ns: ns.vjp(ns.numpy.sin, X3)[1](X4), "for argument to", "got",
      "32[4], but expected", "32[3]")
wrong("linear_map_of_another_structure", lambda ns: ns.linearize(lambda p: p[0], (1.0, 2.0))[1]([1.0, 2.0]))
wrong("linear_map_of_another_shape", lambda ns: ns.linearize(ns.numpy.sin, X3)[1](X4),
      "linearized function called on tangent values inconsistent with the original primal values", "float32[4]")

# --- leaks -------------------------------------------------------------------------------------------------
LEAK = (
    "Encountered an unexpected tracer",
    "had a side effect",
    "float32[]",
    "escape the scope of the transformation",
)

def leaked(transform, x):
    """Return a leaked tracer."""
    kept = []

    def leaky(y):
        kept.append(y * 2)
        return y

    transform(leaky)(x)
    return kept[0]

wrong("tracer_leaked_from_jit", lambda ns: leaked(ns.jit, 1.0) + 1, *LEAK, "leaky", "jit", here=True)

@misuse(*LEAK)
def tracer_leaked_from_vmap_into_grad(ns):
    tracer = leaked(ns.vmap, X3)
    ns.grad(lambda y: y * tracer)(1.0)

@misuse(*LEAK)
def tracer_leaked_as_a_result(ns):
    tracer = leaked(ns.jit, 1.0)
    ns.jit(lambda y: tracer)(1.0)

wrong("tracer_leaked_as_an_argument", lambda ns: ns.jit(lambda y: y)(leaked(ns.jit, 1.0)), *LEAK)

# --- objects that are not arrays ---------------------------------------------------------------------------
NO_TYPE = ("'str'", "is not a valid JAX type")

wrong("text_out_of_jit", lambda ns: ns.jit(lambda x: "hello")(1.0), *NO_TYPE, here=True)
wrong("text_out_of_vmap", lambda ns: ns.vmap(lambda x: "hello")(X3), *NO_TYPE, here=True)
wrong("text_into_jit", lambda ns: ns.jit(lambda x: x)("hello"), "'str'", "static_argnums")
wrong("object_within_a_tree_into_jit", lambda ns: ns.jit(lambda x: x)({"b": [1.0, object()]}), "'object'", "x['b'][1]",
      "static_argnums")
wrong("text_into_grad", lambda ns: ns.grad(lambda x: x)("hello"), "hello", *NO_TYPE)
wrong("list_into_a_numpy_function", lambda ns: ns.numpy.sin([1.0, 2.0]),
      "sin requires ndarray or scalar arguments, got <class 'list'> at position 0")
wrong("sum_with_a_list", lambda ns: ns.numpy.ones(2) + [1, 2], "unsupported operand type(s) for +", "'list'")
wrong("jit_of_a_number", lambda ns: ns.jit(3), "Expected a callable value, got 3")

# --- grad --------------------------------------------------------------------------------------------------
wrong("grad_of_a_vector", lambda ns: ns.grad(ns.numpy.sin)(X3),
      "Gradient only defined for scalar-output functions. Output had shape: (3,)")
wrong("grad_of_a_pair", lambda ns: ns.grad(lambda x: (x, x))(1.0), "Gradient only defined for scalar-output functions")
wrong("grad_of_none", lambda ns: ns.grad(lambda x: None)(1.0),
      "Gradient only defined for scalar-output functions. Output was None")
wrong("grad_at_an_integer", lambda ns: ns.grad(lambda x: x * 1.0)(3), "grad requires real- or complex-valued inputs",
      "but got int32", "allow_int")
wrong("grad_of_an_integer_output", lambda ns: ns.grad(lambda x: 3)(3.0), "grad requires real-valued outputs",
      "but got int32")
wrong("grad_argnums_out_of_range", lambda ns: ns.grad(ns.numpy.add, argnums=2)(1.0, 2.0),
      "requires at least 3 positional arguments", "2")
wrong("missing_auxiliary_output", lambda ns: ns.value_and_grad(lambda x: x, has_aux=True)(1.0), "two-element tuple")
wrong("jacfwd_at_an_integer", lambda ns: ns.jacfwd(lambda x: x * 1.0)(3), "jacfwd requires real-", "valued inputs",
      "but got int32")
