"""Graphs of jaxprs in box characters, one line per node, in the style of ``git log --graph``.

Each value that a later line reads has a lane (a vertical line) on the left. A node's line joins the lanes of its
operands, and its equation stands on the right. ``┼`` joins a lane that continues; ``│`` only crosses the line. The
width of the page limits the number of lanes. Values without a lane appear only in the equations.
"""

from __future__ import annotations

from collections.abc import Iterator

from minijax.tools.compare.graph import Graph, GraphNode, Value
from minijax.tools.documents.document import Block, Fitted, Line, Section, Segment, Text, line
from minijax.tools.documents.words import plural

# A page has one lane for this many columns.
_COLUMNS_PER_LANE = 5
NODES = {"input": "○", "const": "○", "equation": "●", "call": "◉", "output": "◇"}


def drawing(graph: Graph, depth: int) -> tuple[Block, ...]:
    """``graph`` as blocks, and below it the inner graphs under their titles; ``depth`` levels are drawn in all."""
    blocks: list[Block] = [Fitted(lambda width: (Text(tuple(lines(graph, width)), hanging=2 * most_lanes(width)),))]
    if graph.left_out:
        total = graph.left_out + sum(node.kind in ("equation", "call") for node in graph.nodes)
        rest = f"... {plural(graph.left_out, 'more equation')} (--most {total} shows them)"
        blocks.append(Text((line(("muted", rest)),)))
    for each in graph.inside:
        title = line(("heading", each.title))
        if depth > 1:
            blocks.append(Section(title, drawing(each, depth - 1) if each.nodes else ()))
        elif each.nodes:
            blocks.append(Text((line(("heading", each.title), ("muted", " (--depth shows it)")),)))
    return tuple(blocks)


def most_lanes(width: int) -> int:
    """The number of lanes on a page of ``width`` columns."""
    return max(3, width // _COLUMNS_PER_LANE)


def lines(graph: Graph, width: int) -> Iterator[Line]:
    """The lines of the drawing."""
    lanes = Lanes(graph, most_lanes(width))
    drawn = [(lanes.row(node, i), node) for i, node in enumerate(graph.nodes)]
    columns = max((len(row) for row, _ in drawn), default=0)
    for row, node in drawn:
        mark = row.find(NODES[node.kind])
        role = "primitive" if node.kind in ("equation", "call") else "value"
        yield (
            ("muted", row[:mark]),
            (role, row[mark]),
            ("muted", row[mark + 1 :].ljust(columns - mark - 1) + "  "),
            *_text(node),
        )


def _text(node: GraphNode) -> Line:
    """``b:f32[] = sin a``"""
    out: list[Segment] = []
    for value in node.makes:
        out += [("", " ")] if out else []
        out += [("var" if value.read else "drop", value.name), ("punctuation", ":"), ("type", value.type)]
    if node.kind in ("input", "const"):
        return (*out, ("muted", f"  {node.label or ('constant' if node.kind == 'const' else 'input')}"))
    if node.kind == "output":
        out.append(("muted", "result"))
    else:
        out += [("punctuation", " = " if out else ""), ("primitive", node.label)]
    for operand in node.operands:
        is_value = isinstance(operand, Value)
        out += [("", " "), ("var" if is_value else "literal", operand.name if isinstance(operand, Value) else operand)]
    return tuple(out)


class Lanes:
    """Draws the lanes line by line. ``lanes`` holds the name of the value in each lane, or None."""

    def __init__(self, graph: Graph, most: int) -> None:
        self.most = most
        self.lanes: list[str | None] = []
        # lanes that ended in the previous line: a new value there would look like their continuation
        self.ended: set[int] = set()
        self.last_read: dict[str, int] = {}
        for _, to, value in graph.edges:
            self.last_read[value.name] = max(to, self.last_read.get(value.name, 0))
        if graph.left_out:
            # omitted equations may read these values, so their lanes continue to the end of the drawing
            for node in graph.nodes:
                self.last_read.update((value.name, len(graph.nodes)) for value in node.makes if value.read)

    def row(self, node: GraphNode, number: int) -> str:
        """Draw the lanes in a node's line, and change ``lanes`` to the state below this line."""
        before = list(self.lanes)
        names = {operand.name for operand in node.operands if isinstance(operand, Value)}
        into = [k for k, name in enumerate(before) if name in names]
        ending = [k for k in into if self.last_read.get(before[k] or "", -1) <= number]
        for k in ending:
            self.lanes[k] = None
        kept = [value.name for value in node.makes if value.read and self.last_read.get(value.name, -1) > number]
        # the first result takes the lane of an operand that ended here, if there is one
        at = ending[0] if ending else self._free()
        made = []
        for i, name in enumerate(kept):
            lane = at if i == 0 else self._free()
            if lane < self.most:
                self._put(lane, name)
                made.append(lane)
        at = min(at, self.most)
        self.ended = {k for k in {*ending, at} if k >= len(self.lanes) or self.lanes[k] is None}
        return _joined(before, self.lanes, at, set(into), set(ending), set(made), NODES[node.kind])

    def _free(self) -> int:
        free = (k for k, name in enumerate(self.lanes) if name is None and k not in self.ended)
        return next(free, max(len(self.lanes), *(k + 1 for k in self.ended)) if self.ended else len(self.lanes))

    def _put(self, lane: int, name: str) -> None:
        self.lanes += [None] * (lane + 1 - len(self.lanes))
        self.lanes[lane] = name


def _joined(
    before: list[str | None],
    after: list[str | None],
    at: int,
    into: set[int],
    ending: set[int],
    made: set[int],
    mark: str,
) -> str:
    """Draw a line with the node in lane ``at``, joined to its operands in ``into`` and to its results in ``made``."""
    ends = into | made | {at}
    first, last = min(ends), max(ends)
    count = max(len(before), len(after), at + 1)
    out = []
    for k in range(count):
        passes = k < len(before) and before[k] is not None
        if k == at:
            out.append(mark)
        elif k in into:
            side = 0 if k == first else 2 if k == last else 1
            out.append(("╰┴╯" if k in ending else "├┼┤")[side])
        elif k in made:
            out.append("╭┬╮"[0 if k == first else 2 if k == last else 1])
        elif passes:
            out.append("│")
        else:
            out.append("─" if first < k < last else " ")
        out.append("─" if first <= k < last else " ")
    return "".join(out).rstrip()
