"""Arrays of random keys against JAX's: what rearranges them, in every interpreter, and what is asked of them."""

from __future__ import annotations

import copy
import importlib
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minijax.extend.core import parse_jaxpr
from minijax.ir.typecheck import typecheck_jaxpr

from .normalise import normalise
from .subject import oracle, subject

pytestmark = pytest.mark.usefixtures("compiled_quickly")

WORDS = np.arange(6, dtype=np.uint32).reshape(3, 2)
PICK = np.array([True, False, True])


def _doubled(ns: Any) -> Any:
    """A function of a number and a key with a derivative of its own."""
    function = ns.custom_jvp(lambda x, k: (x * 2.0, k))
    function.defjvp(lambda primals, tangents: ((primals[0] * 2.0, primals[1]), (tangents[0] * 2.0, tangents[1])))
    return function


def _custom_vjp(ns: Any) -> Any:
    function = ns.custom_vjp(lambda x, k: x * 2.0)
    function.defvjp(lambda x, k: (x * 2.0, k), lambda k, g: (g * 2.0, None))
    return function


def _float(i: Any) -> Any:
    return i.astype("float32")


def _word(ns: Any, key: Any) -> Any:
    return ns.random.key_data(key)[0].astype("float32")


# name: function of a namespace, keys of shape (3,), and an index
PROGRAMS: dict[str, Callable[..., Any]] = {
    "zeros": lambda ns, ks, i: (ns.numpy.zeros((3,), ks.dtype), ns.numpy.zeros((), ks.dtype)),
    "like": lambda ns, ks, i: [f(ks) for f in (ns.numpy.zeros_like, ns.numpy.ones_like, ns.numpy.empty_like)],
    "full": lambda ns, ks, i: (ns.numpy.full((2,), ks[0]), ns.numpy.full((2,), 7, ks.dtype)),
    "full_like": lambda ns, ks, i: (ns.numpy.full_like(ks, ks[0]), ns.lax.full_like(ks, 0)),
    "index": lambda ns, ks, i: (ks[0], ks[1:], ks[-1], ks[..., None], ks[::2], ks[::-1]),
    "index by an array": lambda ns, ks, i: ks[ns.numpy.array([0, 2])],
    "index by a tracer": lambda ns, ks, i: ks[i],
    "at set": lambda ns, ks, i: (ks.at[0].set(ks[1]), ks.at[i].set(ks[1])),
    "at get": lambda ns, ks, i: ks.at[ns.numpy.array([0, 7])].get(mode="clip"),
    "at get, filled": lambda ns, ks, i: (
        ks.at[ns.numpy.array([0, 7])].get(mode="fill"),
        ks.at[ns.numpy.array([0, 7])].get(mode="fill", fill_value=3),
    ),
    "reshape": lambda ns, ks, i: (ks.reshape(1, 3), ks.ravel(), ks.flatten(), ks[:1].squeeze()),
    "transpose": lambda ns, ks, i: (ks.T, ks[None].T, ks[None].swapaxes(0, 1), ks[None].transpose(1, 0)),
    "take": lambda ns, ks, i: (ks.take(1), ns.numpy.take(ks, ns.numpy.array([0, 1]))),
    "stack": lambda ns, ks, i: (ns.numpy.stack([ks, ks]), ns.numpy.stack([ks, ks], 1), ns.numpy.vstack([ks, ks])),
    "concatenate": lambda ns, ks, i: (ns.numpy.concatenate([ks, ks]), ns.lax.concatenate([ks, ks], 0)),
    "array": lambda ns, ks, i: (ns.numpy.array([ks[0], ks[1]]), ns.numpy.asarray(ks), ns.numpy.copy(ks), ks.copy()),
    "broadcast": lambda ns, ks, i: (ns.numpy.broadcast_to(ks[0], (2,)), ns.numpy.broadcast_to(ks, (2, 3))),
    "where": lambda ns, ks, i: ns.numpy.where(PICK, ks, ks[0]),
    "tile": lambda ns, ks, i: (ns.numpy.tile(ks, 2), ns.lax.tile(ks, (2,)), ns.numpy.repeat(ks, 2)),
    "compare": lambda ns, ks, i: (ks == ks[::-1], ks != ks[::-1], ks == ks[0], ns.lax.eq(ks, ks[::-1])),
    "dynamic_slice": lambda ns, ks, i: ns.lax.dynamic_slice(ks, (i,), (2,)),
    "dynamic_update_slice": lambda ns, ks, i: ns.lax.dynamic_update_slice(ks, ks[:1], (i,)),
    "select": lambda ns, ks, i: (ns.lax.select(PICK, ks, ks[::-1]), ns.lax.select(i > 0, ks, ks[::-1])),
    "select_n": lambda ns, ks, i: (
        ns.lax.select_n(np.array([0, 1, 2]), ks, ks[::-1], ns.numpy.zeros_like(ks)),
        ns.lax.select_n(i, ks, ks[::-1], ks),
    ),
    "stop_gradient": lambda ns, ks, i: ns.lax.stop_gradient(ks),
    "key_data": lambda ns, ks, i: ns.random.key_data(ks),
    "wrap_key_data": lambda ns, ks, i: ns.random.wrap_key_data(ns.random.key_data(ks) + np.uint32(1)),
    "other implementations": lambda ns, ks, i: [
        ns.random.wrap_key_data(ns.numpy.ones((3, 4), "uint32"), impl=impl) for impl in ("rbg", "unsafe_rbg")
    ],
    "scan": lambda ns, ks, i: ns.lax.scan(lambda c, k: (k, (k, c)), ks[0], ks),
    "while_loop": lambda ns, ks, i: ns.lax.while_loop(
        lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1][::-1]), (i - 1, ks)
    ),
    "fori_loop": lambda ns, ks, i: ns.lax.fori_loop(0, i, lambda j, c: c[::-1], ks),
    "cond": lambda ns, ks, i: ns.lax.cond(i > 0, lambda k: k[0], lambda k: k[1], ks),
    "jit": lambda ns, ks, i: ns.jit(lambda k: k[0])(ks),
    "checkpoint": lambda ns, ks, i: ns.checkpoint(lambda k: k[0])(ks),
    "vmap": lambda ns, ks, i: ns.vmap(lambda k: (k, k == ks[0], ns.random.key_data(k)))(ks),
    "vmap of an index": lambda ns, ks, i: ns.vmap(lambda j: ks[j])(ns.numpy.arange(3)),
    "vmap of an update": lambda ns, ks, i: ns.vmap(
        lambda j: (ks.at[j].set(ks[0]), ns.lax.dynamic_update_slice(ks, ks[:1], (j,)))
    )(ns.numpy.arange(3)),
    "vmap of scan": lambda ns, ks, i: ns.vmap(lambda k: ns.lax.scan(lambda c, _: (c, c), k, None, length=2))(ks),
    "vmap of while_loop": lambda ns, ks, i: ns.vmap(
        lambda j, k: ns.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, ks[0]), (j, k))
    )(ns.numpy.arange(3), ks),
    "jvp": lambda ns, ks, i: ns.jvp(lambda x: (x * _word(ns, ks[0]), ks[::-1]), (_float(i),), (_float(i),))[0],
    "grad": lambda ns, ks, i: ns.grad(lambda x, k: x * x * _word(ns, k))(1.5, ks[1]),
    "linearize": lambda ns, ks, i: ns.linearize(lambda x, k: (x * 2, k), 1.0, ks[0])[0],
    "grad of scan": lambda ns, ks, i: ns.grad(lambda x: ns.lax.scan(lambda c, k: (c * x + _word(ns, k), k), x, ks)[0])(
        _float(i)
    ),
    "grad of checkpoint": lambda ns, ks, i: ns.grad(ns.checkpoint(lambda x, k: ns.numpy.sin(x) * _word(ns, k)))(
        1.5, ks[1]
    ),
    "custom_jvp": lambda ns, ks, i: _doubled(ns)(1.5 * i, ks[0])[1],
    "grad of custom_jvp": lambda ns, ks, i: ns.grad(lambda x, k: _doubled(ns)(x, k)[0])(1.5, ks[0]),
    "grad of custom_vjp": lambda ns, ks, i: ns.grad(_custom_vjp(ns))(1.5, ks[0]),
}


