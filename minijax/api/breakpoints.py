"""``debug.breakpoint``: stop a running program and inspect the values of the surrounding functions.

The traced values in the variables of user functions become operands of a debug callback. So the prompt shows the values
of the current run, also in compiled programs. Under ``vmap`` it opens once for each element. Under ``grad`` it shows
primal values. The prompt accepts pdb's letters; other lines are evaluated in the frame, or run by a front end
(``callbacks.set_front_end``).
"""

from __future__ import annotations

import bdb
import contextlib
import linecache
import pprint
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from minijax.api import callbacks
from minijax.core.records import NamedTuple
from minijax.core.trace import Tracer, state
from minijax.errors import is_user_file
from minijax.pytree import tree_flatten, tree_unflatten

PROMPT = "(jdb) "
# The number of lines that ``l`` shows before and after the current line.
_AROUND = 5


class StoppedFrame(NamedTuple):
    """A user function that was running: its name, location and variables."""

    name: str
    file: str
    line: int
    names: dict[str, Any]
    globals: dict[str, Any]


def debug_breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
) -> None:
    """Stop whenever the program gets here, and open a prompt in the surrounding functions.

    ``num_frames``: the number of frames to keep, innermost first; ``filter_frames``: omit minijax's own frames;
    ``ordered``: as for ``debug.callback``; ``backend``: "cli" or None. ValueError for another ``backend``,
    NotImplementedError for a ``token``. ``q`` raises bdb.BdbQuit, or JaxRuntimeError from a compiled program.
    """
    if backend not in (None, "cli"):
        raise ValueError(f"debug.breakpoint: the only backend is 'cli', a prompt; got {backend!r}.")
    if token is not None:
        raise NotImplementedError("debug.breakpoint(token=...): pass ordered=True, which needs no token.")
    found = _frames(sys._getframe(1), filter_frames)[:num_frames]
    flat = [(frame, name, *_flattened(value)) for frame in found for name, value in frame.names.items()]
    traced = {id(x): x for _, _, leaves, _ in flat for x in leaves if _alive(x)}

    def stop(*values: Any) -> None:
        now = dict(zip(traced, values, strict=True))
        stopped = {id(frame): frame._replace(names={}) for frame in found}
        for frame, name, leaves, tree in flat:
            full = [now.get(id(x), x) for x in leaves]
            stopped[id(frame)].names[name] = full[0] if tree is None else tree_unflatten(tree, full)
        Prompt([*stopped.values()]).run()

    callbacks.debug_callback(stop, *traced.values(), ordered=ordered)


def _flattened(value: Any) -> tuple[list[Any], Any]:
    """Return the leaves and the tree of a variable's value; ``[value], None`` if it is no pytree."""
    try:
        return tree_flatten(value)
    except (TypeError, ValueError, RecursionError):  # a dict with unsortable keys, or a list that contains itself
        return [value], None


def _alive(x: Any) -> bool:
    return isinstance(x, Tracer) and x._trace.stack is state.stack


def _frames(frame: FrameType | None, only_users: bool) -> list[StoppedFrame]:
    found = []
    while frame is not None:
        code = frame.f_code
        if is_user_file(code.co_filename) or not only_users:
            # at module level the variables are globals, and the prompt looks them up later
            names = {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)
            found.append(StoppedFrame(code.co_name, code.co_filename, frame.f_lineno, names, frame.f_globals))
        frame = frame.f_back
    return found


_HELP = """\
p EXPRESSION   print a value                  pp EXPRESSION  print it over several lines
u, d           go to the caller; go back      w, bt          the calls that led here
l              the source lines around        a              the variables of this frame
c, Ctrl-D      continue the program           q              end the program
Anything else is evaluated in the frame."""


