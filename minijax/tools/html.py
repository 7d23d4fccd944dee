"""Documents as HTML for notebooks and files: inline styles only, everything escaped, folding without scripts.

Nothing external is referred to. Colours are given twice, for light and for dark pages (``prefers-color-
scheme``, and the theme attributes that Jupyter sets). Programs beyond ``MOST_LINES`` lines are cut behind a
fold.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

from minijax.ir import doc as pp
from minijax.tools.document import (
    LABEL_WIDTH,
    Block,
    Code,
    Document,
    Highlighter,
    Indent,
    Line,
    Program,
    Row,
    Section,
    Table,
    Text,
    code_lines,
    split_lines,
)
from minijax.tools.theme import STYLES

MOST_LINES = 400
# Of one block's lines no more than this are put into a page; the output says how many are missing.
MOST_FOLDED = 4000
_WIDTH = 100


def _css() -> str:
    def rules(scope: str, dark: bool) -> str:
        out = []
        for role, style in STYLES.items():
            weight = ";font-weight:600" if style.bold else ""
            out.append(f"{scope}.mj-{role}{{color:{style.dark if dark else style.light}{weight}}}")
        return "".join(out)

    layout = (
        ".minijax{font-size:13px;line-height:1.45;color:#1f2328}"
        ".minijax pre{margin:2px 0;padding:0;background:none;border:0;color:inherit;font-family:monospace;"
        "white-space:pre;overflow-x:auto}"
        ".minijax summary{cursor:pointer;font-family:monospace}"
        ".minijax details>div{margin-left:1.2em}"
        ".minijax table{border-collapse:collapse;font-family:monospace;font-size:inherit}"
        ".minijax td,.minijax th{padding:0 12px 0 0;text-align:left;vertical-align:top;background:none}"
    )
    dark = ".minijax{color:#e6e6e6}"
    jupyter = 'body[data-jp-theme-light="false"] .minijax'
    return (
        layout
        + rules(".minijax ", False)
        + f"@media (prefers-color-scheme:dark){{{dark}{rules('.minijax ', True)}}}"
        + f"{jupyter}{{color:#e6e6e6}}"
        + rules(f"{jupyter} ", True)
        + 'body[data-jp-theme-light="true"] .minijax{color:#1f2328}'
        + rules('body[data-jp-theme-light="true"] .minijax ', False)
    )


_CSS = _css()


def to_html(doc: Document, highlight: Highlighter | None = None) -> str:
    """``doc`` as one self-contained ``<div>``."""
    inner = "".join("".join(_block(block, highlight)) for block in doc.blocks)
    return f'<div class="minijax"><style>{_CSS}</style>{inner}</div>'


def span(role: str, text: str) -> str:
    """One segment."""
    escaped = html.escape(text)
    return f'<span class="mj-{role}">{escaped}</span>' if role in STYLES else escaped


def _spans(each: Line) -> str:
    return "".join(span(role, piece) for role, piece in each)


def _pre(lines: Iterable[Line]) -> Iterable[str]:
    shown = [_spans(each) for each in lines]
    missing = len(shown) - MOST_LINES - MOST_FOLDED
    if missing > 0:
        shown[MOST_LINES + MOST_FOLDED :] = [f"... {missing} lines left out; print(...) shows them as text"]
    yield f"<pre>{chr(10).join(shown[:MOST_LINES])}</pre>"
    if len(shown) > MOST_LINES:
        rest = chr(10).join(shown[MOST_LINES:])
        title = f"{len(shown) - MOST_LINES} more lines"
        yield f"<details><summary>{title}</summary><div><pre>{rest}</pre></div></details>"


def _block(block: Block, highlight: Highlighter | None) -> Iterable[str]:
    if isinstance(block, Text):
        yield from _pre(block.lines)
    elif isinstance(block, Program):
        yield from _pre(split_lines(pp.segments(block.doc, _WIDTH)))
    elif isinstance(block, Code):
        yield from _pre(code_lines(block, highlight))
    elif isinstance(block, Row):
        label, indent = ("label", f"{block.label:<{LABEL_WIDTH}} "), ("", " " * (LABEL_WIDTH + 1))
        first, *others = block.body or ((),)
        lines = [(label, *first, *((("", "   "), *block.right) if block.right else ()))]
        yield from _pre([*lines, *((indent, *each) for each in others)])
    elif isinstance(block, Table):
        head = "".join(f"<th>{span('heading', name)}</th>" for name in block.header)
        rows = "".join(
            f"<tr>{''.join(f'<td>{span(role, piece)}</td>' for role, piece in row)}</tr>" for row in block.rows
        )
        yield f"<table><tr>{head}</tr>{rows}</table>"
    elif isinstance(block, Indent):
        yield f'<div style="margin-left:{block.columns}ch">{"".join(_block(block.block, highlight))}</div>'
    elif isinstance(block, Section):
        inner = "".join("".join(_block(each, highlight)) for each in block.blocks)
        opened = " open" if block.opened else ""
        yield f"<details{opened}><summary>{_spans(block.title)}</summary><div>{inner}</div></details>"
