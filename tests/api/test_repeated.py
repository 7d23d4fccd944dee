"""Repeated calls of a jitted function: the shortcuts run, and give the same results as the ordinary path."""

import collections
import gc
import subprocess
import sys
import textwrap
import weakref
from typing import NamedTuple

import jax
import ml_dtypes
import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax.api.compile import JitFunction
from minijax.api.repeated import MAX_STRUCTURES
from minijax.backend import pjrt
from minijax.core import observe
from minijax.core.array import Array, MeshArray
from minijax.core.trace import stack_depth
from minijax.lowering import lower
from minijax.tree_util import register_pytree_node, register_pytree_node_class


class Pair(NamedTuple):
    first: object
    second: object


@register_pytree_node_class
class Scaled:
    """A user's pytree node with auxiliary data."""

    def __init__(self, x, name):
        self.x, self.name = x, name

    def tree_flatten(self):
        return (self.x,), self.name

    @classmethod
    def tree_unflatten(cls, name, children):
        return cls(*children, name)


@pytest.fixture(autouse=True)
def one_device(monkeypatch):
    """Forget that earlier tests used several devices: this use turns the shortcuts off."""
    monkeypatch.setattr(pjrt, "others_in_use", False)


@pytest.fixture
def ordinary(monkeypatch):
    """A list of the arguments of each call that took the ordinary path."""
    made = []
    original = JitFunction.call

    def counted(self, args, kwargs, static):
        made.append(args)
        return original(self, args, kwargs, static)

    monkeypatch.setattr(JitFunction, "call", counted)
    return made


def on_device(tree):
    return minijax.tree.map(minijax.device_put, tree)


ONES = np.ones(3, np.float32)
KINDS = {
    "array": ((ONES,), {}),
    "arrays": ((ONES, ONES * 2), {}),
    "keyword": ((ONES,), {"y": ONES}),
    "dict": (({"b": ONES, "a": [ONES * 2, (ONES, None)]},), {}),
    "named tuple": ((Pair(ONES, {"x": ONES}),), {}),
    "user's node": ((Scaled(ONES, "s"), collections.OrderedDict(z=ONES, a=ONES)), {}),
    "nothing": (((), None), {}),
}


def total(*args, **kwargs):
    return sum(map(jnp.sum, minijax.tree.leaves((args, kwargs))), jnp.float32(0))


def same_trees(*args, **kwargs):
    return {"args": args, "kwargs": kwargs}, total(*args, **kwargs)


@pytest.mark.parametrize("function", [total, same_trees])
@pytest.mark.parametrize("where", ["device", "host", "both"])
@pytest.mark.parametrize("kind", KINDS)
def test_known_calls_take_a_shortcut(kind, where, function, ordinary):
    args, kwargs = KINDS[kind]
    if where == "device":
        args, kwargs = on_device((args, kwargs))
    elif where == "both":
        args = (*args, minijax.device_put(ONES))
    jitted = minijax.jit(lambda *args, **kwargs: function(*args, **kwargs))
    expected = function(*args, **kwargs)
    for _ in range(5):
        found = jitted(*args, **kwargs)
        assert minijax.tree.structure(found) == minijax.tree.structure(expected)
        for a, b in zip(minijax.tree.leaves(found), minijax.tree.leaves(expected), strict=True):
            assert type(a) is Array and a.aval is jnp.asarray(b).aval
            np.testing.assert_array_equal(a, b)
    # the first call takes the ordinary path, and so may the call at which jaxlib first asks for its fast path
    assert len(ordinary) <= 2


def test_a_new_kind_of_call_takes_the_ordinary_path(ordinary):
    jitted = minijax.jit(lambda *args: total(*args))
    for size in (1, 2, 3):
        x = minijax.device_put(np.ones(size, np.float32))
        for args in ((x,), (x, x), ([x, x],), ({"a": x},), (np.ones(size, np.float32),), (x, 1.0), (x, True), (x, 2)):
            for _ in range(4):
                assert float(jitted(*args)) == float(total(*args))
    assert len(ordinary) <= 3 * (8 + 4)
    assert jitted._cache_size() == 3 * 8


