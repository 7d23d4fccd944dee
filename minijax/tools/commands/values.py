"""The command that shows the values of a call's variables: %values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from minijax.errors import did_you_mean
from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.commands.step import given_values, interrupted_note, recorded, refuse_empty, without_arrays
from minijax.tools.documents.document import Block, Document, Fitted, Picture, Text, document, line, text
from minijax.tools.documents.words import plural
from minijax.tools.session import targets
from minijax.tools.session.result import NOTHING, Result
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.session.session import Session
    from minijax.tools.values.moment import Ledger
    from minijax.tools.values.table import Named, TableRows

MOST = 60
# Maximum width of the displayed table in columns.
_WIDEST = 120
# Maximum number of printed rows of an array that is chosen by ``--of``.
_GRID_ROWS = 12


def run_values(session: Session, args: Arguments) -> Result:
    # imported late: only this command runs recorded programs again
    from minijax.tools.values import table
    from minijax.tools.values.moment import ledger

    expression = args["expr"]
    target = targets.from_expression(session, "values", expression, everything=True).concrete("values")
    value, error, recording = recorded(target.call, expression, retrace=True)
    refuse_empty("values", expression, recording, error)
    known = ledger(recording)
    known.arguments = given_values(target)
    every = table.named_values(known)
    if not recording.lives and error is None:
        raise without_arrays("values", expression)
    chosen = every if args["of"] is None else _called(every, args["of"], expression)
    choose_iterations("values", known, [named.number for named in chosen], integers_given(args["iteration"]))
    _choose_examples(known, chosen, integers_given(args["example"]))
    last = max((named.life.born for named in every), default=0)
    rows = table.rows_of(known, chosen, max(last, recording.events), -1, args["most"])
    shown = _document(known, rows, args["of"], args["most"])
    if note := interrupted_note(error):
        shown = document(text(note, role="warning")) + shown
    if known.naming.missing:
        shown = shown + document(text(known.naming.missing, role="warning"))
    if args["of"] is not None and error is None:
        value = _array(known, chosen[-1])
    return Result(shown, NOTHING if value is None else value, recording, error=error, data=table.rows_data(known, rows))


def integers_given(given: Any) -> Sequence[int]:
    """The integers in the value of an option: None, an integer or a sequence."""
    return () if given is None else (given,) if isinstance(given, int) else given


def _called(every: Sequence[Named], name: str, expression: str) -> Sequence[Named]:
    """The values called ``name``; if there are none, the parts of values with this name."""
    found = [each for each in every if each.name == name] or [
        each for each in every if each.name.startswith((f"{name}[", f"{name}."))
    ]
    if not found:
        names = list(dict.fromkeys(each.name for each in every))
        hint = did_you_mean(name, names)
        there = f" It has {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}."
        if not names:
            there = " Nothing in it has a name: give a value a name, as in h = sin(x)."
        raise UsageError(f"%values --of {name}: nothing in {expression} is called {name}.{hint or there}")
    return found


def choose_iterations(command: str, known: Ledger, chosen: Sequence[int], numbers: Sequence[int]) -> None:
    """Choose iterations of loops for display. With several numbers, the first is for the outermost loop; a single
    number is for the innermost. ``chosen`` are the numbers of the values inside these loops.
    """
    if not numbers:
        return
    most = -1
    for value in chosen:
        for depth in range(len(known.loops(value))):
            loops = known.loops(value)  # how often an inner loop runs may depend on the iteration of the outer loop
            if depth >= len(loops):
                break
            wanted = numbers[min(depth, len(numbers) - 1)] if len(numbers) > 1 or depth == len(loops) - 1 else 0
            most = max(most, loops[depth].count - 1)
            if 0 <= wanted < loops[depth].count:
                known.iterations[loops[depth].key] = wanted
    if most < 0:
        raise UsageError(f"%{command} --iteration: no variable that is shown is in a loop: leave it out")
    if not all(0 <= number <= most for number in numbers):
        raise UsageError(f"%{command} --iteration {','.join(map(str, numbers))}: iterations here are 0 to {most}")


def _choose_examples(known: Ledger, chosen: Sequence[Named], numbers: Sequence[int]) -> None:
    """Choose an example of a batch for display. With several numbers, the first is for the outermost vmap."""
    from minijax.tools.values.moment import Worth

    if not numbers:
        return
    sizes: dict[str, int] = {}
    for named in chosen:
        found = known.primal(named.number)
        if isinstance(found, Worth):
            for label, size in zip(found.axes, found.array.aval.shape, strict=False):
                sizes[label] = max(size, sizes.get(label, 0))
    if not sizes:
        raise UsageError("%values --example: no value that is shown is mapped: leave it out")
    labels = sorted(sizes, key=lambda label: int(label.rpartition(":")[2]))
    if len(numbers) > len(labels):
        raise UsageError(f"%values --example takes {plural(len(labels), 'number')} here, one for each vmap")
    for label, number in zip(labels, numbers, strict=False):
        if not 0 <= number < sizes[label]:
            raise UsageError(f"%values --example {number}: examples of {label} are 0 to {sizes[label] - 1}")
        known.examples[label] = number


def _document(known: Ledger, rows: TableRows, of: str | None, most: int) -> Document:
    from minijax.tools.values import table

    if not rows.shown:
        return document(text("no value of the call has a name", role="muted"))

    def lines(width: int) -> tuple[Block, ...]:
        # on a narrow page a row breaks before its cotangent, so that the cotangent stays visible
        return (Text(tuple(table.table_lines(known, rows, min(width, _WIDEST))), wrap=False, hanging=4, soft=True),)

    blocks: list[Block] = [Fitted(lines)]
    if of is not None:
        blocks += _elements(rows)
    if rows.first:
        blocks.append(text(f"--most {len(rows.named)} shows all {len(rows.named)} rows, not {most}", role="muted"))
    return document(*blocks)


def _elements(rows: TableRows) -> Iterator[Block]:
    """The elements of the last of the chosen values: of its primal, its tangent and its cotangent."""
    from minijax.tools.values import grid, table
    from minijax.tools.values.brief import numpy_of
    from minijax.tools.values.moment import Worth

    row = rows.shown[-1]
    for column in table.COLUMNS:
        found = row.known[column]
        if not isinstance(found, Worth) or found.array.aval.size < 2 or found.array.aval.ndim < 1:
            continue
        value = numpy_of(found.array)
        if value.dtype.kind not in "fiubc":
            continue

        def drawn(width: int, value: Any = value) -> tuple[Block, ...]:
            lines = grid.grid_lines(value, grid.GridPlace(), width, _GRID_ROWS)
            cut = grid.cut_line(value, grid.GridPlace(), lines)
            return (Text((*lines, *([cut] if cut else [])), wrap=False),)

        yield text(line(("heading", row.named.name), ("muted", f" · {column} "), ("type", table.type_text(found))))
        yield Picture(grid.heat_map(value), Fitted(drawn))


def _array(known: Ledger, named: Named) -> Any:
    from minijax.tools.values.moment import Worth
    from minijax.tools.values.table import picked

    found = picked(known, known.primal(named.number))
    return found.array if isinstance(found, Worth) else None


COMMANDS = (
    Command(
        "values",
        (
            Param("expr", "text", "a call such as grad(f)(3.0)", required=True),
            Param("of", "word", "only the values with this name, with their elements; write params['w'] in quotes"),
            Param("iteration", "ints", "the iteration of loops to look at, from 0; 2,0 for a loop in a loop"),
            Param("example", "ints", "the example of a vmap to look at, from 0; 3,1 for a vmap in a vmap"),
            Param("most", "int", "how many rows to show at most, the last ones", default=MOST),
        ),
        "Run and record a call, and show the values of its variables in the order of the program: primals, and if "
        "there are any, tangents and cotangents.\n"
        "Values inside jit, scan, while or cond are computed from the traced program. Your functions do not run again.",
        "%values grad(f)(3.0)",
        run_values,
        group="watch",
    ),
)
