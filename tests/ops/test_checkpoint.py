"""``checkpoint`` matches JAX in values, jaxprs, errors, saved residuals, recomputation and memory."""

from __future__ import annotations

import math
import re
from typing import Any

import jax
import jax.ad_checkpoint
import numpy as np
import pytest

import minijax
import minijax.ad_checkpoint
import minijax.numpy as jnp
from minijax.core.trace import stack_depth
from minijax.ir.jaxpr import Jaxpr, subjaxprs
from tests.oracle.case import Case, into
from tests.oracle.checks import check_programs, check_values

W = np.array([[0.5, -0.3, 0.2], [0.1, 0.4, -0.6], [-0.2, 0.7, 0.3]], np.float32)
X = np.array([0.3, -1.2, 0.8], np.float32)


@pytest.fixture(autouse=True)
def stack_is_empty() -> Any:
    yield
    assert stack_depth() == 0


def name_of(ns: Any) -> Any:
    return ns.ad_checkpoint.checkpoint_name


def policy_of(ns: Any, policy: Any) -> Any:
    """The policy for a name or for ``(name, *arguments)``; None and functions are returned unchanged."""
    if isinstance(policy, tuple):
        return getattr(ns.checkpoint_policies, policy[0])(*policy[1:])
    return policy if policy is None or callable(policy) else getattr(ns.checkpoint_policies, policy)


POLICIES = [
    None,
    "everything_saveable",
    "nothing_saveable",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    ("save_only_these_names", "first"),
    ("save_any_names_but_these", "first"),
    ("save_anything_except_these_names", "first"),
]


def layers(ns: Any) -> Any:
    def f(w: Any, x: Any) -> Any:
        np_ = ns.numpy
        y = name_of(ns)(np_.sin(np_.dot(w, x)), "first")
        z = name_of(ns)(np_.tanh(np_.dot(w, y)), "second")
        return (z * np_.cos(z)).sum()

    return f


CASES: dict[str, Case] = {}
case = into(CASES)


@case(W, X)
def nested_with_policies(ns: Any, w: Any, x: Any) -> Any:
    dots = ns.checkpoint_policies.dots_saveable
    inner = ns.checkpoint(lambda x: ns.numpy.sin(ns.numpy.dot(w, ns.numpy.sin(x))))
    return ns.checkpoint(lambda x: inner(ns.numpy.dot(w, ns.numpy.cos(x))), policy=dots)(x).sum()


@case(W, X)
def result_of_jit_used_again(ns: Any, w: Any, x: Any) -> Any:
    f = ns.jit(lambda x: (ns.numpy.sin(x), ns.numpy.dot(w, x)))

    def g(x: Any) -> Any:
        a, b = f(x)
        return ns.numpy.sin(a) * b + a

    return ns.checkpoint(g, policy=ns.checkpoint_policies.dots_saveable)(x).sum()


@case(W, X)
def forwards_and_repeats(ns: Any, w: Any, x: Any) -> Any:
    def f(w: Any, x: Any) -> Any:
        y = ns.numpy.sin(x)
        return w, y, y, 2.0

    a, b, c, d = ns.jit(ns.checkpoint(f))(w, x)
    return a.sum() * d + ns.numpy.dot(b, c)


@case(W, X)
def integers_and_booleans(ns: Any, w: Any, x: Any) -> Any:
    def f(x: Any, n: Any, up: Any) -> Any:
        return ns.numpy.where(up, ns.numpy.sin(x) ** 2 * n, x), n + 1

    y, n = ns.checkpoint(f)(x, 3, x > 0)
    return (y * n).sum() + w.sum()


@case(W, X)
def static_arguments_and_keywords(ns: Any, w: Any, x: Any) -> Any:
    def f(kind: Any, p: Any, times: Any, *, shift: Any) -> Any:
        for _ in range(times):
            p = {"x": getattr(ns.numpy, kind)(p["x"]) + shift}
        return p

    return ns.checkpoint(f, static_argnums=(0, -1))("sin", {"x": x}, 3, shift=1.5)["x"].sum() + w.sum()


@case(W, X)
def cse_prevented_for_some(ns: Any, w: Any, x: Any) -> Any:
    f = lambda p, x: ns.numpy.sin(ns.numpy.dot(p[0], ns.numpy.sin(x)) * p[1])  # noqa: E731
    return ns.checkpoint(f, prevent_cse=((True, False), True))((w, 2.0), x).sum()


