"""Import JAX's programs: each equation gets minijax's primitive of the same name.

In: JAX's ``ClosedJaxpr``. Out: minijax's ``ClosedJaxpr`` with the same types; each equation has the user's line.
Invariant: an equation uses a minijax primitive only if the primitive accepts all params and gives the same types.

Primitives that minijax lacks are *borrowed* (``interop.borrowed``): they keep their names and params, and their rules
are derived from JAX's.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax import errors
from minijax.core.array import get_aval
from minijax.core.lazy import HigherModule, load_all
from minijax.core.primitive import Primitive, abstract_eval, abstract_rules, impl_rules
from minijax.interop.lines import source_of
from minijax.interop.params import translated
from minijax.interop.values import aval_of, from_jax_value, jax_module
from minijax.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from minijax.lowering.lower import lowering_rules

_rules = HigherModule("import_rules")
_borrowing = HigherModule("borrowed_primitives")


class Site:
    """The import of one JAX equation: its variables in minijax, the user's line, and the enclosing program."""

    def __init__(self, program: Importing, invars: list[Any], outvars: list[Var], source: Any) -> None:
        self.program = program
        self.invars = invars
        self.outvars = outvars
        self.source = source

    def equation(self, primitive: Primitive, params: dict[str, Any], consts: Sequence[Any] = ()) -> list[JaxprEqn]:
        """One minijax equation, with ``consts`` as leading operands."""
        invars = [*map(self.program.constant, consts), *self.invars]
        return [JaxprEqn(primitive, invars, params, self.outvars, self.source)]

    def refusal(self, what: str) -> NotImplementedError:
        """The error for a feature that cannot be imported; ``what`` names it and the reason."""
        where = "" if self.source is None else f" It happened at {errors.summarize(self.source)}."
        return NotImplementedError(f"{what}{where}")


# Rules ``rule(eqn, site) -> equations`` for primitives whose params cannot just be converted. If a rule returns None,
# the equation is imported as if it had no rule.
ImportRule = Callable[[Any, Site], "list[JaxprEqn] | None"]
import_rules: dict[str, ImportRule] = {}


@functools.cache
def all_import_rules() -> dict[str, ImportRule]:
    """Import the modules that add rules; return ``import_rules``."""
    _rules.load()
    return import_rules


class Importing:
    """A program under construction. It maps JAX's variables to minijax's, and collects the constants."""

    def __init__(self) -> None:
        self.variables: dict[Any, Var] = {}
        self.constvars: list[Var] = []
        self.consts: list[Any] = []

    def variable(self, v: Any) -> Var:
        """The variable for JAX's variable ``v``."""
        found = self.variables.get(v)
        if found is None:
            kind = DropVar if type(v).__name__ == "DropVar" else Var
            found = self.variables[v] = kind(aval_of(v.aval))
        return found

    def constant(self, value: Any) -> Var:
        """A new constvar for ``value``, a minijax array."""
        var = Var(get_aval(value))
        self.constvars.append(var)
        self.consts.append(value)
        return var

    def atom(self, v: Any) -> Var | Literal:
        """The variable or literal for JAX's ``v``; a literal that is not a scalar becomes a constant."""
        if not hasattr(v, "val"):
            return self.variable(v)
        aval = aval_of(v.aval)
        if aval.shape:
            return self.constant(from_jax_value(v.val))
        # a weakly typed literal becomes a Python number, from which each bind derives the type again
        return Literal(np.asarray(v.val).item() if aval.weak_type else np.asarray(v.val, aval.dtype)[()], aval)

    def equations(self, eqn: Any) -> list[JaxprEqn]:
        """Import one JAX equation."""
        site = Site(self, list(map(self.atom, eqn.invars)), list(map(self.variable, eqn.outvars)), source_of(eqn))
        return import_eqn(eqn, site)


def import_closed(theirs: Any, name: str = "") -> ClosedJaxpr:
    """Import JAX's jaxpr under ``name`` (or JAX's name); an open jaxpr's constants become inputs."""
    program = Importing()
    if hasattr(theirs, "consts"):
        opened = theirs.jaxpr
        program.constvars = list(map(program.variable, opened.constvars))
        program.consts = list(map(from_jax_value, theirs.consts))
        invars = list(map(program.variable, opened.invars))
    else:
        opened = theirs
        invars = list(map(program.variable, [*opened.constvars, *opened.invars]))
    eqns = [ours for eqn in opened.eqns for ours in program.equations(eqn)]
    outs = list(map(program.atom, opened.outvars))
    called = name or getattr(opened.debug_info, "func_name", "")
    return ClosedJaxpr(Jaxpr(program.constvars, invars, outs, eqns, called), program.consts)


