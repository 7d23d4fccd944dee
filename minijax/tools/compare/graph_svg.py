"""Graphs of jaxprs as SVG: layers from top to bottom, arrows along the values, light and dark mode by CSS.

``markup`` is for HTML pages, where the graphs of inner jaxprs fold. ``page`` makes a file, which shows them one below
the other. The layout has the four classic steps. Each node's layer is its longest path from an input. A long
edge gets a dummy node in each layer it crosses. Each layer is ordered to keep neighbours close (barycentres). Then
nodes move sideways towards their neighbours. All text is escaped here, so the result is safe on a page.

Source: Sugiyama, Tagawa, Toda, "Methods for visual understanding of hierarchical system structures", 1981.
"""

from __future__ import annotations

import html
import zlib
from collections.abc import Iterable, Sequence

from minijax.core.records import Frozen
from minijax.tools.compare.graph import Graph, GraphNode
from minijax.tools.documents.html import SAYS_DARK, SAYS_LIGHT
from minijax.tools.documents.theme import STYLES, visible
from minijax.tools.documents.words import shortened

# Sizes in pixels.
_CHARACTER, _HEIGHT, _LINE = 7.0, 38.0, 14.0
_GAP_X, _GAP_Y, _MARGIN, _THIN = 18.0, 34.0, 12.0, 6.0
# If long edges need more dummy nodes than this in total, they are drawn straight, without dummy nodes.
_MOST_PLACES = 4000
_SWEEPS = 4
# Labels are cut after this many characters.
_LONGEST = 36

_ROLES = {"input": "value", "const": "literal", "equation": "primitive", "call": "primitive", "output": "value"}


def _escaped(text: str) -> str:
    """``text`` escaped for XML. Control characters, which XML does not allow, become visible characters."""
    return html.escape("".join(visible(piece) for piece in text.splitlines(keepends=True)).replace("\t", " "))


# The colours of text, paper and edges. SVG attributes use the light ones, for viewers that remove the style sheet.
_LIGHT, _DARK = ("#1f2328", "#ffffff", "#5a6370"), ("#e6e6e6", "#1e1e1e", "#a0a8b0")
_INK, _PAPER, _EDGE = _LIGHT
# Placeholder for the id of the arrow head. Each drawing on a page needs a different id: a browser uses the
# first element with an id, even a hidden one.
_HEAD = "mjg-arrow"


def _css() -> str:
    def colours(scope: str, dark: bool) -> str:
        ink, paper, edge = _DARK if dark else _LIGHT
        rules = [f"{scope}.mjg text{{fill:{ink}}}{scope}.mjg rect{{fill:{paper};stroke:{edge}}}"]
        rules += [f"{scope}.mjg .mjg-paper{{fill:{paper};stroke:none}}"]
        rules += [f"{scope}.mjg path{{stroke:{edge}}}{scope}.mjg marker path{{fill:{edge};stroke:none}}"]
        for role in ("primitive", "type", "value", "literal"):
            style = STYLES[role]
            rules.append(f"{scope}.mjg .mjg-{role}{{fill:{style.dark if dark else style.light}}}")
        return "".join(rules)

    return (
        ".mjg text{font:12px monospace;text-anchor:middle}.mjg .mjg-name{font-weight:600}"
        ".mjg rect{stroke-width:1;rx:5}"
        ".mjg .mjg-call rect{stroke-width:2.5}.mjg path{fill:none}"
        + colours("", False)
        + f"@media (prefers-color-scheme:dark){{{colours('', True)}}}"
        + "".join(colours(f"{page} ", True) for page in SAYS_DARK)
        + "".join(colours(f"{page} ", False) for page in SAYS_LIGHT)
    )


class _Box(Frozen):
    """The text in a node's box."""

    title: str
    below: str
    width: float


def _box(node: GraphNode) -> _Box:
    made = " ".join(value.text for value in node.makes)
    if node.kind in ("input", "const"):
        title, below = node.label or ("constant" if node.kind == "const" else "input"), made
    elif node.kind == "output":
        operand = node.operands[0]
        title, below = "result", operand if isinstance(operand, str) else operand.text
    else:
        title, below = " ".join([node.label, *node.literals]), made
    title, below = shortened(title, _LONGEST), shortened(below, _LONGEST)
    return _Box(title, below, max(len(title), len(below), 4) * _CHARACTER + 2 * 9)


