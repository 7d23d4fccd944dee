"""What the primitives say when operands do not fit: JAX's exception type and the essentials of its words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import minijax

VECTOR = np.arange(3, dtype=np.float32)
MATRIX = np.ones((2, 3), np.float32)
TRUTH = np.array([True, False, True])
INTEGERS = np.arange(3, dtype=np.int32)


def _conv(
    lax: Any, strides: Any = (1,), padding: Any = "SAME", rhs: Any = (2, 1, 2), dtype: Any = np.float32, **params: Any
) -> Any:
    images = np.ones((3, params.get("feature_group_count", 1) or 1, 4), np.float32)
    kernel = np.ones(rhs, dtype)
    return lax.conv_general_dilated(images, kernel, strides, padding, **params)


def _numbers(lax: Any, *numbers: Any, rank: int = 3) -> Any:
    return lax.conv_dimension_numbers((1,) * rank, (1,) * rank, numbers)


# name -> (function of lax, words that both messages have in common)
MISTAKES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "broadcast wrong size": (
        lambda lax: lax.broadcast_in_dim(VECTOR, (4,), (0,)),
        "must either be 1, or be equal",
    ),
    "broadcast wrong rank": (
        lambda lax: lax.broadcast_in_dim(VECTOR, (3,), ()),
        "length equal to operand ndim",
    ),
    "broadcast outside": (lambda lax: lax.broadcast_in_dim(VECTOR, (3,), (1,)), "must be a subset of output"),
    "broadcast twice": (
        lambda lax: lax.broadcast_in_dim(np.ones((1, 1), np.float32), (2, 1), (0, 0)),
        "must not contain duplicates",
    ),
    "expand_dims repeated": (lambda lax: lax.expand_dims(VECTOR, (0, 0)), "repeated axis in lax.expand_dims"),
    "reshape no permutation": (
        lambda lax: lax.reshape(MATRIX, (6,), (0, 0)),
        "must be a permutation of operand",
    ),
    "squeeze not one": (lambda lax: lax.squeeze(VECTOR, (0,)), "size not equal to one"),
    "squeeze outside": (lambda lax: lax.squeeze(VECTOR, (1,)), "out of bounds"),
    "transpose no permutation": (
        lambda lax: lax.transpose(MATRIX, (0, 0)),
        "isn't a permutation of operand dim",
    ),
    "rev outside": (lambda lax: lax.rev(VECTOR, (1,)), "must all be less than operand ndim"),
    "rev twice": (lambda lax: lax.rev(VECTOR, (0, 0)), "must be unique"),
    "tile wrong rank": (lambda lax: lax.tile(VECTOR, (2, 2)), "reps length must be equal to the ndim"),
    "conv of two dtypes": (
        lambda lax: _conv(lax, rhs=(2, 1, 2), dtype=np.int32),
        "to have the same dtypes, got float32, int32",
    ),
    "conv of two ranks": (lambda lax: _conv(lax, rhs=(2, 1)), "requires lhs and rhs ndim to be equal, got 3 and 2"),
    "conv of other features": (
        lambda lax: _conv(lax, rhs=(2, 3, 2)),
        "must equal the rhs input feature dimension size",
    ),
    "conv of no groups": (lambda lax: _conv(lax, feature_group_count=0), "must be a positive integer, got 0"),
    "conv of uneven groups": (lambda lax: _conv(lax, batch_group_count=2), "but 2 does not divide 3"),
    "conv of both groups": (
        lambda lax: _conv(lax, batch_group_count=3, feature_group_count=3, rhs=(3, 1, 2)),
        "At most one of batch_group_count and feature_group_count may be > 1",
    ),
    "conv of uneven outputs": (lambda lax: _conv(lax, batch_group_count=3), "but 2 is not a multiple of 3"),
    "conv with strides for nothing": (lambda lax: _conv(lax, (1, 1)), "must have the same number of dimensions"),
    "conv with too many pads": (lambda lax: _conv(lax, padding=((0, 0),) * 2), "Wrong number of explicit pads"),
    "conv with strange padding": (lambda lax: _conv(lax, padding="NONE"), "Unrecognized padding type"),
    "conv with a number for padding": (lambda lax: _conv(lax, padding=1), "should be a string or a sequence"),
    "conv with dilation 0": (
        lambda lax: _conv(lax, padding=((0, 0),), rhs_dilation=(0,)),
        "must be positive, got",
    ),
    "conv dilated with a name": (
        lambda lax: _conv(lax, lhs_dilation=(2,)),
        "String padding is not implemented for transposed convolution",
    ),
    "conv of floats in integers": (
        lambda lax: _conv(lax, preferred_element_type=np.int32),
        "Input type is incompatible with `preferred_element_type`",
    ),
    "conv in a narrower type": (lambda lax: _conv(lax, preferred_element_type=np.float16), "must not be narrower"),
    "dimension numbers with a letter twice": (
        lambda lax: _numbers(lax, "NCHH", "OIHH", "NCHH", rank=4),
        "duplicate characters",
    ),
    "dimension numbers of two places": (lambda lax: _numbers(lax, "NCH", "OIH", "NCW"), "the same set of spatial"),
    "dimension numbers of another rank": (lambda lax: _numbers(lax, "NCHW", "OIH", "NCH"), "must have len equal to"),
    "dimension numbers without result": (lambda lax: _numbers(lax, "NCH", "OIH"), "must be length 3, got 2"),
    "dimension numbers that are numbers": (lambda lax: _numbers(lax, 1, 2, 3), "elements must be strings"),
    "dimension numbers of no sequence": (
        lambda lax: lax.conv_dimension_numbers((1, 1, 1), (1, 1, 1), 3),
        "must be tuple/list or None",
    ),
    "pads that are no name": (lambda lax: lax.padtype_to_pads((5,), (2,), (1,), ((0, 1),)), "Unknown padding type"),
    "windows of size 0": (
        lambda lax: lax.reduce_window(MATRIX, 0.0, lax.add, (2, 0)),
        "must have every element be strictly positive",
    ),
    "iota of booleans": (lambda lax: lax.iota(bool, 3), "iota does not accept dtype bool"),
    "iota outside": (lambda lax: lax.broadcasted_iota(np.int32, (3,), 1), "must be between 0 and len"),
    "full of an array": (lambda lax: lax.full((2,), VECTOR), "must be called with scalar fill_value"),
    "collapse backwards": (lambda lax: lax.collapse(MATRIX, 2, 1), "Invalid dimension range"),
    "shapes": (lambda lax: lax.broadcast_shapes((2,), (3,)), "Incompatible shapes for broadcasting"),
    "slice beyond": (lambda lax: lax.slice(VECTOR, (0,), (4,)), "less than or equal to operand shape"),
    "slice negative": (lambda lax: lax.slice(VECTOR, (-1,), (2,)), "slice start_indices must"),
    "slice backwards": (lambda lax: lax.slice(VECTOR, (2,), (1,)), "greater than or equal to start_indices"),
    "slice wrong rank": (lambda lax: lax.slice(VECTOR, (0, 0), (1, 1)), "equal to the number of dimensions"),
    "slice lengths": (lambda lax: lax.slice(VECTOR, (0,), (1, 1)), "same length as start_indices"),
    "slice strides": (lambda lax: lax.slice(VECTOR, (0,), (2,), (1, 1)), "slice strides must have length"),
    "index outside": (lambda lax: lax.index_in_dim(VECTOR, 3), "out of bounds for axis 0 with size 3"),
    "pad dtypes": (lambda lax: lax.pad(VECTOR, 1, ((0, 1, 0),)), "must be same dtype"),
    "pad not a scalar": (lambda lax: lax.pad(VECTOR, VECTOR, ((0, 1, 0),)), "padding_value must be a scalar"),
    "pad wrong rank": (lambda lax: lax.pad(VECTOR, 0.0, ()), "length of padding_config must equal"),
    "pad interior": (lambda lax: lax.pad(VECTOR, 0.0, ((0, 0, -1),)), "must be nonnegative"),
    "pad too negative": (lambda lax: lax.pad(VECTOR, 0.0, ((-2, -2, 0),)), "is not at least 0"),
    "concatenate ranks": (
        lambda lax: lax.concatenate([VECTOR, MATRIX], 0),
        "different numbers of dimensions",
    ),
    "concatenate shapes": (
        lambda lax: lax.concatenate([MATRIX, MATRIX[:, :2]], 0),
        "other than the one being conc",
    ),
    "concatenate outside": (lambda lax: lax.concatenate([VECTOR, VECTOR], 1), "dimension out of bounds"),
    "concatenate dtypes": (lambda lax: lax.concatenate([VECTOR, INTEGERS], 0), "float32, int32"),
    "concatenate nothing": (lambda lax: lax.concatenate([], 0), "concatenate requires a non-empty"),
    "split sizes": (lambda lax: lax.split(VECTOR, (1, 1)), "Sum of sizes 2 must be equal to dimension 0"),
    "stack shapes": (lambda lax: lax.stack([VECTOR, VECTOR[:2]]), "must have the same shape"),
    "reduce outside": (lambda lax: lax.reduce_sum(VECTOR, (1,)), "contains out-of-bounds indices"),
    "reduce twice": (lambda lax: lax.reduce_max(VECTOR, (0, 0)), "duplicate value in 'axes'"),
    "reduce_sum of booleans": (
        lambda lax: lax.reduce_sum(TRUTH, (0,)),
        "reduce_sum does not accept dtype bool",
    ),
    "reduce_and of floats": (lambda lax: lax.reduce_and(VECTOR, (0,)), "requires operand dtype bool or int"),
    "argmax of nothing": (lambda lax: lax.argmax(VECTOR[:0], 0, np.int32), "non-empty reduced dimension"),
    "argmax outside": (lambda lax: lax.argmax(VECTOR, 1, np.int32), "Invalid axis 1"),
    "argmax to float": (lambda lax: lax.argmax(VECTOR, 0, np.float32), "index_dtype must be an integer type"),
    "cumsum of booleans": (lambda lax: lax.cumsum(TRUTH), "cumsum does not accept dtype bool"),
    "cumsum outside": (lambda lax: lax.cumsum(VECTOR, 1), "axis 1 is out of bounds"),
    "cumsum negative axis": (lambda lax: lax.cumsum(VECTOR, -1), "do not allow negative axes"),
    "sort shapes": (lambda lax: lax.sort((VECTOR, VECTOR[:2])), "must have equal shapes"),
    "sort keys": (lambda lax: lax.sort((VECTOR,), num_keys=2), "must be between 1 and"),
    "sort nothing": (lambda lax: lax.sort(()), "at least one operand"),
    "select shapes": (lambda lax: lax.select(TRUTH, VECTOR, VECTOR[:2]), "cases must have the same shapes"),
    "select which": (
        lambda lax: lax.select(TRUTH[:2], VECTOR, VECTOR),
        "must be scalar or have the same shape",
    ),
    "select dtypes": (lambda lax: lax.select(TRUTH, VECTOR, INTEGERS), "int32, float32"),
    "select by floats": (lambda lax: lax.select(VECTOR, VECTOR, VECTOR), "must be boolean or integer type"),
    "select too many": (lambda lax: lax.select_n(TRUTH, *[VECTOR] * 3), "cannot have > 2 cases"),
    "select nothing": (lambda lax: lax.select_n(TRUTH), "must have at least one case"),
    "clamp shapes": (lambda lax: lax.clamp(VECTOR[:2], VECTOR, np.float32(1)), "clamp requires min.shape"),
    "clamp dtypes": (lambda lax: lax.clamp(0, VECTOR, 1), "int32, float32, int32"),
    "dot contracting": (
        lambda lax: lax.dot_general(MATRIX, MATRIX, (((1,), (0,)), ((), ()))),
        "to have the same shape",
    ),
    "dot batch": (
        lambda lax: lax.dot_general(MATRIX, MATRIX, (((), ()), ((1,), (0,)))),
        "batch dimensions to have the same",
    ),
    "dot outside": (
        lambda lax: lax.dot_general(VECTOR, VECTOR, (((1,), (0,)), ((), ()))),
        "nonnegative and less than",
    ),
    "dot distinct": (
        lambda lax: lax.dot_general(MATRIX, MATRIX, (((1, 1), (1, 1)), ((), ()))),
        "to be distinct",
    ),
    "dot disjoint": (
        lambda lax: lax.dot_general(MATRIX, MATRIX, (((1,), (1,)), ((1,), (1,)))),
        "to be disjoint",
    ),
    "dot batch count": (
        lambda lax: lax.dot_general(MATRIX, MATRIX, (((), ()), ((0,), ()))),
        "equal numbers of",
    ),
    "dot of a cube": (
        lambda lax: lax.dot(np.ones((2, 2, 2), np.float32), MATRIX),
        "dimension_numbers must be specified",
    ),
    "dot precision": (
        lambda lax: lax.dot(VECTOR, VECTOR, precision="best"),
        "Precision argument must be one of",
    ),
    "batch_matmul rank": (lambda lax: lax.batch_matmul(VECTOR, VECTOR), "must be at least 2D"),
    "bitcast booleans": (
        lambda lax: lax.bitcast_convert_type(TRUTH, np.int8),
        "does not support bool or complex",
    ),
    "reduce_precision bits": (
        lambda lax: lax.reduce_precision(VECTOR, 0, 3),
        "exponent_bits must be positive",
    ),
    "reduce_precision of ints": (
        lambda lax: lax.reduce_precision(INTEGERS, 5, 3),
        "reduce_precision does not accept",
    ),
    "convert to nothing": (lambda lax: lax.convert_element_type(VECTOR, "nothing"), "not understood"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_says_what_jax_says(name: str) -> None:
    """Same exception type and essentials, evaluated and staged.

    Of JAX the staged error is taken: evaluated, it sometimes leaves the complaint to XLA.
    """
    call, words = MISTAKES[name]
    with pytest.raises(Exception, match=re.escape(words)) as theirs:
        jax.make_jaxpr(lambda: call(jax.lax))()
    with pytest.raises(type(theirs.value), match=re.escape(words)):
        call(minijax.lax)
    with pytest.raises(type(theirs.value), match=re.escape(words)):
        minijax.make_jaxpr(lambda: call(minijax.lax))()


def test_reshape_keeps_the_number_of_elements() -> None:
    """Checked here, in the words of JAX's rule for it; JAX 0.10 leaves it to XLA."""
    with pytest.raises(TypeError, match="reshape total size must be unchanged, got new_sizes"):
        minijax.lax.reshape(VECTOR, (2, 2))


