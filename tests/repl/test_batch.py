"""Sessions without a terminal: -c, files, pipes; what they print, where, and their exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_code_shows_values_and_panels():
    done = repl("-c", GRADIENT)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "out[2]: Array(-2.979985, dtype=float32, weak_type=True)"
    assert lines[1].startswith(" stack    eval ▸ linearize:1")
    assert any(line.startswith(" jaxpr    linear part of f") for line in lines)
    assert "\x1b" not in done.stdout


def test_panels_can_be_chosen():
    assert repl("--panels", "off", "-c", GRADIENT).stdout.count("\n") == 1
    assert " stack " not in repl("--panels", "jaxpr,time", "-c", GRADIENT).stdout
    wrong = repl("--panels", "jaxprs", "-c", "1")
    assert wrong.returncode == 2 and "not 'jaxprs'" in wrong.stderr and "Traceback" not in wrong.stderr


def test_an_error_ends_code_with_exit_code_1():
    done = repl("-c", "1/0\nprint('not reached')")
    assert done.returncode == 1 and done.stdout == ""
    assert "<minijax-1>:1 in <module>" in done.stderr and "ZeroDivisionError" in done.stderr
    assert "Traceback" not in done.stderr and "site-packages" not in done.stderr


def test_piped_input_goes_on_and_fails_at_the_end():
    done = repl(given="x = 3.0\n%grad f(\n1/0\n%grad sin(x) --check\nprint('end')\n")
    assert done.returncode == 1
    assert "agrees with finite differences" in done.stdout and done.stdout.endswith("end\n")
    assert "is none" in done.stderr and "ZeroDivisionError" in done.stderr


def test_cells_in_piped_input():
    done = repl(given="%%jaxpr x=f32[3]\ny = sin(x)\ny * 2.0\n\n7\n")
    assert done.returncode == 0, done.stderr
    assert "a:f32[3]" in done.stdout and "out[2]: 7" in done.stdout


def test_a_file(tmp_path: Path):
    path = tmp_path / "script.py"
    path.write_text('"""A module text."""\nimport math\n\n\ndef f(x):\n    return sin(x)\n\n\nfloat(grad(f)(0.0))\n')
    done = repl(str(path))
    assert done.returncode == 0, done.stderr
    assert "1.0" in done.stdout
    missing = repl(str(tmp_path / "missing.py"))
    assert missing.returncode == 2 and "cannot read" in missing.stderr and "Traceback" not in missing.stderr
    missing = repl("--as-jax", str(tmp_path / "missing.py"))
    assert missing.returncode == 2 and "minijax-repl: cannot read" in missing.stderr
    assert repl("-", given="6*7").stdout == "out[1]: 42\n"
    path.write_text("start = 40\n1/0\nstart = 1\n")
    done = repl("-i", str(path), given="start + 2\n")
    assert (done.stdout, done.returncode) == ("out[3]: 42\n", 1) and done.stderr.count("Error") == 1
    assert repl("-i", "-c", "start = 40", given="start + 2\n").stdout == "out[2]: 42\n"
    missing = repl("-i", str(tmp_path / "missing.py"), given="6*7")
    assert (missing.stdout, missing.returncode) == ("", 2) and "cannot read" in missing.stderr
    assert "give the file's name, not '-'" in repl("-i", "-", given="6*7").stderr


def test_both_a_file_and_code_or_two_codes_are_refused(tmp_path: Path):
    assert repl("-c", "1", str(tmp_path)).returncode == 2
    twice = repl("-c", "x = 1", "-c", "x")
    assert twice.returncode == 2 and "give -c once" in twice.stderr
    assert repl("--panels", "off", "-c", "1").stdout == "out[1]: 1\n"


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("exit()", 0),
        ("raise SystemExit", 0),
        ("exit(7)", 7),
        ("raise SystemExit('words')", 1),
        ("import sys; sys.exit(3)", 3),
    ],
)
def test_leaving(code: str, exit_code: int):
    done = repl("-c", code + "\nprint('not reached')")
    assert done.returncode == exit_code and done.stdout == ""
    assert done.stderr == ("words\n" if "words" in code else "")


def test_a_session_outlives_its_standard_output_set_to_none():
    done = repl(given="import sys; out, sys.stdout = sys.stdout, None\n1 + 1\n1 / 0\nsys.stdout = out\n3 + 4\n")
    assert done.stdout == "out[5]: 7\n" and "ZeroDivisionError" in done.stderr and done.returncode == 1


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("os.close(1)", "minijax-repl: cannot write: Bad file descriptor\n"),
        ("os.close(1); os.close(2)", ""),
        ("sys.stdout.close()", ""),
        ("sys.stdout.close(); sys.stderr.close()", ""),
    ],
)
def test_a_session_whose_output_was_closed_ends_without_a_traceback(code: str, said: str):
    done = repl(given=f"import os, sys\n{code}\n1 + 1\n1 / 0\n")
    assert done.stdout == "" and done.returncode == 1
    assert done.stderr == said if "sys.stdout" not in code else "minijax-repl" not in done.stderr
    assert ("ZeroDivisionError" in done.stderr) == (code == "sys.stdout.close()")


def test_x64():
    assert "float64" in repl("--x64", "-c", "jnp.ones(2)").stdout
    assert "float64" in repl("-c", "jnp.ones(2)", MINIJAX_ENABLE_X64="1").stdout


def test_colour():
    assert "\x1b[" in repl("--color", "always", "-c", GRADIENT).stdout
    assert "\x1b[" in repl("--color", "always", "-c", GRADIENT, NO_COLOR="1").stdout
    assert "\x1b[" not in repl("--color", "auto", "-c", GRADIENT).stdout


def test_version_and_help():
    version = repl("--version")
    assert version.stdout.startswith("minijax 0.") and "jax 0.10" in version.stdout
    said = repl("--help").stdout
    for option in ("-c CODE", "--x64", "--color", "--panels", "FILE", "exit code"):
        assert option in said


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


def test_nothing_of_a_terminal_is_imported_and_jax_only_to_compile():
    unwanted = ("prompt_toolkit", "pygments", "IPython", "jaxlib", "jax")
    code = f"grad(sin)(1.0);\nimport sys; print([n for n in {unwanted} if n in sys.modules])"
    assert repl("-c", code).stdout.strip().splitlines()[-1] == "[]"


@pytest.mark.parametrize("options", [(), ("-P",)])
def test_nothing_in_the_current_folder_is_run(tmp_path: Path, options: tuple[str, ...]):
    # without -P Python itself looks for sitecustomize there, before any line of ours
    early = ("sitecustomize.py",) if options else ()
    for name in (*early, "minijax_config.py", ".minijax.py", "conftest.py", "startup.py", "numpy.py", "tomllib.py"):
        (tmp_path / name).write_text("raise SystemExit('ran ' + __file__)")
    done = subprocess.run(
        [sys.executable, *options, "-m", "minijax", "-c", "1 + 1"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr, done.returncode) == ("out[1]: 2\n", "", 0)


def test_warnings_cannot_command_the_terminal():
    done = repl("-c", r"import warnings; warnings.warn('\x1b[31mred\x07')")
    assert r"UserWarning: \x1b[31mred\x07" in done.stderr and "\x1b" not in done.stderr


def test_pickle_and_inspect_find_what_was_typed():
    code = (
        "class P:\n    n = 3\n\ndef q(): return 4\n\nimport pickle, inspect\n"
        "pickle.loads(pickle.dumps(P())).n\ninspect.getsource(q)\n__name__\n"
    )
    done = repl("-c", code)
    assert done.stdout.splitlines() == ["out[4]: 3", "out[5]: 'def q(): return 4\\n'", "out[6]: '__main__'"]


def test_a_dumb_terminal_has_a_plain_prompt():
    """A pseudo-terminal that can do nothing: no escape codes, and the session works."""
    import pexpect

    child = pexpect.spawn(
        sys.executable,
        ["-m", "minijax"],
        env={**os.environ, "TERM": "dumb"},
        encoding="utf-8",
        timeout=60,
        echo=False,
    )
    child.expect_exact("in [1]: ")
    child.sendline("def f(x):")
    child.expect_exact("   ...: ")
    child.sendline("    return x * 2")
    child.expect_exact("   ...: ")
    child.sendline("")
    child.expect_exact("in [2]: ")
    child.sendline("f(21)")
    child.expect_exact("out[2]: 42")
    child.expect_exact("in [3]: ")
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert "\x1b" not in child.before


def test_no_line_of_the_script_that_starts_the_program_is_shown_as_the_users(tmp_path: Path):
    script = tmp_path / "started.py"
    script.write_text("import sys\nfrom minijax.repl.__main__ import main\nsys.exit(main())\n")
    saved = tmp_path / "saved.json"
    code = f"def f(x): return sin(x)\n%log grad(f)(3.)\n%export {saved} --recording"
    done = subprocess.run([sys.executable, str(script), "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kept = saved.read_text()
    assert "<minijax-1>:1 (f)" in kept and str(script) not in kept
