"""What happens at the start: settings, options over them, and that nothing in the current folder is run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Names of modules that minijax or what it imports might look for, also optional ones, and files that others run. The
# first ones are not imported before minijax is.
NAMES = (
    "jax", "jaxlib", "jax_plugins", "libtpu", "prompt_toolkit", "pygments", "wcwidth", "minijax_config",
    "argparse", "ast", "conftest", "json", "linecache", "ml_dtypes", "numpy", "readline", "scipy", "sitecustomize",
    "startup", "tomllib", "typing", "usercustomize",
)  # fmt: skip


def run(
    *arguments: str, cwd: Path, given: str = "", module: bool = False, **env: str
) -> subprocess.CompletedProcess[str]:
    """The program as its console script starts it, or as ``python -m minijax``."""
    start = "import sys; sys.path.pop(0); from minijax.repl.__main__ import main; sys.exit(main(sys.argv[1:]))"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XDG_"))}
    return subprocess.run(
        [sys.executable, *(("-m", "minijax") if module else ("-c", start)), *arguments],
        input=given,
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
        env=environment | {"PYTHONPATH": str(ROOT), "COLUMNS": "80", "HOME": str(cwd / "home")} | env,
    )


@pytest.mark.parametrize("module", [False, True])
def test_nothing_in_the_current_folder_is_run(tmp_path, module):
    """``python -m`` puts the folder on the path; what is loaded later must not come from it."""
    for name in NAMES[:8] if module else NAMES:
        (tmp_path / f"{name}.py").write_text("print('RAN', __file__); raise SystemExit(9)")
    lines = "grad(sin)(1.)\njit(sin)(1.)\n%hlo sin(1.)\n%config\nprint('end')\n"
    done = run("--color", "always", cwd=tmp_path, given=lines, module=module)
    assert done.returncode == 0 and done.stdout.endswith("end\n"), done.stdout + done.stderr
    assert "RAN" not in done.stdout + done.stderr


def test_the_users_own_modules_are_found_when_the_user_asks(tmp_path):
    (tmp_path / "mine.py").write_text("import beside\nvalue = beside.value + 1\n")
    (tmp_path / "beside.py").write_text("value = 41\n")
    (tmp_path / "numpy.py").write_text("raise SystemExit(9)")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("from package.inner import value\n")
    (tmp_path / "package" / "inner.py").write_text("value = 'inside'\n")
    code = "import mine, numpy, package\nfrom importlib import import_module\nmine.value, package.value\n"
    done = run("-c", code + "import_module('beside').value\nimport nothing_of_this_name", cwd=tmp_path)
    assert "(42, 'inside')" in done.stdout and "out[4]: 41" in done.stdout
    assert "No module named 'nothing_of_this_name'" in done.stderr


def test_a_script_finds_its_neighbours(tmp_path):
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "neighbour.py").write_text("value = 7\n")
    (tmp_path / "scripts" / "script.py").write_text("import neighbour\nneighbour.value\n")
    assert run("scripts/script.py", cwd=tmp_path).stdout == "out[2]: 7\n"


def test_no_line_of_the_script_that_starts_the_program_is_shown_as_the_users(tmp_path):
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


def test_the_settings_file_counts_and_options_win(tmp_path, config):
    config.write_text('panels = ["time"]\nstyle = "tutorial"\ncolor = "always"\ntheme = "none"\n')
    plain = run("-c", "grad(sin)(1.)", cwd=tmp_path)
    assert " time " in plain.stdout and " stack " not in plain.stdout and "\x1b[1m" in plain.stdout
    other = run("--color", "never", "--panels", "stack", "-c", "grad(sin)(1.)", cwd=tmp_path)
    assert " stack " in other.stdout and " time " not in other.stdout and "\x1b" not in other.stdout
    without = run("--no-config", "-c", "grad(sin)(1.)", cwd=tmp_path)
    assert " stack " in without.stdout and "\x1b" not in without.stdout


def test_a_bad_settings_file_is_one_warning(tmp_path, config):
    config.write_text("panels = [")
    done = run("-c", "6 * 7", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == "out[1]: 42\n"
    assert done.stderr.count("\n") == 1 and "are not used" in done.stderr and str(config) in done.stderr
    config.write_text('thme = "dark\\u001b[2J"\nstyle = "jax"\n')
    done = run("-c", "6 * 7", cwd=tmp_path)
    assert "Did you mean theme?" in done.stderr and "\x1b" not in done.stderr


def test_saved_settings_come_back(tmp_path, config):
    assert run(cwd=tmp_path, given="%config style tutorial\n%config save\n").returncode == 0
    assert config.read_text().endswith('style = "tutorial"\n') and config.stat().st_mode & 0o777 == 0o600
    assert "tutorial" in run("-c", "%config style", cwd=tmp_path).stdout
    refused = run("--no-config", "-c", "%config save", cwd=tmp_path)
    assert refused.returncode == 1 and "no settings file" in refused.stderr


@pytest.mark.parametrize(
    ("theme", "env", "code"),
    [
        ("light", {"COLORTERM": "truecolor"}, "\x1b[38;2;10;73;176;1msin"),
        ("auto", {"COLORFGBG": "15;0", "COLORTERM": "truecolor"}, "\x1b[38;2;130;170;255;1msin"),
        ("dark", {"TERM": "xterm-256color", "COLORTERM": ""}, "\x1b[38;5;111;1msin"),
    ],
)
def test_themes(tmp_path, theme, env, code):
    done = run("--color", "always", "--theme", theme, "-c", "make_jaxpr(sin)(1.)", cwd=tmp_path, **env)
    assert code in done.stdout


@pytest.mark.parametrize("given", [None, "7"])
def test_the_threads_of_numpys_blas_soon_sleep_and_nobody_inherits_it(tmp_path, given):
    """The setting is there while NumPy is imported; one of the user's own is not touched."""
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
    done = run("-c", code, cwd=tmp_path, module=True, **env)
    assert done.stdout.split() == ["20" if given is None else given, str(given), "True"], done.stderr


def test_the_devices_of_the_banner_are_those_that_xla_makes(tmp_path):
    line = "from minijax.repl import batch; print(batch.devices(), len(minijax.devices()), batch.devices())"
    env = {"XLA_FLAGS": "--xla_force_host_platform_device_count=3", "JAX_PLATFORMS": "cpu"}
    assert run("-c", line, cwd=tmp_path, **env).stdout == "cpu ×3 3 cpu ×3\n"


# Lines that read a name whose module is imported late, and what they print; the first one needs none.
LATE_NAMES = {
    "import sys; x = grad(sin)(0.) + jnp.ones(3); print('minijax.api.shard_map' in sys.modules)": "False",
    "print(polyval(array([2., 1.]), 3.))": "7.0",
    "print(nn.relu(-1.))": "0.0",
    "def f(x): return searchsorted(x, 2.5)\nprint(f(arange(5.)))": "3",
    "sin = 3\nprint(nn.relu(-1.), sin)": "0.0 3",
    "polyval = 3\nprint(polyval)\ntaken = hessian\nprint(polyval)": "3\n3",
}


def test_a_line_imports_what_its_names_need(tmp_path):
    done = run("--panels", "off", "-c", "\n".join(LATE_NAMES), cwd=tmp_path)
    assert done.stdout == "\n".join(LATE_NAMES.values()) + "\n", done.stderr
