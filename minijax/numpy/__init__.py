"""``minijax.numpy``: NumPy's functions on arrays and tracers, with JAX's names and JAX's type promotion.

Each module lists its names in ``__all__``. Importing this package adds operators and methods to ``Array`` and
``Tracer``.
"""

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
from numpy.exceptions import ComplexWarning

from minijax.core.borrowing import borrowing as _borrowing
from minijax.numpy import operators as _operators
from minijax.numpy import types
from minijax.numpy.creation import *
from minijax.numpy.functional import *
from minijax.numpy.index_update import *
from minijax.numpy.manipulation import *
from minijax.numpy.mathematics import *
from minijax.numpy.products import *
from minijax.numpy.reductions import *
from minijax.numpy.types import *
from minijax.numpy.ufuncs import *

_borrowed, __dir__ = _borrowing(
    globals(),
    "minijax.numpy.logarithms",
)


def __getattr__(name: str) -> _Any:
    """Look up a name that is not imported yet: a small type, a name in a late module, or a name that only JAX has."""
    if name in types.SMALL_TYPES:
        return getattr(types, name)
    found = _borrowed(name)
    return ["linalg", *found] if name == "__all__" else found
