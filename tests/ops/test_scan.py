"""``scan``, ``map`` and ``associative_scan`` against JAX: jaxprs, values, types, errors, and what is kept for later.

The table is built from functions of a namespace, as that of ``tests.oracle``, whose transformations are used here.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import minijax
import minijax.numpy as jnp
from minijax.core import observe
from minijax.core.trace import stack_depth
from minijax.errors import JaxprTypeError
from minijax.interpreters.partial_eval import dce_jaxpr
from minijax.ir.evaluate import eval_jaxpr
from minijax.ir.typecheck import typecheck_jaxpr
from tests.oracle.case import Case, floats, ints
from tests.oracle.normalise import normalise
from tests.oracle.subject import QUICKLY, assert_same, oracle, subject, x64_mode
from tests.oracle.test_jaxprs import difference, program
from tests.oracle.test_values import run_jitted
from tests.oracle.transforms import SECOND, build, names

pytestmark = pytest.mark.usefixtures("compiled_quickly")

N = 5


def recurrence(ns: Any, c: Any, xs: Any) -> Any:
    """A carry that changes and a stacked result of it."""
    return ns.lax.scan(lambda c, x: (ns.numpy.sin(c) * x, c + x), c, xs)


def elman(ns: Any, w: Any, c: Any, xs: Any) -> Any:
    """A recurrent network: a matrix closed over, vectors carried and scanned."""
    return ns.lax.scan(lambda c, x: (ns.numpy.tanh(w @ c + x), c), c, xs)


def invariant(ns: Any, w: Any, xs: Any) -> Any:
    """Work that is the same in each step: its residuals need not be stacked."""

    def cell(c: Any, x: Any) -> Any:
        scale = ns.numpy.sin(w) * 2.0
        return c * scale + x, ns.numpy.exp(scale) * c

    return ns.lax.scan(cell, w, xs)


def nested(ns: Any, c: Any, xs: Any) -> Any:
    """A scan in the body of a scan."""

    def outer(c: Any, x: Any) -> Any:
        return ns.lax.scan(lambda d, y: (d * ns.numpy.cos(y) + x[0], d), c, x)

    return ns.lax.scan(outer, c, xs)


def trees(ns: Any, init: Any, xs: Any) -> Any:
    """Carry, slices and results are trees; one carried value is a counter."""

    def cell(carry: Any, x: Any) -> Any:
        new = {"i": carry["i"] + 1, "v": carry["v"] * x["a"] + carry["i"]}
        return new, (carry["v"], [x["b"], carry["i"] * x["a"]])

    return ns.lax.scan(cell, {"i": 0, "v": init}, xs)


def swapping(ns: Any, a: Any, b: Any, xs: Any) -> Any:
    """What one carried value gets reaches the other a step later: the rules must repeat to see it."""

    def cell(carry: Any, x: Any) -> Any:
        a, b, fixed = carry
        return (b, ns.numpy.sin(a) * x, fixed), a * fixed

    return ns.lax.scan(cell, (a, b, a), xs)


def only_late(ns: Any, x: Any, xs: Any) -> Any:
    """A constant initial carry becomes active through the body alone."""
    return ns.lax.scan(lambda c, y: (c * 0.5 + x * y, None), 0.0, xs)[0]


def without_xs(ns: Any, x: Any) -> Any:
    """A given number of steps without input."""
    return ns.lax.scan(lambda c, _: (ns.numpy.sin(c), c), x, None, length=N)


def backwards(ns: Any, c: Any, xs: Any) -> Any:
    return ns.lax.scan(lambda c, x: (c * x, c - x), c, xs, reverse=True)


def unrolled(ns: Any, c: Any, xs: Any) -> Any:
    """Two steps a round and one step left."""
    return ns.lax.scan(lambda c, x: (ns.numpy.cos(c) * x, c * x), c, xs, unroll=2)


def unrolled_backwards(ns: Any, c: Any, xs: Any) -> Any:
    return ns.lax.scan(lambda c, x: (ns.numpy.cos(c) * x, c * x), c, xs, unroll=2, reverse=True)


def through_jit(ns: Any, c: Any, xs: Any) -> Any:
    """A jitted function in the body."""
    g = ns.jit(lambda c, x: ns.numpy.sin(c) * x)
    return ns.lax.scan(lambda c, x: (g(c, x), g(x, c)), c, xs)


def integers(ns: Any, xs: Any) -> Any:
    return ns.lax.scan(lambda c, x: (c + x, c * 2), 0, xs)


def mapped(ns: Any, xs: Any) -> Any:
    return ns.lax.map(lambda x: {"s": ns.numpy.sin(x), "p": x * x}, xs)


def mapped_in_batches(ns: Any, xs: Any) -> Any:
    return ns.lax.map(lambda x: ns.numpy.sin(x).sum(), xs, batch_size=2)


def prefixes(ns: Any, xs: Any, ys: Any) -> Any:
    """The parallel scan of affine maps."""

    def combine(f: Any, g: Any) -> Any:
        return f[0] * g[0], f[1] * g[0] + g[1]

    return ns.lax.associative_scan(combine, (xs, ys), axis=1)


def suffixes(ns: Any, xs: Any) -> Any:
    return ns.lax.associative_scan(ns.numpy.add, xs, reverse=True)


X = floats(N)
ROWS = (
    Case("recurrence", recurrence, (floats(), X)),
    Case("vectors", recurrence, (floats(2), floats(N, 2)), second=False),
    Case("weak carry", recurrence, (0.5, X)),
    Case("elman", elman, (floats(3, 3), floats(3), floats(N, 3))),
    Case("invariant", invariant, (floats(), X)),
    Case("nested", nested, (floats(), floats(N, 3))),
    Case("trees", trees, (floats(), {"a": X, "b": ints(N)})),
    Case("swapping", swapping, (floats(), floats(), X)),
    Case("only late", only_late, (floats(), X)),
    Case("without xs", without_xs, (floats(2),)),
    Case("backwards", backwards, (floats(), X), vmap=False),
    Case("unrolled", unrolled, (floats(), X), vmap=False, second=False),
    Case("unrolled backwards", unrolled_backwards, (floats(), X)),
    Case("through jit", through_jit, (floats(), X)),
    Case("integers", integers, (ints(N),), grads=False),
    Case("empty", recurrence, (floats(), floats(0)), vmap=False, second=False),
    Case("mapped", mapped, (X,)),
    Case("mapped in batches", mapped_in_batches, (floats(N, 2),), second=False),
    Case("prefixes", prefixes, (floats(2, N), floats(2, N)), second=False),
    Case("suffixes", suffixes, (floats(N),), second=False, vmap=False),
)
CASES = {case.name: case for case in ROWS}
TABLE = [(case.name, transformation) for case in ROWS for transformation in names(case)]


@pytest.fixture(autouse=True)
def clean_stack() -> Any:
    yield
    assert stack_depth() == 0


# Where the order of a scan's operands differs, or which operand of a sum is moved to the other's batch axis, or where
# zeros are made: the same arithmetic is asked for, not the same text.
REORDERED = {("invariant", "grad_of_grad"), ("nested", "grad_of_grad")}


@pytest.mark.parametrize(("name", "transformation"), TABLE)
def test_same_equations(name: str, transformation: str) -> None:
    """The same live equations as JAX between the same operands, subjaxprs and parameters included, well typed."""
    with x64_mode("32"):
        case = CASES[name]
        ours, theirs = program(subject, case, transformation), program(oracle, case, transformation)
        if ours.lines == theirs.lines:
            return
        if (name, transformation) in REORDERED:
            assert arithmetic(subject, case, transformation) == arithmetic(oracle, case, transformation)
        else:
            assert ours.graph() == theirs.graph(), difference(ours.lines, theirs.lines)


def arithmetic(ns: Any, case: Case, transformation: str) -> Counter[str]:
    """Each live equation's primitive and types, those of subjaxprs included, without what only moves values."""
    function, args = build(ns, case)[transformation]
    counts: Counter[str] = Counter()

    def count(jaxpr: Any) -> None:
        for op in normalise(jaxpr).without_dead_code().ops:
            name = op.head.split("[")[0]
            if name not in ("scan", "transpose", "broadcast_in_dim"):
                counts[f"{name} {' '.join(op.types)}"] += 1
        for eqn in jaxpr.jaxpr.eqns:
            if eqn.primitive.name == "scan":
                counts[f"scan of {len(eqn.outvars)} results"] += 1
                count(eqn.params["jaxpr"])

    count(ns.make_jaxpr(function)(*args))
    return counts


