"""Borrowed primitives: primitives of JAX, or of a third party, that minijax lacks.

``borrowed`` turns a primitive of JAX into a minijax primitive with the same name and params. All its rules are
derived from JAX's, once for each signature. Evaluation and lowering splice JAX's lowering into minijax's text. Every
other rule is a program that JAX traces and minijax imports. Invariant: a derived program has no source lines; its
equations get the line of the equation that uses the rule.
"""

from __future__ import annotations

import enum
import functools
import itertools
import linecache
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.lazy import HigherModule
from minijax.core.lists import partition, with_items
from minijax.core.primitive import Primitive, abstract_rules, impl_rules
from minijax.core.rules import DerivedRule, Rule
from minijax.core.structural import UndefinedPrimal, Zero, zero_of
from minijax.core.trace import state
from minijax.core.varying import VaryingArray, bare
from minijax.interop.params import JAX_ONLY, values_for_jax
from minijax.interop.programs import import_closed, import_once, our_primitives
from minijax.interop.reports import failed_check
from minijax.interop.signature import Axes, JaxCall, primitive_call
from minijax.interop.values import aval_of, jax_module, specs_of
from minijax.interpreters.jvp import jvp_rules
from minijax.interpreters.named_axes import AxisPrimitive, axis_users
from minijax.interpreters.transpose import transpose_rules
from minijax.interpreters.vmap import AxisData, axis_rules
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from minijax.ir.pretty import Printer, param_types, parse_rules, pp_rules
from minijax.lowering import bindings
from minijax.lowering.foreign import lowering_platform
from minijax.lowering.lower import ModuleWriter, lowering_rules, lowers_keys
from minijax.lowering.text import FunctionWriter
from minijax.ops.call import compiled, jit_p


def jvp_rule(primitive: Any) -> Any:
    """JAX's forward-mode rule."""
    return telling(jax_module("interpreters.ad").primitive_jvps.get(primitive))


def transpose_rule(primitive: Any) -> Any:
    """JAX's reverse-mode rule."""
    ad = jax_module("interpreters.ad")
    fancy = getattr(sys.modules.get("jax._src.interpreters.ad"), "fancy_transposes", {})
    return telling(ad.primitive_transposes.get(primitive) or fancy.get(primitive))


def batching_rule(primitive: Any) -> Any:
    """JAX's ``vmap`` rule."""
    return telling(jax_module("interpreters.batching").fancy_primitive_batchers.get(primitive))


def abstract_rule(primitive: Any) -> Any:
    """JAX's typing rule."""
    return telling(getattr(primitive, "abstract_eval", None))


def lowering_rule(primitive: Any) -> Any:
    """JAX's lowering rule: the rule for the CPU if there is one, else the rule for all platforms, else any rule."""
    mlir = sys.modules.get("jax._src.interpreters.mlir")
    platforms = getattr(mlir, "_platform_specific_lowerings", {})
    tables = [platforms.get("cpu", {}), getattr(mlir, "_lowerings", {}), *platforms.values()]
    entries = [table[primitive] for table in tables if primitive in table]
    return telling(getattr(entries[0], "rule", entries[0])) if entries else None


@functools.lru_cache(1024)
def made_at(primitive: Any) -> str:
    """``file.py:12``: where a module binds a name to ``primitive``; if no module does, where its rule is defined."""
    finders = (abstract_rule, lowering_rule, batching_rule, jvp_rule)
    rules = [rule for rule in (find(primitive) for find in finders) if rule is not None]
    attribute, modules = f"{primitive.name}_p", [*sys.modules.items()]
    usual = [name for name, module in modules if getattr(module, "__dict__", {}).get(attribute) is primitive]
    # rules typed at a prompt may have no module
    for module in dict.fromkeys([*usual, *[rule.__module__ for rule in rules if rule.__module__ in sys.modules]]):
        names = [name for name, value in vars(sys.modules[module]).items() if value is primitive]
        file = getattr(sys.modules[module], "__file__", "")
        for number, text in enumerate(linecache.getlines(file) if names else (), 1):
            if re.match(rf"({'|'.join(names)})\b[^=\n]*=", text):
                return f"{file}:{number}"
    codes = [rule.__code__ for rule in rules]
    return f"{codes[0].co_filename}:{codes[0].co_firstlineno}" if codes else ""


