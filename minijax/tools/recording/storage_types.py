"""How the fields of records are written as JSON and read back, told from their annotations.

Reading believes nothing: a value that is not what the annotation says raises ValueError.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from minijax.core.named import Frozen
from minijax.ir.doc import Doc
from minijax.tools.recording.doc_table import DocTable

# Larger integers than this are not exact everywhere that reads JSON.
LARGEST = 2**53


class Writer:
    """What writing a field needs: the numbers of the records written so far, by their id, and the documents."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.docs = DocTable()

    def several(self, numbers: list[int]) -> Any:
        """How the numbers of the records that a field holds are written."""
        return numbers


class Reader:
    """What reading a field needs: the records and documents read so far."""

    def __init__(self, docs: Sequence[Doc]) -> None:
        self.made: Any = []
        self.docs = docs
        # records that have their place in the tree: a second one could make a tree of any size of few rows
        self.placed: set[int] = set()
        # a recording says few things very often
        self.strings: dict[str, str] = {}

    def several(self, value: Any, one: Read) -> Any:
        """The records that a field holds, each of which ``one`` reads."""
        if type(value) is not list:
            raise ValueError(f"expected a list, found {brief(value)}")
        return tuple([one(each, self) for each in value])


Write = Callable[[Any, Writer], Any]
Read = Callable[[Any, Reader], Any]


class Type:
    """A type of fields: ``write(value, writer)`` gives a JSON value, ``read(value, reader)`` the way back.

    ``plain`` says that JSON writes a value as it is, ``record`` that it is a record, ``holds`` that it is one or has
    some inside it.
    """

    __slots__ = ("write", "read", "plain", "record", "holds")

    def __init__(
        self, write: Write, read: Read, plain: bool = False, record: bool = False, holds: bool = False
    ) -> None:
        self.write = write
        self.read = read
        self.plain = plain
        self.record = record
        self.holds = record or holds


def brief(value: Any) -> str:
    """A JSON value in an error message."""
    if value is None:
        return "null"
    kind = type(value)
    return f"{value!r:.40}" if kind in (int, float, str, bool) else f"a {kind.__name__}"


def _as_it_is(value: Any, writer: Writer) -> Any:
    return value


def _plain(what: str, *types: type) -> Type:
    def read(value: Any, reader: Reader) -> Any:
        if type(value) not in types or (type(value) is int and abs(value) > LARGEST):
            raise ValueError(f"expected {what}, found {brief(value)}")
        return reader.strings.setdefault(value, value) if type(value) is str else value

    return Type(_as_it_is, read, plain=True)


def _optional(inner: Type) -> Type:
    return Type(
        lambda value, writer: None if value is None else inner.write(value, writer),
        lambda value, reader: None if value is None else inner.read(value, reader),
        inner.plain,
        holds=inner.holds,
    )


def _many(inner: Type) -> Type:
    if inner.record:
        return Type(
            lambda value, writer: writer.several([inner.write(each, writer) for each in value]),
            lambda value, reader: reader.several(value, inner.read),
            holds=True,
        )

    def read(value: Any, reader: Reader) -> Any:
        if type(value) is not list:
            raise ValueError(f"expected a list, found {brief(value)}")
        return tuple([inner.read(each, reader) for each in value])

    return Type(
        lambda value, writer: [inner.write(each, writer) for each in value], read, inner.plain, holds=inner.holds
    )


def _fixed(inners: Sequence[Type]) -> Type:
    def write(value: Any, writer: Writer) -> Any:
        return [inner.write(each, writer) for inner, each in zip(inners, value, strict=True)]

    def read(value: Any, reader: Reader) -> Any:
        if type(value) is not list or len(value) != len(inners):
            raise ValueError(f"expected a list of {len(inners)}, found {brief(value)}")
        return tuple([inner.read(each, reader) for inner, each in zip(inners, value, strict=True)])

    return Type(write, read, all(each.plain for each in inners), holds=any(each.holds for each in inners))


def _document() -> Type:
    def read(value: Any, reader: Reader) -> Doc:
        if type(value) is not int or not 0 <= value < len(reader.docs):
            raise ValueError(f"expected the number of a document, found {brief(value)}")
        return reader.docs[value]

    return Type(lambda value, writer: writer.docs.add(value), read)


def _record(name: str, kinds: tuple[type[Frozen], ...], once: bool) -> Type:
    def read(value: Any, reader: Reader) -> Frozen:
        if type(value) is not int or not 0 <= value < len(reader.made):
            raise ValueError(f"expected the number of an earlier record, found {brief(value)}")
        made = reader.made[value]
        if not isinstance(made, kinds):
            raise ValueError(f"expected a {name}, found a {type(made).__name__}")
        if once:
            if value in reader.placed:
                raise ValueError(f"record {value} has two places in the tree")
            reader.placed.add(value)
        return made

    return Type(lambda value, writer: writer.numbers[id(value)], read, record=True)


class Types:
    """The types of annotations.

    ``kinds`` are the records by name, ``unions`` the names that stand for several kinds, ``once`` the name of those
    that have one place each, ``unwritten`` the name of what is never written (it is None by then).
    """

    def __init__(
        self,
        kinds: dict[str, type[Frozen]],
        unions: dict[str, tuple[type[Frozen], ...]],
        once: str,
        unwritten: str,
    ) -> None:
        self._fields: dict[type[Frozen], tuple[tuple[str, Type], ...]] = {}
        number = _plain("an integer", int)
        self.named = {
            "int": number,
            "float": _plain("a number", float, int),
            "str": _plain("a string", str),
            "bool": _plain("true or false", bool),
            "Numbers": _many(number),
            "Doc": _document(),
            unwritten: _plain("null"),
        }
        for name, of in (*((name, (kind,)) for name, kind in kinds.items()), *unions.items()):
            self.named[name] = _record(name, of, name == once)

    def fields(self, kind: type[Frozen]) -> tuple[tuple[str, Type], ...]:
        """The fields of a kind of record: their names and types. TypeError if one could not be stored."""
        known = self._fields.get(kind)
        if known is None:
            annotations = [ast.parse(text, mode="eval").body for text in kind.__annotations__.values()]
            known = self._fields[kind] = tuple(zip(kind._names, map(self._of, annotations), strict=True))
        return known

    def _of(self, node: ast.expr) -> Type:
        match node:
            case ast.Name(id=name) if name in self.named:
                return self.named[name]
            case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
                return _optional(self._of(left))
            case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[each, ast.Constant()])):
                return _many(self._of(each))  # tuple[each, ...]
            case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=each)):
                return _fixed([self._of(one) for one in each])
        raise TypeError(f"a record with a field of type {ast.unparse(node)} cannot be stored")
