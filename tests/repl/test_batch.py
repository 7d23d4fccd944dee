"""Without a terminal, output, imports and exit codes are right for -c, files, pipes, --json and settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.repl.screen import Terminal

ROOT = Path(__file__).resolve().parents[2]
GRADIENT = "def f(x): return sin(x) * 2. - x\n\ngrad(f)(3.)"


def repl(
    *arguments: str, given: str | None = None, cwd: Path | None = None, module: bool = True, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m minijax``, or ``main`` as its console script does. The home folder is in ``cwd``, if given."""
    script = "import sys; sys.path.pop(0); from minijax.repl.__main__ import main; sys.exit(main(sys.argv[1:]))"
    ours = ("JAX_", "XDG_", "NO_COLOR")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    home = {} if cwd is None else {"PYTHONPATH": str(ROOT), "HOME": str(cwd / "home")}
    return subprocess.run(
        [sys.executable, *(("-m", "minijax") if module else ("-c", script)), *arguments],
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
        env=environment | {"COLUMNS": "80"} | home | env,
    )


def test_code_shows_values_and_panels_without_colour():
    unwanted = ("prompt_toolkit", "pygments", "IPython", "jaxlib", "jax")
    done = repl("-c", f"{GRADIENT}\nimport sys; [n for n in {unwanted} if n in sys.modules]")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "out[2]: Array(-2.979985, dtype=float32, weak_type=True)"
    assert lines[1].startswith(" stack    eval ▸ linearize:1")
    assert any(line.startswith(" jaxpr    linear part of f") for line in lines)
    # no unwanted module is imported: only prompts need terminal modules, and only compilation needs JAX
    assert lines[-1] == "out[3]: []" and "\x1b" not in done.stdout


def test_options_take_effect():
    chosen = repl("--x64", "--panels", "jaxpr,time", "--color", "always", "-c", GRADIENT, NO_COLOR="1").stdout
    assert "float64" in chosen and "\x1b[" in chosen and " stack " not in chosen
    plain = repl("--panels", "off", "--color", "auto", "-c", GRADIENT, MINIJAX_ENABLE_X64="1").stdout
    assert plain == "out[2]: Array(-2.97998499, dtype=float64, weak_type=True)\n"
    version = repl("--version")
    assert version.stdout.startswith("minijax 0.") and "jax 0.10" in version.stdout
    text = repl("--help").stdout
    for option in ("-c CODE", "--x64", "--color", "--panels", "FILE", "exit code"):
        assert option in text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--panels", "jaxprs", "-c", "1"), "not 'jaxprs'"),
        (("-c", "x = 1", "-c", "x"), "give -c once"),
        (("missing.py",), "cannot read"),
        (("--as-jax", "missing.py"), "minijax-repl: cannot read"),
        (("-i", "-"), "give the file's name, not '-'"),
    ],
)
def test_wrong_arguments_are_refused(arguments, expected):
    done = repl(*arguments)
    assert done.returncode == 2 and done.stdout == "" and expected in done.stderr and "Traceback" not in done.stderr


def test_an_error_ends_code_with_exit_code_1():
    done = repl("-c", r"import warnings; warnings.warn('\x1b[31mred\x07')" "\n1/0\nprint('not reached')")
    assert done.returncode == 1 and done.stdout == ""
    assert "<minijax-2>:1 in <module>" in done.stderr and "ZeroDivisionError" in done.stderr
    assert "Traceback" not in done.stderr and "site-packages" not in done.stderr
    # the escape codes in a warning do not reach the terminal
    assert r"UserWarning: \x1b[31mred\x07" in done.stderr and "\x1b" not in done.stderr


def test_piped_input_continues_after_an_error_and_fails_at_the_end():
    lines = (
        "x = 3.0", "%grad f(", "1/0", "%grad sin(x) --check", "%%jaxpr x=f32[3]", "y = sin(x)", "y * 2.0", "",
        "import sys; out, sys.stdout = sys.stdout, None", "1 + 1", "sys.stdout = out",
        "class P:", "    n = 3", "", "def q(): return 4", "import pickle, inspect",
        "pickle.loads(pickle.dumps(P())).n, inspect.getsource(q), __name__",
    )  # fmt: skip
    done = repl(given="\n".join(lines) + "\n")
    assert done.returncode == 1
    assert "agrees with finite differences" in done.stdout and "a:f32[3]" in done.stdout
    # pickle and inspect find classes and functions that were typed at the prompt
    assert done.stdout.endswith("(3, 'def q(): return 4\\n', '__main__')\n")
    assert "is no valid Python" in done.stderr and "ZeroDivisionError" in done.stderr


def test_a_file_runs_and_a_session_can_follow(tmp_path):
    path = tmp_path / "script.py"
    path.write_text('"""A module text."""\nimport math\n\n\ndef f(x):\n    return sin(x)\n\n\nfloat(grad(f)(0.0))\n')
    done = repl(str(path))
    assert (done.returncode, done.stdout.count("1.0")) == (0, 1), done.stderr
    path.write_text("start = 40\n1/0\nstart = 1\n")
    done = repl("-i", str(path), given="start + 2\n")
    assert (done.stdout, done.returncode) == ("out[3]: 42\n", 1) and done.stderr.count("Error") == 1


