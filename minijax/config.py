"""The settings of minijax: process-wide values, per-thread overrides, and the settings part of cache keys.

Names and meanings are JAX's (https://docs.jax.dev/en/latest/config_options.html). A setting is set by the environment
(``JAX_ENABLE_X64=1``, or ``MINIJAX_ENABLE_X64=1``, which takes precedence), by ``config.update('jax_enable_x64',
True)`` for all threads, or by a context manager for this thread, ``with enable_x64(True): ...``.

Readers such as :func:`x64_enabled` are on hot paths: each reads one immutable tuple, and per-thread values only while
some thread is inside a context manager.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple


class ConfigValues(NamedTuple):
    """The values of all settings at one moment; the readers below use the order of the fields."""

    enable_x64: bool = False
    debug_nans: bool = False
    disable_jit: bool = False
    default_matmul_precision: str | None = None
    numpy_rank_promotion: str = "allow"
    numpy_dtype_promotion: str = "standard"
    use_direct_linearize: bool = True
    debug_infs: bool = False
    default_prng_impl: str = "threefry2x32"
    threefry_partitionable: bool = True
    # the mesh of ``sharding.set_mesh``; not a user setting
    context_mesh: Any = None
    no_tracing: bool = False
    traceback_filtering: str = "auto"
    check_tracer_leaks: bool = False
    log_compiles: bool = False
    explain_cache_misses: bool = False
    transfer_guard: str | None = None
    transfer_guard_host_to_device: str | None = None
    transfer_guard_device_to_device: str | None = None
    transfer_guard_device_to_host: str | None = None
    default_device: Any = None
    debug_key_reuse: bool = False
    num_cpu_devices: int | None = -1
    compilation_cache_dir: str | None = None
    enable_compilation_cache: bool = True
    persistent_cache_min_compile_time_secs: float | None = 1.0
    persistent_cache_min_entry_size_bytes: int | None = 0


# A staged program may depend on the first 11 settings. The other settings change what is shown, forbidden or logged.
_TRACED = 11
_TRACE_FIELDS = ConfigValues._fields[:_TRACED]


class TraceKey:
    """The settings in the key of every staging cache; one object per combination."""

    __slots__ = ("values",)

    def __init__(self, values: tuple[Any, ...]):
        self.values = values

    def __repr__(self) -> str:
        return "TraceKey({})".format(", ".join(f"{n}={v!r}" for n, v in zip(_TRACE_FIELDS, self.values, strict=True)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _intern_key, (self.values,)

    def changes_from(self, old: TraceKey) -> list[str]:
        """The differences from ``old`` in words: ``['enable_x64 was False and is True']``."""
        return [
            f"{name} was {before!r} and is {now!r}"
            for name, before, now in zip(_TRACE_FIELDS, old.values, self.values, strict=True)
            if before != now
        ]


_keys: dict[tuple[Any, ...], TraceKey] = {}


def _intern_key(values: tuple[Any, ...]) -> TraceKey:
    return _keys.setdefault(values, TraceKey(values))


class _Watch:
    """Callbacks: ``start`` runs when the first thread turns a setting on, ``stop`` when the last one turns it off."""

    def __init__(self, start: Callable[[], Any], stop: Callable[[], Any]) -> None:
        self.start, self.stop = start, stop
        self.holders = 0

    def add(self, change: int) -> None:
        before, self.holders = self.holders, self.holders + change
        if not before and self.holders:
            self.start()
        elif before and not self.holders:
            self.stop()


_watches: dict[str, list[_Watch]] = {}


def while_on(name: str, start: Callable[[], Any], stop: Callable[[], Any]) -> None:
    """Call ``start`` when the first thread turns setting ``name`` on, and ``stop`` when the last turns it off."""
    watch = _Watch(start, stop)
    _watches.setdefault(name, []).append(watch)
    if getattr(_values, name):
        watch.add(1)


def _note(name: str, value: Any, change: int) -> None:
    if value and name in _watches:
        for watch in _watches[name]:
            watch.add(change)


class _Alive:
    """An object that dies with its thread."""


class _ThreadOverrides(threading.local):
    """This thread's overrides, and all settings as this thread sees them."""

    def __init__(self) -> None:
        self.alive = _Alive()
        # while this thread has a mesh set: a finalizer that runs when the thread dies, and records that no mesh is set
        self.mesh_set: weakref.finalize[..., Any] | None = None
        self.overrides: dict[str, Any] = {}
        self.base: ConfigValues | None = None
        self.values = _values
        self.key = _key


