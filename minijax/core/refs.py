"""References: arrays that can be written to, ``Ref{float32[3]}``, and their types.

A reference is no value of a program but a place. Primitives that read and write it (``ops.refs``) are recorded in
program order and kept there; before a program is differentiated in parts, lowered or run, it is brought into a form
without references, in which what a place holds is handed from equation to equation (``ops.refs.discharge``).

Source: https://docs.jax.dev/en/latest/array_refs.html
"""

from __future__ import annotations

import weakref
from typing import Any, NoReturn

from minijax.core.avals import HasAval, ShapedArray
from minijax.core.named import Frozen, NamedTuple

_interned: weakref.WeakValueDictionary[ShapedArray, AbstractRef] = weakref.WeakValueDictionary()


class AbstractRef:
    """The type of a reference to an array of type ``inner_aval``; interned, as that is.

    ``AbstractRef(inner_aval)``, or, as types of arrays are made, ``AbstractRef(shape, dtype, weak_type)``.
    """

    __slots__ = ("inner_aval", "shape", "dtype", "weak_type", "ndim", "size", "zero", "__weakref__")

    # Whether there ever was one: while it is False nobody has to look for them.
    made = False

    inner_aval: ShapedArray
    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool
    ndim: int
    size: int
    zero: Any  # the symbolic ``Zero`` of this type, made at first need

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
        """The type of a reference to the part without ``axis``."""
        return AbstractRef(self.inner_aval.part(axis))

    def stacked(self, size: int, axis: int = 0) -> AbstractRef:
        """The type of a reference to ``size`` such values along a new ``axis``."""
        return AbstractRef(self.inner_aval.stacked(size, axis))

    @property
    def vma(self) -> frozenset[Any]:
        """The axes of a mesh along which devices may hold different values in it."""
        return self.inner_aval.vma

    def __copy__(self) -> AbstractRef:
        return self

    def __deepcopy__(self, memo: Any) -> AbstractRef:
        return self

    def update(self, **changes: Any) -> AbstractRef:
        """The type with the given fields replaced."""
        return AbstractRef(self.inner_aval.update(**changes))

    def strip_weak_type(self) -> AbstractRef:
        """The same type, strong."""
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
    """Have everything ready for the first reference: operators of tracers, and calls that look for references."""
    from minijax.api import refs  # brings the primitives and their rules, and few programs use them

    if not AbstractRef.made:
        AbstractRef.made = True
        refs.install()


class Ref(HasAval):
    """A place that holds an array and can be written to: ``r[i]``, ``r[i] = x``, ``r[...] += x``.

    Made by ``new_ref``; reading and writing are given to it by ``api.refs``. ``aval`` is its type, an ``AbstractRef``;
    ``frozen`` says whether ``freeze`` has ended it.
    """

    __slots__ = ("aval", "_held", "frozen", "__weakref__")
    # ends the message of a primitive that is given one
    refusal_advice = "It is a reference: read it, r[...] is the array that it holds."

    aval: AbstractRef
    frozen: bool

    def __init__(self, value: Any) -> None:
        self.aval = AbstractRef(value.aval)
        self._held = value
        self.frozen = False

    @property
    def held(self) -> Any:
        """The array that it holds now. ValueError if it is frozen."""
        if self.frozen:
            self._refuse()
        return self._held

    def hold(self, value: Any) -> None:
        """Write all of it."""
        if self.frozen:
            self._refuse()
        self._held = value

    def _refuse(self) -> NoReturn:
        raise ValueError(
            f"this mutable array reference of type {self.aval} was frozen: freeze(ref), which gave the array that it "
            "held, or free_ref(ref) ended it. Go on with that array, or make a new reference with new_ref."
        )

    def __len__(self) -> int:
        return len(self.aval)

    def __repr__(self) -> str:
        if self.frozen:
            return f"Ref(frozen, {self.aval})"
        return f"Ref{repr(self._held).removeprefix('Array')}"


class Slice(NamedTuple):
    """``size`` elements from ``start`` on, every ``stride``-th; ``start`` is None where an operand says it."""

    start: int | None
    size: int
    stride: int = 1


# Which part of a reference is meant: see ``ops.refs.index``.
Index = tuple[Slice | None, ...] | None


def is_ref(x: Any) -> bool:
    """Whether ``x`` is a reference, or a tracer that stands for one."""
    return type(getattr(x, "aval", None)) is AbstractRef


class ReadEffect(Frozen):
    """That a program reads the reference ``variable``."""

    variable: Any


class WriteEffect(Frozen):
    """That a program writes to the reference ``variable``."""

    variable: Any


class AccumEffect(Frozen):
    """That a program adds to the reference ``variable``."""

    variable: Any
