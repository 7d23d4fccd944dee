"""``scan``; ``map``, which uses ``scan``; and ``associative_scan``, which works in parallel."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

from minijax import pytree
from minijax.api.batching import vmap
from minijax.api.bodies import stage_body
from minijax.api.flat import check_args, to_value
from minijax.config import jit_disabled, x64_enabled
from minijax.core import avals, dtypes
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.explicit import spec_of
from minijax.core.lists import merge, partition, split_list
from minijax.core.trace import Tracer
from minijax.core.varying import ordered
from minijax.errors import ConcretizationTypeError
from minijax.ir.jaxpr import ClosedJaxpr, Literal
from minijax.ir.typecheck import same_type
from minijax.ops import cumulative
from minijax.ops.convert import convert
from minijax.ops.scan import ScanParts, ScanResults, scan_p, slice_aval
from minijax.ops.shape import canonical_axis, reshape, shape_of
from minijax.ops.slicing import concatenate, index_in_dim, stack
from minijax.ops.slicing import slice as slice_array
from minijax.ops.subjaxprs import hoist_consts
from minijax.pytree import keystr, tree_flatten, tree_map, tree_unflatten

__all__ = ["associative_scan", "map", "scan"]


def promote_weak(values: Sequence[Any], out_avals: Sequence[ShapedArray]) -> tuple[list[Any], bool]:
    """Convert a loop's weak or unsharded initial values to the body's types. Also return whether any value changed."""
    promoted = []
    changed = False
    for x, out in zip(values, out_avals, strict=True):
        aval = get_aval(x)
        if aval.weak_type and (aval.shape, aval.dtype) != (out.shape, out.dtype):
            pairs = ((aval.dtype, True), (out.dtype, out.weak_type))
            dtype, weak = dtypes.result_type(*pairs, x64=x64_enabled())
            x, changed = convert(x, dtype, weak and dtype == aval.dtype), True
        sharded = avals.sharded_if_free(x, out)
        if sharded is not x:
            x, changed = sharded, True
        promoted.append(x)
    return promoted, changed


def check_carry(
    what: str,
    fun: Callable[..., Any],
    in_tree: Any,
    in_avals: Sequence[ShapedArray],
    out_tree: Any,
    out_avals: Sequence[ShapedArray],
) -> None:
    """TypeError if loop body ``what`` changes the carry's tree or (strong) types. The message names the components."""
    name = _first_parameter(fun)

    def component(path: Any) -> str:
        if name:
            return f"the input carry component {name}{keystr(path)}" if path else f"the input carry {name}"
        return f"the input carry at path {keystr(path)}" if path else "the input carry"

    if in_tree != out_tree:
        found = [
            f"{component(d.path)} is a {d.first.removeprefix('a ')} but the corresponding component of the carry "
            f"output is a {d.second.removeprefix('a ')}, so {d.reason}"
            for d in pytree.tree_diff(in_tree, out_tree)
        ] or [f"the input tree structure is {in_tree}, the output tree structure is {out_tree}"]
        raise TypeError(
            f"{what} function carry input and carry output must have the same pytree structure, but they differ:\n\n"
            f"{_bullets(found)}\nRevise the function so that the carry output has the same pytree structure as the "
            "carry input."
        )
    paths = [path for path, _ in pytree.tree_flatten_with_path(tree_unflatten(in_tree, in_avals))[0]]
    found = [
        f"{component(path)} has type {a} but the corresponding output carry component has type {b}, "
        f"so {type_difference(a, b)}"
        for path, a, b in zip(paths, in_avals, out_avals, strict=True)
        if not same_type(a, b)
    ]
    if found:
        advice = [
            f"This might be fixed by applying `jax.lax.pcast(..., {ordered(b.vma - a.vma)}, to='varying')` to the "
            f"initial value of {component(path)}.\n"
            for path, a, b in zip(paths, in_avals, out_avals, strict=True)
            if b.vma > a.vma
        ]
        raise TypeError(
            f"{what} function carry input and carry output must have equal types, but they differ:\n\n"
            f"{_bullets(found)}\n{''.join(advice)}Revise the function so that all output types match the corresponding "
            "input types."
        )


def _first_parameter(fun: Callable[..., Any]) -> str:
    try:
        return next(iter(inspect.signature(fun).parameters), "")
    except (TypeError, ValueError):
        return ""


