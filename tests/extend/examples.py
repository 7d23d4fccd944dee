"""Operands for every primitive of minijax, found by running programs or by trial.

The programs are the rows of the tables in ``tests/ops``, and some in this file. Each program is evaluated. Its calls
become examples, up to ``CALLS`` for a primitive, float32 first. A primitive that occurs in no program gets ordinary
operands that its abstract evaluation accepts.
"""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jax.extend.linear_util import wrap_init

import minijax
from minijax.ad_checkpoint import checkpoint_name
from minijax.api.custom_jvp import custom_jvp
from minijax.api.custom_vjp import custom_vjp
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.keys import is_key
from minijax.core.primitive import Primitive, abstract_eval
from minijax.extend.core.calls import call_p, closed_call_p
from minijax.extend.rules import known_primitives
from minijax.interop.borrowed import BorrowedPrimitive
from minijax.ir.jaxpr import Literal
from minijax.ops.random.threefry import threefry2x32_p

from ..ops.table import ROWS, Row

PACKAGE = str(Path(minijax.__file__).parent)
# the number of calls to check per primitive
CALLS = 1


class Call(NamedTuple):
    """The call ``primitive.bind(*args, **params)``."""

    primitive: Primitive
    args: tuple[Any, ...]
    params: dict[str, Any]


def ours():
    """The primitives that minijax itself defines, without those borrowed from JAX, which tests create on demand."""
    known = [p for p in known_primitives() if p.defined_at.startswith(PACKAGE)]
    return [p for p in known if not isinstance(p, BorrowedPrimitive)]


def calls_of(closed, args):
    """The calls of primitives when ``closed`` runs on ``args``, including those inside a jitted function."""
    env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(closed.jaxpr.invars, args, strict=True))
    for eqn in closed.jaxpr.eqns:
        operands = tuple(v.val if type(v) is Literal else plain(env[v]) for v in eqn.invars)
        yield Call(eqn.primitive, operands, eqn.params)
        if eqn.primitive.name == "jit":
            yield from calls_of(eqn.params["jaxpr"], operands)
        out = eqn.primitive.bind(*operands, **eqn.params)
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True))


def key(call):
    """The key of a call: dtypes and ranks. Only the first call with a key can become an example."""
    return call.primitive, tuple((plain(x).dtype, np.ndim(x)) for x in call.args)


def plain(x):
    """``x`` as a NumPy array; random keys are returned unchanged."""
    return x if is_key(get_aval(x).dtype) else np.asarray(x)


def ordinary(primitive):
    """A call of the primitive on ordinary operands, with a finite result; None if it accepts none of them."""
    shape = (2, 3)
    values = [
        np.linspace(0.15, 0.8, 6, dtype=np.float32),
        np.linspace(1.15, 1.8, 6, dtype=np.float32),
        np.array([3, 1, 2, 5, 4, 6], np.int32),
        np.array([True, False, True, True, False, True]),
        np.linspace(0.2, 0.9, 6).astype(np.complex64) * np.complex64(1 + 0.5j),
    ]
    for value, count in itertools.product(values, (1, 2, 3)):
        args = tuple(np.roll(value, k).reshape(shape) for k in range(count))
        try:
            abstract_eval(primitive, tuple(ShapedArray(x.shape, x.dtype) for x in args), {})
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                if np.isfinite(np.asarray(primitive.bind(*args))).all():
                    return Call(primitive, args, {})
        except Exception:  # the primitive rejects these operands
            continue
    return None


