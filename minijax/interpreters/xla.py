"""JAX's name for evaluating a primitive by compiling it: ``p.def_impl(partial(xla.apply_primitive, p))``."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from minijax.api.compile import jit
from minijax.core.primitive import Primitive

__all__ = ["apply_primitive"]

# primitive -> its params -> the jitted function, which caches one executable for each signature
_programs: weakref.WeakKeyDictionary[Primitive, dict[Any, Callable[..., Any]]] = weakref.WeakKeyDictionary()


def apply_primitive(prim: Primitive, *args: Any, **params: Any) -> Any:
    """The value of ``prim`` at ``args``, compiled once per signature from its lowering rule."""
    of_primitive = _programs.setdefault(prim, {})
    key = tuple(params.items())
    try:
        program = of_primitive.get(key)
    except TypeError:  # a parameter is not hashable
        return _program(weakref.ref(prim), params)(*args)
    if program is None:
        program = of_primitive[key] = _program(weakref.ref(prim), params)
    return program(*args)


def _program(prim: weakref.ref[Primitive], params: dict[str, Any]) -> Callable[..., Any]:
    def apply(*args: Any) -> Any:
        found = prim()
        assert found is not None  # the primitive is alive while it is evaluated
        return found.bind(*args, **params)

    return jit(apply)
