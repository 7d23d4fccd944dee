"""The stages of one call, from the user's Python to machine code: every line of each with the user's lines it is for.

This is what a browser of stages shows, in a terminal or on a page. A line belongs to equations of the jaxpr, and so to
the lines of Python that these come from; two lines of any two stages belong together if they have such a line in
common. What no equation is behind says what it is, and what XLA has added for the sake of an equation says so, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from minijax.core.named import Frozen
from minijax.tools.documents.words import plural
from minijax.tools.metal import machine
from minijax.tools.metal.dumps import Kernel
from minijax.tools.metal.pipeline import Descent, Pass
from minijax.tools.programs import arguments, hlo
from minijax.tools.programs.link_views import held_text, mark_text, names_text, short_file
from minijax.tools.programs.links import ADDED, COPIED, MADE, LinkedPrograms, Numbers, Pane
from minijax.tools.programs.user_lines import Spot, user_lines

# The kinds of stage, in the order in which a program is made: 'given' is HLO as XLA gets it, 'final' what runs.
KINDS = ("python", "jaxpr", "stablehlo", "given", "pass", "final", "llvm", "machine")

# ``define void @fusion.1(ptr %0) {``, with quotes around a name that needs them
_LLVM_FUNCTION = r'define [^@]*@(?:"([^"]+)"|([\w.$-]+))\('
_LLVM_KERNEL_END = "_kernel"
_COMPUTATION = r"(?:ENTRY )?%?([\w.-]+) \(.*\{$"
# Why a line of a kernel's code is for no equation.
LIBRARY, FRAME = "code of XLA's own", "LLVM's own"
# What is marked as XLA's own; and the marks of what has its place in any program, whoever wrote it.
_OWN = frozenset((ADDED, MADE, COPIED, LIBRARY))
_SHORT = {
    "parameter": "arg",
    "constant": "const",
    "tuple": "tuple",
    "element of a tuple": "part",
    "view": "view",
    FRAME: "LLVM",
}


class StageLine(Frozen):
    """A line of a stage.

    ``number`` is its number in its text, of Python in the file. ``places`` are the user's lines that it is for, in
    order, and ``equations`` the numbers of what it holds of the jaxpr. ``note`` says what an instruction is that no
    equation asked for: 'constant', 'copy made by XLA'; or that XLA added it for the equations it is for (``ADDED``).
    ``name`` is an instruction's own name; ``holds`` says that it is a fusion, or another that holds several.
    """

    text: str
    number: int
    places: tuple[Spot, ...] = ()
    equations: Numbers = ()
    note: str = ""
    name: str = ""
    holds: bool = False

    @property
    def own(self) -> bool:
        """Whether XLA has added it: the user's program has nothing like it."""
        return self.note in _OWN


class Stage:
    """A text that a program was at some moment.

    Attributes:
      title: what it is called: ``jaxpr``, ``simplification · algsimp``, ``fusion.1``.
      kind: one of ``KINDS``.
      language: what ``documents.lexer`` calls its language.
      detail: what happened here: ``21 → 9``, ``-3 dot +1 fusion``; '' of most.
      previous: the place among the stages of the text that this one was made of; -1 if none is to be compared with.
      number: of a pass, its number among those that changed something, from 1; else 0.
    """

    def __init__(
        self,
        title: str,
        kind: str,
        language: str,
        lines: Callable[[], Iterable[StageLine]],
        detail: str = "",
        previous: int = -1,
        number: int = 0,
    ) -> None:
        self.title = title
        self.kind = kind
        self.language = language
        self.detail = detail
        self.previous = previous
        self.number = number
        self._lines = lines

    def __repr__(self) -> str:
        return f"<stage {self.title!r}>"

    @cached_property
    def lines(self) -> tuple[StageLine, ...]:
        """Its lines, linked when somebody looks."""
        return tuple(self._lines())


