"""The sampled suite: without arguments, pytest runs a fixed part of the rows of each parametrised test.

In: the tests that pytest collected, and the number of the slice (``--sample K``, else 0). Out: the tests to run.
Invariants: a hash of the test's node id decides, so a slice is the same in every run and worker; every test
function except those of ``LONG`` keeps at least one row; the slices 0, 1, 2, ..., as many as the largest rate, together
hold every row; a run that names a path, ``-k`` or ``-m`` is not sampled. ``python -m tests.all`` runs everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar
from zlib import crc32

# Name of a folder, a file or a test function (FILE::FUNCTION) below tests/ -> n: one row in n is run. The longest
# matching name decides; the default is 1. These rates keep the sampled suite within five minutes on two cores.
RATES: dict[str, int] = {
    "api": 4,
    "backend": 3,
    "browser": 2,
    "claims/test_nans.py": 10,
    "core": 3,
    "ecosystem": 3,
    "ecosystem/test_commands.py": 8,
    "experimental": 3,
    "extend": 6,
    "interop": 4,
    "interpreters": 8,
    "ir": 4,
    "numpy": 16,
    "ops": 6,
    "oracle": 12,
    "programs": 4,
    "repl": 3,
    "sharded": 3,
    "test_bad_input.py": 8,
    "test_config.py": 3,
    "test_pytree.py": 6,
    "tools": 5,
    "tools/test_commands.py": 12,
}

# Test functions that have one row and take two seconds or more. Each runs only in one slice of four.
LONG = (
    "api/test_pmap.py::test_collectives_and_nested_maps_work_on_four_devices",
    "api/test_random_programs.py::test_random_programs_match_jax",
    "backend/test_distributed.py::test_a_process_that_dies_ends_the_others_in_time",
    "backend/test_distributed.py::test_ctrl_c_ends_all_processes",
    "backend/test_distributed.py::test_programs_over_a_mesh_agree_on_one_two_and_four_processes",
    "browser/test_nbconvert.py::test_every_magic_shows_something_and_none_fails",
    "docs/test_site.py::test_every_page_is_written_and_every_block_is_on_it",
    "interop/test_borrowed.py::test_function_params_are_freed_and_unhashable_params_are_refused",
    "interop/test_programs.py::test_programs_of_the_tables_survive_a_round_trip",
    "ipython/test_extension.py::test_a_bare_step_opens_at_the_exception_of_the_last_cell",
    "ipython/test_extension.py::test_output_of_a_long_program_is_bounded_and_says_so",
    "oracle/test_counted.py::test_summary_counts_match_the_rules",
    "oracle/test_primitives.py::test_staged_programs_match_jax",
    "oracle/test_primitives.py::test_values_match_jax_under_every_transformation",
    "repl/test_fuzz.py::test_generated_lines_cause_no_fault",
    "repl/test_terminal.py::test_ctrl_c_returns_the_prompt_during_compilation",
    "repl/test_terminal.py::test_ctrl_c_keeps_a_recording",
    "repl/test_terminal.py::test_screens_of_a_whole_session_match_the_golden_file",
    "sharded/test_beside_jax.py::test_programs_of_sharded_arrays_are_converted_and_parsed",
    "sharded/test_explicit_rows.py::test_derivatives_of_reduced_and_replicated_values_agree",
    "sharded/test_mapped.py::test_programs_match_jax",
    "sharded/test_beside_jax.py::test_results_and_shardings_match_jax",
    "sharded/test_beside_jax.py::test_cells_of_a_page_match_jax",
    "sharded/test_beside_jax.py::test_reasons_of_collectives_match_jax",
    "sharded/test_training.py::test_every_chosen_program_ran",
    "test_config.py::test_default_devices_and_transfer_guards_match_jax",
    "test_sharding.py::test_programs_on_sharded_arrays_match_jax",
    "tools/xla/test_collectives.py::test_collectives_are_ascribed_to_equations_with_a_reason",
    "tools/test_explain_keys.py::test_each_element_of_a_batch_is_a_key",
    "tools/test_explain_nan.py::test_a_hint_fits_the_operation",
)
LONG_RATE = 4


class Test(Protocol):
    """The attributes of a pytest item that sampling uses."""

    @property
    def nodeid(self) -> str: ...


T = TypeVar("T", bound=Test)


def function_of(nodeid: str) -> str:
    """The name of the test function, without the row."""
    return nodeid.partition("[")[0]


def prefixes(function: str) -> Iterator[str]:
    """The function's name and the paths above it, longest first: ``tools/x.py::test_y``, ``tools/x.py``, ``tools``."""
    name = function.removeprefix("tests/")
    yield name
    path = name.partition("::")[0]
    while path:
        yield path
        path = path.rpartition("/")[0]


def rate_of(function: str) -> int:
    return next((RATES[prefix] for prefix in prefixes(function) if prefix in RATES), 1)


def sampled(tests: Sequence[T], number: int) -> tuple[list[T], list[T]]:
    """(the tests of slice ``number``, in order; all other tests)."""
    rows: dict[str, list[T]] = {}
    for test in tests:
        rows.setdefault(function_of(test.nodeid), []).append(test)
    kept: set[str] = set()
    for function, of_function in rows.items():
        rate = rate_of(function)
        chosen = [test.nodeid for test in of_function if crc32(test.nodeid.encode()) % rate == number % rate]
        if (name := function.removeprefix("tests/")) in LONG:
            chosen = [test.nodeid for test in of_function if LONG.index(name) % LONG_RATE == number % LONG_RATE]
        elif not chosen:
            ordered = sorted(test.nodeid for test in of_function)
            chosen = [ordered[number % len(ordered)]]
        kept.update(chosen)
    return [test for test in tests if test.nodeid in kept], [test for test in tests if test.nodeid not in kept]
