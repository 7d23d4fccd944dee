"""JAX's programs become minijax programs with the same equations and the user's lines, or raise with a reason."""

import functools
import inspect

import jax
import jax.ad_checkpoint
import jax.extend
import jax.interpreters.mlir
import jax.numpy as rnp
import numpy as np
import pytest
from jax.experimental import io_callback

import minijax as mj
from minijax import errors
from minijax.core.names import names_of
from minijax.interop import from_jax, to_jax
from minijax.interop.borrowed import BorrowedPrimitive
from minijax.interop.params import known_params, translated
from minijax.interop.programs import import_closed, our_primitives
from minijax.ir.jaxpr import subjaxprs
from minijax.ir.typecheck import typecheck_jaxpr

from ..ops.table import ROWS
from ..oracle.control_flow import PROGRAMS
from ..oracle.functions import CASES
from ..oracle.normalise import normalise

pytestmark = pytest.mark.usefixtures("compiled_quickly")

X = np.array([0.5, 1.5, -0.25], np.float32)


def equations(jaxpr):
    """All equations of a program, including those of inner programs."""
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield eqn
        for inner in subjaxprs(eqn.params):
            yield from equations(inner)


def named(jaxpr, name):
    return next(eqn for eqn in equations(jaxpr) if eqn.primitive.name == name)


def test_programs_of_the_tables_survive_a_round_trip():
    rows = [*CASES.values(), *PROGRAMS.values(), *ROWS.values()]
    wrong, compared = [], 0
    for row in rows:
        for derivative in (False, True):
            fun = functools.partial(row.function, jax)
            if derivative:
                fun = lambda *args, f=fun: jax.vjp(f, *args)[0]  # noqa: E731
            try:
                theirs = jax.make_jaxpr(fun)(*row.args)
            except (TypeError, ValueError, NotImplementedError):  # no derivative
                continue
            ours = import_closed(theirs)
            typecheck_jaxpr(ours)
            found = [e.primitive.name for e in equations(ours) if isinstance(e.primitive, BorrowedPrimitive)]
            borrowed = [name for name in found if not name.startswith("reduce_window")]
            wanted, back = normalise(theirs).lines, to_jax(ours)
            if borrowed or normalise(ours).lines != wanted or normalise(back).lines != wanted:
                wrong.append((row.name, derivative, borrowed))
            compared += 1
    assert not wrong
    assert compared > 500


def test_an_unknown_parameter_makes_an_equation_borrowed():
    tanh, dot = our_primitives()["tanh"], our_primitives()["dot_general"]
    assert translated(tanh, {"accuracy": None}, None) == {}
    assert translated(tanh, {"accuracy": "highest"}, None) is None
    assert translated(dot, {"precision": None, "strange": 1}, None) is None
    assert "dimension_numbers" in known_params(dot)
    accurate = from_jax(functools.partial(jax.lax.tanh, accuracy=jax.lax.AccuracyMode.HIGHEST))
    assert isinstance(mj.make_jaxpr(accurate)(X).eqns[0].primitive, BorrowedPrimitive)
    np.testing.assert_allclose(accurate(X), np.tanh(X), rtol=1e-6)


def test_constants_of_bodies_become_operands():
    w = np.arange(3.0, dtype=np.float32)
    inner = jax.make_jaxpr(lambda c, a: (c + (a * w).sum(), c))(0.0, X)
    body = jax.extend.core.jaxpr_as_fun(jax.extend.core.ClosedJaxpr(inner.jaxpr, inner.consts))

    def fun(x):
        def step(c, a):
            return tuple(body(c, a * w))

        c, ys = jax.lax.scan(step, 0.0, rnp.stack([x, x + 1]))
        d = jax.lax.while_loop(lambda v: v[0] < w.sum(), lambda v: v + w + 1, x)
        e = jax.lax.cond(c > 0, lambda x: x * w, lambda x: x - rnp.asarray([2.0, 1.0, 0.0]), x)
        return jax.checkpoint(lambda x: rnp.sin(x * w))(x).sum() + ys.sum() + d.sum() + e.sum()

    mine = from_jax(fun)
    np.testing.assert_allclose(mj.jit(mine)(X), fun(X), rtol=1e-6)
    np.testing.assert_allclose(mine(X), fun(X), rtol=1e-6)


