"""JAX's ``example_libraries`` on minijax: ``stax`` and ``optimizers`` are the installed JAX's own files. They use only
JAX's public names, so they run on minijax. See ``interop.replaced``."""

import os

from minijax.interop import jax_modules, replaced

__path__ = [replaced.place_of(os.path.dirname(jax_modules.file_of("jax.example_libraries")))]
