"""Pytrees match jax.tree_util in structures, texts, key paths and errors; and minijax's additions work."""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import pickle
import weakref
from typing import Any

import jax
import jax.tree_util as jtu
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minijax import pytree, tree, tree_util
from minijax.pytree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    Partial,
    SequenceKey,
    explain_prefix_mismatch,
    explain_tree_diff,
    keystr,
    prefix_leaves,
    tree_diff,
    tree_flatten,
    tree_map,
    tree_structure,
    treedef_is_leaf,
)
from tests.pytree_cases import ALL, IDS, Box, Color, Layer, OtherPoint, Point, Static, same


def outcome(f):
    """The result of ``f()``, or the exception that it raises."""
    try:
        return f()
    except Exception as error:
        return error


# --- flatten and unflatten, against JAX ---------------------------------------------------------------------


@pytest.mark.parametrize("value", ALL, ids=IDS)
def test_structures_match_jax(value):
    for _ in range(2):  # the second time, the caches give the result
        leaves, treedef = tree_flatten(value)
        expected_leaves, expected = jtu.tree_flatten(value)
        assert len(leaves) == len(expected_leaves)
        assert all(a is b for a, b in zip(leaves, expected_leaves, strict=True))
        assert str(treedef) == repr(treedef) == str(expected)
        assert treedef.num_leaves == expected.num_leaves
        assert treedef.num_nodes == expected.num_nodes
        assert treedef.node_data() == expected.node_data()
        assert [str(c) for c in treedef.children()] == [str(c) for c in expected.children()]
        assert treedef_is_leaf(treedef) == jtu.treedef_is_leaf(expected)


@pytest.mark.parametrize("value", ALL, ids=IDS)
def test_key_paths_match_jax(value):
    pairs, treedef = pytree.tree_flatten_with_path(value)
    expected, _ = jtu.tree_flatten_with_path(value)
    assert treedef == tree_structure(value)
    assert [keystr(path) for path, _ in pairs] == [jtu.keystr(path) for path, _ in expected]
    assert [repr(path) for path, _ in pairs] == [repr(path) for path, _ in expected]
    simple = [keystr(path, simple=True, separator="/") for path, _ in pairs]
    assert simple == [jtu.keystr(path, simple=True, separator="/") for path, _ in expected]
    assert all(a is b for (_, a), (_, b) in zip(pairs, expected, strict=True))


@pytest.mark.parametrize("value", ALL, ids=IDS)
def test_is_leaf_is_called_in_the_order_of_jax(value):
    for stop in (None, list, dict, Point):
        asked = []
        asked_by_jax = []

        def ours(x, stop=stop, asked=asked):
            asked.append(x)
            return stop is not None and isinstance(x, stop)

        def theirs(x, stop=stop, asked=asked_by_jax):
            asked.append(x)
            return stop is not None and isinstance(x, stop)

        assert str(tree_structure(value, ours)) == str(jtu.tree_structure(value, theirs))
        assert len(asked) == len(asked_by_jax)
        assert all(same(a, b) for a, b in zip(asked, asked_by_jax, strict=True))


leaves_of_trees = st.one_of(st.integers(), st.text(max_size=2), st.just(None), st.floats(allow_nan=False))
keys_of_dicts = st.one_of(st.text(max_size=3), st.sampled_from(list("abcdefgh")))


def containers(child):
    return st.one_of(
        st.lists(child, max_size=5),
        st.lists(child, max_size=5).map(tuple),
        st.dictionaries(keys_of_dicts, child, max_size=6),
        st.dictionaries(st.integers(0, 5), child, max_size=3),
        st.dictionaries(keys_of_dicts, child, max_size=3).map(collections.OrderedDict),
        st.dictionaries(keys_of_dicts, child, max_size=3).map(lambda d: collections.defaultdict(int, d)),
        st.tuples(child, child).map(lambda xy: Point(*xy)),
        st.tuples(child, st.integers(0, 2)).map(lambda xy: Box(*xy)),
    )


