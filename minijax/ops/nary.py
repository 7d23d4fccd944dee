"""Builds a primitive with all its rules from a row of the elementwise table.

An elementwise primitive takes operands of one shape; scalars and dimensions of size 1 are repeated.
``sin, sin_p = unary("sin", INEXACT, np.sin, "sine", sin_derivative, doc)`` makes the primitive, its rules for
abstract evaluation, batching and lowering, and the function ``lax.sin`` of the operands.

A derivative ``rule(g, ans, *primals, **params)`` returns the tangent of the result for the tangent ``g`` of one
operand; ``ans`` is the primal result. ``ZERO`` marks piecewise constant functions, and ``NO_DERIVATIVE`` marks
functions without a derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Protocol

from minijax.core import avals as types
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import Avals, ShapedArray, dtype_name, sharding_of_type
from minijax.core.primitive import Primitive
from minijax.core.rules import Dims, Names, Rule, Shape, Values, depends_on_types, rename
from minijax.core.structural import (
    UndefinedPrimal,
    Zero,
    add_tangents,
    broadcast,
    broadcast_in_dim_p,
    expand_dims,
    instantiate_zeros,
    moveaxis,
    zero_of,
    zero_tangent,
)
from minijax.interpreters.evaluate import numpy_rules
from minijax.interpreters.jvp import jvp_rules
from minijax.interpreters.transpose import transpose_rules
from minijax.interpreters.vmap import batching_rules
from minijax.lowering.lower import lowering_rules
from minijax.lowering.text import Line, line_rules, mlir_type

# The dtype kinds that an operand may have: the letters of ``dtypes.kind``.
FLOAT, INT, INEXACT, NUM, ANY = "f", "iu", "fc", "iufc", "biufc"
BOOL_OR_INT, ORDERED, KEY = "biu", "biuf", "k"
_KIND_NAMES = {"f": "floating", "c": "complexfloating", "i": "integer", "u": "integer", "b": "bool", "k": "prng_key"}

elementwise_primitives: set[Primitive] = set()


class _Mark:
    """The type of ``ZERO`` and ``NO_DERIVATIVE``, which a row of the table has in place of derivative rules."""


ZERO = _Mark()
NO_DERIVATIVE = _Mark()
NONE_IN_JAX = "JAX has no derivative of it either"


def check_kinds(name: str, accepts: Names, avals: Avals) -> None:
    """Raise TypeError, with JAX's text, if the kind of an operand's dtype is not among the kinds in ``accepts``."""
    for i, (kinds, aval) in enumerate(zip(accepts, avals, strict=True)):
        if dtypes.kind(aval.dtype) in kinds:
            continue
        if aval.dtype == dtypes.float0:
            raise TypeError(
                f"Called {name} with a float0 at position {i}. float0s do not support any operations by design: they "
                "are the tangents of integers and booleans. Did you differentiate with respect to an integer argument?"
            )
        names = ", ".join(dict.fromkeys(_KIND_NAMES[k] for k in kinds))
        where = f" at position {i}" if len(avals) > 1 else ""
        raise TypeError(
            f"{name} does not accept dtype {dtype_name(aval.dtype)}{where}. "
            f"Accepted dtypes{where} are subtypes of {names}."
        )


def check_same_dtypes(name: str, avals: Avals) -> None:
    """Raise TypeError, with JAX's text, if the operands' dtypes differ."""
    if any(a.dtype != avals[0].dtype for a in avals):
        found = ", ".join(dtype_name(a.dtype) for a in avals)
        raise TypeError(
            f"lax.{name} requires arguments to have equal dtypes, got {found}. "
            "(Tip: jnp functions convert by themselves; or call lax.convert_element_type.)"
        )


def broadcast_shape(name: str, shapes: Sequence[Shape]) -> Shape:
    """The shape to which elementwise operands broadcast: scalars and sizes of 1 repeat. TypeError if there is none."""
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    ranked = [s for s in shapes if s]
    if len({len(s) for s in ranked}) > 1:
        got = ", ".join(map(str, shapes))
        raise TypeError(f"{name}: arrays must have the same number of dimensions, got {got}.")
    out = []
    for sizes in zip(*ranked, strict=True):
        wide = {d for d in sizes if d != 1}
        if len(wide) > 1:
            got = ", ".join(map(str, shapes))
            raise TypeError(f"{name} got incompatible shapes for broadcasting: {got}.")
        out.append(wide.pop() if wide else 1)
    return tuple(out)


def unbroadcast(aval: ShapedArray, ct: Any) -> Any:
    """The cotangent ``ct`` summed back to the shape of the operand of type ``aval``."""
    shape = get_aval(ct).shape
    sharding = sharding_of_type(aval, get_aval(ct)) if types.sharded_types_made else None
    if shape == aval.shape:
        if sharding is None or sharding_of_type(get_aval(ct)) == sharding:
            return ct
        return reshape_p.bind(ct, new_sizes=shape, dimensions=None, sharding=sharding)
    if not aval.shape:
        return reduce_sum_p.bind(ct, axes=tuple(range(len(shape))), out_sharding=None)
    axes = tuple(i for i, (a, b) in enumerate(zip(shape, aval.shape, strict=True)) if a != b)
    summed = reduce_sum_p.bind(ct, axes=axes, out_sharding=None)
    return reshape_p.bind(summed, new_sizes=aval.shape, dimensions=None, sharding=sharding)


def maybe_broadcast(shape: Shape, x: Any, sharding: Any = None) -> Any:
    """``x`` broadcast to ``shape`` like an elementwise operand, with ``sharding`` if one is given."""
    own = get_aval(x).shape
    if own == shape:
        return x
    kept = tuple(i for i, (a, b) in enumerate(zip(own, shape, strict=False)) if a == b)
    if len(kept) < len(own):  # remove the dimensions of size 1 that are to grow
        x = reshape_p.bind(x, new_sizes=tuple(own[i] for i in kept), dimensions=None, sharding=None)
    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=kept, sharding=sharding)


# Declared here because transposes need them; ``ops.reduce``, ``ops.shape`` and ``ops.elementwise`` set their rules.
reduce_sum_p = Primitive("reduce_sum")
reshape_p = Primitive("reshape")
eq_p = Primitive("eq")


def nary_batching(primitive: Primitive) -> Rule:
    def nary_batch(args: Values, dims: Dims, **params: Any) -> Any:
        if len(args) == 1:
            return primitive.bind(args[0], **params), dims[0]
        shape, dim = next((get_aval(x).shape, d) for x, d in zip(args, dims, strict=True) if d is not None)
        avals = [get_aval(x) for x in args]
        if all(not a.shape or (a.shape == shape and d == dim) for a, d in zip(avals, dims, strict=True)):
            return primitive.bind(*args, **params), dim
        # an operand without a batch axis gets one of size 1, which the primitive repeats
        fronted = [
            (broadcast(x, 1, 0) if d is None else moveaxis(x, d, 0)) if a.shape else x
            for x, d, a in zip(args, dims, avals, strict=True)
        ]
        ndim = max(get_aval(x).ndim for x in fronted)
        ranked = [
            x if d is None or get_aval(x).ndim == ndim else expand_dims(x, tuple(range(get_aval(x).ndim, ndim)))
            for x, d in zip(fronted, dims, strict=True)
        ]
        return primitive.bind(*ranked, **params), 0

    return nary_batch


def nary_jvp(primitive: Primitive, derivatives: Sequence[Rule | None]) -> Rule:
    """The jvp rule that sums the contributions of the operands' tangents."""
    if len(derivatives) == 1 and derivatives[0] is not None:
        derivative = derivatives[0]

        def unary_jvp(primals: Values, tangents: Values, **params: Any) -> Any:
            (x,) = primals
            ans = primitive.bind(x, **params)
            return ans, derivative(tangents[0], ans, x, **params)

        return unary_jvp

    def sum_jvp(primals: Values, tangents: Values, **params: Any) -> Any:
        ans = primitive.bind(*primals, **params)
        parts = [
            d(t, ans, *primals, **params)
            for d, t in zip(derivatives, tangents, strict=True)
            if type(t) is not Zero and d is not None
        ]
        return ans, reduce(add_tangents, parts) if parts else zero_tangent(ans)

    return sum_jvp


