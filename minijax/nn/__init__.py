"""``minijax.nn``: the functions that neural networks are written with; what is not here is borrowed from JAX."""

from minijax.core.lacking import borrowing
from minijax.nn import attention as _attention
from minijax.nn import functions as _functions
from minijax.nn.attention import *
from minijax.nn.functions import *

__all__ = [*_attention.__all__, *_functions.__all__]

__getattr__, __dir__ = borrowing(globals())
