"""Conditions on the values of a recording, such as ``h.max() > 10``, and the moments when they first hold.

A condition is a Python expression in the program's names, which hold NumPy arrays. It is checked on known values (kept
or replayed), in each iteration of a loop. Unknown values are skipped and reported.
"""

from __future__ import annotations

import ast
import itertools
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np

from minijax.core.records import NamedTuple
from minijax.tools.documents.words import plural, shortened
from minijax.tools.recording.cursor import SearchProgress
from minijax.tools.values.expressions import NotKnown, Variables, array_of
from minijax.tools.values.moment import Ledger, LoopShown
from minijax.tools.values.table import Named, loop_text, stored_values

# Limits of a search: seconds, and iterations of a value's loops.
MOST_SECONDS = 30.0
MOST_ITERATIONS = 10_000
# Maximum characters of a condition, and of a reason.
MOST_CONDITION = 400
_LONGEST = 40

# The functions that a condition may use; also as methods: h.norm().
FIGURES: dict[str, Callable[..., Any]] = {
    "max": np.max,
    "min": np.min,
    "mean": np.mean,
    "std": np.std,
    "sum": np.sum,
    "prod": np.prod,
    "any": np.any,
    "all": np.all,
    "abs": np.abs,
    "norm": lambda x: np.sqrt(np.sum(np.square(np.abs(np.asarray(x, np.result_type(x, np.float32)))))),
    "nan": lambda x: bool(np.any(np.isnan(x))),
    "inf": lambda x: bool(np.any(np.isinf(x))),
    "finite": lambda x: bool(np.all(np.isfinite(x))),
    "shape": np.shape,
    "ndim": np.ndim,
    "size": np.size,
    "dtype": lambda x: np.asarray(x).dtype,
}
_COMMON = {**FIGURES, "np": np, "jnp": np, "_all": all, "_any": any}


class ConditionError(ValueError):
    """The text is not a valid condition; the message says why."""


class Condition(NamedTuple):
    """A condition: its text, and its expression.

    ``kind`` is 'holds', 'changed' (different from before), 'became' (true now, false before), or 'line': the user's
    line number ``line`` runs.
    """

    text: str
    body: str
    kind: str = "holds"
    line: int = 0


class Hit(NamedTuple):
    """A match: ``found`` is the value of the expression, ``where`` is a text that names the iterations."""

    named: Named
    found: Any
    where: str
    iterations: Mapping[tuple[int, ...], int]


def condition(text: str) -> Condition:
    """Parse a condition, or raise ConditionError."""
    said = " ".join(text.split())
    if not said or len(said) > MOST_CONDITION:
        raise ConditionError("a condition is needed, such as h.max() > 10 or nan(h)" if not said else "it is too long")
    if found := re.fullmatch(r"line (\d+)", said):
        return Condition(said, "", "line", int(found[1]))
    wanted = Condition(said, said)
    if said.endswith(" changed"):
        wanted = Condition(said, said.removesuffix(" changed"), "changed")
    elif became := re.fullmatch(r"(.+) became (nan|inf|infinite)", said, re.IGNORECASE):
        wanted = Condition(said, f"{'nan' if became[2].lower() == 'nan' else 'inf'}({became[1]})", "became")
    try:
        names = Question(wanted, ()).names
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConditionError(f"{shortened(said)} is no condition: write one such as h.max() > 10 or nan(h)") from None
    if not names:
        raise ConditionError(f"{shortened(said)} names no variable of the program, as h.max() > 10 does")
    return wanted


class Question:
    """The expression of a condition on values that are called ``held``.

    Attributes:
      names: the variables in the expression, with their paths: ``params['w']``.
      whole: whether an array was compared elementwise.
    """

    def __init__(self, wanted: Condition, held: Collection[str]) -> None:
        tree = ast.parse(wanted.body, mode="eval")
        if any(isinstance(node, (ast.In, ast.NotIn)) for node in ast.walk(tree)):
            raise SyntaxError("``in`` separates a condition from a call")
        if wanted.kind == "holds":
            tree.body = _held(tree.body)
        variables = Variables(held, [*_COMMON, "_holds"], tree)
        tree = ast.fix_missing_locations(_Truths().visit(variables.visit(tree)))
        self.slots = variables.slots
        self.names = (*variables.slots, *variables.missing)
        self.code = compile(tree, "<condition>", "eval")
        self.whole = False

    def answer(self, values: Mapping[str, Any]) -> Any:
        """The value of the expression. For a condition that holds or not, this is a bool."""
        names = {slot: values[name] for name, slot in self.slots.items()}
        with np.errstate(all="ignore"):
            return eval(self.code, {**_COMMON, "_holds": self.holds, **names})

    def holds(self, found: Any, said: str) -> bool:
        """Whether a comparison holds for all elements. ConditionError if ``found`` is no comparison."""
        if np.asarray(found).dtype == np.bool_:
            self.whole = self.whole or np.size(found) > 1
            return truth(found)
        asked = shortened(said)
        if isinstance(found, (str, tuple, np.dtype)):
            shown = repr(found.name if isinstance(found, np.dtype) else found)
            raise ConditionError(f"{asked} is {shown}, not a condition: compare it, as in {asked} == {shown}")
        if np.size(found) == 1:
            raise ConditionError(f"{asked} is a number, not a condition: compare it, as in {asked} > 0")
        simple = isinstance(ast.parse(said, mode="eval").body, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))
        whole = asked if simple else f"({asked})"
        asks = f"{whole}.any(), {whole}.all() or {whole}.max() > 0"
        raise ConditionError(f"{asked} is an array of shape {np.shape(found)}, not a condition: use {asks}")


