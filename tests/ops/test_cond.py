"""``cond`` and ``switch`` against JAX: printed jaxprs, values, types and errors; and what only our rules promise.

Programs under every transformation, against JAX's values and jaxprs, are in ``tests.oracle.control_flow``; here are
those that it does not have.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from minijax.core.trace import stack_depth
from tests.oracle.case import Case, floats, ints
from tests.oracle.meaning import meaning
from tests.oracle.normalise import normalise
from tests.oracle.subject import QUICKLY, SUBJECT_NAME, assert_same, oracle, subject, x64_mode
from tests.oracle.test_jaxprs import check_same_equations
from tests.oracle.test_values import run_jitted
from tests.oracle.transforms import build, names

pytestmark = pytest.mark.usefixtures("compiled_quickly")

only_minijax = pytest.mark.skipif(SUBJECT_NAME == "jax", reason="JAX stands in for minijax: no such module")

VECTOR = np.array([0.5, -1.5, 2.5], np.float32)
INTEGERS = np.array([[1, 2], [3, 4], [5, 6]], np.int32)


@pytest.fixture(autouse=True)
def nothing_left_on_the_stack() -> Any:
    yield
    assert stack_depth() == 0


# --- how it is printed ---------------------------------------------------------------------------------------------


def constant_predicate(ns: Any) -> Callable[..., Any]:
    predicate = ns.numpy.array(True)
    return lambda: ns.lax.cond(predicate, lambda: 3, lambda: 4)


def scalar_constants(ns: Any) -> Callable[..., Any]:
    c, d = ns.numpy.float32(7), np.float32(3)
    return lambda x: ns.lax.cond(x > 0, lambda z: c * z, lambda z: c - z + d, x)


def array_constants(ns: Any) -> Callable[..., Any]:
    c, d = ns.numpy.ones(3), ns.numpy.zeros(3)
    return lambda x: ns.lax.cond(x > 0, lambda z: c * z, lambda z: d - z + c, x)


# name -> (function of a namespace that makes the program, its arguments)
FORMS: dict[str, tuple[Callable[[Any], Callable[..., Any]], tuple[Any, ...]]] = {
    "python_bool": (lambda ns: lambda: ns.lax.cond(True, lambda: 3, lambda: 4), ()),
    "python_number": (lambda ns: lambda: ns.lax.cond(2, lambda: 3, lambda: 4), ()),
    "numpy_bool": (lambda ns: lambda: ns.lax.cond(np.bool_(False), lambda: 3, lambda: 4), ()),
    "numpy_number": (lambda ns: lambda: ns.lax.cond(np.float32(2), lambda: 3, lambda: 4), ()),
    "constant_predicate": (constant_predicate, ()),
    "integer_predicate": (lambda ns: lambda x: ns.lax.cond(x, lambda: 1, lambda: 2), (3,)),
    "float_predicate": (lambda ns: lambda x: ns.lax.cond(x, lambda: 1, lambda: 2), (np.float32(3),)),
    "constant_and_operand": (lambda ns: lambda x: ns.lax.cond(True, lambda x: x + 1, lambda x: x * 2.0, x), (1.0,)),
    "weak_in_one_branch": (lambda ns: lambda x: ns.lax.cond(x > 0, lambda: 1.0, lambda: np.float32(2)), (1.0,)),
    "weak_in_the_other": (lambda ns: lambda x: ns.lax.cond(x > 0, lambda: np.float32(2), lambda: 1.0), (1.0,)),
    "all_forwarded": (
        lambda ns: lambda x, y: ns.lax.cond(x > 0, lambda x, y: (x, y), lambda x, y: (x, y), x, y),
        (1.0, 2),
    ),
    "some_forwarded": (
        lambda ns: lambda x, y: ns.lax.cond(x > 0, lambda x, y: (x, y, y), lambda x, y: (x, x + 1, y), x, y),
        (1.0, 2.0),
    ),
    "closed_over_forwarded": (lambda ns: lambda x, y: ns.lax.cond(x > 0, lambda: (y, x), lambda: (y, y)), (1.0, 2.0)),
    "crossed": (lambda ns: lambda x, y: ns.lax.cond(x > 0, lambda: (x, y), lambda: (y, x)), (1.0, 2.0)),
    "closures": (lambda ns: lambda x, y: ns.lax.cond(x > 0, lambda z: y * z, lambda z: x - z, 5.0), (1.0, 2.0)),
    "scalar_constants": (scalar_constants, (1.0,)),
    "array_constants": (array_constants, (1.0,)),
    "one_operand_twice": (
        lambda ns: lambda x: ns.lax.cond(x > 0, lambda a, b: a * b, lambda a, b: a + b, x, x),
        (1.0,),
    ),
    "unused_operand": (
        lambda ns: lambda x, y: ns.lax.cond(x > 0, lambda x, y: x, lambda x, y: x + 1, x, y),
        (1.0, 2.0),
    ),
    "literal_operand": (
        lambda ns: lambda x: ns.lax.cond(x > 0, lambda x, y: x * y, lambda x, y: x + y, x, 2.0),
        (1.0,),
    ),
    "nested": (
        lambda ns: lambda x: ns.lax.cond(
            x > 0, lambda x: ns.lax.cond(x > 1, ns.numpy.sin, ns.numpy.cos, x), lambda x: x, x
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
    "switch_by_a_number": (lambda ns: lambda x: ns.lax.switch(1, [lambda x: x + 1, lambda x: x], x), (1.0,)),
    "switch_by_a_numpy_number": (lambda ns: lambda: ns.lax.switch(np.int8(9), [lambda: 3, lambda: 4, lambda: 5]), ()),
    "switch_operand_by_keyword": (
        lambda ns: lambda i, x: ns.lax.switch(i, [lambda t: t[0], lambda t: t[1]], operand=(x, 2.0)),
        (1, 1.0),
    ),
    "jvp": (
        lambda ns: lambda x: ns.jvp(
            lambda x: ns.lax.cond(x > 0, lambda x: (ns.numpy.sin(x), 1.0), lambda x: (1.0, x), x), (x,), (1.0,)
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
    "vmap_that_ignores_its_operand": (
        lambda ns: ns.vmap(lambda x, y: ns.lax.cond(x > 0, lambda y: 1, lambda y: 2, y), in_axes=(0, None)),
        (VECTOR, INTEGERS),
    ),
    "grad_of_vmap": (
        lambda ns: ns.grad(
            lambda x: ns.vmap(lambda x: ns.lax.cond(x > 0, lambda x: ns.numpy.sin(x) * x, ns.numpy.exp, x))(x).sum()
        ),
        (VECTOR,),
    ),
    "grad_of_jit": (
        lambda ns: ns.grad(
            ns.jit(lambda x: ns.lax.cond(x > 0, lambda x: ns.numpy.sin(x) * x, lambda x: ns.numpy.exp(x), x))
        ),
        (1.0,),
    ),
}

def printed(text: str) -> str:
    """The text on one line."""
    text = " ".join(re.sub(r"; ", " ", text).split())
    return re.sub(r"(?<=[\[(]) | (?=[\])])", "", text)


@pytest.mark.parametrize("name", FORMS)
def test_printed_as_by_jax(name: str) -> None:
    make, args = FORMS[name]
    ours, theirs = subject.make_jaxpr(make(subject))(*args), oracle.make_jaxpr(make(oracle))(*args)
    assert printed(str(ours)) == printed(str(theirs))
    weak = [[v.aval.weak_type for v in jaxpr.jaxpr.outvars] for jaxpr in (ours, theirs)]
    assert weak[0] == weak[1]
    if subject is not oracle:
        importlib.import_module("minijax.ir.typecheck").typecheck_jaxpr(ours)


@cache
def compiled_forms(ns: Any) -> Any:
    """The values of all forms, compiled as one program: compiling is what takes time."""
    functions = {name: make(ns) for name, (make, _) in FORMS.items()}

    def everything(arguments: Any) -> Any:
        return {name: function(*arguments[name]) for name, function in functions.items()}

    return ns.jit(everything)({name: args for name, (_, args) in FORMS.items()})


@pytest.mark.parametrize("name", FORMS)
def test_values_of_the_forms(name: str) -> None:
    """Evaluated and compiled: values, dtypes and weak types are JAX's."""
    make, args = FORMS[name]
    wanted = compiled_forms(oracle)[name]
    assert_same(make(subject)(*args), wanted)
    assert_same(compiled_forms(subject)[name], wanted)


