"""The backward pass at a moment, drawn as the equations of the linear program, each below its user line. The pass runs
from the last equation up. Each variable is shown with the sum of its cotangents so far.

A cotangent is named after its forward value: ``ct of h``.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from minijax.core.records import NamedTuple
from minijax.tools.documents.document import MARK, Line, Segment, length, line, padded
from minijax.tools.documents.words import plural, shortened
from minijax.tools.recording.backward import brief, listed
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.naming import Naming, naming_of, own_name
from minijax.tools.recording.records import (
    BackwardRecord,
    CotangentRecord,
    PhaseRecord,
    Recording,
    TransposedRecord,
    place_parts,
)
from minijax.tools.recording.variables import legal
from minijax.tools.values.examples import Unknown
from minijax.tools.values.moment import LoopShown, Worth, ledger
from minijax.tools.values.table import loop_text

# The numbers of constants and of carried operands in a printed scan equation.
_COUNTS = re.compile(r"(num_consts|num_carry)=(\d+)")
# A variable's name, with the path to a leaf of it.
_PATH = re.compile(r"[^\W\d]\w*(\.\w+|\[[^][]*\])*")
# Maximum number of steps of a drawn backward pass. It is lower for loaded files, which list their equations on demand.
MOST_STEPS = 20_000
MOST_STEPS_LOADED = 4_000
# Maximum number of equations shown around the current one. Maximum number of characters of an equation with letters,
# of an equation with names, and of a name.
MOST_ROWS = 120
MOST_EQUATION = 22
MOST_WORDED = 36
MOST_NAME = 24
# Names up to this length are padded, so that values line up.
MOST_PADDED = 7
# Maximum number of contributions shown for one equation.
MOST_GIVEN = 12


class Standing(NamedTuple):
    """The state of a backward pass at a moment: the equation in progress or, if ``done``, the latest finished one (None
    before the first), and the number of finished equations.
    """

    step: TransposedRecord | None
    done: bool
    finished: int


class BackwardPass:
    """One backward pass of a linear program, with names.

    Attributes:
      recorded: the record of the pass; ``record`` is the same record with its equations listed.
      around: the backward pass whose transpose rule runs this one, and the step of that rule; None at the top.
      within: the latest backward pass of the same function that ran during the forward computation of this one. If
      there is one, this pass is the derivative of a derivative.
      worded: whether equations show the user's names instead of letters.
    """

    def __init__(self, record: BackwardRecord, recording: Recording) -> None:
        self.recorded = record
        self.recording = recording
        self.around: tuple[BackwardPass, TransposedRecord] | None = None
        self.within: BackwardPass | None = None
        self.worded = False
        # the lines drawn last, with the state that they show
        self.drawn: tuple[Any, list[Line]] | None = None

    @cached_property
    def record(self) -> BackwardRecord:
        """The record with its equations listed."""
        return listed(self.recorded, self.recording)

    @property
    def naming(self) -> Naming:
        """The names of the recorded values."""
        return naming_of(self.recording)

    @property
    def function(self) -> str:
        """The differentiated function: ``mlp``, or ``derivative of mlp`` for a derivative of a derivative."""
        own = self.recorded.name.partition(" at ")[0]
        return f"derivative of {self.within.function}" if self.within is not None else own

    @cached_property
    def expected(self) -> Counter[int]:
        """The final number of cotangents of each variable."""
        counts = self._seeds.copy()
        for step in self.recorded.steps:
            counts.update(part.variable for part in step.found)
        return counts

    @cached_property
    def failed(self) -> bool:
        """Whether a transpose rule raised: then the final numbers of cotangents are unknown."""
        return any(step.at < 0 for step in self.recorded.steps)

    # --- names

    @cached_property
    def names(self) -> dict[int, str]:
        """Variable -> the name of its forward value; variables without a name are left out."""
        record, naming = self.recorded, self.naming
        first = record.constants + record.inputs
        out: dict[int, str] = {}
        if self.around is not None:
            # forward values of a staged program are not user variables: name them after their lines
            for variable, here in self._last_of_lines():
                out[variable] = self._assigned(*here) or here[1]
        for variable, number in enumerate(record.primals):
            if variable < record.constants:
                found = naming.known(number)
            elif variable >= first and self.around:
                found = naming.variable(number)
            else:
                found = naming.together(number) or naming.known(number)
            if not found and record.constants <= variable < first:
                found = self._held_name(number)
            if found:
                out[variable] = found
        if self.around is not None:
            self._names_from_outside(out, *self.around)
        elif len(record.outs) == 1:
            out.setdefault(record.outs[0], "the result")
        return {variable: shortened(name, MOST_NAME) for variable, name in out.items()}

    def _last_of_lines(self) -> Iterator[tuple[int, tuple[str, str]]]:
        """For each expression, the variable of its last equation: the tangent of the expression's value."""
        record = self.record
        heres = list(zip(record.places, record.expressions, strict=True))
        # if a line appears again, the later equations may be its backward pass, whose values the line does not name
        finished = {here for here in heres if not here[1]}
        for index, equation in enumerate(record.equations):
            last = index + 1 == len(heres) or heres[index] != heres[index + 1]
            if last and heres[index] not in finished and len(equation.results) == 1 and equation.results[0] >= 0:
                yield equation.results[0], heres[index]
            if last:
                finished.add(heres[index])

    def _held_name(self, number: int) -> str:
        """An input's name where the program was called: the variable of the value inside the input's tracer."""
        naming = self.naming
        life = naming.lives.get(number)
        return naming.variable(life.tracer.holds[0]) if life is not None and life.tracer.holds else ""

    def _assigned(self, place: str, expression: str) -> str:
        """``h`` for the expression ``tanh(x)`` in the line ``h = tanh(x)``; '' if the line has no such assignment."""
        file, number, _ = place_parts(place)
        target, equals, value = (self.recording.source_line(file, number) or "").partition(" = ")
        value = value.partition("  #")[0].strip()
        return target.strip() if equals and " ".join(value.split()) == expression else ""

    def _names_from_outside(self, out: dict[int, str], outer: BackwardPass, step: TransposedRecord) -> None:
        """Name inputs after the operands that the equation of ``step`` in ``outer`` passes to them."""
        operands = outer.record.equations[step.equation].operands
        inputs = range(self.recorded.constants, self.recorded.constants + self.recorded.inputs)
        if len(operands) < len(inputs):
            return
        counts = dict(_COUNTS.findall(outer.record.equations[step.equation].text))
        consts, carry = int(counts.get("num_consts", 0)), int(counts.get("num_carry", 0))
        for i, (variable, operand) in enumerate(zip(inputs, operands[len(operands) - len(inputs) :], strict=True)):
            name = outer.names.get(operand)
            if counts and consts <= i < consts + carry:
                # name a carried value after the result of one iteration
                result = self.recorded.outs[i - consts] if i - consts < len(self.recorded.outs) else -1
                name = f"{out[result]} before" if result in out else None
            elif counts and i >= consts + carry and name is not None:
                name = f"{name}[i]"
            if name is not None:
                out.setdefault(variable, name)

    def letter(self, variable: int) -> str:
        """The name of the variable in equations."""
        if variable < 0:
            return "_"
        return self._words[variable] if self.worded else self._letters[variable]

    @cached_property
    def _letters(self) -> list[str]:
        """The letters of the printed program; a letter that is also the name of a value gets a prime."""
        taken = {*self.names.values(), *map(self.residual_name, range(self.recorded.constants))}
        return [f"{each.letter}'" if each.letter in taken else each.letter for each in self.record.variables]

    @cached_property
    def _words(self) -> list[str]:
        """Unique names: ``h_dot`` for the tangent of ``h``, ``h`` for a residual, the letter for nameless variables."""
        count: Counter[str] = Counter()
        out = []
        for variable, letter in enumerate(self._letters):
            held = variable < self.recorded.constants
            name = self.residual_name(variable) if held else self.names.get(variable, "").partition(" and ")[0]
            if not _PATH.fullmatch(name):
                out.append(letter)
                continue
            word = legal(name) + ("" if held else "_dot")
            out.append(f"{word}.{count[word]}" if count[word] else word)
            count[word] += 1
        return out

    def named(self, variable: int, alone: bool = True) -> Line:
        """``ct of h``; without a name ``ct of variable j``, or only ``ct`` if ``alone`` is false."""
        name = self.names.get(variable, "")
        if name:
            return line(("muted", "ct of "), ("var", name))
        if not alone:
            return line(("muted", "ct"))
        return line(("muted", "ct of variable "), ("residual", self.letter(variable)))

    def residual_name(self, variable: int) -> str:
        """The name of the residual that a constant holds, or ''."""
        return shortened(own_name(self.naming.known(self.recorded.primals[variable])), MOST_NAME)

    def residual(self, variable: int) -> Line:
        """A short form of the value of a constant, or its type if the value was dropped."""
        return brief_line(self.record.residuals[variable] or self.record.variables[variable].type)

    def residual_bytes(self, variable: int) -> int:
        """The size of a constant in bytes, from its type."""
        return _type_bytes(self.record.variables[variable].type)

    # --- the state at a moment

    def at(self, event: int) -> Standing:
        """The state after ``event``."""
        steps = self.record.steps
        finished = bisect_right(self._ends, event)
        if finished < len(steps) and steps[finished].begun < event:
            return Standing(steps[finished], False, finished)
        return Standing(steps[finished - 1] if finished else None, finished > 0, finished)

    @cached_property
    def _ends(self) -> list[float]:
        """The event at which each step ended. A rule that raised never ended."""
        return [step.at if step.at >= 0 else math.inf for step in self.recorded.steps]

    @cached_property
    def _sums(self) -> dict[int, tuple[list[int], list[CotangentRecord]]]:
        """Variable -> the numbers of finished steps at which its sum changes, and the sums."""
        record = self.record
        out: dict[int, tuple[list[int], list[CotangentRecord]]] = {}
        for finished, totals in enumerate((record.begins, *(step.sums for step in record.steps))):
            for total in totals:
                places, sums = out.setdefault(total.variable, ([], []))
                places.append(finished)
                sums.append(total)
        return out

    def total(self, variable: int, finished: int) -> tuple[int, CotangentRecord | None]:
        """The number of cotangents that a variable has after ``finished`` steps, and their sum."""
        places, sums = self._sums.get(variable, ((), ()))
        place = bisect_right(places, finished)
        count = place + self._seeds[variable] - (places[:1] == [0])
        return count, sums[place - 1] if place else None

    @cached_property
    def _seeds(self) -> Counter[int]:
        """The number of cotangents with which each variable begins."""
        return Counter(seed.variable for seed in self.recorded.seeds if seed.number)

    @cached_property
    def linear(self) -> frozenset[int]:
        """The equations that compute a tangent: one of their operands depends on an input."""
        record = self.record
        tangents = set(range(record.constants, record.constants + record.inputs))
        known = set()
        for index, equation in enumerate(record.equations):
            if not tangents.isdisjoint(equation.operands):
                known.add(index)
                tangents.update(equation.results)
        return frozenset(known)

    def looked_at(self) -> tuple[Any, ...]:
        """The choices that drawings depend on: names or letters, iterations and examples."""
        known = ledger(self.recording)
        return self.worded, tuple(sorted(known.iterations.items())), tuple(sorted(known.examples.items()))

    # --- values

    def value(self, ct: CotangentRecord) -> Line:
        """A short form of the cotangent: its elements if it is small, else its type and norm."""
        return self.staged(ct.number) or brief_line(ct.text)

    def staged(self, number: int) -> Line:
        """A staged variable's value in the chosen run and iteration, else its type and name; () for other values."""
        life = self.naming.lives.get(number)
        variable = "" if life is None else dict(life.tracer.fields).get("variable", "")
        if life is None or not variable:
            return ()
        found = ledger(self.recording).primal(number)
        if isinstance(found, Worth):
            return brief_line(brief(found.array))
        return line(("type", life.tracer.type), ("muted", " = "), ("var", variable))

    def loops(self) -> tuple[LoopShown, ...]:
        """The loops around the backward pass, with the chosen iterations."""
        return ledger(self.recording).loops(self.first_given) if self.first_given else ()

    def unknown(self) -> list[str]:
        """Why the first step's cotangent is unknown, as in a branch that was not taken. Empty if it is known."""
        found = ledger(self.recording).primal(self.first_given) if self.first_given else None
        return [found.reason] if isinstance(found, Unknown) else []

    @cached_property
    def first_given(self) -> int:
        """The number of the first step's first cotangent, or 0."""
        return next((ct.number for step in self.recorded.steps[:1] for ct in step.given if ct.number), 0)


