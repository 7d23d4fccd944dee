"""Key trees show the right values, count and fold arrays, and stay safe if keys are hostile."""

from __future__ import annotations

import dataclasses
import re
import time
from collections import namedtuple
from typing import Any

import jax
import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import tree_util
from minijax.tools.commands import find
from minijax.tools.documents.document import document, plain
from minijax.tools.documents.html import to_html
from minijax.tools.session.session import Session
from minijax.tools.session.values import printed, value_tree
from minijax.tools.trees.keys import found_at, paths, taken_apart
from minijax.tools.trees.numbers import MOST_SCANNED, SAMPLE, Budget, numbers
from minijax.tools.trees.view import MOST_LINES, MOST_PAGED, Tree, key_tree

Moments = namedtuple("Moments", "count mu")


@dataclasses.dataclass
class Config:
    rate: float
    table: Any


class Boxed:
    """A registered pytree node whose children have no key names."""

    def __init__(self, *parts):
        self.parts = parts


tree_util.register_pytree_node(Boxed, lambda box: (box.parts, None), lambda _, parts: Boxed(*parts))


class Broken:
    """A registered pytree node whose flattening fails."""


def _fails(broken):
    raise RuntimeError("no")


tree_util.register_pytree_node(Broken, _fails, lambda aux, parts: Broken())


def shown(value, width=80, **options):
    return plain(document(key_tree(Tree(taken_apart(value), **options))), width)


def test_wide_keys_take_two_columns_a_character():
    rows = shown({"日本": jnp.ones(2), "b": jnp.ones(3)}).splitlines()[1:]
    assert [row.partition("f32")[0] for row in rows] == ["  ['日本']  ", "  ['b']     "]


PARAMS = {f"l{i}": {"w": jnp.ones((4, 8)) * i, "b": jnp.zeros(8)} for i in range(3)}


@pytest.mark.parametrize(
    ("value", "is_tree"),
    [
        ({"a": jnp.array(1.0)}, False),
        ((jnp.ones(3), 2.0), False),
        (jnp.ones((40, 40)), False),  # a single array: NumPy prints it
        ([list(range(20))] * 20, False),  # a tree without arrays
        (PARAMS, True),
        ([jnp.array(1.0)] * 200, True),
        (Moments(jnp.array(3), PARAMS), True),
        (minijax.eval_shape(lambda p: p, [PARAMS] * 2), True),
        (None, False),
    ],
)
def test_only_some_values_are_shown_as_trees(value, is_tree):
    assert (value_tree(value, "_", 80) is not None) == is_tree


def test_a_leaf_of_every_kind_has_its_line(golden):
    value = {
        "w": jnp.array([[3.0, -4.0, 0.0, 0.0]] * 2),
        "nan": np.array([np.nan, np.inf, 1.0, 2.0, 2.0, 2.0, -3.0], np.float32),
        "int": jnp.arange(100),
        "bool": np.arange(10) > 3,
        "complex": np.full(8, 3 + 4j, np.complex64),
        "half": jnp.full(16, 0.5, jnp.bfloat16),
        "wide": np.arange(7, dtype=np.float64),
        "small": jnp.array([1.0, 2.5]),
        "empty": jnp.zeros((0, 3)),
        "key": minijax.random.key(0),
        "none": None,
        "text": "relu\x1b[31m",
        "number": 2,
        "function": shown,
        "type": minijax.ShapeDtypeStruct((2, 3), np.float32),
        "config": Config(0.1, jnp.ones(2)),
        "box": Boxed(jnp.ones(2), 1),
        "broken": Broken(),
        "nothing": (),
        "jax": jax.numpy.arange(9.0),
    }
    golden("tree.txt", shown(value, 100, most=50))
    assert re.search(r"\[<flat index 1>\] +1\n", shown(value, most=50)) and ".rate" in shown(value, most=50)


