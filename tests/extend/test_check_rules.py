"""``check_rules`` finds all planted faults, and no fault in minijax's own primitives."""

import warnings
from functools import lru_cache

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import random
from minijax.core import ShapedArray
from minijax.core.keys import is_key
from minijax.core.rules import RuleTable
from minijax.core.trace import push_main, stack_depth
from minijax.extend.core import Primitive
from minijax.interpreters import ad, batching, mlir
from minijax.interpreters.stage import JaxprBuilder, JaxprTrace
from minijax.pytree import tree_leaves
from minijax.test_util import RulesError, assert_rules, check_rules
from minijax.tools.explain import check_examples

from .examples import examples, ours

pytestmark = pytest.mark.usefixtures("compiled_quickly")

X = np.array([[0.5, -1.25, 2.0], [0.75, 1.5, -0.25]], np.float32)
Y = X[::-1] + np.float32(0.1)


def scaled_product(**wrong):
    """The primitive ``scale * x * y`` with all rules; ``wrong`` replaces some of them."""
    p = Primitive("scaled_product")

    def value(x, y, *, scale):
        return np.multiply(np.asarray(x) * np.float32(scale), y).astype(x.dtype)

    def aval(x, y, *, scale):
        if x.shape != y.shape or x.dtype != y.dtype:
            raise TypeError("scaled_product: two arrays of one type")
        return ShapedArray(x.shape, x.dtype)

    def pushed(primals, tangents, *, scale):
        (x, y), (dx, dy) = primals, tangents
        parts = [p.bind(dx, y, scale=scale) if type(dx) is not ad.Zero else None]
        parts.append(p.bind(x, dy, scale=scale) if type(dy) is not ad.Zero else None)
        found = [part for part in parts if part is not None]
        return p.bind(x, y, scale=scale), found[0] + found[1] if len(found) == 2 else found[0]

    def pulled(ct, x, y, *, scale):
        if ad.is_undefined_primal(x):
            return [p.bind(ct, y, scale=scale), None]
        return [None, p.bind(x, ct, scale=scale)]

    def batch(args, dims, *, scale):
        (size,) = {x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None}
        fronted = [batching.bdim_at_front(x, d, size) for x, d in zip(args, dims, strict=True)]
        return p.bind(*fronted, scale=scale), 0

    def lower(ctx, x, y, *, scale):
        constant = mlir.ir_constant(np.full(ctx.avals_in[0].shape, scale, ctx.avals_in[0].dtype))
        return [mlir.hlo.multiply(mlir.hlo.multiply(x, constant), y)]

    p.def_impl(wrong.get("value", value))
    p.def_abstract_eval(wrong.get("aval", aval))
    ad.primitive_jvps[p] = wrong.get("pushed", pushed)
    ad.primitive_transposes[p] = wrong.get("pulled", pulled)
    batching.primitive_batchers[p] = wrong.get("batch", batch)
    mlir.register_lowering(p, wrong.get("lower", lower))
    return p


def rule(name):
    """The correct rule ``name`` of a fresh primitive: wrong rules are built from it."""
    p = scaled_product()
    tables = {"pushed": ad.primitive_jvps, "pulled": ad.primitive_transposes, "batch": batching.primitive_batchers}
    return tables[name][p]


def test_right_rules_pass():
    report = assert_rules(scaled_product(), X, Y, scale=3.0)
    assert report.ok and not report.failures
    every = {"evaluate", "abstract", "jvp", "linearize", "vjp", "transpose", "second order", "vmap", "lower"}
    assert {o.check for o in report.outcomes} >= every
    assert [o.check for o in report.skipped] == []
    assert str(report).startswith("rules of scaled_product (defined at ")


def _wrong_sign(primals, tangents, *, scale):
    out, tangent = rule("pushed")(primals, tangents, scale=scale)
    return out, -tangent


def _wrong_product(ct, x, y, *, scale):
    return rule("pulled")(ct, x, y, scale=2 * scale)


def _wrong_axis(args, dims, *, scale):
    out, _ = rule("batch")(args, dims, scale=scale)
    return out, 1


def _wrong_dtype(x, y, *, scale):
    return ShapedArray(x.shape, np.float16)


def _lowers_to_a_sum(ctx, x, y, *, scale):
    return [mlir.hlo.add(x, y)]


def _wrong_value(x, y, *, scale):
    return np.asarray(x * y + scale, x.dtype)


def _crashes(*args, **params):
    raise KeyError("a slip of the author's")


# fault -> (wrong rules, the checks that must report the fault, a part of the report)
FAULTS = {
    "sign of the jvp": ({"pushed": _wrong_sign}, {"jvp"}, "finite differences say"),
    "factor of the transpose": ({"pulled": _wrong_product}, {"vjp", "transpose"}, "backwards is"),
    "batch axis": ({"batch": _wrong_axis}, {"vmap"}, "vmap with in_axes="),
    "abstract dtype": ({"aval": _wrong_dtype}, {"abstract"}, "abstract evaluation says float16"),
    "lowering": ({"lower": _lowers_to_a_sum}, {"lower"}, "evaluation says"),
    "value": ({"value": _wrong_value}, {"lower", "jvp"}, "finite differences say"),
    "crash in the transpose": ({"pulled": _crashes}, {"vjp", "transpose"}, "a slip of the author's"),
}


