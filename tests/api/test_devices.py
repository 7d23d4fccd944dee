"""Arrays that are committed to one of two devices. The devices of results, and the errors, are compared with JAX's.

A row of ``RESULTS`` is a program of one array. It runs on an array committed to the second device, on one committed
to the first, and on an uncommitted one. A row of ``MIXED`` takes an array on each device.
"""

import copy
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy
import numpy as np
import pytest

import minijax
from minijax.backend import pjrt

pytestmark = [
    pytest.mark.skipif(len(jax.devices()) < 2, reason="needs two devices"),
    pytest.mark.usefixtures("compiled_quickly"),
]

X = np.arange(3, dtype=np.float32) + 1
PLACES = {"second": 1, "first": 0, "anywhere": None}

Program = Callable[[Any, Any], Any]


@pytest.fixture(autouse=True)
def one_device_again():
    yield
    pjrt.others_in_use = False


def array(ns, place):
    x = ns.numpy.asarray(X)
    return x if place is None else ns.device_put(x, ns.devices()[place])


def custom(ns):
    f = ns.custom_jvp(lambda x: x * 2)
    f.defjvp(lambda primals, tangents: (f(primals[0]), tangents[0] * 2))
    return f


def over_a_large_array(ns):
    table = ns.numpy.ones((3, 20_000))
    return ns.jit(lambda x: (x[:, None] * table).sum(1))


RESULTS = {
    "itself": lambda ns, x: x,
    "scalar": lambda ns, x: (x + 1, 1.0 + x, x**2, -x),
    "numpy_operand": lambda ns, x: x + X,
    "like": lambda ns, x: [getattr(ns.numpy, f"{name}_like")(x) for name in ("zeros", "ones", "empty")],
    "copies": lambda ns, x: (ns.numpy.array(x), ns.numpy.asarray(x), x.astype("int32"), copy.deepcopy(x)),
    "jit": lambda ns, x: ns.jit(lambda a: a * 2)(x),
    "jit_that_ignores_it": lambda ns, x: ns.jit(lambda a, b: b * 2)(x, 1.0),
    "jit_that_closes_over_it": lambda ns, x: ns.jit(lambda a: a * x)(1.0),
    "jit_that_closes_over_much": lambda ns, x: [f(x) for f in [over_a_large_array(ns)] for _ in range(2)],
    "grad": lambda ns, x: ns.grad(lambda a: (a * a).sum())(x),
    "vmap": lambda ns, x: ns.vmap(lambda a, b: ns.numpy.sin(a) * b, in_axes=(0, None))(x, 2.0),
    "scan": lambda ns, x: ns.lax.scan(lambda c, a: (c + a, c), 0.0, x),
    "custom_jvp": lambda ns, x: (custom(ns)(x), ns.grad(lambda a: custom(ns)(a).sum())(x)),
    "pure_callback": lambda ns, x: ns.pure_callback(np.asarray, ns.ShapeDtypeStruct((3,), "float32"), x),
    "put": lambda ns, x: [ns.device_put(x, d) for d in (None, *ns.devices()[:2])],
    "to_device": lambda ns, x: x.to_device(ns.devices()[1]),
    "creation": lambda ns, x: [
        f(device=ns.devices()[1])
        for f in (
            lambda **kw: ns.numpy.zeros(3, **kw),
            lambda **kw: ns.numpy.full(3, 2.0, **kw),
            lambda **kw: ns.numpy.arange(3, **kw),
            lambda **kw: ns.numpy.array([1.0], **kw),
            lambda **kw: ns.numpy.asarray([1.0], **kw),
            lambda **kw: ns.numpy.linspace(0, 1, 3, **kw),
            lambda **kw: ns.numpy.eye(3, **kw),
            lambda **kw: ns.numpy.zeros_like(x, **kw),
        )
    ],
    "lowered": lambda ns, x: ns.jit(lambda a: a * 2).lower(x).compile()(x),
    "donated": lambda ns, x: (ns.jit(lambda a: a + 1, donate_argnums=0)(x), ns.numpy.asarray(x.is_deleted())),
}

MIXED = {
    "add": lambda ns, x, y: x + y,
    "index": lambda ns, x, y: x[y.astype("int32")],
    "jit": lambda ns, x, y: ns.jit(lambda a, b: a + b)(x, y),
    "jit_called_before": lambda ns, x, y: [f(x, z) for f in [ns.jit(lambda a, b: a + b)] for z in (x, y)],
    "while_loop": lambda ns, x, y: ns.lax.while_loop(lambda s: s[0][0] < 3, lambda s: (s[0] + 1, s[1]), (x, y)),
    # the compiled program does not read ``y``
    "unused": lambda ns, x, y: ns.jit(lambda a, b: a * 2)(x, y),
    "closed_over": lambda ns, x, y: ns.jit(lambda a: a + y)(x),
    "lowered": lambda ns, x, y: ns.jit(lambda a: a * 2).lower(x).compile()(y),
}


def where(tree):
    """For each array in ``tree``: its devices, whether it is committed to them, and its values."""
    return [
        (sorted(d.id for d in x.devices()), x.committed, np.asarray(x, np.float64).round(4).tolist())
        for x in jax.tree_util.tree_leaves(tree)
    ]


REFUSALS = (
    "Received incompatible devices for jitted computation. Got ",
    "Computation was compiled for input shardings that disagree with the shardings of arguments passed to it",
)


def answer(program, *args):
    try:
        return where(program(*args))
    except ValueError as error:
        assert str(error).startswith(REFUSALS)
        return "refused"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", RESULTS)
def test_results_lie_on_the_same_devices_as_in_jax(name, place):
    program, at = RESULTS[name], PLACES[place]
    assert answer(program, minijax, array(minijax, at)) == answer(program, jax, array(jax, at))


@pytest.mark.parametrize("name", MIXED)
def test_operands_on_two_devices_work_or_fail_as_in_jax(name):
    program = MIXED[name]
    ours, theirs = (answer(program, ns, array(ns, 1), array(ns, 0)) for ns in (minijax, jax))
    assert ours == theirs


def test_a_program_over_a_mesh_refuses_an_argument_on_another_device():
    sharding = minijax.sharding.NamedSharding(minijax.make_mesh((1,), ("x",)), minijax.sharding.PartitionSpec("x"))
    over_mesh = minijax.device_put(X, sharding)
    compiled = minijax.jit(lambda unused, b: b * 2).lower(X, over_mesh).compile()
    assert compiled(X, over_mesh)[1] == 4
    with pytest.raises(ValueError, match="and argument 1 has the sharding SingleDevice"):
        compiled(X, array(minijax, 1))


def test_the_error_names_arguments_and_devices():
    x, y = array(minijax, 1), array(minijax, 0)
    f = minijax.jit(lambda first, rest: first + rest["y"])
    for words in (
        r"argument first of <lambda> with shape float32\[3\] and with device ids \[1\]",
        r"argument rest\['y'\] of .* device ids \[0\].* Bring them together with device_put",
    ):
        with pytest.raises(ValueError, match=words):
            f(x, {"y": y})
    with pytest.raises(ValueError, match=r"argument args\[1\] of add with shape float32\[3\]"):
        x + y