LEAVES = [
    *(True, 3, -1.5, np.bool_(True), np.int64(3), np.float16(0.5), np.float64(0.1), np.complex128(1j)),
    np.linspace(0, 1, 4),
    np.linspace(0, 1, 4).astype(ml_dtypes.float8_e4m3fn),
    np.arange(12.0).reshape(3, 4)[:, ::2],
    np.zeros((0, 3), np.float32),
    np.broadcast_to(np.float32(1), (3, 3)),
]


def over_two(tree):
    """``tree`` with its arrays sharded over the two test devices."""
    mesh = minijax.sharding.Mesh(minijax.devices(), "x")
    sharding = minijax.sharding.NamedSharding(mesh, minijax.sharding.PartitionSpec("x"))
    return minijax.tree.map(lambda x: minijax.device_put(np.resize(x, 4), sharding), tree)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "nothing"])
def test_known_calls_over_a_mesh_take_a_shortcut(kind, ordinary):
    args, kwargs = over_two(KINDS[kind])
    jitted = minijax.jit(lambda *args, **kwargs: same_trees(*args, **kwargs))
    expected = same_trees(*args, **kwargs)
    for _ in range(3):
        found = jitted(*args, **kwargs)
        assert minijax.tree.structure(found) == minijax.tree.structure(expected)
        for a, b in zip(minijax.tree.leaves(found), minijax.tree.leaves(expected), strict=True):
            assert type(a) is MeshArray and a.aval is b.aval and a.sharding.is_equivalent_to(b.sharding, a.ndim)
            np.testing.assert_array_equal(a, b)
    assert len(ordinary) == 1


class Delegate:
    """A user's node that looks up missing attributes in its array."""

    def __init__(self, x):
        self.x = x

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "x"), name)


register_pytree_node(Delegate, lambda node: ((node.x,), None), lambda _, children: Delegate(*children))


class Dict(dict):
    """A leaf for pytrees. ``jit`` refuses it as an argument."""


# Arguments for one function. Their structures differ in small details.
LIKE_EACH_OTHER = {
    "dict": lambda x: {"a": x, "b": [x, None, (x,)]},
    "more keys": lambda x: {"a": x, "b": [x, None, (x,)], "c": x},
    "keys of another type": lambda x: {1: x, 2: [x, None, (x,)]},
    "a tuple for a list": lambda x: {"a": x, "b": (x, None, (x,))},
    "an array for None": lambda x: {"a": x, "b": [x, x, (x,)]},
    "a named tuple": lambda x: {"a": x, "b": Pair(x, (x,))},
    "an array's delegate": lambda x: {"a": Delegate(x), "b": [x, None, (x,)]},
    "one on the host": lambda x: {"a": np.ones(4, np.float32), "b": [x, None, (x,)]},
}


def test_structures_over_a_mesh_are_distinguished(ordinary):
    x = over_two(ONES)
    jitted = minijax.jit(lambda *args, **kwargs: {"args": args, "kwargs": kwargs})
    calls = {name: ((make(x),), {}) for name, make in LIKE_EACH_OTHER.items()}
    args, _ = calls["dict"]
    calls |= {"by name": ((), {"tree": args[0]}), "with another": ((*args, x), {}), "with a name": (args, {"tree": x})}
    for _ in range(2):
        for name, (args, kwargs) in calls.items():
            jitted(*args, **kwargs)
            before = len(ordinary)
            found = jitted(*args, **kwargs)
            assert len(ordinary) == before, name
            expected = {"args": args, "kwargs": kwargs}
            assert minijax.tree.structure(found) == minijax.tree.structure(expected), name
            types = [[leaf.dtype for leaf in minijax.tree.leaves(tree)] for tree in (found, expected)]
            assert types[0] == types[1], name
    with pytest.raises(TypeError, match="Dict"):
        jitted(Dict(a=x))


