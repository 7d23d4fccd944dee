"""Distrax: distributions and bijectors."""

from __future__ import annotations

import distrax
import jax.numpy as jnp
import numpy as np

from tests.ecosystem.example import example, numbers


@example(lambda: (numbers(3), numbers(4)), batch=1)
def mixture(means, xs):
    mixed = distrax.MixtureSameFamily(
        distrax.Categorical(logits=jnp.array([0.1, 0.5, -0.3])), distrax.Normal(means, jnp.ones(3))
    )
    return jnp.sum(mixed.log_prob(xs))


@example(lambda: (numbers(2), np.array([0, 7], np.uint32)), batch=1)
def flow(shift, key):
    """A sample of a transformed distribution, and its log density."""
    bijector = distrax.Chain([distrax.ScalarAffine(shift, log_scale=0.5 * shift), distrax.Tanh()])
    transformed = distrax.Transformed(distrax.Normal(jnp.zeros(2), jnp.ones(2)), bijector)
    sample, log_prob = transformed.sample_and_log_prob(seed=key)
    return jnp.sum(log_prob) + jnp.sum(sample)