# ---------------------------------------------------------------------------------------------- values


# XLA's time is the limit: second derivatives are computed for these alone (their jaxprs are compared for all).
SECOND_VALUES = ("swapping",)


def asked(name: str) -> list[str]:
    """The transformations of ``name`` whose values are compared."""
    return [t for t in names(CASES[name]) if t not in SECOND or name in SECOND_VALUES]


VALUES = [(name, transformation) for name in CASES for transformation in asked(name)]


def everything(ns: Any, name: str, **options: Any) -> dict[str, Any]:
    """All transformations of ``name`` in one program."""
    built = build(ns, CASES[name])
    return run_jitted(ns, {t: built[t] for t in asked(name)}, **options)


@cache
def expected(name: str) -> dict[str, Any]:
    """What JAX answers, by transformation."""
    return everything(oracle, name, compiler_options=QUICKLY)


@cache
def staged(name: str) -> dict[str, Any]:
    """What the subject answers under one ``jit``."""
    return everything(subject, name)


def on_arrays(args: Any) -> Any:
    """``args`` with the subject's arrays in place of NumPy's, so that types are its own throughout."""
    move = subject.numpy.asarray
    return oracle.tree_util.tree_map(lambda leaf: move(leaf) if isinstance(leaf, np.ndarray) else leaf, args)


