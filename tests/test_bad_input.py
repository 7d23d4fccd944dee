"""For bad input minijax raises JAX's class of error, with JAX's essential words. Then the session still works.

Every row of ``misuses`` also runs in JAX, where the error must have the same type and contain the same words.
"""

import importlib
import os

import jax
import jax.experimental
import jax.extend.core
import jax.interpreters.ad
import jax.interpreters.batching
import jax.interpreters.mlir
import jax.numpy
import numpy as np
import pytest

from . import (
    missing_rules,
    misuses,
    misuses_of_axes,  # noqa: F401  (importing it adds its rows to the table)
    misuses_of_branches,  # noqa: F401
    misuses_of_derivatives,  # noqa: F401
    misuses_of_loops,  # noqa: F401
    misuses_of_primitives,  # noqa: F401
)
from .misuses import X3

mj = importlib.import_module(os.environ.get("MINIJAX_TEST_SUBJECT", "minijax"))
importlib.import_module(mj.__name__ + ".numpy")


def kind(error):
    """The name of the error's most specific public class: a builtin exception or one of ``jax.errors``."""
    for cls in type(error).__mro__:
        if cls.__module__ == "builtins" or (cls.__module__ == "jax.errors" or hasattr(jax.errors, cls.__name__)):
            return cls.__name__
    raise AssertionError("every exception derives from BaseException")


def depth():
    """The number of interpreters on the stack, not counting evaluation."""
    return 0 if mj is jax else importlib.import_module("minijax.core.trace").stack_depth()


@pytest.fixture(scope="module")
def jitted_once():
    """A jitted function, compiled once, that works after every error."""
    return mj.jit(lambda x: x * 2.0 + 1.0)


@pytest.fixture(autouse=True)
def life_goes_on(jitted_once):
    """After each test, only evaluation is on the stack, and every transformation works."""
    assert depth() == 0
    yield
    assert depth() == 0, "the interpreter stack was left behind"
    assert float(mj.grad(lambda x: x * x)(3.0)) == 6.0
    assert mj.vmap(lambda x: x + 1.0)(X3).shape == (3,)
    assert float(jitted_once(2.0)) == 5.0
    assert len(mj.make_jaxpr(lambda x: x * 2.0)(1.0).jaxpr.eqns) == 1


def raised(program, ns):
    """The exception that ``program`` raises."""
    try:
        program(ns)
    except Exception as error:
        return error
    raise AssertionError(f"{ns.__name__} did not complain")


@pytest.mark.parametrize("row", misuses.TABLE, ids=lambda row: row.name)
def test_errors_match_jax_and_suggest_an_action(row):
    theirs, ours = raised(row.program, jax), raised(row.program, mj)
    missing = [word for word in row.words if word not in str(theirs)]
    assert not missing, f"JAX itself does not say {missing}:\n{theirs}"
    expected = row.ours if row.ours and mj is not jax else kind(theirs)
    assert kind(ours) == expected, f"JAX raises {kind(theirs)}: {theirs}\nminijax {type(ours)}: {ours}"
    missing = [word for word in row.words if word not in str(ours)]
    assert not missing, f"minijax does not say {missing}:\n{ours}\nJAX says:\n{theirs}"
    if mj is jax:
        return
    assert not row.here or row.file in str(ours), f"the user's line is missing:\n{ours}"
    missing = [word for word in row.advice if word not in str(ours)]
    assert not missing, f"the next action is missing {missing}:\n{ours}"


def test_a_jitted_function_that_failed_works_after_its_rule_is_added():
    primitive = missing_rules.new_primitive(mj, evaluation=True)
    compiled = mj.jit(missing_rules.square_add(primitive))
    with pytest.raises(NotImplementedError, match="Abstract evaluation"):
        compiled(2.0, 10.0)
    primitive.def_abstract_eval(lambda x, y, z: x)
    mlir = importlib.import_module(mj.__name__ + ".interpreters.mlir")
    for _ in range(2):
        with pytest.raises(NotImplementedError, match="MLIR translation rule"):
            compiled(2.0, 10.0)
    mlir.register_lowering(primitive, mlir.lower_fun(lambda x, y, z: x * y + z, multiple_results=False))
    assert compiled(2.0, 10.0) == 14.0


TRANSFORMS = {
    "jit": lambda ns, f: ns.jit(f)(1.0),
    "grad": lambda ns, f: ns.grad(f)(1.0),
    "jvp": lambda ns, f: ns.jvp(f, (1.0,), (1.0,)),
    "vmap": lambda ns, f: ns.vmap(f)(X3),
    "make_jaxpr": lambda ns, f: ns.make_jaxpr(f)(1.0),
    "grad of jit": lambda ns, f: ns.grad(ns.jit(f))(1.0),
    "jit of grad of vmap": lambda ns, f: ns.jit(ns.grad(lambda x: ns.vmap(f)(x).sum()))(X3),
}


