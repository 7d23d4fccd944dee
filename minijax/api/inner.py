"""Library functions that appear as calls in a program: ``jit[name=silu jaxpr={...}]``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from minijax.api.compile import jit
from minijax.config import context_mesh, jit_disabled
from minijax.core import lazy, observe
from minijax.core.primitive import evaluation_watched
from minijax.core.trace import state
from minijax.ir.jaxpr import ClosedJaxpr, all_eqns
from minijax.ops.call import jit_p
from minijax.pytree import tree_unflatten


def inner_jit(
    fun: Callable[..., Any] | None = None,
    *,
    static_argnames: str | Sequence[str] = (),
    name: str | None = None,
    compiled: bool = False,
) -> Any:
    """Stage a library function as a call of a jaxpr called ``name``; without ``fun``, a decorator.

    Arguments outside ``static_argnames`` are operands. Outside of a trace, a call runs ``fun``, jitted if ``compiled``.
    """
    if fun is None:
        return functools.partial(inner_jit, static_argnames=static_argnames, name=name, compiled=compiled)
    if name is not None:
        fun.__name__ = name
    jitted: list[Any] = []  # created on first use, to keep the import fast

    @functools.wraps(fun)
    def function(*args: Any, **kwargs: Any) -> Any:
        if not compiled and state.dynamic.level == 0 or jit_disabled():
            if not (evaluation_watched and context_mesh() is not None) or jit_disabled():
                return fun(*args, **kwargs)
            if not jitted:
                jitted.append(jit(fun, static_argnames=static_argnames))
            return lazy.public("minijax.ops.meshes.eager", "called")(jitted[0], fun, args, kwargs)
        if not jitted:
            jitted.append(jit(fun, static_argnames=static_argnames))
        if compiled and state.dynamic.level == 0:
            return jitted[0](*args, **kwargs)
        with observe.unobserved():  # observers see only the call
            staged, leaves = jitted[0].staged_call(args, kwargs)
        if "of_library" not in staged.closed.memo:
            _forget_lines(staged.closed)
        return tree_unflatten(staged.out_tree, jit_p.bind(*staged.outer, *leaves, **staged.params))

    return function


def _forget_lines(closed: ClosedJaxpr) -> None:
    """Remove the source lines of equations that calls from many user lines share. Each call has a line of its own."""
    closed.memo["of_library"] = True
    for eqn in all_eqns(closed.jaxpr):
        eqn.source = None
