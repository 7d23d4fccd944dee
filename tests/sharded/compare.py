"""Both libraries run every program on eight devices: ``python -m tests.sharded.compare [--slice] [words of names]``.

Prints a JSON object: for each program what differs, of values, derivatives in both modes, vmap, jaxprs' texts, and what
``from_jax`` brings here and ``to_jax`` back; with ``--slice`` of the texts, and of the others some for each program.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")

import numpy as np

from minijax import interop
from tests.sharded.outcomes import raise_mistakes
from tests.sharded.programs import PROGRAMS, Mapped

SHAPE = (4, 2)
NAMES = """jit grad value_and_grad jvp vjp vmap checkpoint custom_vjp shard_map make_jaxpr device_put devices tree"""


def namespace(name: str) -> Any:
    top = importlib.import_module(name)
    of = importlib.import_module(name + ".sharding")
    devices = np.array(top.devices()[: SHAPE[0] * SHAPE[1]]).reshape(SHAPE)
    return SimpleNamespace(
        name=name,
        jnp=importlib.import_module(name + ".numpy"),
        lax=importlib.import_module(name + ".lax"),
        nn=importlib.import_module(name + ".nn"),
        mesh=of.Mesh(devices, ("x", "y")),
        P=of.PartitionSpec,
        Mesh=of.Mesh,
        NamedSharding=of.NamedSharding,
        **{each: getattr(top, each) for each in NAMES.split()},
    )


def spec(ns: Any, text: str) -> Any:
    if text == "None":
        return None
    parts = [None if part == "-" else part if len(part) == 1 else tuple(part) for part in text.split(",")]
    return ns.P(*parts) if text else ns.P()


def specs(ns: Any, texts: tuple[str, ...]) -> Any:
    return tuple(spec(ns, text) for text in texts) if len(texts) > 1 else spec(ns, texts[0])


def function(ns: Any, program: Mapped) -> Any:
    return ns.shard_map(
        program.make(ns),
        mesh=ns.mesh,
        in_specs=tuple(spec(ns, text) for text in program.in_specs),
        out_specs=specs(ns, program.out_specs),
        check_vma=program.check_vma,
        **({"axis_names": set(program.axis_names)} if program.axis_names else {}),
    )


def arguments(program: Mapped) -> list[np.ndarray]:
    draw = np.random.default_rng(0).uniform
    return [draw(0.1, 1.0, shape).astype(np.float32) for shape in program.shapes]


def total(ns: Any, outs: Any) -> Any:
    outs = outs if isinstance(outs, tuple) else (outs,)
    return sum((out * ns.jnp.cos(ns.jnp.arange(out.size, dtype="float32")).reshape(out.shape)).sum() for out in outs)


def ways(ns: Any, program: Mapped) -> dict[str, Any]:
    """What is computed of a program, each as a function of no argument."""
    f, args = function(ns, program), arguments(program)
    loss = lambda *xs: total(ns, f(*xs))  # noqa: E731
    gradient = ns.grad(loss, argnums=program.wrt)
    stacked = [np.stack([x, x * 0.5]) for x in args]
    return {
        "eager": lambda: f(*args),
        "jit": lambda: ns.jit(f)(*args),
        "gradient": lambda: ns.jit(gradient)(*args),
        "jvp": lambda: ns.jit(lambda *xs: ns.jvp(f, xs, xs))(*args),
        "vmap": lambda: ns.jit(ns.vmap(f))(*stacked),
    }


def leaves(value: Any) -> list[np.ndarray]:
    if isinstance(value, (tuple, list)):
        return [leaf for each in value for leaf in leaves(each)]
    return [np.asarray(value)]


def text_of(ns: Any, f: Any, args: list[np.ndarray]) -> str:
    """The jaxpr as it is printed, without parameters of explicit meshes that say None, and how a mesh is written."""
    text = re.sub(r"\s*\b(out_)?sharding=None", "", str(ns.make_jaxpr(f)(*args)))
    text = re.sub(r"\bmesh=(Abstract)?Mesh\(.*\)", "mesh", text)
    text = re.sub(r"np\.int64\((\d+)\)", r"\1", text)
    return re.sub(r"\s+", " ", text).replace("[ ", "[").replace(" ]", "]")  # lines are broken where None is left out


def taken_over(ours: Any, theirs: Any, program: Mapped) -> str:
    """What differs of JAX's function, brought here by ``from_jax`` and back by ``to_jax``; '' if nothing does."""
    f, args = function(theirs, program), arguments(program)
    mine = interop.from_jax(f)
    if text_of(ours, mine, args) != text_of(theirs, f, args):
        return "the text"
    gradients = [
        jit(ns.grad(lambda *xs, ns=ns, f=g: total(ns, f(*xs)), argnums=program.wrt))(*args)
        for ns, jit, g in ((ours, ours.jit, mine), (theirs, theirs.jit, f), (theirs, theirs.jit, interop.to_jax(mine)))
    ]
    first, *others = map(leaves, gradients)
    close = all(np.allclose(a, b, rtol=1e-4, atol=1e-4) for each in others for a, b in zip(first, each, strict=True))
    return "" if close else "the gradient"


# What a slice compares of one program, of the next, and of the one after it.
TURNS = ({"eager", "gradient"}, {"jit", "jvp", "vmap"}, {"eager", "from_jax"})


def compared(ours: Any, theirs: Any, program: Mapped, asked: frozenset[str]) -> dict[str, str]:
    """What differs, of what is ``asked``, and of the texts."""
    found = {}
    refusals = 0
    mine, others = ways(ours, program), ways(theirs, program)
    tried = [way for way in mine if way in asked]
    for way in tried:
        try:
            b = leaves(others[way]())
        except Exception as refused:  # then so must ours, with an error of that kind
            refusals += 1
            raise_mistakes(refused)
            try:
                mine[way]()
                found[way] = f"JAX raises {type(refused).__name__}"
            except type(refused):
                pass
            continue
        try:
            a = leaves(mine[way]())
            assert [x.shape for x in a] == [x.shape for x in b], "shapes differ"
            assert [x.dtype for x in a] == [x.dtype for x in b], "dtypes differ"
            worst = max(float(np.max(np.abs(x - y), initial=0)) for x, y in zip(a, b, strict=True))
            assert worst < 1e-4, f"values differ by {worst}"
        except Exception as error:
            found[way] = f"{type(error).__name__}: {str(error)[:300]}"
    if refusals == len(tried):
        return found
    f, g, args = function(ours, program), function(theirs, program), arguments(program)
    if text_of(ours, f, args) != text_of(theirs, g, args):
        found["text"] = "differs"
    if "from_jax" in asked and (brought := taken_over(ours, theirs, program)):
        found["from_jax"] = f"{brought} differs"
    return found


def main(words: list[str]) -> None:
    ours, theirs = namespace("minijax"), namespace("jax")
    sliced = "--slice" in words
    words = [word for word in words if word != "--slice"]
    found = {}
    for i, (name, program) in enumerate(PROGRAMS.items()):
        if not words or any(word in name for word in words):
            asked = TURNS[i % len(TURNS)] if sliced else frozenset().union(*TURNS)
            found[name] = compared(ours, theirs, program, frozenset(asked))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