class Stages:
    """All stages of a call.

    Attributes:
      all: the stages, in the order in which a program is made: the user's files, jaxpr, StableHLO, HLO as XLA gets it,
        each pass that changed it, the last program, each kernel's LLVM IR, each kernel's machine code.
      descent: what they were made of.
    """

    def __init__(self, descent: Descent) -> None:
        self.descent = descent
        self.linked: LinkedPrograms = descent.linked
        self.user_lines = user_lines(descent.linked)
        self.all = tuple(_stages(self))
        self._touched: dict[int, tuple[Spot, ...]] = {}

    def __repr__(self) -> str:
        return f"<{len(self.all)} stages: {', '.join(each.title for each in self.all)}>"

    @property
    def spots(self) -> tuple[Spot, ...]:
        """The user's lines that equations come from, file by file, in order."""
        return self.user_lines.spots

    @property
    def colours(self) -> dict[Spot, int]:
        """The place of each of the user's lines among them: front ends give it the colour of this number."""
        return self.user_lines.colours

    def places(self, numbers: Iterable[int]) -> tuple[Spot, ...]:
        """The user's lines that equations come from, in order."""
        return self.user_lines.places(numbers)

    @cached_property
    def computations(self) -> dict[str, range]:
        """The indices of the lines of each computation of the last program, by its name."""
        found: dict[str, range] = {}
        name, begin = "", 0
        for i, text in enumerate(self.linked.hlo.lines):
            begun = re.match(_COMPUTATION, text)
            if begun is not None:
                name, begin = begun[1], i + 1
            elif text.startswith("}"):
                found.setdefault(name, range(begin, i))
        return found

    @property
    def of_equation(self) -> dict[int, Spot]:
        """The user's line of each equation; those without one are not in it."""
        return self.user_lines.of_equation

    def belonging(self, stage: Stage, wanted: Iterable[Spot]) -> tuple[int, ...]:
        """The indices of a stage's lines that are for one of the user's lines ``wanted``."""
        among = frozenset(wanted)
        return tuple(i for i, each in enumerate(stage.lines) if not among.isdisjoint(each.places))

    def mark(self, each: StageLine) -> str:
        """``L4``, ``L4, 7–9``, ``model:12``: which of the user's lines; ``XLA`` of what is its own, ``XLA L4`` if it is
        for the sake of a line; ``const``, ``arg``, ... of what any program has; else ''.

        Lines of the file that most comes from go without its name.
        """
        places = mark_text(each.places, self.main_file)
        if each.own:
            return f"XLA {places}".rstrip()
        return places or _SHORT.get(each.note, "")

    def touched(self, stage: Stage) -> tuple[Spot, ...]:
        """The user's lines whose instructions a pass changed; none of a stage that is no pass."""
        if stage.kind != "pass":
            return ()
        found = self._touched.get(stage.number)
        if found is None:
            step = self.descent.passes[stage.number - 1]
            numbers = {each.number for each in self.descent.equations(step)}
            if any(step.made[kind] for kind in hlo.HOLDING):
                # XLA does not always note whose line a fusion is: it is for what it holds
                before = {each.name for each in self.all[stage.previous].lines}
                new = [each for each in stage.lines if each.holds and each.name not in before]
                numbers.update(number for each in new for number in each.equations)
            found = self._touched[stage.number] = self.places(numbers)
        return found

    @property
    def main_file(self) -> str:
        """The file that most equations come from."""
        return self.user_lines.main_file

    def told(self, each: StageLine) -> str:
        """``fusion.3 = tanh, mul of line 4``: what a line holds, or why there is nothing of the user's in it."""
        held = held_text([self.linked.equation(number) for number in each.equations])
        said = " · ".join(filter(None, (held, each.note)))
        return f"{each.name} = {said}" if each.name and said else said

    def names(self, each: StageLine, most: int) -> str:
        """``tanh, mul``: the equations that a line holds, in ``most`` characters; how many more there are."""
        return names_text([self.linked.equation(number) for number in each.equations], most)


def stages(descent: Descent) -> Stages:
    """Every stage of the call that ``descent`` is of. Each stage's lines are made when somebody looks at them."""
    return Stages(descent)


# ------------------------------------------------------------------------------------------------------ the stages


def _stages(of: Stages) -> Iterator[Stage]:
    descent, linked = of.descent, of.linked
    for pane in linked.python:
        yield Stage(short_file(pane.title), "python", "python", _python(of, pane))
    yield Stage("jaxpr", "jaxpr", "jaxpr", _program(of, linked.jaxpr))
    yield Stage("StableHLO", "stablehlo", "stablehlo", _program(of, linked.stablehlo))
    given = len(linked.python) + 2
    yield Stage("HLO, as XLA gets it", "given", "hlo", _text(of, descent.before))
    for i, each in enumerate(descent.passes):
        yield Stage(each.title, "pass", "hlo", _text(of, each.after), _change(each), given + i, i + 1)
    yield Stage("optimised HLO", "final", "hlo", _program(of, linked.hlo), _sizes(descent))
    for kernel in descent.kernels:
        yield Stage(kernel.name, "llvm", "llvm", _llvm(of, kernel), plural(kernel.llvm.count("\n"), "line"))
    for kernel in descent.kernels:
        yield Stage(kernel.name, "machine", "asm", _machine(of, kernel), f"{machine.size(kernel.code)} B")


