"""Conversion of record fields to JSON and back, derived from their annotations.

Reading trusts no input: a value that does not match its annotation raises ValueError.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from minijax.core.records import Frozen
from minijax.ir.doc import Doc
from minijax.tools.recording.doc_table import DocTable

# Some JSON readers do not represent larger integers exactly.
LARGEST = 2**53


class Writer:
    """The state for writing fields: id -> number of each record written so far, and the documents."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.docs = DocTable()

    def several(self, numbers: list[int]) -> Any:
        """The JSON form of the numbers of records in a field."""
        return numbers


class Reader:
    """The state for reading fields: the records and documents read so far."""

    def __init__(self, docs: Sequence[Doc]) -> None:
        self.made: Any = []
        self.docs = docs
        # records that already have a place in the tree: reuse would let a small file make a tree of any size
        self.placed: set[int] = set()
        # interned strings: a recording repeats a few strings
        self.strings: dict[str, str] = {}

    def several(self, value: Any, one: Read) -> Any:
        """The records in a field; ``one`` reads each of them."""
        if type(value) is not list:
            raise ValueError(f"expected a list, found {brief(value)}")
        return tuple([one(each, self) for each in value])


Write = Callable[[Any, Writer], Any]
Read = Callable[[Any, Reader], Any]


class Type:
    """A field type: ``write(value, writer)`` returns a JSON value, ``read(value, reader)`` is the inverse.

    ``plain``: whether JSON writes the values unchanged. ``record``: whether the values are records. ``holds``: whether
    they are records or contain records.
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
    """A JSON value as text for error messages."""
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
    """The field types for annotations.

    ``kinds``: name -> record class. ``unions``: name -> classes with this name in annotations. ``once``: the name of
    records that may occur only once in the tree. ``unwritten``: the name of a type whose values are None in files.
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
        """The names and types of the fields of a record class. TypeError if one cannot be stored."""
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
