"""``cond`` and ``switch`` used wrongly. Adds rows to the table in ``misuses``."""

import numpy as np

from .misuses import BOOL, LEAK, X3, misuse, wrong

# fmt: off

ONE = np.float32(1.0)

def vector(x):
    return x * np.ones(2, np.float32)

def pair(x):
    return x, x

def truth(x):
    if x > 0:
        return x
    return -x

# --- cond --------------------------------------------------------------------------------------------------
wrong("cond_branches_of_different_dtypes", lambda ns: ns.lax.cond(True, lambda x: x, lambda x: x.astype(int), ONE),
      "cond branches must have equal output types but they differ", "true_fun has type float32[]",
      "false_fun has type int32[]", "the dtypes do not match", here=True, advice=("Revise true_fun and/or false_fun",))
wrong("cond_branches_of_different_shapes", lambda ns: ns.lax.cond(True, lambda x: x, vector, ONE),
      "cond branches must have equal output types but they differ", "float32[]", "float32[2]",
      "the shapes do not match", "false_fun is vector at", here=True)
wrong("cond_branches_with_other_keys", lambda ns: ns.lax.cond(True, lambda x: {"a": x}, lambda x: {"b": x}, ONE),
      "cond branch outputs must have the same pytree structure", "('a',)", "('b',)",
      "the pytree node metadata does not match", here=True, advice=("Revise true_fun and/or false_fun",))
wrong("cond_branches_differ_deep_in_a_tree",
      lambda ns: ns.lax.cond(True, lambda x: {"a": [x, x]}, lambda x: {"a": [x, vector(x)]}, ONE),
      "cond branches must have equal output types", "true_fun at path ['a'][1] has type float32[]", "float32[2]",
      here=True)
wrong("cond_branch_returns_text", lambda ns: ns.lax.cond(True, lambda x: "hello", lambda x: x, ONE), "<lambda> at",
      "traced for cond returned a value of type <class 'str'>, which is not a valid JAX type", here=True,
      advice=("Return arrays",))
wrong("cond_of_a_vector", lambda ns: ns.lax.cond(X3 > 0, lambda x: x, lambda x: -x, X3), "Pred must be a scalar",
      "of shape (3,)", advice=("jnp.where",))
wrong("cond_of_text", lambda ns: ns.lax.cond("yes", lambda x: x, lambda x: -x, ONE),
      "Pred must be a scalar, got yes of type <class 'str'>")
wrong("cond_of_none", lambda ns: ns.lax.cond(None, lambda x: x, lambda x: -x, ONE), "cond predicate is None")
wrong("cond_of_a_complex_number", lambda ns: ns.lax.cond(1j, lambda x: x, lambda x: -x, ONE),
      "Pred type must be either boolean or number, got complex64")
wrong("cond_with_values_for_branches", lambda ns: ns.lax.cond(True, 1.0, 2.0),
      "lax.cond: true_fun and false_fun arguments should be callable", advice=("got 1.0 and 2.0",))
wrong("cond_with_an_operand_that_is_text", lambda ns: ns.lax.cond(True, lambda x, s: x, lambda x, s: -x, ONE, "hello"),
      "'hello' of type <class 'str'> is not a valid JAX type", here=True, advice=("at path s",))
wrong("cond_with_an_operand_twice", lambda ns: ns.lax.cond(True, lambda x: x, lambda x: -x, ONE, operand=ONE),
      "if 'operand' keyword is passed then no positional operands can be passed")
wrong("truth_value_in_a_branch", lambda ns: ns.lax.cond(True, truth, lambda x: x, ONE), *BOOL,
      "The error occurred while tracing the function truth at", "for cond", "it depends on the value of the argument x",
      here=True, advice=("lax.cond",))

@misuse(*LEAK, "branch at", "traced for cond", "created", here=True, advice=("Return the value",))
def tracer_leaked_from_a_branch(ns):
    kept = []

    def branch(x):
        kept.append(x * 2)
        return x

    ns.lax.cond(True, branch, lambda x: x, ONE)
    kept[0] + 1

# --- switch ------------------------------------------------------------------------------------------------
wrong("switch_on_a_float", lambda ns: ns.lax.switch(1.0, [lambda x: x, lambda x: -x], ONE),
      "Index type must be an integer, got 1.0 as float32")
wrong("switch_on_a_vector", lambda ns: ns.lax.switch(np.array([0, 1]), [lambda x: x, lambda x: -x], ONE),
      "Branch index must be scalar, got [0 1] of shape (2,)")
wrong("switch_among_nothing", lambda ns: ns.lax.switch(0, [], ONE), "Empty branch sequence")
wrong("switch_among_values", lambda ns: ns.lax.switch(0, [1.0, 2.0], ONE),
      "lax.switch: branches argument should be a sequence of callables", advice=("branch 0 is 1.0",))
wrong("switch_branches_of_different_shapes", lambda ns: ns.lax.switch(0, [lambda x: x, lambda x: -x, vector], ONE),
      "switch branches must have equal output types", "branch 0 has type float32[]", "branch2 has type float32[2]",
      "vector at", here=True, advice=("Revise branch 0 and/or branch2",))
