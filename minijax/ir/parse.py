"""Reads printed jaxprs back: ``parse_jaxpr`` is the inverse of ``str``, for style 'jax' at any width.

Printing the result gives the same text again. The result can be evaluated, transformed and compiled.
Parts that the text does not contain are added:

* hidden parameters follow from the types, by the primitive's rule in ``pretty.parse_rules``;
* ``consts`` gives the values of constants. Without it constants are stand-ins, and computing with them is an error;
* functions among the parameters are stand-ins that raise an error when they are called (``pretty.Unread``);
* weak types of results follow from the operands; arguments and literals are assumed to be strong.
"""

from __future__ import annotations

import difflib
import itertools
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from minijax.core import dtypes, lazy
from minijax.core.array import as_array
from minijax.core.avals import ShapedArray
from minijax.core.borrowing import borrowed_primitive
from minijax.core.keys import is_key
from minijax.core.lazy import load_all
from minijax.core.primitive import Primitive, abstract_eval, abstract_rules
from minijax.core.refs import AbstractRef, expect_refs
from minijax.errors import is_user_file
from minijax.ir import parse_refs
from minijax.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from minijax.ir.parse_tokens import JaxprSyntaxError, Scanner
from minijax.ir.parse_values import (
    COMPLEX,
    NUMBER,
    NotAValue,
    as_dtype_param,
    holds_dtype,
    number,
    read_value,
)
from minijax.ir.pretty import Unread, parse_rules, shared_jaxprs

__all__ = ["JaxprSyntaxError", "MissingConstant", "Unread", "page_consts", "parse_jaxpr"]

# Names that the user chose may have dots: params.w.0
_VAR = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
_BINDER = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*):")
# ``_SIZE``: a dimension with the mesh axes that shard it, such as 8, 8@x or 8@(x,y). ``_ALONG``: mesh axes along which
# the array is varying (V), unreduced (U) or reduced (R), such as V:x or U:(y,z).
_SIZE = r"\d+(?:@\w+|@\([\w,]+\))?"
_ALONG = r"[VUR]:(?:\w+|\([\w,]+\))"
_TYPE = re.compile(
    rf"([a-z]\w*(?:<\w+>)?)\[\s*((?:{_SIZE}\s*(?:,\s*{_SIZE}\s*)*)?)\](?:\{{({_ALONG}(?:,\s*{_ALONG})*)\}})?"
)
_DIMENSION = re.compile(r"(\d+)(?:@(\w+|\([\w,]+\)))?")
_PRIMITIVE = re.compile(r"[^\s\[\](){};=,]+")
_LET_NAME = re.compile(r"[^\s=]+")
_LAMBDA = re.compile(r"lambda\b")
_LET = re.compile(r"let\b")
# The keyword 'in' before the results. A '(' follows it. After a variable named 'in', a '(' begins a complex number.
_END = re.compile(r"in\b\s*\((?![^\s()]*j\):)")
_LITERAL = re.compile(rf"(?:{COMPLEX.pattern}|{NUMBER.pattern}|True|False|\[\.\.\.\]|\(b'',\))(?=:[a-z])")
_CUT = re.compile(r"\.\.\. \(\d+ more equations\)")
_KEY = re.compile(r"([A-Za-z_]\w*)=")
_NEXT_KEY = re.compile(r"\s+(?:[A-Za-z_]\w*=|# )")
# Names of parameters that hold jaxprs. If the value of such a parameter is a bare name, it names a shared jaxpr.
_JAXPR_KEY = re.compile(r"(?:.*_)?jaxprs?$|branches$")
# Python type of a literal's text -> the kinds of types (see ``dtypes.kind``) that the literal can have.
_KINDS: dict[type, str] = {bool: "b", int: "iufc", float: "fc", complex: "c"}
# Parameters that hold text, which is printed without quotes.
_RAW = ("name", "fmt")


