"""After an error or Ctrl-C, %step without arguments opens at the line that raised, and %debug shows the frames."""

import signal

import pytest

from minijax.core import observe
from minijax.core.trace import stack_depth
from minijax.repl import batch
from minijax.tools.documents.document import plain
from minijax.tools.recording import full
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.recorder import Recorder
from minijax.tools.stepper import panes

PROGRAM = """
import minijax.numpy as jnp
from minijax import grad, vmap
def loss(x):
    y = jnp.sin(x)
    return jnp.reshape(y, (7,)).sum()
vmap(grad(loss))(jnp.ones((3, 4)))
"""

SETUP = (
    "def between(x):\n    y = sin(x)\n    n = {}['k']\n    return y * n",
    "def inside(x):\n    y = sin(x)\n    z = jnp.dot(y, jnp.ones(7))\n    return z.sum()",
    "import minijax\n@minijax.custom_jvp\ndef ruled(x): return sin(x)",
    "@ruled.defjvp\ndef rule(p, t):\n    w = cos(p[0])\n    raise ValueError('in the rule')",
    "@minijax.custom_vjp\ndef halved(x): return sin(x)\ndef fwd(x): return sin(x), x\n"
    "def bwd(r, ct):\n    z = r * ct\n    raise ValueError('in bwd')\nhalved.defvjp(fwd, bwd)",
    "def caused(x):\n    y = sin(x)\n    try: return y.nothing\n"
    "    except AttributeError as error: raise KeyError('wrapped') from error",
    "def failing(x):\n    y = sin(x)\n    return undefined(y)",
    "def forced(x):\n    y = sin(x)\n    return y if y > 0 else x",
)

# input -> the line that the source pane marks when the stepper opens
FAILING = {
    "vmap(grad(inside))(jnp.ones((3, 4)))": "z = jnp.dot(y, jnp.ones(7))",
    "jit(forced)(1.)": "return y if y > 0 else x",
    "jit(grad(ruled))(1.)": "raise ValueError('in the rule')",
    "jit(grad(halved))(1.)": "raise ValueError('in bwd')",
    "vmap(grad(minijax.checkpoint(failing)))(jnp.ones(2))": "return undefined(y)",
    "jit(caused)(1.)": "except AttributeError as error: raise KeyError('wrapped') from error",
    "jit(failing).lower(1.)": "return undefined(y)",
    "%grad between(1.)": "n = {}['k']",
    "%nan between(1.)": "n = {}['k']",
    "%%jaxpr x=f32[3]\ny = sin(x)\nz = y @ jnp.ones(4)\nz": "z = y @ jnp.ones(4)",
    "a = sin(1.)\nb = cos(a)\nq = jnp.ones(3) @ jnp.ones(4)\nr = 1": "q = jnp.ones(3) @ jnp.ones(4)",
    "for i in range(3):\n    a = sin(1. * i)\n    if i == 2: raise KeyError(i)": "if i == 2: raise KeyError(i)",
    "%step grad(between)(1.)": "n = {}['k']",
    "%run program.py": "return jnp.reshape(y, (7,)).sum()",
}


@pytest.fixture
def session():
    made = batch.new_session({})
    for line in SETUP:
        assert made.run_line(line).error is None
    yield made
    assert stack_depth() == 0


def marked(session):
    """The line that the source pane marks when %step without arguments opens."""
    step = session.run_line("%step").step
    assert step is not None
    pane = panes.source_pane(Cursor(step.recording, step.position))
    source = plain(pane)
    assert plain(pane, 10) == source  # long lines are cut, not wrapped
    return next((line.lstrip("▶0123456789 ") for line in source.split("\n") if line.startswith("▶")), source)


@pytest.mark.parametrize("code", FAILING)
def test_a_bare_step_opens_at_the_line_that_raised(session, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    outcome = session.run_line(code)
    assert outcome.error is not None
    assert session.hint(outcome).startswith("%step") != (outcome.step is not None)
    assert marked(session) == FAILING[code]
    # the stepper is at the error, not at the end of the recording
    step = session.run_line("%step").step
    assert step is not None
    cursor = Cursor(step.recording, step.position)
    assert "error" in plain(panes.status(cursor)).lower() and cursor.moment.kind != "end"


@pytest.mark.parametrize("code", ["1/0", "undefined", "%grad undefined(1.)", "sin('a')", "import nothing_at_all"])
def test_a_failure_before_the_engine_ran_has_a_reason(session, code):
    outcome = session.run_line(code)
    assert not session.replay_hint(outcome.number)
    text = plain(session.run_line("%step").shown)
    assert f"input {outcome.number} failed before the engine did anything (" in text
    assert f"{type(outcome.error).__name__} at <minijax-{outcome.number}>:1)" in text
    assert "there is nothing to step through; %debug looks at its variables" in text


STOPS = """
import signal
seen = []
def stops(x):
    for i in range(20):
        x = sin(x)
        if i == 12:
            seen.append(stops)
            signal.raise_signal(signal.SIGINT)
    return x
"""


@pytest.mark.parametrize(
    "code", ["%step grad(stops)(1.)", "%log jit(stops)(1.)", "%step stops(1.)", "%values jit(stops)(1.)"]
)
def test_an_interrupt_keeps_the_recording(session, code):
    session.run_line(STOPS)
    outcome = session.run_line(code)
    assert isinstance(outcome.error, KeyboardInterrupt) and len(session.namespace["seen"]) == 1
    recording = outcome.recording
    assert recording is not None and recording is session.recording
    counts = {name: count for name, count in recording.binds}
    assert max(counts.values()) >= 13
    text = plain(outcome.shown, 100)
    # both texts name line 9, where the interrupted loop is
    assert ":9; recorded until then" in text and "\ninterrupted at <minijax-9>:9" in text
    assert outcome.step is None or "interrupted at <minijax-9>:9" in outcome.step.note
    assert marked(session) == "signal.raise_signal(signal.SIGINT)"
    assert len(session.namespace["seen"]) == 1  # %step did not run the program again
    assert not observe.observers
    assert session.run_line("float(grad(sin)(0.))").value == 1.0


def test_a_second_interrupt_does_not_drop_the_recording(session, monkeypatch):
    """Interrupts are deferred while the recorder finishes the recording, or runs other code of its own."""
    session.run_line(STOPS)
    finish = full.Full.finish

    def interrupted(self, error):
        signal.raise_signal(signal.SIGINT)
        return finish(self, error)

    monkeypatch.setattr(full.Full, "finish", interrupted)
    outcome = session.run_line("%step grad(stops)(1.)")
    assert outcome.recording is not None and outcome.recording.tree and outcome.step is not None
    # if the call is complete, an interrupt is raised after the recorder has finished
    recorder = Recorder("full")
    with pytest.raises(KeyboardInterrupt), recorder:
        pass
    assert recorder.recording.level == "full" and not observe.observers
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_debug_shows_frames_and_variables(session):
    assert "nothing has failed" in plain(session.run_line("%debug").shown)
    session.run_line("jit(inside)(jnp.ones(4))")
    outcome = session.run_line("%debug")
    text = plain(outcome.shown)
    assert text.startswith("TypeError: ") and "<minijax-2>:3 in inside" in text and "minijax/" not in text
    assert "y         f32[4]  jit:1 f32[4]" in text
    assert outcome.debug is not None
    innermost = outcome.debug
    while innermost.tb_next is not None:
        innermost = innermost.tb_next
    assert innermost.tb_frame.f_code.co_name == "inside" and "y" in innermost.tb_frame.f_locals
