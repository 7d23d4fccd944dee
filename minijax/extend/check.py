"""``check_rules``: test a primitive's rules against each other.

All rules describe one function, so each can test another. The references are finite differences for the jvp rule, inner
products for the transpose rule, a loop for the batching rule, and evaluation for abstract evaluation and lowering. No
second implementation is needed, and the checks also work for user-defined primitives.
"""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from minijax.api import jit, jvp, linear_transpose, linearize, make_jaxpr, vjp, vmap
from minijax.api.custom_derivatives import CustomFunction
from minijax.api.custom_jvp import custom_jvp
from minijax.config import enable_x64
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray, dtype_name, physical_aval
from minijax.core.keys import is_key
from minijax.core.primitive import Primitive, abstract_eval
from minijax.core.records import NamedTuple
from minijax.core.structural import random_unwrap_p, random_wrap_p
from minijax.core.trace import pop_main, state
from minijax.extend.differences import (
    Inconclusive,
    Values,
    Wrong,
    check_adjoint,
    check_derivative,
    compare,
    differences,
    direction,
    inexact,
    rounding,
)
from minijax.extend.report import FAILED, PASSED, SKIPPED, NamedFunction, RuleOutcome, RulesReport, rule_text
from minijax.extend.rules import NONE, YES, cell, columns
from minijax.interpreters.partial_eval import dce_jaxpr
from minijax.ir.evaluate import eval_jaxpr
from minijax.ir.jaxpr import subjaxprs
from minijax.ir.typecheck import typecheck_jaxpr
from minijax.lowering.lower import lowering_rules
from minijax.numpy import tril
from minijax.pytree import tree_flatten, tree_leaves, tree_unflatten


def smaller(args: Sequence[np.ndarray]) -> Iterator[Values]:
    """Yield simpler variants of ``args``, the simplest first; dimensions of equal size are cut together."""
    sizes = sorted({d for x in args for d in x.shape if d > 1}, reverse=True)
    if sizes:
        yield [_cut(x, dict.fromkeys(sizes, 1)) for x in args]
    for size in sizes:
        for new in dict.fromkeys((1, 2, size - 1)):
            if new < size:
                yield [_cut(x, {size: new}) for x in args]
    for axis in range(max((x.ndim for x in args), default=0)):
        if any(x.ndim > axis and x.shape[axis] > 1 for x in args):
            yield [x[(slice(None),) * axis + (slice(1),)] if x.ndim > axis else x for x in args]
    for i, x in enumerate(args):
        for plain in _plainer(x):
            yield [*args[:i], plain, *args[i + 1 :]]


def _cut(x: np.ndarray, sizes: dict[int, int]) -> np.ndarray:
    return x[tuple(slice(sizes.get(d, d)) for d in x.shape)]


def _plainer(x: np.ndarray) -> Iterator[np.ndarray]:
    if x.dtype == dtypes.float0 or x.size == 0 or dtypes.is_bool(x.dtype):
        return
    candidates = [np.ones_like(x)]
    if dtypes.is_inexact(x.dtype):
        candidates += [
            (1 + np.arange(x.size).reshape(x.shape)).astype(x.dtype),
            np.asarray(np.round(x.astype(np.complex128 if dtypes.is_complex(x.dtype) else np.float64), 1), x.dtype),
        ]
    for y in candidates:
        if _weight(y) < _weight(x):
            yield y


def _weight(x: np.ndarray) -> int:
    """The number of characters in the text of ``x``, plus the number of distinct values."""
    return sum(len(str(v)) for v in x.ravel()) + (len(set(x.ravel().tolist())) if x.size else 0)


def smallest(
    args: Sequence[np.ndarray], valid: Callable[[Values], bool], fails: Callable[[Values], bool], attempts: int
) -> Values:
    """The smallest variant of ``args`` that is ``valid`` and still ``fails``, found within ``attempts`` tries."""
    best = list(args)
    progress = True
    while progress:
        progress = False
        for candidate in smaller(best):
            if attempts <= 0:
                return best
            if not valid(candidate):
                continue
            attempts -= 1
            if fails(candidate):
                best, progress = candidate, True
                break
    return best