def test_a_wrong_defjvp_rule_is_named():
    def half_of_it(g, x):
        return g * 1.5 * x * x

    cube = Primitive("cube")
    cube.def_impl(lambda x: np.asarray(x) ** 3)
    cube.def_abstract_eval(lambda x: x)
    ad.defjvp(cube, half_of_it)
    found = {o.check: o for o in check_rules(cube, np.float32(2.0)).failures}
    assert found["jvp"].rule.startswith("half_of_it at ")


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_reported(name):
    rules, checks, text = FAULTS[name]
    report = check_rules(scaled_product(**rules), X, Y, scale=3.0)
    assert not report.ok
    found = {o.check: o for o in report.failures}
    assert checks <= set(found), str(report)
    for check in checks:
        outcome = found[check]
        assert outcome.example is not None and all(np.size(x) <= 2 for x in outcome.example), str(report)
    assert any(text in o.detail for o in report.failures)
    (planted,) = rules.values()
    if name != "value":  # the report on this fault names the rules that were compared
        assert any(planted.__name__ in o.rule for o in report.failures), str(report)
    assert stack_depth() == 0


def test_all_faults_are_reported_at_once():
    report = check_rules(scaled_product(pushed=_wrong_sign, batch=_wrong_axis, lower=_lowers_to_a_sum), X, Y, scale=3.0)
    assert {"jvp", "vmap", "lower"} <= {o.check for o in report.failures}
    assert {"evaluate", "abstract", "transpose"}.isdisjoint(o.check for o in report.failures)
    with pytest.raises(RulesError) as error:
        report.raise_if_failed()
    assert isinstance(error.value, AssertionError) and str(error.value) == str(report)
    with pytest.raises(AssertionError, match="_wrong_sign at .*test_check_rules"):
        assert_rules(scaled_product(pushed=_wrong_sign), X, Y, scale=3.0)


def test_the_example_is_small():
    def wrong_column(x, y, *, scale):
        out = np.array(x * y * scale, x.dtype)
        out[..., 1:] = 0
        return out

    report = check_rules(scaled_product(value=wrong_column), X, Y, scale=3.0)
    (outcome,) = [o for o in report.failures if o.check == "lower"]
    assert outcome.example is not None
    assert [x.shape for x in outcome.example] == [(1, 2), (1, 2)]
    assert "smallest example: scaled_product_p.bind(float32[1,2] [[1.0, 1.0]], " in str(report)


def test_a_rule_that_leaves_an_interpreter_on_the_stack_is_reported():
    def leaves_an_interpreter(x, y, *, scale):
        push_main(JaxprTrace, "left behind", JaxprBuilder(), dynamic=True)
        return np.asarray(np.asarray(x) * y * scale, np.float32)

    report = check_rules(scaled_product(value=leaves_an_interpreter), X, Y, scale=3.0)
    assert stack_depth() == 0
    assert [o.detail for o in report.failures] == ["it left left behind:1 on the interpreter stack"]
    assert float(minijax.jit(jnp.sin)(0.0)) == 0.0


def test_missing_rules_are_reported():
    p = Primitive("half_made")
    p.def_impl(lambda x: np.asarray(x * 2, x.dtype))
    p.def_abstract_eval(lambda x: ShapedArray(x.shape, x.dtype))
    report = check_rules(p, X)
    texts = [o.detail.splitlines()[0] for o in report.failures]
    assert texts == [
        "Differentiation rule for 'half_made' not implemented",
        "Transpose rule (for reverse-mode differentiation) for 'half_made' not implemented",
        "Batching rule for 'half_made' not implemented",
        "MLIR translation rule for primitive 'half_made' not found for platform cpu",
    ]
    assert "was defined at" in report.failures[0].detail and "primitive_jvps" in report.failures[0].detail
    tables = {table.name: table for table in RuleTable.tables}
    for name in ("jvp", "transpose", "vmap", "lower"):
        tables[name].holes[p] = f"no {name}: it is only for this test"
    report = check_rules(p, X)
    assert report.ok
    assert {"no jvp: it is only for this test", "no vmap: it is only for this test"} <= {
        o.detail for o in report.skipped
    }


def test_checks_are_skipped_where_they_cannot_apply():
    p = Primitive("ramp")
    p.def_impl(lambda x: np.maximum(np.asarray(x), 0).astype(x.dtype))
    p.def_abstract_eval(lambda x: ShapedArray(x.shape, x.dtype))
    ad.defjvp(p, lambda g, x: g * (x > 0))
    batching.defvectorized(p)
    mlir.register_lowering(p, mlir.lower_fun(lambda x: jnp.maximum(x, 0), multiple_results=False))
    report = check_rules(p, np.zeros(2, np.float32) + np.float32(1e-5))
    skipped = {o.check: o.detail for o in report.skipped}
    assert "not smooth here" in skipped["jvp"] and report.ok
    assert check_rules(p, np.ones(2, np.float32)).ok


