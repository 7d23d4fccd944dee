"""Analyses that answer "why": cache misses, leaked tracers, the first NaN, reused keys, the rules of a primitive.

Each module has one analysis. Modules ``*_view`` and the commands show the results.
"""
