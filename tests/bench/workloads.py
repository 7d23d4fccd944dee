"""The table of rows measured in this process: every workload of the speed budgets, written once.

A workload takes a library's namespace (``ns.numpy``, ``ns.lax``, ``ns.grad``, ...) and returns a function and its
arguments. The usual function is a chain that alternates ``sin`` with multiplication by a number slightly above one.
Its values and derivatives stay normal floats at any length, and XLA cannot simplify it away.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.bench.measure import Prepare, Row, Thunk, array, primitive_counts

FACTOR = 1.00001
Function = Callable[..., Any]
Workload = Callable[[Any], tuple[Function, tuple[Any, ...]]]


def mapped(f: Function, tree: Any) -> Any:
    """``tree`` with ``f`` applied to every leaf of dicts, lists and tuples, without a library's tree functions."""
    if isinstance(tree, dict):
        return {key: mapped(f, item) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(mapped(f, item) for item in tree)
    return f(tree)


def outside(make: Workload) -> Prepare:
    """One call, outside jit, of a function that is new to the library."""

    def prepare(ns: Any) -> Thunk:
        function, arguments = make(ns)
        arguments = mapped(lambda x: ns.device_put(x) if isinstance(x, (np.ndarray, np.generic)) else x, arguments)
        return lambda: ns.block_until_ready(function(*arguments))

    return prepare


def first_call(make: Workload) -> Prepare:
    """The first call of ``jit`` of a new function: tracing, lowering, XLA and the run."""

    def prepare(ns: Any) -> Thunk:
        function, arguments = make(ns)
        arguments = mapped(ns.device_put, arguments)
        return lambda: ns.block_until_ready(ns.jit(lambda *args: function(*args))(*arguments))

    return prepare


def cached(make: Workload, calls: int, device: bool = True, fetch: bool = False) -> Prepare:
    """Calls of a compiled function on device or NumPy arrays. ``fetch``: also convert each result to NumPy."""

    def prepare(ns: Any) -> Thunk:
        function, arguments = make(ns)
        compiled = ns.jit(function)
        arguments = mapped(ns.device_put, arguments) if device else arguments

        def call_often() -> Any:
            out = None
            for _ in range(calls):
                out = compiled(*arguments)
                if fetch:
                    out = np.asarray(out)
            return out if fetch else ns.block_until_ready(out)

        call_often()
        return call_often

    return prepare


# ------------------------------------------------------------------------------------------------- chains


def jnp_chain(ns: Any, n: int) -> Function:
    """n operations as people write them: ``sin(x) * number``."""
    sin = ns.numpy.sin

    def chain(x: Any) -> Any:
        for _ in range(n // 2):
            x = sin(x) * FACTOR
        return x

    return chain


def lax_chain(ns: Any, n: int) -> Function:
    """The same chain with ``lax`` functions. They convert no arguments, so they cost little more than primitives."""
    sin, mul, factor = ns.lax.sin, ns.lax.mul, array(ns, FACTOR)

    def chain(x: Any) -> Any:
        for _ in range(n // 2):
            x = mul(sin(x), factor)
        return x

    return chain


CHAINS: dict[str, Callable[[Any, int], Function]] = {"lax": lax_chain, "jnp": jnp_chain}


def on_chain(style: str, n: int, use: Callable[[Any, Function], Function], shape: tuple[int, ...] = ()) -> Prepare:
    """The clock measures a call of the function that ``use(ns, chain)`` returns; ``chain`` has n operations."""

    def prepare(ns: Any) -> Thunk:
        function, x = use(ns, CHAINS[style](ns, n)), array(ns, np.full(shape, 0.9))
        return lambda: function(x)

    return prepare


def evaluated(ns: Any, f: Function) -> Function:
    return f


def pushed_forward(ns: Any, f: Function) -> Function:
    return lambda x: ns.jvp(f, (x,), (x,))


def differentiated(ns: Any, f: Function) -> Function:
    return lambda x: ns.grad(f)(x)


def staged(ns: Any, f: Function) -> Function:
    return lambda x: ns.make_jaxpr(f)(x)


def linearized(ns: Any, f: Function) -> Function:
    def both(x: Any) -> Any:
        value, linear = ns.linearize(f, x)
        return value, linear(x)

    return both


def twice_mapped_grad(ns: Any, f: Function) -> Function:
    return ns.vmap(ns.vmap(ns.grad(f)))


def staged_grad(ns: Any, f: Function) -> Function:
    return lambda x: ns.make_jaxpr(ns.grad(f))(x)


def staged_vmap_of_grad(ns: Any, f: Function) -> Function:
    return lambda x: ns.make_jaxpr(ns.vmap(ns.grad(f)))(x)


def lowered(ns: Any, f: Function) -> Function:
    return lambda x: ns.jit(f).lower(x)


def lowered_to_text(ns: Any, f: Function) -> Function:
    return lambda x: ns.jit(f).lower(x).as_text()


def op_counts(text: Any) -> dict[str, int]:
    """The numbers of arithmetic operations in a module. Lowering times are comparable if these numbers agree."""
    text = text if isinstance(text, str) else text.as_text()
    return dict(Counter(re.findall(r"stablehlo\.(sine|cosine|multiply)\b", text)))


# ------------------------------------------------------------------------------------------- small programs


def add_one(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    return (lambda x: x + 1), (np.ones((8,), np.float32),)


def add_ten(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    return (lambda *xs: sum(xs[1:], xs[0])), tuple(np.full((8,), i, np.float32) for i in range(10))


def tree_to_tree(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    """A tree with 100 leaves, and a function that returns one with 100 leaves."""
    tree = {
        f"layer{i}": {"w": np.full((8,), i, np.float32), "b": [np.ones((8,), np.float32), np.float32(i)] * 2}
        for i in range(20)
    }

    def step(tree: Any) -> Any:
        return {name: {"w": layer["w"] * 2, "b": [b + 1 for b in layer["b"]]} for name, layer in tree.items()}

    return step, (tree,)


# ---------------------------------------------------------------------------------------- whole functions


def sixth_derivative(use: Callable[[Any, Function], Function]) -> Prepare:
    def prepare(ns: Any) -> Thunk:
        sin = ns.numpy.sin

        def derivative(x: Any) -> Any:
            return sin(x)

        for _ in range(6):
            derivative = ns.grad(derivative)
        function, x = use(ns, derivative), array(ns, 0.5)
        return lambda: function(x)

    return prepare


def mlp_gradient(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    """The gradient of the loss of a network with three square layers."""
    tanh, total = ns.numpy.tanh, ns.numpy.sum
    draw = np.random.default_rng(0).standard_normal

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        for weight, bias in parameters:
            x = tanh(x @ weight + bias)
        return total((x - y) ** 2)

    layers = [(array(ns, draw((64, 64)) / 8), array(ns, draw((64,)))) for _ in range(3)]
    return ns.grad(loss), (layers, array(ns, draw((32, 64))), array(ns, draw((32, 64))))


def second_order(which: str, ns: Any) -> tuple[Function, tuple[Any, ...]]:
    """A Jacobian of a function of 50 numbers, or the Hessian of its sum."""
    tanh, weight = ns.numpy.tanh, array(ns, np.random.default_rng(1).standard_normal((50, 50)) / 7)

    def function(x: Any) -> Any:
        y = tanh(weight @ x) * x
        return ns.numpy.sum(y) if which == "hessian" else y

    return getattr(ns, which)(function), (array(ns, np.linspace(-1.0, 1.0, 50)),)


# -------------------------------------------------------------------------------------------------- loops

CELLS = 1_000
HIDDEN = 64


def scan_step(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    """A scan of ``CELLS`` steps that carries and emits eight numbers. Each thunk has a new body function."""
    sin, scan = ns.numpy.sin, ns.lax.scan

    def cell(c: Any, x: Any) -> tuple[Any, Any]:
        c = sin(c) * x
        return c, c

    arguments = np.linspace(0.1, 0.9, 8, dtype=np.float32), np.full((CELLS, 8), 1.1, np.float32)
    return (lambda c, xs: scan(cell, c, xs)), arguments


def of_emitted(make: Workload, ns: Any) -> tuple[Function, tuple[Any, ...]]:
    """The gradient of the sum of a scan's stacked outputs."""
    total = ns.numpy.sum
    function, arguments = make(ns)
    return ns.grad(lambda *args: total(function(*args)[1])), arguments


def while_step(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    """A loop of ``CELLS`` iterations on eight numbers; its condition depends on a value."""

    def loop(limit: Any, x: Any) -> Any:
        return ns.lax.while_loop(
            lambda c: c[0] < limit, lambda c: (c[0] + 1.0, ns.numpy.sin(c[1]) * 1.1), (limit * 0.0, x)
        )

    return loop, (np.float32(CELLS), np.linspace(0.1, 0.9, 8, dtype=np.float32))


def recurrent_network(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    """A scan of ``CELLS`` steps of a recurrent network with ``HIDDEN`` units. XLA's part takes most of the time."""
    tanh, scan = ns.numpy.tanh, ns.lax.scan

    def network(weight: Any, state: Any, inputs: Any) -> Any:
        def cell(h: Any, x: Any) -> tuple[Any, Any]:
            h = tanh(weight @ h + x)
            return h, h

        return scan(cell, state, inputs)

    draw = np.random.default_rng(3).standard_normal
    weight = (np.linalg.qr(draw((HIDDEN, HIDDEN)))[0]).astype(np.float32)
    return network, (weight, np.zeros(HIDDEN, np.float32), draw((CELLS, HIDDEN)).astype(np.float32))


def power_iteration(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    """A while loop of matrix-vector products with a counter as the condition."""

    def iterate(weight: Any, x: Any, limit: Any) -> Any:
        def turn(carry: Any) -> Any:
            i, x = carry
            return i + 1.0, ns.numpy.tanh(weight @ x)

        return ns.lax.while_loop(lambda carry: carry[0] < limit, turn, (limit * 0.0, x))

    draw = np.random.default_rng(4).standard_normal
    weight = (np.linalg.qr(draw((HIDDEN, HIDDEN)))[0]).astype(np.float32)
    return iterate, (weight, draw((HIDDEN,)).astype(np.float32), np.float32(CELLS))


# ------------------------------------------------------------------------------------------------ the table


def chain_row(
    key: str,
    title: str,
    style: str,
    budget: float,
    use: Callable[[Any, Function], Function],
    shape: tuple[int, ...] = (),
    n: int = 1_000,
    **options: Any,
) -> Row:
    """The row in which ``use`` is applied to a chain of n operations; its figures are per operation."""
    repeat = use in (evaluated, pushed_forward, differentiated, linearized)  # other uses trace, and tracing may cache
    return Row(key, f"{title} ({style})", budget, on_chain(style, n, use, shape), ops=n, repeat=repeat, **options)


def cached_row(key: str, title: str, make: Workload, budget: float, calls: int = 200, **options: Any) -> Row:
    return Row(key, title, budget, cached(make, calls, **options), ops=calls, reuse=True)


STAGED: dict[str, Any] = {"check": primitive_counts}
LOWERED: dict[str, Any] = {"check": op_counts}
MAPPED = {**STAGED, "shape": (8,)}

ROWS: list[Row] = [
    chain_row("eager.lax.scalar", "eager primitive, scalar", "lax", 0.14, evaluated),
    chain_row("eager.lax.vector", "eager primitive, [8]", "lax", 0.14, evaluated, (8,)),
    chain_row("eager.jnp.scalar", "eager primitive, scalar", "jnp", 0.14, evaluated),
    chain_row("eager.jnp.vector", "eager primitive, [8]", "jnp", 0.14, evaluated, (8,)),
    chain_row("jvp.lax", "eager jvp, per op", "lax", 0.05, pushed_forward),
    chain_row("jvp.jnp", "eager jvp, per op", "jnp", 0.03, pushed_forward),
    chain_row("grad.lax", "eager grad, per op", "lax", 0.013, differentiated),
    chain_row("grad.jnp", "eager grad, per op", "jnp", 0.013, differentiated),
    chain_row("linearize", "linearize and apply, per op", "jnp", 0.03, linearized),
    chain_row("make_jaxpr.lax", "make_jaxpr, per equation", "lax", 0.15, staged, **STAGED),
    chain_row("make_jaxpr.jnp", "make_jaxpr, per equation", "jnp", 0.06, staged, **STAGED),
    chain_row("make_jaxpr_grad", "make_jaxpr of grad, per op", "jnp", 0.04, staged_grad, **STAGED),
    chain_row("make_jaxpr_vmap_grad", "make_jaxpr of vmap of grad, per op", "jnp", 0.05, staged_vmap_of_grad, **MAPPED),
    chain_row("lower.lax", "trace and lower, per equation", "lax", 0.10, lowered, **LOWERED),
    chain_row("lower.jnp", "trace and lower, per equation", "jnp", 0.10, lowered, **LOWERED),
    chain_row("lower.short", "trace and lower, 100 equations, each", "jnp", 0.07, lowered, n=100, **LOWERED),
    # This row also prints the module. In the rows above, a library that defers work until then could seem faster.
    chain_row("lower.text", "trace, lower and print", "jnp", 0.10, lowered_to_text, **LOWERED),
    *(
        Row(f"first.{key}", f"first call of jit, {title}", 0.80, first_call(make))
        for key, title, make in (
            ("mlp", "MLP gradient", mlp_gradient),
            ("jacfwd", "jacfwd", partial(second_order, "jacfwd")),
            ("jacrev", "jacrev", partial(second_order, "jacrev")),
            ("hessian", "hessian", partial(second_order, "hessian")),
            ("scan", "scan", scan_step),
            ("scan_grad", "grad of scan", partial(of_emitted, scan_step)),
        )
    ),
    *(
        cached_row(f"call.{key}.{where}", f"cached jit call: {title}, {where} inputs", make, budget, device=device)
        for key, title, make, budgets in (
            ("one", "1 arg", add_one, (1.05, 1.1)),
            ("ten", "10 args", add_ten, (1.0, 1.1)),
            ("tree_out", "100-leaf pytree, 100 outputs", tree_to_tree, (1.0, 1.1)),
        )
        for where, device, budget in zip(("device", "numpy"), (True, False), budgets, strict=True)
    ),
    cached_row("call.one.back", "cached jit call: 1 arg, NumPy in and out", add_one, 1.1, device=False, fetch=True),
    Row("grad6", "grad^6 of sin, eager", 0.02, sixth_derivative(evaluated), repeat=True),
    Row("make_jaxpr_grad6", "make_jaxpr of grad^6 of sin", 0.04, sixth_derivative(staged), **STAGED),
    Row("mlp", "grad of MLP (3x64, batch 32), eager", 0.05, outside(mlp_gradient), repeat=True),
    chain_row("vmap2_grad", "vmap(vmap(grad)), eager, per op", "jnp", 0.045, twice_mapped_grad, (4, 4), n=10),
    *(
        Row(which, f"{which}, 50 dimensions, eager", budget, outside(partial(second_order, which)))
        for which, budget in (("jacfwd", 0.12), ("jacrev", 0.06), ("hessian", 0.08))
    ),
    Row("while.new", "while of 1,000 turns outside jit, new functions", 0.9, outside(while_step)),
    cached_row(
        "jitted.scan_grad",
        "jitted grad of scan, 1,000 cells of 64 units",
        partial(of_emitted, recurrent_network),
        1.02,
        calls=5,
    ),
    cached_row("jitted.while", "jitted while, 1,000 turns of 64 units", power_iteration, 1.02, calls=5),
]
