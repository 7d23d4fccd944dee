"""``odeint``, borrowed from JAX: the user's function may close over what is differentiated or mapped."""

from __future__ import annotations

import numpy as np
import pytest
from jax.experimental.ode import odeint as theirs

import minijax
import minijax.numpy as jnp
from minijax.experimental.ode import odeint as ours

TIMES = np.linspace(0, 1, 3).astype(np.float32)


def test_what_the_slope_closes_over_is_differentiated_and_mapped():
    ts = jnp.asarray(TIMES)

    def decay(rate, y0):
        return ours(lambda y, t: -rate * y, y0, ts, rtol=1e-6, hmax=0.5)[-1]

    rates = jnp.array([0.5, 1.0])
    np.testing.assert_allclose(minijax.vmap(decay, in_axes=(0, None))(rates, 2.0), 2 * np.exp(-rates), rtol=1e-5)
    np.testing.assert_allclose(minijax.grad(decay)(0.5, 2.0), -2 * np.exp(-0.5), rtol=1e-4)
    # so few steps do not get there: what the last polynomial says is far from the solution
    assert not np.allclose(ours(lambda y, t: -y, 2.0, ts, mxstep=1)[-1], 2 * np.exp(-1.0), rtol=1e-3)


@pytest.mark.parametrize(
    "args", [(1.0, np.arange(3)), (1.0, TIMES, "text")], ids=["times that are integers", "an argument that is no array"]
)
def test_wrong_use(args):
    for ode in (ours, theirs):
        with pytest.raises(TypeError):
            ode(lambda y, t, *rest: y, *args)
