"""Finds the origin of a NaN or infinity: it runs a program equation by equation until one makes a non-finite value.

The function is staged, and its equations run one by one: also inside ``jit``, ``scan``, ``while``, branches and custom
rules, and on request in the backward pass. During staging an observer records which rule created each equation, and
which axes ``vmap`` added to its results.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from threading import get_ident
from types import FrameType
from typing import Any

import numpy as np

from minijax import errors
from minijax.api import vjp
from minijax.api.flat import FlatFun, avals_of, check_args, describe
from minijax.core import dtypes, observe
from minijax.core.array import as_array, get_aval
from minijax.core.keys import is_key
from minijax.core.records import Frozen
from minijax.core.trace import Tracer
from minijax.interpreters import transpose
from minijax.interpreters.stage import JaxprTracer, stage
from minijax.interpreters.vmap import BatchTracer
from minijax.ir.jaxpr import JaxprEqn, Literal, Var
from minijax.pytree import tree_flatten, tree_leaves, tree_map
from minijax.tools.explain.walk import EvaluationWatch, JaxprWalk, Unending, as_called, of_own_thread, uses
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.variables import variable_labels


class Operand(Frozen):
    """An operand or result: its name, type, smallest and largest element, and its first non-finite element, if any."""

    name: str
    type: str
    smallest: str
    largest: str
    index: tuple[int, ...] | None = None
    element: str = ""
    bad: int = 0
    size: int = 1


class Found(Frozen):
    """An equation that made a non-finite value from finite values.

    Attributes:
      what: 'nan' or 'inf'.
      primitive, params, inputs, outputs: the parts of the equation.
      level: 'forward', or the rule that created the equation ('jvp rule of sqrt', 'transpose rule of mul').
      source: the equation's place in the user's program, see ``errors.source_info``.
      inside: the loops, branches and calls around it, outermost first: 'scan, iteration 7 of 100'.
      batch: the non-finite element's indices along vmapped axes: 'vmap:1 index 5'.
    """

    what: str
    primitive: str
    params: dict[str, Any]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    level: str
    source: Any
    inside: tuple[str, ...]
    batch: tuple[str, ...]


class Search(Frozen):
    """The result of a search.

    Attributes:
      nan, inf: the first equation that made a NaN, and the first that made an infinity from finite values.
      read: the first equation that read a NaN which no equation made: it came from an argument or a constant. If no
      equation made or read a NaN, the first equation that read an infinity which no equation made.
      given: the non-finite arguments and constants of the whole function.
      bad_result: whether a result of the whole function is non-finite; None if it did not run to its end.
      equations, hurried: how many equations ran, and whether later loops and calls ran as a whole.
      stopped: why the function did not run to its end after a NaN was found, or ''.
    """

    nan: Found | None
    inf: Found | None
    read: Found | None
    given: tuple[Operand, ...]
    bad_result: bool | None
    equations: int
    hurried: bool
    stopped: str


# --- staging ------------------------------------------------------------------------------------------------


class _Levels(observe.Observer):
    """During staging, records the rule that created each equation, and the vmapped axes of each variable."""

    def __init__(self) -> None:
        self.thread = get_ident()
        # the binds in progress: (name of the primitive, trace)
        self.open: list[tuple[str, Any]] = []
        # id of an equation -> the rule that created it
        self.rule_of: dict[int, str] = {}
        # id of a variable -> (interpreter, axis) of each vmap, innermost interpreter first
        self.axes_of: dict[int, list[tuple[str, int]]] = {}
        # keeps the equations and variables alive, so that their ids are not reused
        self.kept: list[Any] = []

    @of_own_thread
    def bind_enter(self, primitive: Any, trace: Any, args: tuple[Any, ...], params: dict[str, Any]) -> None:
        self.open.append((primitive.name, trace))

    @of_own_thread
    def bind_exit(self, primitive: Any, trace: Any, out: Any) -> None:
        self.open.pop()
        for x in out if primitive.multiple_results else (out,):
            self.note_axes(x)

    @of_own_thread
    def bind_raise(self, primitive: Any, trace: Any, error: BaseException) -> None:
        self.open.pop()

    def note_axes(self, x: Any) -> None:
        axes: list[tuple[str, int]] = []
        while isinstance(x, Tracer):
            if isinstance(x, BatchTracer):
                axes.append((repr(x._trace.main), x.batch_dim))
                x = x.val
            elif isinstance(x, JaxprTracer):
                if axes:
                    self.axes_of[id(x.variable)] = axes
                    self.kept.append(x.variable)
                return
            else:
                x = x._inside()

    @of_own_thread
    def equation(self, main: Any, eqn: Any) -> None:
        self.kept.append(eqn)
        # linearize also stages the tangent operations of the rules that it applies itself
        above = [
            (name, trace.main.label)
            for name, trace in self.open
            if trace.level > main.level or (trace is main.trace and main.label == "linearize")
        ]
        jvps = [name for name, label in above if label in ("jvp", "linearize")]
        if jvps:
            self.rule_of[id(eqn)] = "" if jvps[-1] == eqn.primitive.name else f"jvp rule of {jvps[-1]}"
        elif not above and (transposed := _transposing()):
            self.rule_of[id(eqn)] = f"transpose rule of {transposed}"


def _transposing() -> str:
    """The name of the primitive whose transpose rule is running, or ''."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is transpose.transpose_eqn.__code__:
            return str(frame.f_locals["primitive"].name)
        frame = frame.f_back
    return ""