def test_a_traced_leaf_and_a_cycle_are_shown():
    seen = []

    def f(x):
        seen.append(shown({"x": x, "y": [x]}))
        return x

    minijax.jvp(f, (jnp.ones(3),), (jnp.ones(3),))
    assert "['x']     f32[3]  jvp:1" in seen[0]
    loop = {"a": jnp.ones(2)}
    loop["again"] = {"inner": loop, "b": 1}
    assert "the dict of 2 around it, again" in shown(loop)
    deep = jnp.ones(2)
    for _ in range(5000):
        deep = [deep, deep] if _ == 4998 else [deep]
    assert "too deep to be shown" in shown(deep) and "2 parts not counted" in shown(deep)


def test_folding_counts_hidden_arrays_and_names_the_command():
    tree = {"a": PARAMS, "b": [jnp.ones(2)] * 30, "c": {"d": {"e": PARAMS}}}
    lines = shown(tree, name="_").split("\n")
    assert len(lines) <= MOST_LINES + 2
    assert lines[0] == "dict of 3 · 42 arrays, 300 elements, 1.2 kB"
    assert "  ['b']  list of 30 · 30 arrays, 60 elements" in lines
    assert any(line.startswith("  ['c']['d']['e']") for line in lines)  # a chain of keys without branches is one line
    assert lines[-1].endswith("folded: %tree _ shows them")
    assert "folded" not in shown(tree, most=100)
    wide = shown([jnp.ones(2)] * 1000, name="_").split("\n")
    assert wide[-1] == "... 983 more lines (983 arrays, 1,966 elements): %tree _ shows them"


def test_equal_folded_branches_share_a_line(golden):
    layers = {f"l{i}": {"w": jnp.ones((4, 8)), "b": jnp.zeros(8)} for i in range(12)}
    layers["l7"] = {"w": jnp.ones((4, 9)), "b": jnp.zeros(9)}
    layers["l9"]["b"] = jnp.array([jnp.nan] * 8)
    golden("tree_folded.txt", shown({"a": layers, "z": jnp.zeros(2)}, name="_", most=17))


def test_folded_branches_count_their_nonfinite_elements():
    bad = {**PARAMS, "l2": {"w": jnp.array([[jnp.nan] * 3 + [1.0]] * 2), "b": jnp.array([jnp.inf, 1.0])}}
    tree = {"a": PARAMS, "b": [bad] * 2, "c": [jnp.array([jnp.nan])] * 50}
    lines = shown(tree, depth=1).split("\n")
    assert lines[1:4] == [
        "  ['a']  dict of 3 · 6 arrays, 120 elements",
        "  ['b']  list of 2 · 12 arrays, 180 elements · 14 not finite",
        "  ['c']  list of 50 · 50 arrays, 50 elements · 50 not finite",
    ]
    assert "41 more lines (41 arrays, 41 elements) · 41 not finite" in shown(tree["c"], most=10)
    assert "list of 300 · 300 arrays, 300 elements · at least 200 not finite" in shown([tree["c"] * 6, 1], depth=1)
    large = np.broadcast_to(np.float32(np.nan), (5_000_000,))
    assert "· at least 65,536 not finite" in shown({"a": {"b": large, "c": 1}, "d": 1}, depth=1)
    assert "· 14 not finite" in to_html(document(key_tree(Tree(taken_apart(tree)))))


def test_a_page_folds_every_branch_and_escapes_keys():
    hostile = {"<script>alert(1)</script>": PARAMS, "\x1b[2J\u202e": PARAMS, "k" * 5000: PARAMS}
    page = to_html(document(key_tree(Tree(taken_apart(hostile)))))
    # the page can unfold the root, each branch, and each array of more than six elements
    assert page.count("<details") == 1 + 3 * 4 + 3 * 6 and "<script" not in page
    assert "[2., 2., 2., 2., 2., 2., 2., 2.]" in page
    large = to_html(document(key_tree(Tree(taken_apart({"a": jnp.ones(2000), "b": jnp.ones(2000)})))))
    assert large.count("<details") == 2 and "[1., 1., 1., ..., 1., 1., 1.]" in large  # shortened to fit
    assert "\x1b" not in page and "\u202e" not in page and "k" * 60 not in page
    text = shown(hostile)
    assert "\\x1b[2J\\u202e" in text and max(map(len, text.split("\n"))) <= 80
    many = to_html(document(key_tree(Tree(taken_apart([jnp.array(1.0)] * 5000)))))
    assert f"{5000 - MOST_PAGED:,} more" in many and len(many) < 145_000


