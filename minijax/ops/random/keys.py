"""Keys and their raw words: ``random_wrap`` and ``random_unwrap``; and comparisons of keys.

``core.keys`` describes how keys are stored. Primitives that only rearrange arrays take keys too.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core.avals import ShapedArray, dtype_name, physical_aval
from minijax.core.keys import WORD, PRNGImpl, is_key, keys_of, words_of
from minijax.core.lists import safe_zip
from minijax.core.primitive import Primitive
from minijax.core.rules import Ints, Params
from minijax.core.structural import moveaxis, random_unwrap_p, random_wrap_p
from minijax.interpreters.evaluate import by_type
from minijax.ir.pretty import parse_rules
from minijax.lowering.lower import lowering_rules
from minijax.lowering.text import mlir_type
from minijax.ops.declare import axis_stays, declare, operand_lower, set_rules, trailing
from minijax.ops.elementwise import eq_p, ne_p
from minijax.ops.nary import ZERO


def _wrap_abstract(words: ShapedArray, *, impl: PRNGImpl) -> ShapedArray:
    count = len(impl.key_shape)
    wrong = "JAX encountered invalid PRNG key data: expected key_data"
    if words.ndim < count:
        raise TypeError(f"{wrong}.ndim >= {count}; got ndim={words.ndim}")
    if words.shape[words.ndim - count :] != impl.key_shape:
        raise TypeError(f"{wrong}.shape to end with {impl.key_shape}; got shape={words.shape} for impl={impl!r}")
    if words.dtype != WORD:
        raise TypeError(f"{wrong}.dtype = uint32; got dtype={dtype_name(words.dtype)}")
    return ShapedArray(words.shape[: words.ndim - count], impl.dtype)


def _wrap_numpy(words: Any, impl: PRNGImpl) -> Any:
    return keys_of(words, impl.dtype)


def _wrap_batch(args: Sequence[Any], dims: Ints, *, impl: PRNGImpl) -> Any:
    return random_wrap_p.bind(moveaxis(args[0], dims[0], 0), impl=impl), 0


declare(
    random_wrap_p,
    abstract=_wrap_abstract,
    numpy=_wrap_numpy,
    lower=operand_lower,
    batch=_wrap_batch,
    derivative=ZERO,
    takes_keys=True,
)


def impl_read(params: Params, in_avals: Any, out_avals: Any) -> Params:
    """Restore ``impl`` from the result's type; the printed parameter is only its tag."""
    return {**params, "impl": out_avals[0].dtype.impl}


parse_rules[random_wrap_p] = impl_read


def _unwrap_abstract(keys: ShapedArray) -> ShapedArray:
    if not is_key(keys.dtype):
        raise TypeError(f"random_unwrap takes key array operand, got keys.dtype=dtype({dtype_name(keys.dtype)!r})")
    return physical_aval(keys)


def _unwrap_numpy(keys: Any) -> Any:
    return functools.partial(words_of, dtype=keys.dtype)


declare(
    random_unwrap_p,
    abstract=_unwrap_abstract,
    numpy=by_type(_unwrap_numpy),
    lower=operand_lower,
    batch=axis_stays(random_unwrap_p),
    derivative=ZERO,
    takes_keys=True,
)


def _compare_words(primitive: Primitive, join: str, identity: bool) -> Any:
    """The lowering of a comparison of keys: compare all words, then combine the results for each key's words."""

    def compare_lower(ctx: Any, avals: Any, out_avals: Any, *names: str) -> str:
        (out,) = out_avals
        words = max(a.ndim for a in avals) - out.ndim
        shape = out.shape + avals[0].shape[avals[0].ndim - words :]
        operands = [
            x if a.shape == shape else ctx.broadcast(x, a, shape, trailing(range(a.ndim - words), a.ndim, len(shape)))
            for x, a in safe_zip(names, avals)
        ]
        each = ShapedArray(shape, out.dtype)
        found = lowering_rules[primitive](ctx, [a.update(shape=shape) for a in avals], [each], *operands)
        dims = ", ".join(map(str, range(out.ndim, each.ndim)))
        return ctx.emit(
            f"stablehlo.reduce({found} init: {ctx.scalar(identity, out.dtype)}) applies stablehlo.{join} across "
            f"dimensions = [{dims}] : ({mlir_type(each)}, tensor<i1>) -> {mlir_type(out)}"
        )

    return compare_lower


def _compare_numpy(of_numbers: Any, of_keys: Any) -> Any:
    """The evaluation of a comparison. Keys need the Python operator: NumPy's ufuncs do not take them."""

    def compare(x: Any, y: Any) -> Any:
        return of_keys if is_key(x.dtype) else of_numbers

    # recordings show the same name whether or not this module is loaded
    compare.__name__ = compare.__qualname__ = of_numbers.__name__
    return by_type(compare)


set_rules(eq_p, lower_keys=_compare_words(eq_p, "and", True), numpy=_compare_numpy(np.equal, operator.eq))
set_rules(ne_p, lower_keys=_compare_words(ne_p, "or", False), numpy=_compare_numpy(np.not_equal, operator.ne))
