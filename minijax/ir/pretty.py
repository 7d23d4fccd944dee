"""Prints jaxprs: as JAX prints them, or in the plainer style of the tutorial "Autodidax".

``format_jaxpr`` gives a string, ``jaxpr_document`` a document with roles (see ``ir.doc``). The text in style 'jax' is
exactly the text of jax 0.10, except that NumPy integers among parameters are printed as Python integers. A rule in
``pp_rules``, registered beside a primitive's declaration, chooses how the primitive's parameters are shown.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from minijax import errors
from minijax.core.names import names_of
from minijax.core.primitive import Primitive
from minijax.ir import doc as pp
from minijax.ir.doc import Doc
from minijax.ir.jaxpr import (
    ClosedJaxpr,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    set_pretty_printer,
    subjaxprs,
)

Params = Iterable[tuple[str, Any]]
# rule(eqn, printer) -> the parameters to show, in order. Without a rule, all parameters are shown, sorted by name.
pp_rules: dict[Primitive, Callable[[JaxprEqn, Printer], Params]] = {}

# rule(eqn, printer) -> the whole line, for equations that read and write references. It replaces ``pp_rules``.
eqn_rules: dict[Primitive, Callable[[JaxprEqn, Printer], Doc]] = {}

# For ``ir.parse``: rule(params, in_avals, out_avals) -> params with the hidden ones, which follow from the types or
# have a default. The rule is registered beside the rule that hides them.
ParseRule = Callable[[dict[str, Any], Sequence[Any], Sequence[Any]], dict[str, Any]]
parse_rules: dict[Primitive, ParseRule] = {}
# Name -> class of parameters that print as ``Class(...)`` or ``Class.MEMBER``.
param_types: dict[str, type] = {}

# Parameters of ``jit`` that are shown only if they, or one of their elements, are true.
_JIT_TRIVIAL = ("donated_invars", "keep_unused")


def hide(*names: str, trivial: Sequence[str] = ()) -> Callable[[JaxprEqn, Printer], Params]:
    """A rule for ``pp_rules``: hides the parameters ``names``, and shows those in ``trivial`` only if they are true.

    >>> pp_rules[broadcast_in_dim_p] = hide("shape", trivial=["broadcast_dimensions"])  # doctest: +SKIP
    """

    def rule(eqn: JaxprEqn, printer: Printer) -> Params:
        shown = [(k, v) for k, v in sorted(eqn.params.items()) if k not in names]
        return [(k, v) for k, v in shown if v or k not in trivial]

    return rule


class Unread:
    """A parameter that cannot be read back from its text. Two are equal if their texts are. Other uses are errors."""

    __slots__ = ("text", "__weakref__")

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return type(other) is Unread and self.text == other.text

    def __hash__(self) -> int:
        return hash((Unread, self.text))

    def _explain(self) -> str:
        return (
            f"This jaxpr was read from text, which names {self.text} but does not hold it. "
            "Use the jaxpr that was traced, or one without this parameter."
        )

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(self._explain())

    def __getattr__(self, name: str) -> NoReturn:
        # ``text`` is missing only during copying
        raise AttributeError(name if name.startswith("_") or name == "text" else self._explain())


def unread_functions(**names: str) -> ParseRule:
    """A rule for ``parse_rules``: reads functions as ``Unread``. ``names``: printed name -> name of the parameter."""

    def rule(params: dict[str, Any], in_avals: Sequence[Any], out_avals: Sequence[Any]) -> dict[str, Any]:
        params = {"num_consts": 0, **params}
        params["call_jaxpr"].jaxpr.debug_name = params.pop("name")
        for shown, name in names.items():
            params[name] = Unread(str(params.pop(shown)))
        return params

    return rule


def readable(*classes: type) -> None:
    """Let ``parse_jaxpr`` read parameters of these classes: enums, and classes that print as a call with keywords."""
    param_types.update((cls.__name__, cls) for cls in classes)


def opened(param: str) -> ParseRule:
    """A rule for ``parse_rules``: opens the jaxpr in ``param``, since the parser makes closed jaxprs."""

    def rule(params: dict[str, Any], in_avals: Sequence[Any], out_avals: Sequence[Any]) -> dict[str, Any]:
        jaxpr = params.get(param)
        return {**params, param: jaxpr.jaxpr} if isinstance(jaxpr, ClosedJaxpr) else params

    return rule


def jit_params(eqn: JaxprEqn, printer: Printer) -> Params:
    """The rule for ``jit``: shows the name first, and names inner variables after the outer ones passed for them."""
    params = dict(eqn.params)
    params.pop("inline", None)
    for key in _JIT_TRIVIAL:
        value = params.get(key)
        if not (any(value) if isinstance(value, (tuple, list)) else value):
            params.pop(key, None)
    inner = _open(params["jaxpr"])
    if inner not in printer.shared:
        printer.suggest_names(inner.invars, eqn.invars)
        printer.suggest_names(inner.outvars, eqn.outvars)
    return [("name", params.pop("name")), *sorted(params.items())]


def jit_read(params: dict[str, Any], in_avals: Sequence[Any], out_avals: Sequence[Any]) -> dict[str, Any]:
    """The rule for ``parse_rules`` of ``jit``. KeyError if its jaxpr or name is missing."""
    if not isinstance(params["jaxpr"], ClosedJaxpr):
        raise KeyError("jaxpr")
    return {**params, "name": params["name"]}


def format_jaxpr(
    jaxpr: Jaxpr | ClosedJaxpr,
    *,
    style: str = "jax",
    width: int = 80,
    **options: Any,
) -> str:
    """``jaxpr`` as text, ``width`` columns wide; the other options are those of ``jaxpr_document``."""
    document = jaxpr_document(jaxpr, style=style, **options)
    return pp.to_string(document, width)


def jaxpr_document(
    jaxpr: Jaxpr | ClosedJaxpr,
    *,
    style: str = "jax",
    source_info: bool = False,
    name_stack: bool = False,
    max_eqns: int | None = None,
    print_shapes: bool = True,
    names: Mapping[Var, str] | None = None,
) -> Doc:
    """``jaxpr`` as a document.

    Args:
      style: 'jax', or 'tutorial' (long type names, constants among the arguments, fresh names in each subjaxpr).
      source_info: end each equation with a comment that gives its place in the user's program.
      name_stack: end each equation also with its named scopes and transformations, ``[jvp(f)/g]``.
      max_eqns: print at most this many equations of each jaxpr, then say how many are left out.
      print_shapes: in style 'jax', whether variables print with their types.
      names: in style 'jax', distinct names for some variables; the others are named by letters.
    """
    if style == "jax":
        return Printer(_open(jaxpr), source_info, max_eqns, name_stack, print_shapes, names).document()
    if style == "tutorial":
        return _TutorialPrinter(source_info, max_eqns, name_stack).jaxpr(_open(jaxpr))
    raise ValueError(f"style must be 'jax' or 'tutorial', got {style!r}")


def _open(jaxpr: Jaxpr | ClosedJaxpr) -> Jaxpr:
    return jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr


def _punctuation(string: str) -> Doc:
    return pp.text(string, "punctuation")


_SPACE = pp.text(" ")
_COLON = _punctuation(":")
_EQUALS = _punctuation(" = ")
_SOFT_SPACE = pp.group(pp.brk())
_COMMA = _punctuation(",") + _SOFT_SPACE
_DROP = pp.text("_", "drop")
_BREAK = pp.brk()
_EMPTY_BREAK = pp.brk("")
_EQN_BREAK = pp.brk("; ", "punctuation")
_LAMBDA = pp.text("lambda ", "keyword")
_LET = pp.text("let", "keyword")
_IN = pp.text("in ", "keyword")


_NUMPY_INTEGER = re.compile(r"np\.u?int\d+\((-?\d+)\)")


def _notes(source_info: bool, name_stack: bool) -> list[Callable[[Any], str]]:
    """The functions that make an equation's comments from its ``source``."""
    return [errors.summarize] * source_info + [_bracketed_names] * name_stack


