"""``minijax.debug``: look into running programs."""

from typing import TYPE_CHECKING, Any

from minijax.api.callbacks import debug_callback as callback
from minijax.api.callbacks import debug_log as log
from minijax.api.callbacks import debug_print as print  # noqa: A001  (JAX's name)
from minijax.core.late import public

if TYPE_CHECKING:
    from minijax.api.breakpoints import debug_breakpoint as breakpoint  # noqa: A001  (JAX's name)

__all__ = ["breakpoint", "callback", "log", "print"]


def __getattr__(name: str) -> Any:
    """``breakpoint``, which brings Python's debugger: every session has this module, few stop in one."""
    if name != "breakpoint":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    found = globals()[name] = public("minijax.api.breakpoints", "debug_breakpoint")
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
