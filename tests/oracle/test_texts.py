"""Calls of jnp, nn and random beside JAX: the text of their programs, and what those that are loaded late compute."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from .subject import QUICKLY, assert_same, oracle, subject
from .texts import DIFFERENT, calls, differing, function_of, operands, text

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::RuntimeWarning")

SECTIONS = calls()
(LATE,) = [section for name, section in SECTIONS.items() if "loaded" in name]
# every third of them: to compile all takes JAX ten seconds
ASKED = LATE[::3]


@pytest.mark.parametrize("section", SECTIONS)
def test_programs_are_printed_as_jax_prints_them(section: str) -> None:
    assert [call for call, _, _ in differing(SECTIONS[section]) if call not in DIFFERENT] == []


def test_nineteen_of_twenty_texts_are_equal() -> None:
    every = [call for section in SECTIONS.values() for call in section]
    assert len(set(every)) == len(every) > 300
    assert set(DIFFERENT) <= set(every) and len(DIFFERENT) <= 0.05 * len(every)


def test_what_differs_is_found() -> None:
    (found,) = differing(["jnp.power(x,i[0])"])
    assert found[1] != found[2] and "pow" in found[1]
    assert text(subject, "jnp.unique(x)") == text(oracle, "jnp.unique(x)") == "refused: it needs values"


def staged(call: str) -> bool:
    return not text(oracle, call).startswith("refused")


@cache
def expected() -> dict[str, Any]:
    """What JAX answers to the calls that it can stage, in one program."""
    chosen = [call for call in ASKED if staged(call)]
    program = lambda: {call: function_of(oracle, call)(*operands(oracle, call)) for call in chosen}  # noqa: E731
    return oracle.jit(program, compiler_options=QUICKLY)()


@pytest.mark.parametrize("call", ASKED)
def test_values(call: str) -> None:
    """Evaluated, with JAX's dtypes and weak types; an error is of JAX's kind."""
    try:
        theirs = expected()[call] if staged(call) else function_of(oracle, call)(*operands(oracle, call))
    except (TypeError, ValueError, NotImplementedError) as error:
        with pytest.raises(type(error)):
            function_of(subject, call)(*operands(subject, call))
        return
    assert_same(function_of(subject, call)(*operands(subject, call)), theirs, scale=10)
