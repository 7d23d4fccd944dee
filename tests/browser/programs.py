"""Recordings for the browser tests: several transformations, an error, and a recording with hostile names."""

from __future__ import annotations

import functools
from typing import Any

import minijax
import minijax.numpy as jnp
from minijax import grad, jit, lax, make_jaxpr, vmap
from minijax.tools import Recorder, Recording
from minijax.tools.session import source

USER = """\
import minijax.numpy as jnp
from minijax import lax

def f(x):
    y = jnp.sin(x) * 2.0
    return (y - x).sum()

def g(x):
    def body(carry, a):
        return carry + jnp.cos(a), carry * a
    carry, ys = lax.scan(body, x, jnp.arange(3.0))
    return carry + ys.sum()

def loop(x):
    for _ in range(6):
        y = jnp.sin(x) * 2.0
        x = y - x
    return x

def rnn(w, xs):
    def step(h, x):
        h = jnp.tanh(h * w + x)
        return h, h * 2.0
    last, ys = lax.scan(step, 0.1, xs)
    return last + ys.sum()

def until(x):
    def body(x):
        y = jnp.sin(x)
        return x + y
    return lax.while_loop(lambda x: x < 3.0, body, x)

def bad(x):
    y = jnp.exp(x)
    return y.reshape(7)
"""

# Text that would break a page without escaping; \u202e is the right-to-left override.
HOSTILE = "</script><img src=x onerror=alert(1)>'\"&lt;<!--\x07\u202e$x$"
HOSTILE_USER = f"""\
def evil(x):
    {HOSTILE.replace(chr(7), "").replace(chr(0x202E), "")!r}
    return x * 2.0  # {HOSTILE}
"""


@functools.cache
def names() -> dict[str, Any]:
    """The functions of ``USER`` and ``HOSTILE_USER``, registered as if typed at a prompt."""
    known: dict[str, Any] = {}
    for file, text in (("<browser-1>", USER), ("<browser-2>", HOSTILE_USER)):
        source.register(file, text)
        exec(compile(text.replace("\x07", "").replace("\u202e", ""), file, "exec"), known)
    return known


def recorded(run: Any, title: str = "") -> Recording:
    """A full recording of a call that may raise."""
    recorder = Recorder("full", title)
    try:
        with recorder:
            run()
    except Exception:
        assert recorder.recording.errors
    return recorder.recording


@functools.cache
def recording(name: str) -> Recording:
    """The recording of this name. It is made once."""
    f, g, bad, evil = (names()[each] for each in ("f", "g", "bad", "evil"))
    runs = {
        "vmap of grad": lambda: vmap(grad(f))(jnp.ones((3, 2))),
        "scan": lambda: make_jaxpr(grad(g))(1.0),
        "jit": lambda: jit(f)(jnp.ones(2)),
        "error": lambda: minijax.jvp(bad, (jnp.ones(3),), (jnp.ones(3),)),
        "nothing": lambda: None,
        "hostile": lambda: _hostile(evil),
        "loop": lambda: grad(names()["loop"])(0.5),
        "rnn": lambda: grad(names()["rnn"])(0.5, jnp.arange(3.0)),
        "turns": lambda: jit(names()["until"])(0.5),
        "examples": lambda: vmap(names()["rnn"], (None, 0))(0.5, jnp.arange(4.0).reshape(2, 2)),
    }
    return recorded(runs[name], HOSTILE if name == "hostile" else name)


def _hostile(evil: Any) -> Any:
    evil.__name__ = evil.__qualname__ = HOSTILE

    def fails(x: Any) -> Any:
        raise ValueError(HOSTILE)

    minijax.jvp(evil, (3.0,), (1.0,))
    return grad(lambda x: lax.cond(x > 0, fails, fails, x))(3.0)


# Recordings whose values depend on iterations and examples.
CHOOSING = ("turns", "examples")
NAMES = ("vmap of grad", "scan", "jit", "error", "nothing")
