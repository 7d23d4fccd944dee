"""Products of arrays: ``dot_general``, which contracts some dimensions, batches over others, and keeps the rest."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.config import matmul_precision, x64_enabled
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray, dtype_name, sharded_part, sharding_of_type
from minijax.core.primitive import Primitive
from minijax.core.records import NamedTuple
from minijax.core.rules import Axes, Dims, Ints, Rule, Values
from minijax.core.structural import batched_sharding
from minijax.interpreters.evaluate import by_type
from minijax.ir.jaxpr import JaxprEqn
from minijax.ir.pretty import Params, readable
from minijax.lowering.text import dims_text, mlir_type
from minijax.ops.convert import convert, convert_text
from minijax.ops.declare import declare, set_rules
from minijax.ops.nary import defbilinear
from minijax.ops.reduce import accumulator
from minijax.ops.shape import arranged, inverse_permutation, meant_sharding, transpose

__all__ = [
    "DotAlgorithm",
    "DotAlgorithmPreset",
    "DotDimensionNumbers",
    "Precision",
    "PrecisionLike",
    "batch_matmul",
    "dot",
    "dot_general",
    "dot_general_p",
]

# ((lhs contracting, rhs contracting), (lhs batch, rhs batch)): the contracting and batch dimensions of both operands
DotDimensionNumbers = tuple[tuple[Ints, Ints], tuple[Ints, Ints]]
_Numbers = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]


class Precision(enum.Enum):
    """The precision with which an accelerator multiplies float32 matrices. CPUs always compute in full precision.

    A string can name a member: ``Precision("float32")`` is HIGHEST.
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> Precision | None:
        return _PRECISION_NAMES.get(value)

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    def __str__(self) -> str:
        return self.name


_PRECISION_NAMES: dict[object, Precision] = {
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
    "high": Precision.HIGH,
    "bfloat16_3x": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "default": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
    None: Precision.DEFAULT,
}


class DotAlgorithm(NamedTuple):
    """How an accelerator forms a product: the types of the operands and sums, and the number of partial products.

    CPUs refuse a ``DotAlgorithm`` with ValueError: they support only some members of ``DotAlgorithmPreset``.
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Named algorithms. A name has the types of the operands and of the sums, and the number of partial products.

    CPUs support F16_F16_F16, F32_F32_F32, F64_F64_F64, and BF16_BF16_F32 (also X3 and X6), whose products they compute
    in float32. They refuse the other algorithms with ValueError.
    """

    DEFAULT = 1
    ANY_F8_ANY_F8_F32 = 2
    ANY_F8_ANY_F8_F32_FAST_ACCUM = 3
    ANY_F8_ANY_F8_ANY = 4
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = 5
    F16_F16_F16 = 6
    F16_F16_F32 = 7
    BF16_BF16_BF16 = 8
    BF16_BF16_F32 = 9
    BF16_BF16_F32_X3 = 10
    BF16_BF16_F32_X6 = 11
    BF16_BF16_F32_X9 = 12
    TF32_TF32_F32 = 13
    TF32_TF32_F32_X3 = 14
    F32_F32_F32 = 15
    F64_F64_F64 = 16

    def __repr__(self) -> str:
        return f"DotAlgorithmPreset.{self.name}"

    def __str__(self) -> str:
        return self.name

    @property
    def accumulation_type(self) -> Any:
        """The type in which sums are accumulated; None if the algorithm leaves it open."""
        parts = self.name.split("_")
        found = parts[-2] if parts[-1].startswith("X") else parts[-1] if "FAST" not in parts else parts[-3]
        return _NAMED_TYPES[found]() if found in _NAMED_TYPES else None

    @property
    def supported_lhs_types(self) -> tuple[Any, ...] | None:
        """The types that the first operand may have; an operand of another type is converted to the first of these."""
        part, many = self.name.split("_")[0], self.name[-2:]
        if part not in ("F16", "BF16", "TF32", "F32", "F64"):
            return None
        if part == "BF16" and many[0] != "X":
            return _NAMED_TYPES["BF16"](), np.float32
        return (np.float32,) if part in ("BF16", "TF32") else (_NAMED_TYPES[part](),)

    @property
    def supported_rhs_types(self) -> tuple[Any, ...] | None:
        """The types that the second operand may have: those of the first."""
        return self.supported_lhs_types


