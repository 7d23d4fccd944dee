"""Direct linearization gives the results of jvp with partial evaluation, which other tests compare with JAX.

Values, types and errors must agree to the last bit, and programs must be equivalent: calls, branches and loops may
have other residuals, or the same in another order (``tests.oracle.test_jaxprs`` compares these texts with JAX's).
Derived rules must agree with the rules that they are derived from.
"""

import importlib

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax.core.primitive import Primitive
from minijax.core.trace import state
from minijax.interpreters import ad, batching
from minijax.interpreters import jvp_rules as rules
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.ops.elementwise import sin_p

from ..oracle.control_flow import PROGRAMS
from ..oracle.functions import CASES
from ..oracle.meaning import meaning
from ..oracle.normalise import normalise

# import the module itself, because the package has an object with this name
settings = importlib.import_module("minijax.config")
use_direct_linearize = settings.use_direct_linearize


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Derive a rule when it is first called with a signature."""
    monkeypatch.setattr(rules, "WORTH_DERIVING", 0)
    yield


def both(run):
    """The result of ``run`` by direct linearization, and by jvp with partial evaluation."""
    with use_direct_linearize(True):
        directly = run()
    with use_direct_linearize(False):
        return directly, run()


def assert_equal(directly, otherwise):
    """Check that both trees have the same types and bits, and equivalent programs."""
    assert minijax.tree.structure(directly) == minijax.tree.structure(otherwise)
    for a, b in zip(minijax.tree.leaves(directly), minijax.tree.leaves(otherwise), strict=True):
        if isinstance(b, ClosedJaxpr):
            assert str(a) == str(b) or meaning(a) == meaning(b) or normalise(a).graph() == normalise(b).graph()
            continue
        assert getattr(a, "aval", None) is getattr(b, "aval", None)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


# Programs whose linear part creates zeros before a loop, as in JAX. With the other method, these zeros are constants.
MAKING_ZEROS = {"grad_of_scan_closing_over_tracers"}
# A borrowed function converts its constants: one method makes them constvars, the other literals.
CONVERTING_CONSTANTS = {"padding"}

TABLE = {name: case for name, case in [*CASES.items(), *PROGRAMS.items()] if case.grads and case.reverse}


@pytest.mark.parametrize("name", TABLE)
def test_both_methods_agree_on_derivatives_of_table_programs(name):
    case = TABLE[name]

    def derivative(*args):
        value, pullback = minijax.vjp(lambda *args: case.function(minijax, *args), *args)
        return (value, pullback(minijax.tree.map(jnp.ones_like, value))), pullback

    def run():
        found, pullback = derivative(*case.args)
        linear = None if name in MAKING_ZEROS | CONVERTING_CONSTANTS else pullback.jaxpr
        _, apply = minijax.linearize(lambda *args: case.function(minijax, *args), *case.args)
        pushed = apply(*case.tangents(case.args)) if case.forward else None
        return found, pushed, linear, minijax.make_jaxpr(lambda *args: derivative(*args)[0])(*case.args)

    assert_equal(*both(run))


@pytest.mark.parametrize("name", TABLE)
def test_both_methods_agree_on_second_derivatives_of_table_programs(name):
    case = TABLE[name]

    def derivative(*args):
        value, pullback = minijax.vjp(lambda *args: case.function(minijax, *args), *args)
        found = minijax.tree.leaves(pullback(minijax.tree.map(jnp.ones_like, value)))
        return [x for x in found if jnp.issubdtype(x.dtype, jnp.inexact)]

    def total(*args):
        return sum((jnp.real(jnp.sin(x)).sum() for x in derivative(*args)), 0.0)

    def run():
        forward = minijax.jvp(derivative, case.args, case.tangents(case.args)) if case.forward else None
        return minijax.grad(total, tuple(case.argnums()))(*case.args), forward

    assert_equal(*both(run))


@pytest.mark.parametrize("name", TABLE)
def test_both_methods_agree_on_vmap_of_derivatives_of_table_programs(name):
    case = TABLE[name]

    def derivative(*args):
        value, pullback = minijax.vjp(lambda *args: case.function(minijax, *args), *args)
        return value, pullback(minijax.tree.map(jnp.ones_like, value))

    args = minijax.tree.map(lambda x: np.stack([x, x], axis=-1), case.args)
    mapped = minijax.vmap(derivative, in_axes=-1)
    assert_equal(*both(lambda: (mapped(*args), minijax.make_jaxpr(mapped)(*args))))


def chain(x):
    for _ in range(3):
        x = jnp.sin(x) * x - jnp.where(x > 0, x, 2.0)
    return x


def used_in_turns(x):
    """``x`` and ``y`` share a tangent, so their cotangents are added to one sum, in the order of the uses."""
    y = x - 0.5
    return (x * 0.1 + y * 0.3 + x * 0.7 + jnp.sin(y) * 1.1).sum()


MATRIX = jnp.arange(6.0).reshape(2, 3) / 7.0
NESTED = {
    "uses in turns": lambda: minijax.grad(used_in_turns)(jnp.linspace(0.0, 3.0, 50)),
    "uses in turns, staged": lambda: minijax.make_jaxpr(minijax.grad(used_in_turns))(jnp.linspace(0.0, 3.0, 50)),
    "third derivative": lambda: minijax.grad(minijax.grad(minijax.grad(chain)))(0.7),
    "in jit": lambda: minijax.jit(minijax.grad(chain))(0.7),
    "in vmap, of a number that is not mapped": lambda: minijax.vmap(
        lambda x, y: minijax.grad(lambda y: chain(y) * x)(y), (0, None)
    )(jnp.arange(3.0), 0.7),
    "between vmaps": lambda: minijax.vmap(
        lambda x: minijax.grad(lambda x: minijax.vmap(lambda y: chain(x) * y, 1)(MATRIX).sum())(x)
    )(jnp.arange(3.0)),
    "mapped after it ran": lambda: minijax.vmap(minijax.vjp(chain, jnp.arange(3.0))[1])(jnp.ones((2, 3))),
    "a linear function's program, in vmap": lambda: minijax.vmap(
        lambda x, t: minijax.linearize(lambda x: chain(x) * x, x)[1](t)
    )(jnp.arange(3.0), jnp.arange(3.0)),
    "in vmap over a named axis": lambda: minijax.vmap(
        minijax.grad(lambda x: minijax.lax.psum(chain(x), "i") * x), axis_name="i"
    )(jnp.arange(3.0)),
    "in vmap and jvp": lambda: minijax.jvp(minijax.vmap(minijax.grad(chain)), (jnp.arange(3.0),), (jnp.ones(3),)),
    "of vmap": lambda: minijax.grad(lambda x: minijax.vmap(chain)(x).sum())(jnp.arange(3.0)),
    "of jvp": lambda: minijax.grad(lambda x: minijax.jvp(chain, (x,), (1.0,))[1])(0.7),
    "hessian": lambda: minijax.hessian(lambda x: jnp.prod(chain(x)))(jnp.arange(3.0)),
    "linearize": lambda: minijax.linearize(chain, 0.7)[1](2.0),
    "aux": lambda: minijax.value_and_grad(lambda x: (chain(x), {"aux": x * 2, "input": x}), has_aux=True)(0.7),
    "integers": lambda: minijax.vjp(lambda x, n: (x * n, n + 1), 0.7, 3)[1]((1.0, 1)),
    "a pullback as a tree": lambda: minijax.jit(lambda pull, t: pull(t))(minijax.vjp(chain, 0.7)[1], 1.0),
    "on a device": lambda: minijax.grad(chain)(minijax.device_put(0.7, minijax.devices()[1])),
}


@pytest.mark.parametrize("name", NESTED)
def test_both_methods_agree_under_and_over_other_transformations(name):
    assert_equal(*both(NESTED[name]))


def fails(x):
    return minijax.lax.add(jnp.ones(3) * x, jnp.ones(2)).sum()


ERRORS = {
    "operands": lambda: minijax.grad(fails)(0.7),
    "truth value": lambda: minijax.make_jaxpr(minijax.grad(lambda x: x if x > 0 else -x))(0.7),
    "no reverse mode": lambda: minijax.grad(lambda x: minijax.lax.while_loop(lambda c: c < 3.0, jnp.exp, x))(0.7),
    "nan": lambda: settings.debug_nans(True)(minijax.grad(lambda x: jnp.log(x - 1.0)))(0.7),
}


@pytest.mark.parametrize("name", ERRORS)
def test_both_methods_raise_the_same_errors(name):
    def run():
        with pytest.raises(Exception) as caught:
            ERRORS[name]()
        return caught.type, str(caught.value).replace("linearize:1", "jvp:2").replace("linearize:2", "jvp:3")

    directly, otherwise = both(run)
    assert directly == otherwise


def test_debug_nans_can_be_enabled_inside():
    @use_direct_linearize(True)
    def run(x):
        with settings.debug_nans(True):
            return jnp.log(x - 1.0)

    with pytest.raises(FloatingPointError, match="log"):
        use_direct_linearize(True)(minijax.grad(run))(0.7)


def test_the_rule_of_another_author_is_run_at_each_call():
    ran = []
    double = Primitive("double")
    double.def_impl(lambda x: x * 2)
    double.def_abstract_eval(lambda x: x)

    def double_jvp(primals, tangents):
        ran.append(float(primals[0]))  # float() raises for a tracer without a known value
        return double.bind(*primals), tangents[0] * 2

    ad.primitive_jvps[double] = double_jvp
    with use_direct_linearize(True):
        assert [float(minijax.grad(double.bind)(x)) for x in (1.0, 2.0, 3.0)] == [2.0, 2.0, 2.0]
    assert ran == [1.0, 2.0, 3.0]


def test_the_marked_rule_of_another_author_is_run_once_for_a_signature():
    ran = []
    cube = Primitive("cube")
    cube.def_impl(lambda x: x * x * x)
    cube.def_abstract_eval(lambda x: x)
    batching.primitive_batchers[cube] = lambda args, dims: (cube.bind(*args), dims[0])

    def cube_jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        ran.append(x)
        return cube.bind(x), t * (x * x * 3.0)

    def results():
        grad = minijax.grad(cube.bind)
        return [
            float(grad(2.0)),
            float(minijax.jvp(cube.bind, (2.0,), (1.0,))[1]),
            float(minijax.grad(grad)(2.0)),
            np.asarray(minijax.vmap(grad)(jnp.arange(3.0))).tolist(),
            str(minijax.make_jaxpr(grad)(2.0)),
        ]

    ad.primitive_jvps[cube] = cube_jvp
    with use_direct_linearize(True):
        expected = results()
        assert expected[:3] == [12.0, 12.0, 12.0]
        ad.primitive_jvps[cube] = ad.depends_on_types(cube_jvp)
        for _ in range(8):
            assert results() == expected
        ran.clear()
        assert results() == expected
    assert not ran


def test_a_replaced_rule_takes_effect(monkeypatch):
    with use_direct_linearize(True):
        assert minijax.grad(minijax.lax.sin)(0.0) == 1.0
        monkeypatch.setitem(ad.primitive_jvps, sin_p, lambda primals, tangents: (primals[0], tangents[0] * 7.0))
        assert minijax.grad(minijax.lax.sin)(0.0) == 7.0
        monkeypatch.undo()
        assert minijax.grad(minijax.lax.sin)(0.0) == 1.0


def test_a_linearization_rule_is_preferred():
    triple = Primitive("triple")
    triple.def_impl(lambda x: x * 3)
    triple.def_abstract_eval(lambda x: x)

    def triple_linearize(is_vjp, nonzero, x):
        return triple.bind(x), True, jnp.float32(3.0), lambda residual, tangent: tangent * residual

    ad.primitive_linearizations[triple] = triple_linearize
    try:
        with use_direct_linearize(True):
            assert minijax.grad(lambda x: triple.bind(x) * 2.0)(1.0) == 6.0
    finally:
        del ad.primitive_linearizations[triple]


def test_direct_linearization_pushes_one_interpreter():
    seen = []

    def look(x):
        seen.extend(map(repr, state.stack))
        assert type(x) is ad.LinearizeTracer and "typeof(tangent)=f32[]" in repr(x)
        return x

    with use_direct_linearize(True):
        minijax.grad(look)(jnp.float32(1.0))
    assert seen == ["eval", "linearize:1"]
