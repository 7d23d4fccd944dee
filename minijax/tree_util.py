"""``minijax.tree_util``: JAX's names for pytrees (https://docs.jax.dev/en/latest/jax.tree_util.html).

The functions are those of :mod:`minijax.pytree`.
"""

from types import ModuleType as _ModuleType

from minijax.pytree.core import *
from minijax.pytree.keys import *
from minijax.pytree.nodes import *
from minijax.pytree.prefix import *
from minijax.pytree.trees import *

# All names that are imported above.
__all__ = sorted(name for name, value in globals().items() if name[0] != "_" and not isinstance(value, _ModuleType))
