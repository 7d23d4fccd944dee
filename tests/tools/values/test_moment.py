"""The primals, tangents and cotangents of variables equal those that JAX prints in the same program."""

import itertools
from collections import defaultdict

import jax
import jax.numpy
import numpy as np
import pytest

import minijax
import minijax.numpy
from minijax.tools.documents.document import Text, document, plain
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.recorder import Recorder
from minijax.tools.session import real_jax
from minijax.tools.values.brief import numpy_of
from minijax.tools.values.moment import Ledger, Worth, ledger
from minijax.tools.values.table import named_values, rows_at, rows_of, table_lines, values_pane
from tests.tools.values.watched_programs import FOR_JAX, FORWARD, PROGRAMS, REVERSE, reported

# These variables hold a value that another variable held before; the table shows it under that variable's name.
OTHER_NAMES = {"res", "primals[0]", "tangents[0]", "start.speed"}


def printed(name, column):
    """Variable -> its primals, tangents or cotangents in JAX, one for each example and each run of its line."""
    seen = defaultdict(list)

    def show(variable, leaf):
        if jax.numpy.issubdtype(jax.dtypes.result_type(leaf), jax.numpy.inexact) or column == "primal":
            jax.debug.callback(lambda x: seen[variable].append(np.array(x)), leaf)

    def identity(variable):
        if column == "tangent":
            same = jax.custom_jvp(lambda x: x)
            same.defjvp(lambda primals, tangents: (primals[0], (show(variable, tangents[0]), tangents[0])[1]))
        else:
            same = jax.custom_vjp(lambda x: x)
            same.defvjp(lambda x: (x, None), lambda _, ct: ((show(variable, ct), ct)[1],))
        return same

    def report(variable, value):
        flat, tree = jax.tree_util.tree_flatten_with_path(value)
        out = []
        for path, leaf in flat:
            leaf_name = variable + jax.tree_util.keystr(path)
            if not hasattr(leaf, "dtype") and not isinstance(leaf, (int, float)):
                out.append(leaf)
            elif column == "primal":
                show(leaf_name, leaf)
                out.append(leaf)
            else:
                out.append(identity(leaf_name)(leaf))
        return tree.unflatten(out)

    reported(name, jax, jax.numpy, report)
    jax.effects_barrier()
    return seen


def record(name):
    recorder = Recorder("full", name)
    with recorder:
        PROGRAMS[name](minijax, minijax.numpy)
    return recorder.recording


def every_value(known, named, column="primal"):
    """A variable's values in the table, in every iteration and for every example. [] if the table has none."""
    known.iterations = {}
    if not isinstance(getattr(known, column)(named.number), Worth):
        return []
    return list(_iterated(known, named.number, 0, column))


def _iterated(known, number, depth, column):
    loops = known.loops(number)
    if depth < len(loops):
        for index in range(loops[depth].count):
            known.iterations[loops[depth].key] = index
            yield from _iterated(known, number, depth + 1, column)
        known.iterations.pop(loops[depth].key, None)
        return
    found = getattr(known, column)(number)
    if isinstance(found, Worth):
        value = numpy_of(found.array)
        shape = value.shape[: len(found.axes)]
        for index in itertools.product(*map(range, shape)):
            yield value[index]


def _rows(values):
    return np.array([np.asarray(x, np.float64).reshape(-1) for x in values])


def agree(recording, expected, column="primal"):
    """Check that the table shows every variable that JAX prints, with the same set of values."""
    known = Ledger(recording)
    shown = defaultdict(list)
    for named in named_values(known):
        if named.variable and named.name in expected:
            shown[named.name] += every_value(known, named, column)
    for name, values in shown.items():
        if values:
            here, there = _rows(values), _rows(expected[name])
            assert _within(here, there) and _within(there, here), f"{name}: {here} is shown, {there} printed"
    zero = {name for name, values in expected.items() if column != "primal" and not np.any(_rows(values))}
    missing = set(expected) - {name for name in shown if shown[name]} - OTHER_NAMES - zero
    assert not missing, f"never shown: {missing}; there are {[n.name for n in named_values(known)]}"


def _within(some, others):
    return all(np.isclose(others, x, rtol=1e-4, atol=1e-5).all(axis=-1).any() for x in some)


COLUMNS = [
    *[(name, "primal") for name in PROGRAMS],
    *[(name, "tangent") for name in FORWARD],
    *[(name, "cotangent") for name in REVERSE],
]


@pytest.mark.parametrize(("name", "column"), COLUMNS)
def test_each_variable_has_the_values_that_jax_prints(name, column):
    agree(record(name), printed(name, column), column)


@pytest.mark.parametrize("name", FOR_JAX)
def test_each_variable_of_a_program_for_jax_has_the_values_that_jax_prints(name):
    def program():
        return PROGRAMS[name](jax, jax.numpy)

    carried = real_jax.carried("values", name, program, (), {})
    assert carried is not None
    recorder = Recorder("full", name)
    with recorder:
        carried.fun(*carried.args, **carried.kwargs)
    agree(recorder.recording, printed(name, "primal"))


@pytest.mark.parametrize("name", ["gradient", "per_example", "remat_in_scan"])
def test_the_values_pane_grows_with_the_run_and_ends_like_the_command(name):
    cursor = Cursor(record(name))
    known = ledger(cursor.recording)
    every = named_values(known)
    for position, moment in enumerate(cursor.moments):
        cursor.position = position
        there = list(rows_at(known, moment.at, -1).named)
        assert there == [named for named in every if named.life.born <= moment.at]
    rows = rows_of(known, every, cursor.recording.events, -1)
    table = plain(document(Text(tuple(table_lines(known, rows, 120)), wrap=False)), 120).splitlines()
    pane = plain(values_pane(cursor, 120), 120).splitlines()
    assert [line[2:] for line in table] == [line[2:] for line in pane] and len(pane) > 3


def test_a_branch_not_taken_lacks_no_tangents_where_nothing_is_differentiated():
    m = minijax

    def gate(xs):
        def up(c):
            return c + 1.0

        def halved(c):
            down = c * 0.5
            return down

        return m.lax.scan(lambda c, x: (m.lax.cond(x > 0, halved, up, c), c), 0.0, xs)

    recorder = Recorder("full", "gate")
    with recorder:
        gate(m.numpy.array([-1.0, 1.0]))
    known = ledger(recorder.recording)
    rows = rows_of(known, named_values(known), recorder.recording.events, -1).shown
    assert [str(row.known["primal"]) for row in rows if row.named.name == "down"] == [
        "not known: this branch was not taken"
    ]
    assert all(row.known["tangent"] is None and row.known["cotangent"] is None for row in rows)
