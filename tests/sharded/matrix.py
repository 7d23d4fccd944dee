"""Compare every program in every mode on every mesh with JAX: ``python -m tests.sharded.matrix``.

Options: ``[--devices N] [--mode auto|explicit|shard_map|mapped] [-k WORDS] [--slice] [--json]``. A cell is a program in
a mode on a mesh: (1,), (2,), (4,), (8,), (2, 2), (4, 2) or (2, 4) of the eight devices. Each cell compares values and
their shardings, eager and compiled; the gradient of a sum of all results; the collectives in the compiled
program and in its compiled gradient; the class of errors; and, except in mode ``auto``, the jaxpr's text.

In mode ``auto`` arguments are sharded over a mesh whose axes the compiler may use freely. In ``explicit`` they are
sharded over the current mesh, and their types name its axes. In ``shard_map`` the program runs on each device's shard;
its result is stacked over all devices, and the sums of its leaves are added over all devices. In ``mapped`` the
programs of the module ``programs`` run, with their own specs, on the mesh (4, 2). This mode also compares forward
derivatives, ``vmap``, and ``from_jax`` of JAX's function.
"""

from __future__ import annotations

import argparse
import builtins
import collections
import contextlib
import functools
import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.on_devices import COMPILED_QUICKLY

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")
if __name__ == "__main__":  # only for the command: a program that imports this module keeps its own options
    os.environ.setdefault("XLA_FLAGS", COMPILED_QUICKLY)

import numpy as np

from minijax import interop
from tests.sharded import outcomes, programs
from tests.sharded.matrix_programs import PROGRAMS, Program

MESHES = ((1,), (2,), (4,), (8,), (2, 2), (4, 2), (2, 4))
MODES = ("auto", "explicit", "shard_map")
MAPPED = "mapped"
# The ways that a slice compares for mapped programs: the program with index i uses the tuple i % 3.
TURNS = (("eager", "gradient", "text"), ("jit", "jvp", "vmap", "text"), ("eager", "from_jax", "text"))
COLLECTIVE = re.compile(
    r"= (\(?[a-z]\w*\[.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
)
# (program, mode, way) -> why this difference is accepted.
KNOWN = {
    ("sorted", "shard_map", "text"): "JAX assumes that values sorted along with the keys do not vary like the keys",
    ("solve", "shard_map", "text"): "likewise",
    ("determinant", "shard_map", "text"): "minijax takes the diagonal by a reshape, JAX by a mask",
    ("determinant", "explicit", "text"): "likewise",
    ("sorted", "explicit", "gradient"): "JAX raises an error: its rule leaves the values sorted along unsharded",
    ("one hot", "shard_map", "text"): "iota names no sharding",
    ("sliced along", "explicit", "eager"): "JAX raises an error, though not under jit; minijax slices the array",
    ("sliced along", "auto", "eager"): "JAX gives every device the whole result; minijax keeps it sharded",
    ("a row multiplied", "auto", "eager"): "one library prints the spec P('x') as P('x', None)",
    ("a column set", "auto", "eager"): "JAX fails on a mesh of two axes",
}
Cell = tuple[str, str, tuple[int, ...]]


