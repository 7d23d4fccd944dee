"""Mutable array references are as in JAX: printed programs, values under every transformation, errors, parsing."""

from __future__ import annotations

import re

import jax
import jax.numpy as rnp
import numpy as np
import pytest

import minijax
import minijax.extend.core
import minijax.numpy as jnp
import minijax.ref
from minijax.core.refs import AccumEffect, ReadEffect, WriteEffect
from minijax.extend.core import parse_jaxpr
from minijax.interop import from_jax, to_jax
from minijax.ops.refs.index import Slice

X = np.array([0.5, 1.5, 2.5], np.float32)
MATRIX = np.arange(1, 13, dtype=np.float32).reshape(3, 4)


def programs(lib, np_):
    """Functions of one array, the same for both libraries."""

    def basic(x):
        r = lib.new_ref(x)
        r[...] = x + 1
        r[0] += 2.0
        r[1:] = x[1:] * 2
        lib.ref.addupdate(r, np_.array([0, 0]), np_.ones(2, "float32"))
        s = lib.new_ref(x)
        s[0] = r[1]
        y = s[0]
        lib.free_ref(s)
        return r[...], lib.ref.swap(r, 1, x[0]), r[-1], y, lib.freeze(r)

    def matrix(x):
        r = lib.new_ref(np_.ones((3, 4)))
        r[1, :3] = x
        lib.ref.addupdate(r, (slice(None), 2), x)
        i = np_.array([2, 0])
        r[i, 1] = x[:2]
        return r[:, i], r[i], r[1:, ::2], r[lib.ds(x[0].astype("int32"), 2)]

    def loops(x):
        r = lib.new_ref(x)

        def body(c, y):
            r[0] += y
            return c * r[0], c

        def again(i, c):
            r[1] = c * 1.5
            return c + 1

        scanned = lib.lax.scan(body, x[1], x)
        counted = lib.lax.fori_loop(0, 3, again, x[2])
        lib.lax.cond(x[0] > 0, lambda y: r.__setitem__(2, y), lambda y: None, x[1])
        called = lib.jit(lambda y: (r.__setitem__(slice(0, 2), y[:2] * 3), y * r[2])[1])(x)
        return scanned, counted, called, r[...]

    def sums(x):
        x = np_.asarray(x)
        r = lib.new_ref(np_.zeros(3))

        def body(i, c):
            lib.ref.addupdate(r, i, x[i] * x[i])
            return c + r[i]

        return lib.lax.fori_loop(0, 3, body, x[0]), r[...].sum()

    return basic, matrix, loops, sums


def whiles(lib, np_):
    """A while loop with a reference. It has no reverse mode."""

    def fun(x):
        r = lib.new_ref(x)

        def body(c):
            r[1] = c * 1.5
            return c + 1

        return lib.lax.while_loop(lambda c: c < 6, body, x[2]), r[...]

    return fun


OURS, JAXS = programs(minijax, jnp), programs(jax, rnp)
PAIRS = [*zip(OURS, JAXS, strict=True), (whiles(minijax, jnp), whiles(jax, rnp))]
NAMES = [ours.__name__ for ours, _ in PAIRS]


def check(ours, theirs):
    ours, theirs = jax.tree.leaves(ours), jax.tree.leaves(theirs)
    assert [(x.shape, x.dtype) for x in ours] == [(x.shape, x.dtype) for x in theirs]
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=2e-6)


def total(fun):
    return lambda x: sum(leaf.sum() for leaf in minijax.tree.leaves(fun(x)))


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=NAMES)
def test_values_and_programs_match_jax(ours, theirs):
    wanted = theirs(X)
    check(ours(X), wanted)
    check(minijax.jit(ours)(X), wanted)
    text = re.sub(r"broadcast_to\[shape=\(2,\)\]", "broadcast_in_dim", str(jax.make_jaxpr(theirs)(X)))
    closed = minijax.make_jaxpr(ours)(X)
    assert str(closed) == text
    assert str(minijax.make_jaxpr(from_jax(theirs))(X)) == text
    check(minijax.jit(from_jax(theirs))(X), wanted)
    check(jax.jit(to_jax(ours))(X), wanted)


