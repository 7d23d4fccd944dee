"""Random calls of primitives that contain programs, act on references, communicate between devices, or call Python.

The bodies of these programs are random: a few operations on arrays of one shape. Importing this module adds rows to
``primitive_calls``.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .primitive_calls import Call, Draw, of, row

Body = Callable[..., list[Any]]

STEPS: dict[str, Callable[..., Any]] = {
    "sin": lambda ns, x, y: ns.lax.sin(x),
    "tanh": lambda ns, x, y: ns.lax.tanh(x),
    "neg": lambda ns, x, y: ns.lax.neg(x),
    "add": lambda ns, x, y: ns.lax.add(x, y),
    "sub": lambda ns, x, y: ns.lax.sub(x, y),
    "mul": lambda ns, x, y: ns.lax.mul(x, y),
    "max": lambda ns, x, y: ns.lax.max(x, y),
    "where": lambda ns, x, y: ns.numpy.where(x > 0, y, x * 0.5),
    "sum": lambda ns, x, y: x + ns.numpy.sum(y),
    "stop": lambda ns, x, y: x * ns.lax.stop_gradient(y),
}


def body(draw: Draw, inputs: int, outputs: int) -> tuple[Callable[..., list[Any]], str]:
    """A random function ``(ns, *arrays) -> list`` on arrays of one type, and a text that describes it."""
    steps = [
        (draw.one(tuple(STEPS)), draw.int(0, inputs + i - 1), draw.int(0, inputs + i - 1))
        for i in range(draw.int(0, 4))
    ]
    results = draw.ints(outputs, 0, inputs + len(steps) - 1)

    def run(ns: Any, *arrays: Any) -> list[Any]:
        known = list(arrays)
        for name, i, j in steps:
            known.append(STEPS[name](ns, known[i], known[j]))
        return [known[i] for i in results]

    return run, f"{' '.join(f'{name}{i}{j}' for name, i, j in steps)} -> {results}"


def arrays(draw: Draw, count: int, lead: tuple[int, ...] = ()) -> list[np.ndarray]:
    """Floating point arrays of one type, with values between -1 and 1 or a few special values."""
    shape, dtype = draw.shape(0, 2), draw.one(("float32", "float16", "bfloat16"), (6, 1, 1))
    dtype = "float64" if draw.wide and draw.flag() else dtype
    return [draw.array(shape, dtype, -1.0, 1.0) for _ in range(count)]


def stacked(draw: Draw, like: np.ndarray, length: int) -> np.ndarray:
    return draw.array((length, *like.shape), str(like.dtype), -1.0, 1.0)


# ----------------------------------------------------------------------------------------------------- programs


@row("jit", "remat2", "name")
def called(draw: Draw, name: str) -> Call:
    count = draw.int(1, 3)
    run, text = body(draw, count, draw.int(1, 2))
    option, within = draw.flag(), draw.chance(0.3)
    policy = draw.one((None, "everything_saveable", "nothing_saveable", "dots_saveable", "kept"))

    def call(ns: Any, *xs: Any) -> Any:
        def f(*xs: Any) -> Any:
            outs = run(ns, *xs)
            return [_named(ns, out) for out in outs] if policy == "kept" or name == "name" else outs

        if name == "jit":
            g = ns.jit(f, inline=option)
        else:
            policies = ns.checkpoint_policies
            chosen = (
                policies.save_only_these_names("kept") if policy == "kept" else policy and getattr(policies, policy)
            )
            g = ns.checkpoint(f, prevent_cse=option, policy=chosen)
        return ns.jit(lambda *xs: g(*xs))(*xs) if within else g(*xs)

    return of(call, *arrays(draw, count), text=f"{text} {option} within jit={within} policy={policy}")


def _named(ns: Any, x: Any) -> Any:
    return importlib.import_module(f"{ns.__name__}.ad_checkpoint").checkpoint_name(x, "kept")


@row("call", "closed_call")
def called_by_a_primitive(draw: Draw, name: str) -> Call:
    count = draw.int(1, 3)
    run, text = body(draw, count, draw.int(1, 2))

    def call(ns: Any, *xs: Any) -> Any:
        library = ns.__name__
        wrap = importlib.import_module(f"{library}.extend.linear_util").wrap_init
        info = importlib.import_module(f"{library}.api_util").debug_info
        f = functools.partial(run, ns)
        fun = wrap(f, debug_info=info("call", f, xs, {}))
        primitives = importlib.import_module(f"{library}.extend.core.primitives")
        return getattr(primitives, f"{name}_p").bind(*xs, subfuns=(fun,), name="f")

    return of(call, *arrays(draw, count), text=text)


@row("optimization_barrier")
def barrier(draw: Draw, name: str) -> Call:
    count = draw.int(1, 3)
    run, text = body(draw, count, 2)
    return of(lambda ns, *xs: ns.lax.optimization_barrier(run(ns, *xs)), *arrays(draw, count), text=text)


@row("cond", "empty2")
def branches(draw: Draw, name: str) -> Call:
    """Calls of ``cond``. Partial evaluation creates ``empty2`` for a branch that lacks another branch's residual."""
    count, outputs = draw.int(1, 3), draw.int(1, 2)
    drawn = [body(draw, count, outputs) for _ in range(draw.int(1, 3) if name == "cond" else 2)]
    boolean = len(drawn) == 2 and draw.flag()
    which = np.asarray(draw.int(-1, len(drawn)), "int32")

    def cond(ns: Any, i: Any, *xs: Any) -> Any:
        runs = [functools.partial(run, ns) for run, _ in drawn]
        if boolean:
            return ns.lax.cond(i > 0, runs[0], runs[1], *xs)
        return ns.lax.switch(i, runs, *xs)

    text = "; ".join(text for _, text in drawn)
    return of(cond, which, *arrays(draw, count), text=f"{text} boolean={boolean}")