def test_shapes_must_be_known() -> None:
    """A traced size is not a shape, and the message says what helps."""
    with pytest.raises(TypeError, match="Shapes must be 1D sequences of concrete values of integer type"):
        minijax.jit(lambda n: minijax.lax.full((n,), 0.0))(3)
    with pytest.raises(TypeError, match="static_argnums"):
        minijax.jit(lambda n: minijax.lax.broadcast(1.0, (n,)))(3)


def test_reduce_by_a_function_that_does_not_fit() -> None:
    reduce = minijax.lax.reduce
    with pytest.raises(ValueError, match="reduce: the computation's output must have the same tree structure"):
        reduce(VECTOR, 0.0, lambda a, b: (a, b), (0,))
    with pytest.raises(ValueError, match=r"it gives ~bool\[\] for an operand of type float32.*Convert them to one"):
        reduce(VECTOR, 0.0, lambda a, b: a < b, (0,))
    with pytest.raises(TypeError, match="reduce operand dtypes should match corresponding initial value dtypes"):
        reduce(VECTOR, 0, lambda a, b: a + b, (0,))
    with pytest.raises(ValueError, match=r"non-scalar initial value: \[\(2,\)\]"):
        reduce(VECTOR, np.zeros(2, np.float32), minijax.lax.add, (0,))
    with pytest.raises(NotImplementedError, match="can't close over Tracers.*one of the operands"):
        minijax.jit(lambda k: reduce(VECTOR, 0.0, lambda a, b: a + b * k, (0,)))(2.0)


