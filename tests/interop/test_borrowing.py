"""Borrowed functions and classes in use: instances, functions as arguments, warnings, errors, help."""

import functools
import inspect
import pydoc
import re
import subprocess
import sys
import textwrap
import traceback
import warnings

import jax
import jax.scipy.optimize
import jax.scipy.sparse.linalg
import jax.scipy.spatial.transform
import numpy as np
import pytest

import minijax as mj
from minijax import numpy as jnp
from minijax import tree_util
from minijax.repl import batch
from minijax.tools.documents.document import plain

from ..oracle.subject import assert_same

pytestmark = pytest.mark.usefixtures("compiled_quickly")

X = np.array([0.3, 0.75, 0.25, 1.5], np.float32)
TURNS = np.array([[0.5, 1.0, -2.0], [2.0, 0.0, 1.5]], np.float32)


def density(lib, x):
    made = lib.scipy.stats.gaussian_kde(x, bw_method=lambda kde: kde.neff ** (-1 / (kde.d + 2)))
    return made.logpdf(x * 2) + made(x) + made.integrate_gaussian(x[0], x[1]) + made.d + made.n


def between_grid_points(lib, x):
    made = lib.scipy.interpolate.RegularGridInterpolator((x, x), x[:, None] * x, fill_value=None)
    return made(lib.numpy.stack([x[::-1], x], 1)) + made((x, x), method="nearest") + made.grid[0] + made.values[0]


def turned(lib, x):
    rotation = lib.scipy.spatial.transform.Rotation
    both = rotation.concatenate([rotation.from_rotvec(TURNS), rotation.from_euler("xz", x[:2][None], degrees=True)])
    (quat,) = (both[0] * rotation.from_quat(x).inv(),)
    return both.apply(TURNS[0]), quat.as_matrix(), len(both), rotation(x).single


INSTANCES = [density, between_grid_points, turned]


@pytest.mark.parametrize("program", INSTANCES)
def test_instances_match_those_of_jax(program):
    wanted = program(jax, jax.numpy.asarray(X))
    assert_same(program(mj, jnp.asarray(X)), wanted, scale=8)
    numbers = {x for x in jax.tree.leaves(wanted) if type(x) in (bool, int)}
    assert numbers == {x for x in mj.tree.leaves(program(mj, jnp.asarray(X))) if type(x) in (bool, int)}


@pytest.mark.parametrize("program", [density, turned])
def test_instances_of_traced_values_are_transformed(program):
    def total(lib, x):
        return sum(leaf.sum() for leaf in lib.tree.leaves(program(lib, x)) if not isinstance(leaf, (bool, int)))

    wanted = jax.jit(jax.grad(functools.partial(total, jax)))(X)
    assert_same(mj.grad(functools.partial(total, mj))(jnp.asarray(X)), wanted, scale=30)
    assert_same(mj.jit(mj.grad(functools.partial(total, mj)))(X), wanted, scale=30)
    batch = np.stack([X, X + 1])
    mapped = [np.asarray(jax.jit(functools.partial(total, jax))(x)) for x in batch]
    assert_same(mj.vmap(functools.partial(total, mj))(batch), np.stack(mapped), scale=30)


@pytest.mark.parametrize("program", [between_grid_points])
def test_methods_stage_the_equations_of_jax(program):
    ours, theirs = (lib.make_jaxpr(functools.partial(program, lib))(X) for lib in (mj, jax))
    assert str(ours) == re.sub(r"np\.int64\((-?\d+)\)", r"\1", str(theirs))


