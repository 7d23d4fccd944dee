"""``while_loop`` and ``fori_loop`` have JAX's values, types and jaxprs under every transformation."""

from __future__ import annotations

import gc
import importlib
import weakref
from typing import Any

import numpy as np
import pytest

from tests.oracle.case import Case, floats, into, ints
from tests.oracle.checks import check_programs, check_values
from tests.oracle.subject import assert_same, oracle, subject
from tests.oracle.transforms import names

pytestmark = pytest.mark.usefixtures("compiled_quickly")

OURS = subject is not oracle
CASES: dict[str, Case] = {}
row = into(CASES, reverse=False)


@row(floats(3), ints(3, low=1, high=4))
def counted_by_an_argument(ns, x, n):
    """Under vmap the condition is batched: elements stop at different iterations."""
    limit = n[0]
    return ns.lax.while_loop(lambda c: c[0] < limit, lambda c: (c[0] + 1, ns.numpy.sin(c[1]) * 1.5), (0, x))


@row(floats(2), floats(2), floats(2))
def rotation(ns, x, y, z):
    """Tangents and batch axes spread from carry to carry: the rules need three iterations to reach the fixpoint."""

    def body(c):
        i, a, b, d = c
        return i + 1, b, d * 0.5, a + x

    return ns.lax.while_loop(lambda c: c[0] < 4, body, (0, ns.numpy.zeros(2), y, z))


@row(floats(2), floats(2))
def constants_in_the_carry(ns, x, y):
    """Some carries never change; the condition reads one of them."""

    def body(c):
        return {"i": c["i"] + 1, "limit": c["limit"], "by": c["by"], "x": c["x"] * c["by"]}

    init = {"i": 0, "limit": 3, "by": y, "x": x}
    return ns.lax.while_loop(lambda c: c["i"] < c["limit"], body, init)


@row(floats(2), ints(3))
def closed_over_arrays(ns, x, k):
    """Condition and body have constants of several types, and the carries have several types."""
    table, limit = ns.numpy.arange(3.0), ns.numpy.array([2])

    def body(c):
        i, flag, v = c
        return i + 1, ~flag, v * table[:2] + k[0]

    return ns.lax.while_loop(lambda c: c[0] < limit[0], body, (0, True, x))


@row(floats(2))
def jit_in_the_body(ns, x):
    half = ns.jit(lambda v: (v * 0.5, x))
    return ns.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, half(c[1])[0] + half(c[1])[1]), (0, x))


@row(floats(2))
def promoted_carry(ns, x):
    """The Python numbers of the initial carry are converted to the wider types of the body's results."""
    return ns.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1.5, x[0] + c[1]), (0, 1))


@row(floats(3), reverse=True, second=False)
def while_in_scan(ns, x):
    """The gradient does not depend on the while loop, so reverse mode works."""

    def body(c, y):
        n = ns.lax.while_loop(lambda k: k < 3, lambda k: k + 1, 0)
        return c + y * n, c

    return ns.lax.scan(body, 0.0, x)


@pytest.mark.parametrize("name", CASES)
def test_programs_match_jax(name: str) -> None:
    # JAX stages a function only once, even if it is called twice, and prints it first
    check_programs(CASES[name], other=names(CASES[name]) if name == "jit_in_the_body" else ())


@pytest.mark.parametrize("name", CASES)
def test_values_match_jax(name: str) -> None:
    check_values(CASES[name])


# ------------------------------------------------------------------------------------------- other tests


def bounds(ns: Any) -> list[Any]:
    """Loops with every kind of bound."""
    np32, lax, jnp = np.int32, ns.lax, ns.numpy

    def body(i, c):
        return c + i

    return [
        lax.fori_loop(0, 4, body, 1.0),
        lax.fori_loop(4, 0, body, 1.0),
        lax.fori_loop(np32(1), np.int64(4), body, 1),
        lax.fori_loop(0, jnp.array(3), body, 1.0),
        lax.fori_loop(0, jnp.array(3, jnp.int8), body, jnp.int8(1)),
        lax.fori_loop(0, 5, body, 0, unroll=2),
        lax.fori_loop(0, 3, lambda i, c: c, 0, unroll=True),
        lax.fori_loop(0.0, 3.0, body, 1.0),
        ns.jit(lambda n: lax.fori_loop(0, n, body, 1.0))(3),
        ns.jit(lambda n: lax.fori_loop(n, 5, body, 1.0, unroll=1))(jnp.int16(2)),
        ns.jit(lambda n: lax.fori_loop(jnp.uint8(1), n, body, 1))(jnp.uint8(3)),
        ns.vmap(lambda n: lax.fori_loop(0, n, body, 1.0))(jnp.arange(3)),
        ns.jvp(lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, x), (2.0,), (1.0,)),
        ns.grad(lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, x))(2.0),
    ]


def test_loops_with_every_kind_of_bound_match_jax() -> None:
    assert_same(bounds(subject), bounds(oracle))


def test_loops_without_jit_match_jax() -> None:
    """Under ``disable_jit`` the body runs as Python code on values; if the condition is traced, the loop is staged."""

    def run(ns: Any) -> list[Any]:
        seen = []

        def body(c):
            seen.append(float(c))
            return c * 2

        with ns.disable_jit():
            out = ns.lax.while_loop(lambda c: c < 5, body, 1.0)
            counted = ns.lax.fori_loop(0, ns.numpy.array(3), lambda i, c: c + float(i), 1.0)
            mapped = ns.vmap(lambda x: ns.lax.while_loop(lambda c: c < 5, lambda c: c * 2, x))(np.arange(1.0, 4.0))
        return [out, counted, mapped, seen]

    assert_same(run(subject), run(oracle))


