"""``custom_vjp``: a function with a user-defined forward and backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.api.custom_derivatives import CustomCall, CustomFunction, SymbolicZero, evaluating, rule_zero, same_type
from minijax.api.flat import avals_of, check_callable, describe, fun_name, to_value
from minijax.core import dtypes
from minijax.core.array import as_value, get_aval
from minijax.core.avals import ShapedArray, same_sharding
from minijax.core.records import NamedTuple
from minijax.core.trace import Tracer, state
from minijax.errors import UnexpectedTracerError
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


class CustomVJPPrimal:
    """An input of a forward rule with ``symbolic_zeros=True``: its value, and whether it is differentiated."""

    __slots__ = ("value", "perturbed")

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value = value
        self.perturbed = perturbed

    def __repr__(self) -> str:
        return f"CustomVJPPrimal(value={self.value!r}, perturbed={self.perturbed!r})"


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """Replace each leaf of ``tree``, a ``CustomVJPPrimal``, by its value. TypeError for other leaves."""

    def value(leaf: Any) -> Any:
        if type(leaf) is not CustomVJPPrimal:
            raise TypeError(f"unexpected leaf type {type(leaf)}")
        return leaf.value

    return tree_map(value, tree)


class custom_vjp(CustomFunction):
    """A decorator that gives a function of pytrees of arrays its own forward and backward pass for reverse mode.

    ``defvjp(fwd, bwd)`` sets the two passes. ``fwd(*args)`` returns ``(output, residuals)``; the residuals, a pytree of
    arrays, are passed on to ``bwd``. ``bwd(residuals, ct)`` gets a cotangent with the tree, shapes and dtypes of the
    output. It returns a tuple with one cotangent per argument; None means zeros.
    ``nondiff_argnums``, ``nondiff_argnames``: arguments that are no arrays; ``bwd`` gets them before the residuals.
    Raises, when called: AttributeError without the passes; TypeError for arguments or results that do not fit, and in
    forward mode; UnexpectedTracerError if a nondifferentiable argument is traced, or ``fun`` closes over a
    differentiated value (``CustomVJPException`` if ``fun`` was staged first).

    >>> clipped = custom_vjp(lambda x: 5. * x)
    >>> clipped.defvjp(lambda x: (5. * x, None), lambda _, ct: (jnp.clip(5. * ct, -1., 1.),))
    >>> grad(clipped)(3.)
    Array(1., dtype=float32, weak_type=True)
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

        ``fwd(*args)`` returns ``(out, residuals)``; the residuals are any pytree of arrays. ``bwd(*nondiff_args,
        residuals, cotangents_of_out)`` returns a tuple of cotangents of the differentiable arguments, None for zero.
        With ``symbolic_zeros``, ``fwd`` gets ``CustomVJPPrimal``s and ``bwd`` gets ``SymbolicZero``s.
        ``optimize_remat`` has no effect. NotImplementedError if it is set together with ``symbolic_zeros``.
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
        if evaluating():
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
    """What a forward pass hands to its backward pass: the number of residuals, two trees, and the result types."""

    n_res: int
    res_tree: PyTreeDef
    out_tree: PyTreeDef
    out_avals: list[Any]


class _VJPCall(CustomCall):
    def run_forward(self, perturbed: Sequence[bool] | None, *leaves: Any) -> tuple[list[Any], ForwardSide]:
        """Run the forward pass. Return residuals and results in one list, and the ``ForwardSide``."""
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
        return [*map(as_value, residuals), *map(as_value, outs)], ForwardSide(len(residuals), res_tree, tree, avals)

    def run_backward(self, side: tuple[ForwardSide, Sequence[bool]], *values: Any) -> tuple[list[Any], Any]:
        """Run the backward pass. Return the nonzero input cotangents, and which input cotangents are zero."""
        custom: Any = self.custom
        forward, is_zero = side
        given = iter(values[forward.n_res :])
        cts = [
            rule_zero(aval.to_tangent_aval(), custom.symbolic_zeros) if zero else next(given)
            for aval, zero in zip(forward.out_avals, is_zero, strict=True)
        ]
        residuals = tree_unflatten(forward.res_tree, values[: forward.n_res])
        found = custom.bwd(*self.static.values(), residuals, tree_unflatten(forward.out_tree, cts))
        all_cts = self._spread(found)
        checked = [self._checked(i, ct, a) for i, (ct, a) in enumerate(zip(all_cts, self.in_avals, strict=True))]
        return [ct for ct in checked if ct is not None], tuple(ct is None for ct in checked)

    def _spread(self, found: Any) -> list[Any]:
        """Flatten ``found``, which the backward pass returned, to one cotangent or None for each input leaf."""
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
        """``ct`` as an array, or None if it is zero. ValueError if it does not fit an input of type ``aval``."""
        expected = aval.to_cotangent_aval()
        if ct is None or expected.dtype == dtypes.float0:
            return None
        found = get_aval(ct)
        custom: Any = self.custom
        if type(ct) is SymbolicZero:
            if not same_type(expected, found):
                raise ValueError(
                    "Custom VJP bwd rule produced a SymbolicZero with a shape/dtype that does not match the "
                    f"corresponding input tangent shape/dtype: at output{self._path(i)} the SymbolicZero had shape/"
                    f"dtype {found} while the corresponding input had shape/dtype {aval}. Consider just returning a "
                    "None here instead of a SymbolicZero object."
                )
            return None
        # like JAX, accept another dtype if the shape fits
        wrong = "" if found.shape == expected.shape else "shapes do not match."
        if not wrong and not same_sharding(found, expected):
            wrong = "shardings do not match. Change the sharding of the output with sharding.reshard."
        if wrong:
            raise ValueError(
                "Custom VJP bwd rule must produce an output with the same type as the args tuple of the primal "
                f"function, but at output{self._path(i)} the bwd rule produced an output of type {found} corresponding "
                f"to an input of type {aval}, so the {wrong}\nThe rule is {describe(custom.bwd)}."
            )
        return to_value(ct)

    def _path(self, i: int) -> str:
        """The location of the ``i``-th input leaf, for errors."""
        numbered = tree_unflatten(self.in_tree, range(self.in_tree.num_leaves))
        return keystr(tree_flatten_with_path(numbered)[0][i][0])
