"""A recording's values pane at every moment, beside what prints in the program show (see ``compare``)."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from minijax.tools.documents.document import Text, document, plain
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.records import place_parts
from minijax.tools.values.moment import Ledger, Unknown, Worth, ledger
from minijax.tools.values.table import (
    COLUMNS,
    MOST_ROWS,
    NOT_NOW,
    Named,
    ValueRow,
    named_values,
    rows_at,
    rows_of,
    table_lines,
    values_pane,
)
from tests.tools.moments import watching
from tests.tools.moments.printing import Function, Prints, Shown, Site, Turns
from tests.tools.moments.watching import Print, Recorded

WIDTH = 120
_PICTURE = re.compile("[\u2581-\u2588·]+")
_ELEMENT = re.compile(r"[-+]?(?:\d[\d,]*\d|\d)(?:\.\d*)?(?:e[-+]?\d+)?|True|False|-?inf|nan")
_N = f"(?:{_ELEMENT.pattern})"
# What a cell may say: the examples, the type, and elements, a range, or how many are true.
_TOLD = re.compile(
    rf"(?:(?P<examples>(?:\d+×)+) )?(?:(?P<kind>[a-z]+)\d*\[(?P<shape>[\d,]*)\] ?)?"
    rf"(?P<rest>(?P<true>\d+) of (?P<of>\d+) true|(?P<low>{_N}) … (?P<high>{_N})(?P<mean> mean {_N})?|(?P<all>all ){_N}"
    rf"|[\[\], ]*(?:(?:{_N})[\[\], ]*)*)"
)
_KINDS = {"f": ("f", "bf"), "i": ("i",), "u": ("u", "key"), "b": ("bool",), "c": ("c",)}
_WORDS = {"True": 1, "False": 0}


class Verdict:
    """What a comparison found.

    Attributes:
      moments: how many were looked at.
      cells: how many cells of panes had a value, at all moments together, each held to what a print showed.
      values: how many different ones these were.
      iterations: how many values were compared besides, in every turn of the loops around them.
      named_later: how many values were made by an earlier statement, or by a transformation, than the one that first
        sets a variable to them.
      reasons: what cells said instead of a value, and how often, of the different ones.
      unprinted: rows for which the program has no print: what a library computes.
      of_lines: how many of them had values, which were held to what JAX's equations of that line give.
      beyond: derivatives for which there is no print: JAX does not compute them (of what is not differentiated, inside
        a loop), or the value was used before the program had it.
      parts: cotangents that were not complete, and are what the last uses of the value gave.
      finer: those that are only a part of what one use gives, and so have no print: how many of which value.
      wrong: what is not as it should be, each once.
      missing: what is not shown, and is known not to be.
      calls: how often functions of the program were called when somebody looked.
    """

    def __init__(self) -> None:
        self.moments = self.cells = self.values = self.iterations = 0
        self.named_later = self.of_lines = self.beyond = self.parts = 0
        self.finer: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.unprinted: Counter[str] = Counter()
        self.wrong: dict[str, None] = {}
        self.missing: dict[str, None] = {}
        self.calls: Counter[Function] = Counter()

    def __repr__(self) -> str:
        said = f"{self.moments} moments, {self.cells} cells, {self.values} values, {self.iterations} in turns"
        unprinted = self.beyond + self.finer.total()
        more = f"{self.parts} partial cotangents, {self.of_lines} of lines, {unprinted} without a print"
        return f"{said}, {more}; {len(self.missing)} missing, {len(self.wrong)} wrong"


class Comparison:
    """One recording, and the prints of the same program."""

    def __init__(self, recorded: Recorded, prints: Prints, lacking: str) -> None:
        self.recorded, self.prints, self.lacking = recorded, prints, lacking
        self.known: Ledger = ledger(recorded.recording)
        self.sites = prints.of_sites()
        self.verdict = Verdict()
        self.of_number: dict[int, list[Print]] = defaultdict(list)
        for each in recorded.watch.prints:
            if each.number:
                self.of_number[each.number].append(each)
        self.counts = Counter(each.site for each in recorded.watch.prints)
        self.begun: dict[tuple[str, int], list[int]] = defaultdict(list)
        for at, function, line in recorded.watch.stood:
            self.begun[function[1], line].append(at)
        # number of a value -> the print that shows it, and which run of its program
        self.pairs: dict[int, tuple[int, int]] = {}
        # number -> how many uses of it have given their part of its cotangent, less one
        self.arrived: dict[int, int] = {}
        self.checked: dict[tuple[int, str, Turns, str, str], None] = {}
        self._pair()

    def wrong(self, said: str) -> None:
        self.verdict.wrong[said] = None

    # --- which print is a row's
    # -----------------------------------------------------------------------------------------

    def _pair(self) -> None:
        later: Counter[tuple[str, str]] = Counter()
        rows: dict[Site, list[Named]] = defaultdict(list)
        for named in named_values(self.known):
            if named.number < 0:  # of a program that runs again
                later[named.life.place, named.name] += 1
            found = self._site_of(named)
            if found is None:
                continue
            if named.number < 0:
                self.pairs[named.number] = self.sites[found][0], later[named.life.place, named.name]
            else:
                rows[found].append(named)
        for site, every in rows.items():
            times = self._times(site, every)
            for named in every:
                number = times[named.number]
                if number is not None:
                    self.pairs[named.number] = number, 0

    def _site_of(self, named: Named) -> Site | None:
        """Where in the program a row is from; None of what is a library's."""
        file, line, function = place_parts(named.life.place)
        own = file == self.recorded.watch.file
        if named.number > 0 and named.variable:
            sites = [each.site for each in self.of_number.get(named.number, ())]
            if named.name in [site[1] for site in sites]:
                return sites[0]
            if not sites and (site := self._argument(named)) is not None:
                return site
            if not sites or any(each.began <= named.life.born for each in self.of_number[named.number]):
                self._unprinted(named)
            else:
                self.wrong(f"{named.name} is called {[site[1] for site in sites]} in the program")
            return None
        if not own:
            self._unprinted(named)
            return None
        sites = [s for s in self.sites if s[0][1] == function and s[1] == named.name and bool(s[2]) != named.variable]
        sites = [site for site in sites if site[2] in (0, line)]
        if len(sites) != 1:
            self.wrong(f"{named.name} in line {line} is no expression of the program's: {sites}")
            return None
        return sites[0]

    def _argument(self, named: Named) -> Site | None:
        """Where a value is an argument of a function that JAX staged for minijax as a whole."""
        sites = [site for site in self.sites if site[1] == named.name and not site[2]]
        return sites[0] if len(sites) == 1 and not self.counts[sites[0]] else None

    def _times(self, site: Site, rows: list[Named]) -> dict[int, int | None]:
        """The print of each of the values of a site."""
        every = self.sites.get(site, [])
        ran = [number for number in every if self.prints.runs(number, "primal")]
        if site[2] or not self.counts[site]:
            found = [named.number for named in rows]
        else:
            found = [each.number for each in self.recorded.watch.prints if each.site == site]
        if len(found) not in (len(every), len(ran)):
            found = [number for number in found if isinstance(self.known.primal(number), Worth)]
        for prints in (every, ran):
            if len(found) == len(prints):
                known = dict(zip(found, prints, strict=True))
                return {named.number: known.get(named.number) for named in rows}
        if site[2]:  # a value has a row where no variable holds it
            return {named.number: self._as_late(named, site, every) for named in rows}
        self.wrong(f"{site[1]} is set {len(found)} times, and {len(ran)} times in JAX")
        return {named.number: None for named in rows}

    def _as_late(self, named: Named, site: Site, every: Sequence[int]) -> int | None:
        """The print of an expression that is met when its line begins for as many times as until the row."""
        times = sum(at <= named.life.born for at in self.begun[site[0][1], site[2]])
        return every[times - 1] if 0 < times <= len(every) else None

    def _unprinted(self, named: Named) -> None:
        """A row for which there is no print: what a library computes. Its line in JAX gives the same."""
        self.verdict.unprinted["variable" if named.variable else "expression"] += 1
        found = self.known.primal(named.number)
        if isinstance(found, Worth) and self.prints.lines:
            file, line, _ = place_parts(named.life.place)
            value = np.asarray(found.array._value())
            self.verdict.of_lines += 1
            known = [each for each in (*self.prints.lines[file, line], *self.prints.given) if each.shape == value.shape]
            if not any(_close(value, Shown(each, 0, None)) for each in known):
                self.wrong(f"{named.name} of {named.life.place} is {value.tolist()}, which no equation there gives")

    # --- moments
    # ---------------------------------------------------------------------------------------------------------

    def moments(self, step: int = 1) -> None:
        """Look at every moment, or at every so manyth and the last."""
        cursor = Cursor(self.recorded.recording)
        last = len(cursor.moments) - 1
        for position in sorted({*range(0, last, step), last}):
            cursor.position = position
            self._moment(cursor, position == last)

    def _moment(self, cursor: Cursor, last: bool) -> None:
        self.verdict.moments += 1
        before = cursor.moments[cursor.position - 1].at if cursor.position else -1
        rows = rows_at(self.known, cursor.moment.at, before)
        text = plain(values_pane(cursor, WIDTH), WIDTH).splitlines()
        for row, turns, cells in _parsed(text, rows.shown):
            if row is None:
                self.wrong(f"moment {cursor.position}: the pane and the table differ: {text}")
                return
            self._row(row, turns, cells, cursor.moment.at, last)

    def _row(self, row: ValueRow, turns: Turns, cells: dict[str, str], at: int, last: bool) -> None:
        number = row.named.number
        if row.named.life.born > at:
            self.wrong(f"{row.named.name} is shown before it is made")
        pair = self.pairs.get(number)
        if pair is None:
            return
        for column in COLUMNS:
            cell = cells.get(column, "")
            key = (number, column, turns, cell, "last" if last else "")
            if isinstance(row.known[column], Worth):
                self.verdict.cells += 1
            if key not in self.checked:
                self.checked[key] = None
                self._cell(row, column, turns, cell, pair, at if not last else -1)

    def _cell(
        self, row: ValueRow, column: str, turns: Turns, cell: str, pair: tuple[int, int], at: int
    ) -> None:
        """Hold a cell to what is printed; ``at`` is the event of the moment, -1 at the last."""
        last = at < 0
        found, name = row.known[column], f"{row.named.name} ({row.named.number}) {column}"
        printed = self._printed(pair, column, turns)
        if found is NOT_NOW["primal"]:
            self.verdict.reasons["takes long"] += 1
        elif isinstance(found, Unknown):
            self.verdict.reasons[f"{column}: {found.reason}"] += 1
            if self.prints.runs(pair[0], column) and (printed is not None or not turns):
                self._missing(column, f"{name} is {cell!r}, and is printed")
        elif found is None:
            if printed is not None and np.any(printed.value) and (last or column != "cotangent"):
                self._missing(column, f"{name} is not shown; a print shows {printed.value.tolist()} {turns}")
        elif column == "cotangent" and not last:
            self._part(row.named, found, pair, turns)
            self._returned(row.named, at)
        else:
            self.verdict.values += 1
            self._same(row.named, column, turns, found, printed, cell)

    def _missing(self, column: str, said: str) -> None:
        if column == self.lacking:
            self.verdict.missing[said] = None
        else:
            self.wrong(said)

    def _printed(self, pair: tuple[int, int], column: str, turns: Turns) -> Shown | None:
        runs = self.prints.runs(pair[0], column)
        if column == "cotangent":  # the last run's come first
            runs = runs[::-1]
        return runs[pair[1]].get(turns) if pair[1] < len(runs) else None

    def _part(self, named: Named, found: Worth, pair: tuple[int, int], turns: Turns) -> None:
        """A cotangent before the end: what the last uses of the value gave."""
        parts = [self._printed((number, pair[1]), "cotangent", turns) for number in self.prints.uses(pair[0])]
        sums = list(itertools.accumulate(each.value for each in reversed(parts) if each is not None))
        whole = self._printed(pair, "cotangent", turns)
        if not sums and whole is not None:
            sums = [whole.value]
        value, number = np.asarray(found.array._value()), named.number
        alike = [each.shape == value.shape and _close(value, Shown(each, 0, None)) for each in sums]
        if not any(alike):
            self.verdict.finer[f"{named.name} of {named.life.place.rpartition('/')[2]}"] += 1
            self.arrived.setdefault(number, -1)
            return
        self.verdict.parts += 1
        before = self.arrived.get(number)
        first = 0 if before is None else max(before, 0)
        now = next((i for i in range(first, len(sums)) if alike[i]), -1)
        if now < 0:
            self.wrong(f"cotangent of {named.name} ({number}) is what it was before: {value.tolist()} of {sums}")
        elif before is None and now > 0 and "variable" not in dict(named.life.tracer.fields):
            # what is inside a staged program has its cotangent at once when that has been run backwards
            self.wrong(f"cotangent of {named.name} ({number}) is that of {now + 1} uses at once: {value.tolist()}")
        self.arrived[number] = now

    def _returned(self, named: Named, at: int) -> None:
        """A backward pass begins when the function has returned."""
        for each in self.of_number.get(named.number, ())[:1]:
            if self.recorded.watch.returned.get(each.call, -1) > at:
                self.wrong(f"{named.name} ({named.number}) has a cotangent at {at}, before its function has returned")

    def _same(
        self, named: Named, column: str, turns: Turns, found: Worth, printed: Shown | None, cell: str
    ) -> None:
        """Hold a value, and the text of it, to what is printed."""
        name = f"{named.name} ({named.number}) {column} {turns if turns else ''}"
        value = np.asarray(found.array._value())
        others = self._alias(named.number, turns) if column == "cotangent" else []
        printed = next((each for each in others if _close(value, each)), printed)
        if column == "cotangent" and self._used_before(named.number):
            if printed is None or not _close(value, printed):
                self.verdict.beyond += 1
                return
        if printed is None:
            if turns and column != "primal":
                self.verdict.beyond += 1
            elif np.any(value) or column == "primal":
                self.wrong(f"{name} is {value.tolist()}; nothing is printed")
            return
        printed = _without_equal_examples(printed, len(found.axes))
        if printed.axes != len(found.axes) or printed.value.shape != value.shape:
            shape = printed.value.shape
            self.wrong(f"{name} has {len(found.axes)} axes of {value.shape}; printed are {printed.axes} of {shape}")
        elif not _close(value, printed):
            self.wrong(f"{name} is {value.tolist()}; a print shows {printed.value.tolist()}")
        elif printed.active is None and cell and not says(cell, printed.value, printed.axes):
            self.wrong(f"{name} is shown as {cell!r}; a print shows {printed.value.tolist()}")

    def _alias(self, number: int, turns: Turns) -> list[Shown]:
        """The cotangents that are printed of other values for which the same variable of a program stands."""
        variables = self.known.kept.variables
        same = [n for n in self.pairs if n != number and variables.get(n) is variables.get(number) is not None]
        found = [self._printed(self.pairs[n], "cotangent", turns) for n in same]
        return [each for each in found if each is not None]

    def _used_before(self, number: int) -> bool:
        """Whether a library used a value before the program has it: a print shows a part of its cotangent."""
        prints = self.of_number.get(number)
        return bool(prints) and self.recorded.used.get(number, prints[0].at) < prints[0].at

    # --- all turns of loops
    # ---------------------------------------------------------------------------------------------------

    def turns(self) -> None:
        """Compare each value in every turn of the loops that it is in."""
        for named in named_values(self.known):
            if named.number in self.pairs:
                for turns in self._every_turn(named.number, ()):
                    self._turn(named, turns)
        self.known.iterations.clear()

    def _every_turn(self, number: int, chosen: Turns) -> Iterator[Turns]:
        loops = self.known.loops(number)
        if len(chosen) == len(loops):
            if chosen:
                yield chosen
            return
        for index in range(loops[len(chosen)].count):
            self.known.iterations[loops[len(chosen)].key] = index
            yield from self._every_turn(number, (*chosen, index))
        self.known.iterations.pop(loops[len(chosen)].key)

    def _turn(self, named: Named, turns: Turns) -> None:
        for column in COLUMNS:
            found = getattr(self.known, column)(named.number)
            printed = self._printed(self.pairs[named.number], column, turns)
            if isinstance(found, Worth):
                self.verdict.iterations += 1
                self._same(named, column, turns, found, printed, "")
            elif printed is not None and np.any(printed.value):
                self._missing(column, f"{named.name} {column} {turns} is {found}; printed {printed.value.tolist()}")

    # --- times
    # ----------------------------------------------------------------------------------------------------------

    def times(self) -> None:
        """Each variable that is set has its row by then, and of the rows of a variable in a call the last is what it
        holds.
        """
        rows = {named.number: named for named in named_values(self.known)}
        inside = {inner for number in rows if number > 0 for inner in self.known.lives[number].tracer.holds}
        for number, prints in self.of_number.items():
            first = prints[0]
            if number not in rows:
                # the value of the argument that a transformation makes of it has one
                if number not in inside:
                    self.wrong(f"{first.site[1]} of line {first.site[0][0]} has no row")
            elif number in self.recorded.made:
                born = rows[number].life.born
                if born > first.at:
                    self.wrong(f"{first.site[1]} is set at {first.at}, and shown from {born} on")
                self.verdict.named_later += born < first.began
        order = {named.number: place for place, named in enumerate(named_values(self.known))}
        last: dict[tuple[int, Site], Print] = {}
        for each in self.recorded.watch.prints:
            before = last.get((each.call, each.site))
            if before is not None and order.get(each.number, 0) < order.get(before.number, -1):
                self.wrong(f"{each.site[1]} is set anew at {each.at}, and its row is above the one of {before.at}")
            last[each.call, each.site] = each

    def whole_table(self) -> None:
        """``%values`` shows at the end what the pane shows at the last moment."""
        every = named_values(self.known)
        rows = rows_of(self.known, every, self.recorded.recording.events, -1)
        table = plain(document(Text(tuple(table_lines(self.known, rows, WIDTH)), wrap=False)), WIDTH).splitlines()
        cursor = Cursor(self.recorded.recording)
        cursor.last()
        pane = plain(values_pane(cursor, WIDTH), WIDTH).splitlines()
        # of more, each shows those around the row that is selected
        if 0 < len(every) <= MOST_ROWS and [line[2:] for line in table] != [line[2:] for line in pane]:
            self.wrong(f"%values shows {table}, the last pane {pane}")


