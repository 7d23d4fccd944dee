"""Names of values: every variable that held a value; loops that fold by whole iterations; logs that refer to lines."""

import functools
import re

import pytest

import minijax.numpy as jnp
from minijax import custom_vjp, grad, jit, value_and_grad
from minijax.tools.commands import find
from minijax.tools.documents.document import plain
from minijax.tools.documents.words import short_path
from minijax.tools.recording import frames
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.log import log_document
from minijax.tools.recording.recorder import record
from minijax.tools.recording.repeats import repeats_of, runs_of
from minijax.tools.recording.timeline import timeline
from minijax.tools.session.session import Session
from minijax.tools.stepper.panes import tree_lines

X = jnp.array([1.0, 2.0])


def stores(fun, *args):
    """The names of each value of a call, by its display name."""
    _, recording = record(fun, *args)
    found = {}
    for life in recording.lives:
        if life.name and not life.tracer.level.startswith("custom"):
            found.setdefault(life.name, []).append([name for name, _ in life.stores])
    return found


def decorated(fun):
    @functools.wraps(fun)
    def wrapper(*args, **kwargs):
        result = fun(*args, **kwargs)
        return result

    return wrapper


@decorated
def layer(x):
    out = jnp.tanh(x * 2.0)
    return out


@custom_vjp
def custom(x):
    return jnp.sin(x)


custom.defvjp(lambda x: (jnp.sin(x), x), lambda res, ct: (ct * jnp.cos(res),))


class Model:
    def method(self, x):
        self.last = x * 3.0
        return self.last, x


def partial_sums(x):
    for _ in range(3):
        x = x + 1.0
        yield x


def program(x):
    y = x
    h1 = layer(x)
    h2 = layer(h1)
    c = custom(h2)
    m, same = Model().method(c)
    seen = [v for v in partial_sums(m)]
    w = seen[0] + seen[1]
    skip = w
    return (w + skip + seen[2] + same + y).sum()


@pytest.mark.parametrize("way", [lambda f: f, grad, jit])
def test_a_value_has_the_names_of_all_variables_that_held_it(way):
    found = stores(way(program), X)
    argument = found.get("x", found.get("X"))[0]  # called without a transformation, it is the array of this module
    assert {"x", "y", "args[0]"} <= set(argument)
    assert {"out", "x"} <= set(found["h1"][0]) and "out" in found["h2"][0]  # not called ``out``, ``out``
    assert "same" in found["c"][0]
    assert {"self.last", "x"} <= set(found["m"][0])
    assert [{"x", f"seen[{i}]"} <= set(names) for i, names in enumerate(found["v"])] == [True] * 3
    assert "skip" in found["w"][0]
    assert not {"out", "args[0]", "result"} & set(found)


def test_a_part_of_a_container_does_not_hide_a_variable():
    kept = {}

    def inner(x):
        c = jnp.sin(x)
        kept["c"] = c
        return c * 2.0

    found = stores(inner, X)
    assert "kept['c']" in found["c"][0] and "kept['c']" not in found


def test_reused_and_shadowed_names_are_in_order():
    def inner(h):
        return h * 2.0

    def reused(x):
        h = x + 1.0
        h = inner(h)
        old = h
        h = jnp.sin(h)
        return h + old

    _, recording = record(reused, X)
    named = [(at, life.tracer.id) for life in recording.lives for name, at in life.stores if name == "h"]
    assert named == sorted(named) and len({number for _, number in named}) == 3
    assert stores(reused, X)["h"][1] == ["h", "old"]


def test_a_name_of_a_loop_is_one_value_per_iteration():
    def loop(x):
        for _ in range(4):
            x = layer(x)
        return x

    _, recording = record(loop, X)
    values = [recording.kept.array(life.tracer.id) for life in recording.lives if life.called("x")]
    expected = [X]
    for _ in range(4):
        expected.append(jnp.tanh(expected[-1] * 2.0))
    assert [each.tolist() for each in values] == [each.tolist() for each in expected]


def test_commands_take_every_name():
    session = Session(find, {"program": program, "x": X})
    for name in ("h2", "out", "skip", "y", "same", "v"):
        for text in (f"%find {name}.sum() > -100. in program(x)", f"%origin program(x) --of {name}"):
            ran = session.run_line(text)
            assert ran.error is None, (text, ran.error)
            assert "found" in plain(ran.shown) or name in plain(ran.shown)


def test_equations_of_a_derivative_have_no_name_of_a_primal():
    def loss(w):
        h = jnp.tanh(w)
        return (h**2).sum()

    for _ in range(2):
        step = jit(value_and_grad(loss))
        _, recording = record(step, X)
        for life in recording.lives:
            if life.name in ("w", "h"):
                assert life.place == "" or "loss" in life.place or "test_equations" in life.place


# --- loops fold by whole iterations


def weights(sizes):
    return [(jnp.full((a, b), 0.1), jnp.ones(b)) for a, b in zip(sizes, sizes[1:], strict=False)]


