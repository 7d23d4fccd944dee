"""Compare random calls of every public function with JAX.

    python -m tests.oracle.random_calls                       2,000 programs with seed 0
    python -m tests.oracle.random_calls --count 100000 --seed 7 --jobs 4
    python -m tests.oracle.random_calls numpy.clip nn         only these functions and modules
    python -m tests.oracle.random_calls --seed 7 --only 41,9  programs 41 and 9 of seed 7 again

A program is a call with random arguments: Python numbers, NumPy arrays and arrays of the library. The arrays have all
dtypes, and shapes that often do not fit. Parameters called axis, shape, dtype and the like get fitting values. The
call is eager, jitted, mapped or differentiated, and a second function may use its result. The comparison covers
the tree, shapes, element types, weak types and values of results, and the class of errors. JAX compiles slowly, so
most programs are only staged and compared without values (``--values 1`` runs all); the rest is compiled without
optimisations. The command prints the number of programs that agreed, the first disagreement of each function, and how
often each reason (``random_reasons``) excused a difference. The exit status is 1 if a program disagreed without a
reason.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import inspect
import itertools
import multiprocessing
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import minijax
from minijax.core.borrowing import public_names
from minijax.core.trace import stack_depth
from tests.oracle.random_reasons import UNKNOWN, reason
from tests.oracle.subject import QUICKLY, assert_same

MODULES = ("numpy", "numpy.linalg", "numpy.fft", "lax", "lax.linalg", "nn", "random", "ops", "scipy.special")
MODULES += ("scipy.stats", "scipy.signal", "scipy.ndimage", "scipy.integrate", "scipy.cluster.vq")
MODULES += ("scipy.linalg", "scipy.fft", *(name for name in public_names() if name.startswith("scipy.stats.")))
# Functions that read, write or print, return no arrays, need devices, or take functions: other tests cover them.
LEFT_OUT = frozenset(
    "load save savez fromfile from_dlpack frombuffer fromstring fromiter frompyfunc ufunc vectorize"
    " set_printoptions printoptions array_repr array_str array2string einsum_path apply_along_axis apply_over_axes"
    " fromfunction piecewise get_printoptions einsum block empty empty_like infeed outfeed custom_root"
    " custom_linear_solve fori_loop while_loop scan map cond switch associative_scan reduce composite"
    " stop_gradient create_token after_all optimization_barrier platform_dependent rng_uniform all_gather"
    " all_to_all axis_index axis_size psum pmax pmin pmean ppermute pshuffle pswapaxes psum_scatter pbroadcast"
    " pcast pvary ragged_all_to_all zeros_like_array with_sharding_constraint dce_sink psend precv reduce_window"
    " select_and_scatter conv_general_dilated_local approx_max_k approx_min_k funm ndarray jit custom_jvp dtype"
    " iterable bfloat16 ConvDimensionNumbers random_gamma_p normalize standardize key_impl key_data"
    " broadcast_shapes get_scaled_dot_general_config rng_bit_generator scatter_add scatter_min scatter_max"
    " scatter_mul scatter_sub scatter scatter_apply gather conv_general_dilated conv_transpose"
    " conv_with_general_padding conv_general_dilated_patches conv_shape_tuple reduce_window_shape_tuple"
    " conv_general_shape_tuple conv_transpose_shape_tuple conv_general_permutations padtype_to_pads conv".split()
)

SHAPES = ((), (3,), (2, 3), (3, 3), (1, 3), (0,), (2, 0), (1,), (2, 1, 3), (4,))
SHAPE_WEIGHTS = (4, 6, 6, 5, 2, 1, 1, 1, 2, 2)
DTYPES = ("float32", "int32", "bool", "uint8", "complex64", "float16", "bfloat16", "int8", "uint32")
DTYPE_WEIGHTS = (10, 5, 2, 1, 2, 1, 1, 1, 1)
INTERESTING = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, 0.25, 7.0)
EXTREME = (float("nan"), float("inf"), -float("inf"), 1e30)

OPERANDS = frozenset(
    "a b c x y z x1 x2 arr ary array A B m v operand lhs rhs values logits mask condition p q n_ xp fp u rhs1"
    " object obj M val inputs operands xs elements element args df loc scale mean cov alpha beta lam minval maxval"
    " concentration lower upper lo hi left right r l weights fill_value data update updates starts indices on_true"
    " on_false min max start stop step key_ rate prob shape_ sigma mu pvals where_ ab bb a_min a_max real imag"
    " exponent t val1 val2 nan posinf neginf".split()
)
FLAGS = frozenset(
    "keepdims overwrite_a overwrite_b lower_ endpoint retstep descending stable indices_are_sorted unique_indices"
    " is_stable replace independent check_finite full_matrices compute_uv hermitian symmetrize_input rowvar bias"
    " assume_unique invert sparse approximate return_sign left_side transpose_a conjugate_a unit_diagonal reverse"
    " sort density overwrite_input equal_nan include_initial".split()
)
# names of parameters, separated by spaces -> values to draw from
PLAIN: dict[str, tuple[Any, ...]] = {
    "axis dimension axis1 axis2 source destination dim": (0, -1, 1, 0, -2, None, (0, 1), 5),
    "axes permutation dimensions": ((0, 1), (1, 0), (0,), None, 1, (-1,)),
    "shape newshape new_shape sizes new_sizes s out_shape dims": (
        (3,), (2, 3), (), 6, (-1,), (1, 3), (3, 2), (2, 1, 3), (0,),
    ),
    "dtype new_dtype preferred_element_type": (
        None, "float32", "int32", "bool", "complex64", "float16", float, int,
    ),
    "start_index limit_index stride slice_size start_dimension stop_dimension axis_index permutation_size num_bits"
    " concat_dimension split_dimension operand_batch": (0, 1, 2, -1, 3),
    "start_indices limit_indices strides slice_sizes window_dimensions window_strides base_dilation window_dilation"
    " broadcast_dimensions lhs_dilation rhs_dilation edge_padding_low_": ((1,), (1, 1), (2, 1), (0, 1), (3,)),
    "padding": ("SAME", "VALID", ((0, 0),), ((1, 0), (0, 1))),
    "n k N num decimals length dimension index size_ repeats count exponent_bits mantissa_bits d": (0, 1, 2, 3, -1, 4),
    "mode": (None, "clip", "fill", "wrap", "full", "same", "valid", "constant", "edge"),
    "side": ("left", "right"),
    "order ord norm": (None, "C", 1, 2, "fro", "ortho", np.inf, "F"),
    "method interpolation": ("linear", "lower", "nearest", "scan", "sort", "svd", None),
    "size num_segments num_classes bins ddof total_repeat_length offset deg rank": (0, 1, 2, 3, 5),
    "indices_or_sections pad_width repeats reps shift shifts": (1, 2, 3, (1, 2), ((1, 1), (0, 2)), [0, 1, 2]),
}  # fmt: skip
CHOICES = {name: choices for names, choices in reversed(PLAIN.items()) for name in names.split()}


class Drawn(NamedTuple):
    """An argument: its code, and a function that creates it for a library."""

    code: str
    make: Callable[[Any], Any]


class Program(NamedTuple):
    """A call of ``names[0]``; the other ``names`` are applied to its result. ``how``: the transformation."""

    names: tuple[str, ...]
    args: tuple[Drawn, ...]
    kwargs: dict[str, Drawn]
    how: str

    def __str__(self) -> str:
        inside = ", ".join([*[x.code for x in self.args], *[f"{k}={x.code}" for k, x in self.kwargs.items()]])
        return f"{self.how} {' of '.join(reversed(self.names))}({inside})"


def found(ns: Any, name: str) -> Any:
    for part in name.split("."):
        ns = getattr(ns, part)
    return ns


@functools.cache
def functions(wanted: tuple[str, ...]) -> list[str]:
    """Names of the functions that both libraries have, including borrowed ones."""
    names = []
    for module in MODULES:
        ours, theirs = importlib.import_module(f"minijax.{module}"), importlib.import_module(f"jax.{module}")
        dir(ours)  # loads the names that the module imports lazily
        for name in public_names()[module]:
            whole = f"{module}.{name}"
            mine = vars(ours).get(name)
            if mine is None and name in public_names()[module] and name not in vars(ours):
                mine = _own(ours, name)
            yours = getattr(theirs, name, None)
            if mine is None or not callable(mine) or isinstance(yours, type) or not callable(yours):
                continue
            if name in LEFT_OUT or name.endswith("_p") or name[0].isupper() or isinstance(mine, type):
                continue
            if type(yours).__name__ == "_ScalarMeta" or hasattr(yours, "dtype"):
                continue
            if not wanted or whole in wanted or module in wanted:
                names.append(whole)
    return names


def _own(module: Any, name: str) -> Any:
    """The value of a name that a module imports lazily; None if it is borrowed from JAX."""
    given = getattr(module, name, None)
    home = getattr(given, "__module__", "") or ""
    return None if "interop" in home else given


# -------------------------------------------------------------------------------------------------- arguments


class Draw:
    """Draws random programs from a seed."""

    def __init__(self, seed: int | Sequence[int]) -> None:
        self.random = np.random.default_rng(seed)

    def chance(self, p: float) -> bool:
        return bool(self.random.random() < p)

    def one(self, among: Sequence[Any], weights: Sequence[float] | None = None) -> Any:
        p = None if weights is None else np.asarray(weights, float) / sum(weights)
        return among[int(self.random.choice(len(among), p=p))]

    def number(self) -> Drawn:
        x = self.one((0, 1, -1, 2, 3, 0.5, -1.5, 2.0, True, False, 1 + 2j, 300, -0.0))
        return Drawn(repr(x), lambda ns: x)

    def array(self, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> Drawn:
        shape = self.one(SHAPES, SHAPE_WEIGHTS) if shape is None else shape
        dtype = dtype or self.one(DTYPES, DTYPE_WEIGHTS)
        values = self.random.choice(INTERESTING, size=shape) + 0.25 * self.random.integers(0, 3, size=shape)
        if self.chance(0.06):
            values = np.where(self.random.random(shape) < 0.3, self.one(EXTREME), values)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if dtype in ("uint8", "uint32"):
                values = np.abs(np.nan_to_num(values, posinf=5, neginf=4)) % 200
            elif dtype in ("int8", "int32"):
                values = np.nan_to_num(values, posinf=5, neginf=-4) % 100
            value = np.asarray(values).astype(jax.numpy.dtype(dtype))
            if dtype == "complex64":
                value = (value + 1j * self.random.choice(INTERESTING, size=shape)).astype(np.complex64)
        text = np.array2string(value, separator=", ", threshold=100).replace("\n", "")
        if self.chance(0.3) and dtype != "bfloat16":
            return Drawn(f"np.array({text}, '{dtype}').reshape{shape}", lambda ns: value)
        return Drawn(f"array({text}, '{dtype}').reshape{shape}", lambda ns: ns.numpy.asarray(value))

    def operand(self) -> Drawn:
        if self.chance(0.12):
            return self.number()
        if self.chance(0.02):
            return self.plain([1.0, 2.0, 3.0])
        return self.array()

    def plain(self, x: Any) -> Drawn:
        return Drawn(repr(x), lambda ns: x)

    def key(self) -> Drawn:
        seed = int(self.random.integers(0, 1000))
        if self.chance(0.3):
            return Drawn(f"PRNGKey({seed})", lambda ns: ns.random.PRNGKey(seed))
        return Drawn(f"key({seed})", lambda ns: ns.random.key(seed))

    def parameter(self, name: str, given: Any, module: str) -> Drawn | None:
        """A random argument for a parameter of this name; None if no rule covers the parameter."""
        if name == "key" and module == "random":
            return self.key()
        if name in CHOICES:
            return self.plain(self.one(CHOICES[name]))
        if name in FLAGS:
            return self.plain(self.chance(0.5))
        if name in ("tuple", "arrays", "tup", "operands", "seq"):
            return self.several()
        if name in OPERANDS or given is inspect.Parameter.empty:
            return self.operand()
        return None

    def several(self) -> Drawn:
        count = int(self.random.integers(1, 4))
        parts = [self.array((3,)) if self.chance(0.7) else self.operand() for _ in range(count)]
        return Drawn(f"[{', '.join(x.code for x in parts)}]", lambda ns: [x.make(ns) for x in parts])

    def program(self, names: Sequence[str]) -> Program:
        name = self.one(names)
        module = name.rpartition(".")[0]
        args: list[Drawn] = []
        kwargs: dict[str, Drawn] = {}
        alike: Drawn | None = None
        for parameter in signature(name):
            kind, given = parameter.kind, parameter.default
            if kind is parameter.VAR_KEYWORD:
                continue
            if kind is parameter.VAR_POSITIONAL:
                args += [self.operand() for _ in range(int(self.random.integers(1, 3)))]
                continue
            if given is not parameter.empty and not self.chance(0.25):
                if kind is parameter.POSITIONAL_ONLY:
                    break
                continue
            drawn = self.parameter(parameter.name, given, module)
            if drawn is None:
                continue
            if given is parameter.empty and parameter.name in OPERANDS and self.chance(0.6):
                # the operands often have the same type and shape, so that enough calls are valid
                alike = alike or self.array()
                drawn = alike if self.chance(0.5) else drawn
            positional = kind is not parameter.KEYWORD_ONLY and given is parameter.empty
            if positional:
                args.append(drawn)
            elif kind is not parameter.POSITIONAL_ONLY:
                kwargs[parameter.name] = drawn
        how = self.one(("call", "jit", "grad", "vmap", "jvp"), (6, 2, 1.2, 1, 0.8))
        later = (self.one(AFTER),) if self.chance(0.1) else ()
        return Program((name, *later), tuple(args), kwargs, how)


# Functions of one array, to apply to another function's result.
AFTER = ("numpy.sin", "numpy.sum", "numpy.cumsum", "numpy.negative", "numpy.ravel", "numpy.sort", "numpy.abs")


@functools.cache
def signature(name: str) -> list[inspect.Parameter]:
    """The parameters of JAX's function with this name."""
    try:
        return list(inspect.signature(found(jax, name)).parameters.values())
    except (TypeError, ValueError):
        return [inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY)]


