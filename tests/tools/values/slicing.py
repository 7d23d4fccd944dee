"""Compare the slice of each recorded result with the jaxpr that dead-code elimination keeps for that result."""

import re
from collections import Counter

import minijax
from minijax.interpreters.partial_eval import dce_jaxpr
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.pytree import tree_leaves
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import BindRecord
from minijax.tools.values.origins import Origins


def recorded(found):
    """The primitives of the operations in a slice; for a call or loop, those of the operations inside it."""
    for use in found.uses:
        for each in use.innermost():
            yield each.primitive if isinstance(each, BindRecord) else each.primitive.name


def equations(jaxpr):
    """The primitives of a jaxpr's equations; for a call or loop, those of the equations inside it."""
    for eqn in jaxpr.eqns:
        params = [p if isinstance(p, tuple) else (p,) for p in eqn.params.values()]
        inner = [each.jaxpr for param in params for each in param if isinstance(each, ClosedJaxpr)]
        if inner and eqn.primitive.name not in ("reduce", "scatter-add"):
            for each in inner:
                yield from equations(each)
        else:
            yield eqn.primitive.name


def check_slices(fun, staged, args):
    """For each result of ``fun``, check that its slice has the arguments and operations that dead-code elimination
    keeps in the jaxpr of ``staged``. Return the number of results.
    """
    jaxpr = minijax.make_jaxpr(staged)(*args).jaxpr
    # with these equations DCE keeps more than the run used, such as branches not taken; a run records no uses of refs
    exact = not re.search(r"= (cond|while|custom_\w+)\[|<-", str(jaxpr))
    recorder = Recorder("full")
    with recorder:
        given = recorder.numbers(args)
        results = recorder.numbers(tree_leaves(fun(*args)))
    origins = Origins(recorder.recording)
    for number, result in enumerate(results):
        needed, used = dce_jaxpr(jaxpr, [i == number for i in range(len(results))])
        inputs, operations = {n for n, u in zip(given, used, strict=True) if u}, Counter(equations(needed))
        found = origins.slice([result])
        seen = Counter(recorded(found))
        assert not found.unknown and found.operations == seen.total() <= found.total
        reached = set(found.inputs) & set(given)
        if exact:
            assert seen == operations and reached == inputs
        else:
            assert reached <= inputs and (seen <= operations or "swap" in operations)
    return len(results)
