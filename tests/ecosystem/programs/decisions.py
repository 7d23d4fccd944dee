"""RLax, Mctx, OTT and e3nn: reinforcement learning, tree search, optimal transport, equivariant networks."""

from __future__ import annotations

import e3nn_jax as e3nn
import jax
import jax.numpy as jnp
import mctx
import numpy as np
import rlax
from ott.geometry import pointcloud
from ott.solvers import linear

from tests.ecosystem.example import example, numbers


@example(lambda: (numbers(5), numbers(4, name="rewards")), batch=1)
def rlax_returns(values, rewards):
    """The targets of V-trace, and the policy's advantages."""
    discounts, ratios = jnp.full(4, 0.9), jnp.array([0.5, 1.5, 1.0, 0.8])
    errors = rlax.vtrace_td_error_and_advantage(values[:-1], values[1:], rewards, discounts, ratios)
    return jnp.sum(errors.errors**2) + jnp.sum(rlax.td_lambda(values[:-1], rewards, discounts, values[1:], 0.8))


@example(lambda: (np.array([0, 13], np.uint32), numbers(1, 3)), grad=None, batch=None)
def mctx_policy(key, embedding):
    """MuZero's search, which builds its tree in a loop."""
    actions = jnp.array([[0.1, -0.2, 0.4], [0.3, 0.2, -0.1], [-0.4, 0.0, 0.2]])

    def step(params, key, action, embedding):
        embedding = jnp.tanh(embedding + actions[action])
        return (
            mctx.RecurrentFnOutput(
                reward=embedding[:, 0], discount=jnp.full(1, 0.9), prior_logits=embedding, value=embedding.sum(-1)
            ),
            embedding,
        )

    root = mctx.RootFnOutput(prior_logits=embedding, value=embedding.sum(-1), embedding=embedding)
    output = mctx.muzero_policy((), key, root, step, num_simulations=4, max_depth=3)
    return output.action, output.action_weights


@example(lambda: (numbers(4, 2), numbers(3, 2)), batch=1)
def ott_sinkhorn(xs, ys):
    solved = linear.solve(pointcloud.PointCloud(xs, ys, epsilon=0.5), max_iterations=20, inner_iterations=5)
    return solved.reg_ot_cost


@example(lambda: (numbers(3), numbers(4, name="features")), batch=0)
def e3nn_harmonics(vector, features):
    """A tensor product of features with the spherical harmonics of a direction."""
    harmonics = e3nn.spherical_harmonics("0e + 1o + 2e", e3nn.IrrepsArray("1o", vector), normalize=True)
    product = e3nn.tensor_product(e3nn.IrrepsArray("0e + 1o", features), harmonics)
    return jnp.sum(jax.nn.silu(product.filter("0e + 1o").array))
