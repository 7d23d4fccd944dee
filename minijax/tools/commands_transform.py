"""Commands that apply a transformation: %jaxpr %grad %jvp %vjp %vmap %linearize."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from minijax.api import grad, jvp, linearize, make_jaxpr, value_and_grad, vjp, vmap
from minijax.config import enable_x64
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.ir.pretty import jaxpr_document
from minijax.pytree import tree_leaves, tree_map
from minijax.tools import targets
from minijax.tools.arguments import Arguments, Param, UsageError, parse_expression
from minijax.tools.command import Command, Result
from minijax.tools.document import Block, Line, Program, Row, document, line
from minijax.tools.hlo import plural
from minijax.tools.recorder import Recorder
from minijax.tools.targets import Target

if TYPE_CHECKING:
    from minijax.tools.session import Session

EXPR = Param("expr", "text", "a call such as f(x), or an expression in your variables", required=True)
_LONGEST = 12


def value_lines(value: Any) -> tuple[Line, ...]:
    """A value's repr, cut after some lines."""
    lines = repr(value).split("\n")
    if len(lines) > _LONGEST:
        lines[_LONGEST:] = [f"... {len(lines) - _LONGEST} more lines"]
    return tuple(line(("value", each)) for each in lines)


def ones(x: Any) -> Any:
    """The tangent or cotangent of ones for a value: of its shape and dtype, float0 for integers."""
    aval = get_aval(x)
    tangent = aval.to_tangent_aval()
    if tangent.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return np.ones(aval.shape, aval.dtype)


def given(session: Session, command: str, text: str, count: int) -> tuple[Any, ...]:
    """The values of an option such as ``--tangents 1.0, 2.0``: a tuple of ``count``."""
    __tracebackhide__ = True
    value = session.evaluate(parse_expression(command, text), {})
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(values) != count:
        raise UsageError(f"%{command} takes {plural(count, 'value')} there, one for each argument; got {len(values)}")
    return values


# --- %jaxpr
# -----------------------------------------------------------------------------------------------------


def run_jaxpr(session: Session, args: Arguments) -> Result:
    __tracebackhide__ = True
    recorder = Recorder("summary", args["expr"])
    if args.cell is not None:
        target = targets.from_cell(session, "jaxpr", args["expr"], args.cell)
    else:
        target = targets.from_expression(session, "jaxpr", args["expr"])
        if target.loose and not target.args:
            value = target.call()
            if isinstance(value, ClosedJaxpr):
                return _shown_jaxpr(session, args, value, recorder)
    with recorder:
        closed = make_jaxpr(target.fun)(*target.args, **target.kwargs)
    return _shown_jaxpr(session, args, closed, recorder)


def _shown_jaxpr(session: Session, args: Arguments, closed: ClosedJaxpr, recorder: Recorder) -> Result:
    doc = jaxpr_document(
        closed,
        style=args["style"] or session.settings.style,
        source_info=args["source"],
        name_stack=args["names"],
        max_eqns=args["most"],
    )
    return Result(document(Program(doc)), closed, recorder.recording if recorder.recording.events else None)


# --- %grad
# ------------------------------------------------------------------------------------------------------


def _differentiable(x: Any) -> bool:
    leaves = tree_leaves(x)
    return bool(leaves) and all(dtypes.is_inexact(get_aval(leaf).dtype) for leaf in leaves)


def run_grad(session: Session, args: Arguments) -> Result:
    __tracebackhide__ = True
    target = targets.from_expression(session, "grad", args["expr"]).concrete("grad")
    argnums = args["argnums"]
    if argnums is None:
        # the variables of an expression are equals; of a call's arguments it is the first that grad takes
        active = tuple(i for i, x in enumerate(target.args) if _differentiable(x))
        argnums = active if target.loose and len(active) != 1 else active[0] if active else ()
    if not target.args or argnums == ():
        raise UsageError(f"%grad needs an argument to differentiate by, and {target.title} has none of float type")
    recorder = Recorder("summary", args["expr"])
    with recorder:
        value, gradient = value_and_grad(target.fun, argnums)(*target.args, **target.kwargs)
    blocks: list[Block] = [Row("value", value_lines(value))]
    chosen = argnums if isinstance(argnums, tuple) else (argnums,)
    parts = gradient if isinstance(argnums, tuple) else (gradient,)
    for i, part in zip(chosen, parts, strict=True):
        first, *others = value_lines(part)
        blocks.append(Row("gradient", ((("var", target.names[i]), ("", "  "), *first), *others)))
    if args["check"]:
        blocks.append(Row("check", (_finite_difference_line(target, chosen),)))
    return Result(document(*blocks), (value, gradient), recorder.recording)


