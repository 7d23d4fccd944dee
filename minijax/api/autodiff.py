"""Differentiation: jvp, linearize, vjp, linear_transpose and grad.

Reverse mode has three steps. Forward mode gives each value a tangent. Partial evaluation computes the values, and
records the operations on tangents as a linear program. Transposition runs that program backwards. ``linearize`` takes
the first two steps; ``vjp`` and ``grad`` take all three.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minijax.api.flat import (
    FlatFun,
    avals_of,
    check_args,
    check_callable,
    describe,
    int_or_ints,
    positions,
    to_value,
    wraps,
)
from minijax.config import direct_linearize_enabled
from minijax.core import avals as types
from minijax.core import dtypes, lazy, observe
from minijax.core.array import Array, LiteralArray, as_array, get_aval, is_array_like, is_foreign, retyped
from minijax.core.avals import (
    AnyArray,
    ShapedArray,
    cotangent_type,
    dtype_name,
    over_mesh_of,
    same_sharding,
    sharded_if_free,
    sharded_to,
)
from minijax.core.lists import split_list
from minijax.core.shape_structs import stood_in
from minijax.core.structural import UndefinedPrimal, Zero, instantiate_zeros, zero_of, zeros
from minijax.core.trace import under
from minijax.core.varying import pvary
from minijax.interpreters.jvp import DualTracer, JVPTrace, JVPTracer
from minijax.interpreters.jvp import jvp as jvp_flat
from minijax.interpreters.partial_eval import LinearProgram, PartialEvalTrace
from minijax.interpreters.stage import stage
from minijax.interpreters.transpose import backward_pass_closed, transpose_program
from minijax.ir.evaluate import eval_jaxpr
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr
from minijax.pytree import (
    LEAF,
    Partial,
    explain_tree_diff,
    flatten_call,
    register_pytree_node,
    tree_flatten,
    tree_map,
    tree_of_leaves,
    tree_structure,
    tree_unflatten,
)

if TYPE_CHECKING:
    from minijax.interpreters.tape import Tape

__all__ = ["grad", "jvp", "linear_transpose", "linearize", "value_and_grad", "vjp"]


def jvp(fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """The value of ``fun`` at ``primals`` and its derivative along ``tangents`` (forward mode).

    ``primals`` and ``tangents`` are tuples or lists of pytrees of equal structure, shapes and dtypes. Tangents of
    integers have dtype float0. Returns ``(primals_out, tangents_out)``, which have the tree, shapes and dtypes of
    ``fun``'s output. With ``has_aux``, ``fun`` returns ``(output, aux)``, and the auxiliary data is the third result.
    ``fun`` runs once. TypeError if trees or dtypes do not fit, ValueError if shapes do not fit.

    >>> jvp(jnp.sin, (0.,), (2.,))
    (Array(0., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    check_callable(fun)
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            "primal and tangent arguments to jvp must be tuples or lists; "
            f"found {type(primals).__name__} and {type(tangents).__name__}. For one argument write jvp(f, (x,), (dx,))."
        )
    leaves, in_tree = flatten_call(tuple(primals), {})
    tangent_leaves, tangent_tree = flatten_call(tuple(tangents), {})
    if in_tree != tangent_tree or isinstance(primals, list) != isinstance(tangents, list):
        raise TypeError(
            "primal and tangent arguments to jvp must have the same tree structure; primals have tree structure "
            f"{tree_structure(primals)} whereas tangents have tree structure {tree_structure(tangents)}."
        )
    leaves = check_args(leaves, "jvp", fun, in_tree)
    name = describe(fun)
    flat = FlatFun(fun, in_tree, "jvp", has_aux, name)
    seeds = [check_tangent(p, t) for p, t in zip(leaves, tangent_leaves, strict=True)]
    outs, tangents_out = jvp_flat(flat, leaves, seeds, name)
    value = flat.out_tree.unflatten(outs)
    tangent = flat.out_tree.unflatten([instantiate_zeros(t) if type(t) is Zero else t for t in tangents_out])
    return (value, tangent, lower_aux(flat.aux)) if has_aux else (value, tangent)


def lower_aux(aux: Any) -> Any:
    """Replace the tracers of ended transformations in auxiliary data by their primal values."""

    def primal(x: Any) -> Any:
        while isinstance(x, DualTracer) and not x._trace.main.alive:
            x = x.primal
        return x

    return tree_map(primal, aux)


def check_tangent(primal: Any, tangent: Any) -> Any:
    """Return ``tangent`` as jvp needs it: a symbolic zero for an integer primal. Raise if shape or dtype is wrong."""
    aval = get_aval(primal)
    expected = aval.to_tangent_aval()
    if isinstance(tangent, np.ndarray) and tangent.dtype == dtypes.float0:
        found = ShapedArray(tangent.shape, dtypes.float0)
    else:
        found = get_aval(tangent)
    if found.dtype != expected.dtype:
        raise TypeError(
            "primal and tangent arguments to jvp do not match; dtypes must be equal, or in case of int/bool primal "
            f"dtype the tangent dtype must be float0. Got primal dtype {dtype_name(aval.dtype)} and so expected "
            f"tangent dtype {dtype_name(expected.dtype)}, but got tangent dtype {dtype_name(found.dtype)} instead."
        )
    if found.shape != aval.shape:
        raise ValueError(
            f"jvp called with different primal and tangent shapes; got primal shape {aval.shape} and tangent shape as "
            f"{found.shape}."
        )
    if expected.dtype == dtypes.float0:
        return zero_of(aval)
    return as_weak_as(aval, to_value(tangent))


def as_weak_as(aval: ShapedArray, tangent: Any) -> Any:
    """Make ``tangent`` weakly typed if ``aval`` is weakly typed, as JAX's jitted numpy functions do."""
    if aval.weak_type and isinstance(tangent, Array) and not tangent.aval.weak_type:
        return retyped(tangent, tangent.aval.update(weak_type=True))
    return tangent


def linearize_flat(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], wrt: Sequence[bool], name: str = "", lines: bool = True
) -> tuple[list[Any], LinearProgram | Tape]:
    """The outputs of flat ``fun``, and its linear program in the inputs that ``wrt`` flags. ``lines``: keep source
    lines."""

    def linearized(pe_main: Any) -> tuple[list[Any], LinearProgram]:
        pe = pe_main.trace
        unknowns = []

        def push_forward(jvp_main: Any) -> list[tuple[Any, Any]]:
            trace = jvp_main.trace
            ins = []
            for x, active in zip(primals, wrt, strict=True):
                aval = get_aval(x)
                if active and dtypes.is_inexact(aval.dtype):
                    tangent = pe.new_unknown(aval)
                    unknowns.append(tangent)
                    ins.append(JVPTracer(trace, x, tangent))
                else:
                    ins.append(x)
            return [trace.split(out) for out in fun(*ins)]

        pairs = under(JVPTrace, "jvp", push_forward, None, name)
        outs = [t if type(t) is Zero else pe.atom(t) for _, t in pairs]
        return [p for p, _ in pairs], LinearProgram([t.variable for t in unknowns], pe.eqns, outs, name)

    program: LinearProgram | Tape
    with observe.timed("linearize", name):
        if direct_linearize_enabled():
            primals_out, program = _linearize_on_tape()(fun, primals, wrt, name, lines)
        else:
            primals_out, program = under(PartialEvalTrace, "partial_eval", linearized, [], name)
    if observe.on_jaxpr:
        observe.emit(observe.on_jaxpr, "linear", program.closed(), name)
    return primals_out, program


