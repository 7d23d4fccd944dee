"""The interpreter stack and tracers.

Each thread has a stack of ``MainTrace``s with evaluation at level 0. ``Primitive.bind`` (``core.primitive``) passes an
operation to the interpreter with the highest level among its operands' (data dependence). While a function is being
staged, the interpreter that stages it also gets operations on constants, so every primitive is staged (omnistaging). A
trace treats every value except its own tracers as a constant, so constants need no tracers.

A trace knows its stack, and so its thread. Its tracers may be used only on that thread, and only while the trace is on
the stack.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from minijax import errors
from minijax.config import leaks_checked, while_on
from minijax.core import observe, operands, provenance
from minijax.core.avals import AnyArray
from minijax.core.rules import Rule, RuleTable

Result = TypeVar("Result")

# The distance in levels between two traces that share a ``MainTrace``: see interpreters.linearize.
HALF_LEVEL = 0.5


class Trace:
    """One interpreter on the stack. ``process_primitive`` applies its rules."""

    __slots__ = ("main", "level", "stack")

    # Whether a tracer that outlives this trace is an error under ``checking_leaks``.
    checks_leaks = False
    # Whether this trace affects calls without its tracers, because it records operations or has a named axis.
    reaches_all = True
    # Whether this trace records equations. If so, the interpreters above it on the stack note the user's line.
    records = False
    # Whether this trace may return to the stack after its end. A vmap does if a call in it is differentiated later.
    resumes = True
    # Whether a ``counting.Tally`` counted the last operation. If so, ``bind`` does not announce the operation's end.
    counted = False
    # The table of rules for ``process_primitive``; observers show the rule in use.
    rules: RuleTable | None = None

    # The level of ``main``, or half a level less for a second trace below ``main.trace``: see interpreters.linearize.
    level: float

    def __init__(self, main: MainTrace | None = None) -> None:
        # ``set_current_trace`` sets ``main`` for a trace of a user's class
        if main is not None:
            self.main = main
            self.level = main.level
        # the thread's stack while this trace is on it, else None: then the tracers of this trace are dead
        self.stack: list[MainTrace] | None = None

    def process_primitive(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply ``primitive``. At least one argument is a tracer of this trace, or this trace is dynamic."""
        raise NotImplementedError

    def stage_value(self, x: Any) -> Any:
        """Convert the constant ``x``, which was created while this trace is dynamic, to a value of this trace."""
        return x

    def rule_of(self, primitive: Any) -> Rule | None:
        """The rule that ``process_primitive`` will apply, for observers."""
        return None if self.rules is None else self.rules.get(primitive)

    def table_of(self, primitive: Any) -> str:
        """The name of the rule table that holds ``rule_of(primitive)``; '' if this trace has no table."""
        return self.rules.name if self.rules is not None else ""


class MainTrace:
    """An entry of the stack: its ``level``, the ``label`` of its transformation, and the transformed ``subject``."""

    __slots__ = ("level", "trace_type", "global_data", "label", "subject", "dynamic", "trace", "__weakref__")

    def __init__(
        self,
        level: int,
        trace_type: type[Trace],
        global_data: Any,
        label: str,
        subject: str = "",
        dynamic: bool = False,
        trace: Trace | None = None,
    ) -> None:
        self.level = level
        self.dynamic = dynamic
        self.trace_type = trace_type
        self.global_data = global_data
        self.label = label
        self.subject = subject
        self.trace = trace_type(self) if trace is None else trace

    @property
    def alive(self) -> bool:
        """Whether this entry is on a stack. Once it has left the stack, its tracers are dead."""
        return self.trace.stack is not None

    @property
    def records(self) -> bool:
        return self.trace_type.records

    def __repr__(self) -> str:
        return f"{self.label}:{self.level}" if self.level else self.label