def telling(rule: Any) -> Any:
    """The innermost function in ``rule``: the one written for a single primitive."""
    found = list(functions_in(rule))
    return found[-1] if found else None


def functions_in(rule: Any, depth: int = 0) -> Iterator[FunctionType]:
    """List the functions in ``rule``: itself, its partial's function, and the first one in its arguments or closure."""
    if depth > 6 or rule is None:
        return
    if isinstance(rule, functools.partial):
        yield from functions_in(rule.func, depth + 1)
        inner = [*rule.args, *rule.keywords.values()]
    elif isinstance(rule, FunctionType):
        yield rule
        inner = [cell.cell_contents for cell in rule.__closure__ or ()]
    else:
        inner = list(rule) if isinstance(rule, (tuple, list)) else []
    for each in inner:
        if isinstance(each, (functools.partial, FunctionType, tuple, list)):
            found = list(functions_in(each, depth + 1))
            if found:
                yield from found
                return


_exported = HigherModule("exported_programs")

# Beyond this many signatures of one primitive, all derived programs of the primitive are dropped.
MAX_SIGNATURES = 1024
# The limit for signatures with a function among the params. It is low: each cached call keeps its function alive.
MAX_HOLDING = 32


class BorrowedPrimitive(AxisPrimitive):
    """A minijax primitive for ``theirs``, a primitive of JAX."""

    borrowed_from = "JAX"
    # ``call`` has its own cache: result types depend on JAX's precision too, and params may hold programs
    keeps_signatures = False

    def __init__(self, theirs: Any) -> None:
        super().__init__(theirs.name, theirs.multiple_results)
        self.theirs = theirs
        self.calls: dict[Any, JaxCall] = {}
        self.holding: dict[Any, JaxCall] = {}

    @property
    def defined_at(self) -> str:
        """The source location where JAX, or the third party, defines the primitive."""
        return made_at(self.theirs) or super().defined_at

    def call(self, avals: Sequence[Any], params: dict[str, Any]) -> JaxCall:
        """The cached call on operands of types ``avals``, with everything derived for it."""
        axes = self.axes(avals, params) if state.axis_env else ()
        partitionable = jax_module().config.jax_threefry_partitionable
        key: Any = (*avals, x64_enabled(), partitionable, axes, *params.items())
        try:
            found = self.calls.get(key)
        except TypeError:  # an unhashable param: JAX raises an error that names it
            return primitive_call(self.theirs, params_of_jax(params), avals, axes)
        return self._new(key, avals, params, axes) if found is None else found

    def _new(self, key: Any, avals: Sequence[Any], params: dict[str, Any], axes: Axes) -> JaxCall:
        # a call with a program among its params is cached on that program, and freed with it
        programs = [x for x in params.values() if type(x) is ClosedJaxpr]
        home = programs[0].memo if programs else self.calls if all(map(_is_plain, params.values())) else self.holding
        key = (self, *key) if programs else key
        found = home.get(key)
        if found is None:
            if not programs and len(home) >= (MAX_SIGNATURES if home is self.calls else MAX_HOLDING):
                home.clear()
            found = home[key] = primitive_call(self.theirs, params_of_jax(params), avals, axes)
        return found

    def called(self, args: Sequence[Any], params: dict[str, Any]) -> JaxCall:
        """The call on ``args``: arrays, or unknown inputs of a linear function."""
        return self.call([a.aval if type(a) is UndefinedPrimal else get_aval(a) for a in args], params)

    def given(self, outs: list[Any]) -> Any:
        """Results in a rule's form: a list, or the single result."""
        return outs if self.multiple_results else outs[0]

    def axes(self, avals: Sequence[Any], params: dict[str, Any]) -> Axes:
        """Return (name, size) of each current mapped axis that a call names or along which its operands vary."""
        names = self.names_axes(params).union(*[a.vma for a in avals if type(a) is VaryingArray])
        return tuple([axis for axis in state.axis_env if axis[0] in names])

    def names_axes(self, params: dict[str, Any]) -> frozenset[Any]:
        """The names of mapped axes among the params."""
        names = [params.get("axis_name"), params.get("axes"), params.get("axis_names")]
        flat = [n for name in names for n in (name if isinstance(name, (tuple, list, frozenset)) else (name,))]
        return frozenset(n for n in flat if n is not None and not isinstance(n, int))


