"""Programs to record, with many transformations. ``as_text`` returns the same text in every run.

Line numbers of this file are part of the golden texts: put new programs at its end.
"""

import functools
import os
import re
from inspect import isfunction, signature

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.tools.documents.document import plain
from minijax.tools.recording.log import log_document
from minijax.tools.recording.recorder import Recorder

HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def f(x):
    y = jnp.sin(x)
    return y * 2.0 - x


def mapped():
    def dot(a, b):
        return jnp.sum(a * b)

    minijax.vmap(dot, in_axes=(0, None))(jnp.ones((3, 2)), jnp.arange(2.0))


def gradient():
    minijax.grad(f)(3.0)


def grad_of_vmap_of_scan():
    def step(carry, x):
        new = jnp.tanh(carry * x)
        return new, new

    def cell(x):
        last, _ = lax.scan(step, x, jnp.array([0.5, 2.0]))
        return last

    minijax.grad(lambda xs: jnp.sum(minijax.vmap(cell)(xs)))(jnp.ones(3))


def jit_miss_then_hit():
    @minijax.jit
    def g(x):
        return jnp.exp(x) + 1.0

    one = jnp.float32(1.0)
    g(one)
    g(one)


def custom_vjp():
    @minijax.custom_vjp
    def clipped(x):
        return x

    def forward(x):
        return x, x > 0.0

    def backward(positive, ct):
        return (jnp.where(positive, ct, 0.0),)

    clipped.defvjp(forward, backward)
    minijax.grad(lambda x: clipped(jnp.sin(x)) * 2.0)(2.0)


def error_inside_a_rule():
    @minijax.custom_jvp
    def broken(x):
        return jnp.cos(x)

    @broken.defjvp
    def broken_jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        return jnp.cos(x), lax.mul(t, jnp.ones(3))

    minijax.vmap(minijax.grad(lambda x: broken(jnp.sin(x))))(jnp.ones(3))


def cond_under_vmap():
    def either(p, x):
        return lax.cond(p, lambda v: jnp.sin(v), lambda v: v * 2.0, x)

    minijax.vmap(either)(jnp.array([True, False]), jnp.arange(2.0))


def make_jaxpr_of_nested_jit():
    inner = minijax.jit(lambda x: x * 2.0)
    outer = minijax.jit(lambda x: inner(x) + inner(jnp.sin(x)))
    minijax.make_jaxpr(outer)(1.0)


def second_derivative():
    minijax.grad(minijax.grad(lambda x: jnp.sin(x) * x))(1.0)


def gradient_by_two_interpreters():
    minijax.config.update("jax_use_direct_linearize", False)
    try:
        minijax.grad(f)(3.0)
    finally:
        minijax.config.update("jax_use_direct_linearize", True)


PROGRAMS = {name: each for name, each in vars().items() if isfunction(each) and not signature(each).parameters}
FAILING = {"error_inside_a_rule"}


@functools.cache
def recording_of(name):
    """The full recording of a program, also if it fails. It is kept, because a second run would not trace again."""
    recorder = Recorder("full", name)
    try:
        with recorder:
            PROGRAMS[name]()
    except TypeError:
        assert name in FAILING
    return recorder.recording


def without_places(text):
    """``text`` without times, folders and addresses."""
    text = text.replace(HERE, "")
    # in a message of a recording, the path may be cut
    text = re.sub(r"The rule is (\w+) at \S+", r"The rule is \1 at ...", text)
    text = re.sub(r"took [\d.]+ .?s", "took ...", text)
    return re.sub(r"0x[0-9a-f]+", "0x...", text) + "\n"


def as_text(recording):
    """The text of ``%log --verbose`` for a recording, without times, folders and addresses."""
    return without_places(plain(log_document(recording, most=10_000, verbose=True, numbered=False), 10_000))