class Prompt:
    """The prompt of a breakpoint; ``frames`` starts with the innermost frame."""

    def __init__(self, frames: list[StoppedFrame]) -> None:
        self.frames = frames
        self.at = 0

    @property
    def frame(self) -> StoppedFrame:
        return self.frames[self.at]

    def run(self) -> None:
        """Read and run lines until the program continues. ``q`` raises BdbQuit."""
        if not self.frames:
            self.say("Entering jdb: no function of yours is running.")
            return
        self.say("Entering jdb:")
        self.where()
        while True:
            try:
                line = input(PROMPT).strip()
            except EOFError:
                self.say("")
                return
            word, _, rest = line.partition(" ")
            if word in ("c", "cont", "continue"):
                return
            if word in ("q", "quit", "exit"):
                raise bdb.BdbQuit("the prompt of debug.breakpoint() was left by q")
            if line:
                self.command(line, word, rest.strip())

    def command(self, line: str, word: str, rest: str) -> None:
        """Run one line, and show its exceptions."""
        own = _COMMANDS.get(word)
        try:
            if own is not None and (bool(rest) == (own in (Prompt.print, Prompt.pretty))):
                own(self, *([rest] if rest else []))
            elif callbacks.front_end is not None:
                with self.visible() as names:
                    callbacks.front_end(line, names)
            else:
                self.evaluate(line)
        except Exception as error:
            self.say(f"*** {type(error).__name__}: {error}")

    @contextlib.contextmanager
    def visible(self) -> Iterator[dict[str, Any]]:
        """Yield the frame's globals and variables in one dict, because functions written at the prompt can use only
        globals. Then save assignments to the dict in the frame.
        """
        names = {**self.frame.globals, **self.frame.names}
        before = dict(names)
        try:
            yield names
        finally:
            self.frame.names.update({k: v for k, v in names.items() if before.get(k, names) is not v})

    def say(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def help(self) -> None:
        self.say(_HELP)
        if callbacks.front_end is not None:
            self.say("Commands of minijax run here too: %step f(x) opens the stepper, %help lists them.")

    def value(self, expression: str) -> Any:
        """Evaluate an expression in the frame."""
        with self.visible() as names:
            return eval(expression, names)

    def print(self, expression: str) -> None:
        self.say(repr(self.value(expression)))

    def pretty(self, expression: str) -> None:
        self.say(pprint.pformat(self.value(expression)))

    def evaluate(self, line: str) -> None:
        """Evaluate an expression and print its value, or execute a statement."""
        with self.visible() as names:
            try:
                code = compile(line, "<breakpoint>", "eval")
            except SyntaxError:
                exec(compile(line, "<breakpoint>", "exec"), names)
                return
            value = eval(code, names)
        if value is not None:
            self.say(repr(value))

    def up(self) -> None:
        self.move(1, "this is the outermost function")

    def down(self) -> None:
        self.move(-1, "this is where the program stopped")

    def move(self, step: int, end: str) -> None:
        """Move ``step`` frames outward (inward if negative). Print ``end`` if there is no such frame."""
        if not 0 <= self.at + step < len(self.frames):
            self.say(f"*** {end}")
            return
        self.at += step
        self.where()

    def where(self) -> None:
        """Print the frame's location and source line."""
        self.say(f"> {self.frame.file}({self.frame.line}){self.frame.name}()")
        line = linecache.getline(self.frame.file, self.frame.line).strip()
        if line:
            self.say(f"-> {line}")

    def backtrace(self) -> None:
        for i, frame in enumerate(self.frames):
            mark = ">" if i == self.at else " "
            self.say(f"{mark} {frame.file}({frame.line}){frame.name}()")

    def list(self) -> None:
        for number in range(max(1, self.frame.line - _AROUND), self.frame.line + _AROUND + 1):
            line = linecache.getline(self.frame.file, number)
            if line:
                self.say(f"{number:4}{'->' if number == self.frame.line else '  '} {line.rstrip()}")

    def names(self) -> None:
        for name, value in self.frame.names.items():
            self.say(f"{name} = {value!r}")


_COMMANDS: dict[str, Callable[..., None]] = {
    **dict.fromkeys(("h", "help", "?"), Prompt.help),
    **dict.fromkeys(("p", "print"), Prompt.print),
    "pp": Prompt.pretty,
    **dict.fromkeys(("u", "up"), Prompt.up),
    **dict.fromkeys(("d", "down"), Prompt.down),
    **dict.fromkeys(("w", "where", "bt"), Prompt.backtrace),
    **dict.fromkeys(("l", "list"), Prompt.list),
    **dict.fromkeys(("a", "args", "locals"), Prompt.names),
}