@case(W, X)
def of_scan_that_saves_a_name(ns: Any, w: Any, x: Any) -> Any:
    def body(c: Any, a: Any) -> Any:
        h = name_of(ns)(ns.numpy.sin(ns.numpy.dot(w, c)), "h")
        return ns.numpy.tanh(h * a), h.sum()

    policy = ns.checkpoint_policies.save_only_these_names("h")
    c, ys = ns.checkpoint(lambda x: ns.lax.scan(body, x, ns.numpy.arange(3.0)), policy=policy)(x)
    return c.sum() + ns.numpy.sin(ys).sum()


@case(W, X)
def of_cond(ns: Any, w: Any, x: Any) -> Any:
    def f(w: Any, x: Any) -> Any:
        y = ns.numpy.dot(w, ns.numpy.sin(x))
        return ns.lax.cond(y[0] > 0, lambda y: ns.numpy.sin(ns.numpy.sin(y)), lambda y: y * y, y).sum()

    return ns.checkpoint(f)(w, x)


@case(X)
def names_of_trees(ns: Any, x: Any) -> Any:
    return (name_of(ns)({"a": ns.numpy.sin(x), "b": 2}, "n")["a"] * x).sum()


@case(X, X + 1)
def barrier(ns: Any, x: Any, y: Any) -> Any:
    a, b = ns.lax.optimization_barrier((ns.numpy.sin(x), {"y": y * 2.0}))
    return (a * b["y"]).sum()


# For these programs JAX keeps a call for the known part of a jit or scan even if it only forwards inputs or is empty.
OTHER = {"result_of_jit_used_again", "forwards_and_repeats", "integers_and_booleans", "of_cond"}
OTHER.add("of_scan_that_saves_a_name")
REVERSE = ("grad", "vmap_of_grad", "grad_of_vmap", "grad_of_grad", "jvp_of_grad")


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("name", CASES)
def test_values_match_jax(name: str) -> None:
    check_values(CASES[name])


# "nested_with_policies" is left out: in JAX its inner call returns a residual that the call itself receives
@pytest.mark.parametrize("name", sorted(CASES.keys() - {"nested_with_policies"}))
def test_programs_match_jax(name: str) -> None:
    check_programs(CASES[name], other=REVERSE if name in OTHER else ())


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_programs_match_jax_with_every_policy(policy: Any) -> None:
    check_programs(Case("f", lambda ns, w, x: ns.checkpoint(layers(ns), policy=policy_of(ns, policy))(w, x), (W, X)))


# ---------------------------------------------------------------------------------------------- recomputation


def count(jaxpr: Jaxpr, *names: str) -> int:
    """The number of equations of these primitives in ``jaxpr`` and its inner jaxprs."""
    own = sum(eqn.primitive.name in names for eqn in jaxpr.eqns)
    return own + sum(count(sub, *names) for eqn in jaxpr.eqns for sub in subjaxprs(eqn.params))


def sines(x: Any) -> Any:
    return jnp.sin(jnp.sin(jnp.sin(x)))


def remat_eqns(fun: Any, *args: Any) -> list[Any]:
    return [e for e in minijax.make_jaxpr(minijax.grad(fun))(*args).eqns if e.primitive.name == "remat2"]


def test_the_backward_pass_recomputes() -> None:
    plain = minijax.make_jaxpr(minijax.grad(sines))(1.0).jaxpr
    again = minijax.make_jaxpr(minijax.grad(minijax.checkpoint(sines)))(1.0).jaxpr
    assert (count(plain, "sin"), count(plain, "cos")) == (3, 3)
    # the forward pass computes the three sines; the backward pass computes two of them again, and the three cosines
    (backward,) = remat_eqns(minijax.checkpoint(sines), 1.0)
    inside = backward.params["jaxpr"].jaxpr
    assert (count(inside, "sin"), count(inside, "cos")) == (2, 3)
    assert (count(again, "sin"), count(again, "cos")) == (5, 3)
    # the operands of the backward pass are the argument and the cotangent, so nothing else was saved
    assert len(backward.invars) == 2 and backward.params["differentiated"] is True


