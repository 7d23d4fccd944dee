"""The values that a view shows at every moment, beside what a print in the program shows: JAX's own, by a callback."""

from __future__ import annotations

import itertools
import sys
from collections import Counter, defaultdict
from typing import Any

import jax
import jax.numpy
import numpy as np
import pytest

import minijax
import minijax.numpy
from minijax.tools.documents.document import plain
from minijax.tools.recording import storage
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import Recording
from minijax.tools.session import real_jax
from minijax.tools.values.brief import numpy_of
from minijax.tools.values.moment import Ledger, Unknown, Worth
from minijax.tools.values.table import Named, named_values, values_pane
from tests.tools.values import watched_programs
from tests.tools.values.watched_programs import FOR_JAX, PROGRAMS, reported

# A value is called what the first variable that held it is called; these are second names.
OTHER_NAMES = {"res", "primals[0]", "tangents[0]"}

Seen = dict[str, list[np.ndarray]]


def printed(name: str) -> Seen:
    """What each variable is worth, whenever its line runs, for each example."""
    seen: Seen = defaultdict(list)

    def report(variable: str, value: Any) -> None:
        for path, leaf in jax.tree_util.tree_flatten_with_path(value)[0]:
            if hasattr(leaf, "dtype") or isinstance(leaf, (int, float)):
                said = variable + jax.tree_util.keystr(path)
                jax.debug.callback(lambda x, said=said: seen[said].append(np.array(x)), leaf)

    reported(name, jax, jax.numpy, report)
    jax.effects_barrier()
    return seen


def record(name: str) -> Recording:
    recorder = Recorder("full", name)
    with recorder:
        PROGRAMS[name](minijax, minijax.numpy)
    return recorder.recording


def every_value(known: Ledger, named: Named) -> list[np.ndarray]:
    """What is shown of a value in every iteration and for every example; nothing where it says why not."""
    out: list[np.ndarray] = []
    known.iterations = {}
    found = known.primal(named.number)
    if isinstance(found, Unknown):
        return out
    return list(_iterated(known, named.number, 0))


def _iterated(known: Ledger, number: int, depth: int) -> Any:
    loops = known.loops(number)
    if depth < len(loops):
        for index in range(loops[depth].count):
            known.iterations[loops[depth].key] = index
            yield from _iterated(known, number, depth + 1)
        known.iterations.pop(loops[depth].key, None)
        return
    found = known.primal(number)
    if isinstance(found, Worth):
        value = numpy_of(found.array)
        shape = value.shape[: len(found.axes)]
        for index in itertools.product(*map(range, shape)):
            yield value[index]


