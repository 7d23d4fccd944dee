"""``linalg`` and ``fft`` of ``numpy`` beside JAX's: programs, values, derivatives, kinds of errors."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest

import minijax
import minijax.numpy

from ..ops.test_linalg import definite, matrices
from ..oracle.normalise import normalise
from ..oracle.subject import assert_same

pytestmark = pytest.mark.usefixtures("compiled_quickly")

REAL, COMPLEX, MANY = definite(3, 3), definite(3, 3, dtype=np.complex64), definite(2, 3, 3)
TALL, WIDE, WHOLE = matrices(4, 3), matrices(3, 4), np.array([[4, 1, 0], [1, 5, 2], [0, 2, 6]], np.int32)
SIGNAL, SPECTRUM = matrices(4, 6), matrices(4, 6, dtype=np.complex64)

Call = tuple[str, str, tuple[Any, ...], dict[str, Any]]


def calls() -> Iterator[Call]:
    """Module, name, arguments."""
    of = "numpy.linalg"
    for name in "cholesky det slogdet inv eigh eigvalsh eig eigvals svd svdvals qr pinv cond matrix_rank".split():
        for x in (REAL, COMPLEX, MANY, WHOLE):
            yield of, name, (x,), {}
    yield of, "cholesky", (COMPLEX,), {"upper": True, "symmetrize_input": False}
    for n in (1, 2, 4):
        yield of, "det", (matrices(2, n, n),), {}
        yield of, "slogdet", (matrices(n, n),), {}
    yield of, "slogdet", (REAL,), {"method": "qr"}
    for a, b in ((REAL, TALL[:3]), (MANY, TALL[0]), (MANY, TALL[:3, :2]), (REAL, MANY), (WHOLE, WHOLE)):
        yield of, "solve", (a, b), {}
    for mode in ("complete", "r", "raw"):
        yield of, "qr", (TALL,), {"mode": mode}
    yield of, "svd", (TALL,), {"full_matrices": False}
    yield of, "svd", (COMPLEX,), {"hermitian": True}
    yield of, "svd", (REAL,), {"hermitian": True, "compute_uv": False}
    yield of, "eigh", (REAL, "U"), {"symmetrize_input": False}
    yield of, "matrix_rank", (REAL, 0.1), {"hermitian": True}
    yield of, "matrix_rank", (REAL[0],), {}
    yield of, "pinv", (WIDE, 0.1), {}
    yield of, "pinv", (np.zeros((0, 3), np.float32),), {}
    for n in (0, 1, 3, 5, -2):
        yield of, "matrix_power", (MANY, n), {}
    for p in (-2, 1, "fro", np.inf):
        yield of, "cond", (REAL,), {"p": p}
    for order in ("nuc", 2, -2):
        yield of, "norm", (matrices(2, 3, 4), order), {"axis": (2, 0), "keepdims": True}
    for a, b, rcond in ((REAL, TALL[:3], None), (TALL, TALL[:, 0], None), (WIDE, TALL[:3], 0.1)):
        yield of, "lstsq", (a, b, rcond), {}
    yield of, "tensorinv", (matrices(2, 3, 6),), {}
    yield of, "tensorsolve", (matrices(2, 3, 6), TALL[:2]), {}
    yield of, "multi_dot", ([TALL, REAL, REAL, REAL[0]],), {}

    of = "numpy.fft"
    names = "fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn fftshift ifftshift"
    for name in names.split():
        yield of, name, (SIGNAL,), {}
        if name[0] not in "r" and name != "ihfft":
            yield of, name, (SPECTRUM,), {}
    for name in ("fft", "irfft", "hfft"):
        yield of, name, (SIGNAL,), {"n": 5, "axis": 0, "norm": "ortho"}
    for name in ("fftn", "irfftn"):
        yield of, name, (SIGNAL, (3, 8), (1, 0)), {"norm": "forward"}
        yield of, name, (matrices(2, 3, 2, 4),), {}
    yield of, "fftshift", (SIGNAL, 0), {}
    yield of, "fftfreq", (5, 0.5), {}
    yield of, "rfftfreq", (6,), {}


CALLS = list(calls())


def applied(ns: Any, call: Call, *values: Any) -> Any:
    """The call in the library ``ns``, its arrays replaced by ``values``."""
    module, name, args, kwargs = call
    leaves, tree = jax.tree.flatten(args)
    given = iter(values)
    args = jax.tree.unflatten(tree, [next(given) if isinstance(x, np.ndarray) else x for x in leaves])
    found = functools.reduce(getattr, [*module.split("."), name], ns)(*args, **kwargs)
    # the classes of results are each library's own
    return tuple(found) if hasattr(found, "_fields") else found


def arrays(call: Call) -> list[np.ndarray]:
    return [x for x in jax.tree.leaves(call[2]) if isinstance(x, np.ndarray)]


# The diagonal of a matrix, in JAX, is a choice by platform between two ways of taking it: these take diagonals.
OTHERWISE = {"det", "slogdet"}


@pytest.mark.parametrize("module", sorted({call[0] for call in CALLS}))
def test_programs_are_jaxs(module: str) -> None:
    """The same equations, those of inner calls written out; calls have the same names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # JAX's, about right sides of several dimensions
        for call in CALLS:
            if call[0] != module or (call[1] in OTHERWISE and call[2][0].shape[-1] > 2):
                continue

            def staged(ns: Any, call: Call = call) -> Any:
                return ns.make_jaxpr(functools.partial(applied, ns, call))(*arrays(call))

            ours, theirs = staged(minijax), staged(jax)
            views = [normalise(closed) for closed in (ours, theirs)]
            assert views[0].lines == views[1].lines, call
            names = [
                [eqn.params["name"] for eqn in closed.jaxpr.eqns if eqn.primitive.name == "jit"]
                for closed in (ours, theirs)
            ]
            assert names[0] == names[1], call