def test_the_linear_program_recomputes_too() -> None:
    _, linear = minijax.linearize(minijax.checkpoint(sines), minijax.numpy.ones(3))
    (eqn,) = linear.jaxpr.eqns
    assert eqn.primitive.name == "remat2"
    assert (count(eqn.params["jaxpr"].jaxpr, "sin"), count(eqn.params["jaxpr"].jaxpr, "cos")) == (2, 3)
    assert len(linear.jaxpr.consts) == 1


@pytest.mark.parametrize(
    "policy, saved, dots",
    [(None, 0, 2), ("dots_saveable", 2, 0), (("save_only_these_names", "first"), 1, 2), ("everything_saveable", 7, 0)],
    ids=str,
)
def test_saved_values_are_not_recomputed(policy: Any, saved: int, dots: int) -> None:
    f = minijax.checkpoint(layers(minijax), policy=policy_of(minijax, policy))
    (backward,) = remat_eqns(f, W, X)
    assert len(backward.invars) == saved + 3
    recomputed = count(backward.params["jaxpr"].jaxpr, "dot_general") - 3
    assert recomputed == dots


def test_a_jitted_call_does_not_recompute_its_saved_results() -> None:
    numbers = minijax.numpy
    inner = minijax.jit(lambda x: (numbers.sin(x), numbers.cos(numbers.exp(x))))
    saved = minijax.checkpoint(lambda x: math.prod(inner(x)), policy=minijax.checkpoint_policies.everything_saveable)
    (backward,) = remat_eqns(saved, 1.0)
    assert count(backward.params["jaxpr"].jaxpr, "jit") == 1


def test_a_policy_sees_primitives_types_and_parameters() -> None:
    seen: list[Any] = []

    def policy(prim: Any, *avals: Any, **params: Any) -> bool:
        seen.append((prim.name, [a.str_short() for a in avals], params.get("name")))
        return prim.name == "dot_general"

    minijax.grad(minijax.checkpoint(layers(minijax), policy=policy))(W, X)
    assert ("dot_general", ["f32[3,3]", "f32[3]"], None) in seen
    assert ("name", ["f32[3]"], "first") in seen
    asked = len(seen)
    minijax.grad(minijax.checkpoint(layers(minijax), policy=lambda *a, **k: True))(W, X)
    assert len(seen) == asked


def test_policies_may_return_saveable_and_need_no_hash() -> None:
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, prim: Any, *avals: Any, **params: Any) -> Any:
            words = minijax.ad_checkpoint
            return words.Saveable if prim.name == "dot_general" else words.Recompute

    (backward,) = remat_eqns(minijax.checkpoint(layers(minijax), policy=Unhashable()), W, X)
    assert len(backward.invars) == 5


def test_the_program_recomputes_behind_a_barrier() -> None:
    text = minijax.jit(minijax.grad(minijax.checkpoint(sines))).lower(1.0).as_text()
    assert (text.count("stablehlo.sine"), text.count("stablehlo.cosine")) == (2, 3)
    assert text.count("optimization_barrier") == 1
    without = minijax.jit(minijax.grad(minijax.checkpoint(sines, prevent_cse=False))).lower(1.0).as_text()
    assert "optimization_barrier" not in without
    assert "optimization_barrier" not in minijax.jit(minijax.checkpoint(sines)).lower(1.0).as_text()


def test_prevent_cse_selects_the_operands_behind_the_barrier() -> None:
    f = minijax.checkpoint(lambda x, y: jnp.sin(jnp.sin(x) * y), prevent_cse=(False, True))
    text = minijax.jit(minijax.grad(f)).lower(1.0, 2.0).as_text()
    (line,) = [line for line in text.splitlines() if "optimization_barrier" in line]
    assert line.count("tensor<f32>") == 2  # y and the cotangent


def temporaries(ns: Any, wrap: Any, length: int) -> float:
    """Temporary memory of the compiled gradient, in multiples of the size of one carry."""
    body = wrap(lambda w, c: ns.numpy.sin(ns.numpy.sin(ns.numpy.sin(c * w)) * w))

    def f(w: Any, x: Any) -> Any:
        return ns.lax.scan(lambda c, _: (body(w, c), None), x, None, length=length)[0].sum()

    x = np.ones((64, 64), np.float32)
    memory = ns.jit(ns.grad(f)).lower(x, x).compile().memory_analysis()
    return memory.temp_size_in_bytes / x.nbytes


