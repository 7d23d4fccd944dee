"""Derivative rules, closures and checkpoints used wrongly. Adds rows to the table in ``misuses``."""

import functools

from .misuses import BOOL, X3, misuse, wrong

# fmt: off

BACKWARD = (
    "Custom VJP bwd rule must produce an output with the same container (pytree) structure as the args tuple of the "
    "primal function",
)

# --- custom_jvp --------------------------------------------------------------------------------------------
def with_jvp(ns, rule, **options):
    @functools.partial(ns.custom_jvp, **options)
    def squared(x):
        return x * x

    squared.defjvp(rule)
    return squared

wrong("custom_jvp_without_a_rule", lambda ns: ns.custom_jvp(lambda x: x)(1.0),
      "No JVP defined for custom_jvp function <lambda> using defjvp")
wrong("custom_jvp_rule_returns_no_pair", lambda ns: ns.grad(with_jvp(ns, lambda primals, tangents: tangents[0]))(1.0),
      "Custom JVP rule <lambda> for function squared must produce a pair (list or tuple of length two)", here=True,
      advice=("The rule is",))
wrong("custom_jvp_tangent_of_another_shape",
      lambda ns: ns.jvp(with_jvp(ns, lambda p, t: (p[0] ** 2, t[0].sum())), (X3,), (X3,)),
      "must produce primal and tangent outputs with corresponding shapes and dtypes", "Expected float32[3]",
      "got float32[]", here=True, advice=("The rule is",))
wrong("custom_jvp_tangent_of_another_tree",
      lambda ns: ns.jvp(with_jvp(ns, lambda p, t: (p[0] ** 2, (t[0], t[0]))), (X3,), (X3,)),
      "Custom JVP rule <lambda> for function squared must produce primal and tangent outputs with equal container",
      "PyTreeDef(*) and PyTreeDef((*, *))", here=True, advice=("The rule is",))

@misuse(
    "must produce a pair (list or tuple of length two) where the first element represents the primal output",
    "container/pytree structure",
)
def custom_jvp_primal_of_another_tree(ns):
    squared = with_jvp(ns, lambda p, t: ((p[0], p[0]), (t[0], t[0])))
    ns.jvp(ns.jit(squared), (X3,), (X3,))

wrong("custom_jvp_primal_of_another_shape",
      lambda ns: ns.jvp(ns.jit(with_jvp(ns, lambda p, t: (p[0].sum(), t[0].sum()))), (X3,), (X3,)),
      "must produce a pair (list or tuple of length two) where the first element represents the primal output",
      "shapes/dtypes", "float32[]", "float32[3]")

@misuse(*BOOL, "The error occurred while tracing the function absolute at", "for custom_jvp", here=True)
def truth_value_in_a_custom_jvp_function(ns):
    @ns.custom_jvp
    def absolute(x):
        if x > 0:
            return x
        return -x

    absolute.defjvp(lambda p, t: (p[0], t[0]))
    ns.jit(absolute)(1.0)

wrong("custom_jvp_with_an_unknown_keyword", lambda ns: with_jvp(ns, lambda p, t: (p[0], t[0]))(y=1.0),
      "The input arguments to the custom_jvp-decorated function squared could not be resolved",
      "missing a required argument: 'x'")
wrong("custom_jvp_given_text", lambda ns: with_jvp(ns, lambda p, t: (p[0], t[0]))("hello"), "<class 'str'>",
      advice=("at path x", "squared at"))

@misuse("Can't use ``defjvps`` with ``nondiff_argnums``")
def defjvps_with_nondiff_argnums(ns):
    @functools.partial(ns.custom_jvp, nondiff_argnums=(1,))
    def power(x, n):
        return x**n

    power.defjvps(lambda t, ans, x, n: n * t)

# --- custom_vjp --------------------------------------------------------------------------------------------
def with_vjp(ns, fwd, bwd):
    @ns.custom_vjp
    def product(x, y):
        return x * y

    product.defvjp(fwd, bwd)
    return product

def forward(x, y):
    return x * y, (x, y)

def backward(residuals, ct):
    x, y = residuals
    return ct * y, ct * x