def test_equations_keep_user_lines_and_scopes():
    def fun(x):
        with jax.named_scope("inside"):
            y = rnp.sin(x)
        return rnp.linalg.norm(y)  # the innermost lines of its equations are JAX's

    jaxpr = mj.make_jaxpr(from_jax(fun))(X)
    first = inspect.getsourcelines(fun)[1]
    sin, norm = named(jaxpr, "sin"), named(jaxpr, "jit")
    assert errors.position(sin.source)[0] == first + 2
    assert errors.position(norm.source)[0] == first + 3
    assert (names_of(sin.source), names_of(norm.source)) == ("inside", "")
    # if JAX has no user line for an equation, it gets the line of the call
    outer = mj.make_jaxpr(from_jax(rnp.sin))(X)
    assert errors.summarize(outer.eqns[0].source).split(":")[0] == __file__


def test_checkpoint_policies_decide_as_in_jax():
    def fun(policy):
        def inside(x):
            return rnp.sin(jax.ad_checkpoint.checkpoint_name(rnp.sin(x), "kept") @ rnp.eye(3)).sum()

        return jax.grad(lambda x: jax.checkpoint(inside, policy=policy)(x))

    p = jax.checkpoint_policies
    asked = []

    def own(prim, *avals, **params):
        asked.append((prim, *map(type, avals)))
        return prim is jax.lax.dot_general_p

    policies = [None, p.dots_saveable, p.everything_saveable, p.save_only_these_names("kept"), own]
    policies.append(p.save_from_both_policies(p.dots_saveable, p.save_only_these_names("kept")))
    for policy in policies:
        value = rnp.asarray(X)
        mine = from_jax(lambda x, policy=policy: jax.checkpoint(_inside, policy=policy)(x))
        text = str(mj.make_jaxpr(mj.grad(mine))(X))
        theirs = str(jax.make_jaxpr(jax.grad(lambda x, policy=policy: jax.checkpoint(_inside, policy=policy)(x)))(X))
        assert text.count(" sin ") == theirs.count(" sin "), policy
        assert text.count("dot_general[") == theirs.count("dot_general["), policy
        np.testing.assert_allclose(fun(policy)(value), mj.grad(mine)(X), rtol=1e-6)
    assert (jax.lax.dot_general_p, jax.core.ShapedArray, jax.core.ShapedArray) in asked


def _inside(x):
    return rnp.sin(jax.ad_checkpoint.checkpoint_name(rnp.sin(x), "kept") @ rnp.eye(3)).sum()


def test_callbacks_call_the_functions_with_arrays_of_jax(capfd):
    seen = []

    def host(x):
        seen.append(type(x))
        return np.asarray(x) * 2

    def note(x, *, name):
        seen.append((name, float(x)))

    def fun(x):
        y = jax.pure_callback(host, jax.ShapeDtypeStruct((3,), "float32"), x, vmap_method="sequential")
        z = io_callback(host, jax.ShapeDtypeStruct((3,), "float32"), x, ordered=True)
        jax.debug.callback(note, x[0], name="first")
        jax.debug.print("x is {} and {y}", x[1], y=x[2])
        return y + z

    mine = from_jax(fun)
    expected = X * 4
    array_type = type(rnp.ones(1))
    for run in (mine, mj.jit(mine)):
        seen.clear()
        np.testing.assert_allclose(run(X), expected)
        mj.effects_barrier()
        assert seen == [array_type, array_type, ("first", 0.5)]
        assert capfd.readouterr().out == "x is 1.5 and -0.25\n"
    doubled = from_jax(
        lambda x: jax.pure_callback(host, jax.ShapeDtypeStruct((), "float32"), x, vmap_method="sequential")
    )
    np.testing.assert_allclose(mj.vmap(doubled)(X), X * 2)


