"""The oracle tests compare ``subject`` (minijax) with ``oracle`` (JAX), two modules with the same
public names.

Both are namespaces: ``ns.numpy``, ``ns.lax``, ``ns.grad`` and so on. With
``MINIJAX_TEST_SUBJECT=jax`` in the environment, JAX replaces minijax. This checks the tests
themselves: JAX must pass them all.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy
import numpy as np

oracle: Any = jax
SUBJECT_NAME = os.environ.get("MINIJAX_TEST_SUBJECT", "minijax")
subject: Any = importlib.import_module(SUBJECT_NAME)
importlib.import_module(SUBJECT_NAME + ".numpy")
importlib.import_module(SUBJECT_NAME + ".lax")
MODES = ("32", "64")

# Tests of values need no optimised programs: these options cut the compile time to a fifth.
QUICKLY = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}


@contextlib.contextmanager
def compiled_quickly() -> Iterator[None]:
    """Compile all programs of both libraries with the options ``QUICKLY``. A fixture has the same name."""
    modules = [importlib.import_module(name) for name in ("jax.extend.backend", "jax._src.compiler")]
    options_for = modules[0].get_compile_options

    def quick_options(*args: Any, env_options_overrides: Any = None, **options: Any) -> Any:
        return options_for(*args, env_options_overrides={**QUICKLY, **(env_options_overrides or {})}, **options)

    try:
        for module in modules:
            module.get_compile_options = quick_options
        yield
    finally:
        for module in modules:
            module.get_compile_options = options_for


class x64_mode:
    """Context manager that puts both libraries in 64-bit mode if ``mode == '64'``, else in 32-bit mode."""

    def __init__(self, mode: str) -> None:
        self.contexts = [ns.enable_x64(mode == "64") for ns in dict.fromkeys((oracle, subject))]

    def __enter__(self) -> None:
        for context in self.contexts:
            context.__enter__()

    def __exit__(self, *exc: Any) -> None:
        for context in reversed(self.contexts):
            context.__exit__(*exc)


def tolerance(dtype: Any) -> dict[str, float]:
    """rtol and atol for ``dtype``: NumPy and XLA round special functions differently in the last bits."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iub":
        return {"rtol": 0.0, "atol": 0.0}
    return {
        "float64": {"rtol": 1e-11, "atol": 1e-12},
        "complex128": {"rtol": 1e-11, "atol": 1e-12},
        "float32": {"rtol": 3e-5, "atol": 3e-6},
        "complex64": {"rtol": 3e-5, "atol": 3e-6},
        "float16": {"rtol": 1e-2, "atol": 2e-3},
        "bfloat16": {"rtol": 4e-2, "atol": 1e-2},
    }[dtype.name]


def as_numpy(leaf: Any) -> np.ndarray:
    """``leaf`` as a NumPy array. A Python number gets the dtype that JAX gives it."""
    return np.asarray(jax.numpy.asarray(leaf) if isinstance(leaf, (bool, int, float, complex)) else leaf)


def describe(leaf: Any) -> str:
    """The type of any array or Python number as text, for example 'float32[3] weak'."""
    array = as_numpy(leaf)
    weak = getattr(leaf, "weak_type", type(leaf) in (int, float, complex))
    name = "float0" if array.dtype == [("float0", "V")] else array.dtype.name
    return f"{name}{list(array.shape)}{' weak' if weak else ''}"


def assert_same(ours: Any, theirs: Any, *, scale: float = 1.0, coarse: str | None = None) -> None:
    """Check that the leaves of two trees have the same type and weak type, and values within ``scale`` × tolerance."""
    our_leaves, our_tree = subject.tree_util.tree_flatten(ours)
    their_leaves, their_tree = oracle.tree_util.tree_flatten(theirs)
    assert str(our_tree) == str(their_tree), f"trees differ: {our_tree} against JAX's {their_tree}"
    for a, b in zip(our_leaves, their_leaves, strict=True):
        what = describe(a), describe(b)
        assert what[0] == what[1], f"got {what[0]}, JAX gives {what[1]}"
        if what[0].startswith("float0"):
            continue
        x, y = as_numpy(a), as_numpy(b)
        limits = {k: scale * v for k, v in tolerance(coarse or x.dtype).items()}
        if x.dtype.kind == "V" or x.dtype.name in ("bfloat16", "float16"):
            x, y = x.astype(np.float32), y.astype(np.float32)
        if x.dtype.kind in "iub":
            np.testing.assert_array_equal(x, y)
        else:
            # A small element may be the difference of two large numbers, and have their absolute error.
            limits["atol"] += limits["rtol"] * float(np.abs(y[np.isfinite(y)]).max(initial=0.0))
            np.testing.assert_allclose(x, y, **limits)