def test_memory_grows_with_the_residuals_and_remat_reduces_it() -> None:
    plain = {n: temporaries(minijax, lambda f: f, n) for n in (16, 32)}
    saved = {n: temporaries(minijax, minijax.checkpoint, n) for n in (16, 32)}
    # a step saves five arrays (c, the other factor of w, three cosines or their arguments), and only c with checkpoint
    assert round((plain[32] - plain[16]) / 16) == 5
    assert round((saved[32] - saved[16]) / 16) == 1
    assert saved[32] < plain[32] / 3
    assert saved[32] == pytest.approx(temporaries(jax, jax.checkpoint, 32), abs=0.1)


def test_a_function_is_staged_once_per_signature() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return jnp.sin(x)

    g = minijax.checkpoint(f)
    for _ in range(3):
        g(1.0)
        minijax.grad(g)(1.0)
        minijax.jit(g)(1.0)
    assert len(calls) == 1
    g(np.ones(3, np.float32))
    assert len(calls) == 2
    h = minijax.checkpoint(lambda n, x: f(x) * n, static_argnums=0)
    for n in (2, 2, 3, 2):
        h(n, 1.0)
    assert len(calls) == 4
    assert float(h([1.0][0], 1.0)) == pytest.approx(np.sin(1.0))


def test_a_static_argument_need_not_be_hashable() -> None:
    g = minijax.checkpoint(lambda x, options: x * options["scale"], static_argnums=1)
    assert float(minijax.grad(g)(2.0, {"scale": 3.0})) == 3.0
    assert float(g(2.0, {"scale": 4.0})) == 8.0


def test_unused_results_are_not_recomputed() -> None:
    f = minijax.checkpoint(lambda x, y: (jnp.sin(jnp.sin(x)), jnp.exp(jnp.exp(y))))
    (backward,) = remat_eqns(lambda x, y: f(x, y)[0], 1.0, 2.0)
    assert count(backward.params["jaxpr"].jaxpr, "exp") == 0
    assert len(backward.invars) == 2


# ---------------------------------------------------------------------------------------------- residuals by name


def residuals(ns: Any, fun: Any, *args: Any, capsys: Any) -> list[str]:
    ns.ad_checkpoint.print_saved_residuals(fun, *args)
    lines = capsys.readouterr().out.splitlines()
    return sorted(re.sub(r" from \S+:\d+.*", "", line) for line in lines)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_saved_residuals_match_jax(policy: Any, capsys: Any) -> None:
    found, expected = (
        residuals(ns, ns.checkpoint(layers(ns), policy=policy_of(ns, policy)), W, X, capsys=capsys)
        for ns in (minijax, jax)
    )
    assert found == expected and expected


def test_residuals_saved_without_checkpoint_match_jax(capsys: Any) -> None:
    def program(ns: Any) -> Any:
        return lambda p, n: 3.0 * p["x"] * n + ns.numpy.sin(p["x"]) * ns.numpy.arange(3.0)

    args = {"x": X}, 2
    found, expected = (residuals(ns, program(ns), *args, capsys=capsys) for ns in (minijax, jax))
    assert found == expected
    assert "f32[3] output of cos" in expected and "f32[] from a literal" in expected


def test_residuals_name_the_line(capsys: Any) -> None:
    minijax.ad_checkpoint.print_saved_residuals(sines, 1.0)
    assert re.search(r"f32\[\] output of cos from .*test_checkpoint\.py:\d+:\d+ \(sines\)", capsys.readouterr().out)


def test_checkpoint_name_is_the_identity() -> None:
    found = name_of(minijax)({"a": X, "b": (1.0, 2)}, "n")
    np.testing.assert_array_equal(found["a"], X)
    assert (float(found["b"][0]), int(found["b"][1])) == (1.0, 2)


# ---------------------------------------------------------------------------------------------- errors

