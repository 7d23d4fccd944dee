"""A command's expression becomes a function with arguments, some of them static, which can be staged."""

import ast

import jax  # noqa: F401  (with jax imported, ``targets`` also searches arguments for models)
import pytest

from minijax.pytree import tree_leaves
from minijax.repl import batch
from minijax.tools.commands.arguments import Param, parse
from minijax.tools.documents.document import plain
from minijax.tools.session import targets
from minijax.tools.usage import UsageError


@pytest.fixture
def session():
    made = batch.new_session({})
    for code in (
        "def f(x): return jnp.sin(x) * 2.0",
        "def power(x, n, flip=False): return -(x ** n) if flip else x ** n",
        "x = 3.0; v = jnp.arange(3.0); p = {'w': v, 'b': [x]}",
        "fixed = jit(power, static_argnums=1, static_argnames='flip')",
    ):
        assert made.run_line(code).error is None
    return made


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%nan  jnp.log(x - 3.0)", "1:6 (<module>)"),
        ("%nan (lambda y: jnp.log(y))(0.0)", "1:16 (<lambda>)"),
        ("%nan v + jnp.ones(2)", "The operands of `v + jnp.ones(2)` at "),
        ("%log jit(lambda y: y + v)(v[1:])", "The operands of `y + v` at "),
        ("%jaxpr --source (lambda y: sin(y))(x)", ":1:27 (<lambda>)"),
        ("%%jaxpr y=3.0\nz = y\nz + nothing", ":3 in cell\n    z + nothing\n"),
    ],
)
def test_places_refer_to_the_command_line(session, line, expected):
    assert expected in plain(session.run_line(line).shown, 400)


def staged(session, text, static=None):
    target = targets.from_expression(session, "jaxpr", text)
    return str(targets.stage(targets.traceable("jaxpr", target, static)))


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("fixed(v, 3, flip=True)", ["x"]),
        ("jit(lambda a, b, c: c * b, static_argnums=1)(v, 4, v)", ["a", "c"]),
        ("jit(lambda a, b, c: c * b, static_argnames='b')(p, b=4, c=v)", ["a['b'][0]", "a['w']", "c"]),
        ("(lambda b, **more: sin(b))(v, z=x, k=v)", ["b", "k", "z"]),
        ("(lambda b, *more: sin(b) * more[0])(v, x)", ["b", "x"]),
        ("(lambda *all: sin(all[0]) * all[1])(*[v, x])", ["argument 0", "argument 1"]),
    ],
)
def test_static_arguments_are_not_inputs(session, call, names):
    """If a static argument counted as an input, the next argument would get its name."""
    target = targets.from_expression(session, "passes", call)
    assert targets.input_names(target) == names
    leaves = tree_leaves((target.args, target.kwargs))
    assert len(targets.leaf_names(target)) == len(leaves) and set(names) <= {*targets.leaf_names(target)}
    for command in ("step", "origin", "graph", "passes"):
        assert session.run_line(f"%{command} {call}").error is None
    assert len(targets.jitted(target).trace(*target.args, **target.kwargs).jaxpr.in_avals) == len(names)


@pytest.mark.parametrize("static", [1, -1, (1,)])
def test_arguments_are_made_static_by_option(session, static):
    assert "integer_pow[y=4]" in staged(session, "power(x, 4)", static)
    assert "pow a b" in staged(session, "power(x, 4)")


def test_an_expression_whose_value_is_a_jaxpr_gives_that_jaxpr(session):
    session.run_line("def make(x): return make_jaxpr(f)(x)")
    session.run_line("def calls(x): return make_jaxpr(power, static_argnums=1)(x, 3)")
    plain = staged(session, "f(x)")
    assert staged(session, "make_jaxpr(f)(2.0)") == plain == staged(session, "make(2.0)")
    assert staged(session, "make_jaxpr(f)(f32[])") != "" and "a:f32[4]" in staged(session, "make_jaxpr(f)(f32[4])")
    assert "integer_pow[y=3]" in staged(session, "make_jaxpr(power, static_argnums=1)(x, 3)")
    assert "integer_pow[y=3]" in staged(session, "calls(x)")