@pytest.mark.parametrize("x64", [False, True])
def test_host_values_convert_as_in_jax(x64):
    jitted, reference = minijax.jit(lambda x, y: x), jax.jit(lambda x, y: x)
    with minijax.enable_x64(x64), jax.enable_x64(x64):
        for leaf in LEAVES:
            expected = reference(leaf, 1)
            for _ in range(4):
                found = jitted(leaf, 1)
                assert (str(found.dtype), found.weak_type) == (str(expected.dtype), expected.weak_type), leaf
                assert np.asarray(found).tobytes() == np.asarray(expected).tobytes(), leaf


def test_every_call_reads_the_settings():
    jitted = minijax.jit(lambda x: x * 2)
    for _ in range(3):
        assert jitted(1.5).dtype == jitted(np.ones(2)).dtype == np.float32
        with minijax.enable_x64(True):
            assert jitted(1.5).dtype == jitted(np.ones(2)).dtype == np.float64
        with minijax.disable_jit():
            seen = []
            minijax.jit(seen.append)(1)
            assert seen == [1]


@pytest.mark.parametrize("where", [np.asarray, minijax.device_put])
def test_transformations_see_the_call(where):
    jitted, x = minijax.jit(lambda x: jnp.sin(x) * 2), where(np.float32(0.3))
    for _ in range(3):
        for _ in range(3):
            jitted(x)
        # the call is traced although none of its arguments is a tracer
        assert "jit" in str(minijax.make_jaxpr(lambda: jitted(x))())
        np.testing.assert_allclose(minijax.grad(jitted)(x), 2 * np.cos(0.3), rtol=1e-6)
        out, _ = minijax.jvp(lambda y: jitted(y) + jitted(x), (x,), (np.float32(1),))
        np.testing.assert_allclose(out, 4 * np.sin(0.3), rtol=1e-6)
        np.testing.assert_allclose(minijax.vmap(jitted)(np.full(3, 0.3, np.float32)), 2 * np.sin(0.3), rtol=1e-6)
    assert stack_depth() == 0


def test_a_closed_over_value_may_be_a_tracer(ordinary):
    def outer(x):
        inner = minijax.jit(lambda y: y * x)
        return [inner(np.float32(3)) for _ in range(3)][-1]

    assert [float(minijax.grad(outer)(v)) for v in (1.0, 2.0)] == [3, 3]
    assert float(outer(2.0)) == 6


def test_observers_see_every_call(ordinary):
    class Calls(observe.Observer):
        def __init__(self):
            self.binds, self.executed_ = [], 0

        def bind_enter(self, primitive, trace, args, params):
            self.binds.append(primitive.name)

        def executed(self, name, executable, n_in, n_out):
            self.executed_ += 1

    jitted = minijax.jit(lambda x: x + 1)
    for x in (minijax.device_put(ONES), ONES):
        for _ in range(3):
            jitted(x)
        with observe.watching(Calls()) as calls:
            jitted(x), jitted(x)
        assert calls.binds == ["jit", "jit"] and calls.executed_ == 2
        before = len(ordinary)
        jitted(x)
        assert len(ordinary) == before


def test_calls_with_static_arguments_take_a_shortcut(ordinary):
    count = []

    def f(x, n, *, scale):
        count.append(n)
        return x * n * scale

    jitted = minijax.jit(f, static_argnums=1, static_argnames="scale")
    for x in (ONES, minijax.device_put(ONES)):
        for n, scale in ((2, 3.0), (2.0, 3.0), (True, 3.0), (2, 1)):
            for _ in range(4):
                assert float(jitted(x, n, scale=scale)[0]) == n * scale
    assert len(count) == 4, "1, 1.0 and True are different static arguments"
    assert len(ordinary) <= 3 * 4
    for _ in range(2):
        with pytest.raises(ValueError, match="Non-hashable static arguments"):
            jitted(ONES, [], scale=1)


