"""Measure a program on minijax and on JAX: phases, repeated calls, values, jaxprs.

Both libraries are measured the same way, each on a new function that no cache holds. A ``Side`` is the program on one
of the libraries.
"""

from __future__ import annotations

import contextlib
import io
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from minijax.api import block_until_ready, jit, make_jaxpr
from minijax.config import config
from minijax.core.array import is_array_like
from minijax.core.keys import is_key
from minijax.core.records import Frozen
from minijax.extend.core import JaxprSyntaxError, parse_jaxpr
from minijax.interop.carrier import Carrier
from minijax.interop.libraries import JAX, MINIJAX, Unmapped
from minijax.interop.values import from_jax_value, jax_module
from minijax.ir.jaxpr import ClosedJaxpr, is_effectful
from minijax.pytree import tree_leaves
from minijax.random import key_data
from minijax.tools.compare import passes
from minijax.tools.documents.document import Line, Row, Text, line
from minijax.tools.documents.words import bar, seconds_text, shortened
from minijax.tools.session import real_jax, targets
from minijax.tools.session.targets import Target
from minijax.tools.session.watch import at_home

# Repeat calls for this many seconds in total, and up to this many times.
_TIMED_SECONDS = 0.05
_TIMED_RUNS = 200
# Do not repeat a call that took longer than this, in seconds.
_LONG = 10.0
_TRACES = 3
PHASES = ("trace", "lower", "compile", "first run")
CALLS = ("eager", "jit")


class Side(Frozen):
    """A program on one of the two libraries, and that library's name, ``jit``, ``make_jaxpr`` and wait function."""

    name: str
    jit: Callable[..., Any]
    make_jaxpr: Callable[..., Any]
    wait: Callable[[Any], Any]
    fun: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    context: Callable[[], Any] = contextlib.nullcontext

    def call(self) -> Any:
        """The program's result."""
        with self.context():
            return self.wait(self.fun(*self.args, **self.kwargs))

    def jaxpr(self) -> Any:
        """The program's jaxpr."""
        with self.context():
            return self.make_jaxpr(self.fun)(*self.args, **self.kwargs)

    def fresh(self) -> Callable[..., Any]:
        """A copy of the program's function that no cache holds."""
        fun = self.fun

        def program(*args: Any, **kwargs: Any) -> Any:
            return fun(*args, **kwargs)

        return program


def ours(target: Target) -> Side:
    """The program on minijax."""
    return Side("minijax", jit, make_jaxpr, block_until_ready, target.fun, target.args, target.kwargs)


def theirs(target: Target) -> Side:
    """The program on JAX. Raises ``Unmapped``."""
    with jax_module().enable_x64(config.jax_enable_x64):
        carry = Carrier(MINIJAX, JAX, (targets.__file__, real_jax.__file__, passes.__file__))
        fun, args, kwargs = carry(target.fun), carry(target.args), carry(target.kwargs)
    jax = jax_module()

    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return fun(*args, **kwargs)
        except NameError as error:
            reason = carry.failed.get(error.name or "")
            if reason is None:
                raise
            raise Unmapped(reason) from None

    called.__name__ = getattr(fun, "__name__", type(fun).__name__)
    x64 = config.jax_enable_x64

    def context() -> Any:
        return jax_module().enable_x64(x64)

    return Side("jax", jax.jit, jax.make_jaxpr, jax.block_until_ready, called, args, kwargs, context)


def why_not(error: Exception) -> str:
    """One line that says why a program does not run on JAX."""
    if isinstance(error, Unmapped):
        return f"cannot be carried over to JAX: {error}"
    return f"JAX raised {first_line(error)}"


def first_line(error: Exception) -> str:
    """The type of an exception and the first line of its message."""
    said = str(error).strip().partition("\n")[0]
    return shortened(f"{type(error).__name__}: {said}" if said else type(error).__name__, 160)


# --- figures
# ------------------------------------------------------------------------------------------------------


class Figures(Frozen):
    """Seconds by phase and by kind of call. ``note``: what was not measured, and why. ``printed``: whether repeated
    runs wrote output, which is not shown. ``jitted``: the compiled program whose calls were timed, or None."""

    seconds: dict[str, float]
    note: str = ""
    printed: bool = False
    jitted: Any = None

    @property
    def notes(self) -> list[str]:
        """The notes to show below the figures."""
        return [*filter(None, [self.note]), *([_PRINTED] if self.printed else [])]


