"""``from_jax``: turn a function written for JAX into a function of minijax.

JAX traces the function on the types of its arguments, once for each signature. Minijax imports the program and runs
it. So the function can be differentiated, batched, staged and watched, equation by equation, with the lines of its
source.
"""

from __future__ import annotations

import functools
import re
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import CellType, FunctionType, MethodType
from typing import Any

import numpy as np

from minijax.api.flat import describe, fun_name, leaf_names
from minijax.core import observe
from minijax.core.array import Array, as_array, get_aval
from minijax.core.avals import AnyArray
from minijax.core.lists import with_items
from minijax.core.records import NamedTuple
from minijax.interop.programs import import_closed
from minijax.interop.reports import Warned, caught_warnings, unknown_value_errors, warn, without_frames_of_jax
from minijax.interop.traces import Static, traces_of
from minijax.interop.values import aval_of, from_jax_value, jax_module, make_jaxpr, settings, spec_of
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.pytree import tree_structure


class Slot:
    """A placeholder for value number ``index`` of a result of ``hoisted``."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


def hoisted(x: Any, is_wanted: Callable[[Any], bool]) -> tuple[Any, list[Any]]:
    """Replace the wanted values that functions in ``x`` close over by slots; return the copy and the values."""
    values: list[Any] = []
    slots: dict[int, Slot] = {}

    def slot_for(value: Any) -> Any:
        if not is_wanted(value):
            return value
        if id(value) not in slots:
            slots[id(value)] = Slot(len(values))
            values.append(value)
        return slots[id(value)]

    return _Copying(is_wanted, slot_for)(x), values


def filled(x: Any, values: Sequence[Any]) -> Any:
    """Put ``values`` into the slots of a result of ``hoisted``."""
    return _Copying(lambda y: type(y) is Slot, lambda y: values[y.index] if type(y) is Slot else y)(x)


class _Copying:
    """Copies functions and containers with some values replaced; objects without wanted values are not copied."""

    def __init__(self, is_wanted: Callable[[Any], bool], other: Callable[[Any], Any]) -> None:
        self.is_wanted, self.other = is_wanted, other
        self._holds: dict[int, bool] = {}
        self._copies: dict[int, Any] = {}

    def holds(self, x: Any) -> bool:
        """Whether ``x`` holds a wanted value. In a recursive function its own name does not count."""
        if self.is_wanted(x):
            return True
        if id(x) not in self._holds:
            inside = _inside(x)
            if not inside:
                return False
            self._holds[id(x)] = True  # while a recursive function is searched, assume that it is copied
            self._holds[id(x)] = any([self.holds(y) for y in inside])
        return self._holds[id(x)]

    def __call__(self, x: Any) -> Any:
        if not self.holds(x) or self.is_wanted(x):
            return self.other(x)
        if id(x) not in self._copies:
            copy = self._function(x) if isinstance(x, FunctionType) else self._container(x)
            self._copies[id(x)] = copy
        return self._copies[id(x)]

    def _function(self, fun: FunctionType) -> FunctionType:
        cells = tuple([CellType() for _ in fun.__closure__ or ()])
        copy = FunctionType(fun.__code__, fun.__globals__, fun.__name__, None, cells)
        self._copies[id(fun)] = copy  # register first: the function may contain itself
        functools.update_wrapper(copy, fun, ("__module__", "__name__", "__qualname__", "__doc__"))
        copy.__dict__.pop("__wrapped__")
        copy.__defaults__, copy.__kwdefaults__ = self(fun.__defaults__), self(fun.__kwdefaults__)
        for cell, old in zip(cells, fun.__closure__ or (), strict=True):
            if _is_set(old):
                cell.cell_contents = self(old.cell_contents)
        return copy

    def _container(self, x: Any) -> Any:
        if isinstance(x, MethodType):
            return MethodType(self(x.__func__), self(x.__self__))
        if type(x) is functools.partial:
            keywords = {name: self(y) for name, y in x.keywords.items()}
            return functools.partial(self(x.func), *map(self, x.args), **keywords)
        leaves, tree = jax_module("tree_util").tree_flatten(x, is_leaf=lambda y: y is not x)
        if not _is_node(x):
            raise NotImplementedError(
                f"{x!r} closes over traced values, and minijax can copy only Python functions. "
                "Pass the arrays as arguments."
            )
        return tree.unflatten(map(self, leaves))


def _inside(x: Any) -> list[Any]:
    if isinstance(x, FunctionType):
        closed = [cell.cell_contents for cell in x.__closure__ or () if _is_set(cell)]
        return [*closed, *(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
    if isinstance(x, MethodType):
        return [x.__func__, x.__self__]
    if type(x) is functools.partial:
        return [x.func, *x.args, *x.keywords.values()]
    if _is_node(x):
        return list(jax_module("tree_util").tree_leaves(x, is_leaf=lambda y: y is not x))
    wrapped = getattr(x, "__wrapped__", None) if callable(x) and not isinstance(x, type) else None
    return [] if wrapped is None else [wrapped]


def _is_node(x: Any) -> bool:
    tree_util = jax_module("tree_util")
    return x is not None and not tree_util.treedef_is_leaf(tree_util.tree_structure(x, is_leaf=lambda y: y is not x))


def _is_set(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


class TracedByJax(NamedTuple):
    """The result of JAX's tracing: the program, and how to assemble the function's results.

    ``statics``, for each leaf of the result: None if the program computes it, a ``ClosesOver`` for a function that
    closes over traced values, or a 1-tuple with the leaf. ``warnings``: the function's warnings, repeated at each call.
    """

    program: ClosedJaxpr
    out_tree: Any
    statics: Sequence[Any]
    warnings: Sequence[Warned]


# a copy of a user's function, class or module with other names, or an imported object -> the user's original
originals: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def from_jax(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Turn ``fun``, written for JAX, into a function of minijax arrays, tracers, JAX's arrays and NumPy's.

    Args:
      fun: a function that JAX can trace, possibly transformed by JAX; or a ``ClosedJaxpr`` of JAX. Its arguments and
        results are pytrees in JAX's sense. Non-array leaves, Python numbers included, pass unchanged; a number that
        keeps changing from call to call is traced, unless tracing fails.

    Returns:
      A function with the same arguments, whose results are minijax arrays in the same trees. Minijax can transform it
      and records its operations with the lines of ``fun``'s source. For a ``ClosedJaxpr``, the result is minijax's.

    Raises (when it is called):
      NotImplementedError: minijax lacks a feature of the function, such as dividing a program among devices.
      jax.errors.ConcretizationTypeError, and similar: the function needs the value of an array.
    """
    if isinstance(fun, types.FunctionType):
        fun = originals.get(fun, fun)
    if type(fun).__name__ == "ClosedJaxpr":
        return import_closed(fun)  # type: ignore[return-value]
    if not callable(fun):
        raise TypeError(f"from_jax expects a function or a ClosedJaxpr of JAX's, got {fun!r}.")
    return imported_function(fun, without_frames_of_jax)


