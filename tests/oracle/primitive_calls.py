"""Random calls of every primitive, from a seed. A call is a function of a namespace (minijax or JAX) and arrays.

``ROWS`` has a function for each primitive. The function draws parameters, shapes (scalar, empty, of one element,
broadcasting or unsuitable) and dtypes. Some calls are invalid: both libraries must raise the same class of error.
"""

from __future__ import annotations

import importlib
import itertools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Shape = tuple[int, ...]
bfloat16 = ml_dtypes.bfloat16

FLOATS = ("float32", "bfloat16", "float16", "float64")
COMPLEX = ("complex64", "complex128")
SIGNED = ("int32", "int8", "int16", "int64")
UNSIGNED = ("uint8", "uint32", "uint16", "uint64")
KINDS = {"f": (FLOATS, (9, 2, 2, 1)), "c": (COMPLEX, (4, 1)), "i": (SIGNED, (4, 2, 1, 1))}
KINDS |= {"u": (UNSIGNED, (3, 2, 1, 1)), "b": (("bool",), (1,))}
WIDE = ("float64", "complex128", "int64", "uint64")
EVERY = "fffffiiuubc"


@dataclass(frozen=True, eq=False)
class Call:
    """A call ``function(ns, *args)`` of a primitive; the arguments are NumPy arrays and Python numbers."""

    primitive: str
    text: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    wide: bool = False
    derivative: bool = True
    vmap: bool = True

    def __str__(self) -> str:
        shown = [f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else repr(x) for x in self.args]
        return f"{self.primitive}({', '.join(shown)}) {self.text}{' in 64 bits' * self.wide}"


