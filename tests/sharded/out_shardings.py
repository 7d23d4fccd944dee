"""``out_sharding=`` of every function that takes it, in both libraries: ``python -m tests.sharded.out_shardings``.

Each program runs on a mesh of eight devices with explicit axes; what is compared is its jaxpr's text, its values, where
they lie, and the kind of error where JAX refuses. Prints a JSON object of what differs.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")

import numpy as np

from tests.sharded import compare
from tests.sharded.matrix import Names, described, one_way

MESH = (4, 2)
# Public modules and the names of theirs that are compared by signature: all that take a sharding.
MODULES = ("numpy", "lax", "random", "nn", "nn.initializers", "numpy.linalg", "ops")
Program = Callable[[Any, Any], Any]

A, B = np.arange(8.0, dtype="float32") / 8 + 0.1, np.ones((8, 4), "float32") / 3

# What is drawn, by the name of the function: arguments after the key, and options.
SAMPLES: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "bernoulli": ((A,), {}),
    "bits": ((), {"shape": (8,)}),
    "gamma": ((A,), {}),
    "normal": (((8,),), {}),
    "orthogonal": ((3,), {"shape": (8,)}),
    "permutation": ((8,), {}),
    "uniform": (((8,),), {}),
}


def _sample(name: str) -> Program:
    args, options = SAMPLES[name]
    return lambda ns, x: getattr(ns.random, name)(ns.random.key(3), *args, **options, out_sharding=ns.spec("x"))


# Of ``x``, f32[8@x,16@y].
PROGRAMS: dict[str, Program] = {
    "dot": lambda ns, x: ns.jnp.dot(x, x.T, out_sharding=ns.spec("x", "-")),
    "matmul": lambda ns, x: ns.jnp.matmul(x, x.T, out_sharding=ns.spec("x", "y")),
    "tensordot": lambda ns, x: ns.jnp.tensordot(x, x, 2, out_sharding=ns.spec()),
    "einsum": lambda ns, x: ns.jnp.einsum("ij,kj->ik", x, x, out_sharding=ns.spec("x", "-")),
    "einsum of three": lambda ns, x: ns.jnp.einsum("ij,kj,kl->il", x, x, x, out_sharding=ns.spec("x", "y")),
    "reshape": lambda ns, x: ns.jnp.reshape(x, (16, 8), out_sharding=ns.spec("x", "-")),
    "x.reshape": lambda ns, x: x.reshape(4, -1, out_sharding=ns.spec("-", "x")),
    "ravel": lambda ns, x: ns.jnp.ravel(x, out_sharding=ns.spec("xy")),
    "broadcast_to": lambda ns, x: ns.jnp.broadcast_to(x, (2, 8, 16), out_sharding=ns.spec("-", "x", "y")),
    "zeros": lambda ns, x: ns.jnp.zeros((8, 2), out_sharding=ns.spec("x")),
    "full": lambda ns, x: ns.jnp.full((8, 2), 3.0, out_sharding=ns.spec("-", "y")),
    "zeros_like": lambda ns, x: ns.jnp.zeros_like(x, out_sharding=ns.spec("y", "x")),
    "full_like": lambda ns, x: ns.jnp.full_like(x, 2.0, out_sharding=ns.spec("y")),
    "arange": lambda ns, x: ns.jnp.arange(8, out_sharding=ns.spec("x")),
    "array": lambda ns, x: ns.jnp.array(A, out_sharding=ns.spec("x")),
    "asarray": lambda ns, x: ns.jnp.asarray(B.tolist(), out_sharding=ns.spec("x", "y")),
    "repeat": lambda ns, x: ns.jnp.repeat(x, 2, axis=0, out_sharding=ns.spec("x", "y")),
    "percentile": lambda ns, x: ns.jnp.percentile(x, 30.0, axis=1, out_sharding=ns.spec("x")),
    "bincount": lambda ns, x: ns.jnp.bincount(ns.jnp.arange(8) % 3, length=4, out_sharding=ns.spec()),
    "lax.full": lambda ns, x: ns.lax.full((8,), 2.0, sharding=ns.sharding.NamedSharding(ns.abstract, ns.spec("x"))),
    "lax.reduce": lambda ns, x: ns.lax.reduce(x, np.float32(0), ns.lax.add, (1,), ns.spec("x")),
    "at.get": lambda ns, x: x.at[np.array([3, 1, 0, 1])].get(out_sharding=ns.spec("x", "y")),
    "at.set": lambda ns, x: x.at[np.array([3, 1])].set(2.0, out_sharding=ns.spec("x", "y")),
    "at.add": lambda ns, x: x.at[ns.jnp.arange(4)].add(1.0, out_sharding=ns.spec("y", "x")),
    "at.multiply": lambda ns, x: x.at[2].multiply(3.0, out_sharding=ns.spec("x", "y")),
    "at.max": lambda ns, x: x.at[2].max(0.5, out_sharding=ns.spec("x", "y")),
    **{
        f"segment_{name}": lambda ns, x, name=name: getattr(ns.lib("ops"), f"segment_{name}")(
            x, ns.jnp.arange(8) % 4, 4, out_sharding=ns.spec("x", "y")
        )
        for name in ("sum", "prod", "min", "max")
    },
    **{f"random.{name}": _sample(name) for name in SAMPLES},
    # what is refused
    "duplicate axes": lambda ns, x: ns.jnp.zeros((8, 8), out_sharding=ns.spec("x", "x")),
    "not divisible": lambda ns, x: ns.jnp.zeros((7,), out_sharding=ns.spec("x")),
    "no such axis": lambda ns, x: ns.jnp.ones(8, out_sharding=ns.sharding.PartitionSpec("q")),
    "no sharding": lambda ns, x: ns.jnp.ones(8, out_sharding="x"),
    "a device too": lambda ns, x: ns.jnp.ones(8, device=ns.top.devices()[0], out_sharding=ns.spec("x")),
    "repeat of what is sharded": lambda ns, x: ns.jnp.repeat(x, 2, axis=0),
    "largest, reduced": lambda ns, x: ns.lax.reduce(x, np.float32(-np.inf), ns.lax.max, (1,), ns.spec("x")),
}
# Where the mesh is not set, or its axes are left to the compiler.
REFUSED: dict[str, Program] = {
    "zeros": PROGRAMS["zeros"],
    "matmul": PROGRAMS["matmul"],
    "reshape": PROGRAMS["reshape"],
    "at.get": PROGRAMS["at.get"],
    "uniform": PROGRAMS["random.uniform"],
    "percentile": PROGRAMS["percentile"],
}
# Texts that differ and why; values and places are equal.
KNOWN = {
    "random.orthogonal": "the diagonal is taken by a slice, in JAX by a gather",
    **dict.fromkeys(
        ["percentile", "bincount", "random.gamma", *[f"segment_{name}" for name in ("sum", "prod", "min", "max")]],
        "JAX's program is traced without the mesh, and what meets inside is brought together in another order",
    ),
}


class Ask:
    """One library's side."""

    def __init__(self, library: str, mode: str) -> None:
        self.ns = Names(library, mode, MESH)
        self.ns.abstract = self.ns.mesh.abstract_mesh
        place = self.ns.sharding.NamedSharding(self.ns.mesh, self.ns.spec("x", "y"))
        self.x = self.ns.device_put(np.arange(128.0, dtype="float32").reshape(8, 16) / 100, place)

    def value(self, program: Program) -> Any:
        return described(self.ns, program(self.ns, self.x)), None

    def text(self, program: Program) -> str:
        text = compare.text_of(self.ns, lambda x: program(self.ns, x), [self.x])
        # JAX prints the mesh that was set, here it is the one whose axes are left to the compiler
        return re.sub(r"ctx_mesh=Mesh\(.*?\)\)", "ctx_mesh", text)