def imported_function(
    fun: Callable[..., Any], reported: Callable[[Exception], Exception] = lambda error: error
) -> Callable[..., Any]:
    """Apply ``from_jax``; ``reported`` converts errors from tracing."""
    known = traces_of(fun, "from_jax")

    @functools.wraps(fun)
    def imported(*args: Any, **kwargs: Any) -> Any:
        jax = jax_module()
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):  # JAX is tracing
            return fun(*args, **kwargs)
        kinds = [x.aval if type(x) is Array else kind_of(x) for x in leaves]
        trace = functools.partial(_trace, fun, leaves, tree)
        try:
            traced, positions = known.find(leaves, tree, kinds, settings(), trace)
        except Exception as error:
            raise reported(error)  # noqa: B904  (``reported`` sets the cause)
        if traced.warnings:
            warn(traced.warnings)
        values = [_value(leaves[i]) for i in positions]
        if observe.on_imported:
            outs = iter(_announced(traced.program, values, leaf_names(fun, tree_structure((args, kwargs))), positions))
        else:
            outs = iter(eval_closed(traced.program, *values))
        full = [_result(outs, static) for static in traced.statics]
        return jax.tree_util.tree_unflatten(traced.out_tree, full)

    return imported


def _announced(program: ClosedJaxpr, values: list[Any], names: list[str], positions: Sequence[int]) -> list[Any]:
    """Evaluate ``program``, and tell observers the names of its arguments and when it ends."""
    # to minijax, a tree that only JAX knows is one leaf, so its leaves have no names
    known = [names[i] for i in positions] if len(names) > max(positions, default=-1) else []
    observe.emit(observe.on_imported, known, values)
    try:
        return eval_closed(program, *values)
    finally:
        if observe.on_imported_end:
            observe.emit(observe.on_imported_end)


