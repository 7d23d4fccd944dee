"""XLA's dump of one compilation, read from a temporary folder that is removed afterwards.

A file is called ``module_0002.jit_f.0006.simplification.after_algsimp.before_simplify-sorts.txt``. These are the number
of the program, its name, the number of the file, the pipeline, the pass that ended, and the next pass. XLA writes one
file at the start of each pipeline, and one for each pass that reports a change.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
from typing import Any

from minijax.core import observe
from minijax.core.records import Frozen

_PROGRAM = r"module_(\d+)\..*?\.before_optimizations\.txt"
_STEP = r"(\d{4,})\.(.+?)\.after_(.+?)(?:\.before_(.+))?\.txt"
_AFTER = "cpu_after_optimizations"
_KERNEL = r"(.+?)\.ir-with-opt\.ll"
# A kernel has the name of its instruction, with one of these prefixes or suffixes of XLA.
_KERNEL_NAME = r"(?:__compute_module_)?(.+?)(?:_elemental|_computation)?(?:_kernel_module)?"


class PassText(Frozen):
    """The program after the pass ``name`` of ``pipeline``. At the start of a pipeline, ``name`` is 'pipeline-start'."""

    pipeline: str
    name: str
    text: str


class Kernel(Frozen):
    """A kernel. ``name`` is the name of its instruction, ``llvm`` its LLVM IR, ``code`` its object file."""

    name: str
    llvm: str
    code: bytes


class Dump(Frozen):
    """One compilation. ``before`` is XLA's input, ``steps`` are the texts after passes, ``after`` is the last text.
    ``assignment`` and ``live`` are XLA's texts about buffer assignment and live ranges, or '' if XLA wrote none.
    """

    before: str
    steps: tuple[PassText, ...]
    after: str
    assignment: str
    live: str
    kernels: tuple[Kernel, ...]


def dump(program: Any, closed: Any) -> tuple[Dump, Any]:
    """Compile ``program`` (``ops.call.Compiled``) with the jaxpr ``closed`` again. Returns the dump and the executable.

    CompileError if XLA refuses the program. The program does not run, and the temporary folder is removed.
    """
    folder = _DumpFolder()
    with folder, observe.unobserved():
        flags = (("xla_dump_to", folder.path), ("xla_dump_hlo_pass_re", ".*"))
        executable = program.made(closed, flags=flags, within=folder)
        return read(folder.path), executable


class _DumpFolder:
    """A temporary folder. Its last user removes it, because XLA may still write to it after an interrupt."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="minijax-passes-")
        self._inside = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                shutil.rmtree(self.path, ignore_errors=True)


def read(folder: str) -> Dump:
    """Read a folder into which XLA dumped the compilation of one program.

    FileNotFoundError if it holds no program.
    """
    names = sorted(os.listdir(folder))
    programs = [(int(found[1]), name) for name in names if (found := re.fullmatch(_PROGRAM, name))]
    if not programs:
        raise FileNotFoundError("XLA dumped nothing for this program")
    # constant folding may compile other programs meanwhile, but the first program is the user's
    start = min(programs)[1].removesuffix("before_optimizations.txt")
    rest = {name[len(start) :]: os.path.join(folder, name) for name in names if name.startswith(start)}

    def text(name: str) -> str:
        path = rest.get(name)
        if path is None:
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    written = [found for name in rest if (found := re.fullmatch(_STEP, name))]
    written.sort(key=lambda found: int(found[1]))
    steps = [PassText(found[2], found[3], text(found[0])) for found in written]
    kernels = []
    for name in rest:
        found = re.fullmatch(_KERNEL, name)
        if found is not None:
            kernels.append(Kernel(_instruction(found[1]), text(name), _bytes(rest.get(f"obj-file.{found[1]}.o"))))
    after = next((name[: -len(".txt")] for name in rest if name.endswith("after_optimizations.txt")), _AFTER)
    return Dump(
        text("before_optimizations.txt"),
        tuple(steps),
        text(f"{after}.txt"),
        text(f"{after}-buffer-assignment.txt"),
        text(f"{after}-live-range.txt"),
        tuple(kernels),
    )


def _bytes(path: str | None) -> bytes:
    if path is None:
        return b""
    with open(path, "rb") as file:
        return file.read()


def _instruction(module: str) -> str:
    found = re.fullmatch(_KERNEL_NAME, module)
    return module if found is None else found[1]
