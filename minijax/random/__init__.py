"""``minijax.random``: random keys, and samples of distributions made with them.

A key is used once: whoever needs several makes them with ``split`` or ``fold_in``. Every value is JAX's, bit for bit,
and every function stages what JAX's stages. The names that are not here are borrowed from JAX when they are used.
"""

from __future__ import annotations

from minijax.core.lacking import borrowing
from minijax.random.basic import bernoulli, normal, rademacher, randint, truncated_normal, uniform
from minijax.random.discrete import geometric, poisson
from minijax.random.gamma import (
    ball,
    beta,
    chisquare,
    dirichlet,
    f,
    gamma,
    generalized_normal,
    loggamma,
    t,
)
from minijax.random.keys import (
    PRNGKey,
    bits,
    clone,
    fold_in,
    key,
    key_data,
    key_dtype,
    key_impl,
    split,
    wrap_key_data,
)
from minijax.random.selection import categorical, choice, permutation
from minijax.random.transformed import (
    cauchy,
    double_sided_maxwell,
    exponential,
    gumbel,
    laplace,
    logistic,
    lognormal,
    maxwell,
    pareto,
    rayleigh,
    triangular,
    wald,
    weibull_min,
)
from minijax.random.vectors import multivariate_normal, orthogonal

__all__ = [
    "PRNGKey",
    "ball",
    "bernoulli",
    "beta",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "clone",
    "dirichlet",
    "double_sided_maxwell",
    "exponential",
    "f",
    "fold_in",
    "gamma",
    "generalized_normal",
    "geometric",
    "gumbel",
    "key",
    "key_data",
    "key_dtype",
    "key_impl",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multivariate_normal",
    "normal",
    "orthogonal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "rayleigh",
    "split",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "wald",
    "weibull_min",
    "wrap_key_data",
]

__getattr__, __dir__ = borrowing(globals())