def _bracketed_names(source: Any) -> str:
    return f"[{names_of(source)}]"


def _literal_text(literal: Literal) -> str:
    return str(np.asarray(literal.val).item()) if np.shape(literal.val) == () else "[...]"


def _value_text(value: Any) -> str:
    """A parameter as text. Addresses are masked, and NumPy integers are printed as Python integers."""
    if isinstance(value, frozenset):
        return f"frozenset({{{', '.join(repr(item) for item in sorted(value))}}})"
    text = re.sub(r" at 0x([0-9a-fA-F]+)", lambda match: " at 0x" + "X" * len(match[1]), str(value))
    return _NUMPY_INTEGER.sub(r"\1", text) if "np." in text else text


# Subjaxprs with more equations than this are printed ahead of the program even if they occur only once.
_LONG = 10


class Printer:
    """Prints one page in style 'jax'. Variables are named at first use, so it prints parts in the order of the page."""

    # jaxprs with more equations than this are printed ahead of the program
    long: float = _LONG

    def __init__(
        self,
        root: Jaxpr,
        source_info: bool = False,
        max_eqns: int | None = None,
        name_stack: bool = False,
        print_shapes: bool = True,
        names: Mapping[Var, str] | None = None,
    ) -> None:
        self.root = root
        self.notes = _notes(source_info, name_stack)
        self.binder = self._typed if print_shapes else self.atom
        self.max_eqns = max_eqns
        # jaxpr -> the name that a ``let`` ahead of the program gives it
        self.shared = shared_jaxprs(root, self.long)
        taken = {*self.shared.values(), *(names or {}).values()}
        self._fresh_names = (name for name in _alphabetic_names() if name not in taken)
        self.names: dict[Var, str] = dict.fromkeys(_unread_outputs(root), "_")
        self.names |= names or {}
        self._types: dict[Any, Doc] = {}

    def document(self) -> Doc:
        """The whole page: shared jaxprs, then the program."""
        pages = [
            pp.concat((pp.text("let ", "keyword"), pp.text(name, "var"), _EQUALS, self._lambda(jaxpr), _SPACE))
            + pp.concat((pp.text("in", "keyword"), _BREAK))
            for jaxpr, name in self.shared.items()
        ]
        return pp.concat((*pages, self.jaxpr(self.root)))

    def name(self, var: Var) -> str:
        name = self.names.get(var)
        if name is None:
            name = self.names[var] = "_" if isinstance(var, DropVar) else next(self._fresh_names)
        return name

    def suggest_names(self, inner: Sequence[Any], outer: Sequence[Any]) -> None:
        """Give each unnamed variable of ``inner`` the name of the variable of ``outer`` at the same position."""
        if len(inner) != len(outer):
            return
        used = set()
        for var, like in zip(inner, outer, strict=True):
            if type(var) is Literal or type(like) is Literal or like in used or var in self.names:
                continue
            used.add(like)
            self.names[var] = self.name(like)

    def type(self, aval: Any) -> Doc:
        """``:f32[8]``"""
        doc = self._types.get(aval)
        if doc is None:
            doc = self._types[aval] = _COLON + pp.text(aval.str_short(short_dtypes=True), "type")
        return doc

    def atom(self, atom: Any) -> Doc:
        """An operand or output: a variable's name, or a literal with its type."""
        if type(atom) is Literal:
            return pp.text(_literal_text(atom), "literal") + self.type(atom.aval)
        name = self.name(atom)
        return _DROP if name == "_" else pp.text(name, "var")

    def _atoms(self, atoms: Sequence[Any], space: Doc = _SOFT_SPACE) -> Doc:
        if len(atoms) == 1:
            return self.atom(atoms[0])
        return pp.nest(2, pp.group(pp.join(space, [self.atom(atom) for atom in atoms])))

    def _binders(self, binders: Sequence[Var]) -> Doc:
        if len(binders) == 1:
            return self.binder(binders[0])
        return pp.nest(2, pp.group(pp.join(_SOFT_SPACE, [*map(self.binder, binders)])))

    def _typed(self, var: Var) -> Doc:
        return self.atom(var) + self.type(var.aval)

    def jaxpr(self, jaxpr: Jaxpr) -> Doc:
        """``{ lambda ... }``, or the name of a shared jaxpr."""
        name = self.shared.get(jaxpr)
        return self._lambda(jaxpr) if name is None else pp.text(name, "var")

    def _lambda(self, jaxpr: Jaxpr) -> Doc:
        head = (
            _punctuation("{ "),
            _LAMBDA,
            self._binders(jaxpr.constvars),
            _punctuation("; "),
            self._binders(jaxpr.invars),
            _punctuation(". "),
            _LET,
        )
        eqns = _rows(_EQN_BREAK, jaxpr.eqns, self.max_eqns, self.equation)
        outs = self._atoms(jaxpr.outvars, _COMMA)
        close = _punctuation(",)" if len(jaxpr.outvars) == 1 else ")")
        body = (*head, pp.nest(2, _BREAK + eqns), _BREAK, _IN, _punctuation("("), outs, close)
        return pp.group(pp.nest(2, pp.concat(body)) + _punctuation(" }"))

    def equation(self, eqn: JaxprEqn) -> Doc:
        """``c:f32[] = prim[param=value] a b``"""
        own = eqn_rules.get(eqn.primitive)
        if own is not None:
            return own(eqn, self)
        rule = pp_rules.get(eqn.primitive)
        # Call the rule first: the rule of ``jit`` suggests names for the results.
        params = sorted(eqn.params.items()) if rule is None else list(rule(eqn, self))
        pieces: list[Doc] = []
        if eqn.outvars:
            pieces += [self._binders(eqn.outvars), _EQUALS]
        pieces += [pp.note(text(eqn.source)) for text in self.notes]
        pieces.append(pp.text(eqn.primitive.name, "primitive"))
        if params:
            pieces.append(self._params(params))
        pieces += [_SPACE, self._atoms(eqn.invars)]
        return pp.concat(pieces)

    def _params(self, params: Params) -> Doc:
        pairs = pp.join(_BREAK, [self._pair(key, value) for key, value in params])
        inner = pp.nest(2, pp.concat((_punctuation("["), _EMPTY_BREAK, pairs)))
        return pp.group(pp.concat((inner, _EMPTY_BREAK, _punctuation("]"))))

    def _pair(self, key: str, value: Any) -> Doc:
        if isinstance(value, (Jaxpr, ClosedJaxpr)):
            shown = self.jaxpr(_open(value))
        elif type(value) is tuple and all(isinstance(item, (Jaxpr, ClosedJaxpr)) for item in value):
            jaxprs = pp.join(_BREAK, [self.jaxpr(_open(item)) for item in value])
            # an empty tuple has no jaxprs, but breaks lines like a tuple of jaxprs
            role = "punctuation" if value else "param-value"
            inner = pp.nest(2, pp.concat((pp.text("(", role), _EMPTY_BREAK, jaxprs)))
            shown = pp.group(pp.concat((inner, _EMPTY_BREAK, pp.text(")", role))))
        else:
            shown = pp.text(_value_text(value), "param-value")
        return pp.concat((pp.text(key, "param-name"), _punctuation("="), shown))


