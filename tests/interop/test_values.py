"""Values of one library in the other: arrays, keys, and trees registered with JAX only."""

import dataclasses

import jax
import jax.numpy as rnp
import ml_dtypes
import numpy as np
import pytest

import minijax as mj
from minijax import numpy as jnp
from minijax import tree_util
from minijax.interop.values import from_jax_value, to_jax_value

X = np.array([0.5, 1.5, -0.25], np.float32)


# ------------------------------------------------------------------------------------------------ trees


@jax.tree_util.register_pytree_with_keys_class
class Layer:
    """A class that is registered with JAX only; it has a static part."""

    def __init__(self, w, b, act):
        self.w, self.b, self.act = w, b, act

    def tree_flatten_with_keys(self):
        return ((jax.tree_util.GetAttrKey("w"), self.w), (jax.tree_util.GetAttrKey("b"), self.b)), self.act

    @classmethod
    def tree_unflatten(cls, act, children):
        return cls(*children, act)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Record:
    """A dataclass that is registered with JAX only; it has a static field."""

    first: object
    rest: object
    name: str = dataclasses.field(default="", metadata={"static": True})


class Plain:
    """A class that is registered with JAX only, without keys."""

    def __init__(self, parts):
        self.parts = parts


jax.tree_util.register_pytree_node(Plain, lambda x: (x.parts, None), lambda _, parts: Plain(list(parts)))


def model():
    layer = Layer(jnp.asarray(X), np.float32(2), jnp.sin)
    return {"layer": layer, "more": Record([layer, None], Plain([np.float32(1), (3.0,)]), "model")}


def test_trees_registered_with_jax_flatten_as_in_jax():
    tree = model()
    leaves, treedef = tree_util.tree_flatten(tree)
    theirs, _ = jax.tree_util.tree_flatten(tree)
    assert len(leaves) == len(theirs) == 6
    assert all(a is b for a, b in zip(leaves, theirs, strict=True))
    back = tree_util.tree_unflatten(treedef, leaves)
    assert isinstance(back["more"].rest, Plain)
    assert (back["layer"].act, back["more"].name) == (jnp.sin, "model")
    assert treedef == tree_util.tree_structure(model())
    ours = [tree_util.keystr(path) for path, _ in tree_util.tree_flatten_with_path(tree)[0]]
    assert ours == [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
    with pytest.raises(ValueError, match="different pytree metadata"):
        tree_util.tree_map(lambda a, b: a, tree["layer"], Layer(1, 2, jnp.cos))


def test_a_registration_with_minijax_wins():
    class Both:
        def __init__(self, x, y):
            self.x, self.y = x, y

    jax.tree_util.register_pytree_node(Both, lambda b: ((b.x, b.y), None), lambda _, c: Both(*c))
    assert tree_util.tree_leaves(Both(1, 2)) == [1, 2]
    tree_util.register_pytree_node(Both, lambda b: ((b.y,), b.x), lambda x, c: Both(x, *c))
    assert tree_util.tree_leaves((Both(1, 2), Both(3, 4))) == [2, 4]
    with pytest.raises(ValueError, match="Duplicate"):
        tree_util.register_pytree_node(Both, lambda b: ((), None), lambda _, c: None)


# ------------------------------------------------------------------------------------------------ arrays


# types that NumPy exports by DLPack
_DLPACK = (np.float32, np.int8, np.bool_, np.complex64)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_, np.complex64, ml_dtypes.bfloat16])
def test_arrays_keep_their_types_between_libraries(dtype):
    value = np.arange(6).reshape(2, 3).astype(dtype)
    theirs, ours = rnp.asarray(value), jnp.asarray(value)
    for x in (theirs, from_jax_value(theirs)):
        found = jnp.asarray(x)
        assert (found.dtype, found.shape, found.weak_type) == (theirs.dtype, (2, 3), False)
        np.testing.assert_array_equal(np.asarray(found), value)
    for x in (to_jax_value(ours), rnp.asarray(ours), rnp.from_dlpack(ours) if dtype in _DLPACK else theirs):
        assert isinstance(x, jax.Array)
        assert x.dtype == theirs.dtype
        np.testing.assert_array_equal(np.asarray(x), value)


def test_weak_types_are_kept_between_libraries():
    weak = rnp.asarray(2.0)
    assert weak.weak_type
    assert from_jax_value(weak).weak_type
    assert to_jax_value(jnp.asarray(2.0)).weak_type
    assert not to_jax_value(jnp.asarray(np.float32(2))).weak_type


def test_arrays_of_both_libraries_share_memory():
    theirs = rnp.arange(64.0)
    ours = from_jax_value(theirs)
    assert np.shares_memory(np.asarray(ours), np.asarray(theirs))
    np.testing.assert_array_equal(mj.jit(lambda x: x * 2)(theirs), np.arange(64.0) * 2)
    back = rnp.from_dlpack(jnp.asarray(X))
    np.testing.assert_array_equal(back, X)


def test_arrays_of_jax_are_accepted_like_those_of_minijax():
    x, theirs = jnp.asarray(X), rnp.asarray(X)
    for found in (x + theirs, jnp.add(theirs, theirs), mj.lax.add(theirs, x), mj.vmap(lambda v: v * 2)(theirs)):
        assert isinstance(found, mj.Array)
        np.testing.assert_array_equal(found, X * 2)
    np.testing.assert_array_equal(mj.jit(lambda x: x + theirs)(x), X * 2)
    np.testing.assert_array_equal(mj.grad(lambda x: (x * theirs).sum())(theirs), X)
    np.testing.assert_array_equal(mj.lax.scan(lambda c, a: (c + a, a), rnp.float32(0), theirs)[1], X)
