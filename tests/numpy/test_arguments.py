"""Pass each kind of value as an argument: unusual NumPy arrays, other objects, Python integers of any size.

Every entry point receives every kind in both libraries. JAX only stages the call, which gives the types of its results
or its error; evaluating it would compile each operator and take minutes. minijax stages and evaluates the call.
If the argument is accepted, the results' values are compared with JAX's, which one program per kind computes.
"""

from __future__ import annotations

import array
import decimal
import enum
import fractions
import importlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.errors
import ml_dtypes
import numpy as np
import pytest

import minijax

from ..oracle.subject import MODES, QUICKLY, assert_same, describe, x64_mode

pytestmark = pytest.mark.usefixtures("tracebacks_whole")

for name in ("numpy", "nn", "lax"):
    importlib.import_module(f"minijax.{name}")


class OnlyArray:
    """An object that only ``__array__`` converts to an array."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.arange(3, dtype=np.float32)


class WithAval:
    """An object with the attribute ``aval`` that is neither an array nor a tracer."""

    aval = 5


class Subclass(np.ndarray):
    """A subclass of NumPy's array."""


class Number(enum.IntEnum):
    TWO = 2


def read_only() -> np.ndarray:
    out = np.arange(3.0)
    out.flags.writeable = False
    return out


# The arrays that entries use besides ``a``, the argument under test.
ARRAYS = {
    "F": np.array([0.5, -2.0, 1.25], np.float32),
    "I": np.array([3, -4, 7], np.int32),
    "U8": np.array([3, 4, 200], np.uint8),
    "B": np.array([True, False, True]),
    "C": np.array([1 + 2j, -0.5 - 1j, 0.25j], np.complex64),
}

# Functions, so that each test creates its own arrays: JAX caches the type of a NumPy array across modes.
KINDS: dict[str, Callable[[], Any]] = {
    "not contiguous": lambda: np.arange(6.0)[::2],
    "reversed": lambda: np.arange(3)[::-1],
    "repeated element": lambda: np.broadcast_to(np.float32(2), (3,)),
    "no element": lambda: np.zeros((0,), np.float32),
    "no dimension": lambda: np.array(2.5),
    "integer of no dimension": lambda: np.array(2),
    "read-only": read_only,
    "subclass": lambda: np.arange(3.0).view(Subclass),
    "matrix": lambda: np.matrix([[1.0, 2.0], [3.0, 4.0]]),
    "half": lambda: np.arange(3, dtype=np.float16),
    "bfloat16": lambda: np.arange(3).astype(ml_dtypes.bfloat16),
    "unsigned 64": lambda: np.arange(3, dtype=np.uint64),
    "NumPy bool": lambda: np.bool_(True),
    "enum": lambda: Number.TWO,
    "complex": lambda: 1.5j,
    "bool": lambda: True,
    "infinity": lambda: float("inf"),
    "range": lambda: range(3),
    "buffer": lambda: array.array("f", [1.0, 2.0, 3.0]),
    "list": lambda: [1.0, 2.0, 3.0],
    "tuple": lambda: (1, 2, 3),
    "__array__": OnlyArray,
    "longdouble": lambda: np.arange(3, dtype=np.longdouble),
    "longdouble scalar": lambda: np.longdouble(1.5),
    "complex longdouble": lambda: np.arange(3, dtype=np.clongdouble),
    "masked": lambda: np.ma.masked_array(np.arange(3.0), [0, 1, 0]),
    "datetime": lambda: np.array(["2020-01-01"], "datetime64[D]"),
    "timedelta": lambda: np.timedelta64(3, "s"),
    "objects": lambda: np.array([1, 2, 3], object),
    "object": lambda: np.array(3, object),
    "strings": lambda: np.array(["a", "b"]),
    "bytes": lambda: np.array([b"a"]),
    "str": lambda: "a",
    "big-endian": lambda: np.arange(3, dtype=">f4"),
    "big-endian integers": lambda: np.arange(3, dtype=">i4"),
    "big-endian of no dimension": lambda: np.array(3, ">f4"),
    "record": lambda: np.zeros(3, [("a", "f4")]),
    "fraction": lambda: fractions.Fraction(1, 2),
    "decimal": lambda: decimal.Decimal(1),
    "set": lambda: {1, 2},
    "None": lambda: None,
    "JAX's array": lambda: jax.numpy.arange(3.0, dtype=np.float32),
    "JAX's integers": lambda: jax.numpy.array([2, 0], np.int32),
    "JAX's bfloat16": lambda: jax.numpy.ones((3,), ml_dtypes.bfloat16),
    "JAX's weak scalar": lambda: jax.numpy.sin(1.0),
    "aval": WithAval,
}

ENTRIES = (Path(__file__).parent / "arguments.txt").read_text(encoding="utf-8")

# (entry, kind of argument) -> (JAX's result, minijax's result), only where the results differ.
Deviations = dict[tuple[str, str], tuple[str, str]]