class Names:
    """The ``ns`` of programs: a library's names, and functions that communicate as the mode requires."""

    def __init__(self, library: str, mode: str, sizes: tuple[int, ...]) -> None:
        self.top, self.mode = importlib.import_module(library), mode
        self.jnp, self.lax, self.nn = self.lib("numpy"), self.lib("lax"), self.lib("nn")
        self.random, self.sharding, self.tree = self.lib("random"), self.lib("sharding"), self.lib("tree")
        self.axes = ("x", "y")[: len(sizes)]
        kind = self.sharding.AxisType.Explicit if mode == "explicit" else self.sharding.AxisType.Auto
        devices = np.array(self.top.devices()[: int(np.prod(sizes))]).reshape(sizes)
        self.mesh = self.sharding.Mesh(devices, self.axes, axis_types=(kind,) * len(sizes))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.top, name)

    def lib(self, name: str) -> Any:
        """The library's module with this name."""
        return importlib.import_module(f"{self.top.__name__}.{name}")

    def here(self, axes: str) -> tuple[str, ...]:
        """The axes in ``axes`` that the mesh has."""
        return tuple(axis for axis in axes if axis in self.axes)

    def spec(self, *parts: str) -> Any:
        """The ``PartitionSpec`` for parts such as ``"x"``, ``"xy"`` or ``"-"`` (unsharded)."""
        named = [self.here(part) for part in parts]
        return self.sharding.PartitionSpec(*(n if len(n) > 1 else n[0] if n else None for n in named))

    def psum(self, x: Any, axes: str) -> Any:
        return self.lax.psum(x, self.here(axes)) if self.mode == "shard_map" and self.here(axes) else x

    def psum_scatter(self, x: Any, axis: str) -> Any:
        return self.lax.psum_scatter(x, axis, tiled=True) if self.mode == "shard_map" else x

    def out(self, *parts: str) -> dict[str, Any]:
        """The option ``out_sharding`` in explicit mode; no option in other modes."""
        return {"out_sharding": self.spec(*parts)} if self.mode == "explicit" else {}

    def vary(self, x: Any, axes: str) -> Any:
        return self.lax.pcast(x, self.here(axes), to="varying") if self.mode == "shard_map" else x

    def placed(self, x: Any, *parts: str) -> Any:
        """``x``, resharded to the spec of ``parts`` by the operation that the mode has for this."""
        if self.mode == "shard_map":
            return x
        if self.mode == "explicit":
            return self.sharding.reshard(x, self.spec(*parts))
        return self.lax.with_sharding_constraint(x, self.sharding.NamedSharding(self.mesh, self.spec(*parts)))


def argument(ns: Names, text: str, draw: np.random.Generator) -> tuple[Any, Any]:
    """A random value for the argument described by ``text``, and its spec."""
    kind, text = text.split(":") if ":" in text else ("f", text)
    words = [word.partition("@") for word in text.split()]
    shape = tuple(int(size) for size, _, _ in words)
    spec = ns.spec(*(axes or "-" for _, _, axes in words))
    if kind == "k":
        keys = ns.random.split(ns.random.key(7), shape) if shape else ns.random.key(7)
        return keys, spec
    value: Any = draw.uniform(0.1, 1.0, shape)
    if kind == "p":
        value = value @ np.swapaxes(value, -1, -2) + 2 * np.eye(shape[-1])
    if kind == "i":
        value = draw.integers(0, 3 if not shape else 16, shape)
    if kind == "b":
        value = draw.integers(0, 2, shape)
    if kind == "c":
        value = value + 1j * draw.uniform(0.1, 1.0, shape)
    dtype = {"i": "int32", "b": "bool", "c": "complex64"}.get(kind, "float32")
    value = np.asarray(value, dtype)
    return value.astype(ns.jnp.bfloat16) if kind == "h" else value, spec


def total(ns: Names, out: Any) -> Any:
    """The sum of all inexact leaves, each element weighted differently."""
    found: Any = 0.0
    for leaf in ns.tree.leaves(out):
        leaf = leaf if hasattr(leaf, "dtype") else ns.jnp.asarray(leaf)
        if ns.jnp.issubdtype(leaf.dtype, np.inexact):
            leaf = leaf.real + leaf.imag if ns.jnp.issubdtype(leaf.dtype, np.complexfloating) else leaf
            found += (leaf * ns.jnp.cos(ns.jnp.arange(leaf.size, dtype="float32")).reshape(leaf.shape)).sum()
    return found


