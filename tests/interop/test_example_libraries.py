"""The modules ``stax``, ``linear_util`` and ``api_util`` of minijax, compared with JAX's."""

import importlib

import jax
import numpy as np
import pytest
from jax.extend import linear_util as their_linear_util

import minijax
from minijax.extend import linear_util
from tests.oracle.subject import assert_same


def test_stax_runs_on_minijax():
    found = []
    for ns in (minijax, jax):
        stax = importlib.import_module(f"{ns.__name__}.example_libraries.stax")
        init, apply = stax.serial(stax.Dense(3), stax.Relu)
        _, params = init(ns.random.key(0), (-1, 4))
        found.append(apply(params, np.ones((2, 4), np.float32)))
    assert isinstance(found[0], minijax.Array)
    assert_same(*found)


def outcomes(ns, lu):
    util = importlib.import_module(f"{ns.__name__}.api_util")
    info = util.debug_info("a test", lambda a, b: None, (1, 2), {})
    wrap = lambda f: lu.wrap_init(f, debug_info=info)  # noqa: E731

    add = wrap(lambda a, b: {"sum": a + b})
    flat, tree = util.flatten_fun(add, ns.tree.structure(((1, 2), {})))
    flat2, tree2 = util.flatten_fun_nokwargs(add, ns.tree.structure((1, 2)))
    part, given = util.argnums_partial(add, (0,), (1, 2))
    with_list, _ = util.argnums_partial(add, 0, (1, [2]), require_static_args_hashable=False)
    with pytest.raises(ValueError, match="Non-hashable static arguments"):
        util.argnums_partial(add, 0, (1, [2]))
    return [
        *(flat.call_wrapped(3, 4), str(tree()), flat2.call_wrapped(3, 4), str(tree2())),
        *(given, part.call_wrapped(7), with_list.call_wrapped([7])),
        util.flatten_axes("axes", ns.tree.structure((1, (2, 3))), (0, None)),
        util.donation_vector((0,), ("k",), ns.tree.structure((((1, 5), 2), {"k": 3, "l": 4}))),
        util.rebase_donate_argnums((1, 3), (0, 2)),
        util.safe_map(lambda a, b: a - b, [3, 4], (1, 2)),
    ]


def test_linear_util_and_api_util_match_jax():
    assert linear_util.WrappedFun is their_linear_util.WrappedFun
    assert outcomes(minijax, linear_util) == outcomes(jax, their_linear_util)
