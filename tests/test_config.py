"""Settings have JAX's names, values, errors and effects. A context changes a setting only for its thread."""

import functools
import importlib
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import minijax
from minijax.config import config
from tests.threads import at_once

# this imports the module; ``from minijax import config`` would import an object with this name
settings = importlib.import_module("minijax.config")

DIRECTIONS = ("host_to_device", "device_to_device", "device_to_host")
GUARDS = ("transfer_guard", *(f"transfer_guard_{direction}" for direction in DIRECTIONS))
# Settings on which staged programs do not depend.
SHOWN_OR_FORBIDDEN = (
    *("traceback_filtering", "no_tracing", "check_tracer_leaks", "log_compiles", "explain_cache_misses"),
    *("default_device", "debug_key_reuse", "num_cpu_devices", *GUARDS),
)
# Setting of the disk cache of compiled programs -> (a valid value, values that JAX rejects).
DISK_CACHE = {
    "jax_compilation_cache_dir": ("/folder", (1, True, 2.5)),
    "jax_persistent_cache_min_compile_time_secs": (2.5, ("soon", [1])),
    "jax_persistent_cache_min_entry_size_bytes": (100, ("many", 2.5)),
}
CONTEXTS = {
    "enable_x64": (settings.enable_x64, True),
    "debug_nans": (settings.debug_nans, True),
    "disable_jit": (settings.disable_jit, True),
    "default_matmul_precision": (settings.default_matmul_precision, "highest"),
    "numpy_rank_promotion": (settings.numpy_rank_promotion, "raise"),
    "numpy_dtype_promotion": (settings.numpy_dtype_promotion, "strict"),
    "use_direct_linearize": (settings.use_direct_linearize, False),
    "traceback_filtering": (settings.traceback_filtering, "off"),
    "no_tracing": (settings.no_tracing, True),
    "debug_infs": (settings.debug_infs, True),
    "default_prng_impl": (settings.default_prng_impl, "rbg"),
    "check_tracer_leaks": (settings.checking_leaks, True),
    "log_compiles": (settings.log_compiles, True),
    "explain_cache_misses": (settings.explain_cache_misses, True),
    **{name: (getattr(settings, name), "disallow") for name in GUARDS},
    "default_device": (settings.default_device, "cpu"),
    "debug_key_reuse": (settings.debug_key_reuse, True),
}
READERS = {
    "enable_x64": settings.x64_enabled,
    "disable_jit": settings.jit_disabled,
    "default_matmul_precision": settings.matmul_precision,
    "numpy_rank_promotion": settings.rank_promotion,
    "use_direct_linearize": settings.direct_linearize_enabled,
}


@pytest.fixture(autouse=True)
def restored():
    before = dict(config.values)
    yield
    for name, value in before.items():
        config.update(name, value)
    assert settings._override_count == 0


def in_thread(f):
    """The result of ``f()`` on another thread."""
    (out,) = at_once(f)
    return out


