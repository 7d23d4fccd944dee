"""``python -m minijax.distributed`` without its processes: usage errors, and which process it reports as dead."""

from __future__ import annotations

import queue
import signal
from types import SimpleNamespace

import pytest

from minijax.distributed.__main__ import _first_to_die, main


def test_usage_errors_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, expected in (
        (["-n", "0", "x.py"], "0 is too few: give at least 1"),
        (["-n", "2"], "say what to run: script.py, -m MODULE or -c CODE"),
        (["x.py"], "the following arguments are required: -n/--processes"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2 and expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("codes", "number"),
    [
        ([0, 0], None),
        ([0, 3], 1),
        ([1, 3], 0),
        # a process with SIGABRT was ended by XLA, because another one had died
        ([-signal.SIGABRT, -signal.SIGKILL], 1),
        ([-signal.SIGABRT, 0, 2], 2),
        ([-signal.SIGABRT, -signal.SIGABRT], 1),
    ],
)
def test_the_first_process_to_die_is_reported(codes: list[int], number: int | None) -> None:
    ends: queue.SimpleQueue[SimpleNamespace] = queue.SimpleQueue()
    for i, code in enumerate(codes):
        ends.put(SimpleNamespace(number=i, process=SimpleNamespace(returncode=code)))
    found = _first_to_die(ends, len(codes))
    assert (found.number if found else None) == number