class Tracer(AnyArray):
    """A value inside a transformation. ``minijax.numpy`` adds operators and methods."""

    __slots__ = ("_trace", "__weakref__")
    # higher than NumPy's, so that NumPy's operators defer to ours (NumPy functions call __array__, which raises)
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    _trace: Trace

    def to_concrete_value(self) -> Any:
        """The concrete array behind this tracer, or None if there is none."""
        return None

    def __reduce__(self) -> Any:
        raise errors.ConcretizationTypeError(
            self, "The error occurred in the __reduce__ method, which pickles a value: a tracer has no value."
        )

    def _birth(self) -> Any:
        """The place in the user's program that made this tracer, if known (see ``errors.source_info``)."""
        return None

    def _birth_text(self) -> str:
        """The place that made this tracer, as text; '' if unknown."""
        birth = self._birth()
        if birth is None:
            return ""
        name = provenance.assigned_name(birth)
        return errors.summarize(birth) + (f", as `{name}`" if name else "")

    def _made_by(self) -> tuple[Sequence[Any], Any] | None:
        """The equations recorded so far and this tracer's variable; None if the trace records no equations."""
        return None

    def _inside(self) -> Tracer | None:
        """The tracer that this one wraps, or None."""
        return None

    def _level(self) -> tuple[str, Any]:
        """For error messages: a description of this tracer at its own level, and its value there (None if unknown)."""
        return f"a {self._trace.main!r} tracer", None

    def _origin_msg(self) -> str:
        """For error messages: the function that is being transformed, and how this value was computed."""
        return "\n".join(part for part in (self._origin(), provenance.story(self)) if part)

    def _origin(self) -> str:
        main = self._trace.main
        return f"The error occurred while tracing the function {main.subject} for {main.label}." if main.subject else ""

    def _advice(self, kind: str) -> str:
        """For error messages: advice for code that needs a truth value ('bool'), an 'index' or a 'value'."""
        return provenance.advice(kind, self._trace.main.label)

    def __repr__(self) -> str:
        """The text that JAX prints for this tracer. ``format(x, "levels")`` describes the tracer at each level."""
        return f"{type(self).__name__}<{self.aval}>"


class _Unset(Trace):
    """A placeholder at level 0, until ``interpreters.evaluate`` installs evaluation."""

    __slots__ = ()


class _ThreadState(threading.local):
    """One thread's interpreter stack. ``dynamic`` is the trace that processes operations without tracers."""

    # the class of the trace at level 0 of every thread's stack
    base: type[Trace] = _Unset

    def __init__(self) -> None:
        self.stack: list[MainTrace] = []
        self.dynamic: Trace
        self.start()
        # The user's line of the operation that is being transformed, for equations that the transformation records.
        # None while no transformation runs: then the line is found by walking the frames.
        self.source: Any = None
        # names and sizes of the enclosing mapped axes, innermost last
        self.axis_env: tuple[tuple[Any, int], ...] = ()

    def start(self) -> None:
        """Put evaluation on the bottom of the stack."""
        main = MainTrace(0, _ThreadState.base, None, "eval", dynamic=True)
        self.stack[:] = [main]
        self.dynamic = main.trace
        main.trace.stack = self.stack


state = _ThreadState()

# The interpreters with ``Trace.reaches_all``, of all threads. If there are none, tracer-free calls skip the stack.
reaching: dict[MainTrace, None] = {}

# The value of ``MainTrace.trace`` for interpreters that will never return to the stack.
ENDED = Trace()


def set_base_trace(trace_type: type[Trace]) -> None:
    """Install evaluation at level 0, on this thread and on every thread that starts later."""
    _ThreadState.base = trace_type
    state.start()


def under(
    trace_type: type[Trace],
    label: str,
    body: Callable[[MainTrace], Result],
    global_data: Any = None,
    subject: str = "",
    dynamic: bool = False,
    checked: bool = False,
) -> Result:
    """The result of ``body(main)``, run with a new interpreter ``main`` on top of this thread's stack.

    The stack is restored however ``body`` ends. An interrupt can come at any call or return, so the clean-up avoids
    calls. ``_leak_checked`` sets ``checked``, so that ``under`` does not call it again.
    """
    if leak_checks and trace_type.checks_leaks and not checked:
        return _leak_checked(trace_type, label, body, global_data, subject, dynamic)
    stack, outer = state.stack, state.dynamic
    main = MainTrace(len(stack), trace_type, global_data, label, subject, dynamic)
    try:
        if trace_type.reaches_all:
            reaching[main] = None
        stack.append(main)
        main.trace.stack = stack
        if dynamic:
            state.dynamic = main.trace
        if observe.on_main_push:
            observe.emit(observe.on_main_push, main)
        return body(main)
    except BaseException as error:
        operands.annotate(error, None, stack)
        raise
    finally:
        left = stack[main.level :]
        del stack[main.level :]
        main.trace.stack = None
        state.dynamic = outer
        if main in reaching:
            del reaching[main]
        if left != [main] or observe.on_main_pop:
            bury(left)
        if not trace_type.resumes and not observe.observers:
            # breaks the cycle of ``main`` and its trace, so the tracers' values are freed without garbage collection
            main.trace = ENDED


