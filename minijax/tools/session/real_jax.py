"""What is said of programs that compute with real JAX, of which minijax sees nothing: no answer beats a false one."""

from __future__ import annotations

from typing import Any

from minijax.interop.uses import jax_use
from minijax.tools.documents.document import Document, document, text
from minijax.tools.session.targets import Target
from minijax.tools.session.tracebacks import INSTEAD_OF_JAX
from minijax.tools.usage import UsageError


def refuse(command: str, target: Target) -> None:
    """UsageError if ``target`` uses real JAX: for commands that tell of the whole program."""
    __tracebackhide__ = True
    if use := jax_use(target.fun, target.args, target.kwargs):
        raise _refusal(command, target, use)


def unseen(command: str, target: Target, saw: object, value: Any = ()) -> Document:
    """A line on what a command did not see of ``target``; UsageError if it ``saw`` nothing.

    Args:
      value: what the program gave, if that is known: it may be an array of JAX's.
    """
    __tracebackhide__ = True
    use = jax_use(target.fun, target.args, target.kwargs, value)
    if not use:
        return Document()
    if not saw:
        raise _refusal(command, target, use)
    return document(text(f"not seen: what real JAX computes in it ({use})", role="warning"))


def _refusal(command: str, target: Target, use: str) -> UsageError:
    return UsageError(
        f"%{command} sees what minijax computes, and {target.title} uses real JAX ({use}), of which it sees nothing. "
        + INSTEAD_OF_JAX
    )