class Draw:
    """Random choices from a seed."""

    def __init__(self, *seed: int) -> None:
        self.random = np.random.default_rng(seed)
        # whether 64-bit mode is on
        self.wide = self.chance(0.12)

    def chance(self, p: float) -> bool:
        return bool(self.random.random() < p)

    def one(self, among: Sequence[Any], weights: Sequence[float] | None = None) -> Any:
        p = None if weights is None else np.asarray(weights, float) / sum(weights)
        return among[int(self.random.choice(len(among), p=p))]

    def int(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        return int(self.random.integers(low, high + 1))

    def ints(self, n: int, low: int, high: int) -> tuple[int, ...]:
        return tuple(self.int(low, high) for _ in range(n))

    def order(self, n: int) -> tuple[int, ...]:
        return tuple(int(i) for i in self.random.permutation(n))

    def size(self) -> int:
        return int(self.one((0, 1, 2, 3, 4), (1, 3, 4, 5, 1)))

    def shape(self, least: int = 0, most: int = 3) -> Shape:
        """A shape with ``least`` to ``most`` axes."""
        weights = (2, 5, 5, 2)[: most - least + 1] if least == 0 else (5, 4, 2)[: most - least + 1]
        return tuple(self.size() for _ in range(self.one(range(least, most + 1), weights)))

    def dtype(self, kinds: str, odd: float = 0.06) -> str:
        """A dtype of one of the ``kinds`` that the primitive accepts; with probability ``odd``, of any kind."""
        names, weights = KINDS[self.one(EVERY if self.chance(odd) else kinds)]
        name = self.one(names, weights)
        return name if self.wide or name not in WIDE else names[0]

    def array(self, shape: Shape, dtype: str, low: float = -3.0, high: float = 3.0, plain: bool = False) -> np.ndarray:
        """Irregular values between ``low`` and ``high``. Unless ``plain``, some are small integers, nan or inf."""
        x = self.random.uniform(low, high, shape)
        special = 1.0 if plain else self.random.random()
        if special < 0.15 and low < 0:
            x = self.random.choice([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 3.0], shape)
        elif special < 0.2 and low < 0:
            x = np.where(self.random.random(shape) < 0.3, self.one((np.nan, np.inf, -np.inf, 0.0)), x)
        kind = "f" if dtype == "bfloat16" else np.dtype(dtype).kind
        with np.errstate(all="ignore"):
            if kind == "b":
                return np.asarray(self.random.random(shape) < 0.5)
            if kind in "iu":
                x = np.nan_to_num(np.round(x * (1 if self.chance(0.7) else 30)))
                return np.asarray((np.abs(x) if kind == "u" else x).astype(dtype))
            if kind == "c":
                return np.asarray((x + 1j * self.random.uniform(low, high, shape)).astype(dtype))
            return np.asarray(x.astype(bfloat16 if dtype == "bfloat16" else dtype))

    def operand(self, kinds: str, least: int = 0, most: int = 3, **limits: float) -> np.ndarray:
        return self.array(self.shape(least, most), self.dtype(kinds), **limits)

    def axis(self, rank: int) -> int:
        """An axis of an array of this rank. In 5 % of the draws it may also be -1 or one too large."""
        return self.int(-1, rank) if self.chance(0.05) else self.int(0, max(rank - 1, 0))

    def axes(self, rank: int) -> tuple[int, ...]:
        """Some axes, in increasing order."""
        return tuple(i for i in range(rank) if self.chance(0.5))

    def flag(self) -> bool:
        return self.chance(0.5)


Row = Callable[[Draw, str], Call | None]
ROWS: dict[str, Row] = {}


def row(*names: str) -> Callable[[Row], Row]:
    """Decorator: register the function that draws calls of the primitives ``names``."""

    def register(function: Row) -> Row:
        for name in names:
            assert name not in ROWS, name
            ROWS[name] = function
        return function

    return register


def draw_call(primitive: str, seed: int, number: int) -> Call:
    """Call number ``number`` of a primitive: the same seed always gives the same call."""
    for attempt in itertools.count():
        draw = Draw(seed, zlib.crc32(primitive.encode()), number, attempt)
        call = ROWS[primitive](draw, primitive)
        if call is not None:
            return Call(primitive, call.text, call.function, call.args, draw.wide, call.derivative, call.vmap)
    raise AssertionError


def of(function: Callable[..., Any], *args: Any, text: str = "", **asked: bool) -> Call:
    return Call("", text, function, args, **asked)


# ------------------------------------------------------------------------------------------------ elementwise

NAMES = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "not": "bitwise_not"}
UNARY = {
    **dict.fromkeys("acos acosh asin asinh atan atanh cos cosh exp exp2 expm1 log log1p logistic".split(), "fffc"),
    **dict.fromkeys("rsqrt sin sinh sqrt tan tanh".split(), "fffc"),
    **dict.fromkeys("cbrt ceil digamma erf erf_inv erfc floor is_finite lgamma".split(), "f"),
    **dict.fromkeys("clz population_count".split(), "iu"),
    **dict.fromkeys("conj imag real".split(), "fccc"),
    **dict.fromkeys("abs neg sign square".split(), "ffficu"),
    "not": "iub",
}
BINARY = {
    **dict.fromkeys("add mul sub".split(), "fffiuc"),
    **dict.fromkeys("div pow".split(), "fffcci"),
    **dict.fromkeys("eq ne".split(), "ffiubc"),
    **dict.fromkeys("ge gt le lt".split(), "ffiub"),
    **dict.fromkeys("max min".split(), "ffiubc"),
    **dict.fromkeys("and or xor".split(), "iub"),
    **dict.fromkeys("atan2 nextafter polygamma".split(), "f"),
    **dict.fromkeys("shift_left shift_right_arithmetic shift_right_logical mulhi".split(), "iu"),
    "complex": "f",
    "rem": "fffiu",
}


