"""Commands that apply a transformation: %jaxpr %grad %jvp %vjp %vmap %linearize."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minijax import errors
from minijax.api import grad, jvp, linearize, make_jaxpr, value_and_grad, vjp, vmap
from minijax.config import enable_x64
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.records import Frozen
from minijax.ir.jaxpr import ClosedJaxpr, all_eqns
from minijax.ir.pretty import jaxpr_document
from minijax.pytree import tree_leaves, tree_map, tree_structure
from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.documents.document import (
    LABEL_WIDTH,
    Block,
    Indent,
    Line,
    Printout,
    Row,
    Segment,
    document,
    joined,
    length,
    line,
)
from minijax.tools.documents.words import plural, shortened
from minijax.tools.recording import preview
from minijax.tools.recording.recorder import Recorder
from minijax.tools.session import targets
from minijax.tools.session.result import Result
from minijax.tools.session.source import parse_expression
from minijax.tools.session.targets import Target
from minijax.tools.session.values import printed
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.session.session import Session

EXPR = Param("expr", "text", "a call such as f(x), or an expression in your variables", required=True)
STATIC = Param("static", "ints", "the static arguments, which are part of the function, counted from 0")
_LONGEST = 12


def value_lines(value: Any, columns: int = 75) -> tuple[Line, ...]:
    """A value's repr, cut after 12 lines."""
    if getattr(value, "dtype", None) == dtypes.float0:
        return (line(("value", "none"), ("muted", ": integers and booleans have no tangents")),)
    lines = printed(value, columns).split("\n")
    if len(lines) > _LONGEST:
        lines[_LONGEST:] = [f"... {len(lines) - _LONGEST} more lines"]
    return tuple(line(("value", each)) for each in lines)


def value_rows(session: Session, label: str, value: Any, where: str | None = "", name: str = "") -> list[Block]:
    """Show a value after a label and, if it has one, its ``name``. A large container is shown as a tree of keys.
    ``where`` is the path to the value in the command's result, or None if the value is not part of it.
    """
    columns = (session.settings.columns or 80) - LABEL_WIDTH - 1
    named: Line = (("var", name), ("", "  ")) if name else ()
    tree = session.value_tree(value, where, columns)
    if tree is None:
        first, *others = value_lines(value, columns - length(named))
        # keep NumPy's alignment after a name
        indent: Line = (("", " " * length(named)),) if named else ()
        return [Row(label, ((*named, *first), *[(*indent, *other) for other in others]))]
    return [Row(label, (named,)), Indent(tree)] if named else [Row(label), Indent(tree)]


def ones(x: Any) -> Any:
    """Ones as the tangent or cotangent of a value, in its shape and dtype; for integers, an array of dtype float0."""
    aval = get_aval(x)
    tangent = aval.to_tangent_aval()
    if tangent.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return np.ones(aval.shape, aval.dtype)


def given(session: Session, command: str, text: str, count: int) -> tuple[Any, ...]:
    """The values of an option such as ``--tangents 1.0, 2.0``, as a tuple of ``count`` items."""
    value = session.evaluate(parse_expression(command, text), {})
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(values) != count:
        raise UsageError(f"%{command} takes {plural(count, 'value')}, one for each argument; got {len(values)}")
    return values


# --- %jaxpr


def run_jaxpr(session: Session, args: Arguments) -> Result:
    recorder = Recorder("full", args["expr"], True) if args["names"] else Recorder("summary", args["expr"])
    if args["names"] and (args["style"] or session.settings.style) == "tutorial":
        raise UsageError("%jaxpr --names needs the style jax: add --style jax")
    target = targets.typed(session, "jaxpr", args["expr"], args.cell)
    target = targets.traceable("jaxpr", target, args["static"])
    with recorder:
        closed = targets.stage(target)
    return _shown_jaxpr(session, args, closed, recorder)


def _shown_jaxpr(session: Session, args: Arguments, closed: ClosedJaxpr, recorder: Recorder) -> Result:
    names = None
    if args["names"]:
        # imported late: only this option needs it
        from minijax.tools.recording.variables import names_within, variable_names

        names = names_within(closed, variable_names(recorder.recording))
    doc = jaxpr_document(
        closed,
        style=args["style"] or session.settings.style,
        source_info=args["source"],
        name_stack=args["scopes"],
        max_eqns=args["most"],
        names=names,
    )
    return Result(document(Printout(doc)), closed, recorder.recording if recorder.recording.events else None)


