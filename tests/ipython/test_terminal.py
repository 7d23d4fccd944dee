"""In IPython in a pseudo-terminal, %step opens the full-screen stepper."""

from __future__ import annotations

from tests.repl.screen import Terminal


def test_step_opens_the_stepper_and_gives_the_value_after_it(tmp_path):
    options = ("--quick", "--no-banner", "--no-confirm-exit")
    env = {"IPYTHONDIR": str(tmp_path)}
    terminal = Terminal(*options, columns=100, program=("-m", "IPython"), env=env)
    try:
        terminal.wait_for("In [1]:")
        names = "from minijax import grad, numpy as jnp; f = lambda x: jnp.sin(x) * 2."
        for number, line in enumerate(("%load_ext minijax", names), 2):
            terminal.send(line + "\r")
            terminal.wait_for(f"In [{number}]:")
        terminal.send("%step grad(f)(3.)\r")
        terminal.wait_for("q leaves")
        assert terminal.screen.alternate and "linearize:1 begins" in terminal.text()
        terminal.send("ssss")
        terminal.wait_for("Cell In[2], line 1")
        assert "<ipython-input" not in terminal.text()
        terminal.send("q")
        terminal.wait_for("Out[3]: Array(-1.979985")
        terminal.wait_for("In [4]:")
        assert not terminal.screen.alternate
        # an error is shown after the stepper closes
        terminal.send("%step f(3.) @ jnp.ones(3)\r")
        terminal.wait_for("ValueError at the recorded call")
        terminal.send("q")
        terminal.wait_for("In [5]:")
        assert not terminal.screen.alternate and "ValueError: matmul" in terminal.text()
        # a semicolon hides the value, not the stepper
        terminal.send("%step f(0.);\r")
        terminal.wait_for("q leaves")
        terminal.send("q")
        terminal.wait_for("In [6]:")
        assert "Out[5]" not in terminal.text()
        terminal.send("exit\r")
        assert terminal.ended() == 0
    finally:
        terminal.process.close(force=True)