_NAMED_TYPES: dict[str, Callable[[], Any]] = {
    "F16": lambda: np.float16,
    "BF16": lambda: dtypes.bfloat16,
    "F32": lambda: np.float32,
    "F64": lambda: np.float64,
}
# An algorithm that CPUs support -> (number of partial products, whether the result may be bfloat16).
_ON_CPU: dict[DotAlgorithmPreset, tuple[int, bool]] = {
    DotAlgorithmPreset.F16_F16_F16: (1, False),
    DotAlgorithmPreset.F32_F32_F32: (1, False),
    DotAlgorithmPreset.F64_F64_F64: (1, False),
    DotAlgorithmPreset.BF16_BF16_F32: (1, True),
    DotAlgorithmPreset.BF16_BF16_F32_X3: (3, False),
    DotAlgorithmPreset.BF16_BF16_F32_X6: (6, False),
}
PrecisionLike = (
    str | Precision | tuple[str, str] | tuple[Precision, Precision] | DotAlgorithm | DotAlgorithmPreset | None
)


def algorithm_of(precision: Any) -> DotAlgorithmPreset | None:
    """The algorithm that ``precision`` names; None for the default. ValueError if CPUs do not support the algorithm."""
    if precision is None or isinstance(precision, tuple) and not isinstance(precision, DotAlgorithm):
        return None
    if precision is DotAlgorithmPreset.DEFAULT:
        return None
    if precision not in _ON_CPU:
        raise ValueError(
            f"The precision '{precision}' is not supported by dot_general on CPU; supported are: "
            f"{', '.join(map(str, _ON_CPU))}"
        )
    return precision  # type: ignore[no-any-return]


def precision_names(precision: Any) -> tuple[Any, Any]:
    """The precisions of both operands, for StableHLO's attribute; the default unless ``precision`` is a pair."""
    return precision if isinstance(precision, tuple) and len(precision) == 2 else (Precision.DEFAULT,) * 2


def canonical_precision(precision: Any) -> Any:
    """``precision``, in any form that users may pass, as a pair, None or an algorithm. ValueError if it is invalid."""
    if precision is None:
        default = matmul_precision()
        return None if default is None else canonical_precision(default)
    if isinstance(precision, Precision):
        return precision, precision
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        return precision
    if isinstance(precision, str):
        if precision in _PRECISION_NAMES:
            return Precision(precision), Precision(precision)
        if precision in DotAlgorithmPreset.__members__:
            return DotAlgorithmPreset[precision]
    if isinstance(precision, (list, tuple)) and len(precision) == 2:
        first, second = precision
        if isinstance(first, Precision) and isinstance(second, Precision):
            return first, second
        if isinstance(first, str) and isinstance(second, str):
            left, right = canonical_precision(first), canonical_precision(second)
            return left[0], right[0]
    names = [name for name in _PRECISION_NAMES if name is not None]
    raise ValueError(
        f"Precision argument must be one of:\n- None,\n- a string in {names},\n- a lax.Precision value,\n"
        "- a tuple of two lax.Precision values or strings,\n- a lax.DotAlgorithmPreset, its name, or a "
        f"lax.DotAlgorithm;\nbut got {precision}."
    )


