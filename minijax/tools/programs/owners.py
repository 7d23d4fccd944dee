"""Which equations each instruction of an optimised program belongs to, and how that is known.

This is the only table of that: every view of compiled instructions asks it. XLA's metadata gives most answers. XLA
drops the metadata of some instructions that it rewrites: then the new program is compared with the program that XLA
received, and an instruction inherits the equations of the instructions that it replaced.
"""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from minijax.core.records import Frozen
from minijax.lowering.places import text_lines
from minijax.tools.programs import hlo

# How the equations of an instruction are known, as a note on its line. ``GIVEN``: by XLA's metadata.
GIVEN, INHERITED, GUESSED = "", "inherited from what it replaced", "guessed from the instructions that use it"
_CERTAINTY = (GIVEN, INHERITED, GUESSED)
# Notes on instructions without an equation.
COPIED, MADE = "copy made by XLA", "made by XLA, for an unknown line"
CONSTANT = "constant"
# opcode -> note, for instructions that do no work and belong to no equation.
_NO_WORK = {
    "parameter": "parameter",
    CONSTANT: CONSTANT,
    "copy": COPIED,
    "tuple": "tuple",
    "get-tuple-element": "element of a tuple",
    "bitcast": "view",
}
_COMMUTATIVE = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
# Opcodes that move data and compute nothing.
_MOVING = ("reverse", "transpose", "reshape", "broadcast", "slice", "dynamic-slice", "convert", "bitcast", CONSTANT)
_NUMBERED = r"parameter\((\d+)\)"
_INDEX = r"index=(\d+)"

Sets = dict[int, set[int]]


def least_certain(hows: Iterable[str]) -> str:
    """The least certain of several ways in which equations are known."""
    return max((how for how in hows if how in _CERTAINTY), key=_CERTAINTY.index, default=GIVEN)


class Owner(Frozen):
    """The equations of an instruction, and how they are known; without equations, ``how`` says why."""

    equations: tuple[int, ...]
    how: str


def owners(
    lines: Sequence[str],
    of_text_line: Callable[[int], Iterable[int]],
    outputs: Sequence[set[int]],
    given: str = "",
) -> dict[int, Owner]:
    """The owner of each instruction of the HLO program ``lines``, by line index.

    ``of_text_line`` gives the equations of a line of StableHLO, ``outputs`` the equations of each result. ``given`` is
    the program that XLA received; without it, nothing is inherited.
    """
    known = hlo.instructions(lines)
    own: Sets = {i: {n for at in text_lines(each.metadata) for n in of_text_line(at)} for i, each in known.items()}
    how = {i: GIVEN for i, found in own.items() if found}
    still = {i for i, each in known.items() if not own[i] and not _no_work(known, lines, i)}
    if given and any(known[i].opcode not in hlo.HOLDING for i in still):
        for i, (found, known_by) in _inherited(lines, known, given, of_text_line).items():
            if i in still and found:
                own[i], how[i] = found, known_by
    _gather(known, own, how)
    entry = next((i for i, line in enumerate(lines) if line.startswith("ENTRY ")), len(lines))
    root = next((i for i in known if i > entry and lines[i].startswith("  ROOT")), -1)
    for i in _guess(known, own, outputs, root, lines):
        how[i] = GUESSED
    _gather(known, own, how)
    return {i: Owner(tuple(sorted(own[i])), how[i] if own[i] else _no_work(known, lines, i) or MADE) for i in known}


def _no_work(known: Mapping[int, hlo.Instruction], lines: Sequence[str], i: int) -> str:
    """The note on an instruction that does no work; '' for one that works. A repeated constant is a constant."""
    if known[i].opcode == "broadcast" and known[i].operands[0].startswith(CONSTANT):
        return CONSTANT
    return _NO_WORK.get(known[i].opcode, "")


def _gather(known: Mapping[int, hlo.Instruction], own: Sets, how: dict[int, str]) -> None:
    """Give a fusion, or a call of code that XLA outlined, the equations of all the instructions inside it.

    They are as certain as the least certain of them; guesses count only where nothing else is known."""
    inside: dict[str, list[int]] = defaultdict(list)
    for i, each in known.items():
        inside[each.computation].append(i)
    done: dict[str, list[int]] = {}

    def visit(computation: str) -> list[int]:
        if computation not in done:
            done[computation] = members = inside[computation]
            for i in members:
                if known[i].opcode in hlo.HOLDING:
                    within = [j for called in known[i].called for j in visit(called) if own[j]]
                    sure = [j for j in within if how[j] != GUESSED] or within
                    if sure and how.get(i) in (None, GUESSED):
                        own[i], how[i] = set(), GIVEN
                    if sure:
                        own[i] |= set().union(*(own[j] for j in sure))
                        how[i] = least_certain([how[i], *(how[j] for j in sure)])
        return done[computation]

    for computation in list(inside):
        visit(computation)