def import_eqn(eqn: Any, site: Site) -> list[JaxprEqn]:
    """Import an equation. It gets minijax's primitive of the same name, or a borrowed one if the params do not fit."""
    name = eqn.primitive.name
    _jax_primitives.setdefault(name, eqn.primitive)
    rule = all_import_rules().get(name)
    found = rule(eqn, site) if rule is not None else None
    if found is not None:
        return found
    # in JAX the use of a named axis is an effect; in minijax the params show it
    effects = [str(effect) for effect in eqn.effects if type(effect).__name__ != "NamedAxisEffect"]
    if effects:
        raise site.refusal(f"{name} has side effects ({', '.join(effects)}): minijax cannot import such a call of JAX.")
    ours = our_primitives().get(name)
    if name in _PARTITIONABLE and not jax_module().config.jax_threefry_partitionable:
        ours = None  # minijax generates only the bits of JAX's default setting
    if ours is not None:
        params = translated(ours, eqn.params, _opened)
        if params is not None and _fits(ours, params, site):
            return site.equation(ours, params)
    return [_borrowing.borrow_eqn(eqn, site.invars, site.outvars, site.source)]


# Primitives of random keys whose bits depend on ``jax_threefry_partitionable``.
_PARTITIONABLE = ("random_bits", "random_split")


def _opened(theirs: Any) -> ClosedJaxpr | Jaxpr:
    """Import a jaxpr among JAX's params; it stays open or closed."""
    ours = import_once(theirs)
    return ours if hasattr(theirs, "consts") else ours.jaxpr


@functools.cache
def our_primitives() -> dict[str, Primitive]:
    """name -> primitive, for minijax's own primitives that have an evaluation or lowering rule."""
    load_all()
    known = [p for p in abstract_rules if p in lowering_rules or p in impl_rules]
    ours = [p for p in known if not p.borrowed_from and errors.is_own_file(p.defined_at.rpartition(":")[0])]
    return {p.name: p for p in ours}


def _fits(ours: Primitive, params: dict[str, Any], site: Site) -> bool:
    """Whether minijax's primitive takes the params and gives results of JAX's types."""
    try:
        found = abstract_eval(ours, tuple([v.aval for v in site.invars]), params)
    except (TypeError, ValueError, KeyError, AttributeError, NotImplementedError):
        return False
    return list(found if ours.multiple_results else [found]) == [v.aval for v in site.outvars]


def jax_primitive(ours: Primitive) -> Any:
    """The JAX primitive that ``ours`` was imported from, or else has the same name; None if JAX has none."""
    return getattr(ours, "theirs", None) or jax_primitive_named(ours.name)


def jax_primitive_named(name: str) -> Any:
    """JAX's primitive called ``name``, found in imported programs or JAX's modules; None if there is none."""
    if name in _jax_primitives:
        return _jax_primitives[name]
    attribute = _OTHER_ATTRIBUTES.get(name, f"{name.replace('-', '_').removesuffix('_p')}_p")
    for module in _HOMES:
        if hasattr(jax_module(module), attribute):
            return getattr(jax_module(module), attribute)
    return None


# name of a primitive -> its attribute in JAX's modules, if this is not the name with ``_p`` appended
_OTHER_ATTRIBUTES = {"add_any": "add_jaxvals_p", "remat2": "remat_p"}
# JAX's modules with primitives; private ones come last.
_HOMES = (
    *("extend.core.primitives", "lax", "lax.linalg"),
    *("_src.lax.linalg", "_src.lax.parallel", "_src.core", "_src.random.prng"),
)
# JAX's primitives seen so far, by name
_jax_primitives: dict[str, Any] = {}


# id of a JAX program -> its import, which keeps the original alive so that the id stays unique
_imported: weakref.WeakValueDictionary[int, ClosedJaxpr] = weakref.WeakValueDictionary()


def import_once(theirs: Any, name: str = "") -> ClosedJaxpr:
    """Import a JAX program, or return its earlier import, on which derived programs are cached."""
    found = _imported.get(id(theirs))
    if found is None:
        found = import_closed(theirs, name)
        found.memo["theirs"] = theirs
        _imported[id(theirs)] = found
    return found
