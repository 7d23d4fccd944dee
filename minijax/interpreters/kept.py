"""Programs that are run as one operation, by whatever interpreter their operands belong to.

What is derived of a rule (``interpreters.derived``) is a short program that runs very often: in a nested derivative on
tracers of the levels below. There it need not be gone through equation by equation. ``KeptProgram.run`` hands it to the
interpreter that would be given the first of these, as ``bind`` does an operation; and that keeps with it what it
derives of the whole: another program, which is run in the same way. At the bottom it is a function of NumPy values.

Invariant: the results are what binding the equations gives. An interpreter that has no ``run_program``, or that cannot
do it in one for these operands, does so. For programs that nobody watches.

What a program is derived of has been met several times: so what is derived of it in turn is derived at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from minijax.config import evaluated_singly
from minijax.core import observe
from minijax.core.array import Array, CommittedArray
from minijax.core.primitive import evaluation_watched
from minijax.core.trace import Tracer, state
from minijax.interpreters.jvp_rules import derived_once
from minijax.interpreters.program import results_function
from minijax.interpreters.vmap import AxisData, vmap_jaxpr
from minijax.ir.evaluate import bind_eqn
from minijax.ir.jaxpr import ClosedJaxpr, Literal


class KeptProgram:
    """``closed``, with what interpreters have derived of it."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self.closed = closed
        # the operands' types, and which have a tangent -> a ``Derived``
        self.linearizations: dict[Any, Any] = {}
        self.out_avals = closed.out_avals
        # the types of operands and tangents -> a ``PushedProgram``
        self.pushforwards: dict[Any, Any] = {}
        self._mapped: dict[Any, tuple[KeptProgram, list[int | None]]] = {}

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
        elif hasattr(top, "run_program") and top.stack is state.dynamic.stack:  # a dead tracer is refused by ``bind``
            return top.run_program(self, args)  # type: ignore[no-any-return]
        return self.evaluate(args)

    def derived(self, table: dict[Any, Any], key: Any, derive: Callable[[], Any]) -> Any:
        """What ``derive()`` makes for a signature, for ``table`` to keep; None where it cannot be made."""
        return derived_once(table, key, derive, worth=0)

    def evaluate(self, args: Sequence[Any]) -> list[Any]:
        """The results on ``args``, its equations bound one by one."""
        jaxpr = self.closed.jaxpr
        return [*self.parts(args, [len(jaxpr.eqns)] * len(jaxpr.outvars))]

    def parts(self, args: Sequence[Any], arrivals: Sequence[int]) -> Iterator[Any]:
        """The results on ``args``, each as soon as so many equations have been bound as ``arrivals`` says of it."""
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
        return results_function(self.closed)

    def mapped(self, axis: AxisData, dims: tuple[int | None, ...]) -> tuple[KeptProgram, list[int | None]]:
        """The program that vmap makes of it, and which axis of each result is mapped."""
        found = self._mapped.get((axis, dims))
        if found is None:
            with observe.unobserved():
                closed, out_dims = vmap_jaxpr(self.closed, axis, dims)
            found = self._mapped[axis, dims] = KeptProgram(closed), out_dims
        return found
