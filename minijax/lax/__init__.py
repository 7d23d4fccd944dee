"""JAX's ``lax`` names: thin functions over the primitives, without ``minijax.numpy``'s conversions.

Each module lists its names in ``__all__``. A name that is not here is looked up in the modules given to ``_borrowing``,
which are imported one after another, the most used first, until one has the name.
"""

from minijax.core.borrowing import borrowing as _borrowing
from minijax.lax.general import *
from minijax.ops.clamp import *
from minijax.ops.convert import *
from minijax.ops.dot import *
from minijax.ops.dynamic import *
from minijax.ops.elementwise import *
from minijax.ops.index import *
from minijax.ops.products import *
from minijax.ops.reduce import *
from minijax.ops.scatter import *
from minijax.ops.select import *
from minijax.ops.shape import *
from minijax.ops.slicing import *

__getattr__, __dir__ = _borrowing(
    globals(),
    "minijax.ops.cumulative",
    "minijax.ops.sort",
    "minijax.lax.conditionals",
    "minijax.lax.scanning",
    "minijax.lax.loops",
    "minijax.lax.reductions",
    "minijax.ops.cond",
    "minijax.ops.reducer",
    "minijax.ops.scan",
    "minijax.ops.while_loop",
    "minijax.lax.parallel",
    "minijax.lax.solves",
    "minijax.ops.checkpoint",
    "minijax.ops.meshes.constraint",
    "minijax.ops.linear_solve",
    "minijax.ops.parallel",
    "minijax.ops.windows.convolution",
    "minijax.ops.windows.dimension_numbers",
    "minijax.ops.windows.shapes",
)
