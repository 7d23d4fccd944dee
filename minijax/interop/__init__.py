"""Between minijax and the real JAX: programs of one on the other."""
