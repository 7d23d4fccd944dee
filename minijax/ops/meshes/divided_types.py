"""How the results of operations are divided, as types of meshes with explicit axes say: one rule for each primitive.

In: the specs of the operands (an entry for each dimension: ``core.explicit``), their plain types, those of the results,
and the parameters. Out: the spec of each result, or ShardingTypeError where it does not follow and has to be said. The
rules are JAX's. Primitives that hold programs have none: types go through the programs.

Where a parameter says how the result is divided (``out_sharding``, ``sharding``), that is what it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from minijax.core import structural, varying
from minijax.core.avals import ShapedArray
from minijax.core.explicit import (
    NO_SUMS,
    Spec,
    Sums,
    divided,
    divided_like,
    mesh_of_type,
    plain_type,
    redivided,
    spec_of,
)
from minijax.core.meshes import AbstractMesh
from minijax.core.primitive import Primitive, abstract_hooks, infer_type
from minijax.core.shardings import DuplicateSpecError, NamedSharding, axes_of_part
from minijax.core.trace import state
from minijax.errors import ShardingTypeError, source_info, summarize
from minijax.ops import (
    checkpoint,
    clamp,
    convert,
    cumulative,
    dot,
    dynamic,
    fft,
    index,
    nary,
    reduce,
    reducer,
    scatter,
    select,
    shape,
    slicing,
    sort,
)
from minijax.ops.linalg import cholesky, eig, eigh, lu, qr, svd, triangular_solve
from minijax.ops.meshes.reshard import reshard_p
from minijax.ops.random import bits, keys
from minijax.ops.windows import convolution, pooling, reduce_window
from minijax.ops.windows import reducer as windowed

Plain = Sequence[ShapedArray]
# (the operation, specs of operands, their types, types of results, parameters) -> the spec of each result
Rule = Callable[["DividedOperation"], Any]


class DividedOperation:
    """One operation whose operands' types say how they are divided."""

    __slots__ = ("primitive", "avals", "specs", "plain", "outs", "params", "mesh")

    def __init__(
        self, primitive: Primitive, avals: Plain, plain: Plain, outs: Plain, params: dict[str, Any], mesh: AbstractMesh
    ) -> None:
        self.primitive, self.params, self.mesh = primitive, params, mesh
        # the operands' types, and what they say of shapes and of divisions; the types of the results
        self.avals, self.plain, self.specs, self.outs = avals, plain, [*map(spec_of, avals)], outs

    @property
    def name(self) -> str:
        return self.primitive.name

    def refuse(self, message: str) -> NoReturn:
        raise ShardingTypeError(message)

    def text(self, i: int) -> str:
        """The type of operand ``i``, as jaxprs print it."""
        return self.avals[i].str_short()

    def count(self, part: Any) -> int:
        """Into how many parts the axes of ``part`` divide a dimension."""
        return self.mesh.count(axes_of_part(part))


_rules: dict[Primitive, Rule] = {}


def type_of_divided(primitive: Primitive, avals: tuple[Any, ...], params: dict[str, Any], following: int) -> Any:
    """The result type(s) where an operand's type, or a parameter, says how it is divided; None where none does.

    ShardingTypeError, which names the operation, its operands' types and the user's line, where it does not follow.
    """
    try:
        return _type_of_divided(primitive, avals, params, following)
    except ShardingTypeError as error:
        raise ShardingTypeError(_in_full(str(error), primitive, avals)) from error.__cause__


def _in_full(message: str, primitive: Primitive, avals: tuple[Any, ...]) -> str:
    """``message`` with what it does not say of the operation, its operands and where it stands."""
    if not message.startswith(f"{primitive.name}:"):
        message = f"{primitive.name}: {message}"
    types = [aval.str_short() for aval in avals]
    if not all(text in message for text in types):
        message += f" Types of the operands: {', '.join(types)}."
    source = state.source or source_info()
    return message if source is None else f"{message} It happened at {summarize(source)}."