def type_difference(a: ShapedArray, b: ShapedArray) -> str:
    """Describe how two types differ."""
    differing = [
        ("the dtypes do not match", a.dtype != b.dtype),
        ("the shapes do not match", a.shape != b.shape),
        ("the manual axis types do not match", a.vma != b.vma),
        ("the shardings do not match", not avals.same_sharding(a, b)),
    ]
    return " and ".join(text for text, differs in differing if differs)


def _bullets(items: Sequence[str]) -> str:
    if len(items) == 1:
        return items[0][0].upper() + items[0][1:] + ".\n"
    return "".join(f"  * {item};\n" for item in items[:-1]) + f"  * {items[-1]}.\n"


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """Apply ``f`` step by step along the leading axis of ``xs``, carrying a value from each step to the next.

    It computes the same as this code, but ``f`` is staged once and runs as a compiled loop::

        carry, ys = init, []
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, stack(ys)

    Args:
      f: from ``(carry, x)`` to ``(carry, y)``, pytrees of arrays. The carry keeps its structure, shapes and dtypes.
      init: the first carry, a pytree of arrays.
      xs: a pytree of arrays with leading axes of one size; None for a loop without input.
      length: the number of steps. It is needed without ``xs``; otherwise it must be the size of the leading axes.
      reverse: go from the last slice to the first; ``ys[i]`` still belongs to ``xs[i]``.
      unroll: the number of steps in one iteration of the compiled loop; 0 or True for all of them.

    Returns:
      The last carry and the ``y``\\ s, stacked along a new leading axis.

    Raises:
      TypeError: ``f`` returns no pair, or its carry has another structure or type than ``init``.
      ValueError: ``xs`` and ``length`` do not give one number of steps, or ``unroll`` is negative.
    """
    if not callable(f):
        raise TypeError(f"lax.scan: f argument should be a callable, got {f!r}.")
    leaves, in_tree = tree_flatten(((init, xs), {}))
    leaves = check_args(leaves, "scan", f, in_tree)
    carry_tree, xs_tree = in_tree.children()[0].children()
    operands = [to_value(x) for x in leaves]
    init_flat, xs_flat = split_list(operands, carry_tree.num_leaves)
    n_steps = _scan_length([get_aval(x) for x in xs_flat], length)
    unroll_count = _unroll(unroll, n_steps)
    if jit_disabled():
        return _scan_in_python(f, init, xs_tree, xs_flat, n_steps, reverse)

    xs_avals = [slice_aval(get_aval(x)) for x in xs_flat]
    body = _stage_scan(f, in_tree, init_flat, xs_avals)
    out_carry_tree = body.out_tree.children()[0]
    n_carry = len(init_flat)
    if out_carry_tree == carry_tree:
        init_flat, changed = promote_weak(init_flat, body.closed.out_avals[:n_carry])
        if changed:
            body = _stage_scan(f, in_tree, init_flat, xs_avals)
            out_carry_tree = body.out_tree.children()[0]
    out_carry = body.closed.out_avals[: out_carry_tree.num_leaves]
    check_carry("scan body", f, carry_tree, [get_aval(x) for x in init_flat], out_carry_tree, out_carry)

    closed, consts = hoist_consts(body.closed)
    carry, ys = bind_scan(closed, consts, init_flat, xs_flat, n_steps, bool(reverse), unroll_count)
    return tree_unflatten(body.out_tree, [*carry, *ys])


def _stage_scan(f: Callable[..., Any], in_tree: Any, init: Sequence[Any], xs_avals: Sequence[ShapedArray]) -> Any:
    avals = [*[get_aval(x) for x in init], *xs_avals]
    body = stage_body(f, in_tree, avals, getattr(f, "construct", "scan"))
    if len(body.out_tree.children()) != 2:
        out = tree_unflatten(body.out_tree, body.closed.out_avals)
        raise TypeError(f"scan body output must be a pair, got {out}. Return (carry, y); y may be None.")
    return body


