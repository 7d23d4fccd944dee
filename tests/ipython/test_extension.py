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

from minijax import errors
from minijax.core.trace import stack_depth
from minijax.ipython_ext.magics import MAGICS, OWN, magic_name
from minijax.ipython_ext.sharing import sharing
from minijax.tools.session.session import MOST_RECORDINGS
from tests.page_data import data_of
from tests.tools.lines import SETUP


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
    """All parts of a shell that an extension may change."""
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
        "bundles": dict(shell.display_formatter.mimebundle_formatter.type_printers),
        "deferred": {mime: dict(formatter.deferred_printers) for mime, formatter in formatters.items()},
        "machinery": errors._machinery,
        "format": vars(shell.display_formatter).get("format"),
        "handlers": (shell.custom_exceptions, shell.CustomTB),
    }


def test_unloading_removes_everything_and_reloading_adds_it_once(bare):
    bare.run_line_magic("lsmagic", "")
    before = registered(bare)
    bare.run_cell("import minijax, minijax.ipython_ext")
    assert registered(bare) == before
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
        for what in ("formatters", "deferred"):
            assert {m: len(table) for m, table in again[what].items()} == {
                m: len(table) for m, table in loaded[what].items()
            }
    bare.run_line_magic("reload_ext", "minijax")
    assert len(bare.Completer.custom_matchers) == len(before["matchers"]) + 1
    bare.run_line_magic("unload_ext", "minijax")


def test_ipythons_magics_are_not_replaced(bare):
    before = registered(bare)["magics"]
    bare.run_line_magic("load_ext", "minijax")
    ours = registered(bare)["ours"]
    assert "grad" in ours and set(ours) & {*before["line"], *before["cell"]} == set(OWN)
    bare.run_line_magic("unload_ext", "minijax")


def test_run_without_as_jax_is_ipythons_own(bare, tmp_path):
    """Without ``--as-jax``, ``%run`` is IPython's own, also after unloading. IPython loads this magic at first use."""
    program = tmp_path / "program.py"
    program.write_text("import jax, sys\nmade_by = (jax.jit.__module__[:3], sys.argv[1:])\n")
    bare.run_line_magic("load_ext", "minijax")
    for option, wanted in (("", "jax"), ("--as-jax ", "min"), ("-i ", "jax")):
        bare.run_line_magic("run", f"{option}{program} --steps 3")
        assert bare.user_ns["made_by"] == (wanted, ["--steps", "3"])
    bare.run_line_magic("unload_ext", "minijax")
    bare.run_line_magic("run", f"{program} 4")
    assert bare.user_ns["made_by"] == ("jax", ["4"])


def test_each_command_has_one_magic(shell):
    line, cell = shell.magics_manager.magics["line"], shell.magics_manager.magics["cell"]
    for command in MAGICS:
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
    assert shown.recording.stack[-1] == "linearize:1"


@pytest.mark.parametrize(
    ("code", "times"),
    [
        ("%grad f(3.0)", 1),
        ("%grad f(3.0)\ny = 1", 1),
        ("for a in (1.0, 2.0, 3.0):\n    %grad f(a)", 3),
        ("def go():\n    %grad f(3.0)\ngo()", 1),
        ("value, slope = %grad f(3.0)\nassert abs(float(slope) + 2.979985) < 1e-5", 1),
        ("for a in (1.0, 2.0):\n    %grad f(a);", 0),
        ("%grad f(3.0);\ny = 1", 0),
        ("try:\n    %grad f(3.0)\nfinally:\n    y = 1", 1),
        ("%%time\n%grad f(3.0)\ny = 1", 1),
        ("shown = %grad f(3.0)\nshown", 1),
        ("def give():\n    shown = %grad f(3.0)\n    return shown\ngive()", 1),
    ],
)
def test_a_magic_is_shown_once_in_its_place(shell, code, times):
    assert printed(shell, code).count("gradient") == times
    assert "Error" not in printed(shell, code)


def test_braces_and_dollars_reach_the_magic(shell):
    run(shell, "d = {'a': 3.0}\ndef g(p): return jnp.sin(p['a'])")
    assert "'a'" in repr(run(shell, "%grad g({'a': x})"))
    assert float(run(shell, "%grad g(d)").value[1]["a"]) == pytest.approx(-0.9899925)


