"""More commands: ``%find``, ``%grad --check``, ``%jaxpr``, ``%keys`` and ``%tree``."""

from __future__ import annotations

import random
import re
from collections import Counter

import jax
import numpy as np

from tests.claims.checks import LOOP, PLACE, Asked, shown
from tests.claims.log import NAMESPACE, Seen
from tests.claims.reading import NUMBER, cell, cell_is, noise, number_is

# How many names %find is asked for.
NAMES_ASKED = 5


def check_find(asked: Asked) -> None:
    """The first value of a name that is above a bound, or that there is none."""
    run, draw = asked.reference.run(), random.Random(asked.program.seed)
    stores = [s for s in run.log.seen if s.stored and s.function == "f" and s.value.primal.dtype.kind == "f"]
    names = sorted({s.name for s in stores if s.name.isidentifier()})
    for name in draw.sample(names, min(NAMES_ASKED, len(names))):
        held = [s for s in run.log.seen if s.stored and s.name == name and s.value.primal.dtype.kind in "fi"]
        bounds = [float(np.min(s.value.primal)) for s in held if np.isfinite(s.value.primal).all()]
        if not bounds:
            continue
        bound = round(draw.choice(bounds) - draw.choice((0.01, -0.01)), 3)
        near = any(abs(float(np.min(s.value.primal)) - bound) < 1e-4 for s in held)
        if not near:  # otherwise rounding decides
            text = asked.printed(f"%find {name} > {bound} in {asked.program.call}")
            check_found(asked, text, [s for s in held if (s.value.primal > bound).all()])


def check_found(asked: Asked, text: str, those: list[Seen]) -> None:
    found = re.search(r"^ *found +(.*)\n(?: +(.*))?", text, re.M)
    if found is None or found[1].startswith("never"):
        true = f"in line {those[0].line}: {shown(those[0].value.primal)}" if those else ""
        asked.claim("never", text.splitlines()[0], true)
        return
    asked.claim("found", found[0], "" if those else "it never holds")
    value = cell(found[2] or "")
    if not those or value.said:
        return
    first = those[0]
    ok = cell_is(value, first.value.primal, first.value.batched)
    asked.claim("value", found[0], "" if ok else f"first in line {first.line}: {shown(first.value.primal)}")
    loop, place = LOOP.search(found[1]), PLACE.search(text)
    if ok and loop and first.loops:
        asked.claim("iteration", found[1], "" if first.loops[-1][1] == int(loop[1]) else f"in {first.loops}")
    if ok and place and first.value.operands:  # an argument has no line that made it
        lines = {first.line, first.value.line}
        asked.claim("line", place[0], "" if int(place[1]) in lines else f"line {first.line} or {first.value.line}")


def check_grad(asked: Asked) -> None:
    """The value, the gradient by the leaves of the first argument, and whether finite differences agree."""
    if asked.program.forward_only:
        return
    run = asked.reference.run("grad")
    text = asked.printed(f"%grad {asked.program.call} --check")
    arrays = re.findall(r"Array\(([^=]*?)(?:, dtype|\))", text)
    gradient = run.gradients_first
    expected = [np.asarray(run.result), *(np.asarray(gradient[key]) for key in sorted(gradient))]
    for printed, true in zip(arrays, expected, strict=False):
        said = cell(printed.strip())
        if not said.said:
            off = noise(true)
            ok = number_is(str(said.items), float(true), off, 0) if true.ndim == 0 else cell_is(said, true)
            asked.claim("array", printed, "" if ok else f"it is {shown(true)}")
    verdict = re.search(r"^ *check +(.*)$", text, re.M)
    if verdict and all(np.isfinite(each).all() for each in expected):
        asked.claim("verdict", verdict[1], "", verdict[1].startswith(("cannot", "unknown")))