_lock = threading.Lock()
_values = ConfigValues()
_key = _intern_key(tuple(_values[:_TRACED]))
# The number of active overrides in all threads. While it is 0, no reader looks at thread state.
_override_count = 0
# ``trace_key()`` without the call, for hot paths: the key if it is equal in all threads, else None.
common_key: list[TraceKey | None] = [_key]
_thread = _ThreadOverrides()


def _refresh(state: _ThreadOverrides) -> None:
    """Recompute a thread's values from the process-wide values and its overrides."""
    base = _values
    state.values = base._replace(**state.overrides)
    state.key = _intern_key(tuple(state.values[:_TRACED]))
    state.base = base


def _thread_values() -> ConfigValues:
    state = _thread
    if state.base is not _values:
        _refresh(state)
    return state.values


def _current() -> ConfigValues:
    """The values for this thread. Hot readers inline it."""
    return _thread_values() if _override_count else _values


def x64_enabled() -> bool:
    """Whether 64-bit types are enabled in this thread. Takes 40 ns while no thread has an override."""
    return (_thread_values() if _override_count else _values).enable_x64


def jit_disabled() -> bool:
    """Whether ``jit`` calls its function directly in this thread."""
    return (_thread_values() if _override_count else _values).disable_jit


def matmul_precision() -> str | None:
    """The default precision of matrix products and convolutions in this thread. None means the platform's default."""
    return (_thread_values() if _override_count else _values).default_matmul_precision


def rank_promotion() -> str:
    """'allow', 'warn' or 'raise': what to do when NumPy broadcasting adds dimensions to an operand."""
    return (_thread_values() if _override_count else _values).numpy_rank_promotion


def promotes_strictly() -> bool:
    """Whether implicit promotion between dtypes is an error in this thread (Python scalars are still promoted)."""
    return (_thread_values() if _override_count else _values).numpy_dtype_promotion == "strict"


def direct_linearize_enabled() -> bool:
    """Whether reverse mode in this thread linearizes with one interpreter, instead of jvp over partial evaluation."""
    return (_thread_values() if _override_count else _values).use_direct_linearize


def results_checked() -> bool:
    """Whether the results of operations are checked for NaNs or for infinities in this thread."""
    values = _thread_values() if _override_count else _values
    return values.debug_nans or values.debug_infs


def evaluated_singly() -> bool:
    """Whether this thread evaluates operations one by one: results are checked, or a mesh is set."""
    values = _thread_values() if _override_count else _values
    return values.debug_nans or values.debug_infs or values.context_mesh is not None


def default_prng() -> str:
    """The name of this thread's default implementation of random keys."""
    return _current().default_prng_impl


def leaks_checked() -> bool:
    """Whether a transformation whose tracers outlive it is an error in this thread."""
    return (_thread_values() if _override_count else _values).check_tracer_leaks


def transfer_level(direction: str) -> str:
    """This thread's transfer guard for ``host_to_device``, ``device_to_device`` or ``device_to_host``."""
    values = _current()
    return getattr(values, f"transfer_guard_{direction}") or values.transfer_guard or "allow"


def preferred_device() -> Any:
    """This thread's default device for programs with uncommitted arguments: a device, a platform's name, or None."""
    return (_thread_values() if _override_count else _values).default_device


