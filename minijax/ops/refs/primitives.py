"""Making, reading, writing and ending mutable array references: the primitives, with their rules.

The operands are a reference (a ``Ref``, or its tracer), the value to write, and the operands of the ``index``
(``ops.refs.index``). The primitives are effectful: their equations are never dropped, and keep their order. They are
never lowered or partially evaluated: ``ops.refs.discharge`` rewrites the program without references before that.

The tangent of a reference is a ``RefTangent``, which holds an array. So the linear program has only arrays, as reverse
mode needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from minijax.core.array import as_array, get_aval
from minijax.core.avals import ShapedArray, dtype_name
from minijax.core.primitive import Primitive, bind_at
from minijax.core.refs import AbstractRef, AccumEffect, Index, ReadEffect, Ref, Slice, WriteEffect, is_ref
from minijax.core.rules import Dims, Params, Values
from minijax.core.structural import Zero, add_any_p, instantiate_zeros, zero_of
from minijax.core.trace import state
from minijax.interpreters.jvp import JVPTrace, JVPTracer, jvp_rules
from minijax.interpreters.linearize import LinearizeTrace
from minijax.interpreters.partial_eval import PartialEvalTracer
from minijax.interpreters.transpose import transpose_rules
from minijax.interpreters.vmap import AxisData, BatchTrace, BatchTracer, axis_rules, batching_rules, bdim_at_front
from minijax.ir import doc as pp
from minijax.ir.doc import Doc
from minijax.ir.jaxpr import DropVar, JaxprEqn, Literal
from minijax.ir.pretty import Printer
from minijax.lowering.lower import lowering_rules
from minijax.ops.declare import set_rules
from minijax.ops.refs.index import accumulate, batched_index, part_shape, read, write


def _declared(name: str, effect: Any = None, multiple_results: bool = False) -> Primitive:
    p = Primitive(name, multiple_results)
    p.effectful = p.takes_refs = True
    p.ref_effect = effect
    why = "references are discharged from a program before"
    transpose_rules.holes[p] = why
    lowering_rules.holes[p] = why
    return p


new_ref_p = _declared("new_ref")
freeze_p = _declared("freeze", ReadEffect)
free_ref_p = _declared("free_ref", multiple_results=True)
get_p = _declared("get", ReadEffect)
swap_p = _declared("swap", WriteEffect)
addupdate_p = _declared("addupdate", AccumEffect, multiple_results=True)


def _checked(name: str, aval: Any) -> AbstractRef:
    if type(aval) is not AbstractRef:
        raise ValueError(
            f"`{name}` must be called on `Ref` types: {aval}. Make a reference of an array with new_ref(x)."
        )
    return aval


def _part_aval(ref: AbstractRef, index: Index, operands: Sequence[ShapedArray]) -> ShapedArray:
    return ref.inner_aval.update(shape=part_shape(ref.shape, index, [a.shape for a in operands]))


@new_ref_p.def_abstract_eval
def new_ref_abstract(init: Any, *, kind: Any = None, memory_space: Any = None) -> AbstractRef:
    if type(init) is AbstractRef:
        raise TypeError("new_ref takes an array, got a reference. new_ref(r[...]) copies its content.")
    return AbstractRef(init)


@freeze_p.def_abstract_eval
def freeze_abstract(ref: Any) -> ShapedArray:
    return _checked("freeze", ref).inner_aval


@free_ref_p.def_abstract_eval
def free_ref_abstract(ref: Any) -> list[ShapedArray]:
    _checked("free_ref", ref)
    return []


@get_p.def_abstract_eval
def get_abstract(ref: Any, *operands: ShapedArray, index: Index) -> ShapedArray:
    return _part_aval(_checked("get", ref), index, operands)


def _check_value(name: str, ref: AbstractRef, part: ShapedArray, value: ShapedArray) -> None:
    if part.shape != value.shape:
        raise ValueError(
            f"Invalid shape for `{name}`. Ref shape: {ref.shape}. Expected shape: {part.shape}. Value shape: "
            f"{value.shape}. Give a value of the expected shape: nothing is broadcast."
        )
    if part.dtype != value.dtype:
        raise ValueError(
            f"Invalid dtype for `{name}`. Ref dtype: {dtype_name(ref.dtype)}. Value dtype: "
            f"{dtype_name(value.dtype)}. Convert it, x.astype({dtype_name(ref.dtype)!r})."
        )


@swap_p.def_abstract_eval
def swap_abstract(ref: Any, value: ShapedArray, *operands: ShapedArray, index: Index) -> ShapedArray:
    part = _part_aval(_checked("swap", ref), index, operands)
    _check_value("swap", ref, part, value)
    return part


@addupdate_p.def_abstract_eval
def addupdate_abstract(ref: Any, value: ShapedArray, *operands: ShapedArray, index: Index) -> list[ShapedArray]:
    part = _part_aval(_checked("addupdate", ref), index, operands)
    _check_value("addupdate", ref, part, value)
    return []


def new_ref_at(init: Any, level: int, params: Params) -> Any:
    """A reference at ``level`` of the interpreter stack. Each interpreter up to there holds a part of its content."""
    trace = state.stack[level].trace
    if isinstance(trace, JVPTrace):
        primal, tangent = trace.split(init)
        return JVPTracer(trace, new_ref_at(primal, level - 1, params), RefTangent(tangent))
    if isinstance(trace, LinearizeTrace):
        trace.record_all()
        primal, _ = trace.split(init)
        return trace.holding(new_ref_at(primal, level - 1, params), RefTangent(trace.tangent_of(init)))
    if isinstance(trace, BatchTrace):
        value, dim = trace.unbox(init)
        front = bdim_at_front(value, dim, trace.axis.size)
        return BatchTracer(trace, new_ref_at(front, level - 1, params), 0)
    if trace is state.dynamic:
        return bind_at(new_ref_p, trace, (init,), params)
    return new_ref_at(init, level - 1, params)  # this interpreter knows the value, so it holds no part of the content


@new_ref_p.def_impl
def new_ref_impl(init: Any, **params: Any) -> Ref:
    if is_ref(init):
        new_ref_abstract(init.aval)
    return Ref(as_array(init))


def _place(name: str, ref: Any) -> Ref:
    if type(ref) is not Ref:
        _checked(name, get_aval(ref))
    return ref


@freeze_p.def_impl
def freeze_impl(ref: Any) -> Any:
    place = _place("freeze", ref)
    value = place.held
    place.frozen = True
    return value


@free_ref_p.def_impl
def free_ref_impl(ref: Any) -> list[Any]:
    freeze_impl(ref)
    return []


@get_p.def_impl
def get_impl(ref: Any, *operands: Any, index: Index) -> Any:
    place = _place("get", ref)
    get_abstract(place.aval, *map(get_aval, operands), index=index)
    return read(place.held, index, operands)


@swap_p.def_impl
def swap_impl(ref: Any, value: Any, *operands: Any, index: Index) -> Any:
    place = _place("swap", ref)
    swap_abstract(place.aval, get_aval(value), *map(get_aval, operands), index=index)
    old = read(place.held, index, operands)
    place.hold(as_array(write(place.held, index, operands, value)))
    return old


@addupdate_p.def_impl
def addupdate_impl(ref: Any, value: Any, *operands: Any, index: Index) -> list[Any]:
    place = _place("addupdate", ref)
    addupdate_abstract(place.aval, get_aval(value), *map(get_aval, operands), index=index)
    place.hold(as_array(accumulate(place.held, index, operands, value)))
    return []


class RefTangent:
    """The tangent of a ref: a ref to the tangent. ``value`` is a symbolic ``Zero`` or an array."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def aval(self) -> AbstractRef:
        """The type of the reference to the tangent."""
        aval = self.value.aval if type(self.value) is Zero else get_aval(self.value)
        return AbstractRef(aval)

    def __repr__(self) -> str:
        return f"RefTangent({self.value!r})"


