"""Functions of sharded arrays; ``matrix`` runs each in every mode on every mesh.

A program is ``of(ns, *arguments)``, over either library's names. An argument is written as its dimensions, each with
the mesh axes that shard it: ``"8@x 16@y"`` has shape (8, 16) and sharding ``P("x", "y")``. A letter before the
dimensions is the kind of the elements (``"i:8@xy"`` integers, ``b`` booleans, ``h`` bfloat16, ``c`` complex numbers,
``k`` random keys, ``p`` positive definite matrices). On a mesh of one axis, ``y`` shards nothing.

``ns`` (``matrix.Names``) has functions that depend on the mode: ``psum`` and ``psum_scatter`` communicate
inside ``shard_map`` and return their argument elsewhere; ``out`` is the ``out_sharding`` option in explicit mode,
and empty elsewhere; ``vary`` marks a new value as varying inside ``shard_map``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Program(NamedTuple):
    """``of``: a function of a namespace and arrays. ``arguments``: the texts of its arguments."""

    of: Callable[..., Any]
    arguments: tuple[str, ...]
    donated: tuple[int, ...] = ()


PROGRAMS: dict[str, Program] = {}


def program(name: str, *arguments: str, of: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Register a program under ``name``. Without ``of``, return a decorator that registers its function."""

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        assert name not in PROGRAMS, name
        PROGRAMS[name] = Program(function, arguments, **options)
        return function

    return note(of) if of else note


XY = "8@x 16@y"
ROWS = "8@x 16"

# Elementwise operations, and broadcasting.
program("a chain", XY, of=lambda ns, x: ns.jnp.tanh(ns.jnp.sin(x) * 2.0 + ns.jnp.exp(-x)))
program("alike", XY, XY, of=lambda ns, x, y: x * y + ns.jnp.arctan2(x, y))
program("different shardings", ROWS, "8 16@x", of=lambda ns, x, y: x + y)
program("a row", XY, "16@y", of=lambda ns, x, row: x * row + 1)
program("both over one dimension", "16@xy 4", of=lambda ns, x: ns.jnp.sqrt(x) - x)
program("truth values", "b:8@x 16", "b:8@x 16", of=lambda ns, a, b: (a & ~b, ns.jnp.all(a, 1), ns.jnp.any(b, 1)))
program("bfloat16", "h:8@x 16", "h:16 8@y", of=lambda ns, x, w: (x @ w, x.sum(1), x * 2))
program("complex numbers", "c:8@x 16@y", of=lambda ns, x: (x * ns.jnp.conj(x), ns.jnp.abs(x)))

# Products; the names say which dimensions are sharded.
program("product, rows sharded", ROWS, "16 8", of=lambda ns, x, w: x @ w)
program(
    "product over a sharded dimension",
    "8 16@x",
    "16@x 8",
    of=lambda ns, x, w: ns.psum(ns.jnp.matmul(x, w, **ns.out("-", "-")), "x"),
)
program(
    "product, scattered",
    "8 16@x",
    "16@x 8",
    of=lambda ns, x, w: ns.psum_scatter(ns.jnp.matmul(x, w, **ns.out("x", "-")), "x"),
)
program("product without out_sharding", "8 16@x", "16@x 8", of=lambda ns, x, w: x @ w)
program("product, one axis twice", ROWS, "16 8@x", of=lambda ns, x, w: x @ w)
program("row by row", ROWS, ROWS, of=lambda ns, x, y: ns.jnp.einsum("ij,ij->i", x, y))
program("three factors", ROWS, "16 8", "8 4@y", of=lambda ns, x, a, b: ns.jnp.einsum("ij,jk,kl->il", x, a, b))

# Reductions.
program("sums over sharded dimensions", XY, of=lambda ns, x: (ns.psum(x.sum(0), "x"), ns.psum(x.sum(1), "y")))
program("extremes", XY, of=lambda ns, x: (x.max(1), x.min(0), ns.jnp.max(x)))
program("mean and deviation", XY, of=lambda ns, x: (x.mean(1), ns.jnp.std(x, 0), ns.jnp.var(x, 1)))
program("argmax", XY, of=lambda ns, x: (ns.jnp.argmax(x, 1), ns.jnp.argmin(x, 0)))
program("logsumexp", XY, of=lambda ns, x: ns.lib("scipy.special").logsumexp(x, 1))
program("cumulative, along a whole one", ROWS, of=lambda ns, x: (ns.jnp.cumsum(x, 1), ns.lax.cummax(x, 1)))
program("cumulative, along a sharded one", ROWS, of=lambda ns, x: (ns.jnp.cumsum(x, 0), ns.lax.cumlogsumexp(x, 0)))