def _scan_length(xs_avals: Sequence[ShapedArray], length: Any) -> int:
    scalars = [a for a in xs_avals if not a.ndim]
    if scalars:
        raise ValueError(
            f"scan got value with no leading axis to scan over: {', '.join(str(a) for a in scalars)}. Close over "
            "values that are the same in each step."
        )
    sizes = [a.shape[0] for a in xs_avals]
    if avals.sharded_types_made and any(spec_of(a)[0] is not None for a in xs_avals):
        found = ", ".join(f"P{spec_of(a)}" for a in xs_avals)
        raise ValueError(
            f"0th dimension of all xs should be replicated. Got {found}. Reshard them with sharding.reshard."
        )
    if length is not None:
        if isinstance(length, Tracer):
            raise ConcretizationTypeError(
                length,
                "The `length` argument to `scan` expects a concrete `int` value. For scan-like iteration with a "
                "dynamic length, use `while_loop` or `fori_loop`.",
            )
        count = int(length)
        if any(size != count for size in sizes):
            raise ValueError(f"scan got `length` argument of {count} which disagrees with leading axis sizes {sizes}.")
        if count < 0:
            raise ValueError(f"scan got a negative `length` argument: {count}.")
        return count
    if not sizes:
        raise ValueError("scan got no values to scan over and `length` not provided.")
    if len(set(sizes)) > 1:
        raise ValueError(f"scan got values with different leading axis sizes: {', '.join(str(n) for n in sizes)}.")
    return sizes[0]


def _unroll(unroll: Any, length: int) -> int:
    if isinstance(unroll, Tracer):
        raise ConcretizationTypeError(
            unroll, "The `unroll` argument to `scan` expects a concrete `int` or `bool` value."
        )
    if isinstance(unroll, bool):
        return max(length, 1) if unroll else 1
    count = operator.index(unroll)
    if count < 0:
        raise ValueError(f"`unroll` must be a `bool` or a non-negative `int`, got {count}.")
    return count


def _scan_in_python(
    f: Callable[..., Any], carry: Any, xs_tree: Any, xs: Sequence[Any], length: int, reverse: bool
) -> tuple[Any, Any]:
    """The Python loop of ``scan``'s documentation, for ``disable_jit``."""
    if length == 0:
        raise ValueError("zero-length scan is not supported in disable_jit() mode because the output type is unknown.")
    ys = []
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = f(carry, tree_unflatten(xs_tree, [index_in_dim(x, i, 0, keepdims=False) for x in xs]))
        ys.append(y)
    if reverse:
        ys.reverse()
    return carry, tree_map(lambda *each: stack(list(each)), *ys)