@pytest.mark.parametrize(("code", "exit_code"), [("exit()", 0), ("raise SystemExit('words')", 1), ("exit(7)", 7)])
def test_exit_sets_the_exit_code(code, exit_code):
    done = repl("-c", code + "\nprint('not reached')")
    assert done.returncode == exit_code and done.stdout == ""
    assert done.stderr == ("words\n" if "words" in code else "")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("os.close(1)", "minijax-repl: cannot write: Bad file descriptor\n"),
        ("sys.stdout.close(); sys.stderr.close()", ""),
    ],
)
def test_a_session_whose_output_was_closed_ends_without_a_traceback(code, expected):
    done = repl(given=f"import os, sys\n{code}\n1 + 1\n1 / 0\n")
    assert (done.stdout, done.stderr, done.returncode) == ("", expected, 1)


def test_a_closed_pipe_is_no_error():
    """The reader closes the pipe after one line. The program prints no traceback, and no message at exit."""
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
    """In a terminal without capabilities the program prints no escape codes, and the session works."""
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


def test_a_json_session_prints_an_object_for_each_input():
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


def test_only_json_objects_reach_standard_output():
    found, code = objects(
        "-c",
        "import os, sys\nos.write(1, b'raw')\nos.system('echo child')\nsys.stdout.write('text')\nprint('é\\ud800')",
    )
    assert code == 0
    assert [each["printed"] for each in found] == ["", "", "", "text", "é\ud800\n"]


def test_json_covers_a_failing_repr_nan_and_long_output():
    code = "class Bad:\n    def __repr__(self): raise ValueError('no')\n\nBad()\nfloat('nan')\nprint('x' * 2_000_000)\n"
    found, exit_code = objects(given=code)
    assert exit_code == 1
    assert found[1]["error"]["type"] == "ValueError"
    assert found[2]["value"] == "nan"
    assert len(found[3]["printed"]) == 1_000_000 and found[3]["printed_cut"] is True


def test_the_values_command_has_json_data():
    (_, shown), code = objects(given="def f(x):\n    y = x * 2.0\n    return y * y\n\n%values grad(f)(3.0)\n")
    assert code == 0
    rows = {row["name"]: row for row in shown["data"]}
    assert rows["x"]["primal"]["text"] == "3.0" and rows["x"]["cotangent"]["text"] == "24.0"
    assert rows["y"]["level"] == "linearize:1" and rows["y"]["tangent"] is None
    assert "primal" in shown["shown"]


# Modules that minijax or its imports may load (some are optional), and startup files of Python. The first eight are
# imported only after minijax.
NAMES = (
    "jax", "jaxlib", "jax_plugins", "libtpu", "prompt_toolkit", "pygments", "wcwidth", "minijax_config",
    "argparse", "ast", "conftest", "json", "linecache", "ml_dtypes", "numpy", "readline", "scipy", "sitecustomize",
    "startup", "tomllib", "typing", "usercustomize",
)  # fmt: skip


@pytest.mark.parametrize("module", [False, True])
def test_nothing_in_the_current_folder_is_run(tmp_path, module):
    """``python -m`` puts the current folder on the path. Later imports must not load a module from there."""
    for name in NAMES[:8] if module else NAMES:
        (tmp_path / f"{name}.py").write_text("print('RAN', __file__); raise SystemExit(9)")
    lines = "grad(sin)(1.)\njit(sin)(1.)\n%hlo sin(1.)\n%config\nprint('end')\n"
    done = repl("--color", "always", cwd=tmp_path, given=lines, module=module)
    assert done.returncode == 0 and done.stdout.endswith("end\n"), done.stdout + done.stderr
    assert "RAN" not in done.stdout + done.stderr


def test_user_modules_are_importable(tmp_path):
    (tmp_path / "mine.py").write_text("import beside\nvalue = beside.value + 1\n")
    (tmp_path / "beside.py").write_text("value = 41\n")
    (tmp_path / "numpy.py").write_text("raise SystemExit(9)")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("from package.inner import value\n")
    (tmp_path / "package" / "inner.py").write_text("value = 'inside'\n")
    code = "import mine, numpy, package\nfrom importlib import import_module\nmine.value, package.value\n"
    done = repl("-c", code + "import_module('beside').value\nimport nothing_of_this_name", cwd=tmp_path, module=False)
    assert "(42, 'inside')" in done.stdout and "out[4]: 41" in done.stdout
    assert "No module named 'nothing_of_this_name'" in done.stderr


def test_a_script_imports_modules_beside_it(tmp_path):
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "neighbour.py").write_text("value = 7\n")
    (tmp_path / "scripts" / "script.py").write_text("import neighbour\nneighbour.value\n")
    assert repl("scripts/script.py", cwd=tmp_path, module=False).stdout == "out[2]: 7\n"


