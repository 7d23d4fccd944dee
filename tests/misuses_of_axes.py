"""Callbacks, solvers, named axes and devices used wrongly. More rows of the table in ``misuses``."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from .misuses import BOOL, X3, X4, misuse

ONE = np.float32(1.0)


# --- callbacks ---------------------------------------------------------------------------------------------

F3 = np.zeros(3, np.float32)


def io_callback(ns: Any) -> Any:
    """``io_callback`` of this library."""
    return importlib.import_module(ns.__name__ + ".experimental").io_callback


def raising(x: Any) -> Any:
    """A callback that fails."""
    raise ValueError("the callback says no")


@misuse(ours="TypeError", advice=("Expected a callable value, got 3",))
def pure_callback_of_a_number(ns):
    ns.pure_callback(3, F3, X3)


@misuse("float", "has no attribute 'dtype'", advice=("ShapeDtypeStruct",))
def pure_callback_without_result_types(ns):
    ns.pure_callback(np.sin, float, X3)


@misuse(
    "result_shape_dtypes cannot specify 64-bit types when `jax_enable_x64` is disabled", advice=("float64", "32-bit")
)
def pure_callback_of_64_bits(ns):
    ns.pure_callback(lambda x: np.float64(x), np.zeros(3, np.float64), X3)


@misuse("'sequential'", "'broadcast_all'", "but got: fast")
def pure_callback_with_an_unknown_vmap_method(ns):
    ns.pure_callback(np.sin, F3, X3, vmap_method="fast")


@misuse(
    "vmap is only supported for the pure_callback primitive when vmap_method is one of",
    "Got vmap_method=None",
    advice=("Pass vmap_method=",),
)
def pure_callback_under_vmap(ns):
    ns.vmap(lambda x: ns.pure_callback(np.sin, np.float32(0), x))(X3)


@misuse("Pure callbacks do not support JVP. Please use `jax.custom_jvp`")
def pure_callback_under_grad(ns):
    ns.grad(lambda x: ns.pure_callback(np.sin, np.float32(0), x))(1.0)


@misuse(
    "Error interpreting argument to pure_callback as a JAX value. The problematic value is of type <class 'str'>",
    "at position 0",
    advice=("Pass an array",),
)
def pure_callback_given_text(ns):
    ns.pure_callback(lambda x: X3, F3, "hello")


@misuse("Incorrect output shape for return value #0: Expected: (3,), Actual: (4,)", advice=("result_shape_dtypes",))
def pure_callback_of_another_shape(ns):
    ns.pure_callback(lambda x: X4, F3, X3)


@misuse("Incorrect output dtype for return value #0: Expected: float32, Actual: int32")
def pure_callback_of_another_dtype(ns):
    ns.pure_callback(lambda x: np.ones(3, np.int32), F3, X3)


@misuse("ValueError: the callback says no", "in raising", advice=("misuses_of_axes.py",))
def pure_callback_that_fails_under_jit(ns):
    ns.jit(lambda x: ns.pure_callback(raising, F3, x))(X3).block_until_ready()


@misuse("IO callbacks do not support JVP")
def io_callback_under_grad(ns):
    ns.grad(lambda x: io_callback(ns)(np.sin, np.float32(0), x))(1.0)


@misuse("Cannot `vmap` ordered IO callback", advice=("ordered=False",))
def ordered_io_callback_under_vmap(ns):
    ns.vmap(lambda x: io_callback(ns)(np.sin, np.float32(0), x, ordered=True))(X3)


@misuse("index out of range")
def debug_print_without_its_argument(ns):
    ns.jit(lambda x: ns.debug.print("{}"))(1.0)


@misuse("Unused keyword arguments to `jax.debug.print`: ['x']", advice=("Name each",))
def debug_print_with_an_unused_keyword(ns):
    ns.jit(lambda x: ns.debug.print("x", x=x))(1.0)


@misuse("expected str, got")
def debug_print_of_a_value(ns):
    ns.jit(lambda x: ns.debug.print(x))(1.0)


@misuse("unsupported format string passed to", "Tracer.__format__", advice=("debug.print('{x:.3f}', x=x)",))
def debug_print_of_a_formatted_string(ns):
    ns.jit(lambda x: ns.debug.print(f"{x:.3f}"))(1.0)


@misuse("debug.callback must be callable, but got an object of type <class 'int'>")
def debug_callback_of_a_number(ns):
    ns.debug.callback(3, 1.0)


# --- custom_linear_solve, custom_root ----------------------------------------------------------------------


def divided(matvec: Any, b: Any) -> Any:
    """The solution of a diagonal system whose diagonal is constant."""
    return b / 2.0


@misuse(advice=("not linear", "mul", "matvec"))
def linear_solve_of_a_nonlinear_function(ns):
    ns.grad(lambda b: ns.lax.custom_linear_solve(lambda x: x * x, b, divided, divided).sum())(X3)


@misuse("solve() output shapes must match b, got [()] and [(3,)]")
def linear_solve_gives_another_shape(ns):
    ns.lax.custom_linear_solve(lambda x: 2.0 * x, X3, lambda mv, b: b.sum())


@misuse("matvec() output shapes must match b, got [()] and [(3,)]")
def linear_solve_matvec_gives_another_shape(ns):
    ns.lax.custom_linear_solve(lambda x: x.sum(), X3, divided)


@misuse(
    "transpose_solve required for backwards mode automatic differentiation of custom_linear_solve",
    advice=("symmetric=True",),
)
def linear_solve_without_transpose_solve(ns):
    ns.grad(lambda b: ns.lax.custom_linear_solve(lambda x: 2.0 * x, b, divided).sum())(X3)


@misuse(advice=("has_aux was set to True",))
def linear_solve_without_auxiliary_output(ns):
    ns.lax.custom_linear_solve(lambda x: 2.0 * x, X3, divided, has_aux=True)


@misuse("callable")
def linear_solve_with_a_number_for_a_function(ns):
    ns.lax.custom_linear_solve(3, X3, divided)


@misuse("'hello' of type <class 'str'>", "is not a valid JAX type", advice=("argument b",))
def linear_solve_of_text(ns):
    ns.lax.custom_linear_solve(lambda x: x, "hello", divided)


@misuse("solve() output pytree structure must match initial_guess, got PyTreeDef((*, *)) and PyTreeDef(*)")
def root_solve_gives_another_tree(ns):
    ns.lax.custom_root(lambda x: x - 1, ONE, lambda f, x: (x, x), lambda g, y: y / g(ONE))


@misuse("tangent_solve() output pytree structure must match x, got PyTreeDef((*, *)) and PyTreeDef(*)")
def root_tangent_solve_gives_another_tree(ns):
    ns.lax.custom_root(lambda x: x - 1, ONE, lambda f, x: x, lambda g, y: (y, y))


@misuse("solve() produced a pytree with structure PyTreeDef(*)", "has_aux was set to True")
def root_without_auxiliary_output(ns):
    ns.lax.custom_root(lambda x: x - 1, ONE, lambda f, x: x, lambda g, y: y / g(ONE), has_aux=True)


# --- named axes --------------------------------------------------------------------------------------------


@misuse("unbound axis name: batch", advice=("Did you mean batches?",))
def psum_over_a_misspelt_name(ns):
    ns.vmap(lambda x: ns.lax.psum(x, "batch"), axis_name="batches")(X3)


def over_devices(ns: Any, divided: str | None = None, **said: Any) -> tuple[Any, Any]:
    """A mesh of one device along ``data``, and a spec: ``divided`` is of the first dimension, ``said`` of sums."""
    sharding = importlib.import_module(ns.__name__ + ".sharding")
    return ns.make_mesh((1,), ("data",)), sharding.PartitionSpec(divided, **said)


def named_sharding(ns: Any, mesh: Any, spec: Any) -> Any:
    """``NamedSharding`` of this library."""
    return importlib.import_module(ns.__name__ + ".sharding").NamedSharding(mesh, spec)


@misuse("Resource axis: dta of", "is not found in mesh: ('data',)", advice=("Did you mean data?",))
def sharding_along_a_misspelt_axis(ns):
    named_sharding(ns, *over_devices(ns, divided="dta"))


@misuse("has duplicate entries for `data`", advice=("Leave out all but one",))
def sharding_along_an_axis_twice(ns):
    mesh, spec = over_devices(ns, divided="data")
    named_sharding(ns, mesh, spec + spec)


@misuse("Unreduced axes dta is not found in mesh.axis_names=('data',)", advice=("Did you mean data?",))
def sums_along_a_misspelt_axis(ns):
    named_sharding(ns, *over_devices(ns, unreduced={"dta"}))


@misuse("in_specs", "to an axis marked as manual", "dta", advice=("the mesh does not have", "Did you mean data?"))
def shard_map_along_a_misspelt_axis(ns):
    mesh, spec = over_devices(ns, divided="dta")
    ns.shard_map(lambda x: x, mesh=mesh, in_specs=spec, out_specs=spec)(X3)


@misuse("{'dta'}", "to be a subset of mesh.axis_names", advice=("Did you mean data?",))
def shard_map_by_a_misspelt_axis(ns):
    mesh, spec = over_devices(ns)
    ns.shard_map(lambda x: x, mesh=mesh, in_specs=spec, out_specs=spec, axis_names={"dta"})(X3)


@misuse("unbound axis name: i", advice=("mapped by vmap or pmap",))
def psum_outside(ns):
    ns.lax.psum(X3, "i")


@misuse("unbound axis name: i", advice=("mapped by vmap or pmap",))
def axis_index_outside(ns):
    ns.lax.axis_index("i")


@misuse("axis_index_groups not supported in vmap collectives", advice=("pmap",))
def psum_in_groups_under_vmap(ns):
    ns.vmap(lambda x: ns.lax.psum(x, "i", axis_index_groups=[[0, 1], [2]]), axis_name="i")(X3)


@misuse("axis_index_groups must cover all indices exactly once")
def psum_in_groups_that_overlap(ns):
    ns.vmap(lambda x: ns.lax.psum(x, "i", axis_index_groups=[[0, 1], [1, 2]]), axis_name="i")(X3)


@misuse("ppermute sources and destinations must be unique, got ((0, 0), (0, 0))")
def ppermute_to_one_twice(ns):
    ns.pmap(lambda x: ns.lax.ppermute(x, "i", [(0, 0), (0, 0)]), axis_name="i")(X3[:1])


@misuse("`perm` does not represent a permutation: [0, 0, 1]")
def pshuffle_by_a_non_permutation(ns):
    ns.vmap(lambda x: ns.lax.pshuffle(x, "i", [0, 0, 1]), axis_name="i")(X3)


@misuse("all_to_all requires the size of the mapped axis axis_name to equal x.shape[split_axis], but they are 3 and 4")
def all_to_all_of_another_size(ns):
    ns.vmap(lambda x: ns.lax.all_to_all(x, "i", 0, 0), axis_name="i")(np.ones((3, 4), np.float32))


@misuse("reduce_scatter operand scatter dimension size 4 must match shard count 1")
def psum_scatter_of_another_size(ns):
    ns.pmap(lambda x: ns.lax.psum_scatter(x, "i"), axis_name="i")(np.ones((1, 4), np.float32))


@misuse("Differentiation rule for 'pmax' not implemented")
def derivative_of_pmax(ns):
    ns.grad(lambda x: ns.vmap(lambda y: ns.lax.pmax(y, "i"), axis_name="i")(x).sum())(X3)


# --- pmap --------------------------------------------------------------------------------------------------


@misuse(*BOOL, here=True, advice=("<lambda> at", "for pmap", "the argument x"))
def truth_value_in_a_pmap(ns):
    ns.pmap(lambda x: x if x > 0 else -x)(np.ones(1, np.float32))
