"""Functions of arrays that are divided over devices, each to be run in every mode on every mesh by ``matrix``.

A program is ``of(ns, *arguments)``, over either library's names. An argument is written as its dimensions, each with
the axes of the mesh that divide it: ``"8@x 16@y"`` has shape (8, 16) and lies as ``P("x", "y")``; a letter before it
tells what it holds (``"i:8@xy"`` integers, ``b`` truth values, ``h`` bfloat16, ``c`` complex numbers, ``k`` random
keys, ``p`` positive definite matrices). A mesh of one axis has no ``y``, which then divides nothing.

What depends on the mode is asked of ``ns`` (``matrix.Names``): ``psum``, ``psum_scatter`` and ``gathered`` communicate
inside ``shard_map`` and give their argument as it is elsewhere; ``out`` is the option that says where a result
lies where types say that, and none elsewhere; ``vary`` makes a fresh value one that is divided so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Program(NamedTuple):
    """A function of a namespace and arrays, and how its arguments are written."""

    of: Callable[..., Any]
    arguments: tuple[str, ...]
    donated: tuple[int, ...] = ()


PROGRAMS: dict[str, Program] = {}


def program(name: str, *arguments: str, of: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Note a program under ``name``; without ``of`` the function is decorated."""

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        assert name not in PROGRAMS, name
        PROGRAMS[name] = Program(function, arguments, **options)
        return function

    return note(of) if of else note


XY = "8@x 16@y"
ROWS = "8@x 16"