ERRORS = {
    "static positions in a list": (
        lambda ns: ns.checkpoint(lambda x: x, static_argnums=[0])(1.0),
        "the `static_argnums` argument .* must be an int.* got value \\[0\\]",
    ),
    "prevent_cse of another type": (
        lambda ns: ns.checkpoint(lambda x: x, prevent_cse=3)(1.0),
        "prevent_cse must be a bool or tuple of bools, got type\\(prevent_cse\\)=<class 'int'>",
    ),
    "a policy's answer": (
        lambda ns: ns.grad(ns.checkpoint(lambda x: ns.numpy.sin(x), policy=lambda *a, **k: 3))(1.0),
        "Value returned by a remat policy should be a bool or `ad_checkpoint.Recompute`.* Got 3 of type <class 'int'>",
    ),
    "answers that cannot be joined": (
        lambda ns: ns.grad(
            ns.checkpoint(
                lambda x: ns.numpy.sin(x),
                policy=ns.checkpoint_policies.save_from_both_policies(lambda *a, **k: 3, lambda *a, **k: True),
            )
        )(1.0),
        "The return value of the policies should be a boolean. Got: 3 and True",
    ),
    "reverse mode through a loop": (
        lambda ns: ns.grad(ns.checkpoint(lambda x: ns.lax.while_loop(lambda c: c < 9.0, lambda c: c * 2.0, x)))(1.0),
        "Reverse-mode differentiation does not work for lax.while_loop",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_match_jax(name: str) -> None:
    call, words = ERRORS[name]
    with pytest.raises(Exception, match=words) as expected:
        call(jax)
    with pytest.raises(Exception, match=words) as found:
        call(minijax)
    assert type(found.value).__name__ == type(expected.value).__name__


def test_minijax_refuses_offloading_and_policies_that_are_not_callable() -> None:
    with pytest.raises(TypeError, match="Expected a callable value, got 3"):
        minijax.checkpoint(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the policy of jax.checkpoint must be callable, got 3"):
        minijax.checkpoint(sines, policy=3)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="save_and_offload_only_these_names: offloading"):
        minijax.checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[], names_which_can_be_offloaded=["a"], offload_src="device", offload_dst="host"
        )
    offload = minijax.ad_checkpoint.Offloadable("device", "pinned_host")
    with pytest.raises(NotImplementedError, match="offloads the result of 'sin' to 'pinned_host'"):
        minijax.grad(minijax.checkpoint(sines, policy=lambda *a, **k: offload))(1.0)


def test_save_from_both_policies_saves_what_either_policy_saves() -> None:
    policies = minijax.checkpoint_policies
    both = policies.save_from_both_policies(policies.dots_saveable, policies.save_only_these_names("first"))
    (backward,) = remat_eqns(minijax.checkpoint(layers(minijax), policy=both), W, X)
    assert len(backward.invars) == 3 + 3


def test_the_names_match_jax() -> None:
    assert vars(minijax.checkpoint_policies).keys() == vars(jax.checkpoint_policies).keys()
    assert minijax.remat is minijax.checkpoint


def test_debug_callbacks_repeat_with_the_recomputation() -> None:
    def calls(ns: Any, policy: Any, wrap: Any) -> int:
        seen: list[float] = []

        def f(x: Any) -> Any:
            y = ns.numpy.sin(x)
            ns.debug.callback(lambda y: seen.append(float(y)), y)
            return ns.numpy.sin(y * x)

        g = ns.checkpoint(wrap(ns, f), policy=policy_of(ns, policy))
        ns.block_until_ready(ns.jit(ns.grad(g))(1.0))
        ns.debug.effects_barrier() if hasattr(ns.debug, "effects_barrier") else ns.effects_barrier()
        return len(seen)

    for policy, wrap, expected in (
        (None, lambda ns, f: f, 2),
        (None, lambda ns, f: ns.jit(f), 2),
        ("everything_saveable", lambda ns, f: f, 1),
    ):
        assert calls(minijax, policy, wrap) == calls(jax, policy, wrap) == expected


def test_policies_for_the_same_names_are_equal() -> None:
    policies = minijax.checkpoint_policies
    assert policies.save_only_these_names("a", "b") == policies.save_only_these_names("b", "a")
    assert hash(policies.save_only_these_names("a")) == hash(policies.save_only_these_names("a"))
    assert policies.save_only_these_names("a") != policies.save_any_names_but_these("a")
    assert len({policies.dots_saveable, policies.checkpoint_dots, policies.dots_with_no_batch_dims_saveable}) == 2
    assert str(policies.save_any_names_but_these("a")) == str(jax.checkpoint_policies.save_any_names_but_these("a"))
