"""Functions written for JAX run on minijax: values and derivatives match JAX's."""

import functools
import gc
import traceback
import weakref

import jax
import jax.numpy as rnp
import numpy as np
import pytest

import minijax as mj
from minijax import numpy as jnp
from minijax.interop import from_jax
from minijax.interop.traces import traces_of

pytestmark = pytest.mark.usefixtures("compiled_quickly")

X = np.array([0.5, 1.5, -0.25], np.float32)


def decay(x):
    def body(c, a):
        return c * 0.9 + rnp.tanh(a), c

    last, ys = jax.lax.scan(body, 0.0, x)
    return last + ys.sum()


def factored(x):
    return rnp.linalg.cholesky(rnp.outer(x, x) + 10 * rnp.eye(3)).sum()


def branching(x):
    return jax.lax.cond(x.sum() > 0, rnp.sin, rnp.cos, x[0]) + rnp.where(x > 1, x, 0.0).sum()


def custom_rules(x):
    return jax.nn.relu(x).sum() + jax.scipy.special.logsumexp(x) + jax.nn.softmax(x)[0]


def checkpointed(x):
    return jax.checkpoint(lambda x: rnp.sin(rnp.sin(x)).sum())(x)


@jax.custom_vjp
def clipped(x):
    return x * 2


clipped.defvjp(lambda x: (x * 2, x), lambda x, ct: (rnp.clip(ct * x, -1, 1),))


def own_vjp(x):
    return clipped(x).sum()


PROGRAMS = [decay, factored, branching, custom_rules, checkpointed, own_vjp]


@functools.cache
def values_of(fun):
    """JAX's value and gradient at X, and its gradients at two points, from one compilation."""
    return jax.jit(lambda x: (fun(x), jax.grad(fun)(x), jax.vmap(jax.grad(fun))(rnp.stack([x, x + 1]))))(X)


@pytest.mark.parametrize("fun", PROGRAMS, ids=lambda fun: fun.__name__)
def test_values_and_derivatives_match_jax(fun):
    mine, xs = from_jax(fun), jnp.stack([X, X + 1])
    near = {"rtol": 2e-6, "atol": 2e-6}
    value, gradient, gradients = values_of(fun)
    np.testing.assert_allclose(mine(X), value, **near)
    np.testing.assert_allclose(mj.jit(mine)(X), value, **near)
    np.testing.assert_allclose(mj.grad(mine)(jnp.asarray(X)), gradient, **near)
    np.testing.assert_allclose(mj.jit(mj.vmap(mj.grad(mine)))(xs), gradients, **near)


# ------------------------------------------------------------------------------------------------ arguments, results


class Layer:
    """A class that is registered as a pytree with JAX only; ``act`` is no leaf."""

    def __init__(self, w, act):
        self.w, self.act = w, act

    def __call__(self, x):
        return self.act(x @ self.w)


jax.tree_util.register_pytree_node(Layer, lambda x: ((x.w,), x.act), lambda act, leaves: Layer(*leaves, act))


def counted(fun):
    """``fun``, and a list to which each run adds its arguments."""
    runs = []

    def counting(*args, **kwargs):
        runs.append(args)
        return fun(*args, **kwargs)

    return counting, runs


def test_trees_keep_their_classes_and_get_minijax_arrays():
    def fun(layer, state, *, mode):
        assert mode == "train"
        assert state["none"] is None
        return Layer(layer.w * 2, layer.act), {"y": layer(state["x"]), "mode": mode, "none": None, "n": 3}

    w = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    x = np.ones(3, np.float32)
    for wrap in (jnp.asarray, rnp.asarray, np.asarray):
        layer, out = from_jax(fun)(Layer(wrap(w), rnp.tanh), {"x": wrap(x), "none": None}, mode="train")
        assert isinstance(layer, Layer)
        assert isinstance(layer.w, mj.Array)
        assert (out["mode"], out["none"], out["n"]) == ("train", None, 3)
        np.testing.assert_allclose(out["y"], np.tanh(x @ w), rtol=1e-6)
    bound = jax.tree_util.Partial(lambda a, b: a * b, rnp.ones(3) * 2)
    np.testing.assert_array_equal(from_jax(lambda p, x: p(x))(bound, jnp.ones(3)), [2, 2, 2])


def test_an_argument_without_a_hash_is_cached_by_identity():
    class Config:
        __hash__ = None

        def __init__(self, scale):
            self.scale = scale

    fun, runs = counted(lambda config, x: x * config.scale)
    mine, two, three = from_jax(fun), Config(2), Config(3)
    for config in (two, three, two, three):
        np.testing.assert_array_equal(mine(config, X), X * config.scale)
    assert len(runs) == 2


def test_numbers_are_constants_unless_they_keep_changing():
    fun, runs = counted(lambda x, rate, n: x[:n] * rate)
    mine = from_jax(fun)
    for step in range(50):
        np.testing.assert_allclose(mine(X, 0.5 / (step + 1), 2), X[:2] * np.float32(0.5 / (step + 1)), rtol=1e-6)
    assert len(runs) < 8
    # a number that must be a constant remains one; the other number is still traced
    for step in range(20):
        np.testing.assert_allclose(mine(X, 0.25 * step, step % 3 + 1), X[: step % 3 + 1] * np.float32(0.25 * step))
    lengths, before = from_jax(fun), len(runs)
    for n in range(8):
        assert mj.numpy.shape(lengths(np.zeros(9), 1.0, n)) == (n,)
    assert len(runs) - before < 20
    # whether a number can be traced may depend on the type of ``x``
    mixed = from_jax(lambda x, n: x * n if x.ndim == 1 else x[:n])
    for x in (X, np.eye(9, dtype=np.float32), X):
        for n in range(8):
            np.testing.assert_array_equal(mixed(x, n), x * n if x.ndim == 1 else x[:n])
    signed = from_jax(lambda x, sign: x * rnp.copysign(1.0, sign))
    assert (float(signed(np.float32(1), 0.0)), float(signed(np.float32(1), -0.0))) == (1, -1)


