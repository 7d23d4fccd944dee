"""``pmap`` on two devices matches JAX's in values, derivatives, errors, jaxprs and the placement of results."""

import functools

import jax
import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.backend import pjrt, spmd
from minijax.core.trace import stack_depth
from minijax.ir.typecheck import typecheck_jaxpr
from minijax.sharding import Mesh, NamedSharding, PartitionSpec
from tests.on_devices import printed

pytestmark = pytest.mark.usefixtures("compiled_quickly")

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def two_devices():
    count = min(minijax.device_count(), jax.device_count())
    if count < 2:
        pytest.skip(f"needs two devices, this platform ({pjrt.platform()}) has {count}")
    yield
    assert stack_depth() == 0


def close(ours, theirs, tolerance=2e-6):
    """Check that both trees have equal structure, types and values."""
    flat, tree = minijax.tree_util.tree_flatten(ours)
    expected, expected_tree = jax.tree_util.tree_flatten(theirs)
    assert str(tree) == str(expected_tree)
    for a, b in zip(flat, expected, strict=True):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


# name -> (the function for each instance, options of pmap); all instances share ``w``
FUNCTIONS = {
    "psum of both": (lambda ns, x, w: ns.lax.psum(x * w, "i") * x, {}),
    "all_gather, tiled": (lambda ns, x, w: ns.lax.all_gather(x * x, "i", tiled=True), {}),
    "all_to_all, tiled": (lambda ns, x, w: ns.lax.all_to_all(ns.numpy.outer(x, x[:2]), "i", 1, 0, tiled=True), {}),
    "ppermute to one": (lambda ns, x, w: ns.lax.ppermute(x, "i", [(0, 1)]) + w, {}),
    "groups": (lambda ns, x, w: ns.lax.psum(x * w, "i", axis_index_groups=[[0], [1]]), {}),
    "other axes": (lambda ns, x, w: ns.numpy.sum(x) * ns.numpy.ones(2) * w, {"in_axes": (1, None), "out_axes": 1}),
    "some the same for all": (lambda ns, x, w: (ns.lax.pmean(x.sum() * w, "i"), x * 2, w),
     {"out_axes": (None, 1, None)}),
    "vmap inside": (lambda ns, x, w: ns.vmap(lambda v: v * ns.lax.psum(v, ("i", "j")), axis_name="j")(x) * w, {}),
    "scan inside": (lambda ns, x, w: ns.lax.scan(lambda c, v: (c * w + ns.lax.psum(v, "i"), c * v), 1.0, x), {}),
    "grad inside": (lambda ns, x, w: ns.grad(lambda v: ns.lax.pmean((ns.numpy.sin(v) * w).sum(), "i"))(x), {}),
}  # fmt: skip
INTEGERS = {
    "pmax": (lambda ns, x, w: ns.lax.pmax(x * w, "i"), {}),
    "booleans": (lambda ns, x, w: (ns.lax.psum(x > 2, "i"), ns.lax.all_gather(x > 2, "i"), x > 1), {}),
}


def pmapped(ns, name):
    function, options = {**FUNCTIONS, **INTEGERS}[name]
    options = {"in_axes": (0, None), **options}
    return ns.pmap(lambda x, w: function(ns, x, w), axis_name="i", **options)


def argument(name):
    """An argument whose mapped axis has size two."""
    return (X + 0.5).T.copy() if name == "other axes" else X + np.float32(0.5)


def loss(ns, name):
    def scalar(x, w):
        leaves = ns.tree_util.tree_leaves(pmapped(ns, name)(x, w))
        return sum((leaf**2).sum() for leaf in leaves)

    return scalar


@functools.cache
def expected(name):
    """JAX's value and gradients, compiled as one program."""

    def both(x, w):
        gradients = jax.grad(loss(jax, name), argnums=(0, 1))(x, w) if name in FUNCTIONS else None
        return pmapped(jax, name)(x, w), gradients

    return jax.jit(both)(argument(name), 2.0)


@pytest.mark.parametrize("name", [*FUNCTIONS, *INTEGERS])
def test_values_and_jaxprs_match_jax(name):
    x = argument(name)
    ours = pmapped(minijax, name)
    closed = minijax.make_jaxpr(ours)(x, 2.0)
    typecheck_jaxpr(closed)
    assert str(closed) == str(jax.make_jaxpr(pmapped(jax, name))(x, 2.0))
    close(ours(x, 2.0), expected(name)[0])
    close(minijax.jit(ours)(x, 2.0), expected(name)[0])


