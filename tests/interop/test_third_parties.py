"""Commands on programs that use packages built on JAX keep the packages' objects whole, but not user functions."""

import sys

import jax
import numpy as np
import pytest

from minijax.interop import carrier
from minijax.repl import batch
from minijax.tools.documents.document import plain

# Modelled on Flax (objects with methods), Equinox (modules that are pytrees with functions as leaves, and its own jit)
# and Optax (named tuples of functions).
PACKAGE = """\
import dataclasses, functools
from typing import NamedTuple
import jax, jax.numpy as jnp

class Layer:
    def __init_subclass__(cls): dataclasses.dataclass(cls)
    def apply(self, params, x): return self(params, x)

class Module:
    def __init_subclass__(cls):
        dataclasses.dataclass(cls)
        names = [each.name for each in dataclasses.fields(cls)]
        jax.tree_util.register_dataclass(cls, data_fields=names, meta_fields=[])

class Linear(Module):
    w: jax.Array
    activation: object
    def __call__(self, x): return self.activation(jnp.dot(self.w, x))

class filter_jit:
    def __init__(self, fun):
        functools.update_wrapper(self, fun)
        self.fun = fun
    def __call__(self, *args):
        leaves, tree = jax.tree.flatten(args)
        arrays = [x if hasattr(x, 'dtype') else None for x in leaves]
        @jax.jit
        def run(arrays):
            full = [x if a is None else a for a, x in zip(arrays, leaves)]
            out = self.fun(*jax.tree.unflatten(tree, full))
            out_leaves, self.tree = jax.tree.flatten(out)
            self.statics = [None if hasattr(x, 'dtype') else x for x in out_leaves]
            return [x if hasattr(x, 'dtype') else None for x in out_leaves]
        outs = run(arrays)
        return jax.tree.unflatten(self.tree, [o if s is None else s for o, s in zip(outs, self.statics)])

class keeping_jit:
    def __init__(self, fun):
        functools.update_wrapper(self, fun)
        def run(*args): return fun(*args)
        run.__name__ = fun.__name__
        self.jitted = jax.jit(run)
    def __call__(self, *args): return self.jitted(*args)

class Optimizer(NamedTuple):
    init: object
    update: object

def sgd(rate):
    def init(params): return jax.tree.map(jnp.zeros_like, params)
    def update(grads, state): return jax.tree.map(lambda g, s: -rate * (g + 0.9 * s), grads, state)
    return Optimizer(init, update)

def total(x): return jnp.sum(x)

# a check like one in Flax NNX, whose models can change
def of_this_trace(model, x):
    if isinstance(jnp.zeros(()) + 0, jax.core.Tracer) and not isinstance(model.w, jax.core.Tracer):
        raise ValueError("a model of a different trace level")
    return jnp.sum(model.w * x)
"""

