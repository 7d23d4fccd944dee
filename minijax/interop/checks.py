"""``check_p``, the primitive of ``checkify.check``: JAX's, with rules for what it does beside computing.

In: an equation of JAX's ``check_p``. Out: one of ours, which is kept for its effect. A failed check raises when the
equation is evaluated; ``checkify`` makes the check a result instead. Such an equation cannot be compiled.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from minijax.core.primitive import abstract_rules, impl_rules
from minijax.interop.borrowed import borrow_eqn, borrowed
from minijax.interop.programs import Site, import_rules
from minijax.interop.reports import at_users_line
from minijax.interop.values import to_jax_value
from minijax.interpreters.jvp import jvp_rules
from minijax.ir.jaxpr import JaxprEqn
from minijax.ir.pretty import hide, pp_rules
from minijax.lowering.lower import lowering_rules


def import_check(eqn: Any, site: Site) -> list[JaxprEqn]:
    make_effectful(eqn.primitive)
    return [borrow_eqn(eqn, site.invars, site.outvars, site.source)]


@functools.cache
def make_effectful(theirs: Any) -> None:
    """Give the borrowed ``check_p`` the rules that say what it does."""
    p = borrowed(theirs)
    p.effectful = True
    pp_rules[p] = hide("err_tree")
    abstract_rules[p] = lambda *avals, **params: []
    impl_rules[p] = functools.partial(check_values, theirs)
    lowering_rules[p] = refuse_to_compile
    jvp_rules[p] = lambda primals, tangents, **params: (p.bind(*primals, **params), [])


def check_values(theirs: Any, *args: Any, **params: Any) -> Any:
    """JAX's check of these values."""
    try:
        return theirs.impl(*map(to_jax_value, args), **params)
    except ValueError as error:
        raise at_users_line(error, "check")  # noqa: B904  (it sets the cause)


def refuse_to_compile(ctx: Any, avals: Any, out_avals: Any, *names: str, err_tree: Any, debug: bool) -> list[str]:
    if not debug:
        raise ValueError(*sys.modules["jax._src.checkify"].functionalization_error.args)
    return []


import_rules["check"] = import_check
# It keeps a value alive that a loop's condition checks.
import_rules["dce_sink"] = lambda eqn, site: []
