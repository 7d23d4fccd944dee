"""Programs of JAX's as programs of ours: each equation becomes one of the primitive of the same name.

In: a ``ClosedJaxpr`` of JAX's. Out: one of ours with the same types, equation by equation, each with the line of the
user's program. Invariant: an equation is ours only if our primitive takes all its params and gives its types.

A primitive that is not ours is *borrowed* (``interop.borrowed``): one of the same name and params, with rules that are
derived from JAX's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax import errors, lax
from minijax.core.primitive import Primitive, abstract_eval, abstract_rules, impl_rules
from minijax.interop.values import aval_of, from_jax_value
from minijax.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from minijax.lowering.lower import lowering_rules
from minijax.ops import linear_solve

# rule(eqn, invars, outvars, source) -> equations, for primitives of JAX's whose equations are no calls of ours with the
# same params; None: the equation is like any other. Filled by ``interop.special``.
ImportRule = Callable[[Any, list[Any], list[Var], Any], "list[JaxprEqn] | None"]
import_rules: dict[str, ImportRule] = {}

# Makes our equation of one whose primitive is not ours; set by ``interop.borrowed``, which imports what it derives.
borrow_eqn: Callable[[Any, list[Any], list[Var], Any], JaxprEqn]


def set_borrowing(make: Callable[[Any, list[Any], list[Var], Any], JaxprEqn]) -> None:
    """Install what makes our equation of one whose primitive is not ours."""
    global borrow_eqn
    borrow_eqn = make


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
    return [borrow_eqn(eqn, invars, outvars, source)]


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
