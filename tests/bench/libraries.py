"""The libraries measured, each as a namespace with JAX's names, so that a workload is written once for all.

``jax`` and minijax are their own namespaces. A peer (autograd, torch) gets an adapter with the few names the
rows it takes part in need.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np


def jax_like(name: str) -> Any:
    """The module ``name`` with its ``numpy`` and ``lax`` submodules loaded."""
    module = importlib.import_module(name)
    importlib.import_module(name + ".numpy")
    importlib.import_module(name + ".lax")
    return module


def autograd_namespace(name: str) -> Any:
    """autograd under JAX's names; it has forward mode, reverse mode, and no staging."""
    autograd = importlib.import_module(name)

    def jvp(f: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        return autograd.make_jvp(f)(*primals)(*tangents)

    return SimpleNamespace(
        numpy=importlib.import_module(name + ".numpy"),
        grad=autograd.grad,
        jvp=jvp,
        jacrev=autograd.jacobian,
        hessian=autograd.hessian,
    )


def torch_namespace(name: str) -> Any:
    """torch under JAX's names, on one thread; ``grad`` and ``jvp`` are its plain ones."""
    torch = importlib.import_module(name)
    func = importlib.import_module(name + ".func")
    dual = importlib.import_module(name + ".autograd.forward_ad")
    torch.set_num_threads(1)
    tree = importlib.import_module("torch.utils._pytree")

    def grad(f: Callable[..., Any]) -> Callable[..., Any]:
        def gradient(x: Any, *rest: Any) -> Any:
            leaves, spec = tree.tree_flatten(x)
            # create_graph only when this gradient is itself being differentiated.
            nested = any(leaf.requires_grad for leaf in leaves)
            inputs = leaves if nested else [leaf.detach().requires_grad_() for leaf in leaves]
            out = f(tree.tree_unflatten(inputs, spec), *rest)
            return tree.tree_unflatten(torch.autograd.grad(out, inputs, create_graph=nested), spec)

        return gradient

    def jvp(f: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        with dual.dual_level():
            pairs = [dual.make_dual(x, t) for x, t in zip(primals, tangents, strict=True)]
            return tuple(dual.unpack_dual(f(*pairs)))

    numpy = SimpleNamespace(
        sin=torch.sin, tanh=torch.tanh, sum=torch.sum, multiply=torch.mul, asarray=torch.from_numpy
    )
    return SimpleNamespace(
        numpy=numpy, grad=grad, jvp=jvp, jacfwd=func.jacfwd, jacrev=func.jacrev, hessian=func.hessian
    )


def torch_func_namespace(name: str) -> Any:
    """torch with its transformations that compose, as JAX's do: ``grad`` is ``torch.func.grad``."""
    namespace = torch_namespace(name.partition(".")[0])
    namespace.grad = importlib.import_module(name).grad
    return namespace


ADAPTERS: dict[str, Callable[[str], Any]] = {
    "autograd": autograd_namespace,
    "torch": torch_namespace,
    "torch.func": torch_func_namespace,
}


def load(name: str) -> Any:
    """The namespace of a library; raises ImportError when it is not there."""
    return ADAPTERS.get(name, jax_like)(name)


def available(name: str) -> bool:
    return importlib.util.find_spec(name.partition(".")[0]) is not None


def array(ns: Any, value: Any) -> Any:
    """``value`` as the library's own float32 array (a fresh NumPy copy, so that no two share memory)."""
    return ns.numpy.asarray(np.array(value, dtype=np.float32))


def to_numpy(value: Any) -> np.ndarray:
    if hasattr(value, "detach"):
        value = value.detach()
    return np.asarray(value)
