"""Jaxprs: explicitly typed, closed programs in A-normal form.

    jaxpr  ::= { lambda constvars ; invars . let eqns in outvars }
    eqn    ::= outvars = primitive [ params ] atoms
    atom   ::= Var | Literal

Variables are identities without names: the printer assigns names. Subjaxprs are in ``params``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from minijax.core.avals import ShapedArray
from minijax.core.names import SourceInfo, source_info_of
from minijax.core.primitive import Primitive


class Var:
    """A variable of type ``aval``. It is equal only to itself."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var(id={id(self)}):{self.aval.str_short()}"


class DropVar(Var):
    """The variable of an unused result; printed ``_``."""

    __slots__ = ()


class Literal:
    """A scalar constant written inline: ``val`` (a NumPy scalar) of type ``aval``."""

    __slots__ = ("val", "aval")

    def __init__(self, val: Any, aval: ShapedArray) -> None:
        self.val = val
        self.aval = aval

    def __repr__(self) -> str:
        return f"Literal({self.val}:{self.aval.str_short()})"


Atom = Var | Literal


class JaxprEqn:
    """``outvars = primitive[params] invars``; ``source`` is the user's line (see ``errors.source_info``)."""

    __slots__ = ("primitive", "invars", "params", "outvars", "source")

    def __init__(
        self,
        primitive: Primitive,
        invars: Sequence[Any],
        params: dict[str, Any],
        outvars: Sequence[Var],
        source: Any = None,
    ) -> None:
        self.primitive = primitive
        self.invars = invars
        self.params = params
        self.outvars = outvars
        self.source = source

    def replace(self, **changes: Any) -> JaxprEqn:
        fields = {name: changes.get(name, getattr(self, name)) for name in self.__slots__}
        return JaxprEqn(**fields)

    @property
    def source_info(self) -> SourceInfo:
        """The user's line and the named scopes under which the equation was recorded."""
        return source_info_of(self.source)

    @property
    def effects(self) -> frozenset[Any]:
        """The side effects of the equation: see ``Jaxpr.effects``."""
        return frozenset(_eqn_effects(self))

    def __repr__(self) -> str:
        from_, to = list(self.invars), list(self.outvars)
        return f"JaxprEqn({to} = {self.primitive.name} {from_})"


class _PrettyPrinted:
    """The base of objects that ``ir.pretty`` prints."""

    __slots__ = ()

    def pretty_print(
        self, *, source_info: bool = False, print_shapes: bool = True, name_stack: bool = False, width: int = 80
    ) -> str:
        """The text that ``str`` gives; the options are those of ``ir.pretty.jaxpr_document``."""
        return pretty_printer(
            self, source_info=source_info, print_shapes=print_shapes, name_stack=name_stack, width=width
        )

    def __str__(self) -> str:
        return pretty_printer(self)

    __repr__ = __str__


class Jaxpr(_PrettyPrinted):
    """An open program. A ``ClosedJaxpr`` holds the values of its ``constvars``."""

    __slots__ = ("constvars", "invars", "outvars", "eqns", "debug_name", "__weakref__")

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        outvars: Sequence[Any],
        eqns: Sequence[JaxprEqn],
        debug_name: str = "",
    ) -> None:
        self.constvars = list(constvars)
        self.invars = list(invars)
        self.outvars = list(outvars)
        self.eqns = list(eqns)
        self.debug_name = debug_name

    def replace(self, **changes: Any) -> Jaxpr:
        names = ("constvars", "invars", "outvars", "eqns", "debug_name")
        return Jaxpr(**{name: changes.get(name, getattr(self, name)) for name in names})

    @property
    def in_avals(self) -> list[ShapedArray]:
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[ShapedArray]:
        return [v.aval for v in self.outvars]

    @property
    def effects(self) -> frozenset[Any]:
        """The side effects of the program: effects on its own references (``core.refs``), and effectful primitives."""
        taken = {*self.invars, *self.constvars}
        found = {effect for eqn in self.eqns for effect in _eqn_effects(eqn)}
        return frozenset(e for e in found if not hasattr(e, "variable") or e.variable in taken)


_serials = itertools.count()


class ClosedJaxpr(_PrettyPrinted):
    """A ``Jaxpr`` with the values of its constvars. It is immutable by convention, and hashed by identity."""

    __slots__ = ("jaxpr", "consts", "memo", "serial", "__weakref__")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()) -> None:
        assert len(jaxpr.constvars) == len(consts)
        self.jaxpr = jaxpr
        self.serial = next(_serials)  # a jaxpr that is made later has a higher number
        self.consts = list(consts)
        # Programs derived from this jaxpr (its jvp, its executable, ...) are freed with it.
        self.memo: dict[Any, Any] = {}

    @property
    def in_avals(self) -> list[ShapedArray]:
        return self.jaxpr.in_avals

    @property
    def out_avals(self) -> list[ShapedArray]:
        return self.jaxpr.out_avals

    @property
    def eqns(self) -> list[JaxprEqn]:
        return self.jaxpr.eqns

    @property
    def literals(self) -> list[Any]:
        return self.consts

    @property
    def effects(self) -> frozenset[Any]:
        return self.jaxpr.effects