def tracing_forbidden() -> bool:
    """Whether staging a function raises an error in this thread."""
    return _current().no_tracing


def context_mesh() -> Any:
    """The mesh that programs are staged for on this thread, None if none is set."""
    return (_thread_values() if _override_count else _values).context_mesh


def trace_key() -> TraceKey:
    """A hashable object; it is equal for two threads if all settings that a program may depend on are equal."""
    if not _override_count:
        return _key
    _thread_values()
    return _thread.key


_TRUE_WORDS = ("y", "yes", "t", "true", "on", "1")
_FALSE_WORDS = ("n", "no", "f", "false", "off", "0")
# The names are JAX's. The random functions of minijax implement threefry2x32 and rbg.
_PRNGS = ("threefry2x32", "threefry4x32", "rbg", "unsafe_rbg", "philox2x32", "philox4x32")
_PLATFORMS = ("cpu", "gpu", "cuda", "rocm", "tpu")
_GUARDS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")
# Names of precisions, and of algorithms for products: see lax.DotAlgorithmPreset.
_PRECISIONS = (
    *("default", "high", "highest", "bfloat16", "tensorfloat32", "float32"),
    *("ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY", "ANY_F8_ANY_F8_ANY_FAST_ACCUM"),
    *("F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6"),
    *("BF16_BF16_F32_X9", "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64"),
)

# A check returns a setting's value for the user's value, or raises ValueError.
_Check = Callable[[str, Any], Any]


def _check_bool(name: str, value: Any) -> bool:
    if isinstance(value, bool) or (type(value).__name__ in ("bool", "bool_") and hasattr(value, "item")):
        return bool(value)
    if type(value) is int and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.lower() in _TRUE_WORDS + _FALSE_WORDS:
        return value.lower() in _TRUE_WORDS
    raise ValueError(f"new value of {name} must be True or False, got {value!r} of type {type(value)}.")


def _check_partitionable(name: str, value: Any) -> bool:
    if not _check_bool(name, value):
        raise ValueError(
            f"{name} cannot be False: minijax draws random numbers as JAX does by default. To draw them as JAX did "
            "before, call jax.random under jax.threefry_partitionable(False)."
        )
    return True


def _check_device(name: str, value: Any) -> Any:
    if value is None or value in _PLATFORMS or (hasattr(value, "platform") and hasattr(value, "id")):
        return value
    raise ValueError(
        f"{name} must be passed either a Device object (e.g. `devices('cpu')[0]`) or a platform name string like 'cpu' "
        f"or 'gpu', got: {value!r}"
    )


# Whether devices exist. From then on their number is fixed.
_devices_made = False


def note_devices() -> None:
    """Record that devices exist: ``num_cpu_devices`` can no longer be changed."""
    global _devices_made
    _devices_made = True


def _check_count(name: str, value: Any) -> int | None:
    if value is not None and not isinstance(value, int):
        raise ValueError(f"{name} must be None or an int, got {value!r} of type {type(value).__name__}.")
    if _devices_made and value != _values.num_cpu_devices:
        raise RuntimeError(
            f"jax_{name} config should be updated before backends are initialized, that is before any operation is "
            f"executed. Update it right after the import, or start the program with JAX_{name.upper()}={value}."
        )
    return value


def _checks_type(what: str, *types: type) -> _Check:
    """A check that accepts None and values of these types; ``what`` describes them in the error."""

    def check(name: str, value: Any) -> Any:
        if value is None or isinstance(value, types):
            return value
        raise ValueError(f"new value of {name} must be None or {what}, got {value!r} of type {type(value)}.")

    return check


def _reads_number(number: type, what: str) -> Callable[[str], Any]:
    """Return a function that converts a text to a number; ``what`` describes the number in the error."""

    def read(text: str) -> Any:
        try:
            return number(text)
        except ValueError:
            raise ValueError(f"{what}, got {text!r}") from None

    return read