# If all devices have the same output, pmap gives each device a share of the cotangent, in JAX too.
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_match_jax(name):
    x = argument(name)
    ours = minijax.grad(loss(minijax, name), argnums=(0, 1))
    typecheck_jaxpr(minijax.make_jaxpr(ours)(x, 2.0))
    close(ours(x, 2.0), expected(name)[1], 1e-4)
    if name in ("psum of both", "some the same for all", "scan inside"):
        close(minijax.jit(ours)(x, 2.0), expected(name)[1], 1e-4)


def test_jvp_and_second_derivatives_match_jax():
    name = "some the same for all"
    x = argument(name)
    ours, theirs = pmapped(minijax, name), pmapped(jax, name)
    tangents = (x, np.float32(0.5))
    close(minijax.jvp(ours, (x, np.float32(2.0)), tangents), jax.jvp(theirs, (x, np.float32(2.0)), tangents), 1e-5)
    hessian = jax.jit(jax.jacfwd(jax.grad(loss(jax, name))))(x, 2.0)
    close(minijax.jacfwd(minijax.grad(loss(minijax, name)))(x, 2.0), hessian, 1e-3)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap_of_pmap_matches_separate_calls(name):
    source, destination = [(0, 0), (1, -1), (2, 1)][len(name) % 3]
    x = argument(name)
    batch = np.stack([x, 2 * x, x + 1, x * x, -x], source)
    ours = pmapped(minijax, name)
    if name == "some the same for all":
        # no other axis fits: the first output is a scalar, and the third is not batched
        destination = 0
    found = minijax.vmap(ours, in_axes=(source, None), out_axes=destination)(batch, 2.0)
    apart = [ours(v, 2.0) for v in np.moveaxis(batch, source, 0)]
    leaves = [minijax.tree_util.tree_leaves(one) for one in apart]
    for position, leaf in enumerate(minijax.tree_util.tree_leaves(found)):
        expected = np.stack([np.asarray(one[position]) for one in leaves], destination)
        np.testing.assert_allclose(np.asarray(leaf), expected, rtol=1e-5, atol=1e-6)


def test_vmap_and_pmap_may_have_the_same_axis_name():
    x = np.arange(12, dtype=np.float32).reshape(3, 2, 2)

    def instance(v):
        return v / (1 + lax.psum(v, "i"))

    same = minijax.vmap(minijax.pmap(instance, axis_name="i"), axis_name="i")(x)
    expected = np.stack([np.asarray(minijax.pmap(instance, axis_name="i")(each)) for each in x])
    np.testing.assert_allclose(np.asarray(same), expected, rtol=1e-6)

    def both(v):
        return lax.psum(v, ("i", "j")) + 10 * lax.axis_index("j") + 100 * lax.axis_index("i")

    found = minijax.vmap(minijax.pmap(both, axis_name="i"), axis_name="j")(x)
    numbers = 10 * np.arange(3)[:, None, None] + 100 * np.arange(2)[None, :, None]
    np.testing.assert_allclose(np.asarray(found), x.sum((0, 1)) + numbers)


def test_a_current_mesh_must_match_the_mesh_of_pmap():
    def nested(ns):
        ns.pmap(ns.pmap(lambda v: v, axis_name="j"), axis_name="i")(np.ones((2, 2)))

    for ns in (minijax, jax):
        with pytest.raises(ValueError, match=r"The context mesh AbstractMesh\('i': 2, axis_types=\(Manual,\)"):
            nested(ns)
    mesh = Mesh(np.array(minijax.devices()[:2]), ("i",))
    with minijax.set_mesh(mesh):
        assert minijax.pmap(lambda v: v, axis_name="i")(X).sharding.mesh == mesh
        with pytest.raises(ValueError, match="should match the mesh passed to shard_map .*call pmap where no mesh is"):
            minijax.pmap(lambda v: v, axis_name="j")(X)


def test_pbroadcast_in_pmap_matches_pbroadcast_in_vmap():
    def loss_of(transform):
        mapped = transform(lambda v: v * lax.pbroadcast(v, "i", 1), axis_name="i")
        return lambda x: (mapped(x) ** 2).sum()

    ours, reference = (minijax.value_and_grad(loss_of(t))(X) for t in (minijax.pmap, minijax.vmap))
    np.testing.assert_allclose(np.asarray(ours[0]), np.asarray(reference[0]), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(ours[1]), np.asarray(reference[1]), rtol=1e-6)
    with pytest.raises(ValueError, match="pbroadcast source 2 is outside the axis 'i' of size 2"):
        minijax.pmap(lambda v: lax.pbroadcast(v, "i", 2), axis_name="i")(X)