def test_defaults_match_jax():
    for name, value in config.values.items():
        # the class has the defaults: the environment may have changed a setting of this process
        assert name.startswith("jax_") and value == getattr(config, name)
    # the current mesh is stored with the settings, but is no setting
    defaults = {name: value for name, value in settings.ConfigValues()._asdict().items() if name != "context_mesh"}
    theirs = subprocess.run(
        [sys.executable, "-c", f"import jax\nfor n in {list(defaults)!r}: print(getattr(jax.config, 'jax_' + n))"],
        env={k: v for k, v in os.environ.items() if "JAX_" not in k},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert {name: str(value) for name, value in defaults.items()} == dict(zip(defaults, theirs, strict=True))


@pytest.mark.parametrize("name", CONTEXTS)
def test_update_sets_a_value_for_all_threads_and_both_spellings(name):
    before, value = config.read(name), CONTEXTS[name][1]
    assert before != value
    for spelling in ("jax_" + name, name):
        config.update(spelling, value)
        assert getattr(config, name) == getattr(config, "jax_" + name) == config.read(spelling) == value
        assert config.values["jax_" + name] == value
        assert in_thread(lambda: getattr(config, name)) == value
        if name in READERS:
            assert READERS[name]() == in_thread(READERS[name]) == value
        config.update(spelling, before)
        assert getattr(config, name) == before


@pytest.mark.parametrize("name", CONTEXTS)
def test_context_reaches_only_its_thread(name):
    before = config.read(name)
    make, value = CONTEXTS[name]
    with make(value):
        assert getattr(config, name) == value
        assert in_thread(lambda: getattr(config, name)) == before
        if name in READERS:
            assert READERS[name]() == value
            assert in_thread(READERS[name]) == before
    assert getattr(config, name) == before


def test_a_context_works_as_a_decorator():
    @settings.enable_x64(True)
    def inside(depth):
        return [settings.x64_enabled(), *(inside(depth - 1) if depth else [])]

    assert inside(2) == [True, True, True]
    assert in_thread(lambda: inside(1)) == [True, True]
    assert not settings.x64_enabled()


# --- the key of staging caches ------------------------------------------------------------------------------


def test_trace_key_follows_the_settings_and_is_one_object_per_combination():
    plain = settings.trace_key()
    assert plain is settings.trace_key() is in_thread(settings.trace_key)
    for name, (make, value) in CONTEXTS.items():
        before = config.read(name)
        with make(value):
            key = settings.trace_key()
            assert (key is plain) == (name in SHOWN_OR_FORBIDDEN)
            assert hash(key) == hash(settings.trace_key())
            assert settings.common_key == [None]  # a key that only some threads have is not the common key
        assert settings.trace_key() is settings.common_key[0] is plain
        config.update(name, value)
        assert settings.trace_key() is settings.common_key[0] is key
        config.update(name, before)
    assert settings.trace_key() is plain
    assert pickle.loads(pickle.dumps(plain)) is plain


def test_trace_key_names_the_changed_setting():
    plain = settings.trace_key()
    with settings.enable_x64(True), settings.default_matmul_precision("highest"):
        changes = settings.trace_key().changes_from(plain)
    assert changes == ["enable_x64 was False and is True", "default_matmul_precision was None and is 'highest'"]
    assert plain.changes_from(plain) == []
    assert "enable_x64=False" in repr(plain)


# --- errors -------------------------------------------------------------------------------------------------


def test_an_unknown_setting_is_an_error_that_lists_the_known_settings():
    with pytest.raises(AttributeError):
        jax.config.update("jax_no_such_thing", 1)
    for attempt in (
        lambda: config.update("jax_no_such_thing", 1),
        lambda: config.read("jax_no_such_thing"),
        lambda: config.jax_no_such_thing,
        lambda: setattr(config, "no_such_thing", 1),
    ):
        with pytest.raises(AttributeError, match="Unrecognized config option: .*no_such_thing") as raised:
            attempt()
        for name in CONTEXTS:
            assert "jax_" + name in str(raised.value)
    assert not hasattr(config, "nothing")


def test_assignment_suggests_config_update():
    with pytest.raises(AttributeError, match=r"Write config.update\('jax_enable_x64', True\)"):
        config.enable_x64 = True
    with pytest.raises(AttributeError):
        jax.config.jax_enable_x64 = True


def test_boolean_settings_accept_only_truth_values():
    for value, expected in ((True, True), (0, False), (1, True), (np.bool_(False), False), ("true", True)):
        config.update("enable_x64", value)
        assert config.enable_x64 is expected
    for value in (2, None, "perhaps", 1.0, [True]):
        with pytest.raises(ValueError, match="must be True or False"):
            config.update("enable_x64", value)


@pytest.mark.parametrize(
    "name", ["numpy_rank_promotion", "numpy_dtype_promotion", "default_matmul_precision", "transfer_guard"]
)
def test_a_setting_refuses_an_unknown_word(name):
    for library in (config, jax.config):
        with pytest.raises(ValueError, match="bogus"):
            library.update("jax_" + name, "bogus")
    with pytest.raises(ValueError, match=r"new enum value .*'bogus'"):
        CONTEXTS[name][0]("bogus")


@pytest.mark.parametrize("name", DISK_CACHE)
def test_settings_of_the_disk_cache_check_their_values(name):
    value, refused = DISK_CACHE[name]
    theirs = getattr(jax.config, name)
    for library in (config, jax.config):
        for accepted in (value, None):
            library.update(name, accepted)
            assert getattr(library, name) == accepted
        for bad in refused:
            with pytest.raises(ValueError, match="must be None or"):
                library.update(name, bad)
    jax.config.update(name, theirs)


# --- the environment ----------------------------------------------------------------------------------------


def with_environment(**variables):
    environment = {k: v for k, v in os.environ.items() if "JAX_" not in k}
    code = "from minijax.config import config; print(*config.values.values())"
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment | variables,
        cwd=Path(settings.__file__).parents[1],
        capture_output=True,
        text=True,
    )