# ---------------------------------------------------------------------------------------------------- inheritance


class _Value(Frozen):
    """What some instructions compute: their opcode and type, the numbers of their operands' values, and their lines."""

    opcode: str
    kind: str
    operands: tuple[int, ...]
    members: list[int]


class _Values:
    """The values that a program computes, each with a number. Equal expressions have equal numbers, also in different
    programs that share ``numbers``. Calls and fusions are looked into; copies are left out."""

    def __init__(self, lines: Sequence[str], known: Mapping[int, hlo.Instruction], numbers: dict[object, int]) -> None:
        self.known = known
        self.of: dict[int, _Value] = {}
        self.roots: dict[str, int] = {}
        self.parts: dict[int, tuple[int, ...]] = {}
        self._lines = lines
        self.numbers = numbers
        self._inside: dict[str, list[int]] = defaultdict(list)
        for i, each in known.items():
            self._inside[each.computation].append(i)
        called = {name for each in known.values() for name in each.called}
        for computation in [*self._inside]:
            if computation not in called:
                self._run(computation, None)
        self.by_name = {known[i].name: number for number, value in self.of.items() for i in value.members}

    def _run(self, computation: str, arguments: Sequence[int] | None) -> int:
        """The value of a computation's root. ``arguments`` are those of a call, None if the computation is a body."""
        if arguments is None and computation in self.roots:
            return self.roots[computation]
        found: dict[str, int] = {}
        root = -1
        for i in self._inside[computation]:
            each = self.known[i]
            operands = tuple([found[name] for name in each.operands if name in found])
            if each.opcode in hlo.HOLDING and each.called:
                number = self._run(each.called[0], operands)
            elif each.opcode == "parameter" and arguments is not None:
                number = arguments[int(re.search(_NUMBERED, self._lines[i])[1])]  # type: ignore[index]
            elif each.opcode == "copy":
                number = operands[0]
            elif each.opcode == "get-tuple-element" and operands[0] in self.parts:
                number = self.parts[operands[0]][int(re.search(_INDEX, self._lines[i])[1])]  # type: ignore[index]
            else:
                bodies = tuple([self._run(name, None) for name in each.called])
                number, kind = self._number(i, operands, bodies)
                self.of.setdefault(number, _Value(each.opcode, kind, operands, [])).members.append(i)
                if each.opcode == "tuple":
                    self.parts[number] = operands
            found[each.name] = number
            if self._lines[i].lstrip().startswith("ROOT"):
                root = number
        if arguments is None:
            self.roots[computation] = root
        return root

    def _number(self, i: int, operands: tuple[int, ...], bodies: tuple[int, ...]) -> tuple[int, str]:
        """The number of an expression: its opcode, type without layout, attributes and operands. Also its type."""
        each = self.known[i]
        said = re.sub(r"\{[\d,:TSE()]*\}", "", hlo.folded_line(self._lines[i]).partition(" = ")[2])
        kind, _, rest = said.partition(f" {each.opcode}(")
        inside, _, attributes = rest.partition(")")
        if each.operands:
            inside = ""
        for name in each.called:
            attributes = attributes.replace("%" + name, "")
        place = each.computation if each.opcode == "parameter" else ""
        key = (each.opcode, kind, inside, attributes, place, operands, bodies)
        # dimensions of size 1 come and go
        return self.numbers.setdefault(key, len(self.numbers)), re.sub(r"\b1,|,1\b|\[1\]", "", kind)


@functools.lru_cache(maxsize=1)
def _received(given: str) -> _Values:
    """The values of the program that XLA received: several stages of its optimisation are compared with it."""
    lines = given.split("\n")
    return _Values(lines, hlo.instructions(lines), {})


