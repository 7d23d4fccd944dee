"""Programs of JAX's as programs of ours: each equation becomes one of the primitive of the same name.

In: a ``ClosedJaxpr`` of JAX's. Out: one of ours with the same types, equation by equation, each with the line of the
user's program. Invariant: an equation is ours only if our primitive takes all its params and gives its types.

A primitive that is not ours is *borrowed*: one of the same name and params whose rules are derived from JAX's, once for
each signature. Evaluation and lowering are JAX's lowering; every other rule is a program that JAX traces and that is
imported as any other. So the two mechanisms are one, and stand in one file.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax import errors, lax
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.primitive import Primitive, abstract_eval, abstract_rules, impl_rules
from minijax.core.structural import UndefinedPrimal, Zero, zero_of
from minijax.interop.signature import JaxCall, call_of
from minijax.interop.values import aval_of, from_jax_value, jax_module, spec_of
from minijax.interpreters.jvp import jvp_rules
from minijax.interpreters.transpose import transpose_rules
from minijax.interpreters.vmap import batching_rules
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from minijax.lowering import bindings
from minijax.lowering.lower import ModuleWriter, lowering_rules
from minijax.lowering.text import FunctionWriter, mlir_type
from minijax.ops import linear_solve
from minijax.ops.call import compiled

# rule(eqn, invars, outvars, source) -> equations, for primitives of JAX's whose equations are no calls of ours with the
# same params; None: the equation is like any other. Filled by ``interop.special``.
ImportRule = Callable[[Any, list[Any], list[Var], Any], "list[JaxprEqn] | None"]
import_rules: dict[str, ImportRule] = {}

# Params of JAX's that ours lack: nothing is lost where they say nothing.
_SAYING_NOTHING = ("accuracy", "out_dtype", "out_sharding", "sharding")


# ------------------------------------------------------------------------------------------------ import


def import_closed(theirs: Any, name: str = "") -> ClosedJaxpr:
    """Our program for a ``ClosedJaxpr`` of JAX's, called ``name``, or as JAX calls it."""
    return ClosedJaxpr(import_jaxpr(theirs.jaxpr, name), list(map(from_jax_value, theirs.consts)))


def import_jaxpr(theirs: Any, name: str = "") -> Jaxpr:
    """Our open program for a ``Jaxpr`` of JAX's."""
    env: dict[Any, Var] = {}
    eqns: list[JaxprEqn] = []

    def variable(v: Any) -> Var:
        kind = DropVar if type(v).__name__ == "DropVar" else Var
        if v not in env:
            env[v] = kind(aval_of(v.aval))
        return env[v]

    def atom(v: Any) -> Var | Literal:
        if not hasattr(v, "val"):
            return variable(v)
        aval = aval_of(v.aval)
        return Literal(np.asarray(v.val, aval.dtype)[()], aval)

    constvars, invars = list(map(variable, theirs.constvars)), list(map(variable, theirs.invars))
    for eqn in theirs.eqns:
        eqns += import_eqn(eqn, list(map(atom, eqn.invars)), list(map(variable, eqn.outvars)))
    called = name or getattr(theirs.debug_info, "func_name", "")
    return Jaxpr(constvars, invars, list(map(atom, theirs.outvars)), eqns, called)


def import_eqn(eqn: Any, invars: list[Any], outvars: list[Var]) -> list[JaxprEqn]:
    """Our equations for one of JAX's: of our primitive of that name if it takes the params, else of a borrowed one."""
    source = source_of(eqn)
    rule = import_rules.get(eqn.primitive.name)
    found = rule(eqn, invars, outvars, source) if rule is not None else None
    if found is not None:
        return found
    if eqn.effects:
        what = f"{eqn.primitive.name} acts on the world ({', '.join(map(str, eqn.effects))})"
        raise NotImplementedError(f"{what}: such a call of JAX's cannot be taken over.")
    ours = our_primitives().get(eqn.primitive.name)
    if ours is not None:
        params = _translated(eqn.params)
        if _fits(ours, params, invars, outvars):
            return [JaxprEqn(ours, invars, params, outvars, source)]
    return [JaxprEqn(borrowed(eqn.primitive), invars, eqn.params, outvars, source)]


