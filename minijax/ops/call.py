"""``jit`` as a primitive: a call of a closed jaxpr, compiled by XLA when evaluated.

The call's inputs are the jaxpr's inputs; constants that are arrays stay in the ``ClosedJaxpr``. Every transformation
of the call is a call of the transformed jaxpr, made once and kept with it.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.backend import pjrt
from minijax.core import dtypes, observe
from minijax.core.array import Array, as_array, device_array, get_aval, set_fetch
from minijax.core.primitive import Primitive
from minijax.core.structural import UndefinedPrimal, Zero, zero_of
from minijax.core.trace import check_alive
from minijax.interpreters.jvp import jvp_jaxpr, jvp_rules
from minijax.interpreters.partial_eval import (
    dce_jaxpr,
    dce_rules,
    partial_eval_jaxpr,
    partial_eval_jaxpr_rules,
    partial_eval_rules,
)
from minijax.interpreters.transpose import transpose_jaxpr, transpose_rules
from minijax.interpreters.vmap import axis_rules, vmap_jaxpr
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn, Var
from minijax.ir.pretty import jit_params, pp_rules
from minijax.ir.typecheck import call_rule, typecheck_rules
from minijax.lowering.lower import lower_closed, lowering_rules
from minijax.lowering.text import mlir_type

jit_p = Primitive("jit", multiple_results=True)
jit_p.keeps_signatures = False


@jit_p.def_abstract_eval
def jit_abstract(*avals: Any, jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
    return jaxpr.out_avals


pp_rules[jit_p] = jit_params
typecheck_rules[jit_p] = call_rule("jaxpr")


# ---------------------------------------------------------------------------------------------- evaluation

set_fetch(pjrt.to_numpy)


class timed:
    """Context manager: announces how long a phase took, if anybody listens."""

    __slots__ = ("phase", "name", "start")

    def __init__(self, phase: str, name: str) -> None:
        self.phase = phase
        self.name = name

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *exc: object) -> None:
        if observe.on_phase and exc[0] is None:
            observe.emit(observe.on_phase, self.phase, self.name, time.perf_counter() - self.start)


_buffer = operator.attrgetter("_buffer")


class Compiled:
    """A jaxpr compiled by XLA: the program, its text, and its constants on the device."""

    __slots__ = ("name", "executable", "const_buffers", "in_avals", "out_avals", "donated", "float0s")

    def __init__(self, closed: ClosedJaxpr, name: str, donated: Sequence[bool], text: str) -> None:
        self.name = name
        self.donated = [i for i, d in enumerate(donated) if d]
        self.in_avals = closed.in_avals
        self.out_avals = closed.out_avals
        # on the device, float0 is represented by booleans that nobody reads
        self.float0s = [i for i, aval in enumerate(self.out_avals) if aval.dtype == dtypes.float0]
        with timed("compile", name):
            self.executable = pjrt.compile(text, name=name, out_avals=self.out_avals)
        self.const_buffers = [to_buffer(c) for c in closed.consts]
        if observe.on_compiled:
            observe.emit(observe.on_compiled, name, self.executable)

    def __call__(self, *args: Any) -> list[Array]:
        """Run on arrays (or anything array-like); the results stay on the device."""
        try:
            leaves, on_device = [*self.const_buffers, *map(_buffer, args)], True
        except AttributeError:
            leaves, on_device = self._leaves(args)
        if observe.on_phase or observe.on_executed:
            return self._watched_call(leaves, on_device, args)
        outs = self._execute(leaves, on_device)
        if self.donated:
            self._forget_donated(args)
        return self._results(outs)

    def _results(self, buffers: Sequence[Any]) -> list[Any]:
        outs: list[Any] = list(map(device_array, buffers, self.out_avals))
        for i in self.float0s:
            outs[i] = np.zeros(self.out_avals[i].shape, dtypes.float0)
        return outs

    def _leaves(self, args: Sequence[Any]) -> tuple[list[Any], bool]:
        """The program's arguments: device buffers, and the user's NumPy arrays as they are if their dtype fits."""
        leaves: list[Any] = list(self.const_buffers)
        on_device = True
        for x, aval in zip(args, self.in_avals, strict=True):
            if type(x) is np.ndarray and x.dtype is aval.dtype:
                leaves.append(x)
                on_device = False
            else:
                leaves.append(to_buffer(x))
        return leaves, on_device

    def _execute(self, leaves: list[Any], on_device: bool) -> list[Any]:
        if on_device or not self.out_avals:
            return self.executable.execute(leaves if on_device else [_placed(x) for x in leaves])
        return self.executable.call_borrowed(leaves)

    def _watched_call(self, leaves: list[Any], on_device: bool, args: Sequence[Any]) -> list[Array]:
        with timed("run", self.name):
            outs = self._execute(leaves, on_device)
            for buffer in outs:
                pjrt.block_until_ready(buffer)
        if self.donated:
            self._forget_donated(args)
        if observe.on_executed:
            observe.emit(observe.on_executed, self.name, self.executable, len(leaves), len(outs))
        return self._results(outs)

    def _forget_donated(self, args: Sequence[Any]) -> None:
        for i in self.donated:
            if isinstance(args[i], Array):
                args[i].forget_host_copy()


def _placed(leaf: Any) -> Any:
    return to_buffer(leaf) if isinstance(leaf, np.ndarray) else leaf


def to_buffer(x: Any) -> Any:
    """The device buffer of ``x``; an ``Array`` remembers it."""
    try:
        return x._buffer
    except AttributeError:
        x = as_array(check_alive(x))
        if x.on_device:
            return x._buffer
        if observe.on_transfer:
            observe.emit(observe.on_transfer, "to_device", x.aval)
        # an Array's value is never written to, so the device may use its memory in place
        buffer = x._buffer = pjrt.put(x._np, aval=x.aval, owned=True)
        return buffer


def lowered_text(closed: ClosedJaxpr, name: str, donated: Sequence[bool] = ()) -> str:
    """The StableHLO module of ``closed``, written once."""
    key = ("stablehlo", name, tuple(donated))
    text = closed.memo.get(key)
    if text is None:
        with timed("lower", name):
            text = closed.memo[key] = lower_closed(closed, name, donated, platform=pjrt.platform)
        if observe.on_lowered:
            observe.emit(observe.on_lowered, name, text)
    return text


def compiled(closed: ClosedJaxpr, name: str, donated: Sequence[bool] = ()) -> Compiled:
    """``closed``, compiled once."""
    key = ("executable", tuple(donated))
    program = closed.memo.get(key)
    if program is None:
        program = closed.memo[key] = Compiled(closed, name, donated, lowered_text(closed, name, donated))
    return program


@jit_p.def_impl
def jit_impl(*args: Any, jaxpr: ClosedJaxpr, name: str, donated_invars: Sequence[bool] = ()) -> list[Array]:
    return compiled(jaxpr, name, donated_invars)(*args)




# ---------------------------------------------------------------------------------------------- transformations


def jit_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: ClosedJaxpr, name: str, **params: Any) -> Any:
    nonzero = [type(t) is not Zero for t in tangents]
    jvp_of, nonzero_out = jvp_jaxpr(jaxpr, nonzero)
    given = [t for t in tangents if type(t) is not Zero]
    outs = jit_p.bind(*primals, *given, jaxpr=jvp_of, name=name)
    n = len(nonzero_out)
    found = iter(outs[n:])
    return outs[:n], [
        next(found) if nz else zero_of(aval) for nz, aval in zip(nonzero_out, jaxpr.out_avals, strict=True)
    ]


jvp_rules[jit_p] = jit_jvp


def jit_batch(
    axis: Any, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: ClosedJaxpr, name: str, **params: Any
) -> Any:
    batched, out_dims = vmap_jaxpr(jaxpr, axis, dims)
    return jit_p.bind(*args, jaxpr=batched, name=name), out_dims


axis_rules[jit_p] = jit_batch


def _split(jaxpr: ClosedJaxpr, unknown_in: Sequence[bool]) -> Any:
    key = ("partial_eval", tuple(unknown_in))
    if key not in jaxpr.memo:
        jaxpr.memo[key] = partial_eval_jaxpr(jaxpr, unknown_in)
    return jaxpr.memo[key]


def jit_partial_eval(trace: Any, *args: Any, jaxpr: ClosedJaxpr, name: str, **params: Any) -> list[Any]:
    unknown_in = [trace.is_unknown(x) for x in args]
    known_jaxpr, unknown_jaxpr, unknown_out, n_res = _split(jaxpr, unknown_in)
    known_args = [x for x, u in zip(args, unknown_in, strict=True) if not u]
    known = jit_p.bind(*known_args, jaxpr=known_jaxpr, name=name) if known_jaxpr.out_avals else []
    n_known = len(known) - n_res
    residuals = known[n_known:]
    unknown_args = [x for x, u in zip(args, unknown_in, strict=True) if u]
    later = trace.record(jit_p, [*residuals, *unknown_args], {"jaxpr": unknown_jaxpr, "name": name})
    now, then = iter(known[:n_known]), iter(later)
    return [next(then) if u else next(now) for u in unknown_out]


partial_eval_rules[jit_p] = jit_partial_eval


def jit_partial_eval_jaxpr(eqn: JaxprEqn, unknown_in: Sequence[bool]) -> Any:
    name = eqn.params["name"]
    known_jaxpr, unknown_jaxpr, unknown_out, n_res = _split(eqn.params["jaxpr"], unknown_in)
    residuals = [Var(aval) for aval in known_jaxpr.out_avals[len(known_jaxpr.out_avals) - n_res :]]
    known_in = [v for v, u in zip(eqn.invars, unknown_in, strict=True) if not u]
    later_in = [*residuals, *[v for v, u in zip(eqn.invars, unknown_in, strict=True) if u]]
    known_out = [v for v, u in zip(eqn.outvars, unknown_out, strict=True) if not u]
    later_out = [v for v, u in zip(eqn.outvars, unknown_out, strict=True) if u]
    now = JaxprEqn(jit_p, known_in, {"jaxpr": known_jaxpr, "name": name}, [*known_out, *residuals], eqn.source)
    then = JaxprEqn(jit_p, later_in, {"jaxpr": unknown_jaxpr, "name": name}, later_out, eqn.source)
    return ([now] if now.outvars else []), [then]


partial_eval_jaxpr_rules[jit_p] = jit_partial_eval_jaxpr


def jit_dce(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    closed = eqn.params["jaxpr"]
    key = ("dce", tuple(used))
    if key not in closed.memo:
        pruned, used_in = dce_jaxpr(closed.jaxpr, used)
        closed.memo[key] = ClosedJaxpr(pruned, closed.consts), used_in
    pruned_closed, used_in = closed.memo[key]
    return eqn.replace(
        invars=[v for v, u in zip(eqn.invars, used_in, strict=True) if u],
        outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u],
        params={**eqn.params, "jaxpr": pruned_closed},
    )


dce_rules[jit_p] = jit_dce


def jit_transpose(cts: Sequence[Any], *args: Any, jaxpr: ClosedJaxpr, name: str, **params: Any) -> list[Any]:
    linear = [type(x) is UndefinedPrimal for x in args]
    nonzero = [type(ct) is not Zero for ct in cts]
    given = [ct for ct in cts if type(ct) is not Zero]
    transposed, nonzero_out = transpose_jaxpr(jaxpr, linear, nonzero, [get_aval(ct) for ct in given])
    known = [x for x in args if type(x) is not UndefinedPrimal]
    found = iter(jit_p.bind(*known, *given, jaxpr=transposed, name=name))
    arrives = iter(nonzero_out)
    return [
        None if not lin else next(found) if next(arrives) else zero_of(x.aval)
        for x, lin in zip(args, linear, strict=True)
    ]


transpose_rules[jit_p] = jit_transpose


def jit_lower(
    ctx: Any, avals: Any, out_avals: Any, *names: str, jaxpr: ClosedJaxpr, name: str, **params: Any
) -> list[str]:
    symbol = ctx.module.function(jaxpr, name)
    ins, outs = ", ".join(map(mlir_type, avals)), ", ".join(map(mlir_type, out_avals))
    return ctx.emit_many(f"func.call @{symbol}({', '.join(names)}) : ({ins}) -> ({outs})", len(out_avals))


lowering_rules[jit_p] = jit_lower
