"""User-defined lowering rules, written with MLIR's Python bindings: their results, and their error messages."""

import importlib
import subprocess
import sys

import jax
import ml_dtypes
import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.core import ShapedArray
from minijax.extend.core import Primitive
from minijax.extend.mlir.dialects import func, stablehlo
from minijax.interpreters import mlir
from minijax.lowering.foreign import AuthorsRule
from minijax.lowering.lower import lowering_rules

X = np.array([0.5, -1.25, 2.0], np.float32)


def new(rule, results=1, **options):
    """An elementwise primitive of float32 arrays, lowered by ``rule``."""
    p = Primitive("authored", multiple_results=results > 1)
    aval = lambda x, *rest, **params: ShapedArray(x.shape, x.dtype)  # noqa: E731
    p.def_abstract_eval(aval if results == 1 else lambda *avals, **params: [aval(*avals)] * results)
    mlir.register_lowering(p, rule, **options)
    return p


def run(p, *args, **params):
    """Compile and run the primitive."""
    return minijax.jit(lambda *args: p.bind(*args, **params))(*args)


RETURNED = {"list of results": lambda op: [op.result], "operation": lambda op: op}


@pytest.mark.parametrize("name", RETURNED)
def test_a_lowering_rule_may_return_a_list_or_an_operation(name):
    p = new(lambda ctx, x: RETURNED[name](stablehlo.SineOp(x)))
    np.testing.assert_allclose(run(p, X), np.sin(X), rtol=1e-5)


def test_a_rule_may_have_several_results_and_parameters():
    def lower(ctx, x, *, axes, label):
        assert axes == [0] and label == "so"  # a list has no hash, so calls share no function
        return [stablehlo.sine(x), stablehlo.cosine(x)]

    p = new(lower, results=2)
    sine, cosine = run(p, X, axes=[0], label="so")
    np.testing.assert_allclose(sine, np.sin(X), rtol=1e-5)
    np.testing.assert_allclose(cosine, np.cos(X), rtol=1e-5)


def test_a_rule_is_called_once_per_signature():
    calls = []

    def lower(ctx, x, *, power):
        calls.append((ctx.avals_in[0].shape, power))
        return [stablehlo.sine(x)]

    p = new(lower)

    def f(x, y):
        for _ in range(3):
            x = p.bind(x, power=1)
        return x, p.bind(y, power=1), p.bind(x, power=2)

    text = minijax.jit(f).lower(X, X[:2]).as_text()
    assert calls == [((3,), 1), ((2,), 1), ((3,), 2)]
    assert text.count("func.call @authored") == 5 and text.count("func.func private @authored") == 3


def test_lower_fun_makes_a_rule():
    inner = new(mlir.lower_fun(lambda x: jnp.sin(x) * 2, multiple_results=False))
    outer = new(mlir.lower_fun(lambda x, *, k: (inner.bind(x) + k, x), multiple_results=True), results=2)
    first, second = run(outer, X, k=3.0)
    np.testing.assert_allclose(first, 2 * np.sin(X) + 3, rtol=1e-5)
    np.testing.assert_array_equal(second, X)


def test_lower_fun_can_be_called_inside_a_rule():
    inner = new(lambda ctx, x: [stablehlo.sine(x)])

    def lower(ctx, x, y):
        twice = mlir.lower_fun(lambda v: inner.bind(inner.bind(v)) + X, multiple_results=False)
        (found,) = twice(ctx.replace(avals_in=ctx.avals_in[:1], avals_out=None), x)
        (again,) = twice(ctx.replace(avals_in=ctx.avals_in[1:]), y)
        return [stablehlo.multiply(found, again)]

    p = new(lower)
    wanted = (np.sin(np.sin(X)) + X) * (np.sin(np.sin(2 * X)) + X)
    np.testing.assert_allclose(run(p, X, 2 * X), wanted, rtol=1e-5)


def test_a_rule_may_define_functions():
    def lower(ctx, x):
        shared = ctx.module_context
        helper = func.FuncOp("clash", mlir.ir.FunctionType.get([x.type], [x.type]), visibility="private", ip=shared.ip)
        with mlir.ir.InsertionPoint(helper.add_entry_block()):
            func.ReturnOp([stablehlo.negate(helper.arguments[0])])
        return func.CallOp([x.type], mlir.ir.FlatSymbolRefAttr.get("clash"), [x]).results

    p = new(lower)

    @minijax.jit
    def clash(x):
        return x * 3

    np.testing.assert_allclose(minijax.jit(lambda x: p.bind(clash(x)))(X), -3 * X)


# ------------------------------------------------------------------------------------ platforms


def test_a_rule_for_the_platform_comes_first():
    p = new(lambda ctx, x: [stablehlo.sine(x)])
    mlir.register_lowering(p, lambda ctx, x: [stablehlo.cosine(x)], platform="gpu")
    np.testing.assert_allclose(run(p, X), np.sin(X), rtol=1e-5)
    mlir.register_lowering(p, lambda ctx, x: [stablehlo.negate(x)], platform="cpu")
    np.testing.assert_allclose(run(p, X), -X)
    entry = lowering_rules[p]
    assert isinstance(entry, AuthorsRule) and set(entry.by_platform) == {"cpu", "cuda", "rocm"}
    only_tpu = new(lambda ctx, x: [x], platform="tpu")
    with pytest.raises(NotImplementedError, match="for primitive 'authored' not found for platform cpu"):
        run(only_tpu, X)


