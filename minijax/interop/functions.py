"""``from_jax``: a function that was written for JAX, as a function of minijax.

Called with minijax values, it is traced by JAX on their types, its program imported, and that evaluated under whatever
interpreters are at work: so it can be differentiated, batched, staged and watched, equation by equation, with the lines
of the user's program. Tracing happens once for each function and signature.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.api.flat import describe, fun_name
from minijax.core.array import Array, as_array, get_aval
from minijax.core.avals import AnyArray
from minijax.core.named import NamedTuple
from minijax.interop import effects as effects  # fills the table of import rules, as does special
from minijax.interop import special as special
from minijax.interop.programs import import_closed
from minijax.interop.tracing import make_jaxpr, settings
from minijax.interop.values import from_jax_value, jax_module, spec_of
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr

# Beyond this many signatures of one function, all are forgotten.
MAX_SIGNATURES = 1024
# A number is a constant of the program, as it is for JAX called eagerly. A position that has had more different numbers
# than this is traced: else a loop over learning rates would never stop tracing.
MAX_NUMBERS = 4

_NUMBERS = (bool, int, float, complex)


class TracedByJax(NamedTuple):
    """What JAX's tracing of a function gave: the program, and how its results are put together.

    ``statics`` has for each leaf of the result None, or a tuple of the leaf itself if it is no traced array.
    """

    program: ClosedJaxpr
    out_tree: Any
    statics: Sequence[Any]


# copy of a user's function, class or module with other names in it, or what was imported -> the user's own
originals: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


class Signatures:
    """What is known of one function: its programs by signature, and which of its arguments are numbers that vary.

    A program comes with the positions of the leaves that it takes.
    """

    __slots__ = ("programs", "numbers", "traced_numbers", "__weakref__")

    def __init__(self) -> None:
        self.programs: dict[Any, tuple[TracedByJax, list[int]]] = {}
        # (tree, position of a leaf, type) -> the numbers met there, None where one cannot be traced
        self.numbers: dict[Any, set[Any] | None] = {}
        # such places at which numbers are traced
        self.traced_numbers: set[Any] = set()

    def vary(self, tree: Any, leaves: list[Any]) -> list[int]:
        """The positions of numbers that have come to vary with this call, or had before."""
        found = []
        for i, leaf in enumerate(leaves):
            if _is_number(leaf):
                place = (tree, i, type(leaf))
                met = self.numbers.setdefault(place, set())
                if met is not None:
                    met.add(_number_key(leaf))
                    if len(met) > MAX_NUMBERS:
                        found.append(i)
        return found


# The function that a cache belongs to, by its id: it need not have a hash, but must be able to be referred to weakly.
# A bound method is found by its instance, since each look-up of ``x.method`` is another object.
_known: dict[int, tuple[weakref.ref[Any], dict[Any, Signatures]]] = {}


def signatures_of(fun: Any) -> Signatures:
    """What is known of ``fun``; it is forgotten when that dies. New each time if it cannot be known when that is."""
    owner, part = (fun.__self__, fun.__func__) if type(fun) is types.MethodType else (fun, None)
    found = _known.get(id(owner))
    if found is None:
        try:
            ref = weakref.ref(owner, functools.partial(_forget, id(owner)))
        except TypeError:
            return Signatures()
        found = _known.setdefault(id(owner), (ref, {}))
    return found[1].setdefault(part, Signatures())


def _forget(key: int, ref: weakref.ref[Any]) -> None:
    found = _known.get(key)
    if found is not None and found[0] is ref:
        del _known[key]


def from_jax(fun: Callable[..., Any]) -> Callable[..., Any]:
    """``fun``, written for JAX, as a function of minijax arrays, tracers, JAX's arrays and NumPy's.

    Args:
      fun: a function that JAX can trace, or one that a transformation of JAX's made; a ``ClosedJaxpr`` of JAX's. Its
        arguments and results are pytrees in JAX's sense. Leaves that are no arrays, Python's numbers among them, are
        given to it as they are; a number that keeps changing from call to call is traced, unless that fails.

    Returns:
      A function with the same arguments, whose results are minijax arrays in the same trees. It can be transformed by
      minijax, and what it does is recorded with the lines of ``fun``'s source. Of a ``ClosedJaxpr``: ours.

    Raises (when it is called):
      NotImplementedError: the function does what minijax cannot show, such as working on mutable references.
      jax.errors.ConcretizationTypeError, and its like: the function needs the value of an array.
    """
    if isinstance(fun, types.FunctionType):
        fun = originals.get(fun, fun)
    if type(fun).__name__ == "ClosedJaxpr":
        return import_closed(fun)  # type: ignore[return-value]
    if not callable(fun):
        raise TypeError(f"from_jax expects a function or a ClosedJaxpr of JAX's, got {fun!r}.")
    known = signatures_of(fun)

    @functools.wraps(fun)
    def imported(*args: Any, **kwargs: Any) -> Any:
        jax = jax_module()
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):  # JAX is tracing
            return fun(*args, **kwargs)
        traced, positions = _signature(fun, known, leaves, tree)
        outs = iter(eval_closed(traced.program, *[_value(leaves[i]) for i in positions]))
        full = [_result(next(outs)) if static is None else _as_given(static[0]) for static in traced.statics]
        return jax.tree_util.tree_unflatten(traced.out_tree, full)

    return imported


def is_array(x: Any) -> bool:
    """Whether a leaf is an array, ours, JAX's or NumPy's, or stands for one."""
    if isinstance(x, AnyArray):
        return True
    if isinstance(x, np.ndarray):
        return x.dtype.kind not in "OSUT"
    return isinstance(x, jax_module().Array)


def _is_number(x: Any) -> bool:
    return type(x) in _NUMBERS or isinstance(x, np.generic)


def _value(x: Any) -> Any:
    if isinstance(x, AnyArray):
        return x
    return from_jax_value(x) if isinstance(x, jax_module().Array) else as_array(x)


def _result(x: Any) -> Any:
    return x if isinstance(x, AnyArray) else as_array(x)


def _as_given(x: Any) -> Any:
    """A result that is no traced array; NumPy's can be written to, so each caller gets one of his own."""
    return x.copy() if isinstance(x, np.ndarray) else x