# --- %grad


def _differentiable(x: Any) -> bool:
    leaves = tree_leaves(x)
    return bool(leaves) and all(dtypes.is_inexact(get_aval(leaf).dtype) for leaf in leaves)


def run_grad(session: Session, args: Arguments) -> Result:
    target = _target(session, "grad", args)
    argnums = args["argnums"]
    if argnums is None:
        # by default, differentiate a call by its first argument, and another expression by all its variables
        active = tuple(i for i, x in enumerate(target.args) if _differentiable(x))
        argnums = active if target.loose and len(active) != 1 else active[0] if active else ()
    if not target.args or argnums == ():
        raise UsageError(f"%grad needs an argument to differentiate by, and {target.title} has none of float type")
    _check_argnums(target, argnums)
    recorder = Recorder("summary", args["expr"])
    with recorder:
        value, gradient = value_and_grad(_scalar(target), argnums)(*target.args, **target.kwargs)
    blocks = value_rows(session, "value", value, "[0]")
    chosen = argnums if isinstance(argnums, tuple) else (argnums,)
    parts = gradient if isinstance(argnums, tuple) else (gradient,)
    places = [f"[1][{i}]" for i in range(len(parts))] if isinstance(argnums, tuple) else ["[1]"]
    blocks += named_rows(session, "gradient", [target.names[i] for i in chosen], parts, places)
    if args["check"]:
        blocks.append(Row("check", (_finite_difference_line(target, chosen),)))
    return Result(document(*blocks), (value, gradient), recorder.recording)


def _check_argnums(target: Target, argnums: int | tuple[int, ...]) -> None:
    """Raise UsageError if an argument does not exist, is given twice, or is not differentiable."""
    count = len(target.args)
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if len({i % count for i in numbers}) < len(numbers):
        raise UsageError(f"%grad --argnums {','.join(map(str, numbers))}: an argument is given twice")
    for i in numbers:
        if not -count <= i < count:
            has = f"{plural(count, 'argument')}, counted from 0"
            raise UsageError(f"%grad --argnums {i}: there is no such argument; {target.title} has {has}")
        if not _differentiable(target.args[i]):
            types = type_texts(target.args[i])
            problem = f"the argument {target.names[i]} is {types}, not of float type"
            raise UsageError(f"%grad --argnums {i}: {problem}: choose another, or write it as a float")


def _scalar(target: Target) -> Callable[..., Any]:
    """The target's function, which raises UsageError if its result is no scalar."""

    @functools.wraps(target.fun)
    def scalar(*args: Any, **kwargs: Any) -> Any:
        value = target.fun(*args, **kwargs)
        leaves = tree_leaves(value)
        if len(leaves) != 1 or leaves[0] is not value or np.shape(value) != ():
            found = type_texts(value) or "nothing"
            raise UsageError(f"%grad needs one scalar result, and {target.title} gives {found}: sum it, or take %vjp")
        return value

    return scalar


def type_texts(tree: Any) -> str:
    """``f32[3], i32[]``: the types of the leaves of a tree."""
    return ", ".join(get_aval(leaf).str_short(short_dtypes=True) for leaf in tree_leaves(tree))


# Tolerance of 64-bit central differences for typical functions, which may contain 32-bit constants.
CHECK_TOLERANCE = 1e-4


class Differences(Frozen):
    """Derivatives along a random direction, all in 64 bits.

    Attributes:
      exact: the derivative by grad.
      left, right: difference quotients from the values at the point and beside it.
      rounding: how much the rounding of the function's values can change these quotients.
      narrow: the first narrower float type that the program computes in, such as ``float32``; '' if there is none, or
        if the derivatives agree.
    """

    exact: float
    left: float
    right: float
    rounding: float
    narrow: str = ""

    @property
    def central(self) -> float:
        return (self.left + self.right) / 2

    @property
    def size(self) -> float:
        return max(abs(self.exact), abs(self.central))

    @property
    def agree(self) -> bool:
        apart = abs(self.exact - self.central)
        return apart <= CHECK_TOLERANCE * self.size or apart <= self.rounding

    @property
    def doubt(self) -> str:
        """Why a disagreement with finite differences does not prove the gradient wrong; '' if it does."""
        if abs(self.left - self.right) > 0.1 * max(abs(self.left), abs(self.right)):
            return f"the function jumps or has a kink here: {self.left:.9g} to the left, {self.right:.9g} to the right"
        return f"the program rounds to {self.narrow}, and the check needs 64 bits" if self.narrow else ""


