"""Element types: the list of types, the truncation of 64-bit types, and promotion.

The rules are those of JAX's type promotion page: a lattice over NumPy's types, ``ml_dtypes``' types and three *weak*
types, the types of Python's scalars. Functions that depend on 64-bit mode take ``x64``. ``ml_dtypes`` takes 12 ms to
import, so its types (``dtypes.bfloat16``) are attributes made on demand.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np

from minijax.core.keys import KeyType, is_key, key_type
from minijax.core.keys import extended as extended
from minijax.core.keys import prng_key as prng_key

# The type of tangents of integers and booleans. The definition is JAX's, so that both libraries take such arrays.
float0 = np.dtype([("float0", np.void, 0)])

_BOOL = np.dtype(bool)
_SMALL_INTS = ("int1", "int2", "int4")
_SMALL_UINTS = ("uint1", "uint2", "uint4")
_SMALL_FLOATS = (
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e8m0fnu",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
)
# The types of ml_dtypes. NumPy reports kind 'V' for most of them ('f' for float8_e5m2).
_CUSTOM_KINDS = {
    **dict.fromkeys(_SMALL_INTS, "i"),
    **dict.fromkeys(_SMALL_UINTS, "u"),
    **dict.fromkeys(_SMALL_FLOATS, "f"),
    "bfloat16": "f",
}
_NO_INFINITY = {"float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz"}

_TO_32_BIT: dict[np.dtype, np.dtype] = {
    np.dtype("int64"): np.dtype("int32"),
    np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"),
    np.dtype("complex128"): np.dtype("complex64"),
}
_DEFAULTS_64: dict[str, np.dtype] = {
    "b": _BOOL,
    "i": np.dtype("int64"),
    "u": np.dtype("uint64"),
    "f": np.dtype("float64"),
    "c": np.dtype("complex128"),
}
_DEFAULTS_32 = {kind: _TO_32_BIT.get(dt, dt) for kind, dt in _DEFAULTS_64.items()}
_PYTHON_SCALARS: dict[type, str] = {bool: "b", int: "i", float: "f", complex: "c"}
_WEAK_OF_KIND: dict[str, type] = {"i": int, "u": int, "f": float, "c": complex}


class TypePromotionError(ValueError):
    """Two element types have no common type to which both convert implicitly."""


def _ml_dtypes() -> Any:
    import ml_dtypes

    return ml_dtypes


def __getattr__(name: str) -> Any:
    """``bfloat16``, ``int4``, ``float8_e4m3fn``, ...: scalar types of ``ml_dtypes``, loaded at first use."""
    if name in _CUSTOM_KINDS:
        scalar_type = getattr(_ml_dtypes(), name)
        globals()[name] = scalar_type
        return scalar_type
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def as_dtype(x: Any) -> Any:
    """``np.dtype(x)`` that also knows the ``ml_dtypes`` types and the types of keys. Raises NumPy's ``TypeError``."""
    if type(x) is KeyType:
        return x
    if isinstance(x, str) and x in _CUSTOM_KINDS:
        return np.dtype(getattr(_ml_dtypes(), x))
    return np.dtype(x)


@functools.lru_cache(maxsize=256)
def _name(dtype: np.dtype) -> str:
    return "float0" if dtype == float0 else dtype.name


def kind(dtype: np.dtype) -> str:
    """'b', 'i', 'u', 'f' or 'c' for a supported type, small ones included; 'k' for keys; else NumPy's kind."""
    letter = dtype.kind  # reading an attribute takes 30 ns; a table indexed by dtype takes 200
    return letter if letter != "V" else _CUSTOM_KINDS.get(_name(dtype), "V")


def is_bool(dtype: np.dtype) -> bool:
    """Whether ``dtype`` is the boolean type."""
    return dtype.kind == "b"


def is_integer(dtype: np.dtype) -> bool:
    """Whether ``dtype`` is a signed or unsigned integer type (booleans are not)."""
    return kind(dtype) in "iu"