def _check_side(side: str, ndim: int, contracting: Axes, batch: Axes) -> None:
    if any(not 0 <= d < ndim for d in (*contracting, *batch)):
        raise TypeError(
            f"dot_general requires {side} dimension numbers to be nonnegative and less than the number of "
            f"axes of the {side} value, got {side}_batch of {batch} and {side}_contracting of {contracting} "
            f"for {side} of rank {ndim}"
        )
    if len(set(batch)) != len(batch):
        raise TypeError(f"dot_general requires {side} batch dimensions to be distinct, got {side}_batch {batch}.")
    if len(set(contracting)) != len(contracting):
        raise TypeError(
            f"dot_general requires {side} contracting dimensions to be distinct, got {side}_contracting {contracting}."
        )
    if set(contracting) & set(batch):
        raise TypeError(
            f"dot_general requires {side} batch dimensions to be disjoint from contracting dimensions, "
            f"got {side}_batch {batch} and {side}_contracting {contracting}."
        )


def _kept(ndim: int, contracting: Ints, batch: Ints) -> Axes:
    return tuple(d for d in range(ndim) if d not in contracting and d not in batch)


def _dot_abstract(
    lhs: ShapedArray,
    rhs: ShapedArray,
    *,
    dimension_numbers: _Numbers,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> ShapedArray:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    if len(lhs_batch) != len(rhs_batch):
        raise TypeError(
            "dot_general requires equal numbers of lhs_batch and rhs_batch dimensions, "
            f"got lhs_batch {lhs_batch} and rhs_batch {rhs_batch}."
        )
    _check_side("lhs", lhs.ndim, lhs_contract, lhs_batch)
    _check_side("rhs", rhs.ndim, rhs_contract, rhs_batch)
    sizes = [tuple(a.shape[d] for d in dims) for a, dims in ((lhs, lhs_batch), (rhs, rhs_batch))]
    if sizes[0] != sizes[1]:
        raise TypeError(
            "dot_general requires lhs batch dimensions and rhs batch dimensions to have the same shape, "
            f"got {sizes[0]} and {sizes[1]}."
        )
    summed = [tuple(a.shape[d] for d in dims) for a, dims in ((lhs, lhs_contract), (rhs, rhs_contract))]
    if summed[0] != summed[1]:
        raise TypeError(
            f"dot_general requires contracting dimensions to have the same shape, got {summed[0]} and {summed[1]}."
        )
    left = tuple(lhs.shape[d] for d in _kept(lhs.ndim, lhs_contract, lhs_batch))
    right = tuple(rhs.shape[d] for d in _kept(rhs.ndim, rhs_contract, rhs_batch))
    dtype = _result_dtype(lhs.dtype, rhs.dtype, preferred_element_type)
    return ShapedArray((*sizes[0], *left, *right), dtype, lhs.weak_type and rhs.weak_type)


def _strength(dtype: np.dtype) -> tuple[Any, ...]:
    """A sort key for XLA's order of element types: complex or not, float exponent, mantissa, bits, signed or not."""
    part = dtypes.real_dtype(dtype)
    floating = dtypes.is_float(part)
    info = dtypes.finfo(part) if floating else None
    bits = 1 if dtypes.is_bool(part) else dtypes.bits(part)
    exponent, mantissa = (info.maxexp, info.nmant) if info is not None else (-1, -1)
    return dtypes.is_complex(dtype), exponent, mantissa, bits, not dtypes.is_unsigned(part)


def _result_dtype(lhs: np.dtype, rhs: np.dtype, preferred: np.dtype | None) -> np.dtype:
    if lhs == rhs:
        dtype = lhs
    else:
        a, b = _strength(lhs), _strength(rhs)
        if a == b:
            raise TypeError(f"dot_general argument type error: {dtype_name(lhs)}, {dtype_name(rhs)}")
        dtype = lhs if a > b else rhs
    if preferred is None or preferred == dtype:
        return dtype
    width = 1 if dtypes.is_bool(preferred) else dtypes.bits(preferred)
    narrower = width < dtypes.bits(dtypes.real_dtype(dtype))
    if narrower and not dtypes.is_float(dtype):
        raise TypeError(
            "`preferred_element_type` must not be narrower than the original type, got "
            f"preferred_element_type of {dtype_name(preferred)} for result type of {dtype_name(dtype)}."
        )
    return preferred


def _product(lhs: Any, rhs: Any, dimension_numbers: _Numbers) -> Rule:
    """The function that computes a product in NumPy, for operands shaped like ``lhs`` and ``rhs``, of one dtype."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    if lhs_contract == (lhs.ndim - 1,) and rhs_contract == (0,) and not lhs_batch and 1 <= rhs.ndim <= 2:
        return np.dot
    lhs_kept, rhs_kept = _kept(lhs.ndim, lhs_contract, lhs_batch), _kept(rhs.ndim, rhs_contract, rhs_batch)
    batch = tuple([lhs.shape[d] for d in lhs_batch])
    rows, columns = tuple([lhs.shape[d] for d in lhs_kept]), tuple([rhs.shape[d] for d in rhs_kept])
    n, m, inner = math.prod(rows), math.prod(columns), math.prod([lhs.shape[d] for d in lhs_contract])
    stack = (math.prod(batch),) if batch else ()
    left = arranged(lhs.shape, (*lhs_batch, *lhs_kept, *lhs_contract), (*stack, n, inner))
    right = arranged(rhs.shape, (*rhs_batch, *rhs_contract, *rhs_kept), (*stack, inner, m))
    multiply = _matmul if batch else np.dot
    shape = (*batch, *rows, *columns)
    as_it_is = shape == (*stack, n, m)

    def contract(lhs: Any, rhs: Any) -> Any:
        if left is not None:
            lhs = left(lhs)
        if right is not None:
            rhs = right(rhs)
        out = multiply(lhs, rhs)
        return out if as_it_is else out.reshape(shape)

    return contract


def _matmul(lhs: Any, rhs: Any) -> Any:
    """The products of two stacks of matrices."""
    if lhs.dtype.kind == "c":
        # for arrays that are not contiguous, NumPy adds complex products one by one, which is slow and inaccurate
        lhs, rhs = np.ascontiguousarray(lhs), np.ascontiguousarray(rhs)
    return np.matmul(lhs, rhs)


@by_type
def _dot_numpy(
    lhs: Any, rhs: Any, dimension_numbers: _Numbers, precision: Any, preferred_element_type: Any, out_sharding: Any
) -> Rule:
    dtype = wide = lhs.dtype
    if dtype != rhs.dtype or preferred_element_type is not None or dtype.itemsize < 4:
        dtype = _result_dtype(dtype, rhs.dtype, preferred_element_type)
        # for complex operands, take the real part of the product, not of the operands
        wide = accumulator(dtype) if lhs.dtype.kind != "c" else np.result_type(lhs.dtype, dtype)
        if lhs.dtype == rhs.dtype and dtypes.is_float(lhs.dtype) and dtypes.is_integer(dtype):
            wide = accumulator(lhs.dtype)  # compute in floats, then round towards zero
    product = _product(lhs, rhs, dimension_numbers)
    if precision is not None and (algorithm := algorithm_of(precision)) is not None:
        return _by_algorithm(algorithm, product, dtype)
    if lhs.dtype == rhs.dtype == wide == dtype:
        return product

    def converted_dot(lhs: Any, rhs: Any) -> Any:
        out = product(lhs.astype(wide, copy=False), rhs.astype(wide, copy=False))
        return (out.real if dtype.kind == "f" and out.dtype.kind == "c" else out).astype(dtype, copy=False)

    return converted_dot


def _taken(algorithm: DotAlgorithmPreset, dtype: np.dtype) -> np.dtype:
    """The dtype to which an operand of ``dtype`` is converted first."""
    types = [np.dtype(t) for t in algorithm.supported_lhs_types or ()]
    return dtype if dtype in types else types[0]


def _given(algorithm: DotAlgorithmPreset, lhs: np.dtype, dtype: np.dtype) -> np.dtype:
    """The dtype to which the product is rounded before it is converted to ``dtype``; ``lhs``: the operands' dtype."""
    small = _ON_CPU[algorithm][1] and dtype == lhs == dtypes.bfloat16
    return dtype if small else np.dtype(algorithm.accumulation_type)


def _by_algorithm(algorithm: DotAlgorithmPreset, product: Rule, dtype: np.dtype) -> Rule:
    def algorithm_dot(lhs: Any, rhs: Any) -> Any:
        taken = [x.astype(_taken(algorithm, x.dtype)) for x in (lhs, rhs)]
        out = product(*[x.astype(accumulator(x.dtype), copy=False) for x in taken])
        return out.astype(_given(algorithm, taken[0].dtype, dtype)).astype(dtype, copy=False)

    return algorithm_dot


def _dot_cotangent(
    ct: Any, x: Any, y: Any, swapped: bool, *, dimension_numbers: _Numbers, out_sharding: Any, **params: Any
) -> Any:
    """The cotangent of ``x``: ``ct`` contracted with ``y``. ``swapped``: ``y`` was the left operand."""
    (x_contract, y_contract), (x_batch, y_batch) = dimension_numbers
    aval = x.aval
    x_kept = _kept(aval.ndim, x_contract, x_batch)
    y_kept = _kept(get_aval(y).ndim, y_contract, y_batch)
    # the result's batch dimensions, and its dimensions that come from ``y``
    ans_batch = tuple(range(len(x_batch)))
    first = len(x_batch) + (0 if swapped else len(x_kept))
    ans_y = tuple(range(first, first + len(y_kept)))
    by_y = [x_contract[i] for i in sorted(range(len(y_contract)), key=y_contract.__getitem__)]
    order = (*x_batch, *x_kept, *by_y)
    divided = sharding_of_type(aval, get_aval(ct), get_aval(y))
    out = dot_general(
        ct,
        y,
        ((ans_y, y_kept), (ans_batch, y_batch)),
        out_sharding=None if divided is None else divided.with_spec(divided.spec.permuted(order)),
        **params,
    )
    bar = transpose(out, inverse_permutation(order))
    return bar if get_aval(bar).dtype == aval.dtype else convert(bar, aval.dtype, aval.weak_type)


def _dot_left(ct: Any, x: Any, y: Any, **params: Any) -> Any:
    return _dot_cotangent(ct, x, y, False, **params)


def _dot_right(ct: Any, x: Any, y: Any, **params: Any) -> Any:
    (x_contract, y_contract), (x_batch, y_batch) = params.pop("dimension_numbers")
    return _dot_cotangent(ct, y, x, True, dimension_numbers=((y_contract, x_contract), (y_batch, x_batch)), **params)


def _bumped(dims: Ints, new: int) -> Axes:
    return tuple(d + 1 if d >= new else d for d in dims)


def _batch_part(args: Values, dims: Dims) -> Any:
    """Return the mesh axes that shard the batch axis in an operand's type, or None if it is not sharded."""
    parts = [sharded_part(get_aval(x), d) for x, d in zip(args, dims, strict=True) if d is not None]
    return next((part for part in parts if part is not None), None)


def _dot_batch(args: Values, dims: Dims, *, dimension_numbers: _Numbers, out_sharding: Any, **params: Any) -> Any:
    lhs, rhs = args
    lhs_dim, rhs_dim = dims
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    lhs_ndim, rhs_ndim = get_aval(lhs).ndim, get_aval(rhs).ndim
    if lhs_dim is not None:
        # if only one operand is batched, its batch axis is one of its free dimensions
        kept = _kept(lhs_ndim - 1, lhs_contract, lhs_batch)
        out_dim = len(lhs_batch) + sum(d < lhs_dim for d in kept)
        lhs_batch, lhs_contract = _bumped(lhs_batch, lhs_dim), _bumped(lhs_contract, lhs_dim)
    if rhs_dim is not None:
        kept = _kept(rhs_ndim - 1, rhs_contract, rhs_batch)
        out_dim = lhs_ndim - len(lhs_contract) + sum(d < rhs_dim for d in kept)
        rhs_batch, rhs_contract = _bumped(rhs_batch, rhs_dim), _bumped(rhs_contract, rhs_dim)
    if lhs_dim is not None and rhs_dim is not None:
        out_dim = 0
        lhs_batch, rhs_batch = (lhs_dim, *lhs_batch), (rhs_dim, *rhs_batch)
    out = dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=((lhs_contract, rhs_contract), (lhs_batch, rhs_batch)),
        out_sharding=None if out_sharding is None else batched_sharding(out_sharding, out_dim, _batch_part(args, dims)),
        **params,
    )
    return out, out_dim


