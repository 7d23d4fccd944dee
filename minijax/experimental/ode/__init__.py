"""``minijax.experimental.ode``: ``odeint``, which integrates ordinary differential equations."""

from minijax.experimental.ode.dormand_prince import odeint

__all__ = ["odeint"]
