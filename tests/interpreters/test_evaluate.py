"""Evaluation does not warn about infinities and NaNs, with any warning filters. The user's NumPy code still warns."""

import contextlib
import warnings

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.core.numpy_warnings import QUIET
from minijax.core.primitive import Primitive
from minijax.interpreters import evaluate

OPERATIONS = {
    "overflow": (lambda: jnp.exp(1000.0), np.inf),
    "product": (lambda: jnp.float32(1e30) * jnp.float32(1e30), np.inf),
    "log of zero": (lambda: jnp.log(0.0), -np.inf),
    "invalid": (lambda: jnp.sqrt(jnp.array([-1.0]))[0], np.nan),
    "division": (lambda: jnp.float32(1.0) / jnp.float32(0.0), np.inf),
    "sum": (lambda: jnp.sum(jnp.full(3, 3e38, "float32")), np.inf),
    "grad": (lambda: minijax.grad(jnp.sqrt)(0.0), np.inf),
    "vmap": (lambda: minijax.vmap(lambda x: 1 / x)(jnp.zeros(2))[0], np.inf),
    "loop": (lambda: lax.fori_loop(0, 3, lambda i, x: x * x, jnp.float32(1e30)), np.inf),
    "conversion": (lambda: lax.convert_element_type(jnp.float32(1e30), "float16"), np.inf),
}
RESETS = {
    "reset": warnings.resetwarnings,
    "always": lambda: warnings.simplefilter("always"),
    "error": lambda: warnings.simplefilter("error"),
    "an earlier state": lambda: setattr(warnings, "filters", [f for f in warnings.filters if f[0] != "ignore"]),
    "none": lambda: None,
}


@pytest.mark.parametrize("reset", RESETS)
def test_minijax_is_silent_about_overflow_and_the_users_numpy_is_not(reset):
    for name, (run, expected) in OPERATIONS.items():
        state = np.geterr()
        with warnings.catch_warnings(record=True) as caught:
            RESETS[reset]()
            for _ in range(2):
                np.testing.assert_equal(float(run()), expected, name)
        assert not caught, (name, caught[0])
        assert np.geterr() == state
        # as in JAX, the user's own NumPy warns, also in callbacks
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            np.log(0.0)
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            run()  # minijax's filter becomes the first again, but NumPy in a callback still warns
            minijax.pure_callback(np.log, minijax.ShapeDtypeStruct((), np.float32), np.float32(0.0))


@pytest.mark.parametrize("how", ["raise", "ignore", "warn"])
def test_the_users_error_state_is_left_alone(how):
    with np.errstate(all=how):
        state = np.geterr()
        for name, (run, expected) in OPERATIONS.items():
            np.testing.assert_equal(float(run()), expected, name)
        assert np.geterr() == state
        raises = pytest.raises(FloatingPointError) if how == "raise" else contextlib.nullcontext()
        with raises, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.log(0.0)


def test_the_filter_is_installed_once():
    with warnings.catch_warnings():
        for _ in range(5):
            warnings.simplefilter("default")
            jnp.exp(1000.0)
        assert list(warnings.filters).count(QUIET) == 1


def test_another_thread_may_remove_the_filter_meanwhile(monkeypatch):
    class Filters(list):
        def remove(self, each):
            super().remove(each)
            raise ValueError("list.remove(x): x not in list")

    monkeypatch.setattr(warnings, "filters", Filters([("error", None, RuntimeWarning, None, 0), *warnings.filters]))
    assert float(jnp.exp(1000.0)) == np.inf


def test_the_function_of_a_signature_is_chosen_once_per_rule(monkeypatch):
    primitive, asked = Primitive("twice"), []
    primitive.def_abstract_eval(lambda x, by: x)

    @evaluate.by_type
    def choose(x, by):
        asked.append((x.shape, by))
        return lambda x: x * np.float32(by)

    monkeypatch.setitem(evaluate.numpy_rules, primitive, choose)
    vector, scalar = jnp.ones(3), jnp.float32(1.0)
    for _ in range(2):
        assert [primitive.bind(x, by=by).max() for x, by in [(vector, 2), (scalar, 2), (scalar, 3)]] == [2, 2, 3]
    assert asked == [((3,), 2), ((), 2), ((), 3)]
    assert choose(np.float32(1.0), by=4) == 4  # the rule can also be called with NumPy values
    monkeypatch.setitem(evaluate.numpy_rules, primitive, lambda x, by: x * np.float32(10 * by))
    assert primitive.bind(scalar, by=2) == 20
    primitive.def_abstract_eval(lambda x, by: x.update(weak_type=True))
    assert primitive.bind(scalar, by=2).weak_type