def _type_of_divided(primitive: Primitive, avals: tuple[Any, ...], params: dict[str, Any], following: int) -> Any:
    if primitive.takes_refs:  # a reference's type is that of what it holds
        return None
    rule = _broadcast if primitive in nary.elementwise_primitives else _rules.get(primitive)
    if rule is None and not primitive.keeps_signatures:
        return None
    meshes = [mesh for mesh in map(mesh_of_type, avals) if mesh is not None]
    said = params["dst_sharding"] if primitive is reshard_p else _said(params)
    if not meshes and said is None:
        return None
    if primitive is reshard_p:  # whatever the operand is divided over
        _check_sums_moved(avals[0], said)  # type: ignore[arg-type]
        return divided_like(avals[0], said)
    if any(mesh != meshes[0] for mesh in meshes):
        other = next(mesh for mesh in meshes if mesh != meshes[0])
        raise ShardingTypeError(
            f"{primitive.name}: Mesh for all inputs should be equal. Got one mesh: {meshes[0]} and another mesh: "
            f"{other}. Bring the operands to one mesh with sharding.reshard."
        )
    plain = tuple(map(plain_type, avals))
    out = infer_type(primitive, plain, params, following)
    # what the operands' types say of sums over devices, and that of the result
    sums = NO_SUMS
    if any(aval.unreduced or aval.reduced for aval in avals) or (
        said is not None and (said.spec.unreduced or said.spec.reduced)
    ):
        varying.note_summed()
        sums = varying.sums_of_results(primitive, avals, params)
    if said is not None and not primitive.multiple_results:
        return redivided(out, said.mesh, said.spec.partitions, sums)
    if rule is None:
        raise ShardingTypeError(
            f"sharding rule for {primitive.name} is not implemented: how its result is divided does not follow "
            "from its operands. Leave it to the compiler there: sharding.auto_axes(function, out_sharding=...)."
        )
    outs = out if primitive.multiple_results else [out]
    operation = DividedOperation(primitive, avals, plain, outs, params, meshes[0] if meshes else said.mesh)  # type: ignore[union-attr]
    specs = rule(operation)
    if not primitive.multiple_results:
        specs = [specs]
    typed = [_divided(operation, out, spec, sums) for out, spec in zip(outs, specs, strict=True)]
    return typed if primitive.multiple_results else typed[0]


def _said(params: dict[str, Any]) -> NamedSharding | None:
    """How a parameter says that the result is divided."""
    said = params.get("out_sharding") or params.get("sharding")
    return said if isinstance(said, NamedSharding) else None


def _check_sums_moved(aval: ShapedArray, wanted: NamedSharding) -> None:
    """ShardingTypeError where one sum over devices would have to be taken, and another one be left: XLA cannot."""
    before, after = aval.unreduced, wanted.spec.unreduced
    if before - after and after - before:
        raise ShardingTypeError(
            f"reshard: {aval.str_short()} is unreduced along {set(before)} and would be along {set(after)}, which is "
            "no one step. Take the sum first: sharding.reshard(x, P(...)) without unreduced axes."
        )


def _divided(operation: DividedOperation, out: ShapedArray, spec: Spec, sums: Sums) -> ShapedArray:
    try:
        return divided(out, operation.mesh, spec, sums)
    except DuplicateSpecError as error:
        operands = ", ".join(aval.str_short() for aval in operation.avals)
        sizes = ",".join(f"{size}@{part}" if part else str(size) for size, part in zip(out.shape, spec, strict=False))
        name = out.str_short().partition("[")[0]
        raise ShardingTypeError(
            f"{operation.name} operation with inputs: {operands} produces an illegally sharded result: "
            f"{name}[{sizes}]. Bring one operand to another sharding first, with sharding.reshard."
        ) from error


# ------------------------------------------------------------------------------------ what shapes have in common


def _first(op: DividedOperation) -> Spec:
    """The result is divided as the first operand is."""
    return op.specs[0]


def _broadcast(op: DividedOperation) -> Spec:
    """Operands of one shape: a dimension that is divided in one of them is so in the result."""
    ranked = [(spec, aval.shape) for spec, aval in zip(op.specs, op.plain, strict=True) if aval.shape]
    if not ranked:
        return ()
    result: list[Any] = []
    for dim in range(len(ranked[0][1])):
        parts = [spec[dim] for spec, _ in ranked]
        named = [*dict.fromkeys(part for part in parts if part is not None)]
        if len(named) > 1:
            found = ", ".join(str(spec) for spec, _ in ranked)
            op.refuse(
                f"{op.name} got incompatible shardings for broadcasting: {found}. Bring one operand to the other's "
                "sharding first, with sharding.reshard."
            )
        result.append(named[0] if named else None)
    return tuple(result)


