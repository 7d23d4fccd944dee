"""``ufunc``: an elementwise function of scalars with NumPy's methods to reduce and accumulate by it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from minijax import lax
from minijax.api.batching import vmap
from minijax.api.inner import inner_jit
from minijax.core import dtypes
from minijax.numpy.creation import full
from minijax.numpy.functional import vectorize
from minijax.numpy.index_update import IndexUpdate, take
from minijax.numpy.manipulation import append, moveaxis, ravel, reshape
from minijax.numpy.promotion import broadcast_shapes, broadcast_to, canonical_axis, choose, convert, ensure, user_dtype

__all__ = ["frompyfunc", "ufunc"]


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """The elementwise function that computes ``func``, of ``nin`` scalars to ``nout``, as a ``ufunc``.

    ``identity`` is its neutral element, by which it can be reduced from nothing.
    """
    return ufunc(func, nin, nout, identity=identity)


class ufunc:
    """An elementwise function, with NumPy's methods; see ``frompyfunc``.

    ``call`` computes it on arrays; without it ``func`` is given scalars. ``reduce(a, axis, dtype, keepdims, initial,
    where)``, ``accumulate(a, axis, dtype)`` and ``at(a, indices, b)`` take the place of loops over ``call``.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        nin: int,
        nout: int,
        *,
        identity: Any = None,
        call: Callable[..., Any] | None = None,
        reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None,
        at: Callable[..., Any] | None = None,
    ) -> None:
        self._func = func
        self._nin, self._nout, self._identity = operator.index(nin), operator.index(nout), identity
        self.__name__ = getattr(func, "__name__", type(func).__name__)
        mapped = vectorize(func)

        def _call_vectorized(*args: Any) -> Any:
            return mapped(*args)

        def staged(method: Callable[..., Any], name: str, *static: str) -> Any:
            return inner_jit(lambda *args, **options: method(*args, **options), static_argnames=static, name=name)

        self._call = call or inner_jit(_call_vectorized)
        self._own_reduction = reduce is not None
        self._reduce = staged(reduce or self._reduced, "reduce", "axis", "dtype", "keepdims")
        self._accumulate = staged(accumulate or self._accumulated, "accumulate", "axis", "dtype")
        self._reduceat = staged(self._reduced_at, "reduceat", "axis", "dtype")
        self._at = staged(at or self._changed_at, "at")
        self._outer = staged(self._of_pairs, "outer")

    nin = property(lambda self: self._nin, doc="How many operands it takes.")
    nout = property(lambda self: self._nout, doc="How many results it has.")
    nargs = property(lambda self: self._nin, doc="How many operands it takes.")
    identity = property(lambda self: self._identity, doc="Its neutral element.")

    def __repr__(self) -> str:
        return f"<jnp.ufunc {self.__name__!r}>"

    def __hash__(self) -> int:
        return hash((self._func, self._nin, self._nout, self._identity))

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, ufunc) and (self._func, self._nin, self._nout, self._identity) == (
            other._func,
            other._nin,
            other._nout,
            other._identity,
        )

    def __call__(self, *args: Any, out: Any = None, where: Any = None) -> Any:
        """The function at each element. TypeError for another number of operands."""
        if out is not None:
            raise NotImplementedError(f"out argument of {self}")
        if where is not None:
            raise NotImplementedError(f"where argument of {self}")
        if len(args) != self._nin:
            raise TypeError(f"{self}: expected {self._nin} arguments, got {len(args)}")
        return self._call(*args)

    def _binary(self, method: str) -> None:
        if self._nin != 2 or self._nout != 1:
            raise ValueError(f"{method} only supported for binary ufuncs with a single output")

    # ---------------------------------------------------------------------------------------------- reductions

    def reduce(
        self,
        a: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        """The elements along ``axis`` joined by the function, from the first on, or from ``initial``.

        ``where`` says which of them; it needs an ``initial`` or an identity.
        """
        self._binary("reduce")
        if out is not None:
            raise NotImplementedError("out argument of ufunc.reduce() is not supported.")
        if initial is not None:
            ensure("reduce", initial)
        if where is not None and self._identity is None and initial is None:
            raise ValueError(
                f"reduction operation {self.__name__!r} does not have an identity, so to use a where mask one has to "
                "specify 'initial'."
            )
        if isinstance(axis, (tuple, list)) and not self._own_reduction:
            raise NotImplementedError("ufunc.reduce along several axes: reduce along one after the other.")
        return self._reduce(a, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where)

    def _reduced(self, a: Any, axis: int | None, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Any:
        a = ensure("reduce", a)
        shape = a.aval.shape
        where = None if where is None else broadcast_to(ensure("reduce", where), shape)
        if axis is None:
            axes: tuple[int, ...] = tuple(range(len(shape)))
            a, where = ravel(a), None if where is None else ravel(where)
        else:
            axes = (canonical_axis(axis, len(shape)),)
            a = moveaxis(a, axes[0], 0)
            where = None if where is None else moveaxis(where, axes[0], 0)
        found = self._joined(a, dtype, initial, where)
        return reshape(found, tuple(1 if d in axes else n for d, n in enumerate(shape))) if keepdims else found

    def _joined(self, a: Any, dtype: Any, initial: Any, where: Any) -> Any:
        """The slices of ``a`` along its first axis, joined one after the other."""
        a = a if dtype is None else convert(a, user_dtype(dtype, "reduce"))
        size, rest = a.aval.shape[0], a.aval.shape[1:]
        first = 0
        if initial is not None or self._identity is not None:
            start = full(rest, self._identity if initial is None else initial, a.aval.dtype)
        elif not size:
            raise ValueError(f"zero-size array to reduction operation {self.__name__} which has no identity")
        else:
            start, first = a[0], 1

        def join(i: Any, so_far: Any) -> Any:
            joined = convert(self._call(so_far, a[i]), so_far.aval.dtype)
            return joined if where is None else choose(where[i], joined, so_far)

        return lax.fori_loop(first, size, join, start)

    def accumulate(self, a: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """The elements along ``axis`` joined by the function, at each place those up to there."""
        self._binary("accumulate")
        if out is not None:
            raise NotImplementedError("out argument of ufunc.accumulate() is not supported.")
        return self._accumulate(a, axis=axis, dtype=dtype)

    def _accumulated(self, a: Any, axis: int, dtype: Any) -> Any:
        a = ensure("accumulate", a)
        if axis is None:
            if a.aval.ndim > 1:
                raise ValueError("accumulate does not allow multiple axes")
            axis = 0
        a = a if dtype is None else convert(a, user_dtype(dtype, "accumulate"))
        slices = moveaxis(a, axis, 0)
        if not slices.aval.shape[0]:
            return a

        def step(carry: tuple[Any, Any], _: None) -> Any:
            i, so_far = carry
            joined = choose(i == 0, slices[0], convert(self._call(so_far, slices[i]), a.aval.dtype))
            return (i + 1, joined), joined

        _, found = lax.scan(step, (0, slices[0]), None, length=slices.aval.shape[0])
        return moveaxis(found, 0, axis)

    def reduceat(self, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """For each index the elements from there to the next index, joined; one element if the next is not larger."""
        self._binary("reduceat")
        if out is not None:
            raise NotImplementedError("out argument of ufunc.reduceat() is not supported.")
        return self._reduceat(a, indices, axis=axis, dtype=dtype)

    def _reduced_at(self, a: Any, indices: Any, axis: int, dtype: Any) -> Any:
        a, indices = ensure("reduceat", a, indices)
        if not dtypes.is_integer(indices.aval.dtype) or indices.aval.ndim != 1:
            raise ValueError("reduceat: indices must be one-dimensional integers")
        a = a if dtype is None else convert(a, user_dtype(dtype, "reduceat"))
        axis = canonical_axis(axis, a.aval.ndim)
        first = take(a, indices, axis)
        ends = append(indices, a.aval.shape[axis])
        ends = lax.expand_dims(ends, [d for d in range(a.aval.ndim) if d != axis])
        starts = lax.slice_in_dim(ends, 0, -1, axis=axis)
        stops = lax.slice_in_dim(ends, 1, None, axis=axis)

        def join(i: Any, so_far: Any) -> Any:
            inside = (i > starts) & (i < stops)
            here = take(a, lax.expand_dims(i, (0,)), axis)
            return choose(inside, convert(self._call(so_far, here), so_far.aval.dtype), so_far)

        return lax.fori_loop(0, a.aval.shape[axis], join, first)

    # ---------------------------------------------------------------------------------------------- others

    def at(self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Any:
        """A copy of ``a`` with the function applied at ``indices`` (to ``b`` too), repeatedly where these repeat."""
        if inplace:
            raise NotImplementedError(
                "JAX arrays are immutable: call ufunc.at with inplace=False, which returns the changed copy."
            )
        return self._at(a, indices) if b is None else self._at(a, indices, b)

    def _changed_at(self, a: Any, indices: Any, b: Any = None) -> Any:
        if b is None:
            a, values = ensure("at", a), []
        else:
            a, b = ensure("at", a, b)
            values = [b]
        indices = tuple(ensure("at", i) for i in (indices if isinstance(indices, tuple) else (indices,)))
        shape = broadcast_shapes(*[i.aval.shape for i in indices])
        rest = a.aval.shape[len(indices) :]
        flat = [reshape(broadcast_to(i, shape), (-1,)) for i in indices]
        values = [reshape(broadcast_to(convert(v, a.aval.dtype), (*shape, *rest)), (-1, *rest)) for v in values]

        def change(carry: tuple[Any, Any], _: None) -> Any:
            i, x = carry
            place = tuple([index[i] for index in flat])
            found = self._call(x[place], *[v[i] for v in values])
            changed = IndexUpdate(x)[place].set(convert(found, x.aval.dtype))
            return (i + 1, changed), None

        return lax.scan(change, (0, a), None, length=math.prod(shape))[0][1]

    def outer(self, A: Any, B: Any, /) -> Any:
        """The function of each element of ``A`` with each of ``B``."""
        if self._nin != 2:
            raise ValueError("outer only supported for binary ufuncs")
        return self._outer(A, B)

    def _of_pairs(self, A: Any, B: Any) -> Any:
        A, B = ensure("outer", A, B)
        rows, columns = [x if x.aval.ndim == 1 else ravel(x) for x in (A, B)]
        found = vmap(vmap(self._call, (None, 0)), (0, None))(rows, columns)
        shape = (*A.aval.shape, *B.aval.shape)
        return found if found.aval.shape == shape else reshape(found, shape)