@pytest.mark.parametrize(("name", "transformation"), VALUES)
def test_values_without_jit(name: str, transformation: str) -> None:
    with x64_mode("32"):
        function, args = build(subject, CASES[name])[transformation]
        assert_same(function(*on_arrays(args)), expected(name)[transformation])


@pytest.mark.parametrize(("name", "transformation"), VALUES)
def test_values_under_jit(name: str, transformation: str) -> None:
    with x64_mode("32"):
        assert_same(staged(name)[transformation], expected(name)[transformation])


@pytest.mark.parametrize("name", ["elman", "trees", "swapping"])
def test_values_with_jit_inside(name: str) -> None:
    with x64_mode("32"):
        function, args = build(subject, CASES[name], inner_jit=True)["vmap_of_grad"]
        assert_same(function(*on_arrays(args)), expected(name)["vmap_of_grad"])


# ---------------------------------------------------------------------------------------------- against a Python loop


def python_scan(f: Callable[..., Any], init: Any, xs: Any, reverse: bool) -> Any:
    """What a scan means."""
    carry, ys = init, []
    order = range(xs.shape[0])
    for i in reversed(order) if reverse else order:
        carry, y = f(carry, xs[i])
        ys.append(y)
    return carry, jnp.stack(ys[::-1] if reverse else ys)


UNARY = (jnp.sin, jnp.tanh, lambda x: x * 0.5, lambda x: x, lambda x: jnp.zeros_like(x), jnp.round)


@st.composite
def bodies(draw: Any) -> Any:
    """A random body ``(w, (a, b), x) -> ((a', b'), y)``: each result is an expression of some of the inputs."""

    def expression() -> Callable[..., Any]:
        left, right, inner = draw(st.integers(0, 3)), draw(st.integers(0, 3)), draw(st.integers(0, len(UNARY) - 1))
        times = draw(st.booleans())

        def value(*inputs: Any) -> Any:
            a, b = UNARY[inner](inputs[left]), inputs[right]
            return a * b if times else a - b

        return value

    new_a, new_b, y = expression(), expression(), expression()
    return lambda w: lambda c, x: ((new_a(w, *c, x), new_b(w, *c, x)), y(w, *c, x))