@row("scan")
def scanned(draw: Draw, name: str) -> Call:
    carries, consts, sequences, outs = draw.int(0, 2), draw.int(0, 1), draw.int(0, 2), draw.int(0, 2)
    length = draw.one((0, 1, 2, 3), (1, 2, 3, 2))
    count = carries + consts + sequences
    if count == 0:
        carries = count = 1
    run, text = body(draw, count, carries + outs)
    given = arrays(draw, carries + consts + 1)
    xs = [stacked(draw, given[0], length) for _ in range(sequences)]
    reverse, unroll = draw.flag(), draw.one((1, 2, True), (4, 1, 1))

    def scan(ns: Any, *args: Any) -> Any:
        carry, fixed, xs = args[:carries], args[carries : carries + consts], args[carries + consts :]

        def step(carry: Any, x: Any) -> Any:
            results = run(ns, *carry, *fixed, *x)
            return results[:carries], results[carries:]

        return ns.lax.scan(step, list(carry), list(xs), length=length, reverse=reverse, unroll=unroll)

    return of(scan, *given[: carries + consts], *xs, text=f"{text} length={length} {reverse=} {unroll=}")


@row("while")
def looped(draw: Draw, name: str) -> Call:
    carries, consts = draw.int(1, 2), draw.int(0, 2)
    run, text = body(draw, carries + consts, carries)
    steps, fixed, by_value = np.asarray(draw.int(-1, 4), "int32"), draw.chance(0.3), draw.chance(0.3)

    def loop(ns: Any, n: Any, *args: Any) -> Any:
        consts = args[carries:]
        if fixed:
            return ns.lax.fori_loop(0, 3, lambda i, carry: run(ns, *carry, *consts), list(args[:carries]))

        def goes_on(carry: Any) -> Any:
            i, first, *_ = carry
            return (i < n) & (ns.numpy.sum(first) < 9) if by_value else i < n

        def step(carry: Any) -> Any:
            return carry[0] + 1, *run(ns, *carry[1:], *consts)

        return ns.lax.while_loop(goes_on, step, (np.int32(0), *args[:carries]))

    return of(loop, steps, *arrays(draw, carries + consts), text=f"{text} {fixed=} {by_value=}")