def function(ns: Names, program: Program, specs: tuple[Any, ...]) -> Callable[..., Any]:
    """The program's function; in mode ``shard_map``, mapped over the mesh."""

    def run(*args: Any) -> Any:
        return program.of(ns, *args)

    if ns.mode != "shard_map":
        return run

    def body(*parts: Any) -> Any:
        out = run(*parts)
        real = [each for each in ns.tree.leaves(out) if getattr(each, "dtype", None) == np.float32]
        sums = [functools.reduce(ns.lax.psum, ns.axes, each.sum()) for each in real]
        return ns.tree.map(lambda each: ns.jnp.expand_dims(each, 0), out), sums

    parts = ns.sharding.PartitionSpec(ns.axes if len(ns.axes) > 1 else ns.axes[0])
    return ns.shard_map(body, mesh=ns.mesh, in_specs=specs, out_specs=(parts, ns.sharding.PartitionSpec()))


def mapped(ns: Names, program: programs.Mapped) -> Callable[..., Any]:
    """A program of ``programs`` as a mapped function, with the program's own specs."""

    def spec(text: str) -> Any:
        parts = text.split(",") if text else []
        named = [None if part == "-" else part if len(part) == 1 else tuple(part) for part in parts]
        return None if text == "None" else ns.P(*named)

    outs = tuple(spec(text) for text in program.out_specs)
    return ns.shard_map(  # type: ignore[no-any-return]
        program.make(ns),
        mesh=ns.mesh,
        in_specs=tuple(spec(text) for text in program.in_specs),
        out_specs=outs if len(outs) > 1 else outs[0],
        check_vma=program.check_vma,
        **({"axis_names": set(program.axis_names)} if program.axis_names else {}),
    )


class Run:
    """A cell in one library: the program's function and its arguments."""

    def __init__(self, library: str, cell: Cell) -> None:
        name, mode, sizes = cell
        self.ns, draw = Names(library, mode, sizes), np.random.default_rng(0)
        self.donated: tuple[int, ...] = ()
        if mode == MAPPED:
            program = programs.PROGRAMS[name]
            self.drawn = [draw.uniform(0.1, 1.0, shape).astype(np.float32) for shape in program.shapes]
            self.function, self.wrt = mapped(self.ns, program), program.wrt
            return
        self.program = PROGRAMS[name]
        drawn = [argument(self.ns, text, draw) for text in self.program.arguments]
        self.donated = self.program.donated
        self.drawn, self.specs = [value for value, _ in drawn], tuple(spec for _, spec in drawn)
        self.function = function(self.ns, self.program, self.specs)
        self.wrt = tuple(i for i, (x, _) in enumerate(drawn) if self.ns.jnp.issubdtype(x.dtype, np.floating))

    def arguments(self) -> list[Any]:
        if self.ns.mode == MAPPED:
            return self.drawn
        places = [self.ns.sharding.NamedSharding(self.ns.mesh, spec) for spec in self.specs]
        return [self.ns.device_put(x, place) for x, place in zip(self.drawn, places, strict=True)]

    def context(self) -> Any:
        return self.ns.set_mesh(self.ns.mesh) if self.ns.mode == "explicit" else contextlib.nullcontext()

    def compiled(self, f: Any, **options: Any) -> Any:
        """The described result of ``f`` under jit, and the collectives in its compiled program."""
        jitted = self.ns.jit(f, **options)
        moved = COLLECTIVE.findall(jitted.lower(*self.arguments()).compile().as_text())
        kinds = sorted((kind, re.sub(r"\{.*?\}", "", type_)) for type_, kind in moved)
        return described(self.ns, jitted(*self.arguments())), kinds

    def ways(self) -> dict[str, Callable[[], Any]]:
        """Way (eager, jit, gradient, ...) -> function that returns (described results, collectives or None)."""
        ns, f = self.ns, self.function
        asked = {
            "eager": lambda: (described(ns, f(*self.arguments())), None),
            "jit": lambda: self.compiled(f, donate_argnums=self.donated),
        }
        if self.wrt:
            asked["gradient"] = lambda: self.compiled(ns.grad(lambda *xs: total(ns, f(*xs)), argnums=self.wrt))
        if ns.mode == MAPPED:
            stacked = [np.stack([x, x * np.float32(0.5)]) for x in self.drawn]
            asked["jvp"] = lambda: self.compiled(lambda *xs: ns.jvp(f, xs, xs))
            asked["vmap"] = lambda: (described(ns, ns.jit(ns.vmap(f))(*stacked)), None)
        if ns.mode != "auto":
            asked["text"] = lambda: outcomes.text_of(ns, f, self.arguments())
        return asked