# -------------------------------------------------------------------------------------------------- running


def run(ns: Any, program: Program, values: bool) -> Any:
    args = [x.make(ns) for x in program.args]
    kwargs = {k: x.make(ns) for k, x in program.kwargs.items()}

    def whole(*given: Any) -> Any:
        out = found(ns, program.names[0])(*given, **kwargs)
        for name in program.names[1:]:
            out = found(ns, name)(ns.tree_util.tree_leaves(out)[0])
        return out

    if program.how == "call" and values:
        return whole(*args)
    places = [i for i, x in enumerate(args) if hasattr(x, "dtype") and hasattr(x, "shape")]
    if program.how in ("grad", "jvp"):
        places = [i for i in places if np.dtype(getattr(args[i], "dtype", object)).kind in "fc"][:1]
    if not places:
        return whole(*args) if values else ns.eval_shape(whole)

    def of_arrays(*arrays: Any) -> Any:
        full = list(args)
        for i, x in zip(places, arrays, strict=True):
            full[i] = x
        return whole(*full)

    def total(x: Any) -> Any:
        leaves = ns.tree_util.tree_leaves(of_arrays(x))
        return sum(ns.numpy.sum(ns.numpy.real(leaf) * 1.0) for leaf in leaves if leaf.dtype.kind in "fcV")

    arrays = [args[i] for i in places]
    transformed = {
        "call": lambda: of_arrays,
        "jit": lambda: ns.jit(of_arrays),
        "vmap": lambda: ns.vmap(of_arrays, in_axes=(0,) + (None,) * (len(arrays) - 1)),
        "jvp": lambda: lambda x: ns.jvp(of_arrays, (x,), (ns.numpy.ones_like(x),)),
        "grad": lambda: ns.grad(total),
    }[program.how]()
    return transformed(*arrays) if values else ns.eval_shape(transformed, *arrays)


