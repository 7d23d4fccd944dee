"""``jit``: stage a function once per signature, compile it with XLA, and reuse the compiled program."""

from __future__ import annotations

import functools
import importlib
import inspect
import types
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minijax.api.flat import (
    FlatFun,
    check_args,
    check_callable,
    describe,
    fun_name,
    int_or_ints,
    leaf_names,
    named_like,
)
from minijax.api.repeated import MISSED, Known, Repeat, places_of
from minijax.api.stages import Lowered, StagedCall, Traced, partitioned_at, placement_at
from minijax.backend import failures, fastcall, pjrt
from minijax.config import (
    common_key,
    context_mesh,
    jit_disabled,
    preferred_device,
    trace_key,
    while_on,
    x64_enabled,
)
from minijax.core import lazy, observe
from minijax.core.array import Array, as_array, common_device, get_aval, is_array_like, is_foreign, numpy_aval
from minijax.core.avals import ShapedArray
from minijax.core.lazy import HigherModule
from minijax.core.lists import partition
from minijax.core.meshes import context
from minijax.core.observe import observers
from minijax.core.refs import AbstractRef, Ref, is_ref
from minijax.core.shape_structs import stood_in
from minijax.core.structural import UNSPECIFIED
from minijax.core.trace import Tracer, reaching, state
from minijax.interpreters.evaluate import key_checks
from minijax.interpreters.stage import stage
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.ops.call import jit_p, kept_inputs, known_program
from minijax.pytree import (
    prefix_leaves,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
    treedef_tuple,
)
from minijax.pytree.prefix import is_none

if TYPE_CHECKING:
    from minijax.api.differences import CallSignature, Miss

__all__ = ["jit"]

# fun -> options -> key of a call -> its program. Every jit(fun) with the same options shares the inner dict.
_staged: weakref.WeakKeyDictionary[Any, dict[Any, dict[Any, StagedCall]]] = weakref.WeakKeyDictionary()

# Beyond this many signatures of one function, the earliest is dropped.
MAX_SIGNATURES = 4096


_shardings = HigherModule("shardings")
_partitioned = HigherModule("partitioned_programs")


def _misses() -> Any:
    """Import ``api.misses`` on the first trace."""
    return importlib.import_module("minijax.api.misses")


def _report(name: str, on: bool) -> None:
    lazy.public("minijax.api.reports", "report")(name, on)


for _name in ("log_compiles", "explain_cache_misses"):
    while_on(_name, functools.partial(_report, _name, True), functools.partial(_report, _name, False))