def _same_size(op: DividedOperation, out: ShapedArray, what: str) -> Spec:
    """The first operand's spec, for a result of as many dimensions of which some have another size."""
    for old, new, part in zip(op.plain[0].shape, out.shape, op.specs[0], strict=True):
        if old != new and part is not None and new % op.count(part):
            op.refuse(
                f"{what} on sharded dims where out dim ({new}) is not divisible by mesh axes ({op.count(part)}) with "
                f"spec ({part}) is not implemented. Got input type={op.text(0)} and output shape={out.shape}. Bring "
                "the operand to another sharding first, with sharding.reshard."
            )
    return op.specs[0]


def _resized(what: str) -> Rule:
    def rule(op: DividedOperation) -> Any:
        specs = [_same_size(op, out, what) for out in op.outs]
        return specs if op.primitive.multiple_results else specs[0]

    return rule


def _without(spec: Spec, dims: Sequence[int]) -> Spec:
    return tuple(part for i, part in enumerate(spec) if i not in dims)


def _reduced(op: DividedOperation) -> Spec:
    return _without(op.specs[0], op.params["axes"])


def _reduce(op: DividedOperation) -> list[Spec]:
    return [_without(spec, op.params["dimensions"]) for spec in op.specs[: len(op.outs)]]


def _along_axis(
    what: Callable[[DividedOperation], int], message: Callable[[DividedOperation, int], str], result: Rule
) -> Rule:
    """The rule of an operation along one axis, along which its operand may not be divided."""

    def rule(op: DividedOperation) -> Any:
        axis = what(op)
        if op.specs[0][axis] is not None:
            op.refuse(f"{message(op, axis)} Bring it there whole with sharding.reshard.")
        return result(op)

    return rule


# -------------------------------------------------------------------------------------------- what moves dimensions


def _broadcast_in_dim(op: DividedOperation) -> Spec:
    dims = op.params["broadcast_dimensions"]
    parts = dict(zip(dims, op.specs[0], strict=True))
    return tuple(parts.get(d) for d in range(len(op.params["shape"])))


def _transpose(op: DividedOperation) -> Spec:
    return tuple(op.specs[0][d] for d in op.params["permutation"])


def _squeeze(op: DividedOperation) -> Spec:
    return _without(op.specs[0], op.params["dimensions"])


def _concatenate(op: DividedOperation) -> Spec:
    _equal(op, op.specs, "All operands should have the same sharding. Got shardings ")
    return op.specs[0]


def _equal(op: DividedOperation, specs: Sequence[Spec], message: str) -> None:
    if any(spec != specs[0] for spec in specs):
        op.refuse(
            f"{message}{', '.join(f'P{spec}' for spec in specs)}. Bring the operands to one sharding with "
            "sharding.reshard."
        )


def _stack(op: DividedOperation) -> Spec:
    axis = op.params["axis"]
    spec = _concatenate(op)
    return (*spec[:axis], None, *spec[axis:])


def _unstack(op: DividedOperation) -> list[Spec]:
    return [_without(op.specs[0], [op.params["axis"]])] * len(op.outs)


def _unstack_refused(op: DividedOperation, axis: int) -> str:
    return f"unstack operand cannot be sharded on the unstacking axis {axis}. Got operand type={op.text(0)}."


def _tile(op: DividedOperation) -> Spec:
    for dim, (count, part) in enumerate(zip(op.params["reps"], op.specs[0], strict=True)):
        if count != 1 and part is not None:
            op.refuse(
                f"Operand cannot be sharded on dimension {dim} when the tiling is non-trivial. Got input type: "
                f"{op.avals[0]} with reps: {op.params['reps']}. Bring it there whole with sharding.reshard."
            )
    return op.specs[0]