@row("custom_jvp_call", "custom_vjp_call", "custom_lin")
def with_a_rule(draw: Draw, name: str) -> Call:
    """Functions with custom rules. Linearization of a ``custom_vjp`` function creates ``custom_lin``."""
    count = draw.int(1, 2)
    run, text = body(draw, count, 1)
    rule, other = body(draw, count + 1, 1)
    symbolic, passive = draw.chance(0.2), count == 2 and draw.chance(0.2)

    def function(ns: Any, *xs: Any) -> Any:
        if name == "custom_jvp_call":
            f = ns.custom_jvp(lambda *xs: run(ns, *xs)[0], nondiff_argnums=())

            def f_jvp(primals: Any, tangents: Any) -> Any:
                terms = [rule(ns, *primals, ns.lax.full_like(t, 1.0))[0] * t for t in tangents]
                return f(*primals), functools.reduce(ns.lax.add, terms)

            f.defjvp(f_jvp)
            return f(*xs)
        g = ns.custom_vjp(lambda *xs: run(ns, *xs)[0])
        g.defvjp(
            lambda *xs: (run(ns, *xs)[0], xs),
            lambda xs, ct: tuple(None if passive and i else rule(ns, *xs, x)[0] * ct for i, x in enumerate(xs)),
        )
        return g(*xs)

    return of(function, *arrays(draw, count), text=f"{text}; {other} {symbolic=} {passive=}")


@row("custom_linear_solve")
def linear_solve(draw: Draw, name: str) -> Call:
    a, b = arrays(draw, 2)
    a = (np.abs(a) + 1).astype(a.dtype)
    how = draw.one(("symmetric", "transposed", "without"))

    def solve(ns: Any, a: Any, b: Any) -> Any:
        options: dict[str, Any] = {"symmetric": how == "symmetric"}
        if how == "transposed":
            options["transpose_solve"] = lambda vecmat, c: c / a
        return ns.lax.custom_linear_solve(lambda x: a * x, b, lambda matvec, c: c / a, **options)

    return of(solve, a, b, text=how)


# ----------------------------------------------------------------------------------------------------- callbacks


def host(x: Any, *rest: Any) -> Any:
    return np.asarray(np.asarray(x) * 2 + 1, np.asarray(x).dtype)


@row("pure_callback", "io_callback", "debug_callback", "debug_print")
def called_back(draw: Draw, name: str) -> Call:
    x, y = arrays(draw, 2)
    method = draw.one(("sequential", "expand_dims", "broadcast_all", None))
    ordered = draw.chance(0.3)

    def call(ns: Any, x: Any, y: Any) -> Any:
        result = ns.ShapeDtypeStruct(x.shape, x.dtype)
        if name == "pure_callback":
            return ns.pure_callback(host, result, x, y, vmap_method=method)
        if name == "io_callback":
            io_callback = importlib.import_module(f"{ns.__name__}.experimental").io_callback
            return io_callback(host, result, x, y, ordered=ordered)
        if name == "debug_print":
            ns.debug.print("", ordered=ordered) if method else ns.debug.callback(host, x)
        else:
            ns.debug.callback(lambda *xs: None, x, y, ordered=ordered)
        return ns.lax.mul(x, y)

    return of(call, x, y, text=f"{method} ordered={ordered}")


# ----------------------------------------------------------------------------------------------------- references


def index(draw: Draw, shape: Sequence[int], ns: Any = None) -> Any:
    """An index of a few axes: numbers, slices and arrays. No element is written twice."""
    if draw.chance(0.3) or not shape:
        return ...
    found: list[Any] = []
    for n in shape[: draw.int(1, len(shape))]:
        low = draw.int(0, max(n - 1, 0))
        kinds: list[Any] = [slice(None), slice(low, draw.int(low, n)), slice(None, None, 2)]
        kinds += [low, np.asarray(draw.order(n)[: draw.int(1, 2)], "int32")] if n else []
        found.append(draw.one(range(len(kinds))))
        found[-1] = kinds[found[-1]]
    return tuple(found)


