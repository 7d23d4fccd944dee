"""``%time`` and ``%compare`` convert programs to real JAX; if that is impossible, a message says why."""

import jax
import numpy as np
import pytest

from minijax.interop.libraries import Unmapped
from minijax.repl import batch
from minijax.tools.compare import measure
from minijax.tools.documents.document import plain
from minijax.tools.session.targets import from_expression, traceable

SETUP = (
    "import functools, dataclasses",
    "def f(x): return jnp.sin(x) * 2.0 - x",
    "x = 3.0; v = jnp.arange(3.0); scale = 2.0",
    "def scaled(x): return f(x) * scale",
    "def deep(x, n):\n    import minijax.numpy as jj\n    return x if n == 0 else jj.cos(deep(x, n - 1))",
    "@custom_jvp\ndef safe(x): return jnp.log1p(x)",
    "@safe.defjvp\ndef safe_jvp(p, t): return safe(p[0]), 5.0 * t[0]",
    "@custom_jvp\ndef simple(x): return jnp.exp(x)",
    "simple.defjvps(lambda t, ans, x: t * ans)",
    "@custom_vjp\ndef back(x): return jnp.sin(x)",
    "back.defvjp(lambda x: (back(x), x), lambda x, ct: (7.0 * ct,))",
    "class Model:\n    def __init__(self, w): self.w = w\n    def __call__(self, x): return jnp.sum(tanh(self.w * x))",
    "m = Model(v)",
    "@tree_util.register_dataclass\n@dataclasses.dataclass\nclass Pair:\n    a: object\n    b: object",
    "p = Pair(v, 2.0)",
    "def with_pair(p, x): return jnp.dot(p.a, x) * p.b",
    "gradient = grad(scaled); mapped = vmap(gradient, in_axes=0)",
    "from minijax.extend.core import Primitive",
    "from minijax.interpreters import ad",
    "from minijax.core import ShapedArray",
    "cube_p = Primitive('cube'); cube_p.def_impl(lambda x: x ** 3);",
    "cube_p.def_abstract_eval(lambda x: ShapedArray(x.shape, x.dtype));",
    "ad.primitive_jvps[cube_p] = lambda ps, ts: (cube_p.bind(*ps), 3.0 * ps[0] ** 2 * ts[0])",
    "def cube(x): return cube_p.bind(x)",
    "_, pull = vjp(f, x)",
    "def either(x, ours): return pull(x)[0] if ours else jnp.sin(x)",
)


@pytest.fixture(scope="module")
def session():
    made = batch.new_session({})
    for code in SETUP:
        outcome = made.run_line(code)
        assert outcome.error is None, (code, outcome.error)
    return made


def both(session, text):
    target = traceable("compare", from_expression(session, "compare", text))
    return measure.ours(target), measure.theirs(target)


@pytest.mark.parametrize(
    "text",
    [
        "gradient(3.0)",
        "jit(deep, static_argnums=1)(x, 3)",
        "grad(safe)(2.0)",
        "grad(back)(2.0)",
        "grad(m)(v)",
        "with_pair(p, v)",
        "grad(cube)(2.0)",
        "(lambda q: {'a': [f(q['b']), 1.0], 'c': None})({'b': v})",
        "either(2.0, False)",
    ],
)
def test_programs_run_on_jax(session, text):
    ours, theirs = both(session, text)
    mine, other = ours.call(), theirs.call()
    leaves = jax.tree_util.tree_leaves(other)
    assert all(isinstance(leaf, (jax.Array, float, int)) for leaf in leaves)
    mine_leaves = jax.tree_util.tree_leaves(jax.tree_util.tree_map(np.asarray, mine))
    for a, b in zip(mine_leaves, leaves, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pull(1.0)", "VJP"),
        ("either(2.0, True)", "VJP"),
        ("minijax.tools.record(f, 3.0)", "record: a function of minijax without"),
    ],
)
def test_code_that_cannot_be_carried_over_is_named(session, text, expected):
    with pytest.raises(Unmapped, match=expected):
        both(session, text)[1].call()
    shown = plain(session.run_line(f"%compare {text}").shown, 200)
    assert "cannot be carried over to JAX" in shown and expected in shown and "minijax" in shown


def test_jaxs_error_is_shown_and_the_session_goes_on(session):
    session.run_line("def odd(x): return x.nothing_jax_has if type(x).__module__.startswith('jax') else x")
    shown = plain(session.run_line("%compare odd(v)").shown, 200)
    assert "JAX raised AttributeError" in shown and session.run_line("1 + 1").value == 2


