"""The levels that a session keeps on the stack between its lines: %push opens and %pop closes them.

A level is one transformation, with one or two entries on the engine's stack (``core.trace``). Levels belong to the
thread that opened them, and close in reverse order. After any error, ``restore`` resets the stack to the open levels.
The code of each transformation is in ``kinds``, which is imported at the first %push.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from threading import get_ident
from typing import Any

from minijax.core.array import is_array_like
from minijax.core.trace import pop_main, push_again, reset_stack, state
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.pytree import tree_leaves
from minijax.tools.live.level import GONE, Level, is_tracer
from minijax.tools.usage import UsageError

# Commands that run a call several times or read its result. They cannot work while calls are only recorded.
_MEASURING = ("check", "compare", "jit", "nan", "time")


class Returned:
    """The user's names that change when a level closes: some get a new or their old value, others are removed."""

    def __init__(self) -> None:
        # name -> a description of its new value
        self.kept: dict[str, str] = {}
        self.back: list[str] = []
        self.removed: list[str] = []


class Live:
    """The pushed levels of one session, outermost first, and the value that %pop returns by default.

    Args:
      namespace: the user's global names.
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace
        self.levels: list[Level] = []
        # the value last shown or assigned, and a text that describes it
        self.latest: tuple[Any, str] | None = None
        self._thread = 0

    def push(self, level: Level) -> None:
        """Push ``level``, and assign its tracers to the names of its inputs. If opening fails, nothing changes."""
        if self.levels and get_ident() != self._thread:
            raise UsageError("%push: another thread has open levels: close them there with %pop --all")
        try:
            values = level.open()
        except BaseException:
            self.restore()
            raise
        self._thread = get_ident()
        self.levels.append(level)
        level.latest, self.latest = self.latest, None
        for name, value in values.items():
            level.saved[name] = self.namespace.get(name, GONE)
            self.namespace[name] = value

    def close(self, value: Any) -> tuple[Any, Returned]:
        """Close the innermost level. Return the transformation's result, and the changed user names.

        If this raises, the level is still open and nothing has changed.
        """
        level = self.levels[-1]
        after: Callable[[], Any] = level.finish(value)
        self._leave(level)
        try:
            result = after()
        except BaseException:
            self.restore()
            for main in level.mains:
                push_again(main)
            self.levels.append(level)
            self.restore()
            raise
        done = self._give_back(level)
        if self.levels and all(map(is_array_like, tree_leaves(result))):
            self.latest = (result, "the value just closed")
        return result, done

    def drop(self) -> Returned:
        """Close the innermost level without returning a value."""
        level = self.levels[-1]
        self._leave(level)
        return self._give_back(level)

    def drop_all(self) -> None:
        """Close all levels without returning values."""
        while self.levels:
            self.drop()

    def _leave(self, level: Level) -> None:
        self.levels.pop()
        pop_main(level.mains[0])
        self.restore()

    def restore(self) -> None:
        """Reset this thread's stack to the pushed levels. If there are none, only evaluation stays on the stack."""
        if not self.levels or get_ident() != self._thread:
            reset_stack()
            return
        # if other code popped the interpreters of a level, drop the level
        while self.levels and not all(main.alive and main in state.stack for main in self.levels[-1].mains):
            self.levels.pop()
        if self.levels:
            reset_stack(self.levels[-1].mains[-1], self.levels[-1].axis_env)
        else:
            reset_stack()

    def check_command(self, name: str) -> None:
        """Raise UsageError if the command needs the results of calls, but the open level only records calls."""
        if name in _MEASURING and state.dynamic.level:
            main = state.dynamic.main
            raise UsageError(
                f"%{name} needs the results of a program, but {main!r} records everything instead of running it. "
                "Close that level first: %pop EXPR, or %pop --drop."
            )

    # --- the value of %pop without an argument

    def note(self, code: str, value: Any, nothing: Any) -> str:
        """Remember the value that ``code`` showed or assigned. Return the variable's name if it assigned a tracer.

        ``value``: the value of the last expression in ``code``, or ``nothing`` if the code does not end in one.
        """
        if value is not nothing and value is not None:
            self.latest = (value, "the last value")
            return ""
        for name in assigned_names(code):
            if name in self.namespace:
                self.latest = (self.namespace[name], name)
                return name if is_tracer(self.namespace[name]) else ""
        return ""

    # --- names

    def _give_back(self, level: Level) -> Returned:
        """In the user's variables, replace the tracers of ``level`` by their values outside of it."""
        done = Returned()
        self.latest = level.latest
        names = self.namespace
        for name, before in level.saved.items():
            if before is not GONE and level.owns(names.get(name)):
                names[name] = before
                done.back.append(name)
        converter = _Converter(level)
        for name, value in list(names.items()):
            if name.startswith("__"):
                continue
            try:
                converted = converter.convert(value)
            except Exception:  # the container cannot be rebuilt, or is nested too deeply
                continue
            hidden = name.startswith("_") or name in ("In", "Out")
            if converted is GONE:
                # Out and similar names keep the dead tracer, whose repr says what it was
                if not hidden:
                    del names[name]
                    done.removed.append(name)
            elif converted is not value:
                names[name] = converted
                if not hidden:
                    done.kept[name] = level.outside if level.owns(value) else f"with {level.outside} inside"
        return done


class _Converter:
    """Replaces the tracers of a level inside containers. It changes lists and dicts themselves, not copies."""

    def __init__(self, level: Level) -> None:
        self.level = level
        # id of a value -> the value and its conversion; the value is kept so that its id is not reused
        self.seen: dict[int, tuple[Any, Any]] = {}

    def convert(self, value: Any) -> Any:
        """``value`` without tracers of the level: the same object if it has none, GONE for a tracer without a value."""
        if is_tracer(value):
            return self.level.worth(value) if self.level.owns(value) else value
        kind = type(value)
        if not (kind is list or kind is ClosedJaxpr or issubclass(kind, (dict, tuple))):
            return value
        known = self.seen.get(id(value))
        if known is not None:
            return known[1]
        self.seen[id(value)] = (value, value)
        converted = self._inside(value)
        self.seen[id(value)] = (value, converted)
        return converted

    def _inside(self, value: Any) -> Any:
        if type(value) is list or isinstance(value, dict):
            # call the methods of list and dict themselves, because user classes may override them
            kind: Any = list if type(value) is list else dict
            items: list[tuple[Any, Any]] = list(enumerate(value) if kind is list else kind.items(value))
            for key, each in items:
                converted = self.convert(each)
                if converted is not each and converted is not GONE:
                    kind.__setitem__(value, key, converted)
            return value
        if type(value) is ClosedJaxpr:
            consts = self._all(value.consts)
            return ClosedJaxpr(value.jaxpr, consts) if consts is not None else value
        parts = self._all(value)
        if parts is None:
            return value
        return value._make(parts) if hasattr(value, "_make") else type(value)(parts)

    def _all(self, values: Any) -> list[Any] | None:
        """The converted values; None if all are unchanged."""
        parts = [self.convert(each) for each in values]
        parts = [each if part is GONE else part for part, each in zip(parts, values, strict=True)]
        return parts if any(part is not each for part, each in zip(parts, values, strict=True)) else None


def assigned_names(code: str) -> list[str]:
    """The names that the last statement of ``code`` assigns, the last name first; [] if it assigns none."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError):
        return []
    last = body[-1] if body else None
    if isinstance(last, ast.Assign):
        targets: list[ast.expr] = list(last.targets)
    elif isinstance(last, (ast.AugAssign, ast.AnnAssign)):
        targets = [last.target]
    else:
        return []
    found = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    return found[::-1]