@pytest.mark.parametrize("module", sorted({call[0] for call in CALLS}))
def test_values_and_derivatives_are_jaxs(module: str) -> None:
    """All calls of a module in one program of each library, and the pull-backs of those whose results are unique."""

    def everything(ns: Any) -> list[Any]:
        found: list[Any] = []
        for call in CALLS:
            if call[0] != module:
                continue
            found.append(applied(ns, call, *arrays(call)))
        for name, args in PULLED.get(module, ()):
            call = (module, name, args, {})

            def total(*xs: Any, call: Call = call) -> Any:
                outs = ns.tree.leaves(applied(ns, call, *xs))
                return sum(ns.numpy.sum(ns.numpy.abs(y) ** 2) for y in outs if y.dtype.kind in "fc")

            found.append(ns.grad(total, tuple(range(len(args))))(*args))
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        ours, theirs = (ns.jit(everything, static_argnums=0)(ns) for ns in (minijax, jax))
    assert_same(ours, theirs, scale=30)


PULLED: dict[str, list[tuple[str, tuple[Any, ...]]]] = {
    "numpy.linalg": [
        ("det", (definite(4, 4),)),
        ("det", (np.diag(np.float32([1, 2, 0, 3])),)),
        ("slogdet", (MANY,)),
        ("slogdet", (matrices(2, 2),)),
        ("inv", (COMPLEX,)),
        ("solve", (MANY, TALL[:3])),
        ("pinv", (TALL,)),
        ("pinv", (WIDE,)),
        ("lstsq", (TALL, TALL[:, 0])),
        ("eigvalsh", (REAL,)),
    ],
    "numpy.fft": [("rfft", (SIGNAL,)), ("irfftn", (SPECTRUM,))],
}

ERRORS: list[tuple[str, Callable[[Any], Any]]] = [
    ("linalg", lambda f: f.inv(TALL)),
    ("linalg", lambda f: f.det(TALL)),
    ("linalg", lambda f: f.slogdet(REAL, method="no")),
    ("linalg", lambda f: f.slogdet(COMPLEX, method="qr")),
    ("linalg", lambda f: f.solve(REAL, WIDE[:2])),
    ("linalg", lambda f: f.solve(REAL[0], REAL)),
    ("linalg", lambda f: f.cholesky([[1.0]])),
    ("linalg", lambda f: f.eigh(REAL, "X")),
    ("linalg", lambda f: f.qr(REAL, "no")),
    ("linalg", lambda f: f.matrix_power(REAL, 1.5)),
    ("linalg", lambda f: f.matrix_power(TALL, 2)),
    ("linalg", lambda f: f.lstsq(MANY, REAL)),
    ("linalg", lambda f: f.lstsq(TALL, REAL)),
    ("linalg", lambda f: f.cond(REAL[0])),
    ("linalg", lambda f: f.cond(TALL, 1)),
    ("linalg", lambda f: f.norm(REAL, 7)),
    ("linalg", lambda f: f.tensorinv(MANY, 0)),
    ("linalg", lambda f: f.multi_dot([REAL])),
    ("linalg", lambda f: f.multi_dot([REAL, REAL[0], REAL])),
    ("fft", lambda f: f.fft([1.0, 2.0])),
    ("fft", lambda f: f.fft(SIGNAL, axis=5)),
    ("fft", lambda f: f.fft(SIGNAL, n=0)),
    ("fft", lambda f: f.fft(SIGNAL, norm="no")),
    ("fft", lambda f: f.fft(SIGNAL, axis=(0, 1))),
    ("fft", lambda f: f.fft2(SIGNAL, axes=(0,))),
    ("fft", lambda f: f.fftn(SIGNAL, s=(1,), axes=(0, 1))),
    ("fft", lambda f: f.fftn(SIGNAL, axes=(0, 0))),
    ("fft", lambda f: f.rfft(SPECTRUM)),
    ("fft", lambda f: f.fftfreq([3])),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors_are_of_jaxs_kinds(case: int) -> None:
    module, call = ERRORS[case]

    with pytest.raises(Exception) as theirs:  # noqa: B017 (its type is what is asked)
        call(getattr(jax.numpy, module))
    with pytest.raises(theirs.type):
        call(getattr(minijax.numpy, module))


def test_evaluated_by_steps_or_compiled_they_are_jaxs_to_the_bit() -> None:
    for module, name in (("numpy.linalg", "solve"), ("numpy.linalg", "eigh"), ("numpy.fft", "rfft")):
        call = (module, name, (REAL, TALL[:3]) if name == "solve" else (REAL,), {})
        ours, theirs = (jax.tree.leaves(jax.tree.map(np.asarray, applied(ns, call, *call[2]))) for ns in (minijax, jax))
        assert [x.tobytes() for x in ours] == [x.tobytes() for x in theirs]
