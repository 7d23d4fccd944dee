"""Conditions on the values of a recording, such as ``h.max() > 10``, and the moments when they first hold.

A condition is parsed, never executed. It may contain variable names, elements ``h[0, 1]``, figures such as
``h.max()`` or ``nan(h)``, arithmetic, comparisons, ``and``, ``or`` and ``not``. It is checked on known values (kept or
replayed), in each iteration of a loop. Unknown values are skipped and reported.
"""

from __future__ import annotations

import ast
import itertools
import operator
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeGuard

import numpy as np

from minijax.core.records import NamedTuple
from minijax.tools.documents.words import plural, shortened
from minijax.tools.recording.cursor import SearchProgress
from minijax.tools.values.brief import numpy_of
from minijax.tools.values.moment import Ledger, LoopShown, Unknown, Worth
from minijax.tools.values.table import Named, loop_text, named_values

# Limits of a search: seconds, and iterations of a value's loops.
MOST_SECONDS = 30.0
MOST_ITERATIONS = 10_000
# Maximum characters of a condition, and of a reason.
MOST_CONDITION = 400
_LONGEST = 40

# The figures of an array that a condition may use, as functions or methods.
FIGURES: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: np.max(x) if np.size(x) else np.nan,
    "min": lambda x: np.min(x) if np.size(x) else np.nan,
    "mean": lambda x: np.mean(x) if np.size(x) else np.nan,
    "std": lambda x: np.std(x) if np.size(x) else np.nan,
    "sum": np.sum,
    "prod": np.prod,
    "any": np.any,
    "all": np.all,
    "abs": np.abs,
    "norm": lambda x: np.sqrt(np.sum(np.square(np.abs(np.asarray(x, np.result_type(x, np.float32)))))),
    "nan": lambda x: bool(np.any(np.isnan(x))),
    "inf": lambda x: bool(np.any(np.isinf(x))),
    "finite": lambda x: bool(np.all(np.isfinite(x))),
    "dtype": lambda x: np.asarray(x).dtype.name,
    "shape": lambda x: tuple(np.shape(x)),
    "ndim": np.ndim,
    "size": np.size,
}
# Figures that are written without parentheses: h.dtype.
PLAIN = ("dtype", "shape", "ndim", "size")
_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}


class ConditionError(ValueError):
    """The text is not a valid condition; the message says why."""


class Condition(NamedTuple):
    """A condition: its text, the names in it, and its expression.

    ``kind`` is 'holds', 'changed' (different from before), 'became' (true now, false before), or 'line': the user's
    line number ``line`` runs.
    """

    text: str
    names: tuple[str, ...]
    node: ast.expr | None
    kind: str = "holds"
    line: int = 0


class Hit(NamedTuple):
    """A match: ``found`` is the value of the expression, ``where`` is a text that names the iterations."""

    named: Named
    found: Any
    where: str
    iterations: Mapping[tuple[int, ...], int]


class Looked(NamedTuple):
    """The extent of a search: how many values were checked, why other values are unknown, and why it gave up."""

    values: int
    unknown: Mapping[str, str]
    ended: str = ""


def condition(text: str) -> Condition:
    """Parse a condition, or raise ConditionError."""
    said = " ".join(text.split())
    if not said or len(said) > MOST_CONDITION:
        raise ConditionError("a condition is needed, such as h.max() > 10 or nan(h)" if not said else "it is too long")
    if found := re.fullmatch(r"line (\d+)", said):
        return Condition(said, (), None, "line", int(found[1]))
    kind, body = "holds", said
    if said.endswith(" changed"):
        kind, body = "changed", said.removesuffix(" changed")
    elif became := re.fullmatch(r"(.+) became (nan|inf|infinite)", said, re.IGNORECASE):
        kind, body = "became", f"{'nan' if became[2].lower() == 'nan' else 'inf'}({became[1]})"
    try:
        node = ast.parse(body, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConditionError(f"{shortened(said)} is no condition: write one such as h.max() > 10 or nan(h)") from None
    names = tuple(dict.fromkeys(_names(node)))
    if not names:
        raise ConditionError(f"{shortened(said)} names no variable of the program, as h.max() > 10 does")
    return Condition(said, names, node, kind)


def in_names(wanted: Condition, held: Collection[str]) -> Condition:
    """``wanted`` with its names corrected: ``h[0]`` is an element of ``h`` only if ``held`` has a value named ``h``."""
    names = [] if wanted.node is None else _names(wanted.node, held)
    return wanted._replace(names=tuple(dict.fromkeys(names)))


def _names(node: ast.expr, held: Collection[str] | None = None) -> Iterator[str]:
    """The variables in a condition, with their paths: ``params['w']``. ConditionError for unsupported expressions.

    ``held`` are the names of values, if known: an element then has the name of the value that it is part of.
    """
    if isinstance(node, ast.Name) or _is_path(node):
        yield _holder(node, held) if held is not None else ast.unparse(node)
    elif isinstance(node, ast.Subscript) and _place(node.slice) is not None:
        yield from _names(node.value, held)
    elif isinstance(node, ast.Attribute) and node.attr in PLAIN:
        yield from _names(node.value, held)
    elif isinstance(node, ast.Call):
        yield from _names(_asked(node)[1], held)
    elif isinstance(node, (ast.BoolOp, ast.Compare, ast.BinOp, ast.UnaryOp, ast.Tuple)):
        operators = getattr(node, "ops", None) or [getattr(node, "op", None)]
        for each in operators:
            if each is not None and type(each) not in _OPERATORS and not isinstance(each, (ast.And, ast.Or)):
                raise ConditionError(f"{ast.unparse(node)}: a condition has no such operator; use and, or, not")
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr) and not isinstance(child, ast.expr_context):
                yield from _names(child, held)
    elif not (isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float, complex, str))):
        said = shortened(ast.unparse(node))
        raise ConditionError(f"{said} is not allowed in a condition: use names, numbers, or figures such as h.max()")