def test_results_that_are_not_traced_are_returned_unchanged():
    table = np.arange(3.0)
    mine = from_jax(lambda x: (table, 2.5, None, "text", len, rnp.zeros(2)))
    first, second = mine(X), mine(X)
    assert first[1:5] == (2.5, None, "text", len)
    assert isinstance(first[5], mj.Array)
    first[0][:] = 7  # each call returns a new copy of the table
    np.testing.assert_array_equal(second[0], [0, 1, 2])


def test_a_function_and_its_programs_die_together():
    class Model:
        def __init__(self):
            self.w = rnp.ones(3)

        def apply(self, x):
            return (x * self.w).sum()

    def keeping():
        weights = rnp.ones(3)
        model = Model()
        bound = functools.partial(lambda w, x: w * x, weights)
        funs = [lambda x: x * weights, jax.jit(lambda x: x + weights), bound, model.apply]
        for fun in funs:
            from_jax(fun)(X)
            assert len(traces_of(fun, "from_jax").found) == 1
        assert traces_of(model.apply, "from_jax") is traces_of(model.apply, "from_jax")
        return [weakref.ref(weights), weakref.ref(model)]

    refs = keeping()
    jax.clear_caches()
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_64_bit_mode_and_settings_of_jax_cause_a_new_trace():
    fun, runs = counted(lambda x: x * 2 + rnp.arange(3))
    mine = from_jax(fun)
    assert mine(X.astype(np.float64)).dtype == np.float32
    with mj.enable_x64(True):
        assert mine(X.astype(np.float64)).dtype == np.float64
    with jax.numpy_dtype_promotion("strict"), pytest.raises(Exception, match="promot"):
        mine(X)
    assert mine(X.astype(np.float64)).dtype == np.float32
    assert len(runs) == 3


def needs_a_truth_value(params, x):
    return x if params["scale"][0] > 0 else -x


def needs_an_array(params, x):
    return np.asarray(params["scale"]) * x


def needs_a_mask(params, x):
    return x[params["scale"] > 0]


def needs_a_shape(params, x):
    return rnp.zeros(params["scale"].sum().astype(int))


@pytest.mark.parametrize("fun", [needs_a_truth_value, needs_an_array, needs_a_mask, needs_a_shape])
def test_the_error_of_jax_names_the_argument_that_must_be_known(fun):
    with pytest.raises((jax.errors.JAXTypeError, jax.errors.JAXIndexError, TypeError)) as caught:
        from_jax(fun)({"scale": X}, X)
    message = str(caught.value)
    assert f"from_jax traced {fun.__name__} at {__file__}" in message
    assert "Python number" in message
    assert "flat" not in message
    if fun is not needs_a_mask:  # JAX's message does not name the argument
        assert "params['scale']" in message
    assert (__file__, fun.__name__) in [(f.filename, f.name) for f in traceback.extract_tb(caught.value.__traceback__)]


def test_errors_of_the_function_have_no_frames_of_jax():
    def raising(x):
        try:
            return 1 // 0
        except ZeroDivisionError as error:
            raise LookupError("the user's own") from error

    with pytest.raises(LookupError, match="the user's own") as caught:
        from_jax(raising)(X)
    assert caught.value.__cause__.args == ("integer division or modulo by zero",)
    with pytest.raises(TypeError, match="contracting dimensions") as caught:
        from_jax(lambda x: rnp.zeros(3) @ rnp.zeros(4))(X)
    assert traceback.extract_tb(caught.tb)[-1].filename == __file__
    assert "/jax/" not in "".join(traceback.format_exception(caught.value))


def test_returned_functions_close_over_computed_values():
    def make(x):
        def power(n):
            return x if n == 1 else power(n - 1) * x

        scaled = rnp.sin(x)
        partial = functools.partial(rnp.add, scaled)
        return {"add": lambda y, *, factor=scaled: x + y * factor, "power": power, "partial": partial}

    def use(made, y):
        return made["add"](y), made["add"](y, factor=2.0), made["power"](3), made["partial"](y)

    mine, theirs = from_jax(make), use(make(X), X)
    for got, wanted in zip(use(mine(X), X), theirs, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    through = mj.grad(lambda x: use(mine(x), x)[0].sum())(X)
    np.testing.assert_allclose(through, jax.grad(lambda x: use(make(x), x)[0].sum())(X), rtol=1e-6)
    with pytest.raises(NotImplementedError, match="closes over traced values"):
        from_jax(lambda x: jax.jit(lambda y: x + y))(X)
    pull = from_jax(lambda x: jax.vjp(rnp.sin, x)[1])(X)  # a Partial, whose arrays are leaves
    np.testing.assert_allclose(from_jax(lambda pull, ct: pull(ct)[0])(pull, X), np.cos(X) * X, rtol=1e-6)
