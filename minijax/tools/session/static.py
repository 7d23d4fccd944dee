"""Read attributes of objects without running their code: no property, no ``__getattr__``, no ``__dir__``."""

from __future__ import annotations

import types
from typing import Any

# Returned if the attribute does not exist, or if reading it would run code.
UNKNOWN = object()


def _bases(kind: type) -> tuple[type, ...]:
    """The classes searched for attributes. A metaclass may intercept ``kind.__mro__``, so bypass it."""
    return type.__getattribute__(kind, "__mro__")


def _class_dict(kind: type) -> dict[str, Any]:
    return type.__getattribute__(kind, "__dict__")


def instance_dict(value: Any) -> dict[str, Any]:
    """The instance's dict; empty if the class redefines ``__dict__``, because reading it would run code."""
    for base in _bases(type(value)):
        found = _class_dict(base).get("__dict__")
        if found is not None and type(found) not in (types.GetSetDescriptorType, types.MemberDescriptorType):
            return {}
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return own if type(own) is dict else {}


# ``isinstance`` reads ``__class__``, which a class can intercept; ``type`` cannot be intercepted.
def _is_a(value: Any, kind: type) -> bool:
    return issubclass(type(value), kind)


def static_names(value: Any) -> set[str]:
    """The names of the attributes of ``value``, found without running code of its class."""
    if _is_a(value, types.ModuleType):
        return set(instance_dict(value))
    names: set[str] = set()
    if _is_a(value, type):
        for base in _bases(value):
            names.update(_class_dict(base))
        return names
    for base in _bases(type(value)):
        names.update(_class_dict(base))
    names.update(instance_dict(value))
    return names


def static_value(value: Any, name: str) -> Any:
    """The value of an attribute if reading it runs no code, else ``UNKNOWN``."""
    if _is_a(value, types.ModuleType):
        return instance_dict(value).get(name, UNKNOWN)
    is_class = _is_a(value, type)
    found: Any = next(
        (d[name] for base in _bases(value if is_class else type(value)) if name in (d := _class_dict(base))), UNKNOWN
    )
    kind = type(found)
    if not is_class:
        if kind is types.MemberDescriptorType:  # a slot
            try:
                return found.__get__(value)
            except AttributeError:
                return UNKNOWN
        own = instance_dict(value)
        if name in own and not any("__set__" in _class_dict(base) for base in _bases(kind)):
            return own[name]
    if kind in (staticmethod, classmethod):
        return found.__func__
    plain = kind in (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType) or _is_a(found, type)
    if not plain and any("__get__" in _class_dict(base) for base in _bases(kind)):
        return UNKNOWN  # a property, for example: reading it runs code
    return found
