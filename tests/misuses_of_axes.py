"""Callbacks, solvers, named axes and devices used wrongly. Adds rows to the table in ``misuses``."""

import importlib

import numpy as np

from .misuses import BOOL, X3, X4, misuse, wrong

# fmt: off

ONE = np.float32(1.0)

# --- callbacks ---------------------------------------------------------------------------------------------
F3 = np.zeros(3, np.float32)

def io_callback(ns):
    return importlib.import_module(ns.__name__ + ".experimental").io_callback

def raising(x):
    raise ValueError("the callback says no")

wrong("pure_callback_of_a_number", lambda ns: ns.pure_callback(3, F3, X3), ours="TypeError",
      advice=("Expected a callable value, got 3",))
wrong("pure_callback_without_result_types", lambda ns: ns.pure_callback(np.sin, float, X3), "float",
      "has no attribute 'dtype'", advice=("ShapeDtypeStruct",))
wrong("pure_callback_of_64_bits", lambda ns: ns.pure_callback(lambda x: np.float64(x), np.zeros(3, np.float64), X3),
      "result_shape_dtypes cannot specify 64-bit types when `jax_enable_x64` is disabled", advice=("float64", "32-bit"))
wrong("pure_callback_with_an_unknown_vmap_method", lambda ns: ns.pure_callback(np.sin, F3, X3, vmap_method="fast"),
      "'sequential'", "'broadcast_all'", "but got: fast")
wrong("pure_callback_under_vmap", lambda ns: ns.vmap(lambda x: ns.pure_callback(np.sin, np.float32(0), x))(X3),
      "vmap is only supported for the pure_callback primitive when vmap_method is one of", "Got vmap_method=None",
      advice=("Pass vmap_method=",))
wrong("pure_callback_under_grad", lambda ns: ns.grad(lambda x: ns.pure_callback(np.sin, np.float32(0), x))(1.0),
      "Pure callbacks do not support JVP. Please use `jax.custom_jvp`")
wrong("pure_callback_given_text", lambda ns: ns.pure_callback(lambda x: X3, F3, "hello"),
      "Error interpreting argument to pure_callback as a JAX value. The problematic value is of type <class 'str'>",
      "at position 0", advice=("Pass an array",))
wrong("pure_callback_of_another_shape", lambda ns: ns.pure_callback(lambda x: X4, F3, X3),
      "Incorrect output shape for return value #0: Expected: (3,), Actual: (4,)", advice=("result_shape_dtypes",))
wrong("pure_callback_of_another_dtype", lambda ns: ns.pure_callback(lambda x: np.ones(3, np.int32), F3, X3),
      "Incorrect output dtype for return value #0: Expected: float32, Actual: int32")
wrong("pure_callback_that_fails_under_jit",
      lambda ns: ns.jit(lambda x: ns.pure_callback(raising, F3, x))(X3).block_until_ready(),
      "ValueError: the callback says no", "in raising", advice=("misuses_of_axes.py",))
wrong("io_callback_under_grad", lambda ns: ns.grad(lambda x: io_callback(ns)(np.sin, np.float32(0), x))(1.0),
      "IO callbacks do not support JVP")
wrong("ordered_io_callback_under_vmap",
      lambda ns: ns.vmap(lambda x: io_callback(ns)(np.sin, np.float32(0), x, ordered=True))(X3),
      "Cannot `vmap` ordered IO callback", advice=("ordered=False",))
wrong("debug_print_without_its_argument", lambda ns: ns.jit(lambda x: ns.debug.print("{}"))(1.0), "index out of range")
wrong("debug_print_with_an_unused_keyword", lambda ns: ns.jit(lambda x: ns.debug.print("x", x=x))(1.0),
      "Unused keyword arguments to `jax.debug.print`: ['x']", advice=("Name each",))
