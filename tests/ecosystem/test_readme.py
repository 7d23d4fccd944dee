"""README's example session shows what the terminal program prints.

``pytest --update-golden`` rewrites the answers in README.md.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"
INPUT = re.compile(r"^in \[\d+\]: (.*)$", re.MULTILINE)


def blocks() -> tuple[str, str]:
    """README's program, and the session that follows it."""
    section = README.read_text(encoding="utf-8").partition("### Watch your own program")[2]
    program, session = (re.search(rf"```{kind}\n(.*?)```", section, re.DOTALL) for kind in ("python", "text"))
    assert program is not None and session is not None
    return program[1], session[1]


def replayed(program: str, inputs: list[str], folder: Path) -> str:
    """The output of the session in the terminal program, run in a folder that contains the program."""
    (folder / "train.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "minijax", "--json", "--no-config", "--panels", "off"]
    ran = subprocess.run(command, input="\n".join(inputs), cwd=folder, capture_output=True, text=True, timeout=300)
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(answers) == len(inputs) and not any(answer["error"] for answer in answers), ran
    lines = []
    for number, (line, answer) in enumerate(zip(inputs, answers, strict=True), 1):
        lines += [f"in [{number}]: {line}", *answer["shown"].rstrip().splitlines()]
    return "\n".join(line.rstrip() for line in lines).replace(f"{folder}/", "") + "\n"


def test_readme_shows_the_answers_of_the_terminal_program(request: pytest.FixtureRequest) -> None:
    pytest.importorskip("flax")
    program, session = blocks()
    with tempfile.TemporaryDirectory() as folder:  # its path is short, so that no line wraps
        found = replayed(program, INPUT.findall(session), Path(folder))
    if request.config.getoption("--update-golden"):
        README.write_text(README.read_text(encoding="utf-8").replace(session, found), encoding="utf-8")
        return
    assert found == session
