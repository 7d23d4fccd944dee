"""``minijax.numpy``: NumPy's functions on arrays and tracers, with JAX's names and JAX's type promotion.

Each module says in its ``__all__`` what it gives. Importing this package gives ``Array`` and ``Tracer`` their operators
and methods.
"""

from types import ModuleType as _ModuleType
from typing import Any as _Any

from numpy import (
    bool,
    character,
    complexfloating,
    dtype,
    e,
    euler_gamma,
    flexible,
    floating,
    generic,
    get_printoptions,
    inexact,
    inf,
    integer,
    nan,
    newaxis,
    number,
    object_,
    pi,
    printoptions,
    set_printoptions,
    signedinteger,
    unsignedinteger,
)

from minijax.core.lacking import borrowing as _borrowing
from minijax.numpy import later as _later
from minijax.numpy import linalg, types
from minijax.numpy import operators as _operators
from minijax.numpy.creation import *
from minijax.numpy.einsum import *
from minijax.numpy.functional import *
from minijax.numpy.index_update import *
from minijax.numpy.linear import *
from minijax.numpy.manipulation import *
from minijax.numpy.mathematics import *
from minijax.numpy.reductions import *
from minijax.numpy.sorting import *
from minijax.numpy.types import *
from minijax.numpy.ufuncs import *

# All of the above but the modules it comes from, and what is loaded later.
__all__ = [
    "linalg",
    *_later.MODULE_OF,
    *sorted(name for name, value in globals().items() if name[0] != "_" and not isinstance(value, _ModuleType)),
]


_borrowed, __dir__ = _borrowing(globals())


def __getattr__(name: str) -> _Any:
    """The small types, made at first need, and what is loaded later; what this module lacks of JAX's is borrowed."""
    if name in types.SMALL_TYPES:
        return getattr(types, name)
    return _later.load(name, globals()) if name in _later.MODULE_OF else _borrowed(name)
