"""Runs a program equation by equation on values, for ``%nan`` and ``%keys``.

A staged program runs equation by equation, also inside ``jit``, ``scan``, ``while`` and the branch taken by ``cond``.
A function whose Python code depends on values runs without staging; the operations that it evaluates are inspected.
"""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

import numpy as np

from minijax import errors
from minijax.core import observe
from minijax.core.array import Array, as_array, get_aval
from minijax.core.avals import ShapedArray
from minijax.core.keys import storage
from minijax.core.trace import state
from minijax.interpreters.named_axes import axes_of, bound_axes
from minijax.ir.evaluate import bind_eqn
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, all_eqns, subjaxprs
from minijax.ops.call import one_equation
from minijax.tools.values.devices import manual_axes
from minijax.tools.values.examples import Unknown
from minijax.tools.values.loops import (
    branch_of,
    branch_title,
    called,
    element,
    kept,
    operands,
    scan_title,
    while_title,
)
from minijax.tools.values.replay import replay

# After this many equations, loops and calls run as a whole. The search then finds the loop, not the equation in it.
MOST_EQUATIONS = 200_000


def of_own_thread(hook: Callable[..., None]) -> Callable[..., None]:
    """``hook``, called only in the thread of the search, not in other threads, such as a data loader's."""

    def called(self: Any, *args: Any) -> None:
        if get_ident() == self.thread:
            hook(self, *args)

    return called


def in_order_of(like: Any, tree: Any) -> Any:
    """``tree`` with its dictionaries in the order of those in ``like``. Pytrees sort the keys of dictionaries; a plain
    call does not.
    """
    if type(like) is dict:
        return {key: in_order_of(x, tree[key]) for key, x in like.items()}
    if type(like) in (list, tuple):
        return type(like)(map(in_order_of, like, tree))
    return tree