random_trees = st.recursive(leaves_of_trees, containers, max_leaves=25)


@given(random_trees)
def test_any_tree_flattens_as_in_jax(value):
    leaves, treedef = tree_flatten(value)
    expected_leaves, expected = jtu.tree_flatten(value)
    assert str(treedef) == str(expected)
    assert all(a is b for a, b in zip(leaves, expected_leaves, strict=True))
    assert same(treedef.unflatten(leaves), jtu.tree_unflatten(expected, leaves))
    assert treedef.flatten_up_to(value) == leaves
    paths = [keystr(path) for path, _ in pytree.tree_leaves_with_path(value)]
    assert paths == [jtu.keystr(path) for path, _ in jtu.tree_leaves_with_path(value)]
    assert tree_structure(value, lambda _: False) == treedef
    assert pickle.loads(pickle.dumps(treedef)) == treedef


@given(random_trees, random_trees)
def test_equality_of_structures_matches_jax(a, b):
    ours, theirs = tree_structure(a) == tree_structure(b), jtu.tree_structure(a) == jtu.tree_structure(b)
    assert ours == theirs
    if ours:
        assert hash(tree_structure(a)) == hash(tree_structure(b))
    assert bool(tree_diff(a, b)) is not ours


@given(random_trees, random_trees)
def test_prefixes_match_jax(a, b):
    ours, theirs = outcome(lambda: pytree.broadcast_prefix(a, b)), outcome(lambda: jtu.tree_broadcast(a, b))
    if isinstance(theirs, Exception):
        assert type(ours) is type(theirs) is ValueError
        if ".y" not in str(ours):  # JAX 0.10.2 prints the first field's name for every field of a namedtuple here
            assert str(ours).splitlines()[:3] == str(theirs).splitlines()[:3]
    else:
        assert same(tree_structure(b).unflatten(ours), theirs)


# --- tree definitions ---------------------------------------------------------------------------------------


def test_equal_structures_of_builtin_nodes_are_one_object():
    first, second = {"b": 1, "a": (2, [3], Point(1, 2))}, {"a": (0, [0], Point(0, 0)), "b": 7}
    assert tree_structure(first) is tree_structure(second)
    assert hash(tree_structure(first)) == hash(tree_structure(second))
    assert tree_structure((1, 2)) != tree_structure([1, 2])
    assert tree_structure((1, 2)) != tree_structure((1, 2, 3))
    assert tree_structure(None) != tree_structure(())
    assert tree_structure(Point(1, 2)) != tree_structure(OtherPoint(1, 2))
    assert tree_structure(1) != 1


def test_equal_keys_of_different_types_are_restored():
    # 1 == True and "red" == Color.RED: if a cache took these for the same key, it would return wrong keys.
    pairs = [({"red": 1}, {Color.RED: 1}), ({1: 1}, {True: 1}), ({1: 1}, {1.0: 1})]
    for n in range(6):
        more = dict.fromkeys("abcdef"[:n], 0)
        pairs.append(({"red": 1, **more}, {Color.RED: 1, **more}))
    for plain, special in pairs:
        for value in (plain, special, plain, special):
            for copied in (tree_map(lambda x: x, value), tree_map(lambda x: x, [value])[0]):
                assert [type(k) for k in sorted(copied)] == [type(k) for k in sorted(value)]


def test_no_user_object_is_kept_alive():
    class Data:
        pass

    aux, key = Data(), Data()
    refs = [weakref.ref(aux), weakref.ref(key)]
    treedef = tree_structure([Box(1, aux), {key: (1,)}, (Box((Box(1, aux),), 0),)])
    text = str(treedef)
    assert "Data" in text
    del aux, key, treedef
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_treedefs_compose_and_have_children():
    pair = tree_structure((1, 2))
    assert str(pair.compose(tree_structure([1, None]))) == "PyTreeDef(([*, None], [*, None]))"
    assert pair.compose(tree_structure([1])) is tree_structure(([1], [1]))
    assert tree_util.treedef_tuple([pair, tree_structure(1)]) is tree_structure(((1, 2), 3))
    assert tree_util.treedef_children(pair) == [tree_structure(0), tree_structure(0)]
    assert tree_util.all_leaves([1, "a"]) and not tree_util.all_leaves([1, None])
    assert tree_util.all_leaves([1, (2, 3)], is_leaf=lambda x: isinstance(x, tuple))


