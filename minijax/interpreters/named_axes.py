"""Named axes: the primitives that use the axis of an enclosing ``vmap(axis_name=)``, and how ``bind`` finds that vmap.

In: a primitive's parameters. Out: the axis names that the primitive, or a jaxpr in its parameters, leaves free.
Invariant: a primitive with a free name goes to the innermost vmap of that name, even if no operand is batched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from minijax.core.primitive import Primitive, bind_at
from minijax.core.trace import find_top_trace, state
from minijax.core.varying import CHECKED
from minijax.errors import did_you_mean
from minijax.interpreters.vmap import BatchTrace
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr

# collective -> function of its parameters giving the axis names it runs over
axis_users: dict[Primitive, Callable[[dict[str, Any]], Iterable[Any]]] = {}
# primitive that maps its subjaxpr -> function of its parameters giving the names bound inside
axis_binders: dict[Primitive, Callable[[dict[str, Any]], Iterable[Any]]] = {}

_NONE: frozenset[Any] = frozenset()


@contextmanager
def bound_axes(axes: Sequence[tuple[Any, int]]) -> Iterator[None]:
    """Within the block, collectives in a staged function may name these axes (pairs of name and size)."""
    previous = state.axis_env
    state.axis_env = (*previous, *axes)
    try:
        yield
    finally:
        state.axis_env = previous


def free_axes(closed: ClosedJaxpr) -> frozenset[Any]:
    """The axis names that collectives in ``closed`` use, except those that ``closed`` binds. Cached in ``closed``."""
    found = closed.memo.get("free_axes")
    if found is None:
        found = closed.memo["free_axes"] = _free_in(closed.jaxpr)
    return found


def _free_in(jaxpr: Jaxpr) -> frozenset[Any]:
    return _NONE.union(*[axes_of(eqn.primitive, eqn.params) for eqn in jaxpr.eqns])


def axes_of(primitive: Primitive, params: dict[str, Any]) -> frozenset[Any]:
    """The axis names that applying ``primitive`` with ``params`` leaves free."""
    users = axis_users.get(primitive)
    if users is not None:
        return frozenset(users(params))
    found = _NONE
    for closed in _subjaxprs(params):
        found |= free_axes(closed)
    binder = axis_binders.get(primitive)
    return found.difference(binder(params)) if found and binder is not None else found


def _subjaxprs(params: dict[str, Any]) -> Iterator[ClosedJaxpr]:
    for value in params.values():
        for item in value if type(value) is tuple or type(value) is list else (value,):
            if type(item) is ClosedJaxpr:
                yield item


class AxisPrimitive(Primitive):
    """A collective, or a primitive with subjaxprs: its ``bind`` considers named axes."""

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the primitive to ``args``, at the innermost vmap whose axis name it leaves free, if there is one."""
        top = find_top_trace(args)
        # a function being staged records the equation with its names
        if state.axis_env and len(state.stack) > top.level + 1:
            names = axes_of(self, params)
            if names:
                for main in reversed(state.stack):
                    if main.level <= top.level:
                        break
                    if main.trace_type is BatchTrace and main.global_data.name in names:
                        top = main.trace
                        break
        return bind_at(self, top, args, params)


def axis_env_size(name: Any) -> int:
    """The size of the innermost mapped axis called ``name``. NameError, in JAX's words, if there is none."""
    for known, size in reversed(state.axis_env):
        if known == name:
            return size
    bound = ", ".join(repr(known) for known, _ in state.axis_env if known is not CHECKED)
    raise NameError(
        f"unbound axis name: {name}. Call the collective inside a function mapped by vmap or pmap with "
        f"axis_name={name!r}, or by shard_map over a mesh that has this axis; the axis names bound "
        f"here are: {bound or 'none'}.{did_you_mean(name, (known for known, _ in state.axis_env))}"
    )


def axes_size(names: Iterable[Any]) -> int:
    """The product of the sizes of the named axes."""
    return math.prod(map(axis_env_size, names))
