"""Calls the lowering rules of extension authors: ``rule(ctx, *values, **params)``, with values of MLIR's bindings.

In: a rule as ``jax.interpreters.mlir.register_lowering`` takes it. Out: a rule that writes text, as our lowering loop
calls it. Invariant: the rule runs once per module and signature (types in and out, params). Its operations become a
private function, and each equation is a call of this function.

A rule builds its function in a separate MLIR module, because our own module is text. Our functions that it calls
(``lower_fun``) are only declared there. Functions that the rule defines are printed and spliced into the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.backend.client import runtime
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.core.records import Frozen
from minijax.core.rules import Params, Rule, Values
from minijax.errors import source_line
from minijax.interpreters.stage import stage
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.lowering import bindings
from minijax.lowering.lower import ModuleWriter, lowering_rules
from minijax.lowering.text import FunctionWriter, dense_text, mlir_type

# A rule registered for an alias is used on each of its platforms, as in JAX.
PLATFORM_ALIASES = {"gpu": ("cuda", "rocm")}
KNOWN_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


class ModuleContext:
    """The state that the rules of a module share, ``ctx.module_context``. They read ``context``, ``module``, ``ip``."""

    def __init__(self, writer: ModuleWriter) -> None:
        ir = bindings.ir()
        self.writer = writer
        self.platforms = (lowering_platform(writer),)
        self.context = bindings.make_context()
        self.module = ir.Module.create(loc=ir.Location.unknown(self.context))
        self.ip = ir.InsertionPoint(self.module.body)
        self.symbol_table = ir.SymbolTable(self.module.operation)
        # ``declared``: the text's functions that are declared in ``module``; ``named``: functions made from rules,
        # whose names are already unique in the text
        self.declared: set[str] = set()
        self.named: set[str] = set()
        # ``depth``: the number of running rules (a rule may call another one);
        # ``spliced``: how many operations of ``module`` have been written into the text
        self.depth = 0
        self.spliced = 0

    def declare(self, symbol: str, types: Any) -> None:
        """Declare the text's function ``symbol`` in the module, so that it can be called."""
        if symbol not in self.declared:
            self.declared.add(symbol)
            bindings.dialect("func").FuncOp(symbol, types, visibility="private", ip=self.ip)

    def splice(self) -> None:
        """Write the new operations of ``module``, except declarations, into the text."""
        body = list(self.module.body.operations)
        new = [(op, _symbol(op)) for op in body[self.spliced :]]
        new = [(op, symbol) for op, symbol in new if symbol not in self.declared]
        ir = bindings.ir()
        for op, symbol in new:
            if symbol is not None and symbol not in self.named:  # a rule defined it: the text may have its name already
                unique = self.writer.unique(symbol)
                if unique != symbol:
                    ir.SymbolTable.replace_all_symbol_uses(symbol, unique, self.module.operation)
                    ir.SymbolTable.set_symbol_name(op.operation, unique)
        for op, _ in new:
            text = op.operation.get_asm(use_local_scope=True)
            self.writer.functions.append("\n".join(f"  {line}" for line in text.splitlines()))
        self.spliced = len(body)


def _symbol(op: Any) -> str | None:
    attributes = op.operation.attributes
    return bindings.ir().StringAttr(attributes["sym_name"]).value if "sym_name" in attributes else None


class LoweringRuleContext(Frozen):
    """The first argument of an author's rule. It has those fields of JAX's context that a rule can use."""

    module_context: ModuleContext
    primitive: Primitive | None
    avals_in: Sequence[ShapedArray]
    avals_out: Any
    platforms: Sequence[str] | None = None


def lowering_platform(writer: ModuleWriter) -> str:
    """The platform of ``writer``'s module, by the name that rules use: 'cuda' or 'rocm' if PJRT says 'gpu'."""
    platform = writer.platform()
    if platform != "gpu":
        return platform
    return "rocm" if "rocm" in str(runtime().client.platform_version).lower() else "cuda"


class AuthorsRule:
    """The entry of ``lowering_rules`` for a primitive with registered rules. It is called like our rules."""

    def __init__(self, primitive: Primitive, ours: Rule | None = None) -> None:
        self.primitive = primitive
        self.default: Rule | None = None
        self.by_platform: dict[str, Rule] = {}
        # a rule that writes text, for platforms without a registered rule
        self.ours = ours

    @property
    def example(self) -> Rule | None:
        """One of the registered rules, for reports to name."""
        return self.default or next(iter(self.by_platform.values()), self.ours)

    def rule_for(self, writer: ModuleWriter) -> Rule | None:
        """The author's rule for the module's platform, or else the author's rule for all platforms, or else None."""
        if self.by_platform:
            found = self.by_platform.get(lowering_platform(writer))
            if found is not None:
                return found
        return self.default

    def __call__(self, ctx: FunctionWriter, avals: Any, out_avals: Any, *names: str, **params: Any) -> Any:
        rule = self.rule_for(ctx.module)
        if rule is None:
            if self.ours is not None:
                return self.ours(ctx, avals, out_avals, *names, **params)
            raise NotImplementedError(lowering_rules.missing(self.primitive, platform=ctx.module.platform()))
        symbol = self._function(ctx.module, rule, tuple(avals), tuple(out_avals), params)
        results = ctx.call(symbol, names, avals, out_avals)
        return results if self.primitive.multiple_results else results[0]

    def _function(self, module: ModuleWriter, rule: Rule, avals: Any, out_avals: Any, params: Params) -> str:
        """The symbol of the function that ``rule`` becomes for this signature. The first call builds it."""
        key = (self.primitive, rule, avals, out_avals, *params.items())
        try:
            known = module.authored.get(key)
        except TypeError:  # a parameter cannot be hashed: build a function for this equation alone
            return _build(module, self.primitive, rule, avals, out_avals, params)
        if known is None:
            known = module.authored[key] = _build(module, self.primitive, rule, avals, out_avals, params)
        return known


