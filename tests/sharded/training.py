"""Train on eight devices: ``python -m tests.sharded.training [--large] [--steps N] [ends of names]``.

For each model and plan, both libraries train. The output is the losses, their distance from the losses on one device
and in JAX, the collectives of the compiled step, and what differs from JAX. The exit status is 1 if anything differs.
With ``--json`` the output is JSON and the status 0.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from contextlib import nullcontext
from typing import Any

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")

import minijax
from minijax.core.shardings import Placement
from minijax.tools import no_recompile
from minijax.tools.programs.links import LinkedPrograms, Pane
from minijax.tools.xla.collectives import collectives
from tests.sharded.matrix import Names
from tests.sharded.models import MODELS, PLANS, Sizes, Training, on_one_device, sharded

SMALL = Sizes(layers=1)
LARGE = Sizes(batch=64, width=128, hidden=512, heads=8, length=64, words=1024, layers=4)


def sent(text: str) -> list[Any]:
    """The collectives in the text of a compiled program, as rows [kind, number of devices, bytes, loop, count]."""
    lines = tuple(text.split("\n"))
    none = Pane("", "")
    # an empty program is enough, because reasons are not needed
    closed, placement = minijax.make_jaxpr(lambda: ())(), Placement((), None, (), ())
    programs = LinkedPrograms((), (), none, none, Pane("", "hlo", lines, (), ((),) * len(lines)))
    each_sent = collectives(programs, closed, placement, text)
    found = Counter((each.kind, each.size, each.bytes, each.inside) for each in each_sent)
    return sorted([*each, count] for each, count in found.items())


def lies(ns: Any, tree: Any) -> list[str]:
    """The shardings of the leaves, as text."""
    return [str(getattr(leaf, "sharding", None)) for leaf in ns.tree.leaves(tree)]


def trained(ns: Any, made: Training, steps: int) -> dict[str, Any]:
    """The losses of a few steps, and properties of the compiled step."""
    step, state, batch = made
    began = time.perf_counter()
    compiled = step.lower(state, *batch).compile()
    seconds = time.perf_counter() - began
    text = compiled.as_text()
    given = re.findall(r"\((\d+), \{\}, \w+-alias\)", text.partition("\n")[0])
    taken_from = [str(each) for each in ns.tree.leaves(compiled.input_shardings[0][0])]
    run = step if ns.top is minijax else compiled  # calling JAX's step would compile it a second time
    losses, gone = [], 0
    for number in range(steps):
        before = ns.tree.leaves(state)
        with no_recompile() if ns.top is minijax and number > 1 else nullcontext():
            state, loss = run(state, *batch)
        losses.append(float(loss))
        gone = sum(getattr(leaf, "is_deleted", bool)() for leaf in before)
        if lies(ns, state) != taken_from:
            run = step
    return {
        "losses": losses,
        "collectives": sent(text),
        "donated memory": sorted(map(int, given)),
        "donated arguments": gone,
        "shardings of results": lies(ns, (state, loss)),
        "seconds to compile": seconds,
    }


def apart(losses: list[float], others: list[float]) -> float:
    """The largest difference between the losses of a step, relative to the loss."""
    return max(abs(a - b) / abs(b) for a, b in zip(losses, others, strict=True))


def compared(ours: dict[str, Any], theirs: dict[str, Any], alone: list[float]) -> dict[str, Any]:
    """The measurements of a program; ``differs`` has those that are not as in JAX."""
    exact = ("collectives", "donated memory", "donated arguments", "shardings of results")
    return {
        **ours,
        "from one device": apart(ours["losses"], alone),
        "from JAX": apart(ours["losses"], theirs["losses"]),
        "differs": {name: [ours[name], theirs[name]] for name in exact if ours[name] != theirs[name]},
    }


def results(words: list[str], sizes: Sizes, steps: int, show: Any) -> dict[str, Any]:
    """Name -> the result of ``compared``, for every program whose name ends with one of ``words``."""
    ours, theirs = (Names(name, "auto", (4, 2)) for name in ("minijax", "jax"))
    found = {}
    for called, model in MODELS.items():
        chosen = {
            name: plan for each, plan in PLANS.items() if (name := f"{called}: {each}").endswith(tuple(words) or "")
        }
        if not chosen:
            continue
        alone = trained(ours, on_one_device(ours, model, sizes), steps)["losses"]
        for name, plan in chosen.items():
            a, b = (trained(ns, sharded(ns, model, plan, sizes), steps) for ns in (ours, theirs))
            found[name] = compared(a, b, alone)
            show(name, found[name])
    return found


def _show(name: str, found: dict[str, Any]) -> None:
    losses = " ".join(f"{loss:.4f}" for loss in found["losses"])
    print(f"{name}: losses {losses}; off one device's by {found['from one device']:.1e}, JAX's {found['from JAX']:.1e}")
    for kind, size, count, inside, times in found["collectives"]:
        print(f"    {times} x {kind} among {size}, {count:,} bytes{f', in a {inside}' if inside else ''}")
    for what, (mine, other) in found["differs"].items():
        print(f"  ! {what}: {mine}, in JAX {other}")


def main(argv: list[str]) -> int:
    options = argparse.ArgumentParser(prog="python -m tests.sharded.training", description=__doc__)
    options.add_argument("words", nargs="*", help="ends of the names of programs")
    options.add_argument("--small", action="store_true", help="models of one layer")
    options.add_argument("--large", action="store_true", help="models of 4 layers, 128 wide, on 64 rows")
    options.add_argument("--steps", type=int, default=5)
    options.add_argument("--json", action="store_true", help="print only the results, as JSON")
    args = options.parse_args(argv)
    sizes = SMALL if args.small else LARGE if args.large else Sizes()
    found = results(args.words, sizes, args.steps, (lambda *_: None) if args.json else _show)
    if args.json:
        print(json.dumps(found))
        return 0
    off = sum(bool(each["differs"]) for each in found.values())
    print(f"{len(found)} programs, {off} differ from JAX in collectives, donated memory or shardings")
    return int(off > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