def is_array(x: Any) -> bool:
    """Whether a leaf is an array (minijax's, JAX's or NumPy's) or a tracer."""
    if isinstance(x, AnyArray):
        return True
    if isinstance(x, np.ndarray):
        return x.dtype.kind not in "OSUT"
    return isinstance(x, jax_module().Array)


def _value(x: Any) -> Any:
    if isinstance(x, AnyArray):
        return x
    return from_jax_value(x) if isinstance(x, jax_module().Array) else as_array(x)


def _result(outs: Iterator[Any], static: Any) -> Any:
    """The next result, computed or static. NumPy arrays are mutable, so each caller gets a copy."""
    if static is None:
        x = next(outs)
        return x if isinstance(x, AnyArray) else as_array(x)
    if isinstance(static, ClosesOver):
        return static.of([_result(outs, None) for _ in range(static.count)])
    (x,) = static
    return x.copy() if isinstance(x, np.ndarray) else x


def kind_of(x: Any) -> Any:
    """A leaf in a signature: the type of an array, or a ``Static``."""
    if isinstance(x, (AnyArray, np.ndarray)):
        return get_aval(x) if is_array(x) else Static(x)
    return aval_of(jax_module().typeof(x)) if isinstance(x, jax_module().Array) else Static(x)


def _trace(fun: Any, leaves: list[Any], tree: Any, traced: list[int]) -> TracedByJax:
    jax = jax_module()
    specs = [spec_of(aval_of(leaves[i]) if isinstance(leaves[i], jax.Array) else get_aval(leaves[i])) for i in traced]
    found: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        args, kwargs = jax.tree_util.tree_unflatten(tree, with_items(leaves, traced, values))
        out_leaves, out_tree = jax.tree_util.tree_flatten(fun(*args, **kwargs))
        outs = [(None, [x]) if isinstance(x, jax.Array) else _static(x) for x in out_leaves]
        found[:] = [out_tree, [static for static, _ in outs]]
        return [value for _, values in outs for value in values]

    try:
        with caught_warnings() as warnings:
            jaxpr = make_jaxpr(flat, specs)
    except Exception as error:
        if not isinstance(error, unknown_value_errors()) and "concrete value" not in str(error):
            raise
        raise _reworded(error, fun, tree, traced) from None
    out_tree, statics = found
    return TracedByJax(import_closed(jaxpr, fun_name(fun)), out_tree, statics, warnings)


class ClosesOver:
    """A function returned by a traced function; traced values that it closes over are additional results."""

    def __init__(self, skeleton: Any, count: int) -> None:
        self.count = count

        @from_jax
        def call(values: list[Any], *args: Any, **kwargs: Any) -> Any:
            return filled(skeleton, values)(*args, **kwargs)

        self._call = call

    def of(self, values: list[Any]) -> Callable[..., Any]:
        """Bind the function to ``values``."""
        return functools.partial(self._call, values)


def _static(x: Any) -> tuple[Any, list[Any]]:
    """Keep a result that is no array, and list the traced values in it."""
    if not callable(x):
        return (x,), []
    skeleton, values = hoisted(x, lambda y: isinstance(y, jax_module("core").Tracer))
    return (ClosesOver(skeleton, len(values)) if values else (x,)), values


def _reworded(error: Any, fun: Any, tree: Any, traced: list[int]) -> Any:
    """JAX's error for a value needed during tracing, in terms of the user's call."""
    subject = describe(fun)
    args = jax_module("tree_util").tree_unflatten(tree, list(range(tree.num_leaves)))
    names = leaf_names(fun, tree_structure(args))
    text = str(error.args[0]) if error.args else str(error)
    text = re.sub(r"the function flat at \S+ for jit", f"the function {subject} for from_jax", text)
    text = re.sub(r"\bvalues\[(\d+)\]", lambda found: names[traced[int(found[1])]], text)
    advice = (
        f"from_jax traced {subject} to learn its program, so its arrays have no values while it runs. If it "
        "needs a value, pass a Python number, which from_jax passes on unchanged."
    )
    error.args = (f"{text}\n{advice}", *error.args[1:])
    return error