# --- map, reduce and similar functions, against JAX ---------------------------------------------------------

MAPS = {
    "is_leaf": lambda m: m.tree_map(lambda x: str(x), [1, None, (2,)], is_leaf=lambda x: x is None),
    "lengths": lambda m: m.tree_map(lambda x, y: x, (1, 2), (1,)),
    "dict keys": lambda m: m.tree_map(lambda x, y: x, {"a": 1}, {"b": 1}),
    "leaf for node": lambda m: m.tree_map(lambda x, y: x, {"a": 1}, 3),
    "tuple for namedtuple": lambda m: m.tree_map(lambda x, y: x, Point(1, 2), (1, 2)),
    "auxiliary data": lambda m: m.tree_map(lambda x, y: x, Box(1, 2), Box(1, 3)),
    "with path": lambda m: m.tree_map_with_path(lambda p, x, y: (m.keystr(p), x, y), {"a": [1]}, {"a": [2]}),
    "with path, is_leaf of path": lambda m: m.tree_map_with_path(
        lambda p, x: (len(p), x), {"a": [1]}, is_leaf=lambda p, x: len(p) == 1, is_leaf_takes_path=True
    ),
    "reduce pairwise": lambda m: m.tree_reduce_associative(lambda a, b: f"({a}{b})", list("abcde")),
    "reduce pairwise nothing": lambda m: m.tree_reduce_associative(lambda a, b: a, ()),
    "transpose": lambda m: m.tree_transpose(
        m.tree_structure((1, 2)), m.tree_structure([1, 2, 3]), ([1, 2, 3], [4, 5, 6])
    ),
    "transpose mismatch": lambda m: m.tree_transpose(
        m.tree_structure((1, 2)), m.tree_structure([1, 2]), ([1, 2, 3], [4, 5, 6])
    ),
    "broadcast mismatch": lambda m: m.tree_broadcast((1, 2), [0, 0]),
    "unsortable keys": lambda m: m.tree_flatten({1: 1, "a": 2}),
    "is_leaf not boolean": lambda m: m.tree_flatten([1], is_leaf=lambda x: 5),
    "too few leaves": lambda m: m.tree_structure((1, 2)).unflatten([1]),
    "up to: dict keys": lambda m: m.tree_structure({"a": 1}).flatten_up_to({"b": 1}),
    "up to: dict unsorted": lambda m: m.tree_structure({"a": 1, "b": 2}).flatten_up_to({"b": 1, "a": [2]}),
    "up to: namedtuple": lambda m: m.tree_structure(Point(1, 2)).flatten_up_to((1, 2)),
    "up to: custom data": lambda m: m.tree_structure(Static(2)).flatten_up_to(Static(3)),
    "up to: custom type": lambda m: m.tree_structure(Box(1, 2)).flatten_up_to(3),
    "dataclass registered twice": lambda m: m.register_dataclass(Layer),
    "class registered twice": lambda m: m.register_pytree_node(Box, lambda x: ((), None), lambda a, c: None),
    "no class registered": lambda m: m.register_pytree_node("x", None, None),
    "dataclass: one list": lambda m: m.register_dataclass(Color, ["a"], None),
    "dataclass: no dataclass": lambda m: m.register_dataclass(Color),
    "dataclass: overlap": lambda m: m.register_dataclass(Color, ["a"], ["a"]),
    "dataclass: missing": lambda m: m.register_dataclass(Layer, ["weights"], []),
}


