"""Loops and scans used wrongly. Adds rows to the table in ``misuses``."""

import numpy as np

from .misuses import BOOL, LEAK, X3, X4, misuse, wrong

# fmt: off
from .misuses_of_branches import ONE, pair, truth, vector

NO_REVERSE = (
    "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with dynamic start/stop values",
)

# --- while_loop --------------------------------------------------------------------------------------------
wrong("while_carry_changes_its_dtype", lambda ns: ns.lax.while_loop(lambda c: c < 3, lambda c: c > 0, ONE),
      "while_loop body function carry input and carry output must have equal types, but they differ",
      "The input carry c has type float32[]", "has type bool[], so the dtypes do not match",
      advice=("Revise the function",))
wrong("while_carry_changes_its_tree", lambda ns: ns.lax.while_loop(lambda c: c < 3, pair, ONE),
      "while_loop body function carry input and carry output must have the same pytree structure, but they differ",
      "The input carry x is a", "<class 'tuple'>, so their Python types differ", advice=("Revise the function",))
wrong("while_carry_part_changes_its_type",
      lambda ns: ns.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1].astype(int)), (0, ONE)),
      "The input carry component c[1] has type float32[]", "int32[], so the dtypes do not match",
      advice=("Revise the function",))
wrong("while_body_returns_text", lambda ns: ns.lax.while_loop(lambda c: c < 3, lambda c: "hello", ONE), "<lambda> at",
      "traced for while_body returned a value of type <class 'str'>", here=True, advice=("Return arrays",))
wrong("while_condition_is_a_number", lambda ns: ns.lax.while_loop(lambda c: c, lambda c: c - 1, ONE),
      "cond_fun must return a boolean scalar, but got output type(s)", "float32[]", advice=("Compare it",))
wrong("while_condition_is_a_vector", lambda ns: ns.lax.while_loop(lambda c: c < 3, lambda c: c + 1, X3),
      "cond_fun must return a boolean scalar, but got output type(s)", "bool[3]", advice=("jnp.all",))
wrong("while_condition_is_a_pair", lambda ns: ns.lax.while_loop(lambda c: (c < 3, c > 0), lambda c: c + 1, ONE),
      "cond_fun must return a boolean scalar, but got pytree PyTreeDef((*, *))", advice=("jnp.logical_and",))
wrong("while_condition_returns_nothing", lambda ns: ns.lax.while_loop(lambda c: None, lambda c: c + 1, ONE),
      "cond_fun must return a boolean scalar, but got pytree PyTreeDef(None)", advice=("Return a comparison",))
wrong("while_condition_uses_and",
      lambda ns: ns.lax.while_loop(lambda c: c[0] < 3 and c[1] < 3, lambda c: (c[0] + 1, c[1]), (0, ONE)), *BOOL,
      "for while_cond", "it depends on the value of the argument c[0]", here=True)
wrong("while_condition_is_not_callable", lambda ns: ns.lax.while_loop(True, lambda c: c + 1, ONE),
      "lax.while_loop: body_fun and cond_fun arguments should be callable")
wrong("while_starts_at_a_tree_with_text",
      lambda ns: ns.lax.while_loop(lambda c: True, lambda c: c, {"a": ONE, "b": ["hello"]}),
      "'hello' of type <class 'str'> is not a valid JAX type", here=True, advice=("at path c['b'][0]",))
wrong("while_in_reverse_mode",
      lambda ns: ns.grad(lambda x: ns.lax.while_loop(lambda c: c < 3, lambda c: c * 2, x))(1.0), *NO_REVERSE,
      advice=("lax.scan", "misuses_of_loops.py:"))

# --- fori_loop ---------------------------------------------------------------------------------------------
wrong("fori_in_reverse_mode_with_traced_bounds_under_jit",
      lambda ns: ns.grad(ns.jit(lambda x, n: ns.lax.fori_loop(0, n, lambda i, c: c * 2, x)))(1.0, 3), *NO_REVERSE,
      advice=("lax.fori_loop with a start and a stop that are Python integers", "misuses_of_loops.py:"))
wrong("fori_to_a_float", lambda ns: ns.lax.fori_loop(0, 3.0, lambda i, c: c, ONE),
      "lower and upper arguments to fori_loop must have equal types, got int32 and float32", advice=("Convert",))
wrong("fori_to_a_vector", lambda ns: ns.lax.fori_loop(0, np.arange(3), lambda i, c: c, ONE),
      "cond_fun must return a boolean scalar, but got output type(s)", "bool[3]")
wrong("fori_carry_changes_its_shape", lambda ns: ns.lax.fori_loop(0, 3, lambda i, c: vector(c), ONE),
      "scan body function carry input and carry output must have equal types, but they differ",
      "loop_carry[1] has type float32[]", "float32[2], so the shapes do not match", advice=("Revise the function",))
wrong("fori_carry_changes_its_shape_with_traced_bounds",
      lambda ns: ns.jit(lambda n: ns.lax.fori_loop(0, n, lambda i, c: vector(c), ONE))(3),
      "body function carry input and carry output must have equal types, but they differ", "has type float32[]",
      "float32[2], so the shapes do not match", advice=("The input carry c",))
wrong("fori_index_into_a_list", lambda ns: ns.lax.fori_loop(0, 3, lambda i, c: c + [1.0, 2.0, 3.0][i], ONE),
      "The __index__() method was called on traced array with shape int32[]", "for fori_loop",
      "it depends on the value of the argument i", here=True, advice=("jnp.array",))
