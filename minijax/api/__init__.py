"""The transformations as users call them, on functions of pytrees.

Not ``jacobians``: it computes with ``minijax.numpy``, which stands on ``minijax.lax``, whose control flow stages bodies
with this package.
"""

from minijax.api.autodiff import *
from minijax.api.batching import *
from minijax.api.compile import *
from minijax.api.devices import block_until_ready as block_until_ready
from minijax.api.devices import device_get as device_get
from minijax.api.devices import device_put as device_put
from minijax.api.staging import *