def zero_jvp(primitive: Primitive) -> Rule:
    """The jvp rule of a piecewise constant function."""

    @depends_on_types
    def constant_jvp(primals: Values, tangents: Values, **params: Any) -> Any:
        ans = primitive.bind(*primals, **params)
        return ans, zero_of(get_aval(ans))

    return constant_jvp


def op_lowering(op: str, of_complex: Rule | None = None) -> Rule:
    """The lowering to the op ``op`` of StableHLO or ``chlo``. ``of_complex``: another rule for complex operands."""
    is_chlo = op.startswith("chlo.")
    op = op if is_chlo else f"stablehlo.{op}"

    def line(avals: Any, out: Any) -> Line:
        """The text of the op on operands that have the result's shape."""
        dtype = avals[0].dtype
        result = mlir_type(out)
        operand = result if dtype == out.dtype else mlir_type(out.update(dtype=dtype))
        if is_chlo:
            return f"{op} ", f" : {', '.join([operand] * len(avals))} -> {result}"
        if operand == result:
            return f"{op} ", f" : {result}"
        return f"{op} ", f" : ({', '.join([operand] * len(avals))}) -> {result}"

    def nary_lower(ctx: Any, avals: Any, out_avals: Any, *args: str, **params: Any) -> str:
        (out,) = out_avals
        if of_complex is not None and avals[0].dtype.kind == "c":
            return of_complex(ctx, avals, out_avals, *args, **params)
        return ctx.emit_line(line(avals, out), ctx.broadcast_operands(args, avals, out.shape))  # type: ignore[no-any-return]

    def known_line(avals: Any, out: Any) -> Line | None:
        if any([a.shape != out.shape for a in avals]) or (of_complex is not None and avals[0].dtype.kind == "c"):
            return None
        return line(avals, out)

    line_rules[nary_lower] = known_line
    return nary_lower


