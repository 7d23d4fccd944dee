"""Why a sharded program communicates: what in the source caused each collective, in one line of text.

The cause is found from the compiled program's instructions, and the equations that each instruction belongs to. An
equation that is a collective, or the transpose of one, is a cause itself. Otherwise XLA's partitioner inserted the
collective, because an operand's sharding does not fit the operation, or a result's sharding does not fit the equations
that read it. If the program does not show the cause, the text does not guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from minijax.core.names import transposed_from
from minijax.errors import position
from minijax.interpreters.named_axes import axis_users
from minijax.ir.jaxpr import JaxprEqn, Literal, Var, subjaxprs
from minijax.ops.nary import elementwise_primitives
from minijax.tools.programs import hlo
from minijax.tools.recording.sources import expression
from minijax.tools.values.meetings import written

# Primitive that communicates -> the HLO collective that it becomes.
_ASKED = {
    "psum": "all-reduce",
    "psum_invariant": "all-reduce",
    "unreduced_psum": "all-reduce",
    "pmax": "all-reduce",
    "pmin": "all-reduce",
    "all_gather": "all-gather",
    "all_gather_invariant": "all-gather",
    "all_gather_reduced": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "unreduced_reduce_scatter": "reduce-scatter",
    "all_to_all": "all-to-all",
    "ppermute": "collective-permute",
    "pbroadcast": "collective-broadcast",
}
# API function -> the function that it calls.
_BY_WAY = {"pmean": "psum", "pshuffle": "ppermute", "pswapaxes": "all_to_all"}
# Primitive that sets a sharding -> its API function.
_PLACING = {"sharding_constraint": "with_sharding_constraint", "reshard": "reshard"}
_CONTRACTIONS = ("dot_general", "conv_general_dilated")
_LOOPS = ("scan", "while")
# Instructions that only move data. They do not show where an equation is computed.
_REARRANGING = {
    *("bitcast", "broadcast", "concatenate", "constant", "convert", "copy", "dynamic-slice", "dynamic-update-slice"),
    *("get-tuple-element", "iota", "pad", "parameter", "partition-id", "reshape", "select", "slice", "transpose"),
    *("tuple", "while", "conditional", *hlo.HOLDING),
}


class Uses:
    """Finds the equations that read the results of an equation. It also looks inside calls of ``jit``."""

    def __init__(self, eqns: Sequence[JaxprEqn], results: Iterable[Any]) -> None:
        self.readers: dict[Var, list[JaxprEqn]] = {}
        # operand of a call -> the variable inside the body; result inside the body -> the result of the call
        self.also: dict[Var, list[Var]] = {}
        self.results = {v: i for i, v in enumerate(results) if isinstance(v, Var)}
        for eqn in eqns:
            if eqn.primitive.name == "jit":
                (body,) = subjaxprs(eqn.params)
                pairs = [*zip(eqn.invars, body.invars, strict=True), *zip(body.outvars, eqn.outvars, strict=True)]
                for outer, inner in pairs:
                    if isinstance(outer, Var):
                        self.also.setdefault(outer, []).append(inner)
                continue
            for v in eqn.invars:
                if type(v) is not Literal:
                    self.readers.setdefault(v, []).append(eqn)

    def of(self, eqn: JaxprEqn) -> tuple[list[JaxprEqn], list[int]]:
        """The equations that read results of ``eqn``; and the indices of those results that the program returns."""
        todo, seen = [*eqn.outvars], set(eqn.outvars)
        readers: list[JaxprEqn] = []
        numbers: list[int] = []
        while todo:
            v = todo.pop()
            readers += [each for each in self.readers.get(v, ()) if each not in readers]
            if v in self.results:
                numbers.append(self.results[v])
            more = [each for each in self.also.get(v, ()) if each not in seen]
            seen.update(more)
            todo += more
        return readers, numbers


class Reasons:
    """The reasons for the collectives of one program.

    ``links``: for each line of the program, the numbers of its equations. ``eqns``: the equations, numbered from 1.
    ``results``: the program's results. ``outs``: the sharding requested for each result (None: XLA chooses).
    """

    def __init__(
        self,
        instructions: Mapping[int, hlo.Instruction],
        links: Sequence[Sequence[int]],
        eqns: Sequence[JaxprEqn],
        results: Sequence[Any],
        outs: Sequence[Any],
    ) -> None:
        self.instructions = instructions
        self.links = links
        self.eqns = eqns
        self.outs = outs
        self.uses = Uses(eqns, results)
        # equation -> the equation that contains it
        self.around = {each: eqn for eqn in eqns for body in subjaxprs(eqn.params) for each in body.eqns}
        # equations that ``checkpoint`` computes again in the backward pass
        self.recomputed: set[JaxprEqn] = set()
        for eqn in eqns:
            if eqn.primitive.name == "remat2" and eqn.params["differentiated"]:
                self.recomputed.update(_inside(eqn))
        self.named = {(each.computation, each.name): i for i, each in instructions.items()}
        self.callers: dict[str, list[int]] = {}
        self.users: dict[int, list[int]] = {}
        for i, each in instructions.items():
            for called in each.called:
                self.callers.setdefault(called, []).append(i)
            for name in each.operands:
                if (each.computation, name) in self.named:
                    self.users.setdefault(self.named[each.computation, name], []).append(i)

    def of(self, at: int, kind: str, axes: tuple[str, ...]) -> str:
        """Why the collective on line ``at`` exists. ``axes``: its mesh axes; () if its device groups match none."""
        along = f" along {' and '.join(axes)}" if axes else ""
        numbers = self.links[at]
        if not numbers:
            return "a result or an argument gets another sharding" + along
        eqns = [self.eqns[number - 1] for number in numbers]
        found = [*dict.fromkeys(self._of_equation(at, kind, axes, along, eqn) for eqn in eqns)]
        return found[0] if len(found) == 1 else "merged by XLA: " + "; ".join(found)

    def _of_equation(self, at: int, kind: str, axes: tuple[str, ...], along: str, eqn: JaxprEqn) -> str:
        primitive = eqn.primitive.name
        chain = transposed_from(self._source(eqn))
        if _ASKED.get(primitive) == kind and set(axes) <= {*map(str, axis_users[eqn.primitive](eqn.params))}:
            again = not chain and eqn in self.recomputed
            return _asked(eqn, self._source(eqn), along) + ", computed again under checkpoint" * again
        reason = self._of_partitioner(at, kind, along, eqn)
        return f"{reason} (transpose of {_transposed(chain)})" if chain else reason

    def _source(self, eqn: JaxprEqn) -> Any:
        """The source of an equation. If it has none, the source of the nearest equation around it that has a source."""
        at: JaxprEqn | None = eqn
        while at is not None and at.source is None:
            at = self.around.get(at)
        return None if at is None else at.source

    def _of_partitioner(self, at: int, kind: str, along: str, eqn: JaxprEqn) -> str:
        """Why XLA's partitioner communicates for an equation that is no collective itself."""
        name = eqn.primitive.name
        if kind == "all-reduce":
            if name in _CONTRACTIONS:
                return f"the summed dimension is divided{along}: each device has a part of every sum"
            if name.startswith(("reduce_", "scatter")) and name != "reduce_precision":
                return f"an operand of {name} is divided{along}"
            return f"each device has a part of the result of {name}{along}: XLA sums the parts"
        if kind == "reduce-scatter":
            return f"a sum over devices{along}: each device keeps its part of the sum"
        if name in _PLACING:
            return f"{_PLACING[name]} changes the sharding"
        side = self._side(at, eqn)
        single = eqn.primitive in elementwise_primitives and _arrays(eqn) == 1
        if side == "after" or single:
            return self._wanted(eqn, along)
        if name in _LOOPS:
            return f"an operand or carry of {name} has another sharding inside the loop"
        if eqn.primitive in elementwise_primitives:
            return f"the operands of {name} have different shardings, or its result has another one"
        if side != "before" and self._placed(eqn):
            return f"an operand of {name}, or its result, needs another sharding{along}"
        if kind == "all-gather":
            return f"all of an operand, which is divided{along}, is needed on each device"
        if kind == "all-to-all":
            return f"{name} needs a whole dimension that is divided{along}: XLA divides another dimension"
        return f"parts of the operands and of the result of {name} are on different devices"

    def _placed(self, eqn: JaxprEqn) -> str:
        """A text that says what sets the sharding of the result of ``eqn``; '' if nothing does."""
        readers, results = self.uses.of(eqn)
        for each in readers:
            if each.primitive.name in _PLACING:
                return f"{_PLACING[each.primitive.name]}{_line(each)} requires"
        given = any(i < len(self.outs) and self.outs[i] is not None for i in results)
        return "out_shardings, or the type of the program's result, requires" if given else ""

    def _wanted(self, eqn: JaxprEqn, along: str) -> str:
        """The reason for a collective after a result that is sharded in another way than its readers need."""
        user = self._placed(eqn)
        if not user:
            readers, _ = self.uses.of(eqn)
            names = dict.fromkeys([each.primitive.name + _line(each) for each in readers])
            user = f"{next(iter(names))} requires" if len(names) == 1 else "its users require"
        return f"the result of {eqn.primitive.name} is sharded differently{along} than {user}"

    def _side(self, at: int, eqn: JaxprEqn) -> str:
        """Whether the collective on line ``at`` runs 'before' or 'after' the equation's computation; '' if unclear."""
        computing = self._computing(self.instructions[at].computation, eqn)
        after = not computing.isdisjoint(self._reached(at, self._operands))
        before = not computing.isdisjoint(self._reached(at, lambda i: self.users.get(i, ())))
        return "" if after == before else "after" if after else "before"

    def _operands(self, i: int) -> Iterator[int]:
        each = self.instructions[i]
        for name in each.operands:
            if (each.computation, name) in self.named:
                yield self.named[each.computation, name]

    def _reached(self, at: int, steps: Any) -> set[int]:
        seen: set[int] = set()
        todo = [at]
        while todo:
            for i in steps(todo.pop()):
                if i not in seen:
                    seen.add(i)
                    todo.append(i)
        return seen

    def _computing(self, computation: str, eqn: JaxprEqn) -> set[int]:
        """The instructions of ``computation`` that compute ``eqn``, or that contain such instructions."""
        found: set[int] = set()
        for i, each in self.instructions.items():
            if each.opcode in _REARRANGING or each.opcode.startswith(("all-", "collective-", "reduce-scatter")):
                continue
            if any(self.eqns[number - 1] is eqn for number in self.links[i]):
                found |= self._holders(i, computation)
        return found

    def _holders(self, i: int, computation: str) -> set[int]:
        """The instructions of ``computation`` that are instruction ``i``, or contain it at any depth."""
        found, seen = set(), {i}
        todo = [i]
        while todo:
            at = todo.pop()
            own = self.instructions[at].computation
            if own == computation:
                found.add(at)
                continue
            more = [each for each in self.callers.get(own, ()) if each not in seen]
            seen.update(more)
            todo += more
        return found


