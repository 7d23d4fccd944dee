"""``pmap``: one function on several devices at once, each on its slice of the arguments."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minijax.api import misses
from minijax.api.batching import check_axes, describe_sizes
from minijax.api.compile import open_over_tracers, unhashable_static
from minijax.api.differences import CallSignature, Miss
from minijax.api.flat import FlatFun, check_args, check_callable, describe, fun_name, int_or_ints, named_like
from minijax.backend import pjrt
from minijax.config import trace_key
from minijax.core import late, observe
from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray
from minijax.core.named import NamedTuple
from minijax.core.trace import state
from minijax.interpreters.named_axes import bound_axes
from minijax.interpreters.stage import stage
from minijax.pytree import prefix_leaves, tree_flatten, tree_unflatten

if TYPE_CHECKING:
    from minijax.ops.pmap import PmapProgram

# The primitive's module, with those of the collectives, which the first call of a mapped function brings.
_of_primitive = functools.partial(late.public, "minijax.ops.pmap")
# What the axis is called where the user does not name it.
UNNAMED = "_internal_pmap_axis_name"

# fun -> options -> signature -> StagedPmap, alive as long as the function is
_staged: weakref.WeakKeyDictionary[Any, dict[Any, dict[Any, StagedPmap]]] = weakref.WeakKeyDictionary()

# Beyond this many signatures of one function, the earliest is forgotten.
MAX_SIGNATURES = 4096


class StagedPmap:
    """One signature: what ``pmap_p`` is bound with, the outer tracers that come first, and the output's tree.

    ``program`` is what runs it, once that was made.
    """

    __slots__ = ("params", "outer", "in_tree", "out_tree", "program")

    def __init__(self, params: dict[str, Any], outer: list[Any], in_tree: Any, out_tree: Any) -> None:
        self.params = params
        self.outer = outer
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.program: PmapProgram | None = None


class Options(NamedTuple):
    """The arguments of ``pmap``, made canonical."""

    axis_name: Any
    in_axes: Any
    out_axes: Any
    static: tuple[int, ...]
    donated: tuple[int, ...]
    devices: tuple[Any, ...] | None
    axis_size: int | None


class PmapFunction:
    """What ``pmap`` returns: call it with arguments that have the mapped axis; ``lower`` shows the program."""

    def __init__(self, fun: Callable[..., Any], options: Options) -> None:
        functools.update_wrapper(self, fun, updated=())
        self.__wrapped__ = self.fun = fun
        self.options = options
        self.subject = describe(fun)
        try:
            self.cache = _staged.setdefault(fun, {}).setdefault(options, {})
        except TypeError:  # no weak reference, or no hash: the cache lives with this object
            self.cache = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        staged, leaves = self._find(args, kwargs)
        if staged.program is not None and len(state.stack) == 1 and not observe.bind_watched:
            outs = staged.program(*leaves)
        else:
            outs = _of_primitive("pmap_p").bind(*staged.outer, *leaves, **staged.params)
            if len(state.stack) == 1:
                # made by now; with nothing on the stack there is nothing to ask bind for
                staged.program = _of_primitive("pmap_program")(staged.params)
        return tree_unflatten(staged.out_tree, outs)

    def __repr__(self) -> str:
        return f"<pmap of {self.subject}>"

    def lower(self, *args: Any, **kwargs: Any) -> PmapLowered:
        """Stage, lower and compile at these arguments, without running."""
        staged, _ = self._find(args, kwargs)
        if staged.outer:
            raise TypeError("pmap(f).lower must be called outside of other transformations: f closes over a tracer.")
        return PmapLowered(fun_name(self.fun), staged)

    def _key(
        self, dynamic: tuple[Any, ...], static: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], list[Any]]:
        """The key of a call's signature, and its dynamic leaves."""
        leaves, in_tree = tree_flatten((dynamic, kwargs))
        try:
            avals = tuple([x.aval for x in leaves])
        except AttributeError:
            avals = (None,)
        if not all([type(aval) is ShapedArray for aval in avals]):
            leaves = check_args(leaves, "pmap", self._with_static(static), in_tree)
            avals = tuple(map(get_aval, leaves))
        return (in_tree, avals, static, trace_key(), state.axis_env), leaves

    def _find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[StagedPmap, list[Any]]:
        dynamic, static, in_axes = self._split(args)
        key, leaves = self._key(dynamic, static, kwargs)
        in_tree, avals, *_ = key
        cache = observe.staging_cache(self.cache) if observe.observers else self.cache
        staged = self._get(cache, key)
        if staged is None or observe.on_cache:
            found = None if staged is None else staged.params["jaxpr"]
            begun = misses.announce("staging", self.fun, key, found, self._explain)
        if staged is None:
            axes = self._in_axes(in_axes, dynamic, leaves)
            local, total = self._sizes(leaves, axes, in_tree, static)
            params, outer, out_tree = self._stage(in_tree, avals, axes, local, total, static)
            params["donated_invars"] = (*[False] * len(outer), *self._donated(len(args), dynamic, kwargs))
            staged = StagedPmap(params, outer, in_tree, out_tree)
            misses.store(cache, key, staged, params["jaxpr"], outer, self.fun, "pmap", MAX_SIGNATURES, begun)
        return staged, leaves

    def explain_cache_miss(self, *args: Any, **kwargs: Any) -> Miss | None:
        """Why a call with these arguments would be traced; None if it is cached. Nothing is run."""
        dynamic, static, _ = self._split(args)
        key, _ = self._key(dynamic, static, kwargs)
        return self._explain(key) if self._get(self.cache, key) is None else None

    def explain_cache_hit(self, *args: Any, **kwargs: Any) -> tuple[str, tuple[str, ...]]:
        """As that of ``jit``: what is to be said of a call that is cached."""
        dynamic, static, _ = self._split(args)
        staged = self._get(self.cache, self._key(dynamic, static, kwargs)[0])
        return ("", ()) if staged is None else misses.explain_hit(staged.params["jaxpr"])

    def _get(self, cache: dict[Any, StagedPmap], key: tuple[Any, ...]) -> StagedPmap | None:
        try:
            return cache.get(key)
        except TypeError:
            raise unhashable_static((key[2], ()), self.subject, "pmapped") from None

    def _explain(self, key: tuple[Any, ...], reprs: bool = True) -> Miss:
        """Why ``key`` was not found: what differs from the nearest earlier signature."""
        if key in self.cache:
            return misses.RETRACED
        earlier = [CallSignature(*each) for each, _ in misses.latest(self.cache)]
        signature = CallSignature(*key)
        with_static = self._with_static(signature.static)
        return misses.explain(
            self.fun, key, signature, earlier, "pmap", with_static, reprs=reprs, known=len(self.cache)
        )

    def _stage(
        self, in_tree: Any, avals: Sequence[Any], axes: Sequence[int | None], local: int, total: int, static: Any
    ) -> tuple[dict[str, Any], list[Any], Any]:
        """The parameters of the call, the outer tracers it closes over, and the tree of its output."""
        options, name = self.options, fun_name(self.fun)
        flat = FlatFun(self._with_static(static), in_tree, "pmap", subject=self.subject)
        with observe.timed("trace", name), bound_axes([(options.axis_name, total)]):
            inner = [_of_primitive("removed")(aval, axis) for aval, axis in zip(avals, axes, strict=True)]
            closed, outer = open_over_tracers(stage(flat, inner, self.subject, label="pmap"))
        params = {
            "axis_name": options.axis_name,
            "axis_size": local,
            "global_axis_size": total,
            "in_axes": (*[None] * len(outer), *axes),
            "out_axes": self._out_axes(flat, closed.out_avals),
            "name": name,
            "jaxpr": closed,
            "devices": options.devices,
        }
        return params, outer, flat.out_tree

    def _donated(self, n_args: int, dynamic: tuple[Any, ...], kwargs: dict[str, Any]) -> list[bool]:
        statics = {i % n_args for i in self.options.static}
        donates = {i % n_args for i in self.options.donated if -n_args <= i < n_args}
        flags: list[bool] = []
        for place, arg in zip([i for i in range(n_args) if i not in statics], dynamic, strict=True):
            flags += [place in donates] * len(tree_flatten(arg)[0])
        return flags + [False] * len(tree_flatten(kwargs)[0])

    def _split(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...], Any]:
        """The dynamic arguments, the static ones as part of the key, and ``in_axes`` without theirs."""
        numbers, in_axes = self.options.static, self.options.in_axes
        if not numbers:
            return args, (), in_axes
        if max(numbers) >= len(args):
            raise ValueError(
                f"pmapped function has static_broadcasted_argnums={numbers} but was called with only {len(args)} "
                f"positional argument{'s' if len(args) > 1 else ''}. All static broadcasted arguments must be passed "
                "positionally."
            )
        at = {i % len(args) for i in numbers}
        if isinstance(in_axes, tuple):
            in_axes = tuple(axis for i, axis in enumerate(in_axes) if i not in at)
        static = tuple((i, type(args[i]), args[i]) for i in sorted(at))
        return tuple(arg for i, arg in enumerate(args) if i not in at), static, in_axes

    def _with_static(self, static: tuple[Any, ...]) -> Callable[..., Any]:
        if not static:
            return self.fun
        at = {i: value for i, _, value in static}

        def fun_of_dynamic(*args: Any, **kwargs: Any) -> Any:
            given = iter(args)
            return self.fun(*[at[i] if i in at else next(given) for i in range(len(args) + len(at))], **kwargs)

        return named_like(fun_of_dynamic, self.fun, at)

    def _in_axes(self, in_axes: Any, args: tuple[Any, ...], leaves: Sequence[Any]) -> tuple[int | None, ...]:
        try:
            axes = prefix_leaves(in_axes, args, name="pmap in_axes")
        except ValueError as error:
            raise ValueError(
                f"{error}\npmap in_axes must be a tree prefix of the tuple of positional arguments; arguments passed "
                "by keyword are mapped over their leading axis."
            ) from None
        axes += [0] * (len(leaves) - len(axes))
        return tuple(_canonical(x, axis) for x, axis in zip(leaves, axes, strict=True))

    def _out_axes(self, flat: FlatFun, out_avals: Sequence[Any]) -> tuple[int | None, ...]:
        try:
            axes = prefix_leaves(self.options.out_axes, flat.out_tree, name="pmap out_axes")
        except ValueError as error:
            raise ValueError(f"{error}\npmap out_axes must be a tree prefix of the function's output.") from None
        found: list[int | None] = []
        for axis, aval in zip(axes, out_avals, strict=True):
            if axis is not None and not -aval.ndim - 1 <= axis <= aval.ndim:
                raise ValueError(
                    f"axis {axis} is out of bounds for array of dimension {aval.ndim + 1}: pmap out_axes must fit "
                    "every output, with the mapped axis counted."
                )
            found.append(None if axis is None else axis % (aval.ndim + 1))
        return tuple(found)

    def _sizes(
        self, leaves: Sequence[Any], axes: Sequence[int | None], in_tree: Any, static: tuple[Any, ...]
    ) -> tuple[int, int]:
        """How many instances this process has, and how many there are."""
        sizes = {get_aval(x).shape[axis] for x, axis in zip(leaves, axes, strict=True) if axis is not None}
        if not sizes:
            raise ValueError("pmap requires at least one argument with a mapped axis.")
        if len(sizes) > 1:
            raise ValueError(describe_sizes("pmap", self._with_static(static), in_tree, leaves, axes))
        local = sizes.pop()
        given, devices = self.options.axis_size, self.options.devices
        processes = pjrt.process_count()
        if processes == 1:
            total = local
            if given is not None and given != local:
                raise ValueError(f"Specified axis_size {given} doesn't match received axis_size {local}.")
            if devices is not None and len(devices) != local:
                raise ValueError(
                    f"pmap was given {len(devices)} devices for a mapped axis of size {local}: leave devices out, or "
                    "give one for each instance."
                )
            return local, total
        total = given if given is not None else local * processes if devices is None else len(devices)
        mine = sum(map(pjrt.is_local, pjrt.program_devices(total, devices)))
        if mine != local:
            raise ValueError(
                f"pmap over {total} devices, {mine} of which belong to this process, got a mapped axis of size "
                f"{local}: each process passes one slice for each of its own devices."
            )
        return local, total


