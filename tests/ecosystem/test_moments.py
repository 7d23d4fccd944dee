"""At every moment of a recording of a real library's program the values pane shows what prints show (see
``tests/tools/moments``).
"""

from __future__ import annotations

import pytest

from tests.tools.moments.comparing import compare
from tests.tools.moments.programs import LIBRARIES, of_ecosystem

# a library's locals may be iterators, which JAX warns of
pytestmark = pytest.mark.filterwarnings("ignore:Python iterable type:DeprecationWarning")
# Of a recording of very many moments every so manyth is looked at.
STEPS = {"optax.adam": 7}


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_row_at_every_moment_is_what_a_print_shows(name: str) -> None:
    program = of_ecosystem(name)
    verdict = compare(program.record(), program.printed(), STEPS.get(name, 1))
    assert not verdict.wrong and not verdict.calls
    assert not verdict.reasons["takes long"]
    assert verdict.values >= 20
