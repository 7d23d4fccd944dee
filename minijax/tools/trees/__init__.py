"""Shows nested containers as trees: ``keys`` splits a value into branches, ``numbers`` summarizes an array, and
``view`` makes the document. The work has a limit, however large the value.
"""