def is_signed(dtype: np.dtype) -> bool:
    """Whether ``dtype`` is a signed integer type."""
    return kind(dtype) == "i"


def is_unsigned(dtype: np.dtype) -> bool:
    """Whether ``dtype`` is an unsigned integer type."""
    return kind(dtype) == "u"


def is_float(dtype: np.dtype) -> bool:
    """Whether ``dtype`` is a real floating type."""
    return kind(dtype) == "f"


def is_complex(dtype: np.dtype) -> bool:
    """Whether ``dtype`` is a complex type."""
    return dtype.kind == "c"


def is_inexact(dtype: np.dtype) -> bool:
    """Whether ``dtype`` is real floating or complex, that is, can be differentiated."""
    letter = dtype.kind  # ``kind``, inlined: every input is tested
    return (letter if letter != "V" else _CUSTOM_KINDS.get(_name(dtype), "V")) in "fc"


@functools.lru_cache(maxsize=256)
def is_valid(dtype: np.dtype) -> bool:
    """Whether arrays can have this type: booleans, numbers in native byte order, keys or ``float0``."""
    return dtype == float0 or is_key(dtype) or (dtype.isnative and _name(dtype) in _upper_bounds(True, False))


_CUSTOM_PARENTS: dict[str, tuple[type, ...]] = {
    "i": (np.signedinteger, np.integer, np.number, np.generic),
    "u": (np.unsignedinteger, np.integer, np.number, np.generic),
    "f": (np.floating, np.inexact, np.number, np.generic),
}


def issubdtype(a: Any, b: Any) -> bool:
    """``np.issubdtype`` that also knows the ``ml_dtypes`` types: bfloat16 is under ``np.floating``."""
    if is_key(a) and is_key(b):
        return a is b
    a_type = a if isinstance(a, type) and issubclass(a, np.generic) else as_dtype(a).type
    b_type = b if isinstance(b, type) and issubclass(b, np.generic) else as_dtype(b).type
    custom = _CUSTOM_KINDS.get(a_type.__name__)
    if custom is not None:
        return b_type is a_type or b_type in _CUSTOM_PARENTS[custom]
    return bool(np.issubdtype(a_type, b_type))


# The groups of ``jnp.isdtype``, from the array API standard.
_ISDTYPE_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


def isdtype(dtype: Any, wanted: Any) -> bool:
    """Array API ``isdtype``: ``wanted`` is a type, the name of a group ('integral') or a tuple of these."""
    the_dtype = as_dtype(dtype)
    for item in wanted if isinstance(wanted, tuple) else (wanted,):
        if isinstance(item, str) and item in _ISDTYPE_KINDS:
            if is_valid(the_dtype) and kind(the_dtype) in _ISDTYPE_KINDS[item]:
                return True
            continue
        try:
            if as_dtype(item) == the_dtype:
                return True
        except TypeError as error:
            if isinstance(item, str):
                raise ValueError(
                    f"Unrecognized kind={item!r} expected one of {list(_ISDTYPE_KINDS)}, or a dtype"
                ) from error
            raise TypeError(f"Expected kind to be a dtype, string, or tuple; got kind={item!r}") from error
    return False


def default_dtype(kind: str, x64: bool = False) -> np.dtype:
    """The type of Python's scalars of ``kind`` ('b', 'i', 'u', 'f' or 'c')."""
    return (_DEFAULTS_64 if x64 else _DEFAULTS_32)[kind]


def default_int_dtype(x64: bool = False) -> np.dtype:
    """int32, or int64 in 64-bit mode."""
    return default_dtype("i", x64)


def default_float_dtype(x64: bool = False) -> np.dtype:
    """float32, or float64 in 64-bit mode."""
    return default_dtype("f", x64)


