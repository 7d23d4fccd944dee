"""Record classes that are cheap to declare. The engine and its tools declare dozens, and every import pays for them.

``NamedTuple`` here costs 0.03 ms a class. ``typing.NamedTuple`` costs 0.4 ms, since it compiles a constructor and every
annotation. Type checkers see ``typing.NamedTuple``. The classes have ``_fields``, ``_replace``, ``_asdict``, ``_make``.
``Frozen`` is for records that are not sequences and are never equal to a record of another class. It costs 0.03 ms a
class; ``dataclasses`` costs 0.5 to 1 ms. Type checkers see its subclasses as frozen dataclasses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, dataclass_transform

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from _collections import _tuplegetter

    _new = tuple.__new__

    class _Declared(type):
        def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
            fields = tuple(body.get("__annotations__", ()))
            body["_field_defaults"] = {field: body[field] for field in fields if field in body}
            body.update((field, _tuplegetter(i, None)) for i, field in enumerate(fields))
            body["_defaults"] = tuple(body["_field_defaults"].values())
            body["_fields"] = body["__match_args__"] = fields
            body["_size"] = len(fields)
            body["__slots__"] = ()
            return type.__new__(mcs, name, bases, body)

    class NamedTuple(tuple, metaclass=_Declared):
        """Subclasses annotate their fields; fields with defaults come last."""

        def __new__(cls, *values: Any, **named: Any) -> Any:
            if named or len(values) != cls._size:
                lacking = cls._size - len(values)
                if not named and 0 < lacking <= len(cls._defaults):
                    values += cls._defaults[-lacking:]
                else:
                    values = _completed(cls, cls._fields, cls._field_defaults, values, named)
            return _new(cls, values)

        @classmethod
        def _make(cls, values: Any) -> Any:
            return cls(*values)

        def _replace(self, **changes: Any) -> Any:
            if not changes.keys() <= set(self._fields):
                return _completed(type(self), self._fields, {}, self, changes)  # raises the TypeError
            return type(self)(*[changes.get(field, value) for field, value in zip(self._fields, self, strict=True)])

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in zip(self._fields, self, strict=True))})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)


def _completed(cls: Any, fields: tuple[str, ...], defaults: dict[str, Any], values: Any, named: dict[str, Any]) -> Any:
    """The values of all ``fields``, in order. TypeError if arguments are missing, unknown or too many."""
    given = dict(zip(fields, values, strict=False))
    twice = given.keys() & named.keys()
    unknown = named.keys() - set(fields)
    found = {**defaults, **given, **named}
    missing = [field for field in fields if field not in found]
    if len(values) > len(fields) or twice or unknown or missing:
        extra = ", ".join(sorted(twice | unknown))
        wrong = f"misses {', '.join(missing)}" if missing else f"does not take {extra}"
        wrong = f"takes {len(fields)} values, not {len(values)}" if len(values) > len(fields) else wrong
        raise TypeError(f"{cls.__name__}() {wrong}")
    return tuple(found[field] for field in fields)


@dataclass_transform(frozen_default=True)
class Frozen:
    """Base of records: subclasses annotate their fields, optionally with defaults, and get a constructor.

    A record holds one tuple, its row: a tuple takes a fifth of a dictionary's time, and recordings make millions.
    """

    __slots__ = ("_row",)
    _row: tuple[Any, ...]
    _names: tuple[str, ...] = ()
    _defaults: dict[str, Any] = {}
    # number of given values -> the defaults of the other fields, if all of them have one
    _tails: dict[int, tuple[Any, ...]] = {}

    def __init_subclass__(cls) -> None:
        cls._names = names = tuple(cls.__annotations__)
        cls._defaults = defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
        last = max([i + 1 for i, name in enumerate(names) if name not in defaults], default=0)
        cls._tails = {n: tuple([defaults[name] for name in names[n:]]) for n in range(last, len(names) + 1)}
        for i, name in enumerate(names):
            setattr(cls, name, _field(i))

    def __init__(self, *values: Any, **named: Any) -> None:
        tail = None if named else self._tails.get(len(values))
        if tail is None:
            _set_row(self, _completed(type(self), self._names, self._defaults, values, named))
        else:
            _set_row(self, values + tail)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a {type(self).__name__} cannot be changed (attribute {name!r})")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} cannot be changed (attribute {name!r})")

    def replace(self, **changes: Any) -> Any:
        return type(self)(**dict(zip(self._names, self._row, strict=True)) | changes)

    def values(self) -> tuple[Any, ...]:
        """The fields, in the order of their declaration."""
        return self._row

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._row == self._row  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._row)

    def __reduce__(self) -> Any:
        return type(self), self._row

    def __repr__(self) -> str:
        fields = zip(self._names, self._row, strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields)})"


class Immutable:
    """An immutable object: it is its own copy."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self


_set_row: Any = Frozen.__dict__["_row"].__set__


def _field(index: int) -> property:
    return property(lambda self: self._row[index])
