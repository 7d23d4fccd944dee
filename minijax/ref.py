"""``minijax.ref``: mutable array references."""

from minijax.api.refs import AbstractRef, Ref, addupdate, free_ref, freeze, get, new_ref, set, swap  # noqa: A004  (JAX's name)

__all__ = ["AbstractRef", "Ref", "addupdate", "free_ref", "freeze", "get", "new_ref", "set", "swap"]
