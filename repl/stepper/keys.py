"""The keys of the stepper: one table, the source of the bindings and of the help.

Keys follow pdb and pudb where these have such a key (s, n, u, /, . and ,). The arrows move in the tree (right: in,
left: back, down and up: past a whole call), vi's keys scroll, and Enter follows a value to its origin.
"""

from __future__ import annotations

from collections.abc import Iterator

from minijax.repl.keyed import Key, group_lines
from minijax.repl.stepper.model import Stepper
from minijax.tools.documents.document import Line, line, wrapped


def _page(stepper: Stepper) -> int:
    return max(stepper.page - 1, 1)


def _digit(number: int) -> Key:
    return Key((str(number),), lambda s: s.digit(number), "", "")


# Groups of keys under their headings in the help. A key without a shown name is described with another key.
KEYS: tuple[tuple[str, tuple[Key, ...]], ...] = (
    (
        "Step",
        (
            Key(("right", "s", "i", "space"), Stepper.into, "→ s i Space", "into: the next moment"),
            Key(("down", "n", "o"), Stepper.over, "↓ n o", "over: to the end of this call, or past equal steps (×100)"),
            Key(("u",), Stepper.out, "u", "out: to where the enclosing call ends"),
            Key(("left", "b"), Stepper.back, "← b", "back: the moment before"),
            Key(("up", "N", "O"), Stepper.back_over, "↑ N O", "back over: to where this call began"),
            Key(("U",), Stepper.back_out, "U", "back out: to where the enclosing call began"),
            Key(("home", "g"), Stepper.first, "Home g", "to the beginning"),
            Key(("end", "G"), Stepper.last, "End G", "to the end"),
        ),
    ),
    (
        "Where from, where to",
        (
            Key(("enter",), lambda s: s.walk.to_origin(), "Enter", "to where an operand or value came from"),
            Key(("t",), lambda s: s.walk.to_use(), "t", "to where a result or value is used"),
            Key(("backspace",), lambda s: s.walk.return_(), "Backspace", "back to where Enter or t went from"),
        ),
    ),
    (
        "Find",
        (
            Key(("/",), Stepper.search, "/", "words: names, values, types, files"),
            Key(("P",), Stepper.to_primitive, "P", "next operation of a name"),
            Key(("L",), Stepper.to_level, "L", "next operation at a level"),
            Key((":",), Stepper.to_line, ":", "next operation of a line"),
            Key(("F",), Stepper.to_function, "F", "next work on a function"),
            Key(("S",), Stepper.to_shape, "S", "next operation with a type or shape"),
            Key(("c",), lambda s: s.walk.ask_condition(), "c", "next moment where a condition holds: h.max() > 10"),
            Key(("!",), Stepper.to_nonfinite, "!", "next NaN or infinity"),
            Key(("e",), Stepper.to_error, "e", "next error"),
            Key((".",), Stepper.again, ".", "the last search again"),
            Key((",",), Stepper.again_backwards, ",", "the last search backwards"),
            Key(("m",), Stepper.mark, "m", "bookmark this moment"),
            Key(("'",), Stepper.to_mark, "'", "to a bookmark"),
        ),
    ),
    (
        "Panes",
        (
            Key(("tab",), Stepper.next_pane, "Tab 1…6", "next pane, or the one with this number"),
            Key(("s-tab",), Stepper.previous_pane, "Shift-Tab", "previous pane"),
            *map(_digit, range(10)),
            Key(("j",), lambda s: s.scroll(1), "j k", "scroll down, up"),
            Key(("k",), lambda s: s.scroll(-1), "", ""),
            Key(("l",), lambda s: s.scroll(0, 8), "h l", "scroll left, right"),
            Key(("h",), lambda s: s.scroll(0, -8), "", ""),
            Key(("pagedown",), lambda s: s.scroll(_page(s)), "PgDn PgUp", "scroll by a page"),
            Key(("pageup",), lambda s: s.scroll(-_page(s)), "", ""),
            Key(("z",), Stepper.zoom, "z", "the pane alone, or all again"),
            Key(("+",), Stepper.larger, "+ -", "more or less room for the first pane"),
            Key(("-",), Stepper.smaller, "", ""),
            Key((">",), Stepper.unfold, "> <", "unfold the tree deeper, less deep"),
            Key(("<",), Stepper.fold_up, "", ""),
            Key(("J",), Stepper.toggle_names, "J", "jaxprs with your names, or JAX's letters"),
            Key(("p",), Stepper.toggle_programs, "p", "programs: Python, jaxpr, StableHLO, optimised"),
            Key(("x",), Stepper.browse, "x", "what XLA made of the call here: passes, machine code"),
        ),
    ),
    (
        "Values",
        (
            Key(("v",), lambda s: s.values.view(), "v", "elements of the selected value"),
            Key(("=",), lambda s: s.values.ask_expression(), "=", "an expression in the names here"),
            Key(("W",), lambda s: s.values.ask_watch(), "W", "watch an expression, or no more"),
            Key(("]",), lambda s: s.values.iterate(1), "] [", "next, previous iteration; 7] goes to 7"),
            Key(("[",), lambda s: s.values.iterate(-1), "", ""),
            Key(("}",), lambda s: s.values.next_example(1), "} {", "next, previous example of a vmap, or all"),
            Key(("{",), lambda s: s.values.next_example(-1), "", ""),
        ),
    ),
    (
        "Other",
        (
            Key(("R",), Stepper.retrace, "R", "run again without cached traces"),
            Key(("w",), Stepper.save, "w", "save the recording to a file"),
            Key(("?", "f1"), Stepper.toggle_help, "? F1", "this help"),
            Key((), Stepper.before_key, "Ctrl-Z Ctrl-L", "suspend (fg comes back), draw anew"),
            Key(("q", "escape", "c-c", "c-d"), Stepper.leave, "q Esc Ctrl-C", "leave"),
        ),
    ),
)


def help_lines(columns: int) -> Iterator[Line]:
    """The help, in two columns if there is room."""
    narrow = columns < 60
    lines = [list(group_lines(heading, keys, 0 if narrow else 18)) for heading, keys in KEYS]
    if columns < 110:
        for group in lines:
            for each in group:
                yield from wrapped(each, columns, 4 if narrow else 20)
            yield ()
    else:
        left, right = [*lines[0], (), *lines[1], (), *lines[3]], [*lines[2], (), *lines[4], (), *lines[5]]
        half = columns // 2
        for i in range(max(len(left), len(right))):
            each = left[i] if i < len(left) else ()
            gap = half - sum(len(piece) for _, piece in each)
            yield (*each, ("", " " * gap), *(right[i] if i < len(right) else ()))
        yield ()
    marks = line(("muted", " ▶ the current moment · muted lines lie ahead · • what the current operation is given"))
    yield from wrapped(marks, columns, 1)
    said = " mouse: a click goes to a row of the tree or chooses a pane, the wheel scrolls; with Shift it selects text"
    mouse = line(("muted", said))
    yield from wrapped(mouse, columns, 1)
