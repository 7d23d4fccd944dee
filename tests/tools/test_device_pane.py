"""In a ``shard_map`` over eight devices, the stepper's devices pane shows the values that JAX computes."""

import functools

import pytest

from tests.on_devices import printed

VARIABLES = {"sent": {"a", "b", "c", "d", "e"}, "turns": {"z"}, "chosen": {"r", "w"}}


@functools.cache
def shown_there():
    """The output of ``device_screens``, from a process with eight devices."""
    found = printed("-m", "tests.tools.device_screens", quickly=True)
    return found


@pytest.mark.parametrize("program", VARIABLES)
def test_values_per_device_match_jax(program):
    differences = shown_there()[program]
    assert differences.keys() == VARIABLES[program]
    # the libraries add the eight floats of a sum in different orders
    assert max(differences.values()) < 1e-4


@pytest.mark.parametrize("program, primitive", [("sent", "all_to_all"), ("turns", "ppermute")])
def test_devices_are_shown_side_by_side(program, primitive, golden):
    # the screen after the last operation of the primitive
    lines = [lines for name, lines in shown_there()[f"screens of {program}"] if name == primitive][-1]
    golden(f"stepper/devices_{program}_{primitive}.txt", "\n".join(lines))


@pytest.mark.parametrize("program", VARIABLES)
def test_a_loaded_recording_shows_values_per_device(program):
    # a file has only the first iteration of each loop, so the pane says this for "turns", which has a loop
    assert shown_there()[f"changed {program}"] == [[], program == "turns"]


@pytest.mark.parametrize(("limit", "count"), [("MOST_CHANGES", 4), ("MOST_CHARACTERS", 0)])
def test_a_file_says_where_its_values_per_device_end(limit, count):
    whole, held, last = shown_there()["without room"][limit]
    assert held == whole[: len(held)] and (len(held) < len(whole)) and bool(held) == bool(count)
    assert "the file has no room for the values on devices from here on: %step of the call itself shows them" in last


def test_arguments_are_shown_sharded_at_the_start():
    lines = shown_there()["begins sent"]
    assert "x: f32[16,8] divided by P('data', 'model')" in lines
