"""Convert JAX's jaxprs to minijax's, to test printing and typechecking without minijax's tracing."""

import functools

import numpy as np
from jax.extend import core as jax_core

from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from minijax.ir.pretty import hide, jit_params, pp_rules

# The parameters of JAX's jit that minijax's jit has too.
JIT_KEPT = {"jaxpr", "name", "inline", "donated_invars", "keep_unused"}


def dot_general_params(eqn, printer):
    shown = {k: v for k, v in eqn.params.items() if v is not None and k != "out_sharding"}
    shown["dimension_numbers"] = tuple(tuple(map(list, pair)) for pair in eqn.params["dimension_numbers"])
    return sorted(shown.items())


def custom_jvp_params(eqn, printer):
    params = dict(eqn.params)
    return [("name", params.pop("name")), *sorted(params.items())]


RULES = {
    "jit": jit_params,
    "broadcast_in_dim": hide("shape", "sharding", trivial=["broadcast_dimensions"]),
    "convert_element_type": hide("sharding"),
    "dot_general": dot_general_params,
    "mul": hide(trivial=["out_dtype"]),
    "custom_jvp_call": custom_jvp_params,
    **{name: hide(trivial=["accuracy"]) for name in "exp exp2 log log1p expm1 tanh logistic sin cos tan sqrt".split()},
}


@functools.cache
def primitive(name):
    """A stand-in for JAX's primitive ``name``, with the printing rule that minijax's primitive has."""
    p = Primitive(name)
    if name in RULES:
        pp_rules[p] = RULES[name]
    return p


def convert(closed):
    """Convert a JAX ClosedJaxpr to minijax's; shared subjaxprs stay shared."""
    memo = {}
    variables = {}

    def aval(a):
        return ShapedArray(a.shape, a.dtype, a.weak_type)

    def atom(a):
        if hasattr(a, "val"):
            return Literal(a.val, aval(a.aval))
        if a not in variables:
            variables[a] = (DropVar if type(a).__name__ == "DropVar" else Var)(aval(a.aval))
        return variables[a]

    def value(v):
        if isinstance(v, jax_core.ClosedJaxpr):
            return ClosedJaxpr(walk(v.jaxpr), v.consts)
        if isinstance(v, jax_core.Jaxpr):
            return walk(v)
        return tuple(map(value, v)) if type(v) is tuple else v

    def params(eqn):
        kept = dict(eqn.params)
        if eqn.primitive.name == "jit":
            kept = {k: v for k, v in kept.items() if k in JIT_KEPT}
        if eqn.primitive.name == "custom_jvp_call":
            kept["jvp"] = kept.pop("jvp_jaxpr_fun").debug_info.func_name
            kept["name"] = kept["call_jaxpr"].jaxpr.debug_info.func_name
            if not kept["num_consts"]:
                del kept["num_consts"]
        return {k: value(v) for k, v in kept.items()}

    def walk(jaxpr):
        if id(jaxpr) not in memo:
            constvars, invars = [atom(v) for v in jaxpr.constvars], [atom(v) for v in jaxpr.invars]
            eqns = []
            for e in jaxpr.eqns:
                ins, outs = [atom(v) for v in e.invars], [atom(v) for v in e.outvars]
                eqns.append(JaxprEqn(primitive(e.primitive.name), ins, params(e), outs))
            memo[id(jaxpr)] = (Jaxpr(constvars, invars, [atom(v) for v in jaxpr.outvars], eqns), jaxpr)
        return memo[id(jaxpr)][0]

    return ClosedJaxpr(walk(closed.jaxpr), closed.consts)


def printed_by_jax(closed, **options):
    """The text of a JAX jaxpr in which NumPy integers are printed as Python's: ``(1,)`` for ``(np.int64(1),)``."""
    with np.printoptions(legacy="1.25"):
        return str(closed.pretty_print(use_color=False, **options))
