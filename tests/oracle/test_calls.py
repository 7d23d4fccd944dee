"""Calls on which the libraries disagreed once, found by ``random_calls``: types of results, and classes of errors.

Each is staged in both libraries, as a call or differentiated; those that show in values alone are run.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import minijax

from .random_calls import Drawn, Program, difference, functions
from .random_reasons import BROKEN, REASONS, reason

pytestmark = pytest.mark.usefixtures("tracebacks_whole", "compiled_quickly")


def array(dtype: str) -> Any:
    """What makes the source of an array of a shape."""
    return lambda *shape: Drawn(f"{dtype}{shape}", lambda ns: ns.numpy.ones(shape, dtype))


f, h, i, i8, u8, b, c = map(array, ("float32", "float16", "int32", "int8", "uint8", "bool", "complex64"))


def plain(x: Any) -> Drawn:
    return Drawn(repr(x), lambda ns: x)


KEY = Drawn("key(0)", lambda ns: ns.random.key(0))
WEAK = Drawn("weak", lambda ns: ns.numpy.sin(0.5))


def call(name: str, *args: Any, how: str = "call", **kwargs: Any) -> Program:
    made = [x if isinstance(x, Drawn) else plain(x) for x in args]
    return Program((name,), tuple(made), {k: x if isinstance(x, Drawn) else plain(x) for k, x in kwargs.items()}, how)


NUMPY = [
    call("argmax", c(3)),
    call("argwhere", b(), size=1),
    call("asarray", f(3), order="C"),
    call("can_cast", i8(3), "float32"),
    call("can_cast", f(3), i(3)),
    call("compress", f(4), f(2, 3), axis=1, size=1),
    call("corrcoef", f(3), dtype="bool"),
    call("cumulative_prod", i8(3)),
    call("diff", f(), n=0, axis=None),
    call("digitize", f(3), c(3)),
    call("extract", 0.5, i8(3), size=2),
    call("extract", f(3, 3), i8(2, 1, 3), size=0),
    call("fft.irfft", c(1)),
    call("fft.ihfft", c(3, 3), axis=(0, 1)),
    call("fft.rfft", f(0)),
    call("fmax", c(3), f(3)),
    call("fmin", f(3), c(3)),
    call("full_like", f(3), f(3)),
    call("histogram", c(3)),
    call("indices", 1),
    call("insert", f(3), f(), f(3)),
    call("interp", c(3), f(3), f(3)),
    call("iscomplex", WEAK),
    call("isreal", WEAK),
    call("ix_", u8(0)),
    call("inner", -0.0, i(3), preferred_element_type="bool"),
    call("insert", f(3, 3), i(0), b(3, 3)),
    call("delete", i8(3), [1.0, 2.0]),
    call("delete", f(0), 0),
    call("delete", b(2, 3), False),
    call("isin", i8(4), f(0), method=None),
    call("cov", f(1, 3), dtype="int32"),
    call("cov", f(1, 3), rowvar=False),
    call("cov", f(1, 3), f(2, 3), rowvar=False),
    call("corrcoef", f(3), f(3), rowvar=False),
    call("trapezoid", f(3), axis=(0, 1)),
    call("trapezoid", f(3), axis=1),
    call("linspace", f(3), i8(3, 3), axis=5),
    call("kaiser", 0.5, 2.0),
    call("kaiser", -1, 2.0),
    call("ldexp", f(3), b(3)),
    call("linalg.multi_dot", Drawn("[f(3), f(0)]", lambda ns: [ns.numpy.ones(3), ns.numpy.ones(0)])),
    call("linalg.vector_norm", b(3), ord=1),
    call("linalg.vector_norm", i(3), ord=np.inf),
    call("matmul", u8(3), u8(3), preferred_element_type="bool"),
    call("nanquantile", f(3), 0.5, weights=c(3)),
    call("nanstd", f(3, 3), dtype="int32"),
    call("nanstd", f(3, 3), mean=f(3)),
    call("permute_dims", f(3), (-1,)),
    call("permute_dims", f(3), None),
    call("place", f(2, 3), f(3), [1.0]),
    call("polyfit", h(3), i(3), 0.5),
    call("polyval", i(3), WEAK),
    call("quantile", f(3), h(3)),
    call("quantile", f(3, 3), i(3), axis=5),
    call("ravel_multi_index", f(3), (2, 1, 3)),
    call("ravel_multi_index", i(2), (3, 3), mode="ignore", dtype="int8"),
    call("resize", i(3), (-1,)),
    call("roll", i(3, 3), ((1, 1), (0, 2))),
    call("searchsorted", i(3), c()),
    call("setdiff1d", 0.5, i(2, 3), size=3),
    call("setxor1d", 0.5, 1, size=3),
    call("size", f(3), axis=5),
    call("split", i(0), [0, 1, 2]),
    call("std", f(2, 3), dtype="complex64", how="jvp"),
    call("swapaxes", f(3), 0, -2),
    call("trim_zeros", f(3), axis=None),
    call("unique_counts", f(3, 3), size=0, fill_value=f(4)),
    call("unique_inverse", f(0), size=3),
    call("unravel_index", f(3), (2,)),
]
LAX = [
    call("bitcast_convert_type", i(3), "complex64"),
    call("broadcast", f(3), 6),
    call("clz", f(3), how="jvp"),
    call("full_like", b(2, 3), f(2, 3)),
    call("integer_pow", f(3), c()),
    call("pad", 0.5, f(3), [1.0, 2.0]),
    call("population_count", f(3), how="grad"),
    call("random_gamma_grad", f(3, 3), f(1, 3)),
    call("random_gamma_grad", f(4), f(2, 3)),
    call("reduce_precision", c(3), 0, 1),
    call("reduce_prod", b(1, 3), (-1,)),
    call("reduce_xor", f(3), (0,), how="grad"),
    call("unstack", False, axis=(0, 1)),
]
RANDOM = [
    call("beta", KEY, c(3), f()),
    call("categorical", KEY, f(2, 1, 3), shape=(2, 3)),
    call("chisquare", KEY, c(3), dtype="float32"),
    call("f", KEY, 1.5, c(3)),
    call("geometric", KEY, 1),
    call("geometric", KEY, b(3)),
    call("loggamma", KEY, f(3), shape=(-1,)),
    call("lognormal", KEY, dtype="float16"),
    call("lognormal", KEY, h(3)),
    call("orthogonal", KEY, -1),
    call("pareto", KEY, c(3)),
    call("randint", KEY, (2, 3), i8(), i8(3)),
    call("rayleigh", KEY, c(3), dtype="float16"),
    call("t", KEY, c(3)),
    call("uniform", KEY, 6, minval=i(3, 3)),
    call("triangular", KEY, i(3), "mode", c(2, 3), shape=6),
    call("wald", KEY, c(3)),
]
OTHERS = [
    call("nn.one_hot", f(2), 1, axis=None),
    call("ops.segment_max", i(), f(3, 3)),
    call("ops.segment_sum", 2.0, i(4), num_segments=3),
]
# found by 100,000 programs of one seed
LATER = [
    call("lax.cummin", f(), how="grad"),
    call("lax.cumprod", f(3), axis=5, how="jvp"),
    call("lax.cumlogsumexp", f(), reverse=True, how="grad"),
    call("lax.dynamic_index_in_dim", f(3), 0, axis=5),
    call("lax.fft", f(3), -1.5, (3,)),
    call("lax.pad", f(3), [1.0, 2.0], ((0, 0, 0),)),
    call("lax.pad", f(3), 1.0, [2.0, 3.0]),
    call("numpy.delete", f(3), h(0)),
    call("numpy.fft.fftfreq", 3, dtype="bool"),
    call("numpy.fft.fftfreq", 3, d=2, dtype="int32"),
    call("numpy.fft.ihfft", h(2, 3), axis=None),
    call("numpy.gradient", u8(3), 0.5),
    call("numpy.histogramdd", h(1, 3), density=True),
    call("numpy.insert", i(3), [0, 1], 5),
    call("numpy.median", f(), keepdims=True),
    call("numpy.nanpercentile", f(), f(), keepdims=True),
    call("numpy.percentile", [1.0, 2.0], f(), overwrite_input=True),
    call("numpy.polyder", f()),
    call("numpy.polymul", h(0), i(3)),
    call("numpy.take", f(3), i(0), axis=(0, 1), fill_value=f(3)),
    call("numpy.unwrap", b(2, 0)),
    call("random.ball", KEY, 3, p=f(3)),
    call("random.categorical", KEY, f(2, 1, 3), shape=()),
    call("random.multivariate_normal", KEY, c(2, 3), f(3, 3)),
    call("random.multivariate_normal", KEY, h(3), i8(3, 3)),
]


def within(module: str, calls: list[Program]) -> list[Program]:
    return [each._replace(names=(f"{module}.{each.names[0]}",)) for each in calls]


CALLS = [
    *within("numpy", NUMPY),
    *within("lax", LAX),
    *within("random", RANDOM),
    *OTHERS,
    *LATER,
]


def excused(program: Program, said: str) -> bool:
    """Whether JAX raises the same, but when the program is run, or does not look at an argument and breaks."""
    if reason(program.names[0], str(program), said) == BROKEN:
        return True
    late = f"JAX {said.split(' alone raises ')[-1].split(':')[0]} when it is run"
    return said.startswith("minijax alone raises") and late in said


@pytest.mark.parametrize("program", CALLS, ids=str)
def test_types_and_errors(program: Program) -> None:
    said = difference(program, False)
    assert not said or excused(program, said), said


RUN = [
    call("numpy.dot", Drawn("[2.5, 1.5]", lambda ns: ns.numpy.array([2.5, 1.5])), h(2), preferred_element_type="int32"),
    call("numpy.fmod", i(3), False),
    call("numpy.nanquantile", f(2, 3), Drawn("[0.25, 1]", lambda ns: ns.numpy.array([0.25, 1.0])), axis=1),
    call("numpy.nanquantile", f(2, 3), f(3), axis=0, keepdims=True),
    call("numpy.select", c(3, 3), i(3, 3)),
    call("numpy.fmin", f(3), Drawn("complex64[3]", lambda ns: ns.numpy.array([1 - 1j, 1 + 1j, 0.5 + 9j]))),
    call("numpy.searchsorted", *[Drawn("sorted", lambda ns: ns.numpy.array([-1 + 2j, 0, 1j, 1, 1 + 1j]))] * 2),
    call("numpy.trim_zeros", Drawn("eye", lambda ns: ns.numpy.eye(4, k=2)), axis=1),
    call("numpy.ravel_multi_index", i(2, 3), (3, 3), dtype="int8"),
    call("numpy.quantile", Drawn("f32[3]", lambda ns: ns.numpy.arange(3.0)), h(2)),
    call("lax.pow", *[Drawn(str(x), lambda ns, x=x: ns.numpy.array(x)) for x in ([0j, 0, 0], [7 + 1j, 2, -1j])]),
    *(
        call(f"numpy.{name}", WEAK, 2.0, size=size, fill_value=fill_value, assume_unique=unique)
        for name in ("intersect1d", "setdiff1d", "setxor1d")
        for size, fill_value, unique in ((None, None, False), (2, None, True), (2, 3.0, True), (2, 3.0, False))
    ),
    call("numpy.setxor1d", i(2), i8(3), size=3, fill_value=0.5),
    call("numpy.unique", Drawn("nans", lambda ns: ns.numpy.array([1 + 2j, complex("nan+1j"), complex("nanj"), 3]))),
    call("numpy.unique_values", 1 + 2j),
    call("random.randint", KEY, (2, 3), i8(), Drawn("i8[3]", lambda ns: ns.numpy.array([5, 98, 0], "int8"))),
    call("random.geometric", KEY, b(3)),
    call("random.lognormal", KEY, h(3)),
]


@pytest.mark.parametrize("program", RUN, ids=str)
def test_values(program: Program) -> None:
    assert not difference(program, True)


def test_one_hot_along_a_mapped_axis() -> None:
    outs = minijax.vmap(lambda x: minijax.nn.one_hot(x, 3, axis="n"), axis_size=3, axis_name="n", in_axes=None)(1)
    assert outs.tolist() == [0.0, 1.0, 0.0]
    with pytest.raises(ValueError, match="2 classes along 'n'"):
        minijax.vmap(lambda x: minijax.nn.one_hot(x, 2, axis="n"), axis_size=3, axis_name="n", in_axes=None)(1)


def test_reasons_are_told_of_functions_that_there_are() -> None:
    names = functions(())
    assert all(any(re.fullmatch(whose, name) for name in names) for whose, _, _ in REASONS)
