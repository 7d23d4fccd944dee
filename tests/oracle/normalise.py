"""Turn a jaxpr of either library into lines of text that can be compared.

Normalising removes differences that are not errors:

* ``jit`` equations (JAX's own library is full of them) and ``closed_call`` are inlined, at every depth;
* parameters that exist only for JAX's sharding, and parameters that are ``None``, are dropped;
* unused placeholders (``empty2``) are dropped: JAX makes one for each residual that a branch lacks, even if unused;
* variables are numbered in order of appearance;
* a constvar is replaced by its value.

Normalising keeps, in order: primitives, parameters, operands, literals, and the dtype, shape and weak type of
every variable. Only attributes are read (``.eqns``, ``.invars``, ``.aval``, ``.val``,
``.primitive.name``, ``.params``), so jaxprs of both libraries go through the same code.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr"}
PLACE_PARAMS = {"memory_space", "unreduced", "reduced", "accuracy", "out_type"}
# parameters that only JAX has
INTERNAL_PARAMS = {"out_trees", "out_avals", "partitioned"}


def printed(jaxpr: Any) -> str:
    """The text of a jaxpr without line breaks and indentation."""
    return re.sub(r"(?<=\[) | (?=\])", "", re.sub(r"\s+", " ", str(jaxpr)))


# primitives that act on references or on the host
ACTING = ("swap", "addupdate", "freeze", "free_ref", "io_callback", "debug_callback", "debug_print")


def acts(head: str) -> bool:
    """Whether the equation does more than compute its results."""
    return head.partition("[")[0] in ACTING


def show_type(aval: Any) -> str:
    """The text of a type: 'float32[2,3]', with a star after a weak type."""
    dtype = aval.dtype
    name = "float0" if dtype == [("float0", "V")] else getattr(dtype, "name", str(dtype))
    return f"{name}[{','.join(map(str, aval.shape))}]{'*' if aval.weak_type else ''}"


def over_no_mesh(value: Any) -> bool:
    """Whether ``value`` is a sharding over an empty mesh, which JAX's rules copy from types outside explicit mode."""
    return hasattr(value, "spec") and hasattr(value, "mesh") and value.mesh.empty


def show_value(value: Any) -> str:
    """The text of a constant. A long constant is shown as a digest of its bytes."""
    array = np.asarray(value)
    if array.size <= 16:
        return str(array.tolist())
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:12]


def show_index(tree: Any) -> Any:
    """Convert JAX's index tree for a reference to minijax's form: (start, size, step) for a slice, None for arrays."""
    found = re.search(r"NDIndexer\[\(PyTreeDef\((.*)\), \(", str(tree))
    items = re.findall(r"Slice\[(\(.*?\))\]|(\*)", found[1]) if found else []
    return tuple(None if star else ast.literal_eval(of) for of, star in items)


def show_params(params: dict[str, Any]) -> list[tuple[str, str]]:
    """The names and texts of an equation's parameters, without those that the comparison ignores."""
    shown = {
        k: v
        for k, v in params.items()
        if v is not None and k not in PLACE_PARAMS | INTERNAL_PARAMS and not over_no_mesh(v)
    }
    if "tree" in shown:
        shown["index"] = show_index(shown.pop("tree"))
    if shown.get("index") == ():
        del shown["index"]
    return [(k, show_param(v)) for k, v in sorted(shown.items())]


def show_param(value: Any) -> str:
    """The text of a parameter. Dtypes are shown by name, subjaxprs are normalised, NumPy integers become Python's."""
    if hasattr(value, "debug_info") and not hasattr(value, "eqns") and not hasattr(value, "jaxpr"):
        return value.debug_info.func_name  # a rule of a custom derivative: its function's name
    if type(value).__name__ == "Backward":
        return str(value[0])  # a rule with its arguments
    if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
        return "{" + "; ".join(normalise(value).lines) + "}"
    if hasattr(value, "key_shape"):
        return str(value)  # an implementation of random keys
    if hasattr(value, "axis_names"):
        return str(value)  # a mesh; JAX's mesh is callable, so this comes before the test for functions
    if callable(value) and not isinstance(value, type):
        return "function"  # a user's function, which each library wraps in its own way
    if isinstance(value, (np.dtype, type)) and not isinstance(value, bool):
        try:
            return np.dtype(value).name
        except TypeError:
            return str(value)
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(map(show_param, value)) + ")"
    if isinstance(value, np.generic):
        return str(value.item())
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    return str(value)


@dataclass(frozen=True)
class Op:
    """One equation. An operand is a text, or (op index, result index). The op index of an argument is -1."""

    head: str
    operands: tuple[Any, ...]
    types: tuple[str, ...]


