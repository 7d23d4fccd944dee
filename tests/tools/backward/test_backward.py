"""The recorded backward pass and its view show the right cotangent for each name, at every moment."""

import functools

import jax
import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.pytree import tree_leaves
from minijax.tools.recording.backward import listed
from minijax.tools.recording.naming import Naming, own_name
from minijax.tools.recording.recorder import record
from minijax.tools.stepper.backward import passes_of
from minijax.tools.values.moment import Worth, ledger
from tests.tools.values.test_moment import printed
from tests.tools.values.watched_programs import PROGRAMS


@functools.cache
def recorded(name):
    return record(lambda: PROGRAMS[name](minijax, jnp))


def close(ours, theirs):
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["gradient", "loops_of_python", "custom_vjp"])
def test_cotangents_match_jax(name):
    gradient, recording = recorded(name)
    wanted = printed(name, "cotangent")
    backward, naming, array = listed(recording.backward[-1], recording), Naming(recording), recording.kept.array
    sums = {each.variable: each for each in backward.begins}
    for step in backward.steps:
        for part, total in zip(step.found, step.sums, strict=True):
            before = sums.get(part.variable)
            if before is None:
                assert total.number == part.number
            else:  # this sum is the sum before this step plus the new part
                close(array(total.number), np.asarray(array(before.number)) + np.asarray(array(part.number)))
            sums[total.variable] = total
    compared = 0
    for variable, total in sums.items():
        expected = wanted.get(naming.variable(backward.primals[variable]), [])
        if expected:
            assert any(np.allclose(np.asarray(array(total.number)), each, 2e-5, 1e-6) for each in expected)
            compared += 1
    assert compared > 1
    for ours, theirs in zip(tree_leaves(gradient), jax.tree.leaves(PROGRAMS[name](jax, jax.numpy)), strict=True):
        close(ours, theirs)


def rnn(w, xs):
    def step(h, x):
        a = w * h + x
        h = jnp.tanh(a)
        return h, h * h

    h, ys = lax.scan(step, 0.5, xs)
    return jnp.sum(ys) + h


def rnn_of_jax(w, xs, added_a, added_h):
    def step(h, each):
        x, in_a, in_h = each
        a = w * h + x + in_a
        h = jax.numpy.tanh(a) + in_h
        return h, h * h

    h, ys = jax.lax.scan(step, 0.5, (xs, added_a, added_h))
    return jax.numpy.sum(ys) + h


def last_sums(backward):
    """Name -> the number of the last sum of its cotangents."""
    record = backward.record
    found = {total.variable: total.number for total in record.begins}
    found |= {total.variable: total.number for step in record.steps for total in step.sums}
    return {name: found[variable] for variable, name in backward.names.items() if variable in found}


def worth(recording, number):
    found = ledger(recording).primal(number)
    assert isinstance(found, Worth), found
    return found.array


def test_cotangents_in_a_scan_match_jax_in_each_iteration():
    """JAX's cotangents of ``a`` and ``h`` are gradients with respect to zeros that the reference adds to them."""
    xs = np.linspace(-0.4, 0.8, 4, dtype=np.float32)
    _, recording = record(minijax.grad(rnn), 0.3, xs)
    body = passes_of(recording)[1]
    zeros = np.zeros(4, np.float32)
    of_a, of_h = jax.grad(rnn_of_jax, (2, 3))(0.3, xs, zeros, zeros)
    numbers = last_sums(body)
    (loop,) = body.loops()
    assert loop.count == 4
    for i in range(loop.count):
        ledger(recording).iterations[loop.key] = i
        close(worth(recording, numbers["a"]), of_a[i])
        close(worth(recording, numbers["h"]), of_h[i])


def test_a_branch_that_was_not_taken_says_so():
    _, recording = record(minijax.grad(lambda x: lax.cond(x > 0, lambda x: x * 2.0, lambda x: x * 3.0, x)), 1.0)
    inner = [each for each in passes_of(recording) if each.around is not None]
    assert [each.unknown() for each in inner] == [["this branch was not taken"], []]


@pytest.mark.parametrize(
    ("called", "name"), [("primal of (y * y).sum()", "(y * y).sum()"), ("primal of (a + b)", "a + b"), ("", "")]
)
def test_only_brackets_around_a_whole_name_are_dropped(called, name):
    assert own_name(called) == name
