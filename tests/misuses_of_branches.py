"""``cond`` and ``switch`` used wrongly. More rows of the table in ``misuses``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .misuses import BOOL, LEAK, X3, misuse

ONE = np.float32(1.0)


def vector(x: Any) -> Any:
    """A carry of another shape."""
    return x * np.ones(2, np.float32)


def pair(x: Any) -> Any:
    """A carry of another tree."""
    return x, x


def truth(x: Any) -> Any:
    """The truth value of what is traced."""
    if x > 0:
        return x
    return -x


# --- cond --------------------------------------------------------------------------------------------------


@misuse(
    "cond branches must have equal output types but they differ",
    "true_fun has type float32[]",
    "false_fun has type int32[]",
    "the dtypes do not match",
    here=True,
    advice=("Revise true_fun and/or false_fun",),
)
def cond_branches_of_different_dtypes(ns):
    ns.lax.cond(True, lambda x: x, lambda x: x.astype(int), ONE)


@misuse(
    "cond branches must have equal output types but they differ",
    "float32[]",
    "float32[2]",
    "the shapes do not match",
    "false_fun is vector at",
    here=True,
)
def cond_branches_of_different_shapes(ns):
    ns.lax.cond(True, lambda x: x, vector, ONE)


@misuse(
    "cond branch outputs must have the same pytree structure",
    "('a',)",
    "('b',)",
    "the pytree node metadata does not match",
    here=True,
    advice=("Revise true_fun and/or false_fun",),
)
def cond_branches_with_other_keys(ns):
    ns.lax.cond(True, lambda x: {"a": x}, lambda x: {"b": x}, ONE)


@misuse(
    "cond branches must have equal output types",
    "true_fun at path ['a'][1] has type float32[]",
    "float32[2]",
    here=True,
)
def cond_branches_differ_deep_in_a_tree(ns):
    ns.lax.cond(True, lambda x: {"a": [x, x]}, lambda x: {"a": [x, vector(x)]}, ONE)


@misuse(
    "<lambda> at",
    "traced for cond returned a value of type <class 'str'>, which is not a valid JAX type",
    here=True,
    advice=("Return arrays",),
)
def cond_branch_returns_text(ns):
    ns.lax.cond(True, lambda x: "hello", lambda x: x, ONE)


@misuse("Pred must be a scalar", "of shape (3,)", advice=("jnp.where",))
def cond_of_a_vector(ns):
    ns.lax.cond(X3 > 0, lambda x: x, lambda x: -x, X3)


@misuse("Pred must be a scalar, got yes of type <class 'str'>")
def cond_of_text(ns):
    ns.lax.cond("yes", lambda x: x, lambda x: -x, ONE)


@misuse("cond predicate is None")
def cond_of_none(ns):
    ns.lax.cond(None, lambda x: x, lambda x: -x, ONE)


@misuse("Pred type must be either boolean or number, got complex64")
def cond_of_a_complex_number(ns):
    ns.lax.cond(1j, lambda x: x, lambda x: -x, ONE)


@misuse("lax.cond: true_fun and false_fun arguments should be callable", advice=("got 1.0 and 2.0",))
def cond_with_values_for_branches(ns):
    ns.lax.cond(True, 1.0, 2.0)


@misuse("'hello' of type <class 'str'> is not a valid JAX type", here=True, advice=("at path s",))
def cond_with_an_operand_that_is_text(ns):
    ns.lax.cond(True, lambda x, s: x, lambda x, s: -x, ONE, "hello")


@misuse("if 'operand' keyword is passed then no positional operands can be passed")
def cond_with_an_operand_twice(ns):
    ns.lax.cond(True, lambda x: x, lambda x: -x, ONE, operand=ONE)


@misuse(
    *BOOL,
    "The error occurred while tracing the function truth at",
    "for cond",
    "it depends on the value of the argument x",
    here=True,
    advice=("lax.cond",),
)
def truth_value_in_a_branch(ns):
    ns.lax.cond(True, truth, lambda x: x, ONE)


@misuse(*LEAK, "branch at", "traced for cond", "created", here=True, advice=("Return the value",))
def tracer_leaked_from_a_branch(ns):
    kept = []

    def branch(x):
        kept.append(x * 2)
        return x

    ns.lax.cond(True, branch, lambda x: x, ONE)
    kept[0] + 1


# --- switch ------------------------------------------------------------------------------------------------


@misuse("Index type must be an integer, got 1.0 as float32")
def switch_on_a_float(ns):
    ns.lax.switch(1.0, [lambda x: x, lambda x: -x], ONE)


@misuse("Branch index must be scalar, got [0 1] of shape (2,)")
def switch_on_a_vector(ns):
    ns.lax.switch(np.array([0, 1]), [lambda x: x, lambda x: -x], ONE)


@misuse("Empty branch sequence")
def switch_among_nothing(ns):
    ns.lax.switch(0, [], ONE)


@misuse("lax.switch: branches argument should be a sequence of callables", advice=("branch 0 is 1.0",))
def switch_among_values(ns):
    ns.lax.switch(0, [1.0, 2.0], ONE)


@misuse(
    "switch branches must have equal output types",
    "branch 0 has type float32[]",
    "branch2 has type float32[2]",
    "vector at",
    here=True,
    advice=("Revise branch 0 and/or branch2",),
)
def switch_branches_of_different_shapes(ns):
    ns.lax.switch(0, [lambda x: x, lambda x: -x, vector], ONE)
