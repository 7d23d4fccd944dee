"""Tree definitions, the kinds of nodes, and how trees are flattened and rebuilt.

A node is a dict, list, tuple, None, namedtuple, OrderedDict, defaultdict or an instance of a registered class; a
subclass must be registered itself. If JAX is loaded, classes registered only with JAX are nodes too. Others are leaves.

The types of a container's children are looked up in a bounded table. If all children are leaves, the table gives the
definition without Python code for each child. Definitions of builtin nodes are interned: equal ones are identical.
Definitions with user data (auxiliary data, keys that are not strings) are compared by value; no table keeps this data.
"""

from __future__ import annotations

import functools
import operator
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from minijax.pytree.keys import DictKey, FlattenedIndexKey, GetAttrKey, KeyEntry, SequenceKey

__all__ = [
    "PyTreeDef",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "is_tree_node",
    "tree_flatten",
    "tree_leaves",
    "tree_structure",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]

Tree = Any
Leaf = Any
IsLeaf = Callable[[Any], bool]

_NoneType = type(None)


class PyTreeDef:
    """The structure of a tree without its leaves, from ``tree_structure``, ``tree_flatten`` or ``treedef_tuple``.

    Definitions without user data have exactly this class and are interned. The others are of ``_ValueTreeDef``.
    """

    # _type: None for a leaf. _aux: a dict's keys, or the auxiliary data from a registered flatten function.
    # _flat: whether all children are leaves.
    __slots__ = ("__weakref__", "_aux", "_children", "_flat", "_type", "num_leaves", "num_nodes")

    _type: type | None
    _aux: Any
    _children: tuple[PyTreeDef, ...]
    _flat: bool
    num_leaves: int
    num_nodes: int

    def _set(self, node_type: type | None, aux: Any, children: tuple[PyTreeDef, ...]) -> None:
        leaves, nodes, flat = 0, 1, True
        for child in children:
            leaves += child.num_leaves
            nodes += child.num_nodes
            flat = flat and child._type is None
        self._type = node_type
        self._aux = aux
        self._children = children
        self._flat = flat
        self.num_leaves = leaves if node_type is not None else 1
        self.num_nodes = nodes

    def unflatten(self, leaves: Iterable[Leaf]) -> Tree:
        """The tree of this structure with these leaves. ValueError if there are too many or too few."""
        if type(leaves) is not list and type(leaves) is not tuple:
            leaves = list(leaves)
        count = len(leaves)
        if count != self.num_leaves:
            which = "few" if count < self.num_leaves else "many"
            raise ValueError(f"Too {which} leaves for PyTreeDef; expected {self.num_leaves}, got {count}")
        if self._type is None:
            return leaves[0]
        return _assemble(self, leaves) if self._flat else build(self, leaves, 0)

    def flatten_up_to(self, tree: Tree) -> list[Tree]:
        """One subtree of ``tree`` per leaf of this structure; ValueError if this structure is no prefix of ``tree``."""
        out: list[Tree] = []
        try:
            _flatten_up_to(self, tree, out)
        except RecursionError:
            out = []
            without_recursion(_flatten_up_to_deep, self, tree, out)
        return out

    def children(self) -> list[PyTreeDef]:
        """The structures of the direct children."""
        return list(self._children)

    def node_data(self) -> tuple[type, Any] | None:
        """``(type, auxiliary data)`` of the root, or None for a leaf. The data of a dict is its list of sorted keys."""
        if self._type is None:
            return None
        if self._type is dict:
            return dict, list(self._aux)
        return self._type, self._aux

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """This structure with each leaf replaced by ``inner``."""
        if self._type is None:
            return inner
        return make_treedef(self._type, self._aux, tuple(child.compose(inner) for child in self._children))

    def __repr__(self) -> str:
        return f"PyTreeDef({_text(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _remake, (self._type, self._aux, self._children)


class _ValueTreeDef(PyTreeDef):
    """A tree definition with user data, compared by value. A key of a str subclass differs from an equal str."""

    __slots__ = ("_hash",)

    _hash: int

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, _ValueTreeDef)
            and self._type is other._type
            and self._hash == other._hash
            and same_data(self._aux, other._aux)
            and self._children == other._children
        )

    def __hash__(self) -> int:
        return self._hash


