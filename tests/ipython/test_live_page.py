"""What can be moved of a call's arguments on a live page, and what moving does to them."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import minijax.numpy as jnp
from minijax import random
from minijax.tools.pages.live import MOST_ARGUMENTS, LivePage, changed, static_html
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import Recording
from minijax.tools.session.result import Step


@pytest.fixture(scope="module")
def recording() -> Recording:
    recorder = Recorder("full", "sin(3.0)")
    with recorder:
        jnp.sin(jnp.array([3.0, 4.0]))
    return recorder.recording


@pytest.mark.parametrize(
    ("leaf", "index"),
    [
        (3.0, ()),
        (2, ()),
        (np.float32(2.0), ()),
        (np.arange(6.0).reshape(2, 3), (1, 2)),
        (np.arange(3), (1,)),
        (jnp.asarray(2.0), ()),
        (jnp.array([[1.0, 2.0]]), (0, 1)),
        (jnp.arange(4), (3,)),
        (jax.numpy.array([1.0, 2.0]), (1,)),
    ],
)
def test_a_moved_argument_keeps_its_type(leaf, index):
    before = np.array(leaf)
    made = changed(leaf, index, 7.0)
    assert type(made) is type(leaf) and getattr(made, "dtype", None) == getattr(leaf, "dtype", None)
    assert getattr(made, "weak_type", None) == getattr(leaf, "weak_type", None)
    wanted = before.copy()
    wanted[index] = 7
    assert np.array_equal(np.asarray(made), wanted) and np.array_equal(np.asarray(leaf), before)


def test_numbers_and_small_arrays_can_be_moved_and_nothing_else(recording):
    given = {
        "x": 3.0, "n": 2, "on": True, "name": "relu", "z": 1j, "key": random.key(0), "w": jnp.ones((2, 3)),
        "large": jnp.ones(1000), "empty": jnp.ones(0), "nan": float("nan"), "mask": jnp.array([True]), "f": jnp.sin,
        "half": jnp.array(0.5, jnp.float16),
    }  # fmt: skip
    step = Step(recording, given=tuple(given.items()), again=lambda leaves: (recording, None))
    page = LivePage(step)
    assert [each["name"] for each in page.controls] == ["x", "n", "w", "half"]
    x, n, w, half = page.controls
    assert (x["low"], x["high"], n["low"], n["high"], n["step"]) == (-10, 10, -10, 10, 1)
    assert w["shape"] == [2, 3] and w["values"] == [1.0] * 6 and (half["low"], half["high"]) == (-1, 1)
    assert not LivePage(Step(recording, given=tuple(given.items()))).controls  # there is no call to record again
    many = tuple((f"x{i}", 1.0) for i in range(20))
    page = LivePage(Step(recording, given=many, again=step.again))
    assert len(page.controls) == MOST_ARGUMENTS and page.answer({"kind": "page"})["left"] == 20 - MOST_ARGUMENTS


def test_sliders_go_as_far_as_the_type_does(recording):
    given = {
        "n": np.array([200, 3], np.uint8), "i": jnp.int32(2**31 - 1), "half": np.float16(60000),
        "wide": 1e299, "wider": 1.7e308, "long": 10**400,
    }  # fmt: skip
    asked = []
    page = LivePage(Step(recording, given=tuple(given.items()), again=lambda leaves: asked.append(leaves)))
    n, i, half, wide = page.controls
    assert (n["low"], n["high"]) == (0, 255) and (i["low"], i["high"]) == (-(2**31), 2**31 - 1)
    assert half["high"] == 65504 and wide["high"] < float("inf")
    for control, value in ((0, -5.0), (0, 256.0), (1, 2.0**31), (2, 1e5)):
        index = [0] if control == 0 else []
        failed = page.answer({"kind": "again", "control": control, "index": index, "value": value, "moment": 0})
        # the numbers are told again: the page shows those that the recording was made with
        assert failed["kind"] == "failed" and f"is no {given[page.controls[control]['name']].dtype}" in failed["said"]
        assert failed["controls"][0]["values"] == [200.0, 3.0] and not asked


def test_what_is_read_without_a_kernel_is_escaped_and_has_no_script():
    recorder = Recorder("full", "<script>")
    with recorder:
        jnp.sin(jnp.array([3.0]))
    made = static_html(recorder.recording)
    assert "<script" not in made and "in a notebook with a kernel a stepper stands here" in made and "sin" in made
