"""The typechecker accepts jaxprs that JAX stages, and refuses each kind of broken jaxpr."""

import time

import numpy as np
import pytest

from minijax import errors
from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from minijax.ir.typecheck import call_rule, same_type, typecheck_jaxpr, typecheck_rules

F32 = ShapedArray((), np.dtype("float32"))
WEAK = ShapedArray((), np.dtype("float32"), True)
VEC = ShapedArray((3,), np.dtype("float32"))
I32 = ShapedArray((), np.dtype("int32"))

neg = Primitive("neg")
neg.def_abstract_eval(lambda x: x)
add = Primitive("add")
two = Primitive("two", multiple_results=True)
two.def_abstract_eval(lambda x: [x, I32])
call = Primitive("call", multiple_results=True)
call.def_abstract_eval(lambda *avals, jaxpr: jaxpr.out_avals)
typecheck_rules[call] = call_rule()


@add.def_abstract_eval
def add_abstract(x, y):
    if x.shape != y.shape:
        raise TypeError(f"add got incompatible shapes: {x.shape}, {y.shape}.")
    return x


def refused(jaxpr, *texts):
    with pytest.raises(errors.JaxprTypeError) as caught:
        typecheck_jaxpr(jaxpr)
    for text in texts:
        assert text in str(caught.value)
    return caught.value


def variables(n, aval=F32):
    return [Var(aval) for _ in range(n)]


def negation(in_aval=F32, out_aval=F32):
    a, b = Var(in_aval), Var(out_aval)
    return Jaxpr([], [a], [b], [JaxprEqn(neg, [a], {}, [b])])


def test_a_good_jaxpr_is_accepted():
    a, b, c, k = variables(4)
    d = DropVar(I32)
    eqns = [
        JaxprEqn(add, [a, k], {}, [b]),
        JaxprEqn(two, [b], {}, [c, d]),
        JaxprEqn(two, [b], {}, [DropVar(F32), d]),  # dropped results may repeat, because they are no variables
        JaxprEqn(call, [c], {"jaxpr": ClosedJaxpr(negation())}, [Var(F32)]),
    ]
    typecheck_jaxpr(ClosedJaxpr(Jaxpr([k], [a], [c, Literal(np.float32(1), F32)], eqns), [np.float32(2)]))


def test_weak_types_are_not_compared():
    typecheck_jaxpr(negation(F32, WEAK))
    typecheck_jaxpr(negation(WEAK, F32))
    assert same_type(WEAK, F32) and not same_type(F32, I32) and not same_type(F32, VEC)


def test_the_error_of_an_unbound_variable_names_equation_and_source():
    a, b, c = variables(3)
    eqn = JaxprEqn(neg, [b], {}, [c], errors.source_info())
    text = refused(Jaxpr([], [a], [c], [eqn]), "Variable 'c' not defined", "in equation:\n\n  b:f32[] = neg c")
    assert "from source: " in str(text) and "test_typecheck.py" in str(text)


def test_dropped_results_cannot_be_read():
    a, d = Var(F32), DropVar(F32)
    refused(Jaxpr([], [a], [d], [JaxprEqn(neg, [a], {}, [d])]), "Variable '_' not defined")


def test_a_variable_cannot_be_bound_twice():
    a, b = variables(2)
    refused(Jaxpr([], [a, a], [], []), "Variable 'a' already bound")
    refused(Jaxpr([a], [a], [], []), "Variable 'a' already bound")
    eqns = [JaxprEqn(neg, [a], {}, [b]), JaxprEqn(neg, [a], {}, [b])]
    refused(Jaxpr([], [a], [b], eqns), "Variable 'b' already bound", "b:f32[] = neg a")
    refused(Jaxpr([], [a], [b], [JaxprEqn(two, [a], {}, [b, b])]), "already bound")


def test_a_wrong_result_type_is_refused():
    message = "Value for variable 'b' inconsistently typed as f32[] for let-binder of type f32[3]"
    refused(negation(F32, VEC), message, "b:f32[3] = neg a")
    refused(negation(F32, I32), "as f32[] for let-binder of type i32[]")


def test_a_wrong_number_of_results_is_refused():
    a, b = variables(2)
    refused(Jaxpr([], [a], [b], [JaxprEqn(two, [a], {}, [b])]), "has 2 results, but binds 1 variables")