@functools.cache
def our_primitives() -> dict[str, Primitive]:
    """Our primitives by name: those that can be evaluated or compiled."""
    return {p.name: p for p in abstract_rules if p in lowering_rules or p in impl_rules}


def _fits(ours: Primitive, params: dict[str, Any], invars: Sequence[Any], outvars: Sequence[Var]) -> bool:
    """Whether our primitive takes the params and gives results of JAX's types."""
    try:
        found = abstract_eval(ours, tuple([v.aval for v in invars]), params)
    except (TypeError, ValueError, KeyError, AttributeError, NotImplementedError):
        return False
    found = found if ours.multiple_results else [found]
    return [a.strip_weak_type() for a in found] == [v.aval.strip_weak_type() for v in outvars]


def _translated(params: dict[str, Any]) -> dict[str, Any]:
    """The params of an equation of JAX's in our classes, without those that say nothing."""
    kept = {name: value for name, value in params.items() if not (name in _SAYING_NOTHING and value is None)}
    return {name: _param(value) for name, value in kept.items()}


def _param(value: Any) -> Any:
    kind = type(value)
    if kind is tuple:
        return tuple(map(_param, value))
    if not kind.__module__.startswith("jax"):
        return value
    if kind.__name__ == "ClosedJaxpr":
        return import_once(value)
    if kind.__name__ == "Jaxpr":
        return import_jaxpr(value)
    ours = getattr(lax, kind.__name__, None) or getattr(linear_solve, kind.__name__, None)
    if ours is None:
        return value
    if hasattr(value, "_fields"):
        return ours(*map(_param, value))
    if hasattr(value, "__dataclass_fields__"):
        return ours(**{name: _param(getattr(value, name)) for name in value.__dataclass_fields__})
    return ours[value.name] if hasattr(value, "name") else value


_imported: dict[int, tuple[Any, ClosedJaxpr]] = {}


def import_once(theirs: Any, name: str = "") -> ClosedJaxpr:
    """Our program for one of JAX's, the same object each time: what is derived from it is kept with it."""
    if id(theirs) not in _imported:
        if len(_imported) >= 4096:
            _imported.clear()
        if hasattr(theirs, "consts"):
            made = import_closed(theirs, name)
        else:
            made = ClosedJaxpr(import_jaxpr(theirs, name))
        _imported[id(theirs)] = theirs, made
    return _imported[id(theirs)][1]


# ------------------------------------------------------------------------------------------------ source lines


def source_of(eqn: Any) -> Any:
    """Where the user asked for an equation of JAX's, as our equations say it; None if JAX does not know.

    The innermost line of the user's own files, or of a library's that is neither JAX nor minijax.
    """
    traceback = eqn.source_info.traceback
    if traceback is None:
        return None
    library = None
    for code, offset in zip(*traceback.raw_frames(), strict=True):
        file = code.co_filename
        if not errors.is_user_file(file) or "/jax/" in file or "/jaxlib/" in file:
            continue
        if "/site-packages/" not in file:
            return code, offset
        library = library or (code, offset)
    return library


# ------------------------------------------------------------------------------------------------ borrowed primitives


class BorrowedPrimitive(Primitive):
    """A primitive of JAX's among ours; ``theirs`` is JAX's own."""

    multiple_results = True

    def __init__(self, theirs: Any) -> None:
        super().__init__(theirs.name)
        self.theirs = theirs

    def call(self, avals: Sequence[Any], params: dict[str, Any]) -> JaxCall:
        """The call on operands of types ``avals``, with all that was derived for it."""
        return call_of(self.theirs, params, list(map(spec_of, avals)))

    def called(self, args: Sequence[Any], params: dict[str, Any]) -> JaxCall:
        """The call on ``args``: arrays, or the unknown inputs of a linear function."""
        return self.call([a.aval if type(a) is UndefinedPrimal else get_aval(a) for a in args], params)


