"""Exceptions: JAX's names, bases and words, and the user's line in each of them."""

from __future__ import annotations

import functools
import gc
import os
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.errors
import jax.numpy as jnp
import numpy as np
import pytest

from minijax import errors

HERE = __file__


class FakeTracer:
    """What the exceptions look at in a tracer."""

    def __init__(self, dtype: str = "bool", shape: tuple[int, ...] = (), origin: str = ""):
        self.aval = SimpleNamespace(dtype=np.dtype(dtype), shape=shape)
        self.origin = origin

    def _origin_msg(self) -> str:
        return self.origin

    def _advice(self, kind: str) -> str:
        return f"Use another {kind}."


ORIGIN = "The error occurred while tracing the function f at file.py:3 for jit."


def from_package(source: str, **names: Any) -> Any:
    """The function ``run`` of source code that pretends to be in a file of the package."""
    space = dict(names, errors=errors)
    exec(compile(source, os.path.join(errors._PACKAGE, "made_up.py"), "exec"), space)
    return space["run"]


# --- against JAX --------------------------------------------------------------------------------------------


def test_every_name_of_jax_errors_is_here() -> None:
    public = {name for name in dir(jax.errors) if not name.startswith("_")}
    assert {name for name in public if isinstance(getattr(jax.errors, name), type)} <= set(errors.__all__)


@pytest.mark.parametrize("name", [n for n in errors.__all__ if hasattr(jax.errors, n)])
def test_bases_are_jaxs(name: str) -> None:
    def bases(cls: type) -> list[str]:
        # JAX mixes a private class in
        return [c.__name__ for c in cls.__mro__ if not c.__name__.startswith("_")]

    assert bases(getattr(errors, name)) == bases(getattr(jax.errors, name))


def test_xla_runtime_error_is_another_name() -> None:
    assert errors.XlaRuntimeError is errors.JaxRuntimeError
    assert issubclass(errors.JaxRuntimeError, RuntimeError)


def raised_by_jax(f: Callable[..., Any], *args: Any) -> Exception:
    with pytest.raises(Exception) as raised:
        jax.jit(f)(*args)
    return raised.value


