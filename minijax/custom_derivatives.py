"""``minijax.custom_derivatives``: JAX's names for writing derivative rules."""

from minijax.api.closures import closure_convert, custom_gradient
from minijax.api.custom_derivatives import SymbolicZero, zero_from_primal
from minijax.api.custom_jvp import custom_jvp
from minijax.api.custom_vjp import CustomVJPPrimal, custom_vjp, custom_vjp_primal_tree_values
from minijax.ops.custom_jvp import custom_jvp_call_p
from minijax.ops.custom_vjp import custom_vjp_call_p

__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_jvp_call_p",
    "custom_vjp",
    "custom_vjp_call_p",
    "custom_vjp_primal_tree_values",
    "zero_from_primal",
]