@pytest.mark.parametrize("algorithm", ["TF32_TF32_F32", "F16_F16_F32"])
def test_algorithms_of_accelerators_are_refused(algorithm: str) -> None:
    """Where the product is compiled, as in JAX; here also where it is evaluated."""
    for ns, evaluate in ((jax, jax.jit), (minijax, minijax.jit), (minijax, lambda f: f)):
        product = evaluate(lambda x, ns=ns: ns.lax.dot(x, x.T, precision=algorithm))
        with pytest.raises(ValueError, match=f"The precision '{algorithm}' is not supported by dot_general on CPU"):
            product(ns.numpy.asarray(MATRIX))
    with pytest.raises(ValueError, match="Precision argument must be one of"):
        minijax.lax.dot(MATRIX, MATRIX.T, precision="F32")


def use_of_a_deleted_array() -> None:
    x = minijax.numpy.ones(3) * 2
    x.delete()
    x + 1


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: minijax.lax.add(VECTOR, np.ones((2, 2), np.float32)),
        lambda: minijax.jit(lambda x: minijax.lax.add(x, np.ones((2, 2), np.float32)))(VECTOR),
        lambda: minijax.grad(lambda x: minijax.lax.add(x, np.ones((2, 2), np.float32)))(VECTOR),
        lambda: minijax.jit(lambda x: x)("a"),
        lambda: minijax.jit(lambda x: x)(2**40),
        lambda: minijax.jit(lambda x: x)(np.array([1], ">i4")),
        use_of_a_deleted_array,
    ],
)
def test_no_look_up_of_ours_is_told_before_the_error(mistake: Any) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011  (whichever)
        mistake()
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_imaginary_parts_are_not_dropped_silently() -> None:
    """Converting complex numbers to real ones warns, as NumPy and JAX do."""
    with pytest.warns(np.exceptions.ComplexWarning):
        out = minijax.lax.convert_element_type(np.array([1 + 2j], np.complex64), np.float32)
    np.testing.assert_array_equal(out, [1.0])
