"""Nested containers of arrays as key trees: ``keys`` splits a value, ``numbers`` summarizes an array, and ``view``
makes the document. The cost is bounded for any value.
"""
