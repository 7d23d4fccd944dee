"""Convert equation params between JAX's classes and minijax's.

In: the params of a JAX equation, and minijax's primitive of that name. Out: the same in minijax's classes, without
defaults. The result is None if the primitive does not take one of the params; then the equation is borrowed.
"""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable
from typing import Any

from minijax import lax
from minijax.core.keys import PRNGImpl, impl_of
from minijax.core.meshes import AbstractMesh
from minijax.core.primitive import Primitive, abstract_rules, impl_rules
from minijax.core.shardings import Sharding
from minijax.interop.values import (
    impl_of_jax,
    jax_module,
    mesh_for_jax,
    mesh_of_jax,
    sharding_for_jax,
    sharding_of_jax,
)
from minijax.interpreters.jvp import jvp_rules
from minijax.interpreters.transpose import transpose_rules
from minijax.interpreters.vmap import axis_rules, batching_rules
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr
from minijax.ir.pretty import Unread
from minijax.lowering.lower import lowering_rules

_TABLES: tuple[Any, ...] = (
    *(abstract_rules, impl_rules, lowering_rules),
    *(jvp_rules, transpose_rules, batching_rules, axis_rules),
)
# Classes of plain values, which need no conversion.
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


class _Unknown(Exception):
    """A JAX value without a counterpart in minijax."""


@functools.cache
def known_params(primitive: Primitive) -> frozenset[str]:
    """The params that rules of ``primitive`` declare. ``**params`` does not count: it takes unused params too."""
    names: set[str] = {primitive.sharding_param} if primitive.sharding_param else set()
    for table in _TABLES:
        rule = table.get(primitive)
        if rule is None:
            continue
        parameters = inspect.signature(rule).parameters.values()
        names.update(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    return frozenset(names)


def translated(
    primitive: Primitive, params: dict[str, Any], import_jaxpr: Callable[[Any], Any]
) -> dict[str, Any] | None:
    """Convert a JAX equation's ``params`` for minijax's ``primitive``; None if ``primitive`` lacks one."""
    if params.get("out_dtype", ...) is None:  # minijax's products have no such param
        params = {name: value for name, value in params.items() if name != "out_dtype"}
    known = known_params(primitive)
    if any(name not in known and not _says_nothing(value) for name, value in params.items()):
        return None
    own = primitive.sharding_param
    try:
        return {
            name: None if name == own and _says_nothing(value) else _param(value, import_jaxpr)
            for name, value in params.items()
            if name in known
        }
    except _Unknown:
        return None


def _says_nothing(value: Any) -> bool:
    if value is None or str(value) == "MemorySpace.Device":  # minijax's devices have one kind of memory
        return True
    if type(value).__name__ != "NamedSharding":
        return False
    # inside a per-device program nothing is sharded
    return all(each.name == "Manual" for each in value.mesh.axis_types)


def _param(value: Any, import_jaxpr: Callable[[Any], Any]) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple or kind is list:
        return kind([_param(item, import_jaxpr) for item in value])
    if not kind.__module__.startswith("jax"):
        return value
    if kind.__name__ in ("ClosedJaxpr", "Jaxpr"):
        return import_jaxpr(value)
    if kind.__name__ == "PRNGImpl":
        return impl_of(value)
    if kind.__name__ == "NamedSharding":
        ours = sharding_of_jax(value)
        if ours is None:
            raise _Unknown
        return ours
    if kind.__name__ in ("Mesh", "AbstractMesh"):
        return mesh_of_jax(value)
    if kind.__name__ == "KeyTy":
        return impl_of(value._impl).dtype
    if kind.__name__ == "Primitive" and isinstance(getattr(lax, f"{value.name}_p", None), Primitive):
        return getattr(lax, f"{value.name}_p")
    ours = getattr(lax, kind.__name__, None)
    if ours is None:
        raise _Unknown
    if hasattr(value, "_fields"):
        return ours(*[_param(item, import_jaxpr) for item in value])
    if hasattr(value, "__dataclass_fields__"):
        fields = value.__dataclass_fields__
        return ours(**{name: _param(getattr(value, name), import_jaxpr) for name in fields})
    if hasattr(value, "name"):
        return ours[value.name]
    raise _Unknown


_OF_ACCURACY = "cbrt cos exp exp2 expm1 log log1p logistic rsqrt sin sqrt tan tanh".split()
# JAX's primitive -> params without effect, which only JAX's primitive has.
JAX_ONLY: dict[str, dict[str, Any]] = {
    **{name: {"accuracy": None} for name in _OF_ACCURACY},
    "mul": {"out_dtype": None},
}


def params_for_jax(primitive: Primitive, params: dict[str, Any], export_closed: Callable[[Any], Any]) -> dict[str, Any]:
    """Convert a minijax equation's params for JAX's primitive of the same name."""
    made = {**JAX_ONLY.get(primitive.name, {}), **values_for_jax(params, export_closed)}
    if primitive.name == "all_to_all":
        del made["axis_size"]
    if primitive.name == "reshard":
        made.pop("operand_mesh", None)
    if primitive.name == "empty2":
        made["memory_space"] = jax_module("core").ShapedArray((), bool).memory_space
    return made


def values_for_jax(params: dict[str, Any], export_closed: Callable[[Any], Any]) -> dict[str, Any]:
    """Convert ``params`` to JAX's classes; ``export_closed`` converts programs."""

    def theirs(value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is tuple or kind is list:
            return kind(map(theirs, value))
        if kind is ClosedJaxpr:
            return export_closed(value)
        if kind is Jaxpr:
            return export_closed(ClosedJaxpr(value)).jaxpr
        if not kind.__module__.startswith("minijax") or kind is Unread:
            return value
        if isinstance(value, Primitive):
            return getattr(jax_module("lax"), f"{value.name}_p")
        if isinstance(value, Sharding):
            return sharding_for_jax(value)
        if kind is PRNGImpl:
            return impl_of_jax(value)
        if isinstance(value, AbstractMesh):
            return mesh_for_jax(value)
        counterpart = getattr(jax_module("lax"), kind.__name__)
        if hasattr(value, "_fields"):
            return counterpart(*map(theirs, value))
        if isinstance(value, enum.Enum):
            return counterpart[value.name]
        return counterpart(**{name: theirs(item) for name, item in vars(value).items()})

    return {name: theirs(value) for name, value in params.items()}