def as_called(fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Callable[..., Any]:
    """``fun``, which gets its dictionaries and keyword arguments in the order of the call ``fun(*args, **kwargs)``."""

    def called(*given: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        return fun(*in_order_of(tuple(args), given), **in_order_of(kwargs, named))

    called.__wrapped__ = fun  # type: ignore[attr-defined]
    return called


def uses(eqn: JaxprEqn, *names: str) -> bool:
    """Whether ``eqn``, or an equation inside of it, has a primitive with one of these names."""
    inner = (each for jaxpr in subjaxprs(eqn.params) for each in all_eqns(jaxpr))
    return any(each.primitive.name in names for each in (eqn, *inner))


def _axes_of_devices(eqn: JaxprEqn) -> list[tuple[Any, int]]:
    return [(axis.name, axis.size) for axis in manual_axes(eqn)]


class Unending(Exception):
    """After the search, the program ran ``most_after`` more equations and has not ended."""


class JaxprWalk:
    """Evaluates jaxprs, and calls ``look`` after each equation that it runs as a whole."""

    # Maximum number of devices whose equations are inspected
    most_devices = 64

    def __init__(self) -> None:
        # how many equations ran during the search, and how many after it
        self.count = self.after = 0
        # maximum number of equations that run after the search
        self.most_after = MOST_EQUATIONS
        # equation -> whether a ``while`` is in it
        self.endless: dict[JaxprEqn, bool] = {}
        # the current equation's place in the user's program; if it has none, the place of the equation around it
        self.source: Any = None

    @property
    def hurried(self) -> bool:
        """Whether loops and calls run as a whole from now on."""
        return self.count > MOST_EQUATIONS

    @property
    def done(self) -> bool:
        """Whether the search is over. The program still runs to its end. Loops and calls then run as a whole, but a
        ``while`` runs step by step, because it may be endless."""
        return False

    def look(self, eqn: JaxprEqn, env: dict[Any, Any], inside: tuple[str, ...], level: str) -> None:
        """Called after ``eqn``. ``env`` has its operands and results; ``inside`` lists the loops, branches and calls
        around it, outermost first.
        """
        raise NotImplementedError

    def level_of(self, eqn: JaxprEqn) -> str:
        """The level of ``eqn``, such as 'forward'; '' if ``eqn`` has the level of the equations around it."""
        return ""

    def ran(self, outs: Sequence[Any], stepped: Sequence[Any]) -> None:
        """Called for an operation that ran as a whole, with its results and with those of the equations inside it."""

    def met(self, eqn: JaxprEqn, envs: Sequence[dict[Any, Any]], inside: Sequence[tuple[str, ...]], level: str) -> None:
        """Called after a collective, with the environment of each device."""
        for env, here in zip(envs, inside, strict=True):
            self.look(eqn, env, here, level)

    def gathered(self, outs: Sequence[Any], parts: Sequence[Sequence[Any]]) -> None:
        """Called after a program on several devices, with its results and the results of each device."""

    def turn(self, goes: np.ndarray, carry: Sequence[Any]) -> None:
        """Called before each iteration of a ``while`` and after the last one. ``goes``: whether the loop continues; in
        a batched loop, a boolean for each example.
        """

    def closed(
        self, closed: ClosedJaxpr | Jaxpr, args: Sequence[Any], inside: tuple[str, ...], level: str
    ) -> list[Any]:
        """Evaluate a jaxpr on ``args`` and return its results. Values are released after their last use."""
        jaxpr, consts = (closed, ()) if isinstance(closed, Jaxpr) else (closed.jaxpr, closed.consts)
        env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))
        last_use = {v: eqn for eqn in jaxpr.eqns for v in eqn.invars if type(v) is not Literal}
        results = {v for v in jaxpr.outvars if type(v) is not Literal}
        for eqn in jaxpr.eqns:
            self.equation(eqn, env, inside, level)
            for v in (*eqn.invars, *eqn.outvars):
                if type(v) is not Literal and v not in results and last_use.get(v, eqn) is eqn:
                    env.pop(v, None)
        return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]

    def equation(self, eqn: JaxprEqn, env: dict[Var, Any], inside: tuple[str, ...], level: str) -> None:
        if not self.done:
            self.count += 1
        elif (after := self.after + 1) > self.most_after:
            raise Unending
        else:
            self.after = after
        level = self.level_of(eqn) or level
        around = self.source
        self.source = eqn.source or around
        whole = not self._may_be_endless(eqn) if self.done else self.hurried
        runner = None if whole else self.runner(eqn)
        if runner is None:
            bind_eqn(eqn, env)
            if not self.done:
                self.look(eqn, env, inside, level)
        else:
            args = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
            env.update(zip(eqn.outvars, runner(args, inside, level), strict=True))
        self.source = around

    def _may_be_endless(self, eqn: JaxprEqn) -> bool:
        if eqn.primitive.name == "shard_map":  # its devices meet in collectives, so it runs only as a whole
            return False
        if eqn not in self.endless:
            self.endless[eqn] = uses(eqn, "while")
        return self.endless[eqn]

    def runner(self, eqn: JaxprEqn) -> Callable[..., list[Any]] | None:
        """A function that runs the program inside ``eqn`` step by step; None if it has no inner program."""
        name, params = eqn.primitive.name, eqn.params
        if name == "scan":
            return lambda args, inside, level: self.scan(params, args, inside, level)
        if name == "while":
            return lambda args, inside, level: self.loop(params, args, inside, level)
        if name == "cond":
            return lambda args, inside, level: self.branch(params, args, inside, level)
        if name == "shard_map":
            return lambda args, inside, level: self.devices(eqn, args, inside, level)
        key, title = called(eqn)
        if not key:
            return None
        return lambda args, inside, level: self.closed(params[key], args, (*inside, title), level)

    def devices(self, eqn: JaxprEqn, args: list[Any], inside: tuple[str, ...], level: str) -> list[Any]:
        """Run a program on several devices: each device's equations step by step, but collectives as a whole."""
        closed = one_equation(eqn.primitive, [get_aval(x) for x in args], eqn.params)
        (call,) = closed.eqns
        frame, around = replay(closed, args), self.source
        count = frame.count(call)
        each = [frame.inside(call, device) for device in range(min(count, self.most_devices))]
        # the values of the equations that ran here, for each device
        kept: list[dict[Any, Any]] = [{} for _ in each]

        def value(device: int, v: Any) -> Any:
            if type(v) is Literal:
                return v.val
            return kept[device][v] if v in kept[device] else each[device].value(v)

        for inner in eqn.params["jaxpr"].eqns:
            together = bool(axes_of(inner.primitive, inner.params))
            met: list[tuple[dict[Var, Any], tuple[str, ...]]] = []
            for device, env in enumerate(kept):
                here = (*inside, f"{eqn.primitive.name}, device {device} of {count}")
                wanted = (*inner.invars, *inner.outvars) if together else inner.invars
                env.update({v: value(device, v) for v in wanted if type(v) is not Literal})
                if self.done or any(isinstance(env[v], Unknown) for v in wanted if type(v) is not Literal):
                    continue
                if together:
                    self.count += 1
                    met.append((env, here))
                else:
                    with bound_axes(_axes_of_devices(eqn)):
                        self.equation(inner, env, here, level)
            if met:
                self.source = inner.source or around
                self.met(inner, [env for env, _ in met], [here for _, here in met], level)
                self.source = around
        env = {v: x for v, x in zip(eqn.invars, args, strict=True) if type(v) is not Literal}
        bind_eqn(eqn, env)
        outs = [env[v] for v in eqn.outvars]
        if not self.done:
            rows = [[value(device, v) for v in eqn.params["jaxpr"].jaxpr.outvars] for device in range(len(each))]
            self.gathered(outs, [row for row in rows if not any(isinstance(x, Unknown) for x in row)])
        return outs

    def scan(self, params: dict[str, Any], args: list[Any], inside: tuple[str, ...], level: str) -> list[Any]:
        m, length = params["num_carry"], params["length"]
        consts, carry, xs = operands([*map(as_array, args)], params["num_consts"], m)
        jaxpr = params["jaxpr"]
        ys: list[list[Any]] = []
        order = reversed(range(length)) if params["reverse"] else range(length)
        for i in order:
            step = (*inside, scan_title(i, length))
            outs = self.closed(jaxpr, [*consts, *carry, *[element(x, i) for x in xs]], step, level)
            carry = outs[:m]
            ys.append([as_array(y)._value() for y in outs[m:]])
        if params["reverse"]:
            ys.reverse()
        avals = jaxpr.out_avals[m:]
        return [*carry, *[_stacked([y[k] for y in ys], aval) for k, aval in enumerate(avals)]]

    def loop(self, params: dict[str, Any], args: list[Any], inside: tuple[str, ...], level: str) -> list[Any]:
        cond_consts, body_consts, carry = operands(args, params["cond_nconsts"], params["body_nconsts"])
        turn = 0
        while True:
            here = (*inside, while_title(turn))
            (going,) = self.closed(params["cond_jaxpr"], [*cond_consts, *carry], here, level)
            goes = np.asarray(as_array(going))
            self.turn(goes, carry)
            if not goes.any():
                return carry
            new = self.closed(params["body_jaxpr"], [*body_consts, *carry], here, level)
            carry = new if goes.ndim == 0 else [kept(goes, a, b) for a, b in zip(new, carry, strict=True)]
            turn += 1

    def branch(self, params: dict[str, Any], args: list[Any], inside: tuple[str, ...], level: str) -> list[Any]:
        branches = params["branches"]
        index = branch_of(args[0], len(branches))
        return self.closed(branches[index], args[1:], (*inside, branch_title(index, len(branches))), level)


