"""Exceptions have JAX's names, bases and messages, and name the user's line."""

import functools
import gc
import os
import sys
import weakref

import jax
import jax.errors
import pytest

from minijax import errors

HERE = __file__


def from_package(source, **names):
    """The function ``run`` of ``source``, compiled as if it were in a file of the package."""
    space = dict(names, errors=errors)
    exec(compile(source, os.path.join(errors._PACKAGE, "made_up.py"), "exec"), space)
    return space["run"]


# --- against JAX --------------------------------------------------------------------------------------------


def test_errors_has_every_name_of_jax_errors():
    public = {name for name in dir(jax.errors) if not name.startswith("_")}
    assert {name for name in public if isinstance(getattr(jax.errors, name), type)} <= set(errors.__all__)


@pytest.mark.parametrize("name", [n for n in errors.__all__ if hasattr(jax.errors, n)])
def test_bases_match_jax(name):
    def bases(cls):
        # private classes are ignored: JAX has one more private base class
        return [c.__name__ for c in cls.__mro__ if not c.__name__.startswith("_")]

    assert bases(getattr(errors, name)) == bases(getattr(jax.errors, name))


def test_xla_runtime_error_is_another_name_of_jax_runtime_error():
    assert errors.XlaRuntimeError is errors.JaxRuntimeError
    assert issubclass(errors.JaxRuntimeError, RuntimeError)


# --- places -------------------------------------------------------------------------------------------------


def test_source_info_is_the_users_innermost_line():
    run = from_package("def run(depth):\n    return run(depth - 1) if depth else errors.source_info()\n")
    for depth in (0, 1, 5):
        info, line = run(depth), sys._getframe().f_lineno
        assert errors.summarize(info).startswith(f"{HERE}:{line}:")
        assert errors.position(info)[0] == line


def test_source_info_skips_a_given_number_of_frames():
    run = from_package("def run():\n    return inner()\ndef inner():\n    return errors.source_info(3)\n")
    assert errors.summarize(run()).startswith(HERE)


def test_lines_typed_at_a_prompt_belong_to_the_user():
    for name in ("<minijax-1>", "<stdin>", "<ipython-input-3-abc>", "<string>", "/somewhere/tests/x.py", HERE):
        assert errors.is_user_file(name)
    for name in ("<frozen importlib._bootstrap>", errors.__file__, os.path.join(errors._PACKAGE, "core", "x.py")):
        assert not errors.is_user_file(name)
    assert errors.is_user_file(errors._PACKAGE + "_plugin/x.py")
    space = {"errors": errors}
    exec(compile("def at_prompt():\n\n    return errors.source_info()\n", "<minijax-1>", "exec"), space)
    assert errors.summarize(space["at_prompt"]()) == "<minijax-1>:3:11 (at_prompt)"


def test_front_ends_in_a_checkout_are_not_user_code(tmp_path):
    package = tmp_path / "minijax"
    find = functools.partial(errors._package_folders, str(package))
    assert find() == (str(package) + os.sep,)
    (tmp_path / "pyproject.toml").write_text("")
    folders = [str(tmp_path / name) + os.sep for name in ("minijax", "repl", "ipython_ext")]
    assert list(find()) == folders


def test_source_line_names_file_and_function():
    frame = sys._getframe()
    line = frame.f_lineno + 1
    assert errors.source_line(frame) == f"{HERE}:{line} (test_source_line_names_file_and_function)"
    assert errors.source_line() == f"{HERE}:{sys._getframe().f_lineno} (test_source_line_names_file_and_function)"
    assert errors.user_frame() is frame
    assert errors.raw_user_frame()[0] is frame.f_code


def test_places_keep_no_arrays_alive():
    class Data:
        pass

    def f():
        data = Data()
        return errors.source_info(), weakref.ref(data)

    info, ref = f()
    gc.collect()
    assert ref() is None and info is not None
