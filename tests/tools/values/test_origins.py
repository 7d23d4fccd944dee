"""Where values come from: the slices of recordings beside a dependence analysis of the staged jaxpr."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import minijax
import minijax.numpy as jnp
from minijax.tools.values import slices
from minijax.tools.values.origins import Ran
from minijax.tools.values.replay import replay
from tests.tools import recorded_programs
from tests.tools.values import dependence
from tests.tools.values.origin_programs import DISCHARGED, PROGRAMS
from tests.tools.values.slicing import check_slices


def returning() -> dict[str, Callable[..., Any]]:
    """The programs that are recorded elsewhere, each giving what its last line computes."""
    tree = ast.parse(inspect.getsource(recorded_programs))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in recorded_programs.PROGRAMS:
            for body in (node.body, *[each.body for each in node.body if isinstance(each, ast.Try)]):
                if isinstance(body[-1], ast.Expr):
                    body[-1] = ast.copy_location(ast.Return(body[-1].value), body[-1])
    names = {"__name__": recorded_programs.__name__, "__file__": recorded_programs.__file__}
    exec(compile(ast.fix_missing_locations(tree), recorded_programs.__file__, "exec", dont_inherit=True), names)
    return {name: names[name] for name in recorded_programs.PROGRAMS}  # type: ignore[misc]


RECORDED = returning()
# these give no array: a failure, and a jaxpr
WITHOUT_RESULT = {"error_inside_a_rule", "make_jaxpr_of_nested_jit"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_slices_of_recordings_are_what_the_jaxpr_says(name: str) -> None:
    fun, staged, args = PROGRAMS[name]
    assert check_slices(fun, staged, [jnp.asarray(x) for x in args], operations_too=name not in DISCHARGED)


@pytest.mark.parametrize("name", sorted(set(RECORDED) - WITHOUT_RESULT))
def test_slices_of_recorded_programs_are_what_the_jaxpr_says(name: str) -> None:
    assert check_slices(RECORDED[name], RECORDED[name], [])


@pytest.mark.parametrize("name", PROGRAMS)
def test_slices_of_a_program_are_what_it_depends_on(name: str) -> None:
    _, staged, args = PROGRAMS[name]
    args = [jnp.asarray(x) for x in args]
    closed = minijax.make_jaxpr(staged)(*args)
    known = Ran(replay(closed, args))
    for i, depends in enumerate(dependence.dependence(closed, args)):
        inputs, operations = dependence.counted(depends)
        uses, wanted = slices.slice_program(closed.jaxpr, frozenset({i}), known)
        assert {closed.jaxpr.invars.index(var) for var in wanted if var in closed.jaxpr.invars} == inputs
        eqns = [eqn for use in uses for eqn in (slices.innermost(use.parts) if use.parts else [use.eqn])]
        assert Counter(eqn.primitive.name for eqn in eqns) == sum_by_primitive(operations)


def sum_by_primitive(operations: Counter[tuple[str, str]]) -> Counter[str]:
    """How often each primitive occurs."""
    out: Counter[str] = Counter()
    for (primitive, _), count in operations.items():
        out[primitive] += count
    return out
