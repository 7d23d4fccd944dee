"""``minijax.experimental.layout``: how arrays lie in memory, as data (see ``core.layouts``)."""

from minijax.core.layouts import Format, Layout

__all__ = ["Format", "Layout"]