def test_the_environment_sets_values():
    run = with_environment(
        JAX_ENABLE_X64="1", JAX_NUMPY_RANK_PROMOTION="raise", MINIJAX_DEBUG_NANS="yes", JAX_DISABLE_JIT="0"
    )
    expected = ["True", "True", "False", "None", "raise", "standard", "True", "False", "threefry2x32", "True", "False"]
    expected += ["auto", *["False"] * 3, *["None"] * 5, "False", "-1", "None", "True", "1.0", "0"]
    assert run.stdout.split() == expected, run.stderr
    run = with_environment(JAX_ENABLE_X64="1", MINIJAX_ENABLE_X64="off")
    assert run.stdout.split()[0] == "False", run.stderr
    run = with_environment(JAX_DEFAULT_MATMUL_PRECISION="BF16_BF16_F32", JAX_NUMPY_RANK_PROMOTION="Warn")
    assert run.stdout.split()[3:5] == ["BF16_BF16_F32", "warn"], run.stderr
    run = with_environment(JAX_COMPILATION_CACHE_DIR="/Folder", JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="2.5")
    assert run.stdout.split()[-4:] == ["/Folder", "True", "2.5", "0"], run.stderr


def test_environment_with_nonsense_is_an_error():
    run = with_environment(JAX_ENABLE_X64="perhaps")
    assert run.returncode != 0
    assert "invalid truth value 'perhaps' for environment 'JAX_ENABLE_X64'" in run.stderr
    for variable, bad in (("JAX_NUMPY_RANK_PROMOTION", "bogus"), ("JAX_NUM_CPU_DEVICES", "many")):
        run = with_environment(**{variable: bad})
        assert f"ValueError: invalid value {bad!r} for environment {variable!r}" in run.stderr


# --- tracing can be forbidden -------------------------------------------------------------------------------


@pytest.mark.parametrize("library", [minijax, jax], ids=["minijax", "jax"])
def test_no_tracing_lets_only_cached_programs_run(library):
    double = library.jit(lambda x: x * 2)
    x = np.float32(1.5)
    assert double(x) == 3
    with library.no_tracing():
        assert double(x) == 3
        for traced in (lambda: double(np.ones(2, np.float32)), lambda: library.make_jaxpr(lambda x: x)(x)):
            with pytest.raises(RuntimeError, match="re-tracing function .*'no_tracing' is set"):
                traced()
    assert double(np.ones(2, np.float32)).tolist() == [2, 2]


# --- effects of the settings, against JAX -------------------------------------------------------------------

LIBRARIES = pytest.mark.parametrize("library", [minijax, jax], ids=["minijax", "jax"])


@LIBRARIES
def test_debug_infs_raises_an_error_at_an_infinity(library):
    zeros = library.numpy.zeros(2)
    with library.debug_infs():
        for infinite in (lambda: 1 / zeros, lambda: library.jit(lambda x: library.numpy.exp(x + 1e4))(zeros)):
            with pytest.raises(FloatingPointError, match=r"invalid value \(inf\) encountered in"):
                infinite()
        assert np.isnan((zeros / zeros)[0])
        assert library.grad(lambda x: (x * x).sum())(zeros).tolist() == [0, 0]
    assert np.isinf(1 / zeros).all()


def test_threefry_partitionable_cannot_be_turned_off():
    key = minijax.random.key(3)
    with minijax.threefry_partitionable(True), jax.threefry_partitionable(True):
        assert np.array_equal(minijax.random.bits(key, (5,)), jax.random.bits(jax.random.key(3), (5,)))
    for attempt in (
        lambda: minijax.threefry_partitionable(False),
        lambda: config.update("jax_threefry_partitionable", False),
    ):
        with pytest.raises(ValueError, match="cannot be False: minijax draws random numbers as JAX does by default"):
            attempt()


@LIBRARIES
def test_default_prng_impl_sets_the_kind_of_keys(library):
    def made():
        return str(library.jit(lambda: library.random.key(3))().dtype)

    assert made() == "key<fry>"
    with library.default_prng_impl("rbg"):
        assert str(library.random.key(0).dtype) == made() == "key<rbg>"
        assert library.random.PRNGKey(5).tolist() == [0, 5, 0, 5]
        drawn = [library.random.normal(library.random.PRNGKey(7)), library.random.normal(library.random.key(7))]
    assert drawn[0] == drawn[1] == jax.random.normal(jax.random.key(7, impl="rbg"))
    assert made() == "key<fry>"


kept = []


def keeping(x):
    kept.append(x * 2)
    return x * 3


def failing_inside(x):
    try:
        raise ValueError(x * 2)
    except ValueError:
        return x


LEAKS = {
    "jit": (True, lambda lib, f: lib.jit(f)(1.0)),
    "vmap": (True, lambda lib, f: lib.vmap(f)(np.ones(2, np.float32))),
    "scan": (True, lambda lib, f: lib.lax.scan(lambda c, x: (c, f(x)), 0.0, np.ones(2, np.float32))),
    # in JAX, these do not check for leaks
    "grad": (False, lambda lib, f: lib.grad(f)(1.0)),
}


