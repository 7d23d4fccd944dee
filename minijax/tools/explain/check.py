"""``%check``: parse the user's call of a primitive, find default operands, and show the report as a document."""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from minijax import errors
from minijax.api.custom_derivatives import CustomFunction
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.keys import is_key
from minijax.core.primitive import Primitive, abstract_eval
from minijax.core.shape_structs import ShapeDtypeStruct
from minijax.core.structural import random_wrap_p
from minijax.core.trace import Tracer
from minijax.extend.check import check_custom_rules, check_rules
from minijax.extend.report import FAILED, PASSED, RuleOutcome, RulesReport, call_text
from minijax.pytree import tree_leaves, tree_map
from minijax.tools.documents.document import Block, Document, Fitted, Line, Row, Text, line
from minijax.tools.documents.words import plural, seconds_text, shortened
from minijax.tools.explain import check_examples
from minijax.tools.explain.rules import primitive_named, short_path
from minijax.tools.recording import preview
from minijax.tools.session import real_jax
from minijax.tools.session.specs import expression_text
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.session.session import Session

_MARKS = {PASSED: ("good", "✓"), FAILED: ("error", "✗")}


def custom_function(session: Session, text: str) -> tuple[CustomFunction, tuple[Any, ...]] | None:
    """Parse ``f(2.0, f32[3])`` or ``f``: return a ``custom_jvp`` or ``custom_vjp`` function and its arguments.

    None if ``f`` is no such function. UsageError if ``f`` stands alone and accepts none of the default arguments.
    """
    __tracebackhide__ = True
    name, inner = _divided(expression_text(text.strip()))
    first, *rest = name.split(".")
    fun = session.lookup(first)
    for part in rest:
        fun = getattr(fun, part, None)
    if not isinstance(real_jax.counterpart(fun), CustomFunction):
        return None
    args, kwargs = ((), {}) if inner is None else _evaluated(session, inner)
    watched, args, kwargs = session.watchable("check", text.strip(), fun, args, kwargs)
    fun = cast(CustomFunction, watched)
    if inner is None:
        return fun, _ordinary_arguments(fun, name)
    try:
        args = fun._resolve(args, kwargs)
        static = fun._static(args)
    except (TypeError, IndexError) as error:
        raise UsageError(f"%check: {str(error).strip().splitlines()[-1]}") from None
    return fun, tuple([x if i in static else tree_map(functools.partial(_example, i), x) for i, x in enumerate(args)])


def _ordinary_arguments(fun: CustomFunction, name: str) -> tuple[Any, ...]:
    """Numbers or vectors that the function accepts; UsageError if it accepts none of them."""
    count = fun._signature.n
    for shape in ((3,), ()):
        args = tuple(random_values(ShapedArray(shape, np.dtype("float32")), i) for i in range(count))
        if not fun.nondiff_argnums and fun._signature.plain:
            with contextlib.suppress(Exception):  # any exception means that the function does not accept ``args``
                fun(*args)
                return args
    raise UsageError(f"%check knows no arguments for {name}: give some, as in %check {name}(f32[3])")


def _example(seed: int, x: Any) -> Any:
    """Sample values if ``x`` is a type; any other ``x`` unchanged."""
    return random_values(x, seed) if isinstance(x, ShapeDtypeStruct) else x


def call(session: Session, text: str) -> tuple[Primitive, tuple[Any, ...], dict[str, Any]]:
    """Parse ``mul(2.0, f32[3])``, ``mul 2.0, f32[3]`` or ``mul``: return a primitive, its operands and parameters.

    UsageError if the text is no such call, or if operands are needed and none are known.
    """
    __tracebackhide__ = True
    name, inner = _divided(expression_text(text.strip()))
    primitive = primitive_named(session, "check", name)
    if inner is None:
        found = example(primitive)
        if found is None:
            raise UsageError(
                f"%check knows no operands for {primitive.name}: give some, as in %check {name}(f32[3], axes=(0,))"
            )
        return (primitive, *found)
    args, params = _evaluated(session, inner)
    values = []
    for i, x in enumerate(args):
        try:
            aval = x if isinstance(x, ShapeDtypeStruct) else get_aval(x)
        except (TypeError, ValueError):
            aval = None
        if aval is None or isinstance(x, Tracer):
            raise UsageError(f"%check needs arrays, numbers or types as operands; operand {i} is {shortened(repr(x))}")
        values.append(random_values(aval, i) if isinstance(x, ShapeDtypeStruct) else check_examples.plain(x, aval))
    _check_taken(primitive, values, params)
    return primitive, tuple(values), params