def check_jaxpr(asked: Asked) -> None:
    """The operations of the jaxpr are those of JAX's, in the same order."""
    text = asked.printed(f"%jaxpr {asked.program.call}")
    with jax.enable_x64(asked.program.x64):
        names = dict(NAMESPACE)
        exec(asked.program.source, names)
        args, kwargs = eval(f"(lambda *a, **k: (a, k))({asked.reference.given})", names)
        true = str(jax.make_jaxpr(lambda args, kwargs: names["f"](*args, **kwargs))(args, kwargs))
    # Shared programs are printed once, before; their number depends on what the printer knows to be the same.
    mains = (each[max(0, each.rfind("\n{ lambda")) :] for each in (text, true))
    said, counted = (Counter(re.findall(r"^    [^\s].*? = (\w+)", each, re.M)) for each in mains)
    for name in sorted(said | counted):
        wrong = said[name] != counted[name]
        asked.claim("count", f"{name} {said[name]}", f"JAX has {counted[name]}" if wrong else "")


def check_keys(asked: Asked) -> None:
    """Keys that are used once and twice."""
    draw = random.Random(asked.program.seed)
    used = [draw.randrange(4) for _ in range(draw.randint(2, 5))]
    kinds = [draw.choice(("normal", "uniform")) for _ in used]
    terms = " + ".join(f"random.{kind}(ks[{number}])" for kind, number in zip(kinds, used, strict=True))
    asked.printed(f"def drawn(key):\n    ks = random.split(key, 4)\n    return {terms}")
    text = asked.printed(f"%keys drawn(random.key({asked.program.seed}))")
    twice = {number for number in used if used.count(number) > 1}
    none = "none" in next((line for line in text.splitlines() if line.startswith(" reused")), "")
    asked.claim("verdict", text.splitlines()[0], "" if none != bool(twice) else f"used twice: {sorted(twice)}")
    for number, uses, often in re.findall(r"split \[(\d)\]  used by ([\w, ]+?)(?:  (twice|\d times))?$", text, re.M):
        of = [kind for kind, each in zip(kinds, used, strict=True) if each == int(number)]
        asked.claim("uses", f"[{number}] {uses}", "" if set(uses.split(", ")) == set(of) else str(of))
        asked.claim("count", f"[{number}] {often}", "" if bool(often) == (len(of) > 1) else f"{len(of)} uses")


def check_tree(asked: Asked) -> None:
    """The leaves of a random tree: shape, norm, range and the elements that are not finite."""
    draw = np.random.default_rng(asked.program.seed)
    arrays = {}
    for name in "abcd":
        array = draw.normal(size=tuple(draw.integers(1, 9, draw.integers(0, 3)))).astype(np.float32)
        array[draw.random(array.shape) < 0.05] = draw.choice([np.nan, np.inf, 0.5])
        arrays[name] = array
    written = ", ".join(f"{k!r}: np.array({v.tolist()}, 'float32')" for k, v in arrays.items())
    asked.printed(f"import numpy as np; from math import nan, inf; held = {{{written}}}")
    text = asked.printed("%tree held")
    head = re.search(r"(\d+) arrays, (\d+) elements, (\d+) B", text)
    size = sum(array.size for array in arrays.values())
    if head:
        asked.claim("sizes", head[0], "" if head.groups() == ("4", str(size), str(4 * size)) else f"{size} elements")
    for name, kind, rest in re.findall(r"\['(\w)'\] +(f32\[[\d,]*\]) +(.*)$", text, re.M):
        array = arrays[name]
        asked.claim("type", kind, "" if kind == f"f32[{','.join(map(str, array.shape))}]" else str(array.shape))
        finite = array[np.isfinite(array)]
        bounds = re.search(rf"({NUMBER}) … ({NUMBER})", rest)
        if bounds and finite.size:
            for printed, true in zip(bounds.groups(), (finite.min(), finite.max()), strict=True):
                asked.claim("range", rest, "" if number_is(printed, float(true), 1e-7) else str(true))
        norm = re.search(rf"norm ({NUMBER})", rest)
        if norm:
            true = float(np.linalg.norm(array.astype(float)))
            asked.claim("norm", rest, "" if number_is(norm[1], true, 1e-5) else str(true))
        if rest.startswith("["):
            asked.claim("elements", rest, "" if cell_is(cell(rest), array) else shown(array))
            continue
        count = re.search(r"(\d+) of (\d+) finite", rest)
        said = (int(count[1]), int(count[2])) if count else (array.size, array.size)
        asked.claim("finite", rest, "" if said == (finite.size, array.size) else f"{finite.size} of {array.size}")


MORE = {"find": check_find, "grad": check_grad, "jaxpr": check_jaxpr, "keys": check_keys, "tree": check_tree}
