"""``random`` and arrays of keys have JAX's bits, programs and errors, in every interpreter."""

from __future__ import annotations

import copy
import importlib
import pickle
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minijax.extend.core import parse_jaxpr
from minijax.ir.typecheck import typecheck_jaxpr

from .normalise import normalise
from .refusals import check_refused, lines_of
from .subject import oracle, subject, x64_mode

pytestmark = pytest.mark.usefixtures("compiled_quickly")

FOLDER = Path(__file__).parent
PROGRAMS = lines_of(FOLDER / "random.txt")
WORDS = np.arange(6, dtype=np.uint32).reshape(3, 2)
CONSTANTS: dict[str, Any] = {
    "np": np,
    "WORDS": WORDS,
    "PICK": np.array([True, False, True]),
    "COLUMN": np.array([[0.5], [1.5]], np.float32),
    "ROW": np.array([0.3, 2.0, 40.0], np.float32),
    "LOGITS": np.arange(12, dtype=np.float32).reshape(4, 3) / 7,
}


def keys(ns: Any) -> Any:
    return ns.random.wrap_key_data(ns.numpy.asarray(WORDS))


@cache
def names(ns: Any) -> dict[str, Any]:
    """Names for expressions: ``ks`` of shape (3,), a key ``k``, a key ``r`` of another kind, an integer ``i``."""
    importlib.import_module(f"{ns.__name__}.ad_checkpoint")
    doubled = ns.custom_jvp(lambda x, k: (x * 2.0, k))
    doubled.defjvp(lambda primals, tangents: ((primals[0] * 2.0, primals[1]), (tangents[0] * 2.0, tangents[1])))
    custom = ns.custom_vjp(lambda x, k: x * 2.0)
    custom.defvjp(lambda x, k: (x * 2.0, k), lambda k, g: (g * 2.0, None))
    ks, r = keys(ns), ns.random.wrap_key_data(ns.numpy.arange(4, dtype="uint32"), impl="rbg")
    found = {"ns": ns, "jnp": ns.numpy, "lax": ns.lax, "random": ns.random, "doubled": doubled, "custom": custom}
    found |= {"ks": ks, "k": ks[0], "r": r, "i": ns.numpy.asarray(1), "pickle": pickle, "copy": copy}
    found |= {"LARGE": ns.numpy.arange(40_000, dtype="uint32").reshape(-1, 2), "donated": ns.jit(lambda k: k)}
    return found | {"word": lambda key: ns.random.key_data(key)[0].astype("float32"), **CONSTANTS}


def evaluated(ns: Any, expression: str, **given: Any) -> Any:
    return eval(expression, {**names(ns), **given})


def shown(ns: Any, tree: Any) -> list[Any]:
    """The type, shape and elements of each leaf. A random key is shown as its raw data."""

    def leaf(x: Any) -> Any:
        x = x if hasattr(x, "dtype") else ns.numpy.asarray(x)
        is_key = ns.numpy.issubdtype(x.dtype, ns.dtypes.prng_key)
        return str(x.dtype), x.shape, np.asarray(ns.random.key_data(x) if is_key else x).tolist()

    return [leaf(x) for x in ns.tree.leaves(tree)]


# For rbg keys, only programs that derive keys are compared: XLA's generator, which minijax borrows from JAX, draws
# the bits of these keys.
OF_RBG = [line for line in PROGRAMS if line.startswith(("(random.split(k), ", "(random.fold_in(k, 7)"))]


@pytest.mark.parametrize(("kind", "line"), [("threefry2x32", line) for line in PROGRAMS] + [("rbg", x) for x in OF_RBG])
def test_bits_and_programs_match_jax(kind: str, line: str) -> None:
    """Evaluated, compiled and batched programs have JAX's values. The program equals JAX's and can be parsed."""
    ours, theirs = (lambda k, ks, i, ns=ns: evaluated(ns, line, k=k, ks=ks, i=i) for ns in (subject, oracle))
    one, other = ((ns.random.key(42, impl=kind), keys(ns), ns.numpy.asarray(1)) for ns in (subject, oracle))
    many, others = (
        (ns.random.split(args[0], 2), ns.numpy.stack([args[1], args[1][::-1]]), args[2])
        for ns, args in ((subject, one), (oracle, other))
    )
    mapped, expected = (ns.vmap(f, (0, 0, None)) for ns, f in ((subject, ours), (oracle, theirs)))
    for f, args, g, given in ((ours, one, theirs, other), (mapped, many, expected, others)):
        wanted = shown(oracle, g(*given))
        assert shown(subject, f(*args)) == shown(subject, subject.jit(f)(*args)) == wanted
    closed, reference = subject.make_jaxpr(ours)(*one), oracle.make_jaxpr(theirs)(*other)
    typecheck_jaxpr(closed)
    assert str(parse_jaxpr(str(closed), consts=closed.consts)) == str(closed)
    equations, expected_equations = normalise(closed), normalise(reference)
    assert equations.graph() == expected_equations.graph()
    # the texts differ if JAX's library jits a function itself, or if derivatives of branches leave unused results
    if equations.calls == expected_equations.calls and "empty2" not in str(reference):
        assert str(closed) == str(reference)


SEEDED = ("key(i)", "key(np.int64(2**40 + 3))", "PRNGKey(i)", "split(k)", "fold_in(k, 7)", "bits(k)")
SEEDED += ("bits(k, (3,), 'uint64')",)


@pytest.mark.parametrize("line", SEEDED)
def test_bits_match_jax_in_64_bit_mode(line: str) -> None:
    with x64_mode("64"):
        for seed in (np.int64(2**35 + 7), np.int64(-3)):
            ours, theirs = (
                lambda i, ns=ns: evaluated(ns, f"random.{line}", i=i, k=ns.random.key(i)) for ns in (subject, oracle)
            )
            expected = shown(oracle, theirs(seed))
            assert shown(subject, ours(seed)) == shown(subject, subject.jit(ours)(seed)) == expected


@pytest.mark.parametrize("kind", ["rbg", "unsafe_rbg", "philox2x32", "philox4x32", "threefry4x32"])
def test_keys_of_other_kinds_match_jax(kind: str) -> None:
    for call in ("split(k, 3)", "fold_in(k, 5)", "bits(k, (4,))", f"PRNGKey(3, impl={kind!r})"):
        ours, theirs = (lambda k, ns=ns, c=call: evaluated(ns, f"random.{c}", k=k) for ns in (subject, oracle))
        key, expected = subject.random.key(3, impl=kind), shown(oracle, theirs(oracle.random.key(3, impl=kind)))
        assert shown(subject, ours(key)) == shown(subject, subject.jit(ours)(key)) == expected


@pytest.mark.parametrize("expression", lines_of(FOLDER / "keys.txt"))
def test_expressions_print_as_in_jax(expression: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # raised by jax.pmap
        assert repr(evaluated(subject, expression)) == repr(evaluated(oracle, expression))


@pytest.mark.parametrize("line", lines_of(FOLDER / "refused.txt"))
def test_refused_expressions_match_jax(line: str) -> None:
    check_refused(line, names)


@pytest.mark.parametrize("name", ["uniform", "normal"])
def test_warnings_about_64_bits_name_the_users_file(name: str) -> None:
    with pytest.warns(UserWarning, match="float64.* is not available") as caught:
        getattr(subject.random, name)(subject.random.key(1), (2,), np.float64)
    assert [warning.filename for warning in caught] == [__file__]
