"""``minijax.random``'s own functions against ``jax.random``: the same bits, the same programs, the same refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minijax.extend.core import parse_jaxpr
from minijax.ir.typecheck import typecheck_jaxpr

from .subject import assert_refused_alike, oracle, subject, x64_mode
from .test_keys import shown

pytestmark = pytest.mark.usefixtures("compiled_quickly")

# name: function of a namespace, a key and an integer
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "key": lambda ns, k, i: ns.random.key(i),
    "key of a constant": lambda ns, k, i: [ns.random.key(seed) for seed in (0, 2**40 + 3, -1, True, np.uint8(200))],
    "key of 64 bits": lambda ns, k, i: ns.random.key(np.int64(2**40 + 3)),
    "PRNGKey": lambda ns, k, i: ns.random.PRNGKey(i),
    "split": lambda ns, k, i: (ns.random.split(k), ns.random.split(k, 5), ns.random.split(k, (2, 3))),
    "split to nothing": lambda ns, k, i: (ns.random.split(k, 0), ns.random.split(k, ())),
    "split words": lambda ns, k, i: ns.random.split(ns.random.PRNGKey(i)),
    "split to many": lambda ns, k, i: ns.random.split(k, 40),
    "iterate over a split": lambda ns, k, i: [ns.random.key_data(each) for each in ns.random.split(k)],
    "fold_in": lambda ns, k, i: (ns.random.fold_in(k, 7), ns.random.fold_in(k, i), ns.random.fold_in(k, 2**32 - 1)),
    "fold_in words": lambda ns, k, i: ns.random.fold_in(ns.random.PRNGKey(3), i),
    "bits": lambda ns, k, i: (ns.random.bits(k), ns.random.bits(k, (3,)), ns.random.bits(k, (2, 20))),
    "bits of every width": lambda ns, k, i: [ns.random.bits(k, (3,), f"uint{n}") for n in (8, 16, 32)],
    "bits of no shape": lambda ns, k, i: (ns.random.bits(k, (0, 3)), ns.random.bits(k, ())),
    "clone": lambda ns, k, i: (ns.random.clone(k), ns.random.clone(ns.random.key_data(k))),
    "scan": lambda ns, k, i: ns.lax.scan(lambda c, x: (ns.random.fold_in(c, x), ns.random.bits(c)), k, np.arange(3)),
    "fori_loop": lambda ns, k, i: ns.lax.fori_loop(0, 3, lambda j, c: ns.random.split(c)[1], k),
    "cond": lambda ns, k, i: ns.lax.cond(i > 0, lambda k: ns.random.split(k)[0], lambda k: k, k),
    "vmap of fold_in": lambda ns, k, i: ns.vmap(ns.random.fold_in, (None, 0))(k, np.arange(3, dtype="uint32")),
    "vmap of both": lambda ns, k, i: ns.vmap(ns.random.fold_in)(ns.random.split(k, 3), np.arange(3, dtype="uint32")),
    "vmap of vmap": lambda ns, k, i: ns.vmap(ns.vmap(lambda k: ns.random.bits(k, (2,)), 0, 1), 1)(
        ns.random.split(k, (2, 3))
    ),
    "grad": lambda ns, k, i: ns.grad(lambda x: x * ns.random.bits(k, (), "uint8").astype("float32"))(
        i.astype("float32")
    ),
}
# XLA's generator makes the bits of rbg keys, which are borrowed; what makes keys of keys is ours.
ROWS = [("threefry2x32", name) for name in FUNCTIONS] + [("rbg", name) for name in ("split", "fold_in", "vmap of both")]


@pytest.mark.parametrize(("kind", "name"), ROWS)
def test_same_bits(kind: str, name: str) -> None:
    function = FUNCTIONS[name]
    keys = [ns.random.key(42, impl=kind) for ns in (subject, oracle)]
    ours, theirs = (lambda k, i, ns=ns: function(ns, k, i) for ns in (subject, oracle))
    one, other = (ns.numpy.asarray(5) for ns in (subject, oracle))
    expected = shown(oracle, theirs(keys[1], other))
    assert shown(subject, ours(keys[0], one)) == expected
    assert shown(subject, subject.jit(ours)(keys[0], one)) == expected
    many, others = (ns.random.split(k, 3) for ns, k in zip((subject, oracle), keys, strict=True))
    batched = shown(oracle, oracle.vmap(theirs, (0, None))(others, other))
    assert shown(subject, subject.vmap(ours, (0, None))(many, one)) == batched
    assert shown(subject, subject.jit(subject.vmap(ours, (0, None)))(many, one)) == batched
    closed = subject.make_jaxpr(ours)(keys[0], one)
    typecheck_jaxpr(closed)
    assert str(parse_jaxpr(str(closed), consts=closed.consts)) == str(closed)
    if "scan" not in name and "loop" not in name:
        assert str(closed) == str(oracle.make_jaxpr(theirs)(keys[1], other))


@pytest.mark.parametrize("name", ["key", "key of 64 bits", "PRNGKey", "split", "fold_in", "bits"])
def test_same_bits_with_64_bits(name: str) -> None:
    with x64_mode("64"):
        ours, theirs = ((lambda i, ns=ns: FUNCTIONS[name](ns, ns.random.key(2**40 + 5), i)) for ns in (subject, oracle))
        wide = [(lambda k, ns=ns: ns.random.bits(k, (3,), "uint64")) for ns in (subject, oracle)]
        for seed in (2**35 + 7, -3):
            expected = shown(oracle, theirs(np.int64(seed) if "fold" not in name else np.uint32(7)))
            given = np.int64(seed) if "fold" not in name else np.uint32(7)
            assert shown(subject, ours(given)) == expected
            assert shown(subject, subject.jit(ours)(given)) == expected
        assert shown(subject, wide[0](subject.random.key(3))) == shown(oracle, wide[1](oracle.random.key(3)))
        compiled = subject.jit(wide[0])(subject.random.key(3))
        assert shown(subject, compiled) == shown(oracle, wide[1](oracle.random.key(3)))


@pytest.mark.parametrize("kind", ["rbg", "unsafe_rbg", "philox2x32", "philox4x32", "threefry4x32"])
def test_other_kinds_are_borrowed_where_they_must_be(kind: str) -> None:
    keys = [ns.random.key(3, impl=kind) for ns in (subject, oracle)]
    for function in (
        lambda ns, k: ns.random.split(k, 3),
        lambda ns, k: ns.random.fold_in(k, 5),
        lambda ns, k: ns.random.bits(k, (4,)),
        lambda ns, k: ns.random.PRNGKey(3, impl=kind),
    ):
        expected = shown(oracle, function(oracle, keys[1]))
        assert shown(subject, function(subject, keys[0])) == expected
        assert shown(subject, subject.jit(lambda k, f=function: f(subject, k))(keys[0])) == expected


# Calls that both refuse, with errors of one kind, and words that both say.
REFUSED = {
    "key(0.5)": "PRNG key seed must be an integer; got",
    "key(k)": "key accepts a scalar seed, but was given a PRNG key.",
    "key([1, 2])": "key accepts a scalar seed, but was given an array of shape (2,) != (). Use jax.vmap for batching",
    "key(2**70)": "Python int too large to convert to C long",
    "key(0, impl='foo')": 'unrecognized PRNG implementation "foo". Did you mean one of: "philox2x32", "philox4x32", '
    '"threefry2x32", "rbg", "unsafe_rbg", "threefry4x32"?',
    "key(0, impl='rbg', dtype='rbg')": "Cannot specify both `impl` and `dtype` arguments to jax.random.key",
    "PRNGKey(k)": "PRNGKey accepts a scalar seed, but was given a PRNG key.",
    "split(ks)": "split accepts a single key, but was given a key array of shape (2,) != ().",
    "split(k, 2.5)": "'float' object cannot be interpreted as an integer",
    "split('a')": "",
    "split(np.zeros(3, 'uint32'))": "JAX encountered invalid PRNG key data: expected key_data.shape to end with (2,)",
    "fold_in(ks, 1)": "fold_in accepts a single key, but was given a key array of shape (2,) != ().",
    "fold_in(k, np.arange(3))": "fold_in accepts a scalar, but was given an array of",
    "fold_in(k, -1)": "Python integer -1 out of bounds for uint32",
    "bits(ks)": "bits accepts a single key, but was given a key array of shape (2,) != ().",
    "bits(k, (3,), 'float32')": "dtype argument to `bits` must be an unsigned int dtype, got float32",
    "bits(k, (3,), 'int32')": "dtype argument to `bits` must be an unsigned int dtype, got int32",
}


@pytest.mark.parametrize("call", REFUSED)
def test_same_refusals(call: str) -> None:
    def called(ns: Any) -> Any:
        key = ns.random.key(1)
        return eval(call, {**vars(ns.random), "k": key, "ks": ns.random.split(key), "np": np})

    assert_refused_alike(called, REFUSED[call])
