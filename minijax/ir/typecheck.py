"""Checks that a jaxpr is well formed and well typed.

In: a jaxpr. Out: nothing, or a ``JaxprTypeError`` with the equation and the user's line. Each variable must be bound
once, before it is read. Literals and constants must have their declared types. Results must have the types that
abstract evaluation gives, apart from weak types. Each subjaxpr is checked once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from minijax import errors
from minijax.core.avals import ShapedArray, same_sharding
from minijax.core.primitive import Primitive, abstract_eval
from minijax.errors import JaxprTypeError
from minijax.ir import doc as pp
from minijax.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from minijax.ir.pretty import Printer

# rule(in_avals, params) -> output avals; it raises TypeError if the operands do not fit. A primitive has a rule if its
# abstract evaluation is too lenient: it may assume, for example, that the arguments fit the subjaxpr. The rule is
# registered beside the primitive.
typecheck_rules: dict[Primitive, Callable[[tuple[ShapedArray, ...], dict[str, Any]], Sequence[ShapedArray]]] = {}


def typecheck_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> None:
    """Raise ``JaxprTypeError`` unless ``jaxpr``, and every jaxpr in it, is well typed."""
    root = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    seen: set[int] = set()
    todo: list[tuple[Any, JaxprEqn | None]] = [(jaxpr, None)]
    while todo:
        item, user = todo.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, ClosedJaxpr):
            try:
                _check_consts(item)
            except TypeError as error:
                raise _located(error, root, user) from None
            todo.append((item.jaxpr, user))
        else:
            todo += [(inner, eqn) for eqn in _check_body(item, root, user) for inner in _jaxprs(eqn.params)]


def call_rule(
    param: str = "jaxpr",
) -> Callable[[tuple[ShapedArray, ...], dict[str, Any]], Sequence[ShapedArray]]:
    """A rule for ``typecheck_rules``: operands and results must fit the ``ClosedJaxpr`` in ``param``."""

    def rule(in_avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> Sequence[ShapedArray]:
        inner = params[param]
        if len(in_avals) != len(inner.in_avals):
            raise TypeError(f"{len(in_avals)} operands for a jaxpr with {len(inner.in_avals)} inputs")
        for k, (operand, expected) in enumerate(zip(in_avals, inner.in_avals, strict=True)):
            if not same_type(operand, expected):
                found, wanted = operand.str_short(), expected.str_short()
                raise TypeError(f"operand {k} has type {found}, but the jaxpr expects {wanted}")
        return inner.out_avals

    return rule


def same_type(a: ShapedArray, b: ShapedArray) -> bool:
    """Whether two avals are equal apart from their weak types."""
    return a is b or (a.shape == b.shape and a.dtype == b.dtype and a.vma == b.vma and same_sharding(a, b))


def _jaxprs(params: dict[str, Any]) -> Iterator[Jaxpr | ClosedJaxpr]:
    """Like ``ir.jaxpr.subjaxprs``, but closed jaxprs stay closed, so that their constants are checked too."""
    for value in params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, (Jaxpr, ClosedJaxpr)):
                yield item


def _check_consts(closed: ClosedJaxpr) -> None:
    for var, const in zip(closed.jaxpr.constvars, closed.consts, strict=True):
        aval = getattr(const, "aval", None)
        shape, dtype = (aval.shape, aval.dtype) if aval is not None else (np.shape(const), np.asarray(const).dtype)
        if (shape, dtype) != (var.aval.shape, var.aval.dtype):
            found = ShapedArray(shape, dtype).str_short()
            raise TypeError(f"A constant of type {found} is given for a constvar of type {var.aval.str_short()}")


def _check_body(jaxpr: Jaxpr, root: Jaxpr, user: JaxprEqn | None) -> list[JaxprEqn]:
    """Check ``jaxpr`` but not its subjaxprs; return the equations with subjaxprs.
    Errors name variables as on the page of ``root``. ``user`` is the equation that contains ``jaxpr``."""
    bound: set[Var] = set()
    holders: list[JaxprEqn] = []
    eqn: JaxprEqn | None = user
    try:
        for var in (*jaxpr.constvars, *jaxpr.invars):
            _bind(var, var.aval, bound)
        for eqn in jaxpr.eqns:
            in_avals = tuple([_read(atom, bound) for atom in eqn.invars])
            out_avals = _infer(eqn, in_avals)
            if len(out_avals) != len(eqn.outvars):
                raise _Mistake(f"The equation has {len(out_avals)} results, but binds {len(eqn.outvars)} variables")
            for var, aval in zip(eqn.outvars, out_avals, strict=True):
                _bind(var, aval, bound)
            if eqn.params and any(_jaxprs(eqn.params)):
                holders.append(eqn)
        eqn = user
        for atom in jaxpr.outvars:
            _read(atom, bound)
    except _Mistake as mistake:
        raise _located(mistake, root, eqn) from None
    except (TypeError, NotImplementedError) as error:  # the rule's own traceback helps
        raise _located(error, root, eqn) from error
    return holders


class _Mistake(Exception):
    """An error text with ``{}`` for the names of ``variables``, which are known when the program is printed."""

    def __init__(self, text: str, *variables: Var) -> None:
        super().__init__(text)
        self.variables = variables


def _bind(var: Any, aval: ShapedArray, bound: set[Var]) -> None:
    if not isinstance(var, Var):
        raise _Mistake(f"Only variables can be bound, found {type(var).__name__}")
    if var in bound:
        raise _Mistake("Variable '{}' already bound", var)
    # the mesh axes along which a variable varies are not compared: they are known only where axes are bound
    if not (var.aval is aval or (var.aval.shape, var.aval.dtype) == (aval.shape, aval.dtype)):
        raise _Mistake(
            f"Value for variable '{{}}' inconsistently typed as {aval.str_short()} "
            f"for let-binder of type {var.aval.str_short()}",
            var,
        )
    if not isinstance(var, DropVar):
        bound.add(var)


def _read(atom: Any, bound: set[Var]) -> ShapedArray:
    if type(atom) is Literal:
        dtype = getattr(atom.val, "dtype", None)
        # A Python scalar fits an annotation of any width.
        fits = np.can_cast(type(atom.val), atom.aval.dtype, "same_kind") if dtype is None else dtype == atom.aval.dtype
        if np.shape(atom.val) != atom.aval.shape or not fits:
            raise _Mistake(f"Literal value {atom.val} does not match its type annotation {atom.aval.str_short()}")
    elif not isinstance(atom, Var):
        raise _Mistake(f"Only variables and literals can be read, found {type(atom).__name__}")
    elif atom not in bound:
        raise _Mistake("Variable '{}' not defined", atom)
    return atom.aval


def _infer(eqn: JaxprEqn, in_avals: tuple[ShapedArray, ...]) -> Sequence[ShapedArray]:
    """The types of the results of ``eqn``, inferred without its binders."""
    rule = typecheck_rules.get(eqn.primitive)
    if rule is not None:
        return rule(in_avals, eqn.params)
    out = abstract_eval(eqn.primitive, in_avals, eqn.params)
    return out if eqn.primitive.multiple_results else (out,)


def _located(error: Exception, root: Jaxpr, eqn: JaxprEqn | None) -> JaxprTypeError:
    printer = Printer(root)
    # The page calls unread results "_". In a broken program each gets its own name.
    printer.names.clear()
    printer.document()  # assigns names in the order of the page
    text = str(error)
    if isinstance(error, _Mistake):
        text = text.format(*map(printer.name, error.variables))
    if eqn is not None:
        shown = pp.to_string(pp.nest(2, pp.text("  ") + printer.equation(eqn)))
        text += f"\n\nin equation:\n\n{shown}\n\nfrom source: {errors.summarize(eqn.source)}"
    return JaxprTypeError(text)