def _canonical(x: Any, axis: int | None) -> int | None:
    if axis is None:
        return None
    shape = get_aval(x).shape
    if not -len(shape) <= axis < len(shape):
        raise ValueError(
            f"pmap was requested to map its argument along axis {axis}, which implies that its rank should be at least "
            f"{axis + 1 if axis >= 0 else -axis}, but is only {len(shape)} (its shape is {shape})"
        )
    return axis % len(shape)


class PmapLowered:
    """The program of a pmapped function: ``as_text()`` shows the StableHLO, ``compile().as_text()`` the HLO."""

    def __init__(self, name: str, staged: StagedPmap) -> None:
        self.fun_name = name
        self.params = staged.params
        self.jaxpr = staged.params["jaxpr"]
        self.in_tree = staged.in_tree

    def as_text(self, dialect: str | None = None) -> str:
        """The module, for one replica, as MLIR text. ValueError for a dialect other than 'stablehlo'."""
        if dialect not in (None, "stablehlo"):
            raise ValueError(f"unknown dialect {dialect!r}: minijax lowers to 'stablehlo'")
        return _of_primitive("pmap_program")(self.params).text

    def compile(self) -> PmapCompiled:
        """The program compiled by XLA."""
        return PmapCompiled(self)


class PmapCompiled:
    """A compiled pmapped program; shows its HLO, costs and memory, all of one replica."""

    def __init__(self, lowered: PmapLowered) -> None:
        self._executable = _of_primitive("pmap_program")(lowered.params).executable

    def as_text(self) -> str:
        """The optimised HLO."""
        return self._executable.hlo_text()

    def cost_analysis(self) -> dict[str, Any]:
        """XLA's estimates: flops, bytes accessed, ..."""
        return self._executable.cost_analysis()

    def memory_analysis(self) -> Any:
        """XLA's memory plan."""
        return self._executable.memory_analysis()


