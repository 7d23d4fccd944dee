"""The disk cache: compiled programs in the folder ``jax_compilation_cache_dir``, shared with other processes.

In: a module's text, XLA's options and the devices. Out: the executable that an earlier process made, or None. An
entry's name is the hash of all that the executable depends on. The file contains a hash of the executable and gets its
name when it is complete, so XLA never reads a damaged entry. The folder must be trusted: its code is run. Source:
https://docs.jax.dev/en/latest/persistent_compilation_cache.html
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import re
import sys
import threading
import warnings
import zlib
from collections.abc import Sequence
from typing import Any

from minijax.backend.client import Runtime
from minijax.config import config

# JAX's own entries end with "-cache". Other names keep it from deleting our files when it limits the folder's size.
_SUFFIX = ".minijax"
_MAGIC = b"minijax 1\n"
_HASH_BYTES = 32

# Flags of XLA that only ask for reports, or for a number of devices, do not change the executable.
_REPORTING = re.compile(r"--xla_dump_|--xla_force_host_platform_device_count=")


class DiskEntry:
    """The place of one program in the folder."""

    def __init__(self, rt: Runtime, path: str, name: str, options: Any, device_list: Any) -> None:
        self.path = path
        self._rt = rt
        self._name = name
        self._options = options
        self._device_list = device_list

    def read(self) -> Any:
        """The loaded executable. None if there is no entry; None and a warning if the entry cannot be used."""
        try:
            with open(self.path, "rb") as file:
                found = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn("reading", error)
            return None
        head = len(_MAGIC) + _HASH_BYTES
        content = found[head:]
        if found[:head] != _MAGIC + hashlib.sha256(content).digest():
            self._warn("reading", "the file is damaged, or is no entry")
            return None
        try:
            return self._rt.client.deserialize_executable(zlib.decompress(content), self._device_list, self._options)
        except (zlib.error, self._rt.error) as error:
            self._warn("reading", error)
            return None

    def write(self, loaded: Any, seconds: float) -> None:
        """Store an executable, unless its compile time ``seconds`` or its size is below the limit in the settings."""
        if seconds < (config.read("persistent_cache_min_compile_time_secs") or 0.0):
            return
        temporary = f"{self.path}.{os.getpid()}.{threading.get_ident()}"
        try:
            content = zlib.compress(loaded.serialize(), 1)
            if len(content) < (config.read("persistent_cache_min_entry_size_bytes") or 0):
                return
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(content).digest() + content)
            os.replace(temporary, self.path)
        except (OSError, self._rt.error) as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            self._warn("writing", error)

    def _warn(self, doing: str, error: object) -> None:
        warnings.warn(f"Error {doing} the disk cache's entry for {self._name}, {self.path}: {error}", stacklevel=2)


def entry(
    rt: Runtime, module_text: str | bytes, name: str, options: Any, devices: Sequence[Any], device_list: Any
) -> DiskEntry | None:
    """The entry of a program in the cache folder; None if no folder is set, or several processes run together."""
    folder = config.read("compilation_cache_dir")
    if not folder or not config.read("enable_compilation_cache") or rt.process_count > 1:
        return None
    text = module_text.encode() if isinstance(module_text, str) else module_text
    parts = [text, options.SerializeAsString(), _software(rt), _hardware(rt, tuple(devices)), *_flags()]
    # put the length before each part, so that two lists of parts never give the same bytes
    key = hashlib.sha256(b"".join([len(part).to_bytes(8, "little") + part for part in parts])).hexdigest()
    readable = re.sub(r"[^\w.-]", "_", name)[:64]
    return DiskEntry(rt, os.path.join(folder, f"{readable}-{key}{_SUFFIX}"), name, options, device_list)


@functools.cache
def _software(rt: Runtime) -> bytes:
    version = importlib.import_module("jaxlib.version").__version__
    return "\n".join([version, rt.client.platform, rt.client.platform_version]).encode()


@functools.cache
def _hardware(rt: Runtime, devices: tuple[Any, ...]) -> bytes:
    """The machine's identity: the topology of these devices, and on CPUs the processor's instruction sets."""
    kinds = [device.device_kind for device in devices]
    try:
        kinds.append(str(rt.xla_client.get_topology_for_devices(list(devices)).fingerprint()))
    except rt.error:  # a platform without a topology
        pass
    return "\n".join([*kinds, _instructions() if rt.client.platform == "cpu" else ""]).encode()


def _instructions() -> str:
    """The instruction sets of this processor, as Linux lists them; on other systems, the processor's name."""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith(("flags", "Features")):
                    return line
    except OSError:
        pass
    return importlib.import_module("platform").processor()


def _flags() -> list[bytes]:
    """XLA's flags for this process, as JAX finds them."""
    given = [*os.environ.get("XLA_FLAGS", "").split(), *os.environ.get("LIBTPU_INIT_ARGS", "").split()]
    given += [each for each in sys.argv if each.startswith("--xla")]
    return [each.encode() for each in sorted(given) if not _REPORTING.match(each)]
