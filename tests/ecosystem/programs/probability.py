"""tinygp, NumPyro and BlackJAX: Gaussian processes, models with priors, and their samplers."""

from __future__ import annotations

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import tinygp
from numpyro.infer import HMC
from numpyro.infer.util import initialize_model, log_density

from tests.ecosystem.example import example, numbers

XS = numbers(4, name="xs")
KEY = np.array([0, 11], np.uint32)


@example(lambda: (np.float32(0.7), numbers(4)), batch=1)
def gaussian_process(scale, ys):
    kernel = 1.5 * tinygp.kernels.Matern32(scale)
    process = tinygp.GaussianProcess(kernel, jnp.asarray(XS), diag=0.1)
    return -process.log_probability(ys)


def regression(xs, ys=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    offset = numpyro.sample("offset", dist.Normal(0.0, 1.0))
    noise = numpyro.sample("noise", dist.LogNormal(0.0, 0.5))
    with numpyro.plate("data", len(xs)):
        numpyro.sample("y", dist.Normal(slope * xs + offset, noise), obs=ys)


@example(lambda: ({name: np.float32(0.3) for name in ("slope", "offset", "noise")}, numbers(4)), batch=1)
def numpyro_density(values, ys):
    return log_density(regression, (XS, ys), {}, values)[0]


@example(lambda: (KEY, numbers(4)), grad=None, batch=None)
def numpyro_hmc(key, ys):
    """Initialize a model and take one step of HMC, with random draws, in an unconstrained space."""
    first, second = jax.random.split(key)
    model = initialize_model(first, regression, model_args=(XS, ys), validate_grad=False)
    kernel = HMC(potential_fn=model.potential_fn, step_size=0.1, num_steps=2, adapt_step_size=False)
    state = kernel.init(second, 0, model.param_info, model_args=(), model_kwargs={})
    return kernel.sample(state, (), {}).z


@example(lambda: (numbers(2), KEY), grad=None, batch=1)
def blackjax_nuts(position, key):
    def log_density(x):
        return -0.5 * jnp.sum(x**2) - 0.1 * jnp.sum(x**4)

    kernel = blackjax.nuts(log_density, step_size=0.2, inverse_mass_matrix=jnp.ones(2), max_num_doublings=2)
    state, info = kernel.step(key, kernel.init(position))
    return state.position, info.acceptance_rate