@pytest.mark.parametrize("name", MAPS)
def test_results_and_errors_match_jax(name):
    ours, theirs = outcome(lambda: MAPS[name](pytree)), outcome(lambda: MAPS[name](jtu))
    assert type(ours) is type(theirs)
    if not isinstance(theirs, Exception):
        assert same(ours, theirs)
    elif isinstance(theirs, ValueError):
        # minijax's message begins like JAX's first line, but has a number that JAX leaves out, and no final full stop
        first = str(theirs).splitlines()[0].rstrip(".")
        # JAX prints the missing field names as a set, in an order that differs between runs
        first = first.split(" Missing fields")[0]
        assert str(ours).startswith(first)


@pytest.mark.parametrize("got", [3, (3, 4), (1, 2, 3), [(1,), None]])
def test_malformed_flatten_functions_are_reported(got):
    class Malformed:
        pass

    for module in (pytree, jtu):
        module.register_pytree_node(Malformed, lambda _: got, lambda aux, children: Malformed())
    ours, theirs = (outcome(lambda: pytree.tree_flatten(Malformed())), outcome(lambda: jtu.tree_flatten(Malformed())))
    assert type(theirs) is type(ours) is ValueError
    assert str(ours) == str(theirs)


def test_registration_after_use_takes_effect():
    class Late:
        def __init__(self, x):
            self.x = x

    value = Late(1)
    for container in ((value,), [value, [value]], {"a": value}):
        assert pytree.tree_leaves(container)[0] is value
    pytree.register_pytree_node(Late, lambda late: ((late.x,), None), lambda _, children: Late(*children))
    assert pytree.tree_leaves((value,)) == [1]
    assert pytree.tree_leaves([value, [value]]) == [1, 1]
    assert pytree.tree_leaves({"a": value}) == [1]


def test_a_class_is_registered_with_keys():
    @pytree.register_pytree_with_keys_class
    class Keyed:
        def __init__(self, a, b):
            self.a, self.b = a, b

        def tree_flatten_with_keys(self):
            return ((GetAttrKey("a"), self.a), (GetAttrKey("b"), self.b)), None

        @classmethod
        def tree_unflatten(cls, _, children):
            return cls(*children)

    pairs, treedef = pytree.tree_flatten_with_path(Keyed(1, [2]))
    assert [keystr(path) for path, _ in pairs] == [".a", ".b[0]"]
    assert treedef.unflatten([3, 4]).b == [4]
    assert pytree.tree_leaves(Keyed(1, [2])) == [1, 2]


def test_register_dataclass_is_a_decorator_or_a_call():
    @functools.partial(pytree.register_dataclass, data_fields=["y", "x"], meta_fields=["op"])
    @dataclasses.dataclass
    class Pair:
        x: Any
        y: Any
        op: str

    leaves, treedef = tree_flatten(Pair(1, 2, "add"))
    assert leaves == [2, 1]
    assert str(treedef) == "PyTreeDef(CustomNode(Pair[('add',)], [*, *]))"
    assert treedef.unflatten([5, 6]) == Pair(6, 5, "add")

    class Loose:
        def __init__(self, x, tag):
            self.x, self.tag = x, tag

    assert pytree.register_dataclass(Loose, ["x"], ["tag"]) is Loose
    assert pytree.tree_map(lambda x: x + 1, Loose(1, "t")).x == 2

    @dataclasses.dataclass
    class Dropped:
        x: Any
        cache: Any = None

    pytree.register_dataclass(Dropped, ["x"], [], drop_fields=["cache"])
    assert pytree.tree_leaves(Dropped(1, 2)) == [1]