# With more combinations of in_axes, only the first and last axis of each operand are tried, or only some of those.
MAX_COMBINATIONS = 48
# Primitives that read one triangle of a Hermitian matrix: perturb them only along Hermitian matrices.
_HERMITIAN = ("cholesky", "eigh")
# Primitives that return a lower triangle, with arbitrary values above it.
_TRIANGULAR = ("cholesky",)

Function = Callable[..., list[Any]]


class Case(NamedTuple):
    """One check: ``run(operands)`` raises on an error; ``attempts`` limits the search for a small example."""

    run: Callable[[Values], None]
    attempts: int = 60


def check_rules(primitive: Primitive, *example_args: Any, **params: Any) -> RulesReport:
    """Check every rule of ``primitive`` at ``primitive.bind(*example_args, **params)``.

    The value is compared with abstract evaluation and with the compiled program. The jvp rule is compared with finite
    differences, in 64 bit if the primitive supports it. The linearization, vjp and the transpose rule are compared with
    jvp, vmap with a loop for every ``in_axes``, and second and vmapped derivatives with first derivatives. Staged
    programs are typechecked, and their compiled results are compared with evaluated results.

    Args:
      primitive: any primitive, user-defined ones included.
      example_args: arrays or numbers in the primitive's domain, at a point with a derivative (not 0 for ``abs``).
        Different sizes and asymmetric values find the most errors.
      params: the primitive's params.

    Returns:
      A ``RulesReport`` with ``ok``, ``failures`` and ``skipped``; ``print`` shows it. Each failure has the smallest
      failing operands found. A missing rule is a failure unless its table's ``holes`` state a reason.

    Raises:
      TypeError: ``primitive`` is not a primitive, or an argument is not an array.
    """
    if not isinstance(primitive, Primitive):
        raise TypeError(
            f"check_rules expects a Primitive and example arguments, got {primitive!r} of type {type(primitive)}. Pass "
            "the primitive itself, not a function that binds it."
        )
    return Subject(primitive, params, example_args).report(_values(example_args))


def assert_rules(primitive: Primitive, *example_args: Any, **params: Any) -> RulesReport:
    """``check_rules``, but raise RulesError (an AssertionError with the report as its text) on a failure."""
    return check_rules(primitive, *example_args, **params).raise_if_failed()


class Skipped(Exception):
    """The check does not apply; the message is the reason."""


def _words(x: Any) -> Any:
    """Unwrap keys to their words; other values stay."""
    return random_unwrap_p.bind(x) if is_key(getattr(x, "dtype", None)) else x


def _values(args: Sequence[Any]) -> Values:
    """Convert the operands to NumPy arrays, keys to their words."""
    return [np.asarray(x, get_aval(x).dtype) for x in map(_words, args)]


