"""Compare minijax with JAX: the values and jaxprs of one table of functions, under every transformation."""
