"""Bad input: the kind of error that JAX raises, in its essential words, and afterwards everything goes on.

Every row of ``misuses`` is run in JAX too: the type of the error and the words that are asked of minijax
are asked of JAX.
"""

from __future__ import annotations

import builtins
import importlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy
import numpy as np
import pytest

from . import missing_rules, misuses
from .misuses import X3, Misuse

mj = importlib.import_module(os.environ.get("MINIJAX_TEST_SUBJECT", "minijax"))
importlib.import_module(mj.__name__ + ".numpy")


def kind(error: BaseException) -> str:
    """The most specific public type: a builtin exception or one of ``jax.errors``."""
    for cls in type(error).__mro__:
        if cls.__module__ == "builtins" or (cls.__module__ == "jax.errors" or hasattr(jax.errors, cls.__name__)):
            return cls.__name__
    raise AssertionError("every exception derives from BaseException")


def depth() -> int:
    """How many interpreters stand above evaluation."""
    return 0 if mj is jax else importlib.import_module("minijax.core.trace").stack_depth()


@pytest.fixture(scope="module")
def jitted_once() -> Any:
    """A jitted function that is used after every error."""
    return mj.jit(lambda x: x * 2.0 + 1.0)


@pytest.fixture(autouse=True)
def life_goes_on(jitted_once: Any) -> Iterator[None]:
    """After each test: the stack is back at evaluation and every transformation works."""
    assert depth() == 0
    yield
    assert depth() == 0, "the interpreter stack was left behind"
    assert float(mj.grad(lambda x: x * x)(3.0)) == 6.0
    assert mj.vmap(lambda x: x + 1.0)(X3).shape == (3,)
    assert float(jitted_once(2.0)) == 5.0
    assert len(mj.make_jaxpr(lambda x: x * 2.0)(1.0).jaxpr.eqns) == 1


def raised(program: Callable[[Any], Any], ns: Any) -> BaseException:
    """What ``program`` raises."""
    try:
        program(ns)
    except Exception as error:
        return error
    raise AssertionError(f"{ns.__name__} did not complain")


@pytest.mark.parametrize("row", misuses.TABLE, ids=lambda row: row.name)
def test_error(row: Misuse) -> None:
    """The error has JAX's type and its essential words."""
    theirs, ours = raised(row.program, jax), raised(row.program, mj)
    missing = [word for word in row.words if word not in str(theirs)]
    assert not missing, f"JAX itself does not say {missing}:\n{theirs}"
    assert kind(ours) == kind(theirs), f"JAX raises {kind(theirs)}: {theirs}\nminijax {type(ours)}: {ours}"
    missing = [word for word in row.words if word not in str(ours)]
    assert not missing, f"minijax does not say {missing}:\n{ours}\nJAX says:\n{theirs}"
    if mj is jax:
        return
    assert not row.here or "misuses.py:" in str(ours), f"the user's line is missing:\n{ours}"
    missing = [word for word in row.advice if word not in str(ours)]
    assert not missing, f"the next action is missing {missing}:\n{ours}"


def test_missing_rule_says_where_to_add_it() -> None:
    """Which table, and the line where the primitive was defined."""
    if mj is jax:
        return
    text = str(raised(missing_rules.no_derivative, mj))
    assert "ad.primitive_jvps" in text and "missing_rules.py:" in text, text


def test_the_table_names_only_real_kinds() -> None:
    """``kind`` looks at builtins and at jax.errors."""
    assert kind(raised(misuses.bool_of_a_tracer_under_jit, mj)) == "TracerBoolConversionError"
    assert hasattr(builtins, kind(raised(misuses.sum_of_different_shapes, mj)))


TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "jit": lambda ns, f: ns.jit(f)(1.0),
    "grad": lambda ns, f: ns.grad(f)(1.0),
    "jvp": lambda ns, f: ns.jvp(f, (1.0,), (1.0,)),
    "vjp": lambda ns, f: ns.vjp(f, 1.0),
    "linearize": lambda ns, f: ns.linearize(f, 1.0),
    "vmap": lambda ns, f: ns.vmap(f)(X3),
    "make_jaxpr": lambda ns, f: ns.make_jaxpr(f)(1.0),
    "eval_shape": lambda ns, f: ns.eval_shape(f, 1.0),
    "jacfwd": lambda ns, f: ns.jacfwd(f)(X3),
    "grad of jit": lambda ns, f: ns.grad(ns.jit(f))(1.0),
    "jit of grad of vmap": lambda ns, f: ns.jit(ns.grad(lambda x: ns.vmap(f)(x).sum()))(X3),
    "vmap of jvp of jit": lambda ns, f: ns.vmap(lambda x: ns.jvp(ns.jit(f), (x,), (x,)))(X3),
}


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError, SystemExit, GeneratorExit])
@pytest.mark.parametrize("transform", list(TRANSFORMS))
def test_exceptions_of_the_function_pass_through(transform: str, error: type[BaseException]) -> None:
    """Ctrl-C included: the very exception arrives, and nothing is left behind (see ``life_goes_on``)."""
    original = error("raised inside")

    def function(x: Any) -> Any:
        mj.numpy.sin(x) * 2
        raise original

    with pytest.raises(error) as caught:
        TRANSFORMS[transform](mj, function)
    assert caught.value is original


def test_a_jitted_function_recovers_from_an_interrupt() -> None:
    """The interrupted call has left no half-made entry in the cache."""
    calls: list[int] = []

    @mj.jit
    def function(x: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return mj.numpy.sin(x) * 2.0

    with pytest.raises(KeyboardInterrupt):
        function(1.0)
    assert float(function(1.0)) == pytest.approx(2.0 * np.sin(1.0), rel=1e-6)
    assert float(function(2.0)) == pytest.approx(2.0 * np.sin(2.0), rel=1e-6)
    assert len(calls) == 2


def test_an_outer_transformation_survives_an_error_that_is_caught_inside() -> None:
    """The stack returns to where it was, not to the bottom."""

    def function(x: Any) -> Any:
        try:
            mj.vmap(mj.jit(misuses.choose))(X3)
        except mj.errors.TracerBoolConversionError:
            return mj.numpy.sin(x) * x
        raise AssertionError("choose cannot be jitted")

    assert float(mj.grad(function)(2.0)) == pytest.approx(np.sin(2.0) + 2.0 * np.cos(2.0), rel=1e-6)
    assert float(mj.jit(function)(2.0)) == pytest.approx(2.0 * np.sin(2.0), rel=1e-6)