def passes_of(recording: Recording) -> list[BackwardPass]:
    """The backward passes in order of their beginnings, computed once per recording."""
    found: list[BackwardPass] | None = recording.__dict__.get("_backward_passes")
    if found is None:
        found = [BackwardPass(record, recording) for record in recording.backward]
        open_: list[BackwardPass] = []
        for each in found:
            while open_ and open_[-1].recorded.ended <= each.recorded.begun:
                open_.pop()
            if open_:
                outer = open_[-1]
                begun = each.recorded.begun
                steps = [step for step in outer.recorded.steps if step.begun <= begun]
                if steps and (steps[-1].at < 0 or begun <= steps[-1].at):
                    each.around = outer, steps[-1]
            open_.append(each)
        _note_within(found)
        recording.__dict__["_backward_passes"] = found
    return found


def _note_within(passes: list[BackwardPass]) -> None:
    """Set ``within`` of each pass."""
    for i, each in enumerate(passes):
        lives = [each.naming.life(number) for number in each.recorded.primals[each.recorded.constants :] if number]
        scopes = {life.scope for life in lives if life is not None and life.scope > 0}
        if each.around is None and scopes:
            named = each.recorded.name
            inside = [other for other in passes[:i] if other.around is None and other.recorded.begun > min(scopes)]
            each.within = next((other for other in reversed(inside) if other.recorded.name == named), None)


