"""Printed programs of calls of jnp, nn and random beside JAX's, text by text.

    python -m tests.oracle.texts            # all calls of calls.txt: how many are equal, and why the others are not
    python -m tests.oracle.texts median     # the calls with "median" in them, with both texts where they differ

Left out of the texts is that some of JAX's numbers are NumPy's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .subject import oracle, subject

# what the calls compute with
ARRAYS: dict[str, np.ndarray] = {
    "x": np.array([3.0, 1.0, 2.0, 5.0], np.float32),
    "s": np.array([1.0, 2.0, 3.0, 5.0], np.float32),
    "m": np.arange(6, dtype=np.float32).reshape(2, 3),
    "i": np.array([0, 2, 1], np.int32),
    "b": np.array([True, False, True, True]),
    "z": np.array([3 + 1j, 1 + 1j, 2 + 1j, 5 + 1j], np.complex64),
    "sq": (np.eye(3) * 2 + 0.5).astype(np.float32),
}

# Where the texts differ, and why.
DIFFERENT: dict[str, str] = {
    "jnp.diag(sq)": "JAX has a branch for a TPU's compiler",
    "jnp.power(x,i[0])": "JAX converts the exponent, and does not read that",
}


def calls() -> dict[str, list[str]]:
    """The calls of ``calls.txt``, by section."""
    found: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / "calls.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            section = found.setdefault(line[2:], [])
        elif line:
            section.append(line)
    return found


def names_in(call: str) -> list[str]:
    """The arrays that ``call`` uses."""
    return [name for name in ARRAYS if re.search(rf"(?<![\w.']){name}\b(?!')", call)]


def function_of(ns: Any, call: str) -> Any:
    """The call as a function of its arrays, with the modules of ``ns``."""
    scope = {"jnp": ns.numpy, "nn": ns.nn, "random": ns.random, "lax": ns.lax, "grad": ns.grad, "np": np}
    return eval(f"lambda {', '.join(names_in(call))}: {call}", scope)


def operands(ns: Any, call: str) -> list[Any]:
    """The arrays that ``call`` uses, as ``ns`` has them."""
    return [ns.numpy.asarray(ARRAYS[name]) for name in names_in(call)]


def text(ns: Any, call: str) -> str:
    """The printed program of ``call``, or how it is refused."""
    try:
        return normal(str(ns.make_jaxpr(function_of(ns, call))(*operands(ns, call))))
    except (ns.errors.JAXTypeError, ns.errors.JAXIndexError):
        return "refused: it needs values"
    except (TypeError, ValueError, NotImplementedError) as error:
        return f"refused: {type(error).__name__}"


def normal(printed: str) -> str:
    """``printed`` without what the two may print differently, and without its layout."""
    printed = re.sub(r"np\.int64\((-?\d+)\)", r"\1", printed)
    printed = re.sub(r"\s+", " ", printed)
    return printed.replace("[ ", "[").replace(" ]", "]")


def differing(chosen: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """The calls whose programs differ, with our text and JAX's."""
    for call in chosen:
        ours, theirs = text(subject, call), text(oracle, call)
        if ours != theirs:
            yield call, ours, theirs


def main(arguments: Sequence[str]) -> None:
    """Print how many texts are equal in each section, and a table of the others."""
    for section, every in calls().items():
        chosen = [call for call in every if all(word in call for word in arguments)]
        found = list(differing(chosen))
        print(f"{section}: {len(chosen) - len(found)} of {len(chosen)} equal")
        for call, ours, theirs in found:
            print(f"    {call}    {DIFFERENT.get(call, 'UNEXPLAINED')}")
            if arguments:
                print(f"        ours  {ours}\n        JAX's {theirs}")
    for call in DIFFERENT:
        assert any(call in every for every in calls().values()), f"no such call: {call}"


if __name__ == "__main__":
    main(sys.argv[1:])
