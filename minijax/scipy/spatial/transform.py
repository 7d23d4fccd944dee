"""``minijax.scipy.spatial.transform``: rotations in three dimensions, and what is between them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from minijax import numpy as jnp
from minijax.core.lacking import borrowing

__all__ = ["Rotation", "Slerp"]

__getattr__, __dir__ = borrowing(globals())

# below this angle, series take the place of quotients of small numbers
_SMALL = 1e-3
# how near to 0 or pi a second Euler angle leaves the others undetermined
_UNDETERMINED = 1e-7


class Rotation(NamedTuple):
    """One rotation, or several: unit quaternions (x, y, z, w), an array (4,) or (n, 4). A tuple, and so a pytree.

    Made by ``from_quat``, ``from_matrix``, ``from_rotvec``, ``from_mrp``, ``from_euler``, ``identity``, ``random``.
    """

    quat: Any

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """The rotations of several objects, one after another."""
        return cls(jnp.concatenate([rotation.quat for rotation in rotations]))

    @classmethod
    def from_quat(cls, quat: Any) -> Rotation:
        """From quaternions (..., 4), which need not be of length 1."""
        return cls(_unit(jnp.asarray(quat)))

    @classmethod
    def from_matrix(cls, matrix: Any) -> Rotation:
        """From orthogonal matrices (..., 3, 3)."""
        return cls(_from_matrix(jnp.asarray(matrix)))

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """From vectors (..., 3) along the axes, as long as the angles."""
        return cls(_from_rotvec(jnp.asarray(rotvec), degrees))

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """From modified Rodrigues parameters (..., 3): the axes times the tangent of a quarter of the angles."""
        return cls(_from_mrp(jnp.asarray(mrp)))

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """From rotations about up to three axes, one after the other: angles (..., number of axes), or one for one.

        ``seq`` names the axes, 'xyz' if they stand still, 'XYZ' if they turn too. ValueError for other letters.
        """
        axes, intrinsic = _axes(seq)
        angles = jnp.atleast_1d(angles)
        return cls(_from_euler(angles, jnp.array(axes), intrinsic, degrees))

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """The rotation by nothing. NotImplementedError for several of them: ``num``."""
        if num is not None:
            raise NotImplementedError("Rotation.identity gives one rotation: num is not implemented.")
        return cls(jnp.array([0.0, 0.0, 0.0, 1.0], dtype=dtype))

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """A rotation drawn uniformly from all. NotImplementedError for several of them, as in JAX."""
        raise NotImplementedError(
            "Rotation.random is not implemented. Write Rotation.from_quat(random.normal(key, (num, 4)))."
        )

    def __getitem__(self, indexer: Any) -> Any:
        """Some of the rotations. TypeError if there is one."""
        if self.single:
            raise TypeError("Single rotation is not subscriptable: there is one quaternion.")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        """How many rotations. TypeError if it is no array of them."""
        if self.single:
            raise TypeError("Single rotation has no len(): there is one quaternion.")
        return int(self.quat.shape[0])

    def __mul__(self, other: Any) -> Rotation:  # type: ignore[override]
        """First ``other``, then this one."""
        if not isinstance(other, Rotation):
            return NotImplemented
        return Rotation.from_quat(_product(self.quat, other.quat))

    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        """Vectors (..., 3), rotated; or rotated back."""
        return _applied(self.as_matrix(), jnp.asarray(vectors), inverse)

    def as_euler(self, seq: str, degrees: bool = False) -> Any:
        """The angles about three axes, (..., 3): see ``from_euler``. ValueError if an axis follows itself."""
        if len(seq) != 3:
            raise ValueError(f"Expected 3 axes, got {seq!r}.")
        axes, intrinsic = _axes(seq)
        if any(first == second for first, second in zip(axes, axes[1:], strict=False)):
            raise ValueError(f"Expected consecutive axes to be different, got {seq!r}")
        return _as_euler(self.quat, jnp.array(axes), not intrinsic, degrees)

    def as_matrix(self) -> Any:
        """The matrices (..., 3, 3)."""
        return _as_matrix(self.quat)

    def as_mrp(self) -> Any:
        """The modified Rodrigues parameters (..., 3): see ``from_mrp``."""
        return _as_mrp(self.quat)

    def as_rotvec(self, degrees: bool = False) -> Any:
        """The vectors (..., 3) along the axes, as long as the angles, which are at most pi."""
        return _as_rotvec(self.quat, degrees)

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Any:
        """The quaternions (..., 4).

        With ``canonical``, of the two for a rotation that with w > 0, or whose first element but 0 is; with
        ``scalar_first``, as (w, x, y, z).
        """
        quat = _canonical(self.quat) if canonical else self.quat
        return jnp.roll(quat, shift=1, axis=-1) if scalar_first else quat

    def inv(self) -> Rotation:
        """The rotations back."""
        return Rotation(_inverse(self.quat))

    def magnitude(self) -> Any:
        """The angles, from 0 to pi."""
        return _magnitude(self.quat)

    def mean(self, weights: Any = None) -> Rotation:
        """The rotation nearest to all, with weights (n,): the last eigenvector (Markley et al. 2007)."""
        weights = jnp.ones(self.quat.shape[0], self.quat.dtype) if weights is None else jnp.asarray(weights)
        matrix = jnp.dot(weights[None, :] * self.quat.T, self.quat)
        _, vectors = jnp.linalg.eigh(matrix)
        return Rotation(vectors[:, -1])

    @property
    def single(self) -> bool:
        """Whether it is one rotation, no array of them."""
        return bool(self.quat.ndim == 1)


class Slerp(NamedTuple):
    """Rotations at given times, and between them at constant angular velocity. A tuple, and so a pytree.

    Made by ``init``, and called with times.
    """

    times: Any
    timedelta: Any
    rotations: Rotation
    rotvecs: Any

    @classmethod
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """From times (n,), ascending, and n rotations, two or more. TypeError and ValueError for others."""
        if not isinstance(rotations, Rotation):
            raise TypeError(f"`rotations` must be a `Rotation`, not {type(rotations)}.")
        if rotations.single or len(rotations) == 1:
            raise ValueError("`rotations` must be a sequence of at least 2 rotations.")
        times = jnp.asarray(times, dtype=rotations.quat.dtype)
        if times.ndim != 1:
            raise ValueError(f"Expected times to be specified in a 1 dimensional array, got {times.ndim} dimensions.")
        if times.shape[0] != len(rotations):
            raise ValueError(
                f"Expected number of rotations to be equal to number of times given, got {len(rotations)} rotations "
                f"and {times.shape[0]} times."
            )
        steps = jnp.diff(times)
        first: Any = rotations[:-1]
        between = first.inv() * rotations[1:]
        return cls(times=times, timedelta=steps, rotations=first, rotvecs=between.as_rotvec())

    def __call__(self, times: Any) -> Rotation:
        """The rotation at a time, or those at an array (m,) of them. ValueError for more dimensions."""
        at = jnp.asarray(times, dtype=self.times.dtype)
        if at.ndim > 1:
            raise ValueError(f"`times` must be at most 1-dimensional, not of shape {at.shape}.")
        is_one = at.ndim == 0
        at = jnp.atleast_1d(at)
        index = jnp.maximum(jnp.searchsorted(self.times, at) - 1, 0)
        part = (at - self.times[index]) / self.timedelta[index]
        found = self.rotations[index] * Rotation.from_rotvec(self.rotvecs[index] * part[:, None])
        return found[0] if is_one else found


# -------------------------------------------------------------------------------- one rotation at a time


def _each(signature: str) -> Callable[[Any], Any]:
    return functools.partial(jnp.vectorize, signature=signature)


def _length(x: Any) -> Any:
    return jnp.sqrt(jnp.dot(x, x))


def _axes(seq: str) -> tuple[list[int], bool]:
    """The numbers of the axes that are named, and whether they turn too. ValueError for other letters."""
    if not 0 < len(seq) <= 3:
        raise ValueError(f"Expected axis specification to be a non-empty string of upto 3 characters, got {seq!r}")
    for letters, intrinsic in (("xyz", False), ("XYZ", True)):
        if all(letter in letters for letter in seq):
            return [letters.index(letter) for letter in seq], intrinsic
    raise ValueError(f"Expected axes from `seq` to be from ['x', 'y', 'z'] or ['X', 'Y', 'Z'], got {seq!r}")


@_each("(n)->(n)")
def _unit(quat: Any) -> Any:
    return quat / _length(quat)


@_each("(m,m)->(n)")
def _from_matrix(matrix: Any) -> Any:
    """Shepperd's method: from what is largest of the diagonal and its sum."""
    trace = matrix[0, 0] + matrix[1, 1] + matrix[2, 2]
    largest = jnp.array([matrix[0, 0], matrix[1, 1], matrix[2, 2], trace])
    i = jnp.argmax(largest)
    j = (i + 1) % 3
    k = (j + 1) % 3
    of_axis = jnp.zeros(4, matrix.dtype)
    of_axis = of_axis.at[i].set(1 - largest[3] + 2 * matrix[i, i])
    of_axis = of_axis.at[j].set(matrix[j, i] + matrix[i, j])
    of_axis = of_axis.at[k].set(matrix[k, i] + matrix[i, k])
    of_axis = of_axis.at[3].set(matrix[k, j] - matrix[j, k])
    of_trace = jnp.zeros(4, matrix.dtype)
    of_trace = of_trace.at[0].set(matrix[2, 1] - matrix[1, 2])
    of_trace = of_trace.at[1].set(matrix[0, 2] - matrix[2, 0])
    of_trace = of_trace.at[2].set(matrix[1, 0] - matrix[0, 1])
    of_trace = of_trace.at[3].set(1 + largest[3])
    quat = jnp.where(i != 3, of_axis, of_trace)
    return quat / _length(quat)


