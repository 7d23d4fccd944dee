"""Run programs on arrays over eight devices with one library; print results and shardings as JSON.

``python -m tests.sharded_programs jax`` and ``... minijax`` print the same. An error prints as its class names.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

np.set_printoptions(linewidth=200)
LIBRARY = sys.argv[1] if len(sys.argv) > 1 else "minijax"
jax: Any = importlib.import_module(LIBRARY)
jnp: Any = importlib.import_module(LIBRARY + ".numpy")
lax: Any = importlib.import_module(LIBRARY + ".lax")
of: Any = importlib.import_module(LIBRARY + ".sharding")
P = of.PartitionSpec

KINDS = {"ValueError", "TypeError", "KeyError", "NotImplementedError", "RuntimeError"}
KINDS |= {"IndivisibleError", "DuplicateSpecError"}  # not public, so listed by name
VALUES = np.arange(64, dtype=np.float32).reshape(8, 8) / 10


def grid(*sizes: int, start: int = 0, step: int = 1) -> Any:
    """A mesh of the first devices (or every ``step``-th), with axes ``x`` and ``y``."""
    devices = jax.devices()[start::step][: int(np.prod(sizes))]
    return of.Mesh(np.array(devices).reshape(sizes), ("x", "y")[: len(sizes)])


MESH = grid(4, 2)


def on(*spec: Any, mesh: Any = MESH) -> Any:
    """The sharding over ``mesh`` with this spec."""
    return of.NamedSharding(mesh, P(*spec))


def put(*spec: Any, mesh: Any = MESH) -> Any:
    """``VALUES`` with this sharding."""
    return jax.device_put(VALUES, on(*spec, mesh=mesh))


def described(x: Any) -> Any:
    """The parts of a result that are compared: sharding, type and some values; its text if it is no array."""
    if not hasattr(x, "sharding"):
        return str(x)
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
        return np.asarray(x).tolist()
    numbers = np.asarray(x).astype(np.float64).ravel()
    return [str(x.sharding), x.committed, str(x.dtype), list(x.shape), [f"{n:.3g}" for n in numbers[:7]]]


def run(program: Callable[[], Any]) -> Any:
    """The described results of a program, or the class names of the error that it raises."""
    try:
        out = program()
    except Exception as error:
        return ["raised", *[kind.__name__ for kind in type(error).__mro__ if kind.__name__ in KINDS]]
    return [described(leaf) for leaf in jax.tree_util.tree_leaves(out, is_leaf=lambda x: x is None)]


def calls_told_apart() -> list[int]:
    """The sizes of a jitted function's cache after calls that differ in type or placement of the argument."""
    f = jax.jit(lambda x: x + 1)
    one, two = (jax.device_put(VALUES, device) for device in jax.devices()[:2])
    met = []
    for x in (VALUES, jnp.asarray(VALUES), one, two, put("x"), put("y"), put("x"), f(put("x")), VALUES[0], 1.0, VALUES):
        f(x)
        met.append(f._cache_size())
    with jax.set_mesh(MESH):
        f(VALUES)
    met.append(f._cache_size())
    # none of these transformations adds an entry to f's cache
    jax.make_jaxpr(f)(VALUES[:3]), f.lower(VALUES[:2]), jax.vmap(f)(VALUES), jax.grad(lambda x: f(x).sum())(VALUES)
    met += [f._cache_size(), jax.jit(f.__wrapped__)._cache_size()]
    f.clear_cache()
    return [*met, f._cache_size()]


def shards(x: Any) -> list[str]:
    """The shards of ``x``, each with device, index and values, and other properties as text."""
    here = [(s.device.id, s.index, s.replica_id, np.asarray(s.data).tolist()) for s in x.addressable_shards]
    everywhere = [(s.device.id, s.index, s.replica_id) for s in x.global_shards]
    facts = x.is_fully_addressable, x.is_fully_replicated, x.addressable_data(3).shape, sorted(map(str, x.devices()))
    return [str(here), str(everywhere), str(facts), repr(x), str(x.device)]


def single_parts(sharding: Any) -> list[Any]:
    """The shards of ``VALUES`` for ``sharding``, as single-device arrays."""
    return [jax.device_put(VALUES[index], device) for device, index in sharding.devices_indices_map((8, 8)).items()]


