"""Samples and their derivatives beside ``jax.random``, bit by bit: the whole product.

    python -m tests.oracle.random_samples                 every function x dtype x shape x way x kind of key
    python -m tests.oracle.random_samples gamma beta      of these functions
    python -m tests.oracle.random_samples --each 7        every seventh combination
    python -m tests.oracle.random_samples --kinds key rbg
    python -m tests.oracle.random_samples --optimised     compiled as users' programs are: five times as long

A combination is a function of ``random`` that minijax has itself, an element type, a shape (of no axes, empty, of one
element, of one and of two axes) and a kind of key (``key``, the words of ``PRNGKey``, keys for ``rbg`` and
``unsafe_rbg``). Each is drawn in four ways: evaluated, under ``jit``, by ``vmap`` over three keys, and differentiated
under ``jit`` (jvp and vjp along every parameter that is a floating-point array). Results must have the same bits.
Derivatives that differ in their last bits, which are the compiler's, are counted apart. Unless ``--optimised``, both
libraries' programs are compiled without optimisations. The exit status is 1 if something else differs.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np

import minijax
from minijax.core.lacking import public_names
from tests.oracle.subject import as_numpy, assert_same, compiled_quickly, x64_mode

Shape = tuple[int, ...]
FLOATS = ("float32", "float16", "bfloat16", "float64")
INTEGERS = ("int32", "int8", "int16", "uint8", "uint16", "uint32", "int64", "uint64")
SHAPES: tuple[Shape, ...] = ((), (0,), (1,), (3,), (2, 3))
WAYS = ("evaluated", "jit", "vmap", "derivatives")
KINDS = ("key", "PRNGKey", "rbg", "unsafe_rbg")
# They make no numbers, or have no array as result.
LEFT_OUT = ("key_impl", "key_dtype")


class Row(NamedTuple):
    """``call(random, key, shape, dtype, *parameters)``, for these dtypes; ``parameters`` of a shape and a dtype."""

    call: Callable[..., Any]
    dtypes: tuple[str, ...] = FLOATS
    parameters: Callable[[Shape, Any], tuple[Any, ...]] = lambda s, d: ()
    shapes: tuple[Shape, ...] = SHAPES


def dtype_of(name: str) -> Any:
    return ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)


def positive(shape: Shape, dtype: Any) -> np.ndarray:
    """Different numbers between 0.3 and 6."""
    size = int(np.prod(shape))
    return np.asarray((np.arange(size) * 7 % 11 / 2 + 0.3).reshape(shape), dtype)


def one(s: Shape, d: Any) -> tuple[Any, ...]:
    return (positive(s, d),)


def seed(s: Shape, d: Any) -> tuple[Any, ...]:
    return (np.asarray(77, d),)


def rate(s: Shape, d: Any) -> tuple[Any, ...]:
    return (np.asarray(positive(s, d) / np.asarray(8, d), d),)


def limits(s: Shape, d: Any) -> tuple[Any, ...]:
    return -positive(s, d), positive(s[-1:], d)


LOGITS = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
PLAIN: dict[str, Row] = {
    name: Row(lambda r, k, s, d, name=name: getattr(r, name)(k, s, d))
    for name in "gumbel normal uniform".split()
}
ROWS: dict[str, Row] = {
    **PLAIN,
    "normal, complex": Row(lambda r, k, s, d: r.normal(k, s, d), ("complex64", "complex128")),
    "uniform, limits": Row(lambda r, k, s, d, a, b: r.uniform(k, s, d, a, b), FLOATS, limits),
    "bits": Row(lambda r, k, s, d: r.bits(k, s, d), ("uint8", "uint16", "uint32", "uint64")),
    "bernoulli": Row(lambda r, k, s, d, p: r.bernoulli(k, p, s), FLOATS, rate),
    "bernoulli, high": Row(lambda r, k, s, d, p: r.bernoulli(k, p, s, "high"), FLOATS, rate),
    "gumbel, high": Row(lambda r, k, s, d: r.gumbel(k, s, d, "high")),
    "randint": Row(lambda r, k, s, d: r.randint(k, s, 3, 100, d), INTEGERS),
    "randint, wide": Row(
        lambda r, k, s, d, a, b: r.randint(k, s, a, b, d),
        INTEGERS,
        lambda s, d: (np.full(s, np.iinfo(d).min, d), np.full(s[-1:], np.iinfo(d).max, d)),
    ),
    "gamma": Row(lambda r, k, s, d, a: r.gamma(k, a, s, d), FLOATS, one),
    # JAX refuses parameters of different shapes if the samples' shape is given, which its text allows
    "categorical": Row(
        lambda r, k, s, d, a: r.categorical(k, a, -1, (*s, 4)), FLOATS, lambda s, d: (LOGITS.astype(d),)
    ),
    "categorical, different": Row(
        lambda r, k, s, d, a: r.categorical(k, a, 0, (2, 3), replace=False),
        FLOATS,
        lambda s, d: (LOGITS.astype(d),),
        ((),),
    ),
    "permutation": Row(
        lambda r, k, s, d, x: r.permutation(k, x), (*FLOATS, *INTEGERS), one, ((0,), (1,), (3,), (2, 3))
    ),
    "permutation, independent": Row(
        lambda r, k, s, d, x: r.permutation(k, x, -1, True), ("float32", "int32"), one, ((0,), (3,), (2, 3))
    ),
    "split": Row(lambda r, k, s, d: _words(r, r.split(k, s)), ("uint32",)),
    "fold_in": Row(lambda r, k, s, d, i: _words(r, r.fold_in(k, i)), ("uint32",), lambda s, d: (np.uint32(77),), ((),)),
    "clone": Row(lambda r, k, s, d: _words(r, r.clone(k)), ("uint32",), shapes=((),)),
    "key_data": Row(lambda r, k, s, d: r.key_data(k), ("uint32",), shapes=((),)),
    "wrap_key_data": Row(
        lambda r, k, s, d: r.bits(r.wrap_key_data(_words(r, k), impl=_impl(r, k))), ("uint32",), shapes=((),)
    ),
    "key": Row(lambda r, k, s, d, i: _words(r, r.key(i, impl=_impl(r, k))), INTEGERS, seed, ((),)),
    "PRNGKey": Row(lambda r, k, s, d, i: r.PRNGKey(i, impl=_impl(r, k)), INTEGERS, seed, ((),)),
}


def typed(keys: Any) -> bool:
    return str(keys.dtype).startswith("key")


def _words(r: Any, keys: Any) -> Any:
    return r.key_data(keys) if typed(keys) else keys


def _impl(r: Any, keys: Any) -> str | None:
    return {"key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}.get(str(keys.dtype))


class Combination(NamedTuple):
    name: str
    dtype: str
    shape: Shape
    kind: str

    def __str__(self) -> str:
        return f"{self.name} {self.dtype} {self.shape} of {self.kind}"


def combinations() -> Iterator[Combination]:
    for name, row in ROWS.items():
        for dtype in row.dtypes:
            for shape in row.shapes:
                for kind in KINDS:
                    yield Combination(name, dtype, shape, kind)


def native() -> set[str]:
    """The functions of ``minijax.random`` that are its own."""
    names = set(public_names()["random"])
    return {
        n
        for n in names
        if not hasattr(getattr(minijax.random, n), "borrowed_from") and n not in LEFT_OUT and n[-2:] != "_p"
    }


def ways(ns: Any, c: Combination) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The ways to draw, each as a function that gives the result."""
    row, dtype = ROWS[c.name], dtype_of(c.dtype)
    given = row.parameters(c.shape, dtype)
    impl = c.kind if "rbg" in c.kind else None
    key = ns.random.PRNGKey(42) if c.kind == "PRNGKey" else ns.random.key(42, impl=impl)

    def draw(key: Any, *parameters: Any) -> Any:
        return row.call(ns.random, key, c.shape, dtype, *parameters)

    yield "evaluated", lambda: draw(key, *given)
    yield "jit", lambda: ns.jit(draw)(key, *given)
    yield "vmap", lambda: ns.vmap(draw, (0, *(None for _ in given)))(ns.random.split(key, 3), *given)
    floats = [i for i, x in enumerate(given) if jax.numpy.issubdtype(np.asarray(x).dtype, np.floating)]
    out, _ = attempt(lambda: jax.eval_shape(lambda: row.call(jax.random, jax.random.key(0), c.shape, dtype, *given)))
    if not floats or out is None or not jax.numpy.issubdtype(out.dtype, np.floating):
        return

    def derivatives(key: Any, *parameters: Any) -> Any:
        xs = [parameters[i] for i in floats]

        def f(*xs: Any) -> Any:
            whole = list(parameters)
            for i, x in zip(floats, xs, strict=True):
                whole[i] = x
            return draw(key, *whole)

        value, pull = ns.vjp(f, *xs)
        return ns.jvp(f, tuple(xs), tuple(xs)), pull(value)

    yield "derivatives", lambda: ns.jit(derivatives)(key, *given)


