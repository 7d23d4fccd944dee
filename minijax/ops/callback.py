"""Callbacks into Python from inside a program, for results (pure and io) or debugging (callback and print).

Evaluation calls the Python function immediately. In a compiled program XLA calls it through a custom call:
the call contains an index into the list of host functions of the program. A debug callback has a side effect and is
otherwise transparent: it sees primal values, does not affect derivatives, and is never dropped as unused.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from minijax.config import x64_enabled
from minijax.core import dtypes, lazy
from minijax.core.array import Array, as_array, get_aval
from minijax.core.avals import Avals, ShapedArray
from minijax.core.lazy import HigherModule
from minijax.core.lists import safe_zip
from minijax.core.primitive import Primitive
from minijax.core.rules import Dims, Flags, Params, Rule, Values
from minijax.core.structural import broadcast, moveaxis
from minijax.core.trace import check_alive, under
from minijax.errors import JaxRuntimeError
from minijax.interpreters.evaluate import EvalTrace
from minijax.interpreters.jvp import jvp_rules
from minijax.interpreters.recompute import allows, recompute_rules
from minijax.interpreters.stage import stage
from minijax.interpreters.transpose import transpose_rules
from minijax.interpreters.vmap import AxisData, axis_rules
from minijax.ir.jaxpr import JaxprEqn
from minijax.lowering.lower import lowering_rules
from minijax.lowering.text import mlir_type
from minijax.ops.shape import squeeze
from minijax.ops.slicing import slice_in_dim
from minijax.ops.subjaxprs import hoist_consts
from minijax.pytree import tree_leaves, tree_unflatten

_scan = HigherModule("scan")


class FlatCallback:
    """A function of trees, called with leaves. Two are equal if their parts are. ``static``: non-array leaves."""

    __slots__ = ("callback_func", "in_tree", "static")

    def __init__(
        self, callback_func: Callable[..., Any], in_tree: Any, static: tuple[tuple[int, Any], ...] = ()
    ) -> None:
        self.callback_func = callback_func
        self.in_tree = in_tree
        self.static = static

    def _key(self) -> tuple[Any, ...]:
        return self.callback_func, self.in_tree, self.static

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if type(other) is FlatCallback else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __call__(self, *leaves: Any) -> list[Any]:
        static = dict(self.static)
        given = iter(leaves)
        all_leaves = [static[i] if i in static else next(given) for i in range(len(leaves) + len(static))]
        args, kwargs = tree_unflatten(self.in_tree, all_leaves)
        return tree_leaves(self.callback_func(*args, **kwargs))

    def __repr__(self) -> str:
        return f"_FlatCallback(callback_func={self.callback_func}, in_tree={self.in_tree})"


def call_host(function: Rule, result_avals: Avals, values: Values) -> Any:
    """Call ``function`` on arrays, check its results and return them as NumPy arrays. Its operations are not staged."""
    outs = under(EvalTrace, "callback", lambda main: function(*values), dynamic=True)
    if len(outs) != len(result_avals):
        raise RuntimeError(
            "Mismatched number of outputs from callback. Expected: "
            f"{len(result_avals)}, Actual: {len(outs)}. Return arrays as result_shape_dtypes describes them."
        )
    results = []
    for i, (out, aval) in enumerate(safe_zip(outs, result_avals)):
        value = np.asarray(out)
        value = value.astype(dtypes.canonicalize_dtype(value.dtype, x64_enabled()), copy=False)
        for what, expected, actual in (("shape", aval.shape, value.shape), ("dtype", aval.dtype, value.dtype)):
            if expected != actual:
                raise RuntimeError(
                    f"Incorrect output {what} for return value #{i}: Expected: {expected}, Actual: {actual}. "
                    "Return arrays as result_shape_dtypes describes them."
                )
        results.append(value)
    return results


def _evaluated(name: str, function: Rule, result_avals: Avals, args: Values) -> list[Any]:
    values = [as_array(check_alive(x)) for x in args]
    for x in values:
        x._value()  # an invalid array raises here, so that the error does not blame the function
    try:
        outs = call_host(function, result_avals, values)
    except Exception as error:
        raise JaxRuntimeError(f"INTERNAL: error calling callback of {name}: {type(error).__name__}: {error}") from error
    # copies: the function may later write to the arrays that it returned
    return [Array(np.array(out), aval) for out, aval in safe_zip(outs, result_avals)]


def _emit(
    ctx: Any, function: Rule, avals: Avals, out_avals: Avals, names: Sequence[str], effect: bool, ordered: bool = False
) -> list[str]:
    """Write the custom call. Ordered calls pass a token from one to the next, which keeps their order."""

    def host(*values: Any) -> tuple[Any, ...]:
        head, values = (values[:1], values[1:]) if ordered else ((), values)
        # the memory belongs to XLA and is valid only during the call
        return (*head, *call_host(function, out_avals, [Array(np.array(v), a) for v, a in safe_zip(values, avals)]))

    index = ctx.module.add_host_callback(host)
    ins, outs = [mlir_type(a) for a in avals], [mlir_type(a) for a in out_avals]
    operands = list(names)
    if ordered:
        token = ctx.token or ctx.emit("stablehlo.create_token : !stablehlo.token")
        operands.insert(0, token)
        ins.insert(0, "!stablehlo.token")
        outs.insert(0, "!stablehlo.token")
    attributes = f"api_version = 4 : i32, backend_config = {{index = {index} : ui64}}"
    if effect:
        attributes += ", has_side_effect = true"
    divided = ctx.module.divided
    if divided:
        attributes += lazy.public("minijax.lowering.shardings", "on_one")(ctx.module.meshes, max(len(outs), 1))
    results: list[str] = ctx.emit_many(
        f"stablehlo.custom_call @xla_ffi_python_{ctx.module.callback_device()}_callback({', '.join(operands)}) "
        f"{{{attributes}}} : ({', '.join(ins)}) -> ({', '.join(outs)})",
        len(outs),
    )
    if ordered:
        ctx.token = results.pop(0)
    if divided:  # only one device calls Python: constrain its results, so that all devices get them
        everywhere = lazy.public("minijax.lowering.shardings", "constrained")
        there = ctx.module.placement.everywhere
        return [everywhere(ctx, result, aval, there) for result, aval in safe_zip(results, out_avals)]
    return results


def _no_derivative(what: str, how: str) -> Rule:
    def refuse(*args: Any, **params: Any) -> Any:
        raise ValueError(f"{what} do not support {how}.")

    return refuse


def _declare_callback(name: str, effectful: bool, what: str) -> Primitive:
    p = Primitive(name, multiple_results=True)
    p.keeps_signatures = False
    p.effectful = effectful
    p.sharding_param = "sharding"

    @p.def_abstract_eval
    def callback_abstract(*avals: Any, result_avals: Avals, **params: Any) -> list[ShapedArray]:
        return list(result_avals)

    @p.def_impl
    def callback_impl(*args: Any, callback: FlatCallback, result_avals: Avals, **params: Any) -> Any:
        return _evaluated(name, callback, result_avals, args)

    def callback_lower(
        ctx: Any, avals: Any, out_avals: Any, *names: str, callback: FlatCallback, ordered: bool = False, **params: Any
    ) -> list[str]:
        return _emit(ctx, callback, avals, out_avals, names, effectful, ordered)

    lowering_rules[p] = callback_lower
    jvp_rules[p] = _no_derivative(what, "JVP. Please use `jax.custom_jvp` to use callbacks while taking gradients")
    transpose_rules[p] = _no_derivative(
        what, "transpose. Please use `jax.custom_vjp` to use callbacks while taking gradients"
    )
    return p


pure_callback_p = _declare_callback("pure_callback", False, "Pure callbacks")
io_callback_p = _declare_callback("io_callback", True, "IO callbacks")

VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized", None)


def pure_callback_batch(axis: AxisData, args: Values, dims: Dims, *, vmap_method: str | None, **params: Any) -> Any:
    """Batch a callback as ``vmap_method`` says: one call for each element, or one call for all."""
    if vmap_method is None:
        raise NotImplementedError(
            "vmap is only supported for the pure_callback primitive when vmap_method is one of 'sequential', "
            "'sequential_unrolled', 'expand_dims', 'broadcast_all', or 'legacy_vectorized'. Got vmap_method=None. "
            "Pass vmap_method='sequential' to pure_callback to call the function once for each element."
        )
    params["vmap_method"] = vmap_method
    if vmap_method.startswith("sequential"):
        unroll = axis.size if vmap_method == "sequential_unrolled" else 1
        return _one_by_one(pure_callback_p, axis, args, dims, params, max(unroll, 1))
    front = [x if d is None else moveaxis(x, d, 0) for x, d in safe_zip(args, dims)]
    if vmap_method != "legacy_vectorized":
        size = axis.size if vmap_method == "broadcast_all" else 1
        front = [broadcast(x, size, 0) if d is None else x for x, d in safe_zip(front, dims)]
    params["result_avals"] = tuple(a.stacked(axis.size) for a in params["result_avals"])
    outs = pure_callback_p.bind(*front, **params)
    return outs, [0] * len(outs)


axis_rules[pure_callback_p] = pure_callback_batch


def io_callback_batch(axis: AxisData, args: Values, dims: Dims, *, ordered: bool, **params: Any) -> Any:
    """One call for each element; ValueError for ordered calls."""
    if ordered:
        raise ValueError("Cannot `vmap` ordered IO callbacks. Pass ordered=False, or loop with lax.scan.")
    return _one_by_one(io_callback_p, axis, args, dims, {"ordered": ordered, **params}, 1)


axis_rules[io_callback_p] = io_callback_batch


def _one_by_one(p: Primitive, axis: AxisData, args: Values, dims: Dims, params: Params, unroll: int) -> Any:
    """A scan along the batch axis, with one call in each step."""
    shared = [x for x, d in safe_zip(args, dims) if d is None]
    xs = [moveaxis(x, d, 0) for x, d in safe_zip(args, dims) if d is not None]

    def cell(*values: Any) -> Any:
        consts, elements = iter(values[: len(shared)]), iter(values[len(shared) :])
        return p.bind(*[next(consts) if d is None else next(elements) for d in dims], **params)

    element_avals = [ShapedArray(a.shape[1:], a.dtype, a.weak_type) for a in map(get_aval, xs)]
    closed, consts = hoist_consts(stage(cell, [*map(get_aval, shared), *element_avals], p.name, "vmap"))
    outs = _scan.scan_p.bind(
        *consts,
        *shared,
        *xs,
        jaxpr=closed,
        length=axis.size,
        num_carry=0,
        num_consts=len(consts) + len(shared),
        reverse=False,
        unroll=unroll,
    )
    return outs, [0] * len(outs)


def _declare_debug(name: str, function_of: Rule) -> Primitive:
    """A primitive without results. It calls the function that ``function_of(**params)`` returns. The parameter
    ``ordered`` or ``effect`` decides whether calls keep their order."""
    p = Primitive(name, multiple_results=True)
    p.effectful = True
    p.keeps_signatures = False

    @p.def_abstract_eval
    def debug_abstract(*avals: Any, **params: Any) -> list[ShapedArray]:
        return []

    @p.def_impl
    def debug_impl(*args: Any, **params: Any) -> list[Any]:
        return _evaluated(name, function_of(**params), (), args)

    def debug_jvp(primals: Values, tangents: Values, **params: Any) -> Any:
        return p.bind(*primals, **params), []

    def debug_batch(axis: AxisData, args: Values, dims: Dims, **params: Any) -> Any:
        for i in range(axis.size):
            elements = [
                x if d is None else squeeze(slice_in_dim(x, i, i + 1, axis=d), (d,)) for x, d in safe_zip(args, dims)
            ]
            p.bind(*elements, **params)
        return [], []

    def debug_transpose(cts: Any, *args: Any, **params: Any) -> list[None]:
        return [None] * len(args)

    def debug_recompute(eqn: JaxprEqn, unknown_in: Flags, policy: Any) -> Any:
        """The recomputation calls the debug callback again, unless the policy decides to save this equation."""
        if any(unknown_in):
            return [], [eqn]
        return [eqn], [] if allows(policy, eqn) else [eqn]

    def debug_lower(ctx: Any, avals: Any, out_avals: Any, *names: str, **params: Any) -> list[str]:
        ordered = bool(params.get("ordered") or params.get("effect") == ORDERED)
        return _emit(ctx, function_of(**params), avals, (), names, True, ordered)

    jvp_rules[p] = debug_jvp
    axis_rules[p] = debug_batch
    transpose_rules[p] = debug_transpose
    recompute_rules[p] = debug_recompute
    lowering_rules[p] = debug_lower
    return p


UNORDERED, ORDERED = "Debug", "OrderedDebug"


def _debug_callback_function(*, callback: FlatCallback, effect: str) -> Rule:
    def call(*leaves: Any) -> tuple[()]:
        callback(*leaves)
        return ()

    return call


debug_callback_p = _declare_debug("debug_callback", _debug_callback_function)


def _debug_print_function(
    *,
    fmt: str,
    in_tree: Any,
    static_args: tuple[tuple[int, Any], ...],
    np_printoptions: tuple[tuple[str, Any], ...],
    logging_record: Any,
    **params: Any,
) -> Rule:
    def write(*args: Any, **kwargs: Any) -> None:
        with _print_options(dict(np_printoptions)):
            text = fmt.format(*args, **kwargs)
        if logging_record is None:
            write_line(text)
        else:
            logging = importlib.import_module("logging")  # takes 3 ms; only ``debug.log`` needs it
            record = logging.makeLogRecord({**logging_record.__dict__, "msg": text})
            logging.getLogger(record.name).handle(record)

    def call(*leaves: Any) -> tuple[()]:
        FlatCallback(write, in_tree, static_args)(*leaves)
        return ()

    return call


@contextlib.contextmanager
def _print_options(options: Params) -> Iterator[None]:
    legacy = options.pop("legacy", False)
    with np.printoptions(**options, legacy=legacy):
        yield


def write_line(text: str) -> None:
    """Print a line to the current standard output, as debug prints do."""
    sys.stdout.write(f"{text}\n")


debug_print_p = _declare_debug("debug_print", _debug_print_function)
