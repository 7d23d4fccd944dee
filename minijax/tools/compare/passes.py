"""Apply several transformations, given by name, and split a gradient's equations into passes.

Reverse mode runs the function forward, saves the residuals, and runs the transposed linear part backward. In a traced
gradient all equations of the forward pass come first. Tracing records where the second pass begins.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import numpy as np

from minijax.api import jit, jvp, make_jaxpr, vjp, vmap
from minijax.core import dtypes
from minijax.core.array import LiteralArray, get_aval
from minijax.core.avals import ShapedArray
from minijax.core.shape_structs import ShapeDtypeStruct
from minijax.core.trace import state
from minijax.interpreters.jvp import DualTracer
from minijax.interpreters.stage import JaxprTrace, JaxprTracer
from minijax.interpreters.vmap import BatchTracer
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from minijax.pytree import tree_leaves, tree_map
from minijax.tools.documents.words import plural
from minijax.tools.session.targets import Target, positional
from minijax.tools.usage import UsageError

TRANSFORMATIONS = ("grad", "vjp", "jvp", "vmap", "jit")
# The size of the batch axis that vmap adds.
AXIS_SIZE = 4


class Passes:
    """The forward and backward equations of a gradient's jaxpr, and the residuals: variables that both passes use."""

    def __init__(self, after: ClosedJaxpr, forward: Sequence[JaxprEqn], cotangents: Container[Var]) -> None:
        first = set(map(id, forward))
        home = next((j for j in _all_jaxprs(after.jaxpr) if any(id(eqn) in first for eqn in j.eqns)), after.jaxpr)
        self.forward = [eqn for eqn in home.eqns if id(eqn) in first]
        self.backward = [eqn for eqn in home.eqns if id(eqn) not in first]
        self._pass = {id(eqn): "forward" for eqn in self.forward} | {id(eqn): "backward" for eqn in self.backward}
        made_later = {var for eqn in self.backward for var in eqn.outvars}
        read = dict.fromkeys(atom for eqn in self.backward for atom in eqn.invars if type(atom) is not Literal)
        self.residuals: list[Var] = [var for var in read if var not in made_later and var not in cotangents]
        inputs = {*home.invars, *home.constvars}
        self.arguments = [var for var in self.residuals if var in inputs]

    def of(self, eqn: JaxprEqn) -> str:
        """'forward', 'backward', or '' for an equation of neither pass."""
        return self._pass.get(id(eqn), "")

    @property
    def bytes(self) -> int:
        """The total bytes of the residuals."""
        return sum(var.aval.size * var.aval.dtype.itemsize for var in self.residuals)


def _all_jaxprs(root: Jaxpr) -> Iterable[Jaxpr]:
    todo, seen = [root], {root}
    for jaxpr in todo:
        for eqn in jaxpr.eqns:
            fresh = [sub for sub in subjaxprs(eqn.params) if sub not in seen]
            seen.update(fresh)
            todo += fresh
        yield jaxpr


def differentiable(x: Any) -> bool:
    """Whether ``x`` is a pytree of float or complex arrays."""
    leaves = tree_leaves(x)
    return bool(leaves) and all(dtypes.is_inexact(get_aval(leaf).dtype) for leaf in leaves)