def test_instances_hold_minijax_arrays_and_are_pytrees():
    made, theirs = (lib.scipy.stats.gaussian_kde(lib.numpy.asarray(X)) for lib in (mj, jax))
    assert isinstance(made.dataset, mj.Array) and isinstance(made, jax.scipy.stats.gaussian_kde)
    assert_same(mj.tree.leaves(made), jax.tree.leaves(theirs), scale=8)
    assert_same(mj.jit(lambda kde, x: kde.logpdf(x))(made, X), theirs.logpdf(X), scale=8)
    back = mj.jit(lambda kde: kde)(made)
    assert type(back) is mj.scipy.stats.gaussian_kde and isinstance(back.covariance, mj.Array)
    with pytest.raises(AttributeError, match="cannot assign to field"):
        made.neff = 1
    rotation = mj.scipy.spatial.transform.Rotation.from_quat(X)
    assert isinstance(rotation, tuple) and [x.shape for x in mj.tree.leaves(rotation)] == [(4,)]
    assert mj.scipy.spatial.transform.Rotation is type(mj.tree.map(lambda x: x + 1, rotation))


def test_methods_are_watched_equation_by_equation():
    session = batch.new_session({"x": jnp.asarray(X), "kde": mj.scipy.stats.gaussian_kde(X)})
    outcome = session.run_line("%log kde.logpdf(x)")
    assert outcome.error is None
    text = plain(outcome.shown, 200)
    assert "jit[_gaussian_kernel_eval](" in text and "transpose(self.dataset)" in text, text


class Pair:
    """A pytree node that is registered with minijax only."""

    def __init__(self, first, second):
        self.first, self.second = first, second


tree_util.register_pytree_node(Pair, lambda pair: ((pair.first, pair.second), None), lambda _, both: Pair(*both))


def test_nodes_that_only_minijax_knows_go_through_jax():
    def product(pair):
        assert type(pair) is Pair
        return Pair(2 * pair.first, 3 * pair.second)

    solved, _ = mj.scipy.sparse.linalg.cg(product, Pair(jnp.ones(2), jnp.ones(3)))
    assert type(solved) is Pair
    assert_same([solved.first, solved.second], [np.full(2, 1 / 2, np.float32), np.full(3, 1 / 3, np.float32)])


class Squares:
    def __init__(self, target):
        self.target = target

    def loss(self, x):
        return jnp.sum((x - self.target) ** 2)

    __call__ = loss


FUNCTIONS = {
    "a jitted function": lambda target: mj.jit(lambda x: jnp.sum((x - target) ** 2)),
    "a Partial": lambda target: tree_util.Partial(lambda target, x: jnp.sum((x - target) ** 2), target),
    "a bound method": lambda target: Squares(target).loss,
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_jax_calls_functions_of_every_kind(kind):
    def nearest(target):
        return mj.scipy.optimize.minimize(FUNCTIONS[kind](target), jnp.zeros(2), method="BFGS").x

    np.testing.assert_allclose(nearest(2.0), np.full(2, 2, np.float32), atol=1e-4)
    np.testing.assert_allclose(mj.jit(nearest)(2.0), np.full(2, 2, np.float32), atol=1e-4)


def welch(x):
    return mj.scipy.signal.welch(x, nperseg=32)


def test_warnings_of_jax_have_the_users_line_at_every_call():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(2):
            welch(jnp.ones(16))
        mj.jit(welch)(np.ones(8, np.float32))
    line = inspect.getsourcelines(welch)[1] + 1
    assert [(each.filename, each.lineno) for each in found] == [(__file__, line)] * 3
    assert all("nperseg" in str(each.message) for each in found)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="nperseg") as caught:
            welch(jnp.ones(16))
    assert caught.traceback[-1].frame.code.name == "warn" and traceback.extract_tb(caught.tb)[1].lineno == line


def test_warnings_of_the_users_functions_keep_their_line():
    def loss(x):
        warnings.warn("the user's own", stacklevel=1)
        return jnp.sum(x**2)

    with pytest.warns(UserWarning, match="the user's own") as found:
        mj.scipy.optimize.minimize(loss, jnp.ones(2), method="BFGS")
    assert {(each.filename, each.lineno) for each in found} == {(__file__, inspect.getsourcelines(loss)[1] + 1)}


def own_lines(error):
    return [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == __file__]