class _Layout:
    """Where to draw a graph: ``x`` and ``layer`` of each node, and the nodes along each edge (``routes``)."""

    def __init__(self, graph: Graph, widths: Sequence[float]) -> None:
        self.widths = list(widths)
        count = len(graph.nodes)
        self.layer = _layers(graph)
        self.above: list[list[int]] = [[] for _ in range(count)]
        self.below: list[list[int]] = [[] for _ in range(count)]
        self.routes: list[list[int]] = []
        spans = [max(self.layer[b] - self.layer[a] - 1, 0) for a, b, _ in graph.edges]
        straight = sum(spans) > _MOST_PLACES
        for a, b, _ in graph.edges:
            route = [a]
            for layer in range(self.layer[a] + 1, self.layer[b] if not straight else 0):
                route.append(self._place(layer))
            route.append(b)
            for upper, lower in zip(route, route[1:], strict=False):
                self.below[upper].append(lower)
                self.above[lower].append(upper)
            self.routes.append(route)
        self.rows: list[list[int]] = [[] for _ in range(max(self.layer, default=-1) + 1)]
        for node, layer in enumerate(self.layer):
            self.rows[layer].append(node)
        self._order()
        self.x = self._coordinates()

    def _place(self, layer: int) -> int:
        """Add a dummy node for an edge to ``layer``. It takes part in the layout like a thin node."""
        self.layer.append(layer)
        self.widths.append(_THIN)
        self.above.append([])
        self.below.append([])
        return len(self.layer) - 1

    def _order(self) -> None:
        """Sort the nodes of each layer by the mean position of their neighbours above, then below, and so on."""
        at = {node: i for row in self.rows for i, node in enumerate(row)}
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            near = self.above if down else self.below
            for row in self.rows if down else reversed(self.rows):
                row.sort(key=lambda n: sum(at[m] for m in near[n]) / len(near[n]) if near[n] else at[n])
                at.update((node, i) for i, node in enumerate(row))

    def _coordinates(self) -> list[float]:
        x = [0.0] * len(self.layer)
        for row in self.rows:
            self._spread(row, [0.0] * len(row), x)
        for sweep in range(_SWEEPS):
            near = self.above if sweep % 2 == 0 else self.below
            for row in self.rows if sweep % 2 == 0 else reversed(self.rows):
                wanted = [sum(x[m] for m in near[n]) / len(near[n]) if near[n] else x[n] for n in row]
                self._spread(row, wanted, x)
        least = min((x[n] - self.widths[n] / 2 for n in range(len(x))), default=0.0)
        return [each - least + _MARGIN for each in x]

    def _spread(self, row: Sequence[int], wanted: Sequence[float], x: list[float]) -> None:
        """Set ``x`` of a layer's nodes near ``wanted``, without overlap. The mean of ``x`` is that of ``wanted``."""
        end = float("-inf")
        for n, want in zip(row, wanted, strict=True):
            x[n] = max(want, end + self.widths[n] / 2)
            end = x[n] + self.widths[n] / 2 + _GAP_X
        shift = sum(want - x[n] for n, want in zip(row, wanted, strict=True)) / max(len(row), 1)
        for n in row:
            x[n] += shift


def _layers(graph: Graph) -> list[int]:
    """The layer of each node: below its operands; if it has none, just above its first reader. Results are last."""
    layer = [0] * len(graph.nodes)
    readers: dict[int, list[int]] = {}
    read = {b for _, b, _ in graph.edges}
    for a, b, _ in graph.edges:
        # nodes are in program order; edges are sorted by their target node
        layer[b] = max(layer[b], layer[a] + 1)
        readers.setdefault(a, []).append(b)
    bottom = max((layer[n] for n, node in enumerate(graph.nodes) if node.kind != "output"), default=0) + 1
    for n, node in enumerate(graph.nodes):
        if node.kind == "output":
            layer[n] = bottom
    for n in range(len(layer)):
        if n not in read and n in readers:
            layer[n] = min(layer[m] for m in readers[n]) - 1
    return layer


class _Drawing(Frozen):
    """The SVG elements of one graph, and its total size in pixels."""

    elements: str
    width: float
    height: float


