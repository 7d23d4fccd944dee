"""The variables of programs whose traces came from a cache. The user's Python did not run, so the recording has no
tracers of these variables. They are found from the program's equations and the user's source lines.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator

from minijax.ir.jaxpr import DropVar, Jaxpr, Var, subjaxprs
from minijax.tools.recording.records import LifeRecord, ScopeRecord, TracerRecord, place_parts
from minijax.tools.recording.sources import Sources
from minijax.tools.values.moment import DEEPEST, Ledger

# The most equations of one program to inspect.
MOST_LISTED = 2_000


def cached_lives(known: Ledger) -> Iterator[tuple[LifeRecord, bool, ScopeRecord]]:
    """For each value of a user's expression in such a program: its life, whether a variable holds it, and its scope.
    The numbers of these lives are negative; the ledger finds the values by them.
    """
    sources = Sources()
    number = 0
    for run in list(known.kept.runs.values()):
        bind = known.binds.get(run.at)
        if bind is None or not bind.cached:
            continue
        scope = ScopeRecord(run.at, bind.end, "trace from a cache", bind.depth, bind.cached, (), ())
        for var, place, expression in _results(run.params, bind.cached, sources):
            number -= 1
            name = assigned(place, expression)
            record = TracerRecord(run.at, scope.level, var.aval.str_short(), (("variable", ""),), number)
            life = LifeRecord(record, -1, run.at, -1, name or expression, place)
            known.kept.variables[number] = var
            known.lives[number] = life
            yield life, bool(name), scope


def _results(params: object, function: str, sources: Sources) -> Iterator[tuple[Var, str, str]]:
    """The variable of each expression's last result, the expression's place and its text. Equations at the place of a
    call around the program are skipped: they wrap ``function``, such as pmap's ``squeeze`` of one device's part.
    """
    left = MOST_LISTED
    # each program with the places of the calls around it
    todo: list[tuple[Jaxpr, frozenset[tuple[str, str]]]] = []
    for jaxpr in subjaxprs(dict(params)):  # type: ignore[call-overload]
        todo.append((jaxpr, frozenset((_around(jaxpr, function, sources),))))
    depth = 0
    while todo and depth <= DEEPEST:
        within: list[tuple[Jaxpr, frozenset[tuple[str, str]]]] = []
        for jaxpr, calls in todo:
            if left <= 0:
                return
            spots = [sources.spot_of(eqn.source) for eqn in jaxpr.eqns[:left]]
            left -= len(spots)
            for i, (eqn, spot) in enumerate(zip(jaxpr.eqns, spots, strict=False)):
                name = str(eqn.params.get("name", ""))
                for inner in subjaxprs(eqn.params):
                    around = {_around(inner, name, sources)} if name else set()
                    within.append((inner, calls | {spot} | around))
                last = i + 1 == len(spots) or spots[i + 1] != spot
                own = last and spot[1] and spot not in calls
                if own and len(eqn.outvars) == 1 and not isinstance(eqn.outvars[0], DropVar):
                    yield eqn.outvars[0], *spot
        todo, depth = within, depth + 1


def _around(jaxpr: Jaxpr, function: str, sources: Sources) -> tuple[str, str]:
    """The place of the traced call if the program is one equation that holds the function's program; else ('', '')."""
    if len(jaxpr.eqns) == 1 and any(True for _ in subjaxprs(jaxpr.eqns[0].params)):
        spot = sources.spot_of(jaxpr.eqns[0].source)
        if place_parts(spot[0])[2].rpartition(".")[2] != function:
            return spot
    return "", ""


def assigned(place: str, expression: str) -> str:
    """The variable to which the user's line assigns the whole expression; '' if there is none."""
    file, number, _ = place_parts(place)
    try:
        wanted = ast.dump(ast.parse(expression.strip(), mode="eval").body)
        statements = ast.walk(ast.parse(linecache.getline(file, number).strip()))
    except (SyntaxError, ValueError):  # part of a statement over several lines
        return ""
    for node in statements:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            if ast.dump(node.value) == wanted:
                return node.targets[0].id
    return ""