# What 64-bit central differences reach on functions of ordinary size, constants of 32 bits in them included.
CHECK_TOLERANCE = 1e-4


def finite_differences(target: Target, argnums: tuple[int, ...]) -> tuple[float, float]:
    """The derivative along a fixed random direction: by grad, and by central differences, both in 64 bits."""

    def wide(x: Any) -> np.ndarray:
        return np.asarray(x, np.float64)

    with enable_x64(True):
        argnums = tuple(i % len(target.args) for i in argnums)
        point = tuple(tree_map(wide, x) if i in argnums else x for i, x in enumerate(target.args))
        random = np.random.default_rng(0)
        direction = tuple(tree_map(lambda x: random.standard_normal(x.shape), point[i]) for i in argnums)
        scale = max([1.0, *(float(np.max(np.abs(x), initial=0.0)) for i in argnums for x in tree_leaves(point[i]))])
        step = 1e-6 * scale

        def moved(size: float) -> float:
            shifted = list(point)
            for i, part in zip(argnums, direction, strict=True):
                shifted[i] = tree_map(lambda x, d: x + size * d, point[i], part)
            return float(target.fun(*shifted, **target.kwargs))

        gradient = grad(target.fun, argnums)(*point, **target.kwargs)
        exact = sum(
            float(np.vdot(np.asarray(g), d)) for g, d in zip(tree_leaves(gradient), tree_leaves(direction), strict=True)
        )
        return exact, (moved(step) - moved(-step)) / (2 * step)


def _finite_difference_line(target: Target, argnums: tuple[int, ...]) -> Line:
    if any(dtypes.is_complex(get_aval(x).dtype) for i in argnums for x in tree_leaves(target.args[i])):
        return line(("warning", "not checked: complex arguments"))
    exact, numeric = finite_differences(target, argnums)
    error = abs(exact - numeric) / max(1.0, abs(exact), abs(numeric))
    agrees = error <= CHECK_TOLERANCE
    verdict = ("good", "agrees") if agrees else ("error", "DISAGREES")
    return line(
        verdict,
        f" with finite differences: along a random direction {exact:.9g} and {numeric:.9g}",
        ("muted", f" (relative difference {error:.1e})"),
    )


# --- %jvp %vjp %vmap %linearize
# ---------------------------------------------------------------------------------


def run_jvp(session: Session, args: Arguments) -> Result:
    __tracebackhide__ = True
    target = targets.from_expression(session, "jvp", args["expr"]).concrete("jvp")
    if args["tangents"] is None:
        tangents = tuple(tree_map(ones, x) for x in target.args)
    else:
        tangents = given(session, "jvp", args["tangents"], len(target.args))
        tangents = tuple(tree_map(_as_tangent, x, t) for x, t in zip(target.args, tangents, strict=True))
    recorder = Recorder("summary", args["expr"])
    with recorder:
        out, tangent = jvp(_positional(target), target.args, tangents)
    blocks = [Row("primal", value_lines(out)), Row("tangent", value_lines(tangent))]
    return Result(document(*blocks), (out, tangent), recorder.recording)


def _as_tangent(x: Any, tangent: Any) -> Any:
    """``tangent`` in the dtype that belongs to ``x``, if it is a plain number; as it is otherwise."""
    if isinstance(tangent, (int, float)) and dtypes.is_inexact(get_aval(x).dtype):
        return np.full(get_aval(x).shape, tangent, get_aval(x).dtype)
    return tangent


def _positional(target: Target) -> Any:
    """The target as a function of its positional arguments."""
    return (lambda *xs: target.fun(*xs, **target.kwargs)) if target.kwargs else target.fun


