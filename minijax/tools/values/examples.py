"""Runs operations on batches of examples, one operation at a time, by the engine's batching rules.

In: a function of arrays, and its arguments, which have a leading axis for each vmap that maps them, outermost first.
Out: its results in the same form. A value that is the same for all examples of a vmap has no axis for that vmap.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from minijax.config import (
    checking_leaks,
    debug_infs,
    debug_key_reuse,
    debug_nans,
    enable_x64,
    explain_cache_misses,
    log_compiles,
    no_tracing,
    numpy_dtype_promotion,
    numpy_rank_promotion,
)
from minijax.core import observe
from minijax.core.array import Array, as_array
from minijax.core.avals import ShapedArray
from minijax.core.keys import storage
from minijax.core.records import Frozen, NamedTuple
from minijax.core.structural import moveaxis
from minijax.core.trace import check_alive, state
from minijax.interpreters.program import program
from minijax.interpreters.stage import stage
from minijax.interpreters.vmap import AxisData, batch
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.ops.call import compiled

# A loop is compiled if its NumPy calls, over all iterations, are more than this: they would take almost a second.
WORTH_COMPILING = 500_000


# User settings that forbid, check or report what a program does, with the values that switch them off.
NEUTRAL = (
    (debug_nans, False),
    (debug_infs, False),
    (checking_leaks, False),
    (debug_key_reuse, False),
    (no_tracing, False),
    (log_compiles, False),
    (explain_cache_misses, False),
    (numpy_rank_promotion, "allow"),
    (numpy_dtype_promotion, "standard"),
)


class Unknown(Frozen):
    """A missing value; ``reason`` says why it is missing."""

    reason: str

    def __str__(self) -> str:
        return f"not known: {self.reason}"


class Stacked(NamedTuple):
    """The values of all examples; ``mapped`` tells for each vmap whether the array has an axis for it."""

    array: Array
    mapped: tuple[bool, ...] = ()


# A function of arrays. It returns its results and a side result, which depends only on the operands' types.
Operation = Callable[..., tuple[Sequence[Any], Any]]


@contextmanager
def apart(wide: bool = False) -> Iterator[None]:
    """In the block there are no observers, no checks, and no interpreters of the user on the stack.

    ``wide`` allows 64-bit types.
    """
    wanted = (*NEUTRAL, (enable_x64, True)) if wide else NEUTRAL
    settings = [setting(value) for setting, value in wanted if setting.value != value]
    outer = state.stack, state.dynamic, state.axis_env, state.source
    try:
        with ExitStack() as entered:
            entered.enter_context(observe.unobserved())
            entered.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            for setting in settings:
                entered.enter_context(setting)
            state.stack = []
            state.start()
            state.axis_env, state.source = (), None
            yield
    finally:
        state.stack, state.dynamic, state.axis_env, state.source = outer


class RuleNeeded(Exception):
    """Evaluation would have to run a custom derivative rule."""


def why(error: Exception) -> Unknown:
    """The Unknown for a value whose evaluation raised ``error``."""
    if isinstance(error, RuleNeeded):
        return Unknown(str(error))
    text = str(error).strip().partition("\n")[0]
    return Unknown(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def zeros_of(aval: ShapedArray, levels: int) -> Stacked:
    """Zeros of type ``aval``, the same for all examples; they take no memory."""
    zero: Any = np.zeros((), storage(aval.dtype))
    return Stacked(Array(np.broadcast_to(zero, (*aval.shape, *zero.shape)), aval), (False,) * levels)


def with_zeros(eqn: Any, ins: Sequence[Any], levels: int) -> list[Stacked]:
    """The operands of ``eqn``, with zeros in place of unknown ones."""
    return [zeros_of(v.aval, levels) if isinstance(x, Unknown) else x for v, x in zip(eqn.invars, ins, strict=True)]


def first_unknown(values: Sequence[Any]) -> Unknown | None:
    """The first unknown among ``values``."""
    return next((x for x in values if isinstance(x, Unknown)), None)


def spread_out(x: Stacked, mapped: Sequence[bool], sizes: Sequence[int]) -> np.ndarray:
    """The values of ``x`` with an axis for each vmap flagged in ``mapped``."""
    value = np.asarray(x.array._value())
    at = 0
    for own, wanted, size in zip(x.mapped, mapped, sizes, strict=True):
        if wanted and not own:
            value = np.broadcast_to(np.expand_dims(value, at), (*value.shape[:at], size, *value.shape[at:]))
        at += wanted
    return value


def row(x: Stacked, at: int | slice) -> Stacked:
    """Element ``at`` along the first axis of each example."""
    value = np.asarray(x.array._value())[(*[slice(None)] * sum(x.mapped), at)]
    n, aval = sum(x.mapped), x.array.aval
    shape = aval.shape
    size = () if isinstance(at, int) else (len(range(*at.indices(shape[n]))),)
    return Stacked(Array(value, aval.update(shape=(*shape[:n], *size, *shape[n + 1 :]))), x.mapped)


def of_example(x: Stacked, index: Sequence[int | None]) -> Stacked:
    """Select one example: ``index`` has the example's number in each vmap; None keeps all examples of that vmap."""
    pairs = [(i, mapped) for i, mapped in zip(index, x.mapped, strict=True)]
    at = tuple(slice(None) if i is None else i for i, mapped in pairs if mapped)
    aval = x.array.aval
    shape = tuple(n for n, i in zip(aval.shape, at, strict=False) if type(i) is slice)
    left = tuple(mapped for i, mapped in pairs if i is None)
    if all(i is None for i in index):
        return x
    if not at:
        return Stacked(x.array, left)
    value = np.asarray(x.array._value())[at]
    return Stacked(Array(value, aval.update(shape=(*shape, *aval.shape[len(at) :]))), left)