def compare(recorded: Recorded, prints: Prints, step: int = 1, lacking: str = "") -> Verdict:
    """What is wrong in any pane; ``lacking`` is a column in which values are known to be missing."""
    comparison = Comparison(recorded, prints, lacking)
    comparison.times()
    verdict = comparison.verdict
    # everything is evaluated here, and none of it by functions of the program's
    verdict.calls += watching.calls(comparison.turns, recorded.watch.file)
    verdict.calls += watching.calls(comparison.whole_table, recorded.watch.file)
    comparison.moments(step)
    return comparison.verdict


def _parsed(text: Sequence[str], rows: Sequence[ValueRow]) -> Iterator[tuple[ValueRow | None, Turns, dict[str, str]]]:
    """The rows of a pane: the turns that the line above names, and what stands in each column."""
    starts: list[tuple[int, str]] = []
    turns: Turns = ()
    left = list(rows)
    for line in text:
        if line.startswith("  ... "):
            continue
        if not starts:
            starts = [(match.start(), match[0]) for match in re.finditer(r"\w+", line)]
            continue
        width = starts[1][0] - 4
        shown = line[2 : 2 + width].strip()
        if left and _is_named(shown, left[0].named, width):
            ends = [start for start, _ in starts[2:]] + [len(line) + 1]
            cells = {c: line[start:end].strip() for (start, c), end in zip(starts[1:], ends, strict=True)}
            yield left.pop(0), turns, cells
        elif not re.fullmatch(r"  in [^·]+", line):  # another function of the same turn
            turns = tuple(int(n) for n in re.findall(r"(?:iteration|turn) (\d+) of", line))
    if left and starts:
        yield None, (), {}