class JitFunction:
    """The result of ``jit``: call it like the function; ``lower``, ``trace`` and ``eval_shape`` show its stages."""

    # slots for the two attributes that each call reads: lookup in a large ``__dict__`` is slower
    __slots__ = ("known", "takes_static", "__dict__", "__weakref__")

    # ``transform``: its name in messages. ``runs_as_written``: whether calls under ``disable_jit`` run ``fun`` itself.
    transform = "jit"
    runs_as_written = True

    def __init__(
        self,
        fun: Callable[..., Any],
        static_argnums: tuple[int, ...],
        static_argnames: tuple[str, ...],
        donate_argnums: tuple[int, ...],
        donate_argnames: tuple[str, ...],
        keep_unused: bool,
        inline: bool,
        in_shardings: Any = UNSPECIFIED,
        out_shardings: Any = UNSPECIFIED,
    ) -> None:
        functools.update_wrapper(self, fun, updated=())
        # copy the function's own attributes, but do not hide methods of this class
        own = getattr(fun, "__dict__", {})
        self.__dict__.update((k, v) for k, v in own.items() if not hasattr(type(self), k))
        self.__wrapped__ = self.fun = fun
        self.static_argnums = static_argnums
        self.static_argnames = static_argnames
        self.donate_argnums = donate_argnums
        self.donate_argnames = donate_argnames
        self.keep_unused = keep_unused
        self.inline = inline
        self.in_shardings = in_shardings
        self.out_shardings = out_shardings
        self.subject = describe(fun)
        self.takes_static = bool(static_argnums or static_argnames)
        # number of positional arguments -> positions of static arguments, positions of dynamic arguments
        self.places: dict[int, tuple[list[int], list[int]]] = {}
        # (configuration, static arguments) -> the programs for repeated calls
        self.known: dict[Any, Known] = {}
        try:
            self._caches = _staged.setdefault(fun, {})
        except TypeError:  # not weakly referable, or unhashable: this object holds the cache
            self._caches = {}
        self.cache = self._caches.setdefault(self._options(), {})

    def _options(self) -> tuple[Any, ...]:
        """The options as a key into the function's caches."""
        static, donated = (self.static_argnums, self.static_argnames), (self.donate_argnums, self.donate_argnames)
        options: tuple[Any, ...] = (*static, *donated, self.keep_unused, self.inline)
        if self._names_shardings:
            options += (*map(hashable_tree, (self.in_shardings, self.out_shardings)),)
        return options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # The code before the program runs takes a tenth of a small call's time, so most helpers are inlined.
        static: tuple[Any, ...] = ()
        if self.takes_static:
            args, kwargs, static = self._split(args, kwargs)
            known = self._known_with(static)
        else:
            known = self.known.get(common_key[0] or trace_key())
        # the fast path has conditions: see api.repeated
        if known is None or (reaching and len(state.stack) > 1) or observers:
            return self.call(args, kwargs, static)[0]
        if pjrt.others_in_use and preferred_device() is not None:
            return self.call(args, kwargs, static)[0]
        if known.flat and not kwargs:
            try:  # the comprehension takes a twentieth of a call, so a call with one argument skips it
                run = known.flat[args[0].kind if len(args) == 1 else tuple([x.kind for x in args])]
            except (AttributeError, KeyError, TypeError):
                pass
            else:
                value = run(args)
                if value is not MISSED:
                    return value
        if known.trees:
            value = known.tree_call(args, kwargs)
            if value is not MISSED:
                return value
        if known.host_call is not None and not pjrt.others_in_use:
            try:
                return known.host_call(*args, **kwargs)
            except Exception as error:
                if error.__traceback__.tb_next is not None:  # type: ignore[union-attr]
                    raise
                failure = self._failure(error, args, kwargs, static)  # raised by jaxlib itself
            if failure is not None:
                raise failure
        return self.call(args, kwargs, static)[0]

    @property
    def called(self) -> str:
        """The function's name in messages about argument placement."""
        return fun_name(self.fun)

    @property
    def _names_shardings(self) -> bool:
        """Whether the user passed shardings of arguments or results."""
        return self.in_shardings is not UNSPECIFIED or self.out_shardings is not UNSPECIFIED

    def _labels(self, staged: StagedCall) -> Callable[[int], str]:
        return lambda i: leaf_names(self.fun, staged.in_tree)[i]

    def _device_of(self, staged: StagedCall, leaves: Sequence[Any]) -> Any:
        """Return the device (or mesh devices) of the committed arguments that the program takes.

        Raise ValueError if two of these arguments are on different devices.
        """
        if not pjrt.others_in_use:
            return None
        kept = kept_inputs(staged.closed) if not staged.outer and not self.keep_unused else None
        taken = leaves if kept is None else [x if i in kept else None for i, x in enumerate(leaves)]
        if "in_shardings" in staged.params:  # an explicit sharding moves its argument, so its device does not count
            named = staged.params["in_shardings"][len(staged.outer) :]
            taken = [x if each is UNSPECIFIED else None for x, each in zip(taken, named, strict=False)]
        return common_device(taken, self.called, self._labels(staged))

    def _failure(self, error: Exception, args: Any, kwargs: Any, static: tuple[Any, ...]) -> BaseException | None:
        """Translate an ``error`` of jaxlib's dispatch. Return None if no program ran: the call may then be repeated."""
        if not fastcall.is_status(error):
            return None
        _, leaves, _ = self._find(args, kwargs, static)
        buffers = [getattr(x, "_buffer", None) for x in leaves]
        return failures.run_error(error, fun_name(self.fun), buffers, 0)

    def _known_with(self, static: tuple[Any, ...]) -> Known | None:
        try:
            return self.known.get((trace_key(), static))
        except TypeError:  # unhashable: the ordinary path reports it
            return None

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], static: tuple[Any, ...]) -> Any:
        """Make a call on the ordinary path; see ``api.repeated.Known.call`` for the result."""
        if jit_disabled() and self.runs_as_written:
            return self._with_static(static)(*args, **kwargs), (), (), None
        settings = trace_key()
        staged, leaves, avals = self._find(args, kwargs, static)
        program = staged.program
        self._device_of(staged, leaves)
        if AbstractRef.made:
            _check_aliases(leaves, staged, self.fun)
        unusual = len(state.stack) > 1 or observe.bind_watched or any([isinstance(x, Tracer) for x in leaves])
        # debug_nans, debug_infs and debug_key_reuse check each call when it is evaluated
        checked = settings.values[1] or settings.values[7] or key_checks
        over: Any = None
        places: tuple[Any, ...] = ()
        if pjrt.others_in_use:
            # used to explain a recompilation; the reference is weak, since the program must not keep the function alive
            about = weakref.ref(self), len(staged.outer), staged.in_tree
            staged.closed.memo["argument names"] = functools.partial(_argument_names, *about)
            places = places_of(leaves)
        if not unusual:
            staged.met.add((tuple([*map(type, leaves)]), places))
        if pjrt.others_in_use and not (unusual or checked or staged.outer or staged.refs):
            over = partitioned_at(staged, leaves, places, self.called, self._labels(staged))
        if over is not None:
            outs = over(*leaves)
        elif program is None or unusual or checked:
            outs = jit_p.bind(*staged.outer, *leaves, *staged.refs, **self._bound(staged))
            if not staged.outer:
                program = known_program(staged.closed, *staged.how)
                staged.program = program
        else:
            outs = program(*leaves)
        value = tree_unflatten(staged.out_tree, outs)
        ran = program if over is None else over
        if ran is None or not ran.repeatable or checked:
            return value, leaves, avals, None
        if len(state.stack) > 1 or state.axis_env or observers:
            return value, leaves, avals, None
        key = (settings, static) if self.takes_static else settings
        known = self.known.get(key)
        if known is None:
            if len(self.known) >= MAX_SIGNATURES:
                self.known.clear()
            known = self.known[key] = Known(self, static, fun_name(self.fun), x64_enabled())
        if over is not None:
            repeat = Repeat(over, staged.out_tree, places)
        elif any(places):
            return value, leaves, avals, None
        else:
            if staged.repeat is None:
                staged.repeat = Repeat(ran, staged.out_tree, [None] * len(leaves))
            repeat = staged.repeat
        known.learn(args, kwargs, leaves, repeat)
        return value, leaves, avals, repeat

    def _bound(self, staged: StagedCall) -> dict[str, Any]:
        return staged.params

    def __reduce__(self) -> Any:
        # copies and pickles hold the constructor's arguments, not the compiled programs
        made_of = (self.fun, self.static_argnums, self.static_argnames, self.donate_argnums, self.donate_argnames)
        return JitFunction, (*made_of, self.keep_unused, self.inline, self.in_shardings, self.out_shardings)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def _find(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], static: tuple[Any, ...]
    ) -> tuple[StagedCall, list[Any], list[Any]]:
        """Return the staged signature of this call (staging it if new), the dynamic leaves, and their types."""
        key, leaves, avals = self._key(args, kwargs, static)
        cache = observe.staging_cache(self.cache) if observers else self.cache
        staged = self._get(cache, key)
        if staged is None and not all([isinstance(aval, (ShapedArray, AbstractRef)) for aval in avals]):
            # JAX's own arrays are converted; other objects with an ``aval`` raise TypeError
            in_tree = tree_structure((args, kwargs))
            taken = check_args(tree_leaves((args, kwargs)), self.transform, self._with_static(static), in_tree)
            args, kwargs = tree_unflatten(in_tree, taken)
            return self._find(args, kwargs, static)
        if staged is None or observe.on_cache:
            found = None if staged is None else staged.closed
            begun = _misses().announce("staging", self.fun, key, found, self._explain)
        if staged is None:
            if not all(map(is_array_like, leaves)):  # such as an array of strings
                check_args(leaves, self.transform, self._with_static(static), tree_structure((args, kwargs)))
            staged = self._stage(avals, static, args, kwargs)
            how = self.transform, MAX_SIGNATURES, begun
            _misses().store(cache, key, staged, staged.closed, staged.outer, self.fun, *how)
        return staged, leaves, avals

    def staged_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[StagedCall, list[Any]]:
        """Return the staged signature of a call (staging it if new), and the call's operands."""
        args, kwargs, static = self._split(args, kwargs)
        return self._find(args, kwargs, static)[:2]

    def _key(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], static: tuple[Any, ...]
    ) -> tuple[tuple[Any, ...], list[Any], list[Any]]:
        """Return the key of a call's signature, the dynamic leaves and their types."""
        # without keyword arguments, flatten only ``args``, which takes a third of the time
        leaves, args_tree = tree_flatten(args)
        kwargs_tree = None
        if kwargs:
            more, kwargs_tree = tree_flatten(kwargs)
            leaves += more
        avals = []
        for x in leaves:
            try:
                aval = numpy_aval(x) if type(x) is np.ndarray else x.aval
            except (AttributeError, TypeError):
                aval = None
            if aval is None:
                if not is_array_like(x):
                    check_args(leaves, self.transform, self._with_static(static), tree_structure((args, kwargs)))
                aval = get_aval(x)
            avals.append(aval)
        return (args_tree, kwargs_tree, tuple(avals), static, trace_key(), state.axis_env), leaves, avals

    def _get(self, cache: dict[Any, StagedCall], key: tuple[Any, ...]) -> StagedCall | None:
        try:
            return cache.get(key)
        except TypeError:
            raise unhashable_static(key[3], self.subject, self.transform) from None

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the dynamic args, the dynamic kwargs, and the static arguments as part of the key."""
        if not self.takes_static:
            return args, kwargs, ()
        count = len(args)
        places = self.places.get(count)
        if places is None:
            static_at = sorted({i % count for i in self.static_argnums if -count <= i < count})
            places = self.places[count] = static_at, [i for i in range(count) if i not in static_at]
        at, others = places
        positional = tuple([(i, type(args[i]), args[i]) for i in at])
        dynamic = tuple([args[i] for i in others]) if at else args
        if not kwargs:
            return dynamic, kwargs, (positional, ())
        named = {k: v for k, v in kwargs.items() if k in self.static_argnames}
        by_name = tuple((k, type(v), v) for k, v in sorted(named.items(), key=lambda item: item[0]))
        return dynamic, {k: v for k, v in kwargs.items() if k not in named}, (positional, by_name)

    def _explain(self, key: tuple[Any, ...], reprs: bool = True) -> Miss:
        """Explain the miss of ``key``: how it differs from the nearest earlier signature."""
        other_options = any([cache is not self.cache and cache for cache in list(self._caches.values())])
        if key in self.cache:
            return _misses().RETRACED
        earlier = [_signature(each, staged.in_tree) for each, staged in _misses().latest(self.cache)]
        signature = _signature(key) if earlier else None
        with_static = self._with_static(key[3])
        kind, known = self.transform, len(self.cache)
        return _misses().explain(self.fun, key, signature, earlier, kind, with_static, other_options, reprs, known)

    def _with_static(self, static: tuple[Any, ...]) -> Callable[..., Any]:
        if not static:
            return self.fun
        at = {i: value for i, _, value in static[0]}
        named = {k: value for k, _, value in static[1]}

        def fun_of_dynamic(*args: Any, **kwargs: Any) -> Any:
            given = iter(args)
            full = [at[i] if i in at else next(given) for i in range(len(args) + len(at))]
            return self.fun(*full, **kwargs, **named)

        return named_like(fun_of_dynamic, self.fun, at, named)

    def _stage(self, avals: Sequence[Any], static: Any, args: Any, kwargs: Any) -> StagedCall:
        in_tree = tree_structure((args, kwargs))
        with observe.timed("trace", fun_name(self.fun)):
            name, closed, out_tree, ins, outs = self._traced(avals, static, in_tree, args, kwargs)
        closed, refs = lift_constants(closed, Ref, last=True) if AbstractRef.made else (closed, [])
        closed, outer = lift_constants(closed, Tracer)
        donated = (False,) * len(outer) + self._donated(in_tree, args, kwargs, static) + (False,) * len(refs)
        params = {"name": name, "jaxpr": closed, "donated_invars": donated}
        if context_mesh() is not None:
            params["ctx_mesh"] = context.named
        if self.keep_unused:
            params["keep_unused"] = True
        if self.inline:
            params["inline"] = True
        if ins or outs:
            params |= self._shardings(closed, ins, outs, len(outer), len(refs))
        return StagedCall(closed, outer, in_tree, out_tree, params, refs)

    def _traced(
        self, avals: Sequence[Any], static: Any, in_tree: Any, args: Any, kwargs: Any
    ) -> tuple[str, ClosedJaxpr, Any, list[Any], list[Any]]:
        """Return a signature's program: its name, jaxpr, result tree, argument shardings and result shardings.

        A list of shardings is [] if they are unspecified.
        """
        flat = FlatFun(self._with_static(static), in_tree, self.transform, subject=self.subject)
        closed = stage(flat, avals, self.subject, label=self.transform)
        if kwargs and self.in_shardings is not UNSPECIFIED:
            raise ValueError(
                f"pjit does not support kwargs when in_shardings is specified. Pass the arguments of {self.subject} by "
                "position."
            )
        ins: list[Any] = []
        outs: list[Any] = []
        if self._names_shardings:
            ins = _spread(self.in_shardings, args, "in_shardings")
            given = tree_unflatten(flat.out_tree, range(len(closed.out_avals)))
            outs = _spread(self.out_shardings, given, "out_shardings")
        return fun_name(self.fun), closed, flat.out_tree, ins, outs

    def _shardings(
        self, closed: ClosedJaxpr, ins: list[Any], outs: list[Any], n_outer: int, n_refs: int
    ) -> dict[str, Any]:
        """Return the call's sharding parameters. Raise ValueError if a sharding does not fit its array."""
        ins = [UNSPECIFIED] * n_outer + (ins or [UNSPECIFIED] * (len(closed.in_avals) - n_outer - n_refs))
        ins += [UNSPECIFIED] * n_refs
        named = {"in_shardings": (ins, closed.in_avals), "out_shardings": (outs, closed.out_avals)}
        for which, (shardings, avals) in named.items():
            for sharding, aval in zip(shardings, avals, strict=bool(shardings)):
                if sharding is not UNSPECIFIED:
                    _check_named(sharding, aval, which, self.subject)
        pjrt.note_committed()
        return {
            which: tuple(shardings)
            for which, (shardings, _) in named.items()
            if any([each is not UNSPECIFIED for each in shardings])
        }

    def _donated(self, in_tree: Any, args: Any, kwargs: Any, static: Any) -> tuple[bool, ...]:
        if not self.donate_argnums and not self.donate_argnames:
            return (False,) * in_tree.num_leaves
        statics = {i for i, _, _ in static[0]} if static else set()
        places = [i for i in range(len(args) + len(statics)) if i not in statics]
        total = len(args) + len(statics)
        donates = {i % total for i in self.donate_argnums if -total <= i < total}
        flags: list[bool] = []
        for place, arg in zip(places, args, strict=True):
            flags.extend([place in donates] * len(tree_flatten(arg)[0]))
        for k in sorted(kwargs):
            flags.extend([k in self.donate_argnames] * len(tree_flatten(kwargs[k])[0]))
        return tuple(flags)

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Stage at these arguments (arrays or ``ShapeDtypeStruct``s), without compiling."""
        args, kwargs, static = self._split(args, kwargs)
        if kwargs or not all(map(is_array_like, args)):
            args, kwargs = tree_map(stood_in, (args, kwargs))
        staged, leaves, _ = self._find(args, kwargs, static)
        name = fun_name(self.fun)
        placement = placement_at(staged, leaves, self.called, self._labels(staged))
        return Traced(name, staged, self._device_of(staged, leaves), placement)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Stage and lower at these arguments, without compiling."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The shapes and dtypes of the outputs at these arguments."""
        return self.trace(*args, **kwargs).out_info

    def _asked(self, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any], tuple[Any, ...]]:
        """The arguments of a call that is explained, without the static ones; arrays of JAX as arrays of minijax."""
        args, kwargs, static = self._split(args, kwargs)
        args, kwargs = tree_map(lambda x: as_array(x) if is_foreign(x) else x, (args, kwargs))
        return args, kwargs, static

    def explain_cache_miss(self, *args: Any, **kwargs: Any) -> Miss | None:
        """Explain why a call with these arguments would retrace, without running it. Return None if it is cached."""
        args, kwargs, static = self._asked(args, kwargs)
        key, _, _ = self._key(args, kwargs, static)
        return self._explain(key) if self._get(self.cache, key) is None else None

    def explain_cache_hit(self, *args: Any, **kwargs: Any) -> tuple[str, tuple[str, ...]]:
        """Compare the values that a cached call closed over when it was traced with their present values.

        Return the changed values, as text, and the names of values that may have changed.
        """
        args, kwargs, static = self._asked(args, kwargs)
        staged = self._get(self.cache, self._key(args, kwargs, static)[0])
        return ("", ()) if staged is None else _misses().explain_hit(staged.closed)

    def explain_compilation(self, *args: Any, **kwargs: Any) -> str:
        """Explain why the placement of the arguments makes a cached call compile again; '' if it does not."""
        args, kwargs, static = self._asked(args, kwargs)
        key, leaves, _ = self._key(args, kwargs, static)
        staged = self._get(self.cache, key)
        if staged is None:
            return ""
        placement = placement_at(staged, leaves, self.called, self._labels(staged))
        return "" if placement is None else _partitioned.why_again(staged.closed, placement, *staged.how)  # type: ignore[no-any-return]

    def clear_cache(self) -> None:
        """Drop every staged and compiled signature."""
        _misses().note_cleared(self.fun)
        self.cache.clear()
        self.known.clear()

    def _cache_size(self) -> int:
        """The number of distinct calls so far, by signature and by placement of the arguments."""
        return sum(len({*map(_seen_by_jax, staged.met)}) for staged in self.cache.values())

    def __repr__(self) -> str:
        return f"<jit of {self.subject}>"


