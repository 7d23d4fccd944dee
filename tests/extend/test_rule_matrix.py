"""The matrix of primitives and interpreters is complete, and every missing rule has a reason."""

import pytest

import minijax
from minijax.core.rules import RuleTable
from minijax.extend.core import Primitive
from minijax.extend.rules import DEFAULT, MISSING, NONE, YES, known_primitives, rule_matrix
from minijax.interpreters import ad, batching, mlir
from minijax.lax import argmax_p, sin_p

from .examples import ours


def test_every_hole_has_a_reason():
    assert callable(minijax.shard_map)  # this loads the primitives of the module
    assert "psum_invariant" in {p.name for p in ours()}
    missing = rule_matrix(ours()).missing()
    assert not missing, "\n".join(f"{p} has no rule for {name}: state why in the table's holes" for p, name in missing)


def test_reasons_are_words():
    for table in RuleTable.tables:
        for p, reason in table.holes.items():
            assert len(reason) > 5, f"{table.name} of {p}: {reason!r}"
    for p, row in rule_matrix(ours()).rows.items():
        for name, cell in row.items():
            assert cell.status in (YES, DEFAULT, NONE, MISSING)
            assert (cell.rule is not None) == (cell.status == YES), f"{p}, {name}"


def test_the_matrix_is_printed_with_reasons():
    text = str(rule_matrix([sin_p, argmax_p]))
    header, sine, arg, _, *legend = text.splitlines()
    columns = header.split("  ")
    shown = [c.strip() for c in columns if c.strip()]
    assert shown[:6] == ["primitive", "evaluate", "abstract", "jvp", "vmap", "partial_eval"]
    assert sine.split()[:4] == ["sin", "yes", "yes", "yes"]
    assert "- [1]" in sine and legend[0] == "[1] not linear"
    assert "- [2]" in arg and legend[1].startswith("[2] its derivative is zero")
    assert rule_matrix([sin_p]).rows[sin_p]["jvp"].rule is ad.primitive_jvps[sin_p]


def test_a_new_primitive_appears_rule_by_rule():
    p = Primitive("appearing")
    assert p not in known_primitives()

    def missing():
        return {name for _, name in rule_matrix([p]).missing()}

    every = {"evaluate", "abstract", "jvp", "vmap", "transpose", "lower"}
    assert missing() == every
    p.def_impl(lambda x: x)
    assert p in known_primitives() and missing() == every - {"evaluate"}
    p.def_abstract_eval(lambda x: x)
    ad.deflinear2(p, lambda ct, x: [ct])
    batching.defvectorized(p)
    assert missing() == {"lower"}
    assert "MISSING" in str(rule_matrix([p]))
    mlir.register_lowering(p, lambda ctx, x: [x])
    assert missing() == set()


@pytest.mark.parametrize("name", ["evaluate", "abstract", "jvp", "vmap", "transpose", "lower"])
def test_the_reason_is_in_the_error(name):
    table = next(t for t in RuleTable.tables if t.name == name)
    p = Primitive("reasoned")
    table.holes[p] = "there is none on purpose"
    assert "(there is none on purpose)" in table.missing(p, platform="cpu")
