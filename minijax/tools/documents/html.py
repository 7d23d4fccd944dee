"""Documents as HTML for notebooks and files: inline styles only, all text escaped, folding without scripts.

Nothing external is loaded. Every colour has a value for light and one for dark pages (``prefers-color-scheme``, and
Jupyter's theme attributes). Lines beyond ``MOST_LINES`` are folded. An argument ``room`` limits the size
of a notebook's output.
"""

from __future__ import annotations

import functools
import html
from collections.abc import Iterable
from pathlib import Path

from minijax.ir import doc as pp
from minijax.tools.documents.document import (
    LABEL_WIDTH,
    MARKS,
    UNBROKEN,
    Block,
    Code,
    Columns,
    Document,
    Fitted,
    Foldable,
    Highlighter,
    Indent,
    Interactive,
    Line,
    Pair,
    Picture,
    Printout,
    Row,
    Section,
    Table,
    Text,
    code_lines,
    split_lines,
)
from minijax.tools.documents.room import MOST_HTML, MOST_HTML_OF_BLOCK, Room
from minijax.tools.documents.theme import STYLES, visible

MOST_LINES = 400
# Maximum number of folded lines of one block on an exported page. The page shows only the number of further lines.
MOST_FOLDED = 4000
_WIDTH = 100


# Colours of parts without a role: text, background, edges, raised and faint parts, the current line, the focus.
_LIGHT = {
    "ink": "#1f2328", "page": "#ffffff", "edge": "#c9ced6", "raised": "#f1f3f6", "faint": "#57606a",
    "now": "#fff0c2", "focus": "#0a49b0",
}  # fmt: skip
_DARK = {
    "ink": "#e6e6e6", "page": "#1e1e1e", "edge": "#4a4f57", "raised": "#2b2e33", "faint": "#b0b8c0",
    "now": "#3d3820", "focus": "#82aaff",
}  # fmt: skip
# Selectors for pages that declare themselves light or dark: Jupyter, VS Code, Colab.
SAYS_LIGHT = (
    'body[data-jp-theme-light="true"]',
    "body.vscode-light",
    "body.vscode-high-contrast-light",
    "html[theme=light]",
)
SAYS_DARK = (
    'body[data-jp-theme-light="false"]',
    "body.vscode-dark",
    "body.vscode-high-contrast:not(.vscode-high-contrast-light)",
    "html[theme=dark]",
)


@functools.cache
def stylesheet() -> str:
    """The CSS rules for elements of class ``minijax``. Each colour is a variable with a light and a dark value."""
    return colours() + layout()


@functools.cache
def colours() -> str:
    """The CSS rules for colours. Without them, text has the colours of the page around it."""

    def variables(dark: bool) -> str:
        listed = {f"mj-{name}": value for name, value in (_DARK if dark else _LIGHT).items()}
        listed |= {f"mj-c-{role}": style.dark if dark else style.light for role, style in STYLES.items()}
        return f"color-scheme:{'dark' if dark else 'light'};" + ";".join(f"--{k}:{v}" for k, v in listed.items())

    def on(pages: Iterable[str], dark: bool) -> str:
        return f"{','.join(f'{page} .minijax' for page in pages)}{{{variables(dark)}}}"

    roles = "".join(
        f".minijax .mj-{role}{{color:var(--mj-c-{role}){';font-weight:600' if style.bold else ''}}}"
        for role, style in STYLES.items()
    )
    return (
        f".minijax{{{variables(False)}}}"
        f"@media (prefers-color-scheme:dark){{.minijax{{{variables(True)}}}}}"
        + on(SAYS_LIGHT, False)
        + on(SAYS_DARK, True)
        + ".minijax{color:var(--mj-ink);background:var(--mj-page)}"
        # Jupyter and VS Code declare their theme correctly, so their own background stays
        "body[data-jp-theme-light] .minijax,body[data-vscode-theme-kind] .minijax{background:none}" + roles
    )


def layout() -> str:
    """The CSS rules without colours. They are enough for the layout of an output."""
    return css(Path(__file__).with_name("document.css"))


@functools.cache
def css(path: Path) -> str:
    """The CSS rules in a file, without comments and line breaks."""
    return "".join(line for line in path.read_text(encoding="utf-8").split("\n") if not line.startswith("/*"))


def to_html(doc: Document, highlight: Highlighter | None = None, rest: str = "") -> str:
    """``doc`` as one self-contained ``<div>`` for a notebook. ``rest`` says how to see the parts that were cut."""
    room = Room(MOST_HTML, MOST_HTML_OF_BLOCK, rest)
    # Jupyter typesets text between dollar signs, except in elements of these classes
    return (
        f'<div class="minijax tex2jax_ignore mathjax_ignore"><style>{stylesheet()}</style>'
        f"{markup(doc, highlight, room)}</div>"
    )


def uncoloured(made: str) -> str:
    """The output of ``to_html`` without colours, for a page that already has them."""
    return made.replace(f"<style>{stylesheet()}</style>", f"<style>{layout()}</style>")


def markup(doc: Document, highlight: Highlighter | None = None, room: Room | None = None) -> str:
    """``doc`` as HTML elements for a page that has the ``stylesheet``, cut to the limits of ``room``."""
    return "".join("".join(_block(block, highlight, room)) for block in doc.blocks)