def _draw(graph: Graph) -> _Drawing:
    boxes = [_box(node) for node in graph.nodes]
    layout = _Layout(graph, [box.width for box in boxes])
    top = [_MARGIN + layer * (_HEIGHT + _GAP_Y) for layer in layout.layer]
    out = []
    for (_, _, value), route in zip(graph.edges, layout.routes, strict=True):
        points = []
        for n in route:
            if n < len(boxes):
                points.append((layout.x[n], top[n] + (_HEIGHT if n == route[0] else -3)))
            else:
                points += [(layout.x[n], top[n]), (layout.x[n], top[n] + _HEIGHT)]
        title = f"<title>{_escaped(value.text)}</title>"
        drawn = f'<path d="{_curve(points)}" fill="none" stroke="{_EDGE}" marker-end="url(#{_HEAD})">{title}</path>'
        out.append(drawn)
    for n, (node, box) in enumerate(zip(graph.nodes, boxes, strict=True)):
        out.append(_node(node, box, layout.x[n], top[n]))
    width = max((layout.x[n] + layout.widths[n] / 2 for n in range(len(layout.x))), default=0.0) + _MARGIN
    height = max(top, default=0.0) + _HEIGHT + _MARGIN if boxes else 0.0
    if graph.left_out:
        text = f"... {graph.left_out} more equations"
        out.append(f'<text x="{max(width, 160) / 2:.0f}" y="{height + 6:.0f}" fill="{_INK}">{text}</text>')
        width, height = max(width, 160.0), height + 18
    return _Drawing("".join(out), width, height)


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """A smooth path that leaves and enters each point vertically."""
    (x, y), *others = points
    out = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in others:
        middle = (y + to_y) / 2
        straight = abs(to_x - x) < 0.05
        curve = f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
        out.append(f"V{to_y:.1f}" if straight else curve)
        x, y = to_x, to_y
    return "".join(out)


def _node(node: GraphNode, box: _Box, x: float, y: float) -> str:
    left = x - box.width / 2
    role = _ROLES[node.kind]
    return (
        f'<g class="mjg-{node.kind}"><title>{_escaped(node.note or box.below)}</title>'
        f'<rect x="{left:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{_HEIGHT:.0f}" '
        f'fill="{_PAPER}" stroke="{_EDGE}"/>'
        f'<text class="mjg-name mjg-{role}" x="{x:.1f}" y="{y + 16:.1f}" fill="{STYLES[role].light}">'
        f'{_escaped(box.title)}</text><text class="mjg-type" x="{x:.1f}" y="{y + 16 + _LINE:.1f}" '
        f'fill="{STYLES["type"].light}">{_escaped(box.below)}</text></g>'
    )


_ARROW = (
    f'<defs><marker id="{_HEAD}" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" '
    f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{_EDGE}"/></marker></defs>'
)


def _svg(elements: str, width: float, height: float, title: str, style: bool) -> str:
    head = f"<style>{_css()}</style>" if style else ""
    name = f"mjg-{zlib.crc32(elements.encode()):x}"
    # quotes in texts are escaped, so this changes no text
    drawn = (_ARROW + elements).replace(f'="{_HEAD}"', f'="{name}"').replace(f'="url(#{_HEAD})"', f'="url(#{name})"')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="mjg" role="img" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="12" text-anchor="middle">'
        f"<title>{_escaped(title)}</title>{head}{drawn}</svg>"
    )


def markup(graph: Graph, outermost: bool = True) -> str:
    """``graph`` as HTML: a picture, and below it the graphs of inner jaxprs, folded."""
    drawing = _draw(graph)
    out = []
    if graph.nodes:
        svg = _svg(drawing.elements, drawing.width, drawing.height, graph.title, outermost)
        out.append(f'<div style="overflow-x:auto">{svg}</div>')
    for each in graph.inside:
        if each.nodes:
            inner = markup(each, False)
            out.append(f"<details><summary>{_escaped(each.title)}</summary><div>{inner}</div></details>")
        else:
            out.append(f"<div>{_escaped(each.title)}</div>")
    return "".join(out)


def _all(graph: Graph) -> Iterable[Graph]:
    todo = [graph]
    while todo:
        each = todo.pop()
        if each.nodes:
            yield each
        todo += reversed(each.inside)


def page(graph: Graph) -> str:
    """``graph`` as a standalone SVG file. The graphs of inner jaxprs are below it, each under its title."""
    out: list[str] = []
    y = width = 0.0
    for each in _all(graph):
        drawing = _draw(each)
        heading = _escaped(shortened(each.title, 80))
        place = f'x="{_MARGIN}" y="{y + 20:.0f}" fill="{_INK}"'
        out.append(f'<text class="mjg-name" style="text-anchor:start" {place}>{heading}</text>')
        out.append(f'<g transform="translate(0 {y + 28:.0f})">{drawing.elements}</g>')
        y += 28 + drawing.height
        width = max(width, drawing.width, len(each.title[:80]) * _CHARACTER + 2 * _MARGIN)
    out.insert(0, f'<path class="mjg-paper" d="M0 0H{width:.0f}V{y:.0f}H0z" fill="{_PAPER}"/>')
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + _svg("".join(out), width, y, graph.title, True) + "\n"