@LIBRARIES
@pytest.mark.parametrize("name", LEAKS)
def test_checking_leaks_finds_kept_tracers(library, name):
    found, transform = LEAKS[name]
    with library.checking_leaks():
        transform(library, failing_inside)
        if found:
            with pytest.raises(Exception, match="Leaked trace"):
                transform(library, keeping)
        else:
            transform(library, keeping)
    kept.clear()
    assert library.check_tracer_leaks is not None
    transform(library, keeping)
    kept.clear()


@LIBRARIES
def test_compilations_and_misses_are_logged(library, caplog):
    def doubled(x):
        return x * 2

    def messages():
        texts = [record.getMessage() for record in caplog.records if "doubled" in record.getMessage()]
        caplog.clear()
        return texts

    with library.log_compiles():
        library.jit(doubled)(1.5)
        parts = ["Finished tracing doubled for jit in"]
        parts += ["Finished jaxpr to MLIR module conversion jit(doubled) in"]
        parts += ["Compiling jit(doubled) with global shapes and types ("]
        parts += ["Finished XLA compilation of jit(doubled) in"]
        texts = messages()
        for part in parts:
            assert [text.startswith(part) for text in texts].count(True) == 1, (part, texts)
        library.jit(doubled)(1.5)
        assert not messages()
    with library.explain_cache_misses():
        library.jit(doubled)(2.5)
        assert not messages()
        library.jit(doubled)(np.ones(2, np.float32))
        (text,) = messages()
        assert text.startswith("TRACING CACHE MISS at ") and "test_config.py" in text and "f32[2]" in text
    library.jit(doubled)(np.ones(3, np.float32))
    assert not messages()


PLACES = """
import importlib, json, sys
import numpy as np
lib = importlib.import_module(sys.argv[1])
first, second, third = lib.devices()
f, g = lib.jit(lambda a: a * 2), lib.jit(lambda a, b: a + b)
facts, host = [], np.ones(3, np.float32)

def where(x):
    facts.append((sorted(device.id for device in x.devices()), np.asarray(x).tolist()))

with lib.default_device(second):
    on_second = f(host)
    for x in (on_second, f(on_second), lib.numpy.ones(2), lib.device_put(host), f(lib.device_put(1.0, third))):
        where(x)
    with lib.default_device(third):
        on_third = f(on_second)
        where(on_third)
    with lib.default_device(None):
        where(f(3.0))
for x in (f(3.0), g(on_second, on_third), g(on_second, lib.device_put(host, third)), on_second + 1):
    facts.append(np.asarray(x).tolist())
facts.append(sorted(d.id for d in g(on_second, lib.device_put(host, third)).devices()))
facts.append(lib.grad(lambda x: f(x).sum())(on_second).tolist())
row = lib.device_put(np.ones((1, 1, 3), np.float32), second)
where(lib.lax.conv_general_dilated(row, np.ones((1, 1, 2), np.float32), (1,), "VALID"))
lib.config.update("jax_default_device", third)
where(f(3.0))
lib.config.update("jax_default_device", None)
where(f(3.0))
with lib.default_device("cpu"):
    where(f(3.0))

lib.block_until_ready(f(f(host)))
mine, there = lib.numpy.arange(3.0), lib.device_put(host, second)
moves = {
    "jit of NumPy": lambda: f(host), "jit of a number": lambda: f(3.0), "jit": lambda: f(mine),
    "there": lambda: f(there),
    "put": lambda: lib.device_put(host), "put there": lambda: lib.device_put(host, second),
    "put a number": lambda: lib.device_put(3.0), "move": lambda: lib.device_put(mine, second),
    "brought along": lambda: lib.jit(lambda a, b: a * b)(there, mine),
    "a number along": lambda: lib.jit(lambda a, b: a * b)(there, 2.0),
    "NumPy along": lambda: lib.jit(lambda a, b: a * b)(there, host), "stays": lambda: lib.device_put(mine),
    "to NumPy": lambda: np.asarray(f(mine)),
    "get": lambda: lib.device_get(f(mine)),
}
for guard in ("", "_host_to_device", "_device_to_device", "_device_to_host"):
    levels = ("disallow", "disallow_explicit")
    for level in levels if guard else ("log", "log_explicit", *levels):
        for name, move in moves.items():
            with getattr(lib, "transfer_guard" + guard)(level):
                try:
                    move()
                except RuntimeError as error:
                    facts.append((guard, level, name, type(error).__name__, "Disallowed" in str(error)))
lib.config.update("jax_transfer_guard", "disallow")
for guard in (lib.transfer_guard, lib.transfer_guard_host_to_device):
    with guard("allow"):
        f(host)
try:
    f(host)
except RuntimeError as error:
    facts.append(str(error)[:60])
lib.config.update("jax_transfer_guard", "allow")
f(host)
print(json.dumps(facts))
"""