def test_the_line_of_a_magic_names_no_values(shell):
    shell.run_cell("from minijax import numpy as jnp; v = jnp.arange(3.0)")
    with capture_output() as captured:
        shell.run_cell("%values jnp.cumsum(v) --of h")
    text = captured.stdout + captured.stderr
    assert "Nothing in it has a name: give a value a name, as in h = sin(x)" in text and "run_line_magic" not in text


def test_a_magic_sees_the_local_names_of_a_calling_function(shell):
    code = (
        "def outer():\n    local = 0.5\n"
        "    return get_ipython().run_line_magic('grad', 'f(local)').value\n"
        "float(outer()[1])"
    )
    assert run(shell, code) == pytest.approx(0.7551651)


def test_user_exceptions_keep_user_frames(shell):
    run(shell, "def bad(x):\n    y = jnp.sin(x)\n    raise ValueError('of the user')")
    for call in ("%grad bad(3.0)", "jit(bad)(3.0)", "jit(vmap(grad(bad)))(v)"):
        text = printed(shell, call)
        assert "ValueError: of the user" in text and "raise ValueError('of the user')" in text
        assert "minijax/" not in text and "frames of minijax hidden; %tb shows them)" in text
        assert text.count("-> ") == 2  # frames of the call and of the line that raised
    for command in "grad jvp vjp vmap jaxpr linearize backward jit hlo passes step nan keys".split():
        assert "ValueError: of the user" in printed(shell, f"%{command} bad(v)")
        assert "minijax/tools/" not in printed(shell, "%tb"), command
    assert "ZeroDivisionError" in printed(shell, "%%jaxpr x=1/0\nx")
    assert "minijax/tools/" not in printed(shell, "%tb")
    assert stack_depth() == 0
    assert float(run(shell, "%grad f(3.0)").value[1]) == pytest.approx(-2.979985)


def test_all_frames_can_be_shown(shell):
    printed(shell, "jnp.ones((3, 2)) @ v")
    hidden = re.search(r"\((\d+) frames of minijax hidden", printed(shell, "jnp.ones((3, 2)) @ v"))
    assert hidden and int(hidden[1]) > 2
    assert "minijax/numpy/operators.py" in printed(shell, "%tb")
    run(shell, "%minijax_config frames all")
    assert "minijax/numpy/operators.py" in printed(shell, "jnp.ones((3, 2)) @ v")


def test_an_exception_is_not_changed_by_being_shown(shell):
    printed(shell, "try:\n    jnp.ones((3, 2)) @ v\nexcept TypeError as error:\n    kept = error\nraise kept")
    kept = shell.user_ns["kept"]
    frames = []
    tb = kept.__traceback__
    while tb is not None:
        frames.append(tb.tb_frame.f_code.co_filename)
        tb = tb.tb_next
    assert any("minijax/numpy" in each for each in frames)
    assert not getattr(kept, "__notes__", ())


def test_causes_are_shown_without_internal_lookups(shell):
    run(shell, "def g(x):\n    try: 1 / 0\n    except ZeroDivisionError as e: raise KeyError('k') from e")
    text = printed(shell, "grad(g)(3.0)")
    assert "ZeroDivisionError" in text and "direct cause" in text and "KeyError: 'k'" in text
    text = printed(shell, "jnp.ones((3, 2)) @ v")
    assert "During handling" not in text and "signatures" not in text


def test_a_cell_that_cannot_be_parsed_has_no_traceback(shell):
    text = printed(shell, "x = 1; %grad f(3.0)")
    assert "SyntaxError: invalid syntax" in text and "interactiveshell" not in text and "compilerop" not in text
    assert "IndentationError" in printed(shell, "  if True:\n x")
    assert "SyntaxError" in printed(shell, "eval('1 +')") and "in <module>" not in text


def test_a_cell_magic_that_cannot_be_parsed_shows_only_the_wrong_line(shell):
    text = printed(shell, "%%jaxpr x=1.0\ny = x\nz = = 2")
    assert "SyntaxError: invalid syntax" in text and "z = = 2" in text
    assert not re.search(r"Traceback|minijax/|run_cell_magic|<minijax-cell", text)


