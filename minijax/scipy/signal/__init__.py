"""``minijax.scipy.signal``: convolution and spectra of signals."""

from minijax.core.lacking import borrowing

__getattr__, __dir__ = borrowing(
    globals(),
    "minijax.scipy.signal.convolutions",
    "minijax.scipy.signal.trends",
    "minijax.scipy.signal.spectra",
)
