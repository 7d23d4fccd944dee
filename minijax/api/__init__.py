"""The transformations as users call them, on functions of pytrees.

Not ``jacobians``: it computes with ``minijax.numpy``, which stands on ``minijax.lax``, whose control flow stages bodies
with this package.
"""

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
from minijax.api.staging import eval_shape, make_jaxpr

__all__ = [
    "block_until_ready",
    "device_get",
    "device_put",
    "eval_shape",
    "grad",
    "jit",
    "jvp",
    "linear_transpose",
    "linearize",
    "make_jaxpr",
    "value_and_grad",
    "vjp",
    "vmap",
]