@_each("(m),()->(n)")
def _from_rotvec(rotvec: Any, degrees: Any) -> Any:
    rotvec = jnp.where(degrees, jnp.deg2rad(rotvec), rotvec)
    angle = _length(rotvec)
    square = angle * angle
    series = 0.5 - square / 48 + square * square / 3840
    quotient = jnp.sin(angle / 2) / angle
    scale = jnp.where(angle <= _SMALL, series, quotient)
    return jnp.hstack([scale * rotvec, jnp.cos(angle / 2)])


@_each("(m)->(n)")
def _from_mrp(mrp: Any) -> Any:
    square = jnp.dot(mrp, mrp) + 1
    return jnp.hstack([2 * mrp, 2 - square]) / square


def _about_axis(axis: Any, angle: Any) -> Any:
    quat = jnp.zeros(4, angle.dtype).at[3].set(jnp.cos(angle / 2.0))
    return quat.at[axis].set(jnp.sin(angle / 2.0))


@_each("(m),(m),(),()->(n)")
def _from_euler(angles: Any, axes: Any, intrinsic: Any, degrees: Any) -> Any:
    angles = jnp.where(degrees, jnp.deg2rad(angles), angles)
    result = _about_axis(axes[0], angles[0])
    for i in range(1, axes.shape[0]):
        turned = _about_axis(axes[i], angles[i])
        result = jnp.where(intrinsic, _product_of_two(result, turned), _product_of_two(turned, result))
    return result


