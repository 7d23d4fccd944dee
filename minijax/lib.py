"""``minijax.lib``: the version of jaxlib, which compiles and runs programs."""

import importlib.metadata

__all__ = ["__version__"]

__version__ = importlib.metadata.version("jaxlib")
