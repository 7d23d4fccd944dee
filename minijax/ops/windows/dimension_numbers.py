"""The dimension numbers of a convolution: ``ConvDimensionNumbers``, and functions that parse layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core.lists import safe_zip
from minijax.core.records import NamedTuple
from minijax.core.rules import Axes, Ints
from minijax.ir.pretty import readable

__all__ = [
    "ConvDimensionNumbers",
    "ConvGeneralDilatedDimensionNumbers",
    "conv_dimension_numbers",
    "conv_general_permutations",
]


class ConvDimensionNumbers(NamedTuple):
    """The positions of a convolution's dimensions.

    Attributes:
      lhs_spec: positions in the images: batch, feature, then the spatial dimensions.
      rhs_spec: positions in the kernel: output feature, input feature, then the spatial dimensions.
      out_spec: positions in the result: batch, feature, then the spatial dimensions.
    """

    lhs_spec: Ints
    rhs_spec: Ints
    out_spec: Ints


readable(ConvDimensionNumbers)

ConvGeneralDilatedDimensionNumbers = None | ConvDimensionNumbers | tuple[str, str, str]

# For images, kernel and result, the letters of the two dimensions that are not spatial.
_LETTERS = (("N", "C"), ("O", "I"), ("N", "C"))


def conv_dimension_numbers(lhs_shape: Ints, rhs_shape: Ints, dimension_numbers: Any) -> ConvDimensionNumbers:
    """``dimension_numbers`` as ``ConvDimensionNumbers``.

    Args:
      lhs_shape, rhs_shape: the operands' shapes, of equal length.
      dimension_numbers: None if batch and feature come first (in the kernel: output, input feature), or three strings
        such as ``("NHWC", "HWIO", "NHWC")`` with a letter for each dimension.

    Raises TypeError if ``dimension_numbers`` do not fit the shapes.
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if len(lhs_shape) != len(rhs_shape):
        raise TypeError(
            f"convolution requires lhs and rhs ndim to be equal, got {len(lhs_shape)} and {len(rhs_shape)}."
        )
    if dimension_numbers is None:
        every = tuple(range(len(lhs_shape)))
        return ConvDimensionNumbers(every, every, every)
    if not isinstance(dimension_numbers, (list, tuple)):
        raise TypeError(
            f"convolution dimension_numbers must be tuple/list or None, got {type(dimension_numbers)}. Give three "
            "strings, such as ('NHWC', 'HWIO', 'NHWC')."
        )
    if len(dimension_numbers) != 3:
        raise TypeError(
            f"convolution dimension_numbers list/tuple must be length 3, got {len(dimension_numbers)}: one string for "
            "lhs, one for rhs, one for the result."
        )
    if not all(isinstance(text, str) for text in dimension_numbers):
        kinds = tuple(map(type, dimension_numbers))
        raise TypeError(f"convolution dimension_numbers elements must be strings, got {kinds}.")
    for i, text in enumerate(dimension_numbers):
        if len(text) != len(lhs_shape):
            raise TypeError(
                f"convolution dimension_numbers[{i}] must have len equal to the ndim of lhs and rhs, got {len(text)} "
                f"for lhs and rhs shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}."
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[Axes, ...]:
    """For each of three strings of letters, the positions of batch, feature and the spatial dimensions.

    The spatial dimensions have the order of the kernel's string. Raises TypeError if a letter is missing or comes
    twice, or if the strings have different spatial letters.
    """
    for i, (text, letters) in enumerate(safe_zip(dimension_numbers, _LETTERS)):
        if len(set(text)) != len(text):
            raise TypeError(f"convolution dimension_numbers[{i}] cannot have duplicate characters, got {text}.")
        if not set(letters) <= set(text):
            raise TypeError(
                f"convolution dimension_numbers[{i}] must contain the characters '{letters[0]}' and '{letters[1]}' "
                f"exactly once, got {text}."
            )
    spatial = [set(text) - set(letters) for text, letters in safe_zip(dimension_numbers, _LETTERS)]
    if not spatial[0] == spatial[1] == spatial[2]:
        raise TypeError(
            "convolution dimension_numbers elements must each have the same set of spatial characters, got "
            f"{tuple(dimension_numbers)}."
        )
    kernel = dimension_numbers[1]
    in_order = [letter for letter in kernel if letter not in _LETTERS[1]]
    return tuple(
        tuple(text.index(letter) for letter in (*letters, *in_order))
        for text, letters in safe_zip(dimension_numbers, _LETTERS)
    )
