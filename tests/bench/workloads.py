"""The table of rows measured in this process: every workload of the speed budgets, written once.

A workload takes a library's namespace (``ns.numpy``, ``ns.lax``, ``ns.grad``, ...) and gives a fresh thunk.
The usual one is a chain that alternates ``sin`` and multiplication by a number slightly above one: its values
and its derivative stay normal floats however long it gets, and XLA cannot simplify it away.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.bench.measure import Growth, Prepare, Row, Thunk, array, peak_bytes, primitive_counts

FACTOR = 1.00001
Function = Callable[..., Any]


# ------------------------------------------------------------------------------------------------- chains


def jnp_chain(ns: Any, n: int) -> Function:
    """n operations the way a person writes them: ``sin(x) * number``."""
    sin = ns.numpy.sin

    def chain(x: Any) -> Any:
        for _ in range(n // 2):
            x = sin(x) * FACTOR
        return x

    return chain


def lax_chain(ns: Any, n: int) -> Function:
    """The same from the ``lax`` functions, which convert nothing: closest to the bare primitives."""
    sin, mul, factor = ns.lax.sin, ns.lax.mul, array(ns, FACTOR)

    def chain(x: Any) -> Any:
        for _ in range(n // 2):
            x = mul(sin(x), factor)
        return x

    return chain


CHAINS: dict[str, Callable[[Any, int], Function]] = {"lax": lax_chain, "jnp": jnp_chain}


def on_chain(style: str, n: int, use: Callable[[Any, Function], Function], shape: tuple[int, ...] = ()) -> Prepare:
    """``use(ns, chain)`` gives a function of the chain's input; calling it is what the clock sees."""

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


def jitted(ns: Any, f: Function) -> Function:
    return lambda x: ns.block_until_ready(ns.jit(f)(x))


def jitted_grad(ns: Any, f: Function) -> Function:
    return lambda x: ns.block_until_ready(ns.jit(ns.grad(f))(x))


def compiling(n: int) -> Prepare:
    """XLA's part alone: the module is made outside the clock. The compiled chain is run as the check."""

    def prepare(ns: Any) -> Thunk:
        x = array(ns, 0.9)
        module = ns.jit(jnp_chain(ns, n)).lower(x)
        return lambda: (module.compile(), x)

    return prepare


def run_compiled(value: Any) -> Any:
    compiled, x = value
    return compiled(x)


def op_counts(text: Any) -> dict[str, int]:
    """The arithmetic in a lowered module: two lowerings are comparable when they hold the same operations."""
    text = text if isinstance(text, str) else text.as_text()
    return dict(Counter(re.findall(r"stablehlo\.(sine|cosine|multiply)\b", text)))


# ------------------------------------------------------------------------------------------- cached calls

CALLS = 200