def _inherited(
    lines: Sequence[str],
    known: Mapping[int, hlo.Instruction],
    given: str,
    of_text_line: Callable[[int], Iterable[int]],
) -> dict[int, tuple[set[int], str]]:
    """The equations of instructions that replaced others, by line index, and how they are known."""
    old = _received(given)
    first, new = old.known, _Values(lines, known, old.numbers)
    made: Sets = {
        number: {n for i in value.members for at in text_lines(first[i].metadata) for n in of_text_line(at)}
        for number, value in old.of.items()
    }
    given_to: Sets = {
        number: {n for i in value.members for at in text_lines(known[i].metadata) for n in of_text_line(at)}
        for number, value in new.of.items()
    }
    replaced = _Replaced(old, new, made, given_to)
    # the equations of a new value by an old value that is like it, and those of all that it may stand for
    sure: dict[int, list[set[int]]] = defaultdict(list)
    likely: dict[int, list[set[int]]] = defaultdict(list)
    for number in new.of:
        if made.get(number):
            sure[number].append(made[number])
    for top in reversed(new.of):  # users come before their operands
        if top in old.of or not replaced.olds(top):
            continue
        region, parts = replaced.region(top)
        lost = replaced.closure(region)
        alike = {
            n: {
                one
                for one in lost
                if old.of[one].opcode == new.of[n].opcode and (one in region or old.of[one].kind == new.of[n].kind)
            }
            for n in parts
        }
        taken = set().union(*alike.values())
        computing = {one for one in region - taken if old.of[one].opcode not in _MOVING}
        count = Counter(new.of[n].opcode for n in parts)
        for n in parts:
            if alike[n] and count[new.of[n].opcode] <= len(alike[n]):
                sure[n] += [made[one] for one in alike[n]]
            else:
                likely[n] += [made[one] for one in alike[n] | (computing or region)]
    found: dict[int, tuple[set[int], str]] = {}
    for number, value in new.of.items():
        sets = sure.get(number) or likely.get(number) or [set()]
        certain = number in sure or all(each == sets[0] for each in sets)
        found.update(dict.fromkeys(value.members, (set().union(*sets), INHERITED if certain else GUESSED)))
    return found


class _Replaced:
    """``of``: number of a new value -> the old values that it replaced. ``anchors``: number of a new value -> the old
    value of the same instruction, whose operands have changed."""

    def __init__(self, old: _Values, new: _Values, made: Sets, given_to: Sets) -> None:
        self.old, self.new, self.made, self.given_to = old, new, made, given_to
        first, known = old.known, new.known
        self.of: Sets = defaultdict(set)
        self.anchors: dict[int, int] = {}
        by_note: dict[tuple[str, str, str], set[int]] = defaultdict(set)
        for number, value in old.of.items():
            for i in value.members:
                by_note[first[i].metadata, value.opcode, value.kind].add(number)
        for number, value in new.of.items():
            if number in old.of:
                continue
            for i in value.members:
                each = known[i]
                same = old.by_name.get(each.name)
                alike = by_note.get((each.metadata, value.opcode, value.kind), ()) if each.metadata else ()
                # XLA gives names again
                notes = {first[j].metadata for j in old.of[same].members} if same is not None else set()
                if same is None or old.of[same].opcode != value.opcode or each.metadata not in notes:
                    same = next(iter(alike)) if len(alike) == 1 else None
                if same is not None:
                    self.anchors[number] = same
        todo = [(a, b) for b, a in self.anchors.items()]
        roots = [(old.roots[name], root) for name, root in new.roots.items() if name in old.roots]
        for a, b in roots:
            if b not in old.of and b not in self.anchors:
                self.of[b].add(a)
        todo += roots
        sure, seen, removed = {*todo}, set(), set()
        while todo:
            pair = todo.pop()
            if pair in seen:
                continue
            seen.add(pair)
            for a, b in self._operands(*pair):
                # where one product replaced another, for example, their operands may be different values
                ours, theirs = old.of[a], new.of[b]
                same_kind = (ours.opcode, ours.kind) == (theirs.opcode, theirs.kind)
                differ = old.of[pair[0]].opcode != new.of[pair[1]].opcode
                if a == b or not (pair in sure or differ or same_kind):
                    continue
                if b in old.of:
                    removed.add(a)
                else:
                    if self.anchors.get(b) != a:
                        self.of[b].add(a)
                    todo.append((a, b))
        kept = {*new.of, *self.anchors.values(), *removed, *(number for olds in self.of.values() for number in olds)}
        noted = set().union(*(given_to[number] for number, value in new.of.items() if value.opcode not in _MOVING))
        # line of StableHLO -> its old values
        self._of_line: Sets = defaultdict(set)
        # old values without a known replacement, and those of them whose equations no new instruction computes
        self._lost = {*old.of} - kept
        self._gone = {number for number in self._lost if not made[number] <= noted}
        for number, value in old.of.items():
            for i in value.members:
                for at in text_lines(first[i].metadata):
                    self._of_line[at].add(number)

    def _operands(self, before: int, after: int) -> Iterable[tuple[int, int]]:
        """Pairs of operands of an old and a new instruction of the same kind."""
        a, b = self.old.of[before], self.new.of[after]
        theirs = b.operands
        if len(a.operands) != len(theirs):
            return ()
        if a.opcode != b.opcode:
            pairs = zip(a.operands, theirs, strict=True)
            return [(x, y) for x, y in pairs if self.old.of[x].kind == self.new.of[y].kind]
        if a.opcode in _COMMUTATIVE and self._fit(a.operands, theirs[::-1]) > self._fit(a.operands, theirs):
            theirs = theirs[::-1]
        return zip(a.operands, theirs, strict=True)

    def _fit(self, ours: Iterable[int], theirs: Iterable[int]) -> int:
        fits = 0
        for a, b in zip(ours, theirs, strict=True):
            fits += 3 * (a == b or self.anchors.get(b) == a) + (self.old.of[a].opcode == self.new.of[b].opcode)
        return fits

    def olds(self, number: int) -> set[int]:
        """The old values that a new value stands for, or whose line it has."""
        if number in self.of or number in self.anchors:
            return self.of.get(number) or {self.anchors[number]}
        lines = [at for i in self.new.of[number].members for at in text_lines(self.new.known[i].metadata)]
        return {each for at in lines for each in self._of_line.get(at, ())}

    def region(self, top: int) -> tuple[set[int], list[int]]:
        """The old values that a new value stands for, with those that were computed only for them; and the new values
        without metadata that stand for these: ``top`` if it replaced another, and its operands down to known values."""
        olds = self.olds(top)
        opcodes = {self.old.of[each].opcode for each in self.closure(olds)}
        # types of which only one value is gone
        kinds = Counter(
            self.old.of[each].kind for each in self.closure(olds) - olds if self.old.of[each].opcode not in _MOVING
        )
        below = self._below(top)
        region, todo = {*olds}, [*olds]
        while todo:
            for each in self.old.of[todo.pop()].operands:
                if each not in self._lost or each in region:
                    continue
                value = self.old.of[each]
                fitting = [n for n in below if n != top and n not in self.of and self.new.of[n].kind == value.kind]
                other = [n for n in fitting if self.new.of[n].opcode not in opcodes.union(_MOVING)]
                if len(other) == 1 and kinds[value.kind] == 1:
                    self.of[other[0]].add(each)
                    self._lost.discard(each)
                    self._gone.discard(each)
                elif each in self._gone:
                    region.add(each)
                    todo.append(each)
        return region, [n for n in self._below(top) if n != top or n in self.of]

    def closure(self, olds: Iterable[int]) -> set[int]:
        """Old values, the values that they are computed from and that are gone, and what a moved value was made of."""
        found = {*olds}
        todo = [*found]
        while todo:
            number = todo.pop()
            moving = self.old.of[number].opcode in _MOVING
            for each in self.old.of[number].operands:
                if each not in found and (each in self._lost or moving):
                    found.add(each)
                    todo += [each] * (each in self._lost)
        return found

    def _below(self, top: int) -> list[int]:
        """``top`` and the new values that it is computed from and of which nothing else is known."""
        found, todo, seen = [top], [*self.new.of[top].operands], {top}
        own = self.given_to[top].union(*(self.made[each] for each in self.olds(top)))
        while todo:
            number = todo.pop()
            if any(number in each for each in (seen, self.old.of, self.of, self.anchors)):
                continue
            seen.add(number)
            if not self.given_to[number] <= own:
                continue
            if not self.given_to[number]:
                found.append(number)
            todo += self.new.of[number].operands
        return found