def _reshape(op: DividedOperation) -> Spec:
    """One dimension may be split, or several merged; sizes of 1 come and go."""
    (spec,), old, new = op.specs, op.plain[0].shape, tuple(op.params["new_sizes"])
    if all(part is None for part in spec):
        return ()
    if [size for size in old if size != 1] == [size for size in new if size != 1]:
        kept = iter([part for size, part in zip(old, spec, strict=True) if size != 1])
        return tuple(None if size == 1 else next(kept) for size in new)
    groups = _regrouped(old, new)
    if groups is None or op.params["dimensions"] is not None:
        _reshape_refused(op)
    result: list[Any] = []
    for ins, outs in groups:
        parts = [spec[i] for i in ins]
        sizes = [new[i] for i in outs]
        if len(ins) == len(outs) == 1 or all(part is None for part in parts):
            result += parts if len(ins) == len(outs) == 1 else [None] * len(sizes)
            continue
        while parts and parts[-1] is None:
            parts.pop()
        if None in parts:
            _reshape_refused(op)
        result += _spread(op, [name for part in parts for name in axes_of_part(part)], sizes)
    return tuple(result)


def _regrouped(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]] | None:
    """Which dimensions become which: None unless a single dimension is split, or only one group is merged."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        ins, outs = [i] if i < len(old) else [], [j] if j < len(new) else []
        i, j = i + 1, j + 1
        while math.prod(old[k] for k in ins) != math.prod(new[k] for k in outs):
            if math.prod(old[k] for k in ins) < math.prod(new[k] for k in outs):
                if i >= len(old):
                    return None
                ins.append(i)
                i += 1
            else:
                if j >= len(new):
                    return None
                outs.append(j)
                j += 1
        if not ins:  # sizes of 1 at the end
            if not groups:
                return None
            groups[-1][1].extend(outs)
        elif not outs:
            if not groups:
                return None
            groups[-1][0].extend(ins)
        else:
            groups.append((ins, outs))
    changed = [(ins, outs) for ins, outs in groups if (len(ins), len(outs)) != (1, 1)]
    if len(changed) > 1 or any(len(ins) > 1 and len(outs) > 1 for ins, outs in changed):
        return None
    return groups


def _spread(op: DividedOperation, names: list[str], sizes: Sequence[int]) -> list[Any]:
    """The axes ``names`` over dimensions of these ``sizes``, the outermost first, each as long as it can be divided."""
    remaining = iter(names)
    parts: list[Any] = []
    for size in sizes:
        taken: list[str] = []
        while size > 1:
            name = next(remaining, None)
            if name is None:
                break
            if size % op.mesh.shape[name]:
                _reshape_refused(op)
            size //= op.mesh.shape[name]
            taken.append(name)
        parts.append(None if not taken else taken[0] if len(taken) == 1 else tuple(taken))
    if next(remaining, None) is not None:
        _reshape_refused(op)
    return parts


def _reshape_refused(op: DividedOperation) -> NoReturn:
    op.refuse(
        "This reshape is not supported. Please specify the sharding of the output via the `out_sharding` argument of "
        f"jax.lax.reshape. Got operand type: {op.avals[0]}, new sizes: {op.params['new_sizes']}."
    )


def _bitcast(op: DividedOperation) -> Spec:
    (x,), (out,), (spec,) = op.plain, op.outs, op.specs
    if x.ndim == out.ndim:
        return spec
    if out.ndim > x.ndim:
        return (*spec, None)
    if spec[-1] is not None:
        op.refuse(
            f"bitcast_convert_type joins the elements along the last dimension, which is sharded: {op.text(0)}. Bring "
            "it there whole with sharding.reshard."
        )
    return spec[:-1]


# ------------------------------------------------------------------------------------------- what chooses and joins


def _select(op: DividedOperation) -> Spec:
    which, *cases = op.specs
    _equal(op, cases, "select cases must have the same shardings, got ")
    if any(part is not None for part in which) and which != cases[0]:
        op.refuse(
            f"select `which` must be scalar or have the same sharding as cases, got `which` sharding P{which} but case "
            f"sharding P{cases[0]}. Bring it there with sharding.reshard."
        )
    return cases[0]


def _clamp(op: DividedOperation) -> Spec:
    return op.specs[1]


def _sort(op: DividedOperation) -> list[Spec]:
    dimension = op.params["dimension"]
    for i, spec in enumerate(op.specs):
        if spec[dimension] is not None:
            op.refuse(
                "Arguments to sort must be unsharded over the sorting dimension. Got arg "
                f"sharding={op.avals[i].sharding} and sorting dimension={dimension}. Bring it there whole with "
                "sharding.reshard."
            )
    # what every device has all of, such as the places of what is sorted, is divided as the others are
    divided = [spec for spec in op.specs if any(part is not None for part in spec)]
    _equal(op, divided, "Arguments to sort must have equal shardings, got: ")
    return [divided[0]] * len(op.specs) if divided else [*op.specs]


def _dynamic_update_slice(op: DividedOperation) -> Spec:
    if op.specs[0] != op.specs[1]:
        op.refuse(
            "dynamic_update_slice operand sharding must be equal to update sharding, got operand sharding "
            f"{op.text(0)} and update sharding {op.text(1)}. Bring the update there with sharding.reshard."
        )
    return op.specs[0]


def _dot_general(op: DividedOperation) -> Spec:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = op.params["dimension_numbers"]
    lhs, rhs = op.specs
    batch, batch_too = tuple(lhs[d] for d in lhs_batch), tuple(rhs[d] for d in rhs_batch)
    contract, contract_too = tuple(lhs[d] for d in lhs_contract), tuple(rhs[d] for d in rhs_contract)
    for ours, theirs, what in (
        (batch, batch_too, "lhs batch dimensions and rhs batch dimensions to have the consistent sharding"),
        (contract, contract_too, "contracting dimensions to have consistent sharding"),
    ):
        if any(a is not None and b is not None and a != b for a, b in zip(ours, theirs, strict=True)):
            op.refuse(
                f"dot_general requires {what}, got {ours} and {theirs}. Bring one operand to the other's with "
                "sharding.reshard."
            )
    if any(a is not None and b is not None for a, b in zip(contract, contract_too, strict=True)):
        op.refuse(
            "Contracting dimensions are sharded and it is ambiguous how the output should be sharded. Please specify "
            "the output sharding via the `out_sharding` parameter, such as out_sharding=P(None, None). Got "
            f"lhs_contracting_spec={contract} and rhs_contracting_spec={contract_too}."
        )
    free = _without(lhs, [*lhs_contract, *lhs_batch]) + _without(rhs, [*rhs_contract, *rhs_batch])
    return batch + free


def _convolution(op: DividedOperation) -> Spec:
    numbers = op.params["dimension_numbers"]
    if all(part is None for part in op.specs[1]) and op.specs[0][numbers.lhs_spec[1]] is None:
        lhs, out = numbers.lhs_spec, numbers.out_spec
        sizes = [op.outs[0].shape[out[lhs.index(d)]] for d in range(len(lhs))]
        moved = ShapedArray(tuple(sizes), op.outs[0].dtype)
        spec = _same_size(op, moved, "conv_general_dilated")
        result: list[Any] = [None] * len(lhs)
        for place, d in enumerate(lhs):
            result[out[place]] = spec[d]
        return tuple(result)
    op.refuse(
        "Please specify the output sharding via `out_sharding` parameter of `conv_general_dilated`: its operands are "
        f"{op.text(0)} and {op.text(1)}."
    )


def _gather(op: DividedOperation) -> Spec:
    numbers, sizes = op.params["dimension_numbers"], op.params["slice_sizes"]
    operand, indices = op.specs
    if not any(part is not None for spec in op.specs for part in spec):
        return ()
    found = [*indices]
    batching = [*zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)]
    whole = all(
        sizes[d] == op.plain[0].shape[d] or operand[d] is None
        for d in numbers.start_index_map
    )
    agree = all(None in (operand[d], indices[i]) or operand[d] == indices[i] for d, i in batching)
    alone = all(part is None for i, part in enumerate(indices) if i not in numbers.start_indices_batching_dims)
    if not (whole and agree and alone):
        op.refuse(
            "Use `.at[...].get(out_sharding=)` to provide output PartitionSpec for the gather indexing as out sharding "
            "could not be resolved unambiguously (or would require collectives on inputs). Got "
            f"operand={op.avals[0]!r}, indices={op.avals[1]!r}"
        )
    for d, i in batching:
        found[i] = indices[i] or operand[d]
    kept = [d for d in range(len(operand)) if d not in (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)]
    windows, queries = iter(kept), iter(found)
    return tuple(
        operand[next(windows)] if d in numbers.offset_dims else next(queries) for d in range(op.outs[0].ndim)
    )


def _scatter(op: DividedOperation) -> Spec:
    numbers = op.params["dimension_numbers"]
    operand, indices, updates = op.specs
    if not any(part is not None for spec in op.specs for part in spec):
        return ()
    batched = numbers.scatter_indices_batching_dims
    queries = [d for d in range(len(updates)) if d not in numbers.update_window_dims]
    # dimension of indices -> dimension of updates
    of_updates = dict(zip(range(len(indices) - 1), queries, strict=True))
    batching = [(d, i, of_updates[i]) for d, i in zip(numbers.operand_batching_dims, batched, strict=True)]
    left_out = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    windows = [*zip(numbers.update_window_dims, [d for d in range(len(operand)) if d not in left_out], strict=True)]
    possible = (
        all(len({*filter(None, (operand[d], indices[i], updates[u]))}) < 2 for d, i, u in batching)
        and all(
            (op.plain[2].shape[u] == op.plain[0].shape[d] and updates[u] == operand[d])
            or (updates[u] is None and operand[d] is None)
            for u, d in windows
        )
        and all(operand[d] is None for d in numbers.inserted_window_dims)
        and all(updates[u] is None for i, u in of_updates.items() if i not in batched)
        and all(indices[i] is None for i in of_updates if i not in batched)
        and indices[-1] is None
    )
    if not possible:
        op.refuse(
            "Use `.at[...].set/add/mul/...(out_sharding=)` to provide output PartitionSpec for the scatter update as "
            "out sharding could not be resolved unambiguously (or would require collectives on inputs). Got "
            f"operand={op.avals[0]!r}, indices={op.avals[1]!r}, updates={op.avals[2]!r}"
        )
    result = [*operand]
    for d, i, u in batching:
        result[d] = operand[d] or indices[i] or updates[u]
    return tuple(result)


# ---------------------------------------------------------------------------------------------- linear algebra


def _linalg(rank: int) -> Rule:
    """The rule of a function of matrices, or vectors, of which all dimensions before the last ``rank`` are batches."""

    def rule(op: DividedOperation) -> Any:
        batches = []
        for i, spec in enumerate(op.specs):
            at = len(spec) - rank
            if any(part is not None for part in spec[at:]):
                op.refuse(
                    f"Input {i} to {op.name} must be unsharded on non-batch dimensions, but got P{spec}. Bring it "
                    "there whole with sharding.reshard."
                )
            batches.append(spec[:at])
        _equal(op, batches, f"All inputs to {op.name} must have the same batch sharding, but got ")
        return [batches[0]] * len(op.outs) if op.primitive.multiple_results else batches[0]

    return rule


def _triangular_solve(op: DividedOperation) -> Spec:
    a, b = op.specs
    left, transposed = op.params["left_side"], op.params["transpose_a"]
    if a[:-2] != b[:-2]:
        op.refuse(
            f"All inputs to triangular_solve must have the same batch sharding, but got P{a[:-2]} and P{b[:-2]}. Bring "
            "one operand to the other's with sharding.reshard."
        )
    a, b, batch = a[-2:], b[-2:], a[:-2]
    for name, spec, at in (("a", a, left ^ transposed), ("b", b, not left)):
        if spec[at] is not None:
            op.refuse(
                f"triangular solve input `{name}` must be unsharded on the contracting axis, but got P{spec} with "
                f"left_side={left} and transpose_a={transposed}. Bring it there whole with sharding.reshard."
            )
    return (*batch, a[transposed], b[1]) if left else (*batch, b[0], a[not transposed])


# ------------------------------------------------------------------------------------------------------ the table


def _scan_axis(op: DividedOperation) -> int:
    return op.params["axis"]  # type: ignore[no-any-return]


def _cumulated(op: DividedOperation, axis: int) -> str:
    return f"Input should be unsharded over the axis being reduced. Got input type={op.avals[0]} and axis={axis}."


def _topped(op: DividedOperation, axis: int) -> str:
    return (
        "The input should be unsharded over the axis along which to compute the top_k values. Got input "
        f"type={op.avals[0]} and axis={axis}."
    )


def _each_first(op: DividedOperation) -> list[Spec]:
    return [op.specs[0]] * len(op.outs)


def _each_own(op: DividedOperation) -> list[Spec]:
    return [*op.specs]


def _key_batch(op: DividedOperation) -> Spec:
    """Keys' own dimensions come first, and are divided as the keys are."""
    return op.specs[0]


