"""Exercises about the rules of a primitive: jvp, transpose, batching. Each rule is tested against the primitive."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from minijax import errors
from minijax import numpy as jnp
from minijax.api import jvp, make_jaxpr
from minijax.core.array import get_aval
from minijax.core.primitive import Primitive
from minijax.core.rules import RuleTable
from minijax.extend.check import check_rules
from minijax.interpreters import ad, batching, mlir
from minijax.tools.documents.document import Block
from minijax.tools.exercises.measure import Mistake, close, compared, expect, note, pair, shown
from minijax.tools.exercises.model import Answer, NotYet, Passed

X, Y, DX, DY = 0.8, 0.5, 0.3, 0.7


def _primitive(name: str, value: Callable[..., Any]) -> Primitive:
    """A primitive whose evaluation, abstract evaluation and lowering all use the function ``value``."""
    primitive = Primitive(name)
    primitive.def_impl(value)
    primitive.def_abstract_eval(lambda *avals: make_jaxpr(value)(*avals).out_avals[0])
    mlir.register_lowering(primitive, mlir.lower_fun(value, multiple_results=False))
    return primitive


def forget_primitives(given: Iterable[Any]) -> None:
    """Remove the rules of an exercise's primitives from the rule tables."""
    for value in given:
        if isinstance(value, Primitive):
            for table in RuleTable.tables:
                if value in table:
                    del table[value]
                table.holes.pop(value, None)


def _refuse_failures(primitive: Primitive, rule: str, wrong: tuple[str, ...], args: tuple[Any, ...]) -> tuple[Block]:
    """Raise NotYet if ``check_rules`` finds this rule wrong; otherwise return a note with the checks that passed."""
    report = check_rules(primitive, *args)
    mine = [each for each in report.outcomes if each.interpreter in wrong]
    for each in mine:
        if each.status == "FAILED" and each.verdict == "wrong":
            raise NotYet(
                f"{rule} is right for these inputs, but check_rules reports '{each.check}'.",
                tuple(note(row) for row in each.detail.splitlines()),
            )
    right = [each.check for each in report.outcomes if each.status == "passed"]
    return (note(f"check_rules passed: {', '.join(right)}"),)


def _asks_itself(of: str, instead: str, error: RecursionError) -> NotYet:
    return NotYet(f"The rule computes {of}, so it calls itself. {instead}", error=error)


def _traceable(what: str, run: Callable[..., Any], *args: Any) -> None:
    """Raise NotYet if ``run`` cannot be traced because it needs the values of tracers."""
    try:
        make_jaxpr(run)(*args)
    except (errors.TracerArrayConversionError, errors.ConcretizationTypeError) as error:
        array = isinstance(error, errors.TracerArrayConversionError)
        needs = "converts its arguments to NumPy arrays" if array else "needs the values of its arguments"
        raise NotYet(
            f"{what} works only on numbers: it {needs}. Compute with jnp, whose operations work in every interpreter "
            "below.",
            error=error,
        ) from None


# --- the jvp rule -------------------------------------------------------------------------------------------


def _sinmul_given() -> dict[str, Any]:
    sinmul_p = _primitive("sinmul", lambda x, y: x * jnp.sin(y))
    batching.defbroadcasting(sinmul_p)

    def sinmul(x: Any, y: Any) -> Any:
        return sinmul_p.bind(x, y)

    return {"sinmul_p": sinmul_p, "sinmul": sinmul, "ad": ad}


def _check_jvp(answer: Answer) -> Passed:
    primitive, rule = answer["sinmul_p"], answer.function("sinmul_jvp")
    ad.primitive_jvps[primitive] = rule

    def of(dx: float, dy: float) -> Any:
        given = tuple(map(np.float32, (X, Y))), tuple(map(np.float32, (dx, dy)))
        try:
            return pair("sinmul_jvp", rule(*given), "the value, and its tangent")
        except RecursionError as error:
            said = "the derivative of sinmul", "Compute the tangent with other operations: jnp.sin, jnp.cos, *."
            raise _asks_itself(*said, error) from None

    value, tangent = of(DX, DY)
    wanted = _slope(DX, DY)
    expect("The value", value, X * np.sin(Y), [(wanted, "The value comes first, then the tangent.")])
    at = f"The tangent for dx={DX}, dy={DY}"
    expect(at, tangent, wanted, _JVP_MISTAKES, lambda: _jvp_difference(of))
    _judge_zeros(rule)
    _traceable("sinmul_jvp", lambda x, y: jvp(primitive.bind, (x, y), (x, y)), 1.0, 1.0)
    found = _refuse_failures(primitive, "sinmul_jvp", ("jvp", "partial_eval"), (X, Y))
    return Passed(f"{at} is {shown(tangent)}, as finite differences say.", found)