class MissingConstant:
    """A stand-in for the value of a constvar: the text of a jaxpr has no values."""

    def __init__(self, aval: ShapedArray, name: str) -> None:
        self.aval = aval
        self.name = name

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"The constant {self.name}:{self.aval.str_short()} of this jaxpr is not known: the jaxpr was read from "
            "text, which holds no values. Pass the values: parse_jaxpr(text, consts=[...])."
        )

    def __repr__(self) -> str:
        return f"MissingConstant({self.name}:{self.aval.str_short()})"


def parse_jaxpr(
    text: str,
    consts: Sequence[Any] | None = None,
    primitives: Mapping[str, Primitive] | None = None,
) -> ClosedJaxpr:
    """The jaxpr that prints as ``text``.

    Args:
      text: a jaxpr in style 'jax', of any width, with or without source notes.
      consts: the values of all constvars, in the order of the text; ``page_consts`` gives them for an existing jaxpr.
          By default they are stand-ins: then the jaxpr can only be printed and typechecked.
      primitives: primitives by name. They replace defined primitives of the same name. Of several defined primitives
          with one name, minijax's own is used, else the one defined last.

    Raises ``JaxprSyntaxError`` (a ValueError), with line and column, for text that is not a jaxpr; ValueError or
    TypeError for constants that do not fit. Types are not checked: ``typecheck_jaxpr`` does that.
    """
    if not isinstance(text, str):
        raise TypeError(f"parse_jaxpr expects the text of a jaxpr, got {type(text).__name__}")
    parser = _Parser(text, primitives or {})
    jaxpr = parser.page()
    return ClosedJaxpr(jaxpr, parser.give_consts(consts)[jaxpr])


def page_consts(closed: ClosedJaxpr) -> list[Any]:
    """The constants of ``closed`` and of all jaxprs in it, in the order of their constvars on the page."""
    shared = shared_jaxprs(closed.jaxpr)
    holders: dict[Jaxpr, ClosedJaxpr] = {}

    def inside(jaxpr: Jaxpr) -> Iterator[ClosedJaxpr | Jaxpr]:
        for eqn in jaxpr.eqns:
            for _, value in sorted(eqn.params.items()):
                for item in value if isinstance(value, (tuple, list)) else (value,):
                    if isinstance(item, (Jaxpr, ClosedJaxpr)):
                        yield item

    def note(jaxpr: Jaxpr, seen: set[Jaxpr]) -> None:
        for item in inside(jaxpr):
            opened = item.jaxpr if isinstance(item, ClosedJaxpr) else item
            if isinstance(item, ClosedJaxpr):
                holders.setdefault(opened, item)
            if opened not in seen:
                seen.add(opened)
                note(opened, seen)

    def of(jaxpr: Jaxpr) -> Iterator[Any]:
        if jaxpr.constvars:
            yield from holders[jaxpr].consts
        for item in inside(jaxpr):
            opened = item.jaxpr if isinstance(item, ClosedJaxpr) else item
            if opened not in shared:
                yield from of(opened)

    holders[closed.jaxpr] = closed
    note(closed.jaxpr, set())
    return [const for jaxpr in (*shared, closed.jaxpr) for const in of(jaxpr)]


def _primitives_by_name() -> dict[str, Primitive]:
    """All defined primitives by name. If several have one name, minijax's own is used, else the one defined last."""
    load_all()
    known: dict[str, Primitive] = {}
    for primitive in abstract_rules:
        other = known.get(primitive.name)
        if other is None or is_user_file(other.defined_at.rpartition(":")[0]):
            known[primitive.name] = primitive
    return known


# A variable that an equation binds: its name, its type, and its position in the text.
_Binder = tuple[str, ShapedArray, int]


class _Scope:
    """The scope of one jaxpr: its variables by name, and its variables called ``_``."""

    def __init__(self) -> None:
        self.names: dict[str, Var] = {}
        self.unnamed: list[Var] = []
        self.used: set[Var] = set()