def _stacked(rows: Sequence[Any], aval: ShapedArray) -> Array:
    """Stack ``rows`` along a new first axis. ``aval`` is the type of a row."""
    value = np.stack(rows) if rows else np.zeros((0, *aval.shape), storage(aval.dtype))
    return Array(value, aval.update(shape=value.shape))


class EvaluationWatch(observe.Observer):
    """Inspects each evaluated operation of a function that runs without staging."""

    def __init__(self, walk: JaxprWalk) -> None:
        self.walk = walk
        walk.most_after = 0  # the function itself runs to its end
        self.thread = get_ident()
        # the binds in progress: (name of the primitive, interpreter, operands, parameters)
        self.open: list[tuple[str, Any, tuple[Any, ...], dict[str, Any]]] = []

    @of_own_thread
    def bind_enter(self, primitive: Any, trace: Any, args: tuple[Any, ...], params: dict[str, Any]) -> None:
        self.open.append((primitive.name, trace, args, params))

    @of_own_thread
    def bind_raise(self, primitive: Any, trace: Any, error: BaseException) -> None:
        self.open.pop()

    @of_own_thread
    def bind_exit(self, primitive: Any, trace: Any, out: Any) -> None:
        _, _, args, params = self.open.pop()
        if trace.level or self.walk.done:
            return
        jvps = [name for name, each, _, _ in self.open if each.main.label in ("jvp", "linearize")]
        level = f"jvp rule of {jvps[-1]}" if jvps and jvps[-1] != primitive.name else "forward"
        outs = out if primitive.multiple_results else [out]
        ins = [Var(get_aval(x)) if np.ndim(x) else Literal(x, get_aval(x)) for x in args]
        eqn = JaxprEqn(primitive, ins, params, [Var(get_aval(x)) for x in outs], state.source or errors.source_info())
        env: dict[Any, Any] = dict(zip(ins, args, strict=True))
        self.walk.count += 1
        runner = self.walk.runner(eqn)
        if runner is not None and not self.walk.hurried:
            with contextlib.suppress(Unending):
                self.walk.ran(outs, runner(list(args), (), level))
                return
        env.update(zip(eqn.outvars, outs, strict=True))
        self.walk.source = eqn.source
        self.walk.look(eqn, env, (), level)


def place_text(source: Any) -> tuple[str, str]:
    """The place of an equation in the user's program, and the text of that line."""
    if source is None:
        return "an unknown place", ""
    line, _ = errors.position(source)
    return errors.summarize(source), linecache.getline(source[0].co_filename, line).strip()
