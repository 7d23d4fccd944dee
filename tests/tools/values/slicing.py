"""The slices of a recording's results beside what each result depends on in the jaxpr."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import minijax
from minijax.pytree import tree_leaves
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import BindRecord, Recording
from minijax.tools.values.origins import Origins
from tests.tools.values import dependence


def recorded(fun: Callable[..., Any], args: Sequence[Any]) -> tuple[Recording, list[int], list[int]]:
    """The recording, and the numbers of the arguments and of the results."""
    recorder = Recorder("full")
    with recorder:
        given = recorder.numbers(args)
        results = recorder.numbers(tree_leaves(fun(*args)))
    return recorder.recording, given, results


def innermost(found: Any) -> Counter[tuple[str, str]]:
    """The operations of a slice: how often each primitive of each line."""
    out: Counter[tuple[str, str]] = Counter()
    for use in found.uses:
        for each in use.innermost():
            if isinstance(each, BindRecord):
                out[each.primitive, each.place.rpartition("/")[2]] += 1
            else:
                out[each.primitive.name, dependence.line_of(each) or use.step.bind.place.rpartition("/")[2]] += 1
    return out


def check_slices(
    fun: Callable[..., Any], staged: Callable[..., Any], args: Sequence[Any], operations_too: bool = True
) -> int:
    """Each result of ``fun`` reaches the arguments that it depends on in the jaxpr of ``staged``, through all
    operations that it depends on, and no other; how many results there are.
    """
    expected = dependence.dependence(minijax.make_jaxpr(staged)(*args), list(args))
    recording, given, results = recorded(fun, args)
    origins = Origins(recording)
    for number, depends in zip(results, expected, strict=True):
        found = origins.slice([number])
        inputs, operations = dependence.counted(depends)
        assert not found.unknown
        assert {given.index(n) for n in found.inputs if n in given} == inputs
        if operations_too:
            assert innermost(found) == operations
            assert found.operations == operations.total() <= found.total
    return len(results)
