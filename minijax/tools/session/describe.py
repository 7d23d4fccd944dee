"""Describe an object: its signature, its origin, its docstring, its source."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import re
from collections.abc import Iterator
from typing import Any

from minijax.tools.documents.document import Block, Code, Document, Fitted, Line, Text, line, text
from minijax.tools.recording.edited import EDITED, is_edited

# Longer sources are cut; the answer then says where the rest is.
MOST_LINES = 400


def describe(name: str, value: Any, with_source: bool = False) -> Document:
    """The answer to ``name?``; with ``with_source``, the answer to ``name??``."""
    subject = _subject(value)
    blocks: list[Block] = [text(_title(name, subject), hanging=4)]
    place = _place(subject)
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    about: Line = line(("muted", "a "), ("type", kind))
    if place:
        about = (*about, *line(("muted", "  from "), ("place", place)))
    blocks.append(text(about, hanging=4))
    docstring = _doc(subject)
    if docstring:
        blocks += [text(""), Fitted(lambda width: tuple(_paragraphs(docstring, width)))]
    elif not with_source:
        blocks.append(text("no docstring", role="muted"))
    if with_source:
        blocks += _source(subject)
    return Document(tuple(blocks))


def _subject(value: Any) -> Any:
    """Unwrap a wrapped function; return any other value as it is."""
    try:
        return inspect.unwrap(value) if callable(value) else value
    except ValueError:  # a wrapper that wraps itself
        return value


def _title(name: str, subject: Any) -> Line:
    try:
        signature = _signature(subject) if callable(subject) else ""
    except Exception:  # no signature is known, or the object's own code raises
        signature = "(...)"
    return line(("function", name), signature)


class _Annotation(str):
    """An annotation stored as text, shown without quotes."""

    def __repr__(self) -> str:
        return str(self)


def _unquoted(annotation: Any) -> Any:
    return _Annotation(annotation) if type(annotation) is str else annotation


def _signature(subject: Any) -> str:
    signature = inspect.signature(subject)
    parameters = [p.replace(annotation=_unquoted(p.annotation)) for p in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=_unquoted(signature.return_annotation)))


def _place(subject: Any) -> str:
    try:
        found = inspect.getsourcefile(subject) or ""
        number = inspect.getsourcelines(subject)[1]
    except Exception:
        typed = _typed_class(subject)
        if typed is None:
            return ""
        found, _, number = typed
    shown = found if found.startswith("<") else os.path.relpath(found) if found.startswith(os.getcwd()) else found
    return f"{shown}:{max(number, 1)}"


def _doc(subject: Any) -> str:
    try:
        docstring = inspect.getdoc(subject)
    except Exception:
        return ""
    return docstring.strip() if isinstance(docstring, str) else ""


def _source(subject: Any) -> list[Block]:
    target = subject if inspect.isroutine(subject) or isinstance(subject, type) or inspect.ismodule(subject) else None
    target = type(subject) if target is None else target
    try:
        lines, _ = inspect.getsourcelines(target)
    except Exception:
        typed = _typed_class(target)
        if typed is None:
            return [text("its source is not known: it is not written in Python, or not in a file", role="muted")]
        lines = typed[1]
    shown = "".join(lines[:MOST_LINES]).rstrip("\n")
    blocks: list[Block] = [text(""), Code(shown, "python")]
    if is_edited(getattr(target, "__code__", _source.__code__)):
        blocks.append(text(EDITED, role="warning"))
    if len(lines) > MOST_LINES:
        blocks.append(text(f"... {len(lines) - MOST_LINES} more lines in the file", role="muted"))
    return blocks


def _paragraphs(said: str, width: int) -> Iterator[Block]:
    """The lines of a docstring. If one is wider than the page, wrap each paragraph again with its own indent."""
    lines = said.split("\n")
    if max(map(len, lines)) <= width:
        yield Text(tuple(line(each) for each in lines), wrap=False)
        return
    group: list[str] = []
    for each in lines:
        if group and not _goes_on(group, each):
            yield _filled(group)
            group = []
        group.append(each)
    yield _filled(group)


def _indent(said: str) -> int:
    return len(said) - len(said.lstrip())


# A line that begins like this, or has gaps inside, is not joined with other lines, to keep the author's layout.
_OWN_LINE = re.compile(r"\s*(>>>|\.\.\.|[-*|#=+]|\d+[.)] |$)|.*\S {2,}\S")
# An item of an argument list, ``name: its meaning``: its continuation lines are indented further.
_ITEM = re.compile(r"\s*\*{0,2}\w[\w*, .\[\]()]*: \S")


def _goes_on(group: list[str], each: str) -> bool:
    """Whether the line ``each`` belongs to the paragraph of the lines before it."""
    first, last = group[0], group[-1]
    if _OWN_LINE.match(each) or _OWN_LINE.match(first) or last.endswith(":"):
        return False
    if len(group) > 1:
        return _indent(each) == _indent(last)
    if _ITEM.match(first) and _indent(first):
        return _indent(each) > _indent(first)
    return _indent(each) == _indent(first)


def _filled(group: list[str]) -> Block:
    first = group[0]
    further = _indent(group[1]) if len(group) > 1 else _indent(first) + 2 * bool(_indent(first) and _ITEM.match(first))
    return text(" ".join([first, *[each.strip() for each in group[1:]]]), hanging=further)


def _typed_class(cls: Any) -> tuple[str, list[str], int] | None:
    """The file, lines and first line number of a class from the prompt or from a file run there; None if not found.

    ``inspect`` finds no file for such a class. Search the files of its methods first, because a later class may have
    the same name. Then search all inputs, the latest first.
    """
    if not isinstance(cls, type) or cls.__module__ != "__main__":
        return None
    codes = [getattr(inspect.unwrap(x), "__code__", None) for x in vars(cls).values() if inspect.isfunction(x)]
    own = [code.co_filename for code in codes if code is not None]
    # ``source.register`` marks typed inputs by None as the modification time
    typed = [name for name, entry in linecache.cache.items() if len(entry) == 4 and entry[1] is None]
    for file in dict.fromkeys((*own, *reversed(typed))):
        # a file executed in the prompt's namespace may define the class too
        lines = linecache.getlines(file) if file in typed or file in own else []
        node = _class_statement("".join(lines), cls)
        if node is not None:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            return file, lines[first - 1 : node.end_lineno], first
    return None


def _class_statement(source: str, cls: type) -> ast.ClassDef | None:
    """The last class statement in ``source`` with the class's name, nested as in its ``__qualname__``."""
    if f"class {cls.__name__}" not in source:
        return None
    try:
        nodes: list[Any] = [ast.parse(source)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for name in cls.__qualname__.replace("<locals>.", "").split("."):
        inner = [each for node in nodes for child in ast.iter_child_nodes(node) for each in ast.walk(child)]
        nodes = [each for each in inner if getattr(each, "name", "") == name]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    return classes[-1] if classes else None
