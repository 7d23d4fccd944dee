"""Key paths: the steps from the root of a pytree to a leaf. The classes and their texts are the same as in JAX."""

from __future__ import annotations

from typing import Any

__all__ = ["DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "SequenceKey", "keystr"]

KeyEntry = Any
KeyPath = tuple[Any, ...]


class _Key:
    """A step from a node to one of its children."""

    __slots__ = ("_value",)
    _field = ""

    def __init__(self, value: Any):
        self._value = value

    def __eq__(self, other: object) -> Any:
        return type(other) is type(self) and self._value == other._value  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._field}={self._value!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._value,)


class SequenceKey(_Key):
    """Position ``idx`` in a list or tuple: ``[0]``."""

    __slots__ = ()
    __match_args__ = ("idx",)
    _field = "idx"

    def __init__(self, idx: int):
        self._value = idx

    @property
    def idx(self) -> int:
        return self._value

    def __str__(self) -> str:
        return f"[{self._value!r}]"


class DictKey(_Key):
    """Key ``key`` of a dictionary: ``['weights']``."""

    __slots__ = ()
    __match_args__ = ("key",)
    _field = "key"

    def __init__(self, key: Any):
        self._value = key

    @property
    def key(self) -> Any:
        return self._value

    def __str__(self) -> str:
        return f"[{self._value!r}]"


class GetAttrKey(_Key):
    """Attribute ``name`` of an object: ``.weights``."""

    __slots__ = ()
    __match_args__ = ("name",)
    _field = "name"

    def __init__(self, name: str):
        self._value = name

    @property
    def name(self) -> str:
        return self._value

    def __str__(self) -> str:
        return f".{self._value}"


class FlattenedIndexKey(_Key):
    """Child number ``key`` of a registered node whose children have no keys: ``[<flat index 0>]``."""

    __slots__ = ()
    __match_args__ = ("key",)
    _field = "key"

    def __init__(self, key: int):
        self._value = key

    @property
    def key(self) -> int:
        return self._value

    def __str__(self) -> str:
        return f"[<flat index {self._value}>]"


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """Text of a key path: ``"['layers'][0].weight"``. If ``simple``, the keys have no brackets and quotes."""
    if simple:
        return separator.join(str(k._value if isinstance(k, _Key) else k) for k in keys)
    return separator.join(map(str, keys))
