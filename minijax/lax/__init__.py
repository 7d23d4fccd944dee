"""JAX's ``lax`` names: thin functions over the primitives, without ``minijax.numpy``'s conversions.

Each module says in its ``__all__`` what it gives.
"""

from types import ModuleType as _ModuleType

from minijax.core.lacking import borrowing as _borrowing
from minijax.lax.cond import *
from minijax.lax.convolution import *
from minijax.lax.fourier import *
from minijax.lax.general import *
from minijax.lax.parallel import *
from minijax.lax.scan import *
from minijax.lax.solves import *
from minijax.lax.while_loop import *
from minijax.lax.windows import *
from minijax.ops.checkpoint import *
from minijax.ops.clamp import *
from minijax.ops.cond import *
from minijax.ops.convert import *
from minijax.ops.cumulative import *
from minijax.ops.dot import *
from minijax.ops.dynamic import *
from minijax.ops.elementwise import *
from minijax.ops.fft import *
from minijax.ops.index import *
from minijax.ops.parallel import *
from minijax.ops.reduce import *
from minijax.ops.scan import *
from minijax.ops.scatter import *
from minijax.ops.select import *
from minijax.ops.shape import *
from minijax.ops.slicing import *
from minijax.ops.sort import *
from minijax.ops.while_loop import *
from minijax.ops.windows.convolution import *
from minijax.ops.windows.dimension_numbers import *
from minijax.ops.windows.pooling import *
from minijax.ops.windows.reduce_window import *
from minijax.ops.windows.reducer import *
from minijax.ops.windows.shapes import *

# All of the above but the modules it comes from.
__all__ = sorted(name for name, value in globals().items() if name[0] != "_" and not isinstance(value, _ModuleType))

__getattr__, __dir__ = _borrowing(globals())
