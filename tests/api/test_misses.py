"""Each kind of cache miss has its reason. The log of misses keeps no function alive."""

import collections
import functools
import gc
import re
import weakref

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import enable_x64, grad, jit, lax, vmap
from minijax.api import compile as api_compile
from minijax.api.differences import CallSignature, Miss, nearest, type_advice
from minijax.config import trace_key
from minijax.core import dtypes, miss_log, observe
from minijax.core.avals import ShapedArray
from tests.threads import at_once


class Reasons(observe.Observer):
    """The reasons of cache lookups, '' for a hit."""

    def __init__(self):
        self.seen = []

    def cache(self, cache, name, hit, key, reason):
        self.seen.append(reason)


def reason_of(fun, first, second, **kwargs):
    """The reason why the second call of ``fun`` misses after the first; nothing is compiled."""
    fun.trace(*first)
    miss = fun.explain_cache_miss(*second, **kwargs)
    assert isinstance(miss, Miss)
    # observers receive the same reason
    with observe.watching(Reasons()) as watch:
        fun.trace(*second, **kwargs)
    assert watch.seen == [miss]
    assert fun.explain_cache_miss(*second, **kwargs) is None
    return miss


def params(*sizes):
    return {"w": [jnp.ones(n) for n in sizes]}


def step(params, scale=1.0, *, n=2):
    return params["w"][0] * scale * n


class Plain:
    """Hashable by identity; all instances have the same repr."""

    def __repr__(self):
        return "Plain()"


def of_static(x, option):
    return x


def static():
    return jit(of_static, static_argnums=1)


