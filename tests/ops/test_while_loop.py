"""``while_loop`` and ``fori_loop`` against JAX: values, types and jaxprs under every transformation."""

from __future__ import annotations

import gc
import importlib
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.oracle.case import Case, floats, ints
from tests.oracle.normalise import normalise
from tests.oracle.subject import QUICKLY, SUBJECT_NAME, assert_same, oracle, subject, x64_mode
from tests.oracle.transforms import build

pytestmark = pytest.mark.usefixtures("compiled_quickly")

OURS = subject is not oracle
CASES: dict[str, Case] = {}


def row(*args: Any, **options: Any) -> Callable[[Any], Any]:
    """Enter a function of a namespace and ``args`` into the table; loops are differentiated forwards only."""

    def register(function: Any) -> Any:
        options.setdefault("reverse", False)
        CASES[function.__name__] = Case(function.__name__, function, args, **options)
        return function

    return register


@row(floats(3), ints(3, low=1, high=4))
def counted_by_an_argument(ns, x, n):
    """A batched condition when mapped: the elements stop at different rounds."""
    limit = n[0]
    return ns.lax.while_loop(lambda c: c[0] < limit, lambda c: (c[0] + 1, ns.numpy.sin(c[1]) * 1.5), (0, x))


@row(floats(2), floats(2), floats(2))
def rotation(ns, x, y, z):
    """Tangents and batch axes reach one carry after another: three rounds to the fixpoint."""

    def body(c):
        i, a, b, d = c
        return i + 1, b, d * 0.5, a + x

    return ns.lax.while_loop(lambda c: c[0] < 4, body, (0, ns.numpy.zeros(2), y, z))


@row(floats(2), floats(2))
def constants_in_the_carry(ns, x, y):
    """Carries that go round unchanged: one that the condition reads, one that it does not."""

    def body(c):
        return {"i": c["i"] + 1, "limit": c["limit"], "by": c["by"], "x": c["x"] * c["by"]}

    init = {"i": 0, "limit": 3, "by": y, "x": x}
    return ns.lax.while_loop(lambda c: c["i"] < c["limit"], body, init)


@row(floats(2), ints(3))
def closed_over_arrays(ns, x, k):
    """Constants of both functions, of every kind, and carries of every kind."""
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
    """Python numbers become as wide as what the body makes of them."""
    return ns.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1.5, x[0] + c[1]), (0, 1))


@row(floats(3), reverse=True, second=False)
def while_in_scan(ns, x):
    """Reverse mode passes by a loop that computes nothing it depends on."""

    def body(c, y):
        n = ns.lax.while_loop(lambda k: k < 3, lambda k: k + 1, 0)
        return c + y * n, c

    return ns.lax.scan(body, 0.0, x)


def split(case: Case, ns: Any) -> tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]:
    """The case's function of its floating point arguments only, those, and tangents."""
    argnums = case.argnums()

    def of_floats(*values: Any) -> Any:
        full = list(case.args)
        for position, value in zip(argnums, values, strict=True):
            full[position] = value
        return case.function(ns, *full)

    primals = tuple(case.args[i] for i in argnums)
    return of_floats, primals, tuple(np.cos(np.arange(float(p.size))).reshape(p.shape).astype(p.dtype) for p in primals)