def each(kinds: str, found: str, theirs: str, ours: str) -> Deviations:
    """Return one deviation for each pair of entry and kind: ``theirs`` is JAX's result, ``ours`` is minijax's."""
    return {(entry, kind): (theirs, ours) for entry in entries(found) for kind in kinds.split(" | ")}


def deviations() -> Deviations:
    """The accepted differences between minijax and JAX, grouped by reason."""
    return {
        # both raise, but different checks fail
        **each("longdouble scalar | timedelta", "jnp.add(a, 1) | jnp.where(True, a, 0) | F + a | a + F | F * a | F == a"
               " | F < a | jnp.clip(F, a) | jnp.outer(F, a)", "ValueError", "TypeError"),
        **each("timedelta", "jnp.sum(a)", "ValueError", "TypeError"),
        **each("masked", "lax.full((2,), a)", "TypeError", "ValueError"),
        **each("masked", "F[a]", "ValueError", "TypeError"),
        **each("None", "lax.convert_element_type(a, 'float32') | lax.full((2,), a)", "ValueError", "TypeError"),
        **each("no dimension | integer of no dimension | NumPy bool | JAX's weak scalar",
               "lax.scan(lambda c, x: (c, x), 0.0, a)", "IndexError", "ValueError"),
        # JAX silently drops the mask; minijax raises
        **each("masked", "jnp.asarray([a])", "FLOAT[1, 3]", "ValueError"),
        **each("masked", "jnp.array([a, a])", "FLOAT[2, 3]", "ValueError"),
        # JAX raises only when it compiles
        **each("complex", "jnp.argmax(a)", "INT[]", "TypeError"),
        # JAX calls the matrix's own ``reshape``, which keeps two axes; minijax converts it to an array first
        **each("matrix", "jnp.reshape(a, (-1,))", "FLOAT[1, 4]", "FLOAT[4]"),
        # JAX fails with an AssertionError
        **each("NumPy bool", "F[a]", "AssertionError", "float32[1, 3]"),
    }  # fmt: skip


def entries(text: str) -> list[str]:
    return [entry.strip() for line in text.strip().splitlines() for entry in line.split(" | ")]


def namespace(ns: Any, **more: Any) -> dict[str, Any]:
    arrays = {name: ns.numpy.asarray(value) for name, value in ARRAYS.items()}
    return {"ns": ns, "jnp": ns.numpy, "lax": ns.lax, "nn": ns.nn, "np": np, **arrays, **more}


def error_kind(error: Exception) -> str:
    """The name of the error's most specific public class: a builtin exception or one of ``jax.errors``."""
    return next(
        cls.__name__ for cls in type(error).__mro__ if cls.__module__ == "builtins" or hasattr(jax.errors, cls.__name__)
    )


def outcome(run: Callable[[], Any], leaves: Callable[[Any], list[Any]]) -> str:
    """The types of the results, or the name of the error's class."""
    try:
        out = leaves(run())
    except Exception as error:
        return error_kind(error)
    return ", ".join(type_text(x) if hasattr(x, "weak_type") else describe(x) for x in out)


def type_text(x: Any) -> str:
    return f"{x.dtype}{list(x.shape)}{' weak' if x.weak_type else ''}"


def staged(ns: Any, entry: str, names: dict[str, Any]) -> str:
    space = namespace(ns, **names)
    return outcome(lambda: ns.eval_shape(lambda: eval(entry, space)), ns.tree_util.tree_leaves)


def evaluated(entry: str, names: dict[str, Any]) -> str:
    return outcome(lambda: eval(entry, namespace(minijax, **names)), minijax.tree_util.tree_leaves)


def differences(answers: dict[tuple[str, str], tuple[str, ...]], known: Deviations, mode: str) -> Iterator[str]:
    """A line for each entry whose results are not as ``known`` says or, if it is not in ``known``, not as in JAX."""
    for (entry, kind), (theirs, *ours) in answers.items():
        wanted = known.get((entry, kind), (theirs, theirs))
        wanted = [text.replace("FLOAT", f"float{mode}").replace("INT", f"int{mode}") for text in wanted]
        if (theirs, *ours) != (wanted[0], *[wanted[1]] * len(ours)):
            yield f"{entry!r}, {kind!r}: JAX {theirs}; minijax staging {ours[0]}, evaluating {ours[-1]}"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_argument_is_treated_as_in_jax(kind: str, mode: str) -> None:
    """Both libraries accept the argument with the same types and values, or raise the same class of error."""
    names = {"a": KINDS[kind]()}
    with x64_mode(mode):
        answers = {
            (entry, kind): (staged(jax, entry, names), staged(minijax, entry, names), evaluated(entry, names))
            for entry in entries(ENTRIES)
        }
        found = list(differences(answers, deviations(), mode))
        assert not found, "\n".join(found)
        if mode != MODES[0]:
            return
        accepted = [entry for (entry, _), found in answers.items() if "[" in found[0] and len(set(found)) == 1]
        space = namespace(jax, **names)
        values = jax.jit(lambda: [eval(entry, space) for entry in accepted], compiler_options=QUICKLY)()
        for entry, value in zip(accepted, values, strict=True):
            assert_same(eval(entry, namespace(minijax, **names)), value)