def at_cursor(cursor: Cursor) -> BackwardPass | None:
    """The innermost backward pass that runs or has just ended at the cursor's moment."""
    moment = cursor.moment
    if moment.node is None:
        return None
    is_transpose = isinstance(moment.node, PhaseRecord) and moment.node.phase == "transpose"
    for each in reversed(passes_of(cursor.recording)):
        record = each.recorded
        if record.begun < moment.at <= record.ended + is_transpose and record.steps:
            return each
    return None


def _type_bytes(kind: str) -> int:
    """The size of an array of type ``f32[2,3]`` in bytes."""
    name, _, dims = kind.partition("[")
    bits = re.match(r"[a-z]+(\d+)", name)
    size = max(int(bits[1]) // 8, 1) if bits else 1 if name == "bool" else 8  # a key has two words
    return size * math.prod(int(each) for each in dims.rstrip("]").split(",") if each)


def brief_line(text: str) -> Line:
    """The short form of a value as a coloured line: ``0.25``, ``f32[4,8] norm 0.31``."""
    if text[:1] in tuple("-[0123456789") or text in ("nan", "inf", "True", "False"):
        return line(("value", text))
    kind, every, number = text.partition(" all ")
    if every:
        return line(("type", kind), ("muted", every), ("value", number))
    kind, norm, rest = text.partition(" norm ")
    if not norm:
        return line(("type", kind))
    number, bad, count = rest.partition(" · ")
    return line(("type", kind), ("muted", norm), ("value", number), *([("error", bad + count)] if bad else []))


# --- the view


def backward_lines(cursor: Cursor) -> list[Line]:
    """The backward pass at the cursor's moment; [] if none runs. One line has the role 'current'."""
    backward = at_cursor(cursor)
    if backward is None:
        return []
    steps = len(backward.recorded.steps)
    if steps > (MOST_STEPS if cursor.recording.has_values else MOST_STEPS_LOADED):
        # a longer list would make the stepper react slowly to the key
        return [
            line(("heading", f"backward pass of {backward.function or 'the linear program'}")),
            line(("warning", f"{plural(steps, 'step')} are too many to be drawn here; %backward lists them")),
        ]
    standing = backward.at(cursor.moment.at)
    backward.worded = cursor.named
    # usually nothing has changed since the last drawing
    key = (standing, *backward.looked_at())
    if backward.drawn is None or backward.drawn[0] != key:
        backward.drawn = key, list(_PassView(backward, standing).lines())
    return backward.drawn[1]


def path_line(backward: BackwardPass) -> str:
    """The function of a backward pass; for a pass in a transpose rule, ``step › scan``."""
    if backward.around is None:
        return backward.function or "the linear program"
    outer, step = backward.around
    inner = outer.record.equations[step.equation].primitive
    named = backward.function
    return f"{path_line(outer)} › {inner}" + (f" {named}" if named and named != outer.function else "")


def place_line(recording: Recording, place: str) -> Line:
    """`` 9  y = h @ w2``: a user line with its number."""
    file, number, _ = place_parts(place)
    code = (recording.source_line(file, number) or "").strip() if file else ""
    return line(("place", f"{number:>3} " if file else "    "), ("", code or place or "of no line"))


def brief_equation(backward: BackwardPass, index: int) -> str:
    """``k = mul j c``: an equation without types and parameters."""
    equation = backward.record.equations[index]
    results = " ".join(map(backward.letter, equation.results))
    # an operand that is no variable is a literal
    written = equation.text.rpartition(" = ")[2].rpartition("] ")[2].split(" ")[-len(equation.operands) :]
    if len(written) != len(equation.operands):
        written = ["_"] * len(equation.operands)
    operands = [backward.letter(v) if v >= 0 else text for v, text in zip(equation.operands, written, strict=True)]
    text = f"{results} = {equation.primitive} {' '.join(operands)}".rstrip()
    return shortened(text, MOST_WORDED if backward.worded else MOST_EQUATION)


def residual_line(backward: BackwardPass, variable: int) -> Line:
    """``c h = 0.5``: a residual, by its letter and its name."""
    name, letter = backward.residual_name(variable), backward.letter(variable)
    label = line(("muted", " "), ("var", name)) if name and name != letter else ()
    return (("residual", letter), *label, ("muted", " = "), *backward.residual(variable))


class _PassView:
    """The lines of a backward pass at a moment: the inputs, then the equations in program order under their lines."""

    def __init__(self, backward: BackwardPass, standing: Standing) -> None:
        self.backward = backward
        self.record = backward.record
        self.standing = standing
        self.names = min(max(map(len, backward.names.values()), default=0), MOST_PADDED) + len("ct of ")
        equations = range(len(self.record.equations))
        self.width = max([len(brief_equation(backward, index)) for index in equations], default=0)
        # the variables that the latest step changed
        step, done, finished = standing
        totals = self.record.begins if not finished else self.record.steps[finished - 1].sums
        self.changed = {total.variable for total in totals} if done or step is None else set()

    def lines(self) -> Iterator[Line]:
        backward, record, standing = self.backward, self.record, self.standing
        how = f"{standing.finished} of {plural(len(record.steps), 'step')}"
        if not backward.failed and standing.finished == len(record.steps):
            how = "complete"
        where = "".join(f" · {loop_text(loop)}" for loop in backward.loops())
        yield line(("heading", f"backward pass of {path_line(backward)}"), ("muted", f"{where} · {how}"))
        inputs = range(record.constants, record.constants + record.inputs)
        shown = [variable for variable in inputs if backward.expected[variable]]
        if shown:
            yield line(("muted", "inputs"))
        for variable in shown:
            yield (*self._margin(variable in self.changed), *self._cell(variable, alone=True))
        here = standing.step.equation if standing.step is not None else len(record.equations) - 1
        begin = min(max(here - MOST_ROWS // 2, 0), max(len(record.equations) - MOST_ROWS, 0))
        end = min(begin + MOST_ROWS, len(record.equations))
        if begin:
            yield line(("muted", f"... {plural(begin, 'equation')} above"))
        place = ""
        for index in range(begin, end):
            if record.places[index] != place:
                place = record.places[index]
                yield place_line(backward.recording, place)
            yield from self._equation(index)
        if end < len(record.equations):
            yield line(("muted", f"... {plural(len(record.equations) - end, 'equation')} below"))

    def _margin(self, changed: bool, now: bool = False) -> tuple[Segment, Segment]:
        mark: Segment = ("current", MARK + " ") if now else ("linked", "+ ") if changed else ("", "  ")
        return mark, ("", "")

    def _equation(self, index: int) -> Iterator[Line]:
        backward, (step, done, finished) = self.backward, self.standing
        now = step is not None and step.equation == index and (not done or finished < len(self.record.steps))
        results = [variable for variable in self.record.equations[index].results if variable >= 0]
        changed = not self.changed.isdisjoint(results)
        reached = any(backward.total(variable, finished)[0] for variable in results)
        role = "" if now or reached else "muted"
        first: Line = (*self._margin(changed, now), (role, padded(brief_equation(backward, index), self.width)))
        if not any(backward.expected[variable] for variable in results):
            said = () if index in backward.linear else (("muted", "  not linear: computed as it is"),)
            yield (*first, *said)
        else:
            for i, variable in enumerate(v for v in results if backward.expected[v] or len(results) == 1):
                lead: Line = first if not i else (*self._margin(variable in self.changed), ("", " " * self.width))
                yield (*lead, ("", "  "), *self._cell(variable))
        if now and step is not None:
            yield from self._given(step)

    def _cell(self, variable: int, alone: bool = False) -> Line:
        """``1/2 ct of h  0.25``: the current cotangent of a variable, after the number of cotangents added: ``✓`` for
        all, ``·`` for none.
        """
        backward = self.backward
        named = backward.named(variable, alone)
        count, total = backward.total(variable, self.standing.finished)
        expected = "?" if backward.failed else backward.expected[variable]
        progress = ("good", "✓   ") if count == expected else ("warning", f"{count}/{expected} ")
        if not count:
            progress = ("muted", "·   ")
        elif backward.failed:
            progress = ("muted", f"{count}/? ")
        if total is None:
            return (progress, *named)
        pad = " " * max(self.names - length(named), 0)
        return (progress, *named, ("", pad + "  "), *backward.value(total))

    def _given(self, step: TransposedRecord) -> Iterator[Line]:
        """The residuals of the current equation and, after its rule, the cotangents that it gives its operands."""
        backward = self.backward
        for variable in dict.fromkeys(self.record.equations[step.equation].operands):
            if 0 <= variable < self.record.constants:
                yield (("", "      "), ("muted", "with "), *residual_line(backward, variable))
        if not self.standing.done:
            return
        for part in step.found[:MOST_GIVEN]:
            plus = "adds " if backward.total(part.variable, self.standing.finished)[0] > 1 else "gives "
            yield (("", "      "), ("linked", plus), *backward.named(part.variable), ("", "  "), *backward.value(part))
        if len(step.found) > MOST_GIVEN:
            yield line(("muted", f"        ... and {len(step.found) - MOST_GIVEN} more"))