CASES: dict[str, tuple[Callable[[], Exception], Callable[[], Exception]]] = {
    "bool": (
        lambda: errors.TracerBoolConversionError(FakeTracer()),
        lambda: raised_by_jax(lambda x: 1 if x > 0 else 2, 1.0),
    ),
    "array": (
        lambda: errors.TracerArrayConversionError(FakeTracer("float32", (3,))),
        lambda: raised_by_jax(lambda x: np.sin(x), np.ones(3, np.float32)),
    ),
    "index": (
        lambda: errors.TracerIntegerConversionError(FakeTracer("int32")),
        lambda: raised_by_jax(lambda x: [1, 2][x], 1),
    ),
    "float": (
        lambda: errors.ConcretizationTypeError(FakeTracer("int32"), "The problem arose with the `float` function."),
        lambda: raised_by_jax(lambda x: float(x), 1),
    ),
    "mask": (
        lambda: errors.NonConcreteBooleanIndexError(FakeTracer("bool", (3,))),
        lambda: raised_by_jax(lambda x: x[x > 0], jnp.ones(3)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_first_line_is_jaxs(name: str) -> None:
    ours, theirs = (make() for make in CASES[name])
    assert type(ours).__name__ == type(theirs).__name__
    assert str(ours).splitlines()[0].rstrip(".") == str(theirs).splitlines()[0].rstrip(".")


@pytest.mark.parametrize("name", CASES)
def test_where_and_what_next(name: str) -> None:
    error = CASES[name][0]()
    lines = str(error).splitlines()
    assert any(line.startswith(f"It happened at {HERE}:") for line in lines)
    # one next action, which is the last line
    assert lines[-1].startswith(("Use ", "Pass ", "Return "))


def test_origin_is_told_when_the_tracer_knows_it() -> None:
    text = str(errors.TracerBoolConversionError(FakeTracer(origin=ORIGIN)))
    assert ORIGIN in text
    assert text.index("Attempted boolean conversion") < text.index(ORIGIN) < text.index("It happened at")
    without = str(errors.TracerBoolConversionError(SimpleNamespace(aval=FakeTracer().aval)))
    assert "tracing the function" not in without


# --- leaked tracers -----------------------------------------------------------------------------------------


def test_escaped_tracer_error_has_jaxs_words_and_names_all_places() -> None:
    leaked: list[Any] = []

    def h(x: Any) -> Any:
        leaked.append(x * 2)
        return x

    jax.jit(h)(1.0)
    with pytest.raises(jax.errors.UnexpectedTracerError) as raised:
        leaked[0] + 1
    theirs = str(raised.value).splitlines()[0]

    born = errors.source_info()
    error = errors.escaped_tracer_error(FakeTracer("float32"), "jit", "h at file.py:7", born, "The primitive is add.")
    assert type(error) is errors.UnexpectedTracerError
    lines = str(error).splitlines()
    expected = theirs.replace("by JAX", "by jit").replace("DynamicJaxprTracer", "FakeTracer")
    assert lines[0] == expected
    assert lines[1] == "The function being traced when the value leaked was h at file.py:7 traced for jit."
    assert lines[2] == f"The leaked value was created at {errors.summarize(born)}."
    assert lines[3].startswith(f"It was used after that at {HERE}:")
    assert lines[4] == "The primitive is add."
    assert lines[5].startswith("Return the value")


# --- places -------------------------------------------------------------------------------------------------


def test_source_info_is_the_users_innermost_line() -> None:
    run = from_package("def run(depth):\n    return run(depth - 1) if depth else errors.source_info()\n")
    for depth in (0, 1, 5):
        info, line = run(depth), sys._getframe().f_lineno
        assert errors.summarize(info).startswith(f"{HERE}:{line}:")
        assert errors.position(info)[0] == line


def test_source_info_skips_frames_unseen() -> None:
    run = from_package("def run():\n    return inner()\ndef inner():\n    return errors.source_info(3)\n")
    assert errors.summarize(run()).startswith(HERE)


def test_summary_is_jaxs() -> None:
    def f(x: Any) -> Any:
        infos.append(mark(x))
        return x + 1

    infos: list[Any] = []
    mark = from_package("def run(x):\n    return errors.source_info()\n")
    closed = jax.make_jaxpr(lambda x: f(x))(1.0)
    from jax._src import source_info_util

    theirs = source_info_util.summarize(closed.eqns[0].source_info)
    ours = errors.summarize(infos[0])
    path, line, column, name = (theirs.rsplit(":", 2)[0], *theirs.rsplit(":", 2)[1:], "")
    assert ours.split(":")[0] == path
    assert int(ours.rsplit(":", 2)[1]) == int(line) - 1
    # column counted from 0, then the qualified name of the function
    assert ours.rsplit(" ", 1)[1] == theirs.rsplit(" ", 1)[1]
    assert ours.rsplit(":", 1)[1].split(" ")[0] == "21" and column.split(" ")[0] == "15" and not name


def test_what_is_typed_at_a_prompt_is_the_users() -> None:
    for name in (
        "<minijax-1>",
        "<stdin>",
        "<ipython-input-3-abc>",
        "<string>",
        "/somewhere/tests/x.py",
        HERE,
    ):
        assert errors.is_user_file(name)
    for name in (
        "<frozen importlib._bootstrap>",
        errors.__file__,
        os.path.join(errors._PACKAGE, "core", "x.py"),
    ):
        assert not errors.is_user_file(name)
    assert errors.is_user_file(errors._PACKAGE + "_plugin/x.py")
    space: dict[str, Any] = {"errors": errors}
    exec(compile("def at_prompt():\n\n    return errors.source_info()\n", "<minijax-1>", "exec"), space)
    assert errors.summarize(space["at_prompt"]()) == "<minijax-1>:3:11 (at_prompt)"


def test_front_ends_beside_the_package_are_not_the_users_in_a_checkout(tmp_path: Path) -> None:
    package = tmp_path / "minijax"
    find = functools.partial(errors._package_folders, str(package))
    assert find() == (str(package) + os.sep,)
    (tmp_path / "pyproject.toml").write_text("")
    folders = [str(tmp_path / name) + os.sep for name in ("minijax", "repl", "ipython_ext")]
    assert list(find()) == folders


def test_source_line_of_a_frame() -> None:
    frame = sys._getframe()
    line = frame.f_lineno + 1
    assert errors.source_line(frame) == f"{HERE}:{line} (test_source_line_of_a_frame)"
    assert errors.source_line() == f"{HERE}:{sys._getframe().f_lineno} (test_source_line_of_a_frame)"
    assert errors.user_frame() is frame
    assert errors.raw_user_frame()[0] is frame.f_code  # type: ignore[index]


def test_places_keep_no_arrays_alive() -> None:
    class Data:
        pass

    def f() -> tuple[Any, Any]:
        data = Data()
        return errors.source_info(), weakref.ref(data)

    info, ref = f()
    gc.collect()
    assert ref() is None and info is not None


def nothing() -> None:
    return None


def cost(f: Callable[[], Any], calls: int = 20_000) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        f()
    return (time.perf_counter() - start) / calls


def test_a_place_costs_a_few_calls() -> None:
    # Measured: 5 empty calls with the user's frame next, 2.5 more for each frame of the package in between.
    run = from_package("def run():\n    return errors.source_info()\n")
    ratios = [cost(run) / cost(nothing) for _ in range(15)]
    assert min(ratios) < 16, ratios