def _is_plain(x: Any) -> bool:
    """Whether ``x`` holds no function."""
    return all(map(_is_plain, x)) if isinstance(x, tuple) else isinstance(x, type) or not callable(x)


def params_of_jax(params: dict[str, Any]) -> dict[str, Any]:
    """Convert a borrowed equation's params to JAX's form: programs become JAX's."""

    def theirs(closed: ClosedJaxpr) -> Any:
        # the original program if it was imported from JAX; else a converted one
        return closed.memo.get("theirs") or _exported.jax_closed(closed)

    return values_for_jax(params, theirs)


def params_of_ours(params: dict[str, Any]) -> dict[str, Any]:
    """Convert a JAX equation's params to a borrowed primitive's: programs become minijax's."""

    def ours(value: Any) -> Any:
        kind = type(value)
        if kind is tuple:
            return tuple(map(ours, value))
        if kind.__name__ in ("ClosedJaxpr", "Jaxpr") and kind.__module__.startswith("jax"):
            return import_once(value)
        return value

    return {name: ours(value) for name, value in params.items()}


class BorrowedRule(DerivedRule):
    """A rule of a borrowed primitive, computed by ``derive``. ``find`` finds JAX's rule."""

    def __init__(self, primitive: BorrowedPrimitive, derive: Rule, find: Callable[[Any], Any]) -> None:
        super().__init__(primitive.borrowed_from, functools.partial(find, primitive.theirs))
        self.primitive = primitive
        self.derive = derive

    def __call__(self, /, *args: Any, **params: Any) -> Any:
        try:
            return self.derive(self.primitive, *args, **params)
        except Exception as error:
            explain(error, self.primitive, self.find())
            raise


def explain(error: Exception, primitive: BorrowedPrimitive, rule: Any) -> None:
    """Add a note about JAX's failing rule to ``error``, and drop JAX's notes about its own stack."""
    notes = getattr(error, "__notes__", [])
    if any("is borrowed from JAX" in note for note in notes) or failed_check(error) is not None:
        return
    code = getattr(rule, "__code__", None)
    where = f"; the rule is {code.co_qualname} at {code.co_filename}:{code.co_firstlineno}" if code is not None else ""
    where = "; JAX has no such rule for it" if rule is None else where
    # JAX's notes describe its own stack, which is not shown
    error.__notes__ = [note for note in notes if "JAX_TRACEBACK" not in note and note.strip("-")]
    error.add_note(f"{primitive.name} is borrowed from JAX (defined at {primitive.defined_at}){where}")
    error.__cause__, error.__suppress_context__ = None, True


_borrowed: dict[Any, BorrowedPrimitive] = {}


def borrowed(theirs: Any) -> BorrowedPrimitive:
    """Return the minijax primitive for JAX's primitive ``theirs``, with all its rules."""
    found = _borrowed.get(theirs)
    if found is None:
        found = _borrowed[theirs] = BorrowedPrimitive(theirs)
        abstract_rules[found] = BorrowedRule(found, borrowed_abstract, abstract_rule)
        impl_rules[found] = BorrowedRule(found, borrowed_impl, lowering_rule)
        lowering_rules[found] = BorrowedRule(found, borrowed_lower, lowering_rule)
        lowers_keys.add(found)
        jvp_rules[found] = BorrowedRule(found, borrowed_jvp, jvp_rule)
        transpose_rules[found] = BorrowedRule(found, borrowed_transpose, transpose_rule)
        axis_rules[found] = BorrowedRule(found, borrowed_batch, batching_rule)
        axis_users[found] = found.names_axes
        native: Any = our_primitives().get(theirs.name)
        silent = dict(JAX_ONLY.get(theirs.name, {}))
        if native is not None and native.sharding_param:
            silent[native.sharding_param] = None
        parse_rules[found] = functools.partial(read_params, native, silent)
        if theirs in getattr(sys.modules.get("jax._src.core"), "pp_eqn_rules", ()):
            pp_rules[found] = pp_rules.get(native, shown_params)
        make_readable()
    return found


@functools.cache
def make_readable() -> None:
    """Let the parser read params of JAX's classes. A class of minijax with the same name takes precedence."""
    for module in ("lax", "lax.linalg"):
        for name, kind in vars(jax_module(module)).items():
            if isinstance(kind, type) and (issubclass(kind, enum.Enum) or is_record(kind)):
                param_types.setdefault(name, kind)