class Levels:
    """The vmaps around a program, outermost first, and the functions staged for them."""

    def __init__(self, axes: Sequence[AxisData] = ()) -> None:
        self.axes = tuple(axes)
        self.programs: dict[Any, tuple[ClosedJaxpr, list[tuple[bool, ...]], Any]] = {}

    @property
    def named(self) -> list[tuple[Any, int]]:
        """Names and sizes of the named vmaps: collectives may use them."""
        return [(axis.name, axis.size) for axis in self.axes if axis.name is not None]

    def same(self, array: Any) -> Stacked:
        """A value that is the same for all examples."""
        return Stacked(as_array(check_alive(array)), (False,) * len(self.axes))

    def run(self, fun: Operation, values: Sequence[Stacked]) -> tuple[list[Stacked], Any]:
        """The results of ``fun`` for all examples, and its side result."""
        outs, flags, side = self._nested(fun, [x.array for x in values], [x.mapped for x in values], 0)
        return [Stacked(as_array(x), f) for x, f in zip(outs, flags, strict=True)], side

    def staged(self, key: Any, fun: Operation, values: Sequence[Stacked], times: int = 1) -> tuple[list[Stacked], Any]:
        """Like ``run``, but ``fun``, a loop's body, is traced only once for each ``key`` and types of ``values``.

        ``times`` is the number of iterations. A loop with a lot of work is compiled by XLA; other loops run on NumPy.
        """
        arrays, mapped = [x.array for x in values], [x.mapped for x in values]
        full = (key, *[x.aval for x in arrays], *mapped)
        found = self.programs.get(full)
        if found is None:
            about: list[Any] = []

            def nested(*xs: Any) -> Sequence[Any]:
                outs, flags, side = self._nested(fun, xs, mapped, 0)
                about[:] = flags, side
                return outs

            closed = stage(nested, [x.aval for x in arrays], "replay")
            found = self.programs[full] = (closed, about[0], about[1])
        closed, flags, side = found
        return [Stacked(x, f) for x, f in zip(_on_numpy(closed, arrays, times), flags, strict=True)], side

    def _nested(
        self, fun: Operation, arrays: Sequence[Any], mapped: Sequence[tuple[bool, ...]], level: int
    ) -> tuple[list[Any], list[tuple[bool, ...]], Any]:
        if level == len(self.axes):
            outs, side = fun(*arrays)
            return list(outs), [()] * len(outs), side
        within: list[Any] = []

        def inner(*xs: Any) -> Sequence[Any]:
            outs, flags, side = self._nested(fun, xs, mapped, level + 1)
            within[:] = flags, side
            return outs

        dims = [0 if m[level] else None for m in mapped]
        outs, out_dims = batch(inner, self.axes[level], arrays, dims)
        flags = [(d is not None, *f) for d, f in zip(out_dims, within[0], strict=True)]
        return [x if d is None else moveaxis(x, d, 0) for x, d in zip(outs, out_dims, strict=True)], flags, within[1]


def _on_numpy(closed: ClosedJaxpr, arrays: Sequence[Array], times: int) -> list[Array]:
    made = program(closed)
    if made.weight * times > WORTH_COMPILING:
        return list(compiled(closed, "replay")(*arrays))
    with np.errstate(all="ignore"):
        outs = made.function(*[x._value() for x in arrays])
    return [Array(x, aval) for x, aval in zip(outs, closed.out_avals, strict=True)]