@row("new_ref", "get", "swap", "addupdate", "freeze", "free_ref")
def of_references(draw: Draw, name: str) -> Call:
    x, y = arrays(draw, 2)
    wanted = {"swap": "set", "addupdate": "add"}.get(name, "get")
    steps = [(wanted, index(draw, x.shape))]
    steps += [(draw.one(("get", "set", "add", "swap")), index(draw, x.shape)) for _ in range(draw.int(0, 3))]
    steps = [steps[i] for i in draw.order(len(steps))]
    ending, within = name if name in ("freeze", "free_ref") else draw.one(("freeze", "read")), draw.chance(0.3)

    def act(ns: Any, x: Any, y: Any) -> Any:
        ref, outs = ns.new_ref(x), []
        for kind, where in steps:
            value = ns.numpy.sum(y) * ns.numpy.ones_like(x[where])
            if kind == "get":
                outs.append(ref[where] * 2)
            elif kind == "set":
                ref[where] = value
            elif kind == "add":
                ns.ref.addupdate(ref, where, value)
            else:
                outs.append(ns.ref.swap(ref, where, ns.lax.sin(value)))
        if ending == "freeze":
            return outs, ns.freeze(ref)
        outs.append(ref[...])
        if ending == "free_ref":
            ns.free_ref(ref)
        return outs

    def whole(ns: Any, x: Any, y: Any) -> Any:
        return ns.jit(functools.partial(act, ns))(x, y) if within else act(ns, x, y)

    shown = ", ".join(f"{kind}{where}" for kind, where in steps)
    return of(whole, x, y, text=f"{shown} {ending} within jit={within}")


# ---------------------------------------------------------------------------------------------------- named axes

COLLECTIVES = "psum pmax pmin ppermute all_gather all_to_all reduce_scatter axis_index pbroadcast".split()


@row(*COLLECTIVES)
def along_a_name(draw: Draw, name: str) -> Call:
    """A collective inside a vmap with a named axis. The axis has the size of the operand's first axis."""
    size = draw.int(1, 3)
    shape = [draw.size() for _ in range(draw.int(0, 2))]
    axis, other = draw.axis(len(shape)), draw.axis(len(shape))
    if name in ("all_to_all", "reduce_scatter") and 0 <= axis < len(shape) and draw.chance(0.85):
        shape[axis] = size * (draw.int(1, 2) if name == "reduce_scatter" else 1)
    x = draw.array((size, *shape), draw.dtype("fffi"), -1.0, 1.0)
    tiled, two, source = draw.flag(), draw.chance(0.3), draw.int(0, size - 1)
    order = draw.order(size)
    pairs = [(i, order[i]) for i in range(size) if draw.chance(0.8)]

    def inside(ns: Any, x: Any) -> Any:
        calls: dict[str, Callable[[], Any]] = {
            "psum": lambda: ns.lax.psum((x, 1), "i"),
            "ppermute": lambda: ns.lax.ppermute(x, "i", pairs),
            "all_gather": lambda: ns.lax.all_gather(x, "i", axis=axis, tiled=tiled),
            "all_to_all": lambda: ns.lax.all_to_all(x, "i", axis, other, tiled=tiled),
            "reduce_scatter": lambda: ns.lax.psum_scatter(x, "i", scatter_dimension=axis, tiled=tiled),
            "axis_index": lambda: ns.lax.axis_index("i") * x,
            "pbroadcast": lambda: ns.lax.pbroadcast(x, "i", source),
        }
        return calls.get(name, lambda: getattr(ns.lax, name)(x, "i"))()

    def mapped(ns: Any, x: Any) -> Any:
        f = ns.vmap(functools.partial(inside, ns), axis_name="i")
        if two:
            return ns.vmap(lambda y: ns.vmap(functools.partial(inside, ns), axis_name="i")(x * y))(x)
        return f(x)

    return of(mapped, x, text=f"axis={axis} {other} {tiled=} {two=} {source} {pairs if name == 'ppermute' else ''}")


def pmapped(draw: Draw) -> Call:
    """A ``shard_map`` over a mesh of one axis, as pmap creates it."""
    count = draw.int(1, 2)
    run, text = body(draw, count, 1)
    given = [stacked(draw, x, draw.int(1, 2)) for x in arrays(draw, 1)] * count
    sums = draw.flag()

    def mapped(ns: Any, *xs: Any) -> Any:
        def f(*xs: Any) -> Any:
            outs = run(ns, *xs)
            return [ns.lax.psum(out, "i") for out in outs] if sums else outs

        return ns.pmap(f, axis_name="i")(*xs)

    return of(mapped, *given, text=f"{text} {sums=}", vmap=False)


