"""Every command shows the right output for good and bad arguments, in a session and in every front end."""

import subprocess
import sys

import jax
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input

import minijax
from minijax.core.trace import reset_stack, stack_depth
from minijax.ipython_ext.magics import MAGICS, magic_name
from minijax.repl import batch
from minijax.repl.app import App
from minijax.tools.commands import find
from minijax.tools.commands.table import COMMANDS
from minijax.tools.documents.document import plain
from minijax.tools.session.session import Session
from tests.repl.screen import RecordingOutput
from tests.tools.lines import BAD, GOOD, SETUP, STORIES


def in_session():
    session = Session(find, {})
    for line in SETUP:
        assert session.run_line(line).error is None

    def run(line):
        outcome = session.run_line(line)
        return plain(outcome.shown, 200) + plain(outcome.summary, 200)

    yield run


def in_batch():
    session = batch.new_session({})
    for line in SETUP:
        session.run_line(line)

    def run(line):
        outcome = session.run_line(line)
        assert batch.Page(colour=True).shown(outcome, 80) is not None  # the output in colour is made too
        return batch.Page().shown(outcome, 200)

    yield run


def in_prompt():
    """The prompt, which gets the lines through prompt_toolkit's pipe instead of from a keyboard."""
    session = Session(find, {})
    for line in SETUP:
        session.run_line(line)

    def run(line):
        output = RecordingOutput(columns=200)
        with create_pipe_input() as keyboard:
            keyboard.send_text("\x1b[200~" + line + "\x1b[201~" + ("\r\r" if line.startswith("%%") else "\r"))
            keyboard.send_text("\x04")
            app = App(session, history=InMemoryHistory(), input=keyboard, output=output)
            assert app.run() == 0
        return output.printed()

    yield run


def in_ipython():
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "minijax")
    shell.run_cell("%panels on")  # record every cell, as other front ends record every line
    for line in SETUP:
        assert shell.run_cell(line).success

    def run(line):
        name = line.lstrip("%").split()[0]
        if name in COMMANDS:
            line = line.replace(name, magic_name(COMMANDS[name]), 1)
        with capture_output() as captured:
            result = shell.run_cell(line)
        if not line.startswith("%"):
            return repr(result.result)
        if result.result is not None:
            shown = result.result._repr_mimebundle_()
            html = shown.get("text/html", "")
            # a graph is shown only as a picture
            assert html.startswith('<div class="minijax ') or shown["image/svg+xml"].startswith("<?xml ")
            # of the other results, only steppers, linked programs and stages have scripts
            assert "<script" not in html or 'data-mjw="' in html
            assert "<script" not in shown.get("image/svg+xml", "")
            return repr(result.result)
        published = [output.data["text/plain"] for output in captured.outputs]
        return "\n".join([captured.stdout, captured.stderr, *published])

    yield run
    shell.run_line_magic("unload_ext", "minijax")
    InteractiveShell.clear_instance()


# For these lines IPython shows its own output and calls none of our magics.
IPYTHONS_OWN_WORDS = {
    "%gard f(3.0)": "not found",
    "%%vmap x=1.0\nx": "not found",
    "%%jaxpr x=f32[3]\n": "the cell body is empty",
    "%ls": "README.md",  # IPython's own magic
}

FRONT_ENDS = {"session": in_session, "batch": in_batch, "prompt": in_prompt, "ipython": in_ipython}


