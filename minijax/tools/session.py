"""One user's session with the microscope: names, inputs and outputs, the last recording, and running a line.

A session knows no front end. A front end gives it a line and shows the ``Outcome``. After any exception,
Ctrl-C's included, the interpreter stack is back at evaluation and everything else is as it was.
"""

from __future__ import annotations

import ast
import builtins
from typing import Any

from minijax.core.trace import reset_stack
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr
from minijax.ir.pretty import jaxpr_document
from minijax.tools import source, views
from minijax.tools.arguments import UsageError
from minijax.tools.command import NOTHING, Result
from minijax.tools.commands import find
from minijax.tools.document import Document, Program, document, line, text
from minijax.tools.frozen import Frozen
from minijax.tools.recorder import Recorder
from minijax.tools.recording import Recording
from minijax.tools.settings import Settings
from minijax.tools.targets import SPECS
from minijax.tools.tracebacks import error_document, last_user_place

# Recordings of earlier lines that a session remembers.
MOST_RECORDINGS = 50


class Outcome(Frozen):
    """What running one input gave.

    Attributes:
      number: the input's number.
      value: what the last expression was worth, ``NOTHING`` if there was none or it was None.
      shown: the value, or what a command had to say, as a document.
      error: the exception that ended the input, if one did; ``shown`` then tells of it.
      summary: the panels; empty if nothing was traced.
      recording: what the engine did.
      command: whether the input was a command, so that ``shown`` is what it said rather than a value.
    """

    number: int
    value: Any = NOTHING
    shown: Document = Document()
    error: BaseException | None = None
    summary: Document = Document()
    recording: Recording | None = None
    command: bool = False


