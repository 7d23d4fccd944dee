"""``checkpoint`` (also ``remat``): reverse mode saves the values that a policy selects, and recomputes the others."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from minijax import errors
from minijax.api.autodiff import linearize_flat
from minijax.api.bodies import stage_body
from minijax.api.flat import FlatFun, avals_of, check_args, check_callable, describe, leaf_names, named_like
from minijax.core.avals import ShapedArray
from minijax.core.records import Frozen
from minijax.interpreters.stage import stage
from minijax.ir.jaxpr import Jaxpr, JaxprEqn, Literal
from minijax.ops.checkpoint import name_p, nothing_saveable, remat_p
from minijax.ops.convert import reduce_precision_p
from minijax.ops.dot import dot_general_p
from minijax.ops.subjaxprs import hoist_consts
from minijax.pytree import tree_flatten, tree_map, tree_unflatten
from minijax.pytree.prefix import broadcast_prefix

# Beyond this many combinations of one function's static arguments, the earliest is dropped.
MAX_STATIC = 256


def checkpoint(
    fun: Callable[..., Any],
    *,
    prevent_cse: bool | Sequence[Any] = True,
    policy: Callable[..., Any] | None = None,
    static_argnums: int | tuple[int, ...] = (),
) -> Callable[..., Any]:
    """Like ``fun``, but reverse mode saves only the inputs and what ``policy`` allows, and recomputes other values.

    Values and gradients are those of ``fun``. The backward pass needs less memory and repeats computations. Without
    ``policy`` only the inputs are saved.

    ``prevent_cse``: keep XLA under ``jit`` from merging the first computation of a value with its repetition. It is a
    bool, or a tuple that is a prefix of the arguments. A ``scan`` does not need it. ``policy(primitive, *avals,
    **params) -> bool``: whether results may be saved; see ``checkpoint_policies``. ``static_argnums``: positions of
    arguments that pass unchanged.

    TypeError for arguments of the wrong type, ValueError for a static position out of range.

    >>> grad(checkpoint(lambda x: jnp.sin(x) * 2.))(0.)
    Array(2., dtype=float32, weak_type=True)
    """
    check_callable(fun)
    if not isinstance(prevent_cse, bool):
        if not isinstance(prevent_cse, Sequence) or isinstance(prevent_cse, str):
            raise TypeError(f"prevent_cse must be a bool or tuple of bools, got {type(prevent_cse)=}")
        prevent_cse = tuple(prevent_cse)
    if policy is not None and not callable(policy):
        raise TypeError(
            f"the policy of jax.checkpoint must be callable, got {policy!r} of type {type(policy)}; see "
            "checkpoint_policies."
        )
    static = _static_positions(static_argnums)
    # static values -> the function of the other arguments: always the same object, so that it is staged once
    partials: dict[Any, Callable[..., Any]] = {}

    @functools.wraps(fun)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        dynamic, of_dynamic = (args, fun) if not static else _fix_static(fun, static, args, partials)
        leaves, in_tree = tree_flatten((dynamic, kwargs))
        leaves = check_args(leaves, "checkpoint", of_dynamic, in_tree)
        body = _stage(of_dynamic, in_tree, avals_of(leaves))
        jaxpr, consts = hoist_consts(body.closed)
        cse: Any = prevent_cse
        if isinstance(cse, tuple):
            spread = broadcast_prefix(cse, (dynamic, kwargs) if kwargs else dynamic)
            cse = (False,) * len(consts) + tuple(spread)
        outs = remat_p.bind(*consts, *leaves, jaxpr=jaxpr, prevent_cse=cse, differentiated=False, policy=policy)
        return tree_unflatten(body.out_tree, outs)

    return checkpointed


remat = checkpoint


def _static_positions(static_argnums: Any) -> tuple[int, ...]:
    numbers = (static_argnums,) if isinstance(static_argnums, int) else static_argnums
    if isinstance(numbers, tuple) and all(isinstance(i, int) for i in numbers):
        return numbers
    raise TypeError(
        "the `static_argnums` argument to `jax.checkpoint` / `jax.remat` must be an int or a tuple of ints, but got "
        f"value {static_argnums!r}"
    )


def _fix_static(
    fun: Callable[..., Any],
    static: tuple[int, ...],
    args: tuple[Any, ...],
    partials: dict[Any, Callable[..., Any]],
) -> tuple[tuple[Any, ...], Callable[..., Any]]:
    """Return the dynamic arguments, and ``fun`` as a function of them."""
    n = len(args)
    if not all(-n <= i < n for i in static):
        raise ValueError(
            "the `static_argnums` argument to `jax.checkpoint` / `jax.remat` can only take integer values greater "
            f"than or equal to `-len(args)` and less than `len(args)`, but got {static}, while `len(args)` = {n}"
        )
    at = {i % n: args[i] for i in static}
    dynamic = tuple(x for i, x in enumerate(args) if i not in at)

    def of_dynamic(*values: Any, **kwargs: Any) -> Any:
        given = iter(values)
        return fun(*[at[i] if i in at else next(given) for i in range(n)], **kwargs)

    named_like(of_dynamic, fun, at)
    try:
        key = n, tuple((i, type(x), x) for i, x in sorted(at.items()))
        found = partials.get(key)
    except TypeError:  # unhashable, such as a tracer
        return dynamic, of_dynamic
    if found is None:
        if len(partials) >= MAX_STATIC:
            del partials[next(iter(partials))]
        found = partials[key] = of_dynamic
    return dynamic, found


def _stage(fun: Callable[..., Any], in_tree: Any, avals: Sequence[ShapedArray]) -> Any:
    try:
        return stage_body(fun, in_tree, avals, "checkpoint")
    except errors.ConcretizationTypeError as error:
        (message,) = error.args
        if "for checkpoint" in message:
            error.args = (
                f"{message}\nConsider using the `static_argnums` parameter for `jax.remat` or `jax.checkpoint`, which "
                "passes the argument as it is.",
            )
        raise


def checkpoint_name(x: Any, name: str) -> Any:
    """Mark ``x``, an array or a pytree of arrays, with ``name`` for policies that save by name."""
    return tree_map(lambda leaf: name_p.bind(leaf, name=name), x)


def everything_saveable(*args: Any, **params: Any) -> bool:
    """Save every value that is needed, as without ``checkpoint``."""
    return True


class DotsSaveable(Frozen):
    """A policy that saves results of matrix products, or only of products without batch dimensions."""

    only_if_no_batch_dims: bool

    def __call__(self, prim: Any, *args: Any, **params: Any) -> bool:
        return prim is dot_general_p and not (self.only_if_no_batch_dims and any(params["dimension_numbers"][1]))


class SaveOnlyTheseNames(Frozen):
    """A policy that saves values with one of these names (``checkpoint_name``)."""

    saveable_names: frozenset[str]

    def __call__(self, prim: Any, *args: Any, **params: Any) -> bool:
        return prim is name_p and params["name"] in self.saveable_names


class SaveAnyNamesButThese(Frozen):
    """A policy that saves named values whose name is not among these (``checkpoint_name``)."""

    names: frozenset[str]

    def __call__(self, prim: Any, *args: Any, **params: Any) -> bool:
        return prim is name_p and params["name"] not in self.names


def save_only_these_names(*names_which_can_be_saved: str) -> SaveOnlyTheseNames:
    """A policy that saves only values with one of these names (``checkpoint_name``)."""
    return SaveOnlyTheseNames(frozenset(names_which_can_be_saved))


def save_any_names_but_these(*names_not_to_save: str) -> SaveAnyNamesButThese:
    """A policy that saves only values whose name is not among these (``checkpoint_name``)."""
    return SaveAnyNamesButThese(frozenset(names_not_to_save))


def save_anything_except_these_names(*names_not_to_save: str) -> Callable[..., bool]:
    """A policy that saves everything, as in JAX. JAX's policy excludes only the naming of a value; it allows the
    equation that computes the value.
    """
    return lambda *args, **params: True


def save_from_both_policies(policy_1: Callable[..., Any], policy_2: Callable[..., Any]) -> Callable[..., bool]:
    """A policy that saves a value if either policy does. ValueError if a policy does not return a boolean."""

    def policy(prim: Any, *args: Any, **params: Any) -> bool:
        first, second = policy_1(prim, *args, **params), policy_2(prim, *args, **params)
        if not (isinstance(first, bool) and isinstance(second, bool)):
            raise ValueError(
                f"The return value of the policies should be a boolean. Got: {first} and {second}. Write one policy "
                "function that combines them as you need."
            )
        return first or second

    return policy


def _refuses_to_offload(name: str) -> Callable[..., Any]:
    def offload(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"checkpoint_policies.{name}: offloading moves values between a device's memories, and devices have one "
            "memory here. Save the values (save_only_these_names, dots_saveable) or recompute them."
        )

    offload.__name__ = offload.__qualname__ = name
    return offload


_dots_saveable, _unbatched_dots_saveable = DotsSaveable(False), DotsSaveable(True)
checkpoint_policies = types.SimpleNamespace(
    everything_saveable=everything_saveable,
    nothing_saveable=nothing_saveable,
    dots_saveable=_dots_saveable,
    checkpoint_dots=_dots_saveable,
    dots_with_no_batch_dims_saveable=_unbatched_dots_saveable,
    checkpoint_dots_with_no_batch_dims=_unbatched_dots_saveable,
    offload_dot_with_no_batch_dims=_refuses_to_offload("offload_dot_with_no_batch_dims"),
    save_anything_except_these_names=save_anything_except_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_only_these_names=save_only_these_names,
    save_from_both_policies=save_from_both_policies,
    save_and_offload_only_these_names=_refuses_to_offload("save_and_offload_only_these_names"),
)


def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[ShapedArray, str]]:
    """Return the type and the origin, as text, of each value that reverse mode saves for ``f`` at these arguments."""
    check_callable(f)
    leaves, in_tree = tree_flatten((args, kwargs))
    leaves = check_args(leaves, "saved_residuals", f, in_tree)
    flat = FlatFun(f, in_tree, "saved_residuals")
    literals: dict[int, Literal] = {}

    def residuals(*values: Any) -> list[Any]:
        closed = linearize_flat(flat, values, [True] * len(values), describe(f))[1].closed()
        literals.update({id(v): v for e in closed.eqns for v in e.invars if type(v) is Literal})
        return closed.consts

    jaxpr = stage(residuals, avals_of(leaves), describe(f), label="saved_residuals").jaxpr
    return [(v.aval, "from a literal") for v in literals.values()] + _sources(jaxpr, leaf_names(f, in_tree))


def _sources(jaxpr: Jaxpr, names: Sequence[str]) -> list[tuple[ShapedArray, str]]:
    """The origin of each output of ``jaxpr``."""
    # a value that was rounded for saving is described by the equation that computed it
    rounded = {e.outvars[0]: e.invars[0] for e in jaxpr.eqns if e.primitive is reduce_precision_p}
    wanted = {rounded.get(v, v) for v in jaxpr.outvars}
    found = [(v.aval, "from a constant") for v in jaxpr.constvars if v in wanted]
    found += [(v.aval, f"from the argument {name}") for v, name in zip(jaxpr.invars, names, strict=True) if v in wanted]
    for eqn in jaxpr.eqns:
        found += [(v.aval, _origin(eqn)) for v in eqn.outvars if v in wanted]
    return found


def _origin(eqn: JaxprEqn) -> str:
    where = errors.summarize(eqn.source)
    if eqn.primitive is name_p:
        return f"named '{eqn.params['name']}' from {where}"
    if eqn.primitive.name == "jit":
        return f"output of jitted function '{eqn.params['name']}' from {where}"
    return f"output of {eqn.primitive.name} from {where}"


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print the values that reverse mode saves between the forward and backward pass of ``f`` at these arguments."""
    for aval, source in saved_residuals(f, *args, **kwargs):
        sys.stdout.write(f"{aval.str_short(short_dtypes=True)} {source}\n")
