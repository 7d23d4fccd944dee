"""``minijax.debug``: look into running programs."""

from typing import TYPE_CHECKING, Any

from minijax.api.callbacks import debug_callback as callback
from minijax.api.callbacks import debug_log as log
from minijax.api.callbacks import debug_print as print  # noqa: A001  (JAX's name)
from minijax.core.lazy import public

if TYPE_CHECKING:
    from minijax.api.breakpoints import debug_breakpoint as breakpoint  # noqa: A001  (JAX's name)
    from minijax.api.visualize_sharding import visualize_array_sharding as visualize_array_sharding
    from minijax.api.visualize_sharding import visualize_sharding as visualize_sharding

__all__ = ["breakpoint", "callback", "log", "print", "visualize_array_sharding", "visualize_sharding"]

# Imported at first use, because a breakpoint imports Python's debugger.
_LATER = {
    "breakpoint": ("minijax.api.breakpoints", "debug_breakpoint"),
    "visualize_array_sharding": ("minijax.api.visualize_sharding", "visualize_array_sharding"),
    "visualize_sharding": ("minijax.api.visualize_sharding", "visualize_sharding"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    found = globals()[name] = public(*_LATER[name])
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
