"""minijax values passed to a function of real JAX: the error shows the place and names ``from_jax``."""

import jax
import jax.numpy as rnp
import pytest

import minijax
from minijax.tools.commands import find
from minijax.tools.documents.document import plain
from minijax.tools.session.session import Session

CALLS = {
    "jitted": lambda x: rnp.sin(x),
    "converted": lambda x: rnp.asarray(x) * 2,
    "transformed": lambda x: jax.grad(lambda y: y * 2)(x),
    "custom rule": lambda x: jax.nn.relu(x),
    "control flow": lambda x: jax.lax.cond(True, lambda y: y, lambda y: y, x),
}


@pytest.mark.parametrize("transform", [minijax.grad, minijax.jit], ids=["grad", "jit"])
@pytest.mark.parametrize("name", CALLS)
def test_the_error_names_from_jax_and_the_line(name, transform):
    def users(x):
        return CALLS[name](x)

    with pytest.raises(TypeError) as caught:
        transform(users)(2.0)
    message = str(caught.value)
    line = CALLS[name].__code__.co_firstlineno
    assert f"reached a function of real JAX, which does not take it, at {__file__}:{line} (<lambda>)" in message
    assert message.count("Call minijax.interop.from_jax(") == 1
    assert float(minijax.interop.from_jax(users)(minijax.numpy.float32(2.0))) == float(users(rnp.float32(2.0)))


def test_the_error_names_the_function():
    def loss(x):
        return rnp.sin(x)

    with pytest.raises(TypeError, match=r"Call minijax\.interop\.from_jax\(loss\) in place"):
        minijax.grad(loss)(2.0)
    session = Session(find, {"loss": loss, "x": minijax.numpy.float32(2.0)})
    assert "from_jax(loss)" in plain(session.run_line("loss(x)").shown, 1000)


def test_other_errors_do_not_mention_from_jax():
    with pytest.raises(TypeError) as caught:
        minijax.grad(lambda x: rnp.sin("text") + x)(2.0)
    assert "from_jax" not in str(caught.value)
    with pytest.raises(TypeError) as caught:
        minijax.jit(lambda x: minijax.numpy.sin(object()))(2.0)
    assert "from_jax" not in str(caught.value)