@given(bodies(), st.booleans())
@hypothesis.settings(max_examples=40)
def test_any_body_is_a_python_loop(body: Any, reverse: bool) -> None:
    """Values, tangents and cotangents, one by one and batched, without XLA."""

    def by_scan(w: Any, c: Any, xs: Any) -> Any:
        return minijax.lax.scan(body(w), c, xs, reverse=reverse)

    def by_loop(w: Any, c: Any, xs: Any) -> Any:
        return python_scan(body(w), c, xs, reverse)

    def total(f: Any) -> Any:
        def sum_of_all(w: Any, c: Any, xs: Any) -> Any:
            (a, b), ys = f(w, c, xs)
            return a + 2.0 * b + jnp.sum(ys * jnp.arange(1.0, 4.0))

        return sum_of_all

    args = tuple(map(jnp.asarray, (np.float32(0.7),))) + (
        (jnp.float32(0.3), jnp.float32(-1.1)),
        jnp.asarray(floats(3, dtype=np.float32)),
    )
    many = (args[0], (jnp.asarray(floats(2, dtype=np.float32)), args[1][1]), args[2])
    axes = (None, (0, None), None)
    for of in (
        lambda f: f(*args),
        lambda f: minijax.jvp(f, args, args),
        lambda f: minijax.grad(total(f), (0, 1, 2))(*args),
        lambda f: minijax.vmap(minijax.grad(total(f), (0, 1, 2)), axes)(*many),
        lambda f: minijax.jvp(minijax.grad(total(f)), args, args),
    ):
        ours, loop = minijax.tree_util.tree_leaves(of(by_scan)), minijax.tree_util.tree_leaves(of(by_loop))
        for a, b in zip(ours, loop, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
    typecheck_jaxpr(minijax.make_jaxpr(minijax.vmap(minijax.grad(total(by_scan), (0, 1, 2)), axes))(*many))


# ---------------------------------------------------------------------------------------------- what is kept, and run


def scans(closed: Any) -> list[Any]:
    return [eqn for eqn in closed.eqns if eqn.primitive.name == "scan"]


def test_only_what_changes_is_stacked() -> None:
    """Residuals of loop-invariant work are computed once; slices of xs are not copied; carried values are stacked."""

    def loss(w: Any, xs: Any) -> Any:
        return minijax.lax.scan(lambda c, x: (jnp.sin(w) * c * x, None), 1.0, xs)[0]

    closed = minijax.make_jaxpr(minijax.grad(loss))(0.5, X)
    forward, backward = scans(closed)
    assert [eqn.primitive.name for eqn in closed.eqns if eqn.outvars[0].aval.shape == ()][:2] == ["sin", "cos"]
    assert all(eqn.primitive.name in ("mul", "convert_element_type") for eqn in forward.params["jaxpr"].eqns)
    stacked = [v for v in forward.outvars if v.aval.shape == (N,)]
    assert len(stacked) <= 2, f"{len(stacked)} values are kept for each step"
    assert closed.jaxpr.invars[1] in backward.invars


def test_memory_of_the_gradient_grows_as_the_residuals_do() -> None:
    def grown(n: int) -> int:
        def loss(w: Any, xs: Any) -> Any:
            return jnp.sum(minijax.lax.scan(lambda c, x: (jnp.tanh(w @ c + x), None), jnp.zeros(4), xs)[0])

        closed = minijax.make_jaxpr(minijax.grad(loss))(np.zeros((4, 4), np.float32), np.zeros((n, 4), np.float32))
        return sum(v.aval.size for eqn in closed.eqns for v in eqn.outvars)

    # the carried value, tanh's result and what its derivative takes of it: three vectors a step
    assert grown(200) - grown(100) <= 100 * 4 * 3


def test_unused_results_and_carried_values_are_pruned() -> None:
    def f(x: Any) -> Any:
        def cell(carry: Any, x: Any) -> Any:
            a, b, c = carry
            return (a + x, b + a, c * jnp.sin(c)), (jnp.cos(x), a)

        return minijax.lax.scan(cell, (0.0, 0.0, 2.0), x)

    closed = minijax.make_jaxpr(lambda x: f(x))(X)
    pruned, used = dce_jaxpr(closed.jaxpr, [False, True, False, False, False])
    typecheck_jaxpr(pruned)
    (eqn,) = [e for e in pruned.eqns if e.primitive.name == "scan"]
    assert used == [True] and eqn.params["num_carry"] == 2 and len(eqn.outvars) == 2
    assert [e.primitive.name for e in eqn.params["jaxpr"].eqns if e.primitive.name in ("sin", "cos")] == []
    np.testing.assert_allclose(eval_jaxpr(pruned, closed.consts, jnp.asarray(X))[0], f(X)[0][1], rtol=1e-5)


def test_transposing_a_loop_that_is_linear_in_part() -> None:
    """The counter is run forwards first; the rest backwards."""

    def f(x: Any) -> Any:
        def cell(carry: Any, _: Any) -> Any:
            i, c = carry
            return (i + 1, c * 2.0 * i.astype(jnp.float32)), c

        return minijax.lax.scan(cell, (1, x), None, length=4)[1]

    for g in (f, minijax.jit(f)):
        (ct,) = minijax.linear_transpose(g, jnp.float32(0.0))(jnp.ones(4))
        assert float(ct) == 1 + 2 + 8 + 48


def test_values_that_need_no_loop_are_forwarded() -> None:
    """A constant carried value becomes an operand of every step, and a result that is an input is that input."""
    closed = minijax.make_jaxpr(
        lambda w, xs: minijax.lax.scan(lambda c, x: ((c[0] + x, c[1]), (x, c[1])), (0.0, w), xs)
    )(1.0, X)
    (eqn,) = scans(closed)
    assert eqn.params["num_consts"] == 1 and eqn.params["num_carry"] == 1
    assert closed.jaxpr.outvars[2] is closed.jaxpr.invars[1] and closed.jaxpr.outvars[1] is closed.jaxpr.invars[0]
    typecheck_jaxpr(closed)


def test_interpreted_at_first_and_compiled_when_it_comes_again() -> None:
    compiled: list[str] = []

    def listen(name: str, executable: Any) -> None:
        compiled.append(name)

    def cell(c: Any, x: Any) -> Any:
        return jnp.sin(c) * x, c + x

    def short(c: Any, x: Any) -> Any:
        return c + x, c

    observe.on_compiled.append(listen)
    try:
        xs = jnp.asarray(floats(1000, dtype=np.float32))
        first = minijax.lax.scan(cell, 0.5, xs)
        assert compiled == []
        second = minijax.lax.scan(cell, 0.5, xs)
        assert compiled == ["scan"]
        third = minijax.lax.scan(cell, 0.5, xs)
        assert compiled == ["scan"]
        for _ in range(20):
            minijax.lax.scan(short, 0.0, X)
        assert compiled == ["scan"], "compiling a short loop costs more than running it"
        minijax.lax.scan(short, 0.0, jnp.zeros(100_000))
        assert compiled == ["scan"] * 2, "interpreting a long loop costs more than compiling it"
    finally:
        observe.on_compiled.remove(listen)
    for again in (second, third):
        np.testing.assert_allclose(first[1], again[1], rtol=1e-4, atol=1e-5)
    assert first[0].aval is second[0].aval and first[1].aval is second[1].aval


def test_a_body_is_staged_once() -> None:
    calls: list[Any] = []

    def cell(c: Any, x: Any) -> Any:
        calls.append(x)
        return c + x, c

    for _ in range(3):
        minijax.lax.scan(cell, 0.0, X)
    assert len(calls) == 1
    minijax.lax.scan(cell, 0.0, X[:2])
    assert len(calls) == 1, "the length is no part of the body"
    minijax.lax.scan(cell, np.zeros(2), np.zeros((3, 2)))
    assert len(calls) == 2


def test_without_jit_the_body_runs_in_python() -> None:
    seen: list[float] = []

    def cell(c: Any, x: Any) -> Any:
        seen.append(float(x))
        return c + x, {"y": c * x}

    with minijax.disable_jit():
        carry, ys = minijax.lax.scan(cell, 0.0, jnp.arange(3.0), reverse=True)
        assert seen == [2.0, 1.0, 0.0] and float(carry) == 3.0
        np.testing.assert_allclose(ys["y"], [0.0, 2.0, 0.0])
        with pytest.raises(ValueError, match="zero-length scan is not supported in disable_jit"):
            minijax.lax.scan(cell, 0.0, jnp.zeros(0))


def test_collectives_in_a_body() -> None:
    """A sum over a mapped axis, also of what is not mapped."""

    def f(x: Any) -> Any:
        def cell(c: Any, _: Any) -> Any:
            return c + minijax.lax.psum(x, "i") + minijax.lax.psum(1.0, "i"), None

        return minijax.lax.scan(cell, x, None, length=2)[0]

    out = minijax.vmap(f, axis_name="i")(jnp.arange(3.0))
    np.testing.assert_allclose(out, [12.0, 13.0, 14.0])


def test_dtypes_that_are_not_numpys_and_overflow() -> None:
    """What NumPy would warn about gives inf or wraps, silently, as on a device."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        carry, ys = minijax.lax.scan(lambda c, x: (c * x, c), jnp.bfloat16(1.5), jnp.full(3, 2, jnp.bfloat16))
        assert carry.dtype == jnp.bfloat16 and float(carry) == 12.0 and ys.dtype == jnp.bfloat16
        carry, _ = minijax.lax.scan(lambda c, _: (c * np.int8(100), None), jnp.int8(3), None, length=2)
        assert int(carry) == np.int32(30000).astype(np.int8)
        carry, _ = minijax.lax.scan(lambda c, _: (jnp.exp(c), None), 10.0, None, length=5)
        assert float(carry) == np.inf


def test_values_are_not_shared_with_what_numpy_may_write_to() -> None:
    xs = np.arange(3.0, dtype=np.float32)
    carry, ys = minijax.lax.scan(lambda c, x: (x, x), np.zeros((), np.float32), xs)
    xs[:] = 7.0
    assert float(carry) == 2.0 and list(map(float, ys)) == [0.0, 1.0, 2.0]


# ---------------------------------------------------------------------------------------------- errors


def of_carry(init: Any, new: Callable[[Any, Any], Any], xs: Any = X) -> Callable[[Any], Any]:
    def run(ns: Any) -> Any:
        def body(carry: Any, x: Any) -> Any:
            return new(ns, carry), x

        return ns.lax.scan(body, init, xs)

    return run


MISTAKES: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "no pair": (lambda ns: ns.lax.scan(lambda c, x: c, 0.0, X), TypeError, "scan body output must be a pair, got"),
    "a triple": (lambda ns: ns.lax.scan(lambda c, x: (c, c, c), 0.0, X), TypeError, "scan body output must be a pair"),
    "another tree": (
        of_carry({"a": 0.0, "b": (1.0, 2.0)}, lambda ns, c: {"a": c["a"], "b": [c["b"], 1.0]}),
        TypeError,
        "The input carry component carry['b'] is a <class 'tuple'> but the corresponding component of the carry output "
        "is a <class 'list'>, so their Python types differ.",
    ),
    "two differences": (
        of_carry((0.0, 1.0), lambda ns, c: (c, c)),
        TypeError,
        "scan body function carry input and carry output must have the same pytree structure, but they differ",
    ),
    "another dtype": (
        of_carry(np.float32(0), lambda ns, c: c.astype("int32")),
        TypeError,
        "scan body function carry input and carry output must have equal types, but they differ:\n\n"
        "The input carry carry has type float32[] but the corresponding output carry component has type int32[], so "
        "the dtypes do not match.",
    ),
    "another shape": (
        of_carry((0, np.ones(2)), lambda ns, c: (c[0] + 1, ns.numpy.ones(3))),
        TypeError,
        "The input carry component carry[1] has type float32[2] but the corresponding output carry component has type "
        "float32[3], so the shapes do not match.",
    ),
    "different lengths": (
        lambda ns: ns.lax.scan(lambda c, x: (c, x), 0.0, (X, X[:3])),
        ValueError,
        "scan got values with different leading axis sizes: 5, 3.",
    ),
    "a scalar": (
        lambda ns: ns.lax.scan(lambda c, x: (c, x), 0.0, 1.0),
        ValueError,
        "scan got value with no leading axis to scan over: ",
    ),
    "neither xs nor length": (
        lambda ns: ns.lax.scan(lambda c, x: (c, x), 0.0),
        ValueError,
        "scan got no values to scan over and `length` not provided.",
    ),
    "another length": (
        lambda ns: ns.lax.scan(lambda c, x: (c, x), 0.0, X, length=3),
        ValueError,
        "scan got `length` argument of 3 which disagrees with leading axis sizes [5].",
    ),
    "a traced length": (
        lambda ns: ns.jit(lambda n: ns.lax.scan(lambda c, x: (c, x), 0.0, None, length=n))(3),
        TypeError,
        "The `length` argument to `scan` expects a concrete `int` value.",
    ),
    "a negative unroll": (
        lambda ns: ns.lax.scan(lambda c, x: (c, x), 0.0, X, unroll=-1),
        ValueError,
        "`unroll` must be a `bool` or a non-negative `int`",
    ),
    "no function": (lambda ns: ns.lax.scan(3, 0.0, X), TypeError, "lax.scan: f argument should be a callable"),
    "a string in the carry": (
        lambda ns: ns.lax.scan(lambda c, x: (c, x), "a", X),
        TypeError,
        "of type <class 'str'> is not a valid JAX type",
    ),
    "a string as result": (
        lambda ns: ns.lax.scan(lambda c, x: (c, "a"), 0.0, X),
        TypeError,
        "traced for scan returned a value of type <class 'str'> at output component [1], which is not a valid JAX type",
    ),
    "no associative function": (
        lambda ns: ns.lax.associative_scan(3, X),
        TypeError,
        "lax.associative_scan: fn argument should be callable.",
    ),
    "associative, of different sizes": (
        lambda ns: ns.lax.associative_scan(lambda a, b: a, (X, X[:3])),
        ValueError,
        "Array inputs to associative_scan must have the same first dimension. (saw: [(5,), (3,)]",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_told_as_jax_tells_them(mistake: str) -> None:
    """The same type and the same essential words from both libraries."""
    run, kind, words = MISTAKES[mistake]
    for ns in (oracle, subject):
        with pytest.raises(kind) as caught:
            run(ns)
        assert words.rstrip(".") in str(caught.value), f"{ns.__name__} says something else"
    assert stack_depth() == 0


def test_the_typechecker_knows_scan() -> None:
    closed = minijax.make_jaxpr(lambda c, xs: minijax.lax.scan(lambda c, x: (c * x, c), c, xs))(np.float32(1), X)
    typecheck_jaxpr(closed)
    (eqn,) = closed.eqns

    def broken(**changes: Any) -> Any:
        params = {**eqn.params, **changes.pop("params", {})}
        return closed.jaxpr.replace(eqns=[eqn.replace(params=params, **changes)])

    for jaxpr, words in (
        (broken(params={"length": 4}), "scan of length 4 over sequences of types"),
        (broken(params={"num_carry": -1}), "scan param num_carry must be a non-negative int"),
        (broken(params={"num_carry": 0, "num_consts": 1}), "takes slices of types|inconsistently typed"),
        (broken(invars=eqn.invars[::-1]), "scan of length 5 over sequences|takes a carry of types"),
    ):
        with pytest.raises(JaxprTypeError, match=words):
            typecheck_jaxpr(jaxpr)