def canonicalize_dtype(dtype: Any, x64: bool = False) -> np.dtype:
    """``dtype`` (anything that ``np.dtype`` accepts, else TypeError). Unless ``x64``, 64-bit types become 32-bit."""
    if isinstance(dtype, np.dtype) and (x64 or dtype.itemsize < 8):
        return dtype
    try:
        result = as_dtype(dtype)
    except TypeError as error:
        if str(error).endswith("not understood"):
            raise
        raise TypeError(f"dtype {dtype!r} not understood") from error
    return result if x64 else _TO_32_BIT.get(result, result)


def canonicalize_explicit_dtype(
    dtype: np.dtype, fun_name: str = "", x64: bool = False, stacklevel: int = 3
) -> np.dtype:
    """``canonicalize_dtype`` for a type that the user named: warns if it is truncated."""
    result = canonicalize_dtype(dtype, x64)
    if result != dtype:
        where = f" requested in {fun_name}" if fun_name else ""
        warnings.warn(
            f"Explicitly requested dtype {dtype}{where} is not available, and will be truncated to dtype "
            f"{result.name}. To enable more dtypes, set the jax_enable_x64 configuration option or the "
            "JAX_ENABLE_X64 shell environment variable.",
            UserWarning,
            stacklevel=stacklevel,
        )
    return result


def check_user_dtype(dtype: Any, fun_name: str = "", x64: bool = False, stacklevel: int = 4) -> np.dtype:
    """The canonical form of a ``dtype=`` argument. TypeError if no array can have it; ValueError for None or arrays."""
    if dtype is None:
        raise ValueError("dtype must be specified.")
    if isinstance(dtype, type) and dtype in _PYTHON_SCALARS:
        return default_dtype(_PYTHON_SCALARS[dtype], x64)
    if hasattr(dtype, "aval") and hasattr(dtype, "shape"):
        raise ValueError(
            "Passing an array as a dtype argument is not supported; instead of dtype=arr use dtype=arr.dtype."
        )
    result = as_dtype(dtype)
    if not is_valid(result):
        where = f" in {fun_name}" if fun_name else ""
        raise TypeError(f"JAX only supports number, bool, and string dtypes, got dtype {dtype}{where}")
    return canonicalize_explicit_dtype(result, fun_name, x64, stacklevel)


def check_valid_dtype(dtype: np.dtype, x: Any) -> None:
    """TypeError unless arrays can have ``dtype``, the type of the value ``x``."""
    if is_valid(dtype):
        return
    if dtype.newbyteorder("=") != dtype and is_valid(dtype.newbyteorder("=")):
        advice = "Its bytes are in the order of another machine: x.astype(x.dtype.newbyteorder('=')) reorders them."
    else:
        advice = "Only arrays of numeric types are supported by JAX: name one, jnp.asarray(x, dtype)."
    raise TypeError(f"Value '{x}' with dtype {dtype} is not a valid JAX array type. {advice}")


def dtype(x: Any, x64: bool = False) -> np.dtype:
    """The canonical type of a value or type specifier. An array keeps its type. TypeError if no array can have it."""
    if x is None:
        raise ValueError(f"Invalid argument to dtype: {x}.")
    scalar = _PYTHON_SCALARS.get(x if isinstance(x, type) else type(x))
    if scalar is not None:
        return default_dtype(scalar, x64)
    aval = getattr(x, "aval", None)
    if aval is not None:
        return aval.dtype
    explicit = isinstance(x, (str, np.dtype)) or (isinstance(x, type) and issubclass(x, np.generic))
    result: Any
    if explicit:
        result = as_dtype(x)
    else:
        result = getattr(x, "dtype", None)
        if not isinstance(result, np.dtype):
            try:
                result = np.result_type(x)
            except TypeError as error:
                raise TypeError(f"Cannot determine dtype of {x}") from error
    check_valid_dtype(result, x)
    return canonicalize_explicit_dtype(result, "dtype", x64) if explicit else canonicalize_dtype(result, x64)


def dtype_and_weak_type(x: Any, x64: bool = False) -> tuple[np.dtype, bool]:
    """``(dtype, weak_type)`` of a value or type specifier, for ``result_type``."""
    aval = getattr(x, "aval", None)
    if aval is not None:
        return aval.dtype, aval.weak_type
    return dtype(x, x64), (x if isinstance(x, type) else type(x)) in (int, float, complex)


