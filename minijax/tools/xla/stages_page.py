"""The stages of a call as a part of a page: source lines, and beside them the program after each of XLA's passes.

The page holds each line once, even if several stages share it. The script (``pages/stages.js``) shows the chosen stage,
marks linked lines, and finds the changes since the previous stage. Without scripts, the main texts appear as
``<details>`` and the passes as a list.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from minijax.tools.documents.document import Code, Highlighter, Line, code_lines, line
from minijax.tools.documents.html import shown
from minijax.tools.documents.room import MOST_HTML_OF_BLOCK
from minijax.tools.documents.words import plural
from minijax.tools.pages.page import MOST_LINES, Texts, element, packed
from minijax.tools.programs.link_views import short_file, signed
from minijax.tools.programs.links import Equation
from minijax.tools.xla import views
from minijax.tools.xla.stages import Stage, StageLine, Stages

# Minimum number of lines to show of each stage, and maximum number of kernels whose code is shown.
_FEWEST = 20
_MOST_KERNELS = 24
# Maximum number of characters of each text on a page without scripts.
_STATIC = 6000
# The heading above each kind of stage. A pass has the name of its pipeline as its heading.
_GROUPS = {
    "python": "your lines",
    "jaxpr": "the program",
    "stablehlo": "the program",
    "given": "the program",
    "final": "what runs",
    "memory": "what runs",
    "llvm": "LLVM IR of each kernel",
    "machine": "machine code of each kernel",
}
# Key -> highlighted line. The key (see ``_key``) has everything that the line's colours depend on.
Drawn = dict[tuple[str, str, int], Line]
_CUT = "%passes with --pass, --kernel or --memory shows all of it"


def stages_html(stages: Stages, highlight: Highlighter | None = None, title: str = "") -> str:
    """The HTML of this part. Long stages are cut, so that it fits into a notebook's output (``documents.room``)."""
    listed = [*_listed(stages)]
    static = "".join(_static(stages))
    drawn = _drawn(listed, highlight)
    most = min(max(len(stage.lines) for stage in listed), MOST_LINES)
    while True:
        data = _Collected(stages, listed, drawn, most).data(title)
        made = element(data, static)
        over = len(made) - MOST_HTML_OF_BLOCK
        if over <= 0 or most <= _FEWEST:
            return made
        # 10% of margin, because lines have different lengths
        room = 0.9 * max(len(data["packed"]) - over, 0) / len(data["packed"])
        most = max(_fitting([len(stage.lines) for stage in listed], most, room), _FEWEST)


def _fitting(lengths: Sequence[int], most: int, part: float) -> int:
    """A smaller ``most``: with every stage cut to that many lines, about the fraction ``part`` of the lines remains."""
    wanted = part * sum(min(length, most) for length in lengths)
    while most > 1 and sum(min(length, most) for length in lengths) > wanted:
        most = most * 9 // 10
    return most


def _listed(stages: Stages) -> Iterator[Stage]:
    """The stages on the page: with code of the first ``_MOST_KERNELS`` kernels, and with a memory stage."""
    kernels = {kernel.name: i for i, kernel in enumerate(stages.descent.kernels)}
    left = len(kernels) - _MOST_KERNELS
    for stage in stages.all:
        if stage.kind not in ("llvm", "machine") or kernels[stage.title] < _MOST_KERNELS:
            yield stage
        elif kernels[stage.title] == _MOST_KERNELS:
            yield Stage(f"… {plural(left, 'more kernel')}", stage.kind, "", tuple, "%passes --kernel NAME shows one")
        if stage.kind == "final" and stages.descent.memory.order:
            yield Stage("buffer assignment", "memory", "", lambda: memory_lines(stages), _peak(stages))


def _peak(stages: Stages) -> str:
    plan = stages.descent.memory
    return f"{plan.live_bytes} B at {plan.at}" if plan.at else ""


def memory_lines(stages: Stages) -> Iterator[StageLine]:
    """A line for each value in memory, ordered by the start of its lifetime."""
    plan = stages.descent.memory
    values = [(each, held) for each in plan.allocations for held in each.held if held.begin >= 0]
    values.sort(key=lambda pair: (pair[1].begin, pair[1].end, pair[1].name))
    digits = max((len(str(held.bytes)) for _, held in values), default=0)
    for number, (each, held) in enumerate(values, 1):
        equations, note = stages.linked.owners.get(held.name, ((), ""))
        where = f"#{each.number}+{held.offset}" if held.offset else f"#{each.number}"
        text = f"{views.lane(held, plan)}  {held.bytes:>{digits}} B  {each.kind:<9} {where:<8} {held.name}{held.part}"
        yield StageLine(text, number, stages.places(equations), equations, note, held.name)


