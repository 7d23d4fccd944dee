"""Programs whose variables are compared with JAX. Each takes a library (minijax or JAX) and its NumPy module.

``reported`` runs the same source and reports the value of each variable; the tests use it on JAX.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any, NamedTuple

import numpy as np


class Ball(NamedTuple):
    at: Any
    speed: Any


def forward(lib, np_):
    def f(x):
        y = np_.sin(x)
        z = y * 2.0
        w = z - x
        return w

    return lib.jvp(f, (3.0,), (1.5,))


def gradient(lib, np_):
    def loss(params, x):
        h = np_.tanh(x @ params["w"])
        out = h @ params["v"]
        total = np_.sum(out * out)
        return total

    rng = np.random.RandomState(0)
    params = {"w": np_.array(rng.randn(3, 4).astype("f")), "v": np_.array(rng.randn(4).astype("f"))}
    return lib.grad(loss)(params, np_.array(rng.randn(5, 3).astype("f")))


def per_example(lib, np_):
    def f(a, b):
        p = a * b
        q = np_.sum(p)
        r = np_.sin(q) * a[0]
        return r

    return lib.vmap(lib.grad(f), in_axes=(0, None))(np_.arange(6.0).reshape(3, 2), np_.array([0.5, -1.0]))


def scan_in_vmap_in_jit(lib, np_):
    def step(carry, x):
        z = carry + np_.sin(x)
        return z, z * x

    def cell(c, xs):
        last, ys = lib.lax.scan(step, c, xs)
        m = np_.max(ys)
        return m

    return lib.jit(lib.vmap(cell, (0, None)))(np_.arange(3.0), np_.arange(4.0))


def while_loop(lib, np_):
    def more(state):
        ahead = state[1] > 1.0
        return ahead

    def body(state):
        i, v = state
        w = v * 0.5
        return i + 1, w

    def f(x):
        count, value = lib.lax.while_loop(more, body, (0, x))
        return value

    return lib.jvp(f, (9.0,), (1.0,))


def custom_vjp(lib, np_):
    def clipped(a):
        return a

    def forward(b):
        keep = b > 0.0
        return b, keep

    def backward(res, ct):
        given = np_.where(res, ct, 0.0)
        return (given,)

    wrapped = lib.custom_vjp(clipped)
    wrapped.defvjp(forward, backward)

    def f(x):
        y = np_.sin(x)
        z = wrapped(y) * 2.0
        return z

    return lib.grad(f)(2.0)


def custom_jvp(lib, np_):
    def g(x):
        return np_.cos(x)

    wrapped = lib.custom_jvp(g)

    def g_jvp(primals, tangents):
        (p,), (t,) = primals, tangents
        moved = -np_.sin(p) * t
        return np_.cos(p), moved

    wrapped.defjvp(g_jvp)

    def f(x):
        y = x * x
        z = wrapped(y)
        return z

    return lib.jvp(f, (0.5,), (1.0,))


def remat_in_scan(lib, np_):
    def block(s):
        t = np_.cos(s)
        u = t * s
        return u

    def step(carry, each):
        new = lib.checkpoint(block)(carry * each)
        return new, carry

    def f(c):
        last, before = lib.lax.scan(step, c, np_.array([0.5, 2.0]))
        return last

    return lib.grad(f)(np_.float32(0.75))


def custom_vjp_in_vmap_in_jit(lib, np_):
    wrapped = lib.custom_vjp(lambda a: np_.sin(a))

    def forward(u):
        kept = np_.cos(u)
        return np_.sin(u), kept

    def backward(kept, ct):
        given = ct * kept
        return (given,)

    wrapped.defvjp(forward, backward)

    def f(x):
        y = wrapped(x * 2.0)
        z = y * y
        return z

    return lib.jit(lib.vmap(lib.grad(f)))(np_.array([0.25, 0.5]))


def branches_backwards(lib, np_):
    def f(x):
        y = lib.lax.cond(x > 1.0, lambda v: np_.sin(v) * v, lambda v: v * 2.0, x)
        z = y * 3.0
        return z

    return lib.grad(f)(1.5), lib.grad(f)(0.5)


def loops_of_python(lib, np_):
    def f(x):
        total = x * 0.0
        for i in range(3):
            x = np_.sin(x) * (i + 1.0)
            total = total + x
        return total

    return lib.grad(f)(0.75)


def state_in_a_named_tuple(lib, np_):
    def step(ball, dt):
        ball = Ball(ball.at + dt * ball.speed, ball.speed - dt)
        return ball, ball.at

    def f(speed):
        start = Ball(speed * 0.0, speed)
        end, seen = lib.lax.scan(step, start, np_.array([0.5, 0.25]))
        height = end.at * end.speed
        return height

    return lib.grad(f)(2.0)


PROGRAMS = {name: each for name, each in vars().items() if inspect.isfunction(each) and each.__module__ == __name__}
# Programs that also run as programs written for JAX.
FOR_JAX = ("gradient", "scan_in_vmap_in_jit", "while_loop")
# Programs that take one derivative: the tangents or cotangents of their variables are compared with JAX's, too.
FORWARD = ("forward", "custom_jvp")
REVERSE = (
    "gradient",
    "per_example",
    "custom_vjp",
    "remat_in_scan",
    "custom_vjp_in_vmap_in_jit",
    "branches_backwards",
    "loops_of_python",
    "state_in_a_named_tuple",
)


class _Reporting(ast.NodeTransformer):
    """Inserts ``x = _report_("x", x)`` after each assignment to x, and for each argument at the beginning."""

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        names = [each.arg for each in node.args.args]
        node.body = [*[_report(name) for name in names], *node.body]
        return node

    def visit_Assign(self, node):
        targets = [each for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)]
        return [node, *[_report(each.id) for each in targets if each.id != "_"]]


def _report(name):
    return ast.parse(f"{name} = _report_({name!r}, {name})").body[0]


def reported(name, lib, np_, report):
    """Run the program ``name`` with ``lib``. Each variable ``x`` in it becomes ``report("x", x)``."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(PROGRAMS[name])))
    outer = tree.body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.body = [_Reporting().visit(each) if isinstance(each, ast.FunctionDef) else each for each in outer.body]
    scope = {**globals(), "_report_": report}
    exec(compile(ast.fix_missing_locations(tree), "<reported>", "exec", dont_inherit=True), scope)
    return scope[name](lib, np_)