def to_numeric_dtype(dtype: Any) -> np.dtype:
    """int32 for booleans, other types unchanged."""
    result = as_dtype(dtype)
    return np.dtype("int32") if result == _BOOL else result


def to_inexact_dtype(dtype: Any) -> np.dtype:
    """The floating type in which ``sin`` of an integer ``dtype`` is computed; inexact types unchanged."""
    result = as_dtype(dtype)
    if not (is_bool(result) or is_integer(result)) or _name(result) in ("int1", "uint1", "int2", "uint2"):
        return result
    return np.dtype("float64" if result.itemsize == 8 else "float32")


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The type of the real part: float32 for complex64, float64 for complex128, other types unchanged."""
    if dtype.kind != "c":
        return dtype
    return np.dtype("float64" if dtype.itemsize == 16 else "float32")


def finfo(dtype: Any) -> Any:
    """``np.finfo`` that also knows the floats of ``ml_dtypes``."""
    result = as_dtype(dtype)
    return _ml_dtypes().finfo(result) if _name(result) in _CUSTOM_KINDS else np.finfo(result)


def iinfo(dtype: Any) -> Any:
    """``np.iinfo`` that also knows the integers of ``ml_dtypes``."""
    result = as_dtype(dtype)
    return _ml_dtypes().iinfo(result) if _name(result) in _CUSTOM_KINDS else np.iinfo(result)


def bits(dtype: np.dtype) -> int:
    """Bits per element: 8 for booleans, 4 for int4, 64 for complex64."""
    if is_integer(dtype):
        return iinfo(dtype).bits
    if is_float(dtype):
        return finfo(dtype).bits
    return dtype.itemsize * 8


def supports_infinity(dtype: np.dtype) -> bool:
    """Whether ``dtype`` can hold an infinity (some 8-bit floats cannot)."""
    return is_inexact(dtype) and _name(dtype) not in _NO_INFINITY


@functools.lru_cache(maxsize=256)
def _extreme(dtype: np.dtype, sign: int) -> Any:
    if is_bool(dtype):
        return np.bool_(sign > 0)
    if is_integer(dtype):
        info = iinfo(dtype)
        return dtype.type(info.max if sign > 0 else info.min)
    if supports_infinity(dtype):
        return dtype.type(sign * np.inf)
    if is_float(dtype):
        info = finfo(dtype)
        return dtype.type(info.max if sign > 0 else info.min)
    raise ValueError(f"Unsupported dtype for {'min' if sign > 0 else 'max'}: {dtype}")


def min_value(dtype: np.dtype) -> Any:
    """The least value, as a scalar of ``dtype`` (-inf if it exists). The identity of a maximum."""
    return _extreme(dtype, -1)


def all_bits(dtype: np.dtype) -> Any:
    """The value of a boolean or integer dtype with all bits set. It is the identity of bitwise and."""
    return True if is_bool(dtype) else np.array(-1).astype(dtype)[()]


def max_value(dtype: np.dtype) -> Any:
    """The greatest value, as a scalar of ``dtype`` (inf if it exists). The identity of a minimum."""
    return _extreme(dtype, 1)


@functools.lru_cache(maxsize=256)
def short_name(dtype: np.dtype) -> str:
    """The name used in printed avals: 'f32', 'i8', 'u32', 'c64', 'bf16', 'bool', 'float0'."""
    name = _name(dtype)
    return name if name == "float0" or is_key(dtype) else _shortened(name)


def _shortened(name: str) -> str:
    for long, short in (("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c")):
        name = name.replace(long, short)
    return name


def from_short_name(name: str) -> Any:
    """The type called ``name``, short ('f32') or long ('float32'). Raises ``ValueError`` for other names."""
    names = _short_names()
    if name in names:
        return as_dtype(names[name])
    if name.startswith("key<"):
        return key_type(name)
    raise ValueError(f"{name!r} is not the name of a dtype; known are {', '.join(sorted(names))}")


@functools.cache
def _short_names() -> dict[str, str]:
    nodes = [node for node in _upper_bounds(True, False) if isinstance(node, str)]
    return {name: node for node in nodes for name in (node, _shortened(node))}


@functools.lru_cache(maxsize=256)
def mlir_element_type(dtype: np.dtype) -> str:
    """StableHLO's name of the type: 'f32', 'ui8', 'i1', 'complex<f32>'; 'i1' for float0. TypeError if it has none."""
    name = _name(dtype)
    if name in ("bool", "float0"):
        return "i1"
    letter = kind(dtype)
    if not is_valid(dtype) or is_key(dtype):
        raise TypeError(f"No MLIR element type for dtype {dtype}")
    if letter == "c":
        return f"complex<{mlir_element_type(real_dtype(dtype))}>"
    if letter == "f":
        stem, _, variant = name.replace("bfloat", "bf").replace("float", "f").partition("_")
        return stem + variant.upper()
    return name.replace("uint", "ui").replace("int", "i")


