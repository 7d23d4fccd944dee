"""Programs that compute with real JAX, for all commands at once: carried over before a command sees them, and what it
gives made JAX's again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minijax.interop.uses import jax_use
from minijax.tools.documents.document import document, text
from minijax.tools.session.result import NOTHING, Result
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.interop.watch import Watched


def carried(command: str, title: str, fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Watched | None:
    """The call on minijax, where a command can watch it; None if it does not compute with JAX.

    Raises:
      UsageError: it cannot be watched.
    """
    __tracebackhide__ = True
    if not jax_use(fun, args, kwargs):
        return None
    from minijax.interop import watch

    try:
        return watch.watched(fun, args, kwargs)
    except watch.Unwatched as error:
        raise UsageError(f"%{command} sees what minijax computes, and cannot watch {title}: {error}") from None


def counterpart(x: Any) -> Any:
    """What minijax has in place of ``x``, if that is JAX's; else ``x``."""
    if not jax_use(x):
        return x
    from minijax.interop import watch

    return watch.counterpart(x)


def answer(result: Result, programs: list[Watched]) -> Result:
    """What a command gave for programs of JAX's: with a line on how they were watched, its value JAX's again."""
    from minijax.interop import watch

    status = "; ".join(dict.fromkeys(each.status for each in programs))
    value = result.value if result.value is NOTHING else watch.at_home(result.value)
    step = result.step
    if step is not None:
        step = step.replace(note="; ".join(filter(None, (step.note, status))))
    return result.replace(document=result.document + document(text(status, role="muted")), value=value, step=step)
