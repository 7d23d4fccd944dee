"""The IPython extension in a shell: loading, unloading, magics, display, completion, errors."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import minijax
from minijax.core.trace import stack_depth
from minijax.ipython_ext.magics import magic_name
from minijax.tools.commands import COMMANDS
from tests.tools.command_lines import SETUP


@pytest.fixture
def bare() -> Iterator[InteractiveShell]:
    InteractiveShell.clear_instance()
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


@pytest.fixture
def shell(bare: InteractiveShell) -> Iterator[InteractiveShell]:
    bare.run_line_magic("load_ext", "minijax")
    for line in SETUP:
        assert bare.run_cell(line).success
    yield bare
    bare.run_line_magic("unload_ext", "minijax")


def run(shell: InteractiveShell, code: str) -> Any:
    """The result of a cell, which must succeed."""
    with capture_output():
        result = shell.run_cell(code)
    result.raise_error()
    return result.result


def printed(shell: InteractiveShell, code: str) -> str:
    with capture_output() as captured:
        shell.run_cell(code)
    shown = [output.data["text/plain"] for output in captured.outputs]
    return re.sub(r"\x1b\[[0-9;]*m", "", captured.stdout + captured.stderr + "\n".join(shown))


def registered(shell: InteractiveShell) -> dict[str, Any]:
    """Everything an extension can leave behind."""
    formatters = shell.display_formatter.formatters
    return {
        "magics": {kind: sorted(table) for kind, table in shell.magics_manager.magics.items()},
        "ours": [
            name for table in shell.magics_manager.magics.values() for name, f in table.items() if "Minijax" in repr(f)
        ],
        "registry": sorted(name for name in shell.magics_manager.registry if name != "ExtensionMagics"),
        "configurables": sorted(
            type(each).__name__ for each in shell.configurables if type(each).__name__ != "ExtensionMagics"
        ),
        "events": {name: list(callbacks) for name, callbacks in shell.events.callbacks.items()},
        "matchers": list(shell.Completer.custom_matchers),
        "formatters": {mime: dict(formatter.type_printers) for mime, formatter in formatters.items()},
        "deferred": {mime: dict(formatter.deferred_printers) for mime, formatter in formatters.items()},
        "handlers": shell.custom_exceptions,
    }


def test_importing_has_no_side_effects(bare):
    before = registered(bare)
    bare.run_cell("import minijax, minijax.ipython_ext")
    assert registered(bare) == before


def test_unloading_takes_everything_away_and_loading_again_leaves_one_of_each(bare):
    bare.run_line_magic("lsmagic", "")
    before = registered(bare)
    bare.run_line_magic("load_ext", "minijax")
    loaded = registered(bare)
    assert loaded != before
    for _ in range(3):
        bare.run_line_magic("unload_ext", "minijax")
        assert registered(bare) == before
        bare.run_line_magic("load_ext", "minijax")
        bare.run_line_magic("load_ext", "minijax")
        again = registered(bare)
        assert again["configurables"] == loaded["configurables"]
        assert {kind: len(table) for kind, table in again["magics"].items()} == {
            kind: len(table) for kind, table in loaded["magics"].items()
        }
        assert [len(again["events"][name]) for name in again["events"]] == [
            len(loaded["events"][name]) for name in loaded["events"]
        ]
        assert len(again["matchers"]) == len(before["matchers"]) + 1
    bare.run_line_magic("reload_ext", "minijax")
    assert len(bare.Completer.custom_matchers) == len(before["matchers"]) + 1
    bare.run_line_magic("unload_ext", "minijax")


def test_no_magic_of_ipythons_is_replaced(bare):
    before = registered(bare)["magics"]
    bare.run_line_magic("load_ext", "minijax")
    ours = registered(bare)["ours"]
    assert "grad" in ours and not set(ours) & {*before["line"], *before["cell"]}
    bare.run_line_magic("unload_ext", "minijax")


def test_one_magic_for_each_row(shell):
    line, cell = shell.magics_manager.magics["line"], shell.magics_manager.magics["cell"]
    for command in COMMANDS.values():
        name = magic_name(command)
        assert (name in line) == command.line and (name in cell) == command.cell
        assert command.usage in line[name].__doc__


def test_a_magic_returns_what_it_shows(shell):
    shown = run(shell, "%grad f(3.0)")
    value, gradient = shown.value
    assert float(gradient) == pytest.approx(-2.979985)
    assert "gradient" in repr(shown) and "\x1b" not in repr(shown)
    bundle = shown._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert run(shell, "result = %grad f(3.0)\nfloat(result.value[0])") == pytest.approx(-2.71776, rel=1e-5)
    run(shell, "%grad f(3.0)")
    assert run(shell, "_.value[1].shape") == ()
    assert shown.recording.stack[-1] == "jvp:2"


def test_a_semicolon_silences(shell):
    assert printed(shell, "%grad f(3.0);") == ""
    assert "gradient" in printed(shell, "%grad f(3.0)")


def test_braces_and_dollars_reach_the_magic(shell):
    run(shell, "d = {'a': 3.0}\ndef g(p): return jnp.sin(p['a'])")
    assert "'a'" in repr(run(shell, "%grad g({'a': x})"))
    assert float(run(shell, "%grad g(d)").value[1]["a"]) == pytest.approx(-0.9899925)


def test_local_names_of_a_calling_function(shell):
    code = (
        "def outer():\n    local = 0.5\n"
        "    return get_ipython().run_line_magic('grad', 'f(local)').value\n"
        "float(outer()[1])"
    )
    assert run(shell, code) == pytest.approx(0.7551651)


def test_cells(shell):
    shown = run(shell, "%%jaxpr x=f32[3] v\ny = jnp.sin(x)\n\ny * v")
    assert [str(a) for a in shown.value.in_avals] == ["float32[3]", "float32[3]"]


def test_wrong_arguments_are_usage_errors(shell):
    said = printed(shell, "%grad f(3.0) --chek")
    assert said.startswith("UsageError: %grad has no option --chek. Did you mean --check?")
    assert "Traceback" not in said


def test_the_users_exceptions_keep_the_users_frames(shell):
    run(shell, "def bad(x):\n    y = jnp.sin(x)\n    raise ValueError('of the user')")
    said = printed(shell, "%grad bad(3.0)")
    assert "ValueError: of the user" in said and "raise ValueError('of the user')" in said
    assert "minijax/tools" not in said
    assert stack_depth() == 0
    assert float(run(shell, "%grad f(3.0)").value[1]) == pytest.approx(-2.979985)


def test_jaxprs_display_themselves(shell):
    format = shell.display_formatter.format
    closed = minijax.make_jaxpr(lambda x: x * 2.0)(1.0)
    bundle, _ = format(closed)
    assert bundle["text/plain"] == str(closed)
    assert '<span class="mj-primitive">mul</span>' in bundle["text/html"]
    assert str(closed) in format([closed])[0]["text/plain"]


def test_nothing_extra_is_shown_unless_watching(shell):
    assert "stack" not in printed(shell, "grad(f)(3.0)")
    run(shell, "%config MinijaxMagics.watch = True")
    assert " stack    eval ▸ partial_eval:1 ▸ jvp:2" in printed(shell, "grad(f)(3.0)")
    assert printed(shell, "2 + 2").count("\n") <= 2
    run(shell, "%config MinijaxMagics.panels = 'time'")
    said = printed(shell, "grad(f)(3.0)")
    assert " time " in said and " stack " not in said
    # what a cell that failed did is shown too, and the next one is watched afresh
    assert "ZeroDivisionError" in printed(shell, "1/0")
    assert "deepest" in printed(shell, "%stack")
    run(shell, "%config MinijaxMagics.watch = False")
    assert " time " not in printed(shell, "grad(f)(3.0)")


def test_the_history_is_ipythons(shell):
    run(shell, "first = 1")
    shell.run_cell("second = 2", store_history=True)
    said = repr(shell.run_cell("%minijax_history 2", store_history=True).result)
    assert "second = 2" in said and "history" not in said


def test_settings_go_both_ways(shell):
    run(shell, "%config MinijaxMagics.style = 'tutorial'")
    assert "float32[]" in repr(run(shell, "%jaxpr f(3.0)"))
    run(shell, "%minijax_config style jax")
    assert run(shell, "%jaxpr f(3.0)") is not None
    assert "f32[]" in repr(run(shell, "%jaxpr f(3.0)"))
    shell.run_cell("%config MinijaxMagics.style = 'html'")
    assert "f32[]" in repr(run(shell, "%jaxpr f(3.0)"))


@pytest.mark.parametrize(
    ("typed", "offered", "start"),
    [
        ("%grad f(3.0) --", {"--argnums", "--check"}, 13),
        ("%hlo f(3.0) --stage ", {"stablehlo", "optimized"}, 20),
        ("%grad jnp.lins", {"linspace"}, 10),
        ("%%jit x=3.0 --", set(), None),
        ("y = 1\n%help lin", {"linearize"}, 12),
        ("%gra", {"%grad"}, 0),
    ],
)
def test_completion(shell, typed: str, offered: set[str], start: int | None):
    with provisionalcompleter():
        found = list(shell.Completer.completions(typed, len(typed)))
    texts = {completion.text for completion in found}
    assert offered <= texts
    for completion in found:
        if completion.text in offered:
            assert completion.start == start


def test_completion_elsewhere_is_ipythons(shell):
    with provisionalcompleter():
        texts = {completion.text for completion in shell.Completer.completions("SETUP_like = pri", 16)}
    assert "print" in texts


def test_the_extension_loads_without_jax():
    code = (
        "import sys\nfrom IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\nshell.run_line_magic('load_ext', 'minijax')\n"
        "shell.run_cell('import minijax.numpy as jnp')\nshell.run_cell('%jaxpr jnp.sin(f32[3])')\n"
        "print([n for n in ('jax', 'jaxlib', 'prompt_toolkit.shortcuts') if n in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "sin a" in done.stdout
    loaded = done.stdout.strip().splitlines()[-1]
    assert "'jax'" not in loaded and "'jaxlib'" not in loaded, done.stdout + done.stderr