def attempt(function: Callable[[], Any]) -> tuple[Any, str]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(), ""
        except Exception as error:  # noqa: BLE001  (what is raised is compared)
            return None, type(error).__name__


def difference(ours: Any, theirs: Any, derivatives: bool) -> str:
    """'' if the bits are the same, "close" for derivatives that nearly are, else what differs."""
    pairs = list(zip(minijax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True))
    said = ""
    for x, y in pairs:
        a, b = as_numpy(x), as_numpy(y)
        if (a.dtype, a.shape, bool(x.weak_type)) != (b.dtype, b.shape, bool(y.weak_type)):
            return f"{a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
        if a.tobytes() == b.tobytes():
            continue
        if not derivatives:
            return f"{int((a != b).sum())} of {a.size} elements differ: {a.ravel()[:3]}, {b.ravel()[:3]}"
        try:
            assert_same(a, b)
        except AssertionError as error:
            return " ".join(str(error).split())[:200]
        said = "close"
    return said


def compare(c: Combination, count: Counter[str]) -> Iterator[str]:
    wide = c.dtype in ("float64", "int64", "uint64", "complex128")
    with x64_mode("64" if wide else "32"):
        for (way, ours), (_, theirs) in zip(ways(minijax, c), ways(jax, c), strict=True):
            (found, error), (wanted, their_error) = attempt(ours), attempt(theirs)
            if error or their_error:
                if error != their_error:
                    yield f"{way}: minijax raises {error or 'nothing'}, JAX {their_error or 'nothing'}"
                count["refused alike"] += error == their_error
                continue
            said = difference(found, wanted, way == "derivatives")
            count[f"{way}, close" if said == "close" else way] += said in ("", "close")
            if said not in ("", "close"):
                yield f"{way}: {said}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.random_samples")
    parser.add_argument("names", nargs="*", help="functions; all if none")
    parser.add_argument("--each", type=int, default=1, help="every so manieth combination")
    parser.add_argument("--start", type=int, default=0, help="from the combination of this number on")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="kinds of keys; all if none")
    parser.add_argument("--optimised", action="store_true", help="compile with XLA's usual optimisations")
    asked = parser.parse_args(argv)
    # to shorten a traceback takes most of the time of an error
    jax.config.update("jax_traceback_filtering", "off")
    began, count, wrong = time.time(), Counter[str](), 0
    chosen = [c for c in combinations() if not asked.names or c.name.split(",")[0] in asked.names]
    chosen = [c for c in chosen if c.kind in asked.kinds][asked.start :: asked.each]
    with contextlib.nullcontext() if asked.optimised else compiled_quickly():
        for number, c in enumerate(chosen):
            if number % 100 == 0:
                print(f"{number} of {len(chosen)}, {time.time() - began:.0f} s", file=sys.stderr, flush=True)
                jax.clear_caches()
            for said in compare(c, count):
                wrong += 1
                print(f"{c}, {said}", flush=True)
    absent = native() - {name.split(",")[0] for name in ROWS}
    if absent:
        print("in no row:", *sorted(absent))
    counts = ", ".join(f"{n} {way}" for way, n in sorted(count.items()))
    print(
        f"{len(chosen)} combinations of {len({c.name.split(',')[0] for c in chosen})} functions: "
        f"the same bits in {counts}; "
        f"{wrong} differ; {time.time() - began:.0f} s"
    )
    return 1 if wrong or absent else 0


if __name__ == "__main__":
    sys.exit(main())
