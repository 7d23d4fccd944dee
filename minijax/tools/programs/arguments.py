"""The user's names for the arguments of a compiled program, in place of XLA's ``Arg_1.3`` and StableHLO's ``%arg1``.

Only what is shown is changed: ``%layers[0]['w']`` is no name that XLA could read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_PARAMETER = r"\s+(?:ROOT )?%?([\w.-]+) = .*? parameter\((\d+)\)"
_DEFINED = r"(?m)^\s+(?:ROOT )?%?([\w.-]+) = "


def parameter_names(program: Any, names: Sequence[str]) -> tuple[str, ...]:
    """What XLA's parameters of ``program`` (``ops.call.Compiled``) are called, in order, '' of a constant of its own.

    ``names`` are those of the inputs of its jaxpr; () if they are not as many as it has.
    """
    taken = program.kept if program.kept is not None else range(len(names))
    if len(program.in_avals) != len(taken) or any(i >= len(names) for i in taken):
        return ()
    return ("",) * program.n_consts + tuple(names[i] for i in taken)


def named(lines: Sequence[str], names: Sequence[str], optimized: bool) -> list[str]:
    """The lines of a program with the user's names of its parameters: in HLO if it is ``optimized``, else StableHLO."""
    if optimized:
        return named_hlo(lines, hlo_names("\n".join(lines), names))
    return named_stablehlo(lines, stablehlo_names(names))


def hlo_names(text: str, names: Sequence[str]) -> dict[str, str]:
    """XLA's name -> the user's, of the parameters of a program in HLO; those that another value has are left out."""
    begin = text.find("\nENTRY ")
    if begin < 0 or not names:
        return {}
    defined = set(re.findall(_DEFINED, text))
    found = {}
    for name, number in re.findall(rf"(?m)^{_PARAMETER}", text[begin : text.find("\n}", begin)]):
        own = names[int(number)] if int(number) < len(names) else ""
        if own and own not in defined:
            found[name] = own
    return found


def named_hlo(lines: Sequence[str], known: Mapping[str, str]) -> list[str]:
    """The lines of a program in HLO with the user's names of its parameters, where these are in sight."""
    return _renamed(lines, known, "%?", lambda line: line.startswith("ENTRY "))


def stablehlo_names(names: Sequence[str]) -> dict[str, str]:
    """``arg1`` -> the user's name."""
    return {f"arg{i}": own for i, own in enumerate(names) if own}


def named_stablehlo(lines: Sequence[str], known: Mapping[str, str]) -> list[str]:
    """The lines of a StableHLO module with the user's names of the parameters of its main function."""
    return _renamed(lines, known, "%", lambda line: " @main(" in line, "  }")


def _renamed(lines: Sequence[str], known: Mapping[str, str], before: str, begins: Any, end: str = "}") -> list[str]:
    if not known:
        return list(lines)
    pattern = re.compile(rf"(?<![\w.%-])({before})([A-Za-z_][\w.-]*)")

    def own(found: re.Match[str]) -> str:
        name = known.get(found[2])
        return found[0] if name is None else found[1] + name

    out = []
    inside = False
    for line in lines:
        inside = inside or begins(line)
        out.append(pattern.sub(own, line) if inside else line)
        if line.startswith(end):
            inside = False
    return out