_SIN, _COS = np.sin(Y), np.cos(Y)
_JVP_MISTAKES: tuple[Mistake, ...] = (
    (X * _SIN, "That is the value once more. The tangent says how the value moves when x and y move by dx and dy."),
    (DX * _SIN, "The part that comes from dx is right; the value also moves with y, and dy is not in it."),
    (X * _COS * DY, "The part that comes from dy is right; the value also moves with x, and dx is not in it."),
    (
        _SIN + X * _COS,
        "Those are the derivatives, without the tangents. Multiply each derivative by the tangent of its operand.",
    ),
    (DX * _SIN + X * _COS, "The part of dx is right; the other is the derivative by y, without dy. Multiply it by dy."),
    (_SIN + X * _COS * DY, "The part of dy is right; the other is the derivative by x, without dx. Multiply it by dx."),
    (DX * _SIN - X * _COS * DY, "One sign is wrong: the derivative of sin is cos, not -cos."),
    (
        DX * _COS * DY,
        "The tangents are multiplied with each other. A tangent is linear: a sum with dx in one part and dy in the "
        "other.",
    ),
    (DX * _SIN + _COS * DY, "The part of dy lacks a factor: x * sin(y) moves with y by x * cos(y)."),
    (DY * _SIN + X * _COS * DX, "dx and dy are exchanged: dx belongs to the derivative by x."),
)


def _judge_zeros(rule: Any) -> None:
    """Raise NotYet if the rule fails for a tangent that is a symbolic zero."""
    x, y = np.float32(X), np.float32(Y)
    try:
        rule((x, y), (np.float32(1.0), ad.Zero(get_aval(y))))
    except TypeError as error:
        raise NotYet(
            "The rule is right if both tangents are numbers. grad with respect to x alone gives an ad.Zero for dy, and "
            "no operation accepts it: convert it to an array with ad.instantiate_zeros, as the start code does.",
            error=error,
        ) from None


def _slope(dx: float, dy: float, step: float = 1e-5) -> float:
    """The tangent of x * sin(y) by finite differences, in 64 bits."""
    ahead, behind = ((X + h * dx) * np.sin(Y + h * dy) for h in (step, -step))
    return float((ahead - behind) / (2 * step))


def _jvp_difference(of: Callable[[float, float], Any]) -> str:
    """Say that the rule is not linear, or which of its two terms is wrong."""
    once, twice = of(DX, DY)[1], of(2 * DX, 2 * DY)[1]
    if np.shape(once) == np.shape(twice) == () and not close(twice, 2 * np.asarray(once)):
        return f"It is not linear in the tangents: twice dx and dy make it {shown(twice)}, not {shown(2 * once)}."
    parts = (("dx=1, dy=0", (1.0, 0.0)), ("dx=0, dy=1", (0.0, 1.0)))
    wrong = [(name, of(*at)[1], _slope(*at)) for name, at in parts if not close(of(*at)[1], _slope(*at))]
    return " ".join(f"For {name} it is {shown(got)}; finite differences say {shown(due)}." for name, got, due in wrong)


# --- the transpose rule -------------------------------------------------------------------------------------


def _steps_given() -> dict[str, Any]:
    steps_p = _primitive("steps", lambda x: x[1:] - x[:-1])

    def jvp_rule(primals: Any, tangents: Any) -> Any:
        return steps_p.bind(*primals), steps_p.bind(ad.instantiate_zeros(tangents[0]))

    ad.primitive_jvps[steps_p] = jvp_rule

    def steps(x: Any) -> Any:
        return steps_p.bind(x)

    return {"steps_p": steps_p, "steps": steps, "ad": ad}