def _unwrapped_keys(op: DividedOperation) -> Spec:
    return op.specs[0][: op.outs[0].ndim]


for _p in (
    convert.convert_element_type_p, convert.copy_p, convert.stop_gradient_p, convert.reduce_precision_p, shape.rev_p,
    checkpoint.name_p, bits.random_clone_p, bits.random_seed_p,
):
    _rules[_p] = _first
for _p in (
    reduce.reduce_sum_p, reduce.reduce_prod_p, reduce.reduce_max_p, reduce.reduce_min_p, reduce.reduce_and_p,
    reduce.reduce_or_p, reduce.reduce_xor_p, reduce.argmax_p, reduce.argmin_p,
):
    _rules[_p] = _reduced
for _p, _what in (
    (slicing.slice_p, "slicing"), (slicing.pad_p, "padding"), (slicing.split_p, "split"),
    (dynamic.dynamic_slice_p, "dynamic_slice"), (reduce_window.reduce_window_sum_p, "reduce_window"),
    (reduce_window.reduce_window_max_p, "reduce_window"), (reduce_window.reduce_window_min_p, "reduce_window"),
    (windowed.reduce_window_p, "reduce_window"), (pooling.select_and_gather_add_p, "select_and_gather_add"),
    (pooling.select_and_scatter_add_p, "select_and_scatter_add"),
):
    _rules[_p] = _resized(_what)
