"""The disk cache of compiled programs: other processes find the programs in it, and it changes no results."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax.backend import client, disk_cache
from minijax.config import config
from minijax.tools.xla.pipeline import descent
from tests.threads import at_once

ONES = np.ones(8, np.float32)
NO_MINIMUM = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


class CountingClient:
    """jaxlib's client, with the numbers of programs that it compiled and read."""

    def __init__(self, made: Any) -> None:
        self.made = made
        self.compiled = self.read = 0

    def compile_and_load(self, *args: Any) -> Any:
        self.compiled += 1
        return self.made.compile_and_load(*args)

    def deserialize_executable(self, *args: Any) -> Any:
        self.read += 1
        return self.made.deserialize_executable(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.made, name)

    @property
    def counts(self) -> tuple[int, int]:
        """How many programs were compiled and read since this property was last read."""
        found, self.compiled, self.read = (self.compiled, self.read), 0, 0
        return found


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> CountingClient:
    rt = client.runtime()
    # make the options before replacing the client: jax makes options only for its own client
    options = rt.compile_options(np.array([[rt.default_device.id]]))
    monkeypatch.setattr(rt, "compile_options", lambda assignment: options)
    counted = CountingClient(rt.client)
    monkeypatch.setattr(rt, "client", counted)
    return counted


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of the disk cache, which stores every program."""
    names = ("compilation_cache_dir", "persistent_cache_min_compile_time_secs", "enable_compilation_cache")
    before = {name: config.read(name) for name in (*names, "persistent_cache_min_entry_size_bytes")}
    config.update("jax_compilation_cache_dir", str(tmp_path / "programs"))
    config.update("jax_persistent_cache_min_compile_time_secs", 0)
    yield tmp_path / "programs"
    for name, value in before.items():
        config.update(name, value)


def entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def chain(x: Any) -> Any:
    return jnp.sin(x) * 2 + 1


def run_chain() -> np.ndarray:
    """Run a function that no earlier call has traced, and return its value."""
    return np.asarray(minijax.jit(lambda x: chain(x))(ONES))


PROGRAMS = """
import hashlib, warnings
import numpy as np
import minijax, minijax.numpy as jnp
from minijax.backend import client
from minijax.sharding import Mesh, NamedSharding, PartitionSpec
from tests.backend.test_disk_cache import CountingClient

warnings.simplefilter("error")
rt = client.runtime()
rt.client = counted = CountingClient(rt.client)
x = np.linspace(0, 1, 16, dtype=np.float32).reshape(4, 4)
over = NamedSharding(Mesh(np.array(minijax.devices()), ("i",)), PartitionSpec("i"))
large = minijax.device_put(np.arange(4000, dtype=np.float32))
programs = {
    "elementwise": (lambda x: jnp.sin(x) * 2, x),
    "gradient": (minijax.grad(lambda x: jnp.tanh(x @ x).sum()), x),
    "LAPACK": (lambda x: jnp.linalg.inv(x + jnp.eye(4)), x),
    "loop": (lambda x: minijax.lax.scan(lambda c, y: (c + y @ c, c.sum()), x, x), x),
    "closed over": (lambda x: large * x[0, 0], x),
    "another device": (lambda x: x + 3, minijax.device_put(x, minijax.devices()[1])),
    "four devices": (lambda x: x @ x.T, minijax.device_put(x, over)),
    "keys": (lambda key: minijax.random.split(key), minijax.random.key(1)),
}
for name, (f, argument) in programs.items():
    compiled = minijax.jit(f).lower(argument).compile()
    out = minijax.jit(f)(argument)
    values = [
        np.asarray(minijax.random.key_data(leaf) if name == "keys" else leaf) for leaf in minijax.tree.leaves(out)
    ]
    said = compiled.as_text(), sorted(compiled.cost_analysis().items()), str(compiled.memory_analysis())
    print(name, [(v.dtype, v.tobytes()) for v in values], hashlib.sha256(repr(said).encode()).hexdigest(), sep=": ")