def _held(tangent: Any) -> Any:
    """The tangent of a reference's whole content. The user may have passed a reference as ``tangent``: read it."""
    if type(tangent) is RefTangent:
        return tangent.value
    _refuse_unknown(tangent)
    return get_p.bind(tangent, index=None)


def _refuse_unknown(tangent: Any) -> None:
    """Raise NotImplementedError for an unknown tangent, which reverse mode gives to a reference argument."""
    if isinstance(tangent, PartialEvalTracer):
        raise NotImplementedError(
            f"reverse-mode differentiation by a mutable array reference, of type {get_aval(tangent)}, is not "
            "supported. Take an array as the argument, and make a reference of this array in the function."
        )


def _hold(tangent: Any, value: Any) -> None:
    if type(tangent) is RefTangent:
        tangent.value = value
    else:
        swap_p.bind(tangent, instantiate_zeros(value), index=None)


def _part(tangent: Any, index: Index, operands: Values, aval: ShapedArray) -> Any:
    held = _held(tangent)
    return zero_of(aval) if type(held) is Zero else read(held, index, operands)


def _undifferentiated(operation: str, ref: Any) -> NoReturn:
    raise Exception(  # noqa: TRY002  (the class that JAX raises)
        f"performing {operation} operation with a differentiated value on a non-differentiated array reference of type "
        f"{get_aval(ref)}. Move the array reference to be an argument of the differentiated function, make it inside, "
        "or write lax.stop_gradient(value)."
    )


