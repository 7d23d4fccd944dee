"""The source lines to which a recording refers, with their text at the time of recording."""

from __future__ import annotations

import functools
import inspect
import itertools
import linecache
import weakref
from collections.abc import Callable
from types import (
    CodeType,
    FrameType,
    FunctionType,
)
from typing import Any

from minijax import errors
from minijax.core.rules import DerivedRule, shown_rule
from minijax.core.trace import state
from minijax.tools.documents.words import shortened
from minijax.tools.recording.copy import printed
from minijax.tools.recording.edited import EDITED, is_edited
from minijax.tools.recording.records import SourceRecord

# Number of lines kept around each line of the user.
AROUND = 40
# Maximum lines kept of a rule's function, and maximum characters of all sources.
MOST_RULE_LINES = 120
MOST_TEXT = 1_000_000
# Maximum characters kept of an operation's expression.
MOST_EXPRESSION = 120
_RUNS_MAGICS = ("get_ipython().run_line_magic(", "get_ipython().run_cell_magic(")
# file -> the lines that the user typed, if a front end ran other code in their place (Python for a magic).
as_typed: dict[str, list[str]] = {}


class Sources:
    """Collects places while a recorder watches; ``records`` reads the files at the end."""

    def __init__(self) -> None:
        # (id of a code object, instruction) -> the place as text, and the expression of that instruction
        self.places: dict[tuple[int, int], tuple[str, str]] = {}
        # keeps those code objects, so that their ids are not reused
        self.codes: dict[int, CodeType] = {}
        # file -> the lines wanted
        self.wanted: dict[str, set[int]] = {}
        # id of the code of a rule -> that code
        self.rules: dict[int, CodeType] = {}
        # id of a rule -> a weak reference (ids are reused), and the result of ``rule``
        self.described: dict[int, tuple[weakref.ref[Any], tuple[str, str, int]]] = {}
        # whether an imported program is being evaluated: then the equations' own expressions are used
        self.asking = False
        # number of lines that ``records`` dropped at its limit
        self.left_out = 0

    def place(self) -> str:
        """The user's current line, in the format of ``errors.source_line``.

        While the engine evaluates equations (as in a backward pass), this is the line of the current equation.
        """
        return self.spot()[0]

    def spot(self, frame: FrameType | None = None) -> tuple[str, str]:
        """The user's current line, and the expression being evaluated: ``a @ w1``. The expression is '' while the
        engine evaluates equations, as in a backward pass. ``frame`` is the user's frame, if known.
        """
        source = state.source
        if source is not None:
            found = self.spot_of(source)
            return found if self.asking and type(source) is tuple else (found[0], "")
        frame = frame or errors.user_frame()
        if frame is None:
            return "<unknown>", ""
        code = frame.f_code
        known = self.places.get((id(code), frame.f_lasti))
        return known or self._new(code, frame.f_lasti, frame.f_lineno or code.co_firstlineno)

    def place_of_error(self, error: BaseException) -> str:
        """The user's innermost line in the traceback of ``error``; '' if there is none."""
        place = ""
        traceback = error.__traceback__
        while traceback is not None:
            file = traceback.tb_frame.f_code.co_filename
            if errors.is_user_file(file):
                place = f"{file}:{traceback.tb_lineno} ({traceback.tb_frame.f_code.co_qualname})"
                self._want_around(file, traceback.tb_lineno)
            traceback = traceback.tb_next
        return place

    def place_of(self, info: errors.SourceInfo | None) -> str:
        """The place in an equation's source info; '' if it has none."""
        return self.spot_of(info)[0]

    def spot_of(self, info: errors.SourceInfo | None) -> tuple[str, str]:
        """The place and the expression in an equation's source info."""
        if info is None:
            return "", ""
        code, offset = info[0], info[1]
        found = self.places.get((id(code), offset))
        if found is None:
            line, _ = errors.position(info)
            found = self._new(code, offset, line)
        return found

    def _new(self, code: CodeType, offset: int, line: int) -> tuple[str, str]:
        self._want_around(code.co_filename, line)
        place = f"{code.co_filename}:{line} ({code.co_qualname})"
        self.codes[id(code)] = code
        found = self.places[id(code), offset] = place, expression(code, offset)
        return found

    def _want_around(self, file: str, line: int) -> None:
        self.wanted.setdefault(file, set()).update(range(max(line - AROUND, 1), line + AROUND + 1))

    def rule(self, rule: Callable[..., Any]) -> tuple[str, str, int]:
        """The name, file and first line of a rule, if known; its source lines will be kept.

        A rule made by ``f`` is called ``f.rule``. A rule derived from a JAX rule has the JAX rule's name, with a note.
        """
        known = self.described.get(id(rule))
        if known is not None and known[0]() is rule:
            return known[1]
        described = self._describe(rule)
        if isinstance(rule, (FunctionType, functools.partial)):
            self.described[id(rule)] = weakref.ref(rule), described
        return described

    def _describe(self, rule: Callable[..., Any]) -> tuple[str, str, int]:
        shown = inspect.unwrap(shown_rule(rule))
        name = printed(getattr(shown, "__qualname__", type(shown).__name__)).replace(".<locals>.", ".")
        if isinstance(rule, DerivedRule):
            name = f"{name} ({rule.said})"
        code = getattr(shown, "__code__", None)
        if not isinstance(code, CodeType):
            return name, "", 0
        if id(code) not in self.rules:
            self.rules[id(code)] = code
            lines = range(code.co_firstlineno, min(_last_line(code), code.co_firstlineno + MOST_RULE_LINES) + 1)
            self.wanted.setdefault(code.co_filename, set()).update(lines)
        return name, code.co_filename, code.co_firstlineno

    def records(self) -> tuple[SourceRecord, ...]:
        """The collected lines of all readable files; adjacent lines are one record."""
        out: list[SourceRecord] = []
        left = MOST_TEXT
        # user files first, in case the limit is reached
        edited = {code.co_filename for code in self.codes.values() if is_edited(code)}
        for file in sorted(self.wanted, key=lambda name: not errors.is_user_file(name)):
            linecache.checkcache(file)  # as tracebacks do: a file may have been edited and run again
            lines = as_typed.get(file) or linecache.getlines(file)
            if file in edited:
                lines = [EDITED + "\n"] * len(lines)
            wanted = sorted(line for line in self.wanted[file] if line <= len(lines))
            start = 0
            for i in range(1, len(wanted) + 1):
                if i < len(wanted) and wanted[i] == wanted[i - 1] + 1:
                    continue
                text = "".join(lines[wanted[start] - 1 : wanted[i - 1]])
                if len(text) <= left:
                    left -= len(text)
                    out.append(SourceRecord(file, wanted[start], text.removesuffix("\n")))
                else:
                    self.left_out += i - start
                start = i
        return tuple(out)


def expression(code: CodeType, offset: int) -> str:
    """The source of the expression with the instruction at ``offset``, on one line; '' if unknown."""
    where = next(itertools.islice(code.co_positions(), offset // 2, None), (None,) * 4)
    first, last, begin, end = where
    if first is None or last is None or begin is None or end is None or is_edited(code):
        return ""
    lines = linecache.getlines(code.co_filename)[first - 1 : last]
    if len(lines) != last - first + 1:
        return ""
    # columns count bytes
    encoded = [each.encode() for each in lines]
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][begin:]
    said = " ".join(b" ".join(encoded).decode(errors="replace").split())
    # the call that runs a magic is generated code
    return "" if said.startswith(_RUNS_MAGICS) else shortened(said, MOST_EXPRESSION)


def _last_line(code: CodeType) -> int:
    """The last line of a function, including inner functions."""
    last = code.co_firstlineno
    todo = [code]
    while todo:
        inner = todo.pop()
        last = max([last, *[line for _, _, line in inner.co_lines() if line is not None]])
        todo += [constant for constant in inner.co_consts if isinstance(constant, CodeType)]
    return last