@functools.cache
def _linearize_on_tape() -> Callable[..., tuple[list[Any], Tape]]:
    """Import the single-pass interpreter on first use."""
    found: Callable[..., tuple[list[Any], Tape]] = lazy.public("minijax.interpreters.linearize", "linearize")
    return found


def linearizer() -> Callable[..., tuple[list[Any], LinearProgram | Tape]]:
    """Return the single-pass linearizer, or ``linearize_flat`` while observers are subscribed."""
    if observe.on_phase or observe.on_jaxpr or not direct_linearize_enabled():
        return linearize_flat
    return _linearize_on_tape()


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return ``fun``'s value at ``primals`` and its linear approximation there, a function of tangents.

    ``fun`` runs once; each call of the linear function computes only the derivative. Tangents must have the
    structure, shapes and dtypes of ``primals``; other tangents raise TypeError or ValueError. Returns ``(value,
    linear)``, or ``(value, linear, aux)`` with ``has_aux``. The output of ``linear`` has the tree, shapes and dtypes of
    ``value``.
    """
    check_callable(fun)
    leaves, in_tree = flatten_call(primals, {})
    leaves = check_args(leaves, "linearize", fun, in_tree)
    name = describe(fun)
    flat = FlatFun(fun, in_tree, "linearize", has_aux, name)
    outs, program = linearizer()(flat, leaves, [True] * len(leaves), name)
    linear = linear_function(program, avals_of(leaves), in_tree, avals_of(outs), flat.out_tree)
    value = tree_unflatten(flat.out_tree, outs)
    return (value, linear, lower_aux(flat.aux)) if has_aux else (value, linear)


class _LinearMap:
    """A linear function of trees of tangents. It knows the types and trees of the primals and of the value."""

    __name__ = "linear"

    def __init__(
        self, name: str, avals: Sequence[ShapedArray], in_tree: Any, out_avals: Sequence[ShapedArray], out_tree: Any
    ) -> None:
        self.name = name
        self.avals = avals
        self.in_tree = in_tree
        self.out_avals = out_avals
        self.out_tree = out_tree

    def checked(self, tangents: Sequence[Any]) -> list[Any]:
        """Return the leaves of ``tangents`` whose primals are inexact. TypeError or ValueError if one does not fit."""
        tangent_leaves, tangent_tree = flatten_call(tuple(tangents), {})
        if tangent_tree != self.in_tree:
            raise TypeError(
                "linearized function: the tangents must have the structure of the primals.\n"
                + explain_tree_diff(self.in_tree, tangent_tree, "the primals", "the tangents")
            )
        active = []
        for aval, t in zip(self.avals, tangent_leaves, strict=True):
            t = sharded_if_free(t, aval)
            found = get_aval(t)
            if dtypes.is_inexact(aval.dtype):
                if (found.shape, found.dtype) != (aval.shape, aval.dtype) or not same_sharding(found, aval):
                    raise ValueError(
                        f"linearized function called on tangent values inconsistent with the original primal values: "
                        f"got tangent aval {found} for primal aval {aval}."
                    )
                active.append(to_value(t))
        return active

    def whole(self, tangents_out: Sequence[Any]) -> Any:
        """Build the tree of output tangents; None in ``tangents_out`` means zero."""
        return tree_unflatten(
            self.out_tree,
            [
                zeros(aval.to_tangent_aval()) if t is None else t
                for t, aval in zip(tangents_out, self.out_avals, strict=True)
            ],
        )

    def __repr__(self) -> str:
        return f"linear({self.name or 'a function'})"


class _Linear(_LinearMap):
    """A linear function of residuals and tangents, the static part of a ``Linearized``. It equals only itself."""

    def __init__(self, jaxpr: Jaxpr, outs: Sequence[Any], *about: Any) -> None:
        super().__init__(jaxpr.debug_name, *about)
        self.jaxpr = jaxpr
        self.zero_out = [type(v) is Zero for v in outs]

    def __call__(self, *args: Any) -> Any:
        consts, tangents = split_list(args, len(self.jaxpr.constvars))
        found = iter(eval_jaxpr(self.jaxpr, consts, *self.checked(tangents)))
        return self.whole([None if zero else next(found) for zero in self.zero_out])


class _LinearTape(_LinearMap):
    """A linear function that runs on its tape; the jaxpr is built on demand."""

    def __init__(self, tape: Tape, *about: Any) -> None:
        super().__init__(tape.name, *about)
        self.tape = tape

    def __call__(self, *tangents: Any) -> Any:
        found = self.tape.push_forward(self.checked(tangents))
        if found is not None:
            return self.whole(found)
        linear, consts = self.taken_apart
        return linear(*consts, *tangents)

    @functools.cached_property
    def taken_apart(self) -> tuple[_Linear, tuple[Any, ...]]:
        """Return the ``_Linear``, a function of residuals and tangents, and the residuals."""
        program = self.tape.program()
        closed = program.closed()
        about = self.avals, self.in_tree, self.out_avals, self.out_tree
        return _Linear(closed.jaxpr, program.outs, *about), tuple(closed.consts)


class Linearized(Partial):
    """The linear function that ``linearize`` returns: a pytree whose leaves are its residuals."""

    @property
    def func(self) -> Any:  # type: ignore[override]
        """The function of residuals and tangents."""
        held = functools.partial.func.__get__(self)  # type: ignore[attr-defined]
        return held.taken_apart[0] if type(held) is _LinearTape else held

    @property
    def args(self) -> tuple[Any, ...]:  # type: ignore[override]
        """The residuals."""
        held = functools.partial.func.__get__(self)  # type: ignore[attr-defined]
        if type(held) is _LinearTape:
            return held.taken_apart[1]
        return functools.partial.args.__get__(self)  # type: ignore[attr-defined,no-any-return]

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program of the linear function."""
        return ClosedJaxpr(self.func.jaxpr, self.args)