def _asked(eqn: JaxprEqn, source: Any, along: str) -> str:
    """The reason for a collective that an equation asks for."""
    name, chain = eqn.primitive.name, transposed_from(source)
    if source is None:
        return f"{name} of the jaxpr, whose source line is unknown"
    if not chain:
        user = _called(source)
        asked = user if _BY_WAY.get(user) == written(name) else written(name)
        return f"{asked} asks for it" + (f" ({name} in the jaxpr)" if name != asked else "")
    if chain[-1] == "pvary":
        return f"transpose of pvary: all devices use the same value{along}, and the cotangents of devices are summed"
    if chain[-1] == "shard_map":
        return f"transpose of shard_map: its spec does not divide an input{along}, so cotangents of devices are summed"
    return f"transpose of {_transposed(chain)} ({name} in the jaxpr)"


def _transposed(chain: tuple[str, ...]) -> str:
    """The name of the transposed operation. If it was transposed twice: ``the transpose of psum_scatter``."""
    return "the transpose of " * (len(chain) - 1) + (written(chain[0]) or "a JAX operation")


def _called(source: Any) -> str:
    """The name of the function called at ``source``, such as ``pmean`` for ``lax.pmean(x, "i")``; '' if none."""
    found = re.match(r"(?:\w+\.)*(\w+)\(", expression(*source[:2]))
    return "" if found is None else found[1]


def _line(eqn: JaxprEqn) -> str:
    """The source line of ``eqn`` as text, `` (L9)``; '' if unknown."""
    return "" if eqn.source is None else f" (L{position(eqn.source)[0]})"


def _inside(eqn: JaxprEqn) -> Iterator[JaxprEqn]:
    """The equations of the jaxprs inside ``eqn``, at any depth."""
    for body in subjaxprs(eqn.params):
        for each in body.eqns:
            yield each
            yield from _inside(each)


def _arrays(eqn: JaxprEqn) -> int:
    """The number of operands that have dimensions, so that they can be sharded."""
    return sum(1 for v in eqn.invars if v.aval.shape)
