"""Describe what a program does in either library: its results, or the class of its error."""

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
    """Raise ``error`` if a mistake in the test program caused it: two equal mistakes must not pass as equal results."""
    unbound_axis = str(error).startswith("unbound axis name")
    if isinstance(error, (AttributeError, ImportError, NameError)) and not unbound_axis:
        raise error


def kind(error: Exception) -> str:
    """The name of the class of a program's error. Raise the error if it comes from a mistake in the test program."""
    raise_mistakes(error)
    return type(error).__name__


def leaves(of: Any, make: Callable[[], Any]) -> list[Any] | str:
    """The leaves of the result of ``make()`` in the library ``of``, or the class name of its error."""
    try:
        return of.tree.leaves(make())  # type: ignore[no-any-return]
    except Exception as error:
        return kind(error)


def described(of: Any, make: Callable[[], Any]) -> Any:
    """For each array: type, spec or sharding, whether it is committed, and sum; or the class name of the error."""
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
    """The printed jaxpr without explicit sharding parameters that are None, and without the text of meshes."""
    text = re.sub(r"\s*\b(out_)?sharding=None", "", str(ns.make_jaxpr(f)(*args)))
    text = re.sub(r"\bmesh=(Abstract)?Mesh\(.*\)", "mesh", text)
    text = re.sub(r"np\.int64\((\d+)\)", r"\1", text)
    return re.sub(r"\s+", " ", text).replace("[ ", "[").replace(" ]", "]")  # removing None leaves spaces at brackets


def print_both(results: Callable[[Any], dict[str, Any]]) -> None:
    """Print JSON: name -> [ours, theirs]. ``results(library)`` returns the results of a library by name.

    Output of the programs goes to standard error: JAX prints when it finds NaNs.
    """
    with contextlib.redirect_stdout(sys.stderr):
        ours, theirs = results(minijax), results(jax)
    print(json.dumps({name: [ours[name], theirs[name]] for name in ours}, default=str))
