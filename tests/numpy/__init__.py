"""Tests that compare ``minijax.numpy`` and ``minijax.nn`` with JAX."""