def _number_key(x: Any) -> Any:
    """A number such that equal keys mean the same one: 0.0 is not -0.0, and NaN is itself."""
    if isinstance(x, (float, complex, np.inexact)):
        return type(x), repr(x)
    return type(x), x


class _Static:
    """What a leaf that is no array is in a signature: the same for equal leaves, or for one object without a hash."""

    __slots__ = ("key", "x")

    def __init__(self, x: Any) -> None:
        self.x = x
        if _is_number(x):
            self.key: Any = _number_key(x)
            return
        try:
            hash(x)
            self.key = (type(x), x)
        except TypeError:
            self.key = id(x)

    def __eq__(self, other: object) -> bool:
        return type(other) is _Static and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _kind(x: Any) -> Any:
    """What a leaf is in a signature: the type of an array, else a ``_Static``."""
    if isinstance(x, AnyArray) or is_array(x):
        return get_aval(x)
    return _Static(x)


def _signature(fun: Any, known: Signatures, leaves: list[Any], tree: Any) -> tuple[TracedByJax, list[int]]:
    """What tracing ``fun`` at these arguments gives, and the leaves that its program takes."""
    kinds = [x.aval if type(x) is Array else _kind(x) for x in leaves]
    for place in known.traced_numbers:
        if place[0] == tree and type(leaves[place[1]]) is place[2]:
            kinds[place[1]] = get_aval(leaves[place[1]])
    key: Any = (settings(), tree, *kinds)
    try:
        found = known.programs.get(key)
    except TypeError:  # the tree holds something without a hash
        found, key = None, None
    if found is None:
        found = _traced_at(fun, known, leaves, tree, kinds)
        if key is not None and not any(place[0] == tree for place in known.traced_numbers):
            _keep(known, key, found)
        elif key is not None:
            _keep(known, (settings(), tree, *_kinds_of(leaves, found[1])), found)
    return found


def _kinds_of(leaves: list[Any], positions: list[int]) -> list[Any]:
    taken = set(positions)
    return [get_aval(x) if i in taken else _Static(x) for i, x in enumerate(leaves)]


def _keep(known: Signatures, key: Any, found: tuple[TracedByJax, list[int]]) -> None:
    if len(known.programs) >= MAX_SIGNATURES:
        known.programs.clear()
    known.programs[key] = found


def _traced_at(
    fun: Any, known: Signatures, leaves: list[Any], tree: Any, kinds: list[Any]
) -> tuple[TracedByJax, list[int]]:
    """Trace ``fun``: with numbers that keep changing among its arrays, if it can do without their values."""
    arrays = [i for i, kind in enumerate(kinds) if type(kind) is not _Static]
    varying = known.vary(tree, leaves)
    for wanted in [varying, *[[i] for i in varying]] if varying else ():
        positions = sorted({*arrays, *wanted})
        try:
            found = _trace(fun, leaves, positions, tree)
        except Exception:  # whatever the function says to an array where it had a number
            if len(wanted) == 1:
                known.numbers[tree, wanted[0], type(leaves[wanted[0]])] = None
                known.traced_numbers.discard((tree, wanted[0], type(leaves[wanted[0]])))
        else:
            known.traced_numbers.update((tree, i, type(leaves[i])) for i in wanted)
            return found, positions
    positions = [i for i, x in enumerate(leaves) if is_array(x)]
    return _trace(fun, leaves, positions, tree), positions


def _trace(fun: Any, leaves: list[Any], traced: list[int], tree: Any) -> TracedByJax:
    jax = jax_module()
    specs = [spec_of(get_aval(leaves[i])) for i in traced]
    found: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        full = list(leaves)
        for i, x in zip(traced, values, strict=True):
            full[i] = x
        args, kwargs = jax.tree_util.tree_unflatten(tree, full)
        out_leaves, out_tree = jax.tree_util.tree_flatten(fun(*args, **kwargs))
        statics = [None if isinstance(x, jax.Array) else (x,) for x in out_leaves]
        found[:] = [out_tree, statics]
        return [x for x, static in zip(out_leaves, statics, strict=True) if static is None]

    try:
        jaxpr = make_jaxpr(flat, specs)
    except jax.errors.JAXTypeError as error:
        raise _reworded(error, fun) from None
    return TracedByJax(import_closed(jaxpr, fun_name(fun)), *found)


def _reworded(error: Any, fun: Any) -> Any:
    """JAX's error for a value that was needed while tracing, with what from_jax has to do with it."""
    advice = (
        f"from_jax traced {describe(fun)} to learn its program, so its arrays have no values while it runs. Pass what "
        "it needs the value of as a Python number, which from_jax hands on as it is."
    )
    error.args = (f"{error.args[0]}\n{advice}", *error.args[1:]) if error.args else (advice,)
    return error