# --- under the transformations -------------------------------------------------------------------------------------


def guarded_root(ns: Any, x: Any) -> Any:
    """The branch not taken has an infinite derivative, which must not show."""
    return ns.lax.cond(x > 0, lambda x: ns.numpy.sqrt(x), lambda x: 0.0 * x, x)


def residuals_of_several_types(ns: Any, i: Any, x: Any, m: Any) -> Any:
    """Branches whose residuals differ in number and in type."""

    def products(x: Any, m: Any) -> Any:
        return (m @ x).sum() * ns.numpy.sin(x[0])

    def scalars(x: Any, m: Any) -> Any:
        return ns.numpy.exp(x[1]) * ns.numpy.cos(m[0, 0]) * x[2]

    def nothing(x: Any, m: Any) -> Any:
        return x.sum() + m.sum()

    return ns.lax.switch(i, [products, scalars, nothing], x, m)


def constant_branches(ns: Any, i: Any, x: Any, m: Any) -> Any:
    """Branches without a tangent, and with that of one operand only."""
    return ns.lax.switch(i, [lambda x, m: 1.5, lambda x, m: (m * m).sum(), lambda x, m: (x * x).sum()], x, m)


def different_closures(ns: Any, p: Any, a: Any, b: Any) -> Any:
    """Each branch closes over another traced value, one over a value computed from it."""
    c = ns.numpy.sin(b)
    return ns.lax.cond(p > 0, lambda: (a * c).sum(), lambda: ns.numpy.cos(b).sum())


