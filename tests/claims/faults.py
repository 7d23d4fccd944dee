"""Small faults put into minijax, one at a time: the audit must notice each.

A fault is noticed if claims become false that were not false without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from minijax.tools.explain import nan_view
from minijax.tools.trees import numbers
from minijax.tools.values import brief, table
from tests.claims.audit import claims_of


@dataclass(frozen=True)
class Fault:
    """``change(original)`` replaces ``name`` of ``owner``; ``command`` is asked about the programs ``seeds``."""

    said: str
    owner: Any
    name: str
    change: Callable[[Callable[..., Any]], Callable[..., Any]]
    command: str
    seeds: tuple[int, ...] = (14,)


def with_result(after: Callable[[Any], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return lambda original: lambda *args, **kwargs: after(original(*args, **kwargs))


def next_number(text: str) -> str:
    """The text with its first digit raised by one."""
    at = next((i for i, each in enumerate(text) if each.isdigit()), None)
    return text if at is None else text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :]


def swapped(lines: Any) -> Any:
    """'finite' for 'not finite', and the reverse."""
    first, *others = lines
    (role, text), *rest = first
    return iter([((role, "finite" if text.startswith("not") else "not finite"), *rest), *others])


def neighbours(rows: Any) -> Iterator[Any]:
    """Each value under the name of the value before it."""
    before = None
    for row in rows:
        yield row if before is None else row._replace(name=before)
        before = row.name


FAULTS = (
    Fault("the first digit of each element is one more", brief, "number_text", with_result(next_number), "values"),
    Fault("a value has its neighbour's name", table, "_named", with_result(neighbours), "values"),
    Fault("rows stand in reverse", table, "_named", with_result(lambda rows: list(rows)[::-1]), "values"),
    Fault("iteration one more", table, "loop_text", with_result(next_number), "values", (12,)),
    Fault("rows stand in another function", table, "_function", with_result(lambda _: "soft_fwd"), "values"),
    Fault("the verdict is inverted", nan_view, "_result_lines", with_result(swapped), "nan"),
    Fault("one element more is not finite", nan_view, "_count_text", with_result(next_number), "nan", (2, 5, 11)),
    Fault("a range begins with another digit", numbers.Numbers, "between", with_result(next_number), "tree"),
)


@contextmanager
def put_in(fault: Fault) -> Iterator[None]:
    original = getattr(fault.owner, fault.name)
    setattr(fault.owner, fault.name, fault.change(original))
    try:
        yield
    finally:
        setattr(fault.owner, fault.name, original)


def false_claims(fault: Fault) -> int:
    return sum(bool(claim.true) for seed in fault.seeds for claim in claims_of(seed, [fault.command])[0])


def noticed(fault: Fault) -> bool:
    without = false_claims(fault)
    with put_in(fault):
        return false_claims(fault) > without


def report() -> int:
    """Prints which faults are noticed; the exit status."""
    found = [(fault, noticed(fault)) for fault in FAULTS]
    for fault, seen in found:
        print(f"{'noticed' if seen else 'MISSED':<9}%{fault.command:<8}{fault.said}")
    return int(not all(seen for _, seen in found))