def elementwise(
    name: str,
    accepts: Names,
    numpy: Rule,
    op: str | Rule,
    derivatives: Sequence[Rule | None] | _Mark,
    *,
    out: Rule | None = None,
    same_dtypes: bool = True,
    check: Rule | None = None,
    primitive: Primitive | None = None,
) -> Primitive:
    """An elementwise primitive.

    Args:
      name: as jaxprs print it.
      accepts: for each operand, the letters of the dtype kinds that it may have.
      numpy: the implementation on NumPy values.
      op: the StableHLO op ('sine', 'chlo.erf'), or a lowering rule.
      derivatives: one rule per operand (None if it has no derivative in this operand), ZERO or NO_DERIVATIVE.
      out: maps the operands' dtypes to the result's dtype; by default that of the first operand.
      same_dtypes: whether operands must agree in dtype.
      check: a function that may raise further errors. Abstract evaluation calls it with its own arguments.
      primitive: the primitive, if it exists already.
    """
    p = Primitive(name) if primitive is None else primitive
    elementwise_primitives.add(p)
    accepts = list(accepts)

    def nary_abstract(*avals: ShapedArray, **params: Any) -> ShapedArray:
        check_kinds(name, accepts, avals)
        if same_dtypes:
            check_same_dtypes(name, avals)
        if check is not None:
            check(*avals, **params)
        dtype = out(*[a.dtype for a in avals]) if out is not None else avals[0].dtype
        return ShapedArray(broadcast_shape(name, [a.shape for a in avals]), dtype, all(a.weak_type for a in avals))

    p.def_abstract_eval(nary_abstract)
    numpy_rules[p] = numpy
    batching_rules[p] = nary_batching(p)
    lowering_rules[p] = op_lowering(op) if isinstance(op, str) else op
    if isinstance(derivatives, _Mark):
        if derivatives is ZERO:
            jvp_rules[p] = zero_jvp(p)
            transpose_rules.holes[p] = "its derivative is zero, nothing is transposed"
        else:
            jvp_rules.holes[p] = NONE_IN_JAX
            transpose_rules.holes[p] = "it has no derivative"
    else:
        jvp_rules[p] = depends_on_types(nary_jvp(p, derivatives))
        transpose_rules.holes[p] = "not linear"
    return p


