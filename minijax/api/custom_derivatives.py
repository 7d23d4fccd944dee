"""``custom_jvp`` and ``custom_vjp``: functions with derivative rules of the user's, and what helps to write them.

Source: https://docs.jax.dev/en/latest/notebooks/Custom_derivative_rules_for_Python_code.html
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.api.flat import (
    avals_of,
    check_args,
    check_callable,
    describe,
    fun_name,
    int_or_ints,
    named_like,
    to_value,
)
from minijax.core import dtypes, observe
from minijax.core.array import Array, get_aval
from minijax.core.avals import HasAval, ShapedArray
from minijax.core.named import NamedTuple
from minijax.core.primitive import Primitive
from minijax.core.structural import add_tangents, zeros
from minijax.core.trace import Tracer, state
from minijax.errors import UnexpectedTracerError
from minijax.ops.convert import stop_gradient
from minijax.ops.custom_derivatives import About, Written
from minijax.ops.custom_jvp import custom_jvp_call_p
from minijax.ops.custom_vjp import custom_vjp_call_p
from minijax.pytree import (
    PyTreeDef,
    keystr,
    prefix_leaves,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
    treedef_children,
)

# ------------------------------------------------------------------------------------------------ zeros


class SymbolicZero(HasAval):
    """A (co)tangent that is known to be zero, as rules with ``symbolic_zeros=True`` see it; has its type, no value."""

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


class CustomVJPPrimal:
    """An input as a forward rule with ``symbolic_zeros=True`` sees it: its value, and whether it is differentiated."""

    __slots__ = ("value", "perturbed")

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value = value
        self.perturbed = perturbed

    def __repr__(self) -> str:
        return f"CustomVJPPrimal(value={self.value!r}, perturbed={self.perturbed!r})"


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """``tree`` with each leaf, a ``CustomVJPPrimal``, replaced by its value. TypeError for other leaves."""

    def value(leaf: Any) -> Any:
        if type(leaf) is not CustomVJPPrimal:
            raise TypeError(f"unexpected leaf type {type(leaf)}")
        return leaf.value

    return tree_map(value, tree)


# ------------------------------------------------------------------------------------------------ arguments


class Signature(NamedTuple):
    """How a function takes its arguments: ``n`` positional ones, exactly and nothing else, if ``plain``."""

    signature: inspect.Signature | None
    plain: bool
    n: int


def _signature(fun: Callable[..., Any]) -> Signature:
    if isinstance(fun, functools.partial):  # what it has bound is not ours to reorder
        return Signature(None, False, 0)
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        return Signature(None, False, 0)
    kinds = [p.kind for p in signature.parameters.values()]
    plain = all(k in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for k in kinds)
    return Signature(signature, plain, len(kinds))


class _Custom:
    """What ``custom_jvp`` and ``custom_vjp`` have in common: the function, its signature, ``nondiff_argnums``."""

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
        """All arguments by position, defaults filled in. TypeError if that cannot be."""
        signature, plain, n = self._signature
        if not kwargs and ((plain and len(args) == n) or signature is None):
            return args
        try:
            if signature is None:
                raise TypeError(
                    f"The following keyword arguments could not be resolved to positions: {', '.join(kwargs)}"
                )
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
        """The function where nothing is transformed, staged or watched: a call as any other (a third of the time)."""
        try:
            args = tuple(
                a if isinstance(a, Array) or i in static else tree_map(to_value, a) for i, a in enumerate(args)
            )
        except TypeError:
            self.refuse(args, static)
            raise
        out = self.fun(*args)
        if not isinstance(out, Array):
            avals_of(tree_leaves(out))  # TypeError for what is no array
        return out

    def refuse(self, args: tuple[Any, ...], static: Sequence[int]) -> None:
        """TypeError, naming the parameter, if a leaf of the differentiable ones among ``args`` is no array."""
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


def _evaluating() -> bool:
    return len(state.stack) == 1 and not observe.bind_watched


class _Call:
    """One call of a custom function: its trees, and its functions made flat.

    ``static`` are the positions of nondifferentiable arguments. Of the others only types are kept: a backward pass
    keeps this object, and must not keep more than the residuals.
    """

    def __init__(self, custom: _Custom, primitive: Primitive, args: tuple[Any, ...], static: Sequence[int]) -> None:
        self.custom = custom
        self.primitive = primitive
        self.static = {i: args[i] for i in static}
        leaves, self.in_tree = tree_flatten(tuple(a for i, a in enumerate(args) if i not in self.static))
        try:
            self.in_avals = avals_of(leaves)
        except TypeError:
            custom.refuse(args, static)
            raise
        # of the function itself, once it has run: its tree and types
        self.found: tuple[PyTreeDef, list[Any]] | None = None
        # of whatever ran first
        self.out_tree: PyTreeDef | None = None

    def dynamic(self, args: tuple[Any, ...]) -> list[Any]:
        """The leaves of the differentiable ones among ``args``, as arrays."""
        return [to_value(x) for i, a in enumerate(args) if i not in self.static for x in tree_leaves(a)]

    def arguments(self, leaves: Sequence[Any]) -> list[Any]:
        """The arguments by position, the static ones among them."""
        dynamic = tree_unflatten(self.in_tree, leaves)
        if not self.static:
            return dynamic
        given = iter(dynamic)
        n = len(dynamic) + len(self.static)
        return [self.static[i] if i in self.static else next(given) for i in range(n)]

    def written(self, run: Callable[..., Any], of: Callable[..., Any], label: str, rule: bool = True) -> Written:
        """``run`` as a ``Function``; ``of`` is the user's."""
        about = About(fun_name(of), describe(of), label)
        return Written(run, about, self.primitive, of if rule else None)

    def function(self) -> Written:
        """The function itself."""
        return self.written(self._run_function, self.custom.fun, f"custom_{self.custom.kind}", rule=False)

    def _run_function(self, side: None, *leaves: Any) -> tuple[list[Any], None]:
        outs, tree = tree_flatten(self.custom.fun(*self.arguments(leaves)))
        self.found = tree, avals_of(outs)
        self.out_tree = tree
        return outs, None

    def check_primal(self, tree: PyTreeDef, avals: Sequence[Any], rule: str, meaning: str, short: str) -> None:
        """TypeError if what a rule gives as the primal output is not of the function's tree or types.

        ``rule`` and ``short`` name the rule; ``meaning`` says what the pair that it returns must be.
        """
        if self.out_tree is None:
            self.out_tree = tree
        if self.found is None:
            return
        own_tree, own_avals = self.found
        if tree != own_tree:
            what = "container/pytree structure"
        elif not all(map(_same_type, avals, own_avals)):
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
        """The outputs of ``bind`` as the user's tree."""
        assert self.out_tree is not None
        return tree_unflatten(self.out_tree, outs)