def register(primitive: Primitive, rule: Rule, platform: str | None = None) -> None:
    """Make ``rule`` the lowering of ``primitive`` on ``platform``; by default, on all platforms without another rule.

    Raises:
      NotImplementedError: no such platform.
    """
    entry = lowering_rules.get(primitive)
    if not isinstance(entry, AuthorsRule):
        entry = lowering_rules[primitive] = AuthorsRule(primitive, entry)
    if platform is None:
        entry.default = rule
        return
    names = PLATFORM_ALIASES.get(platform, (platform,))
    for name in names:
        if name not in KNOWN_PLATFORMS:
            raise NotImplementedError(
                f"Registering an MLIR lowering rule for primitive {primitive} for an unknown platform {platform}. "
                f"Known platforms are: {', '.join((*KNOWN_PLATFORMS, *PLATFORM_ALIASES))}."
            )
        entry.by_platform[name] = rule


def _build(module: ModuleWriter, primitive: Primitive, rule: Rule, avals: Any, out_avals: Any, params: Params) -> str:
    if isinstance(rule, LoweredFun):  # the function is lowered to text, without MLIR's bindings
        return module.function(rule.staged(avals, params, out_avals, primitive), primitive.name)
    ir, func = bindings.ir(), bindings.dialect("func")
    shared = module.bindings
    if shared is None:
        shared = module.bindings = ModuleContext(module)
    symbol = module.unique(primitive.name)
    shared.named.add(symbol)
    shared.depth += 1
    try:
        with shared.context, ir.Location.name(primitive.name):
            types = ir.FunctionType.get([*map(aval_to_ir_type, avals)], [*map(aval_to_ir_type, out_avals)])
            function = func.FuncOp(symbol, types, visibility="private", ip=shared.ip)
            block = function.add_entry_block()
            with ir.InsertionPoint(block):
                context = LoweringRuleContext(shared, primitive, avals, out_avals)
                func.ReturnOp(_values(primitive, rule, rule(context, *block.arguments, **params), out_avals))
            try:
                function.operation.verify()
            except ir.MLIRError as error:
                raise ValueError(f"{_described(primitive, rule)} made an invalid operation: {error}") from None
            if shared.depth == 1:
                shared.splice()
    finally:
        shared.depth -= 1
    return symbol


def _described(primitive: Primitive, rule: Rule) -> str:
    code = getattr(rule, "__code__", None)
    where = f" at {code.co_filename}:{code.co_firstlineno}" if code is not None else ""
    return f"The lowering rule of {primitive.name} ({getattr(rule, '__name__', repr(rule))}{where})"


def _values(primitive: Primitive, rule: Rule, outs: Any, out_avals: Any) -> list[Any]:
    """The rule's results as a list of MLIR values. ValueError, which names the rule, for a wrong number or type."""
    ir = bindings.ir()
    if isinstance(outs, ir.Value):
        outs = [outs]
    elif isinstance(outs, (ir.OpView, ir.Operation)):
        outs = outs.results
    try:
        given = list(outs)
    except TypeError:
        raise ValueError(
            f"Output of translation rule must be iterable: {primitive.name}, got output {outs!r}. "
            f"{_described(primitive, rule)} must return a list of MLIR values, such as [op.result]."
        ) from None
    values = []
    for out in given:
        if isinstance(out, (ir.OpView, ir.Operation)):
            values.extend(out.results)
        elif isinstance(out, ir.Value):
            values.append(out)
        else:
            raise ValueError(f"{_described(primitive, rule)} returned {out!r}, which is not an MLIR value.")
    wanted = [mlir_type(aval) for aval in out_avals]
    found = [str(v.type) for v in values]
    if found != wanted:
        raise ValueError(
            f"{_described(primitive, rule)} returned ({', '.join(found)}), but abstract evaluation says "
            f"({', '.join(wanted)}). Make the two rules agree."
        )
    return values