register_pytree_node(Linearized, lambda f: (f.args, f.func), lambda func, consts: Linearized(func, *consts))


def linear_function(program: LinearProgram | Tape, *about: Any) -> Linearized:
    """Wrap ``program`` as a function of trees of tangents; ``about`` are the other arguments of ``_LinearMap``."""
    if not isinstance(program, LinearProgram):
        return Linearized(_LinearTape(program, *about))
    closed = program.closed()
    return Linearized(_Linear(closed.jaxpr, program.outs, *about), *closed.consts)


def one_like(aval: ShapedArray) -> Any:
    """The cotangent 1 of a scalar of type ``aval``. ValueError if the type is reduced or unreduced in ``shard_map``."""
    if aval.unreduced or aval.reduced:
        if lazy.public("minijax.core.explicit", "mesh_of_type")(aval) is None:
            raise _other_type(aval, ShapedArray((), aval.dtype))
        return sharded_to(LiteralArray(_one(aval.dtype), aval.update(sharding=None)), cotangent_type(aval))
    if aval.vma:
        return pvary(LiteralArray(aval.dtype.type(1), aval.update(vma=())), aval.vma)
    return LiteralArray(_one(aval.dtype), aval)


@functools.cache
def _one(dtype: Any) -> Any:
    """NumPy's scalar one, cached: a look-up is faster than a new scalar."""
    return dtype.type(1)


