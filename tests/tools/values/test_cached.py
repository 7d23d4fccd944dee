"""Programs whose traces came from a cache: what their values are called, and the letters of those without names."""

import re

import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.repl import batch
from minijax.sharding import AxisType, PartitionSpec
from minijax.tools import record
from minijax.tools.documents.document import plain
from minijax.tools.values.moment import ledger
from minijax.tools.values.table import named_values


def each(x):
    y = jnp.sin(x)
    return lax.psum(y * 2.0, "i")


def pmapped():
    return minijax.pmap(each, axis_name="i")


def jitted():
    mesh = minijax.make_mesh((1,), ("i",), axis_types=(AxisType.Auto,))
    mapped = minijax.shard_map(each, mesh=mesh, in_specs=PartitionSpec("i"), out_specs=PartitionSpec())
    return minijax.jit(mapped)


def around():
    inner = pmapped()

    def outer(x):
        w = inner(x)
        return w

    return minijax.jit(outer)


@pytest.mark.parametrize("made, more", [(pmapped, []), (jitted, []), (around, ["w"])])
def test_what_wraps_a_function_has_no_name_of_its_caller(made, more):
    program = made()
    x = jnp.ones((1, 3))
    result = program(x)
    _, recording = record(program, x)
    names = [named.name for named in named_values(ledger(recording)) if named.number < 0]
    assert names == [*more, "y", "y * 2.0", 'lax.psum(y * 2.0, "i")'] and result.shape


@pytest.mark.parametrize("made", ["pmapped", "jitted"])
def test_letters_are_those_of_the_printed_program(made):
    session = batch.new_session({})
    session.run_line(f"from {__name__} import {made}; called = {made}(); u = called(jnp.ones((1, 3)))")
    shown = plain(session.run_line("%origin called(jnp.ones((1, 3)))").shown, 160)
    printed = plain(session.run_line("%jaxpr called(jnp.ones((1, 3)))").shown, 160)
    letters = re.findall(r"psum\w*\((\w)\)", shown)
    assert letters and letters == re.findall(r"psum\w*\[.*\] (\w)\n", printed)