wrong("debug_print_of_a_value", lambda ns: ns.jit(lambda x: ns.debug.print(x))(1.0), "expected str, got")
wrong("debug_print_of_a_formatted_string", lambda ns: ns.jit(lambda x: ns.debug.print(f"{x:.3f}"))(1.0),
      "unsupported format string passed to", "Tracer.__format__", advice=("debug.print('{x:.3f}', x=x)",))
wrong("debug_callback_of_a_number", lambda ns: ns.debug.callback(3, 1.0),
      "debug.callback must be callable, but got an object of type <class 'int'>")

# --- custom_linear_solve, custom_root ----------------------------------------------------------------------
def divided(matvec, b):
    return b / 2.0

wrong("linear_solve_of_a_nonlinear_function",
      lambda ns: ns.grad(lambda b: ns.lax.custom_linear_solve(lambda x: x * x, b, divided, divided).sum())(X3),
      advice=("not linear", "mul", "matvec"))
wrong("linear_solve_gives_another_shape",
      lambda ns: ns.lax.custom_linear_solve(lambda x: 2.0 * x, X3, lambda mv, b: b.sum()),
      "solve() output shapes must match b, got [()] and [(3,)]")
wrong("linear_solve_matvec_gives_another_shape", lambda ns: ns.lax.custom_linear_solve(lambda x: x.sum(), X3, divided),
      "matvec() output shapes must match b, got [()] and [(3,)]")
wrong("linear_solve_without_transpose_solve",
      lambda ns: ns.grad(lambda b: ns.lax.custom_linear_solve(lambda x: 2.0 * x, b, divided).sum())(X3),
      "transpose_solve required for backwards mode automatic differentiation of custom_linear_solve",
      advice=("symmetric=True",))
wrong("linear_solve_without_auxiliary_output",
      lambda ns: ns.lax.custom_linear_solve(lambda x: 2.0 * x, X3, divided, has_aux=True),
      advice=("has_aux was set to True",))
wrong("linear_solve_with_a_number_for_a_function", lambda ns: ns.lax.custom_linear_solve(3, X3, divided), "callable")
wrong("linear_solve_of_text", lambda ns: ns.lax.custom_linear_solve(lambda x: x, "hello", divided),
      "'hello' of type <class 'str'>", "is not a valid JAX type", advice=("argument b",))
wrong("root_solve_gives_another_tree",
      lambda ns: ns.lax.custom_root(lambda x: x - 1, ONE, lambda f, x: (x, x), lambda g, y: y / g(ONE)),
      "solve() output pytree structure must match initial_guess, got PyTreeDef((*, *)) and PyTreeDef(*)")
wrong("root_tangent_solve_gives_another_tree",
      lambda ns: ns.lax.custom_root(lambda x: x - 1, ONE, lambda f, x: x, lambda g, y: (y, y)),
      "tangent_solve() output pytree structure must match x, got PyTreeDef((*, *)) and PyTreeDef(*)")
wrong("root_without_auxiliary_output",
      lambda ns: ns.lax.custom_root(lambda x: x - 1, ONE, lambda f, x: x, lambda g, y: y / g(ONE), has_aux=True),
      "solve() produced a pytree with structure PyTreeDef(*)", "has_aux was set to True")

# --- named axes --------------------------------------------------------------------------------------------
wrong("psum_over_a_misspelt_name", lambda ns: ns.vmap(lambda x: ns.lax.psum(x, "batch"), axis_name="batches")(X3),
      "unbound axis name: batch", advice=("Did you mean batches?",))

def over_devices(ns, divided = None, **options):
    sharding = importlib.import_module(ns.__name__ + ".sharding")
    return ns.make_mesh((1,), ("data",)), sharding.PartitionSpec(divided, **options)

def named_sharding(ns, mesh, spec):
    return importlib.import_module(ns.__name__ + ".sharding").NamedSharding(mesh, spec)

wrong("sharding_along_a_misspelt_axis", lambda ns: named_sharding(ns, *over_devices(ns, divided="dta")),
      "Resource axis: dta of", "is not found in mesh: ('data',)", advice=("Did you mean data?",))

