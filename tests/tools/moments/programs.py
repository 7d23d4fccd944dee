"""The programs whose values are compared at every moment: how minijax runs each, and how JAX runs it with prints."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy

import minijax
import minijax.numpy
from minijax.tools.session import real_jax
from tests.tools import recorded_programs
from tests.tools.moments import derivatives, printing, watching
from tests.tools.moments.comparing import Verdict, compare
from tests.tools.moments.printing import Prints
from tests.tools.moments.watching import Recorded
from tests.tools.values import watched_programs


class Watched(NamedTuple):
    """A program in ``module``: ``ours`` makes what is recorded, ``theirs`` runs it by JAX from the names of the module
    with prints. ``lacking`` is a column in which values are missing. ``lines``: what equations of a library's give is
    noted too.
    """

    module: Any
    ours: Callable[[], Callable[[], Any]]
    theirs: Callable[[dict[str, Any]], Any]
    lacking: str = ""
    lines: bool = False

    def record(self) -> Recorded:
        """Run it on minijax."""
        return watching.record(self.ours(), self.module.__file__)

    def printed(self) -> Prints:
        """Run it on JAX."""
        names = _names(self.module.__file__, self.module.__name__)
        return printing.run(lambda prints: self.theirs(names(prints)), self.lines)

    def verdict(self, step: int = 1) -> Verdict:
        """Both, compared."""
        return compare(self.record(), self.printed(), step, self.lacking)


@functools.cache
def _names(file: str, module: str) -> Callable[[Prints], dict[str, Any]]:
    return printing.printing(file, module)


def _of_library(module: Any, name: str) -> Watched:
    program = module.PROGRAMS[name]
    return Watched(
        module,
        lambda: lambda: program(minijax, minijax.numpy),
        lambda names: names[name](jax, jax.numpy),
        LACKING.get(name, ""),
    )


def _carried(fun: Callable[..., Any], args: tuple[Any, ...]) -> Callable[[], Any]:
    carried = real_jax.carried("values", "program", fun, args, {})
    assert carried is not None
    return lambda: carried.fun(*carried.args, **carried.kwargs)


def _for_jax(module: Any, name: str) -> Watched:
    """As a program of JAX's, which minijax takes over."""
    program = module.PROGRAMS[name]

    def call() -> Any:
        return program(jax, jax.numpy)

    return Watched(module, lambda: _carried(call, ()), lambda names: names[name](jax, jax.numpy))


def _recorded(name: str) -> Watched:
    return Watched(recorded_programs, lambda: recorded_programs.PROGRAMS[name], lambda names: names[name]())


def differentiated(fun: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The gradient of an example of ``tests/ecosystem``, or itself where it has none, and its arguments."""
    example = fun.example
    return fun if example.grad is None else jax.value_and_grad(fun, example.grad), example.arguments()


def of_ecosystem(name: str) -> Watched:
    """A program of ``tests/ecosystem``: a library's, or JAX's alone; its gradient where it has one."""
    from tests.ecosystem.beside_jax import program

    fun = program(name)

    def theirs(names: dict[str, Any]) -> Any:
        call, args = differentiated(names[fun.__name__])
        return call(*args)

    module = importlib.import_module(fun.__module__)
    return Watched(module, lambda: _carried(*differentiated(fun)), theirs, lines=True)


# A linear map is called later, maybe often: the table has no tangents of these calls. A bwd rule that was run while a
# backward pass was staged was not staged by itself, and replays do not run it.
LACKING = {"linearized": "tangent", "custom_vjp_in_scan": "cotangent"}
LIBRARIES = ("flax.linen_mlp", "equinox.mlp", "haiku.mlp", "haiku.lstm", "optax.adam", "pure.control_flow")

PROGRAMS: dict[str, Watched] = {
    **{name: _of_library(watched_programs, name) for name in watched_programs.PROGRAMS},
    **{f"{name} of jax": _for_jax(watched_programs, name) for name in watched_programs.FOR_JAX},
    **{f"{name} recorded": _recorded(name) for name in recorded_programs.PROGRAMS},
    **{name: _of_library(derivatives, name) for name in derivatives.PROGRAMS},
}