class Subject:
    """A primitive with its params, as a function from flat values to a flat list; keys are passed as words."""

    def __init__(self, primitive: Primitive, params: dict[str, Any], examples: Sequence[Any]) -> None:
        self.primitive = primitive
        self.params = params
        self.keys = {i: get_aval(x).dtype.impl for i, x in enumerate(examples) if is_key(get_aval(x).dtype)}
        self.tables = columns()
        # jaxprs among the params fix the operand types, so operands keep their dtypes and shapes
        holds_programs = not primitive.keeps_signatures and not primitive.borrowed_from
        self.fixed = holds_programs or any(True for _ in subjaxprs(params))
        # error text of a missing rule -> the check that reported it
        self.missing: dict[str, str] = {}
        self.second = self.mapped = (jvp_of, vjp_of)

    def __call__(self, *args: Any) -> list[Any]:
        out = self.primitive.bind(*self.with_keys(args), **self.params)
        if self.primitive.name in _TRIANGULAR:
            out = tril(out)
        return [*map(_words, out if self.primitive.multiple_results else [out])]

    def with_keys(self, args: Sequence[Any]) -> list[Any]:
        """Convert words back to keys, and make the operand Hermitian if the primitive needs it."""
        if self.primitive.name in _HERMITIAN:
            (x,) = args
            args = ((x + x.mT.conj()) / 2,)
        return [random_wrap_p.bind(x, impl=self.keys[i]) if i in self.keys else x for i, x in enumerate(args)]

    def rule(self, interpreter: str) -> str:
        """The name and location of the interpreter's rule; '' if it has no rule."""
        found = cell(self.primitive, self.tables[interpreter])
        return rule_text(found.rule) if found.status == YES else ""

    def abstract(self, args: Sequence[Any]) -> list[ShapedArray]:
        """The result types by abstract evaluation."""
        avals = [ShapedArray(np.shape(x), x.dtype) for x in args]
        for i, impl in self.keys.items():
            avals[i] = abstract_eval(random_wrap_p, (avals[i],), {"impl": impl})
        out = abstract_eval(self.primitive, tuple(avals), self.params)
        return [*map(physical_aval, out if self.primitive.multiple_results else [out])]

    def value(self, args: Sequence[Any]) -> Values:
        """Evaluate the primitive, or its compiled program if it has no evaluation rule."""
        return [np.asarray(x) for x in self(*args)]

    def report(self, args: Values) -> RulesReport:
        """Run all checks at operands like ``args``."""
        report = RulesReport(self.primitive, self.params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            report.outcomes.append(self.outcome("evaluate", "evaluate", [Case(self.check_evaluation)], args))
            if report.outcomes[0].status != PASSED:
                nothing = RuleOutcome("everything else", "evaluate", SKIPPED, "there is no value to compare with")
                report.outcomes.append(nothing)
                return report
            for check, interpreter, cases in self.checks(args):
                report.outcomes.append(self.outcome(check, interpreter, cases, args))
        return report

    def outcome(self, check: str, interpreter: str, cases: Sequence[Case], args: Values) -> RuleOutcome:
        """Run the cases of one kind; minimize the first failure, and count the others."""
        rule = self.rule(interpreter)
        reasons: list[str] = []
        failed: list[tuple[Case, Exception]] = []
        for case in cases:
            error = attempt(case.run, args)
            if isinstance(error, (Skipped, Inconclusive)):
                reasons.append(str(error))
            elif isinstance(error, NotImplementedError) and excuse(error):
                reasons.append(excuse(error))
            elif error is not None:
                failed.append((case, error))
        if failed:
            return self.failure(check, interpreter, rule, failed, args)
        if reasons and len(reasons) == len(cases):
            return RuleOutcome(check, interpreter, SKIPPED, "; ".join(dict.fromkeys(reasons)), rule=rule)
        return RuleOutcome(check, interpreter, PASSED, rule=rule)

    def failure(
        self, check: str, interpreter: str, rule: str, failed: Sequence[tuple[Case, Exception]], args: Values
    ) -> RuleOutcome:
        """The outcome if cases of one check failed, with the smallest failing example found."""
        case, error = failed[0]
        if isinstance(error, NotImplementedError):  # report a missing rule once
            if str(error) in self.missing:
                return RuleOutcome(check, interpreter, SKIPPED, f"see the missing rule in {self.missing[str(error)]}")
            self.missing[str(error)] = check
            return RuleOutcome(check, interpreter, FAILED, str(error), also=len(failed) - 1)

        def valid(candidate: Values) -> bool:
            if self.fixed and any(x.shape != y.shape for x, y in zip(candidate, args, strict=True)):
                return False
            return attempt(lambda values: (self.abstract(values), self.value(values)), candidate) is None

        def fails(candidate: Values) -> bool:
            return type(attempt(case.run, candidate)) is type(error)

        small = smallest(args, valid, fails, case.attempts)
        error = attempt(case.run, small) or error
        text = str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
        return RuleOutcome(check, interpreter, FAILED, text, tuple(small), rule, also=len(failed) - 1)

    # the modes (forward, reverse) whose derivatives are differentiated again, and those whose derivatives are vmapped
    second: Sequence[Callable[..., Function]]
    mapped: Sequence[Callable[..., Function]]

    def checks(self, args: Values) -> Iterator[tuple[str, str, list[Case]]]:
        """Yield each check at operands like ``args``: its name, the interpreter of the suspected rule, its cases."""
        floats = [i for i, x in enumerate(args) if inexact(x)]
        yield from self.first_order(floats, list(dict.fromkeys([tuple(floats), *[(i,) for i in floats]])))
        if self.second:
            second = [Case(partial(self.check_second_order, how=how)) for how in self.second]
            yield "second order", "jvp", second
        axes = in_axes(args)
        if axes:
            yield "vmap", "vmap", self.cases("vmap", self.check_vmap, axes)
            first = [a for a in axes if set(a) <= {0, None}][:3]
            mapped = [partial(self.check_vmap_of_derivatives, how=how) for how in self.mapped]
            cases = [case for a in first for check in mapped for case in self.cases("vmap", check, [a])]
            yield "vmap of derivatives", "vmap", cases
        yield from self.whole()
        yield "lower", "lower", [Case(self.check_lowering, 12)]

    def first_order(self, floats: list[int], pushed: list[Any]) -> Iterator[tuple[str, str, list[Case]]]:
        """Yield the checks of types and first derivatives. ``pushed``: sets of operands that get tangents."""
        subsets = [s for n in range(1, len(floats) + 1) for s in itertools.combinations(floats, n)][:31] or [()]
        yield "abstract", "abstract", [Case(self.check_types)]
        yield "jvp", "jvp", self.cases("jvp", self.check_jvp, pushed)
        yield "linearize", "partial_eval", self.cases("jvp", self.check_linearize, pushed)
        yield "vjp", "transpose", self.cases("jvp", self.check_vjp, pushed)
        yield "transpose", "transpose", self.cases("transpose", self.check_transpose, subsets)

    def whole(self) -> Iterator[tuple[str, str, list[Case]]]:
        """Yield the checks of staged programs."""
        yield "types of staged programs", "abstract", [Case(self.check_staged)]
        if self.primitive.multiple_results:
            yield "dead code", "dce", [Case(self.check_dead_code)]

    def cases(self, interpreter: str, check: Callable[..., None], choices: Sequence[Any]) -> list[Case]:
        """One case of ``check`` per choice (operands, or in_axes). A case is skipped if its rule need not exist."""

        def case(chosen: Any) -> Case:
            def run(args: Values) -> None:
                self.need(interpreter)
                if not chosen:
                    raise Skipped("no operand of an inexact dtype")
                check(args, chosen)

            return Case(run)

        return list(map(case, choices))

    def need(self, interpreter: str) -> None:
        """Raise Skipped if the rule table gives a reason why the interpreter has no rule."""
        found = cell(self.primitive, self.tables[interpreter])
        if found.status == NONE:
            raise Skipped(found.reason)

    def check_evaluation(self, args: Values) -> None:
        self.need("evaluate")
        self(*args)

    def check_types(self, args: Values) -> None:
        avals, values = self.abstract(args), self(*args)
        if len(avals) != len(values):
            raise Wrong(f"abstract evaluation says {len(avals)} results, evaluation gives {len(values)}")
        for i, (aval, value) in enumerate(zip(avals, values, strict=True)):
            array = np.asarray(value)
            # a Python or NumPy number from an author's rule gets the abstract type when it is used
            wanted = array.dtype if isinstance(value, np.ndarray) or hasattr(value, "aval") else aval.dtype
            if aval.shape != array.shape or aval.dtype != wanted:
                found = f"{dtype_name(array.dtype)}{list(array.shape)}"
                raise Wrong(f"result {i} is {found} evaluated, abstract evaluation says {aval}")

    def of(self, args: Sequence[Any], subset: Sequence[int]) -> tuple[Function, Values, Values]:
        """The primitive as a function of the operands ``subset`` alone, their values, and a tangent for each."""

        def fun(*chosen: Any) -> list[Any]:
            given = iter(chosen)
            return self(*[next(given) if i in subset else x for i, x in enumerate(args)])

        point = [args[i] for i in subset]
        return fun, point, [direction(get_aval(x), i) for i, x in enumerate(point)]

    def check_jvp(self, args: Values, subset: Sequence[int]) -> None:
        with self.precise(args) as precise:
            fun, point, tangents = self.of(precise, subset)
            values, pushed = jvp(fun, tuple(point), tuple(tangents))
            for i, (a, b) in enumerate(zip(values, self.value(precise), strict=True)):
                compare(f"the primal result {i} of the jvp rule", a, np.asarray(b, np.asarray(a).dtype), "evaluation")
            what = f"the tangent for operand{'s' if len(subset) > 1 else ''} {', '.join(map(str, subset))}"
            check_derivative(what, fun, point, tangents, pushed)

    def check_linearize(self, args: Values, subset: Sequence[int]) -> None:
        fun, point, tangents = self.of(args, subset)
        values, pushed = jvp(fun, tuple(point), tuple(tangents))
        found, linear = linearize(fun, *point)
        for i, (a, b) in enumerate(zip([*found, *linear(*tangents)], [*values, *pushed], strict=True)):
            compare(f"output {i} of linearize", a, b, "jvp")

    def check_vjp(self, args: Values, subset: Sequence[int]) -> None:
        with self.precise(args) as precise:
            fun, point, tangents = self.of(precise, subset)
            limit = None
            try:
                values, pushed = jvp(fun, tuple(point), tuple(tangents))
            except Exception:  # the check of jvp reports the error; some functions only have reverse mode
                values, pushed, limit = fun(*point), differences(fun, point, tangents), 5e-3
            results = [i for i, x in enumerate(values) if inexact(x)]
            if not results:
                raise Skipped("no result of an inexact dtype")
            # first all results, then each result alone: the cotangents of the other results are symbolic zeros
            for chosen in [results, *([[i] for i in results] if len(values) > 1 else [])]:
                outs, pull = vjp(lambda *xs, chosen=chosen: [fun(*xs)[i] for i in chosen], *point)
                cts = [direction(x, 7 + i) for i, x in enumerate(outs)]
                pulled = pull(cts)
                self.check_cotangents("vjp", pulled, point)
                check_adjoint(f"vjp of results {chosen}", cts, [pushed[i] for i in chosen], pulled, tangents, limit)

    def check_cotangents(self, what: str, cts: Sequence[Any], point: Values) -> None:
        """Raise Wrong unless each cotangent has the type of its operand."""
        for i, (ct, x) in enumerate(zip(cts, point, strict=True)):
            array = np.asarray(ct)
            if array.shape != x.shape or array.dtype != x.dtype:
                raise Wrong(
                    f"the cotangent {i} of {what} is {dtype_name(array.dtype)}{list(array.shape)}, "
                    f"but its operand is {dtype_name(x.dtype)}{list(x.shape)}"
                )

    def check_transpose(self, args: Values, subset: Sequence[int]) -> None:
        with self.precise(args) as precise:
            fun, point, tangents = self.of(precise, subset)
            if not is_linear(fun, point):
                raise Skipped("not linear (as evaluation shows)")
            pushed = fun(*tangents)
            cts = [direction(np.asarray(x), 7 + i) for i, x in enumerate(pushed)]
            pulled = linear_transpose(fun, *point)(cts)
            self.check_cotangents("the transpose", pulled, point)
            check_adjoint(f"transposed in operands {list(subset)}", cts, pushed, pulled, tangents)

    def check_vmap(self, args: Values, axes: Sequence[int | None]) -> None:
        self.compare_with_loop(self, args, axes, f"vmap with in_axes={tuple(axes)}")

    def compare_with_loop(self, fun: Function, args: Values, axes: Sequence[int | None], what: str) -> None:
        """Raise Wrong unless the mapped function equals a loop."""
        size = batch_size(args)
        many = [variants(x, size) for x in args]
        stacked = [x if a is None else np.stack(xs, a) for x, xs, a in zip(args, many, axes, strict=True)]
        found = vmap(fun, in_axes=tuple(axes))(*stacked)
        of_one = [[x if a is None else xs[k] for x, xs, a in zip(args, many, axes, strict=True)] for k in range(size)]
        runs = [fun(*operands) for operands in of_one]
        if len(found) != len(runs[0]):
            raise Wrong(f"{what} gives {len(found)} results, a loop {len(runs[0])}")
        for i, batched in enumerate(found):
            one = np.asarray(batched).dtype
            wanted = np.stack([np.asarray(run[i]) for run in runs])
            wanted = wanted.astype(one) if self.loose(runs[0][i]) else wanted
            compare(f"result {i} of {what}", batched, wanted, "a loop", 4 * rounding(wanted))

    def loose(self, value: Any) -> bool:
        """Whether ``value`` is a bare number from an author's rule; its dtype is not compared."""
        return not isinstance(value, np.ndarray) and not hasattr(value, "aval")

    def inexact_part(self, args: Sequence[Any]) -> tuple[Function, Values]:
        """The function of inexact operands to inexact results, and these operands. Raises Skipped if there are none."""
        results = [i for i, aval in enumerate(self.abstract(args)) if dtypes.is_inexact(aval.dtype)]
        fun, point, _ = self.of(args, [i for i, x in enumerate(args) if inexact(x)])
        if not point or not results:
            raise Skipped("no operand or no result of an inexact dtype")

        def chosen(*xs: Any) -> list[Any]:
            outs = fun(*xs)
            return [outs[i] for i in results]

        return chosen, point

    def works(self, how: Callable[..., Function], args: Values) -> None:
        """Raise Skipped if ``jvp`` or ``vjp`` itself fails; the check of that mode reports the error."""
        fun, point = self.inexact_part(args)
        if attempt(lambda values: how(fun)(*values), point) is not None:
            raise Skipped(f"{how.__name__[:3]} itself does not work")

    def check_second_order(self, args: Values, how: Callable[..., Function]) -> None:
        with self.precise(args) as precise:
            self.works(how, precise)
            fun, point = self.inexact_part(precise)
            gradient = how(fun)
            tangents = [direction(x, 30 + i) for i, x in enumerate(point)]
            forward = jvp(gradient, tuple(point), tuple(tangents))[1]
            check_derivative(f"jvp of {how.__name__[:3]}", gradient, point, tangents, forward)
            self.works(vjp_of, precise)
            outs, pull = vjp(gradient, *point)
            weights = [direction(np.asarray(x), 40 + i) for i, x in enumerate(outs)]
            check_adjoint(f"vjp of {how.__name__[:3]}", weights, forward, pull(weights), tangents)

    def check_vmap_of_derivatives(self, args: Values, axes: Sequence[int | None], how: Callable[..., Function]) -> None:
        self.works(how, args)

        def derivative(*xs: Any) -> list[Any]:
            fun, point = self.inexact_part(xs)
            return how(fun)(*point)

        self.compare_with_loop(derivative, args, axes, f"vmap with in_axes={tuple(axes)} of {how.__name__[:3]}")

    def programs(self, args: Values) -> dict[str, tuple[Function, Values]]:
        """name -> (function, operands) for the primitive and each transformation of it that works."""
        programs: dict[str, tuple[Function, Values]] = {"value": (self, args)}
        for how in (jvp_of, vjp_of):
            if attempt(partial(self.works, how), args) is None:
                fun, point = self.inexact_part(args)
                programs[how.__name__[:3]] = how(fun), point
        if args and cell(self.primitive, self.tables["vmap"]).status == YES:
            stacked = [np.stack(variants(x, batch_size(args))) for x in args]
            programs["vmap"] = vmap(self), stacked
        return programs

    def check_staged(self, args: Values) -> None:
        for name, (fun, operands) in self.programs(args).items():
            try:
                typecheck_jaxpr(make_jaxpr(fun)(*operands))
            except TypeError as error:
                raise Wrong(f"the jaxpr of its {name} is not well typed: {error}") from None

    def check_dead_code(self, args: Values) -> None:
        closed = make_jaxpr(self)(*args)
        whole = eval_jaxpr(closed.jaxpr, closed.consts, *args)
        for i in range(len(whole)):
            used = [i == j for j in range(len(whole))]
            pruned, used_in = dce_jaxpr(closed.jaxpr, used)
            typecheck_jaxpr(pruned)
            (found,) = eval_jaxpr(pruned, closed.consts, *[x for x, u in zip(args, used_in, strict=True) if u])
            compare(f"result {i}, with the others unused,", found, whole[i], "the whole program")

    def check_lowering(self, args: Values) -> None:
        """Compile all programs as one, to save time. If that fails, try the primitive alone, for a clearer error."""
        self.need("lower")
        programs = self.programs(args)
        try:
            self.compare_compiled(programs)
        except Exception:
            self.compare_compiled({"value": programs["value"]})
            raise

    def compare_compiled(self, programs: dict[str, tuple[Function, Values]]) -> None:
        """Raise Wrong unless the compiled programs give the same values as evaluation."""

        def everything(operands: dict[str, Values]) -> dict[str, list[Any]]:
            return {name: fun(*operands[name]) for name, (fun, _) in programs.items()}

        operands = {name: values for name, (_, values) in programs.items()}
        found, wanted = jit(everything)(operands), everything(operands)
        for name in programs:
            for i, (a, b) in enumerate(zip(found[name], wanted[name], strict=True)):
                value = np.asarray(b)
                value = value.astype(np.asarray(a).dtype) if self.loose(b) else value
                what = "the compiled program" if name == "value" else f"its {name}, compiled,"
                compare(f"result {i} of {what}", a, value, "evaluation", 4 * rounding(value))

    @contextmanager
    def precise(self, args: Values) -> Iterator[Values]:
        """A context with the operands in 64 bit if the primitive computes with them in 64 bit; else with ``args``."""
        if self.fixed or not any(map(inexact, args)):
            yield args
            return
        double = [np.complex128 if dtypes.is_complex(x.dtype) else np.float64 for x in args]
        wider = [x.astype(wide) if inexact(x) else x for x, wide in zip(args, double, strict=True)]
        with enable_x64(True):
            try:
                outs = [x for x in self.value(wider) if inexact(x)]
            except Exception:  # any error of a rule on operands of this type
                outs = []
            if outs and all(x.dtype.name in ("float64", "complex128") for x in outs):
                yield wider
                return
        yield args


class FunctionSubject(Subject):
    """A function with a custom derivative rule. Its operands are the leaves of the differentiable arguments."""

    def __init__(self, fun: CustomFunction, args: Sequence[Any], static: Sequence[int]) -> None:
        code = getattr(inspect.unwrap(fun.fun), "__code__", None)
        place = "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"
        leaves, self.tree = tree_flatten(tuple(x for i, x in enumerate(args) if i not in static))
        super().__init__(NamedFunction(fun.name, place), {}, leaves)
        self.fun = fun
        self.static = {i: args[i] for i in static}
        self.forwards = isinstance(fun, custom_jvp)
        self.second, self.mapped = self.second if self.forwards else (), (vjp_of,)
        self.leaves = _values(leaves)

    def __call__(self, *leaves: Any) -> list[Any]:
        dynamic = tree_unflatten(self.tree, self.with_keys(leaves))
        given = iter(dynamic)
        count = len(dynamic) + len(self.static)
        out = self.fun(*[self.static[i] if i in self.static else next(given) for i in range(count)])
        return [*map(_words, tree_leaves(out))]

    def rule(self, interpreter: str) -> str:
        if interpreter == "jvp":
            return rule_text(getattr(self.fun, "jvp", None))
        return rule_text(getattr(self.fun, "bwd", None)) if interpreter == "transpose" else ""

    def abstract(self, args: Sequence[Any]) -> list[ShapedArray]:
        return [get_aval(x) for x in self(*args)]

    def first_order(self, floats: list[int], pushed: list[Any]) -> Iterator[tuple[str, str, list[Case]]]:
        """Check the rule against finite differences of the function itself."""
        if self.forwards:
            yield "jvp", "jvp", self.cases("jvp", self.check_jvp, pushed)
        else:
            yield "value of fwd", "partial_eval", self.cases("jvp", self.check_forward, pushed)
        yield "vjp", "transpose", self.cases("jvp", self.check_vjp, pushed)

    def whole(self) -> Iterator[tuple[str, str, list[Case]]]:
        """No further checks: the function is mapped and compiled like any other."""
        return iter(())

    def check_forward(self, args: Values, subset: Sequence[int]) -> None:
        """Raise Wrong unless differentiation returns the values of a plain call."""
        fun, point, _ = self.of(args, subset)
        for i, (a, b) in enumerate(zip(vjp(fun, *point)[0], self.value(args), strict=True)):
            compare(f"result {i} of fwd", a, b, "a plain call")


def check_custom_rules(fun: CustomFunction, *example_args: Any) -> RulesReport:
    """Check the rule of a ``custom_jvp`` or ``custom_vjp`` function at ``fun(*example_args)``.

    A jvp rule is compared with finite differences of the function itself; reverse mode is compared with that rule, by
    inner products. ``bwd`` is compared with finite differences, and the value from ``fwd`` with a plain call. The
    function and its derivatives are also mapped and compiled. Returns a ``RulesReport``, like ``check_rules``.
    """
    args = fun._resolve(example_args, {})
    subject = FunctionSubject(fun, args, fun._static(args))
    return subject.report(subject.leaves)


def jvp_of(fun: Function) -> Function:
    """The tangents of ``fun``'s results in one direction, as a function of the point."""

    def pushed(*xs: Any) -> list[Any]:
        return jvp(fun, xs, tuple(direction(get_aval(x), i) for i, x in enumerate(xs)))[1]

    return pushed


def vjp_of(fun: Function) -> Function:
    """The cotangents of ``fun``'s operands for fixed cotangents of the results, as a function of the point."""

    def pulled(*xs: Any) -> list[Any]:
        outs, pull = vjp(fun, *xs)
        return list(pull([direction(get_aval(x), 7 + i) for i, x in enumerate(outs)]))

    return pulled


def excuse(error: Exception) -> str:
    """Why this NotImplementedError is no failure: a rule refuses, or a rule table gives a reason. Else ''."""
    text = str(error)
    tables = [table for of_one in columns().values() for table in of_one if table.name != "lower"]
    for table in tables:
        if text.startswith(table.wording.partition("{")[0]):
            stated = any(text == table.missing(p) for p in table.holes)
            return f"it needs a rule that does not exist: {text.splitlines()[0]}" if stated else ""
    return "" if text.startswith(lowering_rules.wording.partition("{")[0]) else f"a rule refuses: {text}"


def attempt(run: Callable[[Values], Any], args: Values) -> Exception | None:
    """The exception that ``run(args)`` raises, or None. A ``Wrong`` if it leaves an interpreter on the stack."""
    depth, dynamic = len(state.stack), state.dynamic
    error: Exception | None = None
    try:
        run(args)
    except Exception as raised:
        error = raised
    if len(state.stack) > depth:
        left = state.stack[-1]
        pop_main(state.stack[depth])
        error = error or Wrong(f"it left {left!r} on the interpreter stack")
    state.dynamic = dynamic
    return error


def is_linear(fun: Function, point: Values) -> bool:
    """Whether evaluation shows ``fun`` to be linear: f(0) = 0 and f(x + 2y) = f(x) + 2 f(y)."""
    x, y = [direction(p, 50 + i) for i, p in enumerate(point)], [direction(p, 60 + i) for i, p in enumerate(point)]
    zeros = [np.zeros_like(p) for p in point]
    both = [np.asarray(a + 2 * b, a.dtype) for a, b in zip(x, y, strict=True)]
    with np.errstate(all="ignore"):
        of_zero, of_both = fun(*zeros), fun(*both)
        if any(not inexact(out) or np.any(np.asarray(out)) for out in of_zero):
            return False
        try:
            for a, b, c in zip(of_both, fun(*x), fun(*y), strict=True):
                wanted = np.asarray(np.asarray(b) + 2 * np.asarray(c), np.asarray(a).dtype)
                compare("", a, wanted, "", 10 * rounding(wanted))
        except Wrong:
            return False
    return True


def batch_size(args: Values) -> int:
    """The smallest batch size that is at least 2 and equals no dimension, so that a misplaced batch axis is noticed."""
    taken = {d for x in args for d in x.shape}
    return next(n for n in itertools.count(2) if n not in taken)


def variants(x: np.ndarray, count: int) -> list[np.ndarray]:
    """``count`` arrays: ``x`` and rotations of its values, which stay valid. A single number shrinks a little."""
    if x.size > 1:
        return [np.roll(x, k) for k in range(count)]
    if inexact(x):
        return [np.asarray(x * (1 - k / 16)).astype(x.dtype) for k in range(count)]
    return [x] * count


def in_axes(args: Values) -> list[tuple[int | None, ...]]:
    """All combinations of batch axes; if too many, only combinations of first and last axes, or only some of these."""
    if not args:
        return []
    choices: list[list[int | None]] = [[None, *range(x.ndim + 1)] for x in args]
    if np.prod([len(c) for c in choices]) > MAX_COMBINATIONS:
        choices = [list(dict.fromkeys([None, 0, x.ndim])) for x in args]
    if np.prod([len(c) for c in choices]) > MAX_COMBINATIONS:
        some: list[tuple[int | None, ...]] = [tuple(0 for _ in args), tuple(x.ndim for x in args)]
        some += [tuple(0 if i == j else None for j in range(len(args))) for i in range(len(args))]
        some += [tuple(None if i == j else x.ndim for j, x in enumerate(args)) for i in range(len(args))]
        return [axes for axes in dict.fromkeys(some) if any(a is not None for a in axes)]
    return [axes for axes in itertools.product(*choices) if any(a is not None for a in axes)]