def _seen_by_jax(call: tuple[tuple[type, ...], tuple[Any, ...]]) -> Any:
    """Return the parts of a ``StagedCall.met`` entry that JAX compares: which leaves are arrays, and their places."""
    kinds, places = call
    return tuple([issubclass(kind, Array) for kind in kinds]), places if any(places) else ()


def _argument_names(jitted: weakref.ref[JitFunction], closed_over: int, in_tree: Any) -> list[str]:
    """Return the names of a program's operands, or [] if the function no longer exists."""
    alive = jitted()
    if alive is None:
        return []
    return [*[f"closed over {i}" for i in range(closed_over)], *leaf_names(alive.fun, in_tree)]


def hashable_tree(given: Any) -> Any:
    """Flatten a tree of hashable leaves into part of a key."""
    leaves, tree = tree_flatten(given, is_leaf=is_none)
    return tuple(leaves), tree


def _spread(shardings: Any, full: Any, which: str) -> list[Any]:
    """Broadcast the prefix ``shardings`` to the leaves of ``full``. Return [] if they are unspecified."""
    if shardings is UNSPECIFIED:
        return []
    leaves = prefix_leaves(shardings, full, name=f"pjit {which}")
    return [_shardings.as_sharding(each, "jit", which) for each in leaves]


def _check_named(sharding: Any, aval: ShapedArray, which: str, subject: str) -> None:
    """Raise ValueError unless an array of this type can have this sharding."""
    sharding.shard_shape(aval.shape)
    if any([isinstance(part, _shardings.Free) for part in getattr(sharding, "spec", ())]):
        raise ValueError(
            f"Unconstrained dims are not allowed when passed to {which}: {sharding}, for {subject}. Use "
            "lax.with_sharding_constraint inside the function."
        )