wrong("fori_up_to_a_traced_range",
      lambda ns: ns.jit(lambda n: ns.lax.scan(lambda c, i: (c + i, None), 0, ns.numpy.arange(n)))(3),
      "Abstract tracer value encountered where concrete value is expected", "jnp.arange argument 'stop'",
      "it depends on the value of the argument n", here=True, advice=("static",))
wrong("fori_unrolled_with_traced_bounds",
      lambda ns: ns.jit(lambda n: ns.lax.fori_loop(0, n, lambda i, c: c * 2, ONE, unroll=2))(3),
      "Can only use `unroll` in `fori_loop` if the loop bounds are statically known")
wrong("fori_body_is_not_callable", lambda ns: ns.lax.fori_loop(0, 3, 4, ONE),
      "lax.fori_loop: body_fun argument should be callable", advice=("got 4",))

# --- scan --------------------------------------------------------------------------------------------------
wrong("scan_body_returns_no_pair", lambda ns: ns.lax.scan(lambda c, x: c + x, ONE, X3),
      "scan body output must be a pair, got", "float32[]", advice=("Return (carry, y)",))
wrong("scan_carry_changes_its_shape", lambda ns: ns.lax.scan(lambda c, x: (vector(c), x), ONE, X3),
      "scan body function carry input and carry output must have equal types, but they differ",
      "The input carry c has type float32[]", "float32[2], so the shapes do not match", advice=("Revise the function",))
wrong("scan_carry_differs_in_two_places",
      lambda ns: ns.lax.scan(lambda c, x: ((vector(c[0]), c[1].astype(int)), x), (ONE, ONE), X3),
      "* the input carry component c[0] has type float32[]", "* the input carry component c[1] has type float32[]",
      "int32[], so the dtypes do not match", advice=("Revise the function",))
wrong("scan_over_different_lengths", lambda ns: ns.lax.scan(lambda c, x: (c, x[0] + x[1]), ONE, (X3, X4)),
      "scan got values with different leading axis sizes: 3, 4")
wrong("scan_over_a_scalar", lambda ns: ns.lax.scan(lambda c, x: (c, x), ONE, 3.0),
      "scan got value with no leading axis to scan over", advice=("float32[]", "Close over"))
wrong("scan_over_nothing", lambda ns: ns.lax.scan(lambda c, x: (c, x), ONE),
      "scan got no values to scan over and `length` not provided")
wrong("scan_length_differs", lambda ns: ns.lax.scan(lambda c, x: (c, x), ONE, X3, length=4),
      "scan got `length` argument of 4 which disagrees with leading axis sizes [3]")
wrong("scan_length_is_text", lambda ns: ns.lax.scan(lambda c, x: (c, x), ONE, None, length="three"), "three")
wrong("scan_length_is_traced",
      lambda ns: ns.jit(lambda n: ns.lax.scan(lambda c, x: (c + 1, None), ONE, None, length=n))(3),
      "Abstract tracer value encountered where concrete value is expected",
      "The `length` argument to `scan` expects a concrete `int` value", "`while_loop` or `fori_loop`", "the argument n",
      here=True)
wrong("scan_of_a_number", lambda ns: ns.lax.scan(3, ONE, X3), "lax.scan: f argument should be a callable",
      advice=("got 3",))
wrong("scan_starts_at_a_tree_with_text", lambda ns: ns.lax.scan(lambda c, x: (c, x), {"a": [ONE, "hello"]}, X3),
      "'hello' of type <class 'str'> is not a valid JAX type", here=True, advice=("at path c['a'][1]",))
wrong("scan_gives_text", lambda ns: ns.lax.scan(lambda c, x: (c, "hello"), ONE, X3),
      "traced for scan returned a value of type <class 'str'> at output component [1]", here=True,
      advice=("Return arrays",))
wrong("truth_value_in_a_scan", lambda ns: ns.lax.scan(lambda c, x: (truth(c), x), ONE, X3), *BOOL, "for scan",
      "it depends on the value of the argument c", here=True, advice=("lax.cond",))
wrong("scan_unrolled_negatively", lambda ns: ns.lax.scan(lambda c, x: (c, x), ONE, X3, unroll=-1),
      "`unroll` must be a `bool` or a non-negative `int`", advice=("-1",))

@misuse(*LEAK, "body at", "traced for scan", "created", here=True, advice=("Return the value",))
def tracer_leaked_from_a_scan(ns):
    kept = []

    def body(c, x):
        kept.append(c * 2)
        return c, x

    ns.lax.scan(body, ONE, X3)
    kept[0] + 1

# --- map and associative_scan ------------------------------------------------------------------------------
wrong("map_in_negative_batches", lambda ns: ns.lax.map(lambda x: x, X3, batch_size=-2),
      advice=("batch_size must not be negative, got -2",))
wrong("associative_scan_of_a_number", lambda ns: ns.lax.associative_scan(3, X3),
      "lax.associative_scan: fn argument should be callable", advice=("got 3",))
wrong("associative_scan_over_different_lengths",
      lambda ns: ns.lax.associative_scan(lambda a, b: (a[0] + b[0], a[1] + b[1]), (X3, X4)),
      "Array inputs to associative_scan must have the same first dimension. (saw: [(3,), (4,)]")
wrong("associative_scan_over_an_axis_that_is_not_there", lambda ns: ns.lax.associative_scan(ns.numpy.add, X3, axis=1),
      "axis 1 is out of bounds for array of dimension 1")
wrong("associative_scan_loses_a_part", lambda ns: ns.lax.associative_scan(lambda a, b: a[0] + b[0], (X3, X3)),
      "Too few leaves for PyTreeDef", "; expected 2, got 1", advice=("a tree like its arguments",))
