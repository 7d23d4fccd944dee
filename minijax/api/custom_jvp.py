"""``custom_jvp``: a function with a user-defined forward-mode derivative."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from minijax.api.custom_derivatives import (
    CustomCall,
    CustomFunction,
    SymbolicZero,
    evaluating,
    rule_zero,
    same_type,
    zero_from_primal,
)
from minijax.api.flat import avals_of, check_callable, describe, fun_name, to_value
from minijax.core import dtypes
from minijax.core.array import as_value, get_aval
from minijax.core.avals import ShapedArray
from minijax.core.structural import add_tangents
from minijax.core.trace import Tracer, state
from minijax.ops.convert import stop_gradient
from minijax.ops.custom_jvp import custom_jvp_call_p
from minijax.pytree import tree_flatten, tree_map, tree_unflatten


class custom_jvp(CustomFunction):
    """A function of pytrees of arrays with a derivative rule, set by ``defjvp`` or ``defjvps``. A decorator.

    The rule gets the tuples ``primals`` and ``tangents``. It returns ``(primal_out, tangent_out)``, both with the tree,
    shapes and dtypes of ``fun``'s output. The tangent must be linear in ``tangents``; then reverse mode works too.
    ``nondiff_argnums``, ``nondiff_argnames``: arguments that the rule gets first and unchanged. Raises, when called:
    AttributeError without a rule; TypeError for arguments, or results of the rule, that do not fit;
    UnexpectedTracerError if ``fun`` or the rule closes over a differentiated value.

    >>> f = custom_jvp(lambda x: jnp.sin(x))
    >>> _ = f.defjvp(lambda primals, tangents: (f(*primals), 10. * tangents[0]))
    >>> grad(f)(0.)
    Array(10., dtype=float32, weak_type=True)
    """

    kind = "jvp"
    jvp: Callable[..., Any] | None = None
    symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule ``jvp(*nondiff_args, primals, tangents) -> (primals_out, tangents_out)``, and return the rule.

        ``primals`` and ``tangents`` are tuples with equal trees, shapes and dtypes (float0 for integers). Zero tangents
        are arrays of zeros, or ``SymbolicZero``s with ``symbolic_zeros``.
        """
        check_callable(jvp)
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set one rule per argument: ``rule(tangent, primals_out, *primals)``, or None if the derivative is zero.

        TypeError with ``nondiff_argnums``.
        """
        if self.nondiff_argnums:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``.")

        def jvp(primals: Any, tangents: Any) -> Any:
            out = self(*primals)
            parts = [
                zero_from_primal(out) if rule is None else rule(t, out, *primals)
                for rule, t in zip(jvps, tangents, strict=False)
            ]
            return out, tree_map(lambda _, *ts: functools.reduce(add_tangents, ts), out, *parts)

        self.defjvp(jvp)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        jvp = self.jvp
        if jvp is None:
            raise AttributeError(f"No JVP defined for custom_jvp function {self.name} using defjvp.")
        args = self._resolve(args, kwargs)
        static: Sequence[int] = ()
        if self.nondiff_argnums:
            static = self._static(args)
            args = tuple(tree_map(_constant, a) if i in static else a for i, a in enumerate(args))
        if evaluating():
            return self._evaluate(args, static)
        call = _JVPCall(self, custom_jvp_call_p, args, static)
        outs = custom_jvp_call_p.bind(
            *call.dynamic(args),
            fun=call.function(),
            jvp=call.written(call.run_rule, jvp, "custom_jvp rule"),
            symbolic_zeros=self.symbolic_zeros,
            level=len(state.stack),
        )
        return call.result(outs)


def _constant(x: Any) -> Any:
    return stop_gradient(x) if isinstance(x, Tracer) else x


class _JVPCall(CustomCall):
    def run_rule(self, is_zero: Sequence[bool], *values: Any) -> tuple[list[Any], tuple[bool, ...]]:
        """Call the rule with the primals and tangents; ``is_zero`` marks known-zero tangents."""
        custom: Any = self.custom
        n = len(is_zero)
        primals, given = values[:n], iter(values[n:])
        tangents = [
            rule_zero(get_aval(x).to_tangent_aval(), custom.symbolic_zeros) if zero else next(given)
            for x, zero in zip(primals, is_zero, strict=True)
        ]
        args = [tree_unflatten(self.in_tree, primals), tree_unflatten(self.in_tree, tangents)]
        pair = custom.jvp(*self.static.values(), *args)
        name = fun_name(custom.jvp)
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(
                f"Custom JVP rule {name} for function {custom.name} must produce a pair (list or tuple of length two) "
                f"representing primal and tangent outputs, but got {pair}.\nThe rule is {describe(custom.jvp)}."
            )
        outs, tree = tree_flatten(pair[0])
        tangents_out, tangent_tree = tree_flatten(pair[1])
        if tree != tangent_tree:
            raise TypeError(
                f"Custom JVP rule {name} for function {custom.name} must produce primal and tangent outputs with equal "
                f"container (pytree) structures, but got {tree} and {tangent_tree} respectively.\n"
                f"The rule is {describe(custom.jvp)}."
            )
        avals = avals_of(outs)
        particular = "with leaves of the same shape/dtype"
        if self.found is not None and self.found[0] != tree:
            particular = "of the same container/pytree structure"
        self.check_primal(
            tree,
            avals,
            f"JVP rule {name}",
            f"equal in value to the output of the custom_jvp-decorated function {custom.name}, and in particular "
            f"{particular})",
            "JVP rule",
        )
        _check_tangents(avals, avals_of(tangents_out), f"The rule is {describe(custom.jvp)}.")
        zeros_out = tuple(_is_zero(t) for t in tangents_out)
        nonzero = [to_value(t) for t, zero in zip(tangents_out, zeros_out, strict=True) if not zero]
        return [*map(as_value, outs), *nonzero], zeros_out


def _is_zero(t: Any) -> bool:
    return type(t) is SymbolicZero or get_aval(t).dtype == dtypes.float0


def _check_tangents(primals: Sequence[ShapedArray], tangents: Sequence[ShapedArray], where: str) -> None:
    expected = [a.to_tangent_aval() for a in primals]
    if all(map(same_type, expected, tangents)):
        return
    message = "Custom JVP rule must produce primal and tangent outputs with corresponding shapes and dtypes"
    if len(expected) == 1:
        types = f"Expected {expected[0]} (tangent type of {primals[0]}) but got {tangents[0]}."
        raise TypeError(f"{message}. {types}\n{where}")
    wrong = [
        f"  primal {p} with tangent {t}, expecting tangent {e}"
        for p, t, e in zip(primals, tangents, expected, strict=True)
        if not same_type(e, t)
    ]
    raise TypeError(f"{message}, but got:\n" + "\n".join([*wrong, where]))