def shown(text: str) -> str:
    """``text`` with control characters written out, including those that change the direction of text."""
    return visible(text.replace(UNBROKEN, " "))


def span(role: str, text: str) -> str:
    """One segment as HTML."""
    escaped = html.escape(shown(text))
    return f'<span class="mj-{role}">{escaped}</span>' if role in STYLES else escaped


def _spans(each: Line) -> str:
    return "".join(span(role, piece) for role, piece in each)


def _pre(lines: Iterable[Line], room: Room | None, hanging: int | None = None) -> Iterable[str]:
    """``lines`` in ``<pre>``. With ``hanging``, long lines break and continue indented by that many columns."""
    shown = [_line(_spans(each), hanging) for each in lines]
    if room is None:
        missing = max(len(shown) - MOST_LINES - MOST_FOLDED, 0)
        shown = shown[: MOST_LINES + MOST_FOLDED]
        note = f"... {missing:,} more lines left out"
    else:
        shown, missing = room.take(shown)
        note = room.said(missing)
    yield _joined(shown[:MOST_LINES], hanging)
    if len(shown) > MOST_LINES:
        rest = _joined(shown[MOST_LINES:], hanging)
        title = f"{len(shown) - MOST_LINES} more lines"
        yield f"<details><summary>{title}</summary><div>{rest}</div></details>"
    if missing:
        yield _joined([_line(span("muted", note), hanging)], hanging)


def _line(markup: str, hanging: int | None) -> str:
    # copied text and programs without CSS need the line feed
    return markup if hanging is None else f"<div>{markup}\n</div>"


def _joined(lines: list[str], hanging: int | None) -> str:
    if hanging is None:
        return f"<pre>{chr(10).join(lines)}</pre>"
    style = "" if hanging == 2 else f' style="--mj-in:{hanging}"'
    return f'<pre class="mj-wrap"{style}>{"".join(lines)}</pre>'


def _block(block: Block, highlight: Highlighter | None, room: Room | None) -> Iterable[str]:
    if isinstance(block, Text):
        yield from _pre(block.lines, room, block.hanging if block.wrap or block.soft else None)
    elif isinstance(block, Printout):
        yield from _pre(split_lines(pp.segments(block.doc, _WIDTH)), room)
    elif isinstance(block, Code):
        yield from _pre(code_lines(block, highlight), room)
    elif isinstance(block, Row):
        label, indent = ("label", f"{block.label:<{LABEL_WIDTH}} "), ("", " " * (LABEL_WIDTH + 1))
        first, *others = block.body or ((),)
        lines = [(label, *first, *((("", "   "), *block.right) if block.right else ()))]
        yield from _pre([*lines, *((indent, *each) for each in others)], room, LABEL_WIDTH + 1)
    elif isinstance(block, Table):
        head = "".join(f"<th>{span('heading', name)}</th>" for name in block.header)
        rows = (f"<tr>{''.join(f'<td>{span(role, piece)}</td>' for role, piece in row)}</tr>" for row in block.rows)
        yield f"<table><tr>{head}</tr>"
        yield from _rows(rows, len(block.header), room)
        yield "</table>"
    elif isinstance(block, Indent):
        yield f'<div style="margin-left:{block.columns}ch">{"".join(_block(block.block, highlight, room))}</div>'
    elif isinstance(block, Columns):
        yield from _columns(block, room)
    elif isinstance(block, Picture):
        yield f'<div class="mj-picture">{block.markup}</div>'
    elif isinstance(block, Interactive):
        yield block.markup(highlight)
    elif isinstance(block, Fitted):
        for each in block.make(_WIDTH):
            yield from _block(each, highlight, room)
    elif isinstance(block, Foldable):
        for each in block.folding():
            yield from _block(each, highlight, room)
    elif isinstance(block, Section):
        inner = "".join("".join(_block(each, highlight, room)) for each in block.blocks)
        opened = " open" if block.opened else ""
        yield f"<details{opened}><summary>{_spans(block.title)}</summary><div>{inner}</div></details>"


def _columns(block: Columns, room: Room | None) -> Iterable[str]:
    """Two texts side by side, with the marks between them."""
    # programs that rewrite a notebook's HTML keep leading spaces only in <pre>
    heads = [f"<th><pre>{_spans(each)}</pre></th>" for each in block.titles]
    yield f"<table><tr>{heads[0]}<th></th>{heads[1]}</tr>"
    yield from _rows(map(_pair, block.rows(_WIDTH // 2)), 3, room)
    yield "</table>"


def _pair(pair: Pair) -> str:
    left, right = (f"<td><pre>{_spans(each)}</pre></td>" for each in (pair.left, pair.right))
    return f"<tr>{left}<td>{span(MARKS[pair.mark], pair.mark)}</td>{right}</tr>"


def _rows(rows: Iterable[str], columns: int, room: Room | None) -> Iterable[str]:
    """The rows of a table with this number of columns."""
    kept, missing = (rows, 0) if room is None else room.take(rows)
    yield from kept
    if room is not None and missing:
        yield f'<tr><td colspan="{columns}">{span("muted", room.said(missing, "row"))}</td></tr>'