class VJP:
    """The pullback that ``vjp`` returns, a pytree of residuals. It takes a cotangent with the output's structure."""

    def __init__(
        self,
        program: LinearProgram | Tape,
        in_avals: Sequence[ShapedArray],
        in_tree: Any,
        out_avals: Any,
        out_tree: Any,
    ) -> None:
        self.program = program
        self.in_avals = in_avals
        self.in_tree = in_tree
        self.out_avals = out_avals
        self.out_tree = out_tree

    def __call__(self, cotangent: Any) -> Any:
        cts, ct_tree = tree_flatten(cotangent)
        if ct_tree != self.out_tree:
            raise ValueError(
                "unexpected tree structure of argument to vjp function: the cotangent must have the structure of "
                f"the output. Tree structure of cotangent input {ct_tree} does not match structure of primal output "
                f"{self.out_tree}.\n" + explain_tree_diff(self.out_tree, ct_tree, "the output", "the cotangent")
            )
        seeds = [_check_cotangent(aval, ct) for aval, ct in zip(self.out_avals, cts, strict=True)]
        args, _ = tree_unflatten(self.in_tree, pull_back(self.program, self.in_avals, seeds))
        return args

    @property
    def jaxpr(self) -> Any:
        """The linear program that the pullback transposes."""
        return self.program.closed()

    def __repr__(self) -> str:
        return f"VJP(of {self.program.name or 'a function'})"