def _dot_lower(
    ctx: Any,
    avals: Any,
    out_avals: Any,
    lhs: str,
    rhs: str,
    *,
    dimension_numbers: _Numbers,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> str:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    (a, b), (out,) = avals, out_avals
    if a.dtype != b.dtype:
        lhs, rhs = convert_text(ctx, lhs, a, out.dtype), convert_text(ctx, rhs, b, out.dtype)
        a, b = a.update(dtype=out.dtype), b.update(dtype=out.dtype)
    batching = f"batching_dims = {dims_text(lhs_batch)} x {dims_text(rhs_batch)}, " if lhs_batch else ""
    contracting = f"contracting_dims = {dims_text(lhs_contract)} x {dims_text(rhs_contract)}, "
    left, right = precision_names(precision)
    algorithm, inner, how = algorithm_of(precision), out, ""
    if algorithm is not None:
        types = [_taken(algorithm, v.dtype) for v in (a, b)]
        lhs, rhs = convert_text(ctx, lhs, a, types[0]), convert_text(ctx, rhs, b, types[1])
        a, b = a.update(dtype=types[0]), b.update(dtype=types[1])
        inner, how = out.update(dtype=_given(algorithm, types[0], out.dtype)), _algorithm_text(algorithm)
    found = ctx.emit(
        f"stablehlo.dot_general {lhs}, {rhs}, {batching}{contracting}precision = [{left}, {right}]{how} : "
        f"({mlir_type(a)}, {mlir_type(b)}) -> {mlir_type(inner)}"
    )
    return convert_text(ctx, found, inner, out.dtype)


def _algorithm_text(algorithm: DotAlgorithmPreset) -> str:
    lhs, rhs, total = algorithm.name.lower().split("_")[:3]
    return (
        f", algorithm = <lhs_precision_type = {lhs}, rhs_precision_type = {rhs}, accumulation_type = {total}, "
        "lhs_component_count = 1, rhs_component_count = 1, "
        f"num_primitive_operations = {_ON_CPU[algorithm][0]}, allow_imprecise_accumulation = false>"
    )


dot_general_p = Primitive("dot_general")
declare(
    dot_general_p, abstract=_dot_abstract, numpy=_dot_numpy, lower=_dot_lower, batch=_dot_batch, sharding="out_sharding"
)
defbilinear(dot_general_p, _dot_left, _dot_right)


def _dot_shown(eqn: JaxprEqn, printer: Any) -> Params:
    """The parameters as printed: dimensions as lists. Defaults are omitted, and the sharding, which the type shows."""
    shown = {k: v for k, v in eqn.params.items() if v is not None and k != "out_sharding"}
    contracting, batch = shown["dimension_numbers"]
    shown["dimension_numbers"] = (tuple(map(list, contracting)), tuple(map(list, batch)))
    return sorted(shown.items())


def _dot_read(params: dict[str, Any], in_avals: Any, out_avals: Any) -> dict[str, Any]:
    contracting, batch = params["dimension_numbers"]
    numbers = (tuple(map(tuple, contracting)), tuple(map(tuple, batch)))
    found = {"precision": None, "preferred_element_type": None, **params, "dimension_numbers": numbers}
    return {**found, "precision": read_precision(found["precision"])}


def read_precision(value: Any) -> Any:
    """The parameter ``precision`` from printed text, where names of algorithms have no quotes."""
    return DotAlgorithmPreset[value] if isinstance(value, str) else value


readable(Precision)
set_rules(dot_general_p, shown=_dot_shown, parse=_dot_read)


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: DotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: Any = None,
) -> Any:
    """Contract ``lhs`` with ``rhs``: sum the products over the contracting dimensions, for each batch index.

    Args:
      lhs, rhs: numeric arrays; mixed dtypes are promoted. Paired dimensions have equal sizes.
      dimension_numbers: ``((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))``. The result has the
        batch dimensions, then the remaining dimensions of ``lhs``, then those of ``rhs``.
      precision: a ``Precision`` or its name, a pair of these for the two operands, or an algorithm.
      preferred_element_type: the result's dtype; by default the operands' dtype.
      out_sharding: the result's sharding over a mesh with explicit axes.

    Raises TypeError if the dimensions do not fit.

    >>> lax.dot_general(jnp.ones((5, 2, 3)), jnp.ones((5, 3, 4)), (((2,), (1,)), ((0,), (0,)))).shape
    (5, 2, 4)
    """
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    return dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=((_ints(lhs_contract), _ints(rhs_contract)), (_ints(lhs_batch), _ints(rhs_batch))),
        precision=canonical_precision(precision),
        preferred_element_type=_preferred(preferred_element_type),
        out_sharding=None if out_sharding is None else meant_sharding(out_sharding, "dot_general"),
    )