@row("shard_map", "pvary", "psum_invariant", "all_gather_invariant")
def over_a_mesh(draw: Draw, name: str) -> Call:
    """Each device computes from its shard and a replicated operand. One result is summed over the devices."""
    if name == "shard_map" and draw.flag():
        return pmapped(draw)
    count = draw.int(1, 2)
    x = draw.array((count * draw.int(1, 2), draw.size()), "float32", -1.0, 1.0)
    w = draw.array((), "float32", 0.5, 2.0)

    def mapped(ns: Any, x: Any, w: Any) -> Any:
        def f(x: Any, w: Any) -> Any:
            y = ns.lax.sin(x) * w
            return y, ns.lax.psum(y, "i"), ns.lax.all_gather(y, "i", to="invarying")

        mesh = ns.sharding.Mesh(np.array(ns.devices()[:count]), ("i",))
        part, whole = ns.sharding.PartitionSpec("i"), ns.sharding.PartitionSpec()
        return ns.shard_map(f, mesh=mesh, in_specs=(part, whole), out_specs=(part, whole, whole))(x, w)

    return of(mapped, x, w, text=f"{count} devices")


@row(
    "preduced", "reduced_vary_cast_p", "vary_unreduced_cast_p", "unreduced_psum", "unreduced_reduce_scatter",
    "all_gather_reduced",
)  # fmt: skip
def sums_over_a_mesh(draw: Draw, name: str) -> Call:
    """Sums over the devices, with unreduced and reduced types."""
    count = draw.int(1, 2)
    x = draw.array((count * draw.int(1, 2), draw.int(1, 3)), "float32", -1.0, 1.0)
    w = draw.array((), "float32", 0.5, 2.0)

    def mapped(ns: Any, x: Any, w: Any) -> Any:
        lax = ns.lax

        def f(x: Any, w: Any) -> Any:
            y = lax.sin(x) * lax.pcast(lax.pcast(w, "i", to="reduced"), "i", to="varying")
            both = lax.pcast(lax.all_gather(y, "i", tiled=True, to="reduced"), "i", to="varying")
            parts = lax.psum_scatter(lax.pcast(both * both, "i", to="unreduced"), "i", tiled=True)
            return parts, lax.psum(lax.pcast(y, "i", to="unreduced"), "i")

        mesh = ns.sharding.Mesh(np.array(ns.devices()[:count]), ("i",))
        part, whole = ns.sharding.PartitionSpec("i"), ns.sharding.PartitionSpec()
        return ns.shard_map(f, mesh=mesh, in_specs=(part, whole), out_specs=(part, whole))(x, w)

    return of(mapped, x, w, text=f"{count} devices")


@row("sharding_constraint")
def to_be_divided(draw: Draw, name: str) -> Call:
    count = draw.int(1, 2)
    x = draw.array((2 * count, draw.size()), "float32", -1.0, 1.0)

    def constrained(ns: Any, x: Any) -> Any:
        mesh = ns.sharding.Mesh(np.array(ns.devices()[:count]), ("i",))
        spec = ns.sharding.PartitionSpec(None, "i") if x.shape[1] % count == 0 else ns.sharding.PartitionSpec("i")
        return ns.lax.with_sharding_constraint(x * 2.0, ns.sharding.NamedSharding(mesh, spec))

    return of(constrained, x, text=f"{count} devices")


@row("reshard")
def to_be_divided_otherwise(draw: Draw, name: str) -> Call:
    """Reshard along an explicit axis and back. For a single device, JAX compiles ``reshard`` only if no mesh is set."""
    count = 1
    x = draw.array((2 * count, count * draw.size()), "float32", -1.0, 1.0)

    def resharded(ns: Any, x: Any) -> Any:
        explicit = (ns.sharding.AxisType.Explicit,)
        mesh = ns.sharding.Mesh(np.array(ns.devices()[:count]), ("i",), axis_types=explicit)
        spec = ns.sharding.PartitionSpec
        y = ns.sharding.reshard(x * 2.0, ns.sharding.NamedSharding(mesh, spec("i")))
        return ns.sharding.reshard(ns.lax.sin(y), ns.sharding.NamedSharding(mesh, spec(None, None)))

    return of(resharded, x, text=f"{count} devices")