# name -> (function, first arguments, second arguments, reason, part of the advice)
KINDS = {
    "two shapes": (lambda: jit(step), (params(3, 5), 2.0), (params(4, 6), 2.0),
     "params['w'][0]: f32[3] became f32[4]; params['w'][1]: f32[5] became f32[6]", "Pad params['w'][0]"),
    "dtype": (lambda: jit(step), (params(3), np.float32(2)), (params(3), np.float16(2)), "scale: f32[] became f16[]",
     "jnp.asarray(scale, jnp.float32)"),
    "weak type": (lambda: jit(step), (params(3), np.float32(2)), (params(3), 2.0),
     "scale: f32[] became f32[] (weak_type)", "Pass jnp.float32(...) for scale"),
    "new key": (lambda: jit(step), (params(3), 2.0), ({**params(3), "b": 1.0}, 2.0), "params['b']: it is new",
     "in the same containers"),
    "key gone": (lambda: jit(step), ({**params(3), "b": 1.0}, 2.0), (params(3), 2.0), "params['b']: it is gone",
     "in the same containers"),
    "container": (lambda: jit(step), (params(3), 2.0), ({"w": tuple(params(3)["w"])}, 2.0),
     "params['w']: list became tuple", "in the same containers"),
    "static": (static, (1.0, 3), (1.0, 4), "option: 3 became 4", "make option dynamic"),
    "static function": (
        static,
        (1.0, params),
        (1.0, step),
        f"option: params at {__file__}:{params.__code__.co_firstlineno} became step at "
        f"{__file__}:{step.__code__.co_firstlineno}",
        "Make the function that is passed for option once",
    ),
    "unequal static": (static, (1.0, Plain()), (1.0, Plain()),
     "option: Plain() became another object that prints as Plain()", "__eq__ and __hash__"),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_miss_has_its_reason(name):
    make, first, second, reason, advice = KINDS[name]
    api_compile._staged.pop(step, None)
    api_compile._staged.pop(of_static, None)
    miss = reason_of(make(), first, second)
    assert str(miss) == reason
    assert advice in miss.advice
    assert miss.earlier == 1 and miss.differences


def aval(text):
    """The type with this text: ``f32[3]``; ``~f32[]`` is weakly typed."""
    dtype, _, shape = text.strip("~]").partition("[")
    dims = tuple(map(int, filter(None, shape.split(","))))
    return ShapedArray(dims, dtypes.from_short_name(dtype), text.startswith("~"))


# (types of the earlier calls, oldest first; types of the new call; the earlier call that it must be compared with).
# ``|`` separates calls, spaces separate arguments. "a before b": a difference in a counts less than one in b.
NEAREST = [
    ("~f32[] | ~i32[]", "f32[]", "~f32[]"),  # weak type before dtype
    ("~i32[] | i32[3]", "f32[]", "~i32[]"),  # dtype and weak type together before rank
    ("i32[4] | f32[3]", "f32[4]", "i32[4]"),  # dtype before shape
    ("f32[5] | f32[1,4]", "f32[4]", "f32[5]"),  # shape before rank
    ("f32[3,4] | f32[2,9]", "f32[3,9]", "f32[2,9]"),  # two differences of the same kind: the latest call
    ("f32[3] | f32[100]", "f32[4]", "f32[3]"),  # also if the other size is closer
    ("bf16[3] | i32[3]", "f32[3]", "bf16[3]"),  # another float type before another kind
    ("bool[3] | f32[4,2]", "f32[2,2]", "f32[4,2]"),
    ("f32[4] f32[2] | f32[9] f32[9]", "f32[4] f32[7]", "f32[4] f32[2]"),  # shapes of one argument before shapes of two
    ("f32[3] | f32[3] f32[3]", "bool[2,2]", "f32[3]"),  # types before the number of arguments
    ("f32[3] i32[3] f32[3] | f32[9]", "f32[3] i32[3]", "f32[3] i32[3] f32[3]"),  # then the more similar call
]


def test_a_signature_with_one_other_static_argument_is_nearer_than_one_with_two():
    f = jit(lambda x, n=2, m=3: x * n * m, static_argnames=("n", "m"))
    f(1.0, n=5)
    f(1.0)
    assert str(f.explain_cache_miss(1.0, m=4)) == "m: not given became 4"


@pytest.mark.parametrize(("earlier", "new", "expected"), NEAREST)
def test_the_nearest_signature_is_compared(earlier, new, expected):
    def signature(text, static=()):
        avals = tuple(map(aval, text.split()))
        return CallSignature(minijax.tree_util.tree_structure((avals, {})), avals, static, trace_key(), ())

    known = [signature(each) for each in earlier.split(" | ")]
    assert nearest(signature(new), known[::-1]) == signature(expected)


def test_types_count_less_than_static_arguments_and_settings():
    f = jit(lambda x, n: x, static_argnums=1)
    f.trace(jnp.ones(3), 5)
    f.trace(jnp.ones(4), 6)
    assert str(f.explain_cache_miss(np.ones(4, np.int32), 5)) == "x: f32[3] became i32[4]"
    x = np.ones(4, np.float32)
    with enable_x64():
        assert str(f.explain_cache_miss(x, 6)) == "enable_x64 was False and is True"
        f.trace(x, 7)
        assert str(f.explain_cache_miss(x, 6)) == "n: 7 became 6"  # both differ in one static argument: the latest call


# Advice must not suggest a conversion that could lose a value.
TYPES = ["bool[3]", "f32[2,2]", "~f32[]", "~i32[]", "f32[]", "i32[]", "i8[3]", "u8[3]", "f16[3]", "bf16[3]", "f32[3]"]
TYPES += ["f32[4]", "c64[3]", "~c64[]", "i32[3,1]", "u32[3]", "bool[]"]


@pytest.mark.parametrize("was", TYPES)
def test_advised_conversions_lose_no_values(was):
    """A suggested dtype holds every value of both types, and padding is suggested only for equal ranks."""
    for now in TYPES:
        before, after = aval(was), aval(now)
        if before is after:
            continue
        advice = type_advice("x", before, after)
        assert advice.endswith(".") and "{" not in advice
        for name in re.findall(r"jnp\.(\w+)[)(]", advice.replace("jnp.asarray", "")):
            target = np.dtype(dtypes.from_short_name(name))
            assert all(np.can_cast(each.dtype, target, "safe") for each in (before, after)), (was, now, advice)
        if "no conversion" in advice and before.shape == after.shape:
            assert not np.can_cast(before.dtype, after.dtype) and not np.can_cast(after.dtype, before.dtype), advice
        if "Pad" in advice:
            assert before.ndim == after.ndim and before.shape != after.shape, (was, now)
            assert before.dtype == after.dtype or "Convert x" in advice, (was, now)


def test_reasons_name_the_first_call_settings_and_axes():
    f = jit(lambda x: x)
    assert str(f.explain_cache_miss(1.0)) == "first call"
    x = np.ones(3, np.float32)
    f.trace(x)
    with enable_x64():
        assert str(f.explain_cache_miss(x)) == "enable_x64 was False and is True"

    found = []

    def mapped(y):
        found.append(f.explain_cache_miss(x))
        return y

    vmap(mapped, axis_name="i")(jnp.ones(2))
    assert str(found[0]) == "mapped axes: none became 'i' of size 2"


def test_a_recreated_function_is_recognised():
    reasons = []
    for i in range(3):
        f = jit(lambda x, i=i: x + i)
        reasons.append(f.explain_cache_miss(1.0))
        f.trace(1.0)
    assert str(reasons[0]) == "first call"
    here = f"<lambda> at {__file__}:"
    assert here in str(reasons[1]) and str(reasons[1]).startswith("a new function")
    assert str(reasons[1]).endswith("number 2 made there") and str(reasons[2]).endswith("number 3 made there")
    assert "outside of the loop" in reasons[1].advice


def test_recreated_partials_methods_and_wrappers_are_recognised():
    def power(x, n):
        return x**n

    class Model:
        def apply(self, x):
            return x

    model = Model()
    for make, words in (
        (lambda: jit(functools.partial(power, n=2)), "a new functools.partial of power at"),
        (lambda: jit(model.apply), "a new bound method apply at"),
        (lambda: jit(grad(model.apply)), "a new function apply at"),
    ):
        make().trace(1.0)
        assert str(make().explain_cache_miss(1.0)).startswith(words)


def test_jitting_again_hits_unless_options_change():
    def f(x, n=1):
        return x * n

    jit(f).trace(1.0)
    assert jit(f).explain_cache_miss(1.0) is None
    miss = jit(f, static_argnums=1).explain_cache_miss(1.0)
    assert str(miss) == "f was transformed with other options before"


def test_a_function_defined_again_is_recognised():
    namespace = {"In": ["", "def f(x): return x", "def f(x): return x + 1"]}
    for number in (1, 2):
        exec(compile(namespace["In"][number], f"<minijax-{number}>", "exec"), namespace)
        miss = jit(namespace["f"]).explain_cache_miss(1.0)
        jit(namespace["f"]).trace(1.0)
    assert str(miss) == "f was defined again, before at <minijax-1>:1"
    # another session whose first input has the same name
    other = {"In": ["", "def f(x): return x"]}
    exec(compile(other["In"][1], "<minijax-1>", "exec"), other)
    assert str(jit(other["f"]).explain_cache_miss(1.0)) == "first call"


def test_reasons_name_clearing_eviction_and_closed_over_tracers(monkeypatch):
    f = jit(lambda x: x)
    f.trace(1.0)
    f.clear_cache()
    assert str(f.explain_cache_miss(1.0)) == "its cache was cleared"
    f.trace(1.0)
    monkeypatch.setattr(api_compile, "MAX_SIGNATURES", 2)
    f.trace(jnp.ones(2))
    f.trace(jnp.ones(3))
    assert str(f.explain_cache_miss(1.0)) == "it was cached, and had to make room for other signatures"

    found = []

    def outer(x):
        inner = jit(lambda y: x * y)
        inner.trace(2.0)
        found.append(inner.explain_cache_miss(2.0))
        return x

    grad(outer)(1.0)
    assert str(found[0]).startswith("it closed over a linearize:1 tracer of type f32[] before")
    assert "Pass it as an argument" in found[0].advice


def test_misses_of_control_flow_bodies_have_reasons():
    def body(c, x):
        return c + x.sum(), c

    with observe.watching(Reasons()) as watch:
        lax.scan(body, 0.0, jnp.ones((2, 3)))
        lax.scan(body, 0.0, jnp.ones((2, 3)))
        lax.scan(body, 0.0, jnp.ones((2, 4)))
    assert watch.seen == ["first call", "", "x: f32[3] became f32[4]"]

    with observe.watching(Reasons()) as watch:
        for _ in range(2):
            lax.scan(lambda c, x: (c, x), 0.0, jnp.ones(3))
    assert watch.seen[0] == "first call" and watch.seen[1].startswith("a new function <lambda>")

    # a body that closes over a tracer is not cached, but its function is remembered
    with observe.watching(Reasons()) as watch:
        for _ in range(3):
            minijax.grad(lambda a: lax.scan(lambda c, x: (c * a, None), 1.0, jnp.ones(3))[0])(2.0)
    assert [reason[-19:] for reason in watch.seen] == ["first call", "number 2 made there", "number 3 made there"]


def test_misses_of_pmap_have_reasons():
    f = minijax.pmap(lambda x: x * 2.0)
    assert str(f.explain_cache_miss(jnp.ones((1, 3)))) == "first call"
    f(jnp.ones((1, 3)))
    assert f.explain_cache_miss(jnp.ones((1, 3))) is None
    assert str(f.explain_cache_miss(jnp.ones((1, 4)))) == "x: f32[1,3] became f32[1,4]"
    f = minijax.pmap(lambda x, n: x, static_broadcasted_argnums=1)
    with pytest.raises(ValueError, match="Non-hashable static arguments"):
        f.explain_cache_miss(jnp.ones((1, 3)), [1])


def test_a_known_function_is_not_reported_as_new():
    def made(n):
        def f(x):
            return x * n

        return jit(f)

    first = made(1)
    first.trace(1.0)
    with observe.watching(Reasons()) as watch, observe.retracing():
        first.trace(1.0)
    first.clear_cache()
    first.trace(1.0)
    jit(first.__wrapped__, inline=True).trace(1.0)
    assert watch.seen == ["traced again for the recording"]
    assert "number 2 made there" in str(made(2).explain_cache_miss(1.0))


# --- the log of misses without an observer -----------------------------------------------------------------------


def test_misses_are_logged_without_an_observer():
    def f(x, n):
        return x * x

    g, began = jit(f, static_argnums=1), miss_log.total()
    g(jnp.ones(3), Plain())
    g(jnp.ones(4), 2), g(jnp.ones(4), 2)
    lax.scan(lambda c, x: (c, x), 0.0, jnp.ones(3))
    grad(g)(1.0, 2)
    kept = miss_log.since(began)
    assert miss_log.total() - began == len(kept)
    line = f.__code__.co_firstlineno + 4
    assert [(each.cache, each.name, str(each.reason)) for each in kept[:3]] == [
        ("staging", "f", "first call"),
        ("staging", "f", "x: f32[3] became f32[4]; n: a Plain became 2"),  # the user's repr was not called
        ("body", "<lambda>", "first call"),
    ]
    assert [each.place.rpartition(":")[2] for each in kept[:3]] == [
        f"{line + i} (test_misses_are_logged_without_an_observer)" for i in range(3)
    ]
    assert kept[0].subject == f"f at {__file__}:{line - 4}" and kept[1].number == began + 1
    assert all(list(each.costs) == ["trace", "lower", "compile"] and each.seconds > 0 for each in kept[:2])
    assert list(kept[2].costs) == ["trace"]  # it was evaluated, not compiled
    made = [str(each.reason) for each in kept if each.cache == "compilation"]
    assert made[:1] == ["the known part of f is compiled for the first time"]
    assert repr(kept[0]).startswith(f"f at {__file__}:{line - 4} was traced at {__file__}:{line} (test_")
    assert miss_log.counts()[kept[0].subject] == 3


def test_a_comparison_that_raises_does_not_stop_a_call():
    class Odd:
        def __hash__(self):
            return id(self)

        def __eq__(self, other):
            raise RuntimeError("no")

        __repr__ = __eq__

    f, began = static(), miss_log.total()
    assert [float(f(1.0, Odd())), float(f(1.0, Odd()))] == [1.0, 1.0]
    assert miss_log.since(began)[1].reason == "not known: comparing with earlier calls raised RuntimeError"


def test_the_miss_log_is_bounded_counted_and_thread_safe(monkeypatch):
    monkeypatch.setattr(miss_log, "_kept", collections.deque(maxlen=50))
    monkeypatch.setattr(miss_log, "MOST_NAMES", 3)
    monkeypatch.setattr(miss_log, "_by_subject", {})
    began = miss_log.total()

    def work(name):
        for _ in range(300):
            miss_log.add("staging", name, name, "first call")

    at_once(*[functools.partial(work, f"f{i}") for i in range(4)], turn=1e-6)
    assert miss_log.total() - began == 1200
    assert [each.number - began for each in miss_log.since(began)] == list(range(1150, 1200))
    assert len(miss_log.counts()) == 3 and set(miss_log.counts().values()) == {300}


def test_the_miss_log_keeps_no_user_object_alive():
    class Config:
        pass

    def run():
        big, config, weights = jnp.ones(1000), Config(), np.ones(1000, np.float32)
        f = jit(lambda x, of: jnp.sum(x * big) + weights.sum(), static_argnums=1)
        g = jit(functools.partial(lambda w, x: w * x, big))
        f(big, config), f(weights, config), g(1.0), grad(f)(big, config)
        lax.scan(lambda c, x: (c, x * big[0]), 0.0, jnp.ones(3))
        return [weakref.ref(each) for each in (big, config, weights, f, f.fun, g, g.fun)]

    began = miss_log.total()
    refs = run()
    gc.collect()
    assert len(miss_log.since(began)) > 4 and [ref() for ref in refs] == [None] * len(refs)


# --- closed-over values of a cached program -----------------------------------------------------------------------

CLOSING = """
import numpy as np
from minijax import jit
import minijax.numpy as jnp

scale, table, weights = 2.0, {"a": 1}, np.ones(3)

class Config:
    def __init__(self):
        self.rate, self.scale = 0.5, 7.0

    def step(self, x):
        return x * self.rate

config = Config()

def helper(x):
    return x * scale

def made(offset):
    def f(x):
        return x + offset
    def change(value):
        nonlocal offset
        offset = value
    return f, change

closing, change = made(1.0)

FUNCTIONS = {
    "global": lambda x: x * scale,
    "helper": lambda x: helper(x),
    "jitted helper": lambda x: inner(x),
    "closure": closing,
    "object": lambda x: x * jnp.asarray(weights)[0],
    "attribute": lambda x: x * config.rate,
    "method": config.step,
    "attribute of that name": lambda x: x * config.scale,
    "local of that name": lambda x: [x * scale for scale in (1.0,)][0],
    "inside": lambda x: x * table["a"],
}
inner = jit(helper)
"""

# function -> (code to run after its trace, beginning of the report: '' if a new trace would give the same program)
STALE = {
    "global": ("scale = 3.0", "scale was 2.0 when it was traced and is 3.0 now: the program still uses 2.0"),
    "jitted helper": ("scale = 2", "scale was 2.0 when it was traced and is 2 now"),
    "closure": ("change(5.0)", "offset was 1.0 when it was traced and is 5.0 now"),
    "object": ("weights = np.ones(3)", "weights is another ndarray than when it was traced: the program still uses"),
    "attribute": ("config.rate = 0.25", "config.rate was 0.5 when it was traced and is 0.25 now"),
    "method": ("config.rate = 0.25", "self.rate was 0.5 when it was traced and is 0.25 now"),
    "attribute of that name": ("scale = 3.0", ""),
    "local of that name": ("scale = 3.0", ""),
    "inside": ("table['a'] = 5", ""),
}


@pytest.mark.parametrize("name", STALE)
def test_a_hit_names_stale_values_of_the_program(name):
    space = {"__name__": "program"}
    exec(compile(CLOSING, "<program>", "exec"), space)
    change, expected = STALE[name]
    f = jit(space["FUNCTIONS"][name])
    f(1.0)
    assert f.explain_cache_hit(1.0)[0] == "" and f.explain_cache_hit(jnp.ones(3)) == ("", ())
    exec(change, space)
    stale, unseen = f.explain_cache_hit(1.0)
    assert stale.startswith(expected) and bool(stale) == bool(expected)
    assert unseen == {"inside": ("table",), "object": ("weights",)}.get(name, ())
    with observe.watching(Reasons()) as watch:
        f(1.0)
    assert watch.seen == [stale]
    f.clear_cache()
    f(1.0)
    assert f.explain_cache_hit(1.0)[0] == ""


def test_a_hit_names_a_redefined_helper_and_stale_values_of_a_loop_body():
    space = {"__name__": "program"}
    exec(compile(CLOSING, "<program>", "exec"), space)
    f = jit(space["FUNCTIONS"]["helper"])
    f(1.0)
    exec("def helper(x): return x", space)
    assert f.explain_cache_hit(1.0)[0].startswith("helper is another function than when it was traced")
    exec("def body(c, x): return c * scale, x", space)
    lax.scan(space["body"], 1.0, jnp.ones(3))
    space["scale"] = 3.0
    with observe.watching(Reasons()) as watch:
        lax.scan(space["body"], 1.0, jnp.ones(3))
    assert watch.seen == ["scale was 2.0 when it was traced and is 3.0 now: the program still uses 2.0"]


def test_records_of_closures_keep_no_object_alive_and_run_no_code():
    class Proxy:
        def __getattribute__(self, name):
            raise AssertionError(f"{name} was read")

    class Box:
        pass

    def made():
        proxy, box, big = Proxy(), Box(), jnp.ones(1000)
        box.big = big

        def helper(x):
            return x + big.sum() + (0.0 if proxy is None else 1.0) + box.big.sum()

        held = {"helper": helper}
        exec("def f(x): return helper(x)", held)
        return jit(held["f"]), [weakref.ref(box), weakref.ref(helper)], held

    f, refs, held = made()
    f(1.0)
    (staged,) = f.cache.values()
    assert len(staged.closed.memo["noted"]) >= 4
    del held["helper"]
    gc.collect()
    assert [ref() for ref in refs] == [None, None] and f.explain_cache_hit(1.0)[0] == ""


def test_of_calls_with_other_arguments_the_one_with_the_fewest_is_nearest():
    f = jit(lambda p, *, scale=1.0: p["w"] * scale)
    f({"w": 1.0})
    f({"w": 1.0, "b": 1.0})
    assert str(f.explain_cache_miss({"w": 1.0}, scale=2.0)) == "scale: it is new"
