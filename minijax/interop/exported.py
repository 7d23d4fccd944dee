"""``to_jax``: turn a function of minijax into one that JAX can trace, jit, differentiate and batch.

It also turns a ``ClosedJaxpr`` of minijax into one of JAX. Minijax stages the function, and JAX evaluates its program
equation by equation. A primitive is evaluated by JAX's primitive with that name, or by the primitive from which it was
borrowed. A user's primitive becomes a new JAX primitive with its minijax rules. Control flow, calls and custom
rules are written by JAX's functions (``export_rules``). This module is the inverse of ``interop.programs``.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from minijax import errors
from minijax.api.flat import describe
from minijax.config import enable_x64, x64_enabled
from minijax.core.array import Array, get_aval
from minijax.core.avals import AnyArray, ShapedArray
from minijax.core.explicit import mesh_of_type
from minijax.core.lazy import HigherModule
from minijax.core.lists import with_items
from minijax.core.meshes import AbstractMesh
from minijax.core.primitive import Primitive
from minijax.core.records import NamedTuple
from minijax.core.trace import Tracer
from minijax.interop.borrowed import BorrowedPrimitive, params_of_jax
from minijax.interop.carrier import Carrier
from minijax.interop.functions import kind_of
from minijax.interop.libraries import JAX, MINIJAX
from minijax.interop.lines import jax_traceback
from minijax.interop.params import params_for_jax
from minijax.interop.programs import jax_primitive
from minijax.interop.traces import traces_of
from minijax.interop.values import abstract_for_jax, jax_module, mesh_of_jax_now, settings, spec_of, to_jax_value
from minijax.interpreters.stage import stage
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn, Literal
from minijax.ops.meshes.reshard import reshard_p

_rules = HigherModule("export_rules")

# rule(eqn, JAX's operands) -> list of JAX's results. ``all_export_rules`` imports the modules that add rules.
ExportRule = Callable[[JaxprEqn, list[Any]], list[Any]]
export_rules: dict[str, ExportRule] = {}


@functools.cache
def all_export_rules() -> dict[str, ExportRule]:
    """Import the modules that add rules; return ``export_rules``."""
    _rules.load()
    return export_rules


class StagedForJax(NamedTuple):
    """The result of staging: the program, and how to assemble its results; like ``functions.TracedByJax``."""

    program: ClosedJaxpr
    out_tree: Any
    statics: Sequence[Any]


def to_jax(fun: Any) -> Any:
    """Turn ``fun``, written for minijax, into a function of JAX's arrays that JAX can transform.

    Args:
      fun: a function of minijax, possibly transformed; or a ``ClosedJaxpr``. Its arguments and results are pytrees in
        JAX's sense. Leaves that are not arrays pass unchanged; numbers are treated as by ``from_jax``.

    Returns:
      A function with the same arguments, whose results are JAX's arrays in the same trees. JAX differentiates it by its
      own rules; only custom rules of ``fun`` and user-defined primitives keep theirs. For a ``ClosedJaxpr``, the result
      is JAX's ``ClosedJaxpr`` of the same program.

    Raises (when it is called):
      NotImplementedError: the program has a primitive that JAX lacks.
    """
    if isinstance(fun, ClosedJaxpr):
        return jax_closed(fun)
    if not callable(fun):
        raise TypeError(f"to_jax expects a function or a ClosedJaxpr of minijax, got {fun!r}.")
    known = traces_of(fun, "to_jax")

    @functools.wraps(fun)
    def exported(*args: Any, **kwargs: Any) -> Any:
        jax = jax_module()
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        if any(isinstance(leaf, Tracer) for leaf in leaves):  # minijax is tracing
            return fun(*args, **kwargs)
        trace = functools.partial(_stage, fun, leaves, tree)
        with _precision_of_jax():
            kinds = [kind_of(x) for x in leaves]
            staged, positions = known.find(leaves, tree, kinds, settings(), trace)
            outs = iter(eval_by_jax(staged.program, *[_value(leaves[i]) for i in positions]))
        full = [next(outs) if static is None else static[0] for static in staged.statics]
        return jax.tree_util.tree_unflatten(staged.out_tree, full)

    return exported


def _precision_of_jax() -> Any:
    """A context in which minijax stages with JAX's setting of 64-bit types."""
    wide = bool(jax_module().config.jax_enable_x64)
    return contextlib.nullcontext() if wide == x64_enabled() else enable_x64(wide)


