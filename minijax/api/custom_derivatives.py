"""The common part of ``custom_jvp`` and ``custom_vjp``: symbolic zeros, binding of arguments, and ``CustomCall``.

Source: https://docs.jax.dev/en/latest/notebooks/Custom_derivative_rules_for_Python_code.html
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.api.flat import avals_of, check_args, check_callable, describe, fun_name, int_or_ints, named_like
from minijax.core import dtypes, observe
from minijax.core.array import Array, as_value, get_aval
from minijax.core.avals import HasAval, ShapedArray, same_sharding
from minijax.core.primitive import Primitive
from minijax.core.records import NamedTuple
from minijax.core.structural import zeros
from minijax.core.trace import state
from minijax.ops.custom_derivatives import About, Written
from minijax.pytree import PyTreeDef, tree_flatten, tree_leaves, tree_map, tree_unflatten


class SymbolicZero(HasAval):
    """A (co)tangent that is known to be zero, for rules with ``symbolic_zeros=True``. It has a type but no value."""

    __slots__ = ("aval",)

    aval: ShapedArray

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @staticmethod
    def from_primal_value(val: Any) -> SymbolicZero:
        """The zero tangent of the array ``val``."""
        return SymbolicZero(get_aval(val).to_tangent_aval())

    def __repr__(self) -> str:
        return "SymbolicZero"


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangents of the arrays in the tree ``val``: arrays of zeros, or ``SymbolicZero``s."""
    return tree_map(SymbolicZero.from_primal_value if symbolic_zeros else _real_zero, val)


def _real_zero(x: Any) -> Any:
    return zeros(get_aval(x).to_tangent_aval())


def rule_zero(aval: ShapedArray, symbolic: bool) -> Any:
    """The zero (co)tangent of type ``aval`` for a rule: a ``SymbolicZero`` if ``symbolic``, else an array of float0."""
    return SymbolicZero(aval) if symbolic else np.zeros(aval.shape, dtypes.float0)


class Parameters(NamedTuple):
    """A function's signature. ``plain``: it has exactly ``n`` positional parameters and no others."""

    signature: inspect.Signature | None
    plain: bool
    n: int


def _signature(fun: Callable[..., Any]) -> Parameters:
    if isinstance(fun, functools.partial):  # as in JAX, a partial counts as a function without a known signature
        return Parameters(None, False, 0)
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        return Parameters(None, False, 0)
    kinds = [p.kind for p in signature.parameters.values()]
    plain = all(k in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for k in kinds)
    return Parameters(signature, plain, len(kinds))


