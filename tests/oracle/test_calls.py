"""Calls on which ``random_calls`` once found different types of results or classes of errors.

Both libraries stage each call, or its derivative. The calls of ``RUN`` differed only in values, so these also run.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

import minijax

from .random_calls import Drawn, Program, difference, functions
from .random_reasons import BROKEN, REASONS, reason

pytestmark = pytest.mark.usefixtures("tracebacks_whole", "compiled_quickly")


def array(dtype: str) -> Any:
    """A function from a shape to an array argument."""
    return lambda *shape: Drawn(f"{dtype}{shape}", lambda ns: ns.numpy.ones(shape, dtype))


f, h, i, i8, u8, b, c = map(array, ("float32", "float16", "int32", "int8", "uint8", "bool", "complex64"))


def plain(x: Any) -> Drawn:
    return Drawn(repr(x), lambda ns: x)


KEY = Drawn("key(0)", lambda ns: ns.random.key(0))
WEAK = Drawn("weak", lambda ns: ns.numpy.sin(0.5))


def call(name: str, *args: Any, how: str = "call", **kwargs: Any) -> Program:
    made = [x if isinstance(x, Drawn) else plain(x) for x in args]
    return Program((name,), tuple(made), {k: x if isinstance(x, Drawn) else plain(x) for k, x in kwargs.items()}, how)


CALLS = [
    call("numpy.argmax", c(3)),
    call("numpy.asarray", f(3), order="C"),
    call("numpy.can_cast", i8(3), "float32"),
    call("numpy.can_cast", f(3), i(3)),
    call("numpy.full_like", f(3), f(3)),
    call("numpy.iscomplex", WEAK),
    call("numpy.inner", -0.0, i(3), preferred_element_type="bool"),
    call("numpy.linspace", f(3), i8(3, 3), axis=5),
    call("numpy.matmul", u8(3), u8(3), preferred_element_type="bool"),
    call("numpy.permute_dims", f(3), (-1,)),
    call("numpy.permute_dims", f(3), None),
    call("numpy.roll", i(3, 3), ((1, 1), (0, 2))),
    call("numpy.size", f(3), axis=5),
    call("numpy.split", i(0), [0, 1, 2]),
    call("numpy.std", f(2, 3), dtype="complex64", how="jvp"),
    call("numpy.swapaxes", f(3), 0, -2),
    call("lax.bitcast_convert_type", i(3), "complex64"),
    call("lax.broadcast", f(3), 6),
    call("lax.clz", f(3), how="jvp"),
    call("lax.full_like", b(2, 3), f(2, 3)),
    call("lax.integer_pow", f(3), c()),
    call("lax.pad", 0.5, f(3), [1.0, 2.0]),
    call("lax.population_count", f(3), how="grad"),
    call("lax.random_gamma_grad", f(3, 3), f(1, 3)),
    call("lax.random_gamma_grad", f(4), f(2, 3)),
    call("lax.reduce_precision", c(3), 0, 1),
    call("lax.reduce_prod", b(1, 3), (-1,)),
    call("lax.reduce_xor", f(3), (0,), how="grad"),
    call("lax.unstack", False, axis=(0, 1)),
    call("random.categorical", KEY, f(2, 1, 3), shape=(2, 3)),
    call("random.randint", KEY, (2, 3), i8(), i8(3)),
    call("random.uniform", KEY, 6, minval=i(3, 3)),
    call("nn.one_hot", f(2), 1, axis=None),
    # the calls below were found with 100,000 programs of one seed
    call("lax.cummin", f(), how="grad"),
    call("lax.cumprod", f(3), axis=5, how="jvp"),
    call("lax.cumlogsumexp", f(), reverse=True, how="grad"),
    call("lax.dynamic_index_in_dim", f(3), 0, axis=5),
    call("lax.fft", f(3), -1.5, (3,)),
    call("lax.pad", f(3), [1.0, 2.0], ((0, 0, 0),)),
    call("lax.pad", f(3), 1.0, [2.0, 3.0]),
    call("numpy.take", f(3), i(0), axis=(0, 1), fill_value=f(3)),
    call("random.categorical", KEY, f(2, 1, 3), shape=()),
]


def excused(program: Program, diff: str) -> bool:
    """Whether JAX raises the same error only at run time, or breaks on an argument that it does not check."""
    if reason(program.names[0], str(program), diff) == BROKEN:
        return True
    late = f"JAX {diff.split(' alone raises ')[-1].split(':')[0]} when it is run"
    return diff.startswith("minijax alone raises") and late in diff


@pytest.mark.parametrize("program", CALLS, ids=str)
def test_types_and_errors_match_jax(program: Program) -> None:
    diff = difference(program, False)
    assert not diff or excused(program, diff), diff


RUN = [
    call("numpy.dot", Drawn("[2.5, 1.5]", lambda ns: ns.numpy.array([2.5, 1.5])), h(2), preferred_element_type="int32"),
    call("lax.pow", *[Drawn(str(x), lambda ns, x=x: ns.numpy.array(x)) for x in ([0j, 0, 0], [7 + 1j, 2, -1j])]),
    call("random.randint", KEY, (2, 3), i8(), Drawn("i8[3]", lambda ns: ns.numpy.array([5, 98, 0], "int8"))),
]


@pytest.mark.parametrize("program", RUN, ids=str)
def test_values_match_jax(program: Program) -> None:
    assert not difference(program, True)


def test_one_hot_counts_classes_along_a_mapped_axis() -> None:
    outs = minijax.vmap(lambda x: minijax.nn.one_hot(x, 3, axis="n"), axis_size=3, axis_name="n", in_axes=None)(1)
    assert outs.tolist() == [0.0, 1.0, 0.0]
    with pytest.raises(ValueError, match="2 classes along 'n'"):
        minijax.vmap(lambda x: minijax.nn.one_hot(x, 2, axis="n"), axis_size=3, axis_name="n", in_axes=None)(1)


def test_reasons_name_existing_functions() -> None:
    names = functions(())
    assert all(any(re.fullmatch(whose, name) for name in names) for whose, _, _ in REASONS)
