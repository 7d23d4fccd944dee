"""Sessions without a terminal: -c, files, pipes, --json; what they print, where, and their exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.repl.screen import Terminal

GRADIENT = "def f(x): return sin(x) * 2. - x\n\ngrad(f)(3.)"


def repl(*arguments: str, given: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "NO_COLOR"))}
    return subprocess.run(
        [sys.executable, "-m", "minijax", *arguments],
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        text=True,
        timeout=120,
        env=environment | {"COLUMNS": "80"} | env,
    )


def test_code_shows_values_and_panels_without_colour():
    unwanted = ("prompt_toolkit", "pygments", "IPython", "jaxlib", "jax")
    done = repl("-c", f"{GRADIENT}\nimport sys; [n for n in {unwanted} if n in sys.modules]")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "out[2]: Array(-2.979985, dtype=float32, weak_type=True)"
    assert lines[1].startswith(" stack    eval ▸ linearize:1")
    assert any(line.startswith(" jaxpr    linear part of f") for line in lines)
    # nothing of a terminal is imported, and JAX only to compile
    assert lines[-1] == "out[3]: []" and "\x1b" not in done.stdout


def test_options():
    chosen = repl("--x64", "--panels", "jaxpr,time", "--color", "always", "-c", GRADIENT, NO_COLOR="1").stdout
    assert "float64" in chosen and "\x1b[" in chosen and " stack " not in chosen
    plain = repl("--panels", "off", "--color", "auto", "-c", GRADIENT, MINIJAX_ENABLE_X64="1").stdout
    assert plain == "out[2]: Array(-2.97998499, dtype=float64, weak_type=True)\n"
    version = repl("--version")
    assert version.stdout.startswith("minijax 0.") and "jax 0.10" in version.stdout
    said = repl("--help").stdout
    for option in ("-c CODE", "--x64", "--color", "--panels", "FILE", "exit code"):
        assert option in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--panels", "jaxprs", "-c", "1"), "not 'jaxprs'"),
        (("-c", "x = 1", "-c", "x"), "give -c once"),
        (("missing.py",), "cannot read"),
        (("--as-jax", "missing.py"), "minijax-repl: cannot read"),
        (("-i", "-"), "give the file's name, not '-'"),
    ],
)
def test_wrong_arguments_are_refused(arguments, said):
    done = repl(*arguments)
    assert done.returncode == 2 and done.stdout == "" and said in done.stderr and "Traceback" not in done.stderr


def test_an_error_ends_code_with_exit_code_1():
    done = repl("-c", r"import warnings; warnings.warn('\x1b[31mred\x07')" "\n1/0\nprint('not reached')")
    assert done.returncode == 1 and done.stdout == ""
    assert "<minijax-2>:1 in <module>" in done.stderr and "ZeroDivisionError" in done.stderr
    assert "Traceback" not in done.stderr and "site-packages" not in done.stderr
    # a warning cannot command the terminal
    assert r"UserWarning: \x1b[31mred\x07" in done.stderr and "\x1b" not in done.stderr


def test_piped_input_goes_on_and_fails_at_the_end():
    lines = (
        "x = 3.0", "%grad f(", "1/0", "%grad sin(x) --check", "%%jaxpr x=f32[3]", "y = sin(x)", "y * 2.0", "",
        "import sys; out, sys.stdout = sys.stdout, None", "1 + 1", "sys.stdout = out",
        "class P:", "    n = 3", "", "def q(): return 4", "import pickle, inspect",
        "pickle.loads(pickle.dumps(P())).n, inspect.getsource(q), __name__",
    )  # fmt: skip
    done = repl(given="\n".join(lines) + "\n")
    assert done.returncode == 1
    assert "agrees with finite differences" in done.stdout and "a:f32[3]" in done.stdout
    # pickle and inspect find what was typed
    assert done.stdout.endswith("(3, 'def q(): return 4\\n', '__main__')\n")
    assert "is none" in done.stderr and "ZeroDivisionError" in done.stderr


def test_a_file(tmp_path):
    path = tmp_path / "script.py"
    path.write_text('"""A module text."""\nimport math\n\n\ndef f(x):\n    return sin(x)\n\n\nfloat(grad(f)(0.0))\n')
    done = repl(str(path))
    assert (done.returncode, done.stdout.count("1.0")) == (0, 1), done.stderr
    path.write_text("start = 40\n1/0\nstart = 1\n")
    done = repl("-i", str(path), given="start + 2\n")
    assert (done.stdout, done.returncode) == ("out[3]: 42\n", 1) and done.stderr.count("Error") == 1


@pytest.mark.parametrize(("code", "exit_code"), [("exit()", 0), ("raise SystemExit('words')", 1), ("exit(7)", 7)])
def test_leaving(code, exit_code):
    done = repl("-c", code + "\nprint('not reached')")
    assert done.returncode == exit_code and done.stdout == ""
    assert done.stderr == ("words\n" if "words" in code else "")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("os.close(1)", "minijax-repl: cannot write: Bad file descriptor\n"),
        ("sys.stdout.close(); sys.stderr.close()", ""),
    ],
)
def test_a_session_whose_output_was_closed_ends_without_a_traceback(code, said):
    done = repl(given=f"import os, sys\n{code}\n1 + 1\n1 / 0\n")
    assert (done.stdout, done.stderr, done.returncode) == ("", said, 1)


def test_a_closed_pipe_is_no_error():
    """The reader leaves after one line; neither a traceback nor a complaint at exit."""
    program = subprocess.Popen(
        [sys.executable, "-m", "minijax", "-c", "while True: print('word ' * 100)"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None and program.stderr is not None
    assert program.stdout.readline().startswith("word")
    program.stdout.close()
    assert program.wait(60) == 1
    assert program.stderr.read() == ""


def test_a_dumb_terminal_has_a_plain_prompt():
    """A pseudo-terminal that can do nothing: no escape codes, and the session works."""
    terminal = Terminal(env={"TERM": "dumb"})
    terminal.wait_for_prompt(1)
    terminal.send("def f(x):\r    return x * 2\r\r")
    terminal.wait_for_prompt(2)
    assert "out[2]: 42" in terminal.enter("f(21)")
    assert terminal.leave() == 0 and "\x1b" not in terminal.raw


FIELDS = {"format", "number", "input", "value", "shown", "printed", "error", "panels"}


def objects(*arguments: str, given: str | None = None) -> tuple[list[dict[str, Any]], int]:
    done = repl("--json", *arguments, given=given)
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


def test_a_session():
    found, code = objects(
        given="def f(x): return sin(x) * 2. - x\ngrad(f)(3.)\nprint('a\\nb'); 7\n1 / 0\n%hlp\njit(f)(3.)\n"
    )
    assert code == 1
    assert [each["number"] for each in found] == [1, 2, 3, 4, 5, 6]
    assert all(each.keys() == FIELDS and each["format"] == 1 for each in found)
    definition, grad, printing, error, usage, jit = found
    assert definition["value"] is None and definition["panels"] is None and definition["error"] is None
    assert grad["value"] == grad["shown"] == "Array(-2.979985, dtype=float32, weak_type=True)"
    panels = grad["panels"]
    assert panels["stack"] == ["eval", "linearize:1"] and panels["binds"]["linearize:1"] > 0
    assert panels["jaxprs"][0]["kind"] == "linear" and "mul" in panels["jaxprs"][0]["text"]
    assert panels["tracers"][0]["level"] == "linearize:1" and panels["tracers"][0]["type"] == "f32[]"
    assert panels["time"].keys() == {"linearize", "transpose"} and panels["truncated"] is False
    assert printing["printed"] == "a\nb\n" and printing["value"] == "7"
    assert error["error"] == {"type": "ZeroDivisionError", "message": "division by zero", "place": "<minijax-4>:1"}
    assert usage["error"]["type"] == "UsageError" and "Did you mean" in usage["shown"]
    assert jit["panels"]["hlo"] == [{"name": "f", "before": jit["panels"]["hlo"][0]["before"], "after": {"fusion": 1}}]
    assert jit["panels"]["cache"][0]["hit"] is False and jit["panels"]["cache"][0]["reason"] == "first call"


def test_nothing_else_reaches_standard_output():
    found, code = objects(
        "-c",
        "import os, sys\nos.write(1, b'raw')\nos.system('echo child')\nsys.stdout.write('text')\nprint('é\\ud800')",
    )
    assert code == 0
    assert [each["printed"] for each in found] == ["", "", "", "text", "é\ud800\n"]


def test_odd_values():
    code = "class Bad:\n    def __repr__(self): raise ValueError('no')\n\nBad()\nfloat('nan')\nprint('x' * 2_000_000)\n"
    found, exit_code = objects(given=code)
    assert exit_code == 1
    assert found[1]["error"]["type"] == "ValueError"
    assert found[2]["value"] == "nan"
    assert len(found[3]["printed"]) == 1_000_000 and found[3]["printed_cut"] is True


def test_values_are_data_for_programs():
    (_, shown), code = objects(given="def f(x):\n    y = x * 2.0\n    return y * y\n\n%values grad(f)(3.0)\n")
    assert code == 0
    rows = {row["name"]: row for row in shown["data"]}
    assert rows["x"]["primal"]["text"] == "3.0" and rows["x"]["cotangent"]["text"] == "24.0"
    assert rows["y"]["level"] == "linearize:1" and rows["y"]["tangent"] is None
    assert "primal" in shown["shown"]