class _BareVJP:
    """The tree structure of a ``VJP``, without residuals. Two structures are equal if their jaxprs are identical."""

    __slots__ = ("vjp", "jaxpr")

    def __init__(self, vjp: VJP) -> None:
        self.vjp = vjp
        self.jaxpr = vjp.jaxpr.jaxpr

    def __eq__(self, other: object) -> bool:
        return type(other) is _BareVJP and self.jaxpr is other.jaxpr

    def __hash__(self) -> int:
        return hash(self.jaxpr)

    def __repr__(self) -> str:
        return repr(self.vjp)


def _flatten_vjp(vjp: VJP) -> tuple[Sequence[Any], _BareVJP]:
    # the tree structure must not hold the residuals: they may be tracers
    program = as_program(vjp.program)
    consts = program.closed().consts
    bare = VJP(program.with_residuals([None] * len(consts)), vjp.in_avals, vjp.in_tree, vjp.out_avals, vjp.out_tree)
    return consts, _BareVJP(bare)


def _unflatten_vjp(bare: _BareVJP, consts: Sequence[Any]) -> VJP:
    vjp = bare.vjp
    return VJP(as_program(vjp.program).with_residuals(consts), vjp.in_avals, vjp.in_tree, vjp.out_avals, vjp.out_tree)


register_pytree_node(VJP, _flatten_vjp, _unflatten_vjp)


def as_program(made: LinearProgram | Tape) -> LinearProgram:
    """Convert the result of linearization to a linear program."""
    return made if isinstance(made, LinearProgram) else made.program()


def pull_back(program: LinearProgram | Tape, in_avals: Sequence[ShapedArray], cts: Sequence[Any]) -> list[Any]:
    """Transpose ``program`` at ``cts``. Return the cotangents of all inputs, with arrays for symbolic zeros."""
    began = time.perf_counter() if observe.on_phase else 0.0
    made = transpose_program(program, cts) if isinstance(program, LinearProgram) else program.transpose(cts)
    out = made
    if len(made) < len(in_avals):
        found = iter(made)
        out = [next(found) if dtypes.is_inexact(a.dtype) else zeros(a.to_tangent_aval()) for a in in_avals]
    for i, ct in enumerate(out):
        if type(ct) is Zero:
            out[i] = instantiate_zeros(zero_of(cotangent_type(in_avals[i])))
    if began:
        observe.emit(observe.on_phase, "transpose", program.name, time.perf_counter() - began)
    return out


def _check_cotangent(aval: ShapedArray, ct: Any) -> Any:
    expected = aval.to_cotangent_aval()
    if types.sharded_types_made and not (expected.unreduced or expected.reduced):
        ct = sharded_if_free(ct, expected)
    found = get_aval(ct)
    # like JAX, an integer output takes a cotangent of any dtype, and ignores it
    no_tangent = expected.dtype == dtypes.float0
    typed = no_tangent or (found.dtype == expected.dtype and same_sharding(found, expected))
    if found.shape != aval.shape or not typed:
        raise _other_type(aval, found)
    return zero_of(aval) if no_tangent else to_value(ct)