@pytest.mark.parametrize("text", ['"f32[]"', "'f32[]'", '"\\"f32[]"', "'''a 'f32[]' b'''", "r'\\f32[]'"])
def test_types_in_strings_are_text(session, text):
    session.run_line("told = []")
    session.run_line("def g(s, x): told.append(s); return x")
    assert "a:f32[]" in staged(session, f"g({text}, f32[])  # f32[]")
    assert session.namespace["told"][-1] == eval(text)


@pytest.mark.parametrize("command", ["%grad f(x=3.0)", "%jvp f(x=3.0)", "%vjp f(x=3.0)", "%linearize f(x=3.0)"])
def test_a_call_with_only_keywords_is_a_function_of_them(session, command):
    outcome = session.run_line(command)
    assert outcome.error is None and float(outcome.value[0]) == pytest.approx(0.28224, abs=1e-5)


def test_bool_is_a_type_only_with_a_subscript(session):
    assert "a:bool[2]" in staged(session, "jnp.sum(bool[2])") and "a:bool[]" in staged(session, "f(bool[])")
    assert "a:bool[]" in staged(session, "f(bool(x))")
    node = ast.parse("(bool[2], bool(1), (lambda bool: bool[0])([5]))", mode="eval").body
    kind, flag, item = session.evaluate(node, {})
    assert (kind.shape, kind.dtype.name, flag, item) == ((2,), "bool", True, 5)
    assert ast.unparse(node).startswith("(bool[2]")  # evaluation has not changed the caller's node
    assert session.run_line("bool is type(True)").value is True
    session.run_line("bool = {2: 7.0}")
    assert session.evaluate(ast.parse("bool[2]", mode="eval").body, {}) == 7.0
    session.run_line("del bool")


def test_values_that_contain_themselves_are_not_trees(session):
    """After ``Out`` has been shown, it contains itself. A container that occurs twice does not contain itself."""
    for line in ("d = {}; d['d'] = d", "l = [[1.0]]; l.append((l,))", "Out", "twice = [v, v, [v, (v,)]] * 3"):
        assert session.run_line(line).error is None
    names = session.namespace
    assert all(targets.leaves_of(x) is None for x in (names["d"], names["l"], {"a": [names["d"]]}))
    assert all(targets.leaves_of(x) is not None for x in (names["twice"], [[]] * 2, 3, None))
    for line in ("%nan jnp.sin(1.0)", "%jaxpr (lambda a, x: x)(d, 1.0)", "%grad (lambda a, x: x)(l, 1.0)"):
        outcome = session.run_line(line)
        assert outcome.error is None, (line, outcome.error)
    assert "contains itself" in str(session.run_line("%push jvp d=d").error)
    assert "a:f32[3]" in staged(session, "twice[0] * 1.0")


def test_a_dictionary_with_mixed_keys_does_no_harm(session):
    names = session.namespace
    names["mixed"] = {1: 2.0, "a": 3.0}
    names["__warningregistry__"] = {"version": 3, ("text", UserWarning, 1): True}
    assert not targets.is_value(names["mixed"]) and not targets.is_value([names["mixed"]])
    assert plain(session.run_line("%nan jnp.sin(0.5)").shown).endswith("result   finite")
    for line in ("%jaxpr (lambda x: x * mixed[1])(3.0)", "%jaxpr (lambda d, x: x * d[1])(mixed, 3.0)"):
        assert "mul a 2.0" in plain(session.run_line(line).shown)
    assert "dictionary keys" in str(session.run_line("%push jvp x=mixed dx=mixed").error)


def test_a_word_with_spaces_needs_quotes():
    params = (Param("expr", "text", "an expression"), Param("file", "word", "a file"), Param("force", "flag", "over"))
    args = parse("graph", params, "f(x) --file 'my \"picture\\'s\".svg' --force")
    assert (args["file"], args["force"], args["expr"]) == ('my "picture\'s".svg', True, "f(x)")
    assert parse("graph", params, 'f(x) --file "a b.svg"')["file"] == "a b.svg"
    with pytest.raises(UsageError, match="quotes"):
        parse("graph", params, "f(x) --file 'open")
