"""Nested containers of arrays as key trees: ``keys`` takes a value apart, ``numbers`` says what is in an array, and
``view`` makes the document. What is shown costs a bounded time, whatever the value.
"""