def _is_path(node: ast.expr) -> bool:
    """Whether ``node`` is a variable with a path: attributes that are not figures, or keys."""
    if isinstance(node, ast.Attribute):
        return node.attr not in FIGURES and (isinstance(node.value, ast.Name) or _is_path(node.value))
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return isinstance(node.value, ast.Name) or _is_path(node.value)
    return False


def _place(node: ast.expr) -> tuple[int, ...] | None:
    """The index of an element, ``0``, ``-1`` or ``0, 1``; None if ``node`` is no index."""
    try:
        said = ast.literal_eval(node)
    except ValueError:
        return None
    place = said if isinstance(said, tuple) else (said,)
    return place if place and all(type(each) is int for each in place) else None


def _holder(node: ast.expr, held: Collection[str]) -> str:
    """The name in front of an element's indices; the whole text if ``held`` has no such name."""
    inner = node
    while ast.unparse(inner) not in held and isinstance(inner, ast.Subscript) and _place(inner.slice) is not None:
        inner = inner.value
    said = ast.unparse(inner)
    return said if said in held else ast.unparse(node)


def _is_of_module(node: ast.expr) -> TypeGuard[ast.Attribute]:
    """Whether ``node`` is a function of a module, such as ``jnp.all`` or ``np.max``."""
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        return False
    return node.value.id in ("jnp", "np") and callable(getattr(np, node.attr, None))


def _asked(node: ast.Call) -> tuple[str, ast.expr]:
    """The figure and the argument of a call."""
    if isinstance(node.func, ast.Name) and len(node.args) == 1 and not node.keywords:
        name, of = node.func.id, node.args[0]
    elif isinstance(node.func, ast.Attribute) and not node.args and not node.keywords:
        name, of = node.func.attr, node.func.value
    elif _is_of_module(node.func) and len(node.args) == 1 and not node.keywords:
        name, of = node.func.attr, node.args[0]
    else:
        name, of = "", node
    if name not in FIGURES:
        raise ConditionError(f"{shortened(ast.unparse(node))} is not allowed in a condition: use {', '.join(FIGURES)}")
    return name, of


def worth(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of a condition's expression."""
    if isinstance(node, ast.Subscript) and ast.unparse(node) not in values and (place := _place(node.slice)):
        return worth(node.value, values)[place]
    if isinstance(node, ast.Name) or _is_path(node):
        return values[ast.unparse(node)]
    if isinstance(node, ast.Constant):
        # a Python integer may be too large for NumPy
        return float(node.value) if type(node.value) is int and abs(node.value) > 1 << 53 else node.value
    if isinstance(node, ast.Attribute):
        return FIGURES[node.attr](worth(node.value, values))
    if isinstance(node, ast.Call):
        name, of = _asked(node)
        return FIGURES[name](worth(of, values))
    if isinstance(node, ast.Tuple):
        return tuple([worth(each, values) for each in node.elts])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not yes(node.operand, values)
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](worth(node.operand, values))
    if isinstance(node, ast.BinOp):
        left, right = worth(node.left, values), worth(node.right, values)
        if not all(isinstance(each, (np.ndarray, np.generic, int, float, complex)) for each in (left, right)):
            raise TypeError("arithmetic needs numbers")
        return _OPERATORS[type(node.op)](*[np.float64(x) if type(x) is int else x for x in (left, right)])
    if isinstance(node, ast.BoolOp):
        each = [yes(value, values) for value in node.values]
        return all(each) if isinstance(node.op, ast.And) else any(each)
    assert isinstance(node, ast.Compare)
    operands = [worth(each, values) for each in (node.left, *node.comparators)]
    pairs = zip(node.ops, operands, operands[1:], strict=False)
    return all(truth(_OPERATORS[type(op)](a, b)) for op, a, b in pairs)