class _Collected:
    """Collects the data for the script: at most ``most`` lines of each stage."""

    def __init__(self, stages: Stages, listed: Sequence[Stage], drawn: Drawn, most: int) -> None:
        self.stages = stages
        self.listed = listed
        self.most = most
        self.texts = Texts()
        self.notes: dict[str, int] = {}
        self.note_rows: list[list[Any]] = []
        self.links: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        self.files = {file: i for i, file in enumerate(_files(stages))}
        self.drawn = drawn
        self.rows = [[number for each in stage.lines[:most] for number in self._row(stage, each)] for stage in listed]

    def _row(self, stage: Stage, each: StageLine) -> tuple[int, ...]:
        """A line's record: text, number, link to its source lines and equations, note, name (-1: none), ``holds``."""
        spots = tuple(self.stages.colours[spot] for spot in each.places)
        link = self.links.setdefault((spots, each.equations), len(self.links))
        note = self.notes.get(each.note)
        if note is None:
            note = self.notes[each.note] = len(self.notes)
            # add the mark of lines that have this note but no source lines, and a sign for those that have some
            mark = self.stages.mark(each.replace(places=()))
            self.note_rows.append([shown(each.note), each.own, mark, signed("L", each.note).split("L")])
        name = self.texts.string(each.name) if each.name else -1
        text = self.texts.line(self.drawn[_key(stage, each)])
        return text, each.number, link, note, name, int(each.holds)

    def kept(self) -> dict[str, Any]:
        """The lines of all stages, and the tables that they refer to."""
        tables = self.texts.tables()
        return {**tables, "rows": self.rows, "links": list(self.links), "notes": self.note_rows}

    def header(self, title: str) -> dict[str, Any]:
        """The data of the stages without their lines. Only this part contains names of files."""
        main = self.stages.main_file
        return {
            "title": shown(title or "from Python to machine code"),
            "files": [[shown(short_file(file)), file == main] for file in self.files],
            "spots": [[self.files[file], number] for file, number in self.stages.spots],
            "equations": [self._equation(each) for each in self.stages.linked.equations],
            "stages": [self._stage(stage) for stage in self.listed],
        }

    def _equation(self, each: Equation) -> list[Any]:
        return [shown(each.primitive), self.files.get(each.file, -1), each.line]

    def _stage(self, stage: Stage) -> list[Any]:
        """A stage's heading, title, kind, detail, previous stage, note about cut lines, and changed source lines."""
        took = self.stages.descent.passes[stage.number - 1].time if stage.kind == "pass" else ""
        detail = " · ".join(filter(None, (stage.detail, took)))
        pipeline, _, name = stage.title.partition(" · ")
        group = _GROUPS.get(stage.kind, f"XLA · {pipeline}" if name else "XLA · between pipelines")
        cut = len(stage.lines) - self.most
        said = f"{plural(cut, 'more line')}: {_CUT}" if cut > 0 else ""
        title = name if stage.kind == "pass" and name else stage.title
        touched = [self.stages.colours[spot] for spot in self.stages.touched(stage)]
        return [shown(group), shown(title), stage.kind, shown(detail), stage.previous, said, touched]

    def data(self, title: str) -> dict[str, Any]:
        """All data for the script. The lines are packed."""
        return {**self.header(title), "packed": packed(self.kept())}


def _files(stages: Stages) -> list[str]:
    files = dict.fromkeys(pane.title for pane in stages.linked.python)
    files.update(dict.fromkeys(file for file, _ in stages.spots))
    files.update(dict.fromkeys(each.file for each in stages.linked.equations if each.line))
    return list(files)


def _key(stage: Stage, each: StageLine) -> tuple[str, str, int]:
    """The key of a highlighted line. In Python and jaxprs the colours also depend on neighbouring lines."""
    whole = stage.kind in ("python", "jaxpr")
    return stage.title if whole else stage.language, each.text, each.number if whole else 0


def _drawn(listed: Iterable[Stage], highlight: Highlighter | None) -> Drawn:
    """key -> highlighted line, for the lines of all stages. A line that several stages share has one key."""
    found: Drawn = {}
    wanted: dict[tuple[str, str], dict[tuple[str, str, int], str]] = {}
    for stage in listed:
        for each in stage.lines[:MOST_LINES]:
            key = _key(stage, each)
            wanted.setdefault((key[0], stage.language), {})[key] = each.text
    for (_, language), texts in wanted.items():
        lines = [*code_lines(Code("\n".join(texts.values()), language), highlight if language else None)]
        if len(lines) != len(texts):  # the highlighter has not kept the lines, so they stay without colours
            lines = [line(each) for each in texts.values()]
        found.update(zip(texts, lines, strict=True))
    return found


# ------------------------------------------------------------------------------------------------- without scripts


def _static(stages: Stages) -> Iterator[str]:
    yield "<pre>The main texts. With scripts enabled, all stages are shown: run this cell again.</pre>"
    for stage in stages.all:
        if stage.kind in ("python", "jaxpr", "stablehlo", "final"):
            yield _details(stage.title, _marked(stages, stage), stage.kind == "python")
    passes = [stage for stage in stages.all if stage.kind == "pass"]
    if passes:
        rows = (f"{number:>3}  {stage.title}  {stage.detail}" for number, stage in enumerate(passes, 1))
        yield _details(plural(len(passes), "step") + " of XLA", rows, False)
    kernels = [f"{stage.title}  {stage.detail} of machine code" for stage in stages.all if stage.kind == "machine"]
    if kernels:
        yield _details(plural(len(kernels), "kernel"), kernels, False)


def _marked(stages: Stages, stage: Stage) -> Iterator[str]:
    for each in stage.lines:
        yield f"{stages.mark(each):>9} {each.number:>4} {each.text}"


def _details(title: str, rows: Iterable[str], opened: bool) -> str:
    kept, left, missing = [], _STATIC, 0
    for each in rows:
        left -= len(each) + 1
        missing += left < 0
        if left >= 0:
            kept.append(each)
    if missing:
        kept.append(f"... {plural(missing, 'more line')}: {_CUT}")
    text = html.escape(shown("\n".join(kept)))
    start = "<details open>" if opened else "<details>"
    return f"{start}<summary>{html.escape(shown(title))}</summary><div><pre>{text}</pre></div></details>"