def test_options_appear_in_the_jaxpr_as_in_jax():
    def scaled(x, w):
        return x * w

    def staged(ns):
        mapped = ns.pmap(scaled, in_axes=(1, None), out_axes=1, static_broadcasted_argnums=(), donate_argnums=0)
        by_name = ns.pmap(lambda n, x, *, y: x * y * n, static_broadcasted_argnums=0, in_axes=(None, 1))
        batched = ns.vmap(ns.pmap(scaled, in_axes=(1, None), out_axes=1), (0, None))
        return str(ns.make_jaxpr(lambda x: (mapped(x.T, 2.0), by_name(3, x.T, y=x), batched(x[None].mT, 2.0)))(X))

    assert staged(minijax) == staged(jax)


# ------------------------------------------------------------------------------------------------ arrays on devices


def test_shardings_of_results_match_jax():
    first, second = minijax.devices()[:2]
    for options in ({}, {"out_axes": 1}, {"out_axes": None}, {"in_axes": 1, "axis_name": "k"}, {"axis_size": 2}):
        x = X.T if options.get("in_axes") else X
        ours, theirs = (ns.pmap(lambda v: v * 2, **options)(x) for ns in (minijax, jax))
        mesh = theirs.sharding.mesh
        wanted = NamedSharding(Mesh(np.array([first, second]), mesh.axis_names), PartitionSpec(*theirs.sharding.spec))
        assert ours.sharding == wanted and str(ours.sharding.mesh) == str(mesh)
        shards = [[(s.device.id, s.index, s.replica_id) for s in out.addressable_shards] for out in (ours, theirs)]
        assert shards[0] == shards[1]
        close(ours, theirs)
    out = minijax.pmap(lambda x: x * 2)(X)
    assert repr(out) == repr(jnp.asarray(X * 2)) and out.devices() == {first, second}
    np.testing.assert_array_equal(np.asarray(out.addressable_shards[1].data), X[1:] * 2)
    assert out.addressable_shards[1].data.devices() == {second}
    np.testing.assert_array_equal(np.asarray(out[1]), X[1] * 2)
    one = minijax.pmap(lambda x: x * 2)(X[:1])
    assert one.sharding.mesh.size == 1 and one.devices() == {first}


def test_the_next_pmap_moves_no_shards(monkeypatch):
    double = minijax.pmap(lambda x: x * 2)
    start = double(X)
    double(start)

    def refuse(*args, **kwargs):
        raise AssertionError("copied")

    for name in ("put", "to_numpy", "transfer"):
        monkeypatch.setattr(pjrt, name, refuse)
    for name in ("put_over", "put_parts", "parts", "gather"):
        monkeypatch.setattr(spmd, name, refuse)
    out = start
    for _ in range(5):
        out = double(out)
    monkeypatch.undo()
    np.testing.assert_array_equal(np.asarray(out), X * 64)


def test_arguments_with_other_shardings_are_moved_or_refused():
    columns = minijax.pmap(lambda x: x + 1, out_axes=1)(X)
    back = minijax.devices()[1::-1]
    found = minijax.pmap(lambda x: x * 2, devices=back)(minijax.pmap(lambda x: x, in_axes=1)(columns))
    np.testing.assert_array_equal(np.asarray(found), (X + 1) * 2)
    assert [s.device for s in found.addressable_shards] == back
    everywhere = minijax.pmap(lambda x: lax.psum(x, "i"), axis_name="i", out_axes=None)(X)
    shared = minijax.pmap(lambda x, w: x + w, in_axes=(0, None))(X, everywhere)
    np.testing.assert_array_equal(np.asarray(shared), X + X.sum(0))
    for ns in (minijax, jax):
        rows = ns.pmap(lambda x: x)(np.ones((2, 2), np.float32))
        for arguments, options in (
            ((ns.device_put(X, ns.devices()[1]),), {}),
            ((rows,), {"in_axes": 1}),
            ((rows, rows), {"in_axes": (0, None)}),
        ):
            with pytest.raises(ValueError, match="Sharding passed to jit does not match the sharding"):
                ns.pmap(lambda *xs: xs[0], **options)(*arguments)