def _preferred(dtype: Any) -> np.dtype | None:
    return None if dtype is None else dtypes.check_user_dtype(dtype, "dot_general", x64_enabled())


def _ints(dims: Ints) -> Axes:
    return tuple(map(operator.index, dims))


# Contract the last dimension of ``lhs``, a vector or a matrix, with the first dimension of ``rhs``.
_OF_VECTOR: _Numbers = (((0,), (0,)), ((), ()))
_OF_MATRIX: _Numbers = (((1,), (0,)), ((), ()))


def dot(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The product of vectors and matrices (1 or 2 dimensions each), or ``dot_general`` if
    ``dimension_numbers`` are given.

    Raises TypeError or ValueError if the shapes do not fit.
    """
    if dimension_numbers is None:
        left, right = get_aval(lhs).shape, get_aval(rhs).shape
        if not (1 <= len(left) <= 2 and 1 <= len(right) <= 2 and left[-1] == right[0]):
            raise ValueError(
                "jax.lax.dot: dimension_numbers must be specified when not performing simple un-batched "
                f"matrix-matrix, matrix-vector, or vector-vector products; got lhs_shape={left} "
                f"rhs_shape={right}"
            )
        return dot_general_p.bind(
            lhs,
            rhs,
            dimension_numbers=_OF_VECTOR if len(left) == 1 else _OF_MATRIX,
            precision=canonical_precision(precision),
            preferred_element_type=_preferred(preferred_element_type),
            out_sharding=None if out_sharding is None else meant_sharding(out_sharding, "dot"),
        )
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type, out_sharding=out_sharding)


def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Any:
    """Matrix products of the last two dimensions, for equal leading dimensions. ValueError if ranks differ."""
    lhs_ndim, rhs_ndim = get_aval(lhs).ndim, get_aval(rhs).ndim
    if min(lhs_ndim, rhs_ndim) < 2:
        raise ValueError(f"Arguments to batch_matmul must be at least 2D, got {lhs_ndim}, {rhs_ndim}")
    if lhs_ndim != rhs_ndim:
        raise ValueError(f"Arguments to batch_matmul must have same ndim, got {lhs_ndim}, {rhs_ndim}")
    batch = tuple(range(lhs_ndim - 2))
    return dot_general(lhs, rhs, (((lhs_ndim - 1,), (rhs_ndim - 2,)), (batch, batch)), precision)
