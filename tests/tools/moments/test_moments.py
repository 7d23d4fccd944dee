"""At every moment of a recording the values pane shows what prints in the program show.

The promise: the pane has a row for each value that a variable or an expression of the program has had by that moment,
in the order in which they were made; a row shows what a print behind the assignment shows in that call (all examples,
under vmap; in a staged program what its run prints, in the turn that the heading names), a cotangent what has arrived
until the moment; and of the rows of one variable in one call the last is what it holds.

``python -m tests.tools.moments`` says how much was compared, also of programs of libraries.
"""

from __future__ import annotations

import pytest

from tests.tools.moments import watching
from tests.tools.moments.comparing import compare
from tests.tools.moments.programs import LACKING, PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_row_at_every_moment_is_what_a_print_shows(name: str) -> None:
    program = PROGRAMS[name]
    unwatched = watching.calls(program.ours(), program.module.__file__)
    recorded = program.record()
    assert recorded.watch.calls == unwatched
    verdict = compare(recorded, program.printed(), lacking=program.lacking)
    assert not verdict.wrong
    assert not verdict.calls
    assert bool(verdict.missing) == (name in LACKING)
    assert not verdict.reasons["takes long"]
    assert verdict.values > 1 or name == "make_jaxpr_of_nested_jit recorded"