def _follow_keys(on: bool) -> None:
    from minijax.api import key_reuse

    key_reuse.follow(on)


while_on("debug_key_reuse", functools.partial(_follow_keys, True), functools.partial(_follow_keys, False))


def _signature(key: tuple[Any, ...], in_tree: Any = None) -> CallSignature:
    """Convert a staging-cache key to a ``CallSignature``; ``in_tree`` is the tree of ``(args, kwargs)``."""
    args_tree, kwargs_tree, avals, static, settings, axes = key
    if in_tree is None:
        in_tree = treedef_tuple((args_tree, tree_structure({}) if kwargs_tree is None else kwargs_tree))
    signature = lazy.public("minijax.api.differences", "CallSignature")
    return signature(in_tree, avals, (*static[0], *static[1]) if static else (), settings, axes)


def unhashable_static(static: tuple[Any, ...], subject: str, kind: str) -> Exception:
    """The error for a call of ``subject``, a ``kind`` function, with an unhashable argument among ``static``."""
    for where, type_, value in (*static[0], *static[1]) if static else ():
        try:
            hash(value)
        except TypeError:
            argnums = "static_broadcasted_argnums" if kind == "pmap" else "static_argnums"
            which = f"{argnums}={where}" if isinstance(where, int) else f"static_argnames={where!r}"
            return ValueError(
                f"Non-hashable static arguments are used in a {kind} function: "
                f"{which} of {subject} has value {value!r} of type {type_}. Static arguments are part of the "
                "cache key: pass a hashable value (a tuple in place of a list), or make the argument dynamic."
            )
    return TypeError(f"an argument of {subject} is a tree with unhashable data, so {kind} cannot cache the call")