# A node of the lattice is the name of a strong type, or int, float or complex for the weak types.
Node = str | type


def _lattice(x64: bool, strict: bool) -> dict[Node, tuple[Node, ...]]:
    """Each node with its immediate upper neighbours."""
    ints: tuple[Node, ...] = ("int8", "int16", "int32", "int64")
    uints: tuple[Node, ...] = ("uint8", "uint16", "uint32", "uint64")
    small_ints: tuple[Node, ...] = _SMALL_INTS + _SMALL_UINTS
    floats: tuple[Node, ...] = ("bfloat16", "float16", "float32", "float64")
    complexes: tuple[Node, ...] = ("complex64", "complex128")
    if strict:
        edges: dict[Node, tuple[Node, ...]] = {
            node: () for node in ("bool", *ints, *uints, *small_ints, *_SMALL_FLOATS, *floats, *complexes)
        }
        edges[int] = (float, *ints, *uints, *small_ints)
        edges[float] = (complex, *_SMALL_FLOATS, *floats)
        edges[complex] = complexes
        return edges
    return {
        "bool": (int,),
        int: ("uint8", "int8", *small_ints),
        **dict.fromkeys(small_ints, ()),
        "uint8": ("int16", "uint16"),
        "uint16": ("int32", "uint32"),
        # The join of uint32 and int32 has 64 bits; without x64 it is int32. No other 32-bit types have a 64-bit join.
        "uint32": ("int64" if x64 else "int32", "uint64"),
        "uint64": (float,),
        "int8": ("int16",),
        "int16": ("int32",),
        "int32": ("int64",),
        "int64": (float,),
        float: (*_SMALL_FLOATS, "bfloat16", "float16", complex),
        **dict.fromkeys(_SMALL_FLOATS, ()),
        "bfloat16": ("float32",),
        "float16": ("float32",),
        "float32": ("float64", "complex64"),
        "float64": ("complex128",),
        complex: ("complex64",),
        "complex64": ("complex128",),
        "complex128": (),
    }


@functools.cache
def _upper_bounds(x64: bool, strict: bool) -> dict[Node, frozenset[Node]]:
    """Each node with all nodes at or above it."""
    edges = _lattice(x64, strict)
    bounds: dict[Node, frozenset[Node]] = {}
    for start in edges:
        seen: set[Node] = {start}
        todo = [start]
        while todo:
            for above in edges[todo.pop()]:
                if above not in seen:
                    seen.add(above)
                    todo.append(above)
        bounds[start] = frozenset(seen)
    return bounds


@functools.lru_cache(maxsize=1024)
def _join(nodes: frozenset[Node], x64: bool, strict: bool) -> Node:
    """The least upper bound of ``nodes``. Raises ``TypePromotionError`` if there is none."""
    above = _upper_bounds(x64, strict)
    for node in nodes:
        if node not in above:
            raise ValueError(f"dtype={node!r} is not a valid dtype for JAX type promotion.")
    common = frozenset.intersection(*(above[node] for node in nodes))
    for candidate in common:
        if common <= above[candidate]:
            return candidate
    raise TypePromotionError(_no_path_message(nodes, strict))


