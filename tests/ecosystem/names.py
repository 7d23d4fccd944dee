"""How much of what real libraries use of JAX is here: ``python -m tests.ecosystem.names [--missing]``.

``names.tsv`` lists the public names of jax 0.10.2 that 37 released packages use, how many of them use each, and how
often. A name is present if it can be had from minijax: ours, or borrowed from JAX. Of one that is missing ``REASONS``
says why.
"""

from __future__ import annotations

import argparse
import importlib
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

TABLE = Path(__file__).with_name("names.tsv")
# What the table is asked: whose a name is.
OURS, BORROWED, MISSING = "ours", "borrowed", "missing"


# Beginnings of names that are missing, room by room, and why.
REASONS: dict[str, str] = {
    "jax.experimental.colocated_python": "Python on the hosts beside accelerators, run by jaxlib's IFRT on arrays over "
    "several devices; minijax runs programs through PJRT, and a callback runs Python",
    "jax.experimental.hijax": "types of a user's own in jaxprs, unstable in JAX itself; here a type is an array's or a "
    "reference's, and every interpreter's tables are written for these",
    "jax.experimental.cur_qdd": "the state of hijax's mutable types",
    "jax.experimental.array_serialization": "checkpoints written through tensorstore, without which JAX's own module "
    "cannot be imported either",
    "jax.interpreters.ad.jvp": "since 0.10 takes trees of a class that is private to JAX; minijax.jvp is there",
    "jax.interpreters.ad.linearize": "since 0.10 takes trees of a class that is private to JAX; minijax.linearize is",
    "jax.interpreters.mlir._call_lowering": "private to JAX; mlir.core_call_lowering is here",
    "jax.interpreters.mlir.emit_python_callback": "writes a callback into JAX's own module of MLIR, with its tokens; "
    "pure_callback in a function that mlir.lower_fun lowers is what a rule's author has here",
    "jax.config.config_with_absl": "makes flags of absl of the settings, and absl is no dependency; "
    "config.update and the environment set them",
    "jax.interpreters.pxla": "JAX's run time of divided programs, deprecated since 0.8",
    "jax.nn.softplus.def_inverse_unary": "not in JAX 0.10.2: its function has no such attribute",
    "jax.scipy.special.expit.def_inverse_unary": "not in JAX 0.10.2, likewise",
    "jax.scipy.special.logit.def_inverse_unary": "not in JAX 0.10.2, likewise",
}


class Name(NamedTuple):
    """A row of the table: a name of JAX's, how many libraries use it, and how often."""

    name: str
    libraries: int
    uses: int


def table() -> list[Name]:
    rows = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    return [Name(name, int(libraries), int(uses)) for name, libraries, uses in rows]


def found(name: str) -> Any:
    """What minijax has for JAX's ``name``.

    Raises:
      AttributeError: it has nothing.
    """
    first, *parts = name.split(".")
    assert first == "jax", name
    path, value = "minijax", importlib.import_module("minijax")
    for part in parts:
        path = f"{path}.{part}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of JAX, about what is borrowed
                value = getattr(value, part)
        except AttributeError:
            try:
                value = importlib.import_module(path)
            except ModuleNotFoundError:
                raise AttributeError(f"minijax has no {path}") from None
    return value


def whose(name: str) -> str:
    """``ours``, ``borrowed`` or ``missing``."""
    try:
        value = found(name)
    except AttributeError:
        return MISSING
    origin = getattr(value, "__module__", None) or type(value).__module__
    is_theirs = getattr(value, "borrowed_from", "") or origin.partition(".")[0] in ("jax", "jaxlib")
    return BORROWED if is_theirs else OURS


def report(names: Iterable[Name]) -> tuple[dict[str, str], float, float]:
    """Whose each name is, and the shares that are present: of the names, and of their uses."""
    names = list(names)
    kinds = {row.name: whose(row.name) for row in names}
    here = [row for row in names if kinds[row.name] != MISSING]
    return kinds, len(here) / len(names), sum(row.uses for row in here) / sum(row.uses for row in names)


def reason(name: str) -> str:
    """Why a name is missing: the beginning in ``REASONS`` that it has.

    Raises:
      StopIteration: nobody said why.
    """
    return next(each for each in REASONS if name.startswith(each))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--missing", action="store_true", help="list what is missing, most used first")
    wanted = parser.parse_args()
    rows = table()
    kinds, by_number, by_uses = report(rows)
    count = Counter(kinds.values())
    uses = Counter[str]()
    for row in rows:
        uses[kinds[row.name]] += row.uses
    for kind in (OURS, BORROWED, MISSING):
        print(f"{kind:9}{count[kind]:5} names {uses[kind]:7} uses")
    print(f"present: {by_number:.1%} of {len(rows)} names, {by_uses:.1%} by uses")
    if wanted.missing:
        rooms: dict[str, list[Name]] = {}
        for row in sorted(rows, key=lambda row: -row.uses):
            if kinds[row.name] == MISSING:
                rooms.setdefault(reason(row.name), []).append(row)
        for room, missing in rooms.items():
            print(f"{room}: {REASONS[room]}")
            for row in missing:
                print(f"{row.uses:6} uses {row.libraries:3} libraries  {row.name}")


if __name__ == "__main__":
    main()