def test_the_debugger_begins_in_the_users_innermost_frame(shell, monkeypatch):
    opened = []

    def interaction(self, frame, error):
        tb, names = error.__traceback__, []
        while tb is not None:
            names.append(tb.tb_frame.f_code.co_name)
            tb = tb.tb_next
        opened.append(names)

    monkeypatch.setattr(shell.InteractiveTB.debugger_cls, "interaction", interaction)
    run(shell, "def clash(x):\n    return jnp.ones(3) + jnp.ones(4) + x")
    printed(shell, "jit(clash)(3.0)")
    before = sys.last_value.__traceback__
    printed(shell, "%debug")
    assert opened[0][-2:] == ["<module>", "clash"]
    assert sys.last_value.__traceback__ is before
    run(shell, "%minijax_config frames all")
    printed(shell, "%debug")
    assert len(opened[1]) > len(opened[0]) and opened[1][-1] != "clash"


def test_ipython_shows_exceptions_without_minijax(shell):
    assert "hidden" not in printed(shell, "1 / 0")
    assert "SyntaxError" in printed(shell, "exec('x =')")
    assert "minijax" not in printed(shell, "raise ExceptionGroup('two', [ValueError(1), KeyError(2)])")
    run(shell, "def both(x): raise ExceptionGroup('two', [ValueError('one'), KeyError(2)])")
    assert "ValueError: one" in printed(shell, "jit(both)(v)")


def test_user_exception_handlers_still_work(bare):
    seen = []
    bare.set_custom_exc((KeyError,), lambda self, kind, error, tb, tb_offset=None: seen.append(kind))
    before = registered(bare)["handlers"]
    bare.run_line_magic("load_ext", "minijax")
    printed(bare, "{}['missing']")
    assert seen == [KeyError]
    assert "ZeroDivisionError" in printed(bare, "1 / 0") and seen == [KeyError]
    bare.run_line_magic("unload_ext", "minijax")
    assert registered(bare)["handlers"] == before


def test_cells_have_the_same_names_as_in_tracebacks(bare):
    bare.run_line_magic("load_ext", "minijax")
    names = "import minijax.numpy as jnp\nfrom minijax import jit"
    for cell in (names, "def f(x):\n\n    return jnp.sin(x) if x > 0 else x"):
        bare.run_cell(cell, store_history=True)
    text = printed(bare, "jit(f)(3.0)")
    assert "f at Cell In[2], line 1" in text and "Cell In[2], line 3" in text and "<ipython-input" not in text
    shown = run(bare, "%log jit(lambda x: jnp.sin(x))(3.0)")
    bundle = shown._repr_mimebundle_()
    assert "ipython-input" not in bundle["text/plain"] + bundle["text/html"]
    for each in bare.display_formatter.format(run(bare, "jit(f)"))[0].values():
        assert "Cell In[2], line 1" in each and "ipython-input" not in each
    stepper = run(bare, "%step jnp.sin(3.0)")._repr_mimebundle_()
    assert "ipython-input" not in stepper["text/plain"] + stepper["text/html"]
    bare.run_line_magic("unload_ext", "minijax")


def test_the_line_of_a_magic_is_named_after_its_cell(bare):
    bare.run_line_magic("load_ext", "minijax")
    bare.run_cell("import minijax.numpy as jnp", store_history=True)
    bare.run_cell("x = 1.0\nshown = %nan jnp.log(x - 2.0)", store_history=True)
    shown = bare.user_ns["shown"]._repr_mimebundle_()
    for page in (shown["text/plain"], shown["text/html"]):
        assert "Cell In[2], line 2 (" in page and "minijax-cell" not in page
    with capture_output() as captured:
        bare.run_cell("\n%grad (lambda x: jnp.zeros(3) + jnp.zeros(4) + x)(3.0)", store_history=True)
        bare.run_cell("%%jaxpr\ny = 2.0\njnp.zeros(3) + jnp.zeros(4)", store_history=True)
    text = re.sub(r"\x1b\[[0-9;]*m", "", captured.stdout + captured.stderr)
    assert "Cell In[3], line 1, in <lambda>(x)" in text and "Cell In[4], line 3, in cell()" in text
    assert "minijax-cell" not in text and "File Cell" not in text
    bare.run_line_magic("unload_ext", "minijax")


