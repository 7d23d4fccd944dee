"""``minijax.experimental.layout``: the memory layout of arrays, as data (see ``core.layouts``)."""

from minijax.core.layouts import Format, Layout

__all__ = ["Format", "Layout"]