# -------------------------------------------------------------------------------------------------------- guesses


def _guess(
    known: Mapping[int, hlo.Instruction], own: Sets, outputs: Sequence[set[int]], root: int, lines: Sequence[str]
) -> list[int]:
    """Give instructions without equations those of their users, and of the program results they compute.

    ``root`` is the index of the instruction that returns the program's results. Returns the indices of guesses."""
    results: dict[int, set[int]] = defaultdict(set)
    if root >= 0:
        last = known[root]
        if last.opcode == "tuple" and len(last.operands) == len(outputs):
            named = {each.name: i for i, each in known.items() if each.computation == last.computation}
            for name, numbers in zip(last.operands, outputs, strict=True):
                results[named.get(name, -1)] |= numbers
        elif len(outputs) == 1:
            results[root] |= outputs[0]
    users: dict[tuple[str, str], list[int]] = defaultdict(list)
    callers: dict[str, list[int]] = defaultdict(list)
    for i, each in known.items():
        for name in each.operands:
            users[each.computation, name].append(i)
        for called in each.called:
            callers[called].append(i)
    wanted = [i for i in reversed([*known]) if not own[i] and not _no_work(known, lines, i)]
    for i in wanted:  # users come after their operands
        todo, seen = [i], {i}
        while todo:
            index = todo.pop()
            own[i] |= results.get(index, set())
            for user in users[known[index].computation, known[index].name]:
                if own[user]:
                    own[i] |= own[user]
                elif user not in seen:
                    seen.add(user)
                    todo.append(user)
    for i in wanted:  # callers come after the computations they call
        if not own[i]:
            own[i] = set().union(*(own[caller] for caller in callers[known[i].computation]))
    return [i for i in wanted if own[i]]