def test_primitives_with_integers_and_several_results_are_checked():
    def split(good):
        p = Primitive("split_sign")
        p.multiple_results = True
        p.def_impl(lambda x: [np.abs(x), np.sign(x).astype(np.int32)])
        p.def_abstract_eval(lambda x: [ShapedArray(x.shape, x.dtype), ShapedArray(x.shape, np.int32)])

        def pushed(primals, tangents):
            (x,), (t,) = primals, tangents
            outs = p.bind(x)
            return outs, [t * jnp.sign(x), ad.Zero(outs[1].aval.to_tangent_aval()) if good else t]

        ad.primitive_jvps[p] = pushed
        batching.primitive_batchers[p] = lambda args, dims: (p.bind(*args), [dims[0]] * 2)
        mlir.register_lowering(p, mlir.lower_fun(lambda x: [abs(x), jnp.sign(x).astype(np.int32)]))
        return p

    def as_arrays(p):
        p.def_impl(lambda x: [jnp.asarray(np.abs(np.asarray(x))), jnp.asarray(np.sign(np.asarray(x)).astype(np.int32))])
        return p

    assert assert_rules(as_arrays(split(True)), X).ok
    report = check_rules(as_arrays(split(False)), X)
    assert "dtype float0" in str(report) and "jvp" in {o.check for o in report.failures}


# ------------------------------------------------------------------------------------ the project's own primitives

NAMED_AXIS = "it needs a named axis: see tests/ops/test_parallel.py"
EFFECT = "it calls back into Python: see tests/ops/test_callback.py"
REFERENCE = "it works on a reference: see tests/ops/test_refs.py"
# primitive -> why it has no example
NO_EXAMPLE = {
    **dict.fromkeys(
        ["all_gather", "all_to_all", "axis_index", "pbroadcast", "pmax", "pmin", "ppermute", "psum", "reduce_scatter"],
        NAMED_AXIS,
    ),
    **dict.fromkeys(["debug_callback", "debug_print", "io_callback", "pure_callback"], EFFECT),
    **dict.fromkeys(["addupdate", "free_ref", "freeze", "get", "swap"], REFERENCE),
    **dict.fromkeys(
        ["all_gather_invariant", "psum_invariant", "pvary", "reshard", "shard_map", "sharding_constraint"]
        + ["all_gather_reduced", "preduced", "reduced_vary_cast_p", "unreduced_psum", "unreduced_reduce_scatter"]
        + ["vary_unreduced_cast_p"],
        "it needs a mesh: tests/sharded",
    ),
    "custom_lin": "it appears only between a custom_vjp's two rules: see tests/ops/test_custom_derivatives.py",
    "empty2": "it has no operands",
}
# (primitive, check) -> why its rules disagree on purpose
ON_PURPOSE = {
    ("new_ref", "types of staged programs"): "a function does not return a reference",
    ("stop_gradient", "jvp"): "it hides the derivative",
    ("polygamma", "jvp"): "as in JAX, it has no derivative by the order; tests/ops checks the derivative by x",
    ("polygamma", "linearize"): "likewise",
    ("polygamma", "vjp"): "likewise",
    ("reduce_precision", "vjp"): "tangents and cotangents are rounded too, as in JAX",
    ("while", "vjp"): "a loop of unknown length cannot be run backwards",
    ("custom_linear_solve", "jvp"): "matvec and solve have the same matrix as constants; it cannot vary in one alone",
    ("custom_linear_solve", "second order"): "likewise",
    ("random_gamma", "jvp"): "as in JAX, it is the derivative of the inverse distribution function at the result",
    ("random_gamma", "second order"): "likewise",
    ("custom_vjp_call", "jvp"): "it can only be differentiated backwards, as in JAX",
    ("custom_vjp_call", "linearize"): "likewise: this check compares linearize with jvp",
}


@lru_cache
def table():
    return examples()


@pytest.mark.parametrize("name", sorted({p.name for p in ours()}))
def test_rules_of_own_primitives_agree(name):
    calls = [call for p, found in table().items() if p.name == name for call in found]
    if not calls:
        assert name in NO_EXAMPLE, f"give {name} an example in tests/extend/examples.py, or a reason here"
        return
    assert name not in NO_EXAMPLE, f"{name} has an example now"
    for call in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # ``ordinary`` found these operands by trial
            report = check_rules(call.primitive, *call.args, **call.params)
        expected = {check for who, check in ON_PURPOSE if who == name}
        assert {o.check for o in report.failures} == expected, str(report)
        assert stack_depth() == 0


def test_the_programs_of_the_examples_give_finite_numbers():
    for name, (fun, args) in check_examples.PROGRAMS.items():
        for x in tree_leaves(minijax.jit(fun)(*args)):
            values = np.asarray(random.key_data(x) if is_key(x.dtype) else x)
            assert values.dtype.kind not in "fc" or np.isfinite(values).all(), name
