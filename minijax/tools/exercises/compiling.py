"""Exercises about compilation: how often jit compiles, and how much memory the program needs."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from minijax import numpy as jnp
from minijax.api import grad, jit, make_jaxpr
from minijax.core import miss_log
from minijax.core.shape_structs import ShapeDtypeStruct
from minijax.ir.jaxpr import Jaxpr, subjaxprs
from minijax.tools.documents.document import Block, Row, line
from minijax.tools.documents.words import bytes_text
from minijax.tools.exercises.measure import close, expect
from minijax.tools.exercises.model import Answer, NotYet, Passed
from minijax.tools.exercises.pages import start_names

# --- compile once -------------------------------------------------------------------------------------------

EPOCHS = 4
# each check trains on a vector of a new length, which no cache has seen
_lengths = itertools.count(5)


def _trained(w: Any, epochs: int = EPOCHS) -> tuple[Any, Any]:
    total = 0.0
    for epoch in range(epochs):
        w, total = w - 0.1 / (epoch + 1) * 2 * w, total + np.sum(w)
    return w, total


def _check_once(answer: Answer) -> Passed:
    train = answer.function("train")
    _forget_traces(answer)
    w = np.linspace(0.2, 1.0, next(_lengths), dtype=np.float32)
    first = miss_log.total()
    result = train(jnp.asarray(w))
    misses = [each for each in miss_log.since(first) if each.cache == "staging"]
    _forget_traces(answer)  # otherwise %why would compare the user's next call with this one
    compiled = [each for each in misses if "compile" in each.costs]
    if not isinstance(result, tuple) or len(result) != 2:
        raise NotYet("train returns (w, total).")
    _judge_training(result, w)
    shown = tuple(_why(misses))
    if not compiled:
        raise NotYet("Nothing was compiled: every operation ran by itself. Keep jit around the step.")
    names = {each.name for each in misses}
    if len(compiled) > 1 or len(misses) > len(names):
        often = f"{len(compiled)} times" if len(compiled) > 1 else f"once, and was traced {len(misses)} times"
        raise NotYet(f"It compiled {often}. {_advice([each.reason for each in misses[1:]])}", shown)
    return Passed(f"It compiled once, for {EPOCHS} epochs.", shown)


def _forget_traces(answer: Answer) -> None:
    """Clear the caches of ``train`` and of the functions that it calls."""
    train = answer["train"]
    code = getattr(getattr(train, "__wrapped__", train), "__code__", None)
    for name in ("train", "step", *(code.co_names if code is not None else ())):
        clear = getattr(answer.names.get(name), "clear_cache", None)
        if clear is not None:
            clear()


def _judge_training(result: tuple[Any, Any], w: Any) -> None:
    wanted = _trained(w)
    expect(
        "w",
        np.asarray(result[0]),
        wanted[0],
        [
            (_trained(w, EPOCHS - 1)[0], f"An epoch is missing: there are {EPOCHS}."),
            (w * (1 - 0.2) ** EPOCHS, "The rate does not get smaller any more: it should be 0.1 / (epoch + 1)."),
        ],
    )
    expect(
        "total",
        np.asarray(result[1]),
        wanted[1],
        [(np.asarray(0.0), "total is never added to."), (wanted[1] + 1, "total begins at 0.")],
    )


def _why(misses: list[miss_log.Missed]) -> Iterator[Block]:
    """The reason for each trace, as %why gives it, or "the first call" for the first trace of a function."""
    for number, each in enumerate(misses[:6]):
        # the checker itself cleared the caches, so this is a first call too
        reason = "the first call" if not number or each.reason == "its cache was cleared" else each.reason
        yield Row(f"{number + 1}", (line(("name", each.name), ("muted", f": {reason}")),))


# the text in which %why says that the value of a static argument has changed
_STATIC = r"(\w+): -?[\d.][\d.e+-]* became"


def _advice(reasons: list[str]) -> str:
    """One change to suggest, chosen by the reasons that %why gives."""
    words = " ".join(reasons)
    if "a new function" in words or "number 2 made there" in words:
        return "Each iteration makes a new function, and jit compiles every new function: make it once."
    parts = [part for reason in reasons for part in reason.split("; ")]
    static = next(filter(None, (re.match(_STATIC, part) for part in parts)), None)
    if static is not None:
        return (
            f"{static[1]} is a static argument: its value is part of the cache key, and each call has another value. "
            "Let it be traced."
        )
    if "weak_type" in words:
        return (
            "The type of an argument has changed: a Python number, or an array made of one, is weakly typed; the "
            "result of step is not. Begin with a value of the result's type."
        )
    if "became" in words:
        return "An argument has another type after the first call. Begin with a value of that type."
    return "The lines below show what differed each time."


# --- halve the peak -----------------------------------------------------------------------------------------

LAYERS, WIDTH = 32, 4096


def _check_peak(answer: Answer) -> Passed:
    loss = answer.function("loss")
    ws, x = np.linspace(0.5, 1.5, 4, dtype=np.float32), np.linspace(0.2, 1.0, 5, dtype=np.float32)
    _judge_loss(loss, ws, x)
    mine, start = _temporaries(loss), _before()
    rows = (
        Row("before", (line(bytes_text(start)),)),
        Row("yours", (line(("good" if 2 * mine <= start else "error", bytes_text(mine))),)),
    )
    if 2 * mine > start:
        due = bytes_text(start / 2)
        raise NotYet(f"The temporaries take {bytes_text(mine)}; at most {due} is allowed. {_remedy(loss)}", rows)
    said = f"The temporaries of the gradient take {bytes_text(mine)}, before {bytes_text(start)}."
    if not _scans(loss):
        said += " Without the scan XLA sees all layers at once, and recomputes values when it fuses operations."
    return Passed(said, rows)


def _judge_loss(loss: Any, ws: Any, x: Any) -> None:
    value = loss(ws, x)
    expect(
        "loss(ws, x)",
        value,
        deep(ws, x),
        [
            (deep(ws[:-1], x), "A layer is missing."),
            (deep(ws[:1], x), "That is one layer."),
            (np.mean(_last(ws, x)), "That is the mean; loss is the sum."),
        ],
        lambda: "It is near, but not equal: fewer bits change the result." * close(value, deep(ws, x), 0.02),
        1e-5,
    )
    if np.asarray(value).dtype != np.float32:
        raise NotYet(f"loss gives {np.asarray(value).dtype} instead of float32: fewer bits change the result.")
    expect(
        "grad(loss)",
        grad(loss)(ws, x),
        grad(deep)(ws, x),
        [(np.zeros_like(ws), "The gradient is zero: stopping it saves memory, but the result is wrong.")],
        tolerance=1e-4,
    )


def _last(ws: Any, x: Any) -> Any:
    for w in ws:
        x = np.sin(np.sin(np.sin(np.sin(x * w))))
    return x


def deep(ws: Any, x: Any) -> Any:
    """The loss of the start code."""
    return start_names("halve-the-peak")["loss"](ws, x)


def _temporaries(loss: Any) -> int:
    """The bytes that XLA allocates for temporaries of the compiled gradient."""
    types = ShapeDtypeStruct((LAYERS,), np.float32), ShapeDtypeStruct((WIDTH,), np.float32)
    analysis = jit(grad(loss)).lower(*types).compile().memory_analysis()
    return int(analysis.temp_size_in_bytes)


@functools.cache
def _before() -> int:
    """The bytes that XLA allocates for temporaries of the start code."""
    return _temporaries(deep)


def _scans(loss: Any) -> bool:
    """Whether the program has a scan."""
    ws, x = np.zeros(LAYERS, np.float32), np.zeros(WIDTH, np.float32)
    return "scan[" in str(make_jaxpr(loss)(ws, x))


def _remedy(loss: Any) -> str:
    """A change to suggest, depending on where the program has checkpoints."""
    ws, x = np.zeros(LAYERS, np.float32), np.zeros(WIDTH, np.float32)
    jaxpr = make_jaxpr(loss)(ws, x).jaxpr
    where = list(_checkpoints(jaxpr, False))
    if not where:
        return "Nothing is recomputed yet: the forward pass keeps five vectors for each layer until the backward pass."
    if not any(inside for inside, _ in where):
        return (
            "The checkpoint is around the whole loop: the backward pass runs it once more, keeping everything as "
            "before. Put it around each step."
        )
    if any(policy is not None for _, policy in where):
        return "There is a checkpoint in each step, but its policy keeps the values inside: leave the policy out."
    return "The checkpoint is around a part of the step only: other values are still kept for each layer."


def _checkpoints(jaxpr: Jaxpr, inside: bool) -> Iterator[tuple[bool, Any]]:
    """For each checkpoint in the program, whether it is inside a loop, and its policy."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in ("checkpoint", "remat2"):
            yield inside, eqn.params.get("policy")
        for body in subjaxprs(eqn.params):
            yield from _checkpoints(getattr(body, "jaxpr", body), inside or eqn.primitive.name == "scan")


CHECKS = {"compile-once": _check_once, "halve-the-peak": _check_peak}
