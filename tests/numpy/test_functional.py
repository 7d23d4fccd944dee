"""NumPy's functions that take functions, and ``ravel_pytree``: values, programs and errors beside JAX's."""

from __future__ import annotations

import jax
import jax.flatten_util as theirs_flatten
import jax.numpy as rnp
import numpy as np
import pytest

import minijax as mj
from minijax import flatten_util
from minijax import numpy as jnp

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)
TREE = {"a": X, "b": np.ones(2, np.int32), "c": 1.0}

# expressions in n (numpy), u (flatten_util), x, tree; what they raise counts too
SAME = """
n.vectorize(lambda a, b: a * b + 1)(x, x[:1])
n.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")(x, x[:1])
n.vectorize(lambda a, b: (a, b), signature="(n),(n)->(n),(n)")(x[:1], x[:1])
n.vectorize(lambda a: a + n.arange(2.0))(x)
n.vectorize(lambda a: [a, a])(x)
n.vectorize(lambda a, b=10.0: a * b)(x, b=x)
n.vectorize(lambda a, b: a * b, excluded={"b"})(x, b=x)
n.vectorize(lambda a, b: a + b.sum(), excluded={1})(x, x)
n.vectorize(lambda a: a, signature="(n")(x)
n.vectorize(lambda a: a, signature="(n),(n)->(n)")(x)
n.vectorize(lambda a, b: a, signature="(n),(n)->(n)")(x, x[:, :2])
n.vectorize(lambda a: a, signature="(n)->()")(x)
n.vectorize(lambda a: (a, a), signature="(n)->(n)")(x)
n.vectorize(lambda a: a, signature="(n)->(n)")(1.0)
n.vectorize(lambda a: a, signature="(4)->(4)")(x)
n.vectorize(lambda a, b: a, excluded={-1})(x, x)
n.vectorize(lambda a, b: a, excluded={1.0})(x, x)
n.vectorize(lambda a, b: a)(x, np.ones(4))
n.apply_along_axis(lambda v: v.sum(), 0, x)
n.apply_along_axis(lambda v, k: v * k, 1, x, 2)
n.apply_along_axis(lambda v: v, 5, x)
n.apply_over_axes(n.sum, x, [0, 1])
n.apply_over_axes(lambda x, a: x.sum(), x, [0, 1])
n.fromfunction(lambda i, j: i + j, (2, 3))
n.fromfunction(n.add, (2, 2), dtype=int)
n.fromfunction(lambda i: i, 3)
n.piecewise(x, [x < 1, x > 2], [lambda v: v * 2, 3.0, lambda v: -v])
n.piecewise(x, [x < 1], [lambda v, k: v * k], k=3)
n.piecewise(x, x < 1, [1, 2])
n.piecewise(x, [x < 1], [1, 2, 3])
n.piecewise(np.arange(3), [np.array([True, False, False])], [1.5])
n.piecewise(1.0, [True], [lambda v: v * 2])
u.ravel_pytree(tree)[0]
u.ravel_pytree(tree)[1](np.arange(9.0, dtype=np.float32))
u.ravel_pytree({"a": x, "b": x[0]})[1](np.ones(9, np.int32))
u.ravel_pytree(())[0]
"""


def outcome(text: str, mine: bool) -> tuple[str, str]:
    scope = {"n": jnp if mine else rnp, "u": flatten_util if mine else theirs_flatten, "x": X, "tree": TREE, "np": np}
    try:
        found = eval(text, scope)
    except (TypeError, ValueError) as error:
        return type(error).__name__, str(error)
    return "", str(found)


@pytest.mark.parametrize("text", SAME.strip().splitlines())
def test_same_as_jax(text: str) -> None:
    assert outcome(text, mine=True) == outcome(text, mine=False)


def test_programs_are_jaxs() -> None:
    ours = mj.make_jaxpr(lambda a, b: jnp.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")(a, b))(X, X[:1])
    theirs = jax.make_jaxpr(lambda a, b: rnp.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")(a, b))(X, X[:1])
    assert str(ours) == str(theirs)


def test_the_function_may_close_over_what_is_differentiated() -> None:
    def loss(w: object, n: object) -> object:
        return n.vectorize(lambda a: a * w)(X).sum()  # type: ignore[attr-defined]

    assert mj.grad(loss)(2.0, jnp) == jax.grad(lambda w: loss(w, rnp))(2.0) == X.sum()