def lift_constants(closed: ClosedJaxpr, kind: type, last: bool = False) -> tuple[ClosedJaxpr, list[Any]]:
    """Make the constants of class ``kind`` the first (or ``last``) inputs; return the program and these constants."""
    lifted = [isinstance(c, kind) for c in closed.consts]
    if not any(lifted):
        return closed, []
    constvars, variables = partition(lifted, closed.jaxpr.constvars)
    consts, values = partition(lifted, closed.consts)
    invars = closed.jaxpr.invars
    invars = [*invars, *variables] if last else [*variables, *invars]
    return ClosedJaxpr(closed.jaxpr.replace(constvars=constvars, invars=invars), consts), values


def _check_aliases(leaves: Sequence[Any], staged: StagedCall, fun: Any) -> None:
    """Raise ValueError if a reference is passed twice, or if it is passed and also closed over."""
    refs = [i for i, x in enumerate(leaves) if is_ref(x)]
    seen: dict[int, int] = {}
    for i in refs:
        aval = get_aval(leaves[i])
        names = leaf_names(fun, staged.in_tree)
        if any(leaves[i] is r for r in staged.refs):
            raise ValueError(
                f"when tracing {describe(fun)} for jit, a mutable array reference of type {aval} was both closed over "
                f"and passed as the argument {names[i]}. Do one of the two."
            )
        first = seen.setdefault(id(leaves[i]), i)
        if first != i:
            raise ValueError(
                "only one reference to a mutable array may be passed as an argument to a function, but when tracing "
                f"{describe(fun)} for jit the mutable array reference of type {aval} appeared at both {names[first]} "
                f"and {names[i]}. Pass it once."
            )


