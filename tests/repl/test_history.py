"""The history file is private, bounded, and shared by concurrent sessions; its errors never stop a session."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from minijax.repl.history import BoundedHistory, history_path


def entries(history: BoundedHistory) -> list[str]:
    """The entries of the history, oldest first."""
    return list(history.load_history_strings())[::-1]


def test_entries_come_back_whole(tmp_path):
    path = tmp_path / "new" / "history"
    inputs = ["x = 1", "def f(x):\n    return 'é\\n'", "%grad f(3.0)"]
    history = BoundedHistory(path)
    for each in inputs:
        history.store_string(each)
    path.chmod(0o644)  # a file that others can read
    assert entries(BoundedHistory(path)) == inputs
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_empty_lines_and_lines_with_a_leading_space_are_not_saved(tmp_path):
    history = BoundedHistory(tmp_path / "history")
    for each in (" password = 'x'", "", "   "):
        history.store_string(each)
    assert entries(history) == []


def test_the_history_is_bounded(tmp_path):
    path = tmp_path / "history"
    history = BoundedHistory(path, most=10)
    for i in range(100):
        history.store_string(f"x = {i}")
    assert entries(BoundedHistory(path, most=10)) == [f"x = {i}" for i in range(90, 100)]
    assert len(path.read_text().splitlines()) == 10


def test_a_damaged_line_loses_only_itself(tmp_path):
    path = tmp_path / "history"
    path.write_bytes(b'"one"\n"tw\n\xff\xfe\n3\n"four"\n')
    assert entries(BoundedHistory(path)) == ["one", "four"]


def test_concurrent_sessions_lose_no_entries(tmp_path):
    code = (
        "import sys; from pathlib import Path; from minijax.repl.history import BoundedHistory\n"
        "h = BoundedHistory(Path(sys.argv[1]))\n"
        "for i in range(200): h.store_string(f'{sys.argv[2]} {i}\\n' + 'y' * 2000)\n"
    )
    path = tmp_path / "history"
    programs = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "ab"]
    assert [program.wait(60) for program in programs] == [0, 0]
    found = entries(BoundedHistory(path))
    for name in "ab":
        assert [e.split("\n")[0] for e in found if e.startswith(name)] == [f"{name} {i}" for i in range(200)]


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/self").exists(), reason="needs a folder nobody can write to")
def test_without_a_writable_file_the_session_keeps_its_own_history():
    history = BoundedHistory(Path("/proc/self/no/history"))
    assert "not kept" in history.problem
    history.store_string("x")
    assert entries(history) == []


def test_the_history_file_is_in_the_state_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert history_path() == tmp_path / "minijax" / "history"
    monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert history_path() == tmp_path / ".local" / "state" / "minijax" / "history"
