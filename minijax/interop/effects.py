"""Import JAX's equations with effects: callbacks to Python, and ``check_p`` of ``checkify.check``.

Callbacks become minijax callbacks to the same functions, since JAX's lowering refers to a table of functions that only
JAX's own compiler fills. ``check_p`` is borrowed. It has an effect, so it stays in the program: evaluation raises for
a failed check, ``checkify`` turns the check into a result, and compilation is impossible.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from minijax.core.primitive import Primitive, abstract_rules, impl_rules
from minijax.core.records import Frozen
from minijax.interop.borrowed import borrow_eqn, borrowed
from minijax.interop.programs import ImportRule, Site, import_rules
from minijax.interop.reports import at_users_line
from minijax.interop.values import aval_of, jax_module, to_jax_value
from minijax.interpreters.jvp import jvp_rules
from minijax.ir.jaxpr import JaxprEqn
from minijax.ir.pretty import hide, pp_rules
from minijax.lowering.lower import lowering_rules
from minijax.ops.callback import debug_callback_p, debug_print_p, io_callback_p, pure_callback_p
from minijax.pytree import tree_structure


class JaxCallback(Frozen):
    """A callback of a JAX program, called with JAX's arrays. Equal callbacks give equal objects."""

    theirs: Callable[..., Sequence[Any]]

    def __call__(self, *leaves: Any) -> Sequence[Any]:
        return self.theirs(*map(to_jax_value, leaves))

    def __repr__(self) -> str:
        return repr(self.theirs)


def _calling_back(primitive: Primitive, option: str) -> ImportRule:
    def rule(eqn: Any, site: Site) -> list[JaxprEqn]:
        if eqn.params["sharding"] is not None:
            why = "has a sharding; callbacks of minijax have none."
            raise site.refusal(f"{eqn.primitive.name} {why}")
        avals = tuple(map(aval_of, eqn.params["result_avals"]))
        params = {"callback": JaxCallback(eqn.params["callback"]), "result_avals": avals, "sharding": None}
        return site.equation(primitive, {**params, option: eqn.params[option]})

    return rule


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
        "pure_callback": _calling_back(pure_callback_p, "vmap_method"),
        "io_callback": _calling_back(io_callback_p, "ordered"),
        "debug_callback": import_debug_callback,
        "debug_print": import_debug_print,
    }
)


def import_check(eqn: Any, site: Site) -> list[JaxprEqn]:
    make_effectful(eqn.primitive)
    return [borrow_eqn(eqn, site.invars, site.outvars, site.source)]


@functools.cache
def make_effectful(theirs: Any) -> None:
    """Define the rules of the borrowed ``check_p``."""
    p = borrowed(theirs)
    p.effectful = True
    pp_rules[p] = hide("err_tree")
    abstract_rules[p] = lambda *avals, **params: []
    impl_rules[p] = functools.partial(check_values, theirs)
    lowering_rules[p] = refuse_to_compile
    jvp_rules[p] = lambda primals, tangents, **params: (p.bind(*primals, **params), [])


def check_values(theirs: Any, *args: Any, **params: Any) -> Any:
    """Run JAX's check on these values. If it fails, raise the error at the user's line."""
    try:
        return theirs.impl(*map(to_jax_value, args), **params)
    except ValueError as error:
        raise at_users_line(error, "check")  # noqa: B904  (at_users_line sets the cause)


def refuse_to_compile(ctx: Any, avals: Any, out_avals: Any, *names: str, err_tree: Any, debug: bool) -> list[str]:
    if not debug:
        raise ValueError(*sys.modules["jax._src.checkify"].functionalization_error.args)
    return []


import_rules["check"] = import_check
# JAX adds this equation to keep the computation of a loop's condition. It has no result.
import_rules["dce_sink"] = lambda eqn, site: []