def _evaluated(session: Session, inner: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The values of operands and parameters, from the text inside a call's parentheses."""
    __tracebackhide__ = True
    try:
        node: Any = ast.parse(f"f({inner})", mode="eval").body
    except SyntaxError as error:
        raise UsageError(f"%check cannot read the operands {inner!r}: {error.msg}") from None
    capture = "capture call"  # no identifier, so it hides no name of the user
    captured = ast.Call(ast.Name(capture, ast.Load()), node.args, node.keywords)
    return session.evaluate(captured, {capture: _given})


def _check_taken(primitive: Primitive, values: Sequence[np.ndarray], params: dict[str, Any]) -> None:
    """Raise UsageError if the primitive refuses these operands but accepts other operands.

    The primitive must refuse them as types and as values. If a primitive of the user accepts no known operands, its
    rules may be wrong: then raise nothing, so that the report is shown.
    """
    refused = _refusal(primitive, values, params)
    if refused is None:
        return
    try:
        primitive.bind(*values, **params)
        return
    except Exception as error:
        if not isinstance(error, _REFUSALS):
            return
    found = example(primitive)
    if found is None:
        if errors.is_user_file(primitive.defined_at.rpartition(":")[0]):
            return
        such = ""
    else:
        such = f". It takes, for example, %check {_call_text(primitive, *found)}"
        others = tuple(itertools.islice(itertools.cycle(found[0]), len(values)))
        if len(values) != len(found[0]) and _refusal(primitive, others, found[1]) is not None:
            raise UsageError(f"{primitive.name} takes {plural(len(found[0]), 'operand')}, not {len(values)}{such}")
    given = ", ".join(get_aval(x).str_short(short_dtypes=True) for x in values)
    raise UsageError(f"{primitive.name} does not take {given or 'no operands'}: {refused}{such}")


# The exceptions that rules raise for wrong operands and parameters. A missing parameter is often a KeyError.
_REFUSALS = (TypeError, ValueError, KeyError)


def _refusal(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> str | None:
    """The reason why abstract evaluation refuses these operands; None if it accepts them."""
    try:
        abstract_eval(primitive, tuple(get_aval(x) for x in values), params)
    except KeyError as error:
        return f"it needs {error}"
    except _REFUSALS as error:
        said = str(error).partition("\n")[0].rstrip(".")
        rule, missing, rest = said.partition("() missing ")  # the name of the rule function is irrelevant
        return shortened(f"missing {rest}" if missing and " " not in rule else said, 160)
    return None


def _call_text(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> str:
    """A call as a text, ``reduce_sum(f32[2,3], axes=(0,))``. Parameters that are too long to type become ``...``."""
    shown = [get_aval(x).str_short(short_dtypes=True) for x in args]
    for name, value in params.items():
        text = repr(value)
        shown.append(f"{name}={text if len(text) <= 40 and text.isprintable() else '...'}")
    return f"{primitive.name}({', '.join(shown)})"


def _given(*args: Any, **params: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return args, params


def _divided(text: str) -> tuple[str, str | None]:
    """The name of the primitive or function, and the text of its operands (None if the text has only a name)."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        node = None
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        return name, text[text.index("(", _end(text, node.func)) + 1 : text.rindex(")")]
    if node is not None:
        return text, None
    if text.endswith(")") and "(" in text and " " not in text.partition("(")[0]:
        name, _, rest = text.partition("(")  # a name such as scatter-add is no Python expression
        return name, rest[:-1]
    name, space, rest = text.partition(" ")
    return name, rest.strip() if space else None


def _end(text: str, node: ast.expr) -> int:
    """The index in ``text`` at which ``node`` ends. ``text`` is an expression on one line."""
    return len(text.encode()[: node.end_col_offset].decode())


def random_values(aval: Any, seed: int) -> Any:
    """Unsorted sample values of a type: floats between 0.15 and 0.85, integers from 1 to 6, booleans, or keys."""
    if is_key(aval.dtype):
        words = aval.update(shape=(*aval.shape, *aval.dtype.impl.key_shape), dtype=np.dtype(np.uint32))
        return random_wrap_p.bind(random_values(words, seed), impl=aval.dtype.impl)
    random = np.random.default_rng(seed)
    shape, dtype = aval.shape, aval.dtype
    if dtype == np.bool_:
        return random.integers(0, 2, shape).astype(dtype)
    if dtypes.is_integer(dtype):
        return random.integers(1, 7, shape).astype(dtype)
    values = 0.15 + 0.7 * random.random(shape)
    if dtypes.is_complex(dtype):
        values = values + 1j * (0.15 + 0.7 * random.random(shape))
    return values.round(2).astype(dtype)


def example(primitive: Primitive) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Operands and parameters from a known program that uses the primitive, or else sample values that it accepts."""
    known = check_examples.call_of(primitive)
    return _ordinary(primitive) if known is None else known


def _candidates() -> Iterator[tuple[Any, ...]]:
    vector = [ShapedArray((3,), np.dtype(name)) for name in ("float32", "int32", "bool", "complex64")]
    for aval, count in itertools.product(vector, (1, 2, 3)):
        yield tuple(random_values(aval, i) for i in range(count))


def _ordinary(primitive: Primitive) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    for args in _candidates():
        try:
            abstract_eval(primitive, tuple(get_aval(x) for x in args), {})
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                outs = primitive.bind(*args)
                if all(np.isfinite(np.asarray(x)).all() for x in (outs if primitive.multiple_results else [outs])):
                    return args, {}
        except Exception:  # any exception means that the primitive does not accept ``args``
            continue
    return None


def checked(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> tuple[RulesReport, float]:
    """The report about a primitive's rules, and the seconds that the checks took."""
    began = time.perf_counter()
    report = check_rules(primitive, *values, **params)
    return report, time.perf_counter() - began


def checked_function(fun: CustomFunction, args: Sequence[Any]) -> tuple[RulesReport, float, list[Any]]:
    """Like ``checked``, for a function with a custom rule. It also returns the operands: leaves of ``args``."""
    __tracebackhide__ = True
    began = time.perf_counter()
    report = check_custom_rules(fun, *args)
    static = fun._static(tuple(args))
    leaves = tree_leaves([x for i, x in enumerate(args) if i not in static])
    return report, time.perf_counter() - began, leaves


def document(report: RulesReport, seconds: float, values: Sequence[Any]) -> Document:
    """The report as a document: a line for each check, with its rule or the reason why it was skipped."""
    primitive = report.primitive
    file, _, number = primitive.defined_at.rpartition(":")
    place = line(("place", f"{short_path(file)}:{number}"))
    shown = ", ".join(map(_operand_text, values))
    blocks: list[Block] = [
        Row("name", (line(("primitive", primitive.name), ("muted", f" at {shortened(shown, 200)}")),), place),
        Fitted(lambda width: tuple(_outcomes(report, width))),
    ]
    passed = sum(o.status == PASSED for o in report.outcomes)
    wrong = len(report.failures)
    verdict = ("good", f"{passed} right") if not wrong else ("error", f"{wrong} wrong, {passed} right")
    skipped = f", {len(report.skipped)} not checked" if report.skipped else ""
    blocks.append(Row("rules", (line(verdict, ("muted", skipped)),), line(("time", seconds_text(seconds)))))
    return Document(tuple(blocks))


def _operand_text(x: np.ndarray) -> str:
    """The type and the values of an operand: ``f32[3] [0.5, 0.25, 1.0]``."""
    return " ".join(dict.fromkeys((get_aval(x).str_short(short_dtypes=True), preview.value_text(x))))


def _outcomes(report: RulesReport, width: int) -> Iterator[Block]:
    """A block for each check. A narrow page does not align the names of checks."""
    column = max(len(o.check) for o in report.outcomes) if width >= 60 else 0
    for outcome in report.outcomes:
        yield Text((_headline(outcome, column),), hanging=column + 4 if column else 4)
        if outcome.status == FAILED:
            yield Text(tuple(_details(report, outcome)), hanging=6)


def _headline(outcome: RuleOutcome, column: int) -> Line:
    role, mark = _MARKS.get(outcome.status, ("muted", "–"))
    head = line((role, mark), f" {outcome.check:<{column}}  ")
    rule = _rule(outcome.rule)
    if outcome.status == PASSED:
        return (*head, *rule)
    if outcome.status != FAILED:
        return (*head, ("muted", f"not checked: {outcome.detail}"))
    return (*head, ("error", outcome.verdict), *((("muted", "; suspect "), *rule) if rule else ()))


def _details(report: RulesReport, outcome: RuleOutcome) -> Iterator[Line]:
    """The error and the operands of a failed check, for display below its headline."""
    for each in outcome.detail.splitlines():
        yield line("    ", ("", each))
    if outcome.example is not None:
        yield line("    ", ("muted", "smallest example "), call_text(report.primitive, outcome.example, report.params))
    if outcome.also:
        yield line("    ", ("muted", f"and {outcome.also} more of this kind"))


def _rule(text: str) -> Line:
    """The name of a rule, such as ``sin_jvp``, and its shortened place."""
    name, at, place = text.partition(" at ")
    if not at:
        return line(("function", name)) if name else ()
    file, _, number = place.rpartition(":")
    return line(("function", name), ("muted", " at "), ("place", f"{short_path(file)}:{number}"))
