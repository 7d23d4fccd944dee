"""How many of the JAX names that real libraries use are in minijax.

``names.tsv`` lists the public names of jax 0.10.2 that 37 released packages use, with the number of packages and of
uses. A name is present if minijax defines it or borrows it from JAX. ``REASONS`` says why the others are missing.
"""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

from minijax.core import Primitive

ROWS = [
    line.split("\t")
    for line in Path(__file__).with_name("names.tsv").read_text(encoding="utf-8").splitlines()
    if line[:1] != "#"
]
OURS, BORROWED, MISSING = "ours", "borrowed", "missing"

# The least share of these names that minijax must have: with each name weighted by its uses, and without weights.
BY_USES, BY_NUMBER = 0.98, 0.95

# Prefixes of missing names, and why they are missing.
REASONS: dict[str, str] = {
    "jax.experimental.colocated_python": "runs Python on the hosts of accelerators through jaxlib's IFRT; minijax runs "
    "programs through PJRT, and has callbacks to run Python",
    "jax.experimental.hijax": "user-defined types in jaxprs, unstable in JAX itself; minijax has only types of arrays "
    "and references, and the tables of all interpreters are written for these",
    "jax.experimental.cur_qdd": "the state of hijax's mutable types",
    "jax.experimental.array_serialization": "checkpoints written through tensorstore, without which JAX's own module "
    "cannot be imported either",
    "jax.interpreters.ad.jvp": "since 0.10 it takes trees of a class private to JAX; use minijax.jvp",
    "jax.interpreters.ad.linearize": "since 0.10 it takes trees of a class private to JAX; use minijax.linearize",
    "jax.interpreters.mlir._call_lowering": "private to JAX; use mlir.core_call_lowering",
    "jax.interpreters.mlir.emit_python_callback": "writes a callback, with its tokens, into JAX's own MLIR module; "
    "use pure_callback in a function that mlir.lower_fun lowers",
    "jax.config.config_with_absl": "turns the settings into flags of absl, which minijax does not depend on; "
    "config.update and the environment set them",
    "jax.interpreters.pxla": "JAX's run time for partitioned programs, deprecated since 0.8",
    "jax.nn.softplus.def_inverse_unary": "not in JAX 0.10.2: its function has no such attribute",
    "jax.scipy.special.expit.def_inverse_unary": "not in JAX 0.10.2, likewise",
    "jax.scipy.special.logit.def_inverse_unary": "not in JAX 0.10.2, likewise",
}


def found(name: str) -> Any:
    """minijax's object for the JAX name ``name``.

    Raises:
      AttributeError: minijax has none.
    """
    first, *parts = name.split(".")
    assert first == "jax", name
    path, value = "minijax", importlib.import_module("minijax")
    for part in parts:
        path = f"{path}.{part}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # borrowed names raise JAX's warnings
                value = getattr(value, part)
        except AttributeError:
            try:
                value = importlib.import_module(path)
            except ModuleNotFoundError:
                raise AttributeError(f"minijax has no {path}") from None
    return value


def whose(name: str) -> str:
    """Whose object ``name`` is: ``ours``, ``borrowed`` or ``missing``."""
    try:
        value = found(name)
    except AttributeError:
        return MISSING
    origin = getattr(value, "__module__", None) or type(value).__module__
    is_theirs = getattr(value, "borrowed_from", "") or origin.partition(".")[0] in ("jax", "jaxlib")
    return BORROWED if is_theirs else OURS


def works(value: Any) -> bool:
    """Whether a borrowed object is usable: a function, a primitive, a module, a class, or an indexable object."""
    return callable(value) or isinstance(value, (ModuleType, Primitive)) or hasattr(type(value), "__getitem__")


def test_minijax_has_most_names_that_real_libraries_use() -> None:
    kinds = {name: whose(name) for name, _, _ in ROWS}
    uses = {name: int(number) for name, _, number in ROWS}
    assert len(ROWS) == len(kinds) == 979
    missing = [name for name, kind in kinds.items() if kind == MISSING]
    assert sum(uses[name] for name in missing) <= (1 - BY_USES) * sum(uses.values()), missing[:20]
    assert len(missing) <= (1 - BY_NUMBER) * len(ROWS)
    # each missing name has a reason, and each reason has a missing name
    assert {next((each for each in REASONS if name.startswith(each)), name) for name in missing} == set(REASONS)
    assert not [name for name, kind in kinds.items() if kind == BORROWED and not works(found(name))]


def test_names_are_ours_borrowed_or_missing() -> None:
    assert whose("jax.numpy.sin") == whose("jax.lax") == whose("jax.tree_util.tree_map") == OURS
    assert whose("jax.numpy.no_such_name") == whose("jax.no_such_module") == MISSING
    assert whose("jax.scipy.special.hyp2f1") == BORROWED