def test_settings_without_an_effect_in_ipython_are_not_listed(shell):
    text = repr(run(shell, "%minijax_config"))
    listed = {each.split()[0] for each in text.splitlines() if each.strip()}
    assert {"panels", "full", "style", "frames", "theme", "jax_enable_x64"} <= listed
    assert not listed & {"keys", "history", "warm", "color"}
    assert "has no effect here" in repr(run(shell, "%minijax_config keys vi"))
    # the settings that are listed have an effect
    run(shell, "%panels jaxpr")
    assert "61 equations in all" in printed(shell, "jit(lambda x: sum([jnp.sin(x)] * 60))(1.0);")
    run(shell, "%minijax_config full jaxpr")
    assert "61 equations in all" not in printed(shell, "jit(lambda x: sum([jnp.sin(x)] * 60))(1.0);")


def test_other_objects_display_themselves(shell):
    """Outside containers, objects show as text and HTML in the style of the tools; inside containers, as ``str``."""
    run(shell, "import minijax.tools.programs.links, minijax.extend.rules")
    for code, words in {
        "jit(f).lower(3.0)": ("lowered", "stablehlo.sine", "not compiled yet"),
        "jit(f).lower(3.0).compile()": ("compiled", "HloModule"),
        "minijax.tools.record(grad(f), 3.0)[1]": ("sin(x) = 0.14112",),
        "minijax.tools.record(grad(f), 3.0, level='summary')[1]": ("14 binds",),
        "minijax.extend.rules.rule_matrix()": ("jvp", "broadcast_in_dim"),
        "minijax.tools.programs.links.linked_programs(f, 3.0)": ("StableHLO", "optimised HLO"),
    }.items():
        value = run(shell, code)
        bundle, _ = shell.display_formatter.format(value)
        for word in words:
            assert word in bundle["text/plain"], bundle["text/plain"]
            assert word in re.sub(r"<[^>]*>", "", bundle["text/html"]), (code, word)
        assert "\x1b" not in bundle["text/plain"]
        assert ("data-mjw=" in bundle["text/html"]) == ("linked" in code or "0)[1]" in code)  # only these are steppers
        assert shell.display_formatter.format([value])[0]["text/plain"].startswith("[")
        assert "text/html" not in shell.display_formatter.format([value])[0]


def test_output_of_a_long_program_is_bounded_and_says_so(shell):
    run(shell, "def deep(x):\n    for _ in range(1500): x = jnp.sin(x) * 1.5 + x\n    return x")
    run(shell, "from minijax import make_jaxpr\nclosed = make_jaxpr(deep)(1.0)")
    assert len(shell.user_ns["closed"].eqns) == 4_500
    for code in ("%jaxpr deep(1.0)", "%log deep(1.0) --most 12000 --verbose", "jit(deep).lower(1.0)", "[closed]"):
        shown = shell.display_formatter.format(run(shell, code))[0]
        assert sum(map(len, shown.values())) < 200_000, code
        for each in shown.values():
            missing = re.search(r"\.\.\. ([\d,]+) more lines \(print\(_[\w.()]*\) shows them\)", each)
            assert missing and int(missing[1].replace(",", "")) > 1_500, code
    assert str(run(shell, "%jaxpr deep(1.0)")).count(" = sin ") == 1500


def test_stepping_gives_a_widget_and_an_error_comes_after_it(shell):
    assert shell.run_cell("h = f\nshown = %step grad(h)(3.0)", store_history=True).success
    bundle = shell.user_ns["shown"]._repr_mimebundle_()
    assert "run_line_magic" not in str(data_of(bundle["text/html"])["parts"])  # the source is shown as typed
    assert 'data-mjw="' in bundle["text/html"] and "  sin(x) = 0.14112" in bundle["text/plain"]
    assert "data-mjw" not in run(shell, "%step --text grad(f)(3.0)")._repr_mimebundle_()["text/html"]
    run(shell, "def bad(x):\n    return jnp.sin(x).reshape(7)")
    with capture_output() as captured:
        result = shell.run_cell("%step jit(bad)(3.0)")
    assert isinstance(result.error_in_exec, TypeError) and stack_depth() == 0
    assert 'data-mjw="' in captured.outputs[0].data["text/html"]
    assert "reshape" in captured.stdout and "hidden" in captured.stdout


