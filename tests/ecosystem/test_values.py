"""For programs of real libraries, views show the values that the variables have when JAX runs the program.

Slices of the recordings are compared with the jaxpr, and the stepper's screens of a Flax model with golden files.
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any

import jax
import numpy as np
import pytest

import minijax.numpy as jnp
from minijax.pytree import tree_flatten
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import Recording, place_parts
from minijax.tools.session import real_jax
from minijax.tools.values.brief import numpy_of
from minijax.tools.values.moment import Ledger, Unknown, Worth
from minijax.tools.values.table import named_values
from tests.ecosystem.beside_jax import program
from tests.repl.stops import SIZES, Stop, screen, stopped, to
from tests.tools.values.slicing import check_slices

PROGRAMS = (
    "flax.linen_mlp",
    "equinox.mlp",
    "haiku.mlp",
    "haiku.lstm",
    "optax.adam",
    "pure.control_flow",
)

# a library's local variables may be iterators, about which JAX warns
pytestmark = pytest.mark.filterwarnings("ignore:Python iterable type:DeprecationWarning")

Seen = dict[str, list[np.ndarray]]


def call_of(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The gradient of a program (the program itself if it has none), and its arguments."""
    fun = program(name)
    example = fun.example
    return fun if example.grad is None else jax.value_and_grad(fun, example.grad), example.arguments()


def held(name: str) -> Seen:
    """Map each variable's name, with the path to a leaf, to all its values in the program and in libraries it calls.

    JAX runs the program operation by operation. Loops run in Python, so the values of every iteration are seen.
    """
    seen: Seen = defaultdict(list)
    fun = program(name)

    def look(frame: FrameType) -> None:
        for variable, value in list(frame.f_locals.items()):
            for path, leaf in leaves_of(value):
                if isinstance(leaf, (jax.Array, np.ndarray, float, int)) and not isinstance(leaf, jax.core.Tracer):
                    seen[variable + path].append(np.asarray(leaf))

    def follow(frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        if "/jax/" in file or "/numpy/" in file or "site-packages" not in file and "/ecosystem/" not in file:
            return None
        if event != "call":
            look(frame)
        return follow

    arguments = fun.example.arguments()
    before = sys.gettrace()  # coverage may have set a trace function
    with jax.disable_jit():
        sys.settrace(follow)
        try:
            fun(*arguments)
        finally:
            sys.settrace(before)
    return seen


def leaves_of(value: Any) -> list[tuple[str, Any]]:
    try:
        return [(jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(value)[0]]
    except Exception:  # a library's container that is not registered as a pytree yet
        return []


def counted(name: str, work: Callable[[], object]) -> Counter[str]:
    """How often ``work`` calls each function of the program's file."""
    file = sys.modules[program(name).__module__].__file__
    counts: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename == file:
            counts[code.co_qualname] += 1

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counts


@functools.cache
def recorded(name: str) -> tuple[Recording, Counter[str]]:
    """The recording of a first call, and how often it called each of the user's functions. Minijax's caches are cold,
    but JAX's may not be: other tests in this process may have traced functions."""
    fun, arguments = call_of(name)
    recorder = Recorder("full", name)

    def run(watched: AbstractContextManager[object]) -> None:
        carried = real_jax.carried("values", name, fun, arguments, {})
        assert carried is not None
        with watched:
            carried.fun(*carried.args, **carried.kwargs)

    if name == "pure.control_flow":
        run(nullcontext())
    counts = counted(name, lambda: run(recorder))
    return recorder.recording, counts


def shown(known: Ledger, number: int) -> list[np.ndarray]:
    """The shown values of a variable in every iteration of its loops."""
    loops = known.loops(number)
    out = []
    for indices in itertools.product(*[range(loop.count) for loop in loops]):
        known.iterations.update(zip([loop.key for loop in loops], indices, strict=True))
        found = known.primal(number)
        if isinstance(found, Worth):
            assert not found.axes
            out.append(numpy_of(found.array))
    known.iterations.clear()
    return out


def parts(value: np.ndarray) -> np.ndarray:
    return np.asarray(value, np.float64).reshape(-1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_shown_value_was_held_by_the_variable(name: str, golden: Callable[[str, str], None]) -> None:
    (recording, _), there = recorded(name), held(name)
    known = Ledger(recording)
    table = []
    compared = 0
    for named in named_values(known):
        values = shown(known, named.number)
        file, _, function = place_parts(named.life.place)
        function = function if file.endswith(f"programs/{name.partition('.')[0]}.py") else ""
        kind = "variable" if named.variable else "expression"
        found = known.primal(named.number)
        row = f"{kind:10}  {named.name}  {named.life.tracer.type}" + (f"  in {function}" if function else "")
        table.append(row + (f"  no value: {found.reason}" if isinstance(found, Unknown) else ""))
        if not named.variable:
            continue
        for value in values:
            compared += 1
            alike = [each for each in there[named.name] if each.shape == value.shape]
            assert any(np.allclose(parts(each), parts(value), rtol=1e-4, atol=1e-6) for each in alike), named.name
    assert compared >= 3
    golden(f"names_ecosystem/{name}.txt", "\n".join(table))


@pytest.mark.parametrize("name", PROGRAMS)
def test_user_functions_run_as_often_as_in_jax(name: str) -> None:
    fun, arguments = call_of(name)
    recording, counts = recorded(name)
    # as often as in JAX, or not at all if a trace is cached from another test in this process
    assert counts.items() <= counted(name, lambda: fun(*arguments)).items()
    known = Ledger(recording)
    assert not counted(name, lambda: [shown(known, named.number) for named in named_values(known)])


@pytest.mark.parametrize("name", PROGRAMS)
def test_slices_of_library_programs_match_the_jaxpr(name: str) -> None:
    call, args = call_of(name)
    carried = real_jax.carried("origin", name, call, args, {})
    assert carried is not None
    leaves, tree = tree_flatten(carried.args)

    def fun(*given: Any) -> Any:
        return carried.fun(*tree.unflatten(given), **carried.kwargs)

    assert check_slices(fun, fun, [jnp.asarray(x) for x in leaves]) > 1


def test_screens_show_names_and_values_of_a_flax_model(golden: Callable[[str, str], None]) -> None:
    fun = program("flax.linen_mlp")
    variables, xs = fun.example.arguments()
    to_tanh = to("done linearize:1 tanh(nn.Dense(8)(x))")
    stop = Stop(("import jax",), "%step jax.grad(loss)(variables, xs)", to_tanh, "values")
    stepper = stopped(stop, {"jax": jax, "loss": fun, "variables": variables, "xs": xs})
    for size in SIZES:
        shown = screen(stepper, *size)
        assert "nn.tanh(nn.Dense" in shown and "Dense_0.kernel" in shown and "-0.5983 … 0.5911" in shown
        # the path of the program's folder differs between machines
        shown = re.sub(r"(?m)(in Perceptron\.__call__)([^│\n]*)", lambda found: found[1] + " " * len(found[2]), shown)
        golden(f"screens/flax_model_{size[0]}.txt", shown)
