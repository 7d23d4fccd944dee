"""Primitives raise JAX's type of error for unsuitable operands, with the essential words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import minijax

from ..oracle.refusals import check_refused
from .table import values

pytestmark = pytest.mark.usefixtures("tracebacks_whole")

VECTOR = np.arange(3, dtype=np.float32)
MATRIX = np.ones((2, 3), np.float32)
TRUTH = np.array([True, False, True])
INTEGERS = np.arange(3, dtype=np.int32)


def deleted(ns: Any) -> Any:
    """A deleted array. Deleting it a second time raises no error."""
    x = ns.numpy.arange(3.0)
    assert not x.is_deleted()
    x.delete()
    x.delete()
    assert x.is_deleted() and x.shape == (3,)
    return x


def names(ns: Any) -> dict[str, Any]:
    """The names that expressions of ``refused.txt`` use."""
    lax = ns.lax

    def conv(strides: Any = (1,), padding: Any = "SAME", rhs: Any = (2, 1, 2), dtype: Any = "f4", **params: Any) -> Any:
        images = np.ones((3, params.get("feature_group_count", 1) or 1, 4), np.float32)
        return lax.conv_general_dilated(images, np.ones(rhs, dtype), strides, padding, **params)

    def numbers(*numbers: Any, rank: int = 3) -> Any:
        return lax.conv_dimension_numbers((1,) * rank, (1,) * rank, numbers)

    def gather(*fields: Any, sizes: Any = (1, 3), shape: Any = (2, 1), dtype: Any = np.int32) -> Any:
        dims = lax.GatherDimensionNumbers(*fields)
        return lax.gather(np.ones((4, 3), np.float32), np.zeros(shape, dtype), dims, sizes)

    def scatter(*fields: Any, updates: Any = (2, 3), dtype: Any = np.float32) -> Any:
        dims, where = lax.ScatterDimensionNumbers(*fields), np.zeros((2, 1), np.int32)
        return lax.scatter(np.ones((4, 3), np.float32), where, np.ones(updates, dtype), dims)

    functions = {"conv": conv, "numbers": numbers, "gather": gather, "scatter": scatter, "deleted": deleted}
    arrays = {"a": ns.numpy.asarray(VECTOR), "x": ns.numpy.asarray(values(3, 4))}
    return {**functions, **arrays, "V": VECTOR, "M": MATRIX, "T": TRUTH, "I": INTEGERS}


LINES = (Path(__file__).parent / "refused.txt").read_text(encoding="utf-8").partition("# evaluated\n")


@pytest.mark.parametrize("line", LINES[0].splitlines()[1:])
def test_refused_programs_match_jax(line: str) -> None:
    check_refused(line, names, staged=True)


@pytest.mark.parametrize("line", LINES[2].splitlines())
def test_refused_calls_match_jax(line: str) -> None:
    check_refused(line, names)


def test_reshape_keeps_the_number_of_elements() -> None:
    """minijax checks this itself, in the words of JAX's rule; JAX 0.10 leaves the check to XLA."""
    with pytest.raises(TypeError, match="reshape total size must be unchanged, got new_sizes"):
        minijax.lax.reshape(VECTOR, (2, 2))


def test_shapes_must_be_known() -> None:
    """A traced size is no valid shape. The message suggests static_argnums."""
    with pytest.raises(TypeError, match="Shapes must be 1D sequences of concrete values of integer type"):
        minijax.jit(lambda n: minijax.lax.full((n,), 0.0))(3)
    with pytest.raises(TypeError, match="static_argnums"):
        minijax.jit(lambda n: minijax.lax.broadcast(1.0, (n,)))(3)


def test_reduce_refuses_a_function_that_does_not_fit() -> None:
    reduce = minijax.lax.reduce
    with pytest.raises(ValueError, match="reduce: the computation's output must have the same tree structure"):
        reduce(VECTOR, 0.0, lambda a, b: (a, b), (0,))
    with pytest.raises(ValueError, match=r"it gives ~bool\[\] for an operand of type float32.*Convert them to one"):
        reduce(VECTOR, 0.0, lambda a, b: a < b, (0,))
    with pytest.raises(TypeError, match="reduce operand dtypes should match corresponding initial value dtypes"):
        reduce(VECTOR, 0, lambda a, b: a + b, (0,))
    with pytest.raises(ValueError, match=r"non-scalar initial value: \[\(2,\)\]"):
        reduce(VECTOR, np.zeros(2, np.float32), minijax.lax.add, (0,))
    with pytest.raises(NotImplementedError, match="can't close over Tracers.*as operands"):
        minijax.jit(lambda k: reduce(VECTOR, 0.0, lambda a, b: a + b * k, (0,)))(2.0)


@pytest.mark.parametrize("algorithm", ["TF32_TF32_F32", "F16_F16_F32"])
def test_algorithms_of_accelerators_are_refused(algorithm: str) -> None:
    """Both libraries raise when they compile the product; minijax also raises when it evaluates it."""
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
def test_errors_have_no_context_inside_minijax(mistake: Any) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011  (any error)
        mistake()
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_imaginary_parts_are_not_dropped_silently() -> None:
    """Converting complex numbers to real ones warns, as NumPy and JAX do."""
    with pytest.warns(np.exceptions.ComplexWarning):
        out = minijax.lax.convert_element_type(np.array([1 + 2j], np.complex64), np.float32)
    np.testing.assert_array_equal(out, [1.0])
