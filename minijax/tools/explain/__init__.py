"""Answers to "why": missed caches, leaked tracers, the first NaN, the rules of a primitive and whether they agree.

Each file finds something out; ``*_view`` and the commands show it.
"""
