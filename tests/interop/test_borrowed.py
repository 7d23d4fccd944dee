"""Borrowed primitives beside JAX's own, under every transformation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest

import minijax as mj
import minijax.lax
import minijax.numpy
from minijax.extend.core import parse_jaxpr
from minijax.interop.borrowed import borrowed, params_of_jax, params_of_ours
from minijax.ir.typecheck import typecheck_jaxpr
from tests.interop.borrowed_rows import Row, inexact, rows
from tests.oracle.subject import assert_same

pytestmark = pytest.mark.usefixtures("compiled_quickly")

ROWS = {row.label: row for row in rows()}

Run = Callable[[Any, Callable[..., Any]], Any]


def direction(x: Any, seed: int) -> np.ndarray:
    """A tangent or cotangent of the type of ``x``."""
    found = np.cos(np.arange(1, x.size + 1) * (seed + 1)).reshape(x.shape)
    return np.asarray(found + 0.5j * found if np.dtype(x.dtype).kind == "c" else found, x.dtype)


# What JAX itself refuses, and so do we: derivatives, those of second order, some axes of vmap.
REFUSED = {
    **dict.fromkeys(
        ("geqrf", "householder_product", "ormqr", "schur", "hessenberg", "tridiagonal"), {"first", "second"}
    ),
    **dict.fromkeys(("symmetric_product", "zeta", "igamma_grad_a", "nextafter"), {"first", "second"}),
    "eig": {"first", "second"},
    "igamma": {"second"},
    "igammac": {"second"},
    "cholesky_update": {"first", "second", "vmap"},
    "reduce_window": {"first", "second", "vmap"},
    "reduce": {"vmap"},
    "ragged_dot_general": {"vmap"},
}
# JAX compiles these only where all operands are mapped, or none.
TOGETHER = ("threefry2x32",)
# Programs of hundreds of equations: mapped by all operands only, to save time.
LONG = ("igamma", "igammac", "igamma_grad_a", "regularized_incomplete_beta", "polygamma")
# What is mapped gives other numbers than a loop.
NO_LOOP = ("rng_bit_generator", "philox")


class Subject:
    """What is done with one row: functions of a library's module, of the primitive's call, and of the operands."""

    def __init__(self, row: Row) -> None:
        eqn = row.equation()
        self.args = row.args
        self.theirs = functools.partial(eqn.primitive.bind, **eqn.params)
        self.ours = functools.partial(borrowed(eqn.primitive).bind, **params_of_ours(eqn.params))
        self.single = not eqn.primitive.multiple_results
        self.floats = row.floats
        self.together = row.label in (*TOGETHER, *LONG)
        self.out_avals = [v.aval for v in eqn.outvars]
        self.outs = list(map(inexact, self.out_avals))

    def call(self, bind: Callable[..., Any], *args: Any) -> list[Any]:
        out = bind(*args)
        return [out] if self.single else list(out)

    def of_floats(self, bind: Callable[..., Any], args: Any) -> Any:
        """The inexact results as a function of the inexact operands, and those."""

        def fun(*point: Any) -> list[Any]:
            full = list(args)
            for i, x in zip(self.floats, point, strict=True):
                full[i] = x
            return [out for out, kept in zip(self.call(bind, *full), self.outs, strict=True) if kept]

        return fun, [args[i] for i in self.floats]

    def derivatives(self) -> Iterator[tuple[str, Run]]:
        """The value, and what is differentiated, by name."""
        yield "value", lambda lib, bind, args: self.call(bind, *args)
        if self.floats and any(self.outs):
            yield "jvp", lambda lib, bind, args: jvp(lib, *self.of_floats(bind, args))
            yield "vjp", lambda lib, bind, args: vjp(lib, *self.of_floats(bind, args))
            yield "jvp of vjp", self.second

    def second(self, lib: Any, bind: Callable[..., Any], args: Any) -> Any:
        fun, point = self.of_floats(bind, args)
        return jvp(lib, lambda *xs: vjp(lib, fun, xs), point)

    def in_axes(self) -> Iterator[tuple[int | None, ...]]:
        """Every axis of each operand alone, all first axes, and all last ones."""
        for i, x in enumerate(self.args if not self.together else ()):
            for d in range(x.ndim + 1):
                yield tuple(d if i == j else None for j in range(len(self.args)))
        if len(self.args) > 1:
            yield (0,) * len(self.args)
            yield tuple(x.ndim for x in self.args)

    def mapped(self, axes: tuple[int | None, ...], lib: Any, bind: Callable[..., Any], both: Any) -> Any:
        stacked = [x if d is None else lib.numpy.stack([x, y], d) for x, y, d in zip(*both, axes, strict=True)]
        return lib.vmap(functools.partial(self.call, bind), axes)(*stacked)

    def scanned(self, lib: Any, bind: Callable[..., Any], both: Any) -> Any:
        def body(carry: Any, xs: Any) -> Any:
            return carry, self.call(bind, *xs)

        return lib.lax.scan(body, np.float32(0), [lib.numpy.stack([x, y]) for x, y in zip(*both, strict=True)])[1]

    def chosen(self, lib: Any, bind: Callable[..., Any], both: Any) -> Any:
        return lib.lax.cond(
            abs(both[0][0]).sum() >= 0,
            lambda xs: self.call(bind, *xs),
            lambda xs: [lib.numpy.zeros(aval.shape, aval.dtype) for aval in self.out_avals],
            both[1],
        )


def another(x: np.ndarray) -> np.ndarray:
    """Other numbers, that are a valid operand too."""
    return np.asarray(x * 1.25, x.dtype) if inexact(x) else np.flip(x)


def jvp(lib: Any, fun: Callable[..., Any], point: Any) -> Any:
    return lib.jvp(fun, tuple(point), tuple([lib.numpy.asarray(direction(x, 2 + i)) for i, x in enumerate(point)]))


def vjp(lib: Any, fun: Callable[..., Any], point: Any) -> Any:
    outs, pull = lib.vjp(fun, *point)
    return pull([lib.numpy.asarray(direction(x, 7 + i)) for i, x in enumerate(outs)])


def check_text(subject: Subject) -> None:
    """Its program is printed as JAX prints it, well typed, and read back from that text with all params."""
    closed = mj.make_jaxpr(functools.partial(subject.call, subject.ours))(*subject.args)
    text = str(closed)
    assert text == str(jax.make_jaxpr(functools.partial(subject.call, subject.theirs))(*subject.args))
    (eqn,) = closed.eqns
    read = parse_jaxpr(text, primitives={eqn.primitive.name: eqn.primitive})
    typecheck_jaxpr(closed)
    typecheck_jaxpr(read)
    assert str(read) == text
    missing = [value for name, value in eqn.params.items() if name not in read.eqns[0].params]
    assert missing in ([], [None] * len(missing))
    found, wanted = params_of_jax(read.eqns[0].params), params_of_jax(eqn.params)
    for name in found:
        # programs are no values, and functions are not in the text
        assert name in ("jaxpr", "computation") or found[name] == wanted[name]


@pytest.mark.parametrize("label", ROWS)
def test_borrowed_primitives_do_what_jaxs_do(label):
    subject = Subject(ROWS[label])
    both = subject.args, [*map(another, subject.args)]
    check_text(subject)
    single = dict(subject.derivatives())
    mapped = {axes: functools.partial(subject.mapped, axes) for axes in subject.in_axes()}
    refused = {}
    for runs, operands in ((single, subject.args), (mapped, both)):
        for name, run in [*runs.items()]:
            try:
                jax.eval_shape(functools.partial(run, jax, subject.theirs), operands)
            except Exception as error:
                refused[name] = runs.pop(name), error, operands
    kinds = {"jvp": "first", "vjp": "first", "jvp of vjp": "second"}
    assert {kinds.get(name, "vmap") for name in refused} == REFUSED.get(label, set())
    value = jax.jit(functools.partial(subject.call, subject.theirs))
    derived = {name: run for name, run in single.items() if name != "value"}
    wanted = jax.jit(lambda args: {name: run(jax, subject.theirs, args) for name, run in derived.items()})(both[0])
    wanted["value"] = value(*both[0])

    def everything(both: Any) -> Any:
        found = {name: run(mj, subject.ours, both[0]) for name, run in single.items()}
        batched = [run(mj, subject.ours, both) for run in mapped.values()]
        return found, batched, subject.scanned(mj, subject.ours, both), subject.chosen(mj, subject.ours, both)

    found, batched, scanned, chosen = mj.jit(everything)(both)
    assert_same(found, wanted)
    for axes, outs in zip(mapped, batched, strict=True):
        if label in NO_LOOP:
            assert_same(outs, mapped[axes](jax, subject.theirs, both))
            continue
        second = value(*[x if d is None else y for x, y, d in zip(*both, axes, strict=True)])
        assert_same(outs, [np.stack(pair) for pair in zip(wanted["value"], second, strict=True)])
    other = value(*both[1])
    assert_same(scanned, [np.stack(pair) for pair in zip(wanted["value"], other, strict=True)])
    assert_same(chosen, other)
    for name in {"value", "vjp"} & set(single):
        assert_same(single[name](mj, subject.ours, subject.args), wanted[name])
    for run, error, operands in refused.values():
        with pytest.raises((type(error), NotImplementedError)):
            run(mj, subject.ours, operands)