_borrowed: dict[Any, BorrowedPrimitive] = {}


def borrowed(theirs: Any) -> BorrowedPrimitive:
    """The primitive that stands for ``theirs`` among ours, with all its rules."""
    found = _borrowed.get(theirs)
    if found is None:
        found = _borrowed[theirs] = BorrowedPrimitive(theirs)
        abstract_rules[found] = functools.partial(borrowed_abstract, found)
        impl_rules[found] = functools.partial(borrowed_impl, found)
        lowering_rules[found] = functools.partial(borrowed_lower, found)
        jvp_rules[found] = functools.partial(borrowed_jvp, found)
        transpose_rules[found] = functools.partial(borrowed_transpose, found)
        batching_rules[found] = functools.partial(borrowed_batch, found)
    return found


def borrowed_abstract(p: BorrowedPrimitive, *avals: Any, **params: Any) -> Any:
    return list(map(aval_of, p.call(avals, params).out_specs))


def borrowed_impl(p: BorrowedPrimitive, *args: Any, **params: Any) -> list[Any]:
    call = p.called(args, params)

    def make() -> Any:
        ins = [Var(aval_of(spec)) for spec in call.specs]
        outs = [Var(aval_of(spec)) for spec in call.out_specs]
        closed = ClosedJaxpr(Jaxpr([], ins, outs, [JaxprEqn(p, ins, params, outs)], p.name))
        return compiled(closed, p.name)

    return call.derived("compiled", make)(*args)


def _traced(call: JaxCall, key: Any, make: Callable[[], tuple[Any, list[Any]]]) -> ClosedJaxpr:
    """The program of a rule of JAX's: ``make`` gives a function that applies it, and the types of its arguments."""

    def trace() -> ClosedJaxpr:
        fun, specs = make()
        return without_sources(import_closed(jax_module().make_jaxpr(fun)(*specs), f"{key[0]}_of_{call.name}"))

    return call.derived(key, trace)