# Not empty while ``checking_leaks`` is set on some thread.
leak_checks: list[str] = []
while_on("check_tracer_leaks", lambda: leak_checks.append("on"), leak_checks.clear)


def _leak_checked(
    trace_type: type[Trace],
    label: str,
    body: Callable[[MainTrace], Result],
    global_data: Any,
    subject: str,
    dynamic: bool,
) -> Result:
    """Like ``under``, but raise an Exception if a tracer of the interpreter is alive afterwards."""
    mains: list[MainTrace] = []
    traces: list[Trace] = []

    def noting(main: MainTrace) -> Result:
        mains.append(main)
        traces.append(main.trace)
        return body(main)

    out = under(trace_type, label, noting, global_data, subject, dynamic, checked=True)
    if leaks_checked():
        gc.collect()
        trace = traces[0]
        # ``type`` is safe; isinstance would read ``__class__``, which may run code of a proxy
        leaked = [x for x in gc.get_objects() if issubclass(type(x), Tracer) and x._trace is trace]
        if leaked:
            raise Exception(
                f"Leaked trace {mains[0]!r}. Leaked tracer(s):\n\n"
                + "\n\n".join("\n".join(filter(None, (repr(x), x._origin(), _holder(x)))) for x in leaked)
                + "\n\nReturn such values from the function instead of keeping them."
            )
    return out


def _holder(x: Tracer) -> str:
    held = provenance.held_as(x)
    return f"It is kept as {held}." if held else ""


class ensure_compile_time_eval(contextlib.ContextDecorator):
    """Context manager: operations without tracers are evaluated at once, even while a function is being staged.

    Use it for values that a staged function computes from constants. Operations on tracers are processed as before.

    Source: https://docs.jax.dev/en/latest/_autosummary/jax.ensure_compile_time_eval.html
    """

    def _recreate_cm(self) -> ensure_compile_time_eval:
        return ensure_compile_time_eval()  # a new context for each call of a decorated function

    def __init__(self) -> None:
        # the outer dynamic trace of each open ``with`` block (an object may be entered again inside its own block)
        self.outer: list[Trace] = []

    def __enter__(self) -> None:
        self.outer.append(state.dynamic)
        state.dynamic = state.stack[0].trace

    def __exit__(self, *_exc_info: object) -> None:
        state.dynamic = self.outer.pop()


class TraceTag:
    """An object whose identity marks the tracers of one run of a user's transformation."""


class take_current_trace(contextlib.ContextDecorator):
    """``with take_current_trace() as parent``: the current interpreter, for a transformation above it."""

    def __enter__(self) -> Trace:
        return state.stack[-1].trace

    def __exit__(self, *_exc_info: object) -> None:
        pass


class set_current_trace:
    """Context manager: ``trace`` processes every operation that has no tracer of a higher interpreter.

    ``trace`` is on the stack, or its class was written by a user. RuntimeError if it has left the stack.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        # for each open block: the outer dynamic trace, and the stack entry that was made for ``trace``, or None
        self.outer: list[tuple[Trace, MainTrace | None]] = []

    def __enter__(self) -> None:
        trace, stack, made = self.trace, state.stack, None
        if trace.stack is None and trace.rules is not None:
            raise RuntimeError(f"{trace} has ended: only an interpreter that is on the stack can be set.")
        outer = state.dynamic
        if trace.stack is None:
            made = MainTrace(len(stack), type(trace), None, type(trace).__name__, dynamic=True, trace=trace)
            trace.main, trace.level = made, made.level
            push_again(made)
        else:
            state.dynamic = next(m.trace for m in reversed(stack[: trace.main.level + 1]) if m.dynamic)
        self.outer.append((outer, made))

    def __exit__(self, *_exc_info: object) -> None:
        outer, made = self.outer.pop()
        if made is not None:
            pop_main(made)
        state.dynamic = outer


class eval_context(set_current_trace):
    """Context manager: operations without tracers are evaluated at once, as under ``ensure_compile_time_eval``."""

    def __init__(self) -> None:
        super().__init__(state.stack[0].trace)


def push_main(
    trace_type: type[Trace], label: str, global_data: Any = None, subject: str = "", dynamic: bool = False
) -> MainTrace:
    """Put an interpreter on this thread's stack until ``pop_main``. For front ends, which clean up after Ctrl-C."""
    main = MainTrace(len(state.stack), trace_type, global_data, label, subject, dynamic)
    push_again(main)
    return main


