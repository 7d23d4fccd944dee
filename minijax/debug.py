"""``minijax.debug``: look into running programs."""

from minijax.api.breakpoints import debug_breakpoint as breakpoint  # noqa: A001  (JAX's name)
from minijax.api.callbacks import debug_callback as callback
from minijax.api.callbacks import debug_log as log
from minijax.api.callbacks import debug_print as print  # noqa: A001  (JAX's name)

__all__ = ["breakpoint", "callback", "log", "print"]
