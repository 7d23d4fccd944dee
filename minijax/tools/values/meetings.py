"""Collectives inside a ``shard_map``: which devices communicate, who sends what to whom, and what the result is.

In: a collective, its parameters, and the mesh axes along which devices run the program. Out: a ``Meeting``. Devices
are numbered along these axes; the last axis varies fastest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minijax.interpreters.named_axes import axis_users
from minijax.ops.parallel import replica_groups
from minijax.tools.recording.device_records import Meeting

# Name in jaxprs -> name in user code.
_WRITTEN = {
    **dict.fromkeys(("all_gather_invariant", "all_gather_reduced"), "all_gather"),
    **dict.fromkeys(("psum_invariant", "unreduced_psum"), "psum"),
    **dict.fromkeys(("reduce_scatter", "unreduced_reduce_scatter"), "psum_scatter"),
}

# How data travels, and the result in words. 'all': every device sends its value to all others. 'pieces': every device
# sends a piece to each other device. 'one': every device sends to one device, which the parameters name. 'source': one
# device sends to all.
_WAYS = {
    "psum": ("all", "each gives its {x}, all get the sum"),
    "pmax": ("all", "each gives its {x}, all get the greatest"),
    "pmin": ("all", "each gives its {x}, all get the least"),
    "all_gather": ("all", "each gives its {x}, all get all of them, in order"),
    "psum_scatter": ("pieces", "each cuts its {x} into {n} on {split}, the n-th gets the sum of n-th pieces"),
    "all_to_all": ("pieces", "each cuts its {x} into {n} on {split}, the n-th gets n-th pieces, joined on {join}"),
    "ppermute": ("one", "each gives its {x} to one other"),
    "pbroadcast": ("source", "all get the {x} of one"),
}


def written(primitive: str) -> str:
    """The name that user code has for the collective ``primitive`` of a jaxpr."""
    return _WRITTEN.get(primitive, primitive)


def meeting(primitive: Any, params: Mapping[str, Any], axes: Sequence[tuple[Any, int]]) -> Meeting | None:
    """The communication of devices along ``axes`` in an operation; None if the devices do not communicate."""
    name = written(primitive.name)
    way = _WAYS.get(name)
    if way is None or primitive not in axis_users:
        return None
    known = [axis for axis, _ in axes]
    names = [each for each in axis_users[primitive](dict(params)) if each in known]
    if not names:
        return None
    groups = replica_groups(axes, names, params.get("axis_index_groups"))
    pairs: list[tuple[int, int]] = []
    for group in groups:
        if way[0] == "one":
            pairs += [(group[s % len(group)], group[d % len(group)]) for s, d in params["perm"]]
        elif way[0] == "source":
            pairs += [(group[params["source"]], each) for each in group]
    split = params.get("split_axis", params.get("scatter_dimension", 0))
    said = way[1].format(x="{x}", n=len(groups[0]), split=f"axis {split}", join=f"axis {params.get('concat_axis')}")
    along = tuple(map(str, names))
    return Meeting(name, primitive.name, way[0], said, along, tuple(map(tuple, groups)), tuple(pairs), split)
