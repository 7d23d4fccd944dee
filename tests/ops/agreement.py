"""Whether a program does in minijax what it does in JAX: values and types under every transformation, and jaxprs.

A program is a function of a namespace (``jax`` or ``minijax``) that returns a function of float arrays with a scalar
float result; only then can everything be asked of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.ad_checkpoint
import numpy as np

import minijax
import minijax.ad_checkpoint
from minijax.core.trace import stack_depth
from minijax.ir.jaxpr import Jaxpr, subjaxprs
from minijax.ir.typecheck import typecheck_jaxpr
from tests.oracle.normalise import normalise
from tests.oracle.subject import QUICKLY

Program = Callable[[Any], Callable[..., Any]]

NAMES = ("plain", "jvp", "grad", "vmap", "vmap of one", "vmap of grad", "grad of vmap", "second order")


def variations(ns: Any, fun: Callable[..., Any], args: Sequence[Any]) -> Iterator[tuple[str, Callable[..., Any], Any]]:
    """``fun`` and its derived functions, each with its name and arguments."""
    tangents = [np.cos(1.0 + np.arange(x.size, dtype=x.dtype)).reshape(x.shape) for x in args]
    stacked = [np.stack([x, x * np.float32(0.5) + np.float32(0.1)]) for x in args]
    argnums = tuple(range(len(args)))
    first = (0, *[None] * (len(args) - 1))
    gradient = ns.grad(fun, argnums)

    def summed(*xs: Any) -> Any:
        return ns.vmap(fun)(*xs).sum()

    def pushed(*xs: Any) -> Any:
        return ns.jvp(fun, xs[: len(args)], xs[len(args) :])

    def along(*xs: Any) -> Any:
        return ns.jvp(gradient, xs[: len(args)], xs[len(args) :])

    yield "plain", fun, args
    yield "jvp", pushed, [*args, *tangents]
    yield "grad", gradient, args
    yield "vmap", ns.vmap(fun), stacked
    yield "vmap of one", ns.vmap(fun, in_axes=first), [stacked[0], *args[1:]]
    yield "vmap of grad", ns.vmap(gradient), stacked
    yield "grad of vmap", ns.grad(summed, argnums), stacked
    yield "second order", along, [*args, *tangents]


def assert_same(found: Any, expected: Any, rtol: float = 3e-5, atol: float = 3e-6) -> None:
    """Equal trees of arrays: values, dtypes and weak types."""
    found_leaves, found_tree = jax.tree.flatten(minijax.tree.map(_plain, found))
    expected_leaves, expected_tree = jax.tree.flatten(jax.tree.map(_plain, expected))
    assert str(found_tree) == str(expected_tree)
    for (a, weak_a), (b, weak_b) in zip(_pairs(found_leaves), _pairs(expected_leaves), strict=True):
        assert (a.dtype, a.shape, weak_a) == (b.dtype, b.shape, weak_b)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def _plain(x: Any) -> Any:
    return [np.asarray(x), np.asarray(bool(getattr(x, "weak_type", False)))]


def _pairs(leaves: list[Any]) -> Iterator[tuple[np.ndarray, bool]]:
    return zip(leaves[::2], map(bool, leaves[1::2]), strict=True)


def check_program(
    program: Program, args: Sequence[Any], eager: Sequence[str] = NAMES, jitted: Sequence[str] = ("second order",)
) -> None:
    """Values and types of ``program`` agree with JAX's: variations ``eager`` step by step, ``jitted`` under ``jit``.

    The jaxpr of each is checked. JAX's side is one compiled program, which takes a fraction of the time of many.
    """
    wanted = [name for name in NAMES if name in (*eager, *jitted)]
    rows = [row for row in variations(jax, program(jax), args) if row[0] in wanted]
    every = jax.jit(lambda given: [fun(*xs) for (_, fun, _), xs in zip(rows, given, strict=True)])
    inputs = [xs for _, _, xs in rows]
    options: Any = QUICKLY
    expected = dict(zip(wanted, every.lower(inputs).compile(compiler_options=options)(inputs), strict=True))
    ours = {name: (fun, xs) for name, fun, xs in variations(minijax, program(minijax), args) if name in wanted}
    for name, (fun, xs) in ours.items():
        typecheck_jaxpr(minijax.make_jaxpr(fun)(*xs))
        if name in eager:
            _same_values(fun(*xs), expected[name])
        assert stack_depth() == 0
    some = [ours[name] for name in jitted]
    together = minijax.jit(lambda given: [fun(*xs) for (fun, _), xs in zip(some, given, strict=True)])
    found = together([xs for _, xs in some])
    for name, outs in zip(jitted, found, strict=True):
        assert_same(outs, expected[name])
    assert stack_depth() == 0


def _same_values(found: Any, expected: Any) -> None:
    """Without weak types: those of eager results differ in JAX too."""
    for a, b in zip(minijax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=3e-5, atol=3e-6)


def check_jaxprs(program: Program, args: Sequence[Any], names: Sequence[str]) -> None:
    """The jaxprs of the variations ``names`` are JAX's, but for the order of independent equations."""
    theirs = {name: (fun, xs) for name, fun, xs in variations(jax, program(jax), args)}
    for name, fun, xs in variations(minijax, program(minijax), args):
        if name in names:
            assert shown(minijax.make_jaxpr(fun)(*xs)) == shown(jax.make_jaxpr(theirs[name][0])(*theirs[name][1])), name


def shown(jaxpr: Any) -> str:
    """A jaxpr of either library, normalised; functions among the parameters by their names."""
    text = "\n".join(normalise(jaxpr).without_dead_code().lines)
    return re.sub(r"<function ([\w.<>]+) at 0x\w+>", r"<\1>", text)


def count(jaxpr: Jaxpr, *names: str) -> int:
    """How many equations of these primitives are in ``jaxpr`` and all jaxprs inside."""
    own = sum(eqn.primitive.name in names for eqn in jaxpr.eqns)
    return own + sum(count(sub, *names) for eqn in jaxpr.eqns for sub in subjaxprs(eqn.params))
