"""One JAX primitive at one signature: a function of JAX arrays, its types, and the programs derived for it.

In: a primitive of JAX (or a third party) with an equation's params, and the operand types. Out: a ``JaxCall`` for each
signature. ``interop.borrowed`` derives minijax's rules from it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from minijax.config import x64_enabled
from minijax.core.avals import ShapedArray
from minijax.core.varying import CHECKED
from minijax.interop.values import aval_of, jax_module, mesh_now, spec_of

Axes = Sequence[tuple[Any, int]]


class JaxCall:
    """A call of one JAX primitive on operands of known types, as a function from JAX arrays to a list of results.

    Attributes:
      name: the primitive's name.
      fun: the call: ``fun(*arrays) -> list``.
      specs: the operand types, as JAX's ``ShapeDtypeStruct``.
      axes: the mapped axes that the call may name.
      x64: whether JAX computes with 64 bits here.
      evaluated: like ``fun``, but it calls the primitive's evaluation rule. JAX can trace it if the rule uses only JAX.
      memo: cache of the lowering, and of the rules' programs by (rule, transformation of the operands).
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
        # an operand may have 64 bits although x64 is off now; JAX without x64 would narrow it
        self.x64 = x64_enabled() or any(is_wide(spec.dtype) for spec in self.specs)
        self.memo: dict[Any, Any] = {}

    def derived(self, key: Any, make: Callable[[], Any]) -> Any:
        """The result of ``make()``, run once for each ``key``, with 64 bits in JAX if the call needs them."""
        try:
            return self.memo[key]
        except KeyError:
            pass
        with jax_module().enable_x64(self.x64):
            found = self.memo[key] = make()
        return found

    def traced(self, fun: Callable[..., Any], specs: Sequence[Any], axes: Axes = ()) -> Any:
        """JAX's ``ClosedJaxpr`` of ``fun``, inside the call's axes and ``axes``. Call this only inside ``derived``."""
        bound = [axis for axis in (*self.axes, *axes) if axis[0] is not CHECKED]
        with mesh_now():
            return jax_module().make_jaxpr(fun, axis_env=bound)(*specs)

    @property
    def out_avals(self) -> list[ShapedArray]:
        """The result types. NotImplementedError if the call has effects, which minijax would lose."""

        def types() -> list[ShapedArray]:
            traced = self.traced(self.fun, self.specs)
            effects = [effect for effect in traced.effects if type(effect).__name__ != "NamedAxisEffect"]
            if effects:
                named = ", ".join(sorted({type(effect).__name__ for effect in effects}))
                raise NotImplementedError(f"{self.name} has side effects ({named}): minijax cannot import it.")
            return list(map(aval_of, traced.out_avals))

        return self.derived("types", types)

    @property
    def out_specs(self) -> list[Any]:
        """The result types, as JAX's ``ShapeDtypeStruct``."""
        return list(map(spec_of, self.out_avals))

    def __repr__(self) -> str:
        return self.name


def is_wide(dtype: Any) -> bool:
    """Whether arrays have this dtype only if x64 is enabled."""
    name = str(dtype)
    return name in ("float64", "int64", "uint64", "complex128")


def primitive_call(primitive: Any, params: dict[str, Any], avals: Sequence[Any], axes: Axes = ()) -> JaxCall:
    """The call of JAX's ``primitive`` with ``params`` on operands of types ``avals``."""

    def applied(apply: Callable[..., Any], *arrays: Any) -> list[Any]:
        out = apply(*arrays, **params)
        return list(out) if primitive.multiple_results else [out]

    fun, evaluated = functools.partial(applied, primitive.bind), functools.partial(applied, primitive.impl)
    return JaxCall(primitive.name, fun, list(map(spec_of, avals)), axes, evaluated)


def equation_call(eqn: Any, axes: Axes = ()) -> JaxCall:
    """The call of one JAX equation, whose params may hold functions, inside the mapped ``axes``."""
    core = jax_module("extend.core")
    invars = [core.Var(v.aval) for v in eqn.invars]
    empty = jax_module().make_jaxpr(lambda: 0)().jaxpr
    one = core.Jaxpr(
        (), invars, list(eqn.outvars), [eqn.replace(invars=invars)], eqn.effects,
        debug_info=empty.debug_info._replace(arg_names=None, result_paths=None),
    )  # fmt: skip
    run = core.jaxpr_as_fun(core.ClosedJaxpr(one, ()))
    return JaxCall(eqn.primitive.name, lambda *xs: list(run(*xs)), [spec_of(v.aval) for v in invars], axes)
