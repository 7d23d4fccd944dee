"""minijax against JAX: one table of functions, every transformation, values and jaxprs."""