def _held(node: ast.expr) -> ast.expr:
    """A call that says whether ``node`` holds, unless ``node`` combines conditions."""
    if isinstance(node, ast.BoolOp):  # each condition is checked, even if the first decides
        joined = ast.Name("_all" if isinstance(node.op, ast.And) else "_any", ast.Load())
        return ast.Call(joined, [ast.List(list(map(_held, node.values)), ast.Load())], [])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node.operand = _held(node.operand)
        return node
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        sides = [node.left, *node.comparators]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        return _held(ast.BoolOp(ast.And(), [ast.Compare(a, [op], [b]) for a, op, b in pairs]))
    return ast.Call(ast.Name("_holds", ast.Load()), [node, ast.Constant(ast.unparse(node))], [])


class _Truths(ast.NodeTransformer):
    """Turns ``h.norm()`` into ``norm(h)``, and integers in arithmetic into floats, which do not overflow."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        of = node.func
        if isinstance(of, ast.Attribute) and of.attr in FIGURES and not hasattr(np.ndarray, of.attr):
            return ast.Call(ast.Name(of.attr, ast.Load()), [of.value, *node.args], node.keywords)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        node.value = self.visit(node.value)  # an index stays an integer
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        for side in (node.left, node.right):
            if isinstance(side, ast.Constant) and type(side.value) is int:
                side.value = float(side.value)
        return self.generic_visit(node)


def truth(value: Any) -> bool:
    """Whether a comparison holds for all elements."""
    return bool(np.all(value))


# --- searching
# ---------------------------------------------------------------------------------------------------------


class ConditionSearch:
    """Finds the values for which a condition holds, in the order of their creation."""

    def __init__(self, known: Ledger, wanted: Condition, heed: Callable[[int, int], None] | None = None) -> None:
        self.known = known
        self.wanted = wanted
        held = {named.name for named in stored_values(known)}
        self.question = Question(wanted, held) if wanted.body else None
        self.progress = SearchProgress()
        # progress callback; its exception ends the search
        self.heed = heed or self.progress.report
        # how many values were checked, why other values are unknown, and why the search gave up
        self.values = 0
        self.unknown: dict[str, str] = {}
        self.ended = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that the condition is about."""
        return () if self.question is None else self.question.names

    @property
    def whole(self) -> bool:
        """Whether an array was compared elementwise."""
        return self.question is not None and self.question.whole

    def hits(self) -> Iterator[Hit]:
        """The matches, in order; 'changed' and 'became' compare each value with the one before."""
        end = time.monotonic() + MOST_SECONDS
        newest: dict[str, Named] = {}
        before: Any = None
        every = stored_values(self.known)
        asked = [(done, named) for done, named in enumerate(every) if named.name in self.names]
        # values in the same loops are visited iteration by iteration: all values of an iteration before the next one
        for _, group in itertools.groupby(asked, lambda each: [loop.key for loop in self.known.loops(each[1].number)]):
            together, outside = list(group), newest
            for iterations, where in self._iterations(together[0][1]):
                newest = dict(outside)
                for done, named in together:
                    if time.monotonic() > end:
                        self.ended = f"given up after {MOST_SECONDS:.0f} seconds"
                        return
                    self.heed(done, len(every))
                    newest[named.name] = named
                    if len(newest) < len(self.names):
                        continue
                    found = self._worth(newest, iterations)
                    if found is None:
                        continue
                    if self._holds(found, before):
                        yield Hit(named, found, where, iterations)
                    before = found

    def _holds(self, found: Any, before: Any) -> bool:
        if self.wanted.kind == "changed":
            return before is not None and not _alike(found, before)
        if self.wanted.kind == "became":
            return truth(found) and (before is None or not truth(before))
        return truth(found)

    def _iterations(self, named: Named) -> Iterator[tuple[Mapping[tuple[int, ...], int], str]]:
        """The iterations of the loops around a value, the innermost loop fastest; one empty entry without a loop."""
        loops = self.known.loops(named.number)
        if not loops:
            yield {}, ""
            return
        every = itertools.product(*[range(each.count) for each in loops])
        for indices in itertools.islice(every, MOST_ITERATIONS):
            shown = [each.replace(index=index) for each, index in zip(loops, indices, strict=True)]
            yield dict(zip([each.key for each in loops], indices, strict=True)), _iterations_text(shown)

    def _worth(self, newest: Mapping[str, Named], iterations: Mapping[tuple[int, ...], int]) -> Any:
        """The value of the expression; None if a value in it is unknown."""
        try:
            assert self.question is not None
            with self.known.chosen({**self.known.iterations, **iterations}):
                values = {name: array_of(self.known, named) for name, named in newest.items()}
            self.values += 1
            return self.question.answer(values)
        except NotKnown as error:
            name, _, reason = str(error).partition(" is not known: ")
            self.unknown.setdefault(name, reason)
        except ConditionError:
            raise
        except Exception as error:  # such as mismatched shapes, or text compared with numbers
            self.unknown.setdefault(self.wanted.text, f"{type(error).__name__}: {shortened(str(error), _LONGEST)}")
        return None


def _alike(a: Any, b: Any) -> bool:
    try:
        return np.shape(a) == np.shape(b) and bool(np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True))
    except TypeError:  # NumPy cannot look for NaNs in text
        return bool(np.array_equal(np.asarray(a), np.asarray(b)))


def _iterations_text(loops: list[LoopShown]) -> str:
    return " · ".join(map(loop_text, loops))


def unknown_text(unknown: Mapping[str, str]) -> str:
    """The first name of the unknown values, with the reason; '' if all are known."""
    if not unknown:
        return ""
    (name, reason), *rest = unknown.items()
    more = f", and {plural(len(rest), 'other')}" if rest else ""
    return f"{name} is not known everywhere: {reason}{more}"