def test_collectives_find_the_axes_that_minijax_names():
    def fun(x):
        return x / jax.lax.psum(x, "i") + jax.lax.axis_index("i") + jax.lax.all_gather(x, "i").sum()

    expected = jax.vmap(fun, axis_name="i")(X)
    mine = from_jax(fun)
    np.testing.assert_allclose(mj.vmap(mine, axis_name="i")(X), expected, rtol=1e-6)
    np.testing.assert_allclose(mj.jit(mj.vmap(mine, axis_name="i"))(X), expected, rtol=1e-6)
    with pytest.raises(NameError, match="unbound axis name"):
        mine(X)


def test_auxiliary_results_of_linear_solves_are_converted():
    def solved(ns, b):
        half = lambda _, b: (b / 2, b.sum())  # noqa: E731
        return ns.lax.custom_linear_solve(lambda x: 2 * x, b, half, has_aux=True, symmetric=True)

    ours = jax.make_jaxpr(to_jax(functools.partial(solved, mj)))(X)
    assert normalise(ours).lines == normalise(jax.make_jaxpr(functools.partial(solved, jax))(X)).lines


OUTER = jax.new_ref(X)


def closing_over_a_reference(x):
    OUTER[...] = x + 1
    return OUTER[...]


def test_unsupported_programs_are_refused_with_the_reason():
    with pytest.raises(NotImplementedError, match="closes over a mutable"):
        from_jax(closing_over_a_reference)(X)


# ------------------------------------------------------------------------------------------------ lowerings


def checked(x):
    """A third party's implementation, with a callback to Python and a sharding constraint."""
    mesh = jax.make_mesh((1,), ("d",))
    y = jax.lax.with_sharding_constraint(x * 2, jax.sharding.NamedSharding(mesh, jax.P()))
    jax.debug.callback(SEEN.append, y.sum())
    return [y, rnp.argmax(y)]


SEEN = []
checked_p = jax.extend.core.Primitive("checked")
checked_p.multiple_results = True
checked_p.def_impl(checked)
checked_p.def_abstract_eval(lambda x: [x, jax.core.ShapedArray((), np.int32)])
jax.interpreters.mlir.register_lowering(checked_p, jax.interpreters.mlir.lower_fun(checked, multiple_results=True))
jax.interpreters.batching.primitive_batchers[checked_p] = lambda args, dims: (
    checked_p.bind(args[0].sum(dims[0])),
    [None, None],
)
jax.interpreters.ad.primitive_jvps[checked_p] = lambda primals, tangents: (
    checked_p.bind(*primals),
    [checked_p.bind(tangents[0])[0], np.zeros((), jax.dtypes.float0)],
)
jax.interpreters.ad.primitive_transposes[checked_p] = lambda cts, x: [checked_p.bind(cts[0])[0]]


def test_a_primitive_whose_lowering_calls_python_uses_its_implementation():
    x = np.array([1.0, 3.0, 2.0], np.float32)
    mine = from_jax(lambda x: checked_p.bind(x)[0])
    for run in (mine, mj.jit(mine)):
        SEEN.clear()
        np.testing.assert_array_equal(run(x), 2 * x)
        mj.effects_barrier()
        assert list(map(float, SEEN)) == [12.0]
    # the integer result has no cotangent; JAX's batching rule returns results without a batch axis
    np.testing.assert_array_equal(mj.grad(lambda x: mine(x)[1])(x), [0, 2, 0])
    np.testing.assert_array_equal(mj.vmap(mine, out_axes=None)(np.stack([x, x])), 4 * x)
