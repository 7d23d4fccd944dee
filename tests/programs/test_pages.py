"""Every page of the gallery has equal random numbers on both libraries, and equal losses at each step."""

import functools
from pathlib import Path

import jax
import numpy as np
import pytest

import minijax
from minijax.repl import batch
from minijax.tools import gallery
from minijax.tools.compare import measure
from minijax.tools.documents.document import plain
from tests.ecosystem.beside_jax import assert_leaves_near
from tests.programs import PAGES
from tests.programs.pages import on_jax, on_minijax
from tests.programs.record import is_current, recorded

pytestmark = pytest.mark.usefixtures("compiled_quickly")

STEPS = 4
# The maximum size of a recording's file, in bytes. Its parts are compressed one by one, so that each can be read alone.
LARGEST = 95_000
# Relative tolerances of compiled and of eager losses. NumPy computes eager matrix products, with other roundings.
COMPILED, EAGER = 1e-6, 1e-5


def page_on(library, name):
    for needed in PAGES[name]:
        extra = "test" if needed == "sklearn" else "test-ecosystem"
        pytest.importorskip(needed, reason=f"{needed} is not installed: pip install -e '.[{extra}]'")
    return library(name)


def losses(page, step, steps):
    """The loss before each training step, starting with the first."""
    state, data, found = page.start(), page.data(), []
    for _ in range(steps):
        state, loss = step(state, *data)
        found.append(float(loss))
    return found


@functools.cache
def losses_of_jax(name):
    page = page_on(on_jax, name)
    return losses(page, jax.jit(page.step), STEPS)


@pytest.mark.parametrize("name", PAGES)
def test_initial_state_and_data_match_jax(name):
    """Both libraries make the same data and, bit for bit, the same random numbers."""
    page, of_jax = page_on(on_minijax, name), page_on(on_jax, name)
    for ours, theirs, error in ((page.start(), of_jax.start(), 0.0), (page.data(), of_jax.data(), 2e-6)):
        leaves = minijax.tree.leaves(ours)
        assert all(isinstance(leaf, (minijax.Array, int)) for leaf in leaves)
        assert_leaves_near(leaves, theirs, error)


@pytest.mark.parametrize("name", PAGES)
def test_losses_match_jax_and_fall(name):
    page, wanted = page_on(on_minijax, name), losses_of_jax(name)
    np.testing.assert_allclose(losses(page, minijax.jit(page.step), STEPS), wanted, rtol=COMPILED)
    assert wanted[-1] < wanted[0]


@pytest.mark.parametrize("name", PAGES)
def test_eager_losses_match_jax_and_the_recording_is_current(name):
    page_on(on_minijax, name)  # skips if a library is missing
    found, recording = recorded(name)
    np.testing.assert_allclose(found, losses_of_jax(name)[:2], rtol=EAGER)
    assert is_current(name, recording), f"python -m tests.programs.record {name}"
    assert gallery.path(name).stat().st_size <= LARGEST


# command -> words of its answer; the command gets a call of ``loss`` or of its gradient
ANSWERS = {
    "%grad loss({})": "gradient",
    "%jaxpr jax.grad(loss)({})": "lambda",
    "%step jax.grad(loss)({}) --verbose": " by ",
    "%log jax.grad(loss)({}) --verbose": " by ",
    "%hlo jax.grad(loss)({})": "func.func public @main",
    "%nan loss({})": "nothing: no operation of loss",
}
# only every third page also runs this slow command: JAX traces and compiles the page
TIMED = {"%time loss({})": "jax"}


@pytest.mark.parametrize("name", PAGES)
def test_commands_work_on_the_unchanged_page(name, monkeypatch):
    """The user imported the page on JAX and types these lines at minijax's prompt."""
    monkeypatch.setattr(measure, "_TIMED_SECONDS", 0.0)
    monkeypatch.setattr(measure, "_TRACES", 1)
    page, session = page_on(on_jax, name), batch.new_session({})
    arguments = {f"x{i}": argument for i, argument in enumerate(page.example())}
    session.namespace.update({"jax": jax, "loss": page.loss, **arguments})
    for line, expected in {**ANSWERS, **(TIMED if list(PAGES).index(name) % 3 == 2 else {})}.items():
        outcome = session.run_line(line.format(", ".join(arguments)))
        text = plain(outcome.shown, 400)
        assert outcome.error is None and expected in text and "from JAX" in text.splitlines()[-1], (line, text)
        if line.startswith("%grad"):
            np.testing.assert_allclose(float(outcome.value[0]), losses_of_jax(name)[0], rtol=EAGER)


def test_every_page_is_listed_and_short():
    assert list(gallery.PAGES) == list(PAGES)
    files = {path.stem: path for path in Path(__file__).parent.glob("*.py")}
    assert set(files) - {"__init__", "pages", "record", "test_pages"} == set(PAGES)
    for name in PAGES:
        text = files[name].read_text(encoding="utf-8")
        assert 40 <= len(text.splitlines()) <= 115, name
        assert text.startswith(f'"""{gallery.PAGES[name]}\n')
