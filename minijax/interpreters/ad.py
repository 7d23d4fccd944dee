"""JAX's name for what authors of differentiation rules need."""

from minijax.core.structural import UndefinedPrimal, Zero, instantiate_zeros, is_undefined_primal
from minijax.core.structural import add_tangents as add_tangents
from minijax.interpreters.jvp import JVPTracer, jvp_rules
from minijax.interpreters.transpose import backward_pass, transpose_rules

primitive_jvps = jvp_rules
primitive_transposes = transpose_rules

__all__ = [
    "JVPTracer",
    "UndefinedPrimal",
    "Zero",
    "add_tangents",
    "backward_pass",
    "instantiate_zeros",
    "is_undefined_primal",
    "primitive_jvps",
    "primitive_transposes",
]
