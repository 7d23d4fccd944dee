"""A new primitive, step by step: each missing rule raises JAX's error, and the rule then makes the call work.

The author's program is one text with other imports (``multiply_add.AUTHOR``). The tests run against JAX too.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import minijax
from minijax.core.trace import stack_depth
from minijax.ir.typecheck import typecheck_jaxpr
from minijax.tools.recording.recorder import record
from minijax.tools.recording.records import BindRecord, RuleRecord

from .multiply_add import AUTHOR, author, count

LIBRARIES = ("minijax", "jax")
TWO_THREE, TEN_TWENTY = np.array([2.0, 3.0], np.float32), np.array([10.0, 20.0], np.float32)


class Step(NamedTuple):
    """``use(ns, square_add)``, what it raises without the step's rules, and what it gives with them."""

    rules: str
    use: Callable[[Any, Any], Any]
    before: str
    after: Any


STEPS = {
    "evaluate": Step(
        "evaluation",
        lambda ns, f: f(2.0, 10.0),
        "Evaluation rule for 'multiply_add' not implemented",
        14.0,
    ),
    "stage": Step(
        "abstract_evaluation",
        lambda ns, f: str(ns.make_jaxpr(f)(2.0, 10.0).out_avals[0]),
        "Abstract evaluation for 'multiply_add' not implemented",
        "float32[]",
    ),
    "jit": Step(
        "lowering",
        lambda ns, f: ns.jit(f)(2.0, 10.0),
        "MLIR translation rule for primitive 'multiply_add' not found for platform cpu",
        14.0,
    ),
    "jit with a static argument": Step(
        "lowering",
        lambda ns, f: ns.jit(f, static_argnums=1)(2.0, 10.0),
        "MLIR translation rule for primitive 'multiply_add' not found for platform cpu",
        14.0,
    ),
    "jvp": Step(
        "derivative",
        lambda ns, f: ns.jvp(f, (2.0, 10.0), (1.0, 1.0)),
        "Differentiation rule for 'multiply_add' not implemented",
        (14.0, 5.0),
    ),
    "jvp of jit": Step(
        "derivative",
        lambda ns, f: ns.jvp(ns.jit(f), (2.0, 10.0), (1.0, 1.0)),
        "Differentiation rule for 'multiply_add' not implemented",
        (14.0, 5.0),
    ),
    "grad": Step(
        "transposition",
        lambda ns, f: ns.grad(f)(2.0, 10.0),
        "Transpose rule (for reverse-mode differentiation) for 'multiply_add' not implemented",
        4.0,
    ),
    "jit of grad": Step(
        "transposition",
        lambda ns, f: ns.jit(ns.grad(f))(2.0, 10.0),
        "Transpose rule (for reverse-mode differentiation) for 'multiply_add' not implemented",
        4.0,
    ),
    "vmap": Step(
        "batching_rule",
        lambda ns, f: ns.vmap(f)(TWO_THREE, TEN_TWENTY),
        "Batching rule for 'multiply_add' not implemented",
        [14.0, 29.0],
    ),
    "vmap of grad": Step(
        "batching_rule",
        lambda ns, f: ns.vmap(ns.grad(f, argnums=(0, 1)))(TWO_THREE, TEN_TWENTY),
        "Batching rule for 'multiply_add' not implemented",
        ([4.0, 6.0], [1.0, 1.0]),
    ),
}


