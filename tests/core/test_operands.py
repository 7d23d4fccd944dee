"""The notes of shape errors inside transformations show every operand at every level, and the user's line."""

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import grad, jit, lax, vmap
from minijax.core import operands
from minijax.core.trace import stack_depth
from minijax.extend.core import Primitive
from minijax.interpreters import batching


def add(a, b):
    return a + b


LINE = add.__code__.co_firstlineno + 1
WHERE = f"The operands of `a + b` at {__file__}:{LINE}:11 (add), level by level:"
A, B = np.ones((8, 3), np.float32), np.ones((8, 4), np.float32)

# name -> (call, part of JAX's message, lines of the note after its first line)
CASES = {
    "vmap of vmap": (
        lambda: vmap(vmap(add, in_axes=(0, None)), in_axes=(1, 0))(np.ones((5, 8, 3), np.float32), B),
        "add got incompatible shapes",
        [
            "  a: f32[3]; vmap:2 maps axis 0 of size 5, physically f32[5,3]; "
            "vmap:1 maps axis 1 of size 8, physically f32[5,8,3]",
            "  b: f32[4]; vmap:1 maps axis 0 of size 8, physically f32[8,4]",
            "  the levels: eval ▸ vmap:1 ▸ vmap:2",
        ],
    ),
    "grad": (lambda: grad(add)(A[0], B[0]), "add got incompatible shapes for broadcasting: (3,), (4,).",
     ["  a: f32[3]; linearize:1 adds a tangent", "  b: f32[4]"]),
    "jit of vmap": (
        lambda: jit(vmap(add))(A, B),
        "add got incompatible shapes",
        [
            "  a: f32[3]; vmap:2 maps axis 0 of size 8, physically f32[8,3]; a variable of the jaxpr of jit:1",
            "  b: f32[4]; vmap:2 maps axis 0 of size 8, physically f32[8,4]; a variable of the jaxpr of jit:1",
            "  the levels: eval ▸ jit:1 ▸ vmap:2",
        ],
    ),
    "scan": (lambda: lax.scan(lambda c, x: (add(c, x), x), A[0], B),
     "add got incompatible shapes for broadcasting: (3,), (4,).",
     ["  a: f32[3]; a variable of the jaxpr of scan:1", "  b: f32[4]; a variable of the jaxpr of scan:1"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_note_of_a_shape_error_shows_every_level(name):
    call, words, lines = CASES[name]
    with pytest.raises(TypeError) as raised:
        call()
    assert str(raised.value).startswith(words)
    (note,) = raised.value.__notes__
    assert note.splitlines() == [WHERE, *lines]
    assert stack_depth() == 0


def note_of(call):
    with pytest.raises((TypeError, ValueError)) as raised:
        call()
    assert stack_depth() == 0
    (note,) = raised.value.__notes__
    return note


def test_notes_quote_the_call_of_a_numpy_function():
    note = note_of(
        lambda: vmap(lambda m, v: jnp.dot(m, v))(np.ones((2, 3, 4), np.float32), np.ones((2, 5), np.float32))
    )
    assert note.startswith(f"The operands of `jnp.dot(m, v)` at {__file__}:")
    assert "m: f32[3,4]; vmap:1 maps axis 0 of size 2, physically f32[2,3,4]" in note
    note = note_of(lambda: vmap(lambda a: jnp.where(a > 0, a, jnp.ones(7)))(A))
    assert "operand 0: bool[3]; vmap:1" in note and "operand 2: f32[7]" in note
    note = note_of(lambda: vmap(lambda a: a.reshape(5))(A))
    assert "`a.reshape(5)`" in note and "f32[8,3]" in note


def test_errors_in_an_evaluated_jaxpr_have_the_line_of_the_equation():
    p = Primitive("picky")
    p.def_abstract_eval(lambda x: x)
    # a batching rule that fails
    batching.primitive_batchers[p] = lax.concatenate
    inner = jit(lambda x: p.bind(x))
    note = note_of(lambda: vmap(inner)(A))
    assert note.startswith(f"The operands at {__file__}:{inner.__wrapped__.__code__.co_firstlineno}:")
    assert note.splitlines()[1].startswith("  operand 0: f32[3]; vmap:3 maps axis 0 of size 8, physically f32[8,3]")


def test_the_users_own_errors_get_no_note():
    def f(x):
        raise ValueError("mine")

    def g(x):
        return x.missing

    for function, kind in ((f, ValueError), (g, AttributeError)):
        with pytest.raises(kind) as raised:
            vmap(function)(A)
        assert not getattr(raised.value, "__notes__", [])


def test_without_tracers_there_is_no_note():
    with pytest.raises(TypeError) as raised:
        vmap(lambda x: (jnp.ones(2) + jnp.ones(3)) * x)(A)
    assert not getattr(raised.value, "__notes__", [])
    with pytest.raises(TypeError) as raised:
        jnp.ones(2) + jnp.ones(3)
    assert not getattr(raised.value, "__notes__", [])


class Trap:
    """An object that is no array: reading its ``dtype`` raises."""

    shape = ()

    @property
    def dtype(self):
        raise RuntimeError("no dtype today")


def test_operands_with_broken_attributes_get_no_note():
    for transform in (vmap, jit):
        with pytest.raises(TypeError, match="Error interpreting argument to add") as raised:
            transform(lambda x: lax.add(x, Trap()))(A)
        assert not getattr(raised.value, "__notes__", []) and stack_depth() == 0


def test_operands_are_named_inside_shard_map():
    mesh = minijax.make_mesh((1,), ("x",))
    spec = minijax.sharding.PartitionSpec()
    with pytest.raises(TypeError, match="Error interpreting argument to add .* at position 1"):
        minijax.shard_map(lambda x: lax.add(x, Trap()), mesh=mesh, in_specs=spec, out_specs=spec)(A)


def test_an_interrupt_while_the_note_is_written_leaves_no_interpreter(monkeypatch):
    def interrupted(x):
        raise KeyboardInterrupt

    monkeypatch.setattr(operands, "levels_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        vmap(jit(lambda x: x + jnp.ones(7)))(A)
    assert stack_depth() == 0
