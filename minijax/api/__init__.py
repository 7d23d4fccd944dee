"""The transformations as users call them, on functions of pytrees."""

from minijax.api.autodiff import (
    grad,
    jvp,
    linear_transpose,
    linearize,
    value_and_grad,
    vjp,
)
from minijax.api.batching import vmap
from minijax.api.compile import jit
from minijax.api.devices import block_until_ready, device_get, device_put
from minijax.api.jacobians import hessian, jacfwd, jacobian, jacrev
from minijax.api.staging import eval_shape, make_jaxpr

__all__ = [
    "block_until_ready",
    "device_get",
    "device_put",
    "eval_shape",
    "grad",
    "hessian",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "linear_transpose",
    "linearize",
    "make_jaxpr",
    "value_and_grad",
    "vjp",
    "vmap",
]
