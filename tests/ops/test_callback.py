"""Every transformation keeps callbacks into Python, and their errors have the user's message."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import jax
import jax.experimental
import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import debug
from minijax.core.trace import stack_depth
from minijax.experimental import io_callback
from minijax.ir.typecheck import typecheck_jaxpr

pytestmark = pytest.mark.usefixtures("compiled_quickly")


@pytest.fixture(autouse=True)
def stack_is_empty() -> Any:
    yield
    assert stack_depth() == 0


SCALAR = minijax.ShapeDtypeStruct((), np.float32)


def host_sin(x: Any, method: str | None = "expand_dims") -> Any:
    """sin on the host, for any shape."""
    return minijax.pure_callback(np.sin, minijax.ShapeDtypeStruct(jnp.shape(x), np.float32), x, vmap_method=method)


def test_a_pure_callback_runs_with_and_without_jit() -> None:
    for f in (host_sin, minijax.jit(host_sin), minijax.jit(minijax.jit(host_sin))):
        np.testing.assert_allclose(f(1.0), np.sin(1.0), rtol=1e-6)
    trees = minijax.pure_callback(lambda a, *, b: {"sum": a + b, "b": b}, {"sum": SCALAR, "b": SCALAR}, 1.0, b=2.0)
    assert (float(trees["sum"]), float(trees["b"])) == (3.0, 2.0)


@pytest.mark.parametrize(
    "method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized"]
)
def test_vmap_methods_match_jax(method: str) -> None:
    """Values, the shapes that the Python function receives, and the jaxpr agree with JAX."""

    def run(ns: Any, wrap: Any) -> tuple[Any, list[Any]]:
        seen: list[Any] = []

        def host(x: Any, y: Any) -> Any:
            seen.append((np.shape(x), np.shape(y)))
            return np.asarray(x) * np.asarray(y)[..., None]

        def f(x: Any, y: Any) -> Any:
            return ns.pure_callback(host, ns.ShapeDtypeStruct((3,), np.float32), x, y, vmap_method=method)

        out = wrap(ns.vmap(f, in_axes=(0, None)))(np.ones((2, 3), np.float32), np.float32(2.0))
        return np.asarray(out), sorted(set(seen))

    if method == "legacy_vectorized":  # an operand that is not mapped keeps its shape
        expected = run(jax, lambda f: f)
        assert str(run(minijax, lambda f: f)) == str(expected)
        return
    expected = run(jax, jax.jit)
    for wrap in (lambda f: f, minijax.jit):
        found = run(minijax, wrap)
        np.testing.assert_array_equal(found[0], expected[0])
        assert found[1] == expected[1]


def test_a_callback_may_have_its_own_derivative() -> None:
    @minijax.custom_jvp
    def sin(x: Any) -> Any:
        return host_sin(x)

    @sin.defjvp
    def sin_jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return sin(x), jnp.cos(x) * t

    for g in (minijax.grad(sin), minijax.jit(minijax.grad(sin)), minijax.grad(minijax.jit(sin))):
        np.testing.assert_allclose(g(1.0), np.cos(1.0), rtol=1e-6)
    xs = jnp.arange(3.0)
    np.testing.assert_allclose(minijax.jit(minijax.vmap(minijax.grad(sin)))(xs), np.cos(np.arange(3.0)), rtol=1e-5)
    with pytest.raises(ValueError, match="Pure callbacks do not support JVP. Please use `jax.custom_jvp`"):
        minijax.grad(host_sin)(1.0)


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("make", [np.float32, jnp.asarray], ids=["numpy", "device"])
@pytest.mark.parametrize("kind", ["pure", "io", "debug"])
@pytest.mark.parametrize("wrap", [lambda f: f, minijax.jit], ids=["eager", "jit"])
def test_errors_and_interrupts_in_callbacks_are_raised_once(
    error: type[BaseException], make: Any, kind: str, wrap: Any
) -> None:
    calls = []

    def host(x: Any) -> Any:
        calls.append(x)
        if len(calls) > 3:
            raise error("mine")
        return np.asarray(x)

    def f(x: Any) -> Any:
        if kind == "debug":
            debug.callback(host, x)
            return x + 1
        return (minijax.pure_callback if kind == "pure" else io_callback)(host, SCALAR, x)

    f = wrap(f)
    x = make(1.0)
    for _ in range(3):  # from its third call on, a jitted function takes the shortest path
        np.asarray(f(x))
    expected = minijax.errors.JaxRuntimeError if error is OSError else error
    with pytest.raises(expected, match="mine"):
        np.asarray(f(x))
    assert len(calls) == 4
    calls.clear()
    assert float(f(x)) == float(x) + (kind == "debug")  # later calls work again


def test_results_of_an_interrupted_program_raise() -> None:
    """The interrupt is raised once. Later reads of the result raise an error: the program failed."""
    big = jnp.ones((700, 700))

    @minijax.jit
    def f(x: Any) -> Any:
        for _ in range(10):
            x = x @ x / 700
        return minijax.pure_callback(interrupted, SCALAR, x[0, 0])

    def interrupted(x: Any) -> Any:
        raise KeyboardInterrupt("mine")

    def ask() -> None:
        nonlocal out
        out = f(big) if out is None else out
        np.asarray(out)

    out: Any = None
    with pytest.raises(KeyboardInterrupt, match="mine"):
        ask()
    with pytest.raises((minijax.errors.JaxRuntimeError, KeyboardInterrupt), match="KeyboardInterrupt|mine"):
        ask()


def test_64_bit_results_need_64_bit_mode() -> None:
    with pytest.raises(ValueError, match="result_shape_dtypes cannot specify 64-bit types"):
        minijax.pure_callback(np.sin, minijax.ShapeDtypeStruct((), np.float64), 1.0)
    with minijax.enable_x64(True):
        out = minijax.jit(lambda x: minijax.pure_callback(np.sin, minijax.ShapeDtypeStruct((), np.float64), x))(1.0)
        assert float(out) == np.sin(1.0)


# ------------------------------------------------------------------------------------------------ debug


def show(ns: Any) -> Any:
    def f(x: Any) -> Any:
        ns.debug.print("x is {x}, twice {}", x * 2, x=x)
        return x * x

    return f


def lines(capfd: Any, run: Any) -> list[str]:
    capfd.readouterr()
    run()
    return sorted(capfd.readouterr().out.splitlines())


TRANSFORMS: dict[str, Any] = {
    "plain": lambda ns, f: f(3.0),
    "jit": lambda ns, f: ns.jit(f)(3.0),
    "grad": lambda ns, f: ns.grad(f)(3.0),
    "jit of grad": lambda ns, f: ns.jit(ns.grad(f))(3.0),
    "vmap": lambda ns, f: ns.vmap(f)(np.arange(3, dtype=np.float32)),
    "jit of vmap of grad": lambda ns, f: ns.jit(ns.vmap(ns.grad(f)))(np.arange(3, dtype=np.float32)),
    "cond": lambda ns, f: ns.jit(lambda p: ns.lax.cond(p > 0, f, lambda x: x, p))(3.0),
    "cond not taken": lambda ns, f: ns.jit(lambda p: ns.lax.cond(p < 0, f, lambda x: x, p))(3.0),
    "grad of remat": lambda ns, f: ns.grad(ns.checkpoint(f))(3.0),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_output_of_prints_matches_jax(name: str, capfd: Any) -> None:
    expected = lines(capfd, lambda: (jax.block_until_ready(TRANSFORMS[name](jax, show(jax))), jax.effects_barrier()))
    assert lines(capfd, lambda: TRANSFORMS[name](minijax, show(minijax))) == expected


def test_print_happens_before_the_call_returns(capfd: Any) -> None:
    @minijax.jit
    def only_an_effect(x: Any) -> None:
        debug.print("{}", x)

    only_an_effect(5.0)
    assert capfd.readouterr().out == "5.0\n"
    only_an_effect(6.0)  # this call runs the cached program
    assert capfd.readouterr().out == "6.0\n"


def test_the_jaxpr_matches_jax() -> None:
    found, expected = (str(ns.make_jaxpr(show(ns))(1.0)) for ns in (minijax, jax))
    assert found == expected.replace("      partitioned=False\n", "")
    typecheck_jaxpr(minijax.make_jaxpr(minijax.vmap(show(minijax)))(jnp.ones(2)))


def test_ordered_callbacks_keep_their_order() -> None:
    seen: list[float] = []

    @minijax.jit
    def f(x: Any) -> Any:
        for i in range(20):
            debug.callback(lambda v: seen.append(float(v)), x * 0 + i, ordered=True)
        return x

    f(1.0)
    assert seen == [*range(20)]


def test_callbacks_may_use_minijax_and_take_strings() -> None:
    seen: list[Any] = []

    def host(x: Any, label: str, *, unit: str) -> None:
        seen.append((label, float(jnp.sin(x)), unit))  # sin is evaluated even while a jit is staged

    minijax.jit(lambda x: debug.callback(host, x, "first", unit="m"))(0.0)
    debug.callback(host, 0.0, "second", unit="s")
    debug.callback(ordered=True)(host, 0.0, "third", unit="kg")
    assert seen == [("first", 0.0, "m"), ("second", 0.0, "s"), ("third", 0.0, "kg")]


def test_log_goes_to_the_logger(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="minijax"):
        minijax.jit(lambda x: debug.log("value {}", x))(2.0)
    assert [r.getMessage() for r in caplog.records if r.name == "minijax"] == ["value 2.0"]


def test_an_unused_io_callback_still_runs() -> None:
    count = [0]

    def host(x: Any) -> Any:
        count[0] += 1
        return np.float32(x)

    @minijax.jit
    def f(x: Any) -> Any:
        io_callback(host, SCALAR, x)
        return x + 1

    f(1.0)
    f(2.0)
    minijax.vmap(f)(jnp.arange(3.0))
    assert count == [5]
    with pytest.raises(ValueError, match="Cannot `vmap` ordered IO callbacks"):
        minijax.vmap(lambda x: io_callback(host, SCALAR, x, ordered=True))(jnp.arange(3.0))


def test_compiled_callbacks_do_not_import_jax() -> None:
    code = (
        "import sys, numpy as np, minijax\n"
        "minijax.jit(lambda x: minijax.debug.print('printed {}', x))(1.0)\n"
        "assert 'jax' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "printed 1.0\n"), done.stderr