_integer = _reads_number(int, "a number is needed, such as 8")
_seconds = _reads_number(float, "a number of seconds is needed, such as 0.5")


class _Override(contextlib.ContextDecorator):
    """A context manager or decorator that sets a :class:`Setting` in the thread that enters it. Reentrant."""

    __slots__ = ("name", "new_value", "saved")
    _ABSENT = object()

    def __init__(self, name: str, new_value: Any):
        self.name = name
        self.new_value = new_value
        self.saved: list[Any] = []

    def _recreate_cm(self) -> _Override:
        # ContextDecorator asks for one manager per call, so threads do not share ``saved``.
        return _Override(self.name, self.new_value)

    def __enter__(self) -> None:
        global _override_count
        overrides = _thread.overrides
        self.saved.append(overrides.get(self.name, self._ABSENT))
        overrides[self.name] = self.new_value
        _refresh(_thread)
        with _lock:
            _override_count += 1
            common_key[0] = None
            _note(self.name, self.new_value, 1)

    def __exit__(self, *_exc_info: object) -> None:
        global _override_count
        with _lock:
            _override_count -= 1
            common_key[0] = None if _override_count else _key
            _note(self.name, self.new_value, -1)
        before = self.saved.pop()
        if before is self._ABSENT:
            del _thread.overrides[self.name]
        else:
            _thread.overrides[self.name] = before
        _refresh(_thread)


def set_context_mesh(mesh: Any) -> None:
    """Set the mesh that this thread stages programs for; None for no mesh."""
    state = _thread
    if mesh is None:
        state.overrides.pop("context_mesh", None)
        if state.mesh_set is not None:
            state.mesh_set()
            state.mesh_set = None
    else:
        if state.mesh_set is None:
            _count_mesh(1)
            # If the thread ends while its mesh is set, operations must no longer be checked for it.
            state.mesh_set = weakref.finalize(state.alive, _count_mesh, -1)
            state.mesh_set.atexit = False
        state.overrides["context_mesh"] = mesh
    _refresh(state)


def _count_mesh(change: int) -> None:
    """Count a thread that sets a mesh (1), or no longer has one (-1)."""
    global _override_count
    with _lock:
        _override_count += change
        common_key[0] = None if _override_count else _key
        _note("context_mesh", True, change)


_SETTINGS: dict[str, Setting] = {}


class Setting:
    """One setting. A call gives a context manager that sets it in this thread. ValueError for invalid values.

    ``words`` are the valid words, ``read`` converts a text, such as one from the environment, to a value.
    """

    def __init__(
        self,
        name: str,
        doc: str,
        check: _Check = _check_bool,
        words: tuple[str, ...] = ("on", "off"),
        read: Callable[[str], Any] = str.lower,
    ):
        self.name = name
        self.words = words
        self.check = check
        self.read = read
        self.__doc__ = doc
        _SETTINGS[name] = self

    def __repr__(self) -> str:
        return f"<setting {self.name}={self.value!r}>"

    @property
    def value(self) -> Any:
        """The value in force in the current thread."""
        return getattr(_current(), self.name)

    def __call__(self, new_val: Any = True) -> _Override:
        return _Override(self.name, self.check(self.name, new_val))


def _choice(name: str, words: tuple[str, ...], doc: str, optional: bool = False) -> Setting:
    """A setting with the values ``words``, and None if it is ``optional``."""

    def check(name: str, value: Any) -> Any:
        if value in words or (optional and value is None):
            return value
        raise ValueError(
            f"new enum value of {name} must be {'None or ' if optional else ''}in {list(words)}, "
            f"got {value!r} of type {type(value)}."
        )

    def read(text: str) -> str:
        return text if text in words else text.lower()

    return Setting(name, doc, check, ("none", *words) if optional else words, read)


def _guard(name: str, moves: str) -> Setting:
    return _choice(name, _GUARDS, f"What to do when an array moves {moves}.", optional=True)