def keys(ns: Any) -> Any:
    return ns.random.wrap_key_data(ns.numpy.asarray(WORDS))


def shown(ns: Any, tree: Any) -> list[Any]:
    """The leaves: their types, and their elements, of keys the words."""

    def leaf(x: Any) -> Any:
        x = x if hasattr(x, "dtype") else ns.numpy.asarray(x)
        is_key = ns.numpy.issubdtype(x.dtype, ns.dtypes.prng_key)
        return str(x.dtype), x.shape, np.asarray(ns.random.key_data(x) if is_key else x).tolist()

    return [leaf(x) for x in ns.tree.leaves(tree)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_keys(name: str) -> None:
    """The same values when evaluated, compiled and batched, and the same program."""
    program = PROGRAMS[name]
    ours, theirs = (lambda ks, i, ns=ns: program(ns, ks, i) for ns in (subject, oracle))
    one, other = (ns.numpy.asarray(1) for ns in (subject, oracle))
    expected = shown(oracle, theirs(keys(oracle), other))
    assert shown(subject, ours(keys(subject), one)) == expected
    assert shown(subject, subject.jit(ours)(keys(subject), one)) == expected

    stacked = [ns.numpy.stack([keys(ns), keys(ns)[::-1]]) for ns in (subject, oracle)]
    batched = shown(oracle, oracle.vmap(theirs, in_axes=(0, None))(stacked[1], other))
    assert shown(subject, subject.vmap(ours, in_axes=(0, None))(stacked[0], one)) == batched
    assert shown(subject, subject.jit(subject.vmap(ours, in_axes=(0, None)))(stacked[0], one)) == batched

    closed, reference = subject.make_jaxpr(ours)(keys(subject), one), oracle.make_jaxpr(theirs)(keys(oracle), other)
    typecheck_jaxpr(closed)
    equations, expected_equations = normalise(closed), normalise(reference)
    assert equations.graph() == expected_equations.graph()
    # not where JAX's library jits a function by itself, or its derivatives of branches leave results that nobody reads
    if equations.calls == expected_equations.calls and "empty2" not in str(reference):
        assert str(closed) == str(reference)
    assert str(parse_jaxpr(str(closed), consts=closed.consts)) == str(closed)


# Expressions of keys ``ks`` of shape (3,), a key ``k`` and one ``r`` of another kind, with the same repr in both.
ANSWERS = """
k
ks
str(ks)
ks.reshape(3, 1)
[*ks]
r
ks.dtype, ks.dtype.name, ks.dtype.itemsize, ks.dtype == k.dtype, k.dtype == r.dtype, hash(k.dtype) == hash(ks.dtype)
str(ks.aval), repr(ks.aval), ks.aval.str_short(True), ns.typeof(k)
ks.shape, ks.size, ks.ndim, ks.nbytes, ks.itemsize, len(ks)
pickle.loads(pickle.dumps(ks)), pickle.loads(pickle.dumps(ks)).dtype == ks.dtype
copy.copy(k), copy.deepcopy(ks), k.copy()
copy.deepcopy(ks.dtype) == ks.dtype, pickle.loads(pickle.dumps(ks.dtype)) == ks.dtype
k.devices(), k.device, k.block_until_ready(), k.is_deleted(), k.committed, k in [k]
ks == ks, ks != ks, ks == ks[1], ks[0] == k
format(k)
isinstance(k, ns.Array)
ns.numpy.issubdtype(k.dtype, ns.dtypes.prng_key), ns.numpy.issubdtype(k.dtype, ns.dtypes.extended)
ns.numpy.issubdtype(k.dtype, np.generic), ns.numpy.issubdtype(k.dtype, np.integer)
ns.numpy.issubdtype(np.float32, ns.dtypes.prng_key), ns.numpy.issubdtype(k.dtype, k.dtype)
ns.numpy.issubdtype(ns.dtypes.prng_key, ns.dtypes.extended), ns.numpy.issubdtype(r.dtype, k.dtype)
ns.numpy.result_type(k), ns.numpy.result_type(ks, k), ns.numpy.isscalar(k)
ns.numpy.ndim(k), ns.numpy.shape(ks), ns.numpy.size(ks)
ns.random.key_data(ks), ns.random.key_impl(ks), ns.random.key_impl(r)
[ns.random.wrap_key_data(ns.random.key_data(r), **given) for given in ({"impl": "rbg"}, {"dtype": r.dtype})]
ns.random.key_data(np.arange(2, dtype="uint32")), ns.random.key_impl(np.arange(2, dtype="uint32"))
ns.tree.leaves({"a": k}), ns.tree.structure({"a": k}), ns.tree.map(lambda x: x.shape, {"a": ks})
ns.device_put(ks, ns.devices()[0]), ns.device_get(ks), ns.device_put(ks, ns.devices()[1])[1:].devices()
ns.jit(lambda k: k[0])(ns.device_put(ks, ns.devices()[1])).devices()
ns.eval_shape(lambda k: k[0], ks), ns.ShapeDtypeStruct((3,), k.dtype)
ns.grad(lambda k: 1.0, allow_int=True)(k).dtype, ns.vjp(lambda x, k: x * 2.0, 1.0, k)[1](1.0)[1].dtype
[f(k) for f in 3 * [ns.jit(lambda k: k)]], [f(k, np.float32(1)) for f in 3 * [ns.jit(lambda k, x: (k, x))]]
[f(donated(k)) for f in 2 * [ns.jit(lambda k: k, donate_argnums=0)]]
ns.jit(lambda: ks[1])(), ns.jit(lambda: ns.random.wrap_key_data(LARGE)[5000])()
[ns.jit(lambda k: k[0]).lower(given).compile()(ks) for given in (ks, ns.ShapeDtypeStruct((3,), k.dtype))]
ns.pmap(lambda k: (k, ns.random.key_data(k), ns.lax.ppermute(k, "i", [(0, 1)])), "i")(ks[:2])
ns.lax.optimization_barrier(k), ns.ad_checkpoint.checkpoint_name(k, "name")
"""


class Both:
    """A name of each library as an expression finds it, and what the expressions of ``ANSWERS`` and ``REFUSED`` use."""

    def __init__(self, ns: Any) -> None:
        importlib.import_module(f"{ns.__name__}.ad_checkpoint")
        ks = keys(ns)
        r = ns.random.wrap_key_data(ns.numpy.arange(4, dtype="uint32"), impl="rbg")
        self.names = {"ns": ns, "ks": ks, "k": ks[0], "r": r, "np": np, "pickle": pickle, "copy": copy, "WORDS": WORDS}
        self.names |= {"LARGE": ns.numpy.arange(40_000, dtype="uint32").reshape(-1, 2), "donated": ns.jit(lambda k: k)}

    def __call__(self, expression: str) -> Any:
        return eval(expression, self.names)


BOTH: dict[Any, Both] = {}


def evaluated(ns: Any, expression: str) -> Any:
    if ns not in BOTH:
        BOTH[ns] = Both(ns)
    return BOTH[ns](expression)


@pytest.mark.parametrize("expression", ANSWERS.strip().splitlines())
def test_same_answers(expression: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # jax.pmap
        assert repr(evaluated(subject, expression)) == repr(evaluated(oracle, expression))


# Expressions that are refused by both, and words that both say: "" where JAX's say nothing of the matter, None where
# its error is of a kind of no use (an abstract method, an assertion, XLA's verifier).
REFUSED = {
    "len(k)": "len() of unsized object",
    "[*k]": "iteration over a 0-d",
    "bool(k)": "key array cannot be converted to boolean.",
    "int(k)": "",
    "k.item()": None,
    "k.sum()": None,
    "ks.view('uint32')": None,
    "np.asarray(k)": "JAX array with PRNGKey dtype cannot be converted to a NumPy array. Use jax.random.key_data(",
    "np.dtype(k.dtype)": "Cannot interpret 'key<fry>' as a data type",
    "hash(k)": "unhashable type",
    "format(k, '.2f')": "unsupported format string passed to",
    "ks + 1": "add does not accept dtypes key<fry>, int32.",
    "ks + ks": "add does not accept dtype key<fry> at position 0. Accepted dtypes at position 0 are subtypes of",
    "-ks": "neg does not accept dtype key<fry>. Accepted dtypes are subtypes of",
    "ks == 1": "equal does not accept dtypes key<fry>, int32.",
    "ks == r": "equal does not accept dtypes key<fry>, key<rbg>.",
    "k ** 2": "",
    "ks.at[0].add(k)": "",
    "ns.numpy.sin(k)": "",
    "ns.numpy.add(k, k)": "add does not accept dtype key<fry> at position 0. Accepted dtypes at position 0 are",
    "ns.numpy.pad(ks, 1)": "Cannot convert_element_type from int32 to key<fry>",
    "ns.numpy.sort(ks)": "",
    "ns.numpy.where(True, k, r)": "> is not a valid dtype for JAX type promotion.",
    "ns.lax.sort(ks)": "",
    "ns.lax.pad(ks, k, [(1, 1, 0)])": None,
    "ns.lax.convert_element_type(k, np.uint32)": "Cannot convert_element_type from key<fry> to uint32",
    "ns.lax.bitcast_convert_type(k, np.uint32)": None,
    "ns.lax.cumsum(ks)": "",
    "ns.lax.select(k, k, k)": None,
    "ns.vmap(lambda k: ns.lax.psum(k, 'i'), axis_name='i')(ks)": "",
    "ns.grad(lambda k: 1.0)(k)": "grad requires real- or complex-valued inputs (input dtype that is a sub-dtype of "
    "np.inexact), but got key<fry>.",
    "ns.jvp(lambda x, k: x, (1.0, k), (1.0, k))": "primal and tangent arguments to ",
    "ns.jit(lambda k: 1, static_argnums=0)(k)": "",
    "ns.random.wrap_key_data(ns.numpy.zeros((3, 3), 'uint32'))": "JAX encountered invalid PRNG key data: expected "
    "key_data.shape to end with (2,); got shape=(3, 3)",
    "ns.random.wrap_key_data(np.uint32(3))": "JAX encountered invalid PRNG key data: expected key_data.ndim >= 1; got",
    "ns.random.wrap_key_data(WORDS, impl='foo')": 'unrecognized PRNG implementation "foo". Did you mean one of: ',
    "ns.random.wrap_key_data(WORDS, impl=3)": "unrecognized type <class 'int'> for specifying PRNG implementation.",
    "ns.random.wrap_key_data(WORDS, impl='rbg', dtype=r.dtype)": "Cannot specify both `impl` and `dtype` arguments to",
    "ns.random.key_data('key')": "",
    "ns.lax.scan(lambda c, x: (ns.random.key_data(c), x), k, ks)": "",
    "ns.lax.cond(True, lambda: k, lambda: ns.random.key_data(k))": "",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_same_refusals(expression: str) -> None:
    """Refused by both: with the same kind of error, unless None stands there, and in JAX's words where they help."""
    words = REFUSED[expression]
    with pytest.raises(Exception) as theirs:
        evaluated(oracle, expression)
    with pytest.raises((TypeError, ValueError)) as ours:
        evaluated(subject, expression)
    if words is not None:
        assert isinstance(ours.value, (type(theirs.value), TypeError))
        assert words in str(theirs.value) and words in str(ours.value)
