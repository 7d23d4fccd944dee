"""``minijax.scipy.special``: special functions.

Borrowed from JAX, when they are used, are the integrals of Fresnel and of exponentials, sine and cosine, Bessel's
functions of whole order, Owen's and Faddeeva's function, hypergeometric and spherical functions.
"""

from minijax.core.lacking import borrowing
from minijax.nn.functions import log_softmax as _log_softmax
from minijax.nn.functions import logsumexp
from minijax.nn.functions import softmax as _softmax
from minijax.scipy.special import bessels as _bessels
from minijax.scipy.special import entropies as _entropies
from minijax.scipy.special import gammas as _gammas
from minijax.scipy.special import normals as _normals
from minijax.scipy.special.bessels import *
from minijax.scipy.special.entropies import *
from minijax.scipy.special.gammas import *
from minijax.scipy.special.normals import *

__all__ = [
    "log_softmax",
    "logsumexp",
    "softmax",
    *_bessels.__all__,
    *_entropies.__all__,
    *_gammas.__all__,
    *_normals.__all__,
]


def softmax(x, /, *, axis=None):  # type: ignore[no-untyped-def]
    """exp(x) divided by its sum along ``axis`` (an axis, several, or None for all), without overflow."""
    return _softmax(x, axis=axis)


def log_softmax(x, /, *, axis=None):  # type: ignore[no-untyped-def]
    """The logarithm of ``softmax``, without overflow."""
    return _log_softmax(x, axis=axis)


__getattr__, __dir__ = borrowing(globals(), "minijax.scipy.special.integrals")
