"""``checkify`` beside JAX's: messages, results and programs, under each transformation and for each set of errors."""

from __future__ import annotations

import functools
import re

import jax
import jax.experimental.checkify as theirs
import jax.numpy as rnp
import numpy as np
import pytest

import minijax
import minijax.experimental.checkify as ours
import minijax.numpy as jnp

X, V = np.float32(-1.0), np.array([1.0, -2.0, 4.0, -3.0], np.float32)
SETS = ("user_checks", "nan_checks", "index_checks", "div_checks", "float_checks", "automatic_checks", "all_checks")


@functools.cache
def functions(name):
    """Functions with what they are called on, for the library called so."""
    lib, np_, ck = {"jax": (jax, rnp, theirs), "minijax": (minijax, jnp, ours)}[name]
    found = {}

    def case(*args):
        def register(f):
            found[f.__name__] = (f, args)
            return f

        return register

    def positive(x):
        ck.check(x > 0, "must be positive: {x}", x=x)
        return x

    @case(X, np.int32(5))
    def everything(x, i):
        ck.check(x > 0, "x must be positive, got {x}, {}", np_.ones(2), x=x)
        y = np_.arange(3.0)[i]
        return np_.log(x) / (y - y)

    @case(X)
    def two(x):
        ck.check(x > -2, "first")
        ck.check(x > 0, "second")
        ck.check(x > 1, "third {}", x)
        return x

    @case(V)
    def scan(xs):
        def body(c, x):
            ck.check(x < 3, "big {x}", x=x)
            return c + np_.sqrt(x), 1 / (x - 4)

        return lib.lax.scan(body, np.float32(0), xs)

    @case(np.int32(0))
    def loop(n):
        def body(c):
            ck.check(c < 3, "big {c}", c=c)
            return c + 1

        def again(c):
            ck.check(c != 2, "two {c}", c=c)
            return c < 10

        return lib.lax.while_loop(again, body, n)

    @case(np.bool_(True), X)
    def branch(p, x):
        return lib.lax.cond(p, positive, np_.log, x)

    @case(np.bool_(False), X)
    def other_branch(p, x):
        return lib.lax.cond(p, positive, np_.log, x)

    @case(V)
    def mapped(xs):
        return lib.vmap(positive)(xs)

    @case(X)
    def gradient(x):
        return lib.grad(lambda x: positive(x) * x)(x)

    @case(X)
    def called(x):
        return lib.jit(lambda x: lib.jit(positive)(x) + np_.sqrt(x))(x)

    @case(X)
    def remat(x):
        return lib.checkpoint(lambda x: positive(x * 0.5))(x)

    @case(X)
    def custom(x):
        return lib.nn.relu(np_.log(x)) + positive(x)

    @case(V, np.int32(3))
    def blocks(x, i):
        return lib.lax.dynamic_update_slice(x, lib.lax.dynamic_slice(x, (i,), (2,)), (i - 1,))

    @case(V, np.int32(7))
    def written(x, i):
        return x.at[i].set(1.0), x.at[np_.array([0, 1]) + i].add(1.0), x[np_.array([[0], [2]]) + i]

    @case(X)
    def debug(x):
        ck.debug_check(x > 0, "debugging {}", x)
        return x

    @case(X)
    def nothing(x):
        return x + 1

    return found


def both(name):
    return functions("minijax")[name], functions("jax")[name][0]


NAMES = list(functions("minijax"))


@pytest.mark.parametrize("name", NAMES)
def test_messages_and_results_are_jaxs(name):
    (mine, args), real = both(name)
    args_real = tuple(map(rnp.asarray, args))
    args = tuple(map(jnp.asarray, args))
    for which in SETS if name == "everything" else ("all_checks",):
        error, out = ours.checkify(mine, getattr(ours, which))(*args)
        wanted, expected = theirs.checkify(real, getattr(theirs, which))(*args_real)
        assert error.get() == wanted.get(), which
        for x, y in zip(jax.tree.leaves(out), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(np.asarray(x), y, rtol=1e-6)
            assert x.dtype == y.dtype
    jitted, _ = minijax.jit(ours.checkify(mine, ours.all_checks))(*args)
    assert jitted.get() == wanted.get()


# a loop's condition is not evaluated where nothing in it can fail; JAX evaluates it and keeps that alive; what is
# computed for a message is laid out otherwise; a custom rule's call is checked beside it, JAX gives it errors
DIFFERENT = {"loop", "blocks", "written", "everything", "custom"}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in DIFFERENT])
def test_programs_are_jaxs(name):
    (mine, args), real = both(name)

    def plain(closed):
        text = re.sub(r"np\.int64\((\d+)\)", r"\1", str(closed))
        return re.sub(r" \d{1,4}:i32\[\] -1:i32\[\]", " CODE -1:i32[]", text)

    ck, real_ck = ours.checkify(mine), theirs.checkify(real)
    assert plain(minijax.make_jaxpr(ck)(*args)) == plain(jax.make_jaxpr(real_ck)(*map(rnp.asarray, args)))


def test_a_mapped_function_has_an_error_for_each_element():
    error, out = minijax.vmap(ours.checkify(functions("minijax")["two"][0]))(V)
    wanted, _ = jax.vmap(theirs.checkify(functions("jax")["two"][0]))(rnp.asarray(V))
    assert error.get() == wanted.get()
    assert out.shape == (4,)
    with pytest.raises(ours.JaxRuntimeError, match="at mapped index 1: first"):
        error.throw()


def test_errors_are_raised_or_handed_on():
    two = functions("minijax")["two"][0]
    error, _ = ours.checkify(two)(X)
    with pytest.raises(ValueError, match=r"second \(`check` failed\)\nIt was checked at .*test_checkify.py:\d+"):
        error.throw()
    ours.checkify(two)(np.float32(2))[0].throw()
    with pytest.raises(ours.JaxRuntimeError, match="second"):
        ours.check_error(error)

    def handing_on(x):
        inner, out = ours.checkify(two)(x)
        ours.check_error(inner)
        return out

    assert ours.checkify(minijax.jit(handing_on))(X)[0].get() == "second (`check` failed)"
    gradient = minijax.grad(lambda x: ours.checkify(lambda x: two(x) * x)(x)[1])
    assert gradient(X) == -2


REFUSED = {
    "number": lambda ck, lib: ck.check(1.0, "a"),
    "array": lambda ck, lib: ck.check(np.array([True, False]), "a"),
    "text": lambda ck, lib: ck.check(True, "a {b}", b="x"),
    "failed": lambda ck, lib: ck.check(False, "a"),
    "staged": lambda ck, lib: lib.jit(lambda x: ck.check(x > 0, "a"))(1.0),
    "no error": lambda ck, lib: ck.check_error(3),
    "no function": lambda ck, lib: ck.checkify(3)(1.0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_use(name):
    with pytest.raises(Exception) as mine:  # noqa: B017, PT011  (compared below)
        REFUSED[name](ours, minijax)
    with pytest.raises(Exception) as real:  # noqa: B017, PT011
        REFUSED[name](theirs, jax)
    assert type(mine.value).__name__ == type(real.value).__name__
    ours.debug_check(False, "not checked")
    assert minijax.jit(functions("minijax")["debug"][0])(X) == X