@pytest.mark.parametrize("ours", [ours for ours in OURS if ours.__name__ != "matrix"], ids=lambda f: f.__name__)
def test_derivatives_match_finite_differences(ours):
    """Derivatives equal those of the jitted function, and nearly equal finite differences."""
    gradient = minijax.grad(total(ours))(X)
    v = np.array([1.0, -0.5, 2.0], np.float32)
    _, tangent = minijax.jvp(total(ours), (X,), (v,))
    np.testing.assert_allclose(np.dot(gradient, v), tangent, rtol=1e-5)
    np.testing.assert_allclose(minijax.grad(minijax.jit(total(ours)))(X), gradient, rtol=1e-5)
    eps = np.float32(1e-2)
    up, down = total(ours)(X + eps * v), total(ours)(X - eps * v)
    np.testing.assert_allclose((up - down) / (2 * eps), tangent, rtol=1e-2)


def test_derivatives_match_jax():
    def of(lib, np_):
        def fun(x):
            r = lib.new_ref(np_.zeros(3))
            r[0] = x * x
            r[1] += np_.sin(x) * r[0]
            return r[...].sum()

        return fun

    ours, theirs = of(minijax, jnp), of(jax, rnp)
    x = np.float32(2)
    np.testing.assert_allclose(minijax.grad(ours)(x), jax.jit(jax.grad(theirs))(x), rtol=1e-6)
    check(minijax.jvp(ours, (x,), (x,)), jax.jvp(theirs, (x,), (x,)))
    plain = minijax.grad(minijax.grad(lambda x: x * x * (1 + jnp.sin(x))))
    for _ in range(5):  # repeated until the derived rules are cached
        np.testing.assert_allclose(minijax.grad(minijax.grad(ours))(x), plain(x), rtol=1e-5)
    np.testing.assert_allclose(minijax.grad(minijax.checkpoint(ours))(x), minijax.grad(ours)(x), rtol=1e-6)


# Indices of a matrix with 3 rows and 4 columns: a single slice, and indices out of bounds.
INDICES = {
    "slice from a value": lambda lib: lib.ds(np.int32(1), 2),
    "before the first": lambda lib: -5,
    "rows outside": lambda lib: np.array([0, 5]),
    "columns outside": lambda lib: (slice(1, 3), np.array([0, 5])),
    "row and steps": lambda lib: (np.array(-9), slice(None, None, 2)),
}


@pytest.mark.parametrize("name", INDICES)
def test_indexed_parts_match_jax(name):
    found = []
    for lib in (minijax, jax):
        index = INDICES[name](lib)

        def fun(x, lib=lib, index=index):
            r = lib.new_ref(x)
            read = r[index]
            r[index] = 2 * read
            lib.ref.addupdate(r, index, read)
            return read.sum(), (read, r[...])

        found.append((fun(MATRIX), lib.jit(lib.grad(fun, has_aux=True))(MATRIX)))
    check(*found)


def scattered(x, i):
    s = minijax.new_ref(jnp.ones((4, 3)))
    s[i] = x
    s[i, 0] += 1.0
    s[jnp.array([0, 1]), i % 2] = x[:2]
    s[1:3, jnp.array([1, 0])] = jnp.stack([x[1:], x[:2]])
    minijax.ref.addupdate(
        s,
        (
            jnp.array([0, 0]),
            slice(None),
        ),
        jnp.stack([x, x]),
    )
    return (
        s[...],
        s[i],
        s[:, i % 2],
        s[jnp.array([1, 2])],
        s[
            jnp.array([0, 1]),
            1:,
        ],
        minijax.freeze(s),
    )


@pytest.mark.parametrize("lib", [minijax, jax], ids=lambda lib: lib.__name__)
def test_pullbacks_add_to_references(lib):
    _, pull_back = lib.vjp(lambda x, y: lib.numpy.sin(x) * y[0], X, [X, X])
    expected = pull_back(X)
    held = lib.new_ref(lib.numpy.ones(3))
    for _ in range(2):
        out = pull_back.with_refs(held, [lib.ad.GradValue(), lib.ad.DontWant()])(X)
    np.testing.assert_allclose(held[...], 1 + 2 * expected[0], rtol=1e-6)
    assert out[0] == lib.ad.GradRef()
    np.testing.assert_array_equal(out[1][0], expected[1][0])
    if lib is minijax:
        assert out[1][1] == lib.ad.DidntWant()
        with pytest.raises(ValueError, match="a tree like the arguments"):
            pull_back.with_refs(held)