def jit(
    fun: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    inline: bool = False,
    in_shardings: Any = UNSPECIFIED,
    out_shardings: Any = UNSPECIFIED,
) -> Any:
    """Compile ``fun`` with XLA, once per signature of its arguments (pytrees of arrays). Without ``fun``, a decorator.

    A signature is the trees, shapes, dtypes and weak types of the arguments, and the values of static arguments. The
    compiled function returns what ``fun`` returns, as arrays. While ``fun`` is traced, its arguments are tracers.
    Python side effects happen only during tracing.

    ``static_argnums``, ``static_argnames``: hashable arguments that ``fun`` gets untraced; either option is enough.
    ``donate_argnums``, ``donate_argnames``: arguments whose memory XLA may reuse. ``keep_unused``: also pass arguments
    that ``fun`` does not use. ``inline``: inside a staged function, record the equations instead of a call.
    ``in_shardings``, ``out_shardings``: a ``Sharding``, a ``PartitionSpec`` for the current mesh, None (the compiler
    chooses), or trees of these that are prefixes of the dynamic arguments and of the result.

    A call raises ValueError if a static argument is unhashable, TypeError if another argument or an output is no array,
    TracerBoolConversionError if Python tests a traced value (``if x > 0``), and ConcretizationTypeError if a traced
    value is used as a shape.

    >>> jit(lambda n: jnp.zeros(n), static_argnums=0)(3)
    Array([0., 0., 0.], dtype=float32)
    """
    if fun is None:
        options = locals()
        del options["fun"]
        return functools.partial(jit, **options)
    check_callable(fun)
    for which, given in (("in_shardings", in_shardings), ("out_shardings", out_shardings)):
        if given is not UNSPECIFIED:
            _shardings.check_said(given, "jit", which)
    numbers, names = _infer(fun, static_argnums, static_argnames, "static")
    donated, donated_names = _infer(fun, donate_argnums, donate_argnames, "donate")
    both = {*map(str, {*numbers} & {*donated}), *({*names} & {*donated_names})}
    if both:
        shown = {*names} & {*donated_names} or both
        raise ValueError(
            f"static_argnames and donate_argnames cannot intersect. Argument names {shown} appear in both "
            f"static_argnames and donate_argnames of {describe(fun)}. A static argument has no memory to give away."
        )
    return JitFunction(fun, numbers, names, donated, donated_names, keep_unused, inline, in_shardings, out_shardings)


