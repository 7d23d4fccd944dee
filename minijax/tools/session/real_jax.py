"""Convert programs that use real JAX to minijax before any command sees them. Convert results back to JAX."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from minijax.core.avals import AnyArray
from minijax.core.primitive import Primitive
from minijax.core.shape_structs import ShapeDtypeStruct
from minijax.pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from minijax.tools.documents.document import document, text
from minijax.tools.session.result import NOTHING, Result
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.session.watch import Watched


def carried(command: str, title: str, fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Watched | None:
    """Convert a call to minijax so that a command can watch it. Return None if the call does not use JAX.

    Raises:
      UsageError: minijax cannot watch the call.
    """
    if "jax" not in sys.modules:
        return None
    from minijax.interop.uses import jax_use

    if not jax_use(fun, args, kwargs):
        return None
    from minijax.tools.session import watch

    try:
        return watch.watched(fun, args, kwargs)
    except watch.Unwatched as error:
        raise UsageError(f"%{command} sees what minijax computes, and cannot watch {title}: {error}") from None


def counterpart(x: Any) -> Any:
    """The minijax equivalent of a JAX object; any other object is returned as it is."""
    if "jax" not in sys.modules:
        return x
    from minijax.interop.uses import jax_use

    if not jax_use(x):
        return x
    from minijax.tools.session import watch

    return watch.counterpart(x)


def primitive_of(name: str) -> Primitive | None:
    """Return minijax's primitive for a JAX primitive (``cholesky`` or ``cholesky_p``); None if minijax has none."""
    from minijax.tools.session import watch

    found = watch.primitive(name)
    return found if isinstance(found, Primitive) else None


def is_kept_whole(fun: Any) -> bool:
    """Whether a watched function is imported from JAX as one program."""
    from minijax.interop.functions import originals

    made = getattr(fun, "__wrapped__", None)
    if not isinstance(made, FunctionType) or made not in originals:
        return False
    return getattr(originals[made], "__code__", None) is not made.__code__


def arrays_of(x: Any) -> tuple[Any, Callable[[Any], Any]] | None:
    """Split an argument that holds third-party objects, such as an Equinox model. Return the argument with only its
    arrays, and a function that puts the other leaves back. Return None if it holds no such object, or if all leaves of
    these objects are arrays.

    The model's library also treats the other leaves (dropout flags and rates, the activation) as part of the program.
    """
    if "jax" not in sys.modules:
        return None
    from minijax.tools.session.watch import is_model

    outer, _ = tree_flatten(x, is_leaf=is_model)
    is_held: list[bool] = []
    for each in outer:
        is_held += [not _is_array(leaf) for leaf in tree_leaves(each)] if is_model(each) else [False]
    if not any(is_held):
        return None
    leaves, tree = tree_flatten(x)
    pairs = list(zip(leaves, is_held, strict=True))
    rest = tree_unflatten(tree, [leaf if held else None for leaf, held in pairs])

    def whole(arrays: Any) -> Any:
        # minijax converts this helper to JAX, and JAX calls it, so it may only call functions that JAX has too
        return tree_map(
            lambda given, held: held if given is None else given, arrays, rest, is_leaf=lambda leaf: leaf is None
        )

    return tree_unflatten(tree, [None if held else leaf for leaf, held in pairs]), whole


def _is_array(x: Any) -> bool:
    return isinstance(x, (AnyArray, np.ndarray, np.generic, ShapeDtypeStruct)) and not isinstance(x, type)


def answer(result: Result, programs: list[Watched]) -> Result:
    """The result of a command for JAX programs: adds a line on how they were watched, and converts the value to JAX."""
    from minijax.tools.session import watch

    status = "; ".join(dict.fromkeys(each.status for each in programs))
    value = result.value if result.value is NOTHING else watch.at_home(result.value)
    step = result.step
    if step is not None:
        step = step.replace(note="; ".join(filter(None, (step.note, status))))
    return result.replace(document=result.document + document(text(status, role="muted")), value=value, step=step)
