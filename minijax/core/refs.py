"""References: arrays that can be written to, ``Ref{float32[3]}``, and their types.

Primitives that read and write a reference (``ops.refs``) are recorded in program order and keep that order. Before a
program is partially evaluated, lowered or run, it is rewritten without references: the content of each reference is
a value that equations pass on (``ops.refs.discharge``).

Source: https://docs.jax.dev/en/latest/array_refs.html
"""

from __future__ import annotations

import weakref
from typing import Any, NoReturn

from minijax.core.avals import HasAval, ShapedArray
from minijax.core.lazy import HigherModule
from minijax.core.records import Frozen, Immutable, NamedTuple

_references = HigherModule("references")

_interned: weakref.WeakValueDictionary[ShapedArray, AbstractRef] = weakref.WeakValueDictionary()


class AbstractRef(Immutable):
    """The interned type of a reference: ``AbstractRef(aval)``, or ``AbstractRef(shape, dtype, weak_type)``."""

    __slots__ = ("inner_aval", "shape", "dtype", "weak_type", "ndim", "size", "zero", "__weakref__")

    # Whether any reference was ever made. While it is False, no code checks for references.
    made = False

    inner_aval: ShapedArray
    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool
    ndim: int
    size: int
    zero: Any  # the symbolic ``Zero`` of this type, made at first use

    def __new__(cls, inner: Any, dtype: Any = None, weak_type: bool = False) -> AbstractRef:
        if dtype is not None:
            inner = ShapedArray(inner, dtype, weak_type)
        if not isinstance(inner, ShapedArray):
            raise TypeError(f"a reference is to an array, so AbstractRef takes a ShapedArray; got {inner!r}")
        self = _interned.get(inner)
        if self is None:
            if not AbstractRef.made:
                expect_refs()
            self = object.__new__(cls)
            self.inner_aval = inner
            self.shape, self.dtype, self.weak_type = inner.shape, inner.dtype, inner.weak_type
            self.ndim, self.size, self.zero = inner.ndim, inner.size, None
            self = _interned.setdefault(inner, self)
        return self

    def __reduce__(self) -> Any:
        return AbstractRef, (self.inner_aval,)

    def part(self, axis: int) -> AbstractRef:
        """The type of a reference to a slice of the array, without ``axis``."""
        return AbstractRef(self.inner_aval.part(axis))

    def stacked(self, size: int, axis: int = 0) -> AbstractRef:
        """The type of a reference to ``size`` arrays of this type, stacked along a new ``axis``."""
        return AbstractRef(self.inner_aval.stacked(size, axis))

    @property
    def vma(self) -> frozenset[Any]:
        """The mesh axes along which devices may hold different contents."""
        return self.inner_aval.vma

    def update(self, **changes: Any) -> AbstractRef:
        return AbstractRef(self.inner_aval.update(**changes))

    def strip_weak_type(self) -> AbstractRef:
        return AbstractRef(self.inner_aval.strip_weak_type())

    unreduced = reduced = frozenset[Any]()

    def to_tangent_aval(self) -> AbstractRef:
        """The type of tangents: a reference to tangents."""
        return AbstractRef(self.inner_aval.to_tangent_aval())

    def str_short(self, short_dtypes: bool = True) -> str:
        """``Ref{f32[8]}``, as jaxprs print it; ``Ref{float32[8]}`` with ``short_dtypes=False``."""
        return f"Ref{{{self.inner_aval.str_short(short_dtypes)}}}"

    def __str__(self) -> str:
        return self.str_short(short_dtypes=False)

    __repr__ = __str__

    def __len__(self) -> int:
        return len(self.inner_aval)


def expect_refs() -> None:
    """Prepare for the first reference: import its primitives and rules, and let calls check for references."""
    if not AbstractRef.made:
        AbstractRef.made = True
        _references.install()  # imports the primitives and their rules, which few programs use


class Ref(HasAval):
    """A mutable array from ``new_ref``: ``r[i]``, ``r[i] = x``, ``r[...] += x``. ``freeze`` sets ``frozen``."""

    __slots__ = ("aval", "_held", "frozen", "__weakref__")
    # the end of the error message of a primitive that does not accept references
    refusal_advice = "It is a reference: use r[...], the array that it holds."

    aval: AbstractRef
    frozen: bool

    def __init__(self, value: Any) -> None:
        self.aval = AbstractRef(value.aval)
        self._held = value
        self.frozen = False

    @property
    def held(self) -> Any:
        """The current content. ValueError if the reference is frozen."""
        if self.frozen:
            self._refuse()
        return self._held

    def hold(self, value: Any) -> None:
        """Write the whole array."""
        if self.frozen:
            self._refuse()
        self._held = value

    def _refuse(self) -> NoReturn:
        raise ValueError(
            f"this mutable array reference of type {self.aval} was frozen by freeze(ref) or free_ref(ref). "
            "Use the array that freeze(ref) returned, or make a new reference with new_ref."
        )

    def __len__(self) -> int:
        return len(self.aval)

    def __repr__(self) -> str:
        if self.frozen:
            return f"Ref(frozen, {self.aval})"
        return f"Ref{repr(self._held).removeprefix('Array')}"


class Slice(NamedTuple):
    """``size`` elements from ``start`` on, every ``stride``-th. If ``start`` is None, an operand is the start."""

    start: int | None
    size: int
    stride: int = 1


# Index of a part of a reference: see ``ops.refs.index``.
Index = tuple[Slice | None, ...] | None


def is_ref(x: Any) -> bool:
    """Whether ``x`` is a reference or a tracer of a reference."""
    return type(getattr(x, "aval", None)) is AbstractRef


class ReadEffect(Frozen):
    """The effect of reading the reference ``variable``."""

    variable: Any


class WriteEffect(Frozen):
    """The effect of writing to the reference ``variable``."""

    variable: Any


class AccumEffect(Frozen):
    """The effect of adding to the reference ``variable``."""

    variable: Any