def _remake(node_type: type | None, aux: Any, children: tuple[PyTreeDef, ...]) -> PyTreeDef:
    """Called by pickle and copy."""
    return LEAF if node_type is None else make_treedef(node_type, aux, children)


LEAF = PyTreeDef()
LEAF._set(None, None, ())

# (type, keys, children) -> weak reference to the interned definition. A dead definition's entry is removed.
_interned: dict[tuple[Any, ...], weakref.ref[PyTreeDef]] = {}
_intern_lock = threading.RLock()


def _intern(node_type: type, aux: Any, children: tuple[PyTreeDef, ...]) -> PyTreeDef:
    """The interned definition with these parts. Its ``children`` are interned too."""
    key = (node_type, aux, children)
    ref = _interned.get(key)
    if ref is not None:
        found = ref()
        if found is not None:
            return found
    with _intern_lock:
        ref = _interned.get(key)
        found = None if ref is None else ref()
        if found is None:
            found = PyTreeDef()
            found._set(node_type, aux, children)
            _interned[key] = weakref.ref(found, functools.partial(_forget, key))
        return found


def _forget(key: tuple[Any, ...], ref: weakref.ref[PyTreeDef]) -> None:
    with _intern_lock:
        if _interned.get(key) is ref:
            del _interned[key]


def make_treedef(node_type: type, aux: Any, children: tuple[PyTreeDef, ...]) -> PyTreeDef:
    """The definition of a node of type ``node_type``. ``aux``: a dict's sorted keys, or auxiliary data."""
    node = kinds[node_type]
    plain = node in _INTERNABLE
    if plain and node is DICT:
        plain = all([type(key) is str for key in aux])
    if plain:
        for child in children:
            if type(child) is not PyTreeDef:
                break
        else:
            return _intern(node_type, aux, children)
    out = _ValueTreeDef()
    out._set(node_type, aux, children)
    # Auxiliary data need not be hashable, so it is not part of the hash.
    out._hash = hash((node_type, children))
    return out