def _check_transpose(answer: Answer) -> Passed:
    primitive, rule = answer["steps_p"], answer.function("steps_transpose")
    ad.primitive_transposes[primitive] = rule
    ct, t = np.array([1.0, 0.4, -0.3], np.float32), np.array([0.5, 2.0, 1.0, -1.0], np.float32)
    operand = ad.UndefinedPrimal(get_aval(t))
    try:
        found = rule(jnp.asarray(ct), operand)
    except RecursionError as error:
        said = "the transpose of steps", "Say with other operations where each element of ct goes."
        raise _asks_itself(*said, error) from None
    if not isinstance(found, tuple | list) or len(found) != 1:
        raise NotYet(
            f"steps_transpose returned {shown(found)}. It returns a list with one cotangent for each operand: [ct_x]."
        )
    later, earlier = np.pad(ct, (1, 0)), np.pad(ct, (0, 1))
    mistakes = _transpose_mistakes(ct, later, earlier)
    expect("ct_x", found[0], later - earlier, mistakes, lambda: _dots(np.diff(t), ct, t, found[0]))
    _traceable("steps_transpose", lambda v: rule(v, operand)[0], ct)
    right = _refuse_failures(primitive, "steps_transpose", ("transpose",), (t,))
    return Passed(_dots(np.diff(t), ct, t, found[0]), right)


def _transpose_mistakes(ct: np.ndarray, later: np.ndarray, earlier: np.ndarray) -> tuple[Mistake, ...]:
    """Known mistakes. ``later`` and ``earlier`` are what x[1:] and x[:-1] contribute to the cotangent of x."""
    return (
        (ct, "That is the cotangent of the result, f32[3]. x has one element more. Which parts of ct does x[i] get?"),
        (earlier - later, "The signs are exchanged: x[1:] goes into the result with a plus, x[:-1] with a minus."),
        (later, "That is the part of x[1:]. x[:-1] went into the result too, with a minus."),
        (-earlier, "That is the part of x[:-1]. x[1:] went into the result too, with a plus."),
        (earlier, "That is the part of x[:-1], but it went into the result with a minus; and x[1:] is missing."),
        (later + earlier, "Both parts are there, but x[:-1] went in with a minus."),
        (
            np.diff(ct),
            "That is steps once more, forwards, and two elements shorter than x. The transpose goes from f32[3] to "
            "f32[4].",
        ),
        (
            (later - earlier)[::-1],
            "That runs backwards along x. A transpose exchanges inputs and outputs; it does not turn the array round.",
        ),
    )


def _dots(out: Any, ct: Any, t: Any, ct_x: Any) -> str:
    """The two sides of the dot-product test; if the shapes do not fit, the shape that the result must have."""
    if np.shape(ct_x) != np.shape(t):
        return "It must have the type of x, f32[4]."
    return f"<steps(t), ct> is {shown(np.dot(out, ct))}, and <t, ct_x> is {shown(np.dot(t, np.asarray(ct_x)))}."


# --- the batching rule --------------------------------------------------------------------------------------

# the pairs of in_axes to test, from easy to hard
AXES: tuple[tuple[int | None, int | None], ...] = ((0, 0), (0, None), (None, 0), (1, 1), (1, 0), (0, 1), (None, 1))


def _overlap_given() -> dict[str, Any]:
    overlap_p = _primitive("overlap", lambda x, y: jnp.sum(x * y))
    ad.defbilinear(overlap_p, lambda ct, x, y: ct * y, lambda ct, x, y: ct * x)

    def overlap(x: Any, y: Any) -> Any:
        return overlap_p.bind(x, y)

    return {"overlap_p": overlap_p, "overlap": overlap, "batching": batching}


def _batched(axis: int | None, seed: int) -> np.ndarray:
    """Two vectors of 3 elements, stacked along ``axis``; one vector if ``axis`` is None."""
    values = np.random.default_rng(seed).uniform(0.2, 1.8, (2, 3)).round(1).astype(np.float32)
    return values[0] if axis is None else np.moveaxis(values, 0, axis)