def test_lines_of_the_console_script_are_not_shown_as_user_code(tmp_path):
    script = tmp_path / "started.py"
    script.write_text("import sys\nfrom minijax.repl.__main__ import main\nsys.exit(main())\n")
    saved = tmp_path / "saved.json"
    code = f"def f(x): return sin(x)\n%log grad(f)(3.)\n%export {saved} --recording"
    subprocess.run([sys.executable, str(script), "-c", code], capture_output=True, check=True)
    kept = saved.read_text()
    assert "<minijax-1>:1 (f)" in kept and str(script) not in kept


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "home" / ".config" / "minijax" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def test_options_override_the_settings_file(tmp_path, config):
    config.write_text('panels = ["time"]\nstyle = "tutorial"\ncolor = "always"\ntheme = "none"\n')
    plain = repl("-c", "grad(sin)(1.)", cwd=tmp_path, module=False)
    assert " time " in plain.stdout and " stack " not in plain.stdout and "\x1b[1m" in plain.stdout
    other = repl("--color", "never", "--panels", "stack", "-c", "grad(sin)(1.)", cwd=tmp_path, module=False)
    assert " stack " in other.stdout and " time " not in other.stdout and "\x1b" not in other.stdout
    without = repl("--no-config", "-c", "grad(sin)(1.)", cwd=tmp_path, module=False)
    assert " stack " in without.stdout and "\x1b" not in without.stdout


def test_a_bad_settings_file_causes_one_warning(tmp_path, config):
    config.write_text("panels = [")
    done = repl("-c", "6 * 7", cwd=tmp_path, module=False)
    assert done.returncode == 0 and done.stdout == "out[1]: 42\n"
    assert done.stderr.count("\n") == 1 and "are not used" in done.stderr and str(config) in done.stderr
    config.write_text('thme = "dark\\u001b[2J"\nstyle = "jax"\n')
    done = repl("-c", "6 * 7", cwd=tmp_path, module=False)
    assert "Did you mean theme?" in done.stderr and "\x1b" not in done.stderr


def test_saved_settings_come_back(tmp_path, config):
    assert repl(cwd=tmp_path, given="%config style tutorial\n%config save\n", module=False).returncode == 0
    assert config.read_text().endswith('style = "tutorial"\n') and config.stat().st_mode & 0o777 == 0o600
    assert "tutorial" in repl("-c", "%config style", cwd=tmp_path, module=False).stdout
    refused = repl("--no-config", "-c", "%config save", cwd=tmp_path, module=False)
    assert refused.returncode == 1 and "no settings file" in refused.stderr


def test_a_theme_sets_the_colours(tmp_path):
    env = {"COLORFGBG": "15;0", "COLORTERM": "truecolor"}
    done = repl("--color", "always", "--theme", "auto", "-c", "make_jaxpr(sin)(1.)", cwd=tmp_path, **env, module=False)
    assert "\x1b[38;2;130;170;255;1msin" in done.stdout


@pytest.mark.parametrize("given", [None, "7"])
def test_openblas_threads_sleep_soon_and_children_do_not_inherit_the_setting(tmp_path, given):
    """The environment variable is set only while NumPy is imported. A value that the user has set stays."""
    name = "OPENBLAS_THREAD_TIMEOUT"
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "class Seen:\n"
        "    def find_spec(self, module, path=None, target=None):\n"
        f"        if module == 'numpy': os.environ['SEEN'] = os.environ.get('{name}', '')\n"
        "sys.meta_path.insert(0, Seen())\n"
    )
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    code = f"import gc, os; print(os.environ['SEEN'], os.environ.get('{name}'), gc.isenabled())"
    env = {"PYTHONPATH": path} | ({} if given is None else {name: given})
    done = repl("-c", code, cwd=tmp_path, module=True, **env)
    assert done.stdout.split() == ["20" if given is None else given, str(given), "True"], done.stderr


def test_the_banner_lists_xlas_devices(tmp_path):
    line = "from minijax.repl import batch; print(batch.devices(), len(minijax.devices()), batch.devices())"
    env = {"XLA_FLAGS": "--xla_force_host_platform_device_count=3", "JAX_PLATFORMS": "cpu"}
    assert repl("-c", line, cwd=tmp_path, **env, module=False).stdout == "cpu ×3 3 cpu ×3\n"


# input -> its output. Except for the first, the inputs read names whose modules are imported lazily.
LATE_NAMES = {
    "import sys; x = grad(sin)(0.) + jnp.ones(3); print('minijax.api.shard_map' in sys.modules)": "False",
    "print(polyval(array([2., 1.]), 3.))": "7.0",
    "print(nn.relu(-1.))": "0.0",
    "def f(x): return searchsorted(x, 2.5)\nprint(f(arange(5.)))": "3",
    "sin = 3\nprint(nn.relu(-1.), sin)": "0.0 3",
    "polyval = 3\nprint(polyval)\ntaken = hessian\nprint(polyval)": "3\n3",
}


def test_a_line_imports_the_modules_of_its_names(tmp_path):
    done = repl("--panels", "off", "-c", "\n".join(LATE_NAMES), cwd=tmp_path, module=False)
    assert done.stdout == "\n".join(LATE_NAMES.values()) + "\n", done.stderr
