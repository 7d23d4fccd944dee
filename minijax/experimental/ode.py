"""``minijax.experimental.ode``: ``odeint``, which integrates ordinary differential equations, borrowed from JAX."""

from minijax.core.borrowing import borrow

__all__ = ["odeint"]

odeint = borrow(__name__, "odeint")
