"""Programs that compute with real JAX are converted to minijax for commands, or imported, or rejected."""

import sys
import types

import jax
import numpy as np
import pytest

import minijax
from minijax.interop.uses import jax_use
from minijax.repl import batch
from minijax.tools.documents.document import plain

PROGRAM = """\
import functools, dataclasses, jax, jax.numpy as jnp, minijax, numpy as np
from jax import lax; from jax.experimental import sparse
weights, scale = jnp.arange(1.0, 4.0), jnp.float32(2.0)
params = {'w': weights, 'b': jnp.float32(1.0)}
def g(x): return jnp.log(x)
def loss(p, x): return jnp.sum((jnp.dot(p['w'], x) + p['b']) ** 2)
def mine(x): return minijax.numpy.log(x)
def late(x):
    import jax.numpy as other
    from jax.numpy import cos
    return other.sin(cos(x))
fast = jax.jit(lambda x: jnp.sin(x) * scale)
@jax.custom_jvp
def safe(x): return jnp.log1p(x)
@safe.defjvp
def safe_jvp(p, t): return safe(p[0]), 5.0 * t[0]
@jax.custom_vjp
def back(x): return jnp.sin(x)
back.defvjp(lambda x: (back(x), x), lambda x, ct: (7.0 * ct,))
class Model:
    def __init__(self, w): self.w = w
    def __call__(self, x): return jnp.sum(jnp.tanh(self.w * x))
    def sub(self): return Half(self.w)
class Half(Model):
    def __call__(self, x): return super().__call__(x) / 2
model, half = Model(weights), Half(weights)
@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Pair:
    a: object
    b: object
    def dot(self, x): return jnp.dot(self.a, x) * self.b
pair = Pair(weights, 2.0)
def step(p, x): return jax.tree.map(lambda a, b: a - 0.1 * b, p, jax.grad(loss)(p, x))
def wrap(x): return jax.scipy.special.hyp1f1(1.5, 2.5, x)
_, pull = jax.vjp(g, 2.0)
@dataclasses.dataclass
class Config:
    act: object
def configured(x, config=Config(jnp.tanh)): return config.act(x)
policy = jax.checkpoint_policies.dots_saveable
from jax.extend.core import Primitive
from jax.interpreters import ad, mlir
cube_p = Primitive('cube')
cube_p.def_impl(lambda x: x ** 3)
cube_p.def_abstract_eval(lambda x: jax.core.ShapedArray(x.shape, x.dtype))
mlir.register_lowering(cube_p, mlir.lower_fun(lambda x: x ** 3, multiple_results=False))
ad.defjvp(cube_p, lambda t, x: 3.0 * x * x * t)
def cube(x): return cube_p.bind(x)
"""


@pytest.fixture(scope="module")
def session():
    made = batch.new_session({})
    outcome = made.run_line(PROGRAM)
    assert outcome.error is None, plain(outcome.shown)
    return made


def shown(session, line):
    return " ".join(plain(session.run_line(line).shown, 400).split())


@pytest.mark.parametrize(
    "line",
    [
        "jax.jit(jax.vmap(jax.grad(g), in_axes=0))(weights)",
        "jax.grad(safe)(2.0)",
        "jax.grad(back)(2.0)",
        "sparse.grad(lambda q: q @ weights)(sparse.BCOO.fromdense(weights))",
        "jax.checkpoint(fast, policy=policy)(2.0)",
        "Model(weights).sub()(weights)",
        "jax.grad(lambda q: q.dot(weights))(pair)",
        "step(params, weights)",
        "late(1.0)",
        "wrap(weights)",
        "pull(1.0)",
        "jax.tree_util.Partial(loss, params)(weights)",
        "configured(weights)",
        "(lambda x: minijax.interop.from_jax(g)(x) * jnp.sin(x))(2.0)",
    ],
)
def test_programs_written_for_jax_give_the_same_values_as_jax(session, line):
    expected = session.evaluate(compile(line, "<line>", "eval", 0x400).body, {})
    outcome = session.run_line(f"%log {line}")
    assert outcome.error is None and outcome.recording is not None and outcome.recording.events
    assert "carried over from JAX" in plain(outcome.shown, 400).split("\n")[-1]
    got = outcome.value
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert isinstance(a, (jax.Array, float)) and np.asarray(a).dtype == np.asarray(b).dtype
        assert getattr(a, "weak_type", None) == getattr(b, "weak_type", None) or not np.ndim(a)
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%log jax.grad(lambda x: jnp.dot(weights, x) * model.w[0])(weights + 1.0)", "dot_general(weights, x)"),
        ("%hlo loss(params, weights) --links", "<minijax-1>:6"),
        ("%check safe(0.5)", "safe_jvp at <minijax-1>"),
        ("%grad cube(2.0)", "gradient x Array(12."),
        ("%jaxpr jax.random.normal(jax.random.key(0), (3,)) --static 1", "random_bits"),
    ],
)
def test_commands_watch_programs_written_for_jax(session, line, expected):
    outcome = session.run_line(line)
    text = " ".join(plain(outcome.shown, 400).split())
    assert outcome.error is None and expected in text, text
    assert text.endswith("carried over from JAX") or "carried over from JAX; traced by JAX" in text