def test_partial_is_a_tree_of_its_arguments():
    add = Partial(max, 1, default=2)
    leaves, treedef = tree_flatten(add)
    assert leaves == [1, 2]
    assert str(treedef) == str(jtu.tree_structure(jtu.Partial(max, 1, default=2)))
    again = treedef.unflatten([5, 6])
    assert type(again) is Partial and again.args == (5,) and again.keywords == {"default": 6}
    # As in JAX, an inner functools.partial keeps its own arguments: they are no leaves.
    outer = Partial(functools.partial(max, 10), 3)
    assert pytree.tree_leaves(outer) == jtu.tree_leaves(jtu.Partial(functools.partial(max, 10), 3)) == [3]
    assert outer() == 10
    assert tree_structure(Partial(max, 1)) == tree_structure(Partial(max, 2)) != tree_structure(Partial(min, 1))
    inner = functools.partial(max, 1)
    assert tree_structure(Partial(inner, 1)) == tree_structure(Partial(inner, 2))


def test_key_classes_match_jax():
    pairs = [
        (SequenceKey(1), jtu.SequenceKey(1)),
        (DictKey("a"), jtu.DictKey("a")),
        (DictKey((1, "b")), jtu.DictKey((1, "b"))),
        (GetAttrKey("name"), jtu.GetAttrKey("name")),
        (FlattenedIndexKey(3), jtu.FlattenedIndexKey(3)),
    ]
    for ours, theirs in pairs:
        assert (str(ours), repr(ours)) == (str(theirs), repr(theirs))
        assert ours == type(ours)(ours._value) and hash(ours) == hash(type(ours)(ours._value))
        assert pickle.loads(pickle.dumps(ours)) == ours
    assert SequenceKey(1) != FlattenedIndexKey(1) and DictKey(1) != SequenceKey(1)
    match DictKey("a"):
        case DictKey(key=key):
            assert key == "a"
    match SequenceKey(4):
        case SequenceKey(idx):
            assert idx == 4
    assert keystr((1, "x")) == "1x"
    assert keystr((SequenceKey(0), DictKey("w")), simple=True, separator=".") == "0.w"


# --- prefixes and differences -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "axes, full",
    [
        (0, (1, [2, 3])),
        ((0, None), ({"w": 1, "b": 2}, 3)),
        ((0, (None, 1)), (1, (2, {"a": 3, "b": 4}))),
        (None, (1, 2)),
        ((None, 0), (None, 1)),
        (({"w": 0, "b": None}, 1), ({"w": [1, 2], "b": (3, 4, 5)}, 6)),
        ((), ()),
    ],
)
def test_prefix_leaves_expands_in_axes(axes, full):
    from jax._src.api_util import flatten_axes

    expected = flatten_axes("in_axes", jtu.tree_structure(full), axes)
    assert prefix_leaves(axes, full) == list(expected)
    assert prefix_leaves(axes, tree_structure(full)) == list(expected)


PREFIXES = [
    ((1, 2), (1, 2, 3)),
    ({"a": 1}, {"b": 1}),
    ({"a": 1, "c": 2}, {"b": 1}),
    ((1, [1]), (1, (1,))),
    (Box((1,), 2), Box((1,), 3)),
    (None, 1),
    (Point([2], 1), Point([2, 3], 1)),
    ({"x": {"y": (1, 2)}}, {"x": {"y": (1, 2, 3)}}),
]


@pytest.mark.parametrize("prefix, full", PREFIXES)
def test_prefix_explanations_match_jax(prefix, full):
    from jax._src.tree_util import prefix_errors

    theirs = str(prefix_errors(prefix, full)[0]("in_axes"))
    ours = explain_prefix_mismatch(prefix, full, "in_axes")
    assert ours is not None
    # the words are equal; but JAX orders keys differently and compares metadata by line, and minijax explains None
    theirs = theirs.split("\nso the diff in the metadata")[0]
    assert sorted(theirs.split()) == sorted(ours.split("\nNone is a node")[0].split())


def test_explanations_take_leaves_of_the_prefix_as_they_are():
    with pytest.raises(ValueError, match=r"key path\n    in_axes\[1\]\nAt that"):
        prefix_leaves((None, {"x": 0}), ({"y": 1}, {"z": 2}), name="in_axes")


