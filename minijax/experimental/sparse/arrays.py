"""``BCOO`` and ``BCSR``: arrays of which only some elements are stored, batches of them and blocks as elements.

The classes are minijax's, pytrees of minijax arrays. What is computed with them is borrowed from JAX: each operation is
a program that JAX traces of its own method, on objects of its own class that have our arrays in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from minijax.core.avals import AnyArray
from minijax.core.trace import Tracer
from minijax.interop.borrowed_functions import borrowed_function
from minijax.interop.values import jax_module
from minijax.numpy import asarray
from minijax.pytree import register_pytree_node, tree_map

__all__ = ["BCOO", "BCSR", "JAXSparse", "borrowed", "to_jaxs", "to_ours"]

_MODULE = "minijax.experimental.sparse"


class JAXSparse:
    """An array of which only some elements are stored; ``_parts`` names the arrays that it consists of."""

    _parts: ClassVar[tuple[str, ...]] = ()
    shape: tuple[int, ...]
    data: Any
    indices: Any
    indices_sorted: bool
    unique_indices: bool
    # NumPy's operators then leave it to ours
    __array_priority__ = 100

    def __init__(
        self, args: Any, *, shape: Sequence[int], indices_sorted: bool = False, unique_indices: bool = False
    ) -> None:
        for name, x in zip(self._parts, args, strict=True):
            setattr(self, name, asarray(x))
        self.shape = tuple(shape)
        self.indices_sorted, self.unique_indices = indices_sorted, unique_indices
        self._check()

    def _check(self) -> None:
        raise NotImplementedError

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32, n_dense: int = 0, n_batch: int = 0
    ) -> Any:
        """The elements of ``mat`` that are not 0; ``nse`` of them, which must be given where values are not known."""
        return _method(cls, "fromdense", static=True)(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @property
    def nse(self) -> int:
        """How many elements are stored, in each matrix of a batch."""
        return int(self.indices.shape[self.n_batch])

    @property
    def n_batch(self) -> int:
        """How many leading dimensions are a batch."""
        raise NotImplementedError

    @property
    def n_sparse(self) -> int:
        """How many dimensions, after those, are sparse."""
        raise NotImplementedError

    @property
    def n_dense(self) -> int:
        """How many trailing dimensions are those of blocks."""
        return int(self.data.ndim) - 1 - self.n_batch

    @property
    def dtype(self) -> Any:
        return self.data.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def block_until_ready(self) -> Any:
        """Wait until its arrays have been computed; returns the array."""
        for name in self._parts:
            getattr(self, name).block_until_ready()
        return self

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])  # type: ignore[index]

    def __repr__(self) -> str:
        try:
            said = f"{type(self).__name__}({self.dtype}{list(self.shape)}, nse={self.nse}"
            said += "".join(f", {name}={n}" for name in ("n_batch", "n_dense") if (n := getattr(self, name)))
        except AttributeError:  # transformations put placeholders where arrays are
            return f"{type(self).__name__}(<invalid>)"
        traced = isinstance(self.data, Tracer)
        return f"{type(self.data).__name__}[{said})]" if traced else f"{said})"

    __hash__ = None  # type: ignore[assignment]

    @property
    def T(self) -> Any:  # noqa: N802, as JAX names it
        """The transpose."""
        return self.transpose()  # type: ignore[attr-defined]


class BCOO(JAXSparse):
    """Stored elements with their indices.

    ``data`` is of shape ``(*batch, nse, *block)``, ``indices`` of ``(*batch, nse, number of sparse dimensions)``. An
    index beyond the shape is one of padding. Raises ValueError if the arrays do not fit.
    """

    _parts = ("data", "indices")

    @property
    def n_batch(self) -> int:
        return int(self.indices.ndim) - 2

    @property
    def n_sparse(self) -> int:
        return int(self.indices.shape[-1])

    def _check(self) -> None:
        data, indices, shape = self.data, self.indices, self.shape
        if not np.issubdtype(indices.dtype, np.integer):
            raise ValueError(f"BCOO indices must be integers, got {indices.dtype}. Convert them with astype(int).")
        if indices.ndim < 2 or len(shape) != self.n_batch + self.n_sparse + self.n_dense:
            raise ValueError(
                f"Invalid shapes: data.shape={data.shape} and indices.shape={indices.shape} are not those of a BCOO of "
                f"shape {shape}: indices are (*batch, nse, number of sparse dimensions)."
            )
        whole = (*shape[: self.n_batch], self.nse)
        for name, x in (("data", data), ("indices", indices)):
            if any(have not in (1, want) for have, want in zip(x.shape, whole, strict=False)):
                raise ValueError(f"{name} of shape {x.shape} does not begin with the batch and the nse, {whole}.")
        if data.shape[self.n_batch + 1 :] != shape[self.n_batch + self.n_sparse :]:
            raise ValueError(f"data of shape {data.shape} does not end with the block of {shape}.")

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0) -> BCOO:
        """A matrix of ``scipy.sparse``. NotImplementedError for batches and blocks, which those have not."""
        if n_dense or n_batch:
            raise NotImplementedError("BCOO.from_scipy_sparse with nonzero n_dense/n_batch: reshape it afterwards.")
        mat = mat.tocoo()
        indices = np.column_stack((mat.row, mat.col)).astype(mat.row.dtype if index_dtype is None else index_dtype)
        return cls((mat.data, indices), shape=mat.shape)


class BCSR(JAXSparse):
    """Stored elements row by row: ``indices`` are their columns, and row i has those from ``indptr[i]`` to the next.

    Raises ValueError if the arrays do not fit.
    """

    _parts = ("data", "indices", "indptr")
    indptr: Any

    @property
    def n_batch(self) -> int:
        return int(self.indices.ndim) - 1

    @property
    def n_sparse(self) -> int:
        return 2

    def _check(self) -> None:
        if len(self.shape) != self.n_batch + 2 + self.n_dense or self.n_dense < 0:
            raise ValueError(
                f"Invalid shapes: data.shape={self.data.shape} and indices.shape={self.indices.shape} are not those of "
                f"a BCSR of shape {self.shape}: indices are (*batch, nse)."
            )
        if self.indptr.shape[-1:] != (self.shape[self.n_batch] + 1,):
            raise ValueError(
                f"indptr of shape {self.indptr.shape} has not one element more than {self.shape[self.n_batch]} rows."
            )

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """A ``BCOO`` of matrices, whose indices are sorted."""
        return _method(cls, "from_bcoo", static=True)(arr)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0) -> BCSR:
        """A matrix of ``scipy.sparse``. NotImplementedError for batches and blocks, which those have not."""
        if n_dense or n_batch:
            raise NotImplementedError("BCSR.from_scipy_sparse with nonzero n_dense/n_batch: reshape it afterwards.")
        mat = mat.tocsr()
        kind = mat.indices.dtype if index_dtype is None else index_dtype
        return cls((mat.data, mat.indices.astype(kind), mat.indptr.astype(kind)), shape=mat.shape)


_CLASSES = {"BCOO": BCOO, "BCSR": BCSR}
# What JAX's classes define, which is borrowed.
_METHODS = {
    BCOO: "astype reshape sort_indices sum sum_duplicates todense transpose update_layout __abs__ __getitem__",
    BCSR: "sum sum_duplicates to_bcoo todense transpose __getitem__",
}
_OPERATORS = {
    BCOO: "neg pos matmul rmatmul mul rmul add radd sub rsub truediv rtruediv pow rpow gt ge lt le eq ne",
    BCSR: "neg pos matmul rmatmul mul rmul add radd sub rsub",
}


# ------------------------------------------------------------------------------------------------ ours and JAX's


def to_jaxs(tree: Any) -> Any:
    """``tree`` with JAX's objects in place of ours; the arrays in them are ours."""

    def convert(x: Any) -> Any:
        if not isinstance(x, JAXSparse):
            return x
        theirs = getattr(jax_module("experimental.sparse"), type(x).__name__)
        about = {name: getattr(x, name) for name in ("shape", "indices_sorted", "unique_indices")}
        return theirs.tree_unflatten(about, [getattr(x, name) for name in x._parts])

    return tree_map(convert, tree, is_leaf=lambda x: isinstance(x, (JAXSparse, AnyArray)) or x is None)