_PRINTED = "the program's output is shown for the first runs only"


class Nowhere(io.TextIOBase):
    """A file that discards the output of repeated runs. ``used``: whether there was any."""

    used = False

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.used = True
        return len(text)


def _seconds(run: Callable[[], Any]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _best(run: Callable[[], Any], nowhere: Nowhere) -> float:
    """The shortest of several runs in seconds. The first run does not count, because it may compile operations.

    If the first run takes longer than ``_LONG``, there are no others. The output of later runs goes to ``nowhere``.
    """
    first = _seconds(run)
    if first > _LONG:
        return first
    with contextlib.redirect_stdout(nowhere):
        best = _seconds(run)
        end = time.perf_counter() + _TIMED_SECONDS
        for _ in range(_TIMED_RUNS):
            if time.perf_counter() > end:
                break
            best = min(best, _seconds(run))
    return best


def measured(side: Side, abstract: bool = False, once: bool = False) -> Figures:
    """Measure the phases of the program and its repeated calls, eager and jitted.

    A program with type-only arguments (``abstract``) does not run. A program with effects (``once``) runs only once,
    compiled. A program that cannot be jitted is timed eagerly only.
    """
    found: dict[str, float] = {}
    note = ""
    nowhere = Nowhere()
    jitted: Any = None
    with side.context():
        try:
            jitted = _staged_figures(side, found, abstract, once, nowhere)
        except Exception as error:  # the program's own error: it may still run eagerly
            if abstract or once or isinstance(error, Unmapped):
                raise
            found.clear()
            note = f"{side.name} does not jit it: {first_line(error)}"
        if not abstract and not once:
            found["eager"] = _best(side.call, nowhere)
    if abstract:
        note = "not run: an argument is only a type"
    return Figures(found, shortened("run once only: it has effects" if once else note, 120), nowhere.used, jitted)


def _staged_figures(side: Side, found: dict[str, float], abstract: bool, once: bool, nowhere: Nowhere) -> Any:
    """Put seconds into ``found``. Return the jitted program if its calls were timed, else None."""
    side.wait(side.jit(_nothing)(np.float32(0)))  # without this, the library's initialization would count

    def traced() -> Any:
        return side.jit(side.fresh()).trace(*side.args, **side.kwargs)

    first = _seconds(traced)
    with contextlib.redirect_stdout(nowhere):
        found["trace"] = min(first, *(_seconds(traced) for _ in range(_TRACES - 1)))
        program = traced()
    began = time.perf_counter()
    lowered = program.lower()
    found["lower"] = time.perf_counter() - began
    began = time.perf_counter()
    compiled = lowered.compile()
    found["compile"] = time.perf_counter() - began
    if abstract:
        return None
    found["first run"] = _seconds(lambda: side.wait(compiled(*side.args, **side.kwargs)))
    if once:
        return None
    jitted = side.jit(side.fun)
    with contextlib.redirect_stdout(nowhere):  # the first call traces once more, and is not timed
        _seconds(lambda: side.wait(jitted(*side.args, **side.kwargs)))
        found["jit"] = _best(lambda: side.wait(jitted(*side.args, **side.kwargs)), nowhere)
    return jitted


def has_effects(closed: Any) -> bool:
    """Whether ``closed`` is a jaxpr that has side effects, such as printing or callbacks."""
    return isinstance(closed, ClosedJaxpr) and any(map(is_effectful, closed.eqns))


def _nothing(x: Any) -> Any:
    return x


def bars(
    figures: dict[str, dict[str, float]], names: Sequence[str], width: int, unlike: Collection[str] = ()
) -> Iterator[Line]:
    """A line with a bar for each figure and library. All bars have one scale. For the figures ``unlike``, the libraries
    do different work, so they get no ratio."""
    most = max((seconds[name] for seconds in figures.values() for name in names if name in seconds), default=0.0)
    column = max(map(len, (*PHASES, *CALLS))) + 1
    first = max(map(len, figures)) if len(figures) > 1 else 0
    room = min(width - column - first - 12, 60)
    for name in names:
        label = name
        reference = figures.get("minijax", {}).get(name)
        for library, seconds in figures.items():
            if name not in seconds:
                continue
            value = seconds[name]
            ratio = f" {value / reference:.1f}×" if library != "minijax" and reference and name not in unlike else ""
            drawn = bar(value / most if most else 0.0, max(room - 8, 4))
            yield (
                ("label", f"{label:<{column}}"),
                ("muted", f"{library:<{first}} " if first else ""),
                ("time", f"{seconds_text(value):>8} "),
                ("value" if library == "minijax" else "muted", drawn),
                ("muted", ratio),
            )
            label = ""


def bar_block(
    title: str,
    figures: dict[str, dict[str, float]],
    names: Sequence[str],
    width: int,
    unlike: Collection[str] = (),
) -> Text | None:
    """The bars of ``names`` under a title; None if none of them was measured."""
    lines = tuple(bars(figures, names, width, unlike))
    explained = "  ×: divided by minijax's" if len(figures) > 1 else ""
    return Text((line(("heading", title), ("muted", explained)), *lines), wrap=False) if lines else None


# --- values
# -------------------------------------------------------------------------------------------------------


def value_row(our_value: Any, their_value: Any) -> Row:
    """A row that says whether the two values agree in structure, types and numbers."""
    jax_leaves = jax_module().tree_util.tree_leaves(their_value)
    leaves = tree_leaves(our_value)
    if len(leaves) != len(jax_leaves):
        said = f"minijax gives {len(leaves)} arrays, JAX {len(jax_leaves)}"
        return Row("value", (line(("error", said)),))
    worst_abs = worst_rel = 0.0
    for a, b in zip(leaves, jax_leaves, strict=True):
        if not (is_array_like(a) and is_array_like(b)):
            carried = a is not b and at_home(a) is b  # an object of JAX, such as an activation function
            if carried or (isinstance(a, str | bytes) and a == b):
                continue
            said = f"minijax gives a {type(a).__name__}, JAX a {type(b).__name__}, and only arrays are compared"
            return Row("value", (line(("warning", said)),))
        (our_type, ours), (their_type, theirs) = numbers_of(a), numbers_of(b)
        if our_type != their_type:
            return Row("value", (line(("error", f"minijax gives {our_type}, JAX {their_type}")),))
        absolute, relative = difference(ours, theirs)
        worst_abs, worst_rel = max(worst_abs, absolute), max(worst_rel, relative)
    if leaves and all(isinstance(each, int | float | complex) for each in leaves) and leaves == jax_leaves:
        return Row("value", (line(("muted", "Python computed these: neither engine ran")),))
    if worst_abs == 0.0:
        return Row("value", (line(("good", "the same, to the last bit")),))
    role = "good" if worst_rel < 1e-5 else "warning"
    return Row("value", (line((role, f"differs by at most {worst_abs:.2g}, relatively by {worst_rel:.2g}")),))


def numbers_of(x: Any) -> tuple[str, np.ndarray]:
    """The type of an array of either library, and its numbers. For random keys these are the words of the keys."""
    dtypes = jax_module().dtypes
    if isinstance(x, jax_module().Array) and dtypes.issubdtype(x.dtype, dtypes.extended):
        x = from_jax_value(x)
    has_keys = is_key(getattr(x, "dtype", None))
    numbers = np.asarray(key_data(x) if has_keys else x)
    return f"{x.dtype if has_keys else numbers.dtype.name}{list(np.shape(x))}", numbers


def difference(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """The largest absolute and relative difference of two arrays of the same type. NaN equals NaN."""
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    if same.all():
        return 0.0, 0.0
    with np.errstate(all="ignore"):
        gap = np.abs(x - y)[~same]
        gap = np.where(np.isnan(gap), np.inf, gap)
        scale = np.maximum(np.abs(x), np.abs(y))[~same]
        return float(gap.max()), float(np.where(np.isinf(gap), np.inf, gap / scale).max())


# --- jaxprs
# -------------------------------------------------------------------------------------------------------

# A NumPy integer as a parameter of an equation: comparisons replace it by a plain number.
_NUMPY = r"\bnp\.u?int\d+\((-?\d+)\)"


def read_back(text: str) -> ClosedJaxpr | None:
    """Parse a printed jaxpr, with NumPy integers as plain numbers. None if the parser does not understand it."""
    try:
        return parse_jaxpr(re.sub(_NUMPY, r"\1", text))
    except (JaxprSyntaxError, TypeError, ValueError, KeyError, NotImplementedError):
        return None


def comparable(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Our jaxpr with plain numbers instead of NumPy integers, like JAX's jaxpr after ``read_back``."""
    text = str(closed)
    read = read_back(text) if re.search(_NUMPY, text) else None
    return closed if read is None else read