def test_vmap_gives_the_results_of_a_loop():
    xs, indices = np.stack([X, X + 1, X - 1]), np.array([0, 2, 1])
    each = [scattered(x, i) for x, i in zip(xs, indices, strict=True)]
    check(minijax.vmap(scattered)(xs, indices), [np.stack(found) for found in zip(*each, strict=True)])
    check(minijax.jit(minijax.vmap(scattered, in_axes=(1, 0)))(xs.T, indices), minijax.vmap(scattered)(xs, indices))
    for ours, theirs in [(OURS[3], JAXS[3])]:
        check(minijax.vmap(ours)(xs), jax.vmap(theirs)(xs))
    outer = minijax.new_ref(jnp.ones((3, 3)))
    minijax.vmap(lambda r, x: r.__setitem__(0, x), in_axes=(1, 0))(outer, X)
    np.testing.assert_array_equal(outer[0], X)
    np.testing.assert_array_equal(minijax.vmap(lambda i: outer[0, i])(indices), X[indices])


def test_outer_references_are_written():
    r = minijax.new_ref(jnp.zeros(3))
    step = minijax.jit(lambda x: (r.__setitem__(0, r[0] + x), r[0])[1])
    assert [float(step(1.0)) for _ in range(3)] == [1, 2, 3]
    assert step._cache_size() == 1
    minijax.lax.scan(lambda c, x: (minijax.ref.set(r, 1, c + x), (c + x, None))[1], 0.0, X)
    np.testing.assert_array_equal(r[...], [3, 4.5, 0])
    minijax.jit(lambda s: s.__setitem__(2, 7.0))(r)
    assert repr(r) == "Ref([3. , 4.5, 7. ], dtype=float32)"
    assert [float(x) for x in r] == [3, 4.5, 7]
    other = minijax.new_ref(X)
    # the loop's condition reads a reference that the body writes, which JAX does not allow
    double = lambda c: (other.__setitem__(0, other[0] * 2), c + 1)[1]  # noqa: E731
    assert minijax.lax.while_loop(lambda c: other[0] < 5, double, 0) == 4


def test_programs_can_be_lowered_ahead_of_a_call():
    lowered = minijax.jit(OURS[2]).lower(X)
    assert "stablehlo.while" in lowered.as_text()
    check(lowered.compile()(X), OURS[2](X))
    with pytest.raises(ValueError, match="takes a mutable array reference"):
        minijax.jit(lambda r: r[0]).lower(minijax.new_ref(X))


def test_jaxprs_have_the_effects_of_references():
    def fun(r, s, t, x):
        minijax.ref.addupdate(r, ..., x)
        minijax.lax.cond(x[0] > 0, lambda: s.__setitem__(0, t[1]), lambda: None)

    refs = [minijax.new_ref(X) for _ in range(3)]
    jaxpr = minijax.make_jaxpr(minijax.jit(fun))(*refs, X).jaxpr
    r, s, t, _ = jaxpr.invars
    assert jaxpr.effects == {AccumEffect(r), WriteEffect(s), ReadEffect(t)} == jaxpr.eqns[0].effects
    theirs = jax.make_jaxpr(jax.jit(lambda r, s, t, x: jax.ref.addupdate(r, ..., x)))(*[jax.new_ref(X)] * 1, 1, 1, X)
    assert [type(e).__name__ for e in theirs.effects] == ["AccumEffect"]
    assert minijax.make_jaxpr(OURS[2])(X).effects == frozenset()


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=NAMES)
def test_printed_programs_are_parsed(ours, theirs):
    closed = minijax.make_jaxpr(ours)(X)
    for width in (80, 30):
        assert str(parse_jaxpr(closed.pretty_print(width=width))) == str(closed)
    if ours.__name__ in ("basic", "loops"):  # the texts of the other programs lack constants, or the steps of slices
        read = minijax.extend.core.jaxpr_as_fun(parse_jaxpr(str(closed), closed.consts))
        check(read(X), minijax.tree.leaves(ours(X)))


def ref(lib):
    return lib.new_ref(X)


