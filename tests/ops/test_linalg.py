"""Decompositions and Fourier transforms beside JAX's: derivatives' equations, errors, empty matrices, lowerings.

Values, derivatives, vmap along every axis and control flow of each are in ``tests/interop/test_borrowed.py``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import minijax
import minijax.lax.linalg
from minijax.lowering.lower import lower_closed

from ..oracle.normalise import normalise
from ..oracle.subject import assert_same, x64_mode

pytestmark = pytest.mark.usefixtures("compiled_quickly")

Function = Callable[..., Any]


def matrices(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Matrices of full rank, far from singular, with distinct eigenvalues."""
    size = int(np.prod(shape))
    x = (np.arange(size) * 7 % 11 / 11 - 0.4).reshape(shape) + np.eye(*shape[-2:]) * np.arange(2, 2 + shape[-1])
    return np.asarray(x + 0.25j * x[..., ::-1] if np.dtype(dtype).kind == "c" else x, dtype)


def definite(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    x = matrices(*shape, dtype=dtype)
    return np.asarray(x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(shape[-1]), dtype)


EIG = {"compute_left_eigenvectors": False, "enable_eigvec_derivs": True}
# name -> function of ``lax``, and the shape that it is differentiated at
DIFFERENTIABLE: dict[str, tuple[Function, tuple[int, ...]]] = {
    "cholesky": (lambda lax, x: lax.linalg.cholesky(x), (3, 3)),
    "lu": (lambda lax, x: lax.linalg.lu(x), (3, 3)),
    "lu, tall": (lambda lax, x: lax.linalg.lu(x), (4, 2)),
    "lu, wide": (lambda lax, x: lax.linalg.lu(x), (2, 4)),
    "qr": (lambda lax, x: lax.linalg.qr(x, full_matrices=False), (4, 3)),
    "qr, wide": (lambda lax, x: lax.linalg.qr(x), (2, 4)),
    "qr, full": (lambda lax, x: lax.linalg.qr(x), (4, 2)),
    "eigh": (lambda lax, x: lax.linalg.eigh(x), (3, 3)),
    "svd": (lambda lax, x: lax.linalg.svd(x), (3, 3)),
    "svd, tall": (lambda lax, x: lax.linalg.svd(x, full_matrices=False), (4, 3)),
    "svd, wide": (lambda lax, x: lax.linalg.svd(x, full_matrices=False), (2, 3)),
    "singular values": (lambda lax, x: lax.linalg.svd(x, compute_uv=False), (3, 3)),
    "triangular_solve": (lambda lax, x: lax.linalg.triangular_solve(x, x, conjugate_a=True, lower=True), (3, 3)),
    "fft": (lambda lax, x: lax.fft(x, "ifft", (3,)), (2, 3)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.float64], ids=["real", "complex", "double"])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_have_jaxs_equations(name: str, dtype: Any) -> None:
    with x64_mode("64" if dtype is np.float64 else "32"):
        check_derivative(*DIFFERENTIABLE[name], dtype)


def check_derivative(function: Function, shape: tuple[int, ...], dtype: Any) -> None:
    for lead in ((), (2,)):
        x = matrices(*lead, *shape, dtype=dtype)

        def pushed(ns: Any, x: Any = x) -> Any:
            def function_jvp(x: Any, t: Any) -> Any:
                return ns.jvp(lambda x: function(ns.lax, x), (x,), (t,))

            return ns.make_jaxpr(function_jvp)(x, x)

        assert normalise(pushed(minijax)).lines == normalise(pushed(jax)).lines


@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "values"])
def test_derivatives_of_eigenvalues(vectors: bool) -> None:
    """The equations are others than JAX's, which solves by ``custom_linear_solve``."""
    for dtype in (np.float32, np.complex64):
        x = matrices(2, 3, 3, dtype=dtype)

        def pushed(ns: Any, x: Any = x) -> Any:
            def eig(x: Any) -> Any:
                return ns.lax.linalg.eig(x, compute_right_eigenvectors=vectors, **EIG)

            return ns.jit(lambda x: ns.jvp(eig, (x,), (x[::-1],)))(x)

        assert_same(pushed(minijax), pushed(jax))


