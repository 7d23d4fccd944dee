"""The primitives under the names in JAX's ``extend.core.primitives``; those that only JAX has are borrowed."""

from minijax import lax
from minijax.core.borrowing import borrowing, names_of
from minijax.core.lazy import load_all
from minijax.core.structural import add_any_p as add_jaxvals_p
from minijax.extend.core.calls import call_p, closed_call_p
from minijax.ops.call import jit_p
from minijax.ops.checkpoint import name_p, remat_p
from minijax.ops.cond import empty2_p
from minijax.ops.custom_jvp import custom_jvp_call_p
from minijax.ops.custom_vjp import custom_lin_p, custom_vjp_call_p
from minijax.ops.random.bits import random_bits_p, random_fold_in_p, random_seed_p, random_split_p
from minijax.ops.random.threefry import threefry2x32_p
from minijax.ops.refs.primitives import get_p, swap_p

__all__ = [
    "add_jaxvals_p",
    "call_p",
    "closed_call_p",
    "custom_jvp_call_p",
    "custom_lin_p",
    "custom_vjp_call_p",
    "empty2_p",
    "get_p",
    "jit_p",
    "name_p",
    "random_bits_p",
    "random_fold_in_p",
    "random_seed_p",
    "random_split_p",
    "remat_p",
    "swap_p",
    "threefry2x32_p",
]

load_all()
# minijax's other primitives are in lax
globals().update({name: vars(lax)[name] for name in names_of(__name__) if name in vars(lax)})
__all__ += [name for name in names_of(__name__) if name in globals() and name not in __all__]

__getattr__, __dir__ = borrowing(globals())
