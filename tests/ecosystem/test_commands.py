"""On programs of real libraries, every command answers or says why it cannot."""

from __future__ import annotations

import jax
import pytest

from minijax.repl import batch
from minijax.tools.compare import measure
from minijax.tools.documents.document import plain
from minijax.tools.session.session import Session
from minijax.tools.usage import UsageError
from tests.ecosystem.beside_jax import program
from tests.ecosystem.programs import ALL

pytestmark = pytest.mark.usefixtures("compiled_quickly")

# command line -> part of its answer. {value}: a call of the program. {gradient}: a call of its gradient (of the program
# itself if it has none). {jitted}: a call of the jitted program
ANSWERS = {
    "%jaxpr {gradient}": "lambda",
    "%step {gradient} --verbose": " by ",
    "%log {gradient} --verbose": " by ",
    "%graph {gradient}": "result",
    "%diff {value} --by {transformation}": "equations",
    "%hlo {gradient}": "func.func public @main",
    "%nan {value}": "made",
}
# these commands are slow, because they compile JAX's operations one by one; so each program is tested with one of them
MEASURED = ("%time {value}", "%compare {value}")
DERIVATIVES = {"%grad {value}": "gradient"}
# command line -> the message shown instead of an answer
REFUSALS = {
    "%why {jitted}": "whether JAX would trace this call",
    "%check {value}": "is a function, not a primitive",
}


@pytest.fixture(autouse=True)
def measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``%time`` and ``%compare`` measure briefly: the tests check that they give figures, not their precision."""
    monkeypatch.setattr(measure, "_TIMED_SECONDS", 0.0)
    monkeypatch.setattr(measure, "_TRACES", 1)


def session_with(name: str) -> tuple[Session, dict[str, str]]:
    """A session that defines the program and its arguments, and the calls to put into command lines."""
    fun = program(name)
    example, called = fun.example, name.split(".")[1]
    arguments = {f"x{i}": argument for i, argument in enumerate(example.arguments())}
    session, operands = batch.new_session({}), ", ".join(arguments)
    session.namespace.update({"jax": jax, called: fun, **arguments})
    differentiated = called if example.grad is None else f"jax.grad({called}, {example.grad})"
    return session, {
        "value": f"{called}({operands})",
        "gradient": f"{differentiated}({operands})",
        "jitted": f"jax.jit({called})({operands})",
        "transformation": "grad" if example.grad == 0 else "jit",
    }


@pytest.mark.parametrize("name", ALL)
def test_every_command_answers(name: str) -> None:
    session, calls = session_with(name)
    has_gradient = program(name).example.grad is not None
    answers = {**ANSWERS, **(DERIVATIVES if has_gradient else {}), MEASURED[ALL.index(name) % 2]: "jax"}
    for line, expected in answers.items():
        outcome = session.run_line(line.format(**calls))
        text = plain(outcome.shown, 400)
        assert outcome.error is None, (line, text)
        assert expected in text and "from JAX" in text.splitlines()[-1], (line, text)
    for line, expected in REFUSALS.items():
        outcome = session.run_line(line.format(**calls))
        assert outcome.error is None or isinstance(outcome.error, UsageError)
        assert expected in plain(outcome.shown, 400)