@pytest.fixture(autouse=True, scope="module")
def editor():
    """Set an editor that writes one line into its file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VISUAL", """sh -c 'echo "\\"from the editor\\"" > "$0"'""")
        yield


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    """Clear JAX's caches: %passes uses XLA's profiler, which is slow in a process with many programs."""
    jax.clear_caches()


@pytest.fixture
def run(request):
    """Run lines in a front end whose session is new for each test."""
    yield from FRONT_ENDS[request.param]()


@pytest.fixture(scope="module")
def mistyped(request):
    """Run bad lines in a front end, all in one session, which must survive each of them."""
    for run in FRONT_ENDS[request.param]():
        yield request.param, run


# A session and IPython run the lines of all areas; each other front end runs every fourth area.
RUNS = [(name, area) for name in FRONT_ENDS for area in list(STORIES)[:: 1 if name in ("session", "ipython") else 4]]


@pytest.mark.parametrize(("run", "area"), RUNS, indirect=["run"])
def test_good_lines_show_the_expected_texts(run, area, capsys):
    wrong = []
    for line, expected in STORIES[area]:
        name = line.split()[0].lstrip("%")
        if run.__qualname__.startswith("in_ipython") and name in COMMANDS and COMMANDS[name].prompt:
            assert COMMANDS[name] not in MAGICS
            continue  # in IPython this line calls IPython's own magic
        shown = run(line)
        wrong += [(line, each, shown) for each in expected if each not in shown]
        wrong += [(line, "no error", shown)] if "Error" in shown and not any("Error" in e for e in expected) else []
    assert not wrong, "\n\n".join(f"{line}\nshould say {each!r} and said\n{shown}" for line, each, shown in wrong)
    assert stack_depth() == 0
    if run.__qualname__.startswith("in_session"):
        assert capsys.readouterr().out == ""  # commands never print: they return their output to the front end


# A session runs all bad lines; each other front end runs every sixth.
MISTAKES = [(name, *row) for name in FRONT_ENDS for row in (BAD if name == "session" else BAD[::6])]


@pytest.mark.parametrize(("mistyped", "line", "expected"), MISTAKES, ids=map(str, MISTAKES), indirect=["mistyped"])
def test_bad_arguments_show_the_usage_error(mistyped, line, expected):
    front_end, run = mistyped
    if front_end == "ipython":
        expected = IPYTHONS_OWN_WORDS.get(line, expected)
        name = line.split()[0].lstrip("%")
        if name in COMMANDS and COMMANDS[name].prompt:
            assert COMMANDS[name] not in MAGICS  # here IPython shows its own message
            return
    shown = run(line)
    assert expected in " ".join(shown.split()), shown
    assert "Traceback" not in shown
    assert "42" in run("6 * 7") and stack_depth() == 0


def test_every_command_has_a_good_and_a_bad_line():
    for lines in (GOOD, BAD):
        tried = {line.split()[0] for line, _ in lines}
        assert {f"%{name}" for name in COMMANDS} <= tried
    cells = {line.split()[0] for line, _ in GOOD if line.startswith("%%")}
    assert cells == {f"%%{name}" for name, command in COMMANDS.items() if command.cell}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_in_the_help_works(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import jax, sys\nassert sys.argv[1:] == ['--steps', '10'], jax\n")
    command = COMMANDS[name]
    session = batch.new_session({})
    session.run_line("def f(x): return sin(x) * 2. - x")
    session.run_line("grad(f)(3.0)")
    head, marker, cell = command.example.partition("%%")
    try:
        for line in [*head.strip().split("\n"), *([marker + cell] if marker else [])]:
            outcome = session.run_line(line)
            assert outcome.error is None, (line, plain(outcome.shown))
    finally:
        minijax.config.update("jax_enable_x64", False)
        reset_stack()


def test_values_of_commands_can_be_used():
    session = batch.new_session({})
    session.run_line("def f(x): return sin(x) * 2. - x")
    outcome = session.run_line("%grad f(3.0)")
    assert session.namespace["_"] is outcome.value
    assert float(outcome.value[1]) == pytest.approx(-2.979985)
    closed = session.run_line("%jaxpr f(3.0)").value
    assert len(closed.eqns) == 3
    assert session.run_line("_.eqns[0].primitive.name").value == "sin"
    assert session.run_line("%grad f(3.0);").shown.blocks == ()


@pytest.mark.parametrize("size", [1e9, 1.0, 1e-9])
def test_the_check_can_fail(size):
    session = batch.new_session({"size": size, "wrong": minijax.custom_jvp(minijax.numpy.sin)})
    session.run_line("wrong.defjvp(lambda p, t: (wrong(p[0]), 0. * t[0]))")
    shown = plain(session.run_line("%grad (lambda x: wrong(x) * size)(0.5) --check").shown, 200)
    assert "DISAGREES" in shown and "(relative difference 1.0e+00)" in shown
    shown = plain(session.run_line("%grad (lambda x: jnp.sin(x) * size)(0.5) --check").shown, 200)
    assert "agrees" in shown and float(shown.rpartition("relative difference ")[2].rstrip(")\n ")) < 1e-6
    shown = plain(session.run_line("%grad (lambda x: x * 0 + size)(0.5) --check").shown, 200)
    assert "agrees" in shown and "both are 0" in shown


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("(lambda x: jnp.abs(x))(0.)", "jumps or has a kink here: -0.125730221 to the left, 0.125730221 to the right"),
        ("(lambda x: jnp.round(x))(.5)", "jumps or has a kink here"),
        ("(lambda x: jnp.sin(x.astype(jnp.bfloat16)))(.5)", "the program rounds to bfloat16"),
        ("(lambda x: jnp.sum(jnp.sin(jnp.float32(x))))(1.)", "the program rounds to float32"),
    ],
)
def test_the_check_says_what_it_cannot_tell(program, reason):
    shown = plain(batch.new_session({}).run_line(f"%grad {program} --check").shown, 200)
    assert "cannot tell" in shown and reason in shown and "DISAGREES" not in shown


def test_the_check_widens_all_floats_or_gives_a_reason():
    session = batch.new_session({})
    session.run_line("v = jnp.arange(3.0)")
    session.run_line("def rnn(w, xs): return lax.scan(lambda h, x: (jnp.tanh(w * h + x), None), xs[0], xs)[0]")
    shown = plain(session.run_line("%grad rnn(0.5, v) --check").shown, 200)
    assert "agrees with finite differences" in shown
    session.run_line("def narrow(w): return lax.scan(lambda h, _: (w * h, None), jnp.float32(1.0), None, length=2)[0]")
    outcome = session.run_line("%grad narrow(0.5) --check")
    shown = plain(outcome.shown, 200)
    assert "gradient" in shown and "not checked: it does not run in 64 bits (TypeError: " in shown
    assert outcome.error is None
    shown = plain(session.run_line("%grad (lambda x: jnp.log(x - 1.0))(0.5) --check").shown, 200)
    assert "not checked: finite differences give nan here" in shown and "and grad " in shown and "; %nan " in shown


def test_odd_command_lines_get_an_answer():
    session = batch.new_session({})
    for line, expected in (
        ("%", "there is no command %. %help lists them all"),
        ("%  grad\tsin(3.0)", "gradient"),
        ("%jaxpr x\0", "is no valid Python"),
    ):
        assert expected in plain(session.run_line(line).shown)


def test_the_tools_import_no_front_end():
    code = (
        "import sys, minijax.tools.session.session, minijax.tools.commands.completion, minijax.tools.documents.html\n"
        "print([n for n in ('IPython', 'prompt_toolkit', 'pygments', 'jax', 'jaxlib') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
