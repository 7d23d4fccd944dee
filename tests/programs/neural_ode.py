"""A neural ordinary differential equation learns a spiral; its gradient solves another equation.

A small network gives the velocity at each point. The derivative of the solution does not need the points on the way:
the adjoint, which is the gradient of the loss with respect to the position, satisfies an equation of its own. It is
solved backwards in time, together with the position and the gradient of the parameters (Chen and others, 2018).
``custom_vjp`` uses this in place of the derivative of the integration steps.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax

HIDDEN, STEPS, RATE = 16, 10, 0.1


def velocity(params, place):
    return jnp.tanh(place @ params["in"] + params["biases"]) @ params["out"]


def integrate(field, state, duration):
    """The Runge-Kutta method of order four with steps of equal size; ``state`` is a tree."""
    size = duration / STEPS

    def along(state, slope, length):
        return jax.tree.map(lambda x, dx: x + length * dx, state, slope)

    def advance(state, _):
        first = field(state)
        second = field(along(state, first, size / 2))
        third = field(along(state, second, size / 2))
        fourth = field(along(state, third, size))
        mean = jax.tree.map(lambda a, b, c, d: (a + d) / 6 + (b + c) / 3, first, second, third, fourth)
        return along(state, mean, size), None

    return lax.scan(advance, state, length=STEPS)[0]


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def flow(params, place, duration):
    """The position after ``duration`` of a point that starts at ``place`` and moves with the velocities."""
    return integrate(lambda place: velocity(params, place), place, duration)


def flow_forward(params, place, duration):
    end = flow(params, place, duration)
    return end, (params, end)


def flow_backward(duration, residuals, adjoint):
    """Integrate from the end to the start: position, adjoint, and the gradient of the parameters."""
    params, end = residuals

    def field(state):
        place, adjoint, _ = state
        moved, pullback = jax.vjp(velocity, params, place)
        of_params, of_place = pullback(-adjoint)
        return moved, of_place, of_params

    nothing = jax.tree.map(jnp.zeros_like, params)
    _, of_place, of_params = integrate(field, (end, adjoint, nothing), -duration)
    return of_params, of_place


flow.defvjp(flow_forward, flow_backward)


def data(count=16):
    """Points on a spiral, and their positions half a unit of time later."""
    angle = jnp.linspace(0.0, 4.0, count)
    spiral = jnp.exp(-0.2 * angle)[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    turn = jnp.exp(-0.1) * jnp.array([[jnp.cos(0.5), jnp.sin(0.5)], [-jnp.sin(0.5), jnp.cos(0.5)]])
    return spiral, spiral @ turn


def start():
    first, second = jax.random.split(jax.random.key(6))
    return {
        "in": jax.random.normal(first, (2, HIDDEN)),
        "biases": jnp.zeros(HIDDEN),
        "out": jax.random.normal(second, (HIDDEN, 2)) * HIDDEN**-0.5,
    }


def loss(params, places, later):
    ends = jax.vmap(lambda place: flow(params, place, 0.5))(places)
    return jnp.mean(jnp.sum((ends - later) ** 2, axis=1))


def step(params, places, later):
    value, slope = jax.value_and_grad(loss)(params, places, later)
    return jax.tree.map(lambda leaf, change: leaf - RATE * change, params, slope), value


def example():
    """The arguments of ``loss`` at the first step."""
    return start(), *data()


if __name__ == "__main__":
    params, batch, jitted = start(), data(), jax.jit(step)
    for number in range(501):
        params, value = jitted(params, *batch)
        if number % 50 == 0:
            print(f"step {number:3}  mean squared distance {value:.6f}")
