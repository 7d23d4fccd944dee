"""Tables of programs that both libraries run: what a program gives, or how it is refused."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import minijax


def raise_mistakes(error: Exception) -> None:
    """Raise an error that comes of a mistake in a program: with it both libraries stumble, and nothing is compared."""
    unbound_axis = str(error).startswith("unbound axis name")
    if isinstance(error, (AttributeError, ImportError, NameError)) and not unbound_axis:
        raise error


def kind(error: Exception) -> str:
    """The kind of error by which a program is refused, which is not to be a mistake of its own."""
    raise_mistakes(error)
    return type(error).__name__


def leaves(of: Any, make: Callable[[], Any]) -> list[Any] | str:
    """The leaves of what ``make()`` gives with the library ``of``, or the kind of its error."""
    try:
        return of.tree.leaves(make())  # type: ignore[no-any-return]
    except Exception as error:
        return kind(error)


def described(of: Any, make: Callable[[], Any]) -> Any:
    """Of each array its type, its spec or place, whether it is committed and its sum; or the kind of the error."""
    given = leaves(of, make)
    if isinstance(given, str):
        return given
    found: list[Any] = []
    for x in given:
        if isinstance(x, of.Array):
            place = getattr(x.sharding, "spec", x.sharding)
            weak = not of.numpy.issubdtype(x.dtype, of.dtypes.prng_key) and x.weak_type
            total = round(float(np.asarray(x).sum()), 4) if x.dtype in ("float32", "int32") else None
            found.append([str(of.typeof(x)).lstrip("~"), weak, str(place), bool(x.committed), total])
        else:
            found.append(x if isinstance(x, (str, int)) else [str(x.shape), str(x.sharding.spec)])
    return found


def text_of(ns: Any, f: Any, args: list[Any]) -> str:
    """The jaxpr as it is printed, without parameters of explicit meshes that say None, and how a mesh is written."""
    text = re.sub(r"\s*\b(out_)?sharding=None", "", str(ns.make_jaxpr(f)(*args)))
    text = re.sub(r"\bmesh=(Abstract)?Mesh\(.*\)", "mesh", text)
    text = re.sub(r"np\.int64\((\d+)\)", r"\1", text)
    return re.sub(r"\s+", " ", text).replace("[ ", "[").replace(" ]", "]")  # lines are broken where None is left out


def print_both(results: Callable[[Any], dict[str, Any]]) -> None:
    """Print the results of both libraries, which ``results`` gives by name: name -> [ours, theirs], as JSON.

    What they print themselves goes to standard error: JAX says so when it has found NaNs.
    """
    with contextlib.redirect_stdout(sys.stderr):
        ours, theirs = results(minijax), results(jax)
    print(json.dumps({name: [ours[name], theirs[name]] for name in ours}, default=str))