# Element by element, and broadcasting.
program("a chain", XY, of=lambda ns, x: ns.jnp.tanh(ns.jnp.sin(x) * 2.0 + ns.jnp.exp(-x)))
program("alike", XY, XY, of=lambda ns, x, y: x * y + ns.jnp.arctan2(x, y))
program("with a whole one", XY, "8 16", of=lambda ns, x, w: (x + w if ns.mode != "shard_map" else x * w.sum()))
program("divided otherwise", ROWS, "8 16@x", of=lambda ns, x, y: x + y)
program("a row", XY, "16@y", of=lambda ns, x, row: x * row + 1)
program("a column", XY, "8@x 1", of=lambda ns, x, column: x / column)
program("a scalar", XY, "", of=lambda ns, x, s: x**2 * s)
program("both over one dimension", "16@xy 4", of=lambda ns, x: ns.jnp.sqrt(x) - x)
program("integers", "i:8@x 16@y", of=lambda ns, x: (x // 3 + x % 5, x << 1, -x))
program("truth values", "b:8@x 16", "b:8@x 16", of=lambda ns, a, b: (a & ~b, ns.jnp.all(a, 1), ns.jnp.any(b, 1)))
program("bfloat16", "h:8@x 16", "h:16 8@y", of=lambda ns, x, w: (x @ w, x.sum(1), x * 2))
program("complex numbers", "c:8@x 16@y", of=lambda ns, x: (x * ns.jnp.conj(x), ns.jnp.abs(x)))
program("conditions", XY, of=lambda ns, x: ns.jnp.where(x > 0.5, x * x, ns.jnp.clip(x, 0.2, 0.4)))
program("conversions", XY, of=lambda ns, x: (x.astype("int32"), x.astype("float16"), x > 0.5))

# Products: which dimensions are divided.
program("product, rows divided", ROWS, "16 8", of=lambda ns, x, w: x @ w)
program("product, columns divided", "8 16", "16 8@x", of=lambda ns, x, w: x @ w)
program("product, rows and columns", ROWS, "16 8@y", of=lambda ns, x, w: x @ w)
program(
    "product over what is divided",
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
program(
    "product in a grid",
    "8@x 16@y",
    "16@y 8",
    of=lambda ns, x, w: ns.psum(ns.jnp.matmul(x, w, **ns.out("x", "-")), "y"),
)
program("product, not said where", "8 16@x", "16@x 8", of=lambda ns, x, w: x @ w)
program("product, one side divided", "8 16@x", "16 8", of=lambda ns, x, w: ns.gathered(x, "x", 1) @ w)
program("product, gathered weights", ROWS, "16@x 8", of=lambda ns, x, w: ns.jnp.sin(x @ ns.gathered(w, "x", 0)))
program("product, one axis twice", ROWS, "16 8@x", of=lambda ns, x, w: x @ w)
program("product of batches", "8@x 4 4", "8@x 4 2", of=lambda ns, x, y: x @ y)
program("product, batch and rows", "8@x 8@y 4", "8@x 4 2", of=lambda ns, x, y: ns.jnp.matmul(x, y))
program("product with a vector", XY, "16@y", of=lambda ns, x, v: ns.jnp.dot(x, v, **ns.out("x")))
program("row by row", ROWS, ROWS, of=lambda ns, x, y: ns.jnp.einsum("ij,ij->i", x, y))
program("rows by rows", ROWS, "8@y 16", of=lambda ns, x, y: ns.jnp.einsum("ij,kj->ik", x, y))
program("outer", "8@x", "8@y", of=lambda ns, x, y: ns.jnp.outer(x, y))
program(
    "three factors", ROWS, "16 8", "8 4@y", of=lambda ns, x, a, b: ns.jnp.einsum("ij,jk,kl->il", x, a, b)
)

# Reductions.
program("sums of rows", ROWS, of=lambda ns, x: x.sum(1))
program("sums over what is divided", XY, of=lambda ns, x: (ns.psum(x.sum(0), "x"), ns.psum(x.sum(1), "y")))
program("the sum of all", XY, of=lambda ns, x: ns.psum(ns.jnp.sin(x).sum(), "xy"))
program("the sum of all rows", ROWS, of=lambda ns, x: ns.psum(ns.jnp.sin(x).sum(), "xy"))
program("extremes", XY, of=lambda ns, x: (x.max(1), x.min(0), ns.jnp.max(x)))
program("mean and deviation", XY, of=lambda ns, x: (x.mean(1), ns.jnp.std(x, 0), ns.jnp.var(x, 1)))
program("products of all", ROWS, of=lambda ns, x: (ns.jnp.prod(x + 0.5, 1), ns.jnp.prod(x + 0.5, 0)))
program("argmax", XY, of=lambda ns, x: (ns.jnp.argmax(x, 1), ns.jnp.argmin(x, 0)))
program("logsumexp", XY, of=lambda ns, x: ns.lib("scipy.special").logsumexp(x, 1))
program("cumulative, along a whole one", ROWS, of=lambda ns, x: (ns.jnp.cumsum(x, 1), ns.lax.cummax(x, 1)))
program("cumulative, along a divided one", ROWS, of=lambda ns, x: (ns.jnp.cumsum(x, 0), ns.lax.cumlogsumexp(x, 0)))
program("norms", XY, of=lambda ns, x: ns.jnp.linalg.norm(x, axis=1))

# Shapes.
program("transposed", XY, of=lambda ns, x: (x.T * 2, ns.jnp.swapaxes(x, 0, 1)))
program("permuted", "8@x 4 8@y", of=lambda ns, x: ns.jnp.transpose(x, (2, 0, 1)))
program("merged", "8@x 4", of=lambda ns, x: x.reshape(-1))
program("merged, inner divided", "4 8@x", of=lambda ns, x: x.reshape(-1))
program("split", "16@x 4", of=lambda ns, x: x.reshape(x.shape[0] // 2, 2, 4) if x.shape[0] > 2 else x[:, None])
program("reshaped beside", "8@x 4 4", of=lambda ns, x: x.reshape(x.shape[0], 16) * 3)
program("ones put in", XY, of=lambda ns, x: (x[:, None], ns.jnp.squeeze(x[None], 0), x[..., None, :]))
program("concatenated beside", ROWS, ROWS, of=lambda ns, x, y: ns.jnp.concatenate([x, y * 2], 1))
program("concatenated along", ROWS, ROWS, of=lambda ns, x, y: ns.jnp.concatenate([x, y * 2], 0))
program("stacked", XY, XY, of=lambda ns, x, y: (ns.jnp.stack([x, y]), ns.jnp.stack([x, y], 1)))
program("padded beside", ROWS, of=lambda ns, x: ns.jnp.pad(x, ((0, 0), (1, 2))))
program("padded along", ROWS, of=lambda ns, x: ns.jnp.pad(x, ((4, 4), (0, 0)), constant_values=2.0))
program("sliced beside", ROWS, of=lambda ns, x: (x[:, 2:6], x[:, ::3], x[:, 1]))
program("sliced along", "16@x 4", of=lambda ns, x: x[: x.shape[0] // 2])
program("reversed", XY, of=lambda ns, x: (ns.jnp.flip(x, 1), ns.lax.rev(x, (0,))))
program("broadcast", "8@x", of=lambda ns, x: ns.jnp.broadcast_to(x, (4, *x.shape)) + 0.0)
program("rolled", ROWS, of=lambda ns, x: ns.jnp.roll(x, 1, 1))
program("repeated", ROWS, of=lambda ns, x: (ns.jnp.tile(x, (1, 2)), ns.jnp.repeat(x, 2, axis=1)))
program("divided in two", ROWS, of=lambda ns, x: tuple(ns.jnp.split(x, 2, axis=1)))
program("numbered", ROWS, of=lambda ns, x: x * ns.jnp.arange(16.0) + ns.lax.iota("float32", 16))
program("a triangle", "8@x 16 16", of=lambda ns, x: x * ns.jnp.tril(ns.jnp.ones((16, 16))) + ns.jnp.eye(16))
program("like it", XY, of=lambda ns, x: (ns.jnp.zeros_like(x) + x, ns.jnp.full_like(x, 3.0)))

# Indices.
program("rows of a table", "16 8", "i:8@x", of=lambda ns, t, i: t.at[i].get(**ns.out("x", "-")))
program("rows of a table, not said where", "16 8", "i:8@x", of=lambda ns, t, i: t[i])
program("along each row", ROWS, "i:8@x 4", of=lambda ns, x, i: ns.jnp.take_along_axis(x, i, axis=1))
program("added at", "16 8", "i:8", "8 8", of=lambda ns, t, i, u: t.at[i].add(u))
program("added at, updates divided", "16 8", "i:8@x", "8@x 8", of=lambda ns, t, i, u: t.at[i].add(u))
program("a column set", ROWS, of=lambda ns, x: x.at[:, 0].set(1.0))
program("a row multiplied", ROWS, of=lambda ns, x: x.at[0].multiply(3.0))
program("a dynamic slice", ROWS, "i:", of=lambda ns, x, i: ns.lax.dynamic_slice_in_dim(x, i, 4, 1))
program(
    "a dynamic update", ROWS, "8@x 2", "i:", of=lambda ns, x, u, i: ns.lax.dynamic_update_slice_in_dim(x, u, i, 1)
)
program("one hot", "i:8@x", of=lambda ns, i: ns.nn.one_hot(i, 16))
program("sorted", ROWS, of=lambda ns, x: (ns.jnp.sort(x, 1), ns.jnp.argsort(x, 1)))
program("sorted along", ROWS, of=lambda ns, x: ns.jnp.sort(x, 0))
program("the largest", ROWS, of=lambda ns, x: ns.lax.top_k(x, 3))

# Windows, transforms, linear algebra.
program(
    "convolution",
    "8@x 3 8 8",
    "4 3 3 3",
    of=lambda ns, x, w: ns.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
)
program(
    "pooled",
    "8@x 8 8",
    of=lambda ns, x: ns.lax.reduce_window(x, -ns.jnp.inf, ns.lax.max, (1, 2, 2), (1, 2, 2), "VALID"),
)
program("fft", "8@x 16", of=lambda ns, x: ns.jnp.abs(ns.jnp.fft.rfft(x)))
program("cholesky", "p:8@x 4 4", of=lambda ns, x: ns.jnp.linalg.cholesky(x))
program("solve", "p:8@x 4 4", "8@x 4 2", of=lambda ns, a, b: ns.jnp.linalg.solve(a, b))
program(
    "triangular solve",
    "p:8@x 4 4",
    "8@x 4 2",
    of=lambda ns, a, b: ns.lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
)
program("eigenvalues", "p:8@x 4 4", of=lambda ns, a: ns.jnp.linalg.eigvalsh(a))
program("determinant", "p:4 4", of=lambda ns, a: ns.jnp.linalg.slogdet(a)[1])

# Control flow.
program(
    "scan",
    "4 8@x",
    of=lambda ns, x: ns.lax.scan(lambda c, r: (ns.jnp.tanh(c + r), c * r), ns.jnp.zeros_like(x[0]), x),
)
program(
    "scan along what is divided",
    ROWS,
    of=lambda ns, x: ns.lax.scan(lambda c, r: (c + ns.jnp.sin(r), c.sum()), ns.vary(ns.jnp.zeros(16), "x"), x),
)
program(
    "scan of layers",
    ROWS,
    "3 16 16",
    of=lambda ns, x, w: ns.lax.scan(lambda c, w: (ns.jnp.tanh(c @ w), None), x, w)[0],
)
program("cond", XY, "b:", of=lambda ns, x, p: ns.lax.cond(p, lambda y: ns.jnp.sin(y), lambda y: y * 2, x))
program("switch", XY, "i:", of=lambda ns, x, i: ns.lax.switch(i, [ns.jnp.sin, ns.jnp.cos, lambda y: y * y], x))
program(
    "while",
    ROWS,
    of=lambda ns, x: ns.lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, ns.jnp.sin(c[1])), (0, ns.lax.stop_gradient(x))
    ),
)
program("fori", XY, of=lambda ns, x: ns.lax.fori_loop(0, 3, lambda i, y: ns.jnp.sin(y) + i, x))
program("map", "4 8@x", of=lambda ns, x: ns.lax.map(lambda r: ns.jnp.sin(r) * 2, x))
program("associative scan", ROWS, of=lambda ns, x: ns.lax.associative_scan(ns.jnp.add, x, axis=1))

# Functions of functions.
program("jit inside", XY, of=lambda ns, x: ns.jit(lambda y: ns.jnp.sin(y) * 2)(x) + 1)
program("checkpoint", XY, of=lambda ns, x: ns.checkpoint(lambda y: ns.jnp.sin(ns.jnp.sin(y)))(x))
program("relu", XY, of=lambda ns, x: ns.nn.relu(x - 0.5))
program("gelu and silu", XY, of=lambda ns, x: ns.nn.gelu(x) + ns.nn.silu(x))
program("gradient inside", XY, of=lambda ns, x: ns.grad(lambda y: (ns.jnp.sin(y) * y).sum())(x))
program("tangent inside", XY, XY, of=lambda ns, x, t: ns.jvp(lambda y: ns.jnp.sin(y) * y, (x,), (t,)))
program("vmap", ROWS, of=lambda ns, x: ns.vmap(lambda r: ns.jnp.sin(r) * r.sum())(x))
program("vmap of products", "8@x 4 4", "4", of=lambda ns, x, v: ns.vmap(lambda m: m @ v)(x))
program("vmap along columns", XY, of=lambda ns, x: ns.vmap(lambda c: c * 2, in_axes=1, out_axes=1)(x))
program("second derivative", "8@x", of=lambda ns, x: ns.vmap(ns.grad(ns.grad(lambda t: ns.jnp.sin(t) * t)))(x))
program("stopped", XY, of=lambda ns, x: x * ns.lax.stop_gradient(ns.jnp.sin(x)))
program("linearized", XY, of=lambda ns, x: ns.linearize(ns.jnp.sin, x)[1](x))


@program("custom jvp", XY)
def _custom_jvp(ns: Any, x: Any) -> Any:
    @ns.custom_jvp
    def f(x: Any) -> Any:
        return ns.jnp.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), 2.0 * ns.jnp.cos(primals[0]) * tangents[0]))
    return f(x)


@program("custom vjp", XY)
def _custom_vjp(ns: Any, x: Any) -> Any:
    @ns.custom_vjp
    def f(x: Any) -> Any:
        return ns.jnp.sin(x)

    f.defvjp(lambda x: (ns.jnp.sin(x), x), lambda x, g: (2.0 * g * ns.jnp.cos(x),))
    return f(x)


# Random numbers.
program("drawn of one key", "k:", ROWS, of=lambda ns, k, x: x + ns.random.normal(k, (16,)))
program("a key each", "k:8@x", of=lambda ns, k: ns.vmap(lambda key: ns.random.uniform(key, (4,)))(k))
program("keys split", "k:", of=lambda ns, k: ns.random.split(k, 4))
program("dropout", ROWS, "k:", of=lambda ns, x, k: ns.jnp.where(ns.random.bernoulli(k, 0.5, (16,)), x * 2, 0.0))
program("keys handed on", "k:8@x", of=lambda ns, k: (k, ns.vmap(ns.random.split)(k)))


# Parts of neural networks.
def layer_norm(ns: Any, x: Any, scale: Any) -> Any:
    """Rows with mean 0 and variance 1."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * ns.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale


def attention(ns: Any, q: Any, k: Any, v: Any) -> Any:
    """Batches of heads of queries, keys and values, each (batch, length, heads, width)."""
    scores = ns.jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2.0
    return ns.jnp.einsum("bhqk,bkhd->bqhd", ns.nn.softmax(scores), v)


def cross_entropy(ns: Any, logits: Any, labels: Any) -> Any:
    """The mean over all rows of the batch."""
    each = -(ns.nn.one_hot(labels, 16) * ns.nn.log_softmax(logits)).sum(-1)
    return ns.psum(each.sum(), "x") / 8


HEADS = "8@x 4 8@y 4"
program("layer norm", ROWS, "16", of=layer_norm)
program("layer norm of what is divided", XY, "16@y", of=layer_norm)
program("softmax", ROWS, of=lambda ns, x: ns.nn.softmax(x))
program("softmax of what is divided", XY, of=lambda ns, x: ns.nn.softmax(x, axis=1))
program("attention", HEADS, HEADS, HEADS, of=attention)
program(
    "MLP",
    ROWS,
    "16 8@y",
    "8@y 16",
    of=lambda ns, x, a, b: ns.psum(ns.jnp.matmul(ns.nn.relu(x @ a), b, **ns.out("x", "-")), "y"),
)
program("loss", ROWS, "i:8@x", of=cross_entropy)
program(
    "a step of training",
    "16",
    ROWS,
    "8@x",
    of=lambda ns, w, x, y: w - 0.1 * ns.grad(lambda w: ns.psum(((x @ w - y) ** 2).sum(), "x") / 8)(w),
)
program("batch norm", ROWS, of=lambda ns, x: (x - ns.psum(x.sum(0), "x") / 8) * 2)

# Trees, and what is handed on.
program("a tree of results", XY, "8@x", of=lambda ns, x, y: {"s": x.sum(1) + y, "t": (x, [y * 2]), "n": None})
program("handed on", XY, "8@x", of=lambda ns, x, y: (y, x, x))
program("one unused", XY, "8@x", of=lambda ns, x, y: x + 1)
program("a constant", XY, of=lambda ns, x: (x * 2, ns.jnp.arange(4), 3.0))
program("donated", XY, of=lambda ns, x: x + 1, donated=(0,))
program("a constraint", XY, of=lambda ns, x: ns.placed(ns.jnp.sin(x), "y", "-") * 2)
program("a constraint on a column", ROWS, of=lambda ns, x: ns.placed(x @ x.T if ns.mode == "auto" else x * 2, "-", "x"))
program("does not fit", ROWS, "16 4", of=lambda ns, x, y: x + y)
program("no whole number", ROWS, of=lambda ns, x: x.reshape(3, -1))