# The call that adds each rule, as minijax's errors name it.
REMEDIES = {
    "abstract_evaluation": "primitive.def_abstract_eval(rule)",
    "lowering": "minijax.interpreters.mlir.register_lowering(primitive, rule)",
    "derivative": "minijax.interpreters.ad.primitive_jvps[primitive] = rule",
    "transposition": "minijax.interpreters.ad.primitive_transposes[primitive] = rule",
    "batching_rule": "minijax.interpreters.batching.primitive_batchers[primitive] = rule",
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", STEPS)
def test_before_and_after(name: str, library: str) -> None:
    """The error before the step, and the same call's value after it. minijax also says what to add, and where."""
    step, ns = STEPS[name], importlib.import_module(library)
    made = author(library, before=step.rules)
    with pytest.raises(NotImplementedError) as error:
        step.use(ns, made.square_add)
    assert str(error.value).startswith(step.before)
    assert stack_depth() == 0
    if library == "minijax" and step.rules in REMEDIES:
        line = 1 + AUTHOR.splitlines().index('multiply_add_p = Primitive("multiply_add")')
        assert f"multiply_add was defined at <multiply_add of minijax>:{line}\n" in str(error.value)
        assert REMEDIES[step.rules] in str(error.value)
    made.register[step.rules]()
    found = step.use(ns, made.square_add)
    if isinstance(step.after, str):
        assert found == step.after
    else:
        np.testing.assert_allclose(np.asarray(found), np.asarray(step.after), rtol=1e-6)


@pytest.mark.parametrize("library", LIBRARIES)
def test_one_function_through_all_steps(library: str) -> None:
    """A jitted function that failed is not spoilt: it works once the rule is there."""
    ns = importlib.import_module(library)
    made = author(library, before="evaluation")
    compiled = ns.jit(made.square_add)
    for missing in ("Abstract evaluation", "MLIR translation rule"):
        made.register["evaluation"]()
        with pytest.raises(NotImplementedError, match=missing):
            compiled(2.0, 10.0)
        made.register["abstract_evaluation"]()
    made.register["lowering"]()
    assert compiled(2.0, 10.0) == 14.0


@pytest.mark.parametrize("library", LIBRARIES)
def test_jit_of_jvp_stages_three_and_lowers_them_once(library: str) -> None:
    """Three equations. The first two are of one type and share what the lowering rule made, as in JAX."""
    ns = importlib.import_module(library)
    made = author(library, before="transposition")

    def pushed(primals: Any, tangents: Any) -> Any:
        return ns.jvp(made.square_add, primals, tangents)

    jaxpr = ns.make_jaxpr(pushed)((2.0, 10.0), (1.0, 1.0))
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["multiply_add"] * 3
    if library == "minijax":
        typecheck_jaxpr(jaxpr)
    assert count(made, "multiply_add_to_hlo") == 0
    compiled = ns.jit(pushed)
    text = compiled.lower((2.0, 10.0), (1.0, 1.0)).as_text()
    signatures = {tuple(map(str, ((v.aval, v.aval.weak_type) for v in eqn.invars))) for eqn in jaxpr.eqns}
    assert count(made, "multiply_add_to_hlo") == len(signatures) == 2
    lowered = "func.call @multiply_add" if library == "minijax" else "stablehlo.multiply"
    assert text.count(lowered) == 3
    assert compiled((2.0, 10.0), (1.0, 1.0)) == (14.0, 5.0)
    assert compiled((3.0, 10.0), (1.0, 1.0)) == (19.0, 7.0)
    assert count(made, "multiply_add_to_hlo") == 2
    assert count(made, "multiply_add_jvp") <= 2  # make_jaxpr and jit each stage, where they do not share it


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("wrapping", ["grad", "jit of grad"])
def test_transposed_exactly_twice(wrapping: str, library: str) -> None:
    """Once for each use of the primitive in its derivative; the last use first, with the other factor known."""
    ns = importlib.import_module(library)
    made = author(library, before="batching_rule")
    gradient = {
        "grad": ns.grad(made.square_add),
        "jit of grad": ns.jit(ns.grad(made.square_add)),
    }[wrapping]
    assert gradient(2.0, 10.0) == 4.0
    ad = importlib.import_module(library + ".interpreters.ad")
    calls = [args for name, args in made.calls if name == "multiply_add_transpose"]
    assert [[ad.is_undefined_primal(x) for x in args[1:3]] for args in calls] == [[True, False], [False, True]]
    ((primals, tangents),) = [args for name, args in made.calls if name == "multiply_add_jvp"]
    assert [type(t) is ad.Zero for t in tangents] == [False, False, True]
    assert tangents[2].aval.shape == () and tangents[2].aval.dtype == np.float32
    if wrapping == "jit of grad":
        gradient(3.0, 10.0)
        assert count(made, "multiply_add_transpose") == 2


def test_the_microscope_tells_the_story() -> None:
    """Which rule was called, at which level of the stack, nested as the calls nest, with no helper of the author's."""
    made = author("minijax")
    value, recording = record(minijax.grad(made.square_add), 2.0, 10.0)
    assert value == 4.0
    nodes = [(depth, n) for depth, n in recording.walk() if isinstance(n, BindRecord)]
    binds = [(depth, n) for depth, n in nodes if n.primitive == "multiply_add"]
    # the call at the top; what its jvp rule calls (the value, and two tangents, which are recorded); the transposes
    assert [n.level for _, n in binds] == ["linearize:1", "eval", "linearize:1", "linearize:1", "eval", "eval"]
    depths = [depth for depth, _ in binds]
    assert depths[1:4] == [depths[0] + 1] * 3 and depths[4] <= depths[0]
    assert [t.type for t in binds[0][1].tracers] == ["f32[]", "f32[]"]
    rules = [n.rule.name for _, n in binds if n.rule is not None]
    rules += [n.name for _, n in recording.walk() if isinstance(n, RuleRecord)]
    assert rules.count("multiply_add_jvp") == 1 and rules.count("multiply_add_transpose") == 2
