"""The keys of the browser of stages: one table for the bindings and the help. The stepper moves by the same keys."""

from __future__ import annotations

from collections.abc import Iterator

from minijax.repl.browser.model import StageBrowser
from minijax.repl.keyed import Key, group_lines
from minijax.tools.documents.document import Line, line, wrapped


def _page(browser: StageBrowser) -> int:
    return max(browser.page - 1, 1)


# Groups of keys under their headings in the help. A key without a shown name is described with another key.
KEYS: tuple[tuple[str, tuple[Key, ...]], ...] = (
    (
        "Lines",
        (
            Key(("down", "j"), lambda b: b.scroll(1), "↓ ↑ j k", "the next line, the one before"),
            Key(("up", "k"), lambda b: b.scroll(-1), "", ""),
            Key(("pagedown", "space"), lambda b: b.scroll(_page(b)), "PgDn PgUp", "one page down, up"),
            Key(("pageup",), lambda b: b.scroll(-_page(b)), "", ""),
            Key(("home", "g"), StageBrowser.first, "Home g", "the first line"),
            Key(("end", "G"), StageBrowser.last, "End G", "the last"),
            Key(("]",), StageBrowser.next_linked, "] [", "the next highlighted line, the one before"),
            Key(("[",), StageBrowser.previous_linked, "", ""),
            Key(("right", "l"), lambda b: b.sideways(8), "→ ← l h", "scroll right, left"),
            Key(("left", "h"), lambda b: b.sideways(-8), "", ""),
        ),
    ),
    (
        "Stages",
        (
            Key(("n",), StageBrowser.next_stage, "n p", "the next stage, the one before"),
            Key(("p",), StageBrowser.previous_stage, "", ""),
            Key(("N",), StageBrowser.next_change, "N P", "the next, previous pass that changed highlighted lines"),
            Key(("P",), StageBrowser.previous_change, "", ""),
            Key(("enter",), StageBrowser.follow, "Enter", "the same line in the next stage; a fusion's kernel"),
            Key(("backspace",), StageBrowser.return_, "Backspace", "back to the line before Enter"),
            Key(("d",), StageBrowser.toggle_diff, "d", "a pass as a diff, or whole"),
        ),
    ),
    (
        "Other",
        (
            Key(("/",), StageBrowser.search, "/", "search this stage, then the others"),
            Key((".",), StageBrowser.again, ". ,", "the last search again, backwards"),
            Key((",",), StageBrowser.again_backwards, "", ""),
            Key(("tab",), StageBrowser.next_pane, "Tab 1 2 3", "the next pane, or the one with this number"),
            Key(("s-tab",), StageBrowser.previous_pane, "", ""),
            Key(("1",), lambda b: b.focus_on(0), "", ""),
            Key(("2",), lambda b: b.focus_on(1), "", ""),
            Key(("3",), lambda b: b.focus_on(2), "", ""),
            Key(("z",), StageBrowser.zoom, "z", "the pane alone, or all again"),
            Key(("?", "f1"), StageBrowser.toggle_help, "? F1", "this help"),
            Key(("q", "escape", "c-c", "c-d"), StageBrowser.leave, "q Esc Ctrl-C", "leave"),
        ),
    ),
)
_MARKS = (
    "▶ the cursor · • from the same lines of yours · L4 line 4 · XLA added by XLA · XLA L4 added for line 4",
    "A kernel's code belongs to its whole instruction: parts of it have no lines of yours.",
    "mouse: a click goes to a line or a stage, the wheel scrolls; with Shift it selects text",
)


def help_lines(columns: int) -> Iterator[Line]:
    """The help, for a page of ``columns`` columns."""
    narrow = columns < 60
    for heading, keys in KEYS:
        for each in group_lines(heading, keys, 0 if narrow else 18):
            yield from wrapped(each, columns, 4 if narrow else 20)
        yield ()
    for said in _MARKS:
        yield from wrapped(line(("muted", f" {said}")), columns, 1)