donated = minijax.device_put(x)
minijax.jit(lambda x: x * 5, donate_argnums=0)(donated)
print("donated:", donated.is_deleted())
print("counts", *counted.counts)
"""


def in_fresh_process(code: str, folder: Path | str, **environment: str) -> str:
    env = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    env |= {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "JAX_COMPILATION_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, env=env | NO_MINIMUM | environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_second_process_reads_the_programs_of_the_first(tmp_path: Path) -> None:
    first, second = (in_fresh_process(PROGRAMS, tmp_path, JAX_NUM_CPU_DEVICES="4") for _ in range(2))
    *values, counts = first.splitlines()
    *same_values, other_counts = second.splitlines()
    assert values == same_values and len(values) == 9
    compiled, read = map(int, counts.split()[1:])
    assert compiled >= 9 and read == 0
    assert list(map(int, other_counts.split()[1:])) == [0, compiled]


def test_jax_and_minijax_share_a_folder(tmp_path: Path) -> None:
    code = """
        import numpy as np
        import jax, minijax
        for library in (jax, minijax):
            print(library.jit(lambda x: x * 2)(np.ones(3, np.float32)))
        """
    outputs = [in_fresh_process(code, tmp_path) for _ in range(2)]
    assert outputs[0] == outputs[1] == "[2. 2. 2.]\n" * 2
    suffixes = {path.name.rpartition("-")[2][-8:] for path in tmp_path.iterdir()}
    assert {".minijax", "cache"} <= suffixes


def test_a_cached_program_is_read(folder: Path, counting: CountingClient) -> None:
    expected = np.sin(ONES) * 2 + 1
    np.testing.assert_allclose(run_chain(), expected, rtol=1e-6)
    assert counting.counts == (1, 0)
    (entry,) = entries(folder)
    written = entry.read_bytes()
    for _ in range(2):
        np.testing.assert_allclose(run_chain(), expected, rtol=1e-6)
    assert counting.counts == (0, 2)
    assert entries(folder) == [entry] and entry.read_bytes() == written


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda content: content[:-10],
    "one bit": lambda content: content[:200] + bytes([content[200] ^ 1]) + content[201:],
    "foreign": lambda content: b"another program's file" * 10,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_compiled_again_with_a_warning(damage: str, folder: Path, counting: CountingClient) -> None:
    value = run_chain()
    (entry,) = entries(folder)
    whole = entry.read_bytes()
    entry.write_bytes(DAMAGE[damage](whole))
    assert counting.counts == (1, 0)
    with pytest.warns(UserWarning, match="Error reading the disk cache's entry for <lambda>"):
        np.testing.assert_array_equal(run_chain(), value)
    assert counting.counts == (1, 0)
    np.testing.assert_array_equal(run_chain(), value)  # the entry was written again
    assert counting.counts == (0, 1)


def test_an_entry_that_xla_cannot_load_is_compiled_with_a_warning(folder: Path, counting: CountingClient) -> None:
    value = run_chain()
    (entry,) = entries(folder)
    # the checksum is right, but the content is no executable
    content = zlib.compress(b"no executable")
    entry.write_bytes(disk_cache._MAGIC + hashlib.sha256(content).digest() + content)
    with pytest.warns(UserWarning, match="Error reading the disk cache's entry"):
        np.testing.assert_array_equal(run_chain(), value)


def test_an_unwritable_folder_warns(folder: Path) -> None:
    folder.write_text("a file")
    with pytest.warns(UserWarning, match="disk cache's entry for <lambda>"):
        np.testing.assert_allclose(run_chain(), np.sin(ONES) * 2 + 1, rtol=1e-6)


LIMITS = {
    "disabled": ("jax_enable_compilation_cache", False),
    "takes too little time": ("jax_persistent_cache_min_compile_time_secs", 1000.0),
    "takes too few bytes": ("jax_persistent_cache_min_entry_size_bytes", 10_000_000),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_some_settings_prevent_writing(limit: str, folder: Path) -> None:
    config.update(*LIMITS[limit])
    run_chain()
    assert entries(folder) == []


def test_a_disabled_cache_is_not_read(folder: Path, counting: CountingClient) -> None:
    run_chain()
    assert entries(folder) != [] and counting.counts == (1, 0)
    config.update("jax_enable_compilation_cache", False)
    run_chain()
    assert counting.counts == (1, 0)
    config.update("jax_enable_compilation_cache", True)
    run_chain()
    assert counting.counts == (0, 1)


def test_entry_names_depend_on_flags_software_and_hardware(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def written() -> int:
        before = len(entries(folder))
        run_chain()
        return len(entries(folder)) - before

    assert (written(), written()) == (1, 0)
    with monkeypatch.context() as patched:
        patched.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true --xla_dump_to=/nowhere")
        assert (written(), written()) == (1, 0)
    with monkeypatch.context() as patched:
        patched.setenv("XLA_FLAGS", "--xla_dump_to=/nowhere")  # this flag does not change executables
        assert written() == 0
    for part in ("_software", "_hardware"):
        with monkeypatch.context() as patched:
            patched.setattr(disk_cache, part, lambda *args: b"another")
            assert (written(), written()) == (1, 0), part
    minijax.jit(lambda x: chain(x))(np.ones(9, np.float32))
    assert len(entries(folder)) == 5


def test_programs_with_callbacks_are_never_cached(folder: Path, counting: CountingClient) -> None:
    for factor in (2, 3):
        seen = []

        def on_host(x: Any, factor: int = factor) -> Any:
            return np.asarray(x) * factor

        def f(x: Any, on_host: Any = on_host, seen: list[float] = seen) -> Any:
            minijax.debug.callback(lambda value: seen.append(float(value)), x[0])
            return minijax.pure_callback(on_host, minijax.ShapeDtypeStruct(x.shape, x.dtype), x)

        np.testing.assert_array_equal(minijax.jit(f)(ONES), ONES * factor)
        minijax.effects_barrier()
        assert seen == [1.0]
    assert counting.counts == (2, 0) and entries(folder) == []


def test_showing_passes_of_xla_compiles_cached_programs_again(folder: Path, counting: CountingClient) -> None:
    run_chain()
    run_chain()
    assert counting.counts == (1, 1)
    found = descent(minijax.jit(lambda x: chain(x)).lower(ONES))
    compiled, read = counting.counts
    assert found.passes and compiled >= 1 and read == 1


def test_processes_that_start_together_share_the_folder(tmp_path: Path) -> None:
    code = """
        import sys, warnings
        import numpy as np
        import minijax, minijax.numpy as jnp
        warnings.simplefilter("error")
        print(*[float(minijax.jit(lambda x: jnp.sin(x) * i)(np.float32(1))) for i in range(5)])
        """
    outputs = at_once(*[lambda: in_fresh_process(code, tmp_path)] * 3)
    assert outputs[0] == outputs[1] == outputs[2] != ""
    assert {path.suffix for path in tmp_path.iterdir()} == {".minijax"}
