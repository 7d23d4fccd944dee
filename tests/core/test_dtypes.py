"""The functions of dtypes give JAX's answers for every type, every pair of types and both 64-bit modes."""

import itertools
import warnings

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax._src import core as jax_core
from jax._src import dtypes as jax_dtypes
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lax import lax as jax_lax

from minijax.core import dtypes

SMALL = [n for n in (*dtypes._SMALL_INTS, *dtypes._SMALL_UINTS, *dtypes._SMALL_FLOATS) if hasattr(ml_dtypes, n)]
STANDARD = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
ALL = [*STANDARD.split(), "bfloat16", *SMALL]
X64 = pytest.mark.parametrize("x64", [False, True])


def outcome(f, *args, **kwargs):
    """The value of a call, or the beginning of its promotion error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return f(*args, **kwargs)
    except (dtypes.TypePromotionError, jax_dtypes.TypePromotionError) as error:
        return str(error).split(" promotion path")[0].split("Input dtypes")[0]


@X64
@pytest.mark.parametrize("strict", [False, True])
def test_promote_types_agrees_with_jax_on_every_pair(x64, strict):
    specs = [dtypes.as_dtype(n) for n in ALL] + [int, float, complex]
    failures = 0
    with jax.enable_x64(x64), jax.numpy_dtype_promotion("strict" if strict else "standard"):
        for a, b in itertools.product(specs, specs):
            expected = outcome(jnp.promote_types, a, b)
            assert outcome(dtypes.promote_types, a, b, x64, strict) == expected, (a, b)
            failures += isinstance(expected, str)
    assert failures > 0  # some pairs, such as int4 and int8, have no promotion: both libraries must raise


def jax_values():
    """One abstract value for each (dtype, weak_type) that an argument of result_type can have."""
    for name in ALL:
        yield dtypes.as_dtype(name), False
    for name in ALL:
        # No operation makes weak booleans or weak int4 values; for weak int4, JAX's own function fails.
        if name not in ("bool", *dtypes._SMALL_INTS, *dtypes._SMALL_UINTS):
            yield dtypes.as_dtype(name), True


@X64
@pytest.mark.parametrize("strict", [False, True])
def test_result_type_agrees_with_jax_on_every_pair(x64, strict):
    with jax.enable_x64(x64), jax.numpy_dtype_promotion("strict" if strict else "standard"):
        pairs = [p for p in jax_values() if x64 or dtypes.canonicalize_dtype(p[0], x64) == p[0]]
        avals = {p: jax_core.ShapedArray((), p[0], weak_type=p[1]) for p in pairs}

        class Typed:
            def __init__(self, pair):
                self.dtype, self.aval = pair[0], avals[pair]

        for a, b in itertools.product(pairs, pairs):
            expected = outcome(jax_dtypes.result_type, Typed(a), Typed(b), return_weak_type_flag=True)
            assert outcome(dtypes.result_type, a, b, x64=x64, strict=strict) == expected, (a, b)
            expected = outcome(jax_dtypes.lattice_result_type, Typed(a), Typed(b))
            assert outcome(dtypes.lattice_result, a, b, x64=x64, strict=strict) == expected, (a, b)


def test_result_type_needs_arguments():
    with pytest.raises(ValueError, match="at least one array or dtype is required"):
        dtypes.result_type()


@X64
def test_canonicalize_dtype_agrees_with_jax(x64):
    with jax.enable_x64(x64):
        for name in [*ALL, int, float, complex, bool, "f8", ">f4"]:
            assert dtypes.canonicalize_dtype(name, x64) == jax_dtypes.canonicalize_dtype(name), name
    for canonicalize in (dtypes.canonicalize_dtype, jax_dtypes.canonicalize_dtype):
        with pytest.raises(TypeError, match="'foo' not understood"):
            canonicalize("foo")


def test_promotion_failure_names_the_types_and_a_remedy():
    with pytest.raises(dtypes.TypePromotionError, match=r"'float8_e4m3fn', 'int4'.*8-bit floats.*'float32'"):
        dtypes.result_type((dtypes.as_dtype("float8_e4m3fn"), False), (dtypes.as_dtype("int4"), False))
    with pytest.raises(dtypes.TypePromotionError, match=r"4-bit integers.*astype\('int32'\)"):
        dtypes.promote_types("int4", "int8")
    with pytest.raises(dtypes.TypePromotionError, match="jax_numpy_dtype_promotion=strict"):
        dtypes.promote_types("int32", "float32", strict=True)
    with pytest.raises(ValueError, match="not a valid dtype for JAX type promotion"):
        dtypes.promote_types("int32", object)


def test_truncation_warns_in_the_words_of_jax():
    with warnings.catch_warnings(record=True) as theirs:
        warnings.simplefilter("always")
        jnp.zeros(3, "float64")
    with warnings.catch_warnings(record=True) as ours:
        warnings.simplefilter("always")
        assert dtypes.check_user_dtype("float64", "zeros", stacklevel=3) == np.float32
    assert len(ours) == 1 and ours[0].category is UserWarning
    assert str(theirs[0].message).startswith(str(ours[0].message))
    assert ours[0].filename == __file__


@X64
def test_user_dtypes_are_checked_as_in_jax(x64):
    with warnings.catch_warnings(), jax.enable_x64(x64):
        warnings.simplefilter("error")
        for spec in [int, float, complex, bool, "bfloat16", np.int8, jnp.float16]:
            assert dtypes.check_user_dtype(spec, x64=x64) == jnp.zeros((), spec).dtype
    for spec in ["S3", object, "datetime64[s]", ">f4", [("a", "f4")]]:
        with pytest.raises(TypeError, match="JAX only supports number, bool, and string dtypes, got dtype .* in zeros"):
            jnp.zeros(3, spec)
        with pytest.raises(TypeError, match="JAX only supports number, bool, and string dtypes, got dtype .* in zeros"):
            dtypes.check_user_dtype(spec, "zeros", x64)
    with pytest.raises(ValueError, match="dtype must be specified"):
        dtypes.check_user_dtype(None)
    with pytest.raises(ValueError, match="use dtype=arr.dtype"):
        dtypes.check_user_dtype(jnp.zeros(3))


@X64
def test_dtype_of_values_and_specifiers_agrees_with_jax(x64):
    values = [True, 1, 2.0, 3j, np.float64(1), np.int8(1), np.zeros(3), np.zeros(2, np.uint64), int, float, bool]
    values += ["float32", np.dtype("int16"), np.float16, ml_dtypes.bfloat16(1), jnp.zeros(2, "int16")]
    with jax.enable_x64(x64):
        for value in values:
            assert dtypes.dtype(value, x64) == jax_dtypes.dtype(value), value
            assert dtypes.dtype_and_weak_type(value, x64)[0] == jax_dtypes.dtype(value), value
    assert dtypes.dtype_and_weak_type(1) == (np.int32, True)
    assert dtypes.dtype_and_weak_type(float) == (np.float32, True)
    assert dtypes.dtype_and_weak_type(True) == (np.bool_, False)
    assert dtypes.dtype_and_weak_type(np.float32(1)) == (np.float32, False)
    for bad in ["S3", object(), [1.0, 2.0], np.array(["a"])]:
        for f in (dtypes.dtype, jax_dtypes.dtype):
            with pytest.raises(TypeError, match="is not a valid JAX array type|Cannot determine dtype"):
                f(bad)
    with pytest.raises(ValueError, match="Invalid argument to dtype: None"):
        dtypes.dtype(None)


def test_hierarchy_agrees_with_jax():
    parents = [np.generic, np.number, np.inexact, np.floating, np.complexfloating, np.integer]
    parents += [np.signedinteger, np.unsignedinteger, np.bool_, np.float32, ml_dtypes.bfloat16]
    for name in ALL:
        dt = dtypes.as_dtype(name)
        for parent in parents:
            assert dtypes.issubdtype(dt, parent) == jnp.issubdtype(dt, parent), (name, parent)
            assert dtypes.issubdtype(dt.type, parent) == jnp.issubdtype(dt.type, parent), (name, parent)
        assert dtypes.is_float(dt) == jnp.issubdtype(dt, np.floating)
        assert dtypes.is_inexact(dt) == jnp.issubdtype(dt, np.inexact)
        assert dtypes.is_integer(dt) == jnp.issubdtype(dt, np.integer)
        assert dtypes.is_signed(dt) == jnp.issubdtype(dt, np.signedinteger)
        assert dtypes.is_unsigned(dt) == jnp.issubdtype(dt, np.unsignedinteger)
        assert dtypes.is_complex(dt) == jnp.issubdtype(dt, np.complexfloating)
        for group in dtypes._ISDTYPE_KINDS:
            assert dtypes.isdtype(dt, group) == jnp.isdtype(dt, group), (name, group)
    assert dtypes.isdtype("int8", ("real floating", "int8"))
    with pytest.raises(ValueError, match="Unrecognized kind='whole'"):
        dtypes.isdtype("int8", "whole")


def test_names_agree_with_jax_and_read_back():
    for name in ALL:
        dt = dtypes.as_dtype(name)
        assert dtypes.short_name(dt) == jax_dtypes.short_dtype_name(dt)
        assert dtypes.from_short_name(dtypes.short_name(dt)) == dt
        assert dtypes.from_short_name(name) == dt
    assert dtypes.short_name(dtypes.float0) == "float0"
    assert dtypes.float0 == jax_dtypes.float0
    assert dtypes.from_short_name("key<fry>") is dtypes.KeyType(dtypes.key_type("key<fry>").impl)
    for bad in ("f33", "", "key<"):
        with pytest.raises(ValueError, match="is not the name of a"):
            dtypes.from_short_name(bad)


def test_mlir_names_agree_with_jax():
    with jax_mlir.make_ir_context():
        for name in ALL:
            dt = dtypes.as_dtype(name)
            if name == "float8_e8m0fnu":  # also check the name itself
                assert dtypes.mlir_element_type(dt) == "f8E8M0FNU"
            assert dtypes.mlir_element_type(dt) == str(jax_mlir.dtype_to_ir_type(dt)), name
        assert dtypes.mlir_element_type(dtypes.float0) == str(jax_mlir.dtype_to_ir_type(jax_dtypes.float0))
    with pytest.raises(TypeError, match="No MLIR element type"):
        dtypes.mlir_element_type(np.dtype(object))


def test_reduction_identities_agree_with_jax():
    for name in ALL:
        dt = dtypes.as_dtype(name)
        for ours, theirs in (
            (dtypes.min_value, jax_lax._get_max_identity),
            (dtypes.max_value, jax_lax._get_min_identity),
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value, expected = ours(dt), theirs(dt)
            assert np.asarray(value).dtype == dt
            assert np.array_equal(np.asarray(value), expected, equal_nan=True), name
    with pytest.raises(ValueError, match="Unsupported dtype for max"):
        dtypes.min_value(np.dtype(object))


def test_conversions_agree_with_jax():
    for name in ALL:
        dt = dtypes.as_dtype(name)
        assert dtypes.to_numeric_dtype(dt) == jax_dtypes.to_numeric_dtype(dt)
        assert dtypes.to_inexact_dtype(dt) == jax_dtypes.to_inexact_dtype(dt)
        if dtypes.is_inexact(dt):
            assert dtypes.finfo(dt).bits == jnp.finfo(dt).bits
        if dtypes.is_integer(dt):
            assert dtypes.iinfo(dt).max == jnp.iinfo(dt).max
        if not dtypes.is_complex(dt):
            assert dtypes.bits(dt) == jax_dtypes.itemsize_bits(dt)
    assert dtypes.bits(np.dtype("complex64")) == 64
