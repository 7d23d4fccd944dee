"""The backward pass at a moment: the linear program that is run backwards, from the bottom up, with the cotangent of
each variable as it adds up, under the user's lines that its equations belong to.

A cotangent is called by the forward value that it belongs to: ``ct of h``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from minijax.core.named import NamedTuple
from minijax.tools.documents.document import MARK, Line, Segment, line
from minijax.tools.documents.words import plural, shortened
from minijax.tools.recording.backward import brief, listed
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.naming import Naming, naming_of
from minijax.tools.recording.records import (
    BackwardRecord,
    CotangentRecord,
    PhaseRecord,
    Recording,
    TransposedRecord,
    place_parts,
)
from minijax.tools.recording.variables import legal
from minijax.tools.values.moment import LoopShown, Worth, ledger
from minijax.tools.values.table import loop_text

# How many of a scan's operands are constants, and how many are carried, as its equation is printed.
_COUNTS = re.compile(r"(num_consts|num_carry)=(\d+)")
# A variable's name, with the path to a leaf of it.
_PATH = re.compile(r"[^\W\d]\w*(\.\w+|\[[^][]*\])*")
# A backward pass of more steps is not drawn; those of a file are made when they are asked for.
MOST_STEPS = 20_000
MOST_STEPS_LOADED = 4_000
# Equations that are shown around the current one, and characters of one of them, and of a name.
MOST_ROWS = 120
MOST_EQUATION = 22
MOST_WORDED = 36
MOST_NAME = 24
# Names up to this length are padded, so that values stand below each other.
MOST_PADDED = 7
# Of an equation with many operands so many contributions are shown.
MOST_GIVEN = 12


class Standing(NamedTuple):
    """A linear program run backwards as it stands at a moment.

    ``step`` is the equation that is gone back over, or was last; ``done`` says which. ``sums`` has what has arrived so
    far, by variable, and ``counts`` how often; ``changed`` are the variables at which something arrived last.
    """

    step: TransposedRecord | None
    done: bool
    finished: int
    sums: dict[int, CotangentRecord]
    counts: dict[int, int]
    changed: frozenset[int]


class _Reached:
    """What has arrived until an event, and how many steps are finished: to go on from."""

    def __init__(
        self, event: int, sums: dict[int, CotangentRecord], counts: Counter[int], changed: frozenset[int]
    ) -> None:
        self.event = event
        self.sums = sums
        self.counts = counts
        self.changed = changed
        self.finished = 0

    def finish(self, step: TransposedRecord) -> None:
        """The next step is finished."""
        self.finished += 1
        for total in step.sums:
            self.sums[total.variable] = total
            self.counts[total.variable] += 1
        self.changed = frozenset(total.variable for total in step.sums)


class BackwardPass:
    """One linear program run backwards, with names.

    Attributes:
      recorded: what was recorded of it; ``record`` is that with its equations listed.
      around: the one whose transpose rule runs this one, and its step then; None if none does.
      within: the last one that was run while what this one goes back over was computed, if it is of the same function:
        then that was its derivative.
      worded: whether its equations are shown with names of the user's in place of letters.
    """

    def __init__(self, record: BackwardRecord, recording: Recording) -> None:
        self.recorded = record
        self.recording = recording
        self.around: tuple[BackwardPass, TransposedRecord] | None = None
        self.within: BackwardPass | None = None
        self.worded = False
        # what was drawn last, and of which state
        self.drawn: tuple[Any, list[Line]] | None = None
        # the lines of an equation that nothing has happened to since; how it stood when that was last asked for
        self.lines: dict[int, tuple[Any, list[Line]]] = {}
        self._reached: _Reached | None = None

    @cached_property
    def record(self) -> BackwardRecord:
        """What was recorded, its equations listed."""
        return listed(self.recorded, self.recording)

    @property
    def naming(self) -> Naming:
        """The names of the recording's values."""
        return naming_of(self.recording)

    @property
    def function(self) -> str:
        """What it is the derivative of: ``mlp``; of what computes that again, ``derivative of mlp``."""
        own = self.recorded.name.partition(" at ")[0]
        return f"derivative of {self.within.function}" if self.within is not None else own

    @cached_property
    def expected(self) -> Counter[int]:
        """How many cotangents arrive at each variable in all."""
        record = self.recorded
        counts = Counter(seed.variable for seed in record.seeds if seed.number)
        for step in record.steps:
            counts.update(part.variable for part in step.found)
        return counts

    @cached_property
    def failed(self) -> bool:
        """Whether a transpose rule raised: then more might have arrived."""
        return any(step.at < 0 for step in self.recorded.steps)

    # --- names
    # ------------------------------------------------------------------------------------------------

    @cached_property
    def names(self) -> dict[int, str]:
        """What the forward values are called whose cotangents these are, by variable; those that have a name."""
        record, naming = self.recorded, self.naming
        first = record.constants + record.inputs
        out: dict[int, str] = {}
        if self.around is not None:
            # forward values of a staged program have no variable of the user's: its lines say what they are
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
        """The variables that are computed last of an expression: tangents of what it is worth."""
        record = self.record
        heres = list(zip(record.places, record.expressions, strict=True))
        # equations of a line that come again may be its backward pass, of which nothing has its name
        told = {here for here in heres if not here[1]}
        for index, equation in enumerate(record.equations):
            last = index + 1 == len(heres) or heres[index] != heres[index + 1]
            if last and heres[index] not in told and len(equation.results) == 1 and equation.results[0] >= 0:
                yield equation.results[0], heres[index]
            if last:
                told.add(heres[index])

    def _held_name(self, number: int) -> str:
        """What an input is called by who called: by the value that its tracer holds."""
        naming = self.naming
        life = naming.lives.get(number)
        return naming.variable(life.tracer.holds[0]) if life is not None and life.tracer.holds else ""

    def _assigned(self, place: str, expression: str) -> str:
        """``h`` for ``tanh(x)`` of the line ``h = tanh(x)``."""
        file, number, _ = place_parts(place)
        target, equals, value = (self.recording.source_line(file, number) or "").partition(" = ")
        value = value.partition("  #")[0].strip()
        return target.strip() if equals and " ".join(value.split()) == expression else ""

    def _names_from_outside(self, out: dict[int, str], outer: BackwardPass, step: TransposedRecord) -> None:
        """Of inputs that are what the equation around is given, one by one."""
        operands = outer.record.equations[step.equation].operands
        inputs = range(self.recorded.constants, self.recorded.constants + self.recorded.inputs)
        if len(operands) < len(inputs):
            return
        said = dict(_COUNTS.findall(outer.record.equations[step.equation].text))
        consts, carry = int(said.get("num_consts", 0)), int(said.get("num_carry", 0))
        for i, (variable, operand) in enumerate(zip(inputs, operands[len(operands) - len(inputs) :], strict=True)):
            name = outer.names.get(operand)
            if said and consts <= i < consts + carry:
                # what a loop carries is called by what each step makes of it
                result = self.recorded.outs[i - consts] if i - consts < len(self.recorded.outs) else -1
                name = f"{out[result]} before" if result in out else None
            elif said and i >= consts + carry and name is not None:
                name = f"{name}[i]"
            if name is not None:
                out.setdefault(variable, name)

    def letter(self, variable: int) -> str:
        """What the variable is called in equations."""
        if variable < 0:
            return "_"
        return self._words[variable] if self.worded else self._letters[variable]

    @cached_property
    def _letters(self) -> list[str]:
        """The letters of the printed program; one that a value of the user's is called by gets a prime."""
        taken = {*self.names.values(), *map(self.residual_name, range(self.recorded.constants))}
        return [f"{each.letter}'" if each.letter in taken else each.letter for each in self.record.variables]

    @cached_property
    def _words(self) -> list[str]:
        """``h_dot`` for the tangent of ``h``, ``h`` for a residual, each once; of what has no such name the letter."""
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
        """``ct of h``; of what has a letter only ``ct of variable j``, or ``ct`` where it does not stand ``alone``."""
        name = self.names.get(variable, "")
        if name:
            return line(("muted", "ct of "), ("var", name))
        if not alone:
            return line(("muted", "ct"))
        return line(("muted", "ct of variable "), ("residual", self.letter(variable)))

    def residual_name(self, variable: int) -> str:
        """What the value is called that the forward pass kept for the constant; '' if it has no name."""
        found = self.naming.known(self.recorded.primals[variable])
        if found.startswith("primal of "):
            found = found.removeprefix("primal of ").removeprefix("(").removesuffix(")" if "of (" in found else "")
        return shortened(found, MOST_NAME)

    def residual(self, variable: int) -> Line:
        """The value of a constant in brief; its type where it was not kept."""
        return brief_line(self.record.residuals[variable] or self.record.variables[variable].type)

    def residual_bytes(self, variable: int) -> int:
        """What a constant takes, by its type."""
        return _type_bytes(self.record.variables[variable].type)

    # --- what holds at a moment
    # ------------------------------------------------------------------------------------------------

    def at(self, event: int) -> Standing:
        """How it stands when ``event`` has happened."""
        steps = self.record.steps
        reached = self._reached
        if reached is None or reached.event > event:
            sums = {total.variable: total for total in self.record.begins}
            counts = Counter(seed.variable for seed in self.record.seeds if seed.number)
            reached = self._reached = _Reached(event, sums, counts, frozenset(sums))
        reached.event = event
        while reached.finished < len(steps) and 0 <= steps[reached.finished].at <= event:
            reached.finish(steps[reached.finished])
        done, changed = reached.finished > 0, reached.changed
        step = steps[reached.finished - 1] if done else None
        if reached.finished < len(steps) and steps[reached.finished].begun < event:
            step, done, changed = steps[reached.finished], False, frozenset()
        return Standing(step, done, reached.finished, dict(reached.sums), dict(reached.counts), changed)

    def complete(self, variable: int, standing: Standing) -> bool:
        """Whether nothing more will arrive at the variable."""
        return not self.failed and standing.counts.get(variable, 0) == self.expected[variable]

    # --- values
    # ------------------------------------------------------------------------------------------------

    def value(self, ct: CotangentRecord) -> Line:
        """The cotangent in brief: a small one as it is, of a larger one the type and its norm."""
        return self.staged(ct.number) or brief_line(ct.text)

    def staged(self, number: int) -> Line:
        """What the variable of a staged program is worth in the run, and the iteration, that is looked at; where it has
        not been run, the variable.
        """
        life = self.naming.lives.get(number)
        variable = "" if life is None else dict(life.tracer.fields).get("variable", "")
        if life is None or not variable:
            return ()
        found = ledger(self.recording).primal(number)
        if isinstance(found, Worth):
            return brief_line(brief(found.array))
        return line(("type", life.tracer.type), ("muted", " = "), ("var", variable))

    def loops(self) -> tuple[LoopShown, ...]:
        """The loops whose bodies are gone back over, with the iterations that are looked at."""
        return ledger(self.recording).loops(self.first_given) if self.first_given else ()

    @cached_property
    def first_given(self) -> int:
        """The cotangent that the first step is given, by number; 0 if there is none."""
        return next((ct.number for step in self.recorded.steps[:1] for ct in step.given if ct.number), 0)