def _product_of_two(p: Any, q: Any) -> Any:
    cross = jnp.cross(p[:3], q[:3])
    return jnp.array(
        [
            p[3] * q[0] + q[3] * p[0] + cross[0],
            p[3] * q[1] + q[3] * p[1] + cross[1],
            p[3] * q[2] + q[3] * p[2] + cross[2],
            p[3] * q[3] - p[0] * q[0] - p[1] * q[1] - p[2] * q[2],
        ]
    )


_product = _each("(n),(n)->(n)")(_product_of_two)


@_each("(m,m),(m),()->(m)")
def _applied(matrix: Any, vector: Any, inverse: Any) -> Any:
    return jnp.where(inverse, matrix.T, matrix) @ vector


@_each("(n)->(m,m)")
def _as_matrix(quat: Any) -> Any:
    x, y, z, w = quat[0], quat[1], quat[2], quat[3]
    xx, yy, zz, ww = x * x, y * y, z * z, w * w
    xy, zw, xz, yw, yz, xw = x * y, z * w, x * z, y * w, y * z, x * w
    return jnp.array(
        [
            [xx - yy - zz + ww, 2 * (xy - zw), 2 * (xz + yw)],
            [2 * (xy + zw), -xx + yy - zz + ww, 2 * (yz - xw)],
            [2 * (xz - yw), 2 * (yz + xw), -xx - yy + zz + ww],
        ]
    )


