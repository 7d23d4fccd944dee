"""``minijax.numpy`` and ``minijax.nn`` against JAX's."""