def _rows(separator: Doc, eqns: Sequence[JaxprEqn], most: int | None, show: Callable[[JaxprEqn], Doc]) -> Doc:
    shown = eqns if most is None else eqns[:most]
    return pp.rows(separator, map(show, shown), len(eqns) - len(shown))


def _alphabetic_names() -> Iterator[str]:
    """a, b, ..., z, ba, bb, ...: numbers in base 26 with letters as digits."""
    number = 0
    while True:
        rest, name = number, ""
        while rest or not name:
            rest, digit = divmod(rest, 26)
            name = chr(97 + digit) + name
        yield name
        number += 1


def _unread_outputs(jaxpr: Jaxpr) -> Iterator[Var]:
    """The variables bound by ``jaxpr`` itself, not by subjaxprs, that no later equation or output reads."""
    read = {atom for atom in jaxpr.outvars if type(atom) is not Literal}
    for eqn in reversed(jaxpr.eqns):
        yield from [var for var in eqn.outvars if var not in read]
        read.update(atom for atom in eqn.invars if type(atom) is not Literal)


def shared_jaxprs(root: Jaxpr, long: float = _LONG) -> dict[Jaxpr, str]:
    """The jaxprs inside ``root`` that are printed ahead of it, with their names: repeated ones, and those with more
    than ``long`` equations."""
    children: dict[Jaxpr, list[Jaxpr]] = {}
    names: dict[Jaxpr, str] = {}
    twice: set[Jaxpr] = set()
    seen = {root}
    order = [root]
    for jaxpr in order:
        below = children[jaxpr] = []
        for eqn in jaxpr.eqns:
            if not eqn.params:
                continue
            name = eqn.params.get("name")
            for sub in subjaxprs(eqn.params):
                below.append(sub)
                if isinstance(name, str):
                    names.setdefault(sub, name.strip("<>"))  # <lambda> is shown as lambda
                if sub in seen:
                    twice.add(sub)
                else:
                    seen.add(sub)
                    order.append(sub)
    todo = list(twice)
    while todo:
        for sub in children[todo.pop()]:
            if sub not in twice:
                twice.add(sub)
                todo.append(sub)
    shared: dict[Jaxpr, str] = {}
    counts: dict[str, int] = {}
    for jaxpr in order:
        if jaxpr not in twice and (jaxpr is root or len(jaxpr.eqns) <= long):
            continue
        name = names.get(jaxpr, "jaxpr")
        count = counts.get(name, 0)
        counts[name] = count + 1
        if count:
            name += str(count)
            counts[name] = counts.get(name, 0) + 1
        shared[jaxpr] = name
    return shared


