"""One primitive of JAX's at one signature: a function of JAX arrays, its types, and its lowering.

In: a primitive of JAX's (or a third party's) with the params of an equation, and the types of the operands. Out: what
any rule that is derived from JAX's needs. Each signature exists once, and remembers what was derived for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.config import x64_enabled
from minijax.interop.values import jax_module, spec_of

# Beyond this many signatures what was derived is forgotten, all at once.
MAX_SIGNATURES = 4096


class JaxCall:
    """A call of one of JAX's primitives on operands of known types, as a function of JAX arrays with a list of results.

    Attributes:
      name: the primitive's.
      fun: the call: ``fun(*arrays) -> list``.
      specs: the types of the operands, as JAX's ``ShapeDtypeStruct``.
      x64: whether JAX computes with 64 bits here.
      memo: what was derived: programs of rules by (rule, how the operands are transformed), the lowering.
    """

    def __init__(self, name: str, fun: Callable[..., list[Any]], specs: Sequence[Any], x64: bool) -> None:
        self.name = name
        self.fun = fun
        self.specs = list(specs)
        self.x64 = x64
        self.memo: dict[Any, Any] = {}

    def derived(self, key: Any, make: Callable[[], Any]) -> Any:
        """``make()``, run once for ``key`` while JAX has the precision that the call has."""
        if key not in self.memo:
            with jax_module().enable_x64(self.x64):
                self.memo[key] = make()
        return self.memo[key]

    @property
    def out_specs(self) -> list[Any]:
        """The types of the results."""
        return self.derived("types", lambda: list(map(spec_of, jax_module().eval_shape(self.fun, *self.specs))))

    def __repr__(self) -> str:
        return self.name


_calls: dict[Any, JaxCall] = {}


def call_of(primitive: Any, params: dict[str, Any], specs: Sequence[Any]) -> JaxCall:
    """The call of ``primitive`` with ``params`` on operands of types ``specs``; the same object for the same call."""
    types = tuple([(s.shape, s.dtype, bool(s.weak_type)) for s in specs])
    x64 = x64_enabled()
    key: Any = (primitive, tuple(sorted(params.items(), key=lambda item: item[0])), types, x64)
    try:
        found = _calls.get(key)
    except TypeError:  # a parameter has no hash
        return _new(primitive, params, specs, x64)
    if found is None:
        if len(_calls) >= MAX_SIGNATURES:
            _calls.clear()
        found = _calls[key] = _new(primitive, params, specs, x64)
    return found


def _new(primitive: Any, params: dict[str, Any], specs: Sequence[Any], x64: bool) -> JaxCall:
    def fun(*arrays: Any) -> list[Any]:
        out = primitive.bind(*arrays, **params)
        return list(out) if primitive.multiple_results else [out]

    return JaxCall(primitive.name, fun, specs, x64)


def equation_call(eqn: Any) -> JaxCall:
    """The call that one equation of JAX's is, functions among its params and all."""
    core = jax_module("extend.core")
    invars = [core.Var(v.aval) for v in eqn.invars]
    empty = jax_module().make_jaxpr(lambda: 0)().jaxpr
    one = core.Jaxpr(
        (), invars, list(eqn.outvars), [eqn.replace(invars=invars)], eqn.effects,
        debug_info=empty.debug_info._replace(arg_names=None, result_paths=None),
    )  # fmt: skip
    run = core.jaxpr_as_fun(core.ClosedJaxpr(one, ()))
    return JaxCall(eqn.primitive.name, lambda *xs: list(run(*xs)), [spec_of(v.aval) for v in invars], x64_enabled())