def is_record(kind: type) -> bool:
    return hasattr(kind, "_fields") or hasattr(kind, "__dataclass_fields__")


def read_params(
    native: Primitive, hidden: dict[str, Any], params: dict[str, Any], in_avals: Sequence[Any], out_avals: Sequence[Any]
) -> dict[str, Any]:
    """The ``parse_rules`` rule: read params as for minijax's primitive ``native``. Add the hidden params."""
    lax = jax_module("lax")

    def read(name: str, value: Any) -> Any:
        if name.endswith("_prim") and isinstance(value, str):
            return getattr(jax_module("extend.core.primitives"), f"{value}_p", value)
        if name == "fft_type" and isinstance(value, int):
            return lax.FftType(value)
        return getattr(lax.RandomAlgorithm, value) if name == "algorithm" and isinstance(value, str) else value

    rule = parse_rules.get(native)
    shown = params if rule is None else rule(params, in_avals, out_avals)
    return {**hidden, **{name: read(name, value) for name, value in shown.items()}}


def shown_params(eqn: JaxprEqn, printer: Printer) -> Any:
    """The ``pp_rules`` rule: like JAX's, it omits params that are None."""
    return [(name, value) for name, value in sorted(eqn.params.items()) if value is not None]


def borrow_eqn(eqn: Any, invars: list[Any], outvars: list[Var], source: Any) -> JaxprEqn:
    """Convert an equation of a JAX primitive that minijax lacks."""
    return JaxprEqn(borrowed(eqn.primitive), invars, params_of_ours(eqn.params), outvars, source)


def borrowed_abstract(p: BorrowedPrimitive, /, *avals: Any, **params: Any) -> Any:
    return p.given(p.call(avals, params).out_avals)


def borrowed_impl(p: BorrowedPrimitive, /, *args: Any, **params: Any) -> Any:
    call = p.called(args, params)
    try:
        program, _ = call.memo["program"]
    except KeyError:
        program, _ = call.derived("program", lambda: _program(p, call, params))
    return p.given(program(*args))


def _program(p: BorrowedPrimitive, call: JaxCall, params: dict[str, Any]) -> tuple[Any, ClosedJaxpr]:
    """Compile a call. Returns the executable and its program."""
    ins, outs = list(map(Var, map(aval_of, call.specs))), list(map(Var, call.out_avals))
    closed = ClosedJaxpr(Jaxpr([], ins, outs, [JaxprEqn(p, ins, params, outs)], p.name))
    return compiled(closed, p.name), closed


def _rule_program(call: JaxCall, key: Any, fun: Callable[..., Any], specs: list[Any], axes: Axes = ()) -> ClosedJaxpr:
    """Import the program of a JAX rule: ``fun`` applies it to arguments of types ``specs``."""
    name = f"{key[0]}_of_{call.name}"
    return call.derived(key, lambda: without_sources(import_closed(call.traced(fun, specs, axes), name)))


