"""Forward mode with cached rules gives the results of the rules themselves, which other tests compare with JAX.

Values, types and errors must agree to the last bit.
"""

import importlib

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import errors
from minijax.interpreters import ad
from minijax.interpreters import jvp_rules as rules
from minijax.ops.elementwise import sin_p
from minijax.tools.recording.recorder import record

from ..oracle.control_flow import PROGRAMS
from ..oracle.functions import CASES

settings = importlib.import_module("minijax.config")
NEVER = 10**9


@pytest.fixture
def both(monkeypatch):
    """The results with cached rules, and those with uncached rules."""

    def run_both(run):
        monkeypatch.setattr(rules, "WORTH_DERIVING", NEVER)
        rules._forget()
        by_rule = run()
        monkeypatch.setattr(rules, "WORTH_DERIVING", 0)
        rules._forget()
        run()
        return run(), by_rule  # the first run filled the cache

    return run_both


def assert_equal(kept, by_rule):
    """Check that both trees have the same types and bits."""
    assert minijax.tree.structure(kept) == minijax.tree.structure(by_rule)
    for a, b in zip(minijax.tree.leaves(kept), minijax.tree.leaves(by_rule), strict=True):
        assert getattr(a, "aval", None) is getattr(b, "aval", None)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


TABLE = {name: case for name, case in [*CASES.items(), *PROGRAMS.items()] if case.grads and case.forward}


@pytest.mark.parametrize("name", TABLE)
def test_cached_rules_agree_in_jvp_of_table_programs(name, both):
    case = TABLE[name]

    def run():
        moving = case.argnums()

        def of_moving(*some):
            args = list(case.args)
            for i, x in zip(moving, some, strict=True):
                args[i] = x
            return case.function(minijax, *args)

        primals = [case.args[i] for i in moving]
        tangents = minijax.tree.map(lambda x: jnp.full_like(jnp.asarray(x), 0.5), primals)
        return minijax.jvp(of_moving, primals, tangents)

    assert_equal(*both(run))


@pytest.mark.parametrize("name", TABLE)
def test_cached_rules_agree_in_vmap_of_jvp_of_table_programs(name, both):
    case = TABLE[name]

    def run():
        moving = case.argnums()

        def push(*args):
            def of_moving(*some):
                given = dict(zip(moving, some, strict=True))
                return case.function(minijax, *[given.get(i, x) for i, x in enumerate(args)])

            primals = [args[i] for i in moving]
            tangents = minijax.tree.map(lambda x: jnp.full(jnp.shape(x), 0.5, jnp.result_type(x)), primals)
            return minijax.jvp(of_moving, primals, tangents)

        args = minijax.tree.map(lambda x: np.stack([x, x], axis=-1), case.args)
        return minijax.vmap(push, in_axes=-1)(*args)

    assert_equal(*both(run))


def chain(x):
    for _ in range(3):
        x = jnp.sin(x) * x - jnp.where(x > 0, x, 2.0)
    return x


NESTED = {
    "weak types": lambda: [minijax.jvp(chain, (x,), (t,)) for x in (0.7, np.float32(0.7)) for t in (1.0, jnp.ones(()))],
    "jvp of jvp": lambda: minijax.jvp(lambda x: minijax.jvp(chain, (x,), (1.0,))[1], (0.7,), (1.0,)),
    "jvp of grad": lambda: minijax.jvp(minijax.grad(chain), (0.7,), (1.0,)),
    "grad of jvp": lambda: minijax.grad(lambda x: minijax.jvp(chain, (x,), (x,))[1])(0.7),
    "in vmap": lambda: minijax.vmap(lambda x: minijax.jvp(chain, (x,), (1.0,))[1])(jnp.arange(3.0)),
    "in vmap, of the tangent": lambda: minijax.vmap(lambda t: minijax.jvp(chain, (0.7,), (t,))[1])(jnp.arange(3.0)),
    "in jit": lambda: minijax.jit(lambda x: minijax.jvp(chain, (x,), (1.0,))[1])(0.7),
    "constants staged": lambda: minijax.make_jaxpr(lambda: minijax.jvp(chain, (0.7,), (1.0,)))().eqns != [],
    "a zero tangent": lambda: minijax.jvp(lambda x: jnp.floor(x) * x + jnp.sign(x), (0.7,), (1.0,)),
    "several operands": lambda: minijax.jvp(lambda x, y: minijax.lax.clamp(x, 0.5, y), (0.1, 0.4), (1.0, 2.0)),
    "custom rule": lambda: minijax.jvp(minijax.nn.relu, (0.7,), (1.0,)),
    "on a device": lambda: minijax.jvp(chain, (minijax.device_put(0.7, minijax.devices()[1]),), (1.0,)),
    "computed by jit": lambda: minijax.jvp(chain, (minijax.jit(jnp.cos)(0.7),), (minijax.jit(jnp.sin)(0.7),)),
}


@pytest.mark.parametrize("name", NESTED)
def test_cached_rules_agree_under_and_over_other_transformations(name, both):
    assert_equal(*both(NESTED[name]))


ERRORS = {
    "operands": lambda: minijax.jvp(lambda x: minijax.lax.add(jnp.ones(3) * x, jnp.ones(2)), (0.7,), (1.0,)),
    "truth value": lambda: minijax.jvp(minijax.jit(lambda x: x if x > 0 else -x), (0.7,), (1.0,)),
    "nan": lambda: settings.debug_nans(True)(lambda: minijax.jvp(lambda x: jnp.log(x - 1.0), (0.7,), (1.0,)))(),
    "a string": lambda: minijax.jvp(lambda x: minijax.lax.mul(x, "two"), (0.7,), (1.0,)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_cached_rules_raise_the_same_errors(name, both):
    def run():
        with pytest.raises(Exception) as caught:
            ERRORS[name]()
        return caught.type.__name__, str(caught.value)

    kept, by_rule = both(run)
    assert kept == by_rule


def test_a_replaced_rule_takes_effect(monkeypatch):
    def tangent():
        return float([minijax.jvp(minijax.lax.sin, (0.0,), (1.0,)) for _ in range(rules.WORTH_DERIVING + 2)][-1][1])

    assert tangent() == 1.0 and sin_p.pushforwards
    monkeypatch.setitem(ad.primitive_jvps, sin_p, lambda primals, tangents: (primals[0], tangents[0] * 7.0))
    assert tangent() == 7.0 and not sin_p.pushforwards
    monkeypatch.undo()
    assert tangent() == 1.0


def test_observers_see_the_rules(both):
    (_, kept), (_, by_rule) = both(lambda: record(lambda x: minijax.jvp(chain, (x,), (1.0,)), 0.7))
    assert dict(kept.binds) == dict(by_rule.binds) and dict(kept.binds)["jvp:1"] > 9


def test_equations_of_a_rule_have_the_line_of_the_bind():
    def bound(x):
        return sin_p.bind(x)

    closed = minijax.make_jaxpr(lambda x: minijax.jvp(bound, (x,), (x,)))(1.0)
    assert [eqn.primitive.name for eqn in closed.eqns] == ["sin", "cos", "mul"]
    assert all(
        "(test_equations_of_a_rule_have_the_line_of_the_bind.<locals>.bound)" in errors.summarize(eqn.source)
        for eqn in closed.eqns
    )
