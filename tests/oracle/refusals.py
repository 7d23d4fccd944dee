"""Expressions that raise errors in both libraries, one per line of a text file, with the expected words.

``expression ~ words``: the errors have the same class and both contain the words. ``expression ~~ pattern``: only
minijax's error must match the pattern. ``expression``: both messages begin alike. ``expression ~?``: JAX's error does
not help the user; minijax raises a TypeError or a ValueError. With ``staged``, JAX only stages the program, because it
leaves some errors to XLA.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .subject import oracle, subject


def lines_of(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]


def error_of(run: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as caught:
        run()
    return caught.value


def check_refused(line: str, names: Callable[[Any], dict[str, Any]], staged: bool = False) -> None:
    """Check one line. ``names(ns)``: the names that the line may use for the library ``ns``, besides modules."""
    expression, sign, words = re.fullmatch(r"(.*?)(?: (~[~?]?) ?(.*))?", line).groups()  # type: ignore[union-attr]

    def run(ns: Any) -> Any:
        modules = {"ns": ns, "jnp": ns.numpy, "lax": ns.lax, "random": ns.random, "np": np}
        return eval(expression, {**modules, **names(ns)})

    ours = [error_of(lambda: run(subject))]
    if staged:
        ours.append(error_of(subject.make_jaxpr(lambda: run(subject))))
    theirs = error_of(oracle.make_jaxpr(lambda: run(oracle)) if staged else lambda: run(oracle))
    for error in ours:
        if sign == "~?":
            assert isinstance(error, (TypeError, ValueError))
            continue
        assert type(theirs).__name__ in [kind.__name__ for kind in type(error).__mro__], (error, theirs)
        if sign == "~~":
            assert re.search(words, str(error)), error
        elif sign == "~":
            assert words in str(error) and words in str(theirs), (error, theirs)
        else:
            assert str(error)[:20] == str(theirs)[:20]
