"""``minijax.experimental.ode``: ``odeint`` for ordinary differential equations, borrowed from JAX."""

from minijax.core.borrowing import borrow

__all__ = ["odeint"]

odeint = borrow(__name__, "odeint")