def to_ours(tree: Any) -> Any:
    """``tree`` with ours in place of JAX's objects."""
    theirs = tuple(getattr(jax_module("experimental.sparse"), name) for name in _CLASSES)

    def convert(x: Any) -> Any:
        if not isinstance(x, theirs):
            return x
        made = object.__new__(_CLASSES[type(x).__name__])
        for name in (*made._parts, "shape", "indices_sorted", "unique_indices"):
            setattr(made, name, getattr(x, name))
        return made

    return tree_map(convert, tree, is_leaf=lambda x: isinstance(x, (*theirs, AnyArray)) or x is None)


def borrowed(theirs: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function of JAX's of sparse arrays, as one of ours."""
    inner = borrowed_function(theirs, _MODULE, name)

    def function(*args: Any, **kwargs: Any) -> Any:
        return to_ours(inner(*to_jaxs(args), **to_jaxs(kwargs)))

    function.__name__, function.__qualname__, function.__module__ = name, name, _MODULE
    function.__doc__ = inner.__doc__
    function.__dict__["borrowed_from"] = f"jax.experimental.sparse.{name}"
    return function


_methods: dict[tuple[type, str], Callable[..., Any]] = {}


def _method(cls: type, name: str, static: bool = False) -> Callable[..., Any]:
    """JAX's method, a function of ``self`` unless ``static``; the same one each time, which knows what it traced."""
    found = _methods.get((cls, name))
    if found is None:
        theirs = getattr(jax_module("experimental.sparse"), cls.__name__)
        call = getattr(theirs, name)
        if not static:

            def call(x: Any, *args: Any, **kwargs: Any) -> Any:
                return getattr(x, name)(*args, **kwargs)

        found = _methods[cls, name] = borrowed(call, f"{cls.__name__}.{name}")
    return found


def _borrowing(cls: type, name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _method(cls, name)(self, *args, **kwargs)

    method.__name__, method.__qualname__, method.__module__ = name, f"{cls.__name__}.{name}", _MODULE
    method.__doc__ = "Borrowed from JAX: its program runs on minijax."
    return method


for _class in (BCOO, BCSR):
    for _name in [*_METHODS[_class].split(), *[f"__{name}__" for name in _OPERATORS[_class].split()]]:
        setattr(_class, _name, _borrowing(_class, _name))
    _class.__hash__ = None  # type: ignore[assignment]


def _flatten(x: JAXSparse) -> tuple[tuple[Any, ...], Any]:
    return tuple([getattr(x, name) for name in x._parts]), (x.shape, x.indices_sorted, x.unique_indices)


def _unflatten(cls: type) -> Callable[[Any, Any], Any]:
    def unflatten(aux: Any, children: Any) -> Any:
        made: Any = object.__new__(cls)
        for name, x in zip(made._parts, children, strict=True):
            setattr(made, name, x)
        made.shape, made.indices_sorted, made.unique_indices = aux
        return made

    return unflatten


for _class in (BCOO, BCSR):
    register_pytree_node(_class, _flatten, _unflatten(_class))