class Unary(Protocol):
    """A function of ``lax`` with one operand."""

    def __call__(self, x: Any) -> Any: ...


class Binary(Protocol):
    """A function of ``lax`` with two operands."""

    def __call__(self, x: Any, y: Any) -> Any: ...


def unary(
    name: str, accepts: str, numpy: Any, op: Any, derivative: Any, doc: str, *, function: str = "", **options: Any
) -> tuple[Unary, Primitive]:
    """Make a row with one operand. Return lax's function, called ``function`` or ``name``, and the primitive."""
    derivatives = derivative if isinstance(derivative, _Mark) else [derivative]
    p = elementwise(name, [accepts], numpy, op, derivatives, **options)
    return unary_function(p, function or name, doc), p


def binary(
    name: str, accepts: str, numpy: Any, op: Any, derivatives: Any, doc: str, *, function: str = "", **options: Any
) -> tuple[Binary, Primitive]:
    """Make a row with two operands of the same kinds. Return lax's function and the primitive, as ``unary`` does."""
    p = elementwise(name, [accepts, accepts], numpy, op, derivatives, **options)
    return binary_function(p, function or name, doc), p


def unary_function(primitive: Primitive, name: str, doc: str) -> Unary:
    bind = primitive.bind

    def function(x: Any) -> Any:
        return bind(x)

    return in_lax(function, name, doc)


def binary_function(primitive: Primitive, name: str, doc: str) -> Binary:
    bind = primitive.bind

    def function(x: Any, y: Any) -> Any:
        return bind(x, y)

    return in_lax(function, name, doc)


LAX = "minijax.lax"


def in_lax(function: Any, name: str, doc: str) -> Any:
    """``function`` with the name, docstring and module of ``lax.<name>``."""
    rename(function, name)
    function.__doc__ = doc
    function.__module__ = LAX
    return function


def is_row(name: str, value: Any) -> bool:
    """Whether ``value`` is a primitive or function that a row made; ``name`` is its name in the module."""
    if isinstance(value, Primitive):
        return name == f"{value.name}_p"
    return getattr(value, "__module__", None) == LAX and value.__name__ == name


def deflinear(primitive: Primitive, transpose: Rule, by_types: bool = True) -> None:
    """Make ``primitive`` linear in all operands, with the rule ``transpose(ct, *args, **params)``."""

    def linear_jvp(primals: Values, tangents: Values, **params: Any) -> Any:
        ans = primitive.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return ans, zero_tangent(ans)
        return ans, primitive.bind(*map(instantiate_zeros, tangents), **params)

    def linear_transpose(ct: Any, *args: Any, **params: Any) -> Any:
        if type(ct) is Zero:
            return [Zero(x.aval) if type(x) is UndefinedPrimal else None for x in args]
        return transpose(ct, *args, **params)

    jvp_rules[primitive] = depends_on_types(linear_jvp) if by_types else linear_jvp
    transpose_rules[primitive] = linear_transpose
    transpose_rules.holes.pop(primitive, None)


def defbilinear(primitive: Primitive, left: Rule, right: Rule, by_types: bool = True) -> None:
    """Make ``primitive`` linear in each of two operands; ``left(ct, x, y)`` and ``right`` give their cotangents."""

    def bilinear_transpose(ct: Any, x: Any, y: Any, **params: Any) -> Any:
        if type(x) is UndefinedPrimal:
            assert type(y) is not UndefinedPrimal, (
                f"the program to transpose is not linear: both operands of {primitive.name} depend on its input. Check "
                "the function that should be linear (matvec of custom_linear_solve, the argument of linear_transpose)."
            )
            return [left(ct, x, y, **params), None]
        return [None, right(ct, x, y, **params)]

    made = nary_jvp(
        primitive,
        [
            lambda g, ans, x, y, **params: primitive.bind(g, y, **params),
            lambda g, ans, x, y, **params: primitive.bind(x, g, **params),
        ],
    )
    jvp_rules[primitive] = depends_on_types(made) if by_types else made
    transpose_rules[primitive] = bilinear_transpose
    transpose_rules.holes.pop(primitive, None)