def _same_type(a: ShapedArray, b: ShapedArray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype


def _types_text(tree: PyTreeDef, avals: Sequence[Any]) -> str:
    return str(tree_unflatten(tree, [str(a) for a in avals])).replace("'", "")


# ------------------------------------------------------------------------------------------------ custom_jvp


class custom_jvp(_Custom):
    """A function whose forward-mode derivative (and through it the reverse-mode one) is given by a rule.

    Used as a decorator; ``defjvp`` or ``defjvps`` gives the rule.

    Args:
      fun: a function of pytrees of arrays, by position (defaults are filled in, keywords resolved).
      nondiff_argnums, nondiff_argnames: arguments passed to the rule first, as they are, and not differentiated.

    Raises, when called: AttributeError without a rule; TypeError for arguments that do not fit the signature, and when
    differentiated for a rule whose results do not fit. UnexpectedTracerError if ``fun`` or the rule closes over what is
    differentiated.
    """

    kind = "jvp"
    jvp: Callable[..., Any] | None = None
    symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule ``jvp(*nondiff_args, primals, tangents) -> (primals_out, tangents_out)``; returns it.

        ``primals`` and ``tangents`` are tuples of the differentiable arguments and of their tangents, of the same
        trees, shapes and dtypes (float0 for integers). Tangents that are zero are arrays of zeros, or ``SymbolicZero``s
        with ``symbolic_zeros``.
        """
        check_callable(jvp)
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set the rule by one function per argument, ``rule(tangent, primals_out, *primals)``: what it contributes.

        None stands for an argument that contributes nothing. TypeError together with ``nondiff_argnums``.
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
        if _evaluating():
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


class _JVPCall(_Call):
    """A call of a ``custom_jvp`` function."""

    def run_rule(self, is_zero: Sequence[bool], *values: Any) -> tuple[list[Any], tuple[bool, ...]]:
        """The rule, on primals and those tangents that are not marked as zero on the side."""
        custom: Any = self.custom
        n = len(is_zero)
        primals, given = values[:n], iter(values[n:])
        tangents = [
            _told_zero(get_aval(x).to_tangent_aval(), custom.symbolic_zeros) if zero else next(given)
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
        return [*map(to_value, outs), *nonzero], zeros_out


def _told_zero(aval: ShapedArray, symbolic: bool) -> Any:
    """A (co)tangent that is zero, as a rule is told of it; without ``symbolic`` that of an integer, of type float0."""
    return SymbolicZero(aval) if symbolic else np.zeros(aval.shape, dtypes.float0)


def _is_zero(t: Any) -> bool:
    return type(t) is SymbolicZero or get_aval(t).dtype == dtypes.float0


def _check_tangents(primals: Sequence[ShapedArray], tangents: Sequence[ShapedArray], where: str) -> None:
    expected = [a.to_tangent_aval() for a in primals]
    if all(map(_same_type, expected, tangents)):
        return
    message = "Custom JVP rule must produce primal and tangent outputs with corresponding shapes and dtypes"
    if len(expected) == 1:
        types = f"Expected {expected[0]} (tangent type of {primals[0]}) but got {tangents[0]}."
        raise TypeError(f"{message}. {types}\n{where}")
    wrong = [
        f"  primal {p} with tangent {t}, expecting tangent {e}"
        for p, t, e in zip(primals, tangents, expected, strict=True)
        if not _same_type(e, t)
    ]
    raise TypeError(f"{message}, but got:\n" + "\n".join([*wrong, where]))


# ------------------------------------------------------------------------------------------------ custom_vjp


class custom_vjp(_Custom):
    """A function whose reverse-mode derivative is given by a forward and a backward pass; it has no forward mode.

    Used as a decorator; ``defvjp`` gives the passes.

    Args:
      fun: a function of pytrees of arrays, by position (defaults are filled in, keywords resolved).
      nondiff_argnums, nondiff_argnames: arguments that are no arrays (functions, say), passed to the backward pass
        first.

    Raises, when called: AttributeError without the passes; TypeError for arguments that do not fit the signature, in
    forward mode, and for passes whose results do not fit (ValueError for a type of a cotangent).
    UnexpectedTracerError if a nondifferentiable argument is traced, or ``fun`` closes over what is differentiated
    (where it was staged first: ``CustomVJPException``).
    """

    kind = "vjp"
    fwd: Callable[..., Any] | None = None
    bwd: Callable[..., Any] | None = None
    symbolic_zeros = False
    optimize_remat = False

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the two passes.

        Args:
          fwd: ``fwd(*args) -> (out, residuals)``, with the arguments of the function, and its output first; the
            residuals are any pytree of arrays.
          bwd: ``bwd(*nondiff_args, residuals, cotangents_of_out) -> cotangents``, a tuple with one for each
            differentiable argument: of its tree, shapes and dtypes, or None for zero.
          symbolic_zeros: ``fwd`` gets ``CustomVJPPrimal``s as leaves, ``bwd`` gets ``SymbolicZero``s for zeros.
          optimize_remat: accepted for JAX's sake: it changes what JAX compiles under ``checkpoint``, not the result.

        Raises NotImplementedError for ``symbolic_zeros`` and ``optimize_remat`` together.
        """
        check_callable(fwd)
        check_callable(bwd)
        if symbolic_zeros and optimize_remat:
            raise NotImplementedError("remat optimization for custom_vjp does not support symbolic zeros")
        self.fwd = fwd
        self.bwd = bwd
        self.symbolic_zeros = symbolic_zeros
        self.optimize_remat = optimize_remat

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fwd, bwd = self.fwd, self.bwd
        if fwd is None or bwd is None:
            raise AttributeError(f"No VJP defined for custom_vjp function {self.name} using defvjp.")
        args = self._resolve(args, kwargs)
        static: Sequence[int] = ()
        if self.nondiff_argnums:
            static = self._static(args)
            for i in static:
                _refuse_tracers(args[i])
        if _evaluating():
            return self._evaluate(args, static)
        call = _VJPCall(self, custom_vjp_call_p, args, static)
        outs = custom_vjp_call_p.bind(
            *call.dynamic(args),
            fun=call.function(),
            fwd=call.written(call.run_forward, fwd, "custom_vjp fwd"),
            bwd=call.written(call.run_backward, bwd, "custom_vjp bwd"),
            symbolic_zeros=self.symbolic_zeros,
            level=len(state.stack),
        )
        return call.result(outs)


def _refuse_tracers(arg: Any) -> None:
    if any(isinstance(x, Tracer) for x in tree_leaves(arg)):
        raise UnexpectedTracerError(
            "Found a JAX Tracer object passed as an argument to a custom_vjp function in a position indicated by "
            "nondiff_argnums as non-differentiable. Tracers cannot be passed as non-differentiable arguments to "
            "custom_vjp functions; instead, nondiff_argnums should only be used for arguments that can't be or contain "
            "JAX tracers, e.g. function-valued arguments. In particular, array-valued arguments should typically not "
            "be indicated as nondiff_argnums."
        )


class ForwardSide(NamedTuple):
    """What a forward pass tells its backward pass: trees, and the types of the results."""

    n_res: int
    res_tree: PyTreeDef
    out_tree: PyTreeDef
    out_avals: list[Any]


class _VJPCall(_Call):
    """A call of a ``custom_vjp`` function."""

    def run_forward(self, perturbed: Sequence[bool] | None, *leaves: Any) -> tuple[list[Any], ForwardSide]:
        """The forward pass: residuals and results."""
        custom: Any = self.custom
        if perturbed is None:
            given: Sequence[Any] = leaves
        else:
            given = [CustomVJPPrimal(x, p) for x, p in zip(leaves, perturbed, strict=True)]
        pair = custom.fwd(*self.arguments(given))
        name = fun_name(custom.fwd)
        of_pair = (
            f"equal to the output of the custom_vjp-decorated function {custom.name}) and the second element "
            "represents residuals (i.e. values stored from the forward pass for use on the backward pass)"
        )
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(
                f"Custom VJP fwd rule {name} for function {custom.name} must produce a pair (list or tuple of length "
                f"two) where the first element represents the primal output ({of_pair}, but instead of a pair the fwd "
                f"rule {name} produced {pair}.\nThe rule is {describe(custom.fwd)}."
            )
        outs, tree = tree_flatten(pair[0])
        residuals, res_tree = tree_flatten(pair[1])
        avals = avals_of(outs)
        self.check_primal(tree, avals, f"VJP fwd rule {name}", of_pair, "fwd rule")
        return [*map(to_value, residuals), *map(to_value, outs)], ForwardSide(len(residuals), res_tree, tree, avals)

    def run_backward(self, side: tuple[ForwardSide, Sequence[bool]], *values: Any) -> tuple[list[Any], Any]:
        """The backward pass: the cotangents of the inputs that are not zero, and which are."""
        custom: Any = self.custom
        forward, is_zero = side
        given = iter(values[forward.n_res :])
        cts = [
            _told_zero(aval.to_tangent_aval(), custom.symbolic_zeros) if zero else next(given)
            for aval, zero in zip(forward.out_avals, is_zero, strict=True)
        ]
        residuals = tree_unflatten(forward.res_tree, values[: forward.n_res])
        found = custom.bwd(*self.static.values(), residuals, tree_unflatten(forward.out_tree, cts))
        all_cts = self._spread(found)
        checked = [self._checked(i, ct, a) for i, (ct, a) in enumerate(zip(all_cts, self.in_avals, strict=True))]
        return [ct for ct in checked if ct is not None], tuple(ct is None for ct in checked)

    def _spread(self, found: Any) -> list[Any]:
        """One cotangent, or None, for each input leaf."""
        custom: Any = self.custom
        if isinstance(found, list) and len(found) == len(treedef_children(self.in_tree)):
            found = tuple(found)
        try:
            if isinstance(found, tuple):
                return prefix_leaves(found, self.in_tree, name="bwd output")
        except ValueError:
            pass
        raise TypeError(
            "Custom VJP bwd rule must produce an output with the same container (pytree) structure as the args tuple "
            "of the primal function, and in particular must produce a tuple of length equal to the number of arguments "
            f"to the primal function, but got bwd output structure {tree_structure(found)} for primal input structure "
            f"{self.in_tree}.\nThe rule is {describe(custom.bwd)}."
        ) from None

    def _checked(self, i: int, ct: Any, aval: ShapedArray) -> Any:
        """``ct`` as an array, None if it is zero. ValueError if its type is not right for an input of type ``aval``."""
        expected = aval.to_tangent_aval()
        if ct is None or expected.dtype == dtypes.float0:
            return None
        found = get_aval(ct)
        custom: Any = self.custom
        if type(ct) is SymbolicZero:
            if not _same_type(expected, found):
                raise ValueError(
                    "Custom VJP bwd rule produced a SymbolicZero with a shape/dtype that does not match the "
                    f"corresponding input tangent shape/dtype: at output{self._path(i)} the SymbolicZero had shape/"
                    f"dtype {found} while the corresponding input had shape/dtype {aval}. Consider just returning a "
                    "None here instead of a SymbolicZero object."
                )
            return None
        # like JAX, another dtype passes where the shape is right
        if found.shape != expected.shape:
            raise ValueError(
                "Custom VJP bwd rule must produce an output with the same type as the args tuple of the primal "
                f"function, but at output{self._path(i)} the bwd rule produced an output of type {found} corresponding "
                f"to an input of type {aval}, so the shapes do not match.\nThe rule is {describe(custom.bwd)}."
            )
        return to_value(ct)

    def _path(self, i: int) -> str:
        """Where the ``i``-th input leaf is, for errors."""
        numbered = tree_unflatten(self.in_tree, range(self.in_tree.num_leaves))
        return keystr(tree_flatten_with_path(numbered)[0][i][0])