ToSpecs = Callable[[tuple[Any, ...]], Callable[[], Any]]
parts_of: ToSpecs = lambda spec: lambda: shards(put(*spec))  # noqa: E731
moved: ToSpecs = lambda spec: lambda: [jax.device_put(put(*spec), on(*to)) for to in SPECS]  # noqa: E731
SPECS: list[tuple[Any, ...]] = [(), ("x",), ("x", "y"), (None, "y"), (("x", "y"),), ("y", ("x",)), (None, ("y", "x"))]

ARRAYS: dict[str, Callable[[], Any]] = {
    **{f"shards {spec}": parts_of(spec) for spec in SPECS},
    **{f"from {spec} to others": moved(spec) for spec in SPECS},
    "from one device": lambda: jax.device_put(jax.device_put(VALUES, jax.devices()[3]), on("x")),
    "to other devices": lambda: jax.device_put(put("x"), on("x", mesh=grid(2, 2, start=4))),
    "does not divide": lambda: jax.device_put(np.ones(6), on("x")),
    "an axis twice": lambda: on("x", ("y", "x")),
    "an axis twice, in shard_map": lambda: jax.shard_map(jnp.sin, mesh=MESH, in_specs=P("x", "x"), out_specs=P())(
        VALUES
    ),
    "too many dimensions": lambda: jax.device_put(np.ones(8), on("x", "y")),
    "by callback": lambda: jax.make_array_from_callback((8, 8), on("x", "y"), lambda index: VALUES[index]),
    "from parts": lambda: jax.make_array_from_single_device_arrays((8, 8), on("x", "y"), single_parts(on("x", "y"))),
    "keys": lambda: [keys := jax.device_put(jax.random.split(jax.random.key(3), 8), on("x")), keys.sharding],
    "specs": lambda: [str(p) for p in (P(("x",)), P(()), P(P.UNCONSTRAINED), P(["x"]), P(("x", "y"), None))],
}


CLOSED_OVER = put("y")


def layer(x: Any, w: Any) -> Any:
    """One layer of a network."""
    return jnp.tanh(x @ w), (x * w).sum()


PROGRAMS: dict[str, Callable[[], Any]] = {
    "calls told apart": calls_told_apart,
    "x + y, sharded otherwise": lambda: [put("x") + put("y"), put("x", "y") + put("y", "x"), put("x") + put(None, "x")],
    "x + one device's": lambda: put("x") + jax.device_put(VALUES, jax.devices()[0]),
    "x + other devices'": lambda: put("x") + put("x", mesh=grid(2, 2)),
    "x + the same devices in another order": lambda: put("x") + put("x", mesh=grid(4, 2, start=7, step=-1)),
    "rearranged": lambda: [put("x", "y").T, put("x", "y").reshape(64), put("x", "y").reshape(4, 2, 8), put("x")[:, 1]],
    "parts": lambda: [put("x", "y")[0], put("x", "y")[2:4], jnp.concatenate([put("x")] * 2), put("x").at[0].set(1)],
    "XLA's own": lambda: [jnp.linalg.cholesky(put("x") @ put("x").T + 100 * jnp.eye(8)), jnp.cumsum(put("x"), 1)],
    "gradient": lambda: jax.grad(lambda a: (jnp.sin(a) * a).sum())(put("x", "y")),
    "jit, unused argument": lambda: jax.jit(lambda a, b: a + 1)(jax.device_put(VALUES, jax.devices()[0]), put("x")),
    "jit that closes over an array": lambda: [jax.jit(lambda a: a + CLOSED_OVER)(x) for x in (put("x"), VALUES)],
    "jit with a large constant": lambda: jax.jit(lambda a: a.sum() + jnp.asarray(np.ones((300, 300))).sum())(put("x")),
    "jit that donates its argument": lambda: jax.jit(lambda a: a + 1, donate_argnums=0)(put("x")),
    "while": lambda: lax.while_loop(lambda c: c[0].sum() < 1e4, lambda c: (c[0] * 2, c[1] + 1), (put("x"), 0)),
    "custom rules": lambda: [jax.nn.relu(put("x")), jax.grad(lambda a: jax.nn.relu(a).sum())(put("x"))],
}  # fmt: skip

constrained = lax.with_sharding_constraint
TWICE = np.ones((2, 8, 8), np.float32)
ELSEWHERE = jax.device_put(VALUES, jax.devices()[0])
SINGLE = of.SingleDeviceSharding(jax.devices()[1])
STRUCT = jax.ShapeDtypeStruct((8, 8), np.float32, sharding=on("x"))


