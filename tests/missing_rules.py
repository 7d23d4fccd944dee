"""Errors of a new primitive that lacks rules. Adds rows to the table in ``misuses``."""

import importlib

import jax
import numpy as np

from .misuses import wrong

# fmt: off


def new_primitive(ns, *, evaluation = False, abstract = False, derivative = False):
    """x*y + z, a primitive that lacks most rules."""
    primitive = importlib.import_module(ns.__name__ + ".extend.core").Primitive("multiply_add")
    ad = importlib.import_module(ns.__name__ + ".interpreters.ad")
    if evaluation:
        primitive.def_impl(lambda x, y, z: ns.numpy.asarray(np.add(np.multiply(x, y), z)))
    if abstract:
        primitive.def_abstract_eval(lambda x, y, z: (jax.core if ns is jax else ns.core).ShapedArray(x.shape, x.dtype))
    if derivative:

        def multiply_add_jvp(primals, tangents):
            x, y, z = primals
            xt, yt, zt = tangents
            zeros = [
                ns.numpy.zeros_like(p) if type(t) is ad.Zero else t for p, t in zip(primals, tangents, strict=True)
            ]
            xt, yt, zt = zeros
            return primitive.bind(x, y, z), primitive.bind(xt, y, primitive.bind(x, yt, zt))

        ad.primitive_jvps[primitive] = multiply_add_jvp
    return primitive


def square_add(primitive):
    """(a, b) -> a*a + b, as a primitive."""
    return lambda a, b: primitive.bind(a, a, b)

wrong("no_evaluation_rule", lambda ns: square_add(new_primitive(ns))(2.0, 10.0),
      "Evaluation rule for 'multiply_add' not implemented")
wrong("no_abstract_evaluation", lambda ns: ns.jit(square_add(new_primitive(ns, evaluation=True)))(2.0, 10.0),
      "Abstract evaluation for 'multiply_add' not implemented", advice=("primitive.def_abstract_eval(rule)",))
wrong("no_lowering", lambda ns: ns.jit(square_add(new_primitive(ns, evaluation=True, abstract=True)))(2.0, 10.0),
      "MLIR translation rule for primitive 'multiply_add' not found for platform cpu",
      advice=("minijax.interpreters.mlir.register_lowering(primitive, rule)",))
wrong("no_derivative",
      lambda ns: ns.jvp(square_add(new_primitive(ns, evaluation=True, abstract=True)), (2.0, 10.0), (1.0, 1.0)),
      "Differentiation rule for 'multiply_add' not implemented",
      here=True, advice=("minijax.interpreters.ad.primitive_jvps[primitive] = rule",))
wrong("no_transpose",
      lambda ns: ns.grad(square_add(new_primitive(ns, evaluation=True, abstract=True, derivative=True)))(2.0, 10.0),
      "Transpose rule (for reverse-mode differentiation) for 'multiply_add' not implemented",
      advice=("minijax.interpreters.ad.primitive_transposes[primitive] = rule",))
wrong("no_batching",
      lambda ns: ns.vmap(square_add(new_primitive(ns, evaluation=True, abstract=True)))(np.ones(2), np.ones(2)),
      "Batching rule for 'multiply_add' not implemented",
      advice=("minijax.interpreters.batching.primitive_batchers[primitive] = rule",))