def bind_scan(
    closed: ClosedJaxpr,
    consts: Sequence[Any],
    init: Sequence[Any],
    xs: Sequence[Any],
    length: int,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[list[Any], list[Any]]:
    """Scan a closed jaxpr ``(consts, carry, x) -> (carry, y)`` on lists. Values that it only passes on are not carried
    or stacked.
    """
    plan = closed.memo.get("forwarding")
    if plan is None or plan.sizes != (len(consts), len(init)):
        plan = closed.memo["forwarding"] = _Forwarding(closed, len(consts), len(init))
    moved_init, carried = partition([not m for m in plan.moved], init)
    outs = scan_p.bind(
        *[*moved_init, *consts, *carried, *xs],
        jaxpr=plan.body,
        length=length,
        reverse=reverse,
        unroll=unroll,
        num_consts=len(moved_init) + len(consts),
        num_carry=len(carried),
    )
    carry, ys = split_list(outs, len(carried))
    given = iter(ys)
    return (
        merge([not m for m in plan.moved], moved_init, carry),
        [next(given) if source is None else xs[source] for source in plan.sources],
    )


class _Forwarding:
    """A scan body without the values that it only passes on.
    ``moved``: for each carried value, whether the body returns it unchanged. ``sources``: for each ``y``, the index of
    the x that it equals, or None if the body computes it."""

    __slots__ = ("sizes", "moved", "sources", "body")

    def __init__(self, closed: ClosedJaxpr, n_consts: int, n_carry: int) -> None:
        self.sizes = (n_consts, n_carry)
        jaxpr = closed.jaxpr
        consts, carry, xs = ScanParts.of(jaxpr.invars, n_consts, n_carry)
        outs, ys = ScanResults.of(jaxpr.outvars, n_carry)
        self.moved = [a is b for a, b in zip(carry, outs, strict=True)]
        place = {v: i for i, v in enumerate(xs)}
        self.sources = [None if type(y) is Literal else place.get(y) for y in ys]
        if not any(self.moved) and all(source is None for source in self.sources):
            self.body = closed
            return
        kept, moved = partition(self.moved, carry)
        kept_outs, _ = partition(self.moved, outs)
        computed = [y for y, source in zip(ys, self.sources, strict=True) if source is None]
        self.body = ClosedJaxpr(
            jaxpr.replace(invars=[*moved, *consts, *kept, *xs], outvars=[*kept_outs, *computed]), closed.consts
        )


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Map ``f`` over slices of ``xs``, a pytree of arrays, along the leading axes, and stack the results.

    ``f`` takes one argument: a tree like ``xs`` whose leaves lack the leading axis. By default ``scan`` runs it on one
    slice at a time. With ``batch_size``, ``vmap`` runs it on ``batch_size`` slices at a time (0 means all slices); the
    remaining slices are one more batch.
    A leaf of shape s in the result of ``f`` becomes an array of shape (n, *s) and of the same dtype.

    ValueError for scalars in ``xs``, leading axes of different sizes, or a negative ``batch_size``.

    >>> lax.map(lambda x: x**2, jnp.arange(3.))
    Array([0., 1., 4.], dtype=float32)
    """
    if not callable(f):
        raise TypeError(f"lax.map: f argument should be a callable, got {f!r}.")
    if batch_size is None:
        return scan(_each(f), (), xs)[1]
    if operator.index(batch_size) < 0:
        raise ValueError(f"lax.map: batch_size must not be negative, got {batch_size}.")
    leaves, tree = tree_flatten(xs)
    size = _scan_length([get_aval(x) for x in leaves], None)
    rounds = size // batch_size if batch_size else 0
    done = rounds * batch_size
    mapped = vmap(f)
    batches = [reshape(_between(x, 0, done), (rounds, batch_size, *shape_of(x)[1:])) for x in leaves if rounds]
    rest = [_between(x, done, size) for x in leaves if done < size or not rounds]
    ys = scan(_each(mapped), (), tree_unflatten(tree, batches))[1] if batches else None
    parts = [mapped(tree_unflatten(tree, rest))] if rest else []
    if batches:
        parts.insert(0, tree_map(lambda y: reshape(y, (done, *shape_of(y)[2:])), ys))
    return parts[0] if len(parts) == 1 else tree_map(lambda *both: concatenate(both, 0), *parts)


def _each(f: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """A scan body that applies ``f`` and carries nothing. Errors use the name of ``f``."""

    @functools.wraps(f)
    def each(_: Any, x: Any) -> Any:
        return (), f(x)

    return each


def _between(x: Any, start: int, stop: int) -> Any:
    """``x[start:stop]`` along the first axis."""
    shape = shape_of(x)
    if (start, stop) == (0, shape[0]):
        return x
    return slice_array(x, [start, *[0] * (len(shape) - 1)], [stop, *shape[1:]])


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Combine the elements 0 to k, for each k along ``axis``, by the associative ``fn``, in about 2 log2(n) steps.

    Args:
      fn: combines two pytrees like ``elems``, elementwise along ``axis``; ``fn(a, fn(b, c)) == fn(fn(a, b), c)``.
      elems: a pytree of arrays, of one size along ``axis``.
      reverse: combine suffixes instead, from the end.
      axis: the axis of the scan.

    Returns:
      A pytree like ``elems``, with the same shapes.

    Raises:
      TypeError: ``fn`` is not callable. ValueError: ``axis`` is out of bounds, or the sizes along it differ.

    >>> lax.associative_scan(jnp.add, jnp.arange(4.), reverse=True)
    Array([6., 6., 5., 3.], dtype=float32)
    """
    if not callable(fn):
        raise TypeError(f"lax.associative_scan: fn argument should be callable, got {fn!r}.")
    leaves, tree = tree_flatten(elems)
    if not leaves:
        raise ValueError("associative_scan got no arrays to scan over.")
    leaves = [to_value(x) for x in leaves]
    shapes = [shape_of(x) for x in leaves]
    place = canonical_axis(axis, len(shapes[0]))
    if any(len(shape) <= place or shape[place] != shapes[0][place] for shape in shapes):
        raise ValueError(
            f"Array inputs to associative_scan must have the same first dimension. (saw: {shapes}, along axis {axis})"
        )

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        out, out_tree = tree_flatten(fn(tree_unflatten(tree, a), tree_unflatten(tree, b)))
        if len(out) != len(leaves):
            raise ValueError(
                f"Too {'few' if len(out) < len(leaves) else 'many'} leaves for {tree}; expected {len(leaves)}, got "
                f"{len(out)}: the fn of associative_scan must return a tree like its arguments, but returned {out_tree}"
            )
        return out

    return tree_unflatten(tree, cumulative.associative_scan(combine, leaves, place, reverse))
