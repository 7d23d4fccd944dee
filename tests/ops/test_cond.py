"""``cond`` and ``switch`` have JAX's jaxprs and types, and properties that only minijax's rules have.

``tests.oracle.control_flow`` compares values and jaxprs of programs under every transformation; this file adds
more programs.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minijax.core.trace import stack_depth
from tests.oracle.case import Case, floats
from tests.oracle.checks import check_programs
from tests.oracle.normalise import normalise, printed
from tests.oracle.subject import SUBJECT_NAME, assert_same, oracle, subject

pytestmark = pytest.mark.usefixtures("compiled_quickly")

only_minijax = pytest.mark.skipif(SUBJECT_NAME == "jax", reason="JAX is tested in place of minijax; it lacks this")

VECTOR = np.array([0.5, -1.5, 2.5], np.float32)
INTEGERS = np.array([[1, 2], [3, 4], [5, 6]], np.int32)


@pytest.fixture(autouse=True)
def nothing_left_on_the_stack() -> Any:
    yield
    assert stack_depth() == 0


# --- printing ------------------------------------------------------------------------------------------------------


def constant_predicate(ns: Any) -> Callable[..., Any]:
    predicate = ns.numpy.array(True)
    return lambda: ns.lax.cond(predicate, lambda: 3, lambda: 4)


def scalar_constants(ns: Any) -> Callable[..., Any]:
    c, d = ns.numpy.float32(7), np.float32(3)
    return lambda x: ns.lax.cond(x > 0, lambda z: c * z, lambda z: c - z + d, x)


def array_constants(ns: Any) -> Callable[..., Any]:
    c, d = ns.numpy.ones(3), ns.numpy.zeros(3)
    return lambda x: ns.lax.cond(x > 0, lambda z: c * z, lambda z: d - z + c, x)


# name -> (function of a namespace that returns the program, the program's arguments)
FORMS: dict[str, tuple[Callable[[Any], Callable[..., Any]], tuple[Any, ...]]] = {
    "python_bool": (lambda ns: lambda: ns.lax.cond(True, lambda: 3, lambda: 4), ()),
    "numpy_bool": (lambda ns: lambda: ns.lax.cond(np.bool_(False), lambda: 3, lambda: 4), ()),
    "constant_predicate": (constant_predicate, ()),
    "float_predicate": (lambda ns: lambda x: ns.lax.cond(x, lambda: 1, lambda: 2), (np.float32(3),)),
    "constant_and_operand": (lambda ns: lambda x: ns.lax.cond(True, lambda x: x + 1, lambda x: x * 2.0, x), (1.0,)),
    "weak_in_one_branch": (lambda ns: lambda x: ns.lax.cond(x > 0, lambda: 1.0, lambda: np.float32(2)), (1.0,)),
    "all_forwarded": (
        lambda ns: lambda x, y: ns.lax.cond(x > 0, lambda x, y: (x, y), lambda x, y: (x, y), x, y),
        (1.0, 2),
    ),
    "some_forwarded": (
        lambda ns: lambda x, y: ns.lax.cond(x > 0, lambda x, y: (x, y, y), lambda x, y: (x, x + 1, y), x, y),
        (1.0, 2.0),
    ),
    "closed_over_forwarded": (lambda ns: lambda x, y: ns.lax.cond(x > 0, lambda: (y, x), lambda: (y, y)), (1.0, 2.0)),
    "closures": (lambda ns: lambda x, y: ns.lax.cond(x > 0, lambda z: y * z, lambda z: x - z, 5.0), (1.0, 2.0)),
    "scalar_constants": (scalar_constants, (1.0,)),
    "array_constants": (array_constants, (1.0,)),
    "nested": (
        lambda ns: (
            lambda x: ns.lax.cond(x > 0, lambda x: ns.lax.cond(x > 1, ns.numpy.sin, ns.numpy.cos, x), lambda x: x, x)
        ),
        (1.0,),
    ),
    "one_function_twice": (lambda ns: lambda x: ns.lax.cond(x > 0, *[lambda x: x * 2] * 2, x), (1.0,)),
    "two_operands": (lambda ns: lambda x: ns.lax.cond(x > 0, x, lambda x: x + 1, x, lambda x: x * 2), (1.0,)),
    "operand_by_keyword": (
        lambda ns: lambda x: ns.lax.cond(x > 0, lambda x: x + 1, lambda x: x * 2, operand=x),
        (1.0,),
    ),
    "no_operand_by_keyword": (lambda ns: lambda x: ns.lax.cond(x > 0, lambda _: 1, lambda _: 2, operand=None), (1.0,)),
    "switch_of_one": (lambda ns: lambda i, x: ns.lax.switch(i, [lambda x: x + 1], x), (0, 1.0)),
    "switch_by_bytes": (
        lambda ns: lambda i, x: ns.lax.switch(i, [lambda x: x + 1, lambda x: x], x),
        (np.uint8(0), 1.0),
    ),
    "switch_by_a_numpy_number": (lambda ns: lambda: ns.lax.switch(np.int8(9), [lambda: 3, lambda: 4, lambda: 5]), ()),
    "switch_operand_by_keyword": (
        lambda ns: lambda i, x: ns.lax.switch(i, [lambda t: t[0], lambda t: t[1]], operand=(x, 2.0)),
        (1, 1.0),
    ),
    "jvp": (
        lambda ns: (
            lambda x: ns.jvp(
                lambda x: ns.lax.cond(x > 0, lambda x: (ns.numpy.sin(x), 1.0), lambda x: (1.0, x), x), (x,), (1.0,)
            )
        ),
        (1.0,),
    ),
    "vmap": (
        lambda ns: ns.vmap(
            lambda x, y: ns.lax.cond(y, lambda x: (ns.numpy.sin(x), 1.0), lambda x: (x, 2.0), x), in_axes=(0, None)
        ),
        (VECTOR, True),
    ),
    "vmap_of_the_predicate": (
        lambda ns: ns.vmap(
            lambda x, y: ns.lax.cond(x > 0, lambda x: (ns.numpy.sin(x), y), lambda x: (x, 2.0), x), in_axes=(0, None)
        ),
        (VECTOR, 2.0),
    ),
    "vmap_of_the_index": (
        lambda ns: ns.vmap(
            lambda i, x: ns.lax.switch(i, [ns.numpy.sin, ns.numpy.cos, lambda x: x * 2], x), in_axes=(0, None)
        ),
        (np.arange(3, dtype=np.int32), VECTOR),
    ),
    "vmap_with_integers": (
        lambda ns: ns.vmap(lambda x, y: ns.lax.cond(x > 0, lambda y: y + 1, lambda y: y, y)),
        (VECTOR, INTEGERS),
    ),
    "grad_of_jit": (
        lambda ns: ns.grad(
            ns.jit(lambda x: ns.lax.cond(x > 0, lambda x: ns.numpy.sin(x) * x, lambda x: ns.numpy.exp(x), x))
        ),
        (1.0,),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_programs_print_as_in_jax(name: str) -> None:
    make, args = FORMS[name]
    ours, theirs = subject.make_jaxpr(make(subject))(*args), oracle.make_jaxpr(make(oracle))(*args)
    assert printed(ours) == printed(theirs)
    weak = [[v.aval.weak_type for v in jaxpr.jaxpr.outvars] for jaxpr in (ours, theirs)]
    assert weak[0] == weak[1]
    if subject is not oracle:
        importlib.import_module("minijax.ir.typecheck").typecheck_jaxpr(ours)


# --- under the transformations -------------------------------------------------------------------------------------


def guarded_root(ns: Any, x: Any) -> Any:
    """The branch not taken has an infinite derivative, which must not affect the result."""
    return ns.lax.cond(x > 0, lambda x: ns.numpy.sqrt(x), lambda x: 0.0 * x, x)


def residuals_of_several_types(ns: Any, i: Any, x: Any, m: Any) -> Any:
    """Branches whose residuals differ in number and type."""

    def products(x: Any, m: Any) -> Any:
        return (m @ x).sum() * ns.numpy.sin(x[0])

    def scalars(x: Any, m: Any) -> Any:
        return ns.numpy.exp(x[1]) * ns.numpy.cos(m[0, 0]) * x[2]

    def nothing(x: Any, m: Any) -> Any:
        return x.sum() + m.sum()

    return ns.lax.switch(i, [products, scalars, nothing], x, m)


def constant_branches(ns: Any, i: Any, x: Any, m: Any) -> Any:
    """One branch has no tangent; each of the others has the tangent of only one operand."""
    return ns.lax.switch(i, [lambda x, m: 1.5, lambda x, m: (m * m).sum(), lambda x, m: (x * x).sum()], x, m)


def different_closures(ns: Any, p: Any, a: Any, b: Any) -> Any:
    """Each branch closes over another traced value: one over ``a`` and ``c = sin(b)``, the other over ``b``."""
    c = ns.numpy.sin(b)
    return ns.lax.cond(p > 0, lambda: (a * c).sum(), lambda: ns.numpy.cos(b).sum())


def float_predicate(ns: Any, x: Any, y: Any) -> Any:
    """The predicate is a differentiated number."""
    return ns.lax.cond(x, lambda: ns.numpy.tanh(x) * y, lambda: y)


CASES = {
    case.name: case
    for case in (
        Case("guarded_root", guarded_root, (np.asarray(-0.75),), second=False),
        Case("residuals_of_several_types", residuals_of_several_types, (np.asarray(1), floats(3), floats(2, 3))),
        Case("constant_branches", constant_branches, (np.asarray(1), floats(3), floats(2, 3)), second=False),
        Case("different_closures", different_closures, (np.asarray(1), floats(3), floats(3))),
        Case("float_predicate", float_predicate, (np.asarray(0.5), floats(3))),
    )
}
# for these programs JAX saves an unused zero for a branch without a tangent
OTHER = {"residuals_of_several_types": ("grad_of_grad",), "float_predicate": ("grad_of_grad",)}
OTHER["constant_branches"] = ("grad", "vmap_of_grad")


@pytest.mark.parametrize("name", CASES)
def test_programs_match_jax(name: str) -> None:
    check_programs(CASES[name], other=OTHER.get(name, ()))


def test_branches_not_taken_give_no_nan() -> None:
    xs = np.array([4.0, 0.0, -1.0], np.float32)
    slopes = subject.vmap(subject.grad(lambda x: guarded_root(subject, x)))(xs)
    assert np.asarray(slopes).tolist() == [0.25, 0.0, 0.0]


def test_only_the_chosen_branch_runs() -> None:
    """Both branches are traced, but only the chosen branch runs its callback."""
    traced: list[str] = []
    happened: list[float] = []

    def acts(x: Any) -> Any:
        traced.append("acts")
        subject.debug.callback(lambda v: happened.append(float(v)), x)
        return x + 1.0

    def rests(x: Any) -> Any:
        traced.append("rests")
        return x

    def function(x: Any) -> Any:
        return subject.lax.cond(x > 0, acts, rests, x)

    assert [float(function(x)) for x in (1.0, -1.0, 2.0)] == [2.0, -1.0, 3.0]
    jitted = subject.jit(function)
    assert [float(jitted(x)) for x in (3.0, -3.0)] == [4.0, -3.0]
    subject.effects_barrier()
    assert happened == [1.0, 2.0, 3.0]
    assert sorted(set(traced)) == ["acts", "rests"]


def test_disable_jit_calls_the_function() -> None:
    with subject.disable_jit():
        assert subject.lax.cond(True, lambda: "anything", lambda: 1) == "anything"
        assert subject.lax.switch(7, [lambda: 1, lambda: "last"]) == "last"
        # a traced predicate still stages a cond
        out = subject.vmap(lambda x: subject.lax.cond(x > 1, lambda: 3, lambda: 4))(np.arange(3))
    assert np.asarray(out).tolist() == [4, 4, 3]


def test_io_callbacks_in_a_cond_under_vmap_are_refused() -> None:
    callbacks = importlib.import_module(SUBJECT_NAME + ".experimental")

    def noisy(x: Any) -> Any:
        callbacks.io_callback(lambda v: None, None, x)
        return x

    with pytest.raises(NotImplementedError, match="IO effect not supported in vmap-of-cond"):
        subject.vmap(lambda x: subject.lax.cond(x > 0, noisy, lambda x: x, x))(np.ones(2))


# --- properties of minijax's rules ---------------------------------------------------------------------------------


def staged(function: Callable[..., Any], *args: Any) -> Any:
    return subject.make_jaxpr(function)(*args)


def conds(jaxpr: Any) -> list[Any]:
    return [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "cond"]


@only_minijax
def test_conds_of_the_same_functions_share_their_programs() -> None:
    """A second cond of the same functions reuses the staged, differentiated and batched programs of the first."""

    def double(x: Any) -> Any:
        return x * 2.0

    def triple(x: Any) -> Any:
        return x * 3.0

    def function(x: Any) -> Any:
        return subject.lax.cond(x > 0, double, triple, x)

    def branches(jaxpr: Any) -> Any:
        return conds(jaxpr)[0].params["branches"]

    for transform in (lambda f: f, subject.grad, lambda f: subject.vmap(f, axis_size=2, in_axes=None)):
        first, second = branches(staged(transform(function), 1.0)), branches(staged(transform(function), 2.0))
        assert all(a is b for a, b in zip(first, second, strict=True))


@only_minijax
def test_residuals_of_one_type_share_a_variable() -> None:
    """The number of residuals of each type is the maximum over the branches, not the sum."""
    from minijax.ir.typecheck import typecheck_jaxpr

    ns = subject.numpy
    branches = [
        lambda x, v: ns.sin(x) * ns.cos(x) * x + v.sum(),
        lambda x, v: ns.exp(x) + v.sum(),
        lambda x, v: (ns.sin(v) * v).sum() + x,
    ]

    def residuals(chosen: Any) -> Counter[str]:
        def function(i: Any, x: Any, v: Any) -> Any:
            return subject.lax.switch(i, chosen, x, v)

        jaxpr = staged(subject.grad(function, argnums=(1, 2)), 1, np.float32(0.5), VECTOR)
        typecheck_jaxpr(jaxpr)
        forward, backward = conds(jaxpr)
        for branch in (*forward.params["branches"], *backward.params["branches"]):
            # a branch makes one placeholder for each residual, even for residuals that it computes
            rest = normalise(branch)
            assert len(rest.ops) == len(rest.without_dead_code().ops), "an equation that nobody reads"
        return Counter(v.aval.str_short() for v in forward.outvars[1:])

    alone = [residuals([branch, branch]) for branch in branches]
    assert len({tuple(sorted(counts.items())) for counts in alone}) == 3
    assert residuals(branches) == alone[0] | alone[1] | alone[2]


@only_minijax
def test_dead_code_is_removed_from_branches() -> None:
    from minijax.interpreters.partial_eval import dce_jaxpr
    from minijax.ir.evaluate import eval_jaxpr
    from minijax.ir.typecheck import typecheck_jaxpr

    def function(p: Any, x: Any, y: Any, z: Any) -> Any:
        return subject.lax.cond(p, lambda: (ns.sin(x) * 2.0, ns.cos(y), z + 1.0), lambda: (x + 1.0, y, z * ns.exp(x)))

    ns = subject.numpy
    whole = staged(function, True, 1.0, 2.0, 3.0)
    for used, read in (
        ([True, False, False], [True, True, False, False]),
        ([False, True, False], [True, False, True, False]),
        ([False, False, True], [True, True, False, True]),
    ):
        pruned, used_in = dce_jaxpr(whole.jaxpr, used)
        typecheck_jaxpr(pruned)
        assert used_in == read
        (eqn,) = conds(pruned)
        assert len(eqn.outvars) == 1
        args = [a for a, u in zip((True, 1.0, 2.0, 3.0), used_in, strict=True) if u]
        (wanted,) = [out for out, u in zip(function(True, 1.0, 2.0, 3.0), used, strict=True) if u]
        assert float(eval_jaxpr(pruned, [], *args)[0]) == pytest.approx(float(wanted))


@only_minijax
def test_ill_typed_conds_are_found() -> None:
    from minijax.errors import JaxprTypeError
    from minijax.ir.jaxpr import Jaxpr
    from minijax.ir.typecheck import typecheck_jaxpr

    def of(p: Any, x: Any) -> Any:
        return subject.lax.cond(p, lambda x: x, lambda x: x * 2, x)

    jaxpr = staged(of, True, np.float32(1)).jaxpr
    other = conds(staged(of, True, np.ones(2, np.float32)))[0].params["branches"][0]
    (eqn,) = conds(jaxpr)
    first, second = eqn.params["branches"]
    typecheck_jaxpr(jaxpr)
    for changed, words in (
        (eqn.replace(params={"branches": (first, other)}), "branches 0 and 1 have mismatching input types"),
        (eqn.replace(params={"branches": (other, other)}), r"operand 0 has type f32\[\], but .* expects f32\[2\]"),
        (eqn.replace(params={"branches": ()}), "at least one ClosedJaxpr"),
        (eqn.replace(params={"branches": [first, second]}), "requires a tuple"),
        (eqn.replace(invars=[jaxpr.invars[0], eqn.invars[1]]), r"index of type bool\[\] instead of i32\[\]"),
    ):
        eqns = [changed if e is eqn else e for e in jaxpr.eqns]
        with pytest.raises(JaxprTypeError, match=words):
            typecheck_jaxpr(Jaxpr([], jaxpr.invars, changed.outvars, eqns))


@only_minijax
def test_switch_is_lowered_to_case() -> None:
    def function(i: Any, x: Any) -> Any:
        return subject.lax.switch(i, [subject.numpy.sin, subject.numpy.cos, lambda x: x], x)

    text = subject.jit(function).lower(1, VECTOR).as_text()
    assert text.count("stablehlo.case") == 1
    assert text.count("stablehlo.return") == 3


@only_minijax
@pytest.mark.parametrize("policy", [None, "everything_saveable", "dots_saveable", "save_only_these_names"])
def test_checkpoint_looks_into_branches(policy: str | None) -> None:
    """The policy decides which values inside a branch are saved as residuals; no policy changes the gradient."""
    policies = subject.checkpoint_policies
    chosen = None if policy is None else getattr(policies, policy)
    if policy == "save_only_these_names":
        chosen = chosen("s")
    named = importlib.import_module("minijax.ad_checkpoint").checkpoint_name

    def function(p: Any, m: Any, x: Any) -> Any:
        def product(x: Any) -> Any:
            return subject.numpy.sin(m @ subject.numpy.sin(x)).sum()

        def other(x: Any) -> Any:
            return subject.numpy.cos(named(subject.numpy.exp(x), "s")).sum()

        return subject.lax.cond(p, product, other, x)

    m = np.arange(9, dtype=np.float32).reshape(3, 3) / 8
    saving = subject.checkpoint(function, policy=chosen)
    for p in (True, False):
        wanted = subject.grad(function, argnums=(1, 2))(p, m, VECTOR)
        assert_same(subject.grad(saving, argnums=(1, 2))(p, m, VECTOR), wanted)
        assert_same(subject.jit(subject.grad(saving, argnums=(1, 2)))(p, m, VECTOR), wanted)
    jaxpr = staged(subject.grad(saving, argnums=(1, 2)), True, m, VECTOR)
    importlib.import_module("minijax.ir.typecheck").typecheck_jaxpr(jaxpr)