def _is_named(shown: str, named: Named, width: int) -> bool:
    name = named.name
    return shown == name or len(name) > width and (shown[-1:] == "…" or "..." in shown)


def _without_equal_examples(printed: Shown, axes: int) -> Shown:
    """What was printed, of one example where it is the same for all, if there are too many axes."""
    for axis in reversed(range(printed.axes)):
        first = np.take(printed.value, [0], axis)
        if printed.axes > axes and np.array_equal(np.broadcast_to(first, printed.value.shape), printed.value):
            return _without_equal_examples(Shown(np.take(first, 0, axis), printed.axes - 1, printed.active), axes)
    return printed


def _close(value: np.ndarray, printed: Shown) -> bool:
    if value.dtype.kind not in "fiubc":
        return bool(np.array_equal(value, printed.value)) if value.dtype == printed.value.dtype else True
    alike = np.isclose(value.astype(np.complex128), printed.value.astype(np.complex128), 2e-4, 1e-5, equal_nan=True)
    if printed.active is not None and printed.axes == printed.active.ndim:
        alike = alike[printed.active]
    return bool(np.all(alike))


def says(text: str, value: np.ndarray, axes: int) -> bool:
    """Whether a cell says of a value what NumPy says of it."""
    told = _TOLD.fullmatch(_PICTURE.sub("", text).strip())
    if told is None:
        return False
    if (told["examples"] or "") != "".join(f"{n}×" for n in value.shape[:axes]):
        return False
    if told["shape"] is not None:
        shape = tuple(int(n) for n in told["shape"].split(",") if n)
        if told["kind"] not in _KINDS[value.dtype.kind] or shape != value.shape[axes:]:
            return False
    rest = told["rest"]
    if value.dtype.kind not in "fiub":
        return not rest
    if told["true"] is not None:
        return int(told["true"]) == value.sum() and int(told["of"]) == value.size
    numbers = [_WORDS.get(each, each) for each in _ELEMENT.findall(rest)]
    found = np.array([float(str(each).replace(",", "")) for each in numbers])
    wanted = value.astype(np.float64).ravel()
    if told["low"] is not None or told["all"] is not None:
        finite = wanted[np.isfinite(wanted)]
        figures = {"all": finite.min, "low": finite.min, "high": finite.max, "mean": finite.mean}
        wanted = np.array([find() for figure, find in figures.items() if told[figure] is not None])
    return found.shape == wanted.shape and bool(np.allclose(found, wanted, 6e-3 if told["mean"] else 6e-4, 1e-5))