def freeze_jvp(primals: Values, tangents: Values) -> Any:
    return freeze_p.bind(*primals), _held(tangents[0])


def free_ref_jvp(primals: Values, tangents: Values) -> Any:
    return free_ref_p.bind(*primals), []


def get_jvp(primals: Values, tangents: Values, *, index: Index) -> Any:
    out = get_p.bind(*primals, index=index)
    if type(tangents[0]) is Zero:  # then only the integers of the index have tangents, of float0
        return out, zero_of(get_aval(out))
    return out, _part(tangents[0], index, primals[1:], get_aval(out))


def swap_jvp(primals: Values, tangents: Values, *, index: Index) -> Any:
    ref, _, *operands = primals
    if type(tangents[0]) is Zero and type(tangents[1]) is not Zero:
        _undifferentiated("a set/swap", ref)
    out = swap_p.bind(*primals, index=index)
    if type(tangents[0]) is Zero:
        return out, zero_of(get_aval(out))
    old = _part(tangents[0], index, operands, get_aval(out))
    held = _held(tangents[0])
    if not (type(held) is Zero and type(tangents[1]) is Zero):
        _hold(tangents[0], write(instantiate_zeros(held), index, operands, instantiate_zeros(tangents[1])))
    return out, old


def addupdate_jvp(primals: Values, tangents: Values, *, index: Index) -> Any:
    ref, _, *operands = primals
    if type(tangents[1]) is not Zero and type(tangents[0]) is Zero:
        _undifferentiated("an addupdate", ref)
    addupdate_p.bind(*primals, index=index)
    if type(tangents[1]) is not Zero:
        held = instantiate_zeros(_held(tangents[0]))
        _hold(tangents[0], accumulate(held, index, operands, tangents[1], add_any_p))
    return [], []


for _table in (jvp_rules, axis_rules, batching_rules):
    _table.holes[new_ref_p] = "new_ref_at makes the reference at every level at once"


def _unbatched(operation: str, ref: Any) -> NoReturn:
    raise Exception(  # noqa: TRY002  (the class that JAX raises)
        f"performing {operation} operation with vmapped value on an unbatched array reference of type {get_aval(ref)}. "
        "Move the array reference to be an argument to the vmapped function, or make it inside of it."
    )


def freeze_batch(axis: AxisData, args: Values, dims: Dims) -> Any:
    return freeze_p.bind(*args), dims[0]


def free_ref_batch(axis: AxisData, args: Values, dims: Dims) -> Any:
    return free_ref_p.bind(*args), []


def _batched(axis: AxisData, ref: Any, ref_dim: int | None, index: Index, operands: Any, dims: Any) -> Any:
    """The index of the physical reference. If its batch axis is not the first, the index None becomes whole slices."""
    aval = get_aval(ref)
    ndim = aval.ndim - (ref_dim is not None)
    if index is None and ref_dim:
        shape = aval.shape[:ref_dim] + aval.shape[ref_dim + 1 :]
        index = tuple(Slice(0, size) for size in shape)
    front = [x if d is None else bdim_at_front(x, d, axis.size) for x, d in zip(operands, dims, strict=True)]
    return batched_index(ndim, index, front, ref_dim, [None if d is None else 0 for d in dims], axis.size)


def get_batch(axis: AxisData, args: Values, dims: Dims, *, index: Index) -> Any:
    ref, *operands = args
    found = _batched(axis, ref, dims[0], index, operands, dims[1:])
    out = get_p.bind(ref, *found.operands, index=found.entries)
    return found.to_front(out), 0


