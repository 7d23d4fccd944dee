"""``minijax.random`` against ``jax.random``: the same bits, the same programs, the same refusals; some are borrowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minijax.ir.typecheck import typecheck_jaxpr

from .subject import assert_refused_alike, oracle, subject
from .test_keys import shown

pytestmark = pytest.mark.usefixtures("compiled_quickly")

Program = Callable[[Any, Any, Any], Any]  # of random functions, NumPy's functions and a key

COLUMN, ROW = np.array([[0.5], [1.5]], np.float32), np.array([0.3, 2.0, 40.0], np.float32)
LOGITS = np.arange(12, dtype=np.float32).reshape(4, 3) / 7

ROWS: dict[str, Program] = {
    "uniform": lambda r, np_, k: r.uniform(k, (3,)),
    "uniform, no shape": lambda r, np_, k: r.uniform(k),
    "uniform, empty": lambda r, np_, k: r.uniform(k, (0, 3)),
    "uniform, f16 limits": lambda r, np_, k: r.uniform(k, (3,), "float16", ROW, 50),
    "uniform, bf16 integers": lambda r, np_, k: r.uniform(k, (3,), "bfloat16", 1, 2),
    "uniform, broadcast": lambda r, np_, k: r.uniform(k, (2, 3), minval=-COLUMN, maxval=ROW),
    "randint": lambda r, np_, k: r.randint(k, (3,), 0, 10),
    "randint, no shape": lambda r, np_, k: r.randint(k, (), -5, np.int8(7)),
    "randint, i8": lambda r, np_, k: r.randint(k, (20,), -128, 128, "int8"),
    "randint, u8": lambda r, np_, k: r.randint(k, (3,), np.zeros(3, int), 300, "uint8"),
    "randint, u32": lambda r, np_, k: r.randint(k, (3,), -1, 10, "uint32"),
    "randint, odd limits": lambda r, np_, k: r.randint(k, (3,), 0.5, True),
    "randint, broadcast": lambda r, np_, k: r.randint(k, (2, 3), np.arange(3), np.array([[9], [2]])),
    "randint, fewer axes": lambda r, np_, k: r.randint(k, (2, 3), -5, np.arange(3)),
    "bernoulli": lambda r, np_, k: r.bernoulli(k, 0.3, (3,)),
    "bernoulli, high": lambda r, np_, k: r.bernoulli(k, ROW, (2, 3), "high"),
    "bernoulli, f16": lambda r, np_, k: r.bernoulli(k, ROW.astype("float16")),
    "normal": lambda r, np_, k: r.normal(k, (20,)),
    "normal, no shape": lambda r, np_, k: r.normal(k),
    "normal, empty": lambda r, np_, k: r.normal(k, (0,)),
    "normal, f16": lambda r, np_, k: r.normal(k, (1, 5), "float16"),
    "normal, bf16": lambda r, np_, k: r.normal(k, (5,), "bfloat16"),
    "normal, c64": lambda r, np_, k: r.normal(k, (5,), "complex64"),
    "gumbel": lambda r, np_, k: r.gumbel(k, (5,)),
    "gumbel, high": lambda r, np_, k: r.gumbel(k, (20,), mode="high"),
    "gumbel, bf16": lambda r, np_, k: r.gumbel(k, (5,), "bfloat16"),
    "categorical": lambda r, np_, k: r.categorical(k, LOGITS),
    "categorical, axis": lambda r, np_, k: r.categorical(k, LOGITS, 0, (5, 3), mode="high"),
    "categorical, different": lambda r, np_, k: r.categorical(k, LOGITS, shape=(2, 4), replace=False),
    "permutation": lambda r, np_, k: r.permutation(k, 7),
    "permutation, long": lambda r, np_, k: r.permutation(k, 2000),
    "permutation of nothing": lambda r, np_, k: r.permutation(k, -1),
    "permutation of rows": lambda r, np_, k: r.permutation(k, LOGITS),
    "permutation, independent": lambda r, np_, k: r.permutation(k, LOGITS, -1, True),
}


def _of(ns: Any, row: str) -> Callable[[Any], Any]:
    return lambda key: ROWS[row](ns.random, ns.numpy, key)


@pytest.mark.parametrize("row", ROWS)
def test_same_samples_and_programs(row: str) -> None:
    ours, theirs = _of(subject, row), _of(oracle, row)
    one, other = (ns.random.key(42) for ns in (subject, oracle))
    assert shown(subject, ours(one)) == shown(oracle, theirs(other))
    program = subject.make_jaxpr(ours)(one)
    typecheck_jaxpr(program)
    expected = str(oracle.make_jaxpr(theirs)(other))
    assert str(program) == expected


# Calls that are refused, with errors of one kind, and words that both say.
REFUSED = {
    "r.uniform(k, (3.5,))": "Shapes must be 1D sequences of concrete values of integer type",
    "r.uniform(k, None)": "",
    "r.uniform(k, (3,), 'int32')": "dtype argument to `uniform` must be a float dtype, got int32",
    "r.uniform(ks)": "uniform accepts a single key, but was given a key array of shape (2,) != ()",
    "r.uniform(3)": "",
    "r.uniform(k, (3,), minval=np.zeros(4))": "",
    "r.uniform(k, (3,), minval='a')": "",
    "r.normal(k, (3,), bool)": "dtype argument to `normal` must be a float or complex dtype, got bool",
    "r.randint(k, (3,), 0, 10, float)": "randint only accepts integer dtypes, got float32",
    "r.randint(k, (3,), 0, 2**31)": "",
    "r.randint(k, (3,), np.zeros(4, int), 10)": "Incompatible shapes for broadcasting: shapes=[(3,), (4,), ()]",
    "r.bernoulli(k, 1)": "bernoulli probability `p` must have a floating dtype, got int32",
    "r.bernoulli(k, 0.5, (3,), 'foo')": "got mode='foo', expected 'high' or 'low'",
    "r.bernoulli(k, np.ones(3), (3, 1))": "(3, 3)",
    "r.categorical(k, LOGITS, shape=(3,))": "Incompatible shapes for broadcasting",
    "r.categorical(k, LOGITS, shape=(5, 4), replace=False)": "(5) cannot exceed number of categories (3)",
    "r.categorical(k, LOGITS, axis=5)": "index 5 is out of bounds for axis",
    "r.categorical(k, 3.0)": "index -1 is out of bounds for axis",
    "r.categorical(k, [1.0, 2.0])": "categorical requires ndarray or scalar arguments, got <class 'list'>",
    "r.categorical(k, np.zeros(3, int))": "dtype argument to `gumbel` must be a float dtype, got int32",
    "r.permutation(k, 5.0)": "x must be an integer or at least 1-dimensional",
    "r.permutation(k, LOGITS, 2)": "axis 2 is out of bounds for array of dimension 2",
    "r.truncated_normal(k, np.ones(3), np.zeros(4))": "Incompatible shapes for broadcasting: shapes=[(3,), (4,)]",
    "r.poisson(r.key(0, impl='rbg'), 2.0)": "`poisson` is only implemented for the threefry2x32 RNG, not rbg",
    "r.gumbel(k, (2,), mode='x')": "Must provide valid mode for gumbel got: x",
    "r.ball(k, 3, 2, (2,), int)": "",
}


@pytest.mark.parametrize("call", REFUSED)
def test_same_refusals(call: str) -> None:
    def called(ns: Any) -> Any:
        key = ns.random.key(1)
        return eval(call, {"r": ns.random, "k": key, "ks": ns.random.split(key), "np": np, "LOGITS": LOGITS})

    assert_refused_alike(called, REFUSED[call])


@pytest.mark.parametrize("name", ["uniform", "normal"])
def test_that_there_are_no_64_bits_is_said_of_the_line_of_the_user(name: str) -> None:
    with pytest.warns(UserWarning, match="float64.* is not available") as caught:
        getattr(subject.random, name)(subject.random.key(1), (2,), np.float64)
    assert [warning.filename for warning in caught] == [__file__]
