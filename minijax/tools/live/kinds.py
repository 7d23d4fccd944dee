"""How each transformation is opened and closed at the prompt.

There is one rule: ``%push T x=a``, the lines after it and ``%pop EXPR`` give the result of ``T(f)(a)``. The function
``f`` of ``x`` runs these lines and returns EXPR. Levels do this in four ways. ``jvp`` and ``vmap`` compute with values.
``linearize``, ``vjp`` and ``grad`` also carry an unknown tangent. ``make_jaxpr`` records equations. All other
transformations also record equations, and are then applied to the recorded function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.ad_checkpoint import checkpoint
from minijax.api.autodiff import (
    VJP,
    check_inputs,
    check_output,
    check_scalar,
    check_tangent,
    linear_function,
    linear_transpose,
    one_like,
    pull_back,
)
from minijax.api.compile import jit
from minijax.api.flat import avals_of, to_value
from minijax.api.pmap import pmap
from minijax.api.staging import eval_shape
from minijax.config import direct_linearize_enabled
from minijax.core import dtypes, observe
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.shape_structs import ShapeDtypeStruct
from minijax.core.structural import Zero, instantiate_zeros, zero_of
from minijax.core.trace import Tracer, push_main, state
from minijax.interpreters.jvp import DualTracer, JVPTrace, JVPTracer
from minijax.interpreters.linearize import LinearizeTrace, LinearizeTracer
from minijax.interpreters.partial_eval import LinearProgram, PartialEvalTrace
from minijax.interpreters.stage import JaxprBuilder, JaxprTrace
from minijax.interpreters.tape import Tape
from minijax.interpreters.vmap import AxisData, BatchTrace, BatchTracer, match_axis
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from minijax.jacobians import hessian, jacfwd, jacrev
from minijax.pytree import keystr, tree_flatten, tree_flatten_with_path, tree_leaves, tree_structure, tree_unflatten
from minijax.tools.documents.words import plural
from minijax.tools.live.level import GONE, Level
from minijax.tools.usage import UsageError


class ForwardLevel(Level):
    """jvp: each value has a tangent."""

    outside = "the primal"

    def __init__(self, kind: str, inputs: dict[str, Any], tangents: dict[str, Any]) -> None:
        super().__init__(kind, inputs)
        self.tangents = tangents

    def open(self) -> dict[str, Any]:
        leaves = [to_value(x) for x in self.in_leaves]
        tangents, tree = tree_flatten((tuple(self.tangents[name] for name in self.inputs), {}))
        if tree != self.in_tree:
            raise UsageError("%push jvp: a tangent has the structure of its primal: nest dx like x")
        seeds = [self._seed(i, x, t) for i, (x, t) in enumerate(zip(leaves, tangents, strict=True))]
        main = push_main(JVPTrace, "jvp", None, self.subject)
        self.mains = [main]
        trace: Any = main.trace
        return self.named([trace.join(x, t) for x, t in zip(leaves, seeds, strict=True)])

    def _seed(self, i: int, primal: Any, tangent: Any) -> Any:
        try:
            return check_tangent(primal, tangent)
        except (TypeError, ValueError):
            pairs = [(name, path) for name, x in self.inputs.items() for path, _ in tree_flatten_with_path(x)[0]]
            name, path = pairs[i]
            expected = get_aval(primal).to_tangent_aval()
            hint = "; leave it out, for integers have no derivative" if expected.dtype == dtypes.float0 else ""
            raise UsageError(
                f"%push jvp: the tangent of {name}{keystr(path)} must be {expected.str_short()}, and "
                f"d{name}{keystr(path)} is {get_aval(tangent).str_short()}{hint}"
            ) from None

    def finish(self, value: Any) -> Callable[[], Any]:
        leaves, tree = self.outputs(value)
        trace: Any = self.mains[0].trace
        pairs = [trace.split(x) for x in leaves]

        def pair() -> tuple[Any, Any]:
            tangents = [instantiate_zeros(t) for _, t in pairs]
            return tree_unflatten(tree, [p for p, _ in pairs]), tree_unflatten(tree, tangents)

        return pair

    def worth(self, tracer: Tracer) -> Any:
        return tracer.primal if isinstance(tracer, JVPTracer) else GONE


class BatchLevel(Level):
    """vmap: each value is a batch of examples. ``axes``: input name -> its mapped axis, None if it is not mapped."""

    outside = "the batched array"

    def __init__(self, kind: str, inputs: dict[str, Any], axes: dict[str, int | None], axis_name: str | None) -> None:
        super().__init__(kind, inputs)
        self.axes = axes
        self.axis_name = axis_name
        self.size = 0

    def dims(self) -> list[int | None]:
        """The mapped axis of each leaf of the inputs (None: not mapped). Also sets ``size``, the number of examples."""
        found: list[int | None] = []
        sizes: dict[str, int] = {}
        for name, value in self.inputs.items():
            axis = self.axes[name]
            for x in tree_leaves(value):
                shape = get_aval(x).shape
                if axis is not None and not -len(shape) <= axis < len(shape):
                    raise UsageError(
                        f"%push {self.kind}: {name} has shape {shape} and so no axis {axis} to map; for a value that "
                        f"is the same for all examples write --axis {name}=None"
                    )
                found.append(None if axis is None else axis % len(shape))
                if axis is not None:
                    sizes[name] = shape[axis]
        if not sizes:
            raise UsageError(f"%push {self.kind} needs a name that is mapped, but all names have axis None")
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
            other = f"a value that is the same for all examples needs --axis {next(iter(sizes))}=None"
            raise UsageError(f"%push {self.kind}: the mapped axes differ in size: {listed}; {other}")
        self.size = next(iter(sizes.values()))
        return found

    def open(self) -> dict[str, Any]:
        leaves, dims = [to_value(x) for x in self.in_leaves], self.dims()
        if self.axis_name is not None:
            self.axis_env = (*state.axis_env, (self.axis_name, self.size))
        main = push_main(BatchTrace, "vmap", AxisData(self.axis_name, self.size), self.subject)
        state.axis_env = self.axis_env
        self.mains = [main]
        trace: Any = main.trace
        return self.named([trace.box(x, d) for x, d in zip(leaves, dims, strict=True)])

    def finish(self, value: Any) -> Callable[[], Any]:
        leaves, tree = self.outputs(value)
        trace: Any = self.mains[0].trace
        pairs = [trace.unbox(x) for x in leaves]
        return lambda: tree_unflatten(tree, [match_axis(x, d, self.size, 0) for x, d in pairs])

    def worth(self, tracer: Tracer) -> Any:
        return match_axis(tracer.val, tracer.batch_dim, self.size, 0) if isinstance(tracer, BatchTracer) else GONE


class ReverseLevel(Level):
    """linearize, vjp and grad: each value has an unknown tangent, which is a variable of a linear program.

    The level pushes linearize. If ``jax_use_direct_linearize`` is off, it pushes partial evaluation and jvp instead.
    """

    outside = "the primal"

    def __init__(self, kind: str, inputs: dict[str, Any]) -> None:
        super().__init__(kind, inputs)
        self.unknown: list[Var] = []
        self.avals: list[ShapedArray] = []

    def open(self) -> dict[str, Any]:
        if self.kind in ("grad", "value_and_grad"):
            check_inputs(self.kind, avals_of(self.in_leaves), False, False)
        leaves = [to_value(x) for x in self.in_leaves]
        self.avals = avals_of(leaves)
        with_tangent = self._open_one() if direct_linearize_enabled() else self._open_two()
        return self.named(
            [
                with_tangent(x, aval) if dtypes.is_inexact(aval.dtype) else x
                for x, aval in zip(leaves, self.avals, strict=True)
            ]
        )

    def _open_one(self) -> Callable[[Any, ShapedArray], Any]:
        """Push linearize; return a function that adds an unknown tangent to a value."""
        self.tape = tape = Tape(self.kind)
        main = push_main(LinearizeTrace, "linearize", (tape, False, True), self.subject)
        self.mains = [main]
        trace: Any = main.trace

        def with_tangent(x: Any, aval: ShapedArray) -> Any:
            place = tape.new_input(aval)
            self.unknown.append(tape.variable(place))
            return LinearizeTracer(trace, x, place)

        return with_tangent

    def _open_two(self) -> Callable[[Any, ShapedArray], Any]:
        """Push partial evaluation and jvp; return a function that adds an unknown tangent to a value."""
        pe_main = push_main(PartialEvalTrace, "partial_eval", [], self.subject)
        main = push_main(JVPTrace, "jvp", None, self.subject)
        self.mains = [pe_main, main]
        trace: Any = main.trace
        pe: Any = pe_main.trace

        def with_tangent(x: Any, aval: ShapedArray) -> Any:
            tangent = pe.new_unknown(aval)
            self.unknown.append(tangent.variable)
            return JVPTracer(trace, x, tangent)

        return with_tangent

    def _split(self, x: Any) -> tuple[Any, Any]:
        """The primal of ``x``, and the variable of its tangent (a symbolic zero if it has none)."""
        trace: Any = self.mains[-1].trace
        primal, tangent = trace.split(x)
        if isinstance(trace, LinearizeTrace):
            return primal, zero_of(get_aval(primal)) if tangent is None else self.tape.variable(tangent)
        pe: Any = self.mains[0].trace
        return primal, tangent if type(tangent) is Zero else pe.atom(tangent)

    def finish(self, value: Any) -> Callable[[], Any]:
        leaves, tree = self.outputs(value)
        if self.kind in ("grad", "value_and_grad"):
            check_output(self.kind, check_scalar(value), False)
        pairs = [self._split(x) for x in leaves]
        program = LinearProgram(self.unknown, list(self._equations()), [t for _, t in pairs], self.kind)
        primals = [p for p, _ in pairs]

        def result() -> Any:
            if observe.on_jaxpr:
                observe.emit(observe.on_jaxpr, "linear", program.closed(), "the lines")
            out = tree_unflatten(tree, primals)
            out_avals = avals_of(primals)
            if self.kind == "linearize":
                return out, linear_function(program, self.avals, self.in_tree, out_avals, tree)
            if self.kind == "vjp":
                return out, VJP(program, self.avals, self.in_tree, out_avals, tree)
            found, _ = tree_unflatten(self.in_tree, pull_back(program, self.avals, [one_like(out_avals[0])]))
            gradient = found[0] if len(found) == 1 else found
            return (out, gradient) if self.kind == "value_and_grad" else gradient

        return result

    def _equations(self) -> list[JaxprEqn]:
        trace: Any = self.mains[0].trace
        found: list[JaxprEqn] = trace.tape.equations() if isinstance(trace, LinearizeTrace) else trace.eqns
        return found

    def worth(self, tracer: Tracer) -> Any:
        return tracer.primal if isinstance(tracer, DualTracer) else GONE

    def program(self) -> ClosedJaxpr | None:
        eqns = list(self._equations())
        closed = LinearProgram(self.unknown, eqns, [v for eqn in eqns for v in eqn.outvars]).closed()
        jaxpr = closed.jaxpr
        return ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, [], jaxpr.eqns), closed.consts)


def _jacobian(transform: Callable[..., Any]) -> Callable[..., Any]:
    def apply(fun: Callable[..., Any], values: Sequence[Any], axis_name: str | None) -> Any:
        return transform(fun, 0 if len(values) == 1 else tuple(range(len(values))))(*values)

    return apply


def _wrapped(transform: Callable[..., Any]) -> Callable[..., Any]:
    return lambda fun, values, axis_name: transform(fun)(*values)


def _called(transform: Callable[..., Any]) -> Callable[..., Any]:
    return lambda fun, values, axis_name: transform(fun, *values)


# Transformations that are applied to the recorded function after the level is closed.
APPLIED: dict[str, Callable[[Callable[..., Any], Sequence[Any], str | None], Any]] = {
    "jit": _wrapped(jit),
    "checkpoint": _wrapped(checkpoint),
    "pmap": lambda fun, values, axis_name: pmap(fun, axis_name=axis_name)(*values),
    "jacfwd": _jacobian(jacfwd),
    "jacrev": _jacobian(jacrev),
    "hessian": _jacobian(hessian),
    "linear_transpose": _called(linear_transpose),
    "eval_shape": _called(eval_shape),
}
_OF_TYPES = ("jaxpr", "linear_transpose", "eval_shape")


class StagedLevel(Level):
    """make_jaxpr, and transformations of a recorded function. The level records all operations, even on constants."""

    def __init__(self, kind: str, inputs: dict[str, Any], axis_name: str | None = None) -> None:
        super().__init__(kind, inputs)
        self.abstract = kind in _OF_TYPES
        self.axis_name = axis_name
        self.builder = JaxprBuilder()

    def _avals(self) -> list[ShapedArray]:
        avals = avals_of(self.in_leaves)
        if self.kind != "pmap":
            return avals
        sizes = {aval.shape[0] if aval.shape else -1 for aval in avals}
        if len(sizes) != 1 or -1 in sizes:
            raise UsageError("%push pmap: it maps the first axes of all values, which must have equal sizes")
        if self.axis_name is not None:
            self.axis_env = (*state.axis_env, (self.axis_name, sizes.pop()))
        return [ShapedArray(aval.shape[1:], aval.dtype, aval.weak_type) for aval in avals]

    def open(self) -> dict[str, Any]:
        avals = self._avals()
        main = push_main(JaxprTrace, self.kind, self.builder, self.subject, dynamic=True)
        state.axis_env = self.axis_env
        self.mains = [main]
        trace: Any = main.trace
        tracers = [trace.new_input(aval) for aval in avals]
        self.builder.in_vars = [t.variable for t in tracers]
        names = [name for name, value in self.inputs.items() for _ in tree_leaves(value)]
        self.builder.name_inputs = lambda: names
        return self.named(tracers)

    def finish(self, value: Any) -> Callable[[], Any]:
        leaves, tree = self.outputs(value)
        trace: Any = self.mains[0].trace
        outs = [trace.atom(x) for x in leaves]
        closed = self.builder.build(outs, self.builder.eqns, "prompt")
        closed = ClosedJaxpr(closed.jaxpr.replace(eqns=list(closed.jaxpr.eqns)), closed.consts)

        def result() -> Any:
            if observe.on_jaxpr:
                observe.emit(observe.on_jaxpr, "staged", closed, "the lines")
            if self.kind == "jaxpr":
                return closed

            def prompt(*args: Any) -> Any:
                return tree_unflatten(tree, eval_closed(closed, *tree_leaves(args)))

            return APPLIED[self.kind](prompt, list(self.inputs.values()), self.axis_name)

        return result

    def worth(self, tracer: Tracer) -> Any:
        return GONE

    def program(self) -> ClosedJaxpr | None:
        closed = self.builder.build([], self.builder.eqns, "")
        return ClosedJaxpr(closed.jaxpr.replace(eqns=list(closed.jaxpr.eqns)), closed.consts)


# Each kind of level -> what %pop returns when it closes the level.
KINDS: dict[str, str] = {
    "jvp": "(primal, tangent)",
    "vmap": "the batched array",
    "jaxpr": "the jaxpr",
    "linearize": "(value, linear map)",
    "vjp": "(value, pullback)",
    "grad": "the gradient",
    "value_and_grad": "(value, gradient)",
    "jit": "the value, compiled",
    "checkpoint": "the value; the backward pass computes its residuals again",
    "pmap": "the values of all devices",
    "jacfwd": "the Jacobian, by columns",
    "jacrev": "the Jacobian, by rows",
    "hessian": "the second derivatives",
    "linear_transpose": "the transposed function",
    "eval_shape": "shape and dtype",
}
REVERSE = ("linearize", "vjp", "grad", "value_and_grad")
NAMED_AXIS = ("vmap", "pmap")


def is_type(value: Any) -> bool:
    """Whether ``value`` contains a type, such as f32[3]."""
    return any(isinstance(x, ShapeDtypeStruct) for x in tree_leaves(value))


def default_tangent(x: Any) -> Any:
    """A tangent of ones for each leaf of ``x``: weakly typed for a Python number, float0 zeros for an integer."""

    def one(leaf: Any) -> Any:
        aval = get_aval(leaf)
        tangent = aval.to_tangent_aval()
        if tangent.dtype == dtypes.float0:
            return instantiate_zeros(zero_of(aval))
        return filled(leaf, 1.0)

    leaves, tree = tree_flatten(x)
    return tree_unflatten(tree, [one(leaf) for leaf in leaves])


def filled(x: Any, number: Any) -> Any:
    """A tangent for the array ``x`` in which each element is ``number``, with the shape and dtype of ``x``."""
    aval = get_aval(x)
    value = aval.dtype.type(number)
    if not aval.shape:
        return number if aval.weak_type else value
    return np.full(aval.shape, value, aval.dtype)


def sizes_text(level: Level) -> str:
    """The names and types of a level's inputs: ``x f32[3], y f32[]``."""
    parts = []
    for name, value in level.inputs.items():
        leaves, tree = tree_flatten(value)
        single = tree == tree_structure(0)
        about = get_aval(leaves[0]).str_short() if single else f"({plural(len(leaves), 'array')})"
        parts.append(f"{name} {about}")
    return ", ".join(parts)
