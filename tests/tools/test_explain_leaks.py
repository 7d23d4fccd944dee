"""``%leaks`` finds live tracers of transformations that have ended, and what refers to them."""

import jax
import pytest

from minijax.core.trace import stack_depth
from minijax.tools.commands import find
from minijax.tools.documents.document import plain
from minijax.tools.documents.html import to_html
from minijax.tools.explain import leaks as explain_leaks
from minijax.tools.session.session import Session

SETUP = (
    "import minijax.numpy as jnp",
    "from minijax import grad, jit, jvp, make_jaxpr, vmap",
    "kept = []",
    "class Box: pass",
    "box = Box()",
)


@pytest.fixture
def session(small_heap):
    made = Session(find, {})
    for line in SETUP:
        assert made.run_line(line).error is None
    yield made
    assert stack_depth() == 0


def leaks(session, *lines, command="%leaks"):
    for each in lines:
        session.run_line(each)
    outcome = session.run_line(command)
    assert outcome.error is None
    return [" ".join(line.split()) for line in plain(outcome.shown, 200).splitlines()]


NONE = ["no tracer outlived its transformation"]

# name -> (lines to run, the path of references to the tracer, the place of the operation)
HELD = {
    "a list": (
        ("def f(x):\n    y = jnp.sin(x)\n    kept.append(y)\n    return y", "jit(f).trace(1.0);"),
        "global kept → [0]",
        "<minijax-6>:2:8 (f), as `y`",
    ),
    "an attribute of an attribute": (
        ("def f(x):\n    box.inner = Box()\n    box.inner.value = {'ü':{True: x}}\n    return x", "jit(f).trace(1.0);"),
        "global box → Box.inner → Box.value → ['ü'] → [True]",
        "input 0 of that function",
    ),
    "a global": (
        ("def f(x):\n    global found\n    found = x * 2\n    return x", "make_jaxpr(f)(1.0);"),
        "global found",
        "<minijax-6>:3:12 (f), as `found`",
    ),
    "a closure": (
        ("def f(x):\n    def inner(): return x\n    box.call = inner\n    return x", "jit(f).trace(1.0);"),
        "global box → Box.call → variable x of f.<locals>.inner",
        "input 0 of that function",
    ),
    "vmap": (
        ("def f(x):\n    kept.append(x)\n    return x", "vmap(f)(jnp.ones(3));"),
        "global kept → [0]",
        "not known: vmap records no lines; %step of the call shows them",
    ),
    "grad": (
        ("def f(x):\n    kept.append(x * x)\n    return x", "grad(f)(1.0);"),
        "global kept → [0]",
        "<minijax-6>:2:16 (f)",
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_a_leak_has_a_reference_path_and_a_place(session, name):
    lines, held, born = HELD[name]
    shown = leaks(session, *lines)
    assert f"held by {held}" in shown, shown
    assert f"made at {born}" in shown, shown
    assert sum(line.startswith("leaked ") for line in shown) == 1
    assert any(line.startswith("of ") and "of f at <minijax-6>:1" in line for line in shown)
    assert leaks(session, "kept.clear(); box = Box = f = found = None") == NONE


def test_equal_leaks_are_counted(session):
    shown = leaks(session, "for i in range(20): jit(lambda x: kept.append(x)).trace(1.0)")
    assert shown[0] == "leaked f32[] of jit:1 and 19 more like it"
    shown = leaks(session, *(f"jit(lambda x: kept.append(x * {i})).trace(1.0);" for i in range(14)))
    assert sum(line.startswith("leaked") for line in shown) == explain_leaks.MOST_LEAKS and shown[-1] == "and 3 more"


def test_tracers_held_only_by_the_prompt_are_listed_separately(session):
    lines = ("def f(x):\n    kept.append(x)\n    return x", "jit(f).trace(1.0);", "kept[0]")
    shown = leaks(session, *lines)
    at = shown.index("held by global kept → [0]")
    assert shown[at + 1] == "also kept by _, Out[8]"
    shown = leaks(session, "kept.clear()", command="%leaks --all")
    assert "held by only the prompt: _, Out[8]. The tracer is freed with it." in shown
    shown = leaks(session, "1", "2", "3", command="%leaks --all")
    assert "held by only the prompt: Out[8]. The tracer is freed with it." in shown
    assert leaks(session) == [
        "your program keeps no tracer whose transformation has ended",
        "1 kept only by the prompt (Out[8]); %leaks --all lists them too",
    ]
    assert leaks(session, "Out.clear()") == NONE


def test_the_last_exception_holds_tracers_until_the_next_one(session):
    session.run_line("def f(x):\n    y = x * 2\n    raise ValueError('no')")
    outcome = session.run_line("jit(f)(1.0)")
    assert isinstance(outcome.error, ValueError)
    shown = leaks(session, command="%leaks --all")
    assert {line for line in shown if line.startswith("held by")} == {
        "held by only the prompt: the last exception. The tracer is freed with it."
    }
    del outcome
    session.run_line("1 / 0")  # a new exception replaces the one that %debug keeps
    assert leaks(session) == NONE


def test_tracers_of_jax_are_found(session):
    source = (
        "import jax",
        "def keep(x):\n    kept.append(x * 2)\n    return x",
        "box.seen = jax.jit(keep)(1.0)",
        "jax.vmap(kept.append)(jax.numpy.ones(2));",
        "jax.grad(lambda x: (setattr(box, 'last', x), x)[1])(1.0);",
    )
    text = "\n".join(leaks(session, *source))
    assert text.count("leaked f32[] of") == 3 and "and 1 more" not in text
    assert "of jit (jax)" in text and "of vmap (jax)" in text and "of linearize (jax)" in text
    assert "jit (jax) of keep at" in text and ":2:16 (keep)" in text
    assert "global kept → [0]" in text and "global kept → [1]" in text and "global box → Box.last" in text
    session.namespace["kept"].clear()
    session.namespace["box"].last = None
    inside = []
    jax.jit(lambda x: (inside.extend(leaks(session)), x)[1])(1.0)
    assert inside == leaks(session) == ["no tracer outlived its transformation"]


def test_hostile_keys_are_escaped(session):
    name = "<b>\\x1b[31m" * 20
    lines = (f"def f(x):\n    kept.append({{'{name}': x}})\n    return x", "jit(f).trace(1.0);")
    for each in lines:
        assert session.run_line(each).error is None
    document = session.run_line("%leaks").shown
    assert "\x1b" not in plain(document, 200) and "['<b>\\x1b[31m" in plain(document, 200)
    assert "<b>" not in to_html(document)