def tree_of_forwarded(ns: Any, p: Any, x: Any, y: Any) -> Any:
    """Outputs that every branch hands on beside outputs that are computed."""
    return ns.lax.cond(
        p > 0, lambda t: {"x": t[0], "y": t[1] * t[0]}, lambda t: {"x": t[0], "y": ns.numpy.exp(t[1])}, (x, y)
    )


def float_predicate(ns: Any, x: Any, y: Any) -> Any:
    """The predicate is a differentiated number."""
    return ns.lax.cond(x, lambda: ns.numpy.tanh(x) * y, lambda: y)


def switch_in_switch(ns: Any, i: Any, x: Any) -> Any:
    """Two indices, one from the other."""
    inner = [ns.numpy.sin, lambda x: x * x]
    return ns.lax.switch(i, [lambda x: ns.lax.switch(i - 1, inner, x), ns.numpy.cos, lambda x: x], x)


CASES = {
    case.name: case
    for case in (
        Case("guarded_root", guarded_root, (np.asarray(-0.75),), second=False),
        Case("residuals_of_several_types", residuals_of_several_types, (np.asarray(1), floats(3), floats(2, 3))),
        Case("constant_branches", constant_branches, (np.asarray(1), floats(3), floats(2, 3)), second=False),
        Case("different_closures", different_closures, (np.asarray(1), floats(3), floats(3))),
        Case("tree_of_forwarded", tree_of_forwarded, (np.asarray(-1), floats(3), floats(3))),
        Case("float_predicate", float_predicate, (np.asarray(0.5), floats(3))),
        Case("switch_in_switch", switch_in_switch, (ints(), floats(3))),
    )
}
ROWS = [(name, t) for name, case in CASES.items() for t in names(case)]
# JAX linearizes branches, we push tangents through them and split: residuals may come in another order, and where a
# branch has no tangent, JAX saves the zero that stands for it, though nobody reads it. What is computed is the same.
OTHERWISE = {(name, "grad_of_grad") for name in ("residuals_of_several_types", "float_predicate")}
OTHERWISE |= {("constant_branches", t) for t in ("grad", "vmap_of_grad")}


@cache
def expected(name: str) -> Any:
    return run_jitted(oracle, build(oracle, CASES[name]), compiler_options=QUICKLY)


@cache
def compiled(name: str) -> Any:
    return run_jitted(subject, build(subject, CASES[name]))


@pytest.mark.parametrize(("name", "transformation"), ROWS)
def test_values(name: str, transformation: str) -> None:
    """Evaluated and compiled, JAX's values, in 64-bit mode."""
    with x64_mode("64"):
        function, args = build(subject, CASES[name])[transformation]
        wanted = expected(name)[transformation]
        assert_same(function(*args), wanted)
        assert_same(compiled(name)[transformation], wanted)


