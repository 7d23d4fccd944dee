"""The transformations as users call them, on functions of pytrees."""

from minijax.api.autodiff import *
from minijax.api.batching import *
from minijax.api.compile import *
from minijax.api.devices import block_until_ready as block_until_ready
from minijax.api.devices import device_get as device_get
from minijax.api.devices import device_put as device_put
from minijax.api.staging import *