def _infer(fun: Callable[..., Any], numbers: Any, names: Any, kind: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Derive the names from the positions, or the positions from the names, by ``fun``'s signature."""
    given = () if numbers is None else int_or_ints(numbers, f"{kind}_argnums")
    named = () if names is None else (names,) if isinstance(names, str) else tuple(names)
    if not given and not named:
        return (), ()
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return given, named
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    star = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    double_star = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for i in given:
        if not star and not -len(positional) <= i < len(positional):
            raise ValueError(
                f"Jitted function has {kind}_argnums={given}, but only accepts {len(positional)} positional arguments. "
                f"It is {describe(fun)}; positions count from 0."
            )
    by_name = {p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    unknown = {n for n in named if n not in by_name}
    if unknown and not double_star:
        only_by_position = unknown & {p.name for p in parameters if p.kind is p.POSITIONAL_ONLY}
        why = (
            f"These are positional-only: name them by {kind}_argnums"
            if only_by_position
            else f"Function does not take these args: it is {describe(fun)}"
        )
        raise ValueError(f"Jitted function has invalid argnames {unknown} in {kind}_argnames. {why}.")
    if names is None:
        named = tuple(positional[i].name for i in given if -len(positional) <= i < len(positional))
    elif numbers is None:
        given = tuple(i for i, p in enumerate(positional) if p.name in named)
    return given, named