class Transformed:
    """The jaxpr of ``target`` before and after the transformations ``names``, of which the first is the outermost.

    Raises:
      UsageError: a transformation does not apply, such as grad to a function without a scalar result.
    """

    def __init__(
        self,
        target: Target,
        names: Sequence[str],
        argnums: Sequence[int] | None = None,
        axis_size: int = AXIS_SIZE,
    ) -> None:
        __tracebackhide__ = True
        target = positional(target)
        self.loose = target.loose
        self.argnums = argnums
        self.axis_size = axis_size
        # for each gradient, at the start of its backward pass: the equations so far, and the cotangents' variables
        self._halfway: list[tuple[list[JaxprEqn], set[Var]]] = []
        self.before: ClosedJaxpr = make_jaxpr(target.fun)(*target.args)
        fun, args = target.fun, target.args
        for name in reversed(names):
            fun, args = getattr(self, f"_{name}")(fun, args)
        self.fun, self.args = fun, args
        self.after: ClosedJaxpr = make_jaxpr(fun)(*args)
        # the last entry belongs to the outermost of nested gradients
        self.passes = Passes(self.after, *self._halfway[-1]) if self._halfway else None

    def _chosen(self, name: str, args: tuple[Any, ...]) -> tuple[int, ...]:
        __tracebackhide__ = True
        if self.argnums is not None:
            out = [i for i in self.argnums if not -len(args) <= i < len(args)]
            if out:
                has = f"it has {plural(len(args), 'argument')}, counted from 0"
                raise UsageError(f"%diff --argnums {out[0]}: there is no such argument; {has}")
            return tuple(i % len(args) for i in self.argnums)
        active = [i for i, x in enumerate(args) if differentiable(x)]
        if not active:
            raise UsageError(f"%diff --by {name} needs an argument of float type to differentiate by")
        # as in %grad: a call is differentiated by its first argument, another expression by all its variables
        return tuple(active) if name != "grad" or self.loose else (active[0],)

    def _reverse(self, name: str, fun: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
        """The gradient (for 'vjp', the pullback) of the chosen arguments. It records where the forward pass ends."""
        __tracebackhide__ = True
        chosen = self._chosen(name, args)

        def reverse(*values: Any) -> Any:
            __tracebackhide__ = True
            given = values[: len(args)]
            out, pullback = vjp(_of_chosen(fun, given, chosen), *(given[i] for i in chosen))
            if name == "vjp":
                cotangent = values[-1]
            else:
                cotangent = _unit(out)
            trace = state.dynamic
            if isinstance(trace, JaxprTrace):
                seeds = {x.variable for x in map(_innermost, tree_leaves(cotangent)) if type(x) is JaxprTracer}
                self._halfway.append((list(trace.builder.eqns), seeds))
            found = pullback(cotangent)
            return found if name == "vjp" or len(chosen) > 1 else found[0]

        reverse.__name__ = getattr(fun, "__name__", name)
        return reverse

    def _grad(self, fun: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        return self._reverse("grad", fun, args), args

    def _vjp(self, fun: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        return self._reverse("vjp", fun, args), (*args, _shapes(fun, args))

    def _jvp(self, fun: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        chosen = self._chosen("jvp", args)

        def pushed(*values: Any) -> Any:
            given, tangents = values[: len(args)], values[len(args) :]
            return jvp(_of_chosen(fun, given, chosen), tuple(given[i] for i in chosen), tangents)

        return pushed, (*args, *(tree_map(_strong, args[i]) for i in chosen))

    def _vmap(self, fun: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        __tracebackhide__ = True
        if not tree_leaves(args):
            raise UsageError("%diff --by vmap needs an argument to map over, and there is none")

        def widened(x: Any) -> ShapeDtypeStruct:
            aval = get_aval(x) if not isinstance(x, ShapeDtypeStruct) else x
            return ShapeDtypeStruct((self.axis_size, *aval.shape), aval.dtype, weak_type=bool(aval.weak_type))

        return vmap(fun), tree_map(widened, args)

    def _jit(self, fun: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        return jit(fun), args


def _of_chosen(fun: Callable[..., Any], given: tuple[Any, ...], chosen: Sequence[int]) -> Callable[..., Any]:
    """``fun`` as a function of its arguments ``chosen``; the others are ``given``."""

    def of_chosen(*active: Any) -> Any:
        new = dict(zip(chosen, active, strict=True))
        return fun(*(new.get(i, x) for i, x in enumerate(given)))

    of_chosen.__name__ = getattr(fun, "__name__", "f")
    return of_chosen


def _innermost(x: Any) -> Any:
    """The value inside all vmap and jvp tracers."""
    while isinstance(x, (BatchTracer, DualTracer)):
        x = x.val if isinstance(x, BatchTracer) else x.primal
    return x


def _strong(x: Any) -> ShapeDtypeStruct:
    aval = get_aval(x)
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=bool(aval.weak_type))


def _shapes(fun: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    _, shapes = make_jaxpr(fun, return_shape=True)(*args)
    return shapes


def _unit(out: Any) -> Any:
    """The cotangent 1 of a scalar result, as a literal. UsageError for any other result."""
    __tracebackhide__ = True
    leaves = tree_leaves(out)
    if len(leaves) != 1 or leaves[0] is not out or np.shape(out) != ():
        types = ", ".join(get_aval(leaf).str_short() for leaf in leaves) or "nothing"
        raise UsageError(f"grad needs one scalar result, and there is {types}: sum it, or take --by vjp")
    aval: ShapedArray = get_aval(out)
    if not dtypes.is_inexact(aval.dtype):
        raise UsageError(f"grad needs a result of float type, and there is {aval.str_short()}")
    return LiteralArray(aval.dtype.type(1), aval)
