"""``minijax.scipy.cluster``: vector quantization, in ``vq``."""

from minijax.core.lacking import borrowing

__getattr__, __dir__ = borrowing(globals())
