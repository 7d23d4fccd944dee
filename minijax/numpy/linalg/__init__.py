"""``minijax.numpy.linalg``: products, norms, decompositions, equations and determinants."""

from minijax.core.lacking import borrowing as _borrowing
from minijax.numpy.linalg.decompositions import (
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    matrix_rank,
    pinv,
    qr,
    svd,
    svdvals,
)
from minijax.numpy.linalg.equations import cond, det, inv, lstsq, matrix_power, slogdet, solve, tensorinv, tensorsolve
from minijax.numpy.linalg.norms import matrix_norm, norm, vector_norm
from minijax.numpy.linalg.products import (
    cross,
    diagonal,
    matmul,
    matrix_transpose,
    multi_dot,
    outer,
    tensordot,
    trace,
    vecdot,
)

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]

__getattr__, __dir__ = _borrowing(globals())
