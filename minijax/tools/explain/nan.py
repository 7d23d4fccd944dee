"""Finds where NaNs and infinities come from: runs a program equation by equation and follows each NaN to the result.

The function is staged, and its equations run one by one: also inside ``jit``, ``scan``, ``while``, branches and custom
rules, and on request in the backward pass. During staging an observer records which rule created each equation, and
which axes ``vmap`` added to its results.

A NaN carries the number of its causes in the bits that IEEE 754 leaves free. Operations that only move elements keep
these bits. Of any other operation, the operands that make each NaN are found by running it again without some NaNs.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from threading import get_ident
from types import FrameType
from typing import Any

import numpy as np

from minijax import errors
from minijax.api import vjp
from minijax.api.flat import FlatFun, avals_of, check_args, describe
from minijax.core import dtypes, observe
from minijax.core.array import Array, as_array, get_aval
from minijax.core.keys import is_key
from minijax.core.records import Frozen
from minijax.core.trace import Tracer
from minijax.interpreters import transpose
from minijax.interpreters.stage import JaxprTracer, stage
from minijax.interpreters.vmap import BatchTracer
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var
from minijax.ops.nary import elementwise_primitives
from minijax.pytree import tree_flatten, tree_leaves, tree_map
from minijax.tools.explain import walk as walks
from minijax.tools.explain.walk import EvaluationWatch, JaxprWalk, Unending, as_called, of_own_thread, uses
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.variables import variable_labels

# Primitives outside the elementwise table whose result has a NaN where the operand has one.
_ONE_BY_ONE = {"convert_element_type", "reduce_precision", "real", "imag", "conj", "complex", "copy", "name"}
# Primitives whose results are elements of their operands.
_MOVING = {
    *("reshape", "transpose", "broadcast_in_dim", "squeeze", "rev", "slice", "dynamic_slice", "gather", "split"),
    *("tile", "concatenate", "stack", "unstack", "pad", "dynamic_update_slice", "scatter", "select_n", "clamp"),
    *("sort", "top_k", "device_put", "sharding_constraint", "reshard", "optimization_barrier", "stop_gradient"),
}
# Primitives that compute each result from a whole matrix.
_OF_MATRICES = {
    *("cholesky", "lu", "qr", "geqrf", "householder_product", "eigh", "eig", "svd", "schur", "hessenberg"),
    *("tridiagonal", "triangular_solve", "custom_linear_solve", "tridiagonal_solve"),
}
# Maximum numbers of causes that are listed one by one: for one equation, and for one operation.
_MOST_CAUSES, _MOST_TOGETHER = 50, 16
# After the first NaN, this share of the equations is followed one by one.
_FOLLOWED = 4


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


class Cause(Frozen):
    """Where a NaN comes from: the equation ``found`` that made or ``read`` it, or the argument ``name``."""

    number: int
    found: Found | None = None
    read: bool = False
    name: str = ""

    def __hash__(self) -> int:
        return self.number


class Search(Frozen):
    """The result of a search.

    Attributes:
      nan, inf: the first equation that made a NaN, and the first that made an infinity from finite values.
      read: the first equation that read a NaN which no equation made: it came from an argument or a constant. If no
        equation made or read a NaN, the first equation that read an infinity which no equation made.
      given: the non-finite arguments and constants of the whole function.
      bad_result: whether a result of the whole function is non-finite; None if it did not run to its end.
      reaching: the causes of the result's NaNs: groups of causes with the number of NaNs that each group made together.
      nans, size, unknown: how many NaNs and elements the result has, and how many NaNs whose causes are unknown.
      equations, hurried: how many equations ran, and whether later loops and calls ran as a whole.
      stopped: why the function did not run to its end after a NaN was found, or ''.
    """

    nan: Found | None
    inf: Found | None
    read: Found | None
    given: tuple[Operand, ...]
    bad_result: bool | None
    reaching: tuple[tuple[tuple[Cause, ...], int], ...]
    nans: int
    size: int
    unknown: int
    equations: int
    hurried: bool
    stopped: str

    @property
    def causes(self) -> list[Cause]:
        """The causes of the result's NaNs, in the order of the run."""
        return sorted({cause for causes, _ in self.reaching for cause in causes}, key=lambda cause: cause.number)


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
    results: list[Any] = []

    def noted(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        out = run(*args, **kwargs)
        results[:] = tree_leaves(out)
        return out

    noted.__wrapped__ = fun  # type: ignore[attr-defined]
    flat = FlatFun(noted, in_tree, "nan", subject=describe(fun))
    levels = _Levels()
    walk = _NanWalk(levels)
    called = dict(names or {})
    values = [as_array(x) for x in leaves]
    argument_names = FlatFun(fun, in_tree, "nan").input_names()
    given = list(zip(argument_names, values, strict=True))
    values = [walk.given(name, x) for name, x in given]
    recorder = Recorder("full", retrace=True)
    outs: Sequence[Any] | None = None
    stopped = ""
    try:
        with recorder, observe.watching(levels), np.errstate(all="ignore"):
            closed = stage(flat, avals_of(leaves), describe(fun), label="nan")
    except errors.JAXTypeError:  # the function's Python code depends on values: inspect the operations that it runs
        with observe.watching(EvaluationWatch(walk)), np.errstate(all="ignore"):
            outs = flat(*values)
    else:
        walk.names = variable_labels(recorder.recording)
        constants = [(called.get(id(x), "a constant"), x) for x in closed.consts]
        given += constants
        closed = ClosedJaxpr(closed.jaxpr, [walk.given(name, x) for name, x in constants])
        try:
            with np.errstate(all="ignore"):
                outs = walk.closed(closed, values, (), "forward")
        except Unending:
            stopped = "a loop did not end after this, so the program was stopped"
        except Exception as error:
            if walk.nan is None:
                raise
            stopped = f"the program raised {type(error).__name__} after this"
    inputs = [_operand(called.get(id(x), name), x) for name, x in given if not isinstance(x, Tracer)]
    read = walk.read_nan or (walk.read_inf if walk.nan is None and walk.inf is None else None)
    return Search(
        walk.nan,
        walk.inf,
        read,
        tuple(x for x in inputs if x.bad),
        *walk.reaching(None if outs is None else [_as_returned(*each) for each in zip(results, outs, strict=True)]),
        walk.count,
        walk.hurried or walk.done,
        stopped,
    )


def _as_returned(result: Any, value: Any) -> Any:
    """A result of the function: a Python number has not been rounded to the dtype of ``value``."""
    return np.asarray(result) if isinstance(result, (bool, int, float, complex, np.generic, np.ndarray)) else value


# --- running ------------------------------------------------------------------------------------------------


class _NanWalk(JaxprWalk):
    """Runs a program, keeps the first equations that make a non-finite value, and numbers the causes of each NaN."""

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
        self.causes: list[Cause] = []
        # a NaN's number is the index of the set of its causes; 0: unknown
        self.sets: list[frozenset[int]] = [frozenset()]
        self.numbers: dict[frozenset[int], int] = {frozenset(): 0}
        # equation, and whether it made or read NaNs -> its causes
        self.causes_of: dict[tuple[JaxprEqn, bool], list[int]] = {}
        # ``count`` at the first NaN
        self.found_at = 0

    @property
    def done(self) -> bool:
        followed = self.found_at + walks.MOST_EQUATIONS // _FOLLOWED
        return self.nan is not None and (self.hurried or self.count > followed)

    def level_of(self, eqn: JaxprEqn) -> str:
        # the fourth part of a source has the transposed primitives, which are unknown in programs of JAX
        in_jax = "backward, in a derivative by JAX" if len(eqn.source or ()) > 3 else ""
        return self.levels.rule_of.get(id(eqn), "") or in_jax

    # --- causes

    def number_of(self, causes: frozenset[int]) -> int:
        if causes not in self.numbers:
            self.numbers[causes] = len(self.sets)
            self.sets.append(causes)
        return self.numbers[causes]

    def union(self, numbers: Sequence[int]) -> int:
        return self.number_of(frozenset().union(*[self.sets[number] for number in numbers]))

    def add(self, *facts: Any) -> int:
        """The number of NaNs of a new cause."""
        self.causes.append(Cause(len(self.causes), *facts))
        return self.number_of(frozenset({len(self.causes) - 1}))

    def of_equation(self, eqn: JaxprEqn, read: bool, describe: Callable[[], Found]) -> int:
        """The number of NaNs that ``eqn`` makes or, with ``read``, takes from a constant."""
        known = self.causes_of.setdefault((eqn, read), [])
        if len(known) < _MOST_CAUSES:
            known.append(self.add(describe(), read))
        return known[-1]

    def given(self, name: str, x: Any) -> Any:
        """``x``, or a copy with numbered NaNs."""
        if isinstance(x, Tracer) or not _bad(x)[0]:
            return x
        value = np.asarray(as_array(x))
        return Array(_numbered(value, np.full(value.shape, self.add(None, False, name))), get_aval(x))

    def known_numbers(self, x: Any) -> np.ndarray:
        numbers = _numbers(_host(x))
        return np.where(numbers < len(self.sets), numbers, 0)

    def reaching(self, outs: Sequence[Any] | None) -> tuple[bool | None, tuple[Any, ...], int, int, int]:
        """``bad_result``, ``reaching``, ``nans``, ``size`` and ``unknown`` of the search for these results."""
        if outs is None:
            return None, (), 0, 0, 0
        counts: Counter[int] = Counter()
        for x in outs:
            if _bad(x)[0]:
                counts.update(self.known_numbers(x)[_nans(x)].ravel().tolist())
        size = sum(np.size(_host(x)) for x in outs if _floats(x) is not None)
        causes = {number: tuple(self.causes[i] for i in sorted(self.sets[number])) for number in counts}
        reaching = tuple((causes[number], count) for number, count in counts.items() if number)
        return any(any(_bad(x)) for x in outs), reaching, counts.total(), size, counts[0]

    def look(self, eqn: JaxprEqn, env: dict[Var, Any], inside: tuple[str, ...], level: str) -> None:
        """Number the NaNs that ``eqn`` made; and keep it if it is the first that made or read a NaN or infinity."""
        outs = [env.get(v) for v in eqn.outvars]
        nans, infs = zip(*map(_bad, outs), strict=True) if outs else ((), ())
        if not any(nans) and (self.inf is not None or not any(infs)):
            return
        args = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
        had_nan, had_inf = (any(each) for each in zip(*map(_bad, args), strict=True)) if args else (False, False)
        if any(nans):
            self.follow(eqn, args, outs, lambda made: self.found("nan", eqn, args, outs, inside, level, made))
        if any(infs) and not had_inf and not had_nan and self.inf is None:
            self.inf = self.found("inf", eqn, args, outs, inside, level)
        elif any(infs) and had_inf and self.inf is None and self.read_inf is None:
            self.read_inf = self.found("inf", eqn, args, outs, inside, level)

    def follow(
        self,
        eqn: JaxprEqn,
        args: Sequence[Any],
        outs: Sequence[Any],
        describe: Callable[[Sequence[np.ndarray] | None], Found],
    ) -> None:
        """Number the NaNs of the results of ``eqn``."""

        def read() -> Found:
            found = describe(None)
            self.read_nan = self.read_nan or found
            return found

        operands = []
        for x in args:
            numbers = np.zeros((), int)
            if _bad(x)[0]:
                numbers = self.known_numbers(x)
                strange = _nans(x) & (numbers == 0)
                if strange.any():
                    numbers = np.where(strange, self.of_equation(eqn, True, read), numbers)
            operands.append(numbers)
        found = [np.zeros(np.shape(_host(x)), int) for x in outs]
        nans = [_nans(x) for x in outs]
        if any(numbers.any() for numbers in operands):
            found = self.passed_on(eqn, args, operands, outs, nans)
        made = [nan & (numbers == 0) for nan, numbers in zip(nans, found, strict=True)]
        if any(each.any() for each in made):
            number = self.of_equation(eqn, False, lambda: describe(made))
            found = [np.where(new, number, numbers) for new, numbers in zip(made, found, strict=True)]
            if self.nan is None:
                self.nan = self.causes[min(self.sets[number])].found
                self.found_at = self.count
        for x, nan, numbers in zip(outs, nans, found, strict=True):
            if nan.any() and not any(x is arg for arg in args):
                self.write(x, numbers)

    def write(self, x: Any, numbers: np.ndarray) -> None:
        if isinstance(x, Array):
            x._np = _numbered(_host(x), numbers)

    def ran(self, outs: Sequence[Any], stepped: Sequence[Any]) -> None:
        for x, same in zip(outs, stepped, strict=True):
            if _bad(x)[0]:
                self.write(x, self.known_numbers(same))

    def met(self, eqn: JaxprEqn, envs: Sequence[dict[Var, Any]], inside: Sequence[tuple[str, ...]], level: str) -> None:
        """A NaN in the result of a collective comes from the NaNs of any device."""
        args = [env[v] for env in envs for v in eqn.invars if type(v) is not Literal]
        numbers = {number for x in args if _bad(x)[0] for number in np.unique(self.known_numbers(x)).tolist()} - {0}
        if not numbers:
            super().met(eqn, envs, inside, level)
        for x in [env[v] for env in envs for v in eqn.outvars]:
            if numbers and _bad(x)[0]:
                self.write(x, np.full(np.shape(_host(x)), self.union([*numbers])))

    def gathered(self, outs: Sequence[Any], parts: Sequence[Sequence[Any]]) -> None:
        """A NaN in a result of several devices comes from the NaNs of the devices' results."""
        for x, each in zip(outs, zip(*parts, strict=True), strict=True):
            found = [self.known_numbers(part) for part in each if _bad(part)[0]]
            if _bad(x)[0] and found:
                known = np.unique(np.concatenate([part.ravel() for part in found]))
                self.write(x, np.full(np.shape(_host(x)), self.union(known.tolist())))

    def passed_on(
        self,
        eqn: JaxprEqn,
        args: Sequence[Any],
        operands: Sequence[np.ndarray],
        outs: Sequence[Any],
        nans: Sequence[np.ndarray],
    ) -> list[np.ndarray]:
        """For each result, the numbers of the NaNs that come from operands with these ``operands`` numbers."""
        name = eqn.primitive.name
        if eqn.primitive in elementwise_primitives or name in _ONE_BY_ONE:
            return [np.where(nan, self.combined(operands, nan.shape), 0) for nan in nans]
        known = sorted({number for each in operands for number in np.unique(each).tolist()} - {0})
        kept = [np.zeros(nan.shape, int) for nan in nans]
        if name in _MOVING or len(known) == 1:
            kept = [np.where(nan, self.known_numbers(x), 0) for nan, x in zip(nans, outs, strict=True)]
            kept = [np.where(np.isin(each, known), each, 0) for each in kept]
        left = [nan & (each == 0) for nan, each in zip(nans, kept, strict=True)]
        if not any(each.any() for each in left):
            return kept
        # do not call the user's Python again; and with other values a loop might never end
        if name in _OF_MATRICES or eqn.effects or uses(eqn, "pure_callback", "while"):
            return [np.where(rest, self.union(known), each) for rest, each in zip(left, kept, strict=True)]
        made = self.again(eqn, args, operands, 0)
        left = [rest & ~new for rest, new in zip(left, made, strict=True)]
        if not any(each.any() for each in left):
            return kept
        if len(known) > _MOST_TOGETHER:
            known = [self.union(known)]
        for number in known:
            by = self.again(eqn, args, operands, number) if len(known) > 1 else left
            found = [np.where(new & rest, number, 0) for new, rest in zip(by, left, strict=True)]
            kept = [self.combined(pair, each.shape) for each, *pair in zip(kept, kept, found, strict=True)]
        # what no number explains alone comes from all of them together
        left = [rest & (each == 0) for rest, each in zip(left, kept, strict=True)]
        return [np.where(rest, self.union(known), each) for rest, each in zip(left, kept, strict=True)]

    def combined(self, operands: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """The numbers of elementwise results: the union of the operands' causes at each element."""
        out = np.zeros(shape, int)
        for each in operands:
            each = np.broadcast_to(each, shape)
            both = (out != 0) & (each != 0) & (out != each)
            pairs = {pair: self.union(pair) for pair in set(zip(out[both].tolist(), each[both].tolist(), strict=True))}
            joined = [pairs[pair] for pair in zip(out[both].tolist(), each[both].tolist(), strict=True)]
            out = np.where(out == 0, each, out)
            out[both] = joined
        return out

    def again(self, eqn: JaxprEqn, args: Sequence[Any], operands: Sequence[np.ndarray], kept: int) -> list[np.ndarray]:
        """Where ``eqn`` has NaNs if each NaN of its operands that has not the number ``kept`` is replaced by 1.

        1 is in the domain of nearly every primitive.
        """
        changed = []
        for x, numbers in zip(args, operands, strict=True):
            if numbers.any():
                value = _host(x)
                x = as_array(np.where((numbers != 0) & (numbers != kept), value.dtype.type(1), value))
            changed.append(x)
        with observe.unobserved():
            out = eqn.primitive.bind(*changed, **eqn.params)
        outs = out if eqn.primitive.multiple_results else [out]
        return [_nans(x) for x in outs]

    def found(
        self,
        what: str,
        eqn: JaxprEqn,
        args: Sequence[Any],
        outs: Sequence[Any],
        inside: tuple[str, ...],
        level: str,
        made: Sequence[np.ndarray] | None = None,
    ) -> Found:
        """Describe ``eqn``. ``made``: the elements of its results that it made; by default all that are bad."""
        bad = {"nan": np.isnan, "inf": np.isinf}[what]
        taken = set(self.names.values())
        letters = [each for each in "abcdefghijklmnopqrstuvwxyz" if each not in taken] or ["?"]
        names = iter(letters * (1 + (len(args) + len(outs)) // len(letters)))
        index: tuple[int, ...] | None = None
        results = []
        batch: tuple[str, ...] = ()
        for k, (v, x) in enumerate(zip(eqn.outvars, outs, strict=True)):
            values = _floats(x)
            wrong = None if values is None else bad(values)
            result = _operand("", x, wrong=made[k] if made else wrong)
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


def _nans(x: Any) -> np.ndarray:
    """Where ``x`` has NaNs."""
    value = _floats(x)
    return np.zeros(_host(x).shape, bool) if value is None else np.isnan(value)


def _bad(x: Any) -> tuple[bool, bool]:
    """Whether ``x`` contains a NaN, and whether it contains an infinity."""
    value = _floats(x)
    if value is None or bool(np.isfinite(value).all()):
        return False, False
    return bool(np.isnan(value).any()), bool(np.isinf(value).any())


def _host(x: Any) -> np.ndarray:
    """``x`` as a NumPy array; random keys have no elements."""
    if x is None or is_key(getattr(x, "dtype", None)):
        return np.zeros(0, bool)
    return np.asarray(x._value() if isinstance(x, Array) else as_array(x))


def _words(value: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """The words of the real numbers in ``value`` as a matrix with a row for each element; where they are NaNs; and
    the bits of a NaN that may hold a number. All refer to the memory of ``value``, which is contiguous.
    """
    flat = value.reshape(-1)
    real = flat.real.dtype if value.dtype.kind == "c" else value.dtype
    bits = {2: 6, 4: 22, 8: 51}.get(real.itemsize, 0) + (3 if real == np.float16 else 0)
    parts = flat.view(f"u{real.itemsize}").reshape(value.size, -1)
    return parts, np.isnan(flat.view(real)).reshape(parts.shape), (1 << bits) - 1


def _numbers(value: np.ndarray) -> np.ndarray:
    """The number in each NaN of ``value``, 0 elsewhere."""
    parts, nan, mask = _words(np.ascontiguousarray(value))
    return np.where(nan, parts & mask, 0).max(-1, initial=0).astype(int).reshape(value.shape)


def _numbered(value: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """A copy of ``value`` with ``numbers`` in its NaNs; 0 for a number that does not fit."""
    out = np.array(value, order="C")
    parts, nan, mask = _words(out)
    rows = np.where(numbers > mask, 0, numbers).reshape(-1, 1)
    parts[nan] = (parts & ~np.array(mask, parts.dtype) | rows.astype(parts.dtype))[nan]
    return out


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
