"""README's blocks run, and print what README shows. ``tests/ecosystem/test_readme.py`` runs its first session."""

from __future__ import annotations

import re
from itertools import groupby

from docs.site.blocks import Blocks
from minijax.core.trace import reset_stack
from minijax.repl.batch import Page, new_session
from minijax.repl.keys import PANEL_KEYS
from tests.docs.pages import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r"[iI]n \[\d+\](?::| \S+ ›) (.*)")
MORE = re.compile(r" +\.\.\.: (.*)")

# The widths of the terminals in which README's sessions were run.
WIDTHS = (98, 80)


def blocks(kind: str, after: str) -> list[str]:
    """The code blocks of one kind after a heading."""
    return [code for found, code in FENCE.findall(README.partition(after)[2]) if found == kind]


def entries(session: str) -> list[tuple[str, list[str]]]:
    """The inputs of a session, each with its output lines."""
    found: list[tuple[str, list[str]]] = []
    for line in session.splitlines():
        if match := PROMPT.fullmatch(line):
            found.append((match[1], []))
        elif (match := MORE.fullmatch(line)) and not found[-1][1]:
            found[-1] = (f"{found[-1][0]}\n{match[1]}", [])
        else:
            found[-1][1].append(line)
    return found


def even(line: str) -> str:
    """A line with ``T`` for each time and at most two spaces in a row: times and spaces vary."""
    line = re.sub(r"\d[\d.]* (?:ms|µs|s)\b", "T", line)
    return re.sub(r" {2,}", "  ", line).rstrip()


def pattern(lines: list[str]) -> str:
    """A regular expression for these lines; a line ``...`` matches any number of lines."""
    parts = (
        ["(?:.*\n)*?"] if left_out else [re.escape(even(line)) + "\n" for line in group]
        for left_out, group in groupby(lines, lambda line: line.strip() == "...")
    )
    return "".join(piece for part in parts for piece in part)


def test_readme_sessions_give_the_shown_output():
    sessions = [each for each in blocks("text", "### Learn how it works") if each.startswith("in [")]
    session = new_session({})
    session.settings.panel_keys = dict(PANEL_KEYS)
    compared = 0
    try:
        inputs = [(*entry, width) for each, width in zip(sessions, WIDTHS, strict=True) for entry in entries(each)]
        for code, lines, width in inputs:
            outcome = session.run_line(code)
            assert outcome.error is None, (code, outcome.error)
            shown = "".join(even(line) + "\n" for line in Page().shown(outcome, width).splitlines())
            if lines:
                assert re.fullmatch(pattern(lines), shown), (code, shown, lines)
                compared += len(lines)
    finally:
        session.live.drop_all()
        reset_stack()
    assert compared > 30


def test_readme_cells_run():
    (session,) = (each for each in blocks("text", "In IPython or a notebook:") if each.startswith("In ["))
    with Blocks("README.md") as page:
        shown = [page.run("ipython", [], code) for code, _ in entries(session)]
    assert len(shown) == 5 and "agrees" in shown[2] and "mul" in shown[3] and "mjw-static" in shown[4]


def test_the_program_runs_and_prints_its_jaxpr():
    (program,) = blocks("python", "As a library, it is JAX")
    with Blocks("README.md") as page:
        assert "lambda" in page.run("python", [], program).partition('class="printed"')[2]


def test_readme_commands_match_ci():
    install, documentation, test = blocks("sh", "# minijax")
    assert documentation == ".venv-test/bin/python -m docs\n"  # built by ``tests.docs.pages.built``
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for line, read in ((install, "readme_first_command"), (test, "readme_test_command")):
        (reads,) = re.findall(rf"{read}\(\) {{.*?grep -E -- '(.*?)'", ci, re.DOTALL)
        assert len(re.findall(reads, README, re.MULTILINE)) == 1 and re.search(reads, line)
        assert f'"$({read})"' in ci or f"=$({read})" in ci
