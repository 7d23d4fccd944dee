"""Borrowed names: the public names of JAX that minijax's modules lack.

``python -m tests.interop.test_names`` prints the table for the installed JAX.
"""

import importlib
import re
import subprocess
import sys
import textwrap
import types
import warnings

import jax
import jax.scipy.sparse.linalg
import numpy as np
import pytest

import minijax as mj
from minijax import numpy as jnp
from minijax.core.borrowing import public_names as known_names

pytestmark = pytest.mark.usefixtures("compiled_quickly")

PUBLIC = known_names()


def public_names(module):
    """The public names of a JAX module, without deprecated ones. Submodules count only if the table has them."""
    theirs = importlib.import_module(f"jax.{module}")
    found = []
    for name in dir(theirs):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                value = getattr(theirs, name)
            except (AttributeError, DeprecationWarning):
                continue
        if name[0] != "_" and not isinstance(value, types.ModuleType) and name not in ("Callable", "annotations"):
            found.append(name)
    inside = [other.removeprefix(f"{module}.") for other in PUBLIC if other.startswith(f"{module}.")]
    return sorted({*found, *[name for name in inside if "." not in name]})


@pytest.mark.parametrize("module", PUBLIC)
def test_the_table_lists_the_names_of_jax(module):
    assert list(PUBLIC[module]) == public_names(module)


def test_names_are_known_without_jax():
    program = """
        import sys
        import minijax.numpy as jnp
        import minijax.interop, minijax.scipy.special, minijax.nn.initializers, minijax.random, minijax.lax.linalg
        import minijax.scipy.stats.norm as norm, minijax.scipy.sparse.linalg
        assert norm is minijax.scipy.stats.norm and "logpdf" in dir(norm)
        assert {"unique", "sin", "fft"} <= set(dir(jnp)) and "cholesky" in dir(minijax.lax.linalg)
        for name, near in (("sinn", "sin or sinh"), ("uniqe", "unique"), ("xyzzy", "")):
            try:
                getattr(jnp, name)
            except AttributeError as error:
                assert near in str(error) and "neither has JAX" in str(error) and error.name == name, error
            else:
                raise AssertionError(name)
        assert "jax" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


def test_parsing_borrows_primitives_of_a_printed_program():
    program = """
        import numpy as np
        from minijax.extend.core import jaxpr_as_fun, parse_jaxpr
        equations = "b:f32[2,2] c:f32[2] = geqrf a; d:f32[2,2] = cholesky a"
        closed = parse_jaxpr("{ lambda ; a:f32[2,2]. let " + equations + " in (c, d) }")
        assert [(eqn.primitive.name, eqn.primitive.borrowed_from) for eqn in closed.eqns] == [
            ("geqrf", "JAX"), ("cholesky", "JAX")
        ]
        _, factor = jaxpr_as_fun(closed)(np.float32([[4, 0], [0, 9]]))
        assert np.diag(factor).tolist() == [2, 3]
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


X = np.array([3.0, 1.0, 2.5, 1.0], np.float32)
SQUARE = np.array([[2.0, 0.5], [0.25, 1.0]], np.float32)
# (module, name, positional arguments, keyword arguments)
CALLS = [
    ("numpy", "unique", (X,), {}),
    ("numpy", "where", (X > 1,), {}),
    ("numpy.linalg", "det", (SQUARE,), {}),
    ("scipy.stats.norm", "logpdf", (X, 0.5), {"scale": 2.0}),
    ("image", "resize", (SQUARE, (4, 4), "linear"), {}),
    ("lax", "top_k", (X, 2), {}),
]


@pytest.mark.parametrize(("module", "name", "args", "kwargs"), CALLS, ids=[f"{c[0]}.{c[1]}" for c in CALLS])
def test_borrowed_functions_match_jax(module, name, args, kwargs):
    theirs = getattr(importlib.import_module(f"jax.{module}"), name)(*args, **kwargs)
    parent, _, last = module.rpartition(".")
    holder = getattr(importlib.import_module(f"minijax.{parent}"), last) if parent else getattr(mj, last)
    ours = getattr(holder, name)(*map(jnp.asarray, args[:1]), *args[1:], **kwargs)
    found, wanted = mj.tree.leaves(ours), jax.tree.leaves(theirs)
    assert all(isinstance(x, mj.Array) for x in found)
    assert [(x.dtype, x.weak_type) for x in found] == [(x.dtype, x.weak_type) for x in wanted]
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=2e-6, atol=2e-6)


def test_borrowed_functions_are_transformed_and_watched():
    def between(lib, x):
        return lib.scipy.special.hyp1f1(1.5, 2.5, x)

    x = jnp.asarray(SQUARE)
    wanted = jax.grad(lambda a: between(jax, a).sum() ** 2)(SQUARE)
    np.testing.assert_allclose(mj.jit(mj.grad(lambda a: between(mj, a).sum() ** 2))(x), wanted, rtol=2e-6)
    assert "Borrowed from JAX" in (mj.scipy.special.hyp1f1.__doc__ or "")
    ours = mj.make_jaxpr(lambda x: between(mj, x))(x)
    theirs = str(jax.make_jaxpr(lambda x: between(jax, x))(SQUARE))
    assert str(ours) == re.sub(r"np\.int64\((-?\d+)\)", r"\1", theirs)


def test_functions_that_need_values_report_tracers():
    assert jnp.unique(jnp.asarray(X)).shape == (3,)
    with pytest.raises(mj.errors.ConcretizationTypeError, match="size"):
        mj.jit(jnp.unique)(jnp.asarray(X))
    assert mj.jit(lambda x: jnp.unique(x, size=3))(jnp.asarray(X)).shape == (3,)
    with pytest.raises(mj.errors.TracerArrayConversionError, match="array_repr is borrowed from JAX.* needs the value"):
        mj.jit(jnp.array_repr)(jnp.asarray(X))


def test_borrowed_functions_keep_64_bit_values():
    with mj.enable_x64(True):
        assert jnp.unique(jnp.array([2**40 + 1, 2**41 + 1, 5])).tolist() == [5, 2**40 + 1, 2**41 + 1]


if __name__ == "__main__":
    for each in PUBLIC:
        sys.stdout.write(f"{each}: {' '.join(public_names(each))}\n")
