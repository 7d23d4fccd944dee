"""JAX's ``example_libraries`` on minijax: ``stax`` and ``optimizers`` are JAX's own files, as installed, which are
written on its public names. See ``interop.replaced``."""

import os

from minijax.interop import jax_modules, replaced

__path__ = [replaced.place_of(os.path.dirname(jax_modules.file_of("jax.example_libraries")))]