def _sorted(values: list[np.ndarray]) -> np.ndarray:
    flat = [np.asarray(x, np.float64).reshape(-1) for x in values]
    return np.array(sorted(map(tuple, flat)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_shown_is_what_a_print_shows(name: str) -> None:
    agree(record(name), printed(name))


@pytest.mark.parametrize("name", FOR_JAX)
def test_what_is_shown_of_a_program_of_jaxs_is_what_a_print_shows(name: str) -> None:
    def program() -> Any:
        return PROGRAMS[name](jax, jax.numpy)

    carried = real_jax.carried("values", name, program, (), {})
    assert carried is not None
    recorder = Recorder("full", name)
    with recorder:
        carried.fun(*carried.args, **carried.kwargs)
    agree(recorder.recording, printed(name))


def agree(recording: Recording, expected: Seen) -> None:
    """Every variable that was printed is shown, with the values that were printed and no others."""
    known = Ledger(recording)
    shown: Counter[str] = Counter()
    for named in named_values(known):
        if not named.variable or named.name not in expected:
            continue
        values = every_value(known, named)
        if not values:
            continue
        shown[named.name] += 1
        there = {tuple(np.round(row, 5)) for row in _sorted(expected[named.name])}
        here = {tuple(np.round(row, 5)) for row in _sorted(values)}
        assert _close(here, there), f"{named.name}: {sorted(here)} is shown, {sorted(there)} printed"
    missing = set(expected) - set(shown) - OTHER_NAMES
    assert not missing, f"never shown: {missing}; there are {[n.name for n in named_values(known)]}"


def _close(here: set[Any], there: set[Any]) -> bool:
    """Whether every value that is shown was printed, and the reverse."""
    a, b = np.array(sorted(here)), np.array(sorted(there))
    return all(np.isclose(b, x, rtol=1e-4, atol=1e-5).all(axis=-1).any() for x in a) and all(
        np.isclose(a, x, rtol=1e-4, atol=1e-5).all(axis=-1).any() for x in b
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_looking_runs_nothing_of_the_users(name: str) -> None:
    def counted(work: Any) -> Counter[str]:
        counts: Counter[str] = Counter()

        def profile(frame: Any, event: str, argument: Any) -> None:
            if event == "call" and frame.f_code.co_filename == watched_programs.__file__:
                counts[frame.f_code.co_qualname] += 1

        sys.setprofile(profile)
        try:
            work()
        finally:
            sys.setprofile(None)
        return counts

    def look() -> None:
        known = Ledger(record(name))
        cursor = Cursor(known.recording)
        for named in named_values(known):
            every_value(known, named)
            known.tangent(named.number)
            known.cotangent(named.number, cursor.moments[-1].at)

    plain = counted(lambda: PROGRAMS[name](minijax, minijax.numpy))
    assert counted(look) == plain


def test_a_recording_from_a_file_says_that_it_has_no_arrays() -> None:
    loaded = storage.from_json(storage.to_json(record("gradient")))
    cursor = Cursor(loaded)
    cursor.last()
    said = plain(values_pane(cursor, 80), 80)
    assert "opened from a file" in said and "values live in the process that recorded them" in said
    assert "total" in said and str(float(numpy_of(_total())))[:5] in said


def _total() -> Any:
    known = Ledger(record("gradient"))
    number = next(named.number for named in named_values(known) if named.name == "total")
    return known.primal(number).array  # type: ignore[union-attr]


def test_the_derivatives_of_arguments_and_results_are_jaxs() -> None:
    def of(known: Ledger, what: str, name: str) -> np.ndarray:
        number = next(named.number for named in named_values(known) if named.name == name)
        found = getattr(known, what)(number)
        assert isinstance(found, Worth), found
        return numpy_of(found.array)

    expected: Any = PROGRAMS["gradient"](jax, jax.numpy)
    known = Ledger(record("gradient"))
    for key in "wv":
        np.testing.assert_allclose(of(known, "cotangent", f"params['{key}']"), expected[key], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(of(known, "cotangent", "out"), 2 * of(known, "primal", "out"), rtol=1e-6)
    mapped = Ledger(record("per_example"))
    np.testing.assert_allclose(of(mapped, "cotangent", "a"), PROGRAMS["per_example"](jax, jax.numpy), rtol=1e-5)
    for name, result in (("forward", "w"), ("custom_jvp", "z"), ("while_loop", "value")):
        tangent = PROGRAMS[name](jax, jax.numpy)[1]
        np.testing.assert_allclose(of(Ledger(record(name)), "tangent", result), tangent, rtol=1e-5)
    scanned = Ledger(record("scanned_gradient"))
    np.testing.assert_allclose(of(scanned, "cotangent", "c"), PROGRAMS["scanned_gradient"](jax, jax.numpy), rtol=1e-5)


def test_a_trace_from_a_cache_shows_the_same_variables() -> None:
    def step(carry, x):
        new = carry * x
        return new, new

    @minijax.jit
    def rolled(x):
        k = minijax.numpy.sin(x) * 2.0
        return minijax.lax.scan(step, k, minijax.numpy.arange(3.0) + 1.0)[0]

    def shown() -> dict[str, Any]:
        recorder = Recorder("full")
        with recorder:
            minijax.grad(rolled)(2.0)
        known = Ledger(recorder.recording)
        every = [each for each in named_values(known) if each.name in ("k", "new", "minijax.numpy.sin(x)")]
        return {
            each.name: (every_value(known, each), numpy_of(known.cotangent(each.number).array).tolist())  # type: ignore[union-attr]
            for each in every
        }

    fresh, cached = shown(), shown()
    assert len(fresh) == 3 and fresh == cached and len(fresh["new"][0]) == 3


def test_where_an_interrupt_left_a_tracer_without_its_variable_nothing_is_known_of_it() -> None:
    recorder = Recorder("full", "")
    with recorder:
        minijax.grad(lambda x: minijax.numpy.sin(x) * 2.0)(3.0)
    variables = recorder.recording.kept.variables
    whole = Ledger(recorder.recording)
    arrived = [number for number in variables if isinstance(whole.cotangent(number), Worth)]
    assert arrived
    for number in arrived:
        var = variables.pop(number)
        known = Ledger(recorder.recording)
        assert known.cotangent(number) is None and known.arrivals(number, 10**9) == 0
        variables[number] = var


def test_a_callers_name_does_not_stand_under_the_function_that_made_the_value() -> None:
    sin = minijax.numpy.sin

    def inner(x: Any) -> Any:
        low = sin(x)
        return low * 2.0

    def outer(x: Any) -> Any:
        high = inner(x)
        return high + 1.0

    recorder = Recorder("full")
    with recorder:
        minijax.grad(outer)(0.5)
    under = {named.name: named.function for named in named_values(Ledger(recorder.recording))}
    # under the level's own function, outer, where nothing else is said
    assert under["low"] == "inner" and under["high"] == "" and under["high + 1.0"] == ""