@pytest.fixture
def sine_rule():
    """Restore the lowering rule of ``sin`` after the test."""
    kept = lowering_rules[lax.sin_p]
    yield
    lowering_rules[lax.sin_p] = kept


def test_a_primitive_of_minijax_can_get_another_rule(sine_rule):
    mlir.register_lowering(lax.sin_p, lambda ctx, x, **params: [stablehlo.negate(x)], platform="tpu")
    np.testing.assert_allclose(minijax.jit(lambda x: lax.sin(x))(X), np.sin(X), rtol=1e-5)
    mlir.register_lowering(lax.sin_p, lambda ctx, x, **params: [stablehlo.negate(x)])
    np.testing.assert_allclose(minijax.jit(lambda x: lax.sin(x) + 0)(X), -X)


# ------------------------------------------------------------------------------------ errors

ERRORS = {
    "nothing": (lambda ctx, x: None, "Output of translation rule must be iterable: authored, got output None"),
    "too many": (lambda ctx, x: [x, x], r"returned \(tensor<3xf32>, tensor<3xf32>\), but abstract evaluation says"),
    "type": (lambda ctx, x: [stablehlo.convert(mlir.aval_to_ir_type(ShapedArray((3,), np.int32)), x)],
     r"returned \(tensor<3xi32>\), but abstract evaluation says \(tensor<3xf32>\)"),
    "invalid": (lambda ctx, x: [stablehlo.ReshapeOp(x.type, mlir.ir_constant(np.ones(4, np.float32))).result],
     "made an invalid operation: "),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_the_rule(name):
    rule, text = ERRORS[name]
    p = new(rule)
    compiled = minijax.jit(lambda x: p.bind(x))
    with pytest.raises(ValueError, match=text) as error:
        compiled(X)
    if name != "lower_fun":
        assert "test_mlir.py" in str(error.value) and "The lowering rule of authored (<lambda> at" in str(error.value)
    mlir.register_lowering(p, lambda ctx, x: [stablehlo.sine(x)])
    np.testing.assert_allclose(compiled(X), np.sin(X), rtol=1e-5)


# ------------------------------------------------------------------------------------ helpers, against JAX's

CONSTANTS = [
    np.arange(6, dtype=np.int8).reshape(2, 3),
    np.array([True, False]),
    np.array([1.5, np.inf, np.nan], ml_dtypes.bfloat16),
    np.ones((0, 2), np.float64),
]


def built(ns, value):
    """The text of ``value(ns.interpreters.mlir)`` in a fresh context."""
    module = importlib.import_module(ns.__name__ + ".interpreters.mlir")
    ir = mlir.ir
    with module.make_ir_context(), ir.Location.unknown():
        with ir.InsertionPoint(ir.Module.create().body):
            found = value(module)
            return str(found.owner.opview if isinstance(found, ir.Value) else found)


@pytest.mark.parametrize("value", CONSTANTS, ids=lambda v: f"{v.dtype.name}{list(v.shape)}")
def test_constants_match_jax(value):
    ours, theirs = (built(ns, lambda m: m.ir_constant(value)) for ns in (minijax, jax))
    assert ours == theirs


ATTRIBUTES = [3, 2.5, True, "text", np.uint8(200), np.dtype(np.int32), [1, 2], {"a": 1}, np.array([1, 2, 3], np.int64)]


@pytest.mark.parametrize("value", ATTRIBUTES, ids=str)
def test_attributes_match_jax(value):
    ours, theirs = (built(ns, lambda m: m.ir_attribute(value)) for ns in (minijax, jax))
    assert ours == theirs


def test_integer_attributes_match_jax():
    for make in (
        lambda m: m.i32_attr(3),
        lambda m: m.i64_attr(-3),
        lambda m: m.dense_int_array([0, 2]),
        lambda m: m.dense_int_elements([0, 2]),
    ):
        assert built(minijax, make) == built(jax, make)


SCRIPT = """
import sys
import numpy as np
import minijax
from minijax.core import ShapedArray
from minijax.extend.core import Primitive
from minijax.interpreters import ad, batching, mlir
import minijax.extend.mlir.dialects
assert "jaxlib" not in sys.modules, "registering rules needs no jaxlib"
p = Primitive("p")
p.def_abstract_eval(lambda x: ShapedArray(x.shape, x.dtype))
mlir.register_lowering(p, lambda ctx, x: [mlir.hlo.sine(x)])
assert "jaxlib" not in sys.modules
assert float(minijax.jit(lambda x: p.bind(x))(np.float32(0))) == 0
assert "jax" not in sys.modules, "the bindings come from jaxlib alone"
"""


def test_nothing_is_imported_before_it_is_needed():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, env={"JAX_PLATFORMS": "cpu"}
    )
    assert done.returncode == 0, done.stderr