@pytest.mark.parametrize("a, b", [*PREFIXES, ((1, {"p": [1]}), (1, {"p": [1, 2]})), (Static(1), Static(2))])
def test_differences_match_jax(a, b):
    from jax._src.tree_util import equality_errors

    theirs = [(jtu.keystr(path), *rest) for path, *rest in equality_errors(a, b)]
    ours = [(keystr(path), *rest) for path, *rest in tree_diff(a, b)]
    assert [sorted(" ".join(row).split()) for row in ours] == [sorted(" ".join(row).split()) for row in theirs] or (
        # JAX lists the differing keys in the order of a set
        [row[:3] for row in ours] == [row[:3] for row in theirs]
    )
    assert ours


def test_a_difference_of_structures_is_explained():
    carry, out = tree_structure((1, {"w": 2})), tree_structure((1, {"w": [2, 3]}))
    assert tree_diff(carry, carry) == []
    text = explain_tree_diff(carry, out, "the input carry", "the output carry")
    assert text == (
        "  * [1]['w'] is a pytree leaf in the input carry and <class 'list'> in the output carry, "
        "so their Python types differ"
    )


def test_public_names_match_jax():
    for name in tree_util.__all__:
        assert hasattr(jtu, name) and hasattr(tree_util, name)
    for name in tree.__all__:
        assert hasattr(jax.tree, name)
    missing = {n for n in dir(jax.tree) if not n.startswith("_")} - set(tree.__all__)
    assert not missing
    missing = {n for n in dir(jtu) if not n.startswith("_")} - set(tree_util.__all__)
    assert not missing
    registry = tree_util.default_registry
    assert {n for n in dir(jtu.default_registry) if n[0] != "_"} == {n for n in dir(registry) if n[0] != "_"}
    for x in ({"a": [1, 2]}, [1, (2,)], (3,), None, 4):
        wanted = jtu.default_registry.flatten_one_level(x)
        assert registry.flatten_one_level(x) == wanted and registry.is_node(type(x)) == (wanted is not None)
        assert str(registry.flatten_one_level_with_keys(x)) == str(jtu.default_registry.flatten_one_level_with_keys(x))
        assert registry.flatten(x)[0] == jtu.default_registry.flatten(x)[0]
        assert str(registry.flatten_with_path(x)[0]) == str(jtu.default_registry.flatten_with_path(x)[0])
    registered = [type("Registered", (), {"__init__": lambda self, x: setattr(self, "x", x)}) for _ in range(2)]
    for lib, cls in zip((registry, jtu.default_registry), registered, strict=True):
        lib.register_node(cls, lambda x: ((x.x,), "aux"), lambda aux, children, cls=cls: cls(*children))
        assert lib.flatten_one_level(cls(5)) == ((5,), "aux") and lib.flatten(cls([5, 6]))[0] == [5, 6]
    assert tree.map(lambda x: x + 1, {"a": 1}) == {"a": 2}


@pytest.mark.parametrize("wrap", [lambda t: [t], lambda t: (t, None), lambda t: {"a": t}])
def test_trees_may_be_deep_but_not_circular(wrap):
    """A tree may have 900 levels, as in JAX. A container that holds itself raises a RecursionError."""
    tree = 1.0
    for _ in range(900):
        tree = wrap(tree)
    leaves, structure = tree_util.tree_flatten(tree)
    assert leaves == [1.0] and structure.num_nodes > 900
    assert tree_util.tree_leaves(tree, is_leaf=lambda x: x is None)[0] == 1.0
    assert tree_util.tree_leaves(tree_util.tree_map(lambda x, y: x + y, tree, tree)) == [2.0]
    assert tree_util.tree_structure(structure.unflatten([3.0])) is structure
    holds_itself = []
    holds_itself.append(wrap(holds_itself))
    with pytest.raises(RecursionError):
        tree_util.tree_leaves(holds_itself)