def stacked(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(np.stack([v, v * 0.9]) for v in values)


@cache
def functions(ns_name: str, name: str) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """transformation -> (function, arguments): those of the oracle table, and more forward ones."""
    ns = subject if ns_name == SUBJECT_NAME else oracle
    case = CASES[name]
    made = dict(build(ns, case))
    f, primals, tangents = split(case, ns)

    def pushed(f: Callable[..., Any]) -> Callable[..., Any]:
        n = len(primals)
        return lambda *args: ns.jvp(f, args[:n], args[n:])

    def linearized(f: Callable[..., Any]) -> Callable[..., Any]:
        def value_and_tangent(*args: Any) -> Any:
            out, f_lin = ns.linearize(f, *args[: len(primals)])
            return out, f_lin(*args[len(primals) :])

        return value_and_tangent

    both = (*primals, *tangents)
    made["linearize"] = (linearized(f), both)
    made["linearize_of_jit"] = (linearized(ns.jit(f)), both)
    made["vmap_of_jvp"] = (ns.vmap(pushed(f)), stacked(both))
    made["jvp_of_vmap"] = (pushed(ns.vmap(f)), stacked(both))
    made["vmap_of_vmap"] = (ns.vmap(ns.vmap(f)), stacked(stacked(primals)))
    made["jvp_of_jvp"] = (
        lambda *args: pushed(lambda *xs: ns.jvp(f, xs, args[len(primals) :])[1])(*args),
        both,
    )
    return made


TRANSFORMED = [(name, t) for name in CASES for t in functions(oracle.__name__, name)]
# how scan splits its body in reverse mode is not this file's subject
STAGED = [(name, t) for name, t in TRANSFORMED if name != "while_in_scan" or "grad" not in t]


def run_all(ns_name: str, name: str, **options: Any) -> dict[str, Any]:
    """Every transformation in one program."""
    made = functions(ns_name, name)
    ns = subject if ns_name == SUBJECT_NAME else oracle

    def everything(args: dict[str, Any]) -> dict[str, Any]:
        return {t: made[t][0](*args[t]) for t in made}

    return ns.jit(everything, **options)({t: args for t, (_, args) in made.items()})


@cache
def expected(name: str) -> dict[str, Any]:
    return run_all(oracle.__name__, name, compiler_options=QUICKLY)


def on_subject(args: Any) -> Any:
    """Arrays of the subject's own: NumPy's operators are not under test."""
    return subject.tree_util.tree_map(
        lambda x: x if x.dtype == [("float0", "V")] else subject.numpy.asarray(x), args
    )


@pytest.mark.parametrize(("name", "transformation"), TRANSFORMED)
def test_values(name: str, transformation: str) -> None:
    function, args = functions(SUBJECT_NAME, name)[transformation]
    assert_same(function(*on_subject(args)), expected(name)[transformation])


@pytest.mark.parametrize("name", CASES)
def test_values_under_jit(name: str) -> None:
    found = run_all(SUBJECT_NAME, name)
    for transformation, answer in expected(name).items():
        assert_same(found[transformation], answer)


@pytest.mark.parametrize(("name", "transformation"), STAGED)
def test_jaxprs(name: str, transformation: str) -> None:
    """JAX's equations, in its order, in the loops too; and well typed."""
    with x64_mode("32"):
        ours, theirs = (
            ns.make_jaxpr(functions(ns.__name__, name)[transformation][0])(
                *functions(ns.__name__, name)[transformation][1]
            )
            for ns in (subject, oracle)
        )
        if OURS:
            from minijax.ir.typecheck import typecheck_jaxpr

            typecheck_jaxpr(ours)
        a, b = normalise(ours), normalise(theirs)
        assert a.lines == b.lines or (b.calls and a.graph() == b.graph()), "\n".join(["", *a.lines, "", *b.lines])


# ---------------------------------------------------------------------------------------------- the rest


def bounds(ns: Any) -> list[Any]:
    """Loops by all kinds of bounds."""
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


def test_bounds() -> None:
    assert_same(bounds(subject), bounds(oracle))


def test_without_jit() -> None:
    """Under ``disable_jit`` the body is Python that sees values; a traced condition brings the primitive back."""

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


@pytest.mark.skipif(not OURS, reason="about how minijax evaluates")
def test_interpreted_then_compiled() -> None:
    """A long loop is compiled on the way, and the same one from the start: same types, same numbers."""
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


@pytest.mark.skipif(not OURS, reason="about how minijax evaluates")
def test_batched_loop_is_the_same_interpreted_and_compiled() -> None:
    rounds = np.array([3, 40_000, 0])

    def run(n: Any, x: Any) -> Any:
        return subject.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + 1), (0, x))

    i, v = subject.vmap(run)(rounds, np.zeros((3, 2), np.int32))
    np.testing.assert_array_equal(np.asarray(i), rounds)
    np.testing.assert_array_equal(np.asarray(v), np.stack([rounds, rounds], 1))


@pytest.mark.skipif(not OURS, reason="about how minijax evaluates")
def test_a_long_loop_in_an_interpreted_one() -> None:
    def body(c):
        i, total = c
        _, steps = subject.lax.while_loop(lambda d: d[0] < 30_000, lambda d: (d[0] + 1, d[1] + 1), (0, 0))
        return i + 1, total + steps

    assert int(subject.lax.while_loop(lambda c: c[0] < 3, body, (0, 0))[1]) == 90_000


@pytest.mark.skipif(not OURS, reason="about minijax's caches")
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


def test_io_callbacks_of_elements_that_are_done() -> None:
    def run(ns: Any) -> Any:
        io_callback = importlib.import_module(f"{ns.__name__}.experimental").io_callback

        def body(c):
            io_callback(lambda v: None, None, c)
            return c * 2

        return ns.vmap(lambda x: ns.lax.while_loop(lambda c: c < 5, body, x))(ns.numpy.arange(3.0))

    for ns in (oracle, subject):
        with pytest.raises(Exception, match="IO effects not supported in while_loop with batched predicate"):
            run(ns)


def test_ordered_prints(capfd: pytest.CaptureFixture[str]) -> None:
    """Under ``jit``, in the order of the program: before, round by round, after."""

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