@pytest.mark.parametrize(("name", "transformation"), ROWS)
def test_same_equations(name: str, transformation: str) -> None:
    with x64_mode("32"):
        if (name, transformation) not in OTHERWISE:
            check_same_equations(CASES[name], transformation)
        elif transformation == "vmap_of_grad":  # the index is mapped, the residuals are operands of select_n
            function, args = build(subject, CASES[name])[transformation]
            assert not conds(staged(function, *args))
        else:
            of_ns = [build(ns, CASES[name])[transformation] for ns in (subject, oracle)]
            ours, theirs = [ns.make_jaxpr(f)(*args) for ns, (f, args) in zip((subject, oracle), of_ns, strict=True)]
            assert meaning(ours) == meaning(theirs)


def test_no_nan_from_branches_not_taken() -> None:
    xs = np.array([4.0, 0.0, -1.0], np.float32)
    slopes = subject.vmap(subject.grad(lambda x: guarded_root(subject, x)))(xs)
    assert np.asarray(slopes).tolist() == [0.25, 0.0, 0.0]


def test_an_index_out_of_bounds_is_the_nearest_branch() -> None:
    branches = [lambda: 10, lambda: 11, lambda: 12]
    for index, wanted in ((-7, 10), (0, 10), (2, 12), (99, 12)):
        for function in (subject.lax.switch, subject.jit(subject.lax.switch, static_argnums=1)):
            assert int(function(index, tuple(branches))) == wanted


def test_one_branch_is_run() -> None:
    """Both branches are traced, once; only one acts on the world."""
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
        # a traced predicate is still a cond
        out = subject.vmap(lambda x: subject.lax.cond(x > 1, lambda: 3, lambda: 4))(np.arange(3))
    assert np.asarray(out).tolist() == [4, 4, 3]


# --- misuse --------------------------------------------------------------------------------------------------------