def described(ns: Names, out: Any) -> list[Any]:
    """For each leaf: value, type, sharding as text, and sharding by device."""
    found = []
    for leaf in ns.tree.leaves(out):
        if not hasattr(leaf, "sharding"):
            found.append((np.asarray(leaf), type(leaf).__name__, "", None))
            continue
        place, aval = leaf.sharding, ns.typeof(leaf)
        type_ = aval.str_short(True) + ", weak" * aval.weak_type
        where = {d.id: str(i) for d, i in place.devices_indices_map(leaf.shape).items()}
        bare = ns.random.key_data(leaf) if ns.jnp.issubdtype(leaf.dtype, ns.lib("dtypes").prng_key) else leaf
        found.append((np.asarray(bare), type_, re.sub(r"\s+", " ", str(place)), where))
    return found


def differing(ours: list[Any], theirs: list[Any]) -> str:
    """The first difference between two descriptions; '' if there is none."""
    if len(ours) != len(theirs):
        return f"{len(ours)} results, JAX {len(theirs)}"
    for (a, type_a, place_a, where_a), (b, type_b, place_b, where_b) in zip(ours, theirs, strict=True):
        if type_a != type_b:
            return f"type {type_a}, JAX {type_b}"
        wide = np.complex128 if np.iscomplexobj(b) else np.float64
        coarse = 2e-2 if b.dtype.itemsize == 2 else 1e-4
        if not np.allclose(a.astype(wide), b.astype(wide), rtol=coarse, atol=coarse, equal_nan=True):
            return f"values differ by {np.max(np.abs(a.astype(wide) - b.astype(wide)))}"
        if where_a != where_b:
            return f"the shards are placed as {place_a}, JAX's as {place_b}"
        if place_a != place_b:
            return f"the sharding is printed as {place_a}, JAX's as {place_b}"
    return ""


def kinds(error: Exception) -> list[str]:
    """The names of the error's classes that both libraries have."""
    return [
        base.__name__
        for base in type(error).__mro__
        if hasattr(builtins, base.__name__) or base.__name__ == "ShardingTypeError"
    ]