def with_rules(ns, f, fwd=None, bwd=None):
    """A ``custom_vjp`` function with these rules. A rule that is None is replaced by a valid one."""
    function = ns.custom_vjp(f or ns.numpy.sin)
    function.defvjp(fwd or (lambda x: (x, None)), bwd or (lambda _, ct: (ct,)))
    return function


def with_derivative(ns, f, rule):
    """A ``custom_jvp`` function with this rule."""
    function = ns.custom_jvp(f)
    function.defjvp(rule)
    return function


def solved(mv, b):
    return b / 2.0


# constructs that call a user's function: each calls f with one array
CONSTRUCTS = {
    "a branch": lambda ns, f: ns.lax.cond(True, f, lambda x: x, 1.0),
    "the condition of a loop": lambda ns, f: ns.lax.while_loop(f, lambda x: x, 1.0),
    "the body of a loop": lambda ns, f: ns.lax.while_loop(lambda x: x < 3, f, 1.0),
    "the body of a fori_loop with a traced bound": lambda ns, f: ns.jit(
        lambda n: ns.lax.fori_loop(0, n, lambda i, x: f(x), 1.0)
    )(3),
    "the body of a scan": lambda ns, f: ns.lax.scan(lambda c, x: (f(c), x), 1.0, X3),
    "a custom_jvp function": lambda ns, f: ns.jit(with_derivative(ns, f, lambda p, t: (p, t)))(1.0),
    "a custom_jvp rule": lambda ns, f: ns.grad(with_derivative(ns, ns.numpy.sin, lambda p, t: f(p[0])))(1.0),
    "a custom_vjp function": lambda ns, f: with_rules(ns, f)(1.0),
    "a forward rule": lambda ns, f: ns.grad(with_rules(ns, None, fwd=f))(1.0),
    "a backward rule": lambda ns, f: ns.grad(with_rules(ns, None, bwd=lambda _, ct: f(ct)))(1.0),
    "checkpoint": lambda ns, f: ns.checkpoint(f)(1.0),
    "the matvec of a linear solve": lambda ns, f: ns.lax.custom_linear_solve(f, X3, solved),
    "the solver of a root": lambda ns, f: ns.lax.custom_root(lambda x: x, 1.0, lambda g, x: f(x), lambda g, y: y),
    "vmap over a named axis": lambda ns, f: ns.vmap(lambda x: f(ns.lax.psum(x, "i")), axis_name="i")(X3),
    "pmap": lambda ns, f: ns.pmap(f)(X3[:1]),
}
TRANSFORMS.update(CONSTRUCTS)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("transform", list(TRANSFORMS))
def test_exceptions_of_the_function_pass_through(transform, error):
    original = error("raised inside")

    def function(x):
        mj.numpy.sin(x) * 2
        raise original

    with pytest.raises(error) as caught:
        TRANSFORMS[transform](mj, function)
    assert caught.value is original


def test_a_jitted_function_recovers_from_an_interrupt():
    calls = []

    @mj.jit
    def function(x):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return mj.numpy.sin(x) * 2.0

    with pytest.raises(KeyboardInterrupt):
        function(1.0)
    assert float(function(1.0)) == pytest.approx(2.0 * np.sin(1.0), rel=1e-6)
    assert float(function(2.0)) == pytest.approx(2.0 * np.sin(2.0), rel=1e-6)
    assert len(calls) == 2


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: mj.vmap(f, in_axes=None, axis_size=2), lambda f: mj.grad(f)])
def test_an_interrupt_in_a_callback_ends_the_call(wrap):
    def interrupted(x):
        raise KeyboardInterrupt

    def program(x):
        mj.debug.callback(interrupted, x)
        return x * 2.0

    if mj is not jax:
        with pytest.raises(KeyboardInterrupt):
            wrap(program)(1.0)


def test_an_outer_transformation_survives_an_error_that_is_caught_inside():
    def function(x):
        try:
            mj.vmap(mj.jit(misuses.choose))(X3)
        except mj.errors.TracerBoolConversionError:
            return mj.numpy.sin(x) * x
        raise AssertionError("choose cannot be jitted")

    assert float(mj.grad(function)(2.0)) == pytest.approx(np.sin(2.0) + 2.0 * np.cos(2.0), rel=1e-6)
    assert float(mj.jit(function)(2.0)) == pytest.approx(2.0 * np.sin(2.0), rel=1e-6)