ERRORS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "trees": (
        lambda lax: lax.cond(True, lambda: (1, 2), lambda: 1),
        r"(?s)cond branch outputs must have the same pytree structure, but they differ.*true_fun is <lambda> at .*"
        r"false_fun is <lambda> at .*true_fun output is a <class 'tuple'> but false_fun output is a (pytree )?leaf",
    ),
    "trees_inside": (
        lambda lax: lax.cond(True, lambda: {"a": (1, 2)}, lambda: {"a": [1, 2]}),
        r"true_fun output at path \['a'\] is a <class 'tuple'> but false_fun output at path \['a'\] is a "
        "<class 'list'>",
    ),
    "lengths": (
        lambda lax: lax.switch(1, [lambda: (1,), lambda: (1,), lambda: (1, 2)]),
        r"(?s)switch branch outputs must have the same pytree structure.*branch 0 is .*branch2 is .*length 1.*length 2",
    ),
    "dtypes": (
        lambda lax: lax.cond(True, lambda: 1, lambda: 1.0),
        r"(?s)cond branches must have equal output types but they differ.*The output of true_fun has type ~?int32\[\] "
        r"but the corresponding output of false_fun has type ~?float32\[\], so the dtypes do not match",
    ),
    "dtype_and_shape": (
        lambda lax: lax.cond(
            True, lambda: {"a": 1, "b": np.ones(2, np.int32)}, lambda: {"a": 1.0, "b": np.ones(3, np.int32)}
        ),
        r"(?si)the output of true_fun at path \['a'\] has type ~?int32\[\].*the dtypes do not match;.*"
        r"at path \['b'\] has type int32\[2\].*int32\[3\], so the shapes do not match\.",
    ),
    "vector_predicate": (lambda lax: lax.cond(np.ones(3), int, int), r"Pred must be a scalar, got .* of shape \(3,\)"),
    "list_predicate": (
        lambda lax: lax.cond([True], int, int),
        r"Pred must be a scalar, got \[True\] of type <class 'list'>",
    ),
    "no_number": (lambda lax: lax.cond(object(), int, int), r"Pred type must be either boolean or number, got <object"),
    "complex": (lambda lax: lax.cond(1j, int, int), r"Pred type must be either boolean or number, got complex64"),
    "none": (lambda lax: lax.cond(None, int, int), "cond predicate is None"),
    "not_callable": (
        lambda lax: lax.cond(True, 1, lambda: 1),
        "lax.cond: true_fun and false_fun arguments should be callable",
    ),
    "both_operands": (
        lambda lax: lax.cond(True, lambda x: 1, lambda x: 1, 1, operand=2),
        r"if 'operand' keyword is passed then no positional operands can be passed, got operand=2 and positional "
        r"operands \(1,\)",
    ),
    "output": (
        lambda lax: lax.cond(True, lambda: "a", lambda: "b"),
        r"traced for cond returned a value of type <class 'str'>, which is not a valid JAX type",
    ),
    "operand": (lambda lax: lax.cond(True, lambda x: 1, lambda x: 1, "a"), "'a' of type <class 'str'> is not a valid"),
    "too_few_operands": (
        lambda lax: lax.cond(True, lambda x: 1, lambda x: 1),
        "missing 1 required positional argument",
    ),
    "unknown_keyword": (
        lambda lax: lax.cond(True, lambda x: 1, lambda x: 1, 1, linear=(False,)),
        "unexpected keyword argument 'linear'",
    ),
    "no_branch": (lambda lax: lax.switch(1, []), "Empty branch sequence"),
    "float_index": (
        lambda lax: lax.switch(1.0, [lambda: 1, lambda: 2]),
        "Index type must be an integer, got 1.0 as float32",
    ),
    "boolean_index": (
        lambda lax: lax.switch(True, [lambda: 1, lambda: 2]),
        "Index type must be an integer, got True as bool",
    ),
    "string_index": (lambda lax: lax.switch("?", [lambda: 1, lambda: 2]), "Index type must be an integer, got [?]"),
    "vector_index": (
        lambda lax: lax.switch(np.ones(2, int), [lambda: 1, lambda: 2]),
        r"Branch index must be scalar, got \[1 1\] of shape \(2,\)",
    ),
    "branch_not_callable": (
        lambda lax: lax.switch(1, [lambda: 1, 2]),
        "lax.switch: branches argument should be a sequence of callables",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_misuse(name: str) -> None:
    """JAX's exception with JAX's essential words, plain and under every transformation."""
    call, words = ERRORS[name]
    kind = ValueError if name == "no_branch" else TypeError
    with pytest.raises(kind, match=words):
        call(oracle.lax)
    for transform in (
        lambda f: f(1.0),
        lambda f: subject.jit(f)(1.0),
        lambda f: subject.grad(f)(1.0),
        lambda f: subject.vmap(f)(np.ones(2)),
    ):
        with pytest.raises(kind, match=words):
            transform(lambda x: call(subject.lax))
        assert stack_depth() == 0


def test_io_under_vmap_is_refused() -> None:
    callbacks = importlib.import_module(SUBJECT_NAME + ".experimental")

    def noisy(x: Any) -> Any:
        callbacks.io_callback(lambda v: None, None, x)
        return x

    with pytest.raises(NotImplementedError, match="IO effect not supported in vmap-of-cond"):
        subject.vmap(lambda x: subject.lax.cond(x > 0, noisy, lambda x: x, x))(np.ones(2))


# --- what the rules promise ----------------------------------------------------------------------------------------


def staged(function: Callable[..., Any], *args: Any) -> Any:
    return subject.make_jaxpr(function)(*args)


def conds(jaxpr: Any) -> list[Any]:
    return [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "cond"]


@only_minijax
def test_the_same_functions_are_the_same_program() -> None:
    """Staged, derived and compiled once, however often it is called."""

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
def test_residuals_of_one_type_share_their_place() -> None:
    """Of each type there are as many residuals as the greediest branch has, not as all have together."""
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
            # of placeholders there is one for each residual, also where the branch has it
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
        return subject.lax.cond(
            p, lambda: (ns.sin(x) * 2.0, ns.cos(y), z + 1.0), lambda: (x + 1.0, y, z * ns.exp(x))
        )

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
def test_lowered_to_case() -> None:
    def function(i: Any, x: Any) -> Any:
        return subject.lax.switch(i, [subject.numpy.sin, subject.numpy.cos, lambda x: x], x)

    text = subject.jit(function).lower(1, VECTOR).as_text()
    assert text.count("stablehlo.case") == 1
    assert text.count("stablehlo.return") == 3


@only_minijax
@pytest.mark.parametrize("policy", [None, "everything_saveable", "dots_saveable", "save_only_these_names"])
def test_checkpoint_looks_into_branches(policy: str | None) -> None:
    """What the policy saves inside of a branch is a residual; the gradient is the same whatever it saves."""
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