def together(draw: Draw, kinds: str, count: int, positive: bool = False) -> list[Any]:
    """Operands of one dtype and shape. Sometimes shapes broadcast, shapes or dtypes differ, or one is a number."""
    shape, dtype = draw.shape(), draw.dtype(kinds)
    how = draw.one(("alike", "ones", "number", "scalar", "shapes", "dtypes"), (12, 4, 2, 2, 1, 1))
    shapes = [shape] * count
    if how == "ones":
        shapes = [tuple(1 if draw.chance(0.4) else n for n in shape) for _ in range(count)]
    if how == "scalar":
        shapes[draw.int(0, count - 1)] = ()
    if how == "shapes":
        shapes[-1] = draw.shape()
    dtypes = [draw.dtype(kinds) if how == "dtypes" else dtype for _ in range(count)]
    low = {"low": 0.05} if positive and draw.chance(0.8) else {}
    args: list[Any] = [draw.array(s, d, **low) for s, d in zip(shapes, dtypes, strict=True)]
    if how == "number" and count > 1:
        kind = draw.one("fib")
        args[draw.int(0, count - 1)] = {"f": 1.5, "i": 2, "b": True}[kind]
    return args


def lax(name: str) -> Callable[..., Any]:
    return lambda ns, *args: getattr(ns.lax, NAMES.get(name, name))(*args)


@row(*UNARY)
def unary(draw: Draw, name: str) -> Call:
    x: Any = draw.operand(UNARY[name])
    if draw.chance(0.08):
        x = draw.one((0.5, 2, True, -1.25))
    return of(lax(name), x)


@row(*BINARY)
def binary(draw: Draw, name: str) -> Call | None:
    if name == "mul" and draw.chance(0.1):
        wanted = np.dtype(draw.one(("float32", "int32", "int8")))
        args = together(draw, "f" if wanted.kind == "f" else "i", 2)
        return of(lambda ns, x, y: ns.lax.mul(x, y, out_dtype=wanted), *args, text=f"out_dtype={wanted}")
    args = together(draw, BINARY[name], 2, positive=name == "polygamma")
    if name == "pow" and draw.chance(0.3):
        args[1] = draw.array(np.shape(args[0]), "int32")
    return of(lax(name), *args)


@row("eq_to", "le_to", "lt_to")
def in_total_order(draw: Draw, name: str) -> Call:
    x = draw.operand("f")
    y = draw.array(x.shape, str(x.dtype))
    return of(lambda ns, x, y: getattr(ns.lax, f"{name}_p").bind(x, y), x, np.where(draw.array(x.shape, "bool"), x, y))


@row("add_any")
def sums_of_cotangents(draw: Draw, name: str) -> Call:
    """``add_any`` occurs in the gradient of a value that is used more than once."""
    x = draw.operand("ffc")

    def used_twice(ns: Any, x: Any) -> Any:
        return ns.vjp(lambda x: (ns.lax.sin(x), ns.lax.mul(x, x), ns.lax.neg(x)), x)[1]((x, x, x))

    return of(used_twice, x)


@row("integer_pow")
def integer_powers(draw: Draw, name: str) -> Call:
    n = draw.int(-4, 6)
    return of(lambda ns, x: ns.lax.integer_pow(x, n), draw.operand("fffci"), text=f"y={n}")


@row("round")
def rounding(draw: Draw, name: str) -> Call:
    how = draw.int(0, 1)
    return of(lambda ns, x: ns.lax.round(x, ns.lax.RoundingMethod(how)), draw.operand("f"), text=str(how))


@row("clamp")
def clamped(draw: Draw, name: str) -> Call:
    low, x, high = together(draw, "fffiu", 3)
    if draw.chance(0.4):
        low, high = (np.asarray(y).reshape(-1)[:1].reshape(()) if np.size(y) else y for y in (low, high))
    return of(lax(name), low, x, high)


@row("select_n")
def selected(draw: Draw, name: str) -> Call:
    which = draw.one(("bool", "int32"))
    cases = together(draw, EVERY, 2 if which == "bool" else draw.int(1, 4))
    shape = () if draw.chance(0.2) else np.shape(cases[0])
    chosen = (
        draw.array(shape, "bool")
        if which == "bool"
        else np.asarray(draw.random.integers(-1, len(cases) + 1, shape), "int32")
    )
    return of(lambda ns, w, *cases: ns.lax.select_n(w, *cases), chosen, *cases)