def test_paths_find_subtrees():
    tree = taken_apart({"a": Moments(1, [jnp.ones(2), {"x" * 100: 3}]), 5: None})
    found = list(paths(tree))
    assert "['a'].mu[1]" in found and "[5]" in found
    assert all(found_at(tree, path) is not None for path in found)
    assert found_at(tree, '["a"].mu[0]') is not None and found_at(tree, "['b']") is None


def test_large_arrays_are_sampled_and_marked_as_such():
    large = np.broadcast_to(np.float32(2.0), (10_000, 10_000))  # this view takes no memory unless it is copied
    begin = time.process_time()
    text = shown({"large": large, "other": jnp.ones(8)})
    assert time.process_time() - begin < 1.0
    assert f"norm ≈20000.0  2.0 … 2.0  from a sample of {SAMPLE:,}" in text and "norm 2.828" in text
    budget = Budget()
    assert budget.take(MOST_SCANNED) and not budget.take(1)
    exact = numbers(np.ones(100_000), Budget(None))
    assert exact is not None and not exact.sampled


@pytest.fixture
def session():
    made = Session(find, {"params": PARAMS, "jnp": jnp})
    made.settings.columns = 80
    yield made


def test_values_and_results_of_commands_are_trees(session):
    def run(line):
        return plain(session.run_line(line).shown, 80)

    run("def loss(p): return jnp.sum(p['l1']['w'] ** 2) + jnp.sum(p['l0']['b'])")
    assert run("params").startswith("dict of 3 · 6 arrays")
    run("%config trees off")
    assert run("params").startswith("{'l0': {'w'") and "dtype=float32" in run("%grad loss(params)")
    run("%config trees on")
    assert run("{'a': jnp.ones(2)}") == "{'a': Array([1., 1.], dtype=float32)}"
    for line in ("%grad loss(params)", "%vjp loss(params)"):
        text = run(line)
        assert " gradient p\n" in text or " pullback p\n" in text
        tree = text.partition(" linear")[0]
        assert "      ['w']  f32[4,8]  norm 11.31  all 2.0" in tree and max(map(len, tree.split("\n"))) <= 80
    assert run("%tree _[1]").count("norm 11.31") == 1 and session.namespace["_"][0] == 32.0
    number = len(session.inputs)
    assert run("[params] * 20").endswith(f": %tree Out[{number}] shows them") and "[19]" in run(f"%tree Out[{number}]")


ARRAYS = (
    "arange(5)",
    "arange(2000)",
    "arange(12.).reshape(3, 4)",
    "ones((3, 30))",
    "ones((2, 3), bool)",
    "zeros((0, 3))",
    "full((2, 2), 0.1, 'bfloat16')",
)


@pytest.mark.parametrize("options", [{}, {"linewidth": 40}, {"linewidth": 120, "precision": 3}, {"threshold": 10}])
def test_arrays_are_printed_as_jax_prints_them(options):
    with np.printoptions(**options):
        for text in ARRAYS:
            ours, theirs = eval(f"jnp.{text}"), eval(f"jax.numpy.{text}")
            assert repr(ours) == repr(theirs) and str(ours) == str(theirs), text
            # in a narrow terminal, the dtype comes on the next line
            with np.printoptions(linewidth=min(50, np.get_printoptions()["linewidth"])):
                narrow = repr(theirs).replace(",      dtype=", ",\n      dtype=")
            assert printed(ours, 50) == narrow, text