def pop_main(main: MainTrace) -> None:
    """Remove ``main``, and interpreters that an interrupted transformation left above it, from this thread's stack."""
    stack = state.stack
    if main.trace.stack is not stack:
        return
    outer = next(m.trace for m in reversed(stack[: main.level]) if m.dynamic)
    left = stack[main.level :]
    del stack[main.level :]
    if state.dynamic.level >= main.level:
        state.dynamic = outer
    bury(left)


def bury(left: list[MainTrace]) -> None:
    """Announce that the interpreters in ``left`` have left the stack, the innermost first."""
    for main in reversed(left):
        main.trace.stack = None
        if main in reaching:
            del reaching[main]
        if observe.on_main_pop:
            observe.emit(observe.on_main_pop, main)


def reset_stack(above: MainTrace | None = None, axis_env: tuple[tuple[Any, int], ...] = ()) -> None:
    """After an exception, remove the interpreters above ``above`` (None: above evaluation). For front ends."""
    keep = 1 if above is None else above.level + 1
    if len(state.stack) > keep:
        left = state.stack[keep:]
        del state.stack[keep:]
        bury(left)
    state.dynamic = next(m.trace for m in reversed(state.stack) if m.dynamic)
    state.axis_env = axis_env
    state.source = None


def push_again(main: MainTrace) -> None:
    """Undo ``pop_main``: put ``main`` back on the stack, so that its tracers are alive again."""
    stack, outer = state.stack, state.dynamic
    assert main.level == len(stack), "the interpreters above it are still on the stack"
    try:
        reaching[main] = None
        stack.append(main)
        main.trace.stack = stack
        if main.dynamic:
            state.dynamic = main.trace
        if observe.on_main_push:
            observe.emit(observe.on_main_push, main)
    except BaseException:
        del stack[main.level :]
        main.trace.stack = None
        state.dynamic = outer
        if main in reaching:
            del reaching[main]
        raise


def stack_depth() -> int:
    """The number of interpreters above evaluation on this thread."""
    return len(state.stack) - 1


def records_below(level: int) -> bool:
    """Whether an interpreter under ``level`` records equations. If so, transformations should note the source."""
    for main in state.stack[:level]:
        if main.trace_type.records:
            return True
    return False


def find_top_trace(args: Sequence[Any]) -> Trace:
    """The trace that processes a primitive on ``args``: see the module's docstring."""
    top = state.dynamic
    level = top.level
    for x in args:
        if isinstance(x, Tracer) and x._trace.level > level:
            top = x._trace
            level = top.level
    return top


def raise_dead(args: Sequence[Any], primitive: Any = None) -> None:
    """Raise ``UnexpectedTracerError`` for the first tracer in ``args`` that is dead or belongs to another thread."""
    here = state.dynamic.stack
    for x in args:
        if isinstance(x, Tracer) and x._trace.stack is not here:
            main = x._trace.main
            details = [f"It was used by the primitive {primitive.name}."] if primitive is not None else []
            born, holder = x._birth_text(), provenance.held_as(x)
            if born.startswith("input "):
                details.insert(0, f"The leaked value is {born}.")
                born = ""
            if holder:
                details.append(f"It escaped through {holder}.")
            raise errors.escaped_tracer_error(
                x, main.label, main.subject, born or None, " ".join(details), to_thread=x._trace.stack is not None
            )


def check_alive(x: Any) -> Any:
    """Return ``x``. UnexpectedTracerError if its transformation has ended or runs on another thread."""
    if isinstance(x, Tracer) and x._trace.stack is not state.dynamic.stack:
        raise_dead((x,))
    return x
