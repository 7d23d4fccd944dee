"""The user's names of jaxpr variables, for programs staged during a recording."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, Var, subjaxprs
from minijax.tools.documents.words import shortened
from minijax.tools.recording.log import without_parameters
from minijax.tools.recording.naming import MOST_NAME, Naming, naming_of
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import Recording

T = TypeVar("T")


def legal(name: str) -> str:
    """A name as one word: ``params.w`` for ``params['w']``; '' if it does not begin with a letter or ``_``."""
    return re.sub(r"[^\w.]+", ".", name).strip(".") if name[:1].isalpha() or name[:1] == "_" else ""


def variable_name(naming: Naming, number: int) -> str:
    """The name of a tracer's variable: ``h`` for the primal or a batch of ``h``, ``h_dot`` for its tangent; '' if
    no variable of the user held it.
    """
    dots = ""
    for role, each in naming.path(number):
        dots += "_dot" * (role == "tangent")
        found = naming.variable(each)
        if found:
            word = legal(found)
            return word + dots if word else ""
    return ""


def variable_names(recording: Recording) -> dict[Var, str]:
    """The user's names of variables in programs that were staged during ``recording``; the result is cached."""
    kept = recording.__dict__.get("_variable_names")
    if kept is not None:
        return dict(kept)
    naming = naming_of(recording)
    out: dict[Var, str] = {}
    for number, var in recording.kept.variables.items():
        # for a tracer of linearize, ``var`` is the variable of the tangent
        life = naming.life(number)
        tangent = life is not None and any(key == "tangent" for key, _ in life.tracer.fields[1:])
        name = variable_name(naming, number)
        if name and var not in out:
            out[var] = f"{name}_dot" if tangent else name
    recording.__dict__["_variable_names"] = out
    return dict(out)


def letter_names(recording: Recording, scope: int) -> dict[str, str]:
    """Letter in an interpreter's program -> the user's name of this variable, made unique."""
    naming = naming_of(recording)
    out: dict[str, str] = {}
    count: dict[str, int] = {}
    for (where, letter), number in naming.lettered.items():
        life = naming.life(number) if where == scope else None
        if life is None:
            continue
        name = variable_name(naming, number)
        if name:
            name += "_dot" * (life.tracer.fields[-1][0] == "tangent")
            out[letter] = f"{name}.{count[name]}" if name in count else name
            count[name] = count.get(name, 0) + 1
    return out


# Literals that look like variables.
_LITERALS = frozenset(("nan", "inf", "True", "False"))


def with_names(text: str, primitive: str, names: Mapping[str, str]) -> str:
    """The text of an equation with names in place of letters. A letter that equals a name gets a prime."""
    head, equals, rest = text.partition(f" = {primitive}")
    if not equals:
        return text
    bare = without_parameters(text, primitive)[len(head) + len(equals) :]
    parameters = rest[: len(rest) - len(bare)]

    taken = frozenset(names.values())

    def named(word: str) -> str:
        letter, colon, kind = word.partition(":")
        if letter in _LITERALS:
            return word
        return names.get(letter, f"{letter}'" if letter in taken else letter) + colon + kind

    return " ".join(map(named, head.split(" "))) + equals + parameters + " ".join(map(named, bare.split(" ")))


def variable_labels(recording: Recording) -> dict[Var, str]:
    """As ``variable_names``, but names are as the user writes them; unnamed values have expressions (``d / p``)."""
    naming = naming_of(recording)
    out: dict[Var, str] = {}
    for number, var in recording.kept.variables.items():
        life = naming.life(number)
        if life is not None and any(key == "tangent" for key, _ in life.tracer.fields[1:]):
            continue
        for role, each in naming.path(number):
            found = naming.variable(each) or naming.expressions.get(each, "")
            if role == "tangent":
                break
            if found:
                out.setdefault(var, shortened(found, MOST_NAME))
                break
    return out


def recorded_names(call: Callable[[], T]) -> tuple[T, dict[Var, str]]:
    """The result of ``call``, and the names of the variables of programs that ``call`` stages."""
    __tracebackhide__ = True
    recorder = Recorder("full", retrace=True)
    with recorder:
        value = call()
    return value, variable_names(recorder.recording)


def names_within(jaxpr: Jaxpr | ClosedJaxpr, known: Mapping[Var, str]) -> dict[Var, str]:
    """The ``known`` names of a program's variables, made unique: the first is ``z``, the next ``z.1``."""
    out: dict[Var, str] = {}
    taken: set[str] = set()
    count: dict[str, int] = {}
    for var in _variables(jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr):
        name = known.get(var, "")
        if not name or var in out:
            continue
        unique = name
        while unique in taken:
            count[name] = count.get(name, 0) + 1
            unique = f"{name}.{count[name]}"
        taken.add(unique)
        out[var] = unique
    return out


def _variables(root: Jaxpr) -> Iterator[Var]:
    """All variables of a program, including inner programs."""
    done: set[int] = set()
    todo: list[Jaxpr] = [root]
    while todo:
        jaxpr = todo.pop()
        if id(jaxpr) in done:
            continue
        done.add(id(jaxpr))
        yield from jaxpr.constvars
        yield from jaxpr.invars
        for eqn in jaxpr.eqns:
            yield from eqn.outvars
            todo += subjaxprs(eqn.params)