PROGRAM = """\
import jax, jax.numpy as jnp, layers_on_jax as lib
class Dense(lib.Layer):
    size: int
    def __call__(self, params, x): return jnp.tanh(jnp.dot(params['w'], x)) * self.size
class Own(lib.Module):
    w: jax.Array
    def __call__(self, x): return jnp.dot(self.w, x)
class Gated(lib.Module):
    w: jax.Array
    is_on: bool
    rate: float
    def __call__(self, x): return jnp.dot(self.w, x) / (1 - self.rate) if self.is_on else x[0]
x = jnp.arange(1.0, 4.0)
gated = Gated(x, True, 0.5)
params = {'w': x * 0.1}
dense, linear, own, optimizer = Dense(2), lib.Linear(x, jax.nn.relu), Own(x), lib.sgd(0.1)
state = optimizer.init(params)
def loss(params, x): return lib.total(dense.apply(params, x)) ** 2
@jax.jit
def step(params, state, x):
    grads = jax.grad(loss)(params, x)
    updates = optimizer.update(grads, state)
    return jax.tree.map(lambda p, u: p + u, params, updates), updates
def of_model(model, x): return jnp.sum(model(x) ** 2)
def makes_model(x):
    def of(w): return jnp.sum(lib.Linear(w, jnp.tanh)(x))
    return of(x) + jnp.sin(x[0])
def spectrum(x):
    root = jax.scipy.linalg.polar(jnp.outer(x, x) + jnp.eye(3))[1]
    return jnp.sum(jax.lax.linalg.qdwh(root)[0])
@lib.filter_jit
def train(model, x): return jax.tree.map(lambda leaf: leaf * 2 if hasattr(leaf, 'dtype') else leaf, model)
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    # the location of a package decides whether it counts as installed
    folder = tmp_path_factory.mktemp("installed")
    (folder / "layers_on_jax.py").write_text(PACKAGE)
    folders = (*carrier.foreign_folders(), str(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(carrier, "foreign_folders", lambda: folders)
        patch.syspath_prepend(str(folder))
        made = batch.new_session({})
        outcome = made.run_line(PROGRAM)
        assert outcome.error is None, plain(outcome.shown)
        yield made
    sys.modules.pop("layers_on_jax", None)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("loss(params, x)", "traced by JAX and imported as a jaxpr: Dense.apply, layers_on_jax.total"),
        ("step(params, state, x)", "Dense.apply, layers_on_jax.total, layers_on_jax.sgd.update"),
        ("own(x)", "Own is a class that layers_on_jax.Module makes"),
        ("jax.grad(of_model)(own, x)", "imported from JAX, equation by equation: Own is a class"),
        ("train(linear, x)", "layers_on_jax.Linear stays in JAX"),
        ("makes_model(x)", "makes_model (it names lib.Linear: layers_on_jax.Linear stays in JAX)"),
    ],
)
def test_objects_of_third_parties_are_kept_whole(session, line, shown):
    expected = session.evaluate(compile(line, "<line>", "eval", 0x400).body, {})
    outcome = session.run_line(f"%log {line}")
    assert outcome.error is None, plain(outcome.shown)
    assert shown in plain(outcome.shown, 400).split("\n")[-1]
    assert outcome.recording is not None and outcome.recording.events
    assert jax.tree.structure(outcome.value) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(outcome.value), jax.tree.leaves(expected), strict=True):
        assert a is b or isinstance(a, jax.Array)
        if a is not b:
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("%jaxpr step(params, state, x)", "tanh"),
        ("%nan lib.of_this_trace(own, x)", "result finite"),
        ("%graph of_model(gated, x)", "a:f32[3] model.w"),
        ("%grad of_model(gated, x)", "gradient model Gated(w=Array([112., 224., 336.], dtype=float32), is_on=None"),
        ("%vmap own(jnp.ones((2, 3)))", "mapped Array([6., 6.]"),
        ("%diff loss(params, x) --by grad", "backward pass"),
        ("%compare of_model(own, x)", "the same, to the last bit jaxpr the same"),
        ("%time step(params, state, x)", "JAX traces a library's functions once"),
        ("%step step(params, state, x)", "jit[step]("),
    ],
)
def test_every_command_accepts_objects_of_third_parties(session, line, shown):
    outcome = session.run_line(line)
    text = " ".join(plain(outcome.shown, 400).split())
    assert outcome.error is None and shown in text, text
    assert "from JAX" in text


def test_why_explains_the_jit_of_a_library(session):
    """JAX treats all functions of this jit as one function with different names."""
    session.run_line("a, b = lib.keeping_jit(lambda q: jnp.sin(q)), lib.keeping_jit(lambda q: q)")
    assert "JAX has not traced a while it was watched" in _text(session, "%why a(x)")
    session.run_line("b.__name__ = 'other'")
    session.run_line("a(x), a(2.0)")
    text = _text(session, "%why a(x)")
    assert text.count("was traced (jax)") == 2 and "f32[3] became" in text
    assert "JAX has not traced b while it was watched" in _text(session, "%why b(x)")


def _text(session, line):
    return " ".join(plain(session.run_line(line).shown, 400).split())
