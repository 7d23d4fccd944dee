"""What replayed values are held against: JAX's program of the same function, run equation by equation by JAX itself.

Loops and branches are unrolled by Python, so that each value of each iteration is there to be looked at. Tangents are
those of ``jax.jvp`` of all these values; the cotangent of a variable is ``jax.grad`` with respect to something that is
added to it. The same order of looking gives the two lists that are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from minijax.tools.values.examples import Unknown

# Inside the functions of such calls there are values alone: their rules are what is differentiated.
CUSTOM = {"custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}
CALLS = {"jit": "jaxpr", "checkpoint": "jaxpr", "remat2": "jaxpr", **CUSTOM}


def _opened(closed: Any) -> tuple[Any, Sequence[Any]]:
    return (closed.jaxpr, closed.consts) if hasattr(closed, "consts") else (closed, ())


class Unrolled:
    """One evaluation of a jaxpr of JAX's; ``look(x, differentiated)`` is called for each variable, and replaces it."""

    def __init__(self, look: Callable[[Any, bool], Any]) -> None:
        self.look = look
        self.differentiated = True

    def run(self, closed: Any, args: Sequence[Any]) -> list[Any]:
        jaxpr, consts = _opened(closed)
        env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
        for v, x in zip(jaxpr.invars, args, strict=True):
            env[v] = self.look(x, self.differentiated)

        def read(v: Any) -> Any:
            return v.val if hasattr(v, "val") else env[v]

        for eqn in jaxpr.eqns:
            outs = self.equation(eqn, [read(v) for v in eqn.invars])
            for v, x in zip(eqn.outvars, outs, strict=True):
                env[v] = self.look(x, self.differentiated)
        return [read(v) for v in jaxpr.outvars]

    def equation(self, eqn: Any, args: list[Any]) -> Sequence[Any]:
        name, params = eqn.primitive.name, eqn.params
        if name in CUSTOM:
            outer, self.differentiated = self.differentiated, False
            self.run(params["call_jaxpr"], [jax.lax.stop_gradient(x) for x in args])
            self.differentiated = outer
        elif name in CALLS:
            return self.run(params[CALLS[name]], args)
        elif name == "scan":
            return self.scan(params, args)
        elif name == "while":
            return self.loop(params, args)
        elif name == "cond":
            index = min(max(int(args[0]), 0), len(params["branches"]) - 1)
            return self.run(params["branches"][index], args[1:])
        out = eqn.primitive.bind(*args, **eqn.primitive.get_bind_params(params))
        return out if eqn.primitive.multiple_results else [out]

    def scan(self, params: dict[str, Any], args: list[Any]) -> list[Any]:
        n, m, length = params["num_consts"], params["num_carry"], params["length"]
        consts, carry, xs = args[:n], args[n : n + m], args[n + m :]
        rows: dict[int, list[Any]] = {}
        for i in reversed(range(length)) if params["reverse"] else range(length):
            outs = self.run(params["jaxpr"], [*consts, *carry, *[x[i] for x in xs]])
            carry, rows[i] = outs[:m], outs[m:]
        ys = [jnp.stack(each) for each in zip(*[rows[i] for i in range(length)], strict=True)]
        return [*carry, *ys]

    def loop(self, params: dict[str, Any], args: list[Any]) -> list[Any]:
        n, m = params["cond_nconsts"], params["body_nconsts"]
        carry = args[n + m :]
        while True:
            (going,) = self.run(params["cond_jaxpr"], [*args[:n], *carry])
            if not bool(jnp.any(going)):
                return carry
            new = self.run(params["body_jaxpr"], [*args[n : n + m], *carry])
            # of a batched loop, the elements that have ended keep their carry
            carry = [
                jnp.where(jnp.reshape(going, jnp.shape(going) + (1,) * (jnp.ndim(a) - jnp.ndim(going))), a, b)
                for a, b in zip(new, carry, strict=True)
            ]


def _inexact(x: Any) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(x), jnp.inexact)) if not _is_key(x) else False


def _is_key(x: Any) -> bool:
    return bool(jax.dtypes.issubdtype(getattr(x, "dtype", np.float32), jax.dtypes.prng_key))


def _plain(x: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(x) if _is_key(x) else x)


def jax_values(closed: Any, args: Sequence[Any]) -> list[np.ndarray]:
    """The value of each variable, in the order of looking."""
    found: list[np.ndarray] = []

    def look(x: Any, differentiated: bool) -> Any:
        found.append(_plain(x))
        return x

    Unrolled(look).run(closed, args)
    return found


def jax_tangents(closed: Any, args: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """The tangent of each variable; None of one that has none."""
    inexact: list[bool] = []

    def everything(*given: Any) -> list[Any]:
        found: list[Any] = []

        def look(x: Any, differentiated: bool) -> Any:
            found.append(x if differentiated and _inexact(x) else 0.0)
            inexact.append(differentiated and _inexact(x))
            return x

        each = iter(given)
        Unrolled(look).run(closed, [next(each) if _inexact(x) else x for x in args])
        return found

    primals = [x for x in args if _inexact(x)]
    _, found = jax.jvp(everything, primals, [t for x, t in zip(args, tangents, strict=True) if _inexact(x)])
    return [np.asarray(t) if known else None for t, known in zip(found, inexact, strict=True)]


def jax_cotangents(closed: Any, args: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
    """The cotangent of each variable: the derivative with respect to what is added to it; None of one that has none."""
    shapes: list[Any] = []

    def note(x: Any, differentiated: bool) -> Any:
        shapes.append(jnp.zeros_like(x) if differentiated and _inexact(x) else None)
        return x

    Unrolled(note).run(closed, args)

    def weighed(added: list[Any]) -> Any:
        each = iter(added)

        def look(x: Any, differentiated: bool) -> Any:
            more = next(each)
            return x if more is None else x + more

        outs = Unrolled(look).run(closed, args)
        return [out for out in outs if _inexact(out)]

    _, back = jax.vjp(weighed, shapes)
    (found,) = back([ct for ct in cts if ct is not None])
    return [None if ct is None else np.asarray(ct) for ct in found]


def looked_at(frame: Any) -> Iterator[tuple[str, Any, Any, Any]]:
    """Of a replay: where, value, tangent and cotangent of each variable, in the same order."""
    jaxpr = frame.jaxpr
    title = " > ".join(frame.path)
    for v in jaxpr.invars:
        yield title, frame.value(v), frame.tangent(v), frame.cotangent(v)
    for eqn in jaxpr.eqns:
        for inner in inner_frames(frame, eqn):
            assert not isinstance(inner, Unknown), inner
            yield from looked_at(inner)
        for v in eqn.outvars:
            what = f"{title} {eqn.primitive.name}"
            yield what, frame.value(v), frame.tangent(v), frame.cotangent(v)


def inner_frames(frame: Any, eqn: Any) -> Iterator[Any]:
    """What is inside of an equation, in the order in which it runs."""
    name = eqn.primitive.name
    if name == "scan":
        n = frame.count(eqn)
        for i in reversed(range(n)) if eqn.params["reverse"] else range(n):
            yield frame.inside(eqn, i)
    elif name == "while":
        n = frame.count(eqn)
        for i in range(n):
            yield frame.inside(eqn, i, "condition")
            yield frame.inside(eqn, i)
        yield frame.inside(eqn, n, "condition")
    elif name == "cond" or name in CALLS:
        yield frame.inside(eqn)
