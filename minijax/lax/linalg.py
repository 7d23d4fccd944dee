"""``minijax.lax.linalg``: decompositions of matrices, as XLA and LAPACK have them.

What JAX has besides (``qdwh``, ``tridiagonal_solve``, ...) is borrowed when it is used.
"""

from __future__ import annotations

from minijax.core.lacking import borrowing
from minijax.ops.linalg.cholesky import cholesky, cholesky_p
from minijax.ops.linalg.eig import EigImplementation, eig, eig_p
from minijax.ops.linalg.eigh import EighImplementation, eigh, eigh_p
from minijax.ops.linalg.lu import lu, lu_p, lu_pivots_to_permutation, lu_pivots_to_permutation_p
from minijax.ops.linalg.qr import geqrf_p, householder_product, householder_product_p, qr, qr_p
from minijax.ops.linalg.similar import hessenberg, hessenberg_p, schur, schur_p, tridiagonal, tridiagonal_p
from minijax.ops.linalg.svd import SvdAlgorithm, svd, svd_p
from minijax.ops.linalg.triangular_solve import triangular_solve, triangular_solve_p

__all__ = [
    "EigImplementation",
    "EighImplementation",
    "SvdAlgorithm",
    "cholesky",
    "cholesky_p",
    "eig",
    "eig_p",
    "eigh",
    "eigh_p",
    "geqrf_p",
    "hessenberg",
    "hessenberg_p",
    "householder_product",
    "householder_product_p",
    "lu",
    "lu_p",
    "lu_pivots_to_permutation",
    "lu_pivots_to_permutation_p",
    "qr",
    "qr_p",
    "schur",
    "schur_p",
    "svd",
    "svd_p",
    "triangular_solve",
    "triangular_solve_p",
    "tridiagonal",
    "tridiagonal_p",
]

__getattr__, __dir__ = borrowing(globals())
