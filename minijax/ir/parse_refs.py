"""Reads equations with references: ``a:f32[] <- r[i]``, ``r[i] <- x``, ``a:f32[], r[i] <- r[i], x``, ``r[i] += x``.

The step of a slice is not printed: it is read as 1.
"""

from __future__ import annotations

import re
from typing import Any

from minijax.core.array import scalar_aval
from minijax.core.refs import AbstractRef, Slice
from minijax.ir.jaxpr import JaxprEqn, Literal

_OPENED = re.compile(r"([A-Za-z_]\w*)\[")
_INTEGER = re.compile(r"-?\d+")
_BOUND = re.compile(r"(-?\d*):(-?\d*)(?=[,\]])")
_FROM_VARIABLE = re.compile(r"([A-Za-z_]\w*):\1\+(\d+)(?=[,\]])")
_COUNT: Any = {"get": 1, "swap": 1, "addupdate": 0}


def writes(parser: Any, scope: Any) -> bool:
    """Whether the next equation writes to a reference and binds no variable."""
    found = parser.scan.peek(_OPENED)
    var = None if found is None else scope.names.get(found[1])
    return var is not None and type(var.aval) is AbstractRef


def reads(parser: Any) -> bool:
    """Whether an arrow or a comma follows the variables that an equation binds."""
    return parser.scan.text.startswith(("<-", ","), parser.scan.at)


def ref_equation(parser: Any, scope: Any, binders: Any) -> JaxprEqn:
    """Read the rest of the next equation. Its variables, ``binders``, have been read already."""
    scan = parser.scan
    if not binders:
        ref, index, operands = _place(parser, scope)
        name = "addupdate" if scan.take_text("+=") else "swap"
        if name == "swap":
            scan.expect_text("<-", "or '+=', after the reference that is written to")
        value = parser.atom(scope)
        outs = _results(parser, scope, name, [ref.aval, value.aval, *[x.aval for x in operands]], index, ())
        return JaxprEqn(parser.primitives[name], [ref, value, *operands], {"index": index}, outs)
    if scan.take_text("<-"):
        ref, index, operands = _place(parser, scope)
        outs = _results(parser, scope, "get", [ref.aval, *[x.aval for x in operands]], index, binders)
        return JaxprEqn(parser.primitives["get"], [ref, *operands], {"index": index}, outs)
    scan.expect_text(",")
    _place(parser, scope)
    scan.expect_text("<-", "before the reference that is read")
    ref, index, operands = _place(parser, scope)
    scan.expect_text(",", "before the value that is written")
    value = parser.atom(scope)
    outs = _results(parser, scope, "swap", [ref.aval, value.aval, *[x.aval for x in operands]], index, binders)
    return JaxprEqn(parser.primitives["swap"], [ref, value, *operands], {"index": index}, outs)


def _results(parser: Any, scope: Any, name: str, in_avals: Any, index: Any, binders: Any) -> list[Any]:
    """The variables of the results. Abstract evaluation gives the type of a result that is not printed."""
    if not _COUNT[name]:
        return []
    if binders:
        return [parser.bind(scope, *binder) for binder in binders]
    try:
        aval = parser.primitives[name].abstract_eval(*in_avals, index=index)
    except ValueError as error:
        parser.scan.fail(str(error))
    return [parser.bind(scope, "_", aval, parser.scan.at)]


def _place(parser: Any, scope: Any) -> tuple[Any, Any, list[Any]]:
    """``r[i,:2]``: the reference, the index and its operands."""
    scan = parser.scan
    ref = parser.atom(scope)
    if type(ref.aval) is not AbstractRef:
        scan.fail(f"expected a reference, found a value of type {ref.aval.str_short()}")
    scan.expect_text("[", "which begins the index of a reference")
    if scan.take_text("..."):
        scan.expect_text("]")
        return ref, None, []
    index: list[Any] = []
    operands: list[Any] = []
    for size in ref.aval.shape:
        if index:
            scan.expect_text(",", "between the dimensions of a reference")
        index.append(_entry(parser, scope, size, operands))
    scan.expect_text("]", f"after {len(index)} dimensions")
    return ref, tuple(index), operands


def _entry(parser: Any, scope: Any, size: int, operands: list[Any]) -> Any:
    scan = parser.scan
    if found := scan.take(_BOUND):
        start = int(found[1] or 0)
        return Slice(start, int(found[2] or size) - start)
    if found := scan.peek(_FROM_VARIABLE):
        operands.append(parser.atom(scope))
        scan.take(re.compile(r":\w+\+\d+"))
        return Slice(None, int(found[2]))
    if found := scan.take(_INTEGER):
        operands.append(Literal(int(found[0]), scalar_aval(int)))
    else:
        operands.append(parser.atom(scope))
    return None