# Shapes.
program("transposed", XY, of=lambda ns, x: (x.T * 2, ns.jnp.swapaxes(x, 0, 1)))
program("merged", "8@x 4", of=lambda ns, x: x.reshape(-1))
program("concatenated along a whole dimension", ROWS, ROWS, of=lambda ns, x, y: ns.jnp.concatenate([x, y * 2], 1))
program("padded along", ROWS, of=lambda ns, x: ns.jnp.pad(x, ((4, 4), (0, 0)), constant_values=2.0))
program("sliced along", "16@x 4", of=lambda ns, x: x[: x.shape[0] // 2])
program("reversed", XY, of=lambda ns, x: (ns.jnp.flip(x, 1), ns.lax.rev(x, (0,))))
program("repeated", ROWS, of=lambda ns, x: (ns.jnp.tile(x, (1, 2)), ns.jnp.repeat(x, 2, axis=1)))
program("zeros_like and full_like", XY, of=lambda ns, x: (ns.jnp.zeros_like(x) + x, ns.jnp.full_like(x, 3.0)))

# Indices.
program("rows of a table", "16 8", "i:8@x", of=lambda ns, t, i: t.at[i].get(**ns.out("x", "-")))
program("along each row", ROWS, "i:8@x 4", of=lambda ns, x, i: ns.jnp.take_along_axis(x, i, axis=1))
program("added at", "16 8", "i:8", "8 8", of=lambda ns, t, i, u: t.at[i].add(u))
program("a column set", ROWS, of=lambda ns, x: x.at[:, 0].set(1.0))
program("a row multiplied", ROWS, of=lambda ns, x: x.at[0].multiply(3.0))
program("a dynamic update", ROWS, "8@x 2", "i:", of=lambda ns, x, u, i: ns.lax.dynamic_update_slice_in_dim(x, u, i, 1))
program("one hot", "i:8@x", of=lambda ns, i: ns.nn.one_hot(i, 16))
program("sorted", ROWS, of=lambda ns, x: (ns.jnp.sort(x, 1), ns.jnp.argsort(x, 1)))
program("the largest", ROWS, of=lambda ns, x: ns.lax.top_k(x, 3))

# Windows, transforms, linear algebra.
program(
    "convolution",
    "8@x 3 8 8",
    "4 3 3 3",
    of=lambda ns, x, w: ns.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
)
program("fft", "8@x 16", of=lambda ns, x: ns.jnp.abs(ns.jnp.fft.rfft(x)))
program("cholesky", "p:8@x 4 4", of=lambda ns, x: ns.jnp.linalg.cholesky(x))
program("solve", "p:8@x 4 4", "8@x 4 2", of=lambda ns, a, b: ns.jnp.linalg.solve(a, b))
program("determinant", "p:4 4", of=lambda ns, a: ns.jnp.linalg.slogdet(a)[1])

# Control flow.
program(
    "scan",
    "4 8@x",
    of=lambda ns, x: ns.lax.scan(lambda c, r: (ns.jnp.tanh(c + r), c * r), ns.jnp.zeros_like(x[0]), x),
)
program(
    "scan along a sharded dimension",
    ROWS,
    of=lambda ns, x: ns.lax.scan(lambda c, r: (c + ns.jnp.sin(r), c.sum()), ns.vary(ns.jnp.zeros(16), "x"), x),
)
program("cond", XY, "b:", of=lambda ns, x, p: ns.lax.cond(p, lambda y: ns.jnp.sin(y), lambda y: y * 2, x))
program(
    "while",
    ROWS,
    of=lambda ns, x: ns.lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, ns.jnp.sin(c[1])), (0, ns.lax.stop_gradient(x))
    ),
)
program("associative scan", ROWS, of=lambda ns, x: ns.lax.associative_scan(ns.jnp.add, x, axis=1))

# Functions of functions.
program("checkpoint", XY, of=lambda ns, x: ns.checkpoint(lambda y: ns.jnp.sin(ns.jnp.sin(y)))(x))
program("relu", XY, of=lambda ns, x: ns.nn.relu(x - 0.5))
program("gradient inside", XY, of=lambda ns, x: ns.grad(lambda y: (ns.jnp.sin(y) * y).sum())(x))
program("vmap", ROWS, of=lambda ns, x: ns.vmap(lambda r: ns.jnp.sin(r) * r.sum())(x))
program("linearized", XY, of=lambda ns, x: ns.linearize(ns.jnp.sin, x)[1](x))


@program("custom vjp", XY)
def _custom_vjp(ns: Any, x: Any) -> Any:
    @ns.custom_vjp
    def f(x: Any) -> Any:
        return ns.jnp.sin(x)

    f.defvjp(lambda x: (ns.jnp.sin(x), x), lambda x, g: (2.0 * g * ns.jnp.cos(x),))
    return f(x)


# Random numbers.
program("drawn from one key", "k:", ROWS, of=lambda ns, k, x: x + ns.random.normal(k, (16,)))
program("a key for each row", "k:8@x", of=lambda ns, k: ns.vmap(lambda key: ns.random.uniform(key, (4,)))(k))
program("keys split", "k:", of=lambda ns, k: ns.random.split(k, 4))


# Parts of neural networks.
def attention(ns: Any, q: Any, k: Any, v: Any) -> Any:
    """Attention with batches of heads: queries, keys and values have shape (batch, length, heads, width)."""
    scores = ns.jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2.0
    return ns.jnp.einsum("bhqk,bkhd->bqhd", ns.nn.softmax(scores), v)


HEADS = "8@x 4 8@y 4"
program("softmax along a sharded dimension", XY, of=lambda ns, x: ns.nn.softmax(x, axis=1))
program("attention", HEADS, HEADS, HEADS, of=attention)
program(
    "MLP",
    ROWS,
    "16 8@y",
    "8@y 16",
    of=lambda ns, x, a, b: ns.psum(ns.jnp.matmul(ns.nn.relu(x @ a), b, **ns.out("x", "-")), "y"),
)

# Trees, and forwarded values.
program("a tree of results", XY, "8@x", of=lambda ns, x, y: {"s": x.sum(1) + y, "t": (x, [y * 2]), "n": None})
program("donated", XY, of=lambda ns, x: x + 1, donated=(0,))
program("a constraint", XY, of=lambda ns, x: ns.placed(ns.jnp.sin(x), "y", "-") * 2)
program("shapes that do not fit", ROWS, "16 4", of=lambda ns, x, y: x + y)
program("reshape to a size that is not an integer", ROWS, of=lambda ns, x: x.reshape(3, -1))