def test_donated_arguments_are_deleted():
    start = minijax.pmap(lambda x: x * 2)(X)
    np.asarray(start)
    out = minijax.pmap(lambda x: x + 1, donate_argnums=0)(start)
    np.testing.assert_array_equal(np.asarray(out), X * 2 + 1)
    with pytest.raises(RuntimeError, match="deleted"):
        minijax.pmap(lambda x: x + 1)(start)


# ----------------------------------------------------------------------------------------------------- calls


def test_pmap_takes_trees_keywords_and_static_arguments():
    @functools.partial(minijax.pmap, static_broadcasted_argnums=(1,), in_axes=({"a": 0, "b": None}, None, 1))
    def function(tree, power, y, *, z):
        assert type(power) is int
        return {"out": (tree["a"] ** power * tree["b"] + y, z)}

    out = function({"a": X, "b": 2.0}, 3, X.T, z=X[:, 0])
    np.testing.assert_allclose(np.asarray(out["out"][0]), X**3 * 2 + X)
    np.testing.assert_allclose(np.asarray(out["out"][1]), X[:, 0])


def test_pmap_closes_over_values_of_other_transformations():
    def make(ns):
        def function(w, x):
            table = ns.numpy.arange(3.0) + w
            return ns.pmap(lambda v: v * table * w + ns.lax.psum(table, "i"), axis_name="i")(x)

        return function

    close(make(minijax)(2.0, X), make(jax)(2.0, X))
    grads = [ns.grad(lambda w, ns=ns: make(ns)(w, X).sum())(2.0) for ns in (minijax, jax)]
    close(*grads, 1e-5)


def test_repeated_calls_take_a_shortcut(monkeypatch):
    mapped = minijax.pmap(lambda x, w: {"out": x * w}, in_axes=(0, None))
    there = minijax.pmap(lambda x: x)(X)
    kinds = [(X, np.float32(2)), (jnp.asarray(X) + 0, 2.0), (there, 2.0), (there, np.ones(3, np.float32))]
    first = [np.asarray(mapped(*each)["out"]) for each in kinds]

    def refuse(*args):
        raise AssertionError("made the ordinary way")

    monkeypatch.setattr(type(mapped), "call", refuse)
    for each, expected in zip(kinds, first, strict=True):
        np.testing.assert_array_equal(np.asarray(mapped(*each)["out"]), expected)


def test_a_method_is_pmapped():
    class Model:
        @minijax.pmap
        def twice(self):
            return self * 2

    np.testing.assert_array_equal(np.asarray(Model.twice(X)), X * 2)


# ------------------------------------------------------------------------------------------------ misuse

# name -> (call in a namespace, type of the error, part of our message, whether JAX's message has this part too)
MISUSES = {
    "more slices than devices": (lambda ns: ns.pmap(lambda x: x)(np.ones((9, 2))), ValueError,
     "compiling computation that requires 9 logical devices, but only", False),
    "sizes that differ": (lambda ns: ns.pmap(lambda x, y: x + y)(np.ones((2, 3)), np.ones((1, 3))), ValueError,
     "pmap got inconsistent sizes for array axes to be mapped:\n  * one axis had size 2: axis 0 of argument", False),
    "nothing mapped": (lambda ns: ns.pmap(lambda x: x, in_axes=None)(X), ValueError,
     "pmap requires at least one argument with a mapped axis.", True),
    "another axis_size": (lambda ns: ns.pmap(lambda x: x, axis_size=3)(X), ValueError,
     "Specified axis_size 3 doesn't match received axis_size 2.", True),
    "no devices": (lambda ns: ns.pmap(lambda x: x, devices=[]), ValueError,
     "'devices' argument to pmap must be non-empty, or None.", True),
    "out_axes that are no ints": (lambda ns: ns.pmap(lambda x: x, out_axes=1.5)(X), TypeError,
     "pmap out_axes must be an int, None, or (nested) container with those types as leaves, but got 1.5.", True),
    "too few arguments for the static ones": (lambda ns: ns.pmap(lambda x, n: x, static_broadcasted_argnums=1)(X),
     ValueError, "static_broadcasted_argnums=(1,) but was called with only 1 positional argument", True),
    "no array": (lambda ns: ns.pmap(lambda x, y: x)(X, "text"), TypeError, "type <class 'str'>", True),
    "an unbound axis name": (lambda ns: ns.pmap(lambda x: ns.lax.psum(x, "q"), axis_name="i")(X), NameError,
     "unbound axis name: q", True),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSES)
def test_misuse_raises_an_error(name):
    call, kind, words, jaxs_too = MISUSES[name]
    for ns in (minijax, jax)[: 1 + jaxs_too]:
        with pytest.raises(kind) as caught:
            call(ns)
        assert words in str(caught.value)