def outcome(ns: Any, program: Program, values: bool) -> tuple[Any, BaseException | None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return run(ns, program, values), None
        except Exception as error:
            return None, error


def difference(program: Program, values: bool = True) -> str:
    """The difference between the libraries; '' if none. Without ``values``, programs are only staged."""
    before = stack_depth()
    theirs, their_error = outcome(jax, program, values)
    ours, our_error = outcome(minijax, program, values)
    if stack_depth() != before:
        return "the interpreter stack is not back at evaluation"
    if (their_error is None) != (our_error is None):
        failed = our_error or their_error
        diff = f"{'minijax' if our_error else 'JAX'} alone raises {type(failed).__name__}: {str(failed)[:160]!r}"
        late = outcome(jax, program, True)[1] if our_error is not None and not values else None
        return diff if late is None else f"{diff}, JAX {type(late).__name__} when it is run: {str(late)[:80]!r}"
    if our_error is not None:
        kinds = type(our_error).__name__, type(their_error).__name__
        if kinds[0] == kinds[1] or all(kind in UNKNOWN for kind in kinds):
            return ""
        return f"minijax raises {kinds[0]}: {str(our_error)[:120]!r}, JAX {kinds[1]}: {str(their_error)[:120]!r}"
    if not values:
        diff = [[f"{x.dtype}{list(x.shape)}{' weak' * x.weak_type}" for x in leaves(out)] for out in (ours, theirs)]
        return "" if diff[0] == diff[1] else f"the results are {diff[0]}, JAX's are {diff[1]}"
    if not any(hasattr(x, "aval") or isinstance(x, np.ndarray) for x in leaves([ours, theirs])):
        return "" if ours == theirs or str(ours) == str(theirs) else f"the result is {ours!r}, JAX's is {theirs!r}"
    try:
        assert_same(plain(minijax, ours), plain(jax, theirs), scale=10.0 if program.how in ("grad", "jvp") else 3.0)
    except (AssertionError, TypeError, ValueError, KeyError) as error:
        return " ".join(str(error).split())[:400] or repr(error)
    return ""


leaves = jax.tree_util.tree_leaves


def plain(ns: Any, tree: Any) -> Any:
    """``tree`` with each random key replaced by its raw data."""
    keyed = lambda x: hasattr(x, "dtype") and ns.numpy.issubdtype(x.dtype, ns.dtypes.prng_key)  # noqa: E731
    return ns.tree_util.tree_map(lambda x: ns.random.key_data(x) if keyed(x) else x, tree)


class Disagreement(NamedTuple):
    """A program on which the libraries disagreed. ``why``: the reason that excuses it, or ''."""

    number: int
    name: str
    text: str
    diff: str
    why: str


class Outcomes(NamedTuple):
    """The outcomes of programs: how many ran under each transformation, and the disagreements."""

    hows: Counter[str]
    disagreements: list[Disagreement]


# The programs in a block come from one random stream, so the number of processes does not change the programs.
BLOCK = 250


def run_block(asked: tuple[Sequence[str], int, int, Sequence[int], float]) -> Outcomes:
    """Compare the programs ``numbers``, all from one block. For a ``share`` of them compare the values, too.

    A program depends only on the seed and its number. The earlier programs of the block are drawn too, but do not run.
    """
    wanted, seed, block, numbers, share = asked
    jax.config.update("jax_traceback_filtering", "off")  # filtering the traceback is most of the cost of an error
    names, draw, done = functions(tuple(wanted)), Draw((seed, block)), Outcomes(Counter(), [])
    for number in range(block * BLOCK, max(numbers) + 1):
        program, values = draw.program(names), draw.chance(share)
        if number not in numbers:
            continue
        done.hows[program.how] += 1
        diff = difference(program, values)
        if diff:
            name = program.names[0]
            done.disagreements.append(Disagreement(number, name, str(program), diff, reason(name, str(program), diff)))
    return done


def outcomes(asked: argparse.Namespace) -> Iterator[Outcomes]:
    """The outcomes of all blocks, in order. Processes are replaced often, because they keep all compiled programs."""
    chosen = sorted(asked.only or range(asked.count))
    blocks = [
        (asked.names, asked.seed, block, list(numbers), asked.values)
        for block, numbers in itertools.groupby(chosen, lambda number: number // BLOCK)
    ]
    with multiprocessing.get_context("spawn").Pool(asked.jobs, maxtasksperchild=5000 // BLOCK) as pool:
        yield from pool.imap(run_block, blocks)


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.random_calls")
    parser.add_argument("names", nargs="*", help="functions (numpy.clip) or modules (numpy); all if none")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--values", type=float, default=0.1, help="the share of programs whose values are compared")
    parser.add_argument("--all", action="store_true", help="print every program that disagrees, with its number")
    parser.add_argument("--only", type=numbers, metavar="N,N", help="run only the programs with these numbers")
    asked = parser.parse_args(argv)
    began, calls, excused = time.time(), Counter[str](), Counter[str]()
    wrong: dict[str, list[Disagreement]] = {}
    for done in outcomes(asked):
        calls += done.hows
        excused.update(case.why for case in done.disagreements if case.why)
        for case in done.disagreements:
            if asked.all:
                print(f"{case.number}: {case.text}\n    {case.diff}\n    {case.why or 'WITHOUT A REASON'}", flush=True)
            if not case.why:
                wrong.setdefault(case.name, []).append(case)
    for name, cases in sorted(wrong.items()):
        print(f"{name}: {len(cases)} disagree\n  {cases[0].text}\n    {cases[0].diff}")
    for why, times in excused.most_common():
        print(f"{times} differ with a reason: {why}")
    taken, errors = time.time() - began, sum(map(len, wrong.values()))
    hows, count = ", ".join(f"{count} {how}" for how, count in calls.most_common()), calls.total()
    print(
        f"{count} programs of {len(functions(tuple(asked.names)))} functions, seed {asked.seed} ({hows}): "
        f"{count - errors - excused.total()} agree, {excused.total()} differ with a reason, {errors} of "
        f"{len(wrong)} functions without a reason; {taken:.0f} s, {count / taken:.0f} a second"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    # XLA reads these flags when this process, or one that it starts, compiles its first program.
    unoptimised = " ".join(f"--{option}={str(value).lower()}" for option, value in QUICKLY.items())
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {unoptimised}"
    sys.exit(main())