class Session:
    """The state behind a prompt.

    Args:
      namespace: the user's global names; a new dict if None. In IPython it is IPython's own.
      settings: the user's choices.
    """

    def __init__(self, namespace: dict[str, Any] | None = None, settings: Settings | None = None) -> None:
        self.namespace: dict[str, Any] = {} if namespace is None else namespace
        self.namespace.setdefault("__builtins__", builtins)
        self.settings = settings or Settings()
        self.recording: Recording | None = None
        self.recordings: list[Recording] = []
        self.inputs: list[str] = [""]
        self.outputs: dict[int, Any] = {}
        # names of a calling function's, for commands given inside one (IPython's local scope)
        self.local_names: dict[str, Any] = {}
        self._sources = 0
        # the file name under which tracebacks find the command being run
        self._filename = "<minijax>"
        self._flags = 0

    # --- names and expressions
    # -----------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Whether the user has a variable of this name."""
        return name in self.local_names or name in self.namespace

    def lookup(self, name: str) -> Any:
        """The user's variable, or None."""
        return self.local_names.get(name, self.namespace.get(name))

    def evaluate(self, node: ast.expr, extra: dict[str, Any]) -> Any:
        """The value of an expression in the user's namespace, with the names ``extra`` added and types like
        ``f32``.
        """
        __tracebackhide__ = True
        specs = {name: value for name, value in SPECS.items() if name not in self.namespace}
        expression = ast.fix_missing_locations(ast.Expression(node))
        code = compile(expression, self._filename, "eval", dont_inherit=True)
        return eval(code, self.namespace, {**specs, **self.local_names, **extra})

    def new_source(self, code: str) -> str:
        """Register ``code`` for tracebacks; returns its file name."""
        self._sources += 1
        filename = f"<minijax-cell-{self._sources}>"
        source.register(filename, code)
        return filename

    # --- running
    # -------------------------------------------------------------------------------------------------

    def run_line(self, code: str) -> Outcome:
        """Run one input: Python, a command line (``%name ...``) or a cell (``%%name ...`` and its body).

        Raises SystemExit if the user's code does; everything else is in the ``Outcome``.
        """
        number = len(self.inputs)
        self.inputs.append(code)
        self.namespace.setdefault("In", self.inputs)
        self.namespace.setdefault("Out", self.outputs)
        recorder = Recorder("summary", code)
        try:
            if source.is_command(code):
                return self._finish(number, self._command(code, number))
            value = self._python(code, number, recorder)
            shown = Document() if value is NOTHING else self.value_document(value)
            return self._finish(number, Result(shown, value, recorder.recording))
        except SystemExit:
            reset_stack()
            raise
        except BaseException as error:
            reset_stack()
            return self._failed(number, error, recorder)

    def _python(self, code: str, number: int, recorder: Recorder) -> Any:
        filename = f"<minijax-{number}>"
        source.register(filename, code)
        statements, expression = source.compiled(code, filename, self._flags)
        # ``from __future__ import`` counts for the rest of the session, as at Python's own prompt
        self._flags |= source.future_flags(statements)
        with recorder:
            if statements is not None:
                exec(statements, self.namespace)
            value = NOTHING if expression is None else eval(expression, self.namespace)
        return NOTHING if value is None else value

    def _command(self, code: str, number: int) -> Result:
        filename = f"<minijax-{number}>"
        source.register(filename, code)
        header, _, body = code.strip("\n").lstrip().partition("\n")
        is_cell = header.startswith("%%")
        name, line = [*header.lstrip("%").split(None, 1), "", ""][:2]
        silent = not is_cell and line.rstrip().endswith(";")
        result = self.run_command(name, line.rstrip().rstrip(";"), body if is_cell else None, filename=filename)
        return Result(Document(), result.value, result.recording) if silent else result

    def run_command(
        self,
        name: str,
        line: str,
        cell: str | None = None,
        local_names: dict[str, Any] | None = None,
        filename: str = "",
    ) -> Result:
        """Run a command by name, with its line and (for the cell form) body.

        Raises:
          UsageError: there is no such command, or it does not understand its arguments. Exceptions of the
            user's code pass.
        """
        __tracebackhide__ = True
        command = find(name, cell is not None)
        self.local_names = local_names or {}
        self._filename = filename or self.new_source(f"%{name} {line}")
        try:
            result = command(self, line, cell)
        finally:
            self.local_names = {}
        if result.recording is not None:
            self.remember(result.recording)
        return result

    def _finish(self, number: int, result: Result) -> Outcome:
        value = result.value
        if value is not NOTHING:
            names = self.namespace
            names["___"], names["__"] = names.get("__", ""), names.get("_", "")
            names["_"] = self.outputs[number] = value
        command = source.is_command(self.inputs[number])
        summary = Document()
        if result.recording is not None and not command:
            self.remember(result.recording)
            summary = views.summary(result.recording, self.settings.panels, style=self.settings.style)
        return Outcome(number, value, result.document, None, summary, result.recording, command)

    def _failed(self, number: int, error: BaseException, recorder: Recorder) -> Outcome:
        recording = recorder.recording
        if recording.events:
            self.remember(recording)
        return Outcome(number, NOTHING, self.error_document(error), error, Document(), recording)

    def remember(self, recording: Recording) -> None:
        """Make ``recording`` the last one."""
        if recording.traced or self.recording is None:
            self.recording = recording
            self.recordings.append(recording)
            del self.recordings[:-MOST_RECORDINGS]

    # --- showing
    # -------------------------------------------------------------------------------------------------

    def error_document(self, error: BaseException) -> Document:
        """What to show of an exception."""
        if isinstance(error, UsageError):
            return document(text(str(error), role="error", wrap=False))
        if isinstance(error, KeyboardInterrupt):
            place = last_user_place(error)
            return document(text(line(("error", "interrupted"), ("place", f" at {place}" if place else ""))))
        return error_document(error, self.settings.frames == "all")

    def value_document(self, value: Any) -> Document:
        """A value as the prompt shows it: its repr, jaxprs in colour."""
        if isinstance(value, (ClosedJaxpr, Jaxpr)):
            return document(Program(jaxpr_document(value, style=self.settings.style)))
        return document(text(repr(value), wrap=False))