@_each("(n)->(m)")
def _as_mrp(quat: Any) -> Any:
    sign = jnp.where(quat[3] < 0, -1.0, 1.0)
    denominator = 1.0 + sign * quat[3]
    return sign * quat[:3] / denominator


@_each("(n),()->(m)")
def _as_rotvec(quat: Any, degrees: Any) -> Any:
    quat = jnp.where(quat[3] < 0, -quat, quat)
    angle = 2.0 * jnp.arctan2(_length(quat[:3]), quat[3])
    square = angle * angle
    series = 2 + square / 12 + 7 * square * square / 2880
    quotient = angle / jnp.sin(angle / 2)
    scale = jnp.where(angle <= _SMALL, series, quotient)
    scale = jnp.where(degrees, jnp.rad2deg(scale), scale)
    return scale * jnp.array(quat[:3])


@_each("(n)->(n)")
def _inverse(quat: Any) -> Any:
    return quat * jnp.array([-1.0, -1.0, -1.0, 1.0], dtype=quat.dtype)


@_each("(n)->()")
def _magnitude(quat: Any) -> Any:
    return 2.0 * jnp.arctan2(_length(quat[:3]), jnp.abs(quat[3]))


@_each("(n)->(n)")
def _canonical(quat: Any) -> Any:
    negative, zero = quat < 0, quat == 0
    turned = (
        negative[3]
        | (zero[3] & negative[0])
        | (zero[3] & zero[0] & negative[1])
        | (zero[3] & zero[0] & zero[1] & negative[2])
    )
    return jnp.where(turned, -quat, quat)


@_each("(n),(m),(),()->(m)")
def _as_euler(quat: Any, axes: Any, extrinsic: Any, degrees: Any) -> Any:
    """The formula of Bernardes and Viollet 2022, "Quaternion to Euler angles conversion"."""
    first, last = jnp.where(extrinsic, 0, 2), jnp.where(extrinsic, 2, 0)
    axes = jnp.where(extrinsic, axes, axes[::-1])
    i, j, k = axes[0], axes[1], axes[2]
    is_proper = i == k
    k = jnp.where(is_proper, 3 - i - j, k)
    parity = jnp.array((i - j) * (j - k) * (k - i) // 2, dtype=quat.dtype)
    a = jnp.where(is_proper, quat[3], quat[3] - quat[j])
    b = jnp.where(is_proper, quat[i], quat[i] + quat[k] * parity)
    c = jnp.where(is_proper, quat[j], quat[j] + quat[3])
    d = jnp.where(is_proper, quat[k] * parity, quat[k] * parity - quat[i])
    angles = jnp.zeros(3, quat.dtype)
    angles = angles.at[1].set(2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b)))
    case = jnp.where(jnp.abs(angles[1] - math.pi) <= _UNDETERMINED, 2, 0)
    case = jnp.where(jnp.abs(angles[1]) <= _UNDETERMINED, 1, case)
    half_sum, half_difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
    # where only the sum or the difference of two angles is determined, one of them is 0
    alone = jnp.where(case == 1, 2 * half_sum, 2 * half_difference * jnp.where(extrinsic, -1, 1))
    angles = angles.at[0].set(alone)
    angles = angles.at[first].set(jnp.where(case == 0, half_sum - half_difference, angles[first]))
    angles = angles.at[last].set(jnp.where(case == 0, half_sum + half_difference, angles[last]))
    angles = angles.at[last].set(jnp.where(is_proper, angles[last], angles[last] * parity))
    angles = angles.at[1].set(jnp.where(is_proper, angles[1], angles[1] - math.pi / 2))
    angles = (angles + math.pi) % (2 * math.pi) - math.pi
    return jnp.where(degrees, jnp.rad2deg(angles), angles)
