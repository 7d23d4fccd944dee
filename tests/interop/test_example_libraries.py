"""What packages take of JAX's to build transformations and small networks with, beside JAX's own."""

from __future__ import annotations

import importlib
from typing import Any

import jax
import numpy as np
from jax.extend import linear_util as their_linear_util

import minijax
from minijax.extend import linear_util
from tests.oracle.subject import assert_same


def trained(ns: Any) -> Any:
    stax = importlib.import_module(f"{ns.__name__}.example_libraries.stax")
    optimizers = importlib.import_module(f"{ns.__name__}.example_libraries.optimizers")
    init, apply = stax.serial(stax.Conv(2, (2, 2)), stax.Relu, stax.Flatten, stax.Dense(3), stax.LogSoftmax)
    shape, params = init(ns.random.key(0), (-1, 4, 4, 1))
    start, update, get = optimizers.adam(1e-2)
    state, x = start(params), np.arange(32, dtype=np.float32).reshape(2, 4, 4, 1) / 16
    losses = []
    for step in range(2):
        loss, gradient = ns.value_and_grad(lambda p: -apply(p, x)[:, 0].sum())(get(state))
        state = update(step, gradient, state)
        losses.append(loss)
    return shape, losses, get(state)


def test_stax_and_optimizers_run_on_minijax() -> None:
    (shape, losses, params), theirs = trained(minijax), trained(jax)
    assert shape == theirs[0] and all(isinstance(x, minijax.Array) for x in minijax.tree.leaves(params))
    assert_same((losses, params), theirs[1:], scale=3.0)


def told(ns: Any, lu: Any) -> list[Any]:
    util = importlib.import_module(f"{ns.__name__}.api_util")
    info = util.debug_info("a test", lambda a, b: None, (1, 2), {})
    wrap = lambda f: lu.wrap_init(f, debug_info=info)  # noqa: E731

    @lu.transformation
    def doubled(*args: Any) -> Any:
        outs = yield args, {}
        yield [2 * x for x in outs]

    @lu.transformation_with_aux
    def counted(k: int, *args: Any) -> Any:
        outs = yield args, {}
        yield outs, len(outs) + k

    called = []

    @lu.cache
    def remembered(fun: Any, x: int) -> Any:
        called.append(x)
        return fun.call_wrapped(x)

    add = wrap(lambda a, b: {"sum": a + b})
    flat, tree = util.flatten_fun(add, ns.tree.structure(((1, 2), {})))
    flat2, tree2 = util.flatten_fun_nokwargs(add, ns.tree.structure((1, 2)))
    part, given = util.argnums_partial(add, (0,), (1, 2))
    count, aux = counted(wrap(lambda a: [a]), 5)
    fun = lambda a: [a]  # noqa: E731
    return [
        *(flat.call_wrapped(3, 4), str(tree()), flat2.call_wrapped(3, 4), str(tree2())),
        *(given, part.call_wrapped(7), count.call_wrapped(3), aux(), doubled(doubled(wrap(fun))).call_wrapped(3)),
        *([remembered(wrap(fun), 1), remembered(wrap(fun), 1), remembered(wrap(fun), 2)], called),
        lu.merge_linear_aux(lambda: 1, counted(wrap(fun), 5)[1]),
        util.flatten_axes("axes", ns.tree.structure((1, (2, 3))), (0, None)),
        util.donation_vector((0,), ("k",), ns.tree.structure((((1, 5), 2), {"k": 3, "l": 4}))),
        util.rebase_donate_argnums((1, 3), (0, 2)),
        util.safe_map(lambda a, b: a - b, [3, 4], (1, 2)),
    ]


def test_linear_util_and_api_util_do_what_jaxs_do() -> None:
    assert linear_util.WrappedFun is their_linear_util.WrappedFun
    assert told(minijax, linear_util) == told(jax, their_linear_util)
