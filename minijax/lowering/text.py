"""Writing StableHLO as text: types, constants, and one function body at a time.

Text is fast: building an op through MLIR's Python bindings takes 2.0 us, but writing a line of text takes 0.5 us, and
parsing it (in C++, when compiling) takes 1.4 us. Reading a program needs neither jax nor jaxlib.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.avals import Avals, ShapedArray, physical_aval
from minijax.core.keys import is_key, words_of
from minijax.core.lazy import HigherModule
from minijax.core.rules import Ints, Names, Shape

_shardings = HigherModule("sharding_texts")


def mlir_type(aval: ShapedArray) -> str:
    """``tensor<8x3xf32>``. Keys are written as their raw words, ``tensor<8x2xui32>``."""
    text = aval.mlir
    if text is None:
        physical = physical_aval(aval)
        dims = "".join(f"{d}x" for d in physical.shape)
        text = aval.mlir = f"tensor<{dims}{dtypes.mlir_element_type(physical.dtype)}>"
    return text


def scalar_type(dtype: np.dtype) -> str:
    """``tensor<f32>``."""
    return mlir_type(ShapedArray((), dtype))


def dims_text(dims: Ints) -> str:
    """``[0, 2]``: dimensions in attributes of StableHLO."""
    return f"[{', '.join(map(str, dims))}]"


def array_text(dims: Ints) -> str:
    """``array<i64: 0, 2>``."""
    return f"array<i64: {', '.join(map(str, dims))}>" if dims else "array<i64>"


def _float_text(value: Any, dtype: np.dtype) -> str:
    number = float(value)
    if np.isfinite(number):
        text = repr(number)
        if "." not in text:
            mantissa, _, exponent = text.partition("e")
            text = f"{mantissa}.0e{exponent}" if exponent else f"{mantissa}.0"
        return text
    bits = np.asarray(value, dtype).tobytes()[::-1].hex().upper()
    return f"0x{bits}"


def element_text(value: Any, dtype: np.dtype) -> str:
    """One element of a dense attribute, as text that gives exactly this value."""
    if dtypes.is_bool(dtype):
        return "true" if value else "false"
    if dtype == dtypes.float0:
        return "false"
    if dtypes.is_integer(dtype):
        return str(int(value))
    if dtypes.is_complex(dtype):
        part = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
        return f"({_float_text(value.real, part)}, {_float_text(value.imag, part)})"
    return _float_text(value, dtype)


def dense_text(value: Any, aval: ShapedArray) -> str:
    """``dense<...>`` for an array, with one element for a scalar, a list for a small array, else raw bytes."""
    if aval.dtype == dtypes.float0:
        return "dense<false>"
    array = np.asarray(value)
    if array.ndim == 0:
        return f"dense<{element_text(array[()], aval.dtype)}>"
    flat = array.ravel()
    if flat.size == 0:
        return "dense<>"
    if flat.size <= 8 or dtypes.is_bool(aval.dtype):
        return f"dense<{_nested(array, aval.dtype)}>"
    return f'dense<"0x{np.ascontiguousarray(array).tobytes().hex().upper()}">'


def _nested(array: np.ndarray, dtype: np.dtype) -> str:
    if array.ndim == 0:
        return element_text(array[()], dtype)
    return f"[{', '.join(_nested(row, dtype) for row in array)}]"


# The text of an operation with one result: the parts before and after the operands' names.
Line = tuple[str, str]
# A rule that writes one line -> function(avals, out_aval) that returns the line, or None if these types need more
# lines. This function runs once per signature, and ``lower_eqns`` reuses the line.
line_rules: dict[Any, Callable[[Avals, ShapedArray], Line | None]] = {}

_NUMBERS = frozenset((float, int, np.float32, np.float64, np.int32, np.int64))


class FunctionWriter:
    """The body of one ``func.func`` (or region) under construction; values are SSA names such as ``%12``."""

    __slots__ = ("module", "lines", "counter", "constants", "literals", "indent", "token")

    def __init__(self, module: Any, indent: str = "    ", counter: list[int] | None = None) -> None:
        self.module = module
        self.lines: list[str] = []
        # shared with nested regions, so names are unique in a function
        self.counter = [0] if counter is None else counter
        # text of a constant -> its SSA name; (number, type) of a literal -> its SSA name
        self.constants: dict[str, str] = {}
        self.literals: dict[Any, str] = {}
        self.indent = indent
        # the token of the last ordered effect; None before the first effect
        self.token: str | None = None

    def emit(self, op: str) -> str:
        """Append ``op``, which has one result; returns the result's name."""
        n = self.counter[0]
        self.counter[0] = n + 1
        name = f"%{n}"
        self.lines.append(f"{self.indent}{name} = {op}")
        return name

    def emit_line(self, line: Line, args: Names) -> str:
        """Append a ``Line`` for operands ``args``; returns the result's name."""
        n = self.counter[0]
        self.counter[0] = n + 1
        self.lines.append(f"{self.indent}%{n} = {line[0]}{', '.join(args)}{line[1]}")
        return f"%{n}"

    def emit_many(self, op: str, count: int) -> list[str]:
        """Append ``op``, which has ``count`` results; returns their names."""
        if count == 0:
            self.lines.append(f"{self.indent}{op}")
            return []
        n = self.counter[0]
        self.counter[0] = n + 1
        if count == 1:
            self.lines.append(f"{self.indent}%{n} = {op}")
            return [f"%{n}"]
        self.lines.append(f"{self.indent}%{n}:{count} = {op}")
        return [f"%{n}#{i}" for i in range(count)]

    def call(self, symbol: str, names: Names, avals: Avals, out_avals: Avals) -> list[str]:
        """Append a call of the module's function ``symbol``; returns the names of its results."""
        ins, outs = ", ".join(map(mlir_type, avals)), ", ".join(map(mlir_type, out_avals))
        return self.emit_many(f"func.call @{symbol}({', '.join(names)}) : ({ins}) -> ({outs})", len(out_avals))

    def constant(self, value: Any, aval: ShapedArray) -> str:
        """The name of a constant of type ``aval``; equal constants are written once per function."""
        if is_key(aval.dtype):
            value, aval = words_of(value._value(), aval.dtype), physical_aval(aval)
        text = f"stablehlo.constant {dense_text(value, aval)} : {mlir_type(aval)}"
        name = self.constants.get(text)
        if name is None:
            name = self.constants[text] = self.emit(text)
        return name

    def literal(self, literal: Any) -> str:
        """The name of the constant of a ``Literal``. A number that the function already has is not written again."""
        value = literal.val
        # zeros are not looked up: -0.0 == 0.0, but they are two constants
        key = (value, literal.aval) if type(value) in _NUMBERS and value else None
        name = self.literals.get(key)
        if name is None:
            name = self.constant(value, literal.aval)
            if key is not None:
                self.literals[key] = name
        return name

    def scalar(self, value: Any, dtype: np.dtype) -> str:
        return self.constant(np.asarray(value, dtype), ShapedArray((), dtype))

    def full(self, value: Any, aval: ShapedArray, scalars: bool = False) -> str:
        """A scalar broadcast to an array. ``scalars``: broadcast even to a scalar, as some of JAX's rules do."""
        if aval.dtype == dtypes.float0:
            return self.constant(value, aval)
        scalar = ShapedArray((), aval.dtype)
        name = self.constant(np.asarray(value, aval.dtype), scalar)
        return self.broadcast(name, scalar, aval.shape, ()) if aval.shape or scalars else name

    def broadcast(self, x: str, source: ShapedArray, shape: Shape, dims: Ints) -> str:
        """``x`` broadcast to ``shape``: dimension i of ``x`` becomes dimension ``dims[i]``."""
        target = mlir_type(ShapedArray(shape, source.dtype))
        return self.emit(
            f"stablehlo.broadcast_in_dim {x}, dims = {dims_text(dims)} : ({mlir_type(source)}) -> {target}"
        )

    def broadcast_operands(self, args: Names, avals: Avals, shape: Shape) -> Names:
        """Operands of an elementwise operation, each broadcast to ``shape``."""
        for a in avals:
            if a.shape != shape:
                break
        else:
            return args
        return [x if a.shape == shape else self._repeated(x, a, shape) for x, a in zip(args, avals, strict=True)]

    def _repeated(self, x: str, aval: ShapedArray, shape: Shape) -> str:
        if aval.unreduced:
            return _shardings.repeated_sum(self, x, aval, shape)  # type: ignore[no-any-return]
        return self.broadcast(x, aval, shape, range(aval.ndim))

    def region(self) -> FunctionWriter:
        """A writer for a nested region, drawing names from the same counter."""
        return FunctionWriter(self.module, self.indent + "  ", self.counter)
