"""JAX's ``lax`` names: thin functions over the primitives, without ``minijax.numpy``'s conversions.

Each module says in its ``__all__`` what it gives.
"""

from minijax.core.lacking import borrowing as _borrowing
from minijax.lax.cond import *
from minijax.lax.general import *
from minijax.lax.scan import *
from minijax.lax.while_loop import *
from minijax.ops.clamp import *
from minijax.ops.cond import *
from minijax.ops.convert import *
from minijax.ops.cumulative import *
from minijax.ops.dot import *
from minijax.ops.dynamic import *
from minijax.ops.elementwise import *
from minijax.ops.index import *
from minijax.ops.products import *
from minijax.ops.reduce import *
from minijax.ops.reducer import *
from minijax.ops.scan import *
from minijax.ops.scatter import *
from minijax.ops.select import *
from minijax.ops.shape import *
from minijax.ops.slicing import *
from minijax.ops.sort import *
from minijax.ops.while_loop import *

__getattr__, __dir__ = _borrowing(
    globals(),
    "minijax.lax.convolution",
    "minijax.lax.fourier",
    "minijax.lax.parallel",
    "minijax.lax.solves",
    "minijax.lax.windows",
    "minijax.ops.checkpoint",
    "minijax.ops.fft",
    "minijax.ops.linear_solve",
    "minijax.ops.parallel",
    "minijax.ops.special.bessel",
    "minijax.ops.special.incomplete_beta",
    "minijax.ops.special.incomplete_gamma",
    "minijax.ops.windows.convolution",
    "minijax.ops.windows.dimension_numbers",
    "minijax.ops.windows.pooling",
    "minijax.ops.windows.reduce_window",
    "minijax.ops.windows.reducer",
    "minijax.ops.windows.shapes",
)