def test_donated_arguments_are_deleted_at_every_call(ordinary):
    jitted = minijax.jit(lambda x, y: {"sum": x + y}, donate_argnums=0)
    y = minijax.device_put(ONES)
    for _ in range(4):
        given = jnp.array(ONES * 2)
        assert given.on_host
        x = jitted(given, y)["sum"]
        again = jitted(x, y)["sum"]
        assert float(again[0]) == 4
        for gone in (given, x):
            with pytest.raises(RuntimeError, match="deleted"):
                gone + 1
            with pytest.raises(RuntimeError, match="deleted"):
                jitted(gone, y)
        np.testing.assert_array_equal(jitted(ONES, y)["sum"], 2 * ONES)
    assert ordinary


def test_errors_match_those_of_the_ordinary_path():
    jitted = minijax.jit(lambda x, y: x + y)
    for x in (ONES, minijax.device_put(ONES)):
        for _ in range(3):
            jitted(x, x)
        for bad in ("text", object(), np.array(["text"]), np.array([None])):
            with pytest.raises(TypeError, match="argument y|of type <class 'str'>|not a valid JAX type|dtype"):
                jitted(x, bad)
        with pytest.raises(OverflowError):
            jitted(x, 2**40)
        with pytest.raises(TypeError):
            jitted(x)
        with pytest.raises(ValueError, match="Comparator raised exception"):
            jitted(x, {1: x, "a": x})


@pytest.mark.parametrize("error", [RuntimeError, KeyError])
def test_errors_of_the_function_are_raised_once(error):
    runs = []

    def f(x):
        runs.append(x.shape)
        if x.ndim == 2:
            raise error("mine")
        return x

    jitted = minijax.jit(f)
    for where in (np.asarray, minijax.device_put):
        for _ in range(3):
            jitted(where(ONES))
        del runs[:]
        with pytest.raises(error, match="mine"):
            jitted(where(np.ones((2, 2), np.float32)))
        assert runs == [(2, 2)]


def aligned(n):
    """Ones at an address that is a multiple of 64, so that PJRT could use them without a copy."""
    raw = np.ones(n + 16, np.float32)
    offset = (-raw.ctypes.data % 64) // 4
    return raw[offset : offset + n]


@pytest.mark.parametrize("n", [3, 700])
def test_the_user_may_write_to_an_argument_afterwards(n):
    """A chain of matrix products may still run when the call has returned. It must not see later writes."""

    @minijax.jit
    def chain(x, y):
        for _ in range(12):
            y = y @ y
        return abs(x), y

    eye = np.eye(700, dtype=np.float32)
    for _ in range(6):
        value, identity = aligned(n * n).reshape(n, n), aligned(700 * 700).reshape(700, 700)
        identity[...] = eye
        first, second = chain(value, identity)
        value[...] = 7
        identity[...] = 7
        np.testing.assert_array_equal(first, np.ones((n, n)))
        np.testing.assert_array_equal(second, eye)


def test_calls_work_without_the_dispatch_of_jaxlib(monkeypatch):
    monkeypatch.setattr("minijax.backend.fastcall.host_call", lambda name, miss: None)
    jitted = minijax.jit(lambda x: x * 2)
    for _ in range(4):
        np.testing.assert_array_equal(jitted(ONES), ONES * 2)


def test_functions_and_programs_are_freed():
    class Marker:
        pass

    def make():
        marker = Marker()

        def f(x):
            assert marker
            return x["a"] * 2 if isinstance(x, dict) else x.x if isinstance(x, Scaled) else x

        jitted = minijax.jit(f)
        f.jitted = jitted
        for x in (ONES, {"a": ONES}, Scaled(ONES, "aux")):
            for y in (x, on_device(x)):
                for _ in range(3):
                    jitted(y)
        (known,) = jitted.known.values()
        program = next(iter(known.flat.values()))
        return weakref.ref(marker), weakref.ref(jitted), weakref.ref(program)

    refs = make()
    gc.collect()
    assert [ref() for ref in refs] == [None, None, None]


