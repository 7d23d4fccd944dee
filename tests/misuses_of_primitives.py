"""Primitives and their rules used wrongly. Adds rows to the table in ``misuses``."""

import importlib

from .missing_rules import new_primitive
from .misuses import X3, misuse, wrong

# fmt: off

OPERAND = (
    "Error interpreting argument to multiply_add as a JAX value. The problematic value is of type <class 'str'>",
)

# --- primitives --------------------------------------------------------------------------------------------
def tables(ns, name):
    return importlib.import_module(f"{ns.__name__}.interpreters.{name}")

def complete(ns):
    return new_primitive(ns, evaluation=True, abstract=True)

wrong("primitive_given_text", lambda ns: complete(ns).bind("a", 1.0, 2.0), *OPERAND, "at position 0",
      advice=("Pass an array",))

@misuse(
    ours="TypeError",
    here=True,
    advice=("must return a ShapedArray, but returned None", "multiply_add was defined at", "the rule is"),
)
def abstract_rule_returns_nothing(ns):
    p = new_primitive(ns)
    p.def_abstract_eval(lambda x, y, z: None)
    ns.jit(lambda x: p.bind(x, x, x) + 1)(1.0)

@misuse(
    "cannot unpack non-iterable NoneType object",
    here=True,
    advice=("must return (primal_out, tangent_out)", "multiply_add was defined at", "the rule is"),
)
def derivative_rule_returns_nothing(ns):
    p = complete(ns)
    tables(ns, "ad").primitive_jvps[p] = lambda primals, tangents: None
    ns.jvp(lambda x: p.bind(x, x, x), (1.0,), (1.0,))

@misuse(
    "Error interpreting argument to mul as a JAX value",
    "at position 1",
    advice=("known to be zero", "ad.instantiate_zeros(t)"),
)
def derivative_rule_computes_with_a_symbolic_zero(ns):
    p = complete(ns)
    tables(ns, "ad").primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), ns.lax.mul(2.0, tangents[1]))
    ns.jvp(lambda x: p.bind(x, 1.0, 1.0), (1.0,), (1.0,))

@misuse(
    "cannot unpack non-iterable NoneType object",
    here=True,
    advice=("must return (out, out_dim)", "multiply_add was defined at", "the rule is"),
)
def batching_rule_returns_nothing(ns):
    p = complete(ns)
    tables(ns, "batching").primitive_batchers[p] = lambda args, dims: None
    ns.vmap(lambda x: p.bind(x, x, x))(X3)

@misuse("argument", here=True, advice=("for each of the 3 operands", "multiply_add was defined at", "the rule is"))
def transpose_rule_returns_too_few(ns):
    p = new_primitive(ns, evaluation=True, abstract=True, derivative=True)
    tables(ns, "ad").primitive_transposes[p] = lambda ct, x, y, z: [ct]
    ns.grad(lambda x: p.bind(x, 2.0, x))(1.0)

@misuse("None", here=True, advice=("multiply_add", "must return a list of MLIR values"))
def lowering_returns_nothing(ns):
    p = complete(ns)
    tables(ns, "mlir").register_lowering(p, lambda ctx, x, y, z: None)
    ns.jit(lambda x: p.bind(x, x, x))(1.0)

@misuse(here=True, advice=("The lowering rule of multiply_add", "tensor<f32>"))
def lowering_returns_too_few(ns):
    p = complete(ns)
    tables(ns, "mlir").register_lowering(p, lambda ctx, x, y, z: [])
    ns.jit(lambda x: p.bind(x, x, x))(1.0)

wrong("lowering_for_an_unknown_platform",
      lambda ns: tables(ns, "mlir").register_lowering(complete(ns), lambda ctx, x, y, z: [x], platform="abacus"),
      "lowering rule for primitive multiply_add for an unknown platform abacus. Known platforms are")
