"""The stages of one call, from Python to machine code, each line linked to its source lines.

A browser of stages shows them in a terminal or on a page. A line belongs to equations of the jaxpr, and so to the lines
of Python that they come from. Two lines of different stages are linked if they come from the same line of Python. A
note says what a line without an equation is, or that XLA added the line for an equation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from minijax.core.records import Frozen
from minijax.tools.documents.words import plural
from minijax.tools.programs import arguments, hlo
from minijax.tools.programs.link_views import held_text, mark_text, names_text, short_file, signed
from minijax.tools.programs.links import LinkedPrograms, Numbers, Pane
from minijax.tools.programs.owners import COPIED, MADE
from minijax.tools.programs.user_lines import Spot, UserLines
from minijax.tools.xla import machine
from minijax.tools.xla.dumps import Kernel
from minijax.tools.xla.pipeline import Descent, Pass

# The kinds of stage, in the order of compilation: 'given' is XLA's input HLO, 'final' the optimized HLO.
KINDS = ("python", "jaxpr", "stablehlo", "given", "pass", "final", "llvm", "machine")

# ``define void @fusion.1(ptr %0) {``, where LLVM quotes some names
_LLVM_FUNCTION = r'define [^@]*@(?:"([^"]+)"|([\w.$-]+))\('
_LLVM_KERNEL_END = "_kernel"
_COMPUTATION = r"(?:ENTRY )?%?([\w.-]+) \(.*\{$"
# Why a line of a kernel's code has no equation.
LIBRARY, FRAME = "XLA's own code", "LLVM's own"
# Notes on lines that XLA added by itself. ``_SHORT``: note -> the short mark of a line with this note.
_OWN = frozenset((MADE, COPIED, LIBRARY))
_SHORT = {
    "parameter": "arg",
    "constant": "const",
    "tuple": "tuple",
    "element of a tuple": "part",
    "view": "view",
    MADE: "XLA ?",
    COPIED: "XLA",
    LIBRARY: "XLA",
    FRAME: "LLVM",
}


class StageLine(Frozen):
    """A line of a stage. ``number`` is its line number; for Python, its line number in the source file.

    ``places`` are its source lines, in order, and ``equations`` the numbers of its jaxpr equations. ``note`` says what
    an instruction without an equation is ('constant', 'copy made by XLA'), or how its equations are known (``owners``).
    ``name`` and ``opcode`` are the instruction's.
    """

    text: str
    number: int
    places: tuple[Spot, ...] = ()
    equations: Numbers = ()
    note: str = ""
    name: str = ""
    opcode: str = ""

    @property
    def holds(self) -> bool:
        """Whether the line is a fusion or a call, with equations inside."""
        return self.opcode in hlo.HOLDING and bool(self.equations)

    @property
    def own(self) -> bool:
        """Whether XLA added the line, so that nothing in the source is known to ask for it."""
        return self.note in _OWN


class Stage:
    """The text of the program at one stage of compilation.

    Attributes:
      title: such as ``jaxpr``, ``simplification · algsimp`` or ``fusion.1``.
      kind: one of ``KINDS``.
      language: the language of the text, as ``documents.lexer`` calls it.
      detail: a summary of changes or size, such as ``21 → 9  -3 dot +1 fusion``; '' for most stages.
      previous: for a pass, the index of the stage before it; -1 for other stages.
      number: the pass's number among the passes that changed the program, from 1; 0 for other stages.
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
        """The lines of the stage, linked to the source when they are first needed."""
        return tuple(self._lines())


