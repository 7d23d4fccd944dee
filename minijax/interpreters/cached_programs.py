"""Programs that run as one operation. They are parts of a derivative (``interpreters.derived``), and run very often.

On NumPy values ``CachedProgram.run`` calls a generated function. On tracers it calls ``run_program`` of their
interpreter: vmap runs the batched program, staging appends the equations. Invariant: binding the equations would give
the same results.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from minijax.config import evaluated_singly
from minijax.core import observe
from minijax.core.array import Array, CommittedArray
from minijax.core.primitive import evaluation_watched
from minijax.core.trace import Tracer, state
from minijax.interpreters.program import program
from minijax.interpreters.vmap import AxisData, vmap_jaxpr
from minijax.ir.evaluate import bind_eqn
from minijax.ir.jaxpr import ClosedJaxpr, Literal


class CachedProgram:
    """``closed``, with the programs that interpreters have derived from it."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self.closed = closed
        self.out_avals = closed.out_avals
        self._mapped: dict[Any, tuple[CachedProgram, list[int | None]]] = {}

    def run(self, args: Sequence[Any]) -> list[Any]:
        """The results on ``args``: arrays and tracers."""
        top: Any = state.dynamic
        level = top.level
        for x in args:
            if isinstance(x, Tracer) and x._trace.level > level:
                top = x._trace
                level = top.level
        if not level:
            values = [x._np for x in args if type(x) is not CommittedArray and hasattr(x, "_np")]
            if len(values) == len(args) and not (evaluation_watched and evaluated_singly()):
                return [*map(Array, self.function(*values), self.out_avals)]
        elif hasattr(top, "run_program") and top.stack is state.dynamic.stack:  # ``bind`` refuses dead tracers
            return top.run_program(self, args)  # type: ignore[no-any-return]
        return self.evaluate(args)

    def evaluate(self, args: Sequence[Any]) -> list[Any]:
        """The results on ``args``; binds the equations one by one."""
        jaxpr = self.closed.jaxpr
        return [*self.parts(args, [len(jaxpr.eqns)] * len(jaxpr.outvars))]

    def parts(self, args: Sequence[Any], arrivals: Sequence[int]) -> Iterator[Any]:
        """The results on ``args``; result ``i`` is yielded once the first ``arrivals[i]`` equations are bound."""
        jaxpr = self.closed.jaxpr
        env: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*self.closed.consts, *args], strict=True))
        done = 0
        for v, arrival in zip(jaxpr.outvars, arrivals, strict=True):
            for eqn in jaxpr.eqns[done:arrival]:
                bind_eqn(eqn, env)
            done = arrival
            yield v.val if type(v) is Literal else env[v]
        for eqn in jaxpr.eqns[done:]:
            bind_eqn(eqn, env)

    @functools.cached_property
    def function(self) -> Any:
        """The program as a function of NumPy values."""
        return program(self.closed).function

    def mapped(self, axis: AxisData, dims: tuple[int | None, ...]) -> tuple[CachedProgram, list[int | None]]:
        """The batched program, and the batch axis of each result."""
        found = self._mapped.get((axis, dims))
        if found is None:
            with observe.unobserved():
                closed, out_dims = vmap_jaxpr(self.closed, axis, dims)
            found = self._mapped[axis, dims] = CachedProgram(closed), out_dims
        return found