def programs():
    """Programs for primitives that the tables of ``tests/ops`` lack."""
    vector, matrix = np.array([0.5, -1.25, 2.0], np.float32), np.linspace(-1, 2, 6, dtype=np.float32).reshape(3, 2)
    number = np.float32(0.75)
    yield Row("jit", lambda ns, x, y: ns.jit(lambda x, y: (ns.numpy.sin(x) * y, x))(x, y), (vector, number))
    for p in (call_p, closed_call_p):
        fun = wrap_init(lambda x, y: [minijax.numpy.sin(x) * y, x])
        yield Row(p.name, lambda ns, x, y, p=p, fun=fun: p.bind(x, y, subfuns=(fun,)), (vector, number))
    for name in ("max", "min"):  # the operands in tests/ops are equal, so they have no second derivative
        yield Row(f"scatter {name}", lambda ns, x, n=name: getattr(x.at[np.array([1, 0])], n)(x[1:] * 3), (vector,))
    yield Row("conj", lambda ns, x: ns.lax.conj(x), (vector + 1j * vector[::-1],))
    yield Row("integer_pow", lambda ns, x: ns.lax.integer_pow(x, 3), (vector,))
    yield Row("round", lambda ns, x: ns.lax.round(x), (vector + np.float32(0.1),))
    yield Row("polygamma", lambda ns, x: ns.lax.polygamma(np.full(3, 2, np.float32), x), (vector**2,))
    yield Row("cumlogsumexp", lambda ns, x: ns.lax.cumlogsumexp(x, 0), (matrix,))
    yield Row("top_k", lambda ns, x: ns.lax.top_k(x, 2), (matrix.T,))
    words = np.arange(6, dtype=np.uint32).reshape(3, 2)
    yield Row("keys", lambda ns, x: ns.random.key_data(ns.random.wrap_key_data(x)), (words,))
    yield Row("seed", lambda ns, x: ns.random.key_data(ns.random.key(x)), (np.int32(7),))
    yield Row("split", lambda ns, x: ns.random.split(ns.random.wrap_key_data(x), (2, 3)), (words[1],))
    yield Row("fold_in", lambda ns, x: ns.random.fold_in(ns.random.wrap_key_data(x), 5), (words[2],))
    yield Row("bits", lambda ns, x: ns.random.bits(ns.random.wrap_key_data(x), (3, 2), "uint16"), (words[1],))
    shape = np.array([1.5], np.float32)
    yield Row("gamma", lambda ns, k, a: ns.random.gamma(ns.random.wrap_key_data(k), a), (words[1], shape))
    yield Row("clone", lambda ns, x: ns.random.clone(ns.random.wrap_key_data(x)), (words[1],))
    yield Row("threefry2x32", lambda ns, x: threefry2x32_p.bind(x[0, 0], x[0, 1], x, x[::-1]), (words,))
    yield Row("name", lambda ns, x: checkpoint_name(x, "kept"), (vector,))
    yield Row("checkpoint", lambda ns, x, y: ns.checkpoint(lambda x, y: ns.numpy.sin(x) * y)(x, y), (vector, number))
    yield Row(
        "cond",
        lambda ns, p, x, y: ns.lax.cond(p, lambda x, y: (x * y, x), lambda x, y: (ns.numpy.sin(x), y * x), x, y),
        (np.bool_(True), vector, number),
    )
    yield Row(
        "switch",
        lambda ns, i, x: ns.lax.switch(i, [ns.numpy.sin, ns.numpy.cos, lambda x: x * x], x),
        (np.int32(1), vector),
    )
    yield Row(
        "while",
        lambda ns, n, x: ns.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, ns.numpy.sin(c[1]) * x), (0, x)),
        (np.int32(3), vector),
    )
    yield Row(
        "reduce",
        lambda ns, x, i: ns.lax.reduce((x, x * x), (i, i), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,)),
        (matrix, number),
    )
    yield Row("scan", lambda ns, x, ys: ns.lax.scan(lambda c, y: (ns.numpy.sin(c) * y, c + y), x, ys), (number, vector))
    yield Row(
        "scan backwards",
        lambda ns, x, a, ys: ns.lax.scan(lambda c, y: (c + a * y, c * y), x, ys, reverse=True),
        (vector[:2], number, matrix),
    )
    yield Row(
        "linear solve",
        lambda ns, a, b: ns.lax.custom_linear_solve(
            lambda x: a * x, b, lambda matvec, b: b / a, transpose_solve=lambda vecmat, b: b / a
        ),
        (vector, vector[::-1]),
    )

    def curved(ns):
        f = custom_jvp(lambda x, y: ns.numpy.sin(x) * y)
        f.defjvp(lambda p, t: (f(*p), ns.numpy.cos(p[0]) * p[1] * t[0] + ns.numpy.sin(p[0]) * t[1]))
        return f

    def pulled(ns):
        f = custom_vjp(lambda x, y: ns.numpy.sin(x) * y)
        f.defvjp(
            lambda x, y: (ns.numpy.sin(x) * y, (x, y)),
            lambda res, ct: (ct * ns.numpy.cos(res[0]) * res[1], ct * ns.numpy.sin(res[0])),
        )
        return f

    yield Row("custom_jvp", lambda ns, x, y: curved(ns)(x, y), (vector, 2 * vector))
    yield Row("custom_vjp", lambda ns, x, y: pulled(ns)(x, y), (vector, 2 * vector))


def examples():
    """Primitive -> example calls, preferably with few elements."""
    found = {}
    for row in (*programs(), *ROWS.values()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            closed = minijax.make_jaxpr(lambda *args, row=row: row.function(minijax, *args))(*row.args)
            for call in calls_of(closed, row.args):
                sizes = [np.size(x) for x in call.args]
                if sizes and (min(sizes) == 0 or max(sizes) > 100):
                    continue
                found.setdefault(key(call), call)
    table = {p: [] for p in ours()}
    for call in found.values():
        if call.primitive in table:
            table[call.primitive].append(call)
    for p, calls in table.items():
        calls.sort(key=lambda call: not any(plain(x).dtype == np.float32 for x in call.args))
        del calls[CALLS:]
        if not calls:
            tried = ordinary(p)
            if tried is not None:
                calls.append(tried)
    return table
