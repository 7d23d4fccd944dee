"""Programs whose cotangents are known: from JAX, as the gradient by what is added to each variable."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy
import numpy as np

import minijax
import minijax.numpy as jnp
from minijax import lax

W1 = np.linspace(-0.5, 0.7, 6, dtype=np.float32).reshape(2, 3)
W2 = np.linspace(0.3, -0.4, 3, dtype=np.float32)
X = np.linspace(-1.0, 1.0, 8, dtype=np.float32).reshape(4, 2)


def used_twice(x):
    a = jnp.sin(x)
    b = a * x
    c = a + b
    return c * a


def mlp(w1, w2):
    a = X @ w1
    h = jnp.tanh(a)
    y = h @ w2
    return jnp.mean(y * y)


def shapes(v):
    rows = jnp.reshape(v, (3, 2))
    turned = rows.T
    part = turned[1, :]
    both = jnp.concatenate([part, v])
    return jnp.sum(both * both)


def branches(x):
    s = jnp.cos(x)
    r = lax.cond(x > 0.0, lambda s: s * s, lambda s: -s, s)
    return r * x


def inner(v):
    s = jnp.sin(v)
    return jnp.sum(s * v)


def nested(v):
    u = v * 2.0
    q = minijax.jit(inner)(u)
    return q * q


def looped(x):
    start = jnp.sin(x)
    end = lax.fori_loop(0, 3, lambda i, c: jnp.cos(c) * x, start)
    return end * start


VECTOR = np.linspace(-0.6, 0.9, 6, dtype=np.float32)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "used_twice": (used_twice, (0.7,)),
    "mlp": (mlp, (W1, W2)),
    "shapes": (shapes, (VECTOR,)),
    "branches": (branches, (0.4,)),
    "nested": (nested, (VECTOR,)),
    "looped": (looped, (0.4,)),
}


class _Added(ast.NodeTransformer):
    """Passes what each variable is given through ``added``."""

    def visit_Assign(self, node: ast.Assign) -> Any:
        (target,) = node.targets
        assert isinstance(target, ast.Name)
        return [node, *ast.parse(f"{target.id} = added({target.id!r}, {target.id})").body]


def oracle(fun: Callable[..., Any], args: tuple[Any, ...]) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Of each variable of ``fun`` the gradient that JAX finds by what is added to it; and those of the arguments."""
    place: dict[str, Any] = {"jnp": jax.numpy, "lax": jax.lax, "minijax": jax, "X": X}
    exec(inspect.getsource(inner), place)
    tree = _Added().visit(ast.parse(inspect.getsource(fun)))
    exec(compile(ast.fix_missing_locations(tree), "<added>", "exec"), place)
    zeros: dict[str, Any] = {}

    def noted(name: str, value: Any) -> Any:
        zeros[name] = jax.numpy.zeros_like(value)
        return value

    def perturbed(eps: dict[str, Any], *args: Any) -> Any:
        place["added"] = lambda name, value: value + eps[name]
        return place[fun.__name__](*args)

    place["added"] = noted
    place[fun.__name__](*args)
    found, *rest = jax.grad(perturbed, tuple(range(len(args) + 1)))(zeros, *args)
    return found, tuple(rest)