def test_an_exported_session_has_the_cells_and_their_outputs(shell, tmp_path):
    shell.run_cell("seven = 3 + 4\nseven", store_history=True)
    run(shell, "%jaxpr f(3.0)")
    printed(shell, "1 / 0")
    printed(shell, "%grad f(3.0) --nope")
    run(shell, "def mine(x): return jnp.sin(x)")
    run(shell, "%log grad(mine)(3.0)")
    for _ in range(MOST_RECORDINGS):
        run(shell, "2 + 3")
    assert "wrote" in repr(run(shell, f"%export {tmp_path}/it.html"))
    page = (tmp_path / "it.html").read_text(encoding="utf-8")
    text = re.sub(r"<[^>]*>", "", page)
    for words in ("seven = 3 + 4", "7", "%jaxpr f(3.0)", "sin a", "ZeroDivisionError: division by zero"):
        assert words in text, words
    assert "UsageError: %grad has no option --nope" in text and "IPython.core.error" not in text
    assert page.count('class="minijax mjw') == 1
    # places name cells, as IPython does
    assert "Cell In[" in text and "ipython-input" not in page


def test_nothing_extra_is_shown_unless_watching(shell):
    assert "stack" not in printed(shell, "grad(f)(3.0)")
    printed(shell, "%panels stack time")  # choosing panels also turns them on
    text = printed(shell, "grad(f)(3.0)")
    assert " stack " in text and " time " in text and " jaxpr " not in text
    printed(shell, "%panels off")
    assert " stack " not in printed(shell, "grad(f)(3.0)")
    printed(shell, "%panels on")
    assert " jaxpr " in printed(shell, "grad(f)(3.0)")
    run(shell, "%config MinijaxMagics.watch = True")
    assert " stack    eval ▸ linearize:1" in printed(shell, "grad(f)(3.0)")
    assert printed(shell, "2 + 2").count("\n") <= 2
    run(shell, "%config MinijaxMagics.panels = 'time'")
    text = printed(shell, "grad(f)(3.0)")
    assert " time " in text and " stack " not in text
    # panels are shown for a failed cell too, and the next cell is watched again
    assert "ZeroDivisionError" in printed(shell, "1/0")
    assert "deepest" in printed(shell, "%stack")
    run(shell, "%config MinijaxMagics.watch = False")
    assert " time " not in printed(shell, "grad(f)(3.0)")


def test_why_does_not_report_an_earlier_line_as_the_last(shell):
    run(shell, "%jit f(3.0)")
    assert "not watched" not in repr(run(shell, "%why"))
    printed(shell, "jit(f)(jnp.ones(3))")
    text = repr(run(shell, "%why"))
    assert text.startswith("the last cell was not watched") and "x: f32[] (weak_type) became f32[3]" in text
    assert re.search(r"at +.*\(<module>\)", text) and re.search(r"cost +trace .* compile", text)
    printed(shell, "jit(f)(jnp.ones(3))")
    assert "no cache of minijax missed in it" in repr(run(shell, "%why"))
    assert "became f32[3]" in repr(run(shell, "%why --history"))
    printed(shell, "%panels on")
    printed(shell, "jit(f)(jnp.ones(4))")
    assert "not watched" not in repr(run(shell, "%why")) and "f32[4]" in repr(run(shell, "%why"))


def test_help_uses_the_names_of_the_magics(shell):
    text = repr(run(shell, "%help"))
    listed = {word.lstrip("%") for word in re.findall(r"^  (%\w+) ", text, re.M)}
    assert listed == {magic_name(command) for command in MAGICS}
    for name in ("config", "minijax_config"):
        assert "  %minijax_config style tutorial" in repr(run(shell, f"%help {name}"))
    assert "UsageError: %minijax_config theme takes" in printed(shell, "%minijax_config theme purple")