@misuse("has duplicate entries for `data`", advice=("Leave out all but one",))
def sharding_along_an_axis_twice(ns):
    mesh, spec = over_devices(ns, divided="data")
    named_sharding(ns, mesh, spec + spec)

wrong("unreduced_along_a_misspelt_axis", lambda ns: named_sharding(ns, *over_devices(ns, unreduced={"dta"})),
      "Unreduced axes dta is not found in mesh.axis_names=('data',)", advice=("Did you mean data?",))

@misuse("in_specs", "to an axis marked as manual", "dta", advice=("the mesh does not have", "Did you mean data?"))
def shard_map_along_a_misspelt_axis(ns):
    mesh, spec = over_devices(ns, divided="dta")
    ns.shard_map(lambda x: x, mesh=mesh, in_specs=spec, out_specs=spec)(X3)

@misuse("{'dta'}", "to be a subset of mesh.axis_names", advice=("Did you mean data?",))
def shard_map_with_misspelt_axis_names(ns):
    mesh, spec = over_devices(ns)
    ns.shard_map(lambda x: x, mesh=mesh, in_specs=spec, out_specs=spec, axis_names={"dta"})(X3)

wrong("psum_outside", lambda ns: ns.lax.psum(X3, "i"), "unbound axis name: i", advice=("mapped by vmap or pmap",))
wrong("axis_index_outside", lambda ns: ns.lax.axis_index("i"), "unbound axis name: i",
      advice=("mapped by vmap or pmap",))
wrong("psum_in_groups_under_vmap",
      lambda ns: ns.vmap(lambda x: ns.lax.psum(x, "i", axis_index_groups=[[0, 1], [2]]), axis_name="i")(X3),
      "axis_index_groups not supported in vmap collectives", advice=("pmap",))
wrong("psum_in_groups_that_overlap",
      lambda ns: ns.vmap(lambda x: ns.lax.psum(x, "i", axis_index_groups=[[0, 1], [1, 2]]), axis_name="i")(X3),
      "axis_index_groups must cover all indices exactly once")
wrong("psum_of_keys",
      lambda ns: ns.vmap(lambda k: ns.lax.psum(k, "i"), axis_name="i")(ns.random.split(ns.random.key(0), 3)),
      "does not accept dtype key<fry>", advice=("random.key_data(keys)",))
wrong("ppermute_to_one_twice",
      lambda ns: ns.pmap(lambda x: ns.lax.ppermute(x, "i", [(0, 0), (0, 0)]), axis_name="i")(X3[:1]),
      "ppermute sources and destinations must be unique, got ((0, 0), (0, 0))")
wrong("pshuffle_by_a_non_permutation",
      lambda ns: ns.vmap(lambda x: ns.lax.pshuffle(x, "i", [0, 0, 1]), axis_name="i")(X3),
      "`perm` does not represent a permutation: [0, 0, 1]")
wrong("all_to_all_of_another_size",
      lambda ns: ns.vmap(lambda x: ns.lax.all_to_all(x, "i", 0, 0), axis_name="i")(np.ones((3, 4), np.float32)),
      "all_to_all requires the size of the mapped axis axis_name to equal x.shape[split_axis], but they are 3 and 4")
wrong("psum_scatter_of_another_size",
      lambda ns: ns.pmap(lambda x: ns.lax.psum_scatter(x, "i"), axis_name="i")(np.ones((1, 4), np.float32)),
      "reduce_scatter operand scatter dimension size 4 must match shard count 1")
wrong("derivative_of_pmax",
      lambda ns: ns.grad(lambda x: ns.vmap(lambda y: ns.lax.pmax(y, "i"), axis_name="i")(x).sum())(X3),
      "Differentiation rule for 'pmax' not implemented")

# --- pmap --------------------------------------------------------------------------------------------------
wrong("truth_value_in_a_pmap", lambda ns: ns.pmap(lambda x: x if x > 0 else -x)(np.ones(1, np.float32)), *BOOL,
      here=True, advice=("<lambda> at", "for pmap", "the argument x"))