def test_different_jaxprs_are_shown_side_by_side(session):
    session.run_line("def apart(x): return x + (1.0 if type(x).__module__.startswith('minijax') else 2.0) * jnp.sin(x)")
    shown = plain(session.run_line("%compare apart(f32[3])").shown, 120)
    assert "they differ" in shown and "minijax · 3 equations" in shown
    assert any("1.0:f32[]" in each and "~" in each and "2.0:f32[]" in each for each in shown.split("\n"))


def test_an_untraceable_program_is_compared_by_value(session):
    shown = plain(session.run_line("%compare int(x) + 1").shown, 120)
    assert "Python computed these" in shown and "none: ConcretizationTypeError" in shown and "eager" in shown


def test_effects_run_as_rarely_as_possible(session, capfd):
    session.run_line("calls = []")
    session.run_line("def noisy(x): debug.callback(lambda y: calls.append(1), x); return x")
    shown = plain(session.run_line("%time noisy(x) --alone").shown)
    assert "run once only" in shown and "eager" not in shown and len(session.namespace["calls"]) == 1


@pytest.mark.parametrize("command", ["%time", "%compare"])
def test_prints_are_not_repeated(session, capsys, command):
    assert session.run_line("def says(x):\n    print('said')\n    return sin(x)").error is None
    shown = " ".join(plain(session.run_line(f"{command} says(x)").shown, 200).split())
    assert 1 <= capsys.readouterr().out.count("said") <= 8
    assert "the program's output is shown for the first runs" in shown and "eager" in shown
    assert "the program's output" not in plain(session.run_line(f"{command} f(x)").shown, 200)


def test_time_reports_all_figures(session):
    outcome = session.run_line("%time f(v)")
    names = {"trace", "compile", "jit", "eager"}
    assert set(outcome.value) >= {*names, *(f"jax {name}" for name in names)}
    assert all(0 < seconds < 60 for name, seconds in outcome.value.items() if name != "transfer")
    assert outcome.value["transfer"] == 0  # the argument was copied to the device before
    for width in (40, 80, 200):
        shown = plain(outcome.shown, width)
        assert max(map(len, shown.split("\n"))) <= width and "█" in shown
    assert set(session.run_line("%time f(f32[3]) --alone").value) == {"trace", "lower", "compile"}


def test_values_of_different_kinds_are_reported():
    def report(a, b):
        return "".join(piece for _, piece in measure.value_row(a, b).body[0])

    assert "JAX int32[]" in report(np.float32(1), np.int32(1))
    assert "minijax gives 2 arrays, JAX 1" in report((1.0, 2.0), 1.0)
    assert report({"a": np.ones(3)}, {"a": np.ones(3)}) == "the same, to the last bit"
    assert report("same", "same") == "the same, to the last bit"
    assert "only arrays are compared" in report(len, len) and "JAX a str" in report("one", "other")


@pytest.mark.parametrize("command", ["%time", "%compare"])
def test_a_live_tracer_is_not_timed(command):
    session = batch.new_session({})
    assert session.run_line("%push jvp x=3. dx=1.").error is None
    shown = " ".join(plain(session.run_line(f"{command} sin(x)").shown, 300).split())
    assert "an argument of sin(x) is jvp:1 f32[]. Give it values, or close that level with %pop" in shown
    session.run_line("%pop x")


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([1.0, np.nan, np.inf], [1.0, np.nan, np.inf], (0.0, 0.0)),
        ([1.0, 2.0], [1.0, 2.5], (0.5, 0.2)),
        ([1.0], [np.nan], (np.inf, np.inf)),
        ([np.inf], [-np.inf], (np.inf, np.inf)),
        ([True], [False], (1.0, 1.0)),
        ([1 + 1j], [1 + 1j], (0.0, 0.0)),
    ],
)
def test_the_difference_of_two_arrays_is_measured(a, b, expected):
    assert measure.difference(np.array(a), np.array(b)) == expected


def test_different_work_has_no_ratio():
    figures = {"minijax": {"trace": 0.001, "lower": 0.001}, "jax": {"trace": 0.04, "lower": 0.04}}
    ratios = [
        "40.0×" in "".join(piece for _, piece in each) for each in measure.bars(figures, measure.PHASES, 80, ("trace",))
    ]
    assert ratios == [False, False, False, True]