def test_the_history_magic_is_that_of_ipython(shell):
    run(shell, "first = 1")
    shell.run_cell("second = 2", store_history=True)
    text = repr(shell.run_cell("%minijax_history 2", store_history=True).result)
    assert "second = 2" in text and "history" not in text


def test_settings_and_ipythons_configuration_stay_in_sync(shell):
    run(shell, "%config MinijaxMagics.style = 'tutorial'")
    assert "float32[]" in repr(run(shell, "%jaxpr f(3.0)"))
    run(shell, "%minijax_config style jax")
    assert run(shell, "%jaxpr f(3.0)") is not None
    assert "f32[]" in repr(run(shell, "%jaxpr f(3.0)"))
    shell.run_cell("%config MinijaxMagics.style = 'html'")
    assert "f32[]" in repr(run(shell, "%jaxpr f(3.0)"))


def test_bad_configuration_values_are_refused_without_blocking_loading(bare):
    printed(bare, "%config")  # IPython creates its own magics when one is first used
    before = registered(bare)
    bare.run_line_magic("load_ext", "minijax")
    text = printed(bare, "%config MinijaxMagics.panels = 'stack jaxprs'")
    assert printed(bare, "%panels").count("(off)") == 0, text
    printed(bare, "%config MinijaxMagics.style = 'html'")
    bare.run_line_magic("unload_ext", "minijax")
    with pytest.warns(UserWarning, match="'html'. The configuration of MinijaxMagics is not used"):
        bare.run_line_magic("load_ext", "minijax")
    assert "tutorial" not in printed(bare, "%config MinijaxMagics.style") and printed(bare, "%help")
    bare.run_line_magic("unload_ext", "minijax")
    assert registered(bare) == before


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
def test_completion_offers_options_and_names(shell, typed, offered, start):
    with provisionalcompleter():
        found = list(shell.Completer.completions(typed, len(typed)))
    texts = {completion.text for completion in found}
    assert offered <= texts
    for completion in found:
        if completion.text in offered:
            assert completion.start == start


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


def test_containers_of_arrays_are_displayed_as_trees(shell):
    """Trees are shown in text and HTML. Small containers, and those with their own display, are unchanged."""
    run(shell, "from collections import namedtuple; Pair = namedtuple('Pair', 'p q')")
    run(shell, "class Own(dict):\n    def _repr_mimebundle_(self, include=None, exclude=None): return {'a/b': 'own'}")
    run(shell, "p = {f'<{i}>': {'w': jnp.ones((9, 9)), 'b': v} for i in range(2)}")

    def displayed(code: str) -> dict[str, str]:
        return shell.display_formatter.format(run(shell, code))[0]

    for code in ("p", "[p, p]", "Pair(p, 1)"):
        data = displayed(code)
        assert "f32[9,9]  norm 9" in data["text/plain"] and "\n" in data["text/plain"]
        assert data["text/html"].count("<details") >= 2 and "&lt;1&gt;" in data["text/html"]
        assert "<script" not in data["text/html"]
    assert displayed("{'a': v}") == {"text/plain": "{'a': Array([0., 1., 2.], dtype=float32)}"}
    assert displayed("Pair(1, 2)") == {"text/plain": "Pair(p=1, q=2)"}
    assert "own" in displayed("Own(p)")["a/b"] and "f32[9,9]" not in displayed("Own(p)")["text/plain"]
    assert "Array([[1., 1." in displayed("p.values()")["text/plain"]
    run(shell, "def loss(q): return jnp.sum(q['<1>']['w'] ** 2)")
    magic = displayed("%grad loss(p)")
    assert "f32[9,9]  norm 18.0  all 2.0" in magic["text/plain"] and "<details" in magic["text/html"]
    with capture_output() as captured:
        number = shell.execution_count
        for code in ("%grad loss(p)", f"%tree Out[{number}][1]", f"%tree Out[{number}]"):
            shell.run_cell(code, store_history=True)
    assert captured.stdout.count("norm 18") == 3 and captured.stdout.count("tuple of 2 · 5 arrays") == 1
    run(shell, "%minijax_config trees off")
    assert "Array([[1., 1." in displayed("p")["text/plain"]
    run(shell, "%minijax_config trees on")