def without_sources(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program that is a rule: its equations stand for that of the user's, and have no lines of their own."""
    jaxpr = closed.jaxpr
    return ClosedJaxpr(jaxpr.replace(eqns=[eqn.replace(source=None) for eqn in jaxpr.eqns]), closed.consts)


def jvp_program(call: JaxCall, perturbed: tuple[bool, ...]) -> ClosedJaxpr:
    """Primals, then the tangents of the perturbed ones, to the results, then the tangents of the inexact ones."""

    def make() -> tuple[Any, list[Any]]:
        jax = jax_module()
        positions = [i for i, p in enumerate(perturbed) if p]

        def fun(*values: Any) -> list[Any]:
            primals, tangents = list(values[: len(perturbed)]), values[len(perturbed) :]

            def of(*varied: Any) -> list[Any]:
                full = list(primals)
                for i, x in zip(positions, varied, strict=True):
                    full[i] = x
                return call.fun(*full)

            outs, out_tangents = jax.jvp(of, tuple([primals[i] for i in positions]), tuple(tangents))
            return [*outs, *[t for t in out_tangents if t.dtype != jax.dtypes.float0]]

        return fun, [*call.specs, *[call.specs[i] for i in positions]]

    return _traced(call, ("jvp", perturbed), make)


def borrowed_jvp(p: BorrowedPrimitive, primals: Any, tangents: Any, **params: Any) -> Any:
    call = p.called(primals, params)
    program = jvp_program(call, tuple([type(t) is not Zero for t in tangents]))
    results = eval_closed(program, *primals, *[t for t in tangents if type(t) is not Zero])
    types = list(map(aval_of, call.out_specs))
    found = iter(results[len(types) :])
    return results[: len(types)], [next(found) if dtypes.is_inexact(a.dtype) else zero_of(a) for a in types]


def borrowed_transpose(p: BorrowedPrimitive, cts: Any, *args: Any, **params: Any) -> list[Any]:
    call = p.called(args, params)
    linear = tuple([type(a) is UndefinedPrimal for a in args])
    given = tuple([type(ct) is not Zero for ct in cts])

    def make() -> tuple[Any, list[Any]]:
        jax = jax_module()
        known = [spec for spec, lin in zip(call.specs, linear, strict=True) if not lin]
        unknown = [spec for spec, lin in zip(call.specs, linear, strict=True) if lin]

        def fun(*values: Any) -> Any:
            fixed, ct_values = values[: len(known)], iter(values[len(known) :])

            def of(*unknowns: Any) -> list[Any]:
                rest, varied = iter(fixed), iter(unknowns)
                return call.fun(*[next(varied) if lin else next(rest) for lin in linear])

            full = [
                next(ct_values) if there else jax.numpy.zeros(spec.shape, spec.dtype)
                for there, spec in zip(given, call.out_specs, strict=True)
            ]
            return jax.linear_transpose(of, *unknown)(full)

        return fun, [*known, *[spec for there, spec in zip(given, call.out_specs, strict=True) if there]]

    program = _traced(call, ("transpose", linear, given), make)
    known_args = [a for a, lin in zip(args, linear, strict=True) if not lin]
    found = iter(eval_closed(program, *known_args, *[ct for ct in cts if type(ct) is not Zero]))
    return [next(found) if lin else None for lin in linear]


def borrowed_batch(p: BorrowedPrimitive, args: Any, dims: Any, **params: Any) -> Any:
    jax = jax_module()
    avals = [get_aval(a) for a in args]
    size = next(a.shape[d] for a, d in zip(avals, dims, strict=True) if d is not None)
    each = [
        a if d is None else a.update(shape=a.shape[:d] + a.shape[d + 1 :]) for a, d in zip(avals, dims, strict=True)
    ]
    call = p.call(each, params)
    program = _traced(
        call, ("vmap", tuple(dims), size), lambda: (jax.vmap(call.fun, in_axes=tuple(dims)), list(map(spec_of, avals)))
    )
    return eval_closed(program, *args), [0] * len(call.out_specs)


# ------------------------------------------------------------------------------------------------ lowering


def borrowed_lower(
    p: BorrowedPrimitive, ctx: FunctionWriter, avals: Any, out_avals: Any, *names: str, **params: Any
) -> Any:
    symbol = _function(ctx.module, p.call(avals, params))
    ins, outs = ", ".join(map(mlir_type, avals)), ", ".join(map(mlir_type, out_avals))
    return ctx.emit_many(f"func.call @{symbol}({', '.join(names)}) : ({ins}) -> ({outs})", len(out_avals))


def _function(module: ModuleWriter, call: JaxCall) -> str:
    """The symbol of the private function that JAX's lowering of ``call`` is in ``module``."""
    known = module.authored.get(call)
    if known is None:
        known = module.authored[call] = _spliced(module, call)
    return known


def _spliced(module: ModuleWriter, call: JaxCall) -> str:
    """Write JAX's lowering of ``call`` into ``module``, its functions under names that nobody has."""
    jax, ir = jax_module(), bindings.ir()

    def lower() -> str:
        # unused operands would vanish from the signature otherwise
        stablehlo = jax.jit(call.fun, keep_unused=True).lower(*call.specs).compiler_ir("stablehlo")
        return stablehlo.operation.get_asm(enable_debug_info=False)

    text = call.derived("lowered", lower)
    main = ""
    with bindings.make_context():
        theirs = ir.Module.parse(text)
        for op in theirs.body.operations:
            old = ir.StringAttr(op.attributes["sym_name"]).value
            new = module.unique(call.name if old == "main" else old)
            if new != old:
                ir.SymbolTable.replace_all_symbol_uses(old, new, theirs.operation)
                ir.SymbolTable.set_symbol_name(op.operation, new)
            if old == "main":
                main = new
                op.attributes["sym_visibility"] = ir.StringAttr.get("private")
            for name in ("arg_attrs", "res_attrs"):
                if name in op.attributes:
                    del op.attributes[name]
        for op in theirs.body.operations:
            asm = op.operation.get_asm(use_local_scope=True)
            module.functions.append("\n".join(f"  {line}" for line in asm.splitlines()))
    return main