@pytest.mark.skipif(not OURS, reason="tests how minijax evaluates")
def test_a_long_loop_is_interpreted_then_compiled() -> None:
    """A long loop switches to a compiled program; its next run starts compiled. Types and numbers stay the same."""
    from minijax.interpreters.program import WHILE_WORTH_COMPILING
    from minijax.ops.while_loop import Loop, while_p

    lax = subject.lax
    n = WHILE_WORTH_COMPILING
    found = []
    for init in ((0, 0.0), (0, 0.0)):
        found.append(lax.while_loop(_below_limit, _one_more, init))
    assert [int(i) for i, _ in found] == [n, n]
    assert_same(found[0], found[1])
    (eqn,) = subject.make_jaxpr(lambda: lax.while_loop(_below_limit, _one_more, (0, 0.0)))().eqns
    assert eqn.primitive is while_p
    loops = [v for v in eqn.params["body_jaxpr"].memo.values() if isinstance(v, Loop)]
    assert len(loops) == 1 and loops[0].executable is not None, "the body's jaxpr is one object"


def _below_limit(c: Any) -> Any:
    from minijax.interpreters.program import WHILE_WORTH_COMPILING

    return c[0] < WHILE_WORTH_COMPILING


def _one_more(c: Any) -> Any:
    return c[0] + 1, c[1] + 0.5


@pytest.mark.skipif(not OURS, reason="tests how minijax evaluates")
def test_each_element_of_a_batched_loop_runs_its_own_iterations() -> None:
    rounds = np.array([3, 40_000, 0])

    def run(n: Any, x: Any) -> Any:
        return subject.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + 1), (0, x))

    i, v = subject.vmap(run)(rounds, np.zeros((3, 2), np.int32))
    np.testing.assert_array_equal(np.asarray(i), rounds)
    np.testing.assert_array_equal(np.asarray(v), np.stack([rounds, rounds], 1))


@pytest.mark.skipif(not OURS, reason="tests how minijax evaluates")
def test_a_long_loop_runs_in_an_interpreted_loop() -> None:
    def body(c):
        i, total = c
        _, steps = subject.lax.while_loop(lambda d: d[0] < 30_000, lambda d: (d[0] + 1, d[1] + 1), (0, 0))
        return i + 1, total + steps

    assert int(subject.lax.while_loop(lambda c: c[0] < 3, body, (0, 0))[1]) == 90_000


@pytest.mark.skipif(not OURS, reason="tests minijax's caches")
def test_a_body_is_not_kept_alive() -> None:
    def run() -> Any:
        big = subject.numpy.ones(3)

        def body(i, c):
            return c + big * i

        subject.lax.fori_loop(0, subject.numpy.array(3), body, big)
        subject.lax.fori_loop(0, 3, body, big)
        return weakref.ref(body)

    ref = run()
    gc.collect()
    assert ref() is None


@pytest.mark.skipif(not OURS, reason="uses minijax's modules")
def test_ill_typed_loops_are_refused() -> None:
    from minijax.errors import JaxprTypeError
    from minijax.ir.jaxpr import ClosedJaxpr
    from minijax.ir.typecheck import typecheck_jaxpr

    closed = subject.make_jaxpr(lambda x: subject.lax.while_loop(lambda c: c[0] < 3, _one_more, (0, x)))(1.0)
    (eqn,) = closed.eqns
    body, cond = eqn.params["body_jaxpr"], eqn.params["cond_jaxpr"]
    swapped = ClosedJaxpr(body.jaxpr.replace(outvars=body.jaxpr.outvars[::-1]))
    number = ClosedJaxpr(cond.jaxpr.replace(outvars=cond.jaxpr.invars[:1]))
    for changes, words in (
        ({"body_jaxpr": swapped}, "results of the body jaxpr: number 0 has type f32"),
        ({"cond_jaxpr": number}, "the cond jaxpr returns i32"),
        ({"cond_nconsts": 1}, "1 operands of the body jaxpr, 2 expected"),
    ):
        bad = closed.jaxpr.replace(eqns=[eqn.replace(params={**eqn.params, **changes})])
        with pytest.raises(JaxprTypeError, match=words):
            typecheck_jaxpr(bad)


def test_io_callbacks_under_a_batched_condition_are_refused() -> None:
    def run(ns: Any) -> Any:
        io_callback = importlib.import_module(f"{ns.__name__}.experimental").io_callback

        def body(c):
            io_callback(lambda v: None, None, c)
            return c * 2

        return ns.vmap(lambda x: ns.lax.while_loop(lambda c: c < 5, body, x))(ns.numpy.arange(3.0))

    for ns in (oracle, subject):
        with pytest.raises(Exception, match="IO effects not supported in while_loop with batched predicate"):
            run(ns)


def test_ordered_prints_keep_their_order(capfd: pytest.CaptureFixture[str]) -> None:
    """Under ``jit``, prints keep the order of the program: before the loop, in each iteration, after the loop."""

    def run(ns: Any) -> str:
        def show(n: Any) -> Any:
            ns.debug.print("before", ordered=True)

            def body(i, c):
                ns.debug.print("{i} {c}", i=i, c=c, ordered=True)
                return c * 2

            out = ns.lax.fori_loop(0, n, body, 1)
            ns.debug.print("after {out}", out=out, ordered=True)
            return out

        ns.jit(show)(3).block_until_ready()
        if hasattr(ns, "effects_barrier"):
            ns.effects_barrier()
        return capfd.readouterr().out

    assert run(subject) == run(oracle) == "before\n0 1\n1 2\n2 4\nafter 8\n"
