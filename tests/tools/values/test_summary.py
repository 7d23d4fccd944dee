"""Summaries of values have NumPy's statistics."""

import numpy as np
import pytest

import minijax
from minijax import numpy as jnp
from minijax.core.array import as_array
from minijax.tools.documents.words import decimal, interval
from minijax.tools.trees.numbers import MOST_SCANNED, SAMPLE
from minijax.tools.values.brief import brief, summary
from minijax.tools.values.moment import Worth
from minijax.tools.values.on_devices import together

GRID = np.random.default_rng(0).normal(size=(40, 30)).astype(np.float32)


def drawn(x, room=80):
    return "".join(piece for _, piece in brief(as_array(x), room, typed=False))


def spark(x):
    return summary(as_array(x)).spark


def test_a_vector_is_drawn_in_order_and_a_matrix_as_a_histogram():
    assert spark(np.arange(16.0)) == "▁▂▃▄▅▆▇█"
    assert spark(np.float32([0, 1, np.nan, 0])) == "▁█·▁"
    assert spark(np.full((3, 4), 2.0)) == "█·······"
    counts = np.histogram(GRID, 8)[0]
    assert [c == "█" for c in spark(GRID)] == [n == counts.max() for n in counts]
    assert drawn(np.float32([[np.nan] * 5] * 5)) == "nan 25"
    assert spark(np.float32([-3.4e38] * 40 + [3.4e38] * 40)) == "▁▁▁▁████"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.5, "3.5"),
        (np.int32([1, 2, 3]), "[1, 2, 3]"),
        (np.arange(12).reshape(3, 4), "0 … 11 mean 5.5 █▅█▅▅█▅█"),
        (np.arange(20) % 3 == 0, "7 of 20 true"),
        (np.zeros((0, 3)), "[]"),
        (np.float32([2.0] * 9 + [np.nan]), "2.0 … 2.0 nan 1"),
        (np.complex64([3 + 4j] * 9), "|…| all 5.0"),
    ],
)
def test_values_have_these_texts(value, text):
    assert drawn(value) == text


def test_samples_are_marked_and_keys_have_no_numbers():
    big = np.ones((1000, 200), np.float32)
    assert summary(as_array(big), most=1000).numbers.sampled
    assert "sample" not in drawn(big)
    large = np.full(MOST_SCANNED + 1, 3000.0, np.float32)
    arrays = [as_array(x) for x in (large, large > 0, large * np.nan)]
    assert [drawn(x, 60) for x in arrays] == [
        f"{each} from a sample" for each in ("≈ 3000.0 … 3000.0", "≈ 100.0% true", f"nan ≥ {SAMPLE:,}")
    ]
    # scalars on all devices: an exact count, or a range
    scalars = [together(Worth(as_array(x), ("i",)), 15) for x in (large > 0, np.arange(20) < 7, large)]
    assert together(Worth(as_array(np.complex64([3 + 4j, 0])), ("i",)), 20) == (("value", "|…| 0.0 … 5.0"),)
    assert [text for ((_, text),) in scalars] == ["…", "7 of 20 true", "≈ 3e+03 … 3e+03"]
    assert summary(minijax.random.key(0)).numbers is None
    assert drawn(jnp.zeros((2, 3), jnp.bfloat16)) == "[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]"


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (499.5, "499.5"),
        (1234.5, "1234.5"),
        (1234.5678, "1234.6"),
        (1.0004, "1.0004"),
        (np.nextafter(np.float32(1), np.float32(2)).item(), "≈1.0"),
        (16777216.0, "16777216.0"),
        (2.0**25, "3.355443e+07"),
        (-20000.0, "-20000.0"),
        (1e20, "1e+20"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_a_shortened_number_does_not_look_exact(x, text):
    assert decimal(x) == text


def test_random_numbers_keep_their_digits():
    rng = np.random.default_rng(0)
    for x in (rng.standard_normal(2000) * 10.0 ** rng.integers(-12, 12, 2000)).astype(np.float32).tolist():
        text = decimal(x)
        assert np.isclose(float(text.removeprefix("≈")), x, rtol=5e-4, atol=0)
        assert not text.endswith(".0") or text.startswith("≈") or float(text) == x


def test_different_bounds_of_an_interval_look_different():
    assert interval(1234.5, 1236.5) == "1234.5 … 1236.5"
    tenth = np.float32(0.1).item()
    assert interval(tenth, tenth) == "0.1 … 0.1"
    low, high = interval(0.1234567, 0.1234568).split(" … ")
    assert float(low) < float(high)
