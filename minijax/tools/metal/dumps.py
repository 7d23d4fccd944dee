"""What XLA writes down while it compiles: read from a folder of its own, which is gone when this returns.

XLA names a file ``module_0002.jit_f.0006.simplification.after_algsimp.before_simplify-sorts.txt``: the program's number
among all, its name, the file's number, the pipeline, the pass that has ended, and the one to come. There is one for the
beginning of each pipeline and one for each pass that says it has changed the program.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
from typing import Any

from minijax.core import observe
from minijax.core.named import Frozen

_PROGRAM = r"module_(\d+)\..*?\.before_optimizations\.txt"
_STEP = r"(\d{4,})\.(.+?)\.after_(.+?)(?:\.before_(.+))?\.txt"
_AFTER = "cpu_after_optimizations"
_KERNEL = r"(.+?)\.ir-with-opt\.ll"
# What XLA adds to the name of the instruction that a kernel is for.
_KERNEL_NAME = r"(?:__compute_module_)?(.+?)(?:_elemental|_computation)?(?:_kernel_module)?"


class PassText(Frozen):
    """The program as it stood when ``name``, a pass of ``pipeline``, had ended, or as the pipeline began."""

    pipeline: str
    name: str
    text: str


class Kernel(Frozen):
    """A piece of machine code: for which instruction, as LLVM has it, and as an object file."""

    name: str
    llvm: str
    code: bytes


class Dump(Frozen):
    """One compilation. ``before`` is the program that XLA was given, ``steps`` what it made of it in order, ``after``
    the last. ``assignment`` and ``live`` are XLA's own accounts of its buffers, '' where it wrote none.
    """

    before: str
    steps: tuple[PassText, ...]
    after: str
    assignment: str
    live: str
    kernels: tuple[Kernel, ...]


def dump(program: Any, closed: Any) -> tuple[Dump, Any]:
    """``program`` (``ops.call.Compiled``), of the jaxpr ``closed``, compiled once more; with the executable.

    CompileError if XLA refuses it. Nothing is run, and nothing is left in the folder of temporary files.
    """
    folder = _DumpFolder()
    with folder, observe.unobserved():
        flags = (("xla_dump_to", folder.path), ("xla_dump_hlo_pass_re", ".*"))
        executable = program.made(closed, flags=flags, within=folder)
        return read(folder.path), executable


class _DumpFolder:
    """A temporary folder, removed when the last has left it: XLA writes on after an interrupt."""

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
    """What lies in a folder that XLA was told to write to while it compiled one program.

    FileNotFoundError if it has written no program there.
    """
    names = sorted(os.listdir(folder))
    programs = [(int(found[1]), name) for name in names if (found := re.fullmatch(_PROGRAM, name))]
    if not programs:
        raise FileNotFoundError("XLA has written down nothing of this program")
    # evaluating a constant may have XLA compile something else in between: the first is the one that was asked for
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