def finite_differences(target: Target, argnums: tuple[int, ...]) -> Differences:
    """The derivative of the target along a fixed random direction, from grad and from finite differences."""

    def wide(x: Any) -> np.ndarray:
        return np.asarray(x, np.float64)

    with enable_x64(True):
        argnums = tuple(i % len(target.args) for i in argnums)
        # convert all floats to 64 bits, not only the differentiated ones, because a loop's carry must keep its type
        point = tuple(tree_map(wide, x) if _differentiable(x) else x for x in target.args)
        kwargs = {name: tree_map(wide, x) if _differentiable(x) else x for name, x in target.kwargs.items()}
        random = np.random.default_rng(0)
        direction = tuple(tree_map(lambda x: random.standard_normal(x.shape), point[i]) for i in argnums)
        scale = max([1.0, *(float(np.max(np.abs(x), initial=0.0)) for i in argnums for x in tree_leaves(point[i]))])
        step = 1e-6 * scale

        def moved(size: float) -> float:
            shifted = list(point)
            for i, part in zip(argnums, direction, strict=True):
                shifted[i] = tree_map(lambda x, d: x + size * d, point[i], part)
            return float(target.fun(*shifted, **kwargs))

        gradient = grad(target.fun, argnums)(*point, **kwargs)
        exact = sum(
            float(np.vdot(np.asarray(g), d)) for g, d in zip(tree_leaves(gradient), tree_leaves(direction), strict=True)
        )
        above, here, below = moved(step), moved(0.0), moved(-step)
        rounding = 10 * float(np.finfo(np.float64).eps) * max(abs(above), abs(below)) / step
        numbers = exact, (here - below) / step, (above - here) / step, rounding
        found = Differences(*numbers)
        return found if found.agree else Differences(*numbers, _narrow_float(target.fun, point, kwargs))


