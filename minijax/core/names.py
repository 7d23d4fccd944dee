"""Name stacks: the named scopes and transformations around an equation when it was recorded, ``transpose(jvp(f))/g``.

Scopes cost time only while one is open: ``errors.source_info`` then adds the name stack to its result. The
equation keeps it (``JaxprEqn.source``) through every transformation. The transformations around a scope come from
the interpreter stack; only transposition adds its own name. Equations outside all scopes have no name stack.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any

from minijax import errors
from minijax.core.records import NamedTuple
from minijax.core.trace import MainTrace, state

# The elements of a name stack, outermost first: ``(name, is_transformation)``.
NameStack = tuple[tuple[str, bool], ...]

# The labels of interpreters -> their names in name stacks. As in JAX, other interpreters do not appear there.
_SHOWN = {"jvp": "jvp", "linearize": "jvp", "vmap": "vmap"}


class SourceInfo(NamedTuple):
    """The user's line that an equation comes from (None if unknown), and the named scopes around it."""

    traceback: tuple[Any, ...] | None
    name_stack: NameStack


def source_info_of(source: Any) -> SourceInfo:
    """Split the result of ``errors.source_info`` into the user's line and the name stack."""
    return SourceInfo(None, ()) if source is None else SourceInfo(source[:2], source[2] if len(source) > 2 else ())


class _Open(NamedTuple):
    """An open scope: the name stack in it, and the interpreter and stack depth at its start."""

    names: NameStack
    dynamic: MainTrace
    depth: int


class _Scopes(threading.local):
    def __init__(self) -> None:
        self.open: list[_Open] = []


_scopes = _Scopes()
_lock = threading.Lock()


def current_names() -> NameStack:
    """The current name stack, relative to the function being staged."""
    dynamic = state.dynamic.main
    names: NameStack = ()
    depth = dynamic.level + 1
    if _scopes.open and _scopes.open[-1].dynamic is dynamic:
        names, depth = _scopes.open[-1].names, _scopes.open[-1].depth
    return names + tuple((_SHOWN[main.label], True) for main in state.stack[depth:] if main.label in _SHOWN)


errors.set_name_source(current_names)


class named_scope(contextlib.ContextDecorator):
    """Context manager and decorator: equations recorded inside have ``name`` in their name stack.

    ``format_jaxpr(jaxpr, name_stack=True)`` shows the stack. An inner jaxpr begins a new stack. TypeError if ``name``
    is not a string.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"named_scope name argument must be a string, got {type(name).__name__}.")
        self.name = name

    def _recreate_cm(self) -> named_scope:
        return named_scope(self.name)

    def __enter__(self) -> None:
        names = (*current_names(), (self.name, False))
        _scopes.open.append(_Open(names, state.dynamic.main, len(state.stack)))
        with _lock:
            errors.open_scopes += 1

    def __exit__(self, *exc: object) -> None:
        _scopes.open.pop()
        with _lock:
            errors.open_scopes -= 1


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """Return ``fun`` wrapped in a ``named_scope``, which has the function's name or ``name``."""
    if not callable(fun):
        raise TypeError(f"named_call expects a function, got {fun!r}")
    scope = named_scope(getattr(fun, "__name__", type(fun).__name__) if name is None else name)
    return functools.wraps(fun)(scope(fun))


def transposed(source: Any, what: str, named: bool = True) -> Any:
    """The source for equations that come from transposing an equation of primitive ``what`` with this ``source``.

    ``named``: whether to add ``transpose`` to the name stack.
    """
    if source is None:
        return None
    names = source[2] if len(source) > 2 else ()
    if names and named:
        # Scopes that are still open are around the transposition too, so ``transpose`` goes after their names.
        around = 0
        for one, other in zip(names, current_names(), strict=False):
            if one != other:
                break
            around += 1
        names = (*names[:around], ("transpose", True), *names[around:])
    chain: Any = what  # the common case: transposed once
    if len(source) > 3:
        chain = (source[3], what) if type(source[3]) is str else (*source[3], what)
    return source[0], source[1], names, chain


def transposed_from(source: Any) -> tuple[str, ...]:
    """The primitives whose transposition made the equation with ``source``, in order; '' for an unknown primitive."""
    found = source[3] if source is not None and len(source) > 3 else ()
    return (found,) if isinstance(found, str) else found


def names_of(source: Any) -> str:
    """The name stack of an equation's ``source`` as text: ``'transpose(jvp(f))/g'``, or ``''``."""
    parts: list[str] = []
    for name, is_transformation in reversed(source[2] if source is not None and len(source) > 2 else ()):
        if not is_transformation:
            parts.append(name)
        elif parts:
            parts[-1] = f"{name}({parts[-1]})"
        else:
            parts.append(f"{name}()")
    return "/".join(reversed(parts))