def _text(treedef: PyTreeDef) -> str:
    node_type, aux = treedef._type, treedef._aux
    if node_type is None:
        return "*"
    parts = [_text(child) for child in treedef._children]
    node = kinds[node_type]
    if node is NONE:
        return "None"
    if node is TUPLE:
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
    if node is LIST:
        return f"[{', '.join(parts)}]"
    if node is DICT:
        return "{" + ", ".join([f"{key!r}: {part}" for key, part in zip(aux, parts, strict=True)]) + "}"
    name = f"namedtuple[{node_type.__name__}]" if node is NAMEDTUPLE else f"{node_type.__name__}[{aux}]"
    return f"CustomNode({name}, [{', '.join(parts)}])"


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The definition of a tuple with children of these structures."""
    return make_treedef(tuple, None, tuple(treedefs))


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The definitions of the direct children."""
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure is a single node. As in JAX, None and empty containers are leaves here too."""
    return treedef.num_nodes == 1


class Node:
    """How one type is flattened and rebuilt. Compare the builtin kinds by identity."""

    # ``run(tree, out)`` appends the leaves of a tree to ``out`` and returns its definition.
    __slots__ = ("flatten", "flatten_with_keys", "name", "run", "unflatten")

    run: Callable[[Any, list[Leaf]], PyTreeDef]

    def __init__(
        self,
        name: str,
        flatten: Callable[[Any], Any] | None = None,
        unflatten: Callable[[Any, Any], Any] | None = None,
        flatten_with_keys: Callable[[Any], Any] | None = None,
    ):
        self.name = name
        self.flatten = flatten
        self.unflatten = unflatten
        self.flatten_with_keys = flatten_with_keys


TUPLE, LIST, DICT, NONE, NAMEDTUPLE = (Node(n) for n in ("tuple", "list", "dict", "None", "named tuple"))
_INTERNABLE = frozenset((TUPLE, LIST, DICT, NONE, NAMEDTUPLE))
_TABLE_LIMIT = 4096


class _Kinds(dict[type, "Node | None"]):
    """type -> its kind of node, None for a leaf. A large table is cleared, so that unused classes can be freed."""

    def __missing__(self, cls: type) -> Node | None:
        if len(self) > _TABLE_LIMIT:
            self.clear()
            self.update(_registered)
        kind = _registered.get(cls)
        if kind is None:
            kind = NAMEDTUPLE if issubclass(cls, tuple) and hasattr(cls, "_fields") else _adopt(cls)
        self[cls] = kind
        return kind


_registered: dict[type, Node] = {tuple: TUPLE, list: LIST, dict: DICT, _NoneType: NONE}
# Classes that are registered only with JAX, such as models of Equinox or states of Flax.
_adopted: set[type] = set()
kinds = _Kinds(_registered)
NONE_DEF = make_treedef(_NoneType, None, ())
EMPTY_DICT_DEF = make_treedef(dict, (), ())

# The fast tables map the types of the children (and the keys of a dict) to a ``_Plan``, which has the definition if all
# children are leaves. ``_known`` maps a plan and the definitions of its child nodes to a definition. All tables are
# bounded, and cleared when a type is registered.
_tuple_table: dict[tuple[type, ...], Any] = {}
_list_table: dict[tuple[type, ...], Any] = {}
_dict_table: dict[tuple[Any, ...], Any] = {}
_known: dict[tuple[Any, ...], PyTreeDef] = {}


class _Plan:
    """How to flatten a tuple, list or dict whose children have the given types (and keys).

    ``runs``: the flatten function of each child, None for a leaf. ``getter`` sorts a dict's values, if needed.
    ``treedef``: the definition if all children are leaves. ``last``: the latest run's child definitions and its result.
    """

    __slots__ = ("aux", "getter", "last", "node_type", "runs", "treedef")

    def __init__(self, node_type: type, aux: Any, runs: tuple[Any, ...], getter: Any):
        self.node_type = node_type
        self.aux = aux
        self.runs = runs
        self.getter = getter
        self.last: tuple[Any, Any] = (None, None)
        self.treedef: PyTreeDef | None = None
        if not any(runs):
            self.treedef = make_treedef(node_type, aux, (LEAF,) * len(runs))

    def run(self, values: Iterable[Any], out: list[Leaf]) -> PyTreeDef:
        """Append the leaves below ``values`` to ``out``, and return the definition."""
        defs: list[PyTreeDef] = []
        for value, run in zip(values, self.runs):  # noqa: B905  (strict costs 100 ns, and the lengths are equal)
            if run is None:
                out.append(value)
            else:
                defs.append(run(value, out))
        last_defs, treedef = self.last
        if defs == last_defs:
            return treedef
        key = (self, *defs)
        found = _known.get(key)
        if found is None:
            rest = iter(defs)
            children = tuple([LEAF if run is None else next(rest) for run in self.runs])
            found = make_treedef(self.node_type, self.aux, children)
            if type(found) is not PyTreeDef:
                return found
            _remember(_known, key, found)
        self.last = defs, found
        return found


def _remember(table: dict[Any, Any], key: Any, value: Any) -> None:
    # Only definitions without user data are stored, so the tables keep only types alive.
    if len(table) >= _TABLE_LIMIT:
        table.clear()
    table[key] = value


def _runs(types: Iterable[type]) -> tuple[Any, ...]:
    nodes = [kinds[t] for t in types]
    return tuple([None if node is None else node.run for node in nodes])


def _types(tree: Any) -> tuple[type, ...]:
    """``tuple(map(type, tree))``. The cases of up to three elements are written out, and take a third of the time."""
    count = len(tree)
    if count == 1:
        return (type(tree[0]),)
    if count == 2:
        a, b = tree
        return type(a), type(b)
    if count == 3:
        a, b, c = tree
        return type(a), type(b), type(c)
    return tuple(map(type, tree))


def _plan_sequence(node_type: type, types: tuple[type, ...], table: dict[Any, Any]) -> _Plan:
    plan = _Plan(node_type, None, _runs(types), None)
    _remember(table, types, plan)
    return plan


def _sequence(node_type: type, table: dict[Any, Any]) -> Callable[[Any, list[Leaf]], PyTreeDef]:
    """Make the flatten function of tuples or lists."""

    def run(tree: Any, out: list[Leaf]) -> PyTreeDef:
        types = _types(tree)
        plan = table.get(types) or _plan_sequence(node_type, types, table)
        if plan.treedef is None:
            return plan.run(tree, out)  # type: ignore[no-any-return]
        out += tree
        return plan.treedef  # type: ignore[no-any-return]

    return run


def _flatten_dict(tree: Any, out: list[Leaf]) -> PyTreeDef:
    # The table's key also has the types of the dict's keys: 1 == True, and a str may equal an enum member.
    key: tuple[Any, ...]
    values = tree.values()
    count = len(tree)
    if count == 0:
        return EMPTY_DICT_DEF
    if count == 1:
        (j,), (a,) = tree, values
        key = j, type(j), type(a)
    elif count == 2:
        (j, k), (a, b) = tree, values
        key = j, k, type(j), type(k), type(a), type(b)
    elif count == 3:
        (j, k, m), (a, b, c) = tree, values
        key = j, k, m, type(j), type(k), type(m), type(a), type(b), type(c)
    elif count == 4:
        (j, k, m, n), (a, b, c, d) = tree, values
        key = j, k, m, n, type(j), type(k), type(m), type(n), type(a), type(b), type(c), type(d)
    else:
        key = (*tree, *map(type, tree), *map(type, values))
    plan = _dict_table.get(key) or _plan_dict(tree, key)
    if plan.getter is not None:
        values = plan.getter(tree)
    if plan.treedef is None:
        return plan.run(values, out)
    out += values
    return plan.treedef


def _plan_dict(tree: dict[Any, Any], table_key: tuple[Any, ...]) -> _Plan:
    keys = sorted_keys(tree)
    # itemgetter of a single key returns no tuple, and a single key is always sorted
    getter = None if keys == list(tree) else operator.itemgetter(*keys)
    plan = _Plan(dict, tuple(keys), _runs([type(tree[key]) for key in keys]), getter)
    if all([type(key) is str for key in keys]):
        _remember(_dict_table, table_key, plan)
    return plan


def _flatten_other(tree: Any, out: list[Leaf]) -> PyTreeDef:
    children, aux = (tree, None) if kinds[type(tree)] is NAMEDTUPLE else _apart(tree)
    defs = []
    for child in children:
        node = kinds[type(child)]
        if node is None:
            out.append(child)
            defs.append(LEAF)
        else:
            defs.append(node.run(child, out))
    return make_treedef(type(tree), aux, tuple(defs))


TUPLE.run, LIST.run = _sequence(tuple, _tuple_table), _sequence(list, _list_table)
DICT.run, NONE.run = _flatten_dict, lambda _tree, _out: NONE_DEF
NAMEDTUPLE.run = _flatten_other


def _adopt(cls: type) -> Node | None:
    """The kind of node for a class registered with JAX. None if the class is not registered, or JAX is not loaded."""
    theirs: Any = sys.modules.get("jax.tree_util")
    if not hasattr(theirs, "default_registry") or not theirs.is_tree_node(cls):
        return None
    registry, leaf = theirs.default_registry, theirs.tree_structure(0)

    def unflatten(aux: Any, children: Any) -> Any:
        made = type(leaf).from_node_data_and_children(registry, (cls, aux), [leaf] * len(children))
        return made.unflatten(children)

    node = Node(cls.__name__, theirs.flatten_one_level, unflatten, theirs.flatten_one_level_with_keys)
    node.run = _flatten_other
    with _intern_lock:
        if cls not in _registered:
            _registered[cls] = node
            _adopted.add(cls)
            for follow in _followers:
                follow(cls, node)
    return _registered[cls]


def register_node(nodetype: type, node: Node, what: str = "PyTreeDef") -> None:
    """Register ``nodetype``: its instances become nodes. ``what`` names them in the error for a second registration."""
    if not isinstance(nodetype, type):
        raise TypeError(f"Only a class can be registered as a pytree node, got {nodetype!r}.")
    with _intern_lock:
        is_new = nodetype not in _registered
        if not is_new and nodetype not in _adopted:
            raise ValueError(f"Duplicate custom {what} type registration for {nodetype}.")
        node.run = _flatten_other
        _registered[nodetype] = node
        kinds[nodetype] = node
        # the fast tables may contain the class as a leaf
        for table in (_tuple_table, _list_table, _dict_table, _known):
            table.clear()
        _adopted.discard(nodetype)
        for follow in _followers if is_new else ():
            follow(nodetype, node)


_followers: list[Callable[[type, Node], None]] = []


def follow_registrations(follow: Callable[[type, Node], None]) -> None:
    """Call ``follow(class, node)`` for every registered class, now and at later registrations."""
    with _intern_lock:
        for nodetype, node in _registered.items():
            if node not in _INTERNABLE:
                follow(nodetype, node)
        _followers.append(follow)


def sorted_keys(keys: Iterable[Any]) -> list[Any]:
    try:
        return sorted(keys)
    except Exception as error:
        raise ValueError("Comparator raised exception while sorting pytree dictionary keys.") from error


_BAD_FLATTEN = "The to_iterable function for a custom PyTree node should return a (children, aux_data) tuple"


def _apart(tree: Any) -> tuple[Any, Any]:
    """The children (a tuple or list) and auxiliary data of a node of a registered class."""
    flatten = kinds[type(tree)].flatten  # type: ignore[union-attr]
    got = flatten(tree)  # type: ignore[misc]
    if not isinstance(got, tuple) or len(got) != 2:
        raise ValueError(f"{_BAD_FLATTEN}, got {got!r}")
    children, aux = got
    if type(children) is not tuple and type(children) is not list:
        try:
            children = tuple(children)
        except TypeError:
            raise ValueError(f"{_BAD_FLATTEN} where 'children' is iterable, got {got!r}") from None
    return children, aux


def children_of(tree: Any, kind: Node) -> tuple[Sequence[Any], Any]:
    """The children and auxiliary data of a node, as :class:`PyTreeDef` stores them."""
    if kind is TUPLE or kind is LIST or kind is NAMEDTUPLE:
        return tree, None
    if kind is DICT:
        keys = sorted_keys(tree)
        return [tree[key] for key in keys], tuple(keys)
    if kind is NONE:
        return (), None
    return _apart(tree)


def keys_of(tree: Any, kind: Node, children: Sequence[Any], aux: Any) -> list[KeyEntry]:
    """The key entry of each child of a node."""
    if kind is TUPLE or kind is LIST:
        return [SequenceKey(i) for i in range(len(children))]
    if kind is DICT:
        return [DictKey(key) for key in aux]
    if kind is NAMEDTUPLE:
        return [GetAttrKey(name) for name in type(tree)._fields]
    if kind.flatten_with_keys is not None:
        return [key for key, _ in kind.flatten_with_keys(tree)[0]]
    return [FlattenedIndexKey(i) for i in range(len(children))]


def tree_flatten(tree: Tree, is_leaf: IsLeaf | None = None) -> tuple[list[Leaf], PyTreeDef]:
    """The leaves of a tree, from left to right, and its structure.

    Dicts are read in the order of their sorted keys. None has no leaves.
    ``is_leaf``: true for subtrees that are leaves. ValueError for unsortable dict keys, or a bad flatten function.

    >>> tree_flatten({"b": (1, 2), "a": 3})
    ([3, 1, 2], PyTreeDef({'a': *, 'b': (*, *)}))
    """
    out: list[Leaf] = []
    try:
        if is_leaf is not None:
            return out, _flatten_checked(tree, is_leaf, out)
        if type(tree) is tuple:
            # fast path for the arguments of a function, which is by far the most frequent case
            types = _types(tree)
            plan = _tuple_table.get(types) or _plan_sequence(tuple, types, _tuple_table)
            if plan.treedef is not None:
                return list(tree), plan.treedef
            return out, plan.run(tree, out)
        node = kinds[type(tree)]
        if node is None:
            return [tree], LEAF
        return out, node.run(tree, out)
    except RecursionError:
        out = []
        return out, without_recursion(_flatten_deep, tree, is_leaf, out)


@functools.lru_cache(maxsize=256)
def tree_of_leaves(count: int) -> PyTreeDef:
    """The structure of the ``(args, kwargs)`` of a call with ``count`` positional arguments, all of them leaves."""
    return make_treedef(tuple, None, (make_treedef(tuple, None, (LEAF,) * count), EMPTY_DICT_DEF))


def flatten_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Leaf], PyTreeDef]:
    """``tree_flatten((args, kwargs))``. It is faster if all arguments are leaves."""
    if not kwargs:
        types = _types(args)
        plan = _tuple_table.get(types) or _plan_sequence(tuple, types, _tuple_table)
        if plan.treedef is not None:
            return list(args), tree_of_leaves(len(args))
    return tree_flatten((args, kwargs))


def without_recursion(step: Callable[..., Any], *root: Any) -> Any:
    """The result of the recursive generator ``step`` on ``root``. Deep trees use this: Python's stack does not grow.

    ``step`` yields the arguments of a recursive call and receives its result. Python's recursion limit still applies.
    """
    running, value = [step(*root)], None
    limit = sys.getrecursionlimit()
    while running:
        try:
            args = running[-1].send(value)
        except StopIteration as finished:
            running.pop()
            value = finished.value
        else:
            if len(running) > limit:
                raise RecursionError(f"the tree is more than {limit} levels deep, or contains itself")
            running.append(step(*args))
            value = None
    return value


def _flatten_deep(tree: Any, is_leaf: IsLeaf | None, out: list[Leaf]) -> Any:
    kind = kinds[type(tree)]
    if (is_leaf is not None and says_leaf(is_leaf(tree))) or kind is None:
        out.append(tree)
        return LEAF
    children, aux = children_of(tree, kind)
    defs = []
    for child in children:
        defs.append((yield child, is_leaf, out))
    return make_treedef(type(tree), aux, tuple(defs))


def _flatten_checked(tree: Any, is_leaf: IsLeaf, out: list[Leaf]) -> PyTreeDef:
    kind = kinds[type(tree)]
    if says_leaf(is_leaf(tree)) or kind is None:
        out.append(tree)
        return LEAF
    children, aux = children_of(tree, kind)
    return make_treedef(type(tree), aux, tuple([_flatten_checked(child, is_leaf, out) for child in children]))


def says_leaf(answer: Any) -> bool:
    if answer is True or answer is False:
        return answer
    if type(answer).__name__ == "bool_" or type(answer).__name__ == "bool":  # NumPy's
        return bool(answer)
    raise ValueError(f"is_leaf predicate returned a non-boolean value {answer!r}; expected a boolean")


def tree_leaves(tree: Tree, is_leaf: IsLeaf | None = None) -> list[Leaf]:
    """The leaves of a tree, from left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Tree, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """The structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Leaf]) -> Tree:
    """The tree of structure ``treedef`` with these leaves; ValueError if their number is wrong."""
    return treedef.unflatten(leaves)


def build(treedef: PyTreeDef, leaves: Sequence[Leaf], start: int) -> Tree:
    """The tree whose first leaf is ``leaves[start]``. The caller checks that there are enough leaves."""
    if treedef._type is None:
        return leaves[start]
    try:
        if treedef._flat:
            return _assemble(treedef, leaves[start : start + treedef.num_leaves])
        return _build(treedef, leaves, start)
    except RecursionError:
        return without_recursion(_build_deep, treedef, leaves, start)


def _build_deep(treedef: PyTreeDef, leaves: Sequence[Leaf], start: int) -> Any:
    if treedef._type is None:
        return leaves[start]
    parts = []
    for child in treedef._children:
        parts.append((yield child, leaves, start))
        start += child.num_leaves
    return _assemble(treedef, parts)


def _build(treedef: PyTreeDef, leaves: Sequence[Leaf], start: int) -> Tree:
    """``build`` for a node with nodes below it. RecursionError for a deep tree."""
    parts = []
    for child in treedef._children:
        if child._type is None:
            parts.append(leaves[start])
            start += 1
            continue
        if child._flat:
            parts.append(_assemble(child, leaves[start : start + child.num_leaves]))
        else:
            parts.append(_build(child, leaves, start))
        start += child.num_leaves
    return _assemble(treedef, parts)


def _assemble(treedef: PyTreeDef, parts: Any) -> Tree:
    node_type = treedef._type
    if node_type is dict:
        return dict(zip(treedef._aux, parts))  # noqa: B905  (strict costs 100 ns, and the lengths are equal)
    if node_type is tuple:
        return tuple(parts)
    if node_type is list:
        return list(parts)
    if node_type is _NoneType:
        return None
    node = kinds[node_type]  # type: ignore[index]
    if node is NAMEDTUPLE:
        return node_type(*parts)  # type: ignore[misc]
    return node.unflatten(treedef._aux, tuple(parts))  # type: ignore[union-attr, misc]


def _flatten_up_to(treedef: PyTreeDef, tree: Tree, out: list[Tree]) -> None:
    node_type = treedef._type
    if node_type is None:
        out.append(tree)
        return
    kind = kinds[node_type]
    children = _same_node(treedef, kind, tree)  # type: ignore[arg-type]
    if treedef._flat:
        out.extend(children)
    else:
        for child, subtree in zip(treedef._children, children, strict=True):
            _flatten_up_to(child, subtree, out)


def _flatten_up_to_deep(treedef: PyTreeDef, tree: Tree, out: list[Tree]) -> Any:
    if treedef._type is None:
        out.append(tree)
        return
    children = _same_node(treedef, kinds[treedef._type], tree)  # type: ignore[arg-type]
    for child, subtree in zip(treedef._children, children, strict=True):
        yield child, subtree, out


def _same_node(treedef: PyTreeDef, kind: Node, tree: Tree) -> Any:
    """The children of ``tree``. ValueError if its root differs from the root of ``treedef``, whose kind is ``kind``."""
    node_type, count = treedef._type, len(treedef._children)
    actual = kinds[type(tree)]
    if kind is NAMEDTUPLE:
        if actual is not NAMEDTUPLE:
            raise ValueError(f"Expected named tuple, got {tree!r}.")
        if type(tree) is not node_type:
            raise ValueError(f"Named tuple type mismatch: expected type: {node_type}, tuple: {tree!r}.")
        return tree
    if kind not in _INTERNABLE:
        if type(tree) is not node_type:
            raise ValueError(f"Custom node type mismatch: expected type: {node_type}, value: {tree!r}.")
        children, aux = _apart(tree)
        if not same_data(treedef._aux, aux):
            raise ValueError(f"Mismatch custom node data: {treedef._aux} != {aux}; value: {tree!r}.")
        if len(children) != count:
            raise ValueError(f"Custom type arity mismatch: {count} != {len(children)}; value: {tree!r}.")
        return children
    if actual is not kind:
        hint = ""
        if kind is NONE:
            hint = "\nNone is a node without leaves. To match a subtree with None, pass is_leaf=lambda x: x is None."
        raise ValueError(f"Expected {kind.name}, got {tree!r}.{hint}")
    if kind is DICT:
        keys = treedef._aux
        if len(tree) != len(keys) or not all([key in tree for key in keys]):
            raise ValueError(f"Dict key mismatch; expected keys: {list(keys)}; present keys: {sorted_keys(tree)}.")
        return [tree[key] for key in keys]
    if kind is NONE:
        return ()
    if len(tree) != count:
        name = kind.name.capitalize()
        raise ValueError(f"{name} arity mismatch: {len(tree)} != {count}; {kind.name}: {tree!r}.")
    return tree


def same_data(a: Any, b: Any) -> bool:
    return a is b or bool(a == b)


def is_tree_node(typ: type) -> bool:
    """Whether instances of exactly this type are nodes."""
    return kinds[typ] is not None


def flatten_one_level(tree: Tree) -> tuple[Iterable[Any], Any]:
    """The children and auxiliary data of the root node. ValueError if the tree is a leaf."""
    kind, children, aux = _one_level(tree)
    if kind is DICT:
        return tuple(children), aux
    return list(children) if kind is NAMEDTUPLE else children, aux


def flatten_one_level_with_keys(tree: Tree) -> tuple[Iterable[tuple[KeyEntry, Any]], Any]:
    """Like :func:`flatten_one_level`; each child is paired with its key entry."""
    kind, children, aux = _one_level(tree)
    return tuple(zip(keys_of(tree, kind, children, aux), children, strict=True)), aux


def _one_level(tree: Tree) -> tuple[Node, Sequence[Any], Any]:
    kind = kinds[type(tree)]
    if kind is None:
        raise ValueError(f"can't tree-flatten type: {type(tree)}")
    children, aux = children_of(tree, kind)
    return kind, children, type(tree) if kind is NAMEDTUPLE else aux