def test_a_bare_step_opens_at_the_exception_of_the_last_cell(shell, tmp_path):
    """%step runs a cell again and records it. A cell has several statements, a magic, a loop with a magic, or %run."""
    hint = "%step runs it again, recorded, and opens at the exception"
    run(shell, "ran = []\ndef clash(x):\n    ran.append(1)\n    y = jnp.sin(x)\n    return y @ jnp.ones(7)")
    program = tmp_path / "program.py"
    program.write_text("from minijax import jit\ndef bad(x): return x.nothing\njit(bad)(1.)\n")
    loop = "for i in range(2):\n    got = %vjp clash(v)"
    cells = ("a = 1\njit(clash)(v)\nb = 2", "jit(clash)(v)", "%grad clash(v)", loop, f"%run {program}")
    for code in cells:
        with capture_output() as captured:
            shell.run_cell(code, store_history=True)
        assert hint in captured.stdout and "minijax/" not in captured.stdout, code
        shell.user_ns["ran"].clear()
        with capture_output() as captured:
            shell.run_cell("shown = %step", store_history=True)
        assert len(shell.user_ns["ran"]) == (0 if "%run" in code else 1), code
        assert hint not in captured.stdout and "was run again to record it" in captured.outputs[0].data["text/plain"]
        error = "AttributeError at bad in jit:1" if "%run" in code else "TypeError at the recorded call: dot_general"
        assert error in captured.outputs[0].data["text/plain"] and "<details" in captured.outputs[0].data["text/html"]
        # the recording is used: nothing runs again
        with capture_output() as captured:
            shell.run_cell("%step --text", store_history=True)
        assert len(shell.user_ns["ran"]) == (0 if "%run" in code else 1)
        assert "was run again" not in captured.stdout
    text = printed(shell, "%origin clash(v)")  # the magic has recorded the call
    assert "%step opens its recording at the exception" in text and hint not in text
    assert "was run again" not in printed(shell, "%step --text") and "%step" not in printed(shell, "%log clash(v)")
    assert hint not in printed(shell, "1 / 0")
    assert "this is an earlier recording" in printed(shell, "%step --text")
    assert "ZeroDivisionError: division by zero" in printed(shell, "%minijax_debug")
    assert stack_depth() == 0


def test_an_interrupted_cell_can_be_replayed(shell):
    run(shell, "import signal\ndef stops(x):\n    y = jnp.sin(x)\n    signal.raise_signal(signal.SIGINT)\n    return y")
    assert "Ctrl-C ends that where you want to look" in printed(shell, "jit(stops)(1.)")
    with capture_output() as captured:
        shell.run_cell("%step jit(stops)(1.)")
    assert "recorded until then" in captured.outputs[0].data["text/plain"]
    assert "KeyboardInterrupt" in captured.stdout and "%step runs it again" not in captured.stdout
    assert stack_depth() == 0 and run(shell, "float(jit(jnp.sin)(0.))") == 0.0


class Info:
    """The argument that IPython passes to ``pre_run_cell``: the cell's id and code."""

    def __init__(self, cell_id: str | None, raw_cell: str = "y = 1") -> None:
        self.cell_id, self.raw_cell = cell_id, raw_cell


@pytest.mark.parametrize(
    ("gone", "brings"),
    [
        (lambda shell, known: known.begin(Info("b")), False),  # another cell
        (lambda shell, known: known.begin(Info("a")), True),  # the same cell runs again
        (lambda shell, known: known.begin(Info(None, "y = 1")), False),
        (lambda shell, known: shell.display_pub.clear_output(), True),
        (lambda shell, known: setattr(known, "on", False), True),
        (lambda shell, known: known.begin(Info("vscode-notebook-cell:/a.ipynb#W0")), True),
        (lambda shell, known: known.end(), True),  # after the end of the cell
    ],
)
def test_an_output_includes_the_style_unless_another_has_it(shell, gone, brings):
    known = sharing(shell)
    assert known.has("style") is False  # outside of cells, each output needs its own style
    known.begin(Info("a"))
    assert [known.has("style"), known.has("style"), known.has("stepper")] == [False, True, False]
    with capture_output(display=False):
        gone(shell, known)
    assert known.has("style") is not brings
