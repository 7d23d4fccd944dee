"""Programs that combine two features match JAX: effects in loops, the order of operands under transposition,
references in control flow, and sharded operands of custom rules.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.oracle.case import floats
from tests.oracle.subject import assert_same, oracle, subject

for library in (subject, oracle):
    for module in ("experimental", "sharding"):
        importlib.import_module(f"{library.__name__}.{module}")

pytestmark = pytest.mark.usefixtures("compiled_quickly")

Program = Callable[..., Any]
X = floats(3, dtype=np.float32)
XS = floats(5, 3, dtype=np.float32)


def outcome(run: Callable[[Any], Any], ns: Any) -> Any:
    """The result of ``run(ns)``, or the class name of the error."""
    try:
        return run(ns)
    except (AttributeError, NameError):
        raise  # these come from a mistake in this file
    except Exception as error:
        return type(error).__name__


def assert_outcomes_are_jaxs(run: Callable[[Any], Any]) -> None:
    """Check for equal results or equal classes of error; minijax may work where JAX raises NotImplementedError."""
    ours, theirs = outcome(run, subject), outcome(run, oracle)
    if not isinstance(theirs, str):
        assert not isinstance(ours, str), ours
        assert_same(ours, theirs)
    elif isinstance(ours, str):
        assert ours == theirs or theirs == "NotImplementedError"
    else:
        assert theirs == "NotImplementedError"


# --- effects in loops: how often, and with which values ------------------------------------------------------


def then(_: Any, value: Any) -> Any:
    return value


# name -> program, a function of (namespace, function with an effect on a value, array)
LOOPS: dict[str, Program] = {
    "scan": lambda ns, effect, x: ns.lax.scan(lambda c, y: then(effect(c), (ns.numpy.sin(c) * y, c)), x, XS),
    "scan with a constant": lambda ns, effect, x: ns.lax.scan(
        lambda c, y: then(effect(np.float32(2.0)), (ns.numpy.sin(c) * y, c)), x, XS
    ),
    "scan with a value closed over": lambda ns, effect, x: ns.lax.scan(
        lambda c, y: then(effect(x), (ns.numpy.sin(c) * y, x * c)), x, XS
    ),
    "scan in reverse": lambda ns, effect, x: ns.lax.scan(
        lambda c, y: then(effect(y), (c * y, None)), x, XS, reverse=True
    )[0],
    "scan in a scan": lambda ns, effect, x: ns.lax.scan(
        lambda c, _: ns.lax.scan(lambda c, _: then(effect(c), (c * x, None)), c, None, length=2), x, None, length=3
    )[0],
    "cond in a scan": lambda ns, effect, x: ns.lax.scan(
        lambda c, i: (ns.lax.cond(i % 2 == 0, lambda c: then(effect(c), ns.numpy.cos(c)), lambda c: c * x, c), None),
        x,
        np.arange(5),
    )[0],
    "fori_loop": lambda ns, effect, x: ns.lax.fori_loop(0, 4, lambda i, c: then(effect(i), c * x), x),
    "while_loop": lambda ns, effect, x: ns.lax.while_loop(
        lambda c: c[0] < 3, lambda c: then(effect(c[1]), (c[0] + 1, ns.numpy.sin(c[1]))), (0, x)
    )[1],
    "condition of a while_loop": lambda ns, effect, x: ns.lax.while_loop(
        lambda c: then(effect(c[0]), c[0] < 3), lambda c: (c[0] + 1, c[1] * x), (0, x)
    )[1],
    "map": lambda ns, effect, x: ns.lax.map(lambda y: then(effect(y), y * x), XS),
    "checkpoint in a scan": lambda ns, effect, x: ns.lax.scan(
        ns.checkpoint(lambda c, y: then(effect(y), (ns.numpy.sin(c) * y, None))), x, XS
    )[0],
}

# Ways to call a function of ``x``: name -> function of (namespace, function).
WAYS: dict[str, Callable[[Any, Program], Any]] = {
    "plain": lambda ns, f: f(X),
    "jit": lambda ns, f: ns.jit(f)(X),
    "jvp": lambda ns, f: ns.jvp(f, (X,), (X,)),
    "linearize": lambda ns, f: ns.linearize(f, X)[1](X),
    "vjp": lambda ns, f: pulled_back(ns, f),
    "jit of vjp": lambda ns, f: ns.jit(lambda: pulled_back(ns, f))(),
    "vmap": lambda ns, f: ns.vmap(f)(XS),
    "jacfwd": lambda ns, f: ns.jacfwd(f)(X),
}


def pulled_back(ns: Any, f: Program) -> Any:
    out, pull = ns.vjp(f, X)
    return out, pull(ns.tree_util.tree_map(ns.numpy.ones_like, out))


def effects(ns: Any, loop: Program, way: str, kind: str) -> tuple[list[Any], Any]:
    """The values that the effects received, and the result. Values of unordered effects are sorted."""
    seen: list[Any] = []

    def host(value: Any) -> None:
        seen.append(np.asarray(value).tolist())

    def effect(value: Any) -> None:
        if kind == "debug":
            ns.debug.callback(host, value)
        else:
            ns.experimental.io_callback(host, None, value, ordered=kind == "ordered")

    out = outcome(lambda ns: WAYS[way](ns, lambda x: loop(ns, effect, x)), ns)
    ns.effects_barrier()
    return (seen if kind == "ordered" else sorted(seen, key=repr)), out


@pytest.mark.parametrize("kind", ["debug", "io", "ordered"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_effects_of_loops_happen_as_often_as_in_jax(loop: Program, way: str, kind: str) -> None:
    """An effect may also happen as often as in JAX's plain call: JAX hoists effects of constants out of a
    differentiated scan, drops effects of io_callback in it, and drops unordered effects in the condition of a jitted
    loop.
    """
    (ours, out), (theirs, expected) = (effects(ns, loop, way, kind) for ns in (subject, oracle))
    if isinstance(out, str):
        assert isinstance(expected, str)
        return
    if not isinstance(expected, str):
        assert_same(out, expected)
    theirs = max(theirs, effects(oracle, loop, "plain", kind)[0], key=len)
    assert len(ours) == len(theirs)
    np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=1e-5)


# --- the order of operands under transposition ---------------------------------------------------------------

A = floats(3, 3, dtype=np.float32)


def scan_of_consts_and_xs(ns: Any, w: Any, c: Any, xs: Any, ys: Any) -> Any:
    """This scan is linear in ``c`` and ``ys``. The operands before each of these are not transposed."""

    def body(c: Any, each: Any) -> Any:
        x, y = each
        return ns.numpy.sin(w) @ c * x + y, c * 2 + y

    return ns.lax.scan(body, c, (xs, ys))


def scan_of_xs_in_front(ns: Any, w: Any, c: Any, xs: Any, ys: Any) -> Any:
    def body(c: Any, each: Any) -> Any:
        y, x = each
        return w @ c * x + y, (y, c)

    return ns.lax.scan(body, c, (ys, xs))


def scan_with_a_counter(ns: Any, w: Any, c: Any, xs: Any, ys: Any) -> Any:
    def body(carry: Any, each: Any) -> Any:
        i, c = carry
        x, y = each
        return (i + 1, c * x * i + y), w @ c

    (_, c), out = ns.lax.scan(body, (0, c), (xs, ys))
    return c, out


def nested_scans(ns: Any, w: Any, c: Any, xs: Any, ys: Any) -> Any:
    def inner(c: Any, each: Any) -> Any:
        y, row = each
        return c + y * row.sum(), c

    def outer(c: Any, each: Any) -> Any:
        x, y = each
        return ns.lax.scan(inner, c * x, (y, w))

    return ns.lax.scan(outer, c, (xs, ys))


def switch_of_orders(ns: Any, w: Any, c: Any, xs: Any, ys: Any) -> Any:
    def body(c: Any, each: Any) -> Any:
        i, x, y = each
        first, second = lambda x, c, y: w @ c + y * x, lambda x, c, y: c - y
        return ns.lax.switch(i % 2, [first, second], x, c, y), c

    return ns.lax.scan(body, c, (np.arange(5), xs, ys))


def checkpointed(ns: Any, w: Any, c: Any, xs: Any, ys: Any) -> Any:
    return ns.checkpoint(ns.jit(lambda ys, xs, c: scan_of_xs_in_front(ns, w, c, xs, ys)))(ys, xs, c)


def concatenated(ns: Any, w: Any, c: Any, xs: Any, ys: Any) -> Any:
    return ns.lax.concatenate([ys, w * 2, ns.numpy.stack([c, c]), xs], 0)[1:-1] @ w


LINEAR = [scan_of_consts_and_xs, scan_of_xs_in_front, scan_with_a_counter, nested_scans, switch_of_orders]
LINEAR += [checkpointed, concatenated]


def transposed(ns: Any, f: Program, *argnums: int) -> Any:
    """The result of transposing ``f`` in the arguments ``argnums``, at a cotangent of irregular values."""
    args = [A, X, XS, XS * 2]

    def of_linear(*given: Any) -> Any:
        put = dict(zip(argnums, given, strict=True))
        return f(ns, *(put.get(i, each) for i, each in enumerate(args)))

    given = [args[i] for i in argnums]
    ct = ns.tree_util.tree_map(lambda x: x * 0 + floats(*x.shape, dtype=x.dtype), of_linear(*given))
    return ns.linear_transpose(of_linear, *given)(ct)


@pytest.mark.parametrize("argnums", [(1, 3), (3, 1), (1,), (3,)], ids=str)
@pytest.mark.parametrize("staged", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("f", LINEAR, ids=lambda f: f.__name__)
def test_cotangents_belong_to_their_operands(f: Program, staged: bool, argnums: tuple[int, ...]) -> None:
    def run(ns: Any) -> Any:
        call = lambda: transposed(ns, f, *argnums)  # noqa: E731
        return ns.jit(call)() if staged else call()

    assert_outcomes_are_jaxs(run)


@pytest.mark.parametrize("f", LINEAR, ids=lambda f: f.__name__)
def test_gradients_of_every_operand_under_vmap_match_jax(f: Program) -> None:
    def run(ns: Any) -> Any:
        def loss(*args: Any) -> Any:
            return sum((leaf**2).sum() for leaf in ns.tree_util.tree_leaves(f(ns, *args)))

        batched = ns.numpy.stack([A, A * 0.5])
        return ns.vmap(ns.grad(loss, argnums=(0, 1, 2, 3)), in_axes=(0, None, None, None))(batched, X, XS, XS * 2)

    assert_outcomes_are_jaxs(run)


# --- references in control flow ------------------------------------------------------------------------------


def ref_of(ns: Any, value: Any) -> Any:
    return ns.new_ref(ns.numpy.asarray(value))


def ref_in_a_scan(ns: Any, x: Any) -> Any:
    total = ref_of(ns, x * 0)

    def body(c: Any, row: Any) -> Any:
        total[...] += row * c
        return ns.numpy.sin(c) + total[...], total[0]

    out = ns.lax.scan(body, x, XS)
    return out, ns.freeze(total)


def ref_in_a_reversed_scan(ns: Any, x: Any) -> Any:
    rows = ref_of(ns, XS * 0)

    def body(c: Any, i: Any) -> Any:
        rows[i] = c
        return c * x, None

    return ns.lax.scan(body, x, np.arange(5), reverse=True)[0], ns.freeze(rows)


def ref_in_a_counted_loop(ns: Any, x: Any) -> Any:
    cell = ref_of(ns, x)

    def body(i: Any, c: Any) -> Any:
        cell[i % 3] = c.sum()
        return c * cell[...]

    return ns.lax.fori_loop(0, 4, body, x), ns.freeze(cell)


def ref_in_a_while_loop(ns: Any, x: Any) -> Any:
    cell = ref_of(ns, x)

    def body(c: Any) -> Any:
        cell[...] = cell[...] * 2
        return c + 1

    ns.lax.while_loop(lambda c: c < 3, body, 0)
    return ns.freeze(cell)


def ref_in_one_branch(ns: Any, x: Any) -> Any:
    cell = ref_of(ns, x)

    def write(x: Any) -> Any:
        cell[1:] = x[1:] * 3
        return cell[0]

    out = ns.lax.cond(x[0] > 0, write, lambda x: x[1], x)
    return out, ns.lax.cond(x[0] <= 0, write, lambda x: x[2], x), ns.freeze(cell)


def ref_in_a_branch_of_a_scan(ns: Any, x: Any) -> Any:
    cell = ref_of(ns, x)

    def write(i: Any) -> None:
        cell[...] = cell[...] * x + i

    def body(c: Any, i: Any) -> Any:
        ns.lax.switch(i % 3, [write, lambda i: None, write], i)
        return c + cell[...], None

    return ns.lax.scan(body, x, np.arange(5, dtype=np.float32).astype(int))[0], ns.freeze(cell)


def two_refs_in_nested_scans(ns: Any, x: Any) -> Any:
    first, second = ref_of(ns, x), ref_of(ns, x * 2)

    def inner(c: Any, _: Any) -> Any:
        second[...] = second[...] * 0.5 + first[...]
        return c + second[0], None

    def outer(c: Any, row: Any) -> Any:
        first[...] += row
        return ns.lax.scan(inner, c, None, length=2)[0], first[1]

    out = ns.lax.scan(outer, 0.0 * x[0], XS)
    return out, ns.freeze(first), ns.freeze(second)


def ref_in_a_jitted_body(ns: Any, x: Any) -> Any:
    cell = ref_of(ns, x)

    @ns.jit
    def step(cell: Any, row: Any) -> None:
        cell[...] = ns.numpy.cos(cell[...]) * row

    def body(_: Any, row: Any) -> Any:
        return step(cell, row), None

    ns.lax.scan(body, None, XS)
    return ns.freeze(cell)


REFS = [
    ref_in_a_scan,
    ref_in_a_reversed_scan,
    ref_in_a_counted_loop,
    ref_in_a_while_loop,
    ref_in_one_branch,
    ref_in_a_branch_of_a_scan,
    two_refs_in_nested_scans,
    ref_in_a_jitted_body,
]


@pytest.mark.parametrize("way", [way for way in WAYS if way != "jacfwd"])
@pytest.mark.parametrize("f", REFS, ids=lambda f: f.__name__)
def test_references_in_control_flow_match_jax(f: Program, way: str) -> None:
    assert_outcomes_are_jaxs(lambda ns: WAYS[way](ns, lambda x: f(ns, x)))


# --- sharded operands of custom rules ------------------------------------------------------------------------


def with_custom_jvp(ns: Any) -> Program:
    @ns.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return ns.numpy.sin(x) * y

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), 2 * ns.numpy.cos(x) * y * dx + dy

    return f


def with_custom_vjp(ns: Any) -> Program:
    @ns.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return ns.numpy.sin(x) * y

    def f_fwd(x: Any, y: Any) -> Any:
        return f(x, y), (ns.numpy.cos(x), y)

    def f_bwd(residuals: Any, ct: Any) -> Any:
        cos, y = residuals
        return 3 * ct * cos * y, ct * 5

    f.defvjp(f_fwd, f_bwd)
    return f


def checkpointed_rule(ns: Any) -> Program:
    return ns.checkpoint(with_custom_vjp(ns))


CUSTOM = [with_custom_jvp, with_custom_vjp, checkpointed_rule]
ROWS = floats(4, 6, dtype=np.float32)


def placed(ns: Any, *axes: str | None) -> tuple[Any, Any, Any]:
    """A mesh of two devices, and two operands: the first sharded, the second replicated."""
    sharding = ns.sharding
    mesh = sharding.Mesh(np.array(ns.devices("cpu")[:2]), ("d",))
    split, whole = (sharding.NamedSharding(mesh, sharding.PartitionSpec(*each)) for each in (axes, ()))
    return mesh, ns.device_put(ROWS, split), ns.device_put(ROWS[::-1], whole)


# name -> way to call ``f``, a function of (namespace, f, two operands)
SHARDED_WAYS: dict[str, Callable[..., Any]] = {
    "eager": lambda ns, f, x, y: f(x, y),
    "jit": lambda ns, f, x, y: ns.jit(f)(x, y),
    "grad": lambda ns, f, x, y: ns.grad(lambda x, y: f(x, y).sum(), argnums=(0, 1))(x, y),
    "jit of grad": lambda ns, f, x, y: ns.jit(ns.grad(lambda x, y: f(x, y).sum(), argnums=(0, 1)))(x, y),
    "jvp": lambda ns, f, x, y: ns.jvp(f, (x, y), (x, y)),
    "vmap": lambda ns, f, x, y: ns.vmap(f, in_axes=(0, None))(x, y[0]),
    "jit of vmap of grad": lambda ns, f, x, y: ns.jit(
        ns.vmap(ns.grad(lambda x, y: f(x, y).sum()), in_axes=(1, None), out_axes=1)
    )(x, y[:, 0]),
    "scan": lambda ns, f, x, y: ns.jit(lambda x, y: ns.lax.scan(lambda c, row: (c + f(row, y[0]), c), y[0], x))(x, y),
}


@pytest.mark.parametrize("axes", [("d",), (None, "d"), ()], ids=str)
@pytest.mark.parametrize("way", SHARDED_WAYS)
@pytest.mark.parametrize("make", CUSTOM, ids=lambda f: f.__name__)
def test_custom_rules_of_sharded_operands_match_jax(
    make: Callable[[Any], Program], way: str, axes: tuple[str | None, ...]
) -> None:
    """Values and their shardings match JAX's."""

    def run(ns: Any) -> Any:
        _, x, y = placed(ns, *axes)
        out = SHARDED_WAYS[way](ns, make(ns), x, y)
        return out, [tuple(leaf.sharding.shard_shape(leaf.shape)) for leaf in ns.tree_util.tree_leaves(out)]

    assert_outcomes_are_jaxs(run)


@pytest.mark.parametrize("make", CUSTOM, ids=lambda f: f.__name__)
@pytest.mark.parametrize("transform", ["plain", "grad"])
def test_custom_rules_in_shard_map_match_jax(make: Callable[[Any], Program], transform: str) -> None:
    def run(ns: Any) -> Any:
        mesh, x, y = placed(ns, "d")
        spec = ns.sharding.PartitionSpec
        f = make(ns)

        def summed(x: Any, y: Any) -> Any:
            return ns.lax.psum(f(x, ns.lax.pcast(y[:2], "d", to="varying")).sum(0), "d")

        mapped = ns.shard_map(summed, mesh=mesh, in_specs=(spec("d"), spec()), out_specs=spec())
        if transform == "grad":
            return ns.jit(ns.grad(lambda x, y: mapped(x, y).sum(), argnums=(0, 1)))(x, y)
        return ns.jit(mapped)(x, y)

    assert_outcomes_are_jaxs(run)
