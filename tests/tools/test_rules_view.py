"""``%rules`` shows the matrix of rules and one primitive's rules with their source; ``%check`` reports on a rule."""

import pytest

from minijax.extend.rules import rule_matrix
from minijax.repl import batch
from minijax.tools.documents.document import plain
from minijax.tools.documents.html import to_html
from minijax.tools.explain import rules
from tests.extend.examples import ours

CUBE = """from minijax.extend.core import Primitive
from minijax.interpreters import ad
from minijax.core import ShapedArray
cube_p = Primitive('cube')
@cube_p.def_impl
def cube_impl(x):
    return x ** 3
cube_p.def_abstract_eval(lambda x: ShapedArray(x.shape, x.dtype));
def cube_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return cube_p.bind(x), 2. * x * x * t
ad.primitive_jvps[cube_p] = cube_jvp
"""


@pytest.fixture
def session():
    return batch.new_session({})


@pytest.fixture
def author(session):
    assert session.run_line(CUBE).error is None
    return session


def shown(session, command, width=80):
    return plain(session.run_line(command).shown, width)


@pytest.mark.parametrize("width", [40, 200])
def test_the_rule_matrix_fits_the_width_and_matches_the_tables(session, width):
    text = shown(session, "%rules", width)
    assert max(map(len, text.split("\n"))) <= width
    rows = {each.split()[0]: "".join(each.split()[1:]) for each in text.split("\n") if each[:1].isalpha()}
    matrix = rule_matrix()
    names = [p.name for p in matrix.rows]
    for primitive in (p for p in ours() if names.count(p.name) == 1):  # other tests may reuse a name
        row = matrix.rows[primitive]
        marks = "".join({"yes": "●", "default": "·", "none": "–", "missing": "✗"}[c.status] for c in row.values())
        assert rows[primitive.name] == marks, primitive
    assert ("partial_eval_jaxpr" in text.split("\n")[0]) == (width == 200)
    assert "partial_eval_jaxpr" in text


def test_missing_rules_have_a_reason(session):
    text = shown(session, "%rules sin max while --missing")
    assert "transpose\n  not linear (2)\n    sin max" in text.replace("max sin", "sin max")
    assert "every carry stays" in text
    assert "no hole" in shown(session, "%rules mul --missing")


def test_rules_show_place_and_source(session):
    text = shown(session, "%rules while", 120)
    assert "● jvp  while_jvp  minijax/ops/while_loop.py:" in text and "    def while_jvp(" in text
    assert "● vmap  sin_batch  minijax/ops/nary.py:" in shown(session, "%rules sin", 120)
    assert "– dce  every carry stays" in text and "· partial_eval, " not in text
    assert "def while_jvp(" in to_html(session.run_line("%rules while").shown)
    cut, full = shown(session, "%rules scan"), shown(session, "%rules scan --full")
    assert "(--full shows them)" in cut and len(full) > len(cut) and "--full" not in full


def test_primitives_made_at_the_prompt_are_shown(author):
    assert any(each.startswith("cube ") for each in shown(author, "%rules").split("\n"))
    text = shown(author, "%rules cube_p", 120)
    assert "● evaluate  cube_impl  <minijax-1>:5" in text
    assert "    def cube_jvp(primals, tangents):\n        (x,), (t,) = primals, tangents" in text
    assert "✗ transpose  missing (only a linear primitive needs one); add: minijax.interpreters.ad" in text
    assert "✗ vmap  missing; add: minijax.interpreters.batching.primitive_batchers[primitive] = rule" in text
    # %rules also finds a primitive without rules, by the name of a variable that holds it
    author.run_line("bare_p = Primitive('bare')")
    assert "✗ evaluate" in shown(author, "%rules bare_p")


def test_a_wrong_rule_is_shown_at_the_smallest_operands(author):
    text = shown(author, "%check cube_p(f32[3])", 120)
    assert "✗ jvp                       wrong; suspect cube_jvp at <minijax-1>:9" in text
    assert "smallest example cube_p.bind(float32[" in text
    assert "✗ vmap                      missing\n" in text
    assert "– vmap of derivatives       not checked: see the missing rule in vmap" in text
    assert "3 wrong" in text.split("\n")[-1]
    report = author.run_line("%check cube_p(2.0)").value
    assert not report.ok and [o.check for o in report.failures] == ["jvp", "vmap", "lower"]


BODY = "(x, y): return jnp.sin(x) * y"
FWD = "lambda x, y: (jnp.sin(x) * y, (x, y))"
RULES = {
    "a right jvp rule": (
        (
            "@custom_jvp\ndef f" + BODY,
            "f.defjvp(lambda p, t: (f(*p), jnp.cos(p[0]) * p[1] * t[0] + jnp.sin(p[0]) * t[1]))",
        ),
        ("%check f(0.5, f32[3])", "%check f", "%check f(0.5, y=2.)"),
        (),
    ),
    "a wrong jvp rule": (
        ("@custom_jvp\ndef f" + BODY, "f.defjvp(lambda p, t: (f(*p), jnp.cos(p[0]) * t[0] + jnp.sin(p[0]) * t[1]))"),
        ("%check f(f32[3], f32[3])",),
        ("jvp",),
    ),
    "a wrong bwd": (
        ("@custom_vjp\ndef f" + BODY, f"f.defvjp({FWD}, lambda r, ct: (ct * jnp.cos(r[0]), ct * jnp.sin(r[0])))"),
        ("%check f(f32[3], f32[3])",),
        ("vjp",),
    ),
    "a wrong fwd": (
        (
            "@custom_vjp\ndef f" + BODY,
            f"f.defvjp({FWD.replace('* y', '+ y')}, lambda r, ct: (ct * jnp.cos(r[0]) * r[1], ct * jnp.sin(r[0])))",
        ),
        ("%check f(f32[3], f32[3])",),
        ("value of fwd",),
    ),
    "arguments that are not differentiable, and trees": (
        (
            "import functools",
            "@functools.partial(custom_vjp, nondiff_argnums=(0,))\ndef f(g, d): return g(d['x']) * 2.",
            "f.defvjp(lambda g, d: (g(d['x']) * 2., d), lambda g, d, ct: ({'x': 2. * ct * grad(g)(d['x'])},))",
        ),
        ("%check f(sin, {'x': f32[]})",),
        (),
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_a_custom_rule_is_checked_against_its_function(session, name):
    session.run_line("from minijax import custom_jvp, custom_vjp")
    lines, commands, wrong = RULES[name]
    for line in lines:
        assert session.run_line(line).error is None
    for command in commands:
        outcome = session.run_line(command)
        assert outcome.error is None, outcome.error
        assert tuple(each.check for each in outcome.value.failures) == wrong, outcome.value
        text = plain(outcome.shown, 120)
        assert "<minijax-" in text and ("suspect <lambda> at <minijax-" in text) == bool(set(wrong) - {"value of fwd"})
        assert len(outcome.value.outcomes) >= 6 and not outcome.value.skipped


def test_rules_of_every_primitive_can_be_shown():
    for primitive in ours():
        text = plain(rules.one(primitive))
        assert primitive.name in text and "● evaluate" in text