def _change(each: Pass) -> str:
    before, after = (counts.total() for counts in each.counts)
    kinds = [f"-{n} {kind}" for kind, n in each.gone.most_common()]
    kinds += [f"+{n} {kind}" for kind, n in each.made.most_common()]
    return f"{before} → {after}  {' '.join(kinds) or 'same kinds'}"


def _sizes(descent: Descent) -> str:
    if not descent.passes:
        return "as given"
    first, last = descent.passes[0].counts[0].total(), descent.passes[-1].counts[1].total()
    return f"{first} → {last}"


Lines = Callable[[], Iterator[StageLine]]


def _python(of: Stages, pane: Pane) -> Lines:
    """A line is for itself, if an equation begins on it; one that goes on with an expression is for its beginning."""

    def lines() -> Iterator[StageLine]:
        for text, number, numbers in zip(pane.lines, pane.numbers, pane.links, strict=True):
            spot = (pane.title, number)
            found = (spot,) if spot in of.colours else of.places(numbers)
            equations = tuple(n for n in numbers if of.of_equation.get(n) in found)
            yield StageLine(text, number, found, equations)

    return lines


def _program(of: Stages, pane: Pane) -> Lines:
    """The lines of a program, with the user's names of its arguments."""

    def lines() -> Iterator[StageLine]:
        known = hlo.instructions(pane.lines) if pane.language == "hlo" else {}
        names, shown = _called(of.descent, pane)
        for i, (text, number, numbers, note) in enumerate(
            zip(shown, pane.numbers, pane.links, pane.notes, strict=True)
        ):
            each = known.get(i)
            name, holds = ("", False) if each is None else (each.name, each.opcode in hlo.HOLDING and bool(numbers))
            name = names.get(name, name)
            yield StageLine(text, number, of.places(numbers), numbers, note, name, holds)

    return lines


def _called(descent: Descent, pane: Pane) -> tuple[dict[str, str], list[str]]:
    """The user's names of a program's arguments, and its lines with them."""
    if pane.language == "hlo":
        names = arguments.hlo_names("\n".join(pane.lines), descent.arguments)
        return names, arguments.named_hlo(pane.lines, names)
    names = arguments.stablehlo_names(descent.arguments) if pane.language == "stablehlo" else {}
    return names, arguments.named_stablehlo(pane.lines, names)


def _text(of: Stages, text: str) -> Lines:
    return lambda: _program(of, of.descent.panes(text)[0])()


# Where a kernel's code is for an instruction as a whole: nothing in it says which part is for which equation.
def _llvm(of: Stages, kernel: Kernel) -> Lines:
    def lines() -> Iterator[StageLine]:
        inside = False
        numbers: Numbers = ()
        for number, text in enumerate(kernel.llvm.strip("\n").split("\n"), 1):
            begun = re.match(_LLVM_FUNCTION, text)
            if begun is not None:
                inside, numbers = True, _held(of, begun[1] or begun[2], kernel)
            yield _code_line(of, text, number, numbers, inside)
            if text.startswith("}"):
                inside, numbers = False, ()

    return lines


def _machine(of: Stages, kernel: Kernel) -> Lines:
    def lines() -> Iterator[StageLine]:
        number, numbers = 0, _held(of, "", kernel)
        for each in machine.operations(kernel.code):
            if each.symbol:
                number, numbers = number + 1, _held(of, each.symbol, kernel)
                yield _code_line(of, f"{each.symbol}:", number, numbers, True)
            number += 1
            text = f"  {each.address:5x}  {each.mnemonic:<14}{each.operands}".rstrip()
            yield _code_line(of, text, number, numbers, True)

    return lines


def _code_line(of: Stages, text: str, number: int, numbers: Numbers, work: bool) -> StageLine:
    note = "" if numbers or not text.strip() else LIBRARY if work else FRAME
    return StageLine(text, number, of.places(numbers), numbers, note)


def _held(of: Stages, function: str, kernel: Kernel) -> Numbers:
    """The equations of a function of machine code: those of the instruction or computation of its name, or of the
    kernel's.
    """
    pane = of.linked.hlo
    for name in (function, function.removesuffix(_LLVM_KERNEL_END), kernel.name):
        at = of.descent.line_of.get(name, -1)
        if at >= 0:
            return pane.links[at]
        found = of.computations.get(name, range(0))
        if found:
            return tuple(sorted({number for i in found for number in pane.links[i]}))
    return ()
