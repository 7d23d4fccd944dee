"""A condition has the value that Python gives it with NumPy, and searches of recordings find where it holds."""

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.tools.recording.recorder import record
from minijax.tools.values.conditions import ConditionSearch, Question, condition, unknown_text
from minijax.tools.values.moment import ledger

H = np.array([[0.5, -2.0], [3.0, 4.0]], np.float32)
N = np.array([1.0, np.nan])
VALUES = {"h": H, "n": N, "p['w']": H[0], "i": np.int32(3), "m.bias": H[1]}


class Bias:
    bias = H[1]


def answer(text):
    return Question(condition(text), VALUES).answer(VALUES)


@pytest.mark.parametrize(
    "text",
    [
        "h.max() > 3",
        "-1 < h.mean() <= 2 * i",
        "not h.any() or i == 3",
        "h.min() < -1 and (h.sum() - 5.5) ** 2 < 1e-6",
        "m.bias.max() == 4",
        "h.shape == (2, 2)",
        "h > -3",
        "-3 < h",
        "h.dtype == 'float32'",
        "i % 2 == 1",
        "(h > 3.5).any()",
        "(h > 0).any() and not (h > 0).all()",
        "(h > -3) & (h.T < 5)",
        "sum(h[i - 2, :]) == 7",
        "[row.max() for row in h] == [0.5, 4.0]",
    ],
)
def test_a_condition_has_the_value_that_numpy_gives(text):
    names = {"h": H, "p": {"w": H[0]}, "i": 3, "m": Bias, "sum": np.sum}
    assert answer(text) == bool(np.all(eval(text, names)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nan(n)", True),
        ("nan(h)", False),
        ("inf(n)", False),
        ("finite(h)", True),
        ("finite(n)", False),
        ("n.nan()", True),
    ]
    + [("norm(p['w']) > 2.06", True), ("p['w'].norm() < 2", False), ("abs(h).min() < 0.4", False)]
    + [("-3 < h <= 4", True), ("0 < h < 9", False)],
)
def test_conditions_may_use_nan_inf_finite_norm_and_abs(text, expected):
    assert answer(text) is expected


def test_loops_are_searched_iteration_by_iteration():
    ran = []

    def body(c, t):
        ran.append(1)
        total = c + t
        return total * 1.0, total

    xs = jnp.arange(5.0)
    _, recording = record(minijax.jit(lambda xs: lax.scan(body, 0.0, xs)), xs)
    calls = len(ran)
    known = ledger(recording)
    sums = np.cumsum(np.arange(5.0))
    for bound in (-1.0, 0.0, 2.5, 5.0, 9.0, 10.0):
        search = ConditionSearch(known, condition(f"total > {bound}"))
        hit = next(search.hits(), None)
        above = np.flatnonzero(sums > bound)
        assert (hit is None) == (len(above) == 0)
        if hit is not None:
            assert list(hit.iterations.values()) == [above[0]]
    assert len(list(ConditionSearch(known, condition("total changed")).hits())) == 4
    assert len(ran) == calls and not known.iterations


def test_unknown_values_are_reported():
    def f(x):
        y = x * 2.0
        return y

    _, recording = record(lambda: minijax.make_jaxpr(f)(jnp.ones(2)))
    search = ConditionSearch(ledger(recording), condition("y > 0"))
    assert next(search.hits(), None) is None
    assert search.values == 0 and unknown_text(search.unknown).startswith("y is not known everywhere: ")
