"""One primitive of JAX's at one signature: a function of JAX arrays, its types, and what was derived for it.

In: a primitive of JAX's (or a third party's) with the params of an equation, and the types of the operands. Out: what
any rule that is derived from JAX's needs. ``interop.borrowed`` keeps each signature once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from minijax.config import x64_enabled
from minijax.core.avals import ShapedArray
from minijax.core.varying import CHECKED
from minijax.interop.values import aval_of, jax_module, mesh_now, spec_of

# The names and sizes of mapped axes, outermost first.
Axes = Sequence[tuple[Any, int]]


class JaxCall:
    """A call of one of JAX's primitives on operands of known types, as a function of JAX arrays with a list of results.

    Attributes:
      name: the primitive's.
      fun: the call: ``fun(*arrays) -> list``.
      specs: the types of the operands, as JAX's ``ShapeDtypeStruct``.
      axes: the mapped axes that the call may name.
      x64: whether JAX computes with 64 bits here.
      evaluated: the same as ``fun``, as the primitive is evaluated: a function that JAX may be able to trace.
      memo: what was derived: programs of rules by (rule, how the operands are transformed), the lowering.
    """

    def __init__(
        self,
        name: str,
        fun: Callable[..., list[Any]],
        specs: Sequence[Any],
        axes: Axes = (),
        evaluated: Callable[..., list[Any]] | None = None,
    ) -> None:
        self.name = name
        self.fun = fun
        self.evaluated = evaluated or fun
        self.specs = list(specs)
        self.axes = list(axes)
        # an operand of 64 bits may have been made while they were enabled; JAX would narrow it
        self.x64 = x64_enabled() or any(is_wide(spec.dtype) for spec in self.specs)
        self.memo: dict[Any, Any] = {}

    def derived(self, key: Any, make: Callable[[], Any]) -> Any:
        """``make()``, run once for ``key`` while JAX has the precision that the call has."""
        try:
            return self.memo[key]
        except KeyError:
            pass
        with jax_module().enable_x64(self.x64):
            found = self.memo[key] = make()
        return found

    def traced(self, fun: Callable[..., Any], specs: Sequence[Any], axes: Axes = ()) -> Any:
        """JAX's ``ClosedJaxpr`` of ``fun``, inside the axes of the call and ``axes``. Used in ``derived`` only."""
        bound = [axis for axis in (*self.axes, *axes) if axis[0] is not CHECKED]
        with mesh_now():
            return jax_module().make_jaxpr(fun, axis_env=bound)(*specs)

    @property
    def out_avals(self) -> list[ShapedArray]:
        """The types of the results. NotImplementedError if the call has effects, which nothing here would keep."""

        def types() -> list[ShapedArray]:
            traced = self.traced(self.fun, self.specs)
            effects = [effect for effect in traced.effects if type(effect).__name__ != "NamedAxisEffect"]
            if effects:
                named = ", ".join(sorted({type(effect).__name__ for effect in effects}))
                raise NotImplementedError(f"{self.name} acts on the world ({named}): it cannot be taken over from JAX.")
            return list(map(aval_of, traced.out_avals))

        return self.derived("types", types)

    @property
    def out_specs(self) -> list[Any]:
        """The types of the results, as JAX's."""
        return list(map(spec_of, self.out_avals))

    def __repr__(self) -> str:
        return self.name


def is_wide(dtype: Any) -> bool:
    """Whether arrays have this dtype only where 64 bits are enabled."""
    name = str(dtype)
    return name in ("float64", "int64", "uint64", "complex128")


def primitive_call(primitive: Any, params: dict[str, Any], avals: Sequence[Any], axes: Axes = ()) -> JaxCall:
    """The call of ``primitive``, JAX's, with ``params`` on operands of types ``avals``."""

    def applied(apply: Callable[..., Any], *arrays: Any) -> list[Any]:
        out = apply(*arrays, **params)
        return list(out) if primitive.multiple_results else [out]

    fun, evaluated = functools.partial(applied, primitive.bind), functools.partial(applied, primitive.impl)
    return JaxCall(primitive.name, fun, list(map(spec_of, avals)), axes, evaluated)


def equation_call(eqn: Any, axes: Axes = ()) -> JaxCall:
    """The call that one equation of JAX's is, functions among its params and all, inside the mapped ``axes``."""
    core = jax_module("extend.core")
    invars = [core.Var(v.aval) for v in eqn.invars]
    empty = jax_module().make_jaxpr(lambda: 0)().jaxpr
    one = core.Jaxpr(
        (), invars, list(eqn.outvars), [eqn.replace(invars=invars)], eqn.effects,
        debug_info=empty.debug_info._replace(arg_names=None, result_paths=None),
    )  # fmt: skip
    run = core.jaxpr_as_fun(core.ClosedJaxpr(one, ()))
    return JaxCall(eqn.primitive.name, lambda *xs: list(run(*xs)), [spec_of(v.aval) for v in invars], axes)