def test_the_error_of_the_abstract_evaluation_is_reported():
    a, b, c = Var(F32), Var(VEC), Var(F32)
    jaxpr = Jaxpr([], [a, b], [c], [JaxprEqn(add, [a, b], {}, [c])])
    refused(jaxpr, "add got incompatible shapes: (), (3,).", "c:f32[] = add a b")


def test_a_primitive_without_abstract_evaluation_is_refused():
    a, b = variables(2)
    eqns = [JaxprEqn(Primitive("mystery"), [a], {}, [b])]
    refused(Jaxpr([], [a], [b], eqns), "Abstract evaluation for 'mystery' not implemented", "b:f32[] = mystery a")


@pytest.mark.parametrize(
    ("value", "aval", "good"),
    [
        (np.float32(1), F32, True),
        (1.0, WEAK, True),
        (1, F32, True),
        (np.float64(1), F32, False),
        (1.5, I32, False),
        (np.int32(1), F32, False),
        (np.zeros(3, np.float32), F32, False),
        (np.float32(1), VEC, False),
    ],
)
def test_literals_must_match_their_types(value, aval, good):
    jaxpr = Jaxpr([], [], [Literal(value, aval)], [])
    if good:
        typecheck_jaxpr(jaxpr)
    else:
        refused(jaxpr, "does not match its type annotation " + aval.str_short())


def test_constants_must_have_the_type_of_their_variable():
    k = Var(VEC)
    good = ClosedJaxpr(Jaxpr([k], [], [k], []), [np.zeros(3, np.float32)])
    typecheck_jaxpr(good)
    bad = ClosedJaxpr(good.jaxpr, [np.zeros(2, np.float32)])
    refused(bad, "A constant of type f32[2] is given for a constvar of type f32[3]")
    b = Var(VEC)
    refused(Jaxpr([], [], [b], [JaxprEqn(call, [], {"jaxpr": bad}, [b])]), "constant of type f32[2]", "= call[")


def test_subjaxprs_are_checked():
    a, b, c = variables(3)
    inner = ClosedJaxpr(Jaxpr([], [a], [c], [JaxprEqn(neg, [b], {}, [c])]))
    x, y = variables(2)
    for params in ({"jaxpr": inner}, {"jaxpr": ClosedJaxpr(negation()), "others": (inner,)}):
        p = Primitive("p", multiple_results=True)
        p.def_abstract_eval(lambda *avals, **params: [F32])
        refused(Jaxpr([], [x], [y], [JaxprEqn(p, [x], params, [y])]), "not defined", " = neg ")
    no_result = ClosedJaxpr(Jaxpr([], [a], [b], []))
    refused(Jaxpr([], [x], [y], [JaxprEqn(call, [x], {"jaxpr": no_result}, [y])]), "not defined", "= call[")


def test_operands_of_a_call_must_fit_its_jaxpr():
    inner = {"jaxpr": ClosedJaxpr(negation())}
    x, y, v = Var(F32), Var(F32), Var(VEC)
    refused(Jaxpr([], [x], [y], [JaxprEqn(call, [x, x], inner, [y])]), "2 operands for a jaxpr with 1 inputs")
    message = "operand 0 has type f32[3], but the jaxpr expects f32[]"
    refused(Jaxpr([], [v], [y], [JaxprEqn(call, [v], inner, [y])]), message)
    refused(Jaxpr([], [x], [v], [JaxprEqn(call, [x], inner, [v])]), "for let-binder of type f32[3]")


def test_checking_takes_linear_time_and_visits_each_jaxpr_once(small_heap):
    def seconds(n):
        xs = variables(n + 1)
        jaxpr = Jaxpr([], xs[:1], xs[-1:], [JaxprEqn(neg, [a], {}, [b]) for a, b in zip(xs, xs[1:], strict=False)])
        start = time.process_time()
        typecheck_jaxpr(jaxpr)
        return time.process_time() - start

    small = min(seconds(10_000) for _ in range(3))
    assert any(seconds(100_000) < 20 * small + 0.5 for _ in range(3))
    jaxpr = negation()
    for _ in range(2000):  # the nesting is deeper than the recursion limit, and each level calls the previous one twice
        x, y, z = variables(3)
        eqns = [JaxprEqn(call, [a], {"jaxpr": ClosedJaxpr(jaxpr)}, [b]) for a, b in [(x, y), (y, z)]]
        jaxpr = Jaxpr([], [x], [z], eqns)
    typecheck_jaxpr(jaxpr)