def _value(x: Any) -> Any:
    return to_jax_value(x) if isinstance(x, Array) else x


def _stage(fun: Callable[..., Any], leaves: list[Any], tree: Any, taken: list[int]) -> StagedForJax:
    tree_util = jax_module("tree_util")
    found: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        args, kwargs = tree_util.tree_unflatten(tree, with_items(leaves, taken, values))
        outs, out_tree = tree_util.tree_flatten(fun(*args, **kwargs))
        statics = [None if isinstance(x, AnyArray) else (x,) for x in outs]
        found[:] = [out_tree, statics]
        return [x for x, static in zip(outs, statics, strict=True) if static is None]

    kinds = [kind_of(leaves[i]) for i in taken]
    pairs = zip(taken, kinds, strict=True)
    avals = [kind if isinstance(kind, ShapedArray) else get_aval(leaves[i]) for i, kind in pairs]
    with mesh_of_jax_now():
        return StagedForJax(stage(flat, avals, describe(fun), label="to_jax"), *found)


def eval_by_jax(closed: ClosedJaxpr, *args: Any) -> list[Any]:
    """Evaluate ``closed`` on ``args``, JAX's arrays or tracers: JAX binds, and thus transforms, each equation."""
    jaxpr = closed.jaxpr
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, _consts(closed), strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    meshes = _meshes(closed)
    for eqn in jaxpr.eqns:
        operands = [_literal(v) if type(v) is Literal else env[v] for v in eqn.invars]
        with _written_at(eqn.source), _mesh_set(meshes.get(id(eqn))):
            outs = _bound(eqn, operands)
        env.update(zip(eqn.outvars, outs, strict=True))
    return [_literal(v) if type(v) is Literal else env[v] for v in jaxpr.outvars]


def _meshes(closed: ClosedJaxpr) -> dict[int, AbstractMesh]:
    """Map the ids of equations to the meshes of their types. The map is {} if no ``reshard`` changes axis types.

    JAX needs the mesh when it writes an equation, since its types contain a mesh.
    """
    if "meshes" in closed.memo:
        return closed.memo["meshes"]  # type: ignore[no-any-return]
    jaxpr, found = closed.jaxpr, dict[int, AbstractMesh]()
    changes = {eqn.params["dst_sharding"].mesh for eqn in jaxpr.eqns if eqn.primitive is reshard_p}
    if len(changes) > 1 or not all(mesh.are_all_axes_explicit for mesh in changes):
        of: dict[Any, AbstractMesh] = {}
        for eqns in (jaxpr.eqns, jaxpr.eqns[::-1], jaxpr.eqns):
            for eqn in eqns:
                variables = [v for v in (*eqn.invars, *eqn.outvars) if type(v) is not Literal]
                of.update((v, mesh) for v in variables if (mesh := mesh_of_type(v.aval)) is not None)
                if eqn.primitive is reshard_p:
                    of[eqn.outvars[0]] = found[id(eqn)] = eqn.params["dst_sharding"].mesh
                    continue
                mesh = next((of[v] for v in variables if v in of), None)
                if mesh is not None:
                    found[id(eqn)] = mesh
                    for v in variables:
                        of.setdefault(v, mesh)
    closed.memo["meshes"] = found
    return found


def _mesh_set(mesh: AbstractMesh | None) -> Any:
    """A context in which JAX writes equations for ``mesh``; if ``mesh`` is None, nothing changes."""
    around = jax_module("sharding").get_abstract_mesh()
    wanted = around if mesh is None or around.manual_axes else abstract_for_jax(mesh)
    same = wanted == around
    return contextlib.nullcontext() if same else jax_module("sharding").use_abstract_mesh(wanted)


