"""The state of a browser of stages and the actions of its keys, without a terminal."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator

from minijax.core.records import Frozen
from minijax.repl.screen_model import AGAIN, ALONE, ENDS, PANE_KEYS, Keys, Model, both
from minijax.tools.documents.words import plural
from minijax.tools.programs.user_lines import Spot
from minijax.tools.xla.stages import Stage, StageLine, Stages

# In the diff of a pass, show this many unchanged lines around a changed one.
_AROUND = 2


class ShownLine(Frozen):
    """A row of a pane: a line of a stage, or a note in place of hidden lines. The ``line`` of a note is None.

    ``mark`` is '-' if the pass removed the line, '+' if it added it. ``index`` is the line's index in its stage.
    """

    line: StageLine | None
    text: str
    mark: str = " "
    index: int = -1


def _alike(count: int) -> Iterator[ShownLine]:
    """A note in place of this many unchanged lines."""
    if count:
        yield ShownLine(None, f"… {plural(count, 'line')} alike")


class StageBrowser(Model):
    """A browser of stages: its position and what it displays.

    Attributes:
      stages: the stages.
      programs: the stages without the Python files, which have their own pane.
      at: the index of the program shown.
      chosen: the source lines highlighted in all panes.
      rows: pane -> the row of the pane's cursor.
      diff: whether a pass is shown as a diff.
    """

    panes = ("python", "stage", "stages")
    notes = (
        "▶ the cursor · • from the same lines of yours · L4 line 4 · ↳L4 inherited · L4? guessed · XLA added by XLA",
        "A kernel's code belongs to its whole instruction: parts of it have no lines of yours.",
        "mouse: a click goes to a line or a stage, the wheel scrolls; with Shift it selects text",
    )

    def __init__(
        self,
        stages: Stages,
        title: str = "",
        chosen: tuple[Spot, ...] = (),
        rename: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__("stage", rename)
        self.stages = stages
        self.title = title
        self.programs: tuple[Stage, ...] = tuple(each for each in stages.all if each.kind != "python")
        self.at = 0
        self.chosen = chosen
        self.rows = dict.fromkeys(self.panes, 0)
        self.diff = False
        # for each link that was followed, the state before it
        self._followed: list[tuple[int, str, dict[str, int], tuple[Spot, ...]]] = []
        self._words = ""
        self._shown: dict[tuple[int, bool], tuple[ShownLine, ...]] = {}
        self.python = tuple(self._python())
        self.show(self._first())
        if not chosen:
            self._begin()

    @property
    def stage(self) -> Stage:
        return self.programs[self.at]

    def _first(self) -> int:
        """The index of the optimised program, which is shown first."""
        return next(i for i, each in enumerate(self.programs) if each.kind == "final")

    def _begin(self) -> None:
        """Go to the first instruction of the entry computation that has a source line."""
        rows = self.shown("stage")
        entry = next((i for i, row in enumerate(rows) if row.text.startswith("ENTRY ")), 0)
        found = (i for i in range(entry, len(rows)) if (line := rows[i].line) is not None and line.places)
        self._to_row(next(found, 0))

    def _python(self) -> Iterator[ShownLine]:
        """The source files one after the other, with the mark ``⋮`` in place of lines that are left out."""
        files = [each for each in self.stages.all if each.kind == "python"]
        texts = [each.text for stage in files for each in stage.lines if each.text.strip()]
        margin = min((len(each) - len(each.lstrip()) for each in texts), default=0)
        for stage in files:
            if len(files) > 1:
                yield ShownLine(None, self.rename(stage.title))
            before = 0
            for i, each in enumerate(stage.lines):
                if before and each.number != before + 1:
                    yield ShownLine(None, "⋮")
                before = each.number
                yield ShownLine(each, each.text[margin:], index=i)

    def shown(self, pane: str) -> tuple[ShownLine, ...]:
        """The rows of the pane ``python`` or ``stage``."""
        if pane == "python":
            return self.python
        key = self.at, self.diff
        found = self._shown.get(key)
        if found is None:
            compared = self.diff and self.stage.previous >= 0
            made = (
                self._compared()
                if compared
                else (ShownLine(each, each.text, index=i) for i, each in enumerate(self.stage.lines))
            )
            found = self._shown[key] = tuple(made)
        return found

    def _compared(self) -> Iterator[ShownLine]:
        """The diff of the stage against the previous one, with a few unchanged lines around each change."""
        before, after = self.stages.all[self.stage.previous].lines, self.stage.lines
        texts = [each.text for each in before], [each.text for each in after]
        shown = 0
        for group in difflib.SequenceMatcher(None, *texts, False).get_grouped_opcodes(_AROUND):
            yield from _alike(group[0][3] - shown)
            for tag, i, to_i, j, to_j in group:
                if tag != "equal":
                    yield from (ShownLine(before[at], before[at].text, "-") for at in range(i, to_i))
                mark = " " if tag == "equal" else "+"
                yield from (ShownLine(after[at], after[at].text, mark, at) for at in range(j, to_j))
            shown = group[-1][4]
        yield from _alike(len(after) - shown)

    def current(self) -> StageLine | None:
        pane = "stage" if self.focus == "stages" else self.focus
        rows = self.shown(pane)
        return rows[self.rows[pane]].line if self.rows[pane] < len(rows) else None

    def linked(self, row: ShownLine) -> bool:
        """Whether a row comes from one of the chosen lines."""
        return row.line is not None and not set(self.chosen).isdisjoint(row.line.places)

    def linked_rows(self, pane: str) -> list[int]:
        """The rows of a pane that come from one of the chosen lines."""
        return [i for i, row in enumerate(self.shown(pane)) if self.linked(row)]

    def touched(self, stage: Stage) -> bool:
        return not set(self.chosen).isdisjoint(self.stages.touched(stage))

    def click(self, pane: str, row: str) -> None:
        if pane in self.panes:
            self.focus = pane
            if row:
                self._to_row(int(row))

    def wheel(self, pane: str, lines: int) -> None:
        """Scroll the pane under the mouse; its cursor stays."""
        if pane in self.panes:
            down, right = self.scrolled.get(pane, (0, 0))
            self.scrolled[pane] = (down + lines, right)

    def scroll(self, lines: int) -> None:
        self._to_row((self.at if self.focus == "stages" else self.rows[self.focus]) + lines)

    def sideways(self, columns: int) -> None:
        down, right = self.scrolled.get(self.focus, (0, 0))
        self.scrolled[self.focus] = (down, max(right + columns, 0))

    def _to_row(self, row: int) -> None:
        """Move the focused pane's cursor to a row; highlight its source lines in all panes."""
        if self.focus == "stages":
            self.go(min(max(row, 0), len(self.programs) - 1))
            return
        rows = self.shown(self.focus)
        self.rows[self.focus] = min(max(row, 0), max(len(rows) - 1, 0))
        self.scrolled.pop(self.focus, None)
        self.choose()

    def choose(self) -> None:
        """Highlight everything from the same source lines as the line at the cursor."""
        line = self.current()
        self.chosen = () if line is None else line.places
        for pane in ("python", "stage"):
            if pane != self.focus:
                self._into_sight(pane)

    def _into_sight(self, pane: str) -> None:
        """Move the cursor of an unfocused pane to its first highlighted row, if it has one."""
        found = self.linked_rows(pane)
        if found and self.rows[pane] not in found:
            self.rows[pane] = found[0]
        self.scrolled.pop(pane, None)

    def show(self, at: int) -> None:
        """Show the program with this index, scrolled to a highlighted row."""
        self.at = at
        self.rows["stage"] = next(iter(self.linked_rows("stage")), 0)
        self.scrolled.pop("stage", None)
        self.scrolled.pop("stages", None)

    def go(self, at: int) -> None:
        """Show another program, and a message if none of its rows is highlighted."""
        if at != self.at:
            self.show(at)
        if self.chosen and not self.linked_rows("stage"):
            self.say(f"nothing here comes from {self.chosen_text()}{self.why_not()}", "muted")

    def chosen_text(self) -> str:
        """The chosen lines as text: ``L4, 7``."""
        return self.stages.mark(StageLine("", 0, self.chosen))

    def why_not(self) -> str:
        """Why the program that is shown has no row from the chosen lines; '' if unknown."""
        field = {"stablehlo": "stablehlo_note", "final": "hlo_note"}.get(self.stage.kind, "")
        numbers = [number for number, spot in self.stages.of_equation.items() if spot in self.chosen]
        notes = {getattr(self.stages.linked.equation(number), field) for number in numbers} if field else set()
        return f": {notes.pop()}" if len(notes) == 1 else ""

    def next_stage(self, step: int) -> None:
        if 0 <= self.at + step < len(self.programs):
            self.go(self.at + step)
        else:
            self.say(f"this is the {'last' if step > 0 else 'first'} stage", "muted")

    def next_change(self, step: int) -> None:
        at = self.at + step
        while 0 <= at < len(self.programs):
            if self.touched(self.programs[at]):
                self.show(at)
                return
            at += step
        there = "after" if step > 0 else "before"
        chosen = self.chosen_text()
        said = f"no pass {there} this stage changed {chosen}" if chosen else "no line is highlighted: choose one first"
        self.say(said, "muted")

    def next_linked(self, step: int) -> None:
        """Go to the next highlighted row of the focused pane; the highlighting stays."""
        if self.focus == "stages":
            self.next_change(step)
            return
        here = self.rows[self.focus]
        found = [i for i in self.linked_rows(self.focus) if (i > here if step > 0 else i < here)]
        if not found:
            self.say(f"no more of {self.chosen_text() or 'the highlighted lines'} here", "muted")
            return
        self.rows[self.focus] = found[0] if step > 0 else found[-1]
        self.scrolled.pop(self.focus, None)

    def follow(self) -> None:
        """Go to the same line in the next stage that has it; after the last stage, to its Python line."""
        if not self.chosen:
            self.say("this line comes from none of your lines", "muted")
            return
        before = self.at, self.focus, dict(self.rows), self.chosen
        kernel = self._kernel()
        if self.focus == "python" and self.linked_rows("stage"):
            self.focus = "stage"
        elif kernel >= 0:
            self.show(kernel)
        else:
            chosen = set(self.chosen)
            begin = self.at if self.focus == "python" else self.at + 1
            for at in range(begin, len(self.programs)):
                if any(not chosen.isdisjoint(each.places) for each in self.programs[at].lines):
                    self.focus = "stage"
                    self.show(at)
                    break
            else:
                self.focus = "python"
                self._into_sight("python")
                self.show(0)
                self.say("that was the last stage: here is its Python line; Backspace goes back", "muted")
        self._followed.append(before)

    def _kernel(self) -> int:
        """The index of the kernel for the instruction at the cursor: LLVM IR first, then machine code; -1 if none."""
        line = self.current()
        if self.focus != "stage" or line is None:
            return -1
        names = {"final": (line.name, "llvm"), "llvm": (self.stage.title, "machine")}
        wanted = names.get(self.stage.kind)
        found = (i for i, each in enumerate(self.programs) if (each.title, each.kind) == wanted)
        return next(found, -1)

    def return_(self) -> None:
        """Go back to the line where Enter followed the last link."""
        if not self._followed:
            self.say("Enter has followed no link yet", "muted")
            return
        self.at, self.focus, self.rows, self.chosen = self._followed.pop()
        self.scrolled.clear()

    def toggle_diff(self) -> None:
        row = self.shown("stage")[self.rows["stage"]] if self.shown("stage") else None
        self.diff = not self.diff
        if self.diff and self.stage.previous < 0:
            self.say("only passes are shown as a diff, and this stage is not a pass", "muted")
        rows = self.shown("stage")
        at = next((i for i, each in enumerate(rows) if row is not None and each.index == row.index >= 0), -1)
        if at < 0:
            at = next((i for i, each in enumerate(rows) if each.mark != " "), 0)
        self.rows["stage"] = at
        self.scrolled.pop("stage", None)

    def search(self) -> None:
        def find(words: str) -> None:
            self._words = words
            self.again()

        self.ask("search (in this stage, then in the others)", find)

    def again(self, backwards: bool = False) -> None:
        """Repeat the last search: from the cursor on, then in the other stages."""
        if not self._words:
            self.say("nothing has been searched for yet: / searches for words", "muted")
            return
        step = -1 if backwards else 1
        words = self._words.lower()
        here = self.rows["stage"]
        rows = [i for i, row in enumerate(self.shown("stage")) if words in row.text.lower()]
        beyond = [i for i in rows if (i < here if backwards else i > here)]
        if beyond:
            self.focus = "stage"
            self._to_row(beyond[-1 if backwards else 0])
            return
        for offset in range(1, len(self.programs) + 1):
            at = (self.at + step * offset) % len(self.programs)
            found = [i for i, each in enumerate(self.programs[at].lines) if words in each.text.lower()]
            if found:
                self._found(at, found[-1 if backwards else 0])
                return
        self.say(f"no {self._words!r} in any stage")

    def _found(self, at: int, index: int) -> None:
        """Go to a line that a search found; leave the diff if it hides the line."""
        self.focus = "stage"
        if at != self.at:
            self.show(at)
            self.say(f"found in {self.stage.title}", "muted")
        row = next((i for i, row in enumerate(self.shown("stage")) if row.index == index), -1)
        if row < 0:
            self.diff, row = False, index
        self._to_row(row)

    keys: Keys = {
        "Lines": (
            ("↓ ↑ j k", "the next line, the one before", both("down j", "up k", scroll)),
            ("PgDn PgUp", "one page down, up", both("pagedown space", "pageup", lambda b, n: b.scroll(n * b.a_page()))),
            ("End G Home g", "the last line, the first", both("end G", "home g", scroll, 10**9)),
            ("] [", "the next highlighted line, the one before", both("]", "[", next_linked)),
            ("→ ← l h", "scroll right, left", both("right l", "left h", sideways, 8)),
        ),
        "Stages": (
            ("n p", "the next stage, the one before", both("n", "p", next_stage)),
            ("N P", "the next, previous pass that changed highlighted lines", both("N", "P", next_change)),
            ("Enter", "the same line in the next stage; a fusion's kernel", {"enter": follow}),
            ("Backspace", "back to the line before Enter", {"backspace": return_}),
            ("d", "a pass as a diff, or whole", {"d": toggle_diff}),
        ),
        "Other": (
            ("/", "search this stage, then the others", {"/": search}),
            (". ,", "the last search again, backwards", AGAIN),
            ("Tab 1 2 3", "the next pane, or the one with this number", PANE_KEYS),
            ALONE,
            *ENDS,
        ),
    }
