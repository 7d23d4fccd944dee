"""Finding a small example of a failure: fewer elements and plainer values, as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from minijax.core import dtypes

Values = list[np.ndarray]


def smaller(args: Sequence[np.ndarray]) -> Iterator[Values]:
    """Simpler variants of ``args``, most daring first.

    Dimensions of one size are cut together, since the primitive probably wants them equal; then those in one place.
    """
    sizes = sorted({d for x in args for d in x.shape if d > 1}, reverse=True)
    if sizes:
        yield [_cut(x, dict.fromkeys(sizes, 1)) for x in args]
    for size in sizes:
        for new in dict.fromkeys((1, 2, size - 1)):
            if new < size:
                yield [_cut(x, {size: new}) for x in args]
    for axis in range(max((x.ndim for x in args), default=0)):
        if any(x.ndim > axis and x.shape[axis] > 1 for x in args):
            yield [x[(slice(None),) * axis + (slice(1),)] if x.ndim > axis else x for x in args]
    for i, x in enumerate(args):
        for plain in _plainer(x):
            yield [*args[:i], plain, *args[i + 1 :]]


def _cut(x: np.ndarray, sizes: dict[int, int]) -> np.ndarray:
    return x[tuple(slice(sizes.get(d, d)) for d in x.shape)]


def _plainer(x: np.ndarray) -> Iterator[np.ndarray]:
    if x.dtype == dtypes.float0 or x.size == 0 or dtypes.is_bool(x.dtype):
        return
    candidates = [np.ones_like(x)]
    if dtypes.is_inexact(x.dtype):
        candidates += [
            (1 + np.arange(x.size).reshape(x.shape)).astype(x.dtype),
            np.asarray(np.round(x.astype(np.complex128 if dtypes.is_complex(x.dtype) else np.float64), 1), x.dtype),
        ]
    for y in candidates:
        if _weight(y) < _weight(x):
            yield y


def _weight(x: np.ndarray) -> int:
    """How much there is to read."""
    return sum(len(str(v)) for v in x.ravel()) + (len(set(x.ravel().tolist())) if x.size else 0)


def smallest(
    args: Sequence[np.ndarray], valid: Callable[[Values], bool], fails: Callable[[Values], bool], attempts: int
) -> Values:
    """The smallest variant of ``args`` that is ``valid`` and still ``fails``, found within ``attempts`` tries."""
    best = list(args)
    progress = True
    while progress:
        progress = False
        for candidate in smaller(best):
            if attempts <= 0:
                return best
            if not valid(candidate):
                continue
            attempts -= 1
            if fails(candidate):
                best, progress = candidate, True
                break
    return best
