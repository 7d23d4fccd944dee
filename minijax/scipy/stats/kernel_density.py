"""Densities estimated from samples, with a Gaussian kernel at each of them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from minijax import api, random
from minijax import numpy as jnp
from minijax.api.inner import inner_jit
from minijax.core import dtypes
from minijax.numpy.promotion import check_array_like, promote_dtypes
from minijax.numpy.ufuncs import INEXACT
from minijax.pytree import register_pytree_node_class
from minijax.scipy import linalg, special
from minijax.scipy.special import logsumexp

__all__ = ["gaussian_kde"]


@register_pytree_node_class
class gaussian_kde:
    """The density of which ``dataset``, (d, n) or (n,), holds n samples of d components; a pytree of arrays.

    Args:
      bw_method: how wide kernels are, as a part of the samples' deviation: 'scott' (the default), 'silverman', a
        number, or a function of this object that gives one.
      weights: of the samples, (n,); equal by default.

    Attributes: ``neff``, the number of samples that counts; ``dataset``, ``weights``; ``covariance`` of the kernels,
    and its inverse ``inv_cov``.

    ValueError for shapes that do not fit and unknown methods, NotImplementedError for complex samples.
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any
    __slots__ = ("covariance", "dataset", "inv_cov", "neff", "weights")

    def __init__(
        self, dataset: Any, bw_method: None | str | Any | Callable[[Any], Any] = None, weights: Any = None
    ) -> None:
        check_array_like("gaussian_kde", dataset)
        dataset = jnp.atleast_2d(dataset)
        if dtypes.is_complex(dataset.dtype):
            raise NotImplementedError("gaussian_kde does not support complex data. Pass real and imaginary parts.")
        if not dataset.size > 1:
            raise ValueError(f"gaussian_kde: the dataset must have several elements, not the shape {dataset.shape}.")
        d, n = dataset.shape
        if weights is None:
            (dataset,) = promote_dtypes(dataset, to=INEXACT)
            weights = jnp.full(n, 1.0 / n, dtype=dataset.dtype)
        else:
            check_array_like("gaussian_kde", weights)
            dataset, weights = promote_dtypes(dataset, jnp.atleast_1d(weights), to=INEXACT)
            if weights.ndim != 1 or len(weights) != n:
                raise ValueError(f"gaussian_kde: there are {n} samples, and weights of shape {weights.shape}.")
            weights = weights / jnp.sum(weights)
        self.dataset, self.weights = dataset, weights
        self.neff = 1 / jnp.sum(weights**2)
        factor = self._factor("scott" if bw_method is None else bw_method)
        covariance = jnp.atleast_2d(jnp.cov(dataset, rowvar=True, bias=False, aweights=weights))
        inverse = jnp.linalg.inv(covariance)
        self.covariance = covariance * factor**2
        self.inv_cov = inverse / factor**2

    def _factor(self, bw_method: Any) -> Any:
        """The width of kernels in terms of the samples' deviation (Scott 1992, Silverman 1986)."""
        exponent = -1.0 / (self.d + 4)
        if isinstance(bw_method, str):
            if bw_method == "scott":
                return jnp.power(self.neff, exponent)
            if bw_method == "silverman":
                return jnp.power(self.neff * (self.d + 2) / 4.0, exponent)
        elif jnp.isscalar(bw_method):
            return bw_method
        elif callable(bw_method):
            return bw_method(self)
        raise ValueError(f"gaussian_kde: bw_method is 'scott', 'silverman', a scalar, or callable, not {bw_method!r}.")

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """The arrays, of which a pytree is made."""
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: tuple[Any, ...]) -> gaussian_kde:
        """The density with these arrays."""
        made: gaussian_kde = object.__new__(cls)
        made.neff, made.dataset, made.weights, made.covariance, made.inv_cov = children
        return made

    @property
    def d(self) -> int:
        """The number of components of a sample."""
        return int(self.dataset.shape[0])

    @property
    def n(self) -> int:
        """The number of samples."""
        return int(self.dataset.shape[1])

    def evaluate(self, points: Any) -> Any:
        """The density at ``points``, (d, m) or (m,) if d is 1: an array (m,)."""
        return self._evaluated(False, points)

    __call__ = pdf = evaluate

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density at the points ``x``."""
        return self._evaluated(True, x)

    def _evaluated(self, in_log: bool, points: Any) -> Any:
        check_array_like("gaussian_kde", points)
        points = self._points(points)
        found = _gaussian_kernel_eval(in_log, self.dataset.T, self.weights[:, None], points.T, self.inv_cov)
        return found[:, 0]

    def _points(self, points: Any) -> Any:
        if jnp.iscomplexobj(points):
            raise NotImplementedError("gaussian_kde does not support complex points. Pass real and imaginary parts.")
        points = jnp.atleast_2d(points)
        d, m = points.shape
        if d == self.d:
            return points
        if d == 1 and m == self.d:
            return jnp.reshape(points, (self.d, 1))
        raise ValueError(f"points have {d} components, the samples {self.d}")

    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """The integral of the product with the normal density of ``mean``, (d,), and covariance ``cov``, (d, d)."""
        mean = jnp.atleast_1d(jnp.squeeze(mean))
        cov = jnp.atleast_2d(cov)
        if mean.shape != (self.d,):
            raise ValueError(f"mean does not have {self.d} components")
        if cov.shape != (self.d, self.d):
            raise ValueError(f"the covariance does not have the shape {(self.d, self.d)}")
        factor, norm = _kernel(self.covariance + cov)
        return _gaussian_kernel_convolve(factor, norm, self.dataset, self.weights, mean)

    @inner_jit
    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """The probability of values from ``low`` to ``high``, two numbers, if samples have one component."""
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        if jnp.ndim(low) != 0 or jnp.ndim(high) != 0:
            raise ValueError("the limits of integration in integrate_box_1d must be scalars")
        deviation = jnp.squeeze(jnp.sqrt(self.covariance))
        low = jnp.squeeze((low - self.dataset) / deviation)
        high = jnp.squeeze((high - self.dataset) / deviation)
        return jnp.sum(self.weights * (special.ndtr(high) - special.ndtr(low)))

    def integrate_kde(self, other: gaussian_kde) -> Any:
        """The integral of the product with another estimated density."""
        if other.d != self.d:
            raise ValueError("KDEs are not the same dimensionality")
        factor, norm = _kernel(self.covariance + other.covariance)
        small, large = (self, other) if self.n < other.n else (other, self)
        convolve = functools.partial(_gaussian_kernel_convolve, factor, norm, large.dataset, large.weights)
        return jnp.sum(api.vmap(convolve, in_axes=1)(small.dataset) * small.weights)

    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """Samples from the density: an array (d, *shape)."""
        of_kernel, of_noise = random.split(key)
        chosen = random.choice(of_kernel, self.n, shape=shape, p=self.weights)
        mean = jnp.zeros(self.d, self.covariance.dtype)
        noise = random.multivariate_normal(of_noise, mean, self.covariance, shape=shape, dtype=self.dataset.dtype)
        return self.dataset[:, chosen] + noise.T

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Any:
        """NotImplementedError: see ``integrate_box_1d``."""
        raise NotImplementedError("only boxes of one dimension are implemented: use integrate_box_1d")

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """NotImplementedError: a density is made with ``bw_method`` and never changed."""
        raise NotImplementedError("dynamically changing the bandwidth is not supported: make another gaussian_kde")


def _kernel(covariance: Any) -> tuple[Any, Any]:
    """What ``_gaussian_kernel_convolve`` needs of a kernel: factors of its covariance, and its norm."""
    factor = linalg.cho_factor(covariance)
    norm = jnp.sqrt(2 * math.pi) ** covariance.shape[0] * jnp.prod(jnp.diag(factor[0]))
    return factor, 1.0 / norm


def _gaussian_kernel_convolve(factor: Any, norm: Any, samples: Any, weights: Any, mean: Any) -> Any:
    """The sum of kernels of ``samples`` at ``mean``."""
    difference = samples - mean[:, None]
    solved = linalg.cho_solve(factor, difference)
    exponent = 0.5 * jnp.sum(difference * solved, axis=0)
    return norm * jnp.sum(jnp.exp(-exponent) * weights)


@inner_jit(static_argnames=("in_log",))
def _gaussian_kernel_eval(in_log: bool, points: Any, values: Any, xi: Any, precision: Any) -> Any:
    """The sums of ``values``, (n, k), with kernels of ``points``, (n, d), at ``xi``, (m, d): (m, k), or logarithms.

    ``precision`` is the inverse of the kernels' covariance, (d, d).
    """
    points, values, xi, precision = promote_dtypes(points, values, xi, precision, to=INEXACT)
    whitening = linalg.cholesky(precision, lower=True)
    points = jnp.dot(points, whitening)
    xi = jnp.dot(xi, whitening)
    log_norm = jnp.sum(jnp.log(jnp.diag(whitening))) - 0.5 * points.shape[1] * jnp.log(2 * math.pi)

    def kernel(at: Any, sample: Any, value: Any) -> Any:
        exponent = log_norm - 0.5 * jnp.sum(jnp.square(sample - at))
        return jnp.log(value) + exponent if in_log else value * jnp.exp(exponent)

    total = logsumexp if in_log else jnp.sum

    def summed(at: Any) -> Any:
        return total(api.vmap(kernel, in_axes=(None, 0, 0))(at, points, values), axis=0)

    return api.vmap(summed)(xi)
