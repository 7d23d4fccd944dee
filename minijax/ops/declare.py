"""Declares the rules of the primitives that are not in the elementwise table, each primitive in one call.

``declare`` puts each rule into the table of its interpreter. For a rule that cannot exist, the table has a reason:
the primitive is not linear, its derivative is zero, or JAX has none. The reason follows from the arguments
``transpose``, ``jvp`` and ``derivative``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.core.rules import Axes, Dims, Ints, Rule, depends_on_types
from minijax.interpreters.evaluate import numpy_rules
from minijax.interpreters.jvp import jvp_rules
from minijax.interpreters.linear_parts import linearize_rules
from minijax.interpreters.partial_eval import dce_rules, partial_eval_jaxpr_rules, partial_eval_rules
from minijax.interpreters.program import program_makers
from minijax.interpreters.recompute import recompute_rules
from minijax.interpreters.stage import staging_rules
from minijax.interpreters.transpose import transpose_rules
from minijax.interpreters.vmap import axis_rules, batching_rules
from minijax.ir.pretty import eqn_rules, parse_rules, pp_rules
from minijax.ir.typecheck import typecheck_rules
from minijax.lowering.lower import lowering_rules, physical_rules
from minijax.ops.nary import NO_DERIVATIVE, NONE_IN_JAX, ZERO, deflinear, nary_jvp, zero_jvp

TABLES: dict[str, dict[Any, Any]] = {
    "numpy": numpy_rules,
    "stage": staging_rules,
    "jvp": jvp_rules,
    "linearize": linearize_rules,
    "batch": batching_rules,
    "axis_batch": axis_rules,
    "partial_eval": partial_eval_rules,
    "partial_eval_jaxpr": partial_eval_jaxpr_rules,
    "recompute": recompute_rules,
    "dce": dce_rules,
    "transpose": transpose_rules,
    "lower": lowering_rules,
    "lower_keys": physical_rules,
    "program": program_makers,
    "typecheck": typecheck_rules,
    "shown": pp_rules,
    "shown_eqn": eqn_rules,
    "parse": parse_rules,
}


def set_rules(primitive: Primitive, **rules: Any) -> None:
    """Put rules of ``primitive`` into their tables. Each keyword is the table's name in ``TABLES``."""
    for name, rule in rules.items():
        TABLES[name][primitive] = rule


def declare(
    primitive: str | Primitive,
    *,
    abstract: Rule,
    numpy: Rule,
    lower: Rule,
    batch: Rule | None = None,
    transpose: Rule | None = None,
    jvp: Rule | None = None,
    derivative: Any = None,
    multiple_results: bool = False,
    words: Rule | None = None,
    takes_keys: bool = False,
    sharding: str = "",
) -> Primitive:
    """Make a primitive with its rules in every table.

    Args:
      primitive: its name, or the primitive if it exists already.
      abstract: maps ``(*avals, **params)`` to the result's aval; raises TypeError or ValueError for wrong operands.
      numpy: maps ``(*values, **params)`` to the value, in the dtype of the abstract evaluation.
      lower: maps ``(ctx, in_avals, out_avals, *names, **params)`` to the result's name.
      batch: maps ``(args, dims, **params)`` to the result and its batch axis; by default the axis stays in place.
      transpose: maps ``(ct, *args, **params)`` to the cotangents of the operands.
      jvp: maps ``(primals, tangents, **params)`` to the pair of results; not needed if all operands are linear.
      derivative: replaces ``jvp``: one operand's derivative or a list of derivatives (see ``ops.nary``), ZERO or
        NO_DERIVATIVE.
      multiple_results: whether ``bind`` returns a list.
      words: maps ``(in_avals, out_avals, params)`` to the parameters for the raw words of keys, which have one more
          dimension.
      takes_keys: whether operands may be random keys; ``words`` implies this.
      sharding: the name of the parameter that gives the sharding of the result, if there is one.
    """
    p = Primitive(primitive, multiple_results) if isinstance(primitive, str) else primitive
    p.def_abstract_eval(abstract)
    numpy_rules[p] = numpy
    lowering_rules[p] = lower
    p.sharding_param = sharding
    p.refuses_keys = words is None and not takes_keys
    if words is not None:
        physical_rules[p] = lower_words(lower, words)
    batching_rules[p] = batch or axis_stays(p)
    if transpose is not None and jvp is None:
        deflinear(p, transpose)
    elif transpose is not None:
        transpose_rules[p] = transpose
    if jvp is not None:
        jvp_rules[p] = depends_on_types(jvp)
    elif derivative is NO_DERIVATIVE:
        jvp_rules.holes[p] = NONE_IN_JAX
    elif derivative is ZERO:
        jvp_rules[p] = zero_jvp(p)
    elif derivative is not None:
        jvp_rules[p] = depends_on_types(nary_jvp(p, derivative if isinstance(derivative, list) else [derivative]))
    if transpose is None:
        why = "its derivative is zero, nothing is transposed" if derivative is ZERO else "not linear"
        transpose_rules.holes[p] = why
    return p


def lower_words(lower: Rule, words: Rule) -> Rule:
    """The lowering on keys: ``lower`` with the parameters that ``words(in_avals, out_avals, params)`` returns."""

    def words_lower(ctx: Any, avals: Any, out_avals: Any, *names: str, **params: Any) -> Any:
        return lower(ctx, avals, out_avals, *names, **words(avals, out_avals, params))

    return words_lower


def trailing(dims: Ints, ndim: int, last: int) -> Axes:
    """``dims`` extended to ``ndim`` entries by the words' dimensions, which are the last ones before ``last``."""
    return (*dims, *range(last - (ndim - len(dims)), last))


def axis_stays(primitive: Primitive) -> Rule:
    """The batching rule of a primitive of one operand that treats every axis alike."""

    def vectorized_batch(args: Sequence[Any], dims: Dims, **params: Any) -> Any:
        (x,), (dim,) = args, dims
        return primitive.bind(x, **params), dim

    return vectorized_batch


def same_aval(x: ShapedArray, **params: Any) -> ShapedArray:
    """The abstract evaluation of a primitive whose result has its operand's type."""
    return x


def unchanged(x: Any, **params: Any) -> Any:
    """The NumPy rule of a primitive that returns its operand."""
    return x


def operand_lower(ctx: Any, avals: Any, out_avals: Any, x: str, **params: Any) -> str:
    """The lowering of a primitive that emits no operation: the operand's own name."""
    return x


def all_weak(avals: Sequence[ShapedArray]) -> bool:
    return all(a.weak_type for a in avals)