def in_fresh_process(code, **environment):
    preamble = "import sys\nimport numpy as np\nimport minijax, minijax.numpy as jnp\n"
    done = subprocess.run(
        [sys.executable, "-c", preamble + textwrap.dedent(code)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_calls_work_without_jax_and_with_jax_imported_later():
    out = in_fresh_process(
        """
        from minijax.api.compile import JitFunction
        made, original = [], JitFunction.call

        def counted(self, args, kwargs, static):
            made.append(args)
            return original(self, args, kwargs, static)

        JitFunction.call = counted
        jitted = minijax.jit(lambda x, y: x * y)
        for value in (np.ones(3, np.float32), np.linspace(0, 1, 3)):
            for _ in range(5):
                assert jitted(value, 1.5).dtype == np.float32
        print(len(made), "jax" in sys.modules)
        minijax.config.update("jax_enable_x64", True)
        for _ in range(5):
            assert jitted(np.linspace(0, 1, 3), 1.5).dtype == np.float64
        print(len(made))
        minijax.config.update("jax_enable_x64", False)

        minijax.config.update("jax_enable_x64", True)
        import jax  # whose own setting is 32 bits
        for _ in range(5):
            assert jitted(np.linspace(0, 1, 3), 1.5).dtype == np.float64
            assert jitted(np.ones(3, np.float32), np.float32(1)).dtype == np.float32
        with jax.disable_jit():
            assert jitted(np.ones(3, np.float32), np.float32(1)).dtype == np.float32
        assert jax.jit(lambda x: x)(np.linspace(0, 1, 3)).dtype == np.float32
        """
    )
    assert out.split() == ["2", "False", "5"]


@pytest.mark.parametrize("written", [lower.WRITTEN_BYTES, 0])
@pytest.mark.parametrize("given", [2.0, np.float32(2), ONES * 2, {"a": ONES * 2, "b": 1.0}])
def test_closed_over_arrays_allow_the_shortcut(given, written, ordinary, capfd, monkeypatch):
    """If the program takes closed-over arrays as operands, the shortcut must pass them too."""
    monkeypatch.setattr(lower, "WRITTEN_BYTES", written)
    kept, other = minijax.device_put(ONES * 3), minijax.device_put(ONES)
    jitted = minijax.jit(lambda x: [kept * leaf + other for leaf in minijax.tree.leaves(x)])
    for _ in range(5):
        for found, leaf in zip(jitted(given), minijax.tree.leaves(given), strict=True):
            np.testing.assert_array_equal(found, 3 * ONES * leaf + 1)
    assert len(ordinary) <= 2
    assert capfd.readouterr().err == ""  # if operands were missing, XLA would report this


def test_structures_with_leaves_of_the_same_types_are_distinguished():
    f = minijax.jit(lambda tree: tree["b"] - tree["a"] if isinstance(tree, dict) else tree[0] - tree[1])
    x, y = minijax.device_put(np.float32(3)), minijax.device_put(np.float32(1))
    trees = [[x, y], {"a": x, "b": y}, (x, y)]
    for _ in range(3):
        assert [float(f(tree)) for tree in trees] == [2, -2, 2]
    (known,) = f.known.values()
    (met,) = known.trees.values()
    assert len(met) == 3 and [float(known.tree_call((tree,), {})) for tree in trees] == [2, -2, 2]
    for i in range(MAX_STRUCTURES + 1):
        f({"a": x, "b": y, **{f"nothing{k}": () for k in range(i)}})
    (met,) = known.trees.values()
    assert len(met) == MAX_STRUCTURES and [float(f(tree)) for tree in trees] == [2, -2, 2]