def run_vjp(session: Session, args: Arguments) -> Result:
    __tracebackhide__ = True
    target = targets.from_expression(session, "vjp", args["expr"]).concrete("vjp")
    recorder = Recorder("summary", args["expr"])
    with recorder:
        out, pullback = vjp(_positional(target), *target.args)
        if args["cotangent"] is None:
            cotangent = tree_map(ones, out)
        else:
            value = session.evaluate(parse_expression("vjp", args["cotangent"]), {})
            cotangent = _as_tangent(out, value) if isinstance(value, (int, float)) else value
        cotangents = pullback(cotangent)
    blocks: list[Block] = [Row("value", value_lines(out))]
    for name, ct in zip(target.names, cotangents, strict=True):
        first, *others = value_lines(ct)
        blocks.append(Row("pullback", ((("var", name), ("", "  "), *first), *others)))
    return Result(document(*blocks), (out, cotangents), recorder.recording)


def run_vmap(session: Session, args: Arguments) -> Result:
    __tracebackhide__ = True
    target = targets.from_expression(session, "vmap", args["expr"]).concrete("vmap")
    axes = {}
    for option in ("in_axes", "out_axes"):
        text = args[option]
        axes[option] = 0 if text is None else session.evaluate(parse_expression("vmap", text), {})
    recorder = Recorder("summary", args["expr"])
    with recorder:
        out = vmap(_positional(target), **axes)(*target.args)
    return Result(document(Row("mapped", value_lines(out))), out, recorder.recording)


def run_linearize(session: Session, args: Arguments) -> Result:
    __tracebackhide__ = True
    target = targets.from_expression(session, "linearize", args["expr"]).concrete("linearize")
    recorder = Recorder("summary", args["expr"])
    with recorder:
        out, linear = linearize(_positional(target), *target.args)
    doc = jaxpr_document(linear.jaxpr, style=session.settings.style)
    blocks: list[Block] = [
        Row("value", value_lines(out)),
        Row("linear", (line(f"a function of {plural(len(target.args), 'tangent')}; its jaxpr:"),)),
        Program(doc),
    ]
    return Result(document(*blocks), (out, linear), recorder.recording)


COMMANDS = (
    Command(
        "jaxpr",
        (
            EXPR,
            Param("style", "word", "how to print it", choices=("jax", "tutorial")),
            Param("source", "flag", "say after each equation which line it comes from", default=False),
            Param("names", "flag", "say after each equation which named scopes it is in", default=False),
            Param("most", "int", "how many equations to print at most"),
        ),
        "The jaxpr of a call, or of a cell as a function of named inputs.\n\n"
        "An argument can be a type, such as f32[3]; then nothing is computed. In the cell form the inputs "
        "stand on the first line, with a type or a value, or alone to take your variable's value; the cell's "
        "value is its last expression.",
        "%jaxpr f(3.0)\n%%jaxpr x=f32[3] y=2.0\nsin(x) * y",
        run_jaxpr,
        cell=True,
        group="transform",
    ),
    Command(
        "grad",
        (
            EXPR,
            Param("argnums", "ints", "the arguments to differentiate by, counted from 0"),
            Param("check", "flag", "compare with finite differences", default=False),
        ),
        "Value and gradient of a call's function at its arguments.\n\n"
        "By default a call is differentiated by its first argument of float type, any other expression by "
        "all its variables of float type. --check compares the derivative along a random direction with a "
        "central difference, both in 64 bits.",
        "%grad f(3.0) --check",
        run_grad,
        group="transform",
    ),
    Command(
        "jvp",
        (EXPR, Param("tangents", "expression", "a tangent for each argument, ones if not given")),
        "Value and derivative along tangents (forward mode) of a call's function.",
        "%jvp f(3.0) --tangents 1.0",
        run_jvp,
        group="transform",
    ),
    Command(
        "vjp",
        (EXPR, Param("cotangent", "expression", "the cotangent of the value, ones if not given")),
        "Value and cotangents of the arguments (reverse mode) of a call's function.",
        "%vjp f(3.0) --cotangent 1.0",
        run_vjp,
        group="transform",
    ),
    Command(
        "vmap",
        (
            EXPR,
            Param("in_axes", "expression", "the mapped axis of each argument, 0 if not given"),
            Param("out_axes", "expression", "the mapped axis of the results, 0 if not given"),
        ),
        "A call's function mapped over an axis of its arguments.",
        "%vmap f(jnp.arange(3.0))",
        run_vmap,
        group="transform",
    ),
    Command(
        "linearize",
        (EXPR,),
        "Value of a call's function, and its linear approximation as a jaxpr.",
        "%linearize f(3.0)",
        run_linearize,
        group="transform",
    ),
)