def _no_path_message(nodes: frozenset[Node], strict: bool) -> str:
    shown = tuple(str(node) for node in sorted(nodes, key=str))
    start = f"Input dtypes {shown} have no available implicit dtype promotion path"
    if strict:
        return (
            f"{start} when jax_numpy_dtype_promotion=strict. Cast the inputs explicitly, or set "
            "jax_numpy_dtype_promotion=standard."
        )
    for width, names, target in (
        ("8-bit floats", [n for n in _SMALL_FLOATS if n.startswith("float8")], "float32"),
        ("6-bit floats", [n for n in _SMALL_FLOATS if n.startswith("float6")], "float32"),
        ("4-bit floats", [n for n in _SMALL_FLOATS if n.startswith("float4")], "float32"),
        ("1-bit, 2-bit and 4-bit integers", _SMALL_INTS + _SMALL_UINTS, "int32"),
    ):
        if nodes.intersection(names):
            return f"{start}. {width} are never promoted implicitly; convert explicitly: x.astype('{target}')"
    return f"{start}. Cast the inputs explicitly to the type you want."


def _node(dtype: Any, weak_type: bool) -> Any:
    if is_key(dtype):
        return dtype  # a key type is in no lattice; the error names it
    if weak_type and dtype != _BOOL:
        return _WEAK_OF_KIND.get(kind(dtype), _name(dtype))
    return _name(dtype)


def promote_types(a: Any, b: Any, x64: bool = False, strict: bool = False) -> np.dtype:
    """The type to which a binary operation on types ``a`` and ``b`` converts both. It is not truncated to 32 bits.

    ``int``, ``float`` and ``complex`` (the Python classes) are weak. TypePromotionError if there is no such type.
    """
    # compare by identity: np.dtype('int64') == int is true, but only the class int is weak
    nodes = frozenset(t if t is int or t is float or t is complex else _name(as_dtype(t)) for t in (a, b))
    return as_dtype(_join(nodes, x64, strict))


@functools.lru_cache(maxsize=4096)
def lattice_result(*args: tuple[np.dtype, bool], x64: bool, strict: bool) -> tuple[np.dtype, bool]:
    """The join of pairs ``(dtype, weak_type)`` as a pair; a weak result keeps its inputs' width."""
    dtypes = {dt for dt, _ in args}
    all_weak = all(weak for _, weak in args)
    if len(args) == 1 or (len(dtypes) == 1 and not all_weak):
        result, weak_type = args[0][0], len(args) == 1 and args[0][1]
    elif all_weak and not strict:
        # Joined as strong types: a weak int16 (from a where or a convert) must not count as int32.
        node = _join(frozenset(_name(dt) for dt in dtypes), x64, strict)
        result, weak_type = _node_dtype(node, x64), True
    else:
        node = _join(frozenset(_node(dt, weak) for dt, weak in args), x64, strict)
        result, weak_type = _node_dtype(node, x64), isinstance(node, type)
    return result, weak_type and result != _BOOL


def _node_dtype(node: Node, x64: bool) -> np.dtype:
    if isinstance(node, type):
        return default_dtype(_PYTHON_SCALARS[node], x64)
    return canonicalize_dtype(node, x64)


@functools.lru_cache(maxsize=4096)
def result_type(*args: tuple[np.dtype, bool], x64: bool = False, strict: bool = False) -> tuple[np.dtype, bool]:
    """The type of an operation on ``(dtype, weak_type)``s; weak results have the default width. ValueError for ()."""
    if not args:
        raise ValueError("at least one array or dtype is required")
    result, weak_type = lattice_result(*args, x64=x64, strict=strict)
    return (default_dtype(kind(result), x64), True) if weak_type else (result, False)