def yes(node: ast.expr, values: Mapping[str, Any]) -> bool:
    """Whether a condition holds. ConditionError if its value is no bool, for example an array or a number."""
    found = worth(node, values)
    if np.size(found) == 1 and np.asarray(found).dtype == np.bool_:
        return bool(found)
    said = shortened(ast.unparse(node))
    if isinstance(found, (str, tuple)):
        raise ConditionError(f"{said} is {found!r}, not a condition: compare it, as in {said} == {found!r}")
    if np.size(found) == 1:
        raise ConditionError(f"{said} is a number, not a condition: compare it, as in {said} > 0")
    whole = said if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)) else f"({said})"
    asks = f"{whole}.any(), {whole}.all() or {whole}.max() > 0"
    raise ConditionError(f"{said} is an array of shape {np.shape(found)}, not a condition: use {asks}")


def truth(value: Any) -> bool:
    """Whether a comparison holds for all elements."""
    return bool(np.all(value))


def _is_of_elements(node: ast.expr, values: Mapping[str, Any]) -> bool:
    """Whether the expression has several elements, unlike a figure of an array."""
    if isinstance(node, (ast.BoolOp, ast.Compare, ast.BinOp, ast.UnaryOp)):
        return any(_is_of_elements(each, values) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
    if isinstance(node, ast.Call):
        name, of = _asked(node)
        return name == "abs" and _is_of_elements(of, values)
    if isinstance(node, ast.Subscript) and ast.unparse(node) not in values:
        return bool(np.size(worth(node, values)) > 1)
    return ast.unparse(node) in values and bool(np.size(values[ast.unparse(node)]) > 1)


# --- searching
# ---------------------------------------------------------------------------------------------------------


class ConditionSearch:
    """Finds the values for which a condition holds, in the order of their creation."""

    def __init__(self, known: Ledger, wanted: Condition, heed: Callable[[int, int], None] | None = None) -> None:
        self.known = known
        self.wanted = in_names(wanted, {named.name for named in named_values(known) if named.variable})
        self.progress = SearchProgress()
        # progress callback; its exception ends the search
        self.heed = heed or self.progress.report
        self.values = 0
        self.unknown: dict[str, str] = {}
        self.ended = ""
        # whether an array was compared elementwise
        self.whole = False

    @property
    def looked(self) -> Looked:
        """The extent of the search so far."""
        return Looked(self.values, self.unknown, self.ended)

    def hits(self) -> Iterator[Hit]:
        """The matches, in order; 'changed' and 'became' compare each value with the one before."""
        end = time.monotonic() + MOST_SECONDS
        newest: dict[str, Named] = {}
        before: Any = None
        every = named_values(self.known)
        asked = [(done, named) for done, named in enumerate(every) if named.name in self.wanted.names]
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
                    if len(newest) < len(self.wanted.names):
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
        looked_at = dict(self.known.iterations)
        self.known.iterations.update(iterations)
        try:
            values = {}
            for name, named in newest.items():
                found = self.known.primal(named.number)
                if not isinstance(found, Worth):
                    reason = found.reason if isinstance(found, Unknown) else "it has no value"
                    self.unknown.setdefault(name, reason)
                    return None
                values[name] = numpy_of(found.array)
            self.values += 1
            assert self.wanted.node is not None
            with np.errstate(all="ignore"):
                answer = (yes if self.wanted.kind == "holds" else worth)(self.wanted.node, values)
            self.whole = self.whole or _is_of_elements(self.wanted.node, values)
            return answer
        except ConditionError:
            raise
        except Exception as error:  # such as mismatched shapes, or text compared with numbers
            self.unknown.setdefault(self.wanted.text, f"{type(error).__name__}: {shortened(str(error), _LONGEST)}")
            return None
        finally:
            self.known.iterations.clear()
            self.known.iterations.update(looked_at)


def _alike(a: Any, b: Any) -> bool:
    try:
        return np.shape(a) == np.shape(b) and bool(np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True))
    except TypeError:  # NumPy cannot look for NaNs in text
        return bool(np.array_equal(np.asarray(a), np.asarray(b)))


def _iterations_text(loops: list[LoopShown]) -> str:
    return " · ".join(map(loop_text, loops))


def unknown_text(looked: Looked) -> str:
    """The names of unknown values, and the reason; '' if all are known."""
    if not looked.unknown:
        return ""
    (name, reason), *rest = looked.unknown.items()
    more = f", and {plural(len(rest), 'other')}" if rest else ""
    return f"{name} is not known everywhere: {reason}{more}"
