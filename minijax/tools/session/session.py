"""One user's session: its names, inputs, outputs and recordings. It runs the user's lines.

A session knows no front end. A front end passes it a line and shows the ``Outcome``. After any exception, Ctrl-C
included, the interpreter stack is back at evaluation, or at the levels that %push opened (``live``). All other state
is unchanged.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import re
import time
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from minijax.core import miss_log
from minijax.core.records import Frozen
from minijax.core.trace import Tracer
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr
from minijax.ir.pretty import jaxpr_document
from minijax.tools.documents.document import Block, Code, Document, Highlighter, Printout, document, line, text
from minijax.tools.live.stack import Live
from minijax.tools.recording import panels as views
from minijax.tools.recording.recorder import Recorder, recorded_until
from minijax.tools.recording.records import Recording
from minijax.tools.session import real_jax, source
from minijax.tools.session.jax_misses import Watching
from minijax.tools.session.namespace import names_read
from minijax.tools.session.outputs import Outputs
from minijax.tools.session.restoring import RUNNING, restore, saved
from minijax.tools.session.result import NOTHING, Browse, Result, Step
from minijax.tools.session.settings import Settings
from minijax.tools.session.specs import BOOL, SPECS, SpecType, subscripted_bools
from minijax.tools.session.tracebacks import error_document, last_user_place, passed_engine, without_tools
from minijax.tools.session.values import printed, value_tree, written
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    from minijax.tools.live.level import Level
    from minijax.tools.session.watch import Watched

# Maximum number of earlier recordings kept.
MOST_RECORDINGS = 50
# Maximum number of events in all full recordings kept; an event takes up to 0.8 kB.
MOST_EVENTS = 1_000_000
# Maximum number of bytes of user values in all recordings kept.
MOST_BYTES = 600_000_000
# Maximum number of inputs whose output is kept.
MOST_LOGGED = 1000
# Unknown names are searched in the last 3 full recordings, each up to 50,000 values.
_LATELY = 3
MOST_LOOKED = 50_000
# Maximum number of characters of a value shown at a prompt.
MOST_SHOWN = 20_000


class Outcome(Frozen):
    """The result of running one input.

    Attributes:
      number: the input's number.
      value, error, recording, step, debug, data, next_input: as in ``Result``.
      shown: the value, or the answer of a command, as a document; and the error.
      summary: the panels; empty if nothing was traced.
      command: whether the input was a command; then ``shown`` is its answer, not a value.
    """

    number: int
    value: Any = NOTHING
    shown: Document = Document()
    error: BaseException | None = None
    summary: Document = Document()
    recording: Recording | None = None
    command: bool = False
    step: Step | Browse | None = None
    debug: TracebackType | None = None
    data: Any = None
    next_input: str = ""


class Entry(Frozen):
    """An input and its output as documents: the value (or the error that ended it), and the panels."""

    number: int
    source: str
    shown: Document
    panels: Document
    failed: bool = False
    recording: Recording | None = None


class FailedInput(Frozen):
    """An input that an exception ended, without a full recording.

    Attributes:
      number, source: the input.
      replays: whether running the input again would record anything; false if the engine had done nothing yet.
      error: the type and place of the exception, in one line: ``KeyError at <minijax-3>:2``.
      interrupted: whether Ctrl-C ended the input.
    """

    number: int
    source: str
    replays: bool
    error: str
    interrupted: bool = False


def replay_text(interrupted: bool) -> str:
    """The hint below a failed input that can be stepped through."""
    if interrupted:
        return "%step runs it again, recorded; Ctrl-C ends that where you want to look"
    return "%step runs it again, recorded, and opens at the exception · %debug: its frame"


# The same hint after a full recording of the input.
RECORDED = "%step opens its recording at the exception · %debug: its frame"


class RunnableCommand(Protocol):
    """The signature of a command: it runs with its line and, as a cell, with its body."""

    def __call__(self, session: Session, line: str, cell: str | None = None, /) -> Result: ...


# Finds a command by name, in its cell form if the second argument is true. Raises UsageError if there is none.
Find: TypeAlias = "Callable[[str, bool], RunnableCommand]"


def _forgotten(recordings: Sequence[Recording | None]) -> int:
    """How many of the oldest ``recordings`` to drop. The newest always stays."""
    events = taken = 0
    for count, recording in enumerate(reversed(recordings[-MOST_RECORDINGS:])):
        if recording is not None and recording.tree:
            events += recording.events
            taken += recording.kept.bytes
        if count and (events > MOST_EVENTS or taken > MOST_BYTES):
            return len(recordings) - count
    return max(len(recordings) - MOST_RECORDINGS, 0)


class Session:
    """The state behind a prompt.

    Args:
      find: looks a command up by its name and by whether it is a cell: ``minijax.tools.commands.find``.
      namespace: the user's global names; a new dict if None. IPython passes its own namespace.
      settings: the user's settings.
    """

    def __init__(self, find: Find, namespace: dict[str, Any] | None = None, settings: Settings | None = None) -> None:
        self._find = find
        self.namespace: dict[str, Any] = {} if namespace is None else namespace
        self.namespace.setdefault("__builtins__", builtins)
        self.settings = settings or Settings()
        self.recording: Recording | None = None
        self.recordings: list[Recording] = []
        # whether code has run since ``recording`` without being watched (IPython cells are not watched by default)
        self.unwatched = False
        # number of the first cache miss that belongs to the last input (see ``core.miss_log``)
        self.first_miss = miss_log.total()
        # the cache misses of real JAX, which are recorded only while JAX is watched
        self.jax = Watching()
        # the last input that an exception ended; None as soon as something is recorded
        self.failed: FailedInput | None = None
        # the last exception that ended an input, with the variables of its frames, like Python's ``sys.last_exc``
        self.error: BaseException | None = None
        # the recording of a command that failed
        self.unfinished: Recording | None = None
        # the last exception that ended a full recording
        self.recorded_error: BaseException | None = None
        # runs an input again; set by front ends that run inputs themselves
        self.runs_again: Callable[[FailedInput], Any] | None = None
        self.inputs: list[str] = [""]
        self.outputs = Outputs()
        self.log: list[Entry] = []
        # colours programs in pages that commands write; front ends set it, because they import the lexer
        self.highlight: Highlighter | None = None
        # renames source places in pages that commands write; set by front ends that have their own names for places
        self.renamed_places: Callable[[str], str] | None = None
        # returns the current input of a front end that numbers inputs itself; it becomes part of a command's file name
        self.origin: Callable[[], str] | None = None
        # unwraps the value if a front end wraps the results of commands
        self.unwrapped: Callable[[Any], Any] = lambda value: value
        # name of a command -> its name in this front end, for commands that the front end must rename
        self.renamed_commands: dict[str, str] = {}
        # the names that minijax's own prompt defined at the start
        self.given: dict[str, Any] = {}
        # imports the names of the prompt that are not imported yet; None once all are imported
        self.late_names: Callable[[], dict[str, Any]] | None = None
        # whether minijax's own prompt reads the lines; some commands need this prompt
        self.own_prompt = True
        # the local names of a calling function, for commands given inside it (IPython's local scope)
        self.local_names: dict[str, Any] = {}
        # the JAX programs that the running command watches
        self.watched: list[Watched] = []
        self.live = Live(self.namespace)
        # the guided tour while it runs; only the commands know its type
        self.tour: Any = None
        # the exercises, once the user has opened one
        self.exercises: Any = None
        # the folder before the last %cd, for %cd -
        self.folder_before: str | None = None
        self._sources = 0
        # the running command's file name in tracebacks
        self._filename = "<minijax>"
        self._flags = 0

    # --- the pushed levels

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels that %push opened, outermost first."""
        return tuple(self.live.levels)

    def prompt_label(self) -> str:
        """The label of the innermost pushed level for the prompt, such as ``jvp:1``; '' if no level is pushed."""
        return self.live.levels[-1].label if self.live.levels else ""

    def command_name(self, name: str) -> str:
        """The name of a command in this front end."""
        return self.renamed_commands.get(name, name)

    def restore(self) -> None:
        """Restore the interpreter stack to the pushed levels, or to evaluation, after an error."""
        self.live.restore()

    def note(self, code: str, value: Any = NOTHING) -> tuple[Document, Document]:
        """Report to the pushed levels that ``code`` has run and that its last expression has the value ``value``.

        Returns two documents: the tracer that ``code`` assigned, and the programs that gained equations. Both are empty
        if nothing is pushed. Front ends that run Python themselves (IPython) call this after each cell.
        """
        if not self.live.levels:
            return Document(), Document()
        from minijax.tools.live.views import growth, tracer_document

        name = self.live.note(code, value, NOTHING)
        silent = code.rstrip().endswith(";") or not name
        shown = Document() if silent else tracer_document(self.live, self.namespace[name])
        return shown, growth(self.live)

    def complete_names(self) -> None:
        """Import the names of the prompt that are not imported yet."""
        # another thread may run this too (repl/warm.py), so every step may run twice
        load = self.late_names
        if load is None:
            return
        for name, value in load().items():
            if name not in self.given:
                self.namespace.setdefault(name, value)
                self.given[name] = value
        self.late_names = None

    def import_names(self, code: str) -> None:
        """Import the names of the prompt that ``code`` reads and the namespace lacks."""
        if not self.given:  # the prompt of another program defines its own names
            return
        for name, value in names_read(code, self.namespace).items():
            self.namespace[name] = self.given[name] = value

    # --- names and expressions

    def has(self, name: str) -> bool:
        """Whether a variable of this name exists."""
        return name in self.local_names or name in self.namespace

    def lookup(self, name: str) -> Any:
        """Return the value of the variable, or None if it does not exist."""
        return self.local_names.get(name, self.namespace.get(name))

    def is_given(self, name: str) -> bool:
        """Whether a name still has the value that the prompt gave it."""
        return name in self.given and self.lookup(name) is self.given[name]

    def held_in(self, name: str) -> str:
        """The source of the latest call with a full recording in which a variable ``name`` held a value; '' if
        there is no such call.
        """
        full = [each for each in self.recordings if each.level == "full" and source.is_call(each.source)]
        for recording in reversed(full[-_LATELY:]):
            # searching longer recordings would take too long
            if len(recording.lives) <= MOST_LOOKED and any(life.called(name) for life in recording.lives):
                return recording.source.strip()
        return ""

    def evaluate(self, node: ast.expr, extra: dict[str, Any]) -> Any:
        """Evaluate an expression in the user's namespace, extended by the names ``extra`` and by types like ``f32``."""
        specs = {name: value for name, value in SPECS.items() if name not in self.namespace}
        node = source.placed(node, self._filename)  # a copy: the caller may use its tree again
        for name in [] if self.has("bool") else subscripted_bools(node):
            name.id = BOOL
            specs[BOOL] = SpecType("bool")
        expression = ast.fix_missing_locations(ast.Expression(node))
        code = compile(expression, self._filename, "eval", dont_inherit=True)
        return eval(code, self.namespace, {**specs, **self.local_names, **extra})

    def watchable(
        self,
        command: str,
        title: str,
        fun: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """The call in a form that the running command can watch; a call of a JAX program is converted to minijax.

        Raises:
          UsageError: minijax cannot watch the call; the text says why.
        """
        kwargs = {} if kwargs is None else kwargs
        found = real_jax.carried(command, title, fun, args, kwargs)
        if found is None:
            return fun, args, kwargs
        self.watched.append(found)
        return found.fun, found.args, found.kwargs

    def new_source(self, code: str) -> str:
        """Register ``code`` for tracebacks; returns its file name."""
        self._sources += 1
        origin = "" if self.origin is None else self.origin()
        filename = f"<minijax-cell-{self._sources}{origin}>"
        source.register(filename, code)
        return filename

    # --- running

    def run_line(self, code: str) -> Outcome:
        """Run one input: Python, a command line (``%name ...``) or a cell (``%%name ...`` and its body).

        Raises SystemExit if the user's code does. The ``Outcome`` holds all other exceptions.
        """
        code = source.cleaned(code)
        outcome = self._run(code)
        failed = outcome.error is not None
        self.note_failure(outcome.number, code, outcome.error, outcome.recording)
        self.keep(Entry(outcome.number, code, outcome.shown, outcome.summary, failed, outcome.recording))
        return outcome

    def note_failure(self, number: int, code: str, error: BaseException | None, recording: Recording | None) -> None:
        """Remember the last failed input until something else is recorded. Front ends that run inputs themselves
        (IPython) call this after each input.
        """
        if error is not None and not isinstance(error, (SystemExit, UsageError)):
            self.error = error
        if error is None or (recording is not None and recording.level == "full"):
            if recording is not None:
                self.failed = None
        elif not isinstance(error, (UsageError, SyntaxError)):
            replays = passed_engine(error) if recording is None else recording.events > 0
            place = last_user_place(error)
            summary = type(error).__name__ + (f" at {place}" if place else "")
            self.failed = FailedInput(number, code, replays, summary, isinstance(error, KeyboardInterrupt))

    def replay_hint(self, number: int) -> str:
        """The hint below input ``number`` if the input failed and can be stepped through; else ''."""
        failed = self.failed
        if failed is None or failed.number != number or not failed.replays:
            return ""
        return replay_text(failed.interrupted)

    def hint(self, outcome: Outcome) -> str:
        """The hint on how to step to an outcome's exception, shown below the outcome; '' if there is none."""
        if outcome.error is None or outcome.step is not None:
            return ""
        if outcome.error is self.recorded_error:
            return RECORDED if outcome.recording is not None and outcome.recording.events else ""
        return self.replay_hint(outcome.number)

    def run_again(self, failed: FailedInput) -> Any:
        """Run an input again under its number and return its value. The value is neither shown nor stored."""
        if self.runs_again is not None:
            return self.runs_again(failed)
        if source.is_command(failed.source):
            return self.run_command_line(failed.source, failed.number).value
        return self._python(failed.source, failed.number, contextlib.nullcontext())

    def keep(self, entry: Entry) -> None:
        """Keep the output of an input for ``%export``. Older inputs lose their recordings."""
        self.log.append(entry)
        holding = [i for i, each in enumerate(self.log) if each.recording is not None]
        for i in holding[: _forgotten([self.log[i].recording for i in holding])]:
            old = self.log[i]
            self.log[i] = Entry(old.number, old.source, old.shown, old.panels, old.failed)
        del self.log[:-MOST_LOGGED]

    def _run(self, code: str) -> Outcome:
        number = len(self.inputs)
        self.inputs.append(code)
        self.namespace.setdefault("In", self.inputs)
        self.namespace.setdefault("Out", self.outputs)
        recorder = Recorder("summary", code)
        try:
            return self._finish(number, *self._result(code, number, recorder))
        except SystemExit:
            self.restore()
            raise
        except BaseException as error:
            self.restore()
            return self._failed(number, error, recorder)

    def _result(self, code: str, number: int, recorder: Recorder, filename: str = "") -> tuple[Result, Document]:
        """Run an input. Returns its result, and the programs of pushed levels that it added equations to."""
        if source.is_command(code):
            return self.run_command_line(code, number), Document()
        value = self._python(code, number, recorder, filename)
        assigned, grown = self.note(code, value)
        return Result(assigned if value is NOTHING else self.value_document(value), value, recorder.recording), grown

    def _python(self, code: str, number: int, recorder: AbstractContextManager[Any], filename: str = "") -> Any:
        self.import_names(code)
        filename = filename or f"<minijax-{number}>"
        source.register(filename, code)
        statements, expression = source.compiled(code, filename, self._flags)
        # ``from __future__ import`` applies to the rest of the session, as at Python's own prompt
        self._flags |= source.future_flags(statements)
        self.first_miss = miss_log.total()
        with self.jax, recorder:
            if statements is not None:
                exec(statements, self.namespace)
            value = NOTHING if expression is None else eval(expression, self.namespace)
        return NOTHING if value is None else value

    def run_command_line(self, code: str, number: int) -> Result:
        """Run a command as typed: with its ``%``, and with its body if it is a cell."""
        filename = f"<minijax-{number}>"
        source.register(filename, code)
        header, _, body = source.as_command(code).strip("\n").lstrip().partition("\n")
        is_cell = header.startswith("%%")
        name, line = [*header.lstrip("%").split(None, 1), "", ""][:2]
        silent = not is_cell and line.rstrip().endswith(";")
        result = self.run_command(name, line.rstrip().rstrip(";"), body if is_cell else None, filename=filename)
        return Result(Document(), result.value, result.recording, result.step, result.error) if silent else result

    def run_command(
        self,
        name: str,
        line: str,
        cell: str | None = None,
        local_names: dict[str, Any] | None = None,
        filename: str = "",
    ) -> Result:
        """Run the command called ``name`` on ``line``, and on the body ``cell`` if it is a cell.

        Raises:
          UsageError: the command does not exist, or does not understand its arguments. Exceptions of the user's code
              propagate too.
        """
        __tracebackhide__ = True
        self.complete_names()
        self.import_names(f"{line}\n{cell or ''}")
        command = self._find(name, cell is not None)
        self.live.check_command(name)
        self.local_names = local_names or {}
        self._filename = filename or self.new_source(f"%{name} {line}")
        around, self.watched = self.watched, []
        self.unfinished = None
        began = time.perf_counter()
        # the user's objects that the command can reach, to undo what a trace stores in them
        words = re.findall(r"[^\W\d]\w*", "" if name in RUNNING else f"{line} {cell or ''}")
        before = saved([self.lookup(word) for word in dict.fromkeys(words) if self.has(word)])
        try:
            result = command(self, line, cell)
            if self.watched:
                result = real_jax.answer(result, self.watched)
        except BaseException as error:
            with contextlib.suppress(Exception):  # the user sees the command's error instead
                self._settle()
            self._keep_interrupted(error, began)
            error.__traceback__ = without_tools(error.__traceback__)
            raise
        else:
            self._settle()
        finally:
            self.local_names, self.watched = {}, around
            restore(before)
        if result.error is not None:
            result.error.__traceback__ = without_tools(result.error.__traceback__)
            self.restore()  # after an interrupt
            if result.recording is not None and result.recording.level == "full":
                self.recorded_error = result.error
        if result.recording is not None:
            self.remember(result.recording)
            self.jax.skip()
        return result

    def _keep_interrupted(self, error: BaseException, began: float) -> None:
        """Keep the recording of a command that failed, for a bare %step."""
        self.unfinished = recorded_until(error, began)
        if self.unfinished is not None and self.unfinished.level == "full" and self.unfinished.blank:
            self.unfinished = None  # no event yet: an earlier recording shows more
        elif self.unfinished is not None and self.unfinished.level == "full":
            self.remember(self.unfinished)
            self.recorded_error = error

    def _settle(self) -> None:
        """Copy what a watched program changed into the user's objects. The program ran on copies of them."""
        for program in self.watched:
            program.settle()

    def run_inner(self, code: str, filename: str = "") -> Outcome:
        """Run an input from within a command: like ``run_line``, but under the number of the running line.

        ``filename`` is the name of Python code in tracebacks; empty for the default name.
        """
        number = len(self.inputs) - 1
        recorder = Recorder("summary", code)
        command = source.is_command(code)
        try:
            result, summary = self._result(code, number, recorder, filename)
            if not command:
                self.remember(recorder.recording)
                summary += self.panels(recorder.recording)
            return Outcome(
                number, result.value, self._with_error(result), result.error, summary, result.recording, command
            )
        except SystemExit:
            self.restore()
            raise
        except BaseException as error:
            self.restore()
            return Outcome(number, NOTHING, self.error_document(error), error, Document(), recorder.recording, command)

    def _finish(self, number: int, result: Result, summary: Document) -> Outcome:
        value = result.value
        if value is not NOTHING:
            names = self.namespace
            names["___"], names["__"] = names.get("__", ""), names.get("_", "")
            names["_"] = self.outputs[number] = value
        command = source.is_command(self.inputs[number])
        if result.recording is not None and not command:
            self.remember(result.recording)
            summary += self.panels(result.recording)
        shown = self._with_error(result)
        more = result.step, result.debug, result.data, result.next_input
        return Outcome(number, value, shown, result.error, summary, result.recording, command, *more)

    def _with_error(self, result: Result) -> Document:
        """The document of a result and, if an exception ended the user's call, the error."""
        if result.error is None or isinstance(result.error, SystemExit):  # the document already reports an exit
            return result.document
        return result.document + self.error_document(result.error)

    def _failed(self, number: int, error: BaseException, recorder: Recorder) -> Outcome:
        command = source.is_command(self.inputs[number])  # a command has its own recorders
        recording, self.unfinished = self.unfinished if command else recorder.recording, None
        summary = Document()
        if recording is not None and recording.events:
            self.remember(recording)
            if isinstance(error, KeyboardInterrupt) and (shown := self.panels(recording)):
                summary = document(text("until then:", role="muted")) + shown
        return Outcome(number, NOTHING, self.error_document(error), error, summary, recording, command)

    def remember(self, recording: Recording) -> None:
        """Make ``recording`` the latest one."""
        self.unwatched = False
        if recording.traced or recording.level == "full" or self.recording is None:
            self.recording = recording
            # a recording that is shown again becomes the latest, and appears once
            self.recordings[:] = [each for each in self.recordings if each is not recording] + [recording]
            del self.recordings[: _forgotten(self.recordings)]

    # --- showing

    def panels(self, recording: Recording) -> Document:
        """The panels of a line, with the user's settings."""
        chosen = self.settings
        return views.summary(recording, chosen.panels, style=chosen.style, full=chosen.full, keys=chosen.panel_keys)

    def error_document(self, error: BaseException) -> Document:
        """An exception as a document."""
        if isinstance(error, UsageError):
            return document(text(str(error), role="error", wrap=False))
        if isinstance(error, KeyboardInterrupt):
            place = last_user_place(error)
            return document(text(line(("error", "interrupted"), ("place", f" at {place}" if place else ""))))
        return error_document(error, self.settings.frames == "all")

    def value_tree(self, value: Any, where: str | None, columns: int) -> Block | None:
        """Return a key tree for a container of arrays that takes many lines, and None for any other value.

        ``where`` is the value's path in the result of the running input; None if it is not part of that result.
        """
        written = "" if where is None else f"Out[{len(self.inputs) - 1}]{where}"
        return value_tree(value, written, columns) if self.settings.trees else None

    def value_document(self, value: Any) -> Document:
        """A value as the prompt shows it: its repr, and jaxprs in colour."""
        if isinstance(value, (ClosedJaxpr, Jaxpr)):
            return document(Printout(jaxpr_document(value, style=self.settings.style)))
        if type(value).__module__ == "jax._src.core" and type(value).__name__ in ("ClosedJaxpr", "Jaxpr"):
            return document(Code(written(value), "jaxpr"))
        if self.live.levels and isinstance(value, Tracer):
            from minijax.tools.live.views import tracer_document

            return tracer_document(self.live, value)
        columns = self.settings.columns
        if not columns:
            return document(text(written(value), wrap=False))
        tree = self.value_tree(value, "", columns)
        if tree is not None:
            return document(tree)
        shown = printed(value, columns)
        rest = len(shown) - MOST_SHOWN
        if rest <= 0:
            return document(text(shown, wrap=False))
        more = text(f"... {rest:,} more characters: print(_) shows them", role="muted")
        return document(text(shown[:MOST_SHOWN], wrap=False), more)
