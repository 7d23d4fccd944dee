"""Answers to "why": cache misses, leaked tracers, the first NaN, the rules of a primitive and their consistency.

Each file has one analysis; ``*_view`` and the commands show its result.
"""
