"""``Layout``: the order of an array's elements in device memory. ``Format``: a layout and a sharding.

In minijax the last axis of an array is innermost, as in XLA's default. Other layouts can be described and compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core.shardings import Sharding


class AutoLayout:
    """``Layout.AUTO``: the compiler chooses."""

    def __repr__(self) -> str:
        return "AUTO"


class Layout:
    """The axes from the outermost to the innermost, and the tiles on the device, if any.

    Args:
      major_to_minor: the axes; elements along the first are farthest apart.
      tiling: the sizes of tiles, outermost first.
      sub_byte_element_size_in_bits: the size of elements smaller than a byte, else 0.
    """

    AUTO = AutoLayout()

    def __init__(
        self,
        major_to_minor: Sequence[int],
        tiling: Sequence[Sequence[int]] | None = None,
        sub_byte_element_size_in_bits: int = 0,
    ) -> None:
        self.major_to_minor = tuple(major_to_minor)
        self.tiling = None if tiling is None else tuple(map(tuple, tiling))
        self.sub_byte_element_size_in_bits = sub_byte_element_size_in_bits

    def update(self, **changes: Any) -> Layout:
        return Layout(**{**vars(self), **changes})

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        """ValueError for a shape with another number of dimensions."""
        if len(self.major_to_minor) != len(aval_shape):
            raise ValueError(
                f"Length of major_to_minor and the rank of the value should match. Got major_to_minor="
                f"{self.major_to_minor} and shape={tuple(aval_shape)}. Name each axis of the array once."
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        return f"Layout({', '.join(f'{name}={value}' for name, value in vars(self).items())})"


class Format:
    """A layout and a sharding; None means the default. ValueError for a layout alone, TypeError for other objects."""

    def __init__(self, layout: Layout | AutoLayout | None = None, sharding: Sharding | None = None) -> None:
        if isinstance(layout, Layout) and sharding is None:
            raise ValueError(
                f"Sharding has to be concrete when layout is of type {type(layout)}: pass a NamedSharding or a "
                "SingleDeviceSharding as well."
            )
        if not isinstance(layout, (Layout, AutoLayout, type(None))):
            raise TypeError(
                f"Invalid value received for the layout argument: {layout} of type {type(layout)}. Pass a Layout, "
                "Layout.AUTO or None."
            )
        if not isinstance(sharding, (Sharding, type(None))):
            raise TypeError(
                f"Invalid value received for the sharding argument: {sharding} of type {type(sharding)}. Pass a "
                "Sharding or None."
            )
        self.layout, self.sharding = layout, sharding

    def place_for(self, ndim: int) -> Sharding | None:
        """The sharding for an array of ``ndim`` dimensions. NotImplementedError unless the last axis is innermost."""
        layout = self.layout
        if isinstance(layout, Layout):
            layout.check_compatible_aval((0,) * ndim)
            if layout.major_to_minor != tuple(range(ndim)) or layout.tiling:
                raise NotImplementedError(
                    f"minijax only has layouts with the last axis innermost, and got {layout}: transpose the array "
                    "instead."
                )
        return self.sharding

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and (self.layout, self.sharding) == (other.layout, other.sharding)

    def __hash__(self) -> int:
        return hash((self.layout, self.sharding))

    def __repr__(self) -> str:
        return f"Format(layout={self.layout}, sharding={self.sharding})"
