"""``minijax.experimental.jet``: derivatives of high order by Taylor polynomials."""

from minijax.experimental.jet import rules as rules  # fills the table of rules
from minijax.experimental.jet.taylor import jet

__all__ = ["jet"]