def backward_of(fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Callable[..., Any]:
    """A function with the same arguments that returns the value of ``fun``, and its pullback applied to ones."""
    by = differentiable_args(args)

    def with_backward(*args: Any, **kwargs: Any) -> Any:
        def of_some(*some: Any) -> Any:
            whole = list(args)
            for i, x in zip(by, some, strict=True):
                whole[i] = x
            return fun(*whole, **kwargs)

        out, pullback = vjp(of_some, *[args[i] for i in by])
        return out, pullback(tree_map(_ones, out))

    with_backward.__wrapped__ = fun  # type: ignore[attr-defined]
    return with_backward


def differentiable_args(args: Sequence[Any]) -> list[int]:
    """The indices of the arguments that can be differentiated: trees of floating-point values."""
    return [i for i, x in enumerate(args) if tree_leaves(x) and all(map(_differentiable, tree_leaves(x)))]


def _differentiable(x: Any) -> bool:
    return get_aval(x).to_tangent_aval().dtype != dtypes.float0


def _ones(x: Any) -> Any:
    aval = get_aval(x)
    tangent = aval.to_tangent_aval().dtype
    return np.zeros(aval.shape, tangent) if tangent == dtypes.float0 else as_array(np.ones(aval.shape, aval.dtype))


def find_nonfinite(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    backward: bool = False,
    names: dict[int, str] | None = None,
) -> Search:
    """Run ``fun(*args, **kwargs)``, and with ``backward`` its backward pass, and inspect each value.

    The arguments are pytrees of arrays and numbers. ``names``: id of a closed-over value -> its name. A function whose
    Python code depends on values runs without staging, and its operations are inspected one by one. An exception of the
    function propagates, unless a staged program raises it after a NaN was found.
    """
    __tracebackhide__ = True
    leaves, in_tree = tree_flatten((tuple(args), kwargs))
    leaves = check_args(leaves, "nan", fun, in_tree)
    run = backward_of(fun, args, kwargs) if backward else as_called(fun, args, kwargs)
    flat = FlatFun(run, in_tree, "nan", subject=describe(fun))
    levels = _Levels()
    walk = _JaxprWalk(levels)
    values = [as_array(x) for x in leaves]
    called = dict(names or {})
    called.update(zip(map(id, values), FlatFun(fun, in_tree, "nan").input_names(), strict=True))
    recorder = Recorder("full", retrace=True)
    stopped = ""
    try:
        with recorder, observe.watching(levels):
            closed = stage(flat, avals_of(leaves), describe(fun), label="nan")
    except errors.JAXTypeError:  # the function's Python code depends on values
        given = values
        outs: list[Any] | None = _watched(walk, flat, values)
    else:
        walk.names = variable_labels(recorder.recording)
        given = [*values, *closed.consts]
        outs = None
        try:
            with np.errstate(all="ignore"):
                outs = walk.closed(closed, values, (), "forward")
        except Unending:
            stopped = "a loop did not end after this, so the program was stopped"
        except Exception as error:
            if not walk.done:
                raise
            stopped = f"the program raised {type(error).__name__} after this"
    inputs = [_operand(called.get(id(x), "a constant"), x) for x in given if not isinstance(x, Tracer)]
    bad = None if outs is None else any(any(_bad(x)) for x in outs)
    read = walk.read_nan or (walk.read_inf if walk.nan is None and walk.inf is None else None)
    return Search(walk.nan, walk.inf, read, tuple(x for x in inputs if x.bad), bad, walk.count, walk.hurried, stopped)


def _watched(walk: _JaxprWalk, flat: FlatFun, values: Sequence[Any]) -> list[Any]:
    """Run a function that cannot be staged, and inspect the results of its operations."""
    with observe.watching(EvaluationWatch(walk)), np.errstate(all="ignore"):
        return flat(*values)


# --- running ------------------------------------------------------------------------------------------------


class _JaxprWalk(JaxprWalk):
    """Runs a program and keeps the first equations that make a non-finite value."""

    def __init__(self, levels: _Levels) -> None:
        super().__init__()
        self.levels = levels
        # variable -> the user's name for it
        self.names: dict[Var, str] = {}
        self.nan: Found | None = None
        self.inf: Found | None = None
        # the first equation that read a non-finite value which no earlier equation made
        self.read_nan: Found | None = None
        self.read_inf: Found | None = None

    @property
    def done(self) -> bool:
        return self.nan is not None

    def level_of(self, eqn: JaxprEqn) -> str:
        return self.levels.rule_of.get(id(eqn), "")

    def look(self, eqn: JaxprEqn, env: dict[Var, Any], inside: tuple[str, ...], level: str) -> None:
        """Keep ``eqn`` if it is the first that made a NaN or infinity from other values, or the first that read one
        from an argument or a constant."""
        outs = [env.get(v) for v in eqn.outvars]
        nans, infs = zip(*map(_bad, outs), strict=True) if outs else ((), ())
        if not any(nans) and (self.inf is not None or not any(infs)):
            return
        args = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
        had_nan, had_inf = (any(each) for each in zip(*map(_bad, args), strict=True)) if args else (False, False)
        made: Sequence[Any] = outs
        if any(nans) and had_nan and self.nan is None:
            made = _without_given_nan(eqn, args)
            had_nan = not any(_bad(x)[0] for x in made)
        if any(nans) and not had_nan and self.nan is None:
            self.nan = self.found("nan", eqn, args, outs, inside, level, made)
        elif any(infs) and not had_inf and not had_nan and self.inf is None:
            self.inf = self.found("inf", eqn, args, outs, inside, level)
        elif any(nans) and self.nan is None and self.read_nan is None:
            self.read_nan = self.found("nan", eqn, args, outs, inside, level)
        elif any(infs) and had_inf and self.inf is None and self.read_inf is None:
            self.read_inf = self.found("inf", eqn, args, outs, inside, level)

    def found(
        self,
        what: str,
        eqn: JaxprEqn,
        args: Sequence[Any],
        outs: Sequence[Any],
        inside: tuple[str, ...],
        level: str,
        made: Sequence[Any] | None = None,
    ) -> Found:
        """Describe ``eqn``. ``made``: its results without the NaNs of the operands; by default ``outs``."""
        bad = {"nan": np.isnan, "inf": np.isinf}[what]
        taken = set(self.names.values())
        letters = [each for each in "abcdefghijklmnopqrstuvwxyz" if each not in taken] or ["?"]
        names = iter(letters * (1 + (len(args) + len(outs)) // len(letters)))
        index: tuple[int, ...] | None = None
        results = []
        batch: tuple[str, ...] = ()
        for v, x, here in zip(eqn.outvars, outs, made or outs, strict=True):
            values = _floats(here)
            result = _operand("", x, wrong=None if values is None else bad(values))
            results.append(result)
            if result.bad and index is None and result.index is not None:
                index = result.index
                batch = _batch_text(self.levels.axes_of.get(id(v), []), index)
        shape = next((value.shape for value in map(_floats, outs) if value is not None), ())
        operands = []
        seen: dict[int, str] = {}
        for v, x in zip(eqn.invars, args, strict=True):
            name = "" if type(v) is Literal else self.names.get(v) or seen.setdefault(id(v), "") or next(names)
            seen[id(v)] = name
            at = index if index is not None and np.shape(np.asarray(as_array(x))) == shape else None
            operands.append(_operand(name, x, at))
        called = [
            Operand(self.names.get(v) or next(names), *each.values()[1:])
            for v, each in zip(eqn.outvars, results, strict=True)
        ]
        return Found(
            what, eqn.primitive.name, eqn.params, tuple(operands), tuple(called), level, self.source, inside, batch
        )


def _floats(x: Any) -> np.ndarray | None:
    """``x`` as a NumPy array in which NaNs can be found; None if its type has no NaN."""
    if x is None or is_key(getattr(x, "dtype", None)):
        return None
    value = x if isinstance(x, np.ndarray) else np.asarray(as_array(x))
    if value.dtype.kind in "biuO" or not hasattr(value, "dtype"):
        return None
    if value.dtype.kind not in "fc":
        try:
            return value.astype(np.float32)
        except (TypeError, ValueError):
            return None
    return value


def _bad(x: Any) -> tuple[bool, bool]:
    """Whether ``x`` contains a NaN, and whether it contains an infinity."""
    value = _floats(x)
    if value is None or bool(np.isfinite(value).all()):
        return False, False
    return bool(np.isnan(value).any()), bool(np.isinf(value).any())


def _without_given_nan(eqn: JaxprEqn, args: Sequence[Any]) -> Sequence[Any]:
    """The results of ``eqn`` with each NaN of its operands replaced by 1. The NaNs that are left are made by ``eqn``.

    1 is in the domain of nearly every primitive. Equations with effects do not run again: their result is ().
    """
    # do not call the user's Python again; and with other values a loop might never end
    if eqn.effects or uses(eqn, "pure_callback", "while"):
        return ()
    with observe.unobserved():
        out = eqn.primitive.bind(*[_nan_to_one(x) for x in args], **eqn.params)
    return out if eqn.primitive.multiple_results else [out]


def _nan_to_one(x: Any) -> Any:
    if not _bad(x)[0]:
        return x
    value = np.asarray(as_array(x))
    return as_array(np.where(np.isnan(value), value.dtype.type(1), value))


def number(x: Any) -> str:
    """A scalar as a text with 7 digits."""
    item = np.asarray(x).item()
    return f"{item:.7g}" if isinstance(item, float) and math.isfinite(item) else str(item)


def _operand(name: str, x: Any, at: tuple[int, ...] | None = None, wrong: np.ndarray | None = None) -> Operand:
    """Describe ``x`` and its element ``at``, by default the first that ``wrong`` flags or that is not finite."""
    kind = get_aval(x).str_short()
    if is_key(get_aval(x).dtype):
        return Operand(name, kind, "", "", None, "", 0, 0)
    value = _floats(x)
    plain = np.asarray(as_array(x)) if x is not None else np.zeros(())
    if wrong is None:
        wrong = np.zeros(plain.shape, bool) if value is None else ~np.isfinite(value)
    count = int(wrong.sum())
    index = at
    if index is None and count:
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
    if not plain.size:
        return Operand(name, kind, "", "", None, "", 0, 0)
    element = number(plain[index]) if index is not None else ""
    shown = plain if value is None else value
    if plain.size == 1:
        smallest = largest = number(plain)
    elif shown.dtype.kind == "c":
        smallest = largest = ""
    else:
        rest = shown[~np.isnan(shown)] if shown.dtype.kind == "f" else shown
        smallest, largest = (number(rest.min()), number(rest.max())) if rest.size else ("nan", "nan")
    return Operand(name, kind, smallest, largest, index, element, count, int(plain.size))


def _batch_text(axes: Sequence[tuple[str, int]], index: tuple[int, ...]) -> tuple[str, ...]:
    """The index along each vmapped axis, outermost vmap first. ``index`` is an index of the array with these axes."""
    left = list(index)
    out = []
    for level, axis in reversed(axes):
        if axis < len(left):
            out.append(f"{level} index {left.pop(axis)}")
    return tuple(out)