def _other_type(aval: ShapedArray, found: ShapedArray) -> ValueError:
    """The error for a cotangent of type ``found`` for a result of type ``aval``."""
    action = ""
    if aval.reduced:
        explicit = lazy.public("minijax.core.explicit", "mesh_of_type")(aval) is not None
        cast = "sharding.reshard(y, P(...))" if explicit else "lax.pcast(y, axes, to='varying')"
        action = f" Let the function return a value that is not reduced: {cast}."
    return ValueError(
        f"unexpected JAX type (e.g. shape/dtype) for argument to vjp function: got {found.str_short()}, but "
        f"expected {aval.to_cotangent_aval().str_short()} because the corresponding output of the differentiated "
        f"function had JAX type {aval.str_short()}.{action}"
    )


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return the value of ``fun`` at ``primals`` and its pullback, from output to input cotangents (reverse mode).

    Returns ``(value, pullback)``. With ``has_aux``, the auxiliary data is the third result. ``pullback(ct)`` takes one
    cotangent of the tree, shapes and dtypes of ``value``, and raises ValueError for any other. It returns a tuple with
    one cotangent per primal, of that primal's structure, shapes and dtypes. It can be called several times.

    >>> vjp(lambda x: x**2, 3.)[1](1.)
    (Array(6., dtype=float32, weak_type=True),)
    """
    check_callable(fun)
    leaves, in_tree = flatten_call(primals, {})
    leaves = check_args(leaves, "vjp", fun, in_tree)
    name = describe(fun)
    flat = FlatFun(fun, in_tree, "vjp", has_aux, name)
    outs, program = linearizer()(flat, leaves, [True] * len(leaves), name)
    pullback = VJP(program, avals_of(leaves), in_tree, avals_of(outs), flat.out_tree)
    value = tree_unflatten(flat.out_tree, outs)
    return (value, pullback, lower_aux(flat.aux)) if has_aux else (value, pullback)


def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[Any] = ()) -> Callable[[Any], Any]:
    """Transpose ``fun``, a function that is linear in ``primals``; only shapes and dtypes of ``primals`` are read.

    Returns a function from an output cotangent to a tuple of input cotangents. The output cotangent has the tree,
    shapes and dtypes of ``fun``'s output; the input cotangents have those of ``primals``. NotImplementedError or
    AssertionError if ``fun`` is not linear. TypeError unless all inputs and outputs are inexact, or all are integers.

    >>> linear_transpose(lambda x: jnp.stack([x, 2 * x]), 1.)(jnp.ones(2))
    (Array(3., dtype=float32),)
    """
    check_callable(fun)
    leaves, in_tree = tree_flatten((primals, {}))
    avals = avals_of([*map(stood_in, leaves)])
    flat = FlatFun(fun, in_tree, "linear_transpose")
    closed = stage(flat, avals, describe(fun), label="linear_transpose")
    out_tree, out_avals = flat.out_tree, closed.out_avals
    found_dtypes = [a.dtype for a in (*avals, *out_avals)]
    if not (all(map(dtypes.is_inexact, found_dtypes)) or all(map(dtypes.is_integer, found_dtypes))):
        ins, outs = [str(a) for a in avals], [str(a) for a in out_avals]
        raise TypeError(
            "linear_transpose only supports [float or complex] -> [float or complex], and integer -> integer "
            f"functions, but got {ins} -> {outs}."
        )

    def transposed(cotangent: Any) -> Any:
        cts, ct_tree = tree_flatten(cotangent)
        if ct_tree != out_tree:
            raise TypeError(f"cotangent tree does not match function output, expected {out_tree} but got {ct_tree}")
        out_types = [*map(cotangent_type, out_avals)]
        cts = [*map(sharded_if_free, cts, out_types)]
        for aval, ct in zip(out_types, cts, strict=True):
            found = get_aval(ct)
            if (found.shape, found.dtype) != (aval.shape, aval.dtype) or not same_sharding(found, aval):
                raise TypeError(f"cotangent type does not match function output, expected {aval} but got {found}")
        found_cts = backward_pass_closed(closed, [UndefinedPrimal(a) for a in avals], [to_value(ct) for ct in cts])
        pairs = zip(found_cts, map(cotangent_type, avals), strict=True)
        zeros_made = [zeros(a) if type(ct) is Zero else ct for ct, a in pairs]
        args, _ = tree_unflatten(in_tree, zeros_made)
        return args

    return transposed


def check_scalar(out: Any) -> ShapedArray:
    """Return the type of ``out``. Raise TypeError, with JAX's message, if ``out`` is not one scalar."""
    leaves, tree = tree_flatten(out)
    if len(leaves) != 1 or tree.num_nodes != 1:
        raise TypeError(
            f"Gradient only defined for scalar-output functions. Output was {out!r}. "
            "Return one scalar (for auxiliary outputs, use has_aux=True)."
        )
    return check_scalar_leaf(leaves[0])