def passes_of(recording: Recording) -> list[BackwardPass]:
    """The linear programs that were run backwards, in the order in which they began: made once for a recording."""
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
    """Which of them belong to what others go back over."""
    for i, each in enumerate(passes):
        lives = [each.naming.life(number) for number in each.recorded.primals[each.recorded.constants :] if number]
        scopes = {life.scope for life in lives if life is not None and life.scope > 0}
        if each.around is None and scopes:
            named = each.recorded.name
            inside = [other for other in passes[:i] if other.around is None and other.recorded.begun > min(scopes)]
            each.within = next((other for other in reversed(inside) if other.recorded.name == named), None)


def at_cursor(cursor: Cursor) -> BackwardPass | None:
    """The innermost linear program that is run backwards at the cursor's moment, or that has just been."""
    moment = cursor.moment
    if moment.node is None:
        return None
    told = isinstance(moment.node, PhaseRecord) and moment.node.phase == "transpose"
    for each in reversed(passes_of(cursor.recording)):
        record = each.recorded
        if record.begun < moment.at <= record.ended + told and record.steps:
            return each
    return None


def _type_bytes(kind: str) -> int:
    """The bytes of an array of type ``f32[2,3]``."""
    name, _, dims = kind.partition("[")
    elements = 1
    for each in filter(None, dims.rstrip("]").split(",")):
        elements *= int(each)
    bits = re.match(r"[a-z]+(\d+)", name)
    if bits is None:
        return elements * (1 if name == "bool" else 8)  # a key has two words
    return elements * max(int(bits[1]) // 8, 1)


def brief_line(text: str) -> Line:
    """A value in brief as it is drawn: ``0.25``, ``f32[4,8] norm 0.31``."""
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
# ---------------------------------------------------------------------------------------------------


def backward_lines(cursor: Cursor) -> list[Line]:
    """The backward pass at the cursor's moment; nothing where there is none. One line carries the role 'current'."""
    backward = at_cursor(cursor)
    if backward is None:
        return []
    steps = len(backward.recorded.steps)
    if steps > (MOST_STEPS if cursor.recording.has_values else MOST_STEPS_LOADED):
        # to list its equations takes a pass over all of them, on which the key that came here would wait
        return [
            line(("heading", f"backward pass of {backward.function or 'the linear program'}")),
            line(("warning", f"{plural(steps, 'step')} are too many to be drawn here; %backward lists them")),
        ]
    standing = backward.at(cursor.moment.at)
    backward.worded = cursor.named
    # most moments change nothing here
    key = (standing.step, standing.done, *_looked_at(backward))
    if backward.drawn is None or backward.drawn[0] != key:
        backward.drawn = key, [*heading(backward, standing), *_rows(backward, standing)]
    return backward.drawn[1]


def heading(backward: BackwardPass, standing: Standing) -> Iterator[Line]:
    """What is gone back over, and how far."""
    record = backward.record
    steps = len(record.steps)
    how = f"{standing.finished} of {plural(steps, 'step')}"
    if not backward.failed and standing.finished == steps:
        how = "complete"
    where = "".join(f" · {loop_text(loop)}" for loop in backward.loops())
    yield line(("heading", f"backward pass of {path_line(backward)}"), ("muted", f"{where} · {how}"))


def path_line(backward: BackwardPass) -> str:
    if backward.around is None:
        return backward.function or "the linear program"
    outer, step = backward.around
    inner = outer.record.equations[step.equation].primitive
    named = backward.function
    return f"{path_line(outer)} › {inner}" + (f" {named}" if named and named != outer.function else "")


def _rows(backward: BackwardPass, standing: Standing) -> Iterator[Line]:
    """The inputs, then the equations in the order of the program under their lines."""
    record = backward.record
    width = _width(backward)
    names = min(max(map(len, backward.names.values()), default=0), MOST_PADDED) + len("ct of ")
    inputs = range(record.constants, record.constants + record.inputs)
    shown = [variable for variable in inputs if backward.expected[variable]]
    if shown:
        yield line(("muted", "inputs"))
    for variable in shown:
        yield (*_margin(variable in standing.changed), *_cell(backward, standing, variable, names, alone=True))
    here = standing.step.equation if standing.step is not None else len(record.equations) - 1
    begin = min(max(here - MOST_ROWS // 2, 0), max(len(record.equations) - MOST_ROWS, 0))
    end = min(begin + MOST_ROWS, len(record.equations))
    if begin:
        yield line(("muted", f"... {plural(begin, 'equation')} above"))
    place = ""
    looked = _looked_at(backward)
    for index in range(begin, end):
        if record.places[index] != place:
            place = record.places[index]
            yield place_line(backward.recording, place)
        yield from _kept_equation(backward, standing, index, (width, names), looked)
    if end < len(record.equations):
        yield line(("muted", f"... {plural(len(record.equations) - end, 'equation')} below"))


def _width(backward: BackwardPass) -> int:
    """The columns of equations: those of the longest."""
    found: dict[bool, int] = backward.__dict__.setdefault("widths", {})
    if backward.worded not in found:
        lengths = [len(brief_equation(backward, i)) for i in range(len(backward.record.equations))]
        found[backward.worded] = max(lengths, default=0)
    return found[backward.worded]


def place_line(recording: Recording, place: str) -> Line:
    """`` 9  y = h @ w2``: a line of the user's, by its number."""
    file, number, _ = place_parts(place)
    code = (recording.source_line(file, number) or "").strip() if file else ""
    return line(("place", f"{number:>3} " if file else "    "), ("", code or place or "of no line"))


def _margin(changed: bool, now: bool = False) -> tuple[Segment, Segment]:
    mark: Segment = ("current", MARK + " ") if now else ("linked", "+ ") if changed else ("", "  ")
    return mark, ("", "")


def brief_equation(backward: BackwardPass, index: int) -> str:
    """``k = mul j c``: an equation without types and parameters."""
    equation = backward.record.equations[index]
    results = " ".join(map(backward.letter, equation.results))
    # what has no variable is a number that is written
    written = equation.text.rpartition(" = ")[2].rpartition("] ")[2].split(" ")[-len(equation.operands) :]
    if len(written) != len(equation.operands):
        written = ["_"] * len(equation.operands)
    operands = [backward.letter(v) if v >= 0 else text for v, text in zip(equation.operands, written, strict=True)]
    return shortened(f"{results} = {equation.primitive} {' '.join(operands)}".rstrip(), _widest(backward))


def _widest(backward: BackwardPass) -> int:
    return MOST_WORDED if backward.worded else MOST_EQUATION


def _looked_at(backward: BackwardPass) -> tuple[Any, ...]:
    """The iterations and examples that are looked at, and what variables are called."""
    known = ledger(backward.recording)
    return backward.worded, tuple(sorted(known.iterations.items())), tuple(sorted(known.examples.items()))


def _kept_equation(
    backward: BackwardPass, standing: Standing, index: int, widths: tuple[int, int], looked: tuple[Any, ...]
) -> list[Line]:
    """The lines of an equation, drawn anew only if something has happened to its results since."""
    if standing.step is not None and standing.step.equation == index:
        return list(_equation(backward, standing, index, *widths))
    results = backward.record.equations[index].results
    told = [(id(standing.sums.get(v)), standing.counts.get(v, 0), v in standing.changed) for v in results]
    key = told, looked, widths
    kept = backward.lines.get(index)
    if kept is None or kept[0] != key:
        kept = backward.lines[index] = key, list(_equation(backward, standing, index, *widths))
    return kept[1]


def _equation(backward: BackwardPass, standing: Standing, index: int, width: int, names: int) -> Iterator[Line]:
    equation = backward.record.equations[index]
    step = standing.step
    now = step is not None and step.equation == index and (not standing.done or standing.finished < _steps(backward))
    results = [variable for variable in equation.results if variable >= 0]
    changed = any(variable in standing.changed for variable in results)
    reached = any(variable in standing.sums for variable in results)
    brief = brief_equation(backward, index)
    expected = any(backward.expected[variable] for variable in results)
    role = "" if now or reached else "muted"
    first: Line = (*_margin(changed, now), (role, brief.ljust(width)))
    if not expected:
        yield first if _linear(backward, index) else (*first, ("muted", "  not linear: computed as it is"))
    else:
        for i, variable in enumerate(v for v in results if backward.expected[v] or len(results) == 1):
            lead: Line = first if not i else (*_margin(variable in standing.changed), ("", " " * width))
            yield (*lead, ("", "  "), *_cell(backward, standing, variable, names))
    if now and step is not None:
        yield from _given(backward, standing, step)


def _steps(backward: BackwardPass) -> int:
    return len(backward.recorded.steps)


def _linear(backward: BackwardPass, index: int) -> bool:
    """Whether an equation computes with a tangent: with an input, or with the result of one that does."""
    return index in _linear_equations(backward)


def _linear_equations(backward: BackwardPass) -> frozenset[int]:
    found = backward.__dict__.get("linear")
    if found is None:
        record = backward.record
        tangents = set(range(record.constants, record.constants + record.inputs))
        known = set()
        for index, equation in enumerate(record.equations):
            if not tangents.isdisjoint(equation.operands):
                known.add(index)
                tangents.update(equation.results)
        found = backward.__dict__["linear"] = frozenset(known)
    return found


def _cell(backward: BackwardPass, standing: Standing, variable: int, width: int, alone: bool = False) -> Line:
    """``1/2 ct of h  0.25``: a variable's cotangent as it stands."""
    named = backward.named(variable, alone)
    total = standing.sums.get(variable)
    progress = _progress(backward, standing, variable)
    if total is None:
        return (progress, *named)
    pad = " " * max(width - sum(len(piece) for _, piece in named), 0)
    return (progress, *named, ("", pad + "  "), *backward.value(total))


def _progress(backward: BackwardPass, standing: Standing, variable: int) -> Segment:
    """How much of it has arrived: ``1/2``, ``✓`` for all, ``·`` for nothing."""
    count, expected = standing.counts.get(variable, 0), backward.expected[variable]
    if not count:
        return ("muted", "·   ")
    if backward.failed:
        return ("muted", f"{count}/? ")
    return ("good", "✓   ") if count == expected else ("warning", f"{count}/{expected} ")


def _given(backward: BackwardPass, standing: Standing, step: TransposedRecord) -> Iterator[Line]:
    """What the current equation gives its operands, once its rule has; and with which residuals."""
    record = backward.record
    equation = record.equations[step.equation]
    for variable in dict.fromkeys(equation.operands):
        if 0 <= variable < record.constants:
            yield (("", "      "), ("muted", "with "), *_residual(backward, variable))
    if not standing.done:
        return
    for part in step.found[:MOST_GIVEN]:
        plus = "adds " if standing.counts[part.variable] > 1 else "gives "
        yield (("", "      "), ("linked", plus), *backward.named(part.variable), ("", "  "), *backward.value(part))
    if len(step.found) > MOST_GIVEN:
        yield line(("muted", f"        ... and {len(step.found) - MOST_GIVEN} more"))


def _residual(backward: BackwardPass, variable: int) -> Line:
    """``c h = 0.5``: a value that the forward pass kept, by its letter and its name."""
    name = backward.residual_name(variable)
    letter = backward.letter(variable)
    said = line(("muted", " "), ("var", name)) if name and name != letter else ()
    shown = backward.residual(variable)
    return (("residual", letter), *said, ("muted", " = "), *shown)
