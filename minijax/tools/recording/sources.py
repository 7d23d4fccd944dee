"""Which lines of which files a recording refers to, and their text as it was when recorded."""

from __future__ import annotations

import functools
import inspect
import itertools
import linecache
import weakref
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from minijax import errors
from minijax.core.primitive import Primitive
from minijax.core.rules import DerivedRule, shown_rule
from minijax.core.trace import state
from minijax.tools.documents.words import shortened
from minijax.tools.recording.copy import printed
from minijax.tools.recording.records import SourceRecord

# Lines kept around each line of the user's.
AROUND = 40
# Of a rule's function so many lines are kept, and of all sources together so many characters.
MOST_RULE_LINES = 120
MOST_TEXT = 1_000_000
# The part of a line that an operation was asked by is kept up to so many characters.
MOST_EXPRESSION = 120
_RUNS_MAGICS = ("get_ipython().run_line_magic(", "get_ipython().run_cell_magic(")
# file -> its lines as they were typed, where a front end runs other ones: Python in place of a magic.
as_typed: dict[str, list[str]] = {}


# What rules hold that calls nothing of the user's, and how deep is looked for anything else.
_PLAIN_VALUES = type(None), bool, int, float, complex, str, np.dtype, np.ufunc, np.generic, Primitive
_PLAIN_PARTS = (*_PLAIN_VALUES, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType)
_PLAIN_PACKAGES = ("builtins", "minijax", "ml_dtypes", "numpy")  # of classes
_EMPTY = CellType()
_DEEPEST = 4


class Sources:
    """Collects places while a recorder watches; ``records`` reads the files at the end."""

    def __init__(self) -> None:
        # (id of a code object, instruction) -> the place as text, and the part of the line that the instruction is of
        self.places: dict[tuple[int, int], tuple[str, str]] = {}
        # those code objects, so that their ids stay their own
        self.codes: dict[int, CodeType] = {}
        # file -> the lines wanted
        self.wanted: dict[str, set[int]] = {}
        # id of the code of a rule -> that code
        self.rules: dict[int, CodeType] = {}
        # id of a rule -> the rule, held weakly (another may get its id), what ``rule`` says of it, and whether all that
        # it calls is the engine's own, as far as it can be seen
        self.described: dict[int, tuple[weakref.ref[Any], tuple[str, str, int], bool]] = {}
        # whether that is so of the rule asked for last
        self.engines = False
        # whether the equations that are evaluated now are an imported program's own: what its lines ask for
        self.asking = False
        # lines that ``records`` had no room for
        self.left_out = 0

    def place(self) -> str:
        """The user's line now, as ``errors.source_line`` gives it.

        Where the engine runs over equations (a backward pass, say), the line that an equation came from.
        """
        return self.spot()[0]

    def spot(self, frame: FrameType | None = None) -> tuple[str, str]:
        """The user's line now, and the part of it that is being evaluated: ``a @ w1``; '' where the engine runs over
        equations, which compute something else of that line (a cotangent, say). ``frame`` is the user's, if known.
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
        """The user's innermost line that ``error`` passed, '' if there is none."""
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
        """The place that an equation notes as its source, '' if it notes none."""
        return self.spot_of(info)[0]

    def spot_of(self, info: errors.SourceInfo | None) -> tuple[str, str]:
        """The place that an equation notes as its source, and the part of the line that asked for it."""
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
        """The name, file and first line of a rule, as far as it has them; its source is wanted.

        A rule that ``f`` made is called ``f.rule``; one that is derived from JAX's, as JAX's, and that it is borrowed.
        """
        known = self.described.get(id(rule))
        if known is not None and known[0]() is rule:
            self.engines = known[2]
            return known[1]
        described = self._describe(rule)
        self.engines = _is_engines(rule)
        if isinstance(rule, (FunctionType, functools.partial)):
            self.described[id(rule)] = weakref.ref(rule), described, self.engines
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
        """The lines wanted, as far as the files can be read, adjacent ones together."""
        out: list[SourceRecord] = []
        left = MOST_TEXT
        # the user's files first: if not everything can be kept, they can
        for file in sorted(self.wanted, key=lambda name: not errors.is_user_file(name)):
            linecache.checkcache(file)  # as tracebacks do: a file may have been edited and run again
            lines = as_typed.get(file) or linecache.getlines(file)
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
    """The source of what the instruction at ``offset`` is part of, on one line; '' if it is not known."""
    where = next(itertools.islice(code.co_positions(), offset // 2, None), (None,) * 4)
    first, last, begin, end = where
    if first is None or last is None or begin is None or end is None:
        return ""
    lines = linecache.getlines(code.co_filename)[first - 1 : last]
    if len(lines) != last - first + 1:
        return ""
    # columns count bytes
    encoded = [each.encode() for each in lines]
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][begin:]
    said = " ".join(b" ".join(encoded).decode(errors="replace").split())
    # what runs a magic is nothing that somebody wrote
    return "" if said.startswith(_RUNS_MAGICS) else shortened(said, MOST_EXPRESSION)


def _is_engines(value: Any, depth: int = 0) -> bool:
    """Whether a rule is a function of the engine's that holds no other than such, and no other objects than plain ones
    and primitives.
    """
    if depth > _DEEPEST:
        return False
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != _EMPTY]
        held = [*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        if errors.is_user_file(value.__code__.co_filename) or value.__dict__:
            return False
    elif isinstance(value, functools.partial):
        held = [value.func, *value.args, *value.keywords.values()]
    elif isinstance(value, MethodType):
        held = [value.__func__, value.__self__]
    elif isinstance(value, (tuple, list)):
        held = [*value]
    elif isinstance(value, type):
        return value.__module__.partition(".")[0] in _PLAIN_PACKAGES
    else:
        return isinstance(value, _PLAIN_PARTS)
    return all([_is_engines(each, depth + 1) for each in held])


def _last_line(code: CodeType) -> int:
    """The last line of a function, those inside it included."""
    last = code.co_firstlineno
    todo = [code]
    while todo:
        inner = todo.pop()
        last = max([last, *[line for _, _, line in inner.co_lines() if line is not None]])
        todo += [constant for constant in inner.co_consts if isinstance(constant, CodeType)]
    return last