def check_scalar_leaf(out: Any) -> ShapedArray:
    """Return the type of ``out``. Raise TypeError if it is not a scalar."""
    aval: ShapedArray = get_aval(out)
    if aval.shape:
        raise TypeError(
            f"Gradient only defined for scalar-output functions. Output had shape: {aval.shape}. "
            "Reduce it, for example with jnp.sum, or use jacrev."
        )
    return aval


def check_inputs(transform: str, avals: Sequence[ShapedArray], holomorphic: bool, allow_int: bool) -> None:
    """Raise TypeError if ``transform`` cannot differentiate with respect to an input of one of these types."""
    for aval in avals:
        if aval.dtype.kind != "f" or holomorphic:  # real inputs always pass
            _check_input(transform, aval.dtype, holomorphic, allow_int)


def _check_input(transform: str, dtype: Any, holomorphic: bool, allow_int: bool) -> None:
    if holomorphic:
        if not dtypes.is_complex(dtype):
            raise TypeError(f"{transform} with holomorphic=True requires inputs with complex dtype, but got {dtype}.")
    elif not dtypes.is_inexact(dtype) and not allow_int:
        raise TypeError(
            f"{transform} requires real- or complex-valued inputs (input dtype that is a sub-dtype of np.inexact), but "
            f"got {dtype_name(dtype)}. If you want to use Boolean- or integer-valued inputs, use vjp or set allow_int "
            "to True."
        )
    elif dtypes.is_complex(dtype) and transform == "jacfwd":
        raise TypeError(
            f"jacfwd requires real-valued inputs (input dtype that is a sub-dtype of np.floating), but got {dtype}. "
            "For holomorphic differentiation, pass holomorphic=True."
        )


def check_output(transform: str, aval: ShapedArray, holomorphic: bool) -> None:
    if aval.dtype.kind == "f" and not holomorphic:  # a real output always passes
        return
    if holomorphic:
        if not dtypes.is_complex(aval.dtype):
            raise TypeError(
                f"{transform} with holomorphic=True requires outputs with complex dtype, but got {aval.dtype}."
            )
    elif dtypes.is_complex(aval.dtype):
        raise TypeError(
            f"{transform} requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got "
            f"{aval.dtype}. For holomorphic differentiation, pass holomorphic=True. For differentiation of "
            "non-holomorphic functions involving complex outputs, use vjp directly."
        )
    elif not dtypes.is_inexact(aval.dtype):
        raise TypeError(
            f"{transform} requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got "
            f"{dtype_name(aval.dtype)}. For differentiation of functions with integer outputs, use vjp directly."
        )