def named(fun: Any, ins: Any = None, outs: Any = None, **options: Any) -> Any:
    """``fun`` jitted, with explicit input and output shardings."""
    return jax.jit(fun, in_shardings=ins, out_shardings=outs, **options)


product = named(lambda a, b: jnp.sin(a) * b, (on("x"), None), on("y"))


def sine(a: Any) -> Any:
    """A sum with a sharding constraint inside."""
    return constrained(jnp.sin(a), on("x", "y")).sum()


def steps(a: Any) -> Any:
    """A loop with a sharding constraint inside."""
    return lax.scan(lambda c, _: (constrained(jnp.sin(c), on("x")), c.sum()), a, None, length=3)


def branches(a: Any) -> Any:
    """Branches with a sharding constraint inside."""
    return lax.cond(a.sum() > 0, lambda b: constrained(b, on("x")), lambda b: b * 2, a)


def under_mesh(program: Callable[[], Any]) -> Any:
    """The result of ``program`` while a mesh is set."""
    with jax.set_mesh(MESH):
        return program()


def given_away() -> Any:
    """(the result of a call that donates its argument, whether the argument was deleted)."""
    x = put("x")
    return [named(lambda a: a + 1, outs=on("x"), donate_argnums=0)(x), x.is_deleted()]


def with_callback() -> Any:
    """The result of a program over several devices, and the values that its callback received."""
    seen: list[float] = []
    see = lambda value: seen.append(round(float(value), 2))  # noqa: E731
    out = jax.jit(lambda a: (jax.debug.callback(see, a.sum()), a * 2)[1])(put("x"))
    jax.effects_barrier()
    return [out, *seen]


def called_again() -> Any:
    """The results of repeated calls of one function, with arguments on different devices."""
    fun = jax.jit(lambda a, b: {"s": a["a"] @ b, "t": (b + 1,)})
    places = [put("x"), put(None, "y"), jnp.asarray(VALUES), VALUES, jax.device_put(VALUES, jax.devices()[0])]
    found = []
    for _ in range(3):
        found += [run(lambda a=a, b=b: fun({"a": a}, b)) for a in places for b in places]  # type: ignore[misc]
        with jax.set_mesh(MESH):
            found.append(run(lambda: fun({"a": VALUES}, b=VALUES)))
        with jax.default_device(jax.devices()[2]):
            found.append(run(lambda: fun({"a": jnp.asarray(VALUES)}, jnp.asarray(VALUES))))
    return [str(each) for each in found]