enable_x64 = Setting("enable_x64", "Keep 64-bit types; if off, float64, int64 and other 64-bit types become 32-bit.")
debug_nans = Setting("debug_nans", "Raise FloatingPointError when an operation's result contains a NaN.")
_disable_jit = Setting("disable_jit", "jit calls its function without staging it.")
default_matmul_precision = _choice(
    "default_matmul_precision", _PRECISIONS, "The default precision of matrix products.", optional=True
)
numpy_rank_promotion = _choice(
    "numpy_rank_promotion",
    ("allow", "warn", "raise"),
    "What to do when broadcasting adds dimensions: allow, warn, raise.",
)
numpy_dtype_promotion = _choice(
    "numpy_dtype_promotion",
    ("standard", "strict"),
    "Implicit promotion of dtypes: standard, or strict (only Python scalars are promoted).",
)
use_direct_linearize = Setting(
    "use_direct_linearize", "Reverse mode uses one interpreter, linearize; if off, jvp over partial evaluation."
)
traceback_filtering = _choice(
    "traceback_filtering",
    ("off", "tracebackhide", "remove_frames", "quiet_remove_frames", "auto"),
    "Which frames of minijax itself a traceback shows.",
)
no_tracing = Setting("no_tracing", "Raise RuntimeError when a function would be traced: only cached programs run.")
debug_infs = Setting("debug_infs", "Raise FloatingPointError when an operation's result contains an infinity.")
default_prng_impl = _choice("default_prng_impl", _PRNGS, "The default implementation of random keys.")
threefry_partitionable = Setting(
    "threefry_partitionable",
    "A random number of Threefry depends only on its position in the array. This cannot be turned off.",
    _check_partitionable,
)
checking_leaks = Setting("check_tracer_leaks", "Raise an error when a tracer outlives its transformation.")
log_compiles = Setting("log_compiles", "Log each tracing, lowering and compilation of a function, with its time.")
explain_cache_misses = Setting("explain_cache_misses", "Log why a function is retraced.")
_transfer_guard = _guard("transfer_guard", "between the host and a device, or between devices")
transfer_guard_host_to_device = _guard("transfer_guard_host_to_device", "from the host to a device")
transfer_guard_device_to_device = _guard("transfer_guard_device_to_device", "between devices")
transfer_guard_device_to_host = _guard("transfer_guard_device_to_host", "from a device to the host")
default_device = Setting(
    "default_device",
    "The device for programs with uncommitted arguments: a device, or a platform's name for its first device.",
    _check_device,
    ("none", *_PLATFORMS),
)
debug_key_reuse = Setting("debug_key_reuse", "Raise KeyReuseError when a random key is used twice.")
Setting(
    "num_cpu_devices",
    "The number of CPU devices, set before the first use of a device; -1 or None: as in XLA's flags.",
    _check_count,
    ("a number of devices",),
    _integer,
)
Setting(
    "compilation_cache_dir",
    "The folder where compiled programs are kept for other processes; None: nowhere.",
    _checks_type("the path of a folder", str),
    ("none", "the path of a folder"),
    str,
)
Setting("enable_compilation_cache", "Read compiled programs from compilation_cache_dir, and write them there.")
Setting(
    "persistent_cache_min_compile_time_secs",
    "Programs that take fewer seconds to compile are not written to compilation_cache_dir.",
    _checks_type("a number of seconds", int, float),
    ("a number of seconds",),
    _seconds,
)
Setting(
    "persistent_cache_min_entry_size_bytes",
    "Programs of fewer bytes are not written to compilation_cache_dir.",
    _checks_type("a number of bytes", int),
    ("a number of bytes",),
    _integer,
)

check_tracer_leaks = checking_leaks


