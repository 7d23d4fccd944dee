"""Jaxprs as data-flow graphs, independent of how they are drawn.

``build`` makes a ``Graph`` from a jaxpr: nodes in program order, edges from the producer of a value to its readers, and
a separate graph for each jaxpr inside an equation. ``graph_text`` draws it with box characters, ``graph_svg`` as SVG.
Everything takes time linear in the number of equations; ``most`` limits the equations per jaxpr.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minijax import errors
from minijax.core.records import Frozen
from minijax.ir import doc as pp
from minijax.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from minijax.ir.pretty import Printer
from minijax.tools.documents.words import plural, shortened

MOST_EQUATIONS = 100
# Maximum number of characters in a tooltip.
_LONGEST_NOTE = 400


class Value(Frozen):
    """An array on an edge: its name in the jaxpr and its type. ``read``: whether an equation or result uses it."""

    name: str
    type: str
    read: bool = True

    @property
    def text(self) -> str:
        """``b:f32[3]``"""
        return f"{self.name}:{self.type}"


class GraphNode(Frozen):
    """A node of the graph, which reads or computes values.

    ``kind`` is 'input', 'const', 'equation', 'call' (an equation with inner jaxprs) or 'output'. ``operands``: the
    values that it reads, in order, with literals as texts. ``makes``: its results. ``note``: more detail, for a
    tooltip. ``inside``: the indices, in ``Graph.inside``, of the graphs of its inner jaxprs.
    """

    kind: str
    label: str
    operands: tuple[Value | str, ...] = ()
    makes: tuple[Value, ...] = ()
    note: str = ""
    inside: tuple[int, ...] = ()

    @property
    def literals(self) -> tuple[str, ...]:
        """The operands that are literals, which have no edge."""
        return tuple(x for x in self.operands if isinstance(x, str))


class Graph(Frozen):
    """The nodes of a jaxpr; ``edges`` are (from node, to node, value); ``left_out`` counts omitted equations."""

    title: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[int, int, Value], ...]
    inside: tuple[Graph, ...] = ()
    left_out: int = 0
    equations: int = 0


def build(
    closed: ClosedJaxpr,
    title: str,
    input_names: Sequence[str] = (),
    most: int = MOST_EQUATIONS,
    names: Mapping[Var, str] | None = None,
) -> Graph:
    """The graph of ``closed``. Variables have the names in ``names``, or else the names in ``str(closed)``.

    ``input_names`` are the Python names of the inputs. A jaxpr that occurs several times is drawn once; at its other
    occurrences the graph is empty and its title says so.
    """
    printer = Printer(closed.jaxpr, names=names)
    printer.document()  # assigns all names, in order of appearance
    return _Builder(printer, most).graph(closed.jaxpr, title, input_names)


class _Builder:
    def __init__(self, printer: Printer, most: int) -> None:
        self.printer = printer
        self.most = most
        self.done: set[Jaxpr] = set()

    def value(self, var: Any) -> Value:
        name = self.printer.name(var)
        return Value(name, var.aval.str_short(short_dtypes=True), name != "_" and not isinstance(var, DropVar))

    def operand(self, atom: Any) -> Value | str:
        if type(atom) is not Literal:
            return self.value(atom)
        return str(np.asarray(atom.val).item()) if np.shape(atom.val) == () else "[...]"

    def graph(self, jaxpr: Jaxpr, title: str, input_names: Sequence[str] = ()) -> Graph:
        count = len(jaxpr.eqns)
        if jaxpr in self.done:
            return Graph(f"{title}, drawn above", (), (), equations=count)
        self.done.add(jaxpr)
        nodes: list[GraphNode] = []
        inside: list[Graph] = []
        edges: list[tuple[int, int, Value]] = []
        maker: dict[Any, int] = {}
        for kind, variables in (("const", jaxpr.constvars), ("input", jaxpr.invars)):
            for i, var in enumerate(variables):
                maker[var] = len(nodes)
                known = kind == "input" and i < len(input_names)
                nodes.append(GraphNode(kind, input_names[i] if known else "", (), (self.value(var),)))
        shown = jaxpr.eqns[: self.most]
        for eqn in shown:
            graphs = self._subgraphs(eqn)
            places = tuple(range(len(inside), len(inside) + len(graphs)))
            inside += graphs
            self._connect(eqn.invars, len(nodes), maker, edges)
            maker.update((var, len(nodes)) for var in eqn.outvars)
            made = tuple(map(self.value, eqn.outvars))
            kind = "call" if graphs else "equation"
            operands = tuple(map(self.operand, eqn.invars))
            nodes.append(GraphNode(kind, _label(eqn), operands, made, self._note(eqn), places))
        if len(shown) == count:
            for atom in jaxpr.outvars:
                self._connect([atom], len(nodes), maker, edges)
                nodes.append(GraphNode("output", "", (self.operand(atom),)))
        return Graph(title, tuple(nodes), tuple(edges), tuple(inside), count - len(shown), count)

    def _connect(self, atoms: Sequence[Any], to: int, maker: dict[Any, int], edges: list[Any]) -> None:
        for atom in dict.fromkeys(atom for atom in atoms if type(atom) is not Literal):
            if atom in maker:
                edges.append((maker[atom], to, self.value(atom)))

    def _subgraphs(self, eqn: JaxprEqn) -> list[Graph]:
        out = []
        for key, value in eqn.params.items():
            items = value if isinstance(value, (tuple, list)) else (value,)
            for i, item in enumerate(items):
                if isinstance(item, (ClosedJaxpr, Jaxpr)):
                    jaxpr = item.jaxpr if isinstance(item, ClosedJaxpr) else item
                    part = f" {key}[{i}]" if len(items) > 1 else "" if key in ("jaxpr", "call_jaxpr") else f" {key}"
                    title = f"{_label(eqn)}{part} · {plural(len(jaxpr.eqns), 'equation')}"
                    out.append(self.graph(jaxpr, title))
        return out

    def _note(self, eqn: JaxprEqn) -> str:
        text = " ".join(pp.to_string(self.printer.equation(eqn), 100).split())
        place = "" if eqn.source is None else f"\n{errors.summarize(eqn.source, full_path=False)}"
        return shortened(text, _LONGEST_NOTE) + place


def _label(eqn: JaxprEqn) -> str:
    """The primitive, and the name of the called function if there is one."""
    name = eqn.params.get("name")
    return f"{eqn.primitive.name} {shortened(name)}" if isinstance(name, str) else eqn.primitive.name