class CustomFunction:
    """The base of ``custom_jvp`` and ``custom_vjp``. It has the function, its signature and ``nondiff_argnums``."""

    kind: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()
    ) -> None:
        check_callable(fun)
        functools.update_wrapper(self, fun)  # type: ignore[arg-type]
        self.fun = fun
        self._signature = _signature(fun)
        numbers = set(int_or_ints(nondiff_argnums, "nondiff_argnums"))
        if nondiff_argnames:
            names = (nondiff_argnames,) if isinstance(nondiff_argnames, str) else tuple(nondiff_argnames)
            parameters = self._signature.signature.parameters if self._signature.signature else {}
            numbers.update(i for i, name in enumerate(parameters) if name in names)
        self.nondiff_argnums = tuple(sorted(numbers))
        self.name = fun_name(fun)
        self.subject = describe(fun)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<custom_{self.kind} function {self.subject}>"

    def _resolve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, with defaults. TypeError if the arguments do not fit the signature."""
        signature, plain, n = self._signature
        if not kwargs and ((plain and len(args) == n) or signature is None):
            return args
        try:
            passed = [*kwargs]
            if signature is not None:
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                passed = [k for k in bound.kwargs if k in kwargs]
            if passed:
                raise TypeError(
                    f"The following keyword arguments could not be resolved to positions: {', '.join(passed)}"
                )
        except TypeError as error:
            raise TypeError(
                f"The input arguments to the custom_{self.kind}-decorated function {self.name} could not be resolved "
                f"to positional-only arguments. Binding failed with the error:\n{error}"
            ) from error
        return bound.args

    def _evaluate(self, args: tuple[Any, ...], static: Sequence[int]) -> Any:
        """Call the function directly, if nothing is transformed or observed: three times faster than ``bind``."""
        try:
            args = tuple(
                a if isinstance(a, Array) or i in static else tree_map(as_value, a) for i, a in enumerate(args)
            )
        except TypeError:
            self.refuse(args, static)
            raise
        out = self.fun(*args)
        if not isinstance(out, Array):
            avals_of(tree_leaves(out))  # raises TypeError unless all results are arrays
        return out

    def refuse(self, args: tuple[Any, ...], static: Sequence[int]) -> None:
        """Raise a TypeError that names the parameter if a leaf of a differentiable argument is not an array."""
        leaves, in_tree = tree_flatten((tuple(a for i, a in enumerate(args) if i not in static), {}))

        def of_dynamic(*args: Any) -> None: ...

        check_args(leaves, f"custom_{self.kind}", named_like(of_dynamic, self.fun, static), in_tree)

    def _static(self, args: tuple[Any, ...]) -> list[int]:
        """The positions of the ``nondiff_argnums`` among ``args``. IndexError if one is out of range."""
        n = len(args)
        for i in self.nondiff_argnums:
            if not -n <= i < n:
                raise IndexError(
                    f"nondiff_argnums={self.nondiff_argnums} of custom_{self.kind} function {self.subject}: the call "
                    f"has {n} arguments, so there is no argument {i}. Positions count from 0."
                )
        return sorted(i % n for i in self.nondiff_argnums)


def evaluating() -> bool:
    return len(state.stack) == 1 and not observe.bind_watched


class CustomCall:
    """One call of a custom function: its trees and flat functions. No operands, because backward passes keep it."""

    def __init__(
        self, custom: CustomFunction, primitive: Primitive, args: tuple[Any, ...], static: Sequence[int]
    ) -> None:
        self.custom = custom
        self.primitive = primitive
        self.static = {i: args[i] for i in static}
        leaves, self.in_tree = tree_flatten(tuple(a for i, a in enumerate(args) if i not in self.static))
        try:
            self.in_avals = avals_of(leaves)
        except TypeError:
            custom.refuse(args, static)
            raise
        # the function's output tree and types, set by its first run
        self.found: tuple[PyTreeDef, list[Any]] | None = None
        # the output tree of the function or of the rule, whichever ran first
        self.out_tree: PyTreeDef | None = None

    def dynamic(self, args: tuple[Any, ...]) -> list[Any]:
        """The leaves of the differentiable arguments, as arrays."""
        return [as_value(x) for i, a in enumerate(args) if i not in self.static for x in tree_leaves(a)]

    def arguments(self, leaves: Sequence[Any]) -> list[Any]:
        """All arguments by position, the static ones included."""
        dynamic = tree_unflatten(self.in_tree, leaves)
        if not self.static:
            return dynamic
        given = iter(dynamic)
        n = len(dynamic) + len(self.static)
        return [self.static[i] if i in self.static else next(given) for i in range(n)]

    def written(self, run: Callable[..., Any], of: Callable[..., Any], label: str, rule: bool = True) -> Written:
        """Wrap ``run`` as a ``Written``, named after the user's function ``of``."""
        about = About(fun_name(of), describe(of), label)
        return Written(run, about, self.primitive, of if rule else None)

    def function(self) -> Written:
        """Wrap the custom function itself, not its rule."""
        return self.written(self._run_function, self.custom.fun, f"custom_{self.custom.kind}", rule=False)

    def _run_function(self, side: None, *leaves: Any) -> tuple[list[Any], None]:
        outs, tree = tree_flatten(self.custom.fun(*self.arguments(leaves)))
        self.found = tree, avals_of(outs)
        self.out_tree = tree
        return outs, None

    def check_primal(self, tree: PyTreeDef, avals: Sequence[Any], rule: str, meaning: str, short: str) -> None:
        """TypeError if a rule's primal output differs from the function's output in tree or types.

        ``meaning`` explains the rule's output in the message, and ``short`` names the rule.
        """
        if self.out_tree is None:
            self.out_tree = tree
        if self.found is None:
            return
        own_tree, own_avals = self.found
        if tree != own_tree:
            what = "container/pytree structure"
        elif not all(map(same_type, avals, own_avals)):
            what = "shapes/dtypes of"
        else:
            return
        raise TypeError(
            f"Custom {rule} for function {self.custom.name} must produce a pair (list or tuple of length two) where "
            f"the first element represents the primal output ({meaning}, but instead the {short} output's first "
            f"element had {what}:\n    {_types_text(tree, avals)}\nwhile the custom_{self.custom.kind}-decorated "
            f"function {self.custom.name} had output {what}:\n    {_types_text(own_tree, own_avals)}."
        )

    def result(self, outs: Sequence[Any]) -> Any:
        """Rebuild the user's output tree from the results of ``bind``."""
        assert self.out_tree is not None
        return tree_unflatten(self.out_tree, outs)


def same_type(a: ShapedArray, b: ShapedArray) -> bool:
    return a is b or (a.shape == b.shape and a.dtype == b.dtype and same_sharding(a, b))


def _types_text(tree: PyTreeDef, avals: Sequence[Any]) -> str:
    return str(tree_unflatten(tree, [str(a) for a in avals])).replace("'", "")