# ------------------------------------------------------------------------------------- conversions and shapes


@row("convert_element_type")
def converted(draw: Draw, name: str) -> Call:
    to = draw.dtype(EVERY)
    return of(lambda ns, x: ns.lax.convert_element_type(x, to), draw.operand(EVERY), text=to)


@row("bitcast_convert_type")
def bitcast(draw: Draw, name: str) -> Call:
    x, to = draw.operand("fiu"), draw.dtype("fiu")
    factor = max(np.dtype(to if to != "bfloat16" else bfloat16).itemsize // x.dtype.itemsize, 1)
    if factor > 1 and draw.chance(0.9):
        x = draw.array((*x.shape, factor), str(x.dtype))
    return of(lambda ns, x: ns.lax.bitcast_convert_type(x, to), x, text=to)


@row("reduce_precision")
def less_precise(draw: Draw, name: str) -> Call:
    bits = draw.int(2, 8), draw.int(1, 12)
    return of(lambda ns, x: ns.lax.reduce_precision(x, *bits), draw.operand("f"), text=str(bits))


@row("copy")
def copied(draw: Draw, name: str) -> Call:
    return of(lambda ns, x: ns.numpy.array(x, copy=True), draw.operand(EVERY))


@row("stop_gradient")
def stopped(draw: Draw, name: str) -> Call:
    return of(lambda ns, x: ns.lax.mul(ns.lax.stop_gradient(x), x), draw.operand("fffci"))


@row("broadcast_in_dim")
def broadcast(draw: Draw, name: str) -> Call:
    x = draw.operand(EVERY, most=2)
    rank = draw.int(x.ndim, 4)
    where = sorted(draw.order(rank)[: x.ndim])
    if draw.chance(0.08):
        where = where[::-1]
    shape = [draw.size() for _ in range(rank)]
    for i, n in zip(where, x.shape, strict=True):
        shape[i] = n if n != 1 or draw.flag() else shape[i]
    return of(lambda ns, x: ns.lax.broadcast_in_dim(x, shape, where), x, text=f"{shape} {where}")


@row("reshape")
def reshaped(draw: Draw, name: str) -> Call:
    x = draw.operand(EVERY)
    factors = [n for n in x.shape if n != 1]
    wanted = [factors[i] for i in draw.order(len(factors))]
    if len(wanted) > 1 and draw.flag():
        wanted = [wanted[0] * wanted[1], *wanted[2:]]
    for _ in range(draw.int(0, 2)):
        wanted.insert(draw.int(0, len(wanted)), 1)
    if draw.chance(0.05):
        wanted.append(2)
    order = draw.order(x.ndim) if draw.chance(0.2) else None
    return of(lambda ns, x: ns.lax.reshape(x, wanted, order), x, text=f"{wanted} {order}")


@row("squeeze")
def squeezed(draw: Draw, name: str) -> Call:
    shape = list(draw.shape(0, 2))
    for _ in range(draw.int(0, 2)):
        shape.insert(draw.int(0, len(shape)), 1)
    axes = [i for i, n in enumerate(shape) if n == 1 and draw.chance(0.7)]
    if draw.chance(0.06):
        axes.append(draw.axis(len(shape)))
    return of(lambda ns, x: ns.lax.squeeze(x, axes), draw.array(tuple(shape), draw.dtype(EVERY)), text=str(axes))


@row("transpose", "rev")
def rearranged(draw: Draw, name: str) -> Call:
    x = draw.operand(EVERY)
    axes = draw.order(x.ndim) if name == "transpose" else draw.axes(x.ndim)
    axes = axes if draw.chance(0.95) else draw.axes(x.ndim + 1)
    return of(lambda ns, x: getattr(ns.lax, name)(x, axes), x, text=str(axes))


@row("tile")
def tiled(draw: Draw, name: str) -> Call:
    x = draw.operand(EVERY)
    reps = draw.ints(x.ndim if draw.chance(0.95) else x.ndim + 1, 0, 3)
    return of(lambda ns, x: ns.lax.tile(x, reps), x, text=str(reps))


@row("iota")
def iotas(draw: Draw, name: str) -> Call:
    dtype, shape = draw.dtype("fiuc"), draw.shape(1)
    axis = draw.axis(len(shape))
    x = draw.array((), "float32")
    return of(lambda ns, x: (ns.lax.broadcasted_iota(dtype, shape, axis), x), x, text=f"{dtype} {shape} {axis}")


@row("slice")
def sliced(draw: Draw, name: str) -> Call:
    x = draw.operand(EVERY)
    starts = tuple(draw.int(0, n) for n in x.shape)
    limits = tuple(draw.int(s, n + (1 if draw.chance(0.03) else 0)) for s, n in zip(starts, x.shape, strict=True))
    strides = draw.ints(x.ndim, 1, 3) if draw.flag() else None
    return of(lambda ns, x: ns.lax.slice(x, starts, limits, strides), x, text=f"{starts} {limits} {strides}")


@row("pad")
def padded(draw: Draw, name: str) -> Call:
    x = draw.operand(EVERY)
    config = [(draw.int(-2, 2), draw.int(-2, 2), draw.int(0, 2)) for _ in x.shape]
    return of(lambda ns, x, v: ns.lax.pad(x, v, config), x, draw.array((), str(x.dtype)), text=str(config))


@row("concatenate", "stack")
def joined(draw: Draw, name: str) -> Call:
    shape, dtype, count = draw.shape(1 if name == "concatenate" else 0), draw.dtype(EVERY), draw.int(1, 3)
    axis = draw.axis(len(shape) + (name == "stack"))
    shapes = [list(shape) for _ in range(count)]
    if name == "concatenate" and 0 <= axis < len(shape):
        for each in shapes:
            each[axis] = draw.size()
    args = [draw.array(tuple(s), dtype if draw.chance(0.97) else draw.dtype(EVERY)) for s in shapes]
    return of(lambda ns, *xs: getattr(ns.lax, name)(xs, axis), *args, text=f"axis={axis}")


@row("split", "unstack")
def parted(draw: Draw, name: str) -> Call:
    x = draw.operand(EVERY, least=1)
    axis = draw.axis(x.ndim)
    if name == "unstack":
        return of(lambda ns, x: ns.lax.unstack(x, axis), x, text=f"axis={axis}")
    left, sizes = x.shape[axis] if -x.ndim <= axis < x.ndim else 0, []
    while left or not sizes:
        sizes.append(draw.int(0, left))
        left -= sizes[-1]
    sizes[-1] += draw.chance(0.04)
    return of(lambda ns, x: ns.lax.split(x, sizes, axis), x, text=f"{sizes} axis={axis}")


@row("dynamic_slice", "dynamic_update_slice")
def at_dynamic_indices(draw: Draw, name: str) -> Call:
    x = draw.operand(EVERY)
    kind = draw.dtype("iu", odd=0)
    starts = [draw.array((), kind) if draw.chance(0.7) else draw.int(-2, 4) for _ in x.shape]
    sizes = tuple(draw.int(0, n) for n in x.shape)
    if name == "dynamic_slice":
        return of(lambda ns, x, *i: ns.lax.dynamic_slice(x, i, sizes), x, *starts, text=str(sizes))
    y = draw.array(sizes, str(x.dtype))
    return of(lambda ns, x, y, *i: ns.lax.dynamic_update_slice(x, y, i), x, y, *starts)


# ---------------------------------------------------------------------------------------- gather and scatter


def gathering(draw: Draw, shape: Shape, indices: str) -> tuple[np.ndarray, tuple[Any, ...], Shape] | None:
    """Indices, dimension numbers and slice sizes for an operand of this shape."""
    rank = len(shape)
    if 0 in shape:
        return None
    batch = draw.shape(0, 2)
    batching = (draw.int(0, rank - 1),) if rank and len(batch) and draw.chance(0.15) else ()
    in_indices = (draw.int(0, len(batch) - 1),) if batching else ()
    if batching:
        batch = tuple(shape[batching[0]] if i == in_indices[0] else n for i, n in enumerate(batch))
    others = [i for i in range(rank) if i not in batching]
    indexed = tuple(i for i in draw.order(rank) if i in others and draw.chance(0.6))
    collapsed = tuple(i for i in others if draw.chance(0.5))
    sizes = tuple(
        1 if i in collapsed or i in batching else draw.int(0 if draw.chance(0.1) else 1, shape[i]) for i in range(rank)
    )
    windows = len(others) - len(collapsed)
    offsets = tuple(sorted(draw.order(windows + len(batch))[:windows]))
    where = np.asarray(draw.random.integers(-1 if indices[0] == "i" else 0, 4, (*batch, len(indexed))), indices)
    return where, (offsets, collapsed, indexed, batching, in_indices), sizes


MODES = ("clip", "fill", "promise_in_bounds")


@row("gather")
def gathered(draw: Draw, name: str) -> Call | None:
    x = draw.operand(EVERY)
    made = gathering(draw, x.shape, draw.dtype("iu", odd=0))
    if made is None:
        return None
    where, numbers, sizes = made
    mode = draw.one(MODES[:2])

    def gather(ns: Any, x: Any, i: Any) -> Any:
        return ns.lax.gather(x, i, ns.lax.GatherDimensionNumbers(*numbers), sizes, mode=mode)

    return of(gather, x, where, text=f"{numbers} {sizes} {mode}")


@row("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max")
def scattered(draw: Draw, name: str) -> Call | None:
    x = draw.operand("fffiuc" if name not in ("scatter-min", "scatter-max") else "fffiu")
    made = gathering(draw, x.shape, draw.dtype("iu", odd=0))
    if made is None:
        return None
    where, numbers, sizes = made
    outer, window = iter(where.shape[:-1]), iter(n for i, n in enumerate(sizes) if i not in numbers[1] + numbers[3])
    rank = len(numbers[0]) + where.ndim - 1
    shape = tuple(next(window) if d in numbers[0] else next(outer) for d in range(rank))
    mode, unique = draw.one(MODES[:2]), draw.chance(0.3) and int(np.prod(where.shape[:-1])) <= 1
    function = name.replace("-", "_")

    def scatter(ns: Any, x: Any, i: Any, y: Any) -> Any:
        dimensions = ns.lax.ScatterDimensionNumbers(*numbers)
        return getattr(ns.lax, function)(x, i, y, dimensions, mode=mode, unique_indices=unique)

    updates = draw.array(shape, str(x.dtype))
    if name == "scatter":
        # if two updates hit the same element, the result depends on their order: so all updates are equal
        updates = np.full_like(updates, 1)
    return of(scatter, x, where, updates, text=f"{numbers} {sizes} {mode} unique={unique}")


# ------------------------------------------------------------------------------------ reductions and products


@row(*(f"reduce_{n}" for n in "sum prod max min and or xor".split()))
def reduced(draw: Draw, name: str) -> Call:
    kinds = {"reduce_sum": "fffiuc", "reduce_prod": "fffiuc", "reduce_max": "fffiub", "reduce_min": "fffiub"}
    x = draw.operand(kinds.get(name, "iub"))
    axes = draw.axes(x.ndim) if draw.chance(0.97) else (x.ndim,)
    return of(lambda ns, x: getattr(ns.lax, name)(x, axes), x, text=str(axes))


@row("argmax", "argmin")
def arguments_of_extrema(draw: Draw, name: str) -> Call:
    x, to = draw.operand("fffiub", least=1), draw.dtype("iu")
    axis = draw.axis(x.ndim)
    return of(lambda ns, x: getattr(ns.lax, name)(x, axis, to), x, text=f"{axis} {to}")


@row("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def running(draw: Draw, name: str) -> Call:
    x = draw.operand("f" if name == "cumlogsumexp" else "fffiu", least=1)
    axis, reverse = draw.axis(x.ndim), draw.flag()
    return of(lambda ns, x: getattr(ns.lax, name)(x, axis, reverse), x, text=f"{axis} reverse={reverse}")


@row("sort")
def sorted_(draw: Draw, name: str) -> Call:
    xs = [x for x in together(draw, EVERY, draw.int(1, 3)) if isinstance(x, np.ndarray)]
    if not all(x.shape == xs[0].shape for x in xs):
        xs = xs[:1]
    if draw.chance(0.4) and len(xs) > 1:
        xs[0] = draw.array(xs[0].shape, "int8")
    axis, keys, stable = draw.axis(xs[0].ndim), draw.int(1, len(xs)), draw.chance(0.8) or len(xs) == 1

    def sort(ns: Any, *xs: Any) -> Any:
        return ns.lax.sort(xs, dimension=axis, num_keys=keys, is_stable=True)

    return of(sort, *xs, text=f"{axis} keys={keys} stable={stable}")


@row("top_k")
def largest(draw: Draw, name: str) -> Call:
    x = draw.operand("fffiu", least=1)
    axis = draw.axis(x.ndim)
    k = draw.int(0, x.shape[axis] if -x.ndim <= axis < x.ndim else 2) + draw.chance(0.04)
    return of(lambda ns, x: ns.lax.top_k(x, k, axis=axis), x, text=f"k={k} axis={axis}")


@row("dot_general")
def products(draw: Draw, name: str) -> Call:
    """A random contraction: batch axes, contracted axes and free axes, in any order."""
    kinds = [draw.one(("batch", "contract", "left", "right")) for _ in range(draw.int(0, 5))]
    named = [(kind, i, draw.size()) for i, kind in enumerate(kinds)]
    sides = []
    for other in ("right", "left"):
        side = [n for n in named if n[0] != other]
        sides.append([side[i] for i in draw.order(len(side))])
    numbers = tuple(
        tuple(tuple(side.index(n) for n in named if n[0] == kind) for side in sides) for kind in ("contract", "batch")
    )
    dtype = draw.dtype("fffciub")
    dtypes = [dtype, dtype if draw.chance(0.95) else draw.dtype("fi")]
    x, y = (draw.array(tuple(n[2] for n in side), d) for side, d in zip(sides, dtypes, strict=True))
    to = draw.one(("float32", "int32", "complex64")) if draw.chance(0.15) else None
    return of(
        lambda ns, x, y: ns.lax.dot_general(x, y, numbers, preferred_element_type=to), x, y, text=f"{numbers} {to}"
    )


@row("reduce")
def reduced_by_a_function(draw: Draw, name: str) -> Call:
    count = draw.int(1, 2)
    shape, dtypes = draw.shape(), [draw.dtype("ffi", odd=0) for _ in range(count)]
    xs, axes = [draw.array(shape, d) for d in dtypes], draw.axes(len(shape))
    which = draw.one(("add", "mul", "max", "both"))

    def computation(ns: Any) -> Any:
        if which != "both":
            f = getattr(ns.lax, which)
            return (lambda a, b: f(a, b)) if count == 1 else lambda a, b: tuple(map(f, a, b))
        if count == 1:
            return lambda a, b: a + b + a * b
        return lambda a, b: (a[0] + b[0], a[1] * b[1])

    start = {"add": 0, "mul": 1, "max": -100, "both": 0}[which]
    starts = [np.asarray(start, d if d != "bfloat16" else bfloat16) for d in dtypes]
    if which == "both" and count == 2:
        starts[1] = starts[1] + starts[1].dtype.type(1)

    def reduce(ns: Any, *given: Any) -> Any:
        xs, starts = given[:count], given[count:]
        if count == 1:
            return ns.lax.reduce(xs[0], starts[0], computation(ns), axes)
        return ns.lax.reduce(xs, starts, computation(ns), axes)

    return of(reduce, *xs, *starts, text=f"{which} {axes}")


@row("conv_general_dilated")
def convolved(draw: Draw, name: str) -> Call:
    rank = draw.int(0, 2)
    feature, batch = draw.one(((1, 1), (2, 1), (1, 2)), (4, 1, 1))
    channels, outputs, images = draw.int(1, 2), draw.int(1, 2) * feature * batch, draw.int(0, 2) * batch
    lhs = images, channels * feature, *(draw.int(1, 4) for _ in range(rank))
    rhs = outputs, channels, *(draw.int(1, 3) for _ in range(rank))
    names = "NC" + "HW"[:rank], "OI" + "HW"[:rank], "NC" + "HW"[:rank]
    layout = [draw.order(rank + 2) if draw.flag() else tuple(range(rank + 2)) for _ in names]
    numbers = tuple("".join(n[i] for i in order) for n, order in zip(names, layout, strict=True))
    dtype = draw.dtype("fffci")
    x, k = (draw.array(tuple(s[i] for i in o), dtype) for s, o in zip((lhs, rhs), layout[:2], strict=True))
    params = {
        "window_strides": draw.ints(rank, 1, 2),
        "padding": draw.one(("SAME", "VALID", [(draw.int(-1, 2), draw.int(0, 2)) for _ in range(rank)])),
        "lhs_dilation": draw.ints(rank, 1, 2),
        "rhs_dilation": draw.ints(rank, 1, 2),
        "dimension_numbers": numbers,
        "feature_group_count": feature,
        "batch_group_count": batch,
        "preferred_element_type": draw.one((None, "float32"), (5, 1)),
    }
    return of(lambda ns, x, k: ns.lax.conv_general_dilated(x, k, **params), x, k, text=str(params))


# ------------------------------------------------------------------------------------------------------ keys


def words(draw: Draw, *shape: int) -> np.ndarray:
    return np.asarray(draw.random.integers(0, 2**32, (*shape, 2)), "uint32")


@row("random_wrap", "random_unwrap", "random_clone", "random_split", "random_fold_in", "random_bits")
def of_keys(draw: Draw, name: str) -> Call:
    shape, width, data = draw.shape(0, 2), draw.one((8, 16, 32)), draw.int(0, 2**32 - 1)
    typed = draw.chance(0.9)
    x = words(draw)

    def function(ns: Any, x: Any) -> Any:
        keys = ns.random.wrap_key_data(x) if typed or name == "random_wrap" else x
        if name == "random_bits":
            return ns.random.bits(keys, shape, f"uint{width}")
        made = {
            "random_split": lambda: ns.random.split(keys, shape or 3),
            "random_fold_in": lambda: ns.random.fold_in(keys, data),
            "random_clone": lambda: ns.random.clone(keys),
        }.get(name, lambda: keys)()
        return ns.random.key_data(made)

    return of(function, x, text=f"{shape} uint{width} {data} typed={typed}")


@row("random_seed")
def seeded(draw: Draw, name: str) -> Call:
    x = draw.array((), draw.dtype("iu"))
    return of(lambda ns, x: ns.random.key_data(ns.random.key(x)), x)


@row("threefry2x32")
def threefry(draw: Draw, name: str) -> Call:
    shape = draw.shape(0, 2)
    args = [np.asarray(draw.random.integers(0, 2**32, s), "uint32") for s in (shape,) * 4]
    return of(lambda ns, *args: _threefry(ns).bind(*args), *args)


def _threefry(ns: Any) -> Any:
    return importlib.import_module(f"{ns.__name__}.extend.core.primitives").threefry2x32_p