def test_errors_of_jax_end_at_the_users_line():
    with pytest.raises(ValueError, match="noverlap must be less than nperseg") as caught:
        mj.scipy.signal.istft(jnp.ones((5, 4)) + 0j, nperseg=8, noverlap=9)
    shown = "".join(traceback.format_exception(caught.value))
    assert "/jax/" not in shown and "JAX_TRACEBACK_FILTERING" not in shown
    assert "mj.scipy.signal.istft" in (own_lines(caught.value)[-1].line or "")
    with pytest.raises(ValueError, match="not defined") as caught:
        mj.scipy.interpolate.RegularGridInterpolator((X,), X, method="no")
    assert "/jax/" not in "".join(traceback.format_exception(caught.value))


def test_frames_of_jax_are_shown_on_request():
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    try:
        with pytest.raises(ValueError, match="noverlap") as caught:
            mj.scipy.signal.istft(jnp.ones((5, 4)) + 0j, nperseg=8, noverlap=9)
    finally:
        jax.config.update("jax_traceback_filtering", before)
    assert "istft" in traceback.extract_tb(caught.tb)[-1].name


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_segment_functions_match_jax_under_vmap_of_the_data(dtype):
    def sums(lib):
        ids = lib.numpy.array([2, 0, 2, 1], dtype)
        by_position = lib.vmap(lambda x: lib.ops.segment_sum(x, ids))(lib.numpy.asarray(X[None]))
        return by_position, lib.vmap(lambda x: lib.ops.segment_max(x, segment_ids=ids))(lib.numpy.asarray(X[None]))

    assert_same(sums(mj), sums(jax))


def test_known_arguments_keep_their_values_under_vmap_and_grad():
    mask, ids = np.array([True, False, True, True]), np.array([1, 0, 1, 2])

    def found(lib):
        of_mask = lambda x: lib.numpy.compress(mask, x).sum() + lib.numpy.extract(mask, x)[0]  # noqa: E731
        of_ids = lambda x: lib.ops.segment_min(x, ids)[1] * 2.0  # noqa: E731
        x = lib.numpy.asarray(X)
        return [lib.grad(of_mask)(x), lib.vmap(of_mask)(x[None]), lib.grad(of_ids)(x), lib.vmap(of_ids)(x[None])]

    assert_same(found(mj), found(jax))
    for lib in (mj, jax):
        with pytest.raises(lib.errors.TracerBoolConversionError):
            lib.jit(functools.partial(lib.numpy.compress, mask))(X)


def test_a_traced_value_where_jax_needs_a_number_raises_minijaxs_error():
    def logarithm(x, d):
        return mj.scipy.special.multigammaln(x, d)

    with pytest.raises(mj.errors.ConcretizationTypeError) as caught:
        mj.jit(logarithm)(1.0, 3)
    line = inspect.getsourcelines(logarithm)[1] + 1
    assert f"test_borrowing.py:{line}" in str(caught.value)
    assert "minijax.scipy.special.multigammaln is borrowed" in str(caught.value)
    assert own_lines(caught.value)[-1].lineno == line


@pytest.mark.parametrize("name", ["stats.norm.logpdf", "stats.gaussian_kde"])
def test_help_and_signatures_are_those_of_jax(name):
    ours, theirs = (functools.reduce(getattr, name.split("."), lib.scipy) for lib in (mj, jax))
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))  # compared as text: one default is NaN
    assert (inspect.getdoc(theirs) or "") in (inspect.getdoc(ours) or "")
    assert ours.__name__ == theirs.__name__ and ours.__module__.startswith("minijax.scipy")
    shown = pydoc.plain(pydoc.render_doc(ours))
    assert str(inspect.signature(theirs))[1:-1].split(",")[0] in shown
    assert (inspect.getdoc(theirs) or "").splitlines()[0] in shown


def test_jax_is_imported_once_and_by_the_first_borrowed_name():
    program = """
        import sys
        import minijax.numpy as jnp
        from minijax import scipy
        assert "jax" not in sys.modules
        scipy.special.gammaln(jnp.ones(3))
        first = len(sys.modules)
        assert "jax" in sys.modules
        scipy.special.ndtri(jnp.ones(3) / 2), scipy.special.xlogy(1., 2.), scipy.special.hyp1f1
        print(len(sys.modules) - first)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 5
