"""Small modules work as in JAX: ``dtypes``, ``flatten_util``, ``monitoring``, ``stages``, ``typing``, ``version``."""

import importlib
import typing

import jax
import jax.flatten_util
import jax.monitoring
import jax.stages
import jax.typing
import numpy as np
import pytest

import minijax
from minijax import flatten_util
from minijax.typing import ArrayLike, DTypeLike

BOTH = [minijax, jax]


TREES = {
    "one dtype": {"a": np.ones((2, 2), np.float32), "b": 2.0},
    "several": {"a": np.ones((2, 2), np.float32), "b": np.arange(3, dtype=np.int32), "c": (True,)},
    "complex": [np.array([1 + 2j], np.complex64), np.ones(1, np.float32)],
    "numbers of two kinds": [1, 2.5],
    "nothing": ({}, ()),
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_a_tree_is_raveled_and_unraveled(tree):
    ours, back = flatten_util.ravel_pytree(tree)
    theirs, their_back = jax.flatten_util.ravel_pytree(tree)
    assert (ours.dtype, ours.shape, ours.weak_type) == (theirs.dtype, theirs.shape, theirs.weak_type)
    np.testing.assert_array_equal(ours, theirs)
    for our, their in zip(jax.tree.leaves(back(ours)), jax.tree.leaves(their_back(theirs)), strict=True):
        assert (our.dtype, our.shape, our.weak_type) == (their.dtype, their.shape, their.weak_type)
        np.testing.assert_array_equal(our, their)
    assert minijax.tree.structure(back(ours)) == minijax.tree.structure(tree)
    for trip, their_trip in ((flatten_util.ravel_pytree, jax.flatten_util.ravel_pytree), (back, their_back)):
        given = (tree, tree) if trip is flatten_util.ravel_pytree else (ours, theirs)
        made, theirs_made = minijax.make_jaxpr(named(trip))(given[0]), jax.make_jaxpr(named(their_trip))(given[1])
        assert str(made).split("lambda")[1] == str(theirs_made).split("lambda")[1]


def named(trip):
    """``trip``, without the function that it may return as its last result."""
    return lambda x: found[0] if isinstance(found := trip(x), tuple) and callable(found[-1]) else found


@pytest.mark.parametrize("module", [flatten_util, jax.flatten_util])
def test_unravel_rejects_a_wrong_vector(module):
    vector, back = module.ravel_pytree(TREES["several"])
    with pytest.raises(TypeError, match="unravel function given array of dtype int32, but expected dtype float32"):
        back(vector.astype(np.int32))
    with pytest.raises(ValueError, match=r"Sum of sizes 8 must be equal to dimension 0 of the operand shape \[3\]"):
        back(vector[:3])
    again = module.ravel_pytree(TREES["several"])[1]
    assert back == again and hash(back) == hash(again) and back != module.ravel_pytree(TREES["nothing"])[1]


@pytest.mark.parametrize("library", BOTH)
def test_the_stages_of_a_function_have_classes(library):
    module = importlib.import_module(f"{library.__name__}.stages")
    jitted = library.jit(lambda x: x + 1)
    traced = jitted.trace(1.0)
    assert isinstance(jitted, module.Wrapped) and not isinstance(len, module.Wrapped)
    assert isinstance(traced, module.Traced) and isinstance(traced.lower(), module.Lowered)
    assert isinstance(traced.lower().compile(), module.Compiled)


def test_arraylike_and_dtypelike_match_jax():
    ours, theirs = typing.get_args(ArrayLike), typing.get_args(jax.typing.ArrayLike)
    assert [minijax.Array if kind is jax.Array else kind for kind in theirs] == list(ours)
    assert [kind for kind in typing.get_args(DTypeLike) if kind is not typing.get_args(DTypeLike)[-1]] == list(
        typing.get_args(jax.typing.DTypeLike)[:-1]
    )


@pytest.mark.parametrize("library", BOTH)
def test_devices_have_a_class_and_libraries_a_version(library):
    assert all(isinstance(device, library.Device) for device in library.devices())
    version = importlib.import_module(f"{library.__name__}.version")
    assert ".".join(map(str, library.__version_info__)) == version.__version__ == library.__version__
    assert version.__version_info__ == library.__version_info__


@pytest.mark.parametrize("ns", BOTH, ids=["minijax", "jax"])
def test_the_trace_state_changes_with_transformations(ns):
    """The state stays equal until a transformation begins or ends. Neural network libraries store the state."""
    state = importlib.import_module(f"{ns.__name__}.extend.core").get_opaque_trace_state
    outside = state(convention="of a library")
    seen = []

    def inner(x):
        seen.append(state())
        assert state() == seen[-1]
        return x * 2.0

    @ns.jit
    def staged(x):
        before = state()
        with ns.ensure_compile_time_eval():
            assert state() == before
        return inner(x)

    def outer(x):
        before = state()
        out = ns.vmap(inner)(x)
        assert state() == before
        return out.sum()

    x = ns.numpy.arange(3.0)
    inner(x)
    assert seen[-1] == outside == state() and seen[-1] != "another" and not (seen[-1] != outside)
    for transformed in (staged, ns.grad(lambda x: inner(x).sum()), ns.vmap(inner), ns.grad(outer)):
        transformed(x)
        assert seen[-1] != outside
    ns.grad(outer)(x)
    assert seen[-1] != seen[-2] and state() == outside
    with pytest.raises(TypeError, match="unhashable"):
        hash(outside)


def test_a_type_may_have_no_sharding():
    """As in JAX, a ShapeDtypeStruct keeps any sharding, and a ShapedArray only a sharding over explicit mesh axes."""
    assert minijax.ShapeDtypeStruct((2,), "float32", sharding=None).sharding is None
    assert jax.ShapeDtypeStruct((2,), "float32", sharding=None).sharding is None
    aval = minijax.core.ShapedArray((2,), np.dtype("float32"), sharding=None)
    theirs = jax.core.ShapedArray((2,), np.dtype("float32"), sharding=None)
    for each in (aval, theirs):
        assert each.sharding.mesh.empty and tuple(each.sharding.spec) == (None,)
    assert isinstance(aval, minijax.core.AbstractValue)
    place = minijax.sharding.SingleDeviceSharding(minijax.devices()[0])
    assert minijax.ShapeDtypeStruct((2,), "float32", sharding=place).sharding is place
    assert minijax.core.ShapedArray((2,), np.dtype("float32"), sharding=place) is aval


@pytest.mark.parametrize("subscripts", ["ij,jk->ik", "ij,jk,kl->il", "i...,i...->..."])
def test_einsum_calls_a_custom_dot_general(subscripts):
    """As in JAX, einsum calls its argument ``_dot_general``, which Flax's layers pass."""
    shapes = {"ij": (2, 3), "jk": (3, 4), "kj": (4, 3), "kl": (4, 2), "i...": (2, 3)}
    arrays = [
        np.sin(np.arange(np.prod(shapes[term]), dtype="f4")).reshape(shapes[term])
        for term in subscripts.partition("->")[0].split(",")
    ]
    found = []
    for ns in BOTH:
        calls = []

        def dot_general(*args, ns=ns, calls=calls, **options):
            calls.append((*(x.shape for x in args[:2]), *map(str, args[2:]), {k: str(v) for k, v in options.items()}))
            return ns.lax.dot_general(*args, **options)

        out = ns.numpy.einsum(subscripts, *arrays, _dot_general=dot_general, precision="highest")
        found.append((calls, np.asarray(out)))
    assert found[0][0] == found[1][0]
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6)


