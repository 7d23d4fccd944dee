"""Small changes of a Python file, each of which a test should notice.

In: the text of a file. Out: ``Mutant``s, each one change of a condition, a constant, an operator or the order of two
arguments. Invariants: a mutant parses and keeps the number of lines; annotations, docstrings, error messages and
options without effect on results (``strict=``, ``maxsize=``) do not change.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
# Keyword arguments that change no result of a program.
SILENT_KEYWORDS = {"strict", "maxsize", "stacklevel", "frozen", "slots"}
# Exchanging the arguments of these functions fails immediately or (max, min) changes nothing, so such a mutant does
# not test the tests.
FIXED_ORDER = {"isinstance", "issubclass", "getattr", "hasattr", "setattr", "map", "filter", "cast", "TypeVar"}
FIXED_ORDER |= {"max", "min"}


@dataclass(frozen=True)
class Mutant:
    """One change: ``new`` replaces the expression ``old`` on line ``line``."""

    line: int
    old: str
    new: str
    start: int = field(repr=False)  # in bytes of the file
    end: int = field(repr=False)
    code: str = field(repr=False)

    def __str__(self) -> str:
        return f"{self.old}  ->  {self.new}"

    def applied(self, text: str) -> str:
        """The file's ``text`` with this change made."""
        whole = text.encode()
        return (whole[: self.start] + self.code.encode() + whole[self.end :]).decode()


def mutants(text: str) -> list[Mutant]:
    """Every mutant of a file, in the order of its lines."""
    starts = [0, *accumulate(map(len, text.encode().splitlines(keepends=True)))]
    found = []
    for node in changeable(ast.parse(text)):
        for changed in changes(node):
            assert node.end_lineno is not None and node.end_col_offset is not None
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            # a mutant keeps the number of lines, because tests compare line numbers
            code = f"({ast.unparse(changed)}" + "\n" * (node.end_lineno - node.lineno) + ")"
            found.append(Mutant(node.lineno, short(node), short(changed), start, end, code))
    return found


def short(node: ast.AST) -> str:
    """The code of a node, cut to 100 characters."""
    code = ast.unparse(node)
    return code if len(code) <= 100 else code[:97] + "..."


def changeable(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions below a node that may be changed."""
    for name, value in ast.iter_fields(node):
        if is_left_out(node, name):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or is_text(child):
                continue
            if isinstance(child, ast.expr):
                yield child
            yield from changeable(child)


def is_left_out(node: ast.AST, name: str) -> bool:
    """Whether field ``name`` of a node stays: an annotation, an error message, or code that allows no parentheses."""
    match node:
        case ast.arg() | ast.AnnAssign() if name == "annotation":
            return True
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if name in ("returns", "decorator_list"):
            return True
        case ast.ClassDef() if name == "bases":
            return True
        case ast.Raise():
            return True
        case ast.Assert() if name == "msg":
            return True
        case ast.keyword(arg=argument) if argument in SILENT_KEYWORDS:
            return True
        case ast.match_case() if name == "pattern":
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def is_text(node: ast.AST) -> bool:
    """Whether a node holds text: an f-string, a docstring, ``__all__``, a pattern, or the arguments of an error."""
    match node:
        case ast.JoinedStr() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name == "__all__" or name[:1].isupper() and "|" in ast.unparse(node.value)
        case ast.Call(func=ast.Name(id=name)):
            return name.endswith(("Error", "Warning")) or name in ("TypeVar", "cast")
    return False


def changes(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions that may replace this one."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            yield ast.Compare(node.left, [COMPARISONS[type(op)]()], node.comparators)
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
            for i in range(len(node.values)):
                rest = node.values[:i] + node.values[i + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.BinOp() if type(node.op) in OPERATORS:
            yield ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
        case ast.IfExp():
            yield ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value + 1)
        case ast.Call(args=[first, second, *rest]):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            plain = not any(isinstance(each, ast.Starred) for each in (first, second))
            if plain and name not in FIXED_ORDER and ast.dump(first) != ast.dump(second):
                exchanged = copy.copy(node)
                exchanged.args = [second, first, *rest]
                yield exchanged
