"""Programs that compute with real JAX: minijax does not see it, and says so instead of answering falsely."""

from __future__ import annotations

import functools
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax.interop.uses import jax_use
from minijax.tools.commands import find
from minijax.tools.documents.document import plain
from minijax.tools.session.session import Session

PROGRAM = """\
import jax, jax.numpy as rnp, minijax, minijax.numpy as jnp
def g(x): return rnp.log(x)
def both(x): return rnp.exp(float(jnp.log(x)))
class Model:
    def __call__(self, x): return g(x)
def mine(x): return jnp.log(x)
"""


@pytest.fixture(scope="module")
def session() -> Session:
    made = Session(find, {})
    assert made.run_line(PROGRAM).error is None
    return made


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%nan g(-1.0)", "%nan sees what minijax computes, and g(-1.0) uses real JAX (jax.numpy, which g calls rnp)"),
        ("%nan Model()(-1.0)", "jax.numpy, which g calls rnp"),
        ("%nan both(2.0)", "jax.numpy, which both calls rnp"),
        ("%compare g(2.0)", "%compare sees what minijax computes"),
        ("%time g(2.0)", "%time sees what minijax computes"),
        ("%log jax.grad(g)(3.0)", "g, a function made by JAX"),
        ("%step jax.grad(mine)(3.0)", "not seen: what real JAX computes in it (mine, a function made by JAX)"),
        ("%step --text jax.jit(lambda x: x)(3.0)", "made by JAX"),
        ("%log rnp.sin(3.0)", "jax.numpy.sin"),
        ("%jaxpr g(2.0)", "A value of minijax reached a function of real JAX"),
        ("%grad g(2.0)", "With minijax.numpy in place of jax.numpy"),
    ],
)
def test_nothing_false_is_said(session: Session, line: str, said: str) -> None:
    shown = " ".join(plain(session.run_line(line).shown, 400).split())
    assert said in shown and "nothing: no operation" not in shown
    assert "sin a" in plain(session.run_line("%jaxpr jnp.sin(2.0)").shown)


@pytest.mark.parametrize(
    "fun",
    [
        "lambda x: library.act(x)",
        "lambda x: library.inner.act(x)",
        "lambda x: library.Net()(x)",
        "lambda x: library.net.layer(x)",
        "lambda x: library.Net.static(x)",
        "lambda x: library.table['act'](x)",
        "functools.partial(lambda x, act: act(x), act=g)",
        "keyword_default",
    ],
)
def test_use_is_found_wherever_a_function_is_named(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fun: str
) -> None:
    library = types.ModuleType("library")
    code = (
        "import jax.numpy as rnp\n"
        "def act(x): return rnp.log(x)\n"
        "class Net:\n"
        "    def __call__(self, x): return self.layer(x)\n"
        "    def layer(self, x): return act(x)\n"
        "    @staticmethod\n"
        "    def static(x): return act(x)\n"
        "net, table = Net(), {'act': act}\n"
    )
    library.__file__ = str(tmp_path / "library.py")
    exec(compile(code, library.__file__, "exec"), vars(library))
    library.inner = library  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "library", library)
    session.run_line("import library, functools")
    session.run_line("def keyword_default(x, *, act=library.act): return act(x)")
    assert session.run_line(f"use = {fun}").error is None
    shown = plain(session.run_line("%nan use(-1.0)").shown, 400)
    assert "uses real JAX (jax.numpy, which " in shown, shown
    # what is beside it in the module, and not named, is not read
    session.run_line("library.mine = mine")
    assert jax_use(session.namespace["mine"]) == ""
    assert session.run_line("own = lambda x: library.mine(x)").error is None
    assert jax_use(session.namespace["own"]) == ""


def test_what_is_seen_is_shown_and_the_rest_said(session: Session) -> None:
    shown = plain(session.run_line("%nan both(-1.0)").shown, 200)
    assert "first NaN made by log" in shown and "not seen: what real JAX computes in it" in shown
    shown = plain(session.run_line("%log both(2.0)").shown, 200)
    assert "log" in shown and "not seen: what real JAX computes in it" in shown
    assert "not seen" not in plain(session.run_line("%nan mine(-1.0)").shown, 200)


def test_programs_without_jax_are_told_from_those_with_it() -> None:
    import jax

    def inner(x: Any) -> Any:
        return jax.numpy.sin(x)

    def outer(x: Any) -> Any:
        return (lambda y: inner(y))(x)

    def ours(x: Any) -> Any:
        return jnp.sin(x) + np.sin(1.0)

    for fun in (inner, outer, functools.partial(outer, 1.0), minijax.jit(outer), minijax.grad(outer), jax.jit(ours)):
        assert jax_use(fun)
    for fun in (ours, minijax.jit(ours), minijax.vmap(minijax.grad(ours)), jnp.sin, functools.partial(ours, 1.0)):
        assert jax_use(fun) == ""
    assert jax_use(ours, [jax.numpy.ones(2)]) and not jax_use(ours, [jnp.ones(2), 1.0])