for _p in (
    cumulative.cumsum_p, cumulative.cumprod_p, cumulative.cummax_p, cumulative.cummin_p, cumulative.cumlogsumexp_p,
):
    _rules[_p] = _along_axis(_scan_axis, _cumulated, _first)
for _p in (
    scatter.scatter_p, scatter.scatter_add_p, scatter.scatter_sub_p, scatter.scatter_mul_p, scatter.scatter_min_p,
    scatter.scatter_max_p,
):
    _rules[_p] = _scatter
for _p in (
    cholesky.cholesky_p, eig.eig_p, eigh.eigh_p, lu.lu_p, qr.geqrf_p, qr.qr_p, svd.svd_p,
):
    _rules[_p] = _linalg(2)
for _p in (bits.random_bits_p, bits.random_split_p, keys.random_unwrap_p):
    _rules[_p] = _key_batch
_rules.update({
    structural.broadcast_in_dim_p: _broadcast_in_dim,
    structural.transpose_p: _transpose,
    structural.squeeze_p: _squeeze,
    nary.reshape_p: _reshape,
    convert.bitcast_convert_type_p: _bitcast,
    reducer.reduce_p: _reduce,
    slicing.concatenate_p: _concatenate,
    slicing.stack_p: _stack,
    slicing.unstack_p: _along_axis(_scan_axis, _unstack_refused, _unstack),
    shape.tile_p: _tile,
    select.select_n_p: _select,
    clamp.clamp_p: _clamp,
    sort.sort_p: _sort,
    sort.top_k_p: _along_axis(_scan_axis, _topped, _each_first),
    dynamic.dynamic_update_slice_p: _dynamic_update_slice,
    dot.dot_general_p: _dot_general,
    convolution.conv_general_dilated_p: _convolution,
    index.gather_p: _gather,
    triangular_solve.triangular_solve_p: _triangular_solve,
    lu.lu_pivots_to_permutation_p: _linalg(1),
    qr.householder_product_p: _linalg(2),
    fft.fft_p: _first,
    bits.random_fold_in_p: _broadcast,
    keys.random_wrap_p: _unwrapped_keys,
    checkpoint.optimization_barrier_p: _each_own,
})

abstract_hooks.append(type_of_divided)
