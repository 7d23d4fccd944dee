"""The jaxprs of all constructs equal golden files; constructs that JAX has too print the same text in JAX."""

import jax
import pytest

import minijax
from minijax.core.trace import stack_depth
from minijax.ir.pretty import format_jaxpr
from minijax.ir.typecheck import typecheck_jaxpr
from tests.ir.constructs import DIFFERENT_IN_JAX, programs

OURS, JAX = programs(minijax), programs(jax)


@pytest.mark.parametrize("name", OURS)
def test_jaxprs_match_golden_files(name, golden):
    function, args = OURS[name]
    closed = minijax.make_jaxpr(function)(*args)
    typecheck_jaxpr(closed)
    assert stack_depth() == 0
    golden(f"jaxpr_{name}.txt", str(closed))


@pytest.mark.parametrize("name", [name for name in OURS if name not in DIFFERENT_IN_JAX])
def test_jaxprs_print_as_in_jax(name):
    ours = minijax.make_jaxpr(OURS[name][0])(*OURS[name][1])
    theirs = jax.make_jaxpr(JAX[name][0])(*JAX[name][1])
    for width in (40, 80, 120, 200):
        assert format_jaxpr(ours, width=width) == theirs.pretty_print(width=width, use_color=False)
