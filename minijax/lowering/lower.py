"""Lower a closed jaxpr to the text of a StableHLO module.

In: a ``ClosedJaxpr``. Out: MLIR text with a public ``@main``, which takes the large constants and then the inputs.
Invariant: one loop writes all equations, with one rule for each primitive. A subjaxpr that is called becomes a private
function, which is written once.

A rule of ours is ``rule(ctx, in_avals, out_avals, *names, **params) -> name`` (a list of names if the primitive has
multiple results) and writes text through ``ctx``, a ``FunctionWriter``.

In a module, an array of random keys is an array of their raw words. A rule gets the physical types of keys, and most
rules work on words unchanged. An array of words has one more dimension than the array of keys. If a primitive's
parameters name dimensions, ``physical_rules`` therefore has a second rule for words.
The primitives in ``lowers_keys`` work on keys themselves, so their rules get the types of keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minijax.core import avals, lazy
from minijax.core.avals import physical_aval
from minijax.core.collector import collecting_new_objects
from minijax.core.keys import is_key
from minijax.core.lists import chosen
from minijax.core.primitive import Primitive
from minijax.core.rules import Flags, Names, Rule, RuleTable, Values
from minijax.interpreters.partial_eval import dce_jaxpr
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from minijax.lowering.text import FunctionWriter, Line, line_rules, mlir_type

if TYPE_CHECKING:
    from minijax.lowering.places import ModulePlaces, Places

# The largest constant that is written into a program, in bytes: a matrix of 128 x 128 float32.
WRITTEN_BYTES = 1 << 16

lowering_rules = RuleTable(
    "lower",
    "MLIR translation rule for primitive '{name}' not found for platform {platform}",
    "add: minijax.interpreters.mlir.register_lowering(primitive, rule)   # rule(ctx, *args, **params)",
)


# primitive -> rule for the words of random keys, where its usual rule would be wrong: see ``ops.declare``
physical_rules: dict[Primitive, Rule] = {}
# Primitives whose rule gets the types of keys, not of their words.
lowers_keys: set[Primitive] = set()


class ModuleWriter:
    """The functions of one module."""

    def __init__(self, name: str, platform: Callable[[], str]) -> None:
        self.name = symbol(name)
        # called only when it is needed, because the call starts the backend
        self.platform = platform
        self.functions: list[str] = []
        self.used: set[str] = {"main"}
        # Python functions that custom calls refer to by their index
        self.host_callbacks: list[Callable[..., Any]] = []
        # the names and sizes of the mapped mesh axes; empty except inside the program of one device (``shard_map``)
        self.axes: tuple[tuple[Any, int], ...] = ()
        # the manual mesh axes; XLA partitions the program along the other axes
        self.manual: frozenset[Any] = frozenset()
        # (id of a jaxpr, mapped axes, shardings) -> its function's symbol, and the jaxpr, so that the id is not reused
        self.written: dict[Any, tuple[str, Any]] = {}
        # signatures of extension authors' rules -> symbol; ``bindings``: the ``ModuleContext`` of these rules
        self.authored: dict[Any, str] = {}
        self.bindings: Any = None
        # a ``core.shardings.Placement``, if the program runs on several devices
        self.placement: Any = None
        # the meshes that the module names; ``lowering.shardings`` is imported for the first program with a mesh
        self._meshes: Any = None
        # records the equation of each line, if a tool needs it
        self.places: Places | None = None

    def add_host_callback(self, function: Callable[..., Any]) -> int:
        """Store ``function`` and return its index, by which a custom call of this module calls it."""
        self.host_callbacks.append(function)
        return len(self.host_callbacks) - 1

    def callback_device(self) -> str:
        """The kind of device, 'cpu' or 'gpu', in the name of XLA's custom call into Python."""
        return "cpu" if self.platform() in ("cpu", "unknown") else "gpu"

    def unique(self, name: str) -> str:
        base = candidate = symbol(name)
        n = 0
        while candidate in self.used:
            candidate = f"{base}_{n}"
            n += 1
        self.used.add(candidate)
        return candidate

    @property
    def divided(self) -> bool:
        """Whether the program is partitioned over several devices."""
        return self.placement is not None and len(self.placement.devices) > 1

    @property
    def meshes(self) -> Any:
        if self._meshes is None:
            self._meshes = lazy.public("minijax.lowering.shardings", "MeshTable")()
        return self._meshes

    def function(self, closed: ClosedJaxpr, name: str, ins: Values | None = None, outs: Values | None = None) -> str:
        """Write ``closed`` as a private function with the shardings ``ins`` and ``outs``; return its symbol."""
        # the axes are part of the key, because collectives are written for the axes that are mapped here
        key = (id(closed), self.axes, ins, outs)
        entry = self.written.get(key)
        if entry is None:
            chosen = self.unique(name or "fn")
            entry = self.written[key] = (chosen, closed)
            writer = FunctionWriter(self)
            names = [f"%arg{i}" for i in range(len(closed.in_avals))]
            args = _constrained(writer, names, closed.in_avals, ins)
            results = _constrained(writer, lower_inline(writer, closed, args), closed.out_avals, outs)
            signature = ", ".join(f"{n}: {mlir_type(a)}" for n, a in zip(names, closed.in_avals, strict=True))
            self.functions.append(_function_text("private", chosen, signature, writer, closed.jaxpr, results))
        return entry[0]

    def text(self, main: str, header: str) -> str:
        meshes = [] if self._meshes is None else self._meshes.lines()
        return "\n".join([header, *meshes, main, *self.functions, "}", ""])