class ReadsTracers(Exception):
    """Raised if a function that JAX calls reads ``tracers`` for which JAX has no values."""

    def __init__(self, tracers: list[Tracer]) -> None:
        super().__init__("a function reads tracers")
        self.tracers = tracers


class _Known(threading.local):
    """JAX's values for tracers that exported functions read, by the tracers' ids; None outside of ``reading``."""

    values: dict[int, Any] | None = None


_known = _Known()


@contextlib.contextmanager
def reading(tracers: Sequence[Tracer], values: Sequence[Any]) -> Iterator[None]:
    """A context in which exported functions get ``values`` for ``tracers``. Other tracers raise ``ReadsTracers``."""
    before = _known.values
    _known.values = {**(before or {}), **dict(zip(map(id, tracers), values, strict=True))}
    try:
        yield
    finally:
        _known.values = before


def _consts(closed: ClosedJaxpr) -> list[Any]:
    """The constants as JAX's arrays, cached: JAX reuses its programs if it gets the same arrays."""
    known = _known.values
    if known is not None and any(isinstance(x, Tracer) for x in closed.consts):
        unknown = [x for x in closed.consts if isinstance(x, Tracer) and id(x) not in known]
        if unknown:
            raise ReadsTracers(unknown)
        return [known[id(x)] if isinstance(x, Tracer) else to_jax_value(x) for x in closed.consts]
    if "consts of jax" not in closed.memo:
        # convert immediately, also while JAX is tracing
        with jax_module().ensure_compile_time_eval():
            closed.memo["consts of jax"] = [to_jax_value(x) for x in closed.consts]
    found: list[Any] = closed.memo["consts of jax"]
    return found


def _literal(v: Literal) -> Any:
    return v.val if v.aval.weak_type else np.asarray(v.val, v.aval.dtype)[()]


@contextlib.contextmanager
def _written_at(source: Any) -> Iterator[None]:
    """A context in which JAX's equations get the line and the named scopes of ``source``."""
    names = source[2] if source is not None and len(source) > 2 else ()
    with contextlib.ExitStack() as stack:
        if source is not None:
            stack.enter_context(jax_module("extend.source_info_util").user_context(jax_traceback(source)))
        for name, is_transformation in names:
            if not is_transformation:
                stack.enter_context(jax_module().named_scope(name))
        yield


def _bound(eqn: JaxprEqn, operands: list[Any]) -> list[Any]:
    primitive = eqn.primitive
    if isinstance(primitive, BorrowedPrimitive):
        theirs, params = primitive.theirs, params_of_jax(eqn.params)
    else:
        rule = all_export_rules().get(primitive.name)
        if rule is not None and primitive.defined_at.startswith(errors._PACKAGE):
            return rule(eqn, operands)
        theirs = _counterpart(primitive)
        params = params_for_jax(primitive, eqn.params, jax_closed)
    out = theirs.bind(*operands, **params)
    return list(out) if primitive.multiple_results else [out]


@functools.cache
def _counterpart(primitive: Primitive) -> Any:
    """Return JAX's primitive for a primitive that minijax or the user defined."""
    if not errors.is_user_file(primitive.defined_at.rpartition(":")[0]):
        found = jax_primitive(primitive)
        if found is None:
            raise NotImplementedError(f"{primitive.name}: a primitive of minijax that JAX lacks.")
        return found
    return Carrier(MINIJAX, JAX)(primitive)


def jax_closed(closed: ClosedJaxpr) -> Any:
    """Return JAX's ``ClosedJaxpr`` for one of minijax. Further calls return the same object."""
    key = ("closed of jax", settings())
    if key not in closed.memo:
        fun = named(functools.partial(eval_by_jax, closed), closed.jaxpr.debug_name)
        closed.memo[key] = jax_module().make_jaxpr(fun)(*map(spec_of, closed.in_avals))
    return closed.memo[key]


def named(fun: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap ``fun`` in a function with the name ``name``, which JAX's programs show."""

    def called(*args: Any) -> Any:
        return fun(*args)

    called.__name__ = called.__qualname__ = name or "program"
    return called
