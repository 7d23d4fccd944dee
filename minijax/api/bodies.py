"""Stage user functions into the subjaxprs of control flow: loop bodies, branches, scan cells."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from minijax.api import misses
from minijax.api.differences import CallSignature, Miss
from minijax.api.flat import FlatFun, check_callable, describe
from minijax.config import trace_key
from minijax.core import observe
from minijax.core.avals import ShapedArray
from minijax.core.records import NamedTuple
from minijax.core.trace import Tracer, state
from minijax.interpreters.stage import stage
from minijax.ir.jaxpr import ClosedJaxpr


class Body(NamedTuple):
    """A staged function: its jaxpr with constants, and its output tree."""

    closed: ClosedJaxpr
    out_tree: Any


# fun -> signature -> Body: repeated scans reuse the jaxpr. Bodies that close over tracers are not cached.
_bodies: weakref.WeakKeyDictionary[Any, dict[Any, Body]] = weakref.WeakKeyDictionary()

# Beyond this many signatures of one function, the earliest is dropped.
MAX_SIGNATURES = 256


def stage_body(fun: Callable[..., Any], in_tree: Any, avals: Sequence[ShapedArray], transform: str) -> Body:
    """Stage ``fun`` at leaves of types ``avals`` and tree ``in_tree``; ``transform`` names the construct in errors."""
    check_callable(fun)
    key = (in_tree, tuple(avals), trace_key(), state.axis_env)
    try:
        found = _bodies.setdefault(fun, {})
    except TypeError:  # ``fun`` cannot be weakly referenced or hashed
        found = {}
    if observe.observers:
        found = observe.staging_cache(found)
    body = found.get(key)
    if body is None or observe.on_cache:
        explain = functools.partial(_explain, fun, transform)
        begun = misses.announce("body", fun, key, None if body is None else body.closed, explain)
    if body is None:
        subject = describe(fun)
        flat = FlatFun(fun, in_tree, transform, subject=subject)
        closed = stage(flat, avals, subject, label=transform)
        body = Body(closed, flat.out_tree)
        outer = [c for c in closed.consts if isinstance(c, Tracer)]
        misses.store(found, key, body, closed, outer, fun, transform, MAX_SIGNATURES, begun)
    return body


def _explain(fun: Callable[..., Any], transform: str, key: Any, reprs: bool) -> Miss:
    try:
        found = _bodies.get(fun, {})
    except TypeError:  # ``fun`` cannot be weakly referenced or hashed
        found = {}
    if key in found:
        return misses.RETRACED
    earlier = [_signature(each) for each, _ in misses.latest(found)]
    return misses.explain(fun, key, _signature(key), earlier, transform, reprs=reprs, known=len(found))


def _signature(key: Any) -> CallSignature:
    """Convert a key of the staging cache to a ``CallSignature``."""
    tree, avals, settings, axes = key
    return CallSignature(tree, avals, (), settings, axes)
