"""``%diff`` pairs equal equations, marks the others, and shows the passes of a gradient."""

import re

import pytest

from minijax import numpy as jnp
from minijax.repl import batch
from minijax.tools.compare import passes
from minijax.tools.documents.document import Columns, plain
from minijax.tools.session.targets import Target


@pytest.fixture
def session():
    made = batch.new_session({})
    made.run_line("def f(x): return jnp.sin(x) * 2.0 - x")
    made.run_line("v = jnp.arange(3.0)")
    return made


def marks(session, command, indented=False):
    """(mark, left, right) of each row; ``indented``: with the indentation of the texts."""
    (columns,) = [block for block in session.run_line(command).shown.blocks if isinstance(block, Columns)]
    texts = [["".join(piece for _, piece in side).rstrip() for side in (p.left, p.right)] for p in columns.rows(60)]
    texts = [[each if indented else each.lstrip() for each in both] for both in texts]
    return [(pair.mark, *both) for pair, both in zip(columns.rows(60), texts, strict=True)]


def test_a_gradient_is_shown_beside_its_function_in_wide_and_narrow_text(session, golden):
    outcome = session.run_line("%diff f(3.0) --by grad")
    golden("diff.txt", "\n".join(plain(outcome.shown, width) for width in (120, 40)))


# The program of g(v) uses the names of the first and the last argument for other variables: %diff renames both.
UNEQUAL = "%diff (lambda u, v, w: g(w) * u.sum())(v, v, v) --with g(v)"


@pytest.mark.parametrize("line", ["%diff g(v) --by vmap", UNEQUAL])
def test_every_name_in_one_column_is_bound(session, line):
    """In one column, read together with the lines common to both, each name is bound once and before its use."""
    session.run_line("from minijax import *")
    session.run_line("def g(x): return jnp.linalg.norm(jnp.tanh(x) * x) + jnp.insert(x, 1, 2.0).sum()")
    (columns,) = [block for block in session.run_line(line).shown.blocks if isinstance(block, Columns)]
    found = 0
    for side in "-+":
        bound = set()
        for pair in columns.rows(78):
            shown = pair.right if pair.mark == " " or side == "+" else pair.among
            if pair.mark not in (" ", "~", side):
                continue
            text = "".join(piece for _, piece in shown)
            names = [piece for role, piece in shown if role == "var"]
            defines = re.match(r"\s*[\w']+:", text) is not None or "lambda" in text
            parameters = re.findall(r"([\w']+):", text) if "lambda" in text else []
            assert len(set(parameters)) == len(parameters), (side, text)
            for name in names:
                found += 1
                if not (defines and f"{name}:" in text) and f"let {name} =" not in text:
                    assert name in bound or name == "_", (side, text)
            bound.update(names)
    assert found > 20


def test_diff_ignores_renaming_and_marks_rewiring(session):
    assert marks(session, "%diff f(3.0) --with f(4.0)") == [
        (" ", *[text] * 2)
        for text in (
            "{ lambda ; a:f32[]. let",
            "b:f32[] = sin a",
            "c:f32[] = mul b 2.0:f32[]",
            "d:f32[] = sub c a",
            "in (d,) }",
        )
    ]
    session.run_line("def left(x, y): return sin(x) - cos(y)")
    session.run_line("def right(x, y): return sin(y) - cos(x)")
    found = marks(session, "%diff left(1.0, 2.0) --with right(1.0, 2.0)")
    # both programs print 'c = sin ...' and 'd = cos ...', but the operands are other variables
    assert [mark for mark, left, _ in found if "sin" in left or "cos" in left] == ["~", "~"]
    assert ("the same" in plain(session.run_line("%diff f(3.0) --with f(4.0)").shown)) is True


def test_both_ways_of_reverse_mode_begin_at_the_margin(session):
    rows = marks(session, "%diff f(3.0) --by grad --tutorial --most 1", indented=True)
    assert rows == [("-", "linearize:1 begins for f", ""), ("+", "", "partial_eval:1 begins for f")]


def made(fun, *args, by=("grad",), **options):
    target = Target(fun, args, {}, tuple("xyz"[: len(args)]), "fun")
    found = passes.Transformed(target, by, **options).passes
    assert found is not None
    return found


def test_the_passes_and_residuals_of_a_gradient_are_listed():
    found = made(lambda x, y: jnp.sum(jnp.sin(x) * y), jnp.ones(5), jnp.ones(5))
    assert [eqn.primitive.name for eqn in found.forward] == ["sin", "cos", "mul", "reduce_sum"]
    assert [eqn.primitive.name for eqn in found.backward] == ["broadcast_in_dim", "mul", "mul"]
    # the residuals are cos(x) and y, each of 5 float32
    assert len(found.residuals) == 2 and found.bytes == 40 and len(found.arguments) == 1
    both = made(lambda x, y: jnp.sum(jnp.sin(x) * y), jnp.ones(5), jnp.ones(5), argnums=(0, 1))
    assert len(both.residuals) == 3 and both.bytes == 60


def test_the_passes_inside_jit():
    found = made(lambda x: jnp.sum(jnp.sin(x)), jnp.ones(5), by=("jit", "grad"))
    assert [eqn.primitive.name for eqn in found.backward] == ["broadcast_in_dim", "mul"]


def test_diff_does_not_pair_equations_with_the_backward_pass(session):
    session.run_line("def step(c, x): return c + tanh(x), c * x")
    session.run_line("def scanned(xs): return lax.scan(step, 0., xs)[1].sum()")
    shown = session.run_line("%diff scanned(jnp.ones(3)) --by grad").shown
    (columns,) = [b for b in shown.blocks if isinstance(b, Columns)]
    named = [(words(pair.left), words(pair.right)) for pair in columns.rows(200)]
    backward = named.index(("", "# backward pass"))
    scans = [i for i, (left, _) in enumerate(named) if "= scan[" in left]
    assert len(scans) == 1 and scans[0] < backward and "= scan[" in named[scans[0]][1]
    assert all(not left or left.startswith(("in ", "_:")) for left, _ in named[backward:])


def words(segments):
    return "".join(piece for _, piece in segments).strip()


def test_the_cotangent_is_not_a_residual():
    found = made(jnp.sin, jnp.ones(5), by=("vjp",))
    assert [len(found.forward), len(found.residuals), len(found.backward)] == [2, 1, 1]
    mapped = made(jnp.sin, jnp.ones(5), by=("vmap", "vjp"))
    assert len(mapped.residuals) == 1


@pytest.mark.parametrize("by", ["jvp", "grad", "vmap"])
def test_equations_inside_jit_are_not_counted_as_gone(session, by):
    session.run_line("inner = jit(lambda x: (jnp.exp(jnp.sin(x)) * jnp.cos(jnp.tanh(x)) - x).sum())")
    shown = plain(session.run_line(f"%diff inner(jnp.ones(3)) --by {by}").shown)
    # derivatives make the jaxpr inside longer; its own equations, whose variables have other names, are the same
    (changes,) = [row for row in shown.split("\n") if row.strip().startswith("changes")]
    assert "gone" not in changes and ("the same" in changes or by == "vmap")
