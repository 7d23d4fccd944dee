"""How equations of JAX's are imported that call back into Python: as ours, which call the same functions.

They are never borrowed: JAX's lowering of one refers to a table of functions that only JAX's own compilation fills.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.core.named import Frozen
from minijax.interop.programs import Site, import_rules
from minijax.interop.values import aval_of, jax_module, to_jax_value
from minijax.ir.jaxpr import JaxprEqn
from minijax.ops.callback import debug_callback_p, debug_print_p, io_callback_p, pure_callback_p
from minijax.pytree import tree_structure


class JaxCallback(Frozen):
    """A flat callback of a program of JAX's: it is called with JAX's arrays, as JAX calls it.

    Equal for equal callbacks, so that staging it twice gives equal equations.
    """

    theirs: Callable[..., Sequence[Any]]

    def __call__(self, *leaves: Any) -> Sequence[Any]:
        return self.theirs(*map(to_jax_value, leaves))

    def __repr__(self) -> str:
        return repr(self.theirs)


def import_pure_callback(eqn: Any, site: Site) -> list[JaxprEqn]:
    return site.equation(pure_callback_p, {**_called(eqn, site), "vmap_method": eqn.params["vmap_method"]})


def import_io_callback(eqn: Any, site: Site) -> list[JaxprEqn]:
    return site.equation(io_callback_p, {**_called(eqn, site), "ordered": eqn.params["ordered"]})


def _called(eqn: Any, site: Site) -> dict[str, Any]:
    if eqn.params["sharding"] is not None:
        raise site.refusal(f"{eqn.primitive.name} runs where its sharding says, and devices have no shardings here.")
    avals = tuple(map(aval_of, eqn.params["result_avals"]))
    return {"callback": JaxCallback(eqn.params["callback"]), "result_avals": avals, "sharding": None}


def import_debug_callback(eqn: Any, site: Site) -> list[JaxprEqn]:
    params = {"callback": JaxCallback(eqn.params["callback"]), "effect": str(eqn.params["effect"])}
    return site.equation(debug_callback_p, params)


def import_debug_print(eqn: Any, site: Site) -> list[JaxprEqn]:
    params = {name: value for name, value in eqn.params.items() if name != "partitioned"}
    theirs = params["in_tree"]
    args = jax_module("tree_util").tree_unflatten(theirs, list(range(theirs.num_leaves)))
    return site.equation(debug_print_p, {**params, "in_tree": tree_structure(args)})


import_rules.update(
    {
        "pure_callback": import_pure_callback,
        "io_callback": import_io_callback,
        "debug_callback": import_debug_callback,
        "debug_print": import_debug_print,
    }
)