def test_default_devices_and_transfer_guards_match_jax():
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "3", "JAX_PLATFORMS": "cpu"}
    ours, theirs = (
        subprocess.run([sys.executable, "-c", PLACES, name], capture_output=True, text=True, env=environment)
        for name in ("minijax", "jax")
    )
    assert ours.returncode == theirs.returncode == 0, ours.stderr + theirs.stderr
    assert ours.stdout == theirs.stdout and len(ours.stdout) > 1500
    # compare sets, because JAX logs at most one transfer from its fast path
    logged = [set(re.findall(r"(\S+) transfer: aval=ShapedArray", run.stderr)) for run in (ours, theirs)]
    assert logged == [{"host-to-device", "device-to-device"}] * 2


def test_transfers_from_another_platform_are_guarded(monkeypatch):
    from minijax.backend import pjrt

    x = minijax.jit(lambda x: x * 2)(np.ones(2, minijax.numpy.bfloat16))
    monkeypatch.setattr(pjrt, "platform", lambda: "gpu")
    with minijax.transfer_guard_device_to_host("disallow"):
        with pytest.raises(minijax.errors.JaxRuntimeError, match="Disallowed device-to-host transfer"):
            np.asarray(x)
        assert minijax.device_get(x).tolist() == [2, 2]


def test_a_default_device_must_be_a_device():
    for library in (minijax, jax):
        for nonsense in (3, "foo"):
            with pytest.raises(ValueError, match="must be passed either a Device"), library.default_device(nonsense):
                library.jit(lambda x: x)(2.0)


def two_draws(lib, key):
    return lib.random.normal(key) + lib.random.uniform(key)


def steps(lib, key):
    return lib.lax.scan(lambda key, _: (key, lib.random.normal(key)), key, None, length=3)


# name -> (whether the program reuses a key, the program).
KEY_USES = {
    "twice": (True, two_draws),
    "twice in jit": (True, lambda lib, key: lib.jit(functools.partial(two_draws, lib))(key)),
    "split twice": (True, lambda lib, key: [lib.random.split(key), lib.random.split(key)]),
    "each step": (True, steps),
    "branches": (True, lambda lib, key: [lib.lax.cond(True, lib.random.normal, lambda k: 0.0, key) for _ in range(2)]),
    "split": (False, lambda lib, key: [lib.random.normal(k) for k in lib.random.split(key)]),
    "fold_in": (False, lambda lib, key: [lib.random.normal(lib.random.fold_in(key, i)) for i in range(2)]),
    "either": (False, lambda lib, key: lib.lax.cond(True, lib.random.normal, lib.random.uniform, key)),
    "words": (False, lambda lib, key: two_draws(lib, lib.random.PRNGKey(3))),
}


@LIBRARIES
@pytest.mark.parametrize("name", KEY_USES)
def test_debug_key_reuse_refuses_a_second_use(library, name):
    is_reuse, use = KEY_USES[name]
    with library.debug_key_reuse():
        if is_reuse:
            with pytest.raises(library.errors.KeyReuseError, match="consumed|leads to key reuse"):
                use(library, library.random.key(1))
        else:
            use(library, library.random.key(1))
    use(library, library.random.key(1))


DEVICE_COUNTS = """
import sys, {library}
config = {library}.config
for value in (2.5, "8", None, 3):
    try:
        config.update("jax_num_cpu_devices", value)
        print(value, config.jax_num_cpu_devices)
    except ValueError as error:
        print(value, type(error).__name__)
print(len({library}.devices()))
config.update("jax_num_cpu_devices", 3)
try:
    config.update("jax_num_cpu_devices", 4)
except RuntimeError as error:
    print(str(error).partition(",")[0].partition(" i.e")[0], config.jax_num_cpu_devices)
"""


@pytest.mark.parametrize("first", ["", "import jax\n"], ids=["jaxlib alone", "jax imported"])
def test_the_number_of_devices_is_fixed_at_first_use(first):
    environment = {k: v for k, v in os.environ.items() if k not in ("JAX_NUM_CPU_DEVICES", "XLA_FLAGS")}

    def output(library):
        command = [sys.executable, "-c", first + DEVICE_COUNTS.format(library=library)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()

    assert output("minijax") == output("jax")