def keep_together(closeds: Sequence[ClosedJaxpr], key: Any, make: Callable[[], Any]) -> Any:
    """The result of ``make``, cached in the youngest of ``closeds``, which is likely to be freed first."""
    youngest = max(closeds, key=lambda closed: closed.serial)
    full_key = ("together", key, tuple([None if c is youngest else c for c in closeds]))
    if full_key not in youngest.memo:
        youngest.memo[full_key] = make()
    return youngest.memo[full_key]


def subjaxprs(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """The jaxprs directly in an equation's ``params``, in order. A ``ClosedJaxpr`` gives its ``jaxpr``."""
    for value in params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, ClosedJaxpr):
                yield item.jaxpr
            elif isinstance(item, Jaxpr):
                yield item


def all_eqns(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """The equations of ``jaxpr`` and, recursively, of its subjaxprs."""
    for eqn in jaxpr.eqns:
        yield eqn
        for sub in subjaxprs(eqn.params):
            yield from all_eqns(sub)


def inlined(jaxpr: Jaxpr, atoms: Sequence[Any]) -> tuple[list[JaxprEqn], list[Any]]:
    """The equations of ``jaxpr`` on ``atoms``, with fresh variables, and its outputs. ``jaxpr`` has no constvars."""
    env: dict[Var, Any] = dict(zip(jaxpr.invars, atoms, strict=True))

    def read(v: Any) -> Any:
        return v if type(v) is Literal else env[v]

    eqns = []
    for eqn in jaxpr.eqns:
        invars = [read(v) for v in eqn.invars]
        env.update((v, type(v)(v.aval)) for v in eqn.outvars)
        eqns.append(eqn.replace(invars=invars, outvars=[env[v] for v in eqn.outvars]))
    return eqns, [read(v) for v in jaxpr.outvars]


def count_eqns(jaxpr: Jaxpr) -> int:
    """The number of equations of ``jaxpr`` and, recursively, of its subjaxprs."""
    return sum(1 + sum(map(count_eqns, subjaxprs(e.params))) for e in jaxpr.eqns)


def _eqn_effects(eqn: JaxprEqn) -> Iterator[Any]:
    primitive = eqn.primitive
    if primitive.ref_effect is not None:
        yield primitive.ref_effect(eqn.invars[0])
    elif primitive.effects_rule is not None:
        yield from primitive.effects_rule(*[v.aval for v in eqn.invars], **eqn.params)[1]
    elif primitive.effectful and not primitive.takes_refs:
        yield primitive
    for sub in subjaxprs(eqn.params):
        operand = dict(zip(sub.invars, _operands_of(eqn, sub), strict=False))
        for effect in sub.effects:
            if not hasattr(effect, "variable"):
                yield effect
            elif effect.variable in operand:
                yield type(effect)(operand[effect.variable])


def _operands_of(eqn: JaxprEqn, sub: Jaxpr) -> Sequence[Any]:
    """The operands of ``eqn`` for the inputs of ``sub``, one of its subjaxprs."""
    params, args = eqn.params, eqn.invars
    if "cond_nconsts" in params:
        n, m = params["cond_nconsts"], params["body_nconsts"]
        consts = args[:n] if sub is params["cond_jaxpr"].jaxpr else args[n : n + m]
        return [*consts, *args[n + m :]]
    return args[len(args) - len(sub.invars) :]  # leave out the index of a branch


def is_effectful(eqn: JaxprEqn) -> bool:
    """Whether ``eqn``, or an equation in its subjaxprs, has a side effect, so that it must not be dropped."""
    primitive = eqn.primitive
    if primitive.effectful or primitive.keeps_signatures:
        return primitive.effectful
    return any(map(is_effectful, (e for sub in subjaxprs(eqn.params) for e in sub.eqns)))


def matters(eqn: JaxprEqn) -> bool:
    """Whether ``eqn`` defines a variable or has a side effect; other equations are dropped."""
    return bool(eqn.outvars) or is_effectful(eqn)


def _unprinted(jaxpr: Any, **options: Any) -> str:
    raise RuntimeError("minijax.ir.pretty has not been imported")


pretty_printer = _unprinted


def set_pretty_printer(printer: Any) -> None:
    """Install the function behind ``str(jaxpr)``. ``ir.pretty`` calls this when it is imported."""
    global pretty_printer
    pretty_printer = printer