REFUSED = {
    "dtype": lambda lib: ref(lib).__setitem__(0, np.int32(3)),
    "shape": lambda lib: ref(lib).__setitem__(..., np.ones(2, np.float32)),
    "bounds": lambda lib: ref(lib)[5],
    "step": lambda lib: ref(lib)[::-1],
    "mask": lambda lib: ref(lib)[np.array([True, False, True])],
    "operator": lambda lib: ref(lib) + 1,
    "traced operand": lambda lib: lib.jit(lambda r: lib.numpy.sin(r))(ref(lib)),
    "tree": lambda lib: lib.new_ref({"a": X}),
    "no reference": lambda lib: lib.ref.get(X, 0),
    "returned": lambda lib: lib.jit(lambda r: r)(ref(lib)),
    "carried": lambda lib: lib.lax.scan(lambda c, y: (c, y), ref(lib), X),
    "twice": lambda lib: (lambda r: lib.jit(lambda a, b: a[...] + b[...])(r, r))(ref(lib)),
    "differentiated": lambda lib: (lambda r: lib.grad(lambda x: (r.__setitem__(0, x), x)[1])(2.0))(ref(lib)),
    "vmapped": lambda lib: (lambda r: lib.vmap(lambda x: r.__setitem__(0, x))(X))(ref(lib)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_have_the_types_of_jax(name):
    import jax.ref

    with pytest.raises(Exception) as ours:  # noqa: B017, PT011  (compared below)
        REFUSED[name](minijax)
    with pytest.raises(Exception) as theirs:  # noqa: B017, PT011
        REFUSED[name](jax)
    assert type(ours.value).__name__ == type(theirs.value).__name__
    assert len(str(ours.value)) > len(str(theirs.value)) or name == "operator"


def test_frozen_references_are_refused():
    """JAX documents that a frozen reference must not be used, but raises no error."""
    r = minijax.new_ref(X)
    np.testing.assert_array_equal(minijax.freeze(r), X)
    with pytest.raises(ValueError, match="was frozen"):
        r[0]
    with pytest.raises(ValueError, match="was frozen"):
        r[0] = 1.0
    s = minijax.new_ref(X)
    minijax.free_ref(s)
    with pytest.raises(ValueError, match="was frozen by freeze"):
        s[0]


def test_cotangents_of_a_swap_are_mapped_along_different_axes():
    """JAX's vmap maps the second cotangent along the wrong axis, so here JAX is called for each element."""

    def swapped(ns, x, y):
        ref = ns.new_ref(x)
        return ns.ref.swap(ref, ..., ns.lax.sin(y)), ns.freeze(ref)

    def pulled(ns):
        return lambda a, b: ns.vjp(lambda x, y: swapped(ns, x, y), X, X)[1]((a, b))

    a, b = np.arange(12.0, dtype="float32").reshape(2, 2, 3)
    found = minijax.vmap(pulled(minijax), (0, 1))(a, b.T)
    one_by_one = [pulled(jax)(*each) for each in zip(a, b, strict=True)]
    for ours, theirs in zip(found, zip(*one_by_one, strict=True), strict=True):
        np.testing.assert_allclose(ours, np.stack(theirs), rtol=1e-6)


def test_reverse_mode_with_respect_to_a_reference_is_refused():
    with pytest.raises(NotImplementedError, match="Take an array as the argument"):
        minijax.grad(lambda r: r[0])(minijax.new_ref(X))


def test_pmap_refuses_references():
    with pytest.raises(NotImplementedError, match="pmap of a function that takes or closes over a mutable array"):
        minijax.pmap(lambda r: r[0])(minijax.new_ref(jnp.ones((1, 3))))


def test_one_function_takes_arrays_and_references():
    first = minijax.jit(lambda r, t=None: r[0] * 2 + (0 if t is None else t["a"][1]))
    r = minijax.new_ref(X)
    for _ in range(3):
        assert first(X) == first(jnp.asarray(X)) == first(r) == 1
        assert first(X, {"a": r}) == first(r, {"a": X}) == first(X, {"a": X}) == 2.5


def test_a_slice_is_part_of_the_program():
    (eqn,) = minijax.make_jaxpr(lambda r, i: r[1:, i])(minijax.new_ref(jnp.ones((3, 3))), 0).eqns
    assert eqn.params["index"] == (Slice(1, 2, 1), None)
