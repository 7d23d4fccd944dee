"""The author's side of Part C: ``multiply_add(x, y, z) = x*y + z`` with all its rules, for minijax and for JAX.

``AUTHOR`` is one program text; ``{library}`` in its imports is all that differs between the two. Every rule notes its
calls in ``calls``. ``register[step]()`` adds the rules of one step, so that what happens before can be seen too.
"""

from __future__ import annotations

from types import SimpleNamespace

AUTHOR = """
import numpy as np

import {library}.numpy as jnp
from {library}.core import ShapedArray
from {library}.extend.core import Primitive
from {library}.extend.mlir.dialects import stablehlo as hlo
from {library}.interpreters import ad, batching, mlir

calls = []
register = {}

multiply_add_p = Primitive("multiply_add")


def multiply_add(x, y, z):
    return multiply_add_p.bind(x, y, z)


def square_add(a, b):
    return multiply_add(a, a, b)


def noted(rule):
    def rule_with_note(*args):
        calls.append((rule.__name__, args))
        return rule(*args)

    rule_with_note.__name__ = rule_with_note.__qualname__ = rule.__name__
    return rule_with_note


def step(function):
    register[function.__name__] = function


@step
def evaluation():
    @noted
    def multiply_add_value(x, y, z):
        return np.asarray(x * y + z, np.float32)

    multiply_add_p.def_impl(multiply_add_value)


@step
def abstract_evaluation():
    @noted
    def multiply_add_type(x, y, z):
        if not x.shape == y.shape == z.shape:
            raise TypeError("multiply_add wants three arrays of one shape")
        return ShapedArray(x.shape, x.dtype)

    multiply_add_p.def_abstract_eval(multiply_add_type)


@step
def lowering():
    @noted
    def multiply_add_to_hlo(ctx, x, y, z):
        product = hlo.MulOp(x, y)
        return [hlo.AddOp(product, z).result]

    mlir.register_lowering(multiply_add_p, multiply_add_to_hlo, platform="cpu")


@step
def derivative():
    @noted
    def multiply_add_jvp(primals, tangents):
        x, y, z = primals
        dx, dy, dz = [jnp.zeros_like(x) if type(t) is ad.Zero else t for t in tangents]
        return multiply_add(x, y, z), multiply_add(dx, y, multiply_add(x, dy, dz))

    ad.primitive_jvps[multiply_add_p] = multiply_add_jvp


@step
def transposition():
    @noted
    def multiply_add_transpose(ct, x, y, z):
        linear = [ad.is_undefined_primal(arg) for arg in (x, y, z)]
        assert not (linear[0] and linear[1]), "linear in one factor at a time"
        cts = [None, None, ct if linear[2] else None]
        if linear[0] or linear[1]:
            factor = y if linear[0] else x
            cts[linear.index(True)] = multiply_add(ct, factor, jnp.zeros_like(factor))
        return cts

    ad.primitive_transposes[multiply_add_p] = multiply_add_transpose


@step
def batching_rule():
    @noted
    def multiply_add_batch(args, dims):
        (size,) = {x.shape[d] for x, d in zip(args, dims) if d is not None}
        fronted = [batching.bdim_at_front(x, d, size) for x, d in zip(args, dims)]
        return multiply_add(*fronted), 0

    batching.primitive_batchers[multiply_add_p] = multiply_add_batch
"""


def author(library: str, before: str | None = None) -> SimpleNamespace:
    """The author's program run anew against ``library`` ('minijax' or 'jax').

    The rules of the steps ``before`` that one are registered, all rules by default.
    """
    program = compile(AUTHOR.replace("{library}", library), f"<multiply_add of {library}>", "exec")
    names: dict[str, object] = {"__name__": "multiply_add_author"}
    exec(program, names)  # the text above
    made = SimpleNamespace(**names)
    for name, register in made.register.items():
        if name == before:
            break
        register()
    return made


def count(made: SimpleNamespace, rule: str) -> int:
    """How often the rule was called."""
    return sum(name == rule for name, _ in made.calls)