def on_leaves(
    fun: Callable[..., Any], argnums: Any, args: Sequence[Any], kwargs: dict[str, Any], transform: str
) -> tuple[Callable[..., Any], list[Any], Any]:
    """Return three results: ``fun`` as a function of the leaves of arguments ``argnums``; these leaves; their tree."""
    single = not isinstance(argnums, (tuple, list))
    if len(args) == 1 and type(argnums) is int and not argnums and isinstance(args[0], AnyArray) and not kwargs:
        return fun, [args[0]], LEAF
    if type(argnums) is int and 0 <= argnums < len(args):
        chosen = [argnums]
    else:
        numbers = int_or_ints(argnums, "argnums")
        chosen = positions(numbers, len(args), "differentiating with respect to", "argnums", TypeError)
    leaves, tree = tree_flatten(args[chosen[0]] if single else tuple([args[i] for i in chosen]))
    for x in leaves:
        if not isinstance(x, AnyArray):
            if not all(map(is_array_like, leaves)):
                all_leaves, in_tree = tree_flatten((tuple(args), kwargs))
                check_args(all_leaves, transform, fun, in_tree)
            leaves = [as_array(x) if is_foreign(x) else x for x in leaves]
            break

    def fun_of_leaves(*values: Any) -> Any:
        rebuilt = tree.unflatten(values)
        full = list(args)
        for i, part in zip(chosen, (rebuilt,) if single else rebuilt, strict=True):
            full[i] = part
        return fun(*full, **kwargs)

    return fun_of_leaves, leaves, tree


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns the value of scalar-valued ``fun`` and its gradient in the arguments ``argnums``.

    Returns ``(value, gradient)``; ``((value, aux), gradient)`` with ``has_aux``. The gradient has the tree, shapes and
    dtypes of the argument (a tuple of gradients if ``argnums`` is a sequence). ``fun`` runs once per call.

    When called, it raises TypeError if the output is not a real scalar, if an input is an integer (without
    ``allow_int``), and if ``fun`` does not return a pair (with ``has_aux``).

    >>> value_and_grad(lambda x: x**2)(3.)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_callable(fun)

    @wraps(fun)
    def value_and_grad_f(*args: Any, **kwargs: Any) -> Any:
        return _value_and_grad("value_and_grad", fun, argnums, has_aux, holomorphic, allow_int, args, kwargs)

    return value_and_grad_f


def _value_and_grad(
    transform: str,
    fun: Callable[..., Any],
    argnums: Any,
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> Any:
    fun_of_leaves, leaves, tree = on_leaves(fun, argnums, args, kwargs, transform)
    avals = avals_of(leaves)
    check_inputs(transform, avals, holomorphic, allow_int)
    name = describe(fun)
    flat = FlatFun(fun_of_leaves, tree_of_leaves(len(leaves)), transform, has_aux, name)
    outs, program = linearizer()(flat, leaves, [True] * len(leaves), name, False)
    if flat.out_tree is LEAF:
        (value,) = outs
        aval = check_scalar_leaf(value)
    else:
        value = flat.out_tree.unflatten(outs)
        aval = check_scalar(value)
    if holomorphic or aval.dtype.kind != "f":  # a real output always passes
        check_output(transform, aval, holomorphic)
    seed = one_like(aval)
    if types.sharded_types_made and not (aval.unreduced or aval.reduced):
        seed = over_mesh_of(seed, *leaves)
    cts = pull_back(program, avals, [seed])
    gradient = cts[0] if tree is LEAF else tree.unflatten(cts)
    return ((value, lower_aux(flat.aux)), gradient) if has_aux else (value, gradient)


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the gradient of the scalar-valued ``fun`` in its arguments ``argnums``.

    ``argnums`` is a position or a sequence of positions. The argument at each position is a pytree of inexact arrays.
    The gradient has the tree, shapes and dtypes of that argument; a sequence gives a tuple of gradients.
    ``fun`` returns a real scalar of shape (). With ``has_aux``, ``fun`` returns ``(scalar, aux)`` and the result is
    ``(gradient, aux)``. ``holomorphic`` requires complex inputs and a complex output. With ``allow_int``, integer
    arguments are accepted; their gradient has dtype float0.

    When called, it raises TypeError if the output is not a real scalar, if an input is an integer (without
    ``allow_int``), and if a position in ``argnums`` is out of range.

    >>> grad(lambda x, y: x**2 * y, argnums=(0, 1))(3., 2.)
    (Array(12., dtype=float32, weak_type=True), Array(9., dtype=float32, weak_type=True))
    """
    check_callable(fun)

    @wraps(fun)
    def grad_f(*args: Any, **kwargs: Any) -> Any:
        value, gradient = _value_and_grad("grad", fun, argnums, has_aux, holomorphic, allow_int, args, kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return grad_f