def attempt(ask: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return ask(), None
    except Exception as error:
        return None, error


def one_way(ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[str, bool]:
    """(the difference, '' if none; whether JAX raises an error)."""
    expected, refused = attempt(theirs)
    given, error = attempt(ours)
    if refused is not None:
        outcomes.raise_mistakes(refused)
        if error is None:
            return f"JAX raises {type(refused).__name__}: {str(refused)[:150]}", True
        wrong = kinds(error) != kinds(refused)
        return (f"{error!r:.150}, JAX {refused!r:.150}" if wrong else ""), True
    if error is not None:
        return f"raises {type(error).__name__}: {str(error)[:300]}", False
    if isinstance(given, str):
        at = len(os.path.commonprefix([given, expected]))
        both = " | JAX ".join(text[max(at - 40, 0) : at + 100] for text in (given, expected))
        return ("" if given == expected else f"the text differs: {both}"), False
    found = differing(given[0], expected[0])
    if not found and given[1] != expected[1]:
        found = f"collectives {given[1]}, JAX {expected[1]}"
    return found, False


def compared(cell: Cell, only: tuple[str, ...] = ()) -> tuple[dict[str, str], bool]:
    """(way -> difference, for a cell; whether JAX raises an error in all its ways)."""
    mine, other = Run("minijax", cell), Run("jax", cell)
    found, refusals = {}, []
    with mine.context(), other.context():
        asked, theirs = mine.ways(), other.ways()
        if mine.ns.mode == MAPPED:
            theirs["from_jax"] = theirs["text"]
            asked["from_jax"] = lambda: outcomes.text_of(mine.ns, interop.from_jax(other.function), mine.drawn)
        for way in asked:
            if not only or way in only:
                found[way], refused = one_way(asked[way], theirs[way])
                refusals.append(refused)
    return {way: what for way, what in found.items() if what}, all(refusals)


def names(mode: str) -> Iterable[str]:
    """The names of the programs of a mode."""
    return programs.PROGRAMS if mode == MAPPED else PROGRAMS


def cells(modes: tuple[str, ...], devices: int | None, word: str) -> Iterator[Cell]:
    """The cells with these modes, this number of devices (None: any) and ``word`` in the program's name."""
    for sizes in MESHES:
        if devices is None or np.prod(sizes) == devices:
            for mode in modes:
                for name in names(mode) if mode != MAPPED or sizes == (4, 2) else ():
                    if word in name:
                        yield name, mode, sizes


def sliced(modes: tuple[str, ...]) -> list[tuple[Cell, tuple[str, ...]]]:
    """(cell, ways to compare) for each program once, with alternating modes and meshes: fast enough to run often.

    In explicit mode the text of every program is compared too: this is cheap, and shows most differences.
    """
    if modes == (MAPPED,):
        return [((name, MAPPED, (4, 2)), TURNS[i % 3]) for i, name in enumerate(programs.PROGRAMS)]
    turns = [(mode, sizes) for sizes in MESHES for mode in modes]
    chosen: dict[Cell, tuple[str, ...]] = {
        (name, *turns[i % len(turns)]): (("jit", "gradient")[i // len(modes) % 2], "text")
        for i, name in enumerate(PROGRAMS)
    }
    if "explicit" in modes:
        for name in PROGRAMS:
            chosen.setdefault((name, "explicit", (4, 2)), ("text",))
    return [*chosen.items()]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sharded.matrix")
    parser.add_argument("--devices", type=int, choices=[1, 2, 4, 8])
    parser.add_argument("--mode", choices=(*MODES, MAPPED), action="append")
    parser.add_argument("-k", dest="word", default="")
    parser.add_argument("--slice", action="store_true", help="compare each program once: modes and meshes alternate")
    parser.add_argument("--json", action="store_true", help="print the differences as JSON")
    options = parser.parse_args(words)
    modes = tuple(options.mode or (*MODES, MAPPED))
    chosen: Any = [(cell, ()) for cell in cells(modes, options.devices, options.word)]
    if options.slice:
        chosen = sliced(tuple(options.mode or MODES))
    counts: dict[tuple[str, tuple[int, ...]], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    found = {}
    for cell, only in chosen:
        differs, refused = compared(cell, only)
        name, mode, sizes = cell
        known = [way for way in differs if (name, mode, way) in KNOWN]
        differs = {way: what for way, what in differs.items() if way not in known}
        kind = "differing" if differs else "known" if known else "equal"
        counts[mode, sizes].update(["cells", kind, *(["refused by JAX"] * refused)])
        if differs:
            found[f"{name} | {mode} | {sizes}"] = differs
            if not options.json:
                for way, what in differs.items():
                    print(f"{name} | {mode} | {sizes} | {way}: {what}", flush=True)
    if options.json:
        print(json.dumps({"cells": len(chosen), "differing": found}))
        return 0
    columns = ("cells", "equal", "known", "differing", "refused by JAX")
    print(f"{'mode':10} {'mesh':8}", *(f"{column:>15}" for column in columns))
    for (mode, sizes), count in counts.items():
        print(f"{mode:10} {'x'.join(map(str, sizes)):8}", *(f"{count[column]:15}" for column in columns))
    sums = sum(counts.values(), collections.Counter())
    print(f"{'all':19}", *(f"{sums[column]:15}" for column in columns))
    return bool(sums["differing"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