def test_misuse_of_axes_and_options_raises_an_error():
    with pytest.raises(ValueError, match="its rank should be at least 3, but is only 2"):
        minijax.pmap(lambda x: x, in_axes=2)(X)
    with pytest.raises(ValueError, match="axis 5 is out of bounds for array of dimension 2"):
        minijax.pmap(lambda x: x, out_axes=5)(X)
    with pytest.raises(ValueError, match="requires 2 logical devices, but only 1 XLA devices are available"):
        minijax.pmap(lambda x: x, devices=minijax.devices()[:1])(X)
    assert minijax.pmap(lambda x: x, devices=minijax.devices())(X[:1]).devices() == {minijax.devices()[0]}
    for ns in (minijax, jax):
        with pytest.raises(RuntimeError, match=r"Unknown backend abacus. Available backends are \['cpu'\]"):
            ns.pmap(lambda x: x, backend="abacus")(X)
        with pytest.raises(ValueError, match="different types"):
            ns.pmap(lambda x, y: x, in_axes=[0, None])(X, 2.0)
        with pytest.raises(ValueError, match="cannot intersect"):
            ns.pmap(lambda x, n: x, static_broadcasted_argnums=1, donate_argnums=1)
    with pytest.raises(TypeError, match="Non-hashable|unhashable|no signature|hash"):
        minijax.pmap(lambda x: x, axis_name=[1])(X)


FOUR_DEVICES = """
import jax
import numpy as np
import minijax

x = np.arange(1, 33, dtype=np.float32).reshape(4, 4, 2)
PAIRS, UNEVEN = [[0, 2], [3, 1]], [[0, 1, 2], [3]]
FUNCTIONS = [
    lambda lax, v: lax.psum(v, "i", axis_index_groups=PAIRS),
    lambda lax, v: lax.psum(v, "i", axis_index_groups=UNEVEN),
    lambda lax, v: lax.all_gather(v, "i", axis_index_groups=PAIRS),
    lambda lax, v: lax.all_to_all(v, "i", 1, 0, axis_index_groups=PAIRS),
    lambda lax, v: lax.psum_scatter(v, "i", axis_index_groups=PAIRS, tiled=True),
    lambda lax, v: lax.psum_scatter(v, "i"),
    lambda lax, v: lax.pshuffle(v, "i", [2, 0, 3, 1]),
]
for function in FUNCTIONS:
    ours, theirs = (
        ns.pmap(lambda v, ns=ns: function(ns.lax, v), axis_name="i")(x) for ns in (minijax, jax)
    )
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-6)

def inner(v):
    lax = minijax.lax
    both = lax.psum(v, "i") + 10 * lax.psum(v, "j") + 100 * lax.psum(v, ("i", "j"))
    return both + 1000 * lax.axis_index(("i", "j")) + lax.all_gather(v, "j").sum(0) * lax.all_gather(v, "i").sum(0)

y = x.reshape(2, 2, 8)
nested = lambda outer, other: outer(other(inner, axis_name="j"), axis_name="i")(y)
reference = np.asarray(nested(minijax.vmap, minijax.vmap))
for f in (lambda: nested(minijax.pmap, minijax.vmap), lambda: nested(minijax.vmap, minijax.pmap)):
    np.testing.assert_allclose(np.asarray(f()), reference, rtol=1e-6)
for ns in (minijax, jax):  # pmap moves arguments from other devices
    near, far = ns.devices()[:2], ns.devices()[2:]
    moved = ns.pmap(lambda a: a + 1, devices=far)(ns.pmap(lambda a: a, devices=near)(x[:2]))
    assert moved.devices() == set(far)
    np.testing.assert_array_equal(np.asarray(moved), x[:2] + 1)
print(len(FUNCTIONS))
"""


def test_collectives_and_nested_maps_work_on_four_devices():
    assert printed("-c", FOUR_DEVICES, devices=4) == 7


@pytest.mark.parametrize("shape", [(2, 0), (0, 2)])
def test_arrays_without_elements_are_divided_and_read_back(shape):
    mesh = Mesh(minijax.devices()[:2], ("x",))
    spec = PartitionSpec(*["x" if size else None for size in shape])
    doubled = minijax.shard_map(lambda x: x * 2, mesh=mesh, in_specs=spec, out_specs=spec)(jnp.zeros(shape))
    assert doubled.sharding.spec == spec and np.asarray(doubled).shape == shape
