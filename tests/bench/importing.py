"""Rows about functions written for JAX: what ``interop.from_jax`` costs over the same function written here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.bench.measure import Settings, cpu_ns
from tests.bench.watching import AgainstItself

LAYERS, WIDTH, BATCH = 6, 16, 8
CALLS = 50


def network(ns: Any) -> Callable[..., Any]:
    """A new loss of a small network."""

    def loss(params: Any, x: Any) -> Any:
        for w, b in params:
            x = ns.numpy.tanh(x @ w + b)
        return (x * x).sum()

    return loss


def arguments(ns: Any) -> Any:
    values = np.random.default_rng(0)
    layer = lambda: (values.normal(size=(WIDTH, WIDTH)), values.normal(size=WIDTH))  # noqa: E731
    params = [tuple(ns.numpy.asarray(x, np.float32) for x in layer()) for _ in range(LAYERS)]
    return params, ns.numpy.asarray(values.normal(size=(BATCH, WIDTH)), np.float32)


@dataclass(frozen=True)
class Imported(AgainstItself):
    """A call of a function that was written for JAX, against one of the same function written for minijax.

    ``how`` is "first", of a new function; "cached", of a known one; "jit", a jitted one, against JAX's own jit.
    """

    how: str

    def samplers(self, settings: Settings) -> tuple[dict[str, Callable[[], float]], str]:
        ns, theirs = settings.namespaces[settings.subject], settings.namespaces["jax"]
        from_jax = importlib.import_module("minijax.interop").from_jax
        ours, args, their_args = network(ns), arguments(ns), arguments(theirs)

        def repeated(fun: Callable[..., Any], given: Any) -> Callable[[], float]:
            fun(*given)
            return lambda: cpu_ns(lambda: [fun(*given) for _ in range(CALLS)][-1])[0] / CALLS

        def first() -> float:
            return cpu_ns(lambda: from_jax(network(theirs))(*args))[0]

        if self.how == "jit":
            subject, reference = ns.jit(from_jax(network(theirs))), theirs.jit(network(theirs))
            waiting = lambda x, p, fun=reference: fun(x, p).block_until_ready()  # noqa: E731
            measured = {
                "subject": repeated(lambda x, p: subject(x, p).block_until_ready(), args),
                "reference": repeated(waiting, their_args),
            }
            return measured, "; JAX's own jit in its place"
        imported = first if self.how == "first" else repeated(from_jax(network(theirs)), args)
        return {"subject": imported, "reference": repeated(ours, args)}, ""


# JAX's tracing is most of a first call; a cached one evaluates a program in place of running Python.
IMPORTING_ROWS: list[Any] = [
    Imported("from_jax.first", "from_jax, first call / plain call", 30, "first"),
    Imported("from_jax.cached", "from_jax, later call / plain call", 2.5, "cached"),
    Imported("from_jax.jit", "jit of from_jax / JAX's jit", 1.05, "jit"),
]