class Stages(UserLines):
    """All stages of a call.

    Attributes:
      all: the stages in the order of compilation: source files, jaxpr, StableHLO, XLA's input HLO, each pass that
          changed it, the optimized HLO, the LLVM IR of each kernel, the machine code of each kernel.
      descent: the passes, memory and kernels that the stages come from.
    """

    def __init__(self, descent: Descent) -> None:
        super().__init__(descent.linked)
        self.descent = descent
        self.linked: LinkedPrograms = descent.linked
        self.all = tuple(_stages(self))
        self._touched: dict[int, tuple[Spot, ...]] = {}

    def __repr__(self) -> str:
        return f"<{len(self.all)} stages: {', '.join(each.title for each in self.all)}>"

    @cached_property
    def computations(self) -> dict[str, range]:
        """name of a computation in the optimized HLO -> the indices of its lines."""
        found: dict[str, range] = {}
        name, begin = "", 0
        for i, text in enumerate(self.linked.hlo.lines):
            begun = re.match(_COMPUTATION, text)
            if begun is not None:
                name, begin = begun[1], i + 1
            elif text.startswith("}"):
                found.setdefault(name, range(begin, i))
        return found

    def belonging(self, stage: Stage, wanted: Iterable[Spot]) -> tuple[int, ...]:
        """The indices of a stage's lines that come from the source lines ``wanted``."""
        among = frozenset(wanted)
        return tuple(i for i, each in enumerate(stage.lines) if not among.isdisjoint(each.places))

    def mark(self, each: StageLine) -> str:
        """The source lines of a line: ``L4``, ``L4, 7–9``, ``model:12`` (lines of the main file have no file name),
        ``↳L4`` if they are inherited, ``L4?`` if they are guessed.

        ``XLA`` marks a line that XLA added, ``XLA ?`` a line whose source line is unknown. Other lines without a source
        line have marks such as ``const`` or ``arg``, or ''.
        """
        return signed(mark_text(each.places, self.main_file), each.note) or _SHORT.get(each.note, "")

    def touched(self, stage: Stage) -> tuple[Spot, ...]:
        """The source lines whose instructions the pass of ``stage`` changed; () if the stage is no pass."""
        if stage.kind != "pass":
            return ()
        found = self._touched.get(stage.number)
        if found is None:
            before, after = (
                Counter((each.opcode, each.equations) for each in one.lines if each.equations)
                for one in (self.all[stage.previous], stage)
            )
            changed = (before - after) + (after - before)
            found = self._touched[stage.number] = self.places({n for _, numbers in changed for n in numbers})
        return found

    def told(self, each: StageLine) -> str:
        """What a line contains, or why it has no source line: ``fusion.3 = tanh, mul of line 4``."""
        held = held_text([self.linked.equation(number) for number in each.equations])
        said = " · ".join(filter(None, (held, each.note)))
        return f"{each.name} = {said}" if each.name and said else said

    def names(self, each: StageLine, most: int) -> str:
        """The equations of a line in at most ``most`` characters, such as ``tanh, mul +2`` if two more do not fit."""
        return names_text([self.linked.equation(number) for number in each.equations], most)


def stages(descent: Descent) -> Stages:
    """Every stage of the call that ``descent`` describes. The lines of a stage are computed when first needed."""
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
    """The lines of Python. A line has the equations that begin on it; if none do, the equations that extend over it."""

    def lines() -> Iterator[StageLine]:
        for text, number, numbers in zip(pane.lines, pane.numbers, pane.links, strict=True):
            spot = (pane.title, number)
            found = (spot,) if spot in of.colours else of.places(numbers)
            equations = tuple(n for n in numbers if of.of_equation.get(n) in found)
            yield StageLine(text, number, found, equations)

    return lines


def _program(of: Stages, pane: Pane) -> Lines:
    """The lines of a program, in which the arguments have their Python names."""

    def lines() -> Iterator[StageLine]:
        known = hlo.instructions(pane.lines) if pane.language == "hlo" else {}
        names, shown = _called(of.descent, pane)
        for i, (text, number, numbers, note) in enumerate(
            zip(shown, pane.numbers, pane.links, pane.notes, strict=True)
        ):
            each = known.get(i)
            name, opcode = ("", "") if each is None else (names.get(each.name, each.name), each.opcode)
            yield StageLine(text, number, of.places(numbers), numbers, note, name, opcode)

    return lines


def _called(descent: Descent, pane: Pane) -> tuple[dict[str, str], list[str]]:
    """name of an argument in the program -> its Python name; and the program's lines with the Python names."""
    if pane.language == "hlo":
        names = arguments.hlo_names("\n".join(pane.lines), descent.arguments)
        return names, arguments.named_hlo(pane.lines, names)
    names = arguments.stablehlo_names(descent.arguments) if pane.language == "stablehlo" else {}
    return names, arguments.named_stablehlo(pane.lines, names)


def _text(of: Stages, text: str) -> Lines:
    return lambda: _program(of, of.descent.pane(text))()


# A kernel's code belongs to an instruction as a whole: nothing shows which lines of the code are for which equation.
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
    """The equations of the HLO instruction or computation with the function's name, or else with the kernel's name."""
    for name in (function, function.removesuffix(_LLVM_KERNEL_END), kernel.name):
        if name and name in of.linked.owners:
            return of.linked.owners[name][0]
        if name in of.computations:
            links = of.linked.hlo.links
            return tuple(sorted({number for i in of.computations[name] for number in links[i]}))
    return ()