def test_an_unbound_axis_error_lists_no_names(session):
    assert "names bound here are: none" in shown(session, "%log jax.vmap(lambda x: lax.psum(x, 'q'))(weights)")


def test_results_are_jax_arrays_and_the_namespace_is_unchanged(session):
    names = dict(session.namespace["loss"].__globals__)
    value = session.run_line("%step jax.grad(lambda q: q.dot(weights))(pair) --text").value
    assert type(value) is session.namespace["Pair"] and isinstance(value.a, jax.Array)
    session.run_line("%grad loss(params, weights)")
    assert session.run_line("_[1]['w'] + weights").error is None
    changed = {name for name, x in names.items() if session.namespace[name] is not x}
    assert changed <= {"_", "__", "___", "In", "Out"}
    assert isinstance(session.namespace["model"].w, jax.Array)


def test_assignments_of_a_watched_program_take_effect(session):
    for code in (
        "count, held, notes = 0, {'last': weights}, [weights]",
        "class Layer:\n    n = 0\n    def __call__(self, x): self.n += 1; self.seen = jnp.sin(x); return self.seen",
        "layer = Layer()",
        "def counted(x, p):\n    global count\n    count += 1; held['last'] = jnp.cos(x); notes.append(x)\n"
        "    p['new'] = x\n    return layer(x)",
        "given = {'old': weights}",
    ):
        assert session.run_line(code).error is None
    names = session.namespace
    kept = names["notes"][0], names["given"]["old"], names["layer"]
    for command in ("%log", "%nan"):
        assert session.run_line(f"{command} counted(weights, given)").error is None
    assert names["count"] == names["layer"].n == 2 and len(names["notes"]) == 3
    assert set(names["given"]) == {"old", "new"}
    written = names["held"]["last"], names["layer"].seen, *names["notes"], *names["given"].values()
    assert all(isinstance(x, jax.Array) for x in written) and names["notes"][0] is kept[0]
    assert names["given"]["old"] is kept[1] and names["layer"] is kept[2] and type(kept[2]) is names["Layer"]


def test_a_program_with_another_x64_setting_is_refused(session):
    with jax.enable_x64(True):
        text = shown(session, "%jaxpr g(2.0)")
        assert "%jaxpr sees what minijax computes, and cannot watch g(2.0): JAX computes with 64 bits" in text
        assert 'Write minijax.config.update("jax_enable_x64", True).' in text
        with minijax.enable_x64(True):
            assert "a:f64[]" in shown(session, "%jaxpr g(2.0)")


@pytest.mark.parametrize(
    "fun", ["lambda x: library.Net()(x)", "functools.partial(lambda x, act: act(x), act=g)", "keyword_default"]
)
def test_modules_and_objects_are_carried_over(session, monkeypatch, tmp_path, fun):
    library = types.ModuleType("library")
    code = (
        "import jax.numpy as rnp\n"
        "def act(x): return rnp.log(x)\n"
        "class Net:\n"
        "    def __call__(self, x): return self.layer(x)\n"
        "    def layer(self, x): return act(x)\n"
        "    @staticmethod\n"
        "    def static(x): return act(x)\n"
        "net, table = Net(), {'act': act}\n"
    )
    library.__file__ = str(tmp_path / "library.py")
    exec(compile(code, library.__file__, "exec"), vars(library))
    library.inner = library
    monkeypatch.setitem(sys.modules, "library", library)
    session.run_line("import library, functools")
    session.run_line("def keyword_default(x, *, act=library.act): return act(x)")
    assert session.run_line(f"use = {fun}").error is None
    text = shown(session, "%nan use(-1.0)")
    assert "first NaN made by log" in text and text.endswith("carried over from JAX"), text
    # of a module, only the names that a function uses are searched for JAX
    session.run_line("library.mine = mine")
    assert jax_use(session.namespace["mine"]) == ""
    assert session.run_line("own = lambda x: library.mine(x)").error is None
    assert jax_use(session.namespace["own"]) == "" and "JAX" not in shown(session, "%log own(2.0)")
