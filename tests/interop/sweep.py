"""Every borrowed function beside JAX's, eagerly and under ``jit``: ``python -m tests.interop.sweep [module ...]``.

Each is called with the first of a list of arguments that JAX takes, or as ``OWN`` says. Printed: how many results were
the same (refused by both counts as that), what differed, and which functions took none of the arguments. Takes half a
minute; not part of the test suite.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import ml_dtypes
import numpy as np

import minijax as mj
from minijax import numpy as jnp
from minijax.core.lacking import public_names

SQUARE = np.array([[2.0, 0.5], [0.25, 1.0]], np.float32)
VECTOR = np.array([0.3, 0.7, 0.2, 0.9], np.float32)
INTS = np.array([1, 2, 3, 0], np.int32)
BOOLS = np.array([True, False, True, True])
IMAGE = SQUARE[None, None]
KEY = np.array([0, 7], np.uint32)

ARGUMENTS: list[tuple[Any, ...]] = [
    *[(x,) for x in (KEY, SQUARE, VECTOR, INTS, BOOLS)],
    *[(x, x) for x in (SQUARE, VECTOR, INTS, BOOLS)],
    *[(KEY, *rest) for rest in ((3,), (VECTOR,), (VECTOR, VECTOR), (VECTOR, SQUARE), ((2, 3),), (3, (2,)), (0.5,))],
    *[(KEY, 0, (3,)), (KEY, (2,), 0, 5), (KEY, 0.0, 1.0), (KEY, 5, VECTOR[:2] / 3), (KEY, (2, 3), np.float32)],
    *[(VECTOR,) * 3, (VECTOR,) * 4, (SQUARE,) * 3, (SQUARE, VECTOR[:2]), (VECTOR[:2], SQUARE)],
    *[(SQUARE, 2), (VECTOR, 2), (2,), (VECTOR, INTS), (3, 3), (VECTOR, VECTOR, 2), (VECTOR, [0.1, 0.5])],
    *[(SQUARE, 0), (2, 2, 3), (VECTOR > 0.5, VECTOR), (INTS, 4), (VECTOR, 0, 1), (VECTOR, 30.0), (INTS, VECTOR)],
    *[((2, 3),), ((INTS, INTS), (4, 4)), (2, VECTOR), (0, 1, VECTOR), ([1, 2], [2, 3]), ((4,), np.float32)],
    *[(IMAGE, IMAGE, (1, 1), "SAME"), (IMAGE, IMAGE, (1, 1), [(0, 0), (0, 0)]), (IMAGE, (1, 1), (1, 1), "SAME")],
    *[(SQUARE, (4, 4), "linear"), (VECTOR, VECTOR, VECTOR, 2), (VECTOR, "fft", (4,)), (VECTOR + 0j, "fft", (4,))],
    *[(SQUARE, [VECTOR[:2], VECTOR[:2]], 1), ((SQUARE, INTS[:2]), VECTOR[:2]), ((SQUARE, False), VECTOR[:2])],
    *[(VECTOR, VECTOR[:3]), (np.eye(4, dtype=np.float32), VECTOR), (SQUARE, SQUARE, INTS[1:2] * 0 + 2)],
    *[(np.uint8([3, 200]),), (INTS[:2], INTS[:2], VECTOR[:2], VECTOR[:2]), (VECTOR[:1], INTS[:1] * 0)],
]

ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)
MATRICES = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
SIZES = np.array([1, 2], np.int32)
DIAGONAL = np.array([0.0, 1.0, 1.0], np.float32)
RAGGED = jax.lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])
PRODUCT = (((1,), (0,)), ((), ()))
FLOAT8 = np.ones((1, 8, 32), ml_dtypes.float8_e4m3fn)
SCALES = np.ones((1, 8, 1), ml_dtypes.float8_e8m0fnu)

# What has arguments like no other: a call on the arrays of a library.
OWN: dict[str, Callable[[Any, Callable[..., Any]], Any]] = {
    "scipy.special.bessel_jn": lambda ns, a: ns.scipy.special.bessel_jn(a(VECTOR), v=2),
    "nn.scaled_dot_general": lambda ns, a: ns.nn.scaled_dot_general(a(SQUARE), a(SQUARE), PRODUCT),
    "nn.get_scaled_dot_general_config": lambda ns, a: ns.nn.get_scaled_dot_general_config("mxfp8").mode,
    "nn.scaled_matmul": lambda ns, a: ns.nn.scaled_matmul(a(FLOAT8), a(FLOAT8), a(SCALES), a(SCALES)),
    "lax.index_take": lambda ns, a: ns.lax.index_take(a(SQUARE), (a(SIZES - 1),), (0,)),
    "lax.pcast": lambda ns, a: ns.lax.pcast(a(VECTOR), "i", to="varying"),
    "lax.platform_dependent": lambda ns, a: ns.lax.platform_dependent(
        a(VECTOR), cpu=lambda x: x + 1.0, default=lambda x: x
    ),
    "lax.precv": lambda ns, a: ns.lax.precv(ns.lax.create_token(), a(VECTOR), "i", [(0, 0)]),
    "lax.psend": lambda ns, a: ns.lax.psend(a(VECTOR), "i", [(0, 0)]),
    "lax.ragged_all_to_all": lambda ns, a: ns.lax.ragged_all_to_all(
        a(VECTOR), a(VECTOR), *[a(SIZES)] * 4, axis_name="i"
    ),
    "lax.ragged_dot": lambda ns, a: ns.lax.ragged_dot(a(ROWS), a(MATRICES), a(SIZES)),
    "lax.ragged_dot_general": lambda ns, a: ns.lax.ragged_dot_general(a(ROWS), a(MATRICES), a(SIZES), RAGGED),
    "lax.rng_bit_generator": lambda ns, a: ns.lax.rng_bit_generator(a(np.uint32([1, 2, 3, 4])), (3,)),
    "lax.rng_uniform": lambda ns, a: ns.lax.rng_uniform(0.0, 1.0, (3,)).shape,
    "lax.with_sharding_constraint": lambda ns, a: ns.lax.with_sharding_constraint(
        a(VECTOR), jax.sharding.SingleDeviceSharding(jax.devices()[0])
    ),
    "lax.linalg.ormqr": lambda ns, a: ns.lax.linalg.ormqr(a(SQUARE), a(VECTOR[:2]), a(SQUARE)),
    "lax.linalg.tridiagonal_solve": lambda ns, a: ns.lax.linalg.tridiagonal_solve(
        a(DIAGONAL), a(DIAGONAL + 4), a(DIAGONAL[::-1].copy()), a(ROWS)
    ),
}

# They read or write, or make what is no array.
_READ_OR_WRITE = "save savez load fromfile frombuffer fromiter fromstring from_dlpack"
_SKIPPED = frozenset(f"{_READ_OR_WRITE} create_token after_all dce_sink array_repr einsum_path".split())


def borrowed_functions(wanted: list[str]) -> Iterator[tuple[str, Callable[..., Any], Callable[..., Any]]]:
    """Name, ours and JAX's of each function that is borrowed, in the modules ``wanted``, or all."""
    for module, names in public_names().items():
        if wanted and module not in wanted:
            continue
        theirs = importlib.import_module(f"jax.{module}")
        ours: Any = mj
        for part in module.split("."):
            ours = getattr(ours, part)
        for name in names:
            function = getattr(theirs, name, None)
            if name in _SKIPPED or inspect.ismodule(function) or inspect.isclass(function) or not callable(function):
                continue
            mine = getattr(ours, name)
            if hasattr(mine, "borrowed_from"):
                yield f"{module}.{name}", mine, function