wrong("custom_vjp_without_rules", lambda ns: ns.custom_vjp(lambda x: x)(1.0),
      "No VJP defined for custom_vjp function <lambda> using defvjp")
wrong("custom_vjp_in_forward_mode", lambda ns: ns.jvp(with_vjp(ns, forward, backward), (1.0, 2.0), (1.0, 1.0)),
      "can't apply forward-mode autodiff (jvp) to a custom_vjp function")
wrong("forward_rule_returns_no_pair", lambda ns: ns.grad(with_vjp(ns, lambda x, y: x * y, backward))(1.0, 2.0),
      "Custom VJP fwd rule <lambda> for function product must produce a pair (list or tuple of length two)",
      "residuals", "produced 2.0", advice=("The rule is",))
wrong("forward_rule_gives_another_tree",
      lambda ns: ns.grad(ns.jit(with_vjp(ns, lambda x, y: ((x, y), (x, y)), backward)))(1.0, 2.0),
      "Custom VJP fwd rule <lambda> for function product must produce a pair (list or tuple of length two)",
      "container/pytree structure")

@misuse(
    "Custom VJP fwd rule <lambda> for function product must produce a pair (list or tuple of length two)",
    "float32[]",
    "float32[3]",
)
def forward_rule_gives_another_shape(ns):
    product = with_vjp(ns, lambda x, y: ((x * y).sum(), (x, y)), backward)
    ns.grad(lambda x, y: ns.jit(product)(x, y).sum())(X3, X3)

wrong("backward_rule_returns_too_few", lambda ns: ns.grad(with_vjp(ns, forward, lambda res, ct: (ct,)))(1.0, 2.0),
      *BACKWARD, "PyTreeDef((*,))", "PyTreeDef((*, *))", advice=("The rule is",))
wrong("backward_rule_gives_another_shape",
      lambda ns: ns.vjp(with_vjp(ns, forward, lambda res, ct: (ct.sum(), ct)), X3, X3)[1](X3),
      "Custom VJP bwd rule must produce an output with the same type as the args tuple of the primal function",
      "at output[0]", "float32[]", "float32[3]", "the shapes do not match", advice=("The rule is",))

@misuse("Encountered an unexpected tracer", here=True, advice=("closed-over value", "as an argument"))
def custom_vjp_closes_over_a_differentiated_value(ns):
    def outer(x):
        @ns.custom_vjp
        def scaled(y):
            return x * y

        scaled.defvjp(lambda y: (scaled(y), None), lambda res, ct: (ct,))
        return scaled(2.0)

    ns.grad(outer)(1.0)

wrong("custom_gradient_returns_no_pair", lambda ns: ns.custom_gradient(lambda x: x)(1.0), here=True,
      advice=("must return a pair (value, pullback)",))

# --- closure_convert, checkpoint ---------------------------------------------------------------------------
wrong("closure_convert_of_a_number", lambda ns: ns.closure_convert(3, 1.0), "callable")
wrong("closure_converted_function_given_another_tree", lambda ns: ns.closure_convert(lambda x: x * 2, X3)[0]([X3]),
      "The inputs to the closure produced by closure_convert must have the same Pytree structure",
      "Expected PyTreeDef((*,)), but got PyTreeDef(([*],))")
wrong("checkpoint_gives_text", lambda ns: ns.checkpoint(lambda x: "hello")(1.0), "traced for checkpoint",
      "returned a value of type <class 'str'>, which is not a valid JAX type", here=True)
wrong("truth_value_in_a_checkpoint", lambda ns: ns.checkpoint(lambda x: x if x > 0 else -x)(1.0), *BOOL,
      "for checkpoint", "the argument x", "static_argnums", here=True)
wrong("checkpoint_static_argnums_out_of_range", lambda ns: ns.checkpoint(lambda x: x, static_argnums=(3,))(1.0),
      "the `static_argnums` argument to `jax.checkpoint` / `jax.remat`", "but got (3,), while `len(args)` = 1")
wrong("checkpoint_policy_is_text", lambda ns: ns.grad(ns.checkpoint(lambda x: ns.numpy.sin(x) * 2, policy="dots"))(1.0),
      "callable", advice=("checkpoint_policies",))