class _Parser:
    """Reads one page."""

    def __init__(self, text: str, primitives: Mapping[str, Primitive]) -> None:
        self.scan = Scanner(text)
        if "Ref{" in text:
            expect_refs()
        self.primitives = _primitives_by_name() | dict(primitives)
        self.shared: dict[str, ClosedJaxpr] = {}
        self.scopes: list[_Scope] = []
        # jaxprs that share a variable print it under one name, so they get the same variable here
        self.variables: dict[str, list[Var]] = {}
        self.avals: dict[str, ShapedArray] = {}
        # position of a shared jaxpr in the text -> (jaxpr, end); ``reading``: the names of jaxprs that are being read
        self.bindings: dict[int, tuple[ClosedJaxpr, int]] = {}
        self.reading: list[str] = []
        # ``closed``: jaxprs that are parameters; ``opened``: all jaxprs, with position and the names of their constvars
        self.closed: list[ClosedJaxpr] = []
        self.opened: list[tuple[int, Jaxpr, list[str]]] = []

    def page(self) -> Jaxpr:
        """The whole text: shared jaxprs, then the program."""
        jaxpr = self.shared_and_jaxpr(None)
        if not self.scan.at_end:
            self.scan.fail_expecting("the end of the text")
        return jaxpr

    def shared_and_jaxpr(self, bound_to: Sequence[_Binder] | None) -> Jaxpr:
        """``let f = { ... } in`` any number of times, then a jaxpr."""
        scan = self.scan
        outer = dict(self.shared)
        bound: set[str] = set()
        while scan.take(_LET):
            name = scan.peek(_LET_NAME)
            if name is None:
                scan.fail_expecting("the name of a shared jaxpr")
            if name[0] in bound:
                scan.fail(f"the jaxpr '{name[0]}' is bound already")
            bound.add(name[0])
            self.shared[name[0]] = self.binding()
            scan.expect_text("in")
        jaxpr = self.jaxpr(bound_to)
        self.shared = outer
        return jaxpr

    def binding(self) -> ClosedJaxpr:
        """``f = { ... }``. It has been read already if a jaxpr above it mentions ``f``."""
        scan = self.scan
        start = scan.at
        if start not in self.bindings:
            scopes, self.scopes = self.scopes, []
            name = scan.expect(_LET_NAME, "the name of a shared jaxpr")[0]
            scan.expect_text("=")
            self.reading.append(name)
            closed = self.close(self.jaxpr(None))
            self.reading.pop()
            self.bindings[start] = closed, scan.at
            self.scopes = scopes
        closed, scan.at = self.bindings[start]
        return closed

    def shared_jaxpr(self, name: str) -> ClosedJaxpr:
        """The shared jaxpr called ``name``: one bound above, or the first bound below."""
        if name in self.shared:
            return self.shared[name]
        scan = self.scan
        ahead = re.compile(rf"\blet\s+({re.escape(name)})\s*=\s*\{{").search(scan.text, scan.at)
        if name in self.reading:
            scan.fail(f"the jaxpr '{name}' contains itself")
        if ahead is None:
            scan.fail(f"no 'let' binds a jaxpr called '{name}'")
        here, scan.at = scan.at, ahead.start(1)
        closed = self.binding()
        scan.at = here
        return closed

    def jaxpr(self, bound_to: Sequence[_Binder] | None) -> Jaxpr:
        """``{ lambda ... }``; ``bound_to``: the variables that its results are bound to, if known."""
        scan = self.scan
        scan.expect_text("{", "a jaxpr")
        scan.expect(_LAMBDA, "'lambda'")
        scope = _Scope()
        self.scopes.append(scope)
        at = scan.at
        constvars = self.binders(scope)
        tutorial = scan.text.startswith(".", scan.at)
        scan.expect_text(";", "which ends the constants" + "; the tutorial's style is not read" * tutorial)
        invars = self.binders(scope)
        scan.expect_text(".", "which ends the arguments")
        scan.expect(_LET, "'let'")
        eqns: list[JaxprEqn] = []
        while not scan.peek(_END):
            eqns.append(self.equation(scope))
            scan.take_text(";")
        outvars = self.results(scope, bound_to)
        scan.expect_text("}", "which ends the jaxpr")
        self.scopes.pop()
        if scope.unnamed:
            for eqn in eqns:
                eqn.outvars = [
                    DropVar(v.aval) if v in scope.unnamed and v not in scope.used else v for v in eqn.outvars
                ]
        jaxpr = Jaxpr([v for _, v in constvars], [v for _, v in invars], outvars, eqns)
        self.opened.append((at, jaxpr, [name for name, _ in constvars]))
        return jaxpr

    def results(self, scope: _Scope, bound_to: Sequence[_Binder] | None) -> list[Any]:
        """``in (a, 1.0:f32[])``"""
        scan = self.scan
        scan.expect_text("in")
        scan.expect_text("(")
        outs: list[Any] = []
        unnamed = list(scope.unnamed)
        while not scan.take_text(")"):
            at = scan.at
            if bound_to is not None and len(scope.unnamed) > 1 and self.reads_unnamed():
                if len(outs) >= len(bound_to):
                    scan.fail("this jaxpr has more results than the equation binds", at)
                name, wanted, _ = bound_to[len(outs)]
                # A result that the caller drops can be any unused variable '_' of its type. A result that the caller
                # keeps can only be '_' if an earlier result is the same variable.
                assigned = [v for v in outs if v in scope.unnamed]
                fitting = [v for v in (*(unnamed if name == "_" else ()), *assigned) if _same(v.aval, wanted)]
                if not fitting:
                    scan.fail(f"no variable called '_' can be this result of type {wanted.str_short()}", at)
                if fitting[0] in unnamed:
                    unnamed.remove(fitting[0])
                scope.used.add(fitting[0])
                outs.append(fitting[0])
            else:
                outs.append(self.atom(scope))
            if not scan.take_text(",") and not scan.text.startswith(")", scan.at):
                scan.fail_expecting("',' or ')'")
        return outs

    def reads_unnamed(self) -> bool:
        found = self.scan.peek(_VAR)
        if found is None or found[0] != "_":
            return False
        self.scan.take(_VAR)
        return True

    def close(self, jaxpr: Jaxpr) -> ClosedJaxpr:
        """``jaxpr`` as a parameter; ``give_consts`` fills in its constants."""
        closed = ClosedJaxpr(jaxpr, [None] * len(jaxpr.constvars))
        self.closed.append(closed)
        return closed

    def binders(self, scope: _Scope) -> list[tuple[str, Var]]:
        """``a:f32[8] b:i32[]``, bound in ``scope``."""
        found = []
        while self.scan.peek(_BINDER):
            at = self.scan.at
            name, aval = self.binder()
            found.append((name, self.bind(scope, name, aval, at)))
        return found

    def binder(self) -> tuple[str, ShapedArray]:
        name = self.scan.expect(_BINDER, "a variable with its type")[1]
        return name, self.type()

    def bind(self, scope: _Scope, name: str, aval: ShapedArray, at: int) -> Var:
        if name == "_":
            var = Var(aval)
            scope.unnamed.append(var)
            return var
        if name in scope.names:
            self.scan.fail(f"the variable '{name}' is bound already", at)
        # If an enclosing jaxpr has a variable of the same name, this is another variable.
        outer = any(name in other.names for other in self.scopes if other is not scope)
        known = [] if outer else self.variables.setdefault(name, [])
        var = next((v for v in known if _same(v.aval, aval)), None)  # type: ignore[assignment]
        if var is None:
            var = Var(aval)
            known.append(var)
        scope.names[name] = var
        return var

    def type(self) -> Any:
        """``f32[8]``, or ``Ref{f32[8]}``"""
        at = self.scan.at
        if self.scan.take_text("Ref{"):
            inner = self.type()
            self.scan.expect_text("}", "which ends the type of a reference")
            return AbstractRef(inner)
        found = self.scan.expect(_TYPE, "a type such as f32[8]")
        aval = self.avals.get(found[0])
        if aval is None:
            try:
                dtype = dtypes.float0 if found[1] == "float0" else dtypes.from_short_name(found[1])
            except ValueError:
                self.scan.fail(f"there is no dtype called '{found[1]}'", at)
            dimensions = _DIMENSION.findall(found[2])
            aval = ShapedArray(tuple(int(size) for size, _ in dimensions), dtype)
            axes = [names for _, names in dimensions]
            if any(axes) or found[3]:
                read = lazy.public("minijax.ir.parse_meshes", "typed")
                aval = read(self.scan, aval, axes, found[3] or "", at)
            if not (found[3] and ("U:" in found[3] or "R:" in found[3])):  # the type differs inside ``shard_map``
                self.avals[found[0]] = aval
        return aval

    def atom(self, scope: _Scope) -> Any:
        """The variable or literal at the scanner."""
        scan = self.scan
        at = scan.at
        if found := scan.peek(_LITERAL):
            scan.at = found.end() + 1
            return self.literal(found[0], self.type(), at)
        name = scan.expect(_VAR, "a variable or a literal")[0]
        if name == "_":
            if len(scope.unnamed) != 1:
                how_many = len(scope.unnamed) or "no"
                scan.fail(f"'_' is read, but {how_many} variables have this name", at)
            scope.used.add(scope.unnamed[0])
            return scope.unnamed[0]
        var = scope.names.get(name)
        if var is None:
            scan.fail(f"the variable '{name}' is not defined", at)
        return var

    def literal(self, text: str, aval: ShapedArray, at: int) -> Literal:
        if text == "[...]" or aval.shape:
            self.scan.fail("the text does not hold the value of this literal, which is an array", at)
        if aval.dtype == dtypes.float0:
            return Literal(np.zeros((), dtypes.float0)[()], aval)
        value: Any = text == "True" if text in ("True", "False") else number(text)
        try:
            if dtypes.kind(aval.dtype) not in _KINDS[type(value)]:
                raise TypeError
            scalar = aval.dtype.type(value)
        except (TypeError, ValueError, OverflowError):
            self.scan.fail(f"{text} is no value of type {aval.str_short()}", at)
        if str(scalar.item()) == text:
            return Literal(scalar, aval)
        # Only a Python number prints with more digits than its type has. It is weakly typed.
        return Literal(value, aval.update(weak_type=True))

    def equation(self, scope: _Scope) -> JaxprEqn:
        """``a:f32[8] b:i32[] = prim[key=value] c 1.0:f32[]``"""
        scan = self.scan
        if scan.peek(_CUT):
            scan.fail("equations were left out of this text when it was printed (max_eqns)")
        start = scan.at
        if AbstractRef.made and parse_refs.writes(self, scope):
            return parse_refs.ref_equation(self, scope, ())
        binders: list[_Binder] = []
        while scan.peek(_BINDER):
            at = scan.at
            binders.append((*self.binder(), at))
        if binders and parse_refs.reads(self):
            return parse_refs.ref_equation(self, scope, binders)
        if binders:
            scan.expect_text("=", "which ends the variables that an equation binds")
        at = scan.at
        primitive = self.primitive(named=bool(binders))
        out_avals = [aval for _, aval, _ in binders]
        # While parameters are read, the results' names count as names of an enclosing jaxpr.
        pending = _Scope()
        pending.names = {name: Var(aval) for name, aval, _ in binders}
        self.scopes.append(pending)
        params = self.parameters(binders, primitive)
        self.scopes.pop()
        operands = self.operands(scope, start)
        in_avals = [atom.aval for atom in operands]
        rule = parse_rules.get(primitive)
        if rule is not None:
            try:
                params = rule(params, in_avals, out_avals)
            except (KeyError, IndexError, TypeError, ValueError) as error:
                scan.fail(f"'{primitive.name}' lacks a parameter or an operand: {error}", at)
        weak = _weak_results(primitive, in_avals, params, out_avals)
        outs = [
            self.bind(scope, name, aval.update(weak_type=True) if is_weak else aval, where)
            for (name, aval, where), is_weak in zip(binders, weak, strict=True)
        ]
        return JaxprEqn(primitive, operands, params, outs)

    def primitive(self, named: bool) -> Primitive:
        scan = self.scan
        at = scan.at
        found = scan.peek(_PRIMITIVE)
        if found is None:
            scan.fail_expecting("a primitive's name" if named else "an equation, or 'in' and the results")
        scan.at = found.end()
        primitive = self.primitives.get(found[0]) or borrowed_primitive(found[0])
        if primitive is None:
            close = difflib.get_close_matches(found[0], self.primitives, 3)
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
            scan.fail(f"there is no primitive called '{found[0]}'{hint}", at)
        return primitive

    def operands(self, scope: _Scope, start: int) -> list[Any]:
        """Read atoms up to ';' or the next equation, which starts in the same column as this one, at ``start``."""
        scan = self.scan
        scan.skip()
        atoms = []
        while not scan.at_end:
            if scan.text[scan.at] in ";})" or scan.peek(_CUT) or scan.peek(_END):
                break
            if scan.fresh_line and scan.column_of(scan.at) <= scan.column_of(start):
                break
            if not scan.peek(_LITERAL) and scan.peek(_BINDER):
                break
            found = scan.peek(_VAR)
            if found is not None and scan.text.startswith("[", found.end()):
                break
            atoms.append(self.atom(scope))
        return atoms

    def parameters(self, binders: Sequence[_Binder], primitive: Primitive) -> dict[str, Any]:
        """``[key=value key=value]``, or nothing."""
        scan = self.scan
        # texts that older versions printed lack the sharding parameter
        params: dict[str, Any] = {primitive.sharding_param: None} if primitive.sharding_param else {}
        given = set()
        if not scan.text.startswith("[", scan.at):
            return params
        scan.take_text("[")
        while not scan.take_text("]"):
            at = scan.at
            key = scan.expect(_KEY, "a parameter 'name=value', or ']'")[1]
            if key in given:
                scan.fail(f"the parameter '{key}' is given twice", at)
            given.add(key)
            params[key] = self.value(key, binders)
        return params

    def value(self, key: str, binders: Sequence[_Binder]) -> Any:
        scan = self.scan
        start = scan.at
        if _JAXPR_KEY.match(key):
            found = self.jaxprs(binders if key == "jaxpr" else None)
            if found is not None:
                return found
        try:
            if key in _RAW:
                raise NotAValue
            value = read_value(scan, self.embedded_jaxpr)
            if not scan.text.startswith("]", scan.at):
                if not scan.text[scan.at - 1].isspace() or (isinstance(value, str) and not scan.peek(_KEY)):
                    raise NotAValue
        except (NotAValue, TypeError):
            return self.raw_value(key, start)
        return as_dtype_param(value) if holds_dtype(key) else value

    def jaxprs(self, bound_to: Sequence[_Binder] | None) -> Any:
        """A jaxpr, the name of a shared jaxpr, or several of these in parentheses. None for other text."""
        scan = self.scan
        if scan.text.startswith("{", scan.at):
            return self.close(self.jaxpr(bound_to))
        found = scan.peek(_VAR)
        if found is not None and found[0] != "None" and scan.text[found.end() : found.end() + 1] not in ("(", "."):
            shared = self.shared_jaxpr(found[0])
            scan.take(_VAR)
            return shared
        if not scan.text.startswith("(", scan.at):
            return None
        start = scan.at
        scan.take_text("(")
        several: list[Any] = []
        while not scan.take_text(")"):
            if several:
                scan.take_text(",")
            one = None if scan.text.startswith("(", scan.at) else self.jaxprs(None)
            if one is None:
                if several:
                    scan.fail_expecting("a jaxpr, the name of a shared one, or ')'")
                scan.at = start
                return None
            several.append(one)
        return tuple(several)

    def embedded_jaxpr(self) -> ClosedJaxpr:
        """A jaxpr inside another value, such as a named tuple. It is printed by ``str``, with its own names."""
        outer = self.scopes, self.variables
        self.scopes, self.variables = [], {}
        try:
            closed = self.close(self.shared_and_jaxpr(None))
        finally:  # on an error the text is read again, as a string
            self.scopes, self.variables = outer
        # Such a jaxpr is printed in full, even if it is shared and printed ahead of the program too.
        text = str(closed)
        return next((shared for shared in self.shared.values() if str(shared) == text), closed)

    def raw_value(self, key: str, start: int) -> Any:
        """The text up to the next parameter or the closing bracket, as a string or a stand-in."""
        text = self.scan.text
        depth = 0
        at = start
        while at < len(text):
            c = text[at]
            if c in "([{":
                depth += 1
            elif c in ")]}":
                if depth == 0:
                    break
                depth -= 1
            elif depth == 0 and c.isspace() and (c == "\n" or _NEXT_KEY.match(text, at)):
                break
            at += 1
        if at == start or at == len(text):
            self.scan.at = at
            self.scan.fail_expecting(f"the value of '{key}'" if at == start else "']', which ends the parameters")
        self.scan.at = at
        self.scan.skip()
        raw = text[start:at]
        return raw if key in _RAW or not (raw.startswith("<") or "(" in raw) else Unread(raw)

    def give_consts(self, consts: Sequence[Any] | None) -> dict[Jaxpr, list[Any]]:
        """The constants of each jaxpr. Also sets the constants of jaxprs that are parameters."""
        self.opened.sort(key=operator.itemgetter(0))
        wanted = [
            (name, var.aval)
            for _, jaxpr, names in self.opened
            for name, var in zip(names, jaxpr.constvars, strict=True)
        ]
        if consts is None:
            given: list[Any] = [MissingConstant(aval, name) for name, aval in wanted]
        elif len(consts) != len(wanted):
            shown = ", ".join(f"{name}:{aval.str_short()}" for name, aval in wanted) or "none"
            raise ValueError(f"The text has {len(wanted)} constvars ({shown}), but {len(consts)} consts are given")
        else:
            given = [_constant(c, aval, name) for c, (name, aval) in zip(consts, wanted, strict=True)]
        values = iter(given)
        by_jaxpr = {jaxpr: list(itertools.islice(values, len(names))) for _, jaxpr, names in self.opened}
        for closed in self.closed:
            closed.consts = by_jaxpr[closed.jaxpr]
        return by_jaxpr


