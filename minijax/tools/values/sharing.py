"""Values that share a tangent: after ``err = y - 1.0``, one sum collects the cotangents of both ``err`` and ``y``.

Only the operations that use ``err`` or ``y`` show which of the two has a cotangent of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minijax.ir.jaxpr import Var
from minijax.tools.recording.naming import MOST_PASSED
from minijax.tools.recording.records import BindRecord
from minijax.tools.recording.timeline import timeline
from minijax.tools.values.moment import Ledger

# number of a value -> the results of each operation that has it as an operand
Uses = Mapping[int, Sequence[tuple[int, ...]]]


def shared_with(known: Ledger, number: int) -> str:
    """The name of the value that shares the cotangent sum of value ``number``; '' if no other value shares it."""
    number = known.unbatched(number)
    # the answer never changes, and tables request it at every moment
    answers: dict[int, str] = known.__dict__.setdefault("_shared_with", {})
    if number not in answers:
        answers[number] = _shared_with(known, number)
    return answers[number]


def _shared_with(known: Ledger, number: int) -> str:
    naming = known.naming
    group = naming.sharing(number)
    if len(group) < 2:
        return ""
    uses, var, members = _uses(known), known.kept.variables.get(number), frozenset(group)
    derived = _derived(group, members, number, uses)
    others = [each for each in group if each not in derived]
    if uses is not None:
        used = [each for each in others if _used_elsewhere(each, members, uses)]
        # if a backward pass started here, it is unknown which of these values was the result
        others = used or ([each for each in others if naming.variable(each)] if var in _results(known) else [])
    names = (naming.variable(each) or naming.known(each) for each in others)
    return next(filter(None, names), "another value" if others else "")


def _derived(group: Sequence[int], members: frozenset[int], number: int, uses: Uses | None) -> set[int]:
    """Value ``number``, and the values in ``members`` that are computed from it: they share its cotangent."""
    out = {number}
    for each in group:
        if uses is not None and each in out:
            out.update(result for results in uses[each] for result in results if result in members)
    return out


def _used_elsewhere(number: int, members: frozenset[int], uses: Uses) -> bool:
    return any(members.isdisjoint(results) for results in uses[number])


def _uses(known: Ledger) -> Uses | None:
    """The uses of values that share their tangents; None if the recording is too long to look for them."""
    if known.recording.events > MOST_PASSED:
        return None
    found: Uses | None = known.__dict__.get("_shared_uses")
    if found is None:
        groups = [each for each in known.naming.duals.values() if len(each) > 1]
        uses: dict[int, list[tuple[int, ...]]] = {number: [] for each in groups for number in each}
        for node in timeline(known.recording).nodes:
            if type(node) is BindRecord:
                for number in node.operands:
                    if number in uses:
                        uses[number].append(node.results)
        found = known.__dict__["_shared_uses"] = uses
    return found


def _results(known: Ledger) -> set[Var]:
    """The variables of the results where backward passes started."""
    found: set[Var] | None = known.__dict__.get("_gone_back_from")
    if found is None:
        variables = known.kept.variables
        numbers = [record.primals[i] for record in known.recording.backward for i in record.outs if i >= 0]
        found = known.__dict__["_gone_back_from"] = {variables[n] for n in numbers if n in variables}
    return found