def test_a_masked_scalar_is_refused() -> None:
    with pytest.raises(ValueError, match="masked arrays are not supported"):
        minijax.numpy.array(np.ma.masked_array(1.0, True))


# Expressions with a Python integer ``n``, for every value of ``INTEGERS``. With 2**40 also under vmap and jvp.
OF_INTEGERS = (Path(__file__).parent / "integers.txt").read_text(encoding="utf-8")
# JAX silently wraps a large integer to the range of its type, and so uses a wrong element or a wrong number.
WRAPS_IN_JAX = ("jnp.power(n, 2)", "I.at[n].set(1)", "I.at[n].get(mode='clip')", "I.sum(initial=n)")
INTEGERS = (2**31, -(2**31) - 1, 2**40, 300, -1, 2**63, 10**400)
# Beside an array index, JAX first adds the size of the axis to a negative index. The sum fits int32, so JAX accepts it.
BY_THE_WAY: Deviations = {
    ("jnp.ones((2, 3))[n, [0]]", str(-(2**31) - 1)): ("FLOAT[1]", "OverflowError"),
}


def batched(ns: Any, entry: str, n: int) -> str:
    """The outcome of the expression under a vmap that maps all arrays."""
    space = namespace(ns, n=n)
    arrays = {name: ns.numpy.stack([space[name]] * 2) for name in ARRAYS}
    program = ns.vmap(lambda given: eval(entry, {**space, **given}))
    return outcome(lambda: ns.eval_shape(program, arrays), ns.tree_util.tree_leaves)


def differentiated(ns: Any, entry: str, n: int) -> str:
    """The outcome of the expression under a jvp with respect to the float array ``F``."""
    space = namespace(ns, n=n)
    program = lambda f: ns.jvp(lambda f: eval(entry, {**space, "F": f}), (f,), (f,))  # noqa: E731
    return outcome(lambda: ns.eval_shape(program, space["F"]), ns.tree_util.tree_leaves)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", INTEGERS, ids=lambda n: str(n)[:22])
def test_integers_of_any_size_are_treated_as_in_jax(n: int, mode: str) -> None:
    """If an integer does not fit its type, minijax raises an OverflowError wherever JAX does."""
    names = {"n": n}
    with x64_mode(mode):
        answers: dict[tuple[str, str], tuple[str, ...]] = {
            (entry, str(n)): (staged(jax, entry, names), staged(minijax, entry, names), evaluated(entry, names))
            for entry in entries(OF_INTEGERS)
        }
        if n == 2**40:
            for way in (batched, differentiated):
                for entry in entries(OF_INTEGERS):
                    answers[entry, way.__name__] = way(jax, entry, n), way(minijax, entry, n)
        known = {} if mode == "64" and abs(n) < 2**63 else BY_THE_WAY
        found = list(differences(answers, known, mode))
        assert not found, "\n".join(found)


def test_integers_that_jax_wraps_are_refused() -> None:
    """An integer that does not fit its type raises an OverflowError in minijax, also where JAX wraps it."""
    with (
        x64_mode("64"),
        pytest.raises(OverflowError, match=r"too large to convert to int64.*jnp.asarray\(x, dtype\)\."),
    ):
        minijax.numpy.asarray(2**63)
    for entry in WRAPS_IN_JAX:
        assert "[" in staged(jax, entry, {"n": 2**40}), entry
        assert {staged(minijax, entry, {"n": 2**40}), evaluated(entry, {"n": 2**40})} == {"OverflowError"}, entry


# these expressions use only the type of ``a``, or return ``a`` itself
ASKS_FOR_NO_VALUE = """
jnp.full(3, a) | jnp.zeros_like(a) | jnp.full_like(a, 2) | F == a | F[a] | lax.cond(True, lambda x: x, lambda x: x, a)
"""


def test_computing_with_a_type_raises_a_type_error() -> None:
    """As in JAX, a ``ShapeDtypeStruct`` describes an array but has no values: operators refuse it, also under jit."""
    names = {"a": minijax.ShapeDtypeStruct((3,), np.float32)}
    for entry in [e for e in entries(ENTRIES) if e not in entries(ASKS_FOR_NO_VALUE)]:
        space = namespace(minijax, **names)
        compiled = outcome(
            minijax.jit(lambda entry=entry, space=space: eval(entry, space)), minijax.tree_util.tree_leaves
        )
        assert (evaluated(entry, names), compiled) == ("TypeError", "TypeError"), entry
    for entry in ("lax.sin(a)", "ns.jit(lambda: a)()"):
        space = namespace(jax, a=jax.ShapeDtypeStruct((3,), np.float32))
        assert outcome(lambda entry=entry, space=space: eval(entry, space), list) == "TypeError"