def pmap(
    fun: Callable[..., Any],
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> PmapFunction:
    """``fun`` compiled by XLA for several devices and run on all of them at once, each on one slice of the arguments.

    Results stay on the devices, one slice on each; another ``pmap`` takes them from there. With several processes (see
    ``minijax.distributed``) each passes the slices for its own devices and gets back their results.

    Args:
      fun: a function of pytrees of arrays, written for one slice. Collectives of ``minijax.lax`` talk to the others.
      axis_name: a name for the axis, for collectives.
      in_axes: the axis to map of each positional argument: an int, None for "the same for all", or pytrees of these
        that are prefixes of the arguments. Keyword arguments are mapped along axis 0.
      out_axes: likewise for the outputs; None takes the first device's value, which should be the same for all.
      static_broadcasted_argnums: positional arguments passed to ``fun`` as they are; hashable.
      devices: the devices to run on, one for each slice; the first ones by default.
      backend: the platform's name, if it is to be checked.
      axis_size: the number of slices in all processes, if it is to be checked.
      donate_argnums: positional arguments whose memory XLA may reuse.

    Raises:
      ValueError, when called: more slices than devices; axes that do not fit the arguments; sizes that differ.
      TypeError: an argument or an output is no array, or ``in_axes`` holds something else than ints.
    """
    check_callable(fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    check_axes(in_axes, out_axes, "pmap")
    if devices is not None:
        devices = tuple(devices)
        if not devices:
            raise ValueError("'devices' argument to pmap must be non-empty, or None.")
    if backend is not None and backend != pjrt.platform():
        raise RuntimeError(f"Unknown backend {backend}: programs run on {pjrt.platform()!r} here.")
    options = Options(
        UNNAMED if axis_name is None else axis_name,
        in_axes,
        out_axes,
        int_or_ints(static_broadcasted_argnums, "static_broadcasted_argnums"),
        int_or_ints(donate_argnums, "donate_argnums"),
        devices,
        axis_size,
    )
    return PmapFunction(fun, options)