def add_one(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    return (lambda x: x + 1), (np.ones((8,), np.float32),)


def add_ten(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    def add(*xs: Any) -> Any:
        total = xs[0]
        for x in xs[1:]:
            total = total + x
        return total

    return add, tuple(np.full((8,), i, np.float32) for i in range(10))


def hundred_leaves() -> dict[str, Any]:
    return {
        f"layer{i}": {"w": np.full((8,), i, np.float32), "b": [np.ones((8,), np.float32), np.float32(i)] * 2}
        for i in range(20)
    }


def sum_of_tree(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    def total(tree: Any) -> Any:
        return sum(layer["w"] + sum(layer["b"]) for layer in tree.values())

    return total, (hundred_leaves(),)


def tree_to_tree(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    def step(tree: Any) -> Any:
        return {name: {"w": layer["w"] * 2, "b": [b + 1 for b in layer["b"]]} for name, layer in tree.items()}

    return step, (hundred_leaves(),)


def mapped(f: Function, tree: Any) -> Any:
    """``f`` on every leaf of dicts, lists and tuples; no library's own tree functions are relied on."""
    if isinstance(tree, dict):
        return {key: mapped(f, item) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(mapped(f, item) for item in tree)
    return f(tree)


def cached(make: Callable[[Any], tuple[Function, tuple[Any, ...]]], device: bool) -> Prepare:
    """``CALLS`` calls of a compiled function on inputs already on the device, or on NumPy's arrays."""

    def prepare(ns: Any) -> Thunk:
        function, arguments = make(ns)
        compiled = ns.jit(function)
        arguments = mapped(ns.device_put, arguments) if device else arguments
        ns.block_until_ready(compiled(*arguments))

        def call_often() -> Any:
            out = None
            for _ in range(CALLS):
                out = compiled(*arguments)
            return ns.block_until_ready(out)

        call_often()
        return call_often

    return prepare


def there_and_back(ns: Any) -> Thunk:
    """NumPy's arrays given, and the result read as one."""
    function, arguments = add_one(ns)
    compiled = ns.jit(function)

    def call_often() -> Any:
        out = None
        for _ in range(CALLS):
            out = np.asarray(compiled(*arguments))
        return out

    call_often()
    return call_often


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


def mlp(ns: Any, width: int = 64, batch: int = 32) -> tuple[Function, tuple[Any, ...]]:
    """A loss of a network of three square layers, and its arguments."""
    tanh, total = ns.numpy.tanh, ns.numpy.sum
    draw = np.random.default_rng(0).standard_normal

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        for weight, bias in parameters:
            x = tanh(x @ weight + bias)
        return total((x - y) ** 2)

    layers = [(array(ns, draw((width, width)) / width**0.5), array(ns, draw((width,)))) for _ in range(3)]
    return loss, (layers, array(ns, draw((batch, width))), array(ns, draw((batch, width))))


def mlp_gradient(ns: Any) -> Thunk:
    loss, arguments = mlp(ns)
    return lambda: ns.grad(loss)(*arguments)


def vector_function(ns: Any) -> Function:
    tanh, weight = ns.numpy.tanh, array(ns, np.random.default_rng(1).standard_normal((50, 50)) / 7)

    def function(x: Any) -> Any:
        return tanh(weight @ x) * x

    return function


def fifty(ns: Any) -> Any:
    return array(ns, np.linspace(-1.0, 1.0, 50))


def jacobian(which: str) -> Prepare:
    def prepare(ns: Any) -> Thunk:
        transform, function, x = getattr(ns, which), vector_function(ns), fifty(ns)
        return lambda: transform(function)(x)

    return prepare


def hessian(ns: Any) -> Thunk:
    total, function, x = ns.numpy.sum, vector_function(ns), fifty(ns)
    return lambda: ns.hessian(lambda v: total(function(v)))(x)


def steady(make: Callable[[Any], tuple[Function, tuple[Any, ...]]], calls: int) -> Prepare:
    """A compiled function whose work is XLA's, called often: what is left is the cost of the call."""

    def prepare(ns: Any) -> Thunk:
        function, arguments = make(ns)
        compiled = ns.jit(function)
        arguments = mapped(ns.device_put, arguments)

        def call_often() -> Any:
            out = None
            for _ in range(calls):
                out = ns.block_until_ready(compiled(*arguments))
            return out

        call_often()
        return call_often

    return prepare


def matmul_chain(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    def chain(x: Any, weight: Any) -> Any:
        for _ in range(10):
            x = x @ weight
        return x

    draw = np.random.default_rng(2).standard_normal
    return chain, (
        draw((256, 256)).astype(np.float32),
        np.linalg.qr(draw((256, 256)))[0].astype(np.float32),
    )


def mlp_step(ns: Any, width: int = 64, batch: int = 32) -> tuple[Function, tuple[Any, ...]]:
    loss, arguments = mlp(ns, width, batch)

    def step(parameters: Any, x: Any, y: Any) -> Any:
        gradients = ns.grad(loss)(parameters, x, y)
        return [
            (weight - 0.01 * dw, bias - 0.01 * db)
            for (weight, bias), (dw, db) in zip(parameters, gradients, strict=True)
        ]

    return step, arguments


def sgd_step(ns: Any) -> Thunk:
    """Outside jit, large enough for the products to count."""
    step, arguments = mlp_step(ns, 256, 128)
    return lambda: ns.block_until_ready(step(*arguments))


def first_call(make: Callable[[Any], tuple[Function, tuple[Any, ...]]]) -> Prepare:
    """``jit`` of a function that nobody has traced, called once: tracing, lowering, XLA and the run."""

    def prepare(ns: Any) -> Thunk:
        function, arguments = make(ns)
        arguments = mapped(ns.device_put, arguments)
        return lambda: ns.block_until_ready(ns.jit(lambda *args: function(*args))(*arguments))

    return prepare


def two_equations(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    sin = ns.numpy.sin
    return (lambda x: sin(x) * FACTOR), (np.float32(0.9),)


def jacobians(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    function, x = vector_function(ns), fifty(ns)
    return (lambda x: (ns.jacfwd(function)(x), ns.jacrev(function)(x))), (x,)


# -------------------------------------------------------------------------------------------------- loops

CELLS = 1_000


def recurrence(ns: Any) -> Function:
    """A scan of ``CELLS`` cells that carry and emit eight numbers; a new cell each time."""
    sin, scan = ns.numpy.sin, ns.lax.scan

    def cell(c: Any, x: Any) -> tuple[Any, Any]:
        c = sin(c) * x
        return c, c

    return lambda c, xs: scan(cell, c, xs)


def recurrence_arguments() -> tuple[Any, ...]:
    return np.linspace(0.1, 0.9, 8, dtype=np.float32), np.full((CELLS, 8), 1.1, np.float32)


def scan_of_cells(again: bool) -> Prepare:
    """Outside jit. ``again``: the same cell was scanned before, so that what a library keeps for it is there."""

    def prepare(ns: Any) -> Thunk:
        function = recurrence(ns)
        arguments = mapped(ns.device_put, recurrence_arguments())
        if again:
            for _ in range(3):
                ns.block_until_ready(function(*arguments))
        return lambda: ns.block_until_ready(function(*arguments))

    return prepare


def grad_of_scan(ns: Any) -> Thunk:
    gradient, arguments = recurrence_gradient(ns)
    arguments = mapped(ns.device_put, arguments)
    return lambda: ns.block_until_ready(gradient(*arguments))


def recurrence_gradient(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    total, function = ns.numpy.sum, recurrence(ns)
    return ns.grad(lambda c, xs: total(function(c, xs)[1])), recurrence_arguments()


def while_outside(ns: Any) -> Thunk:
    """Outside jit, a condition and a body that nobody has seen."""
    loop, arguments = while_step(ns)
    arguments = mapped(ns.device_put, arguments)
    return lambda: ns.block_until_ready(loop(*arguments))


def scan_step(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    return recurrence(ns), recurrence_arguments()


def while_step(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    """A loop of ``CELLS`` turns on eight numbers, whose end depends on a value."""

    def loop(limit: Any, x: Any) -> Any:
        return ns.lax.while_loop(
            lambda c: c[0] < limit, lambda c: (c[0] + 1.0, ns.numpy.sin(c[1]) * 1.1), (limit * 0.0, x)
        )

    return loop, (np.float32(CELLS), np.linspace(0.1, 0.9, 8, dtype=np.float32))


HIDDEN = 64


def recurrent_network(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    """A scan of ``CELLS`` cells of a recurrent network with ``HIDDEN`` units: XLA's work outweighs the call."""
    tanh, scan = ns.numpy.tanh, ns.lax.scan

    def network(weight: Any, state: Any, inputs: Any) -> Any:
        def cell(h: Any, x: Any) -> tuple[Any, Any]:
            h = tanh(weight @ h + x)
            return h, h

        return scan(cell, state, inputs)

    draw = np.random.default_rng(3).standard_normal
    weight = (np.linalg.qr(draw((HIDDEN, HIDDEN)))[0]).astype(np.float32)
    return network, (weight, np.zeros(HIDDEN, np.float32), draw((CELLS, HIDDEN)).astype(np.float32))


def recurrent_gradient(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    total = ns.numpy.sum
    network, arguments = recurrent_network(ns)
    return ns.grad(lambda *args: total(network(*args)[1])), arguments


def power_iteration(ns: Any) -> tuple[Function, tuple[Any, ...]]:
    """A while loop of matrix-vector products that ends when a counter, a value, says so."""

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
    n: int,
    use: Callable[[Any, Function], Function],
    shape: tuple[int, ...] = (),
    **options: Any,
) -> Row:
    """A row of ``use`` on a chain of n operations, its figures per operation."""
    repeat = use in (evaluated, pushed_forward, differentiated, linearized)  # what stages may be kept
    return Row(key, f"{title} ({style})", budget, on_chain(style, n, use, shape), ops=n, repeat=repeat, **options)


def jit_call(key: str, title: str, make: Any, device: bool, budget: float) -> Row:
    where = "device" if device else "numpy"
    return Row(
        f"call.{key}.{where}",
        f"cached jit call: {title}, {'device' if device else 'NumPy'} inputs",
        budget,
        cached(make, device),
        ops=CALLS,
        reuse=True,
    )


def growth_row(key: str, title: str, use: Callable[[Any, Function], Function]) -> Growth:
    def prepare(ns: Any, n: int) -> Thunk:
        return on_chain("jnp", n, use)(ns)

    return Growth(f"growth.{key}", f"growth of {title}, 1,000 to 100,000 operations", 1.03, prepare)


STAGED: dict[str, Any] = {"check": primitive_counts}
LOWERED: dict[str, Any] = {"check": op_counts}

# Beginnings of the rows whose time is Python's alone; over them together a geometric mean is asked for.
PYTHON_SIDE = ("eager", "jvp", "grad", "linearize", "make_jaxpr", "lower", "mlp", "vmap2", "jac", "hessian", "scan.new")
MEAN_BUDGET = 0.10

ROWS: list[Row | Growth] = [
    chain_row("eager.lax.scalar", "eager primitive, scalar", "lax", 0.14, 1_000, evaluated),
    chain_row("eager.lax.vector", "eager primitive, [8]", "lax", 0.14, 1_000, evaluated, (8,)),
    chain_row("eager.jnp.scalar", "eager primitive, scalar", "jnp", 0.14, 1_000, evaluated),
    chain_row("eager.jnp.vector", "eager primitive, [8]", "jnp", 0.14, 1_000, evaluated, (8,)),
    chain_row("jvp.lax", "eager jvp, per op", "lax", 0.05, 1_000, pushed_forward),
    chain_row("jvp.jnp", "eager jvp, per op", "jnp", 0.03, 1_000, pushed_forward),
    chain_row("grad.lax", "eager grad, per op, n = 1,000", "lax", 0.013, 1_000, differentiated),
    chain_row("grad.jnp", "eager grad, per op, n = 1,000", "jnp", 0.013, 1_000, differentiated),
    chain_row(
        "grad.long",
        "eager grad, per op, n = 100,000",
        "jnp",
        0.012,
        100_000,
        differentiated,
        warm=False,
        rtol=3e-2,  # 50,000 roundings of two libraries' sines
    ),
    chain_row("linearize", "linearize and apply, per op", "jnp", 0.03, 1_000, linearized),
    chain_row("make_jaxpr.lax", "make_jaxpr, per equation", "lax", 0.15, 1_000, staged, **STAGED),
    chain_row("make_jaxpr.jnp", "make_jaxpr, per equation", "jnp", 0.06, 1_000, staged, **STAGED),
    chain_row("make_jaxpr_grad", "make_jaxpr of grad, per op", "jnp", 0.04, 500, staged_grad, **STAGED),
    chain_row(
        "make_jaxpr_vmap_grad",
        "make_jaxpr of vmap of grad, per op",
        "jnp",
        0.05,
        500,
        staged_vmap_of_grad,
        (8,),
        **STAGED,
    ),
    chain_row("lower.lax", "trace and lower, per equation", "lax", 0.10, 1_000, lowered, **LOWERED),
    chain_row("lower.jnp", "trace and lower, per equation", "jnp", 0.10, 1_000, lowered, **LOWERED),
    chain_row("lower.short", "trace and lower, 100 equations, each", "jnp", 0.07, 100, lowered, **LOWERED),
    # So that a library cannot win the rows above by putting the work off until the module is read.
    chain_row("lower.text", "trace, lower and print", "jnp", 0.10, 1_000, lowered_to_text, **LOWERED),
    Row("compile", "XLA compile, 1,000 equations", 1.0, compiling(1_000), check=run_compiled),
    Row("first.jit", "first call of jit, 1,000 equations", 0.67, on_chain("jnp", 1_000, jitted)),
    Row("first.jit_grad", "first call of jit of grad, 1,000 eqns", 0.64, on_chain("jnp", 1_000, jitted_grad)),
    *(
        Row(f"first.{key}", f"first call of jit, {title}", 0.80, first_call(make), rtol=1e-3)
        for key, title, make in (
            ("two", "2 equations", two_equations),
            ("mlp", "MLP gradient step", mlp_step),
            ("jacobians", "jacfwd and jacrev", jacobians),
            ("scan", "scan", scan_step),
            ("scan_grad", "grad of scan", recurrence_gradient),
        )
    ),
    *(
        jit_call(key, title, make, device, budget)
        for key, title, make, budgets in (
            ("one", "1 arg", add_one, (1.05, 1.1)),
            ("ten", "10 args", add_ten, (1.0, 1.1)),
            ("tree", "100-leaf pytree", sum_of_tree, (1.0, 1.1)),
            ("tree_out", "100-leaf pytree, 100 outputs", tree_to_tree, (1.0, 1.1)),
        )
        for device, budget in zip((True, False), budgets, strict=True)
    ),
    Row("call.one.back", "cached jit call: 1 arg, NumPy in and out", 1.1, there_and_back, ops=CALLS, reuse=True),
    Row("grad6", "grad^6 of sin, eager", 0.02, sixth_derivative(evaluated), repeat=True),
    Row("make_jaxpr_grad6", "make_jaxpr of grad^6 of sin", 0.04, sixth_derivative(staged), **STAGED),
    Row("mlp", "grad of MLP (3x64, batch 32), eager", 0.05, mlp_gradient, repeat=True),
    Row("sgd", "SGD step of an MLP (3x256, batch 128), eager", 0.45, sgd_step),
    Row(
        "vmap2_grad",
        "vmap(vmap(grad)) of 10 operations, eager",
        0.045,
        on_chain("jnp", 10, twice_mapped_grad, (4, 4)),
    ),
    Row("jacfwd", "jacfwd, 50 dimensions, eager", 0.12, jacobian("jacfwd")),
    Row("jacrev", "jacrev, 50 dimensions, eager", 0.06, jacobian("jacrev")),
    Row("hessian", "hessian, 50 dimensions, eager", 0.08, hessian),
    Row(
        "jitted.matmul",
        "jitted chain of 10 matmuls, 256x256",
        1.02,
        steady(matmul_chain, 20),
        ops=20,
        reuse=True,
    ),
    Row("jitted.mlp", "jitted MLP gradient step", 1.02, steady(mlp_step, 100), ops=100, reuse=True),
    Row("scan.new", "scan of 1,000 cells outside jit, new cell", 0.03, scan_of_cells(again=False)),
    Row("scan.again", "scan of 1,000 cells outside jit, again", 0.66, scan_of_cells(again=True), reuse=True),
    Row("scan.grad", "grad of scan of 1,000 cells outside jit", 0.06, grad_of_scan, rtol=1e-3),
    Row("while.new", "while of 1,000 turns outside jit, new functions", 0.9, while_outside),
    # small programs, for which the call counts; the budget is that of a cached call
    Row("call.scan", "cached call of a scan of 1,000 small cells", 1.1, steady(scan_step, 20), ops=20, reuse=True),
    Row("call.while", "cached call of a while of 1,000 small turns", 1.1, steady(while_step, 20), ops=20, reuse=True),
    Row("jitted.scan", "jitted scan, 1,000 cells of 64 units", 1.02, steady(recurrent_network, 5), ops=5, reuse=True),
    Row(
        "jitted.scan_grad",
        "jitted grad of scan, 1,000 cells of 64 units",
        1.02,
        steady(recurrent_gradient, 5),
        ops=5,
        reuse=True,
        rtol=1e-3,
    ),
    Row("jitted.while", "jitted while, 1,000 turns of 64 units", 1.02, steady(power_iteration, 5), ops=5, reuse=True),
    Row(
        "heap",
        "heap of eager grad, per op",
        0.20,
        on_chain("jnp", 2_000, differentiated),
        ops=2_000,
        clock=peak_bytes,
        unit="bytes",
    ),
    growth_row("jvp", "eager jvp", pushed_forward),
    growth_row("grad", "eager grad", differentiated),
    growth_row("make_jaxpr", "make_jaxpr", staged),
    growth_row("lower", "trace and lower", lowered),
]