class _TutorialPrinter:
    """Prints one jaxpr in the tutorial's style. Source: https://docs.jax.dev/en/latest/autodidax.html, part 2."""

    def __init__(self, source_info: bool, max_eqns: int | None, name_stack: bool) -> None:
        self.notes = _notes(source_info, name_stack)
        self.max_eqns = max_eqns

    def jaxpr(self, jaxpr: Jaxpr) -> Doc:
        """``{ lambda a:float64[] . let ... in ( b ) }``; the names of the variables start at ``a``."""
        names: dict[Var, str] = {}
        fresh = _tutorial_names()

        def name(var: Var) -> Doc:
            if isinstance(var, DropVar):
                return _DROP
            if var not in names:
                names[var] = next(fresh)
            return pp.text(names[var], "var")

        def binder(var: Var) -> Doc:
            return pp.concat((name(var), _COLON, pp.text(var.aval.str_short(short_dtypes=False), "type")))

        def atom(atom: Any) -> Doc:
            return pp.text(_literal_text(atom), "literal") if type(atom) is Literal else name(atom)

        def equation(eqn: JaxprEqn) -> Doc:
            plain = {k: v for k, v in sorted(eqn.params.items()) if not any(subjaxprs({k: v}))}
            pieces: list[Doc] = [pp.join(_SPACE, map(binder, eqn.outvars)), _EQUALS]
            pieces += [pp.note(text(eqn.source)) for text in self.notes]
            pieces.append(pp.text(eqn.primitive.name, "primitive"))
            if plain:
                pairs = pp.join(_BREAK, [self._pair(k, v) for k, v in plain.items()])
                pieces += [_punctuation(" [ "), pp.align(pairs), _punctuation(" ]")]
            pieces += [_SPACE, pp.join(_SPACE, map(atom, eqn.invars))]
            below = [pp.nest(2, _BREAK + pp.align(self.jaxpr(sub))) for sub in subjaxprs(eqn.params)]
            return pp.concat((*pieces, *below))

        comma = _punctuation(", ")
        binders = pp.join(comma, map(binder, [*jaxpr.constvars, *jaxpr.invars]))
        eqns = _rows(_BREAK, jaxpr.eqns, self.max_eqns, equation)
        outs = pp.join(comma, map(atom, jaxpr.outvars))
        body = (_BREAK, pp.text("let ", "keyword"), pp.align(eqns), _BREAK, _IN, _punctuation("( "), outs)
        head = (_punctuation("{ "), _LAMBDA, binders, _punctuation(" ."))
        return pp.concat((*head, pp.nest(2, pp.concat(body)), _punctuation(" ) }")))

    def _pair(self, key: str, value: Any) -> Doc:
        return pp.concat((pp.text(key, "param-name"), _punctuation("="), pp.text(_value_text(value), "param-value")))


def _tutorial_names() -> Iterator[str]:
    """a, b, ..., z, ab, ac, ...: the arrangements of distinct letters."""
    for length in itertools.count(1):
        for letters in itertools.permutations(map(chr, range(ord("a"), ord("z") + 1)), length):
            yield "".join(letters)


set_pretty_printer(format_jaxpr)
