"""Nested containers of arrays as key trees: ``keys`` takes a value apart, ``numbers`` summarizes an array, and ``view``
makes the document. The cost is bounded for any value.
"""