def _write_batch(primitive: Primitive, operation: str) -> Any:
    def rule(axis: AxisData, args: Values, dims: Dims, *, index: Index) -> Any:
        ref, value, *operands = args
        if dims[0] is None:
            _unbatched(operation, ref)
        found = _batched(axis, ref, dims[0], index, operands, dims[2:])
        value = found.from_front(bdim_at_front(value, dims[1], axis.size))
        out = primitive.bind(ref, value, *found.operands, index=found.entries)
        return ([], []) if primitive.multiple_results else (found.to_front(out), 0)

    return rule


set_rules(freeze_p, jvp=freeze_jvp, axis_batch=freeze_batch)
set_rules(free_ref_p, jvp=free_ref_jvp, axis_batch=free_ref_batch)


def _new_ref_shown(eqn: JaxprEqn, printer: Any) -> Any:
    return [("kind", eqn.params.get("kind")), ("memory_space", eqn.params.get("memory_space"))]


def _new_ref_read(params: Params, in_avals: Any, out_avals: Any) -> Params:
    """Drop the parameters: JAX prints a memory space here, and minijax has only one."""
    return {}


set_rules(new_ref_p, shown=_new_ref_shown, parse=_new_ref_read)


def _mark(text: str) -> Doc:
    return pp.text(text, "punctuation")


def _slice_doc(entry: Slice, start: Any, size: int, printer: Printer) -> Doc:
    """``2:4``; ``:4`` or ``2:`` if the slice begins or ends at a bound; ``i:i+2`` if it begins at a variable."""
    if start is not None and type(start) is not Literal:
        at = printer.atom(start)
        return pp.concat((at, _mark(":"), at, _mark(f"+{entry.size}")))
    first: Any = entry.start if start is None else start.val
    end = first + entry.size
    return pp.text(f"{first or ''}:{'' if end == size else end}", "literal")


def _place_doc(ref: Any, operands: Values, index: Index, printer: Printer) -> Doc:
    """``r[i,:2]``: the reference and its indexed part."""
    if index is None:
        return pp.concat((printer.atom(ref), _mark("[...]")))
    given = iter(operands)
    entries: list[Doc] = []
    for entry, size in zip(index, ref.aval.shape, strict=True):
        if entry is None:
            x = next(given)
            entries.append(pp.text(str(x.val), "literal") if type(x) is Literal else printer.atom(x))
        else:
            entries.append(_slice_doc(entry, next(given) if entry.start is None else None, size, printer))
    inside = pp.join(_mark(","), entries)
    return pp.concat((printer.atom(ref), _mark("["), inside, _mark("]")))


def _arrow(eqn: JaxprEqn, printer: Printer, sign: str) -> Doc:
    notes = [pp.note(text(eqn.source)) for text in printer.notes]
    return pp.concat((pp.text(f" {sign} ", "primitive"), *notes))


def _get_shown(eqn: JaxprEqn, printer: Printer) -> Doc:
    """``a:f32[] <- r[i]``"""
    ref, *operands = eqn.invars
    out = printer.binder(eqn.outvars[0])
    return pp.concat((out, _arrow(eqn, printer, "<-"), _place_doc(ref, operands, eqn.params["index"], printer)))


def _swap_shown(eqn: JaxprEqn, printer: Printer) -> Doc:
    """``r[i] <- x``, or ``a:f32[], r[i] <- r[i], x`` if the old content is used."""
    ref, value, *operands = eqn.invars
    (out,) = eqn.outvars
    arrow = _arrow(eqn, printer, "<-")
    place = _place_doc(ref, operands, eqn.params["index"], printer)
    if printer.names.get(out) == "_" or type(out) is DropVar:
        return pp.concat((place, arrow, printer.atom(value)))
    comma = _mark(", ")
    return pp.concat((printer.binder(out), comma, place, arrow, place, comma, printer.atom(value)))


def _addupdate_shown(eqn: JaxprEqn, printer: Printer) -> Doc:
    """``r[i] += x``"""
    ref, value, *operands = eqn.invars
    place = _place_doc(ref, operands, eqn.params["index"], printer)
    return pp.concat((place, _arrow(eqn, printer, "+="), printer.atom(value)))


set_rules(get_p, jvp=get_jvp, axis_batch=get_batch, shown_eqn=_get_shown)
set_rules(swap_p, jvp=swap_jvp, axis_batch=_write_batch(swap_p, "a set/swap"), shown_eqn=_swap_shown)
set_rules(
    addupdate_p, jvp=addupdate_jvp, axis_batch=_write_batch(addupdate_p, "an addupdate"), shown_eqn=_addupdate_shown
)
