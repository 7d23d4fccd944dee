"""The values of staged programs, computed on demand: ``replay`` computes them, ``summary`` describes them."""
