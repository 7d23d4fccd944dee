"""``debug.breakpoint`` stops a running program at a prompt; the tests type commands at the prompt through ``input``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijax
import minijax.debug
import minijax.numpy as jnp
from minijax.errors import JaxRuntimeError

Type = Callable[..., None]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Type:
    """A function that sets the lines to type. After the last line the prompt reads the end of the input."""
    lines: list[str] = []

    def read(prompt: str) -> str:
        print(prompt, end="")
        if not lines:
            raise EOFError
        print(lines[0])
        return lines.pop(0)

    monkeypatch.setattr("builtins.input", read)

    def send(*more: str) -> None:
        lines.extend(more)

    return send


def inner(z, k):
    w = z * k
    minijax.debug.breakpoint(ordered=True)
    return w + 1


def outer(x, extra=None):
    y = jnp.sin(x)
    unordered = {"x": x, 3: 4}
    return inner(y, 2.0) + len(unordered) - 2


@pytest.mark.parametrize("transform", [lambda f: f, minijax.jit], ids=["eager", "jit"])
def test_the_prompt_has_the_values_of_the_run(transform: Any, typed: Type, capsys: Any) -> None:
    function = transform(outer)
    function(2.0)  # the values of this run must not be shown at the next breakpoint
    capsys.readouterr()
    typed("w", "p z", "k", "v = w + 1", "p v", "u", "a", "p nothing", "u", "d", "pp [y]", "l", "h", "c")
    expected = np.sin(np.float32(1)) * 2 + 1
    np.testing.assert_allclose(function(1.0), expected, rtol=1e-6)
    lines = capsys.readouterr().out.split("\n")
    assert lines[0] == "Entering jdb:"
    assert lines[1].endswith("test_breakpoint.py(41)inner()") and lines[2].startswith("-> minijax.debug.breakpoint(")
    assert lines[3] == "(jdb) w" and lines[4].startswith("> ") and lines[5].endswith("(48)outer()")
    output = "\n".join(lines)
    assert "(jdb) p z\nArray(0.84147" in output
    assert "(jdb) k\n2.0\n" in output
    assert "(jdb) p v\nArray(2.68294" in output
    assert "x = " in output and "*** NameError: name 'nothing' is not defined" in output
    assert "[Array(0.84147" in output
    assert "->     return inner(y, 2.0) + len(unordered) - 2" in output
    assert "p EXPRESSION" in output


def test_lines_see_and_change_the_names_of_the_frame(typed: Type, capsys: Any, monkeypatch: Any) -> None:
    """A line may use a name of the frame inside a comprehension or function, even if a global has the same name."""
    monkeypatch.setitem(globals(), "k", "the global one")
    typed("[k for _ in range(2)]", "p [k * t for t in (3, 4)]", "k = 7", "k", "def g(t): return t * k", "g(2)", "c")
    inner(1.0, 2.0)
    output = capsys.readouterr().out
    for line in ("range(2)]\n[2.0, 2.0]", "(3, 4)]\n[6.0, 8.0]", "(jdb) k\n7", "(jdb) g(2)\n14"):
        assert line in output
    assert globals()["k"] == "the global one" and "g" not in globals()


def test_transformed_programs_stop_once_for_each_element_with_primal_values(typed: Type, capsys: Any) -> None:
    typed("p z", "c", "p z", "c")
    minijax.jit(minijax.vmap(outer))(np.array([0.0, 1.0], np.float32))
    output = capsys.readouterr().out
    assert output.index("p z\nArray(0.,") < output.index("p z\nArray(0.84")
    typed("p z", "c")
    assert minijax.grad(outer)(0.0) == 2
    assert "p z\nArray(0.," in capsys.readouterr().out


def test_q_ends_the_program(typed: Type) -> None:
    typed("q", "q")
    with pytest.raises(JaxRuntimeError, match="BdbQuit: the prompt of debug.breakpoint"):
        outer(1.0)
    with pytest.raises(JaxRuntimeError, match="the prompt of debug.breakpoint"):
        minijax.jit(outer)(1.0)


def test_u_stops_at_the_outermost_frame_and_wrong_arguments_are_refused(typed: Type, capsys: Any) -> None:
    typed("u")
    minijax.jit(lambda x: minijax.debug.breakpoint(num_frames=1))(1.0)
    assert "*** this is the outermost function" in capsys.readouterr().out
    with pytest.raises(ValueError, match="the only backend is 'cli'"):
        minijax.debug.breakpoint(backend="web")
    with pytest.raises(NotImplementedError, match="ordered=True"):
        minijax.debug.breakpoint(token=1)


def test_commands_of_the_repl_run_in_the_frame(typed: Type) -> None:
    from tests.repl.test_app import ENTER, Typed

    typed("%jaxpr inner.__name__ and jnp.sin(z)", "z * 2", "v = z + 1", "p v", "%grad jnp.sin(w)", "c")
    code = "import minijax.debug; from tests.ops.test_breakpoint import outer; jit(outer)(0.0)"
    session = Typed(code, ENTER)
    assert "let b:f32[] = sin a in (b,)" in session.printed
    assert "Array(0.," in session.printed
    assert "Array(1., dtype=float32" in session.printed, "the gradient of sin at 0"
    typed("%step grad(jnp.sin)(z)", "c")
    stepped = Typed(code, ENTER, "q")
    assert "grad(jnp.sin)(z)" in stepped.printed, "the stepper was opened"


def test_commands_of_ipython_run_in_the_frame(typed: Type, capsys: Any) -> None:
    from IPython.core.interactiveshell import InteractiveShell

    from minijax.api import callbacks
    from minijax.ipython_ext import load_ipython_extension, unload_ipython_extension

    shell = InteractiveShell()
    load_ipython_extension(shell)
    try:
        typed("%grad jnp.sin(w)", "c")
        outer(0.0)
        assert "Array(1., dtype=float32" in capsys.readouterr().out
    finally:
        unload_ipython_extension(shell)
    assert callbacks.front_end is None


def test_a_variable_that_holds_itself_is_shown_whole():
    from minijax.api import breakpoints  # imported here, because the tests above check line numbers

    itself: list[object] = []
    itself.append(itself)
    assert breakpoints._flattened(itself) == ([itself], None)
