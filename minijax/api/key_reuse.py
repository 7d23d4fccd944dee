"""``debug_key_reuse``: an error when a program consumes the same random keys twice.

Drawing numbers and splitting consume keys; ``fold_in`` and ``clone`` do not. This module remembers consumed arrays of
keys. It analyses each program once, to find the inputs that the program consumes and whether it consumes one twice. As
in JAX, legacy keys (``PRNGKey``) are not checked.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import Any

from minijax.config import debug_key_reuse
from minijax.core import observe
from minijax.core.array import Array
from minijax.core.keys import is_key
from minijax.core.primitive import Primitive
from minijax.errors import KeyReuseError, source_line
from minijax.interpreters.evaluate import key_checks, look_at_each
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var

# Primitives that consume their first operand, and primitives that only reshape or move keys.
_USING = frozenset(("random_bits", "random_split", "random_gamma"))
_SAME = frozenset(("reshape", "squeeze", "copy", "transpose", "optimization_barrier"))

# id of a consumed array of keys -> the array, while it is alive
_used: dict[int, weakref.ref[Array]] = {}


def note_use(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> None:
    """Check ``primitive`` before its evaluation on ``args``. KeyReuseError if it uses consumed keys."""
    if not debug_key_reuse.value:
        return
    for i in _positions(primitive.name, params, len(args)):
        x = args[i]
        if not isinstance(x, Array) or not is_key(x.aval.dtype):
            continue
        known = _used.get(id(x))
        if known is not None and known() is x:
            name = f"jit-compiled function {params['name']}" if primitive.name == "jit" else primitive.name
            raise KeyReuseError(
                f"Previously-consumed key passed to {name} at index {i}, at {source_line()}. Make new keys "
                "with random.split(key) first, and use each once."
            )
        _used[id(x)] = weakref.ref(x, functools.partial(_forget, id(x)))


def _forget(at: int, _: Any) -> None:
    _used.pop(at, None)


def _positions(name: str, params: dict[str, Any], count: int) -> list[int]:
    """Return the positions of the operands that are consumed. KeyReuseError if a called program reuses keys."""
    if name in _USING:
        return [0]
    if name == "cond":
        return sorted({i + 1 for branch in params["branches"] for i in used_inputs(branch)})
    if name == "scan":
        return _in_loop(name, params["jaxpr"], params["num_consts"], params["num_carry"], params["length"])
    if name == "while":
        n, m = params["cond_nconsts"], params["body_nconsts"]
        carried = params["body_jaxpr"].jaxpr
        found = _in_loop(name, params["body_jaxpr"], m, len(carried.invars) - m, None)
        return [i + n for i in found]
    programs = [x for x in params.values() if type(x) is ClosedJaxpr and len(x.jaxpr.invars) == count]
    return used_inputs(programs[0]) if programs else []


def _in_loop(name: str, body: ClosedJaxpr, num_consts: int, num_carry: int, length: int | None) -> list[int]:
    """The positions of operands that a loop consumes. KeyReuseError if each iteration consumes the same keys."""
    found, jaxpr = used_inputs(body), body.jaxpr
    for i in found:
        is_same = i < num_consts or (i < num_consts + num_carry and jaxpr.outvars[i - num_consts] is jaxpr.invars[i])
        if is_same and (length is None or length > 1):
            raise KeyReuseError(
                f"{name} body function leads to key reuse when repeatedly executed: its input {i} is the same key in "
                f"each step, at {source_line()}. Carry keys along, and split them in each step."
            )
    return found


def used_inputs(closed: ClosedJaxpr) -> list[int]:
    """The positions of the inputs whose keys a program consumes. KeyReuseError if it consumes keys twice."""
    if "keys used" not in closed.memo:
        same_as: dict[Any, Any] = {}
        used: set[Var] = set()
        for eqn in closed.jaxpr.eqns:
            if eqn.primitive.name in _SAME:
                same_as[eqn.outvars[0]] = same_as.get(eqn.invars[0], eqn.invars[0])
            for i in _positions(eqn.primitive.name, eqn.params, len(eqn.invars)):
                _use(eqn, i, same_as, used)
        closed.memo["keys used"] = [i for i, v in enumerate(closed.jaxpr.invars) if v in used]
    found: list[int] = closed.memo["keys used"]
    return found


def _use(eqn: JaxprEqn, i: int, same_as: dict[Any, Any], used: set[Var]) -> None:
    v = same_as.get(eqn.invars[i], eqn.invars[i])
    if type(v) is Literal or not is_key(v.aval.dtype):
        return
    if v in used:
        raise KeyReuseError(
            f"In {eqn.params.get('name', eqn.primitive.name)}, argument {i} is already consumed, at {source_line()}. "
            "Make new keys with random.split(key) first, and use each once."
        )
    used.add(v)


# While this observer without hooks is subscribed, cached calls take the path that checks keys.
_watch = observe.Observer()


def follow(on: bool) -> None:
    """Start or stop checking keys."""
    look_at_each("debug_key_reuse", on)
    if on:
        observe.subscribe(_watch)
        key_checks.append(note_use)
    else:
        key_checks.clear()
        observe.unsubscribe(_watch)
        _used.clear()
