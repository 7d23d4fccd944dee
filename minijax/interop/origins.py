"""Where JAX's rule for a primitive is written: what to show for a rule that is derived from it.

In: a primitive of JAX's, and which rule. Out: the function that says most about it, or None if JAX has no such rule.
JAX's tables hold wrappers and partial applications of general rules (``standard_jvp`` of the derivatives of each
operand); what they wrap, or are applied to, was written for the primitive.
"""

from __future__ import annotations

import functools
import linecache
import re
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from minijax.interop.values import jax_module


def jvp_rule(primitive: Any) -> Any:
    """JAX's rule of forward mode."""
    return telling(jax_module("interpreters.ad").primitive_jvps.get(primitive))


def transpose_rule(primitive: Any) -> Any:
    """JAX's rule of reverse mode."""
    ad = jax_module("interpreters.ad")
    fancy = getattr(sys.modules.get("jax._src.interpreters.ad"), "fancy_transposes", {})
    return telling(ad.primitive_transposes.get(primitive) or fancy.get(primitive))


def batching_rule(primitive: Any) -> Any:
    """JAX's rule of ``vmap``."""
    return telling(jax_module("interpreters.batching").fancy_primitive_batchers.get(primitive))


def abstract_rule(primitive: Any) -> Any:
    """JAX's rule of the types."""
    return telling(getattr(primitive, "abstract_eval", None))


def lowering_rule(primitive: Any) -> Any:
    """JAX's rule of compilation: that of the CPU's, else one for all platforms, else any."""
    mlir = sys.modules.get("jax._src.interpreters.mlir")
    platforms = getattr(mlir, "_platform_specific_lowerings", {})
    tables = [platforms.get("cpu", {}), getattr(mlir, "_lowerings", {}), *platforms.values()]
    entries = [table[primitive] for table in tables if primitive in table]
    return telling(getattr(entries[0], "rule", entries[0])) if entries else None


@functools.lru_cache(1024)
def made_at(primitive: Any) -> str:
    """``file.py:12``, where a module binds a name to ``primitive``; that of one of its rules if none does."""
    finders = (abstract_rule, lowering_rule, batching_rule, jvp_rule)
    rules = [rule for rule in (find(primitive) for find in finders) if rule is not None]
    attribute, modules = f"{primitive.name}_p", [*sys.modules.items()]
    usual = [name for name, module in modules if getattr(module, "__dict__", {}).get(attribute) is primitive]
    # what is typed at a prompt may be of no module
    for module in dict.fromkeys([*usual, *[rule.__module__ for rule in rules if rule.__module__ in sys.modules]]):
        names = [name for name, value in vars(sys.modules[module]).items() if value is primitive]
        file = getattr(sys.modules[module], "__file__", None)
        for number, text in enumerate(linecache.getlines(file) if names and file else (), 1):
            if re.match(rf"({'|'.join(names)})\b[^=\n]*=", text):
                return f"{file}:{number}"
    codes = [rule.__code__ for rule in rules]
    return f"{codes[0].co_filename}:{codes[0].co_firstlineno}" if codes else ""


def telling(rule: Any) -> Any:
    """The function in ``rule`` that was written for one primitive: the last that is met, going inwards."""
    found = list(functions_in(rule))
    return found[-1] if found else None


def functions_in(rule: Any, depth: int = 0) -> Iterator[FunctionType]:
    """``rule``, what it is a partial application of, and the first function that it is applied to or closes over."""
    if depth > 6 or rule is None:
        return
    if isinstance(rule, functools.partial):
        yield from functions_in(rule.func, depth + 1)
        inner = [*rule.args, *rule.keywords.values()]
    elif isinstance(rule, FunctionType):
        yield rule
        inner = [cell.cell_contents for cell in rule.__closure__ or ()]
    else:
        inner = list(rule) if isinstance(rule, (tuple, list)) else []
    for each in inner:
        if isinstance(each, (functools.partial, FunctionType, tuple, list)):
            found = list(functions_in(each, depth + 1))
            if found:
                yield from found
                return