class LoweredFun:
    """A lowering rule made from a function of arrays: the function is staged at the operands' types, and called."""

    def __init__(self, fun: Rule, multiple_results: bool) -> None:
        self.fun = fun
        self.multiple_results = multiple_results
        self.__name__ = f"lower_fun({getattr(fun, '__name__', 'fun')})"

    def staged(self, avals: Any, params: Params, out_avals: Any, primitive: Primitive | None) -> ClosedJaxpr:
        """The jaxpr of the function. ValueError if its result types are not ``out_avals`` (None: any types)."""

        def flat(*args: Any) -> Values:
            out = self.fun(*args, **params)
            return out if self.multiple_results else (out,)

        closed = stage(flat, avals, getattr(self.fun, "__name__", "fun"), label="lower_fun")
        if out_avals is not None:
            wanted, found = [*map(mlir_type, out_avals)], [*map(mlir_type, closed.out_avals)]
            if wanted != found:
                name = primitive.name if primitive is not None else "a primitive"
                raise ValueError(
                    f"The function that lowers {name} at {source_line()} returned ({', '.join(found)}), but abstract "
                    f"evaluation says ({', '.join(wanted)}). Make the two agree."
                )
        return closed

    def __call__(self, ctx: LoweringRuleContext, *args: Any, **params: Any) -> list[Any]:
        """Call the function on MLIR values, inside another rule; return the results."""
        closed = self.staged(ctx.avals_in, params, None, ctx.primitive)
        return called(ctx, closed, getattr(self.fun, "__name__", "fun"), args)


def called(ctx: LoweringRuleContext, closed: ClosedJaxpr, name: str, args: Values) -> list[Any]:
    """Lower ``closed`` to a function ``name`` of the module and call it on MLIR values; return its results."""
    ir, func = bindings.ir(), bindings.dialect("func")
    shared = ctx.module_context
    symbol = shared.writer.function(closed, name)
    outs = [*map(aval_to_ir_type, closed.out_avals)]
    shared.declare(symbol, ir.FunctionType.get([*map(aval_to_ir_type, closed.in_avals)], outs))
    return list(func.CallOp(outs, ir.FlatSymbolRefAttr.get(symbol), list(args)).results)


def aval_to_ir_type(*args: Any) -> Any:
    """The MLIR type of the aval, which is the last argument. Current JAX passes the module context before it."""
    (aval,) = args[-1:]
    return bindings.ir().Type.parse(mlir_type(aval))


def dtype_to_ir_type(dtype: Any) -> Any:
    """The MLIR element type of a dtype. TypeError for a dtype that arrays cannot have."""
    return bindings.ir().Type.parse(dtypes.mlir_element_type(np.dtype(dtype)))


def ir_constant(val: Any, *, aval: ShapedArray | None = None) -> Any:
    """The MLIR value of a constant ``val``: an array, a NumPy scalar or a Python number."""
    if aval is None:
        aval = ShapedArray(val.shape, val.dtype) if isinstance(val, (np.ndarray, np.generic)) else get_aval(val)
    return bindings.dialect("stablehlo").ConstantOp(_elements(np.asarray(val, aval.dtype), aval)).result


def _elements(array: np.ndarray, aval: ShapedArray) -> Any:
    """The attribute ``dense<...> : type`` of a constant."""
    ir = bindings.ir()
    if dtypes.is_complex(aval.dtype):  # the bindings cannot parse complex elements
        element = dtype_to_ir_type(aval.dtype)
        return ir.DenseElementsAttr.get(np.ascontiguousarray(array), type=element, shape=aval.shape)
    return ir.Attribute.parse(f"{dense_text(array, aval)} : {mlir_type(aval)}")


def ir_attribute(val: Any) -> Any:
    """The MLIR attribute for a number, a string, a dtype, an array, or a sequence or dict of these."""
    ir = bindings.ir()
    if isinstance(val, str):
        return ir.StringAttr.get(val)
    if isinstance(val, np.dtype) or isinstance(val, type) and issubclass(val, np.generic):
        return ir.TypeAttr.get(dtype_to_ir_type(val))
    if isinstance(val, dict):
        return ir.DictAttr.get({name: ir_attribute(v) for name, v in val.items()})
    if isinstance(val, (list, tuple)):
        return ir.ArrayAttr.get([*map(ir_attribute, val)])
    if isinstance(val, (bool, np.bool_)):
        return ir.BoolAttr.get(bool(val))
    if type(val) in (int, float):  # as in JAX, these have 64 bits even without x64
        val = np.asarray(val, np.int64 if type(val) is int else np.float64)[()]
    if isinstance(val, np.generic):
        element = dtype_to_ir_type(val.dtype)
        if dtypes.is_integer(val.dtype):
            return ir.IntegerAttr.get(element, int(val))
        if dtypes.is_float(val.dtype):
            return ir.FloatAttr.get(element, float(val))
    if isinstance(val, np.ndarray):
        return _elements(val, ShapedArray(val.shape, val.dtype))
    raise TypeError(f"No attribute handler defined for type: {type(val)}")