def _check_batching(answer: Answer) -> Passed:
    primitive, rule = answer["overlap_p"], answer.function("overlap_batch")
    batching.primitive_batchers[primitive] = rule
    right: list[str] = []
    for axes in AXES:
        _check_axes(rule, primitive, axes, right)
        right.append(str(axes))
    found = _refuse_failures(primitive, "overlap_batch", ("vmap",), (_batched(None, 1), _batched(None, 2)))
    return Passed(f"vmap equals a loop for in_axes {', '.join(right)}.", found)


def _check_axes(rule: Any, primitive: Primitive, axes: tuple[int | None, int | None], right: list[str]) -> None:
    args = tuple(_batched(axis, seed) for seed, axis in enumerate(axes))
    x, y = (
        np.broadcast_to(v, (2, 3)) if axis is None else np.moveaxis(v, axis, 0)
        for v, axis in zip(args, axes, strict=True)
    )
    wanted = np.sum(x * y, axis=1)
    types = " and ".join(str(get_aval(v).str_short(short_dtypes=True)) for v in args)
    where = f"in_axes {axes}, with {types},"
    before = (note(f"right for in_axes {', '.join(right)}"),) if right else ()
    try:
        result = rule(tuple(map(jnp.asarray, args)), axes)
    except RecursionError as error:
        said = "vmap of overlap", "Compute the result with other operations: jnp.sum, *."
        raise _asks_itself(*said, error) from None
    except Exception as error:
        raise NotYet(f"For {where} overlap_batch raised. {_AXES_HINT[axes]}", before, error) from None
    out, axis = pair("overlap_batch", result, "the result, and its batch axis")
    if axis is None:
        raise NotYet(f"For {where} overlap_batch returns None for the batch axis of its result. It has one: which?")
    _judge_batch_shape(where, np.shape(out), axis, _AXES_HINT[axes], before)
    if not close(out, wanted):
        rows = (*compared("vmap", out, wanted), *before)
        raise NotYet(f"For {where} vmap and a loop give different results. {_AXES_HINT[axes]}", rows)


def _judge_batch_shape(where: str, shape: tuple[int, ...], axis: Any, hint: str, before: tuple[Block, ...]) -> None:
    """Raise NotYet unless the result has one number for each example and ``axis`` is its batch axis."""
    if shape == (3,):
        raise NotYet(
            f"For {where} the result is f32[3]: you have added up along the batch axis. There are 2 examples of 3 "
            f"elements; each gives one number. {hint}",
            before,
        )
    if shape == ():
        raise NotYet(
            f"For {where} the result is one number: the examples have been added up too, but vmap keeps them apart.",
            before,
        )
    if shape != (2,):
        raise NotYet(
            f"For {where} the result has the shape {shape}; one number for each of 2 examples is expected.", before
        )
    if axis not in (0, -1):
        raise NotYet(
            f"For {where} overlap_batch says that the batch axis of its result is {axis!r}; the result is f32[2], and "
            "has only axis 0.",
            before,
        )


_DIMS = "dims says where each operand has its batch axis."
_AXES_HINT = {
    (0, 0): f"{_DIMS} Here both have it in front.",
    (0, None): "None says that y is one vector, the same for all examples: it has no batch axis.",
    (None, 0): "None says that x is one vector, the same for all examples: it has no batch axis.",
    (1, 1): f"{_DIMS} Here it is the last axis: add up the other one, or move the batch axis to the front.",
    (1, 0): f"{_DIMS} The batch axes of x and y differ here: move both to one place before you multiply.",
    (0, 1): f"{_DIMS} The batch axes of x and y differ here: move both to one place before you multiply.",
    (None, 1): "x has no batch axis, and the batch axis of y is the last one: move it to the front.",
}


CHECKS = {"jvp-rule": _check_jvp, "transpose-rule": _check_transpose, "batching-rule": _check_batching}
GIVEN = {"jvp-rule": _sinmul_given, "transpose-rule": _steps_given, "batching-rule": _overlap_given}
