"""Observers receive the events in order and cannot harm a program."""

import warnings

import numpy as np
import pytest

import minijax
from minijax import lax
from minijax.core import observe
from minijax.core.observe import Observer, watching


class Log(Observer):
    def __init__(self):
        self.events = []

    def main_push(self, main):
        self.events.append(("push", repr(main)))

    def main_pop(self, main):
        self.events.append(("pop", repr(main)))

    def bind_enter(self, primitive, trace, args, params):
        self.events.append(("enter", primitive.name, repr(trace.main)))

    def bind_exit(self, primitive, trace, out):
        self.events.append(("exit", primitive.name, repr(trace.main)))

    def rule(self, table, primitive, rule):
        self.events.append(("rule", table, primitive.name))


def test_jvp_of_sin_announces_each_step_in_order():
    with watching(Log()) as log:
        minijax.jvp(lax.sin, (1.0,), (1.0,))
    assert log.events == [
        ("push", "jvp:1"),
        ("enter", "sin", "jvp:1"),
        ("rule", "jvp", "sin"),
        ("enter", "sin", "eval"),
        ("rule", "numpy", "sin"),
        ("exit", "sin", "eval"),
        ("enter", "cos", "eval"),
        ("rule", "numpy", "cos"),
        ("exit", "cos", "eval"),
        ("enter", "mul", "eval"),
        ("rule", "numpy", "mul"),
        ("exit", "mul", "eval"),
        ("exit", "sin", "jvp:1"),
        ("pop", "jvp:1"),
    ]


def test_jit_announces_its_phases_once():
    class Phases(Observer):
        def __init__(self):
            self.seen = []

        def phase(self, phase, name, seconds):
            assert seconds >= 0
            self.seen.append(phase)

        def cache(self, cache, name, hit, key, reason):
            self.seen.append(("hit" if hit else "miss", reason))

    def f(x):
        return lax.sin(x)

    jitted = minijax.jit(f)
    with watching(Phases()) as seen:
        jitted(1.0)
        jitted(2.0)
        jitted(np.float32(2.0))
    assert seen.seen[:5] == [("miss", "first call"), "trace", "lower", "compile", "run"]
    assert seen.seen[5:7] == [("hit", ""), "run"]
    verdict, reason = seen.seen[7]
    assert verdict == "miss" and reason == "x: f32[] (weak_type) became f32[]"


def test_an_observer_that_raises_is_removed_and_the_program_goes_on():
    class Broken(Observer):
        def bind_enter(self, primitive, trace, args, params):
            raise ValueError("broken on purpose")

    with watching(Broken()):
        with pytest.warns(RuntimeWarning, match="Broken raised ValueError"):
            assert float(lax.sin(0.0)) == 0.0
        assert not observe.on_bind_enter
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            assert float(lax.cos(0.0)) == 1.0


def test_an_observers_own_binds_are_not_observed():
    class Binder(Observer):
        count = 0

        def bind_enter(self, primitive, trace, args, params):
            Binder.count += 1
            lax.cos(1.0)

    with watching(Binder()):
        lax.sin(1.0)
    assert Binder.count == 1


def test_a_staging_cache_looks_empty_once_while_retracing():
    cache = {"key": "old"}
    assert observe.staging_cache(cache) is cache
    with observe.retracing():
        standing_in = observe.staging_cache(cache)
        assert standing_in == {} and observe.staging_cache(cache) is standing_in
        standing_in["key"] = "new"
        with observe.retracing():
            assert observe.staging_cache(cache) == {}
        assert observe.staging_cache(cache) == {"key": "new"}
        assert observe.staging_cache({}) is not standing_in
    assert observe.staging_cache(cache) is cache and cache == {"key": "old"}


def test_preparation_in_engine_rules_is_not_observed():
    class Seen(Observer):
        def __init__(self):
            self.primitives, self.jaxprs = [], []

        def bind_enter(self, primitive, trace, args, params):
            self.primitives.append(primitive.name)

        def jaxpr(self, kind, closed, name):
            self.jaxprs.append(name)

    seen, key = Seen(), minijax.random.key(0)
    with watching(seen):
        minijax.random.split(key, 13)
        minijax.jit(lambda k: minijax.random.bits(k, (17,)))(key)
    assert seen.primitives == ["random_split", "random_bits", "jit"]
    assert len(seen.jaxprs) == 1 and seen.jaxprs[0].startswith("<lambda>")