def network(ps, x):
    for w, b in ps:
        x = jnp.tanh(x @ w + b)
    return x.sum()


@pytest.mark.parametrize("way", [lambda f: f, grad])
@pytest.mark.parametrize("sizes, times", [([2] * 31, 30), ([3] + [2] * 12 + [5], 11)])
def test_a_loop_folds_by_whole_iterations(way, sizes, times):
    _, recording = record(way(network), weights(sizes), jnp.ones(sizes[0]))
    moments = timeline(recording)
    top = 0 if moments.node(1).__class__.__name__ == "ScopeRecord" else -1
    _, runs = repeats_of(recording, moments).under(1 if top == 0 else -1)
    assert [(len(run.starts), run.label) for run in runs] == [(times, "for w, b in ps")]
    (run,) = runs
    inside, position = [], run.starts[0]
    while position < run.starts[1]:
        inside.append(moments.node(position).primitive)
        position = moments.other(position) + 1
    assert inside == ["dot_general", "add", "tanh"]
    assert f"for w, b in ps ×{times}" in plain(log_document(recording))
    cursor = Cursor(recording)
    cursor.first()
    assert f"for w, b in ps ×{times}" in plain(tree_lines(cursor, 0, 60))


def test_an_iteration_begins_at_the_first_line_of_the_loop():
    keys = [7, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 9]
    assert runs_of(keys) == [(1, 3, 3)]
    lines = dict(zip(range(len(keys)), [1, 5, 6, 4, 5, 6, 4, 5, 6, 4, 5, 6, 9], strict=True))
    assert runs_of(keys, lambda index: ("f", lines[index])) == [(3, 3, 3)]


def test_different_steps_are_not_merged():
    def block(x):
        return jnp.tanh(x) * 2.0

    def named(x):
        h1 = block(x)
        h2 = block(h1)
        h3 = block(h2)
        return h1 + h2 + h3

    def typed(x):
        return sum(block(jnp.ones(n)).sum() for n in (2, 3, 4, 5))

    for fun in (named, typed):
        assert "×" not in plain(log_document(record(fun, X)[1]))


def test_a_log_refers_to_its_lines():
    _, recording = record(grad(network), weights([2] * 5), jnp.ones(2))
    text = plain(log_document(recording))
    lines = text.splitlines()
    assert [int(each.split()[0]) for each in lines if each.split()[0].isdigit()] == list(range(1, len(lines) + 1))
    assert not re.search(r"#\d", text)
    references = re.findall(r"(\w+) of line (\d+)", text)
    assert references
    for primitive, number in references:
        assert re.search(rf"\b{primitive}\(", lines[int(number) - 1])


# --- one short name


@pytest.mark.parametrize(
    "path, short",
    [
        ("params['params']['Dense_0']['kernel']", "Dense_0.kernel"),
        ("variables['params']['Block_1']['Dense_0']['bias']", "Block_1.Dense_0.bias"),
        ("state.params['params']['Dense_0']['kernel']", "Dense_0.kernel"),
        ("params['layers'][0]['w']", "layers[0].w"),
        ("grads['params']['Dense_0']['kernel']", "grads.Dense_0.kernel"),
        ("params['w']", "params['w']"),
        ("params[0]", "params[0]"),
        ("p['l1']['w']", "p['l1']['w']"),
        ("params['a b']['c']['d']", "params['a b']['c']['d']"),
        ("model.layers[0].w", "model.layers[0].w"),
    ],
)
def test_paths_into_parameters_are_short(path, short):
    assert short_path(path) == short


def test_a_short_path_and_the_whole_path_name_the_same_value():
    def apply(variables, *args):
        return args[0] @ variables["params"]["Dense_0"]["kernel"]

    def loss(params, x):
        return apply(params, x).sum()

    params = {"params": {"Dense_0": {"kernel": jnp.ones((2, 2))}}}
    _, recording = record(loss, params, X)
    assert [life.name for life in recording.lives[:2]] == ["X", "Dense_0.kernel"]
    session = Session(find, {"loss": loss, "params": params, "x": X})
    for name in ("Dense_0.kernel", "params['params']['Dense_0']['kernel']"):
        assert "found" in plain(session.run_line(f"%find ({name}).max() > 0.5 in loss(params, x)").shown)
    assert "Dense_0.kernel" in plain(session.run_line("%origin loss(params, x)").shown)


def test_a_container_without_arrays_is_searched_once(monkeypatch):
    searched = []
    leaves = frames._leaves
    monkeypatch.setattr(
        frames, "_leaves", lambda value, *rest: searched.append(value is settings) or leaves(value, *rest)
    )
    settings = {"optimizer": {"steps": [1, 2]}}

    def inner(options, x):
        same = options
        return jnp.sin(x) * len(same)

    record(lambda x: inner(settings, x) + inner(settings, x), X)
    assert searched.count(True) == 1
