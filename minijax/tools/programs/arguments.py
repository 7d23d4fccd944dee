"""Python names for the arguments of a compiled program, instead of XLA's ``Arg_1.3`` and StableHLO's ``%arg1``.

Only the display changes: XLA could not parse the name ``%layers[0]['w']``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_PARAMETER = r"\s+(?:ROOT )?%?([\w.-]+) = .*? parameter\((\d+)\)"
_DEFINED = r"(?m)^\s+(?:ROOT )?%?([\w.-]+) = "


def parameter_names(program: Any, names: Sequence[str]) -> tuple[str, ...]:
    """The Python name of each of XLA's parameters of ``program`` (``ops.call.Compiled``), in order; '' for a constant.

    ``names`` are the names of the jaxpr's inputs. Return () if the program takes other inputs than these.
    """
    taken = program.kept if program.kept is not None else range(len(names))
    if len(program.in_avals) != len(taken) or any(i >= len(names) for i in taken):
        return ()
    return ("",) * program.n_consts + tuple(names[i] for i in taken)


def named(lines: Sequence[str], names: Sequence[str], optimized: bool) -> list[str]:
    """A program's lines with Python names for its parameters: HLO if ``optimized``, else StableHLO."""
    if optimized:
        return named_hlo(lines, hlo_names("\n".join(lines), names))
    return named_stablehlo(lines, stablehlo_names(names))


def hlo_names(text: str, names: Sequence[str]) -> dict[str, str]:
    """XLA's name -> Python name, for an HLO program's parameters. No entry if another value has the Python name."""
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
    """The lines of an HLO program with Python names for the entry parameters."""
    return _renamed(lines, known, "%?", lambda line: line.startswith("ENTRY "))


def stablehlo_names(names: Sequence[str]) -> dict[str, str]:
    """``arg1`` -> Python name, for each parameter that has one."""
    return {f"arg{i}": own for i, own in enumerate(names) if own}


def named_stablehlo(lines: Sequence[str], known: Mapping[str, str]) -> list[str]:
    """The lines of a StableHLO module with Python names for the parameters of its main function."""
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
