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
from minijax.core.array import as_array, get_aval
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
    """What is known of one function: its programs by signature, and which of its arguments are numbers that vary."""

    __slots__ = ("programs", "numbers", "__weakref__")

    def __init__(self) -> None:
        self.programs: dict[Any, TracedByJax] = {}
        # (tree, position of a leaf) -> the numbers met there; None: such a number is traced; (): it cannot be
        self.numbers: dict[Any, Any] = {}

    def varies(self, place: Any, number: Any) -> bool:
        """Whether the number at ``place`` is to be traced; it is remembered."""
        met = self.numbers.setdefault(place, set())
        if met is None:
            return True
        if met != ():
            met.add(number)
            if len(met) > MAX_NUMBERS:
                self.numbers[place] = None
                return True
        return False


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
        arrays = [i for i, leaf in enumerate(leaves) if is_array(leaf)]
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return fun(*args, **kwargs)  # JAX is tracing
        traced, positions = _signature(fun, known, leaves, arrays, tree)
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
    return x if isinstance(x, AnyArray) else from_jax_value(x)


def _result(x: Any) -> Any:
    return x if isinstance(x, AnyArray) else as_array(x)


def _as_given(x: Any) -> Any:
    """A result that is no traced array; NumPy's can be written to, so each caller gets one of his own."""
    return x.copy() if isinstance(x, np.ndarray) else x


def _type(x: Any) -> Any:
    """What JAX is to take an array, or a number that varies, for."""
    if isinstance(x, AnyArray) or type(x) in _NUMBERS:
        return spec_of(get_aval(x))
    if isinstance(x, (np.ndarray, np.generic)):
        return spec_of(get_aval(x))
    return spec_of(jax_module().typeof(x))


def _number_key(x: Any) -> Any:
    """A number such that equal keys mean the same one: 0.0 is not -0.0, and NaN is itself."""
    if isinstance(x, (float, complex, np.inexact)):
        return type(x), repr(x)
    return type(x), x


def _static_key(x: Any) -> Any:
    if _is_number(x):
        return _number_key(x)
    try:
        hash(x)
    except TypeError:
        return id(x), _Same(x)  # by identity; the key keeps it alive
    return type(x), x


class _Same:
    """Stands for an object in a key: equal to that of the same object."""

    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.x is self.x

    def __hash__(self) -> int:
        return id(self.x)


def _signature(
    fun: Any, known: Signatures, leaves: list[Any], arrays: list[int], tree: Any
) -> tuple[TracedByJax, list[int]]:
    """What tracing ``fun`` at these arguments gives, and the leaves that its program takes."""
    numbers = [i for i, leaf in enumerate(leaves) if _is_number(leaf)]
    varied = [i for i in numbers if known.varies((tree, i, type(leaves[i])), _number_key(leaves[i]))]
    if varied:
        traced = [*arrays, *varied]
        try:
            return _known_signature(fun, known, leaves, traced, tree), traced
        except jax_module("errors").JAXTypeError:
            # the function needs the number itself: it stays a constant
            for i in varied:
                known.numbers[tree, i, type(leaves[i])] = ()
    return _known_signature(fun, known, leaves, arrays, tree), arrays


def _known_signature(fun: Any, known: Signatures, leaves: list[Any], traced: list[int], tree: Any) -> TracedByJax:
    is_traced = set(traced)
    specs = [_type(leaves[i]) for i in traced]
    key: Any = (
        settings(),
        tree,
        tuple(traced),
        tuple([(t.shape, t.dtype, t.weak_type) for t in specs]),
        tuple([_static_key(leaf) for i, leaf in enumerate(leaves) if i not in is_traced]),
    )
    try:
        found = known.programs.get(key)
    except TypeError:  # the tree holds something without a hash
        return _trace(fun, leaves, traced, tree, specs)
    if found is None:
        if len(known.programs) >= MAX_SIGNATURES:
            known.programs.clear()
        found = known.programs[key] = _trace(fun, leaves, traced, tree, specs)
    return found


def _trace(fun: Any, leaves: list[Any], traced: list[int], tree: Any, specs: list[Any]) -> TracedByJax:
    jax = jax_module()
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