def test_transforms_of_real_numbers_are_transposed() -> None:
    def transposed(ns: Any, kind: str, lengths: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        x = matrices(*shape, dtype=np.float32 if kind == "rfft" else np.complex64)
        out, pull = ns.vjp(lambda x: ns.lax.fft(x, kind, lengths), x)
        return out, pull(out * 2), ns.make_jaxpr(pull)(out)

    for kind, lengths, shape in (
        ("rfft", (3,), (2, 3)), ("rfft", (2, 4), (2, 4)), ("irfft", (4,), (2, 3)), ("irfft", (2, 5), (2, 3))
    ):
        *ours, closed = transposed(minijax, kind, lengths, shape)
        *theirs, expected = transposed(jax, kind, lengths, shape)
        assert_same(ours, theirs)
        assert normalise(closed).lines == normalise(expected).lines


ERRORS: list[tuple[Function, tuple[Any, ...]]] = [
    (lambda lax, x: lax.linalg.cholesky(x), (np.ones((2, 3), np.float32),)),
    (lambda lax, x: lax.linalg.cholesky(x, symmetrize_input=False), (np.ones((2, 3), np.float32),)),
    (lambda lax, x: lax.linalg.cholesky(x, symmetrize_input=False), (np.eye(2, dtype=np.int32),)),
    (lambda lax, x: lax.linalg.cholesky(x), (np.eye(2, dtype=np.float16),)),
    (lambda lax, x: lax.linalg.lu(x), (np.ones(3, np.float32),)),
    (lambda lax, x: lax.linalg.qr(x), (np.ones(3, np.float32),)),
    (lambda lax, x: lax.linalg.eigh(x, subset_by_index=(0, 1)), (np.eye(3, dtype=np.float32),)),
    (lambda lax, x: lax.linalg.svd(x), (np.ones(3, np.int32),)),
    (lambda lax, x: lax.linalg.eig(x), (np.ones((2, 3), np.float32),)),
    (lambda lax, x: lax.linalg.schur(x), (np.ones((2, 3), np.float32),)),
    (lambda lax, x, y: lax.linalg.triangular_solve(x, y, left_side=True),
     (np.eye(3, dtype=np.float32), np.ones((2, 3), np.float32))),
    (lambda lax, x, y: lax.linalg.triangular_solve(x, y), (np.eye(3, dtype=np.float32), np.ones((3, 3), np.complex64))),
    (lambda lax, x, y: lax.linalg.triangular_solve(x, y),
     (np.eye(3, dtype=np.float32), np.ones((2, 3, 3), np.float32))),
    (lambda lax, x: lax.linalg.triangular_solve(x, x), (np.ones((2, 3), np.float32),)),
    (lambda lax, x, y: lax.linalg.householder_product(x, y), (np.ones((2, 3), np.float32), np.ones(2, np.float32))),
    (lambda lax, x: lax.linalg.lu_pivots_to_permutation(x, 2), (np.ones(3, np.int32),)),
    (lambda lax, x: lax.linalg.lu_pivots_to_permutation(x, 4), (np.ones(3, np.float32),)),
    (lambda lax, x: lax.fft(x, "fft", (2,)), (np.ones((2, 3), np.float32),)),
    (lambda lax, x: lax.fft(x, "rfft", (3,)), (np.ones((2, 3), np.complex64),)),
    (lambda lax, x: lax.fft(x, "rfft", (3,)), (np.ones((2, 3), np.float16),)),
    (lambda lax, x: lax.fft(x, "fft", (1, 2, 3)), (np.ones((2, 3), np.float32),)),
    (lambda lax, x: lax.fft(x, "fast", (3,)), (np.ones((2, 3), np.float32),)),
    (lambda lax, x: lax.fft(x, "fft", [3]), (np.ones((2, 3), np.float32),)),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors_are_of_jaxs_kinds(case: int) -> None:
    function, args = ERRORS[case]
    with pytest.raises(Exception) as theirs:  # noqa: B017 (its type is what is asked)
        function(jax.lax, *args)
    with pytest.raises(theirs.type):
        function(minijax.lax, *args)


@pytest.mark.parametrize("shape", [(0, 0), (0, 2, 2), (2, 0, 3), (3, 0)])
def test_matrices_without_elements(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    names = ["lu", "qr", "svd", *(["cholesky", "eigh", "eig", "schur"] if shape[-1] == shape[-2] else [])]

    def everything(ns: Any) -> Any:
        return ns.jit(lambda x: [getattr(ns.lax.linalg, name)(x) for name in names])(x)

    assert_same(everything(minijax), everything(jax))


def test_what_fails_is_nan_and_pivoted_columns_are_numbered() -> None:
    def found(ns: Any) -> Any:
        indefinite = np.stack([definite(2, 2), -definite(2, 2)])
        factors = ns.lax.linalg.cholesky(indefinite)
        return factors, ns.lax.linalg.qr(matrices(2, 3, 4), pivoting=True, full_matrices=False)

    assert_same(found(minijax), found(jax))
    assert np.isnan(np.asarray(found(minijax)[0])[1]).any() and not np.isnan(np.asarray(found(minijax)[0])[0]).any()


CALLED = ["cholesky", "lu", "qr", "eigh", "svd", "eig", "schur", "hessenberg", "tridiagonal"]


@pytest.mark.parametrize("name", CALLED)
def test_the_routines_are_those_that_jax_calls(name: str) -> None:
    def routines(ns: Any, dtype: Any) -> list[str]:
        text = ns.jit(lambda x: getattr(ns.lax.linalg, name)(x)).lower(definite(2, 3, 3, dtype=dtype)).as_text()
        return re.findall(r"@lapack_\w+|(?:uplo|mode|compute_\w+|high|low) = \d+", text)

    for dtype in (np.float32, np.complex64):
        assert routines(minijax, dtype) == routines(jax, dtype) != []


def test_on_other_platforms_the_lowering_is_jaxs() -> None:
    closed = minijax.make_jaxpr(minijax.lax.linalg.eigh)(definite(3, 3))
    text = lower_closed(closed, "f", platform=lambda: "cuda")
    assert "cusolver_syevd_ffi" in text and "lapack" not in text


def test_no_jax_is_needed() -> None:
    code = """
        import sys, minijax, numpy as np
        from minijax.lax import linalg
        x = np.array([[2, 1], [1, 3]], np.float32)
        print(linalg.cholesky(x)[1, 1], minijax.jit(minijax.grad(lambda x: linalg.eigh(x)[1][0]))(x).shape)
        print(abs(minijax.lax.fft(x, "rfft", (2,))[1, 1]), "jax" in sys.modules)
    """
    lines = [line.strip() for line in code.strip().splitlines()]
    run = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["1.5811388", "(2,", "2)", "2.0", "False"]