def symbol(name: str) -> str:
    """``name`` as an MLIR symbol: ASCII letters, digits and underscores, no digit in front."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII) or "fn"
    return f"_{text}" if text[0].isdigit() else text


def _constrained(writer: FunctionWriter, names: list[str], avals: Values, shardings: Any) -> list[str]:
    """The names of the values, constrained to ``shardings`` where these are given."""
    if not shardings:
        return names
    constrained = lazy.public("minijax.lowering.shardings", "constrained")
    return [constrained(writer, *each) for each in zip(names, avals, shardings, strict=True)]


def _attributes(module: ModuleWriter, shardings: Values | None, avals: Values) -> list[str]:
    """The sharding attributes of the arguments or the results of ``@main``, one text for each."""
    if not shardings:
        return [""] * len(avals)
    attribute = lazy.public("minijax.lowering.shardings", "sharding_attribute")
    return [attribute(module.meshes, *each) for each in zip(shardings, avals, strict=True)]


def _function_text(
    visibility: str,
    name: str,
    signature: str,
    writer: FunctionWriter,
    jaxpr: Jaxpr,
    outs: Names,
    shardings: Values | None = None,
) -> str:
    types = [mlir_type(a) for a in jaxpr.out_avals]
    texts = _attributes(writer.module, shardings, jaxpr.out_avals)
    results = ", ".join(f"{t} {{{text}}}" if text else t for t, text in zip(types, texts, strict=True))
    ret = f"    return {', '.join(outs)} : {', '.join(types)}" if outs else "    return"
    body = "\n".join(writer.lines)
    return f"  func.func {visibility} @{name}({signature}) -> ({results}) {{\n{body}\n{ret}\n  }}"


# rule and operand types -> the line that the rule writes for an equation without parameters; () if the rule must run
_lines: dict[Any, Line | tuple[()]] = {}
MOST_LINES = 8192


class _Names(dict[Any, str]):
    """The name of each atom in the text of one function. A literal is written when its name is first needed."""

    __slots__ = ("literal",)

    def __init__(self, literal: Callable[[Literal], str]) -> None:
        self.literal = literal

    def __missing__(self, atom: Any) -> str:
        if type(atom) is not Literal:
            raise KeyError(atom)
        name = self[atom] = self.literal(atom)
        return name


def _line(rule: Rule, in_avals: Values, eqn: JaxprEqn) -> Line | tuple[()]:
    """Add the entry of ``_lines`` for ``rule`` on operands of types ``in_avals``, and return it."""
    line = line_rules[rule](in_avals, eqn.outvars[0].aval) if rule in line_rules else None
    if len(_lines) >= MOST_LINES:
        _lines.clear()
    found = _lines[rule, *in_avals] = line or ()
    return found


def lower_eqns(ctx: FunctionWriter, jaxpr: Jaxpr, consts: Names, args: Names) -> list[str]:
    """Write the equations of ``jaxpr`` into ``ctx``; returns the names of its outputs."""
    env = _Names(ctx.literal)
    env.update(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    places, keyed = ctx.module.places, avals.keys_made
    divided = ctx.module.divided and avals.sharded_types_made and lazy.public("minijax.lowering.shardings", "as_typed")
    for eqn in jaxpr.eqns if places is None else places.each(ctx, jaxpr):
        primitive = eqn.primitive
        rule = lowering_rules.get(primitive)
        names = []
        key: list[Any] = [rule]
        for v in eqn.invars:
            names.append(env[v])
            key.append(v.aval)
        if not eqn.params:
            line = _lines.get(tuple(key))
            if line is None and rule is not None:
                line = _line(rule, key[1:], eqn)
            if line:
                env[eqn.outvars[0]] = ctx.emit_line(line, names)
                if divided:
                    divided(ctx, eqn, env)
                continue
        if rule is not None:
            in_avals = key[1:]
            out_avals = [v.aval for v in eqn.outvars]
            if keyed and primitive not in lowers_keys and any(is_key(a.dtype) for a in (*in_avals, *out_avals)):
                rule = physical_rules.get(primitive, rule)
                in_avals, out_avals = [*map(physical_aval, in_avals)], [*map(physical_aval, out_avals)]
            out = rule(ctx, in_avals, out_avals, *names, **eqn.params)
        else:
            raise NotImplementedError(lowering_rules.missing(primitive, platform=ctx.module.platform()))
        if primitive.multiple_results:
            env.update(zip(eqn.outvars, out, strict=True))
        else:
            env[eqn.outvars[0]] = out
        if divided:
            divided(ctx, eqn, env)
    return [env[v] for v in jaxpr.outvars]


def lower_inline(ctx: FunctionWriter, closed: ClosedJaxpr, args: Names) -> list[str]:
    """Write the equations of ``closed``, and its constants, into ``ctx``; returns the names of its outputs."""
    consts = [ctx.constant(c, v.aval) for c, v in zip(closed.consts, closed.jaxpr.constvars, strict=True)]
    return lower_eqns(ctx, closed.jaxpr, consts, args)


def passed_consts(closed: ClosedJaxpr) -> list[bool]:
    """For each constant, whether it is an argument of ``@main``. XLA can fold small ones, which are in the text."""
    return [v.aval.size * v.aval.dtype.itemsize > WRITTEN_BYTES for v in closed.jaxpr.constvars]


def _const_names(writer: FunctionWriter, closed: ClosedJaxpr, jaxpr: Jaxpr, arguments: Names) -> list[str]:
    """The name of each constant of ``closed`` in ``@main``: an argument, or a constant in the text; '' if unused."""
    if not closed.consts:
        return []
    read = set(jaxpr.outvars).union(*[eqn.invars for eqn in jaxpr.eqns])
    names, remaining = [], iter(arguments)
    for value, var, is_passed in zip(closed.consts, jaxpr.constvars, passed_consts(closed), strict=True):
        if is_passed:
            names.append(next(remaining))
        else:
            names.append(writer.constant(value, var.aval) if var in read else "")
    return names


@collecting_new_objects
def lower_closed(
    closed: ClosedJaxpr,
    name: str,
    donated: Flags = (),
    placement: Any = None,
    platform: Callable[[], str] = lambda: "unknown",
    host_callbacks: list[Callable[..., Any]] | None = None,
    places: Places | None = None,
    drop_unused: bool = False,
) -> str:
    """The StableHLO module of ``closed``. ``@main`` takes ``passed_consts``, then the inputs. XLA may reuse the buffers
    of ``donated`` inputs. Python functions that the module calls are appended to ``host_callbacks``, for the compiler.
    With ``places``, each line gets a mark (see ``lower_places``). With ``drop_unused``, ``@main`` takes no unused
    inputs. ``placement``: the ``core.shardings.Placement`` of a partitioned program.
    """
    module = ModuleWriter(f"jit_{name}", platform)
    module.placement = placement
    module.places = places
    if host_callbacks is not None:
        module.host_callbacks = host_callbacks
    writer = FunctionWriter(module)
    # equations that nothing uses are not written, as in JAX
    jaxpr, kept = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), keep_inputs=not drop_unused)
    passed = [v.aval for v, p in zip(jaxpr.constvars, passed_consts(closed), strict=True) if p]
    avals = [*passed, *(v.aval for v in jaxpr.invars)]
    names = [f"%arg{i}" for i in range(len(avals))]
    given = [*donated, *[False] * (len(kept) - len(donated))]
    gives = [False] * len(passed) + chosen(kept, given)
    consts = _const_names(writer, closed, jaxpr, names)
    outs = lower_eqns(writer, jaxpr, consts, names[len(passed) :])
    ins = None
    if placement is not None:
        given_ins = chosen(kept, placement.ins)
        ins = [*[placement.everywhere] * len(passed), *given_ins]
    texts = _attributes(module, ins, avals)
    attrs = [", ".join(filter(None, ("jax.buffer_donor = true" * g, s))) for g, s in zip(gives, texts, strict=True)]
    signature = ", ".join(
        f"{n}: {mlir_type(a)}" + (f" {{{text}}}" if text else "")
        for n, a, text in zip(names, avals, attrs, strict=True)
    )
    shardings = None if placement is None else placement.outs
    main = _function_text("public", "main", signature, writer, jaxpr, outs, shardings)
    partitions = 1 if placement is None else len(placement.devices)
    header = (
        f"module @{module.name} attributes {{mhlo.num_partitions = {partitions} : i32, mhlo.num_replicas = 1 : i32}} {{"
    )
    return module.text(main, header)


def lower_places(closed: ClosedJaxpr, name: str, donated: Flags = (), **options: Any) -> ModulePlaces:
    """The text of ``lower_closed``, and for each of its lines the equation that the line comes from."""
    places = lazy.public("minijax.lowering.places", "Places")(name)
    module_places = lazy.public("minijax.lowering.places", "ModulePlaces")
    return module_places(lower_closed(closed, name, donated, places=places, **options), places)