def _constant(const: Any, aval: ShapedArray, name: str) -> Any:
    """``const`` as the value of a constvar of type ``aval``. TypeError if it has another type."""
    if not hasattr(const, "aval"):
        array = np.asarray(const)
        if array.dtype != aval.dtype and not is_key(aval.dtype) and np.can_cast(array.dtype, aval.dtype, "same_kind"):
            array = array.astype(aval.dtype)
        const = as_array(array)
    if not _same(const.aval, aval):
        raise TypeError(f"The constvar {name}:{aval.str_short()} cannot have a value of type {const.aval.str_short()}")
    return const


def _same(a: ShapedArray, b: ShapedArray) -> bool:
    return a is b or (a.shape == b.shape and a.dtype == b.dtype)


def _weak_results(
    primitive: Primitive, in_avals: Sequence[ShapedArray], params: dict[str, Any], out_avals: Sequence[ShapedArray]
) -> list[bool]:
    """Whether each result is weakly typed. The text does not show this, so abstract evaluation infers it."""
    strong = [False] * len(out_avals)
    if not any(aval.weak_type for aval in in_avals) and not params:
        return strong
    if any(subjaxprs(params)):
        return strong
    try:
        found = abstract_eval(primitive, tuple(in_avals), params)
    except Exception:  # a type error or an unreadable parameter: typechecking reports it with more context
        return strong
    found = found if primitive.multiple_results else [found]
    return [aval.weak_type for aval in found] if len(found) == len(out_avals) else strong