class _Together(contextlib.ContextDecorator):
    def __init__(self, parts: list[_Override]) -> None:
        self.parts = parts

    def _recreate_cm(self) -> _Together:
        return _Together([part._recreate_cm() for part in self.parts])

    def __enter__(self) -> None:
        for part in self.parts:
            part.__enter__()

    def __exit__(self, *_exc_info: object) -> None:
        for part in reversed(self.parts):
            part.__exit__()


def transfer_guard(new_val: str) -> _Together:
    """Context manager: sets what this thread does when an array moves between host and devices, in any direction.

    'allow', 'log' and 'disallow' are for implicit transfers. 'log_explicit' and 'disallow_explicit' are for
    ``device_put`` and ``device_get`` too. Source: https://docs.jax.dev/en/latest/transfer_guard.html
    """
    directions = (transfer_guard_host_to_device, transfer_guard_device_to_device, transfer_guard_device_to_host)
    return _Together([guard(new_val) for guard in (_transfer_guard, *directions)])


def disable_jit(disable: bool = True) -> _Override:
    """Context manager: in this thread, ``jit`` runs its function operation by operation.

    Source: https://docs.jax.dev/en/latest/_autosummary/jax.disable_jit.html
    """
    return _disable_jit(disable)


def _find(name: str) -> Setting:
    setting = _SETTINGS.get(name.removeprefix("jax_"))
    if setting is None:
        known = ", ".join("jax_" + row for row in _SETTINGS)
        raise AttributeError(f"Unrecognized config option: {name}. minijax has: {known}.")
    return setting


class Config:
    """The process-wide settings: ``config.update('jax_enable_x64', True)``, ``config.jax_enable_x64`` (read only)."""

    __slots__ = ()

    def update(self, name: str, value: Any) -> None:
        """Set ``name`` (with or without ``jax_``) for all threads without an override. AttributeError for an unknown
        name, ValueError for an invalid value.
        """
        global _values, _key
        setting = _find(name)
        value = setting.check(setting.name, value)
        with _lock:
            before = getattr(_values, setting.name)
            _values = _values._replace(**{setting.name: value})
            _note(setting.name, value, 1)
            _note(setting.name, before, -1)
            _key = _intern_key(tuple(_values[:_TRACED]))
            common_key[0] = None if _override_count else _key

    def read(self, name: str) -> Any:
        """The value of ``name`` in the current thread."""
        return _find(name).value

    def meant(self, name: str, word: str) -> Any:
        """The value of the setting ``name`` for the text ``word``. ValueError for an invalid text."""
        return _find(name).read(word)

    def takes(self, name: str) -> tuple[str, ...]:
        """The valid words for setting ``name``."""
        return _find(name).words

    @property
    def values(self) -> dict[str, Any]:
        """The values of all settings in the current thread, by JAX's names."""
        return {"jax_" + name: value for name, value in _current()._asdict().items() if name in _SETTINGS}

    def __getattr__(self, name: str) -> Any:
        # each public name is a key of _SETTINGS
        return _find(name).value

    def __setattr__(self, name: str, value: Any) -> None:
        known = _find(name).name
        raise AttributeError(f"config.{name} cannot be assigned. Write config.update('jax_{known}', {value!r}).")

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *_SETTINGS, *("jax_" + name for name in _SETTINGS)]


config = Config()


def _read_environment() -> None:
    """Read the initial values from the environment. ValueError for an invalid value, as in JAX."""
    for name, setting in _SETTINGS.items():
        for prefix in ("JAX_", "MINIJAX_"):
            variable = prefix + name.upper()
            text = os.environ.get(variable)
            if text is None:
                continue
            is_flag = isinstance(setting.value, bool)
            if is_flag and text.lower() not in _TRUE_WORDS + _FALSE_WORDS:
                raise ValueError(f"invalid truth value {text!r} for environment {variable!r}")
            try:
                config.update(name, setting.read(text))
            except ValueError as error:
                raise ValueError(f"invalid value {text!r} for environment {variable!r}: {error}") from None


_read_environment()
