"""``minijax.numpy.fft``: discrete Fourier transforms, borrowed from JAX."""

from minijax.core.borrowing import borrowing

__getattr__, __dir__ = borrowing(globals())