def test_result_type_accepts_a_tracer():
    for library in BOTH:
        seen = []
        library.jit(library.grad(lambda x, seen=seen, of=library.dtypes.result_type: (seen.append(of(x)), x)[1]))(1.0)
        assert seen == [np.float32]
        assert library.dtypes.result_type(library.numpy.ones(3), 2.0, return_weak_type_flag=True) == (np.float32, False)
        assert library.dtypes.result_type(1, 2.0, return_weak_type_flag=True) == (np.float32, True)
        with pytest.raises(library.dtypes.TypePromotionError):
            library.dtypes.result_type("float8_e4m3fn", "float16")
        with pytest.raises(ValueError):
            library.dtypes.canonicalize_dtype(library.random.key(0).dtype)


def test_the_names_of_dtypes_match_jax():
    assert {*minijax.dtypes.__all__, "bfloat16"} == {name for name in dir(jax.dtypes) if not name.startswith("_")}
    assert all(hasattr(minijax.dtypes, name) for name in (*minijax.dtypes.__all__, "bfloat16"))


@pytest.mark.parametrize("ns", BOTH)
def test_parts_of_programs_can_be_made(ns):
    core = importlib.import_module(f"{ns.__name__}.extend.core")
    closed = ns.make_jaxpr(ns.numpy.sin)(1.0)
    (eqn,) = closed.jaxpr.eqns
    newvar = core.gensym()
    out = newvar(eqn.outvars[0].aval)
    made = core.new_jaxpr_eqn(eqn.invars, [out], eqn.primitive, eqn.params, core.no_effects)
    assert (made.primitive, made.invars, made.outvars) == (eqn.primitive, eqn.invars, [out])
    assert out.aval == eqn.outvars[0].aval and newvar(out.aval) != out
    aval = ns.typeof(ns.numpy.ones((3, 2)))
    assert core.mapped_aval(2, 1, aval).shape == (3,) and core.mapped_aval(2, None, aval) == aval
    assert core.unmapped_aval(4, 1, aval).shape == (3, 4, 2) and core.unmapped_aval(4, None, aval) == aval
    assert [core.valid_jaxtype(x) for x in (1.0, np.ones(2), ns.numpy.ones(2), "text", [1])] == [True] * 3 + [False] * 2


def test_xlas_profiler_sees_our_programs(tmp_path):
    with minijax.profiler.trace(str(tmp_path)):
        minijax.jit(lambda x: minijax.numpy.sin(x) @ x)(np.ones((8, 8), np.float32)).block_until_ready()
    assert [path.suffix for path in tmp_path.rglob("*.pb")] == [".pb"]


def test_arrays_of_other_libraries_convert_by_dlpack():
    taken = minijax.dlpack.from_dlpack(jax.numpy.arange(3.0))
    assert isinstance(taken, minijax.Array) and taken.tolist() == [0.0, 1.0, 2.0]
