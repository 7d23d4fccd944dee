"""Between minijax and the real JAX: programs of one on the other.

``from_jax`` makes a function that was written for JAX one of minijax, ``to_jax`` one of minijax a function that JAX can
transform. jax is imported when the first such is called.
``replacing_jax`` is a block in which packages are imported that were written for JAX, to run here as they stand.
"""

from minijax.interop import exported_calls as exported_calls  # fills the table of export rules
from minijax.interop import refs as refs  # likewise, and that of import rules
from minijax.interop.exported import to_jax
from minijax.interop.functions import from_jax
from minijax.interop.replacing import replacing_jax

__all__ = ["from_jax", "replacing_jax", "to_jax"]