JIT: dict[str, Callable[[], Any]] = {
    "called again": called_again,
    "with a callback": with_callback,
    "in_shardings of an uncommitted argument": lambda: named(lambda a: a + 1, on("y"))(VALUES),
    "in_shardings of an argument with another sharding": lambda: named(lambda a: a + 1, on("y"))(put("x", "y")),
    "in_shardings of an argument on one device": lambda: named(lambda a: a + 1, on("y"))(ELSEWHERE),
    "in_shardings of one device": lambda: named(lambda a: a + 1, SINGLE)(VALUES),
    "in_shardings and static arguments": lambda: named(lambda a, n: a * n, on("x"), static_argnums=1)(VALUES, 3),
    "out_shardings": lambda: [named(lambda a: a + 1, outs=on("y"))(x) for x in (VALUES, put("x"))],
    "out_shardings do not divide": lambda: named(lambda a: a[:3], outs=on("x"))(VALUES),
    "out_shardings, unconstrained": lambda: named(lambda a: a, outs=on(P.UNCONSTRAINED, "y"))(VALUES),
    "out_shardings of another structure": lambda: named(lambda a: {"a": a}, outs=(on("x"), on()))(VALUES),
    "in_shardings do not divide": lambda: named(lambda a: a, on("x"))(VALUES[:3]),
    "in_shardings, too few": lambda: named(lambda a, b: a, (on("x"),))(VALUES, VALUES),
    "in_shardings that are none": lambda: named(lambda a: a, 3),
    "a spec without a mesh": lambda: named(lambda a: a, outs=P("x"))(VALUES),
    "constraint": lambda: jax.jit(lambda a: constrained(a * 2, on("y")))(VALUES),
    "constraint outside": lambda: [constrained(VALUES, on("y")), constrained(put("x"), on("y"))],
    "constraint over other devices": lambda: jax.jit(lambda a: constrained(a, on("x", mesh=grid(4))))(put("x", "y")),
    "constraint of an argument on one device": lambda: jax.jit(sine)(ELSEWHERE),
    "shardings under vmap": lambda: jax.vmap(product)(TWICE, TWICE),
    "shardings under grad": lambda: jax.grad(lambda a, b: product(a, b).sum())(VALUES, VALUES),
    "constraint under grad": lambda: [jax.grad(sine)(VALUES), jax.jit(jax.grad(sine))(VALUES)],
    "constraint under vmap": lambda: [jax.vmap(sine)(TWICE), jax.jit(jax.vmap(sine))(TWICE)],
    "constraint in scan": lambda: [jax.jit(steps)(VALUES), steps(VALUES)],
    "constraint in scan, gradient": lambda: jax.jit(jax.grad(lambda a: steps(a)[0].sum()))(VALUES),
    "given away": given_away,
    "compiled": lambda: jax.jit(lambda a, b: a + b).lower(put("x", "y"), VALUES).compile()(put("x", "y"), VALUES),
    "compiled, argument with another sharding": lambda: jax.jit(jnp.sin).lower(put("x")).compile()(put("y")),
    "compiled from a type": lambda: jax.jit(jnp.sin).lower(STRUCT).compile()(VALUES),
    "a mesh, out_shardings": lambda: under_mesh(lambda: named(lambda a: a + 1, outs=P("x"))(VALUES)),
    "a mesh, uncommitted argument": lambda: under_mesh(lambda: jax.jit(lambda a: a * 1)(VALUES)),
    "a mesh, device_put": lambda: under_mesh(lambda: jax.device_put(VALUES, P("x"))),
}  # fmt: skip

# Match the shardings in a program's text, and XLA's collectives with the types that they move.
SAID = re.compile(
    r"num_partitions = \d+|sdy\.mesh @\w+ = <[^>]*\]|#sdy\.sharding<[^>]*>|sharding_constraint %\w+ <[^>]*>"
)
COLLECTIVE = re.compile(r"= (\(?[a-z]\w*\[.*) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)\(")

LOWERED: dict[str, Callable[[], Any]] = {
    "two arguments": lambda: jax.jit(lambda a, b: a + b).lower(put("x", "y"), VALUES),
    "one device": lambda: jax.jit(jnp.sin).lower(put("x", mesh=grid(1, 1))),
    "gradient": lambda: jax.jit(jax.grad(lambda x, w: layer(x, w)[0].sum(), (0, 1))).lower(put("x"), put(None, "y")),
    "in scan": lambda: jax.jit(steps).lower(VALUES),
}  # fmt: skip


JAXPRS: dict[str, Callable[[], Any]] = {
    "named, linearized": lambda: jax.make_jaxpr(lambda a: jax.linearize(product, a, a)[1](a, a))(VALUES),
    "constraint, transposed": lambda: jax.make_jaxpr(lambda a: jax.vjp(branches, a)[1](a))(VALUES),
}


def printed(closed: Any) -> str:
    """A jaxpr's text on one line, without JAX's shardings of operations that have none."""
    text = re.sub(r"np\.int64\((\d+)\)", r"\1", re.sub(r"\b(out_sharding|sharding)=None", "", str(closed)))
    return re.sub(r"\s+", " ", text).replace("[ ", "[").replace(" ]", "]")


def texts(lowered: Any) -> list[Any]:
    """The shardings and collectives in the texts of a program."""
    compiled = lowered.compile()
    moved = sorted((kind, re.sub(r"\{.*?\}", "", type_)) for type_, kind in COLLECTIVE.findall(compiled.as_text()))
    lies = str(compiled.input_shardings), str(compiled.output_shardings)
    return [[re.sub(r"%\w+ ", "", spec_text) for spec_text in SAID.findall(lowered.as_text())], moved, *lies]


if __name__ == "__main__":
    found = {name: run(program) for table in (ARRAYS, PROGRAMS, JIT) for name, program in table.items()}
    found |= {f"text: {name}": texts(lower()) for name, lower in LOWERED.items()}
    found |= {f"jaxpr: {name}": printed(make()) for name, make in JAXPRS.items()}
    print(json.dumps(found))