@dataclass
class Program:
    """A normalised jaxpr."""

    arguments: list[str]
    ops: list[Op] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    calls: int = 0

    @property
    def lines(self) -> list[str]:
        """A line for the arguments, for each equation and for the results. Variables are numbered in order."""
        names = {(-1, i): f"in{i}" for i in range(len(self.arguments))}
        lines = ["arguments " + " ".join(f"in{i}:{t}" for i, t in enumerate(self.arguments))]
        for index, op in enumerate(self.ops):
            outs = []
            for position, type_ in enumerate(op.types):
                names[(index, position)] = f"v{len(names)}"
                outs.append(f"{names[(index, position)]}:{type_}")
            operands = " ".join(o if isinstance(o, str) else names[o] for o in op.operands)
            lines.append(f"{' '.join(outs)} = {op.head} {operands}".rstrip())
        lines.append("results " + " ".join(o if isinstance(o, str) else names[o] for o in self.results))
        return lines

    def without_dead_code(self) -> Program:
        """The same program without unused equations. Unused equations with effects are kept."""
        live, todo = set(), [o[0] for o in self.results if not isinstance(o, str)]
        todo += [index for index, op in enumerate(self.ops) if acts(op.head)]
        while todo:
            index = todo.pop()
            if index >= 0 and index not in live:
                live.add(index)
                todo.extend(o[0] for o in self.ops[index].operands if not isinstance(o, str))
        return self._with_only(live)

    def without_placeholders(self) -> Program:
        """The same program without unused placeholders: ``empty2`` and broadcasts of it."""
        kept: set[int] = set()
        read = {o[0] for o in self.results if not isinstance(o, str)}
        for index in reversed(range(len(self.ops))):
            if index in read or not self._is_placeholder(index):
                kept.add(index)
                read.update(o[0] for o in self.ops[index].operands if not isinstance(o, str))
        return self if len(kept) == len(self.ops) else self._with_only(kept)

    def _is_placeholder(self, index: int) -> bool:
        op = self.ops[index]
        if op.head.startswith("broadcast_in_dim["):
            (operand,) = op.operands
            return not isinstance(operand, str) and operand[0] >= 0 and self._is_placeholder(operand[0])
        return op.head.startswith("empty2[")

    def _with_only(self, kept: set[int]) -> Program:
        renumber = {-1: -1} | {old: new for new, old in enumerate(sorted(kept))}
        move = lambda o: o if isinstance(o, str) else (renumber[o[0]], o[1])  # noqa: E731
        ops = [Op(op.head, tuple(map(move, op.operands)), op.types) for i, op in enumerate(self.ops) if i in kept]
        return Program(self.arguments, ops, list(map(move, self.results)), self.calls)

    def graph(self) -> tuple[Counter[str], list[str]]:
        """The program without the order of its equations: a multiset of the live equations as terms, and the results.

        A chain of ``add_any`` counts as one sum of all its terms, because the order of additions
        also varies.
        """
        program = self.without_dead_code()
        terms: list[list[str]] = []
        texts: Counter[str] = Counter()

        def summands(operand: Any) -> list[str]:
            if isinstance(operand, str):
                return [operand]
            owner, position = operand
            if owner < 0:
                return [f"in{position}"]
            if program.ops[owner].head == "add_any":
                return terms[owner]
            return [f"{terms[owner][0]}.{position}"]

        def term(operand: Any) -> str:
            return " + ".join(summands(operand))

        for op in program.ops:
            if op.head == "add_any":
                terms.append(sorted(x for operand in op.operands for x in summands(operand)))
                continue
            text = f"{','.join(op.types)} = {op.head}({' '.join(map(term, op.operands))})"
            terms.append(["#" + hashlib.sha256(text.encode()).hexdigest()[:10]])
            texts[f"{terms[-1][0]} {text}"] += 1
        return texts, [term(o) for o in program.results]


def normalise(jaxpr: Any) -> Program:
    """The ``Program`` of a ``Jaxpr`` or ``ClosedJaxpr`` of either library."""
    consts = getattr(jaxpr, "consts", ())
    opened = getattr(jaxpr, "jaxpr", jaxpr)
    program = Program([show_type(v.aval) for v in opened.invars])
    environment = {v: (-1, i) for i, v in enumerate(opened.invars)}
    environment.update(_constants(opened, consts))
    program.results = _inline(opened, environment, program)
    return program.without_placeholders()


def _constants(opened: Any, consts: Any) -> dict[Any, str]:
    pairs = zip(opened.constvars, consts, strict=True)
    return {v: f"const({show_value(c)}:{show_type(v.aval)})" for v, c in pairs}


def _operand(atom: Any, environment: dict[Any, Any]) -> Any:
    if hasattr(atom, "val"):
        return f"{show_value(atom.val)}:{show_type(atom.aval)}"
    return environment[atom]


def _inline(opened: Any, environment: dict[Any, Any], program: Program) -> list[Any]:
    for eqn in opened.eqns:
        operands = [_operand(a, environment) for a in eqn.invars]
        name = eqn.primitive.name
        if name in CALLS:
            program.calls += 1
            inner = eqn.params[CALLS[name]]
            inner_opened = getattr(inner, "jaxpr", inner)
            inner_environment = dict(zip(inner_opened.invars, operands, strict=True))
            inner_environment.update(_constants(inner_opened, getattr(inner, "consts", ())))
            results = _inline(inner_opened, inner_environment, program)
            environment.update(zip(eqn.outvars, results, strict=True))
            continue
        params = [f"{k}={v}" for k, v in show_params(eqn.params)]
        head = name + (f"[{' '.join(params)}]" if params else "")
        types = tuple(show_type(v.aval) for v in eqn.outvars)
        index = len(program.ops)
        program.ops.append(Op(head, tuple(operands), types))
        environment.update({v: (index, i) for i, v in enumerate(eqn.outvars)})
    return [_operand(a, environment) for a in opened.outvars]
