"""Programs to record, of varied transformations, and a recording as text that is the same in every run.

Line numbers of this file are part of the golden texts: put new programs at its end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import (
    BindRecord,
    CacheRecord,
    EquationRecord,
    ErrorRecord,
    ExecutableRecord,
    JaxprRecord,
    ModuleRecord,
    PhaseRecord,
    Recording,
    RuleRecord,
    ScopeRecord,
)

HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def f(x):
    y = jnp.sin(x)
    return y * 2.0 - x


def mapped() -> None:
    def dot(a, b):
        return jnp.sum(a * b)

    minijax.vmap(dot, in_axes=(0, None))(jnp.ones((3, 2)), jnp.arange(2.0))


def gradient() -> None:
    minijax.grad(f)(3.0)


def grad_of_vmap_of_scan() -> None:
    def step(carry, x):
        new = jnp.tanh(carry * x)
        return new, new

    def cell(x):
        last, _ = lax.scan(step, x, jnp.array([0.5, 2.0]))
        return last

    minijax.grad(lambda xs: jnp.sum(minijax.vmap(cell)(xs)))(jnp.ones(3))


def jit_miss_then_hit() -> None:
    @minijax.jit
    def g(x):
        return jnp.exp(x) + 1.0

    one = jnp.float32(1.0)
    g(one)
    g(one)


def custom_vjp() -> None:
    @minijax.custom_vjp
    def clipped(x):
        return x

    def forward(x):
        return x, x > 0.0

    def backward(positive, ct):
        return (jnp.where(positive, ct, 0.0),)

    clipped.defvjp(forward, backward)
    minijax.grad(lambda x: clipped(jnp.sin(x)) * 2.0)(2.0)


def error_inside_a_rule() -> None:
    @minijax.custom_jvp
    def broken(x):
        return jnp.cos(x)

    @broken.defjvp
    def broken_jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        return jnp.cos(x), lax.mul(t, jnp.ones(3))

    minijax.vmap(minijax.grad(lambda x: broken(jnp.sin(x))))(jnp.ones(3))


def cond_under_vmap() -> None:
    def either(p, x):
        return lax.cond(p, lambda v: jnp.sin(v), lambda v: v * 2.0, x)

    minijax.vmap(either)(jnp.array([True, False]), jnp.arange(2.0))


def make_jaxpr_of_nested_jit() -> None:
    inner = minijax.jit(lambda x: x * 2.0)
    outer = minijax.jit(lambda x: inner(x) + inner(jnp.sin(x)))
    minijax.make_jaxpr(outer)(1.0)


def second_derivative() -> None:
    minijax.grad(minijax.grad(lambda x: jnp.sin(x) * x))(1.0)


def gradient_by_two_interpreters() -> None:
    minijax.config.update("jax_use_direct_linearize", False)
    try:
        minijax.grad(f)(3.0)
    finally:
        minijax.config.update("jax_use_direct_linearize", True)


PROGRAMS: dict[str, Callable[[], None]] = {
    program.__name__: program
    for program in (
        mapped,
        gradient,
        grad_of_vmap_of_scan,
        jit_miss_then_hit,
        custom_vjp,
        error_inside_a_rule,
        cond_under_vmap,
        make_jaxpr_of_nested_jit,
        second_derivative,
        gradient_by_two_interpreters,
    )
}
FAILING = {"error_inside_a_rule"}


def recorded(name: str, retrace: bool = False) -> Recording:
    """The full recording of a program, the exception of one that fails included."""
    recorder = Recorder("full", name, retrace)
    try:
        with recorder:
            PROGRAMS[name]()
    except TypeError:
        assert name in FAILING
    return recorder.recording


def as_text(recording: Recording) -> str:
    """The tree and the tracers, indented, without times, folders and whatever else differs from run to run."""
    lines = [f"stack: {' > '.join(recording.stack)}"]
    for depth, node in recording.walk():
        lines += ["  " * depth + each for each in _node(node)]
    lines.append("tracers:")
    for life in recording.lives:
        tracer = life.tracer
        held = " ".join(f"{key}={value}" for key, value in tracer.fields)
        inside = f" holds {' '.join(map(str, tracer.holds))}" if tracer.holds else ""
        physical = f" physically {tracer.physical}" if tracer.physical else ""
        name = f" named {life.name}" if life.name else ""
        lines.append(f"  {tracer.id} {tracer.level} {tracer.type}{physical}{name} {held}{inside}".rstrip())
    text = "\n".join(lines).replace(HERE, "")
    return re.sub(r"0x[0-9a-f]+", "0x...", text)


def _node(node: object) -> list[str]:
    if isinstance(node, ScopeRecord):
        return [f"{node.level} for {node.subject} on {' > '.join(node.stack[:-1])} @ {node.place}"]
    if isinstance(node, BindRecord):
        params = "".join(f" {key}={value}" for key, value in node.params)
        head = f"{node.level} {node.primitive}({', '.join(node.args)}){params} @ {node.place}"
        out = f"  raised {first_sentence(node.error)}" if node.error else f"  = {node.out} : {' '.join(node.types)}"
        if any(node.operands) or any(node.results):
            out += f"  tracers {' '.join(map(str, node.operands))} -> {' '.join(map(str, node.results))}"
        rule = "" if node.rule is None else f"  {node.rule.table} rule {node.rule.name}"
        notes = [f"  cached: {node.cached}"] if node.cached else []
        notes += ["  not finite"] if node.nonfinite else []
        return [head, out, *notes, *([rule] if rule else []), f"  because {node.forced}"]
    if isinstance(node, EquationRecord):
        return [f"{node.level} records {node.text} @ {node.place}"]
    if isinstance(node, RuleRecord):
        return [f"{node.table} rule {node.name} of {node.primitive} @ {node.place}"]
    if isinstance(node, JaxprRecord):
        return [f"jaxpr {node.kind} of {node.name}: {node.equations} equations"]
    if isinstance(node, CacheRecord):
        return [f"{node.cache} cache of {node.name}: {'hit' if node.hit else 'miss, ' + node.reason}"]
    if isinstance(node, PhaseRecord):
        return [f"end of {node.phase} {node.name}"]
    if isinstance(node, ModuleRecord):
        return [f"lowered {node.name}"]
    if isinstance(node, ExecutableRecord):
        return [f"compiled {node.name}"]
    assert isinstance(node, ErrorRecord)
    return [f"error {node.type} at {node.where} @ {node.place}: {first_sentence(node.message)}"]


def first_sentence(message: str) -> str:
    """What comes before any path, which a recording may cut."""
    return message.partition(". ")[0]