def taken(function: Callable[..., Any]) -> tuple[tuple[Any, ...], Any] | None:
    """The first arguments that JAX's function takes, and its result."""
    for args in ARGUMENTS:
        try:
            return args, function(*args)
        except Exception:  # noqa: BLE001, S112  (whatever it says about arguments that are not meant for it)
            continue
    return None


def jitted(library: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The result under ``jit``, the arrays among ``args`` as its arguments."""
    places = [i for i, x in enumerate(args) if isinstance(x, np.ndarray)]

    def of_arrays(*arrays: Any) -> Any:
        full = list(args)
        for i, x in zip(places, arrays, strict=True):
            full[i] = x
        return function(*full)

    return library.jit(of_arrays)(*[args[i] for i in places])


def difference(found: Any, wanted: Any) -> str:
    """What differs between results of ours and of JAX's; '' if nothing does."""
    mine, theirs = mj.tree.leaves(found), jax.tree.leaves(wanted)
    if len(mine) != len(theirs):
        return f"{len(mine)} results instead of {len(theirs)}"
    for x, y in zip(mine, theirs, strict=True):
        if not isinstance(y, (jax.Array, np.ndarray)):
            if not callable(y) and x != y:
                return f"{x!r} instead of {y!r}"
            continue
        if jax.dtypes.issubdtype(y.dtype, jax.dtypes.extended):
            x, y = mj.random.key_data(x), jax.random.key_data(y)
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            return f"{x.dtype}{x.shape} instead of {y.dtype}{y.shape}"
        if not np.allclose(np.asarray(x), np.asarray(y), rtol=3e-5, atol=3e-5, equal_nan=True):
            return "other values"
    return ""


def difference_of_own(call: Callable[[Any, Callable[..., Any]], Any]) -> str:
    """What differs between a call of ours and of JAX's, which may be a refusal; '' if nothing does."""
    results: list[Any] = []
    for library in (mj, jax):
        try:
            results.append(call(library, library.numpy.asarray))
        except Exception as error:  # noqa: BLE001  (compared)
            results.append(error)
    found, wanted = results
    if isinstance(found, Exception) or isinstance(wanted, Exception):
        both = isinstance(found, Exception) and isinstance(wanted, Exception)
        return "" if both else f"{found!r} instead of {wanted!r}"
    return difference(found, wanted)


def main(wanted: list[str]) -> None:
    """Print the counts and what differs."""
    same, untried, differing = 0, [], []
    for name, mine, theirs in borrowed_functions(wanted):
        if name in OWN:
            said = difference_of_own(OWN[name])
            same += not said
            differing += [f"{name}: {said}"] if said else []
            continue
        found = taken(theirs)
        if found is None:
            untried.append(name)
            continue
        args, result = found
        arrays = [jnp.asarray(x) if isinstance(x, np.ndarray) else x for x in args]
        checks: list[tuple[str, Callable[[], Any], Any]] = [("", lambda: mine(*arrays), result)]  # noqa: B023
        try:
            under_jit = jitted(jax, theirs, args)
        except Exception:  # noqa: BLE001, S110  (it must know values)
            pass
        else:
            checks.append((" under jit", lambda: jitted(mj, mine, args), under_jit))  # noqa: B023
        for how, run, expected in checks:
            try:
                said = difference(run(), expected)
            except Exception as error:  # noqa: BLE001  (told below)
                said = f"{type(error).__name__}: {error}"
            same += not said
            differing += [f"{name}{how}: {said}"] if said else []
    print(f"{same} results the same, {len(differing)} differ, {len(untried)} functions took none of the arguments")
    print("not tried:", *untried)
    print("\n".join(differing))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1:])