def without_sources(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Remove the source lines of a rule's program: its equations get the line of the equation that uses the rule."""

    def bare(value: Any) -> Any:
        if isinstance(value, tuple):
            bared = map(bare, value)
            return type(value)(*bared) if hasattr(value, "_fields") else tuple(bared)
        if type(value) is ClosedJaxpr:
            return without_sources(value)
        return opened(value) if type(value) is Jaxpr else value

    def opened(jaxpr: Jaxpr) -> Jaxpr:
        eqns = [
            eqn.replace(source=None, params={name: bare(value) for name, value in eqn.params.items()})
            for eqn in jaxpr.eqns
        ]
        return jaxpr.replace(eqns=eqns)

    if "bare" not in closed.memo:
        made = closed.memo["bare"] = ClosedJaxpr(opened(closed.jaxpr), closed.consts)
        if "theirs" in closed.memo:
            made.memo["theirs"] = closed.memo["theirs"]
    return closed.memo["bare"]


def jvp_program(call: JaxCall, perturbed: tuple[bool, ...]) -> ClosedJaxpr:
    """The jvp as a program of the primals and the tangents of ``perturbed`` primals.

    It returns the results and the tangents of inexact results.
    """
    positions = [i for i, p in enumerate(perturbed) if p]

    def jvp_rule_of_jax(*values: Any) -> list[Any]:
        jax = jax_module()
        primals, tangents = list(values[: len(perturbed)]), values[len(perturbed) :]

        def of(*varied: Any) -> list[Any]:
            return call.fun(*with_items(primals, positions, varied))

        outs, out_tangents = jax.jvp(of, tuple([primals[i] for i in positions]), tuple(tangents))
        return [*outs, *[t for t in out_tangents if t.dtype != jax.dtypes.float0]]

    specs = [*call.specs, *[call.specs[i] for i in positions]]
    return _rule_program(call, ("jvp", perturbed), jvp_rule_of_jax, specs)


def borrowed_jvp(p: BorrowedPrimitive, primals: Any, tangents: Any, /, **params: Any) -> Any:
    call = p.called(primals, params)
    perturbed = tuple([type(t) is not Zero and dtypes.is_inexact(get_aval(t).dtype) for t in tangents])
    results = eval_closed(jvp_program(call, perturbed), *primals, *itertools.compress(tangents, perturbed))
    n = len(call.out_avals)
    found = iter(results[n:])
    out_tangents = [next(found) if dtypes.is_inexact(a.dtype) else zero_of(a) for a in call.out_avals]
    return p.given(results[:n]), p.given(out_tangents)


def borrowed_transpose(p: BorrowedPrimitive, cts: Any, /, *args: Any, **params: Any) -> list[Any]:
    call = p.called(args, params)
    cts = cts if p.multiple_results else [cts]
    linear = tuple([type(a) is UndefinedPrimal for a in args])
    given = tuple([type(ct) is not Zero for ct in cts])
    known, unknown = partition(linear, call.specs)

    def transpose_rule_of_jax(*values: Any) -> Any:
        jax = jax_module()
        fixed, ct_values = values[: len(known)], list(values[len(known) :])

        def of(*unknowns: Any) -> list[Any]:
            rest, varied = iter(fixed), iter(unknowns)
            outs = call.fun(*[next(varied) if lin else next(rest) for lin in linear])
            return list(itertools.compress(outs, given))

        return jax.linear_transpose(of, *unknown)(ct_values)

    specs = [*known, *itertools.compress(call.out_specs, given)]
    program = _rule_program(call, ("transpose", linear, given), transpose_rule_of_jax, specs)
    found = iter(eval_closed(program, *partition(linear, args)[0], *itertools.compress(cts, given)))
    return [next(found) if lin else None for lin in linear]


def borrowed_batch(p: BorrowedPrimitive, axis: AxisData, args: Any, dims: Any, /, **params: Any) -> Any:
    avals = [get_aval(a) for a in args]
    each = [
        a if d is None else a.update(shape=a.shape[:d] + a.shape[d + 1 :]) for a, d in zip(avals, dims, strict=True)
    ]
    call = p.call(each, params)
    # pass the axis name only if the call uses it: each name needs a derived program of its own
    named = {"axis_name": axis.name} if axis.name in p.names_axes(params) else {}

    def mapped(out_axes: Any, seen: list[int | None]) -> Callable[..., list[Any]]:
        def of(*xs: Any) -> list[Any]:
            outs = call.fun(*xs)
            seen[:] = [getattr(x, "batch_dim", None) for x in outs]
            return outs

        return jax_module().vmap(of, in_axes=tuple(dims), out_axes=out_axes, axis_size=axis.size, **named)

    def batching_rule_of_jax(*values: Any) -> list[Any]:
        jax_module().eval_shape(mapped(0, batched), *values)
        return mapped(list(batched), [])(*values)

    # the batch axis of each result under JAX's rule
    batched: list[int | None] = []
    key = ("vmap", tuple(dims), axis.size, *named.values())
    program = _rule_program(call, key, batching_rule_of_jax, specs_of(avals))
    out_dims = call.derived(("batched", key), lambda: list(batched))
    return p.given(eval_closed(program, *args)), p.given(out_dims)


def borrowed_lower(
    p: BorrowedPrimitive, ctx: FunctionWriter, avals: Any, out_avals: Any, /, *names: str, **params: Any
) -> Any:
    # every device of a mesh runs the same program, so drop mesh information from the types
    call = p.call(list(map(bare, avals)), params)
    if _lowered(call, lowering_platform(ctx.module)) is None:
        within = {"jaxpr": inside(call), "name": p.name, "donated_invars": (False,) * len(names)}
        return p.given(lowering_rules[jit_p](ctx, avals, out_avals, *names, **within))
    symbol = _function(ctx.module, call)
    return p.given(ctx.call(symbol, names, avals, out_avals))


def inside(call: JaxCall) -> ClosedJaxpr:
    """The primitive's evaluation as a program that JAX traces. It replaces a JAX lowering rule that calls Python."""

    def trace() -> ClosedJaxpr:
        try:
            traced = call.traced(call.evaluated, call.specs)
        except Exception as error:
            raise NotImplementedError(
                f"{call.name} calls Python when it runs: minijax cannot use JAX's lowering, which contains a callback. "
                "Use minijax.pure_callback."
            ) from error
        return without_sources(import_closed(traced, call.name))

    found: ClosedJaxpr = call.derived("inside", trace)
    return found


def _function(module: ModuleWriter, call: JaxCall) -> str:
    """The symbol of ``call``'s private function in ``module``, spliced from JAX's lowering on first use."""
    known = module.authored.get(call)
    if known is None:
        functions = _lowered(call, lowering_platform(module)) or []
        symbols = {mark: module.unique(name) for mark, name, _ in functions}
        for _, _, text in functions:
            module.functions.append(re.sub(_MARK, lambda found: symbols[found[0]], text))
        known = module.authored[call] = symbols[functions[0][0]]
    return known


# A placeholder for a function's symbol until it is spliced into a module.
_MARK = r"\bborrowed_\d+_function\b"
# Custom calls into Python. The function that they call is not in the text.
_INTO_PYTHON = re.compile(r"xla\w*_python\w*_callback")


def _lowered(call: JaxCall, platform: str) -> list[tuple[str, str, str]] | None:
    """JAX's lowering as (mark, name, text) of each function, the entry first. None if a function calls Python."""

    def lower() -> list[tuple[str, str, str]] | None:
        # without keep_unused, unused operands vanish from the signature
        traced = jax_module().jit(call.fun, keep_unused=True).trace(*call.specs)
        module = traced.lower(lowering_platforms=(platform,)).compiler_ir("stablehlo")
        text = module.operation.get_asm(enable_debug_info=False)
        return None if _INTO_PYTHON.search(text) else _functions(call.name, text)

    return call.derived(("lowered", platform), lower)


def _without_shardings(module: Any) -> None:
    """Remove shardings over devices; keep ``sdy.sharding_rule``, which describes how an operation can be sharded."""
    ir = bindings.ir()
    found: list[Any] = []

    def note(op: Any) -> Any:
        if op.name.startswith("sdy."):
            found.append(op)
        for name in [each for each in op.attributes if each.startswith("sdy.") and each != "sdy.sharding_rule"]:
            del op.attributes[name]
        return ir.WalkResult.ADVANCE

    module.operation.walk(note)
    for op in found:
        for result, operand in zip(op.results, op.operands, strict=False):
            result.replace_all_uses_with(operand)
        op.erase()


def _functions(name: str, text: str) -> list[tuple[str, str, str]]:
    ir = bindings.ir()
    found = []
    with bindings.make_context():
        module = ir.Module.parse(text)
        _without_shardings(module)
        for i, op in enumerate(module.body.operations):
            symbol, mark = ir.StringAttr(op.attributes["sym_name"]).value, f"borrowed_{i}_function"
            ir.SymbolTable.replace_all_symbol_uses(symbol, mark, module.operation)
            ir.SymbolTable.set_symbol_name(op.operation, mark)
            op.attributes["sym_visibility"] = ir.StringAttr.get("private")
            for attributes in ("arg_attrs", "res_attrs"):
                if attributes in op.attributes:
                    del op.attributes[attributes]
            found.append((mark, symbol, op.operation))
        # print after all renaming, since functions may call each other
        texts = [(mark, symbol, op.get_asm(use_local_scope=True)) for mark, symbol, op in found]
    indented = [(mark, symbol, "\n".join(f"  {line}" for line in asm.splitlines())) for mark, symbol, asm in texts]
    indented.sort(key=lambda each: each[1] != "main")
    return [(mark, name if symbol == "main" else symbol, asm) for mark, symbol, asm in indented]
