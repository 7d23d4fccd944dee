"""Matrix decompositions and triangular systems, one primitive (or a close pair) a file, as LAPACK computes them.

Matrices are the last two dimensions; those before are a batch, in which nothing depends on anything.
"""
