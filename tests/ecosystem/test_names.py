"""How many of the names that real libraries use are here."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from minijax.core import Primitive
from tests.ecosystem.names import BORROWED, MISSING, OURS, REASONS, found, reason, report, table, whose

# Of JAX's names in 37 libraries, by how often they are used and by number: what is here, at least.
BY_USES, BY_NUMBER = 0.98, 0.95


def test_the_share_of_names_that_real_libraries_use() -> None:
    rows = table()
    assert len(rows) == 979 and len({row.name for row in rows}) == len(rows)
    kinds, by_number, by_uses = report(rows)
    assert by_uses >= BY_USES, sorted((-row.uses, row.name) for row in rows if kinds[row.name] == MISSING)[:20]
    assert by_number >= BY_NUMBER
    missing = [row.name for row in rows if kinds[row.name] == MISSING]
    # each has a reason, and no reason is left of what is here by now
    assert {reason(name) for name in missing} == set(REASONS)
    assert not [row.name for row in rows if kinds[row.name] == BORROWED and not works(found(row.name))]


def works(value: Any) -> bool:
    """Whether what is borrowed can be called or bound, or is data: a module, a class, an object to be indexed."""
    return callable(value) or isinstance(value, (ModuleType, Primitive)) or hasattr(type(value), "__getitem__")


def test_whose_a_name_is() -> None:
    assert whose("jax.numpy.sin") == whose("jax.lax") == whose("jax.tree_util.tree_map") == OURS
    assert whose("jax.numpy.no_such_name") == whose("jax.no_such_module") == MISSING
    assert whose("jax.scipy.special.hyp2f1") == BORROWED