def differences(words: tuple[str, ...] = (), sliced: bool = False) -> dict[str, dict[str, str]]:
    """What differs of each program, by what was asked; ``sliced``: of samples only every fourth is drawn."""
    seldom = [*SAMPLES][1::4]
    found: dict[str, dict[str, str]] = {}

    def note(name: str, way: str, ours: Callable[[], Any], theirs: Callable[[], Any]) -> None:
        what, _ = one_way(ours, theirs)
        if what and not (way == "text" and name in KNOWN):
            found.setdefault(name, {})[way] = what

    mine, other = Ask("minijax", "explicit"), Ask("jax", "explicit")
    with mine.ns.set_mesh(mine.ns.mesh), other.ns.set_mesh(other.ns.mesh):
        for name, program in PROGRAMS.items():
            if all(word in name for word in words):
                if not sliced or not name.startswith("random.") or name.removeprefix("random.") in seldom:
                    note(name, "eager", lambda p=program: mine.value(p), lambda p=program: other.value(p))
                note(name, "text", lambda p=program: mine.text(p), lambda p=program: other.text(p))
    for name, program in REFUSED.items():
        if all(word in name for word in words):
            note(f"{name} without a mesh", "eager", lambda p=program: mine.value(p), lambda p=program: other.value(p))
    mine, other = Ask("minijax", "auto"), Ask("jax", "auto")
    with mine.ns.set_mesh(mine.ns.mesh), other.ns.set_mesh(other.ns.mesh):
        for name, program in REFUSED.items():
            if all(word in name for word in words):
                note(f"{name}, Auto", "eager", lambda p=program: mine.value(p), lambda p=program: other.value(p))
    return found


def signatures() -> Iterator[tuple[str, Any, Any]]:
    """Of each public function of JAX that takes a sharding, its parameters and those of ours: names and kinds."""
    import jax.numpy as jnp

    import minijax.numpy

    def parameters(function: Any) -> Any:
        return [(p.name, p.kind.name) for p in inspect.signature(function).parameters.values()]

    sides = [(f"{m}.", importlib.import_module(f"jax.{m}"), f"minijax.{m}") for m in MODULES]
    sides.append(("x.at[i].", jnp.zeros(1).at[0], ""))
    for prefix, theirs, name in sides:
        ours = importlib.import_module(name) if name else minijax.numpy.zeros(1).at[0]
        for public in dir(theirs):
            function = getattr(theirs, public)
            if public[0] == "_" or not inspect.isroutine(function) and not hasattr(function, "__wrapped__"):
                continue
            try:
                taken = parameters(function)
            except (TypeError, ValueError):
                continue
            if any(p in ("sharding", "out_sharding") for p, _ in taken):
                yield prefix + public, parameters(getattr(ours, public)), taken


def main(words: tuple[str, ...]) -> None:
    sliced = "--slice" in words
    found = differences(tuple(word for word in words if word != "--slice"), sliced)
    print(json.dumps({"programs": len(PROGRAMS) + 2 * len(REFUSED), "differing": found}, indent=1))


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