def _narrow_float(fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """The first float type below 64 bits that the staged program computes in."""
    try:
        closed = make_jaxpr(fun)(*args, **kwargs)
    except errors.JAXTypeError:  # the function's Python code depends on values
        return ""
    types = (v.aval.dtype for eqn in all_eqns(closed.jaxpr) for v in eqn.outvars)
    return next((dtype.name for dtype in types if dtypes.is_inexact(dtype) and dtype.itemsize < 8), "")


def _finite_difference_line(target: Target, argnums: tuple[int, ...]) -> Line:
    if any(dtypes.is_complex(get_aval(x).dtype) for i in argnums for x in tree_leaves(target.args[i])):
        return line(("warning", "not checked: complex arguments"))
    try:
        found = finite_differences(target, argnums)
    except Exception as raised:  # the program may need 32-bit types
        detail = f"{type(raised).__name__}: {str(raised).partition(chr(10))[0]}"
        return line(("warning", "not checked"), f": it does not run in 64 bits ({detail})")
    if not np.isfinite(found.central):
        detail = (
            f"finite differences give {found.central:.9g} here, along a random direction, and grad {found.exact:.9g}"
        )
        return line(("warning", "not checked"), f": {detail}; %nan {target.title} --grad finds what is not finite")
    if not found.agree and found.doubt:
        return line(("warning", "cannot tell"), f": {found.doubt}; grad gives {found.exact:.9g} along this direction")
    apart = abs(found.exact - found.central)
    relative = f"relative difference {apart / found.size:.1e}" if found.size else "both are 0"
    if found.agree and apart > CHECK_TOLERANCE * found.size:
        relative += f"; rounding the function's values alone can make {found.rounding:.1e}"
    verdict = ("good", "agrees") if found.agree else ("error", "DISAGREES")
    return line(
        verdict,
        f" with finite differences: along a random direction {found.exact:.9g} and {found.central:.9g}",
        ("muted", f" ({relative})"),
    )


# --- %jvp %vjp %vmap %linearize


def _target(session: Session, command: str, args: Arguments) -> Target:
    """The command's target as a function of values only: its static arguments are bound."""
    target = targets.typed(session, command, args["expr"], args.cell).concrete(command)
    target = targets.traceable(command, target)
    # if there are no positional arguments, as in f(x=3.0), the keyword arguments become positional
    return target if target.args else targets.positional(target)


def with_arguments(target: Target, command: str) -> Target:
    if not tree_leaves(target.args):
        problem = f"%{command} needs an argument, and {shortened(target.title)} has none"
        raise UsageError(f"{problem} that is an array or a number: write one, as in f(3.0)")
    return target


def named_rows(
    session: Session, label: str, names: Sequence[str], values: Sequence[Any], places: Sequence[str]
) -> list[Block]:
    """Rows for values, each with the name of its argument. ``places`` are the ``where`` arguments of ``value_rows``."""
    rows: list[Block] = []
    for name, value, each in zip(names, values, places, strict=True):
        rows += value_rows(session, label, value, each, name)
        label = ""
    return rows


def run_jvp(session: Session, args: Arguments) -> Result:
    target = with_arguments(_target(session, "jvp", args), "jvp")
    if args["tangents"] is None:
        tangents = tuple(tree_map(ones, x) for x in target.args)
    else:
        given_ones = given(session, "jvp", args["tangents"], len(target.args))
        tangents = tuple(
            as_tangent("jvp --tangents", f"the tangent of {name}", x, t)
            for name, x, t in zip(target.names, target.args, given_ones, strict=True)
        )
    recorder = Recorder("summary", args["expr"])
    with recorder:
        out, tangent = jvp(positional(target), target.args, tangents)
    blocks = value_rows(session, "primal", out, "[0]") + value_rows(session, "tangent", tangent, "[1]")
    along = [tuple(map(_seed, tree_leaves(t))) for t in tangents]
    blocks.append(Row("along", (joined(" · ", _named(target.names, along)),)))
    return Result(document(*blocks), (out, tangent), recorder.recording)


def _seed(tangent: Any) -> str:
    """The tangent as a short text: "none" for the tangent of an integer."""
    if getattr(tangent, "dtype", None) == dtypes.float0:
        return "none"
    return preview.value_text(tangent)


def _named(names: Sequence[str], texts: Sequence[Sequence[str]]) -> list[Segment]:
    return [("", f"{name} {', '.join(each)}") for name, each in zip(names, texts, strict=True)]


def as_tangent(option: str, what: str, x: Any, tangent: Any) -> Any:
    """Check ``tangent`` against ``x`` and return it. Numbers are broadcast to the shape of ``x`` and take its dtype.

    UsageError if structures or shapes differ.
    """
    if tree_structure(tangent) != tree_structure(x):
        if not isinstance(tangent, (int, float)):
            raise UsageError(f"%{option}: {what} must have the structure of {what.rpartition(' ')[2]}: {type_texts(x)}")
        return tree_map(lambda leaf: _leaf_tangent(option, what, leaf, tangent), x)
    return tree_map(lambda leaf, t: _leaf_tangent(option, what, leaf, t), x, tangent)


def _leaf_tangent(option: str, what: str, x: Any, tangent: Any) -> Any:
    aval = get_aval(x)
    if not dtypes.is_inexact(aval.dtype):
        return ones(x)
    if isinstance(tangent, (int, float)):
        return np.full(aval.shape, tangent, aval.dtype)
    try:
        found = get_aval(tangent)
    except TypeError:
        raise UsageError(f"%{option}: {what} must be {aval.str_short()}, not {type(tangent).__name__}") from None
    if found.shape != aval.shape:
        raise UsageError(f"%{option}: {what} must be {aval.str_short()}, and is {found.str_short()}")
    return tangent if found.dtype == aval.dtype else np.asarray(tangent).astype(aval.dtype)


def positional(target: Target) -> Any:
    """The target as a function of its positional arguments."""
    return targets.with_fixed(target, (), target.kwargs).fun if target.kwargs else target.fun


def _linear_rows(session: Session, closed: ClosedJaxpr) -> list[Block]:
    """The jaxpr of a linear map, and how many equations and residuals it has."""
    count = plural(len(closed.eqns), "equation")
    held = f", {plural(len(closed.consts), 'residual')} held" if closed.consts else ""
    return [
        Row("linear", (line(("", count), ("muted", f"{held}; its jaxpr:")),)),
        Indent(Printout(jaxpr_document(closed, style=session.settings.style)), most=40, rest="(print(_) shows them)"),
    ]


def run_vjp(session: Session, args: Arguments) -> Result:
    target = with_arguments(_target(session, "vjp", args), "vjp")
    recorder = Recorder("summary", args["expr"])
    with recorder:
        out, pullback = vjp(positional(target), *target.args)
        if args["cotangent"] is None:
            cotangent = tree_map(ones, out)
        else:
            value = session.evaluate(parse_expression("vjp", args["cotangent"]), {})
            cotangent = as_tangent("vjp --cotangent", "the cotangent of the value", out, value)
        cotangents = pullback(cotangent)
    places = [f"[1][{i}]" for i in range(len(cotangents))]
    blocks = value_rows(session, "value", out, "[0]")
    blocks += named_rows(session, "pullback", target.names, cotangents, places)
    of = tuple(map(_seed, tree_leaves(cotangent)))
    blocks.append(Row("of", (line(("", ", ".join(of)), ("muted", "  the cotangent of the value")),)))
    blocks += _linear_rows(session, pullback.jaxpr)
    return Result(document(*blocks), (out, cotangents), recorder.recording)


def run_vmap(session: Session, args: Arguments) -> Result:
    target = with_arguments(_target(session, "vmap", args), "vmap")
    axes = {}
    for option in ("in_axes", "out_axes"):
        text = args[option]
        axes[option] = 0 if text is None else session.evaluate(parse_expression("vmap", text), {})
    in_axes = axes["in_axes"]
    each = in_axes if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(target.args)
    if len(each) != len(target.args):
        raise UsageError(
            f"%vmap --in-axes has {len(each)} axes for {plural(len(target.args), 'argument')}: one for each, None for "
            "an argument that is not mapped"
        )
    for name, x, axis in zip(target.names, target.args, each, strict=True):
        _check_axis(name, x, axis)
    recorder = Recorder("summary", args["expr"])
    with recorder:
        out = vmap(positional(target), **axes)(*target.args)
    shown = [(f"{type_texts(x)}, {_axis_text(axis)}",) for x, axis in zip(target.args, each, strict=True)]
    blocks = [
        *value_rows(session, "mapped", out),
        Row("axes", (joined(" · ", _named(target.names, shown)),)),
        Row("", (line(("muted", f"results: {type_texts(out)}, {_axis_text(axes['out_axes'])}")),)),
    ]
    return Result(document(*blocks), out, recorder.recording)


def _check_axis(name: str, x: Any, axis: Any) -> None:
    """Raise UsageError if ``axis`` is no integer or does not exist. vmap itself checks trees of axes."""
    if axis is None or isinstance(axis, (tuple, list, dict)):
        return
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise UsageError(f"%vmap --in-axes takes integers, None or a tuple of them, not {axis!r}")
    for leaf in tree_leaves(x):
        if not -np.ndim(leaf) <= axis < np.ndim(leaf):
            raise UsageError(
                f"%vmap: the argument {name} is {type_texts(leaf)}, which has no axis {axis} to map over; say with "
                "--in-axes (0, None) which arguments are mapped"
            )


def _axis_text(axis: Any) -> str:
    return "not mapped" if axis is None else f"axis {axis}"


def run_linearize(session: Session, args: Arguments) -> Result:
    target = with_arguments(_target(session, "linearize", args), "linearize")
    recorder = Recorder("summary", args["expr"])
    with recorder:
        out, linear = linearize(positional(target), *target.args)
    kind = f"a function of {plural(len(target.args), 'tangent')}, of {', '.join(target.names)}"
    blocks = [*value_rows(session, "value", out, "[0]"), Row("tangent", (line(kind),))]
    blocks += _linear_rows(session, linear.jaxpr)
    return Result(document(*blocks), (out, linear), recorder.recording)


COMMANDS = (
    Command(
        "jaxpr",
        (
            EXPR,
            STATIC,
            Param("style", "word", "how to print it", choices=("jax", "tutorial")),
            Param("source", "flag", "say after each equation which line it comes from"),
            Param("names", "flag", "call variables as your program does, where it has names for them"),
            Param("scopes", "flag", "say after each equation which named scopes it is in"),
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
            Param("check", "flag", "compare with finite differences"),
        ),
        "Value and gradient of a call's function at its arguments.\n\n"
        "By default a call is differentiated by its first argument of float type, any other expression by "
        "all its variables of float type. --check compares the derivative along a random direction with a "
        "central difference, both in 64 bits.",
        "%grad f(3.0) --check",
        run_grad,
        cell=True,
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
