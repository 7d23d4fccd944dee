"""``%hlo --partitioned`` parses every form of replica groups and shows the collectives of the program."""

import re

import pytest

from minijax.core.meshes import AbstractMesh
from minijax.tools.programs import hlo
from minijax.tools.xla.collectives import _axes, _groups, _times, _turns
from tests.on_devices import printed

SPELLINGS = {
    "replica_groups={{0,1},{2,3},{4,5},{6,7}}": ("y",),
    "replica_groups=[4,2]<=[8]": ("y",),
    "replica_groups=[2,4]<=[4,2]T(1,0)": ("x",),
    "replica_groups=mesh['axis_0'=4,'axis_1'=2] {'axis_0'}": ("x",),
    "replica_groups=mesh['axis_0'=2,'axis_1'=4], device_ids=([4,2]T(1,0)) {'axis_1'}": ("x",),
    "replica_groups=mesh['axis_0'=2,'axis_1'=4] {'axis_0','axis_1':(1)2}": ("x",),
    "replica_groups=mesh['axis_0'=8] {'axis_0':(4)2}": ("y",),
    "replica_groups=[1,8]<=[8]": ("x", "y"),
    "source_target_pairs={{0,2},{2,4},{4,6},{6,0},{1,3},{3,5},{5,7},{7,1}}": ("x",),
    "replica_groups={{0,3},{1,2},{4,7},{5,6}}": (),
}


@pytest.mark.parametrize(("written", "axes"), SPELLINGS.items())
def test_replica_groups_are_parsed_in_every_spelling(written, axes):
    groups = _groups(f"  %c = f32[2,4]{{1,0}} all-reduce(%a), {written}, to_apply=%add")
    assert _axes(groups, AbstractMesh((4, 2), ("x", "y"))) == axes


def test_replica_groups_along_part_of_a_permuted_axis_are_parsed():
    """XLA writes this for an all-to-all that reshards a value from P('x', 'y') to P('y', 'x') on 4 by 2 devices."""
    mesh = "mesh['axis_0'=2,'axis_1'=4], device_ids=([2,2,2]T(0,2,1)) {'axis_1':(2)2}"
    assert _groups(f"all-to-all(%a, %b), replica_groups={mesh}") == [[0, 2], [1, 3], [4, 6], [5, 7]]


LOOPS = """
%inner (p: f32[4]) -> f32[4] {
  %a = f32[4]{0} all-reduce(%p), replica_groups={{0,1}}
}

%outer (p: f32[4]) -> f32[4] {
  %w.1 = f32[4]{0} while(%p), condition=%test, body=%inner
}

%unknown (p: f32[4]) -> f32[4] {
  %b = f32[4]{0} all-reduce(%p), replica_groups={{0,1}}
}

ENTRY %main (p: f32[4]) -> f32[4] {
  %w.2 = f32[4]{0} while(%p), condition=%test, body=%outer
  %w.3 = f32[4]{0} while(%p), condition=%test, body=%unknown
  %c = f32[4]{0} call(%p), to_apply=%inner
}
"""


def test_loop_trip_counts_multiply():
    text = LOOPS.replace("body=%inner", 'body=%inner, backend_config={"known_trip_count":{"n":"3"}}')
    text = text.replace("body=%outer", 'body=%outer, backend_config={"known_trip_count":{"n":"5"},"x":"y"}')
    times = _times(hlo.instructions(LOOPS.splitlines()).values(), _turns(text))
    assert [times(name) for name in ("main", "outer", "inner", "unknown")] == [1, 5, 3 * 5 + 1, 0]


PROGRAM = """
import json
import numpy as np
import minijax as jax, minijax.numpy as jnp
from minijax.sharding import Mesh, NamedSharding, PartitionSpec as P
from minijax import lax
from minijax.tools.documents.document import document, plain
from minijax.tools.xla.collectives import blocks, of_lowered

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))

def there(x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))

def product(x, w):
    return x @ w

def gathered(x, w):
    return jnp.tanh(x) @ w

def summed(x, w):
    return jnp.tanh(x).sum(0) + w[0, 0]

def chosen(x, w):
    return lax.cond(x[0, 0] > 0, lambda x: (x @ w).sum(), lambda x: x[1, 1], x)

def turned(x, w):
    return lax.fori_loop(0, 3, lambda i, x: chosen(x, w) + x, x)

x, w = jnp.ones((8, 8)), jnp.ones((8, 8))
found = {}
for f in (chosen, turned):
    listed = of_lowered(jax.jit(f).lower(there(x, "x", "y"), there(w, "y")))
    shown = plain(document(*blocks(listed, 8, False)), 120)
    found[f.__name__] = [shown.split(chr(10))[0], [each.inside for each in listed], [each.times for each in listed]]
for f, a, b in ((product, there(x, "x", "y"), there(w, "y")), (gathered, there(x, "x"), there(w, None, "x")),
                (summed, there(x, "x"), there(w))):
    found[f.__name__] = [
        (each.kind, each.size, each.axes, each.bytes, each.equations[0].primitive, each.reason)
        for each in of_lowered(jax.jit(f).lower(a, b))
    ]

def on(*spec):
    return NamedSharding(mesh, P(*spec))

def constrained(x):
    y = jnp.sin(x)
    return lax.with_sharding_constraint(y, on()) * 2

def talking(x, w):
    g = lax.all_gather(w, "x", tiled=True)
    s = lax.psum_scatter(x @ g, "y", scatter_dimension=1, tiled=True)
    p = lax.ppermute(s, "x", [(i, (i + 1) % 4) for i in range(4)])
    t = lax.all_to_all(p, "x", 1, 0, tiled=True)
    return lax.pmean((t**2).sum(), ("x", "y"))

def recomputed(x, w):
    return jax.checkpoint(lambda x: jnp.sin(lax.psum(x, "x")) * w, policy=jax.checkpoint_policies.nothing_saveable)(x)

x, w = there(x, "x"), there(w, "x")
mapped = jax.shard_map(talking, mesh=mesh, in_specs=(P("x"), P("x")), out_specs=P())
shared = jax.shard_map(
    lambda x, w: jnp.sin(x * w), mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"), check_vma=False
)
kept = jax.shard_map(recomputed, mesh=mesh, in_specs=(P("x"), P()), out_specs=P())
reasons = {}
for name, f, args, options in (
    ("constraint", constrained, (x,), {}),
    ("out_shardings", jnp.sin, (x,), {"out_shardings": on()}),
    ("operands", lambda x, y: x * y, (x, there(w, None, "x")), {}),
    ("batch", jax.grad(lambda w, x: jnp.tanh(x @ w).sum()), (there(w), x), {}),
    ("asked", mapped, (x, w), {}),
    ("transposed", jax.grad(mapped, 1), (x, w), {}),
    ("shared", jax.grad(lambda w, x: shared(x, w).sum()), (jnp.ones(8), x), {}),
    ("kept", jax.grad(lambda x, w: kept(x, w).sum()), (x, jnp.ones(8)), {}),
):
    reasons[name] = [(each.kind, each.reason) for each in of_lowered(jax.jit(f, **options).lower(*args))]
print(json.dumps([found, reasons]))
"""


ASKED = [
    ("all-gather", "^all_gather asks for it$"),
    ("all-to-all", "^all_to_all asks for it$"),
    ("collective-permute", "^ppermute asks for it$"),
    ("reduce-scatter", "^psum_scatter asks for it "),
]
TRANSPOSED = [
    ("all-gather", "^transpose of psum_scatter "),
    ("all-to-all", "^transpose of all_to_all "),
    ("collective-permute", "^transpose of ppermute "),
]
OF_PVARY = ("all-reduce", "^transpose of pvary: all devices use the same value along y, ")
# The reason of each collective in the programs above.
REASONS = {
    "constraint": [("all-gather", r"result of sin .* differently along x than with_sharding_constraint \(L\d+\) req")],
    "out_shardings": [("all-gather", "result of sin .* than out_shardings, ")],
    "operands": [("all-to-all", "operands of mul have different shardings")],
    "batch": [("all-reduce", r"summed dimension is divided along x: .* \(transpose of dot_general\)$")],
    "asked": [*ASKED, ("all-reduce", "^psum asks for it")],
    "transposed": [*ASKED, *TRANSPOSED, OF_PVARY, ("reduce-scatter", "^transpose of all_gather ")],
    "shared": [("all-reduce", "^transpose of shard_map: its spec does not divide an input along x and y")],
    "kept": [("all-reduce", "^psum asks for it .*, computed again under checkpoint$")],
}


def test_collectives_are_ascribed_to_equations_with_a_reason():
    found, reasons = printed("-c", PROGRAM)
    ((kind, size, axes, count, primitive, reason),) = found["product"]
    assert (kind, size, axes, count, primitive) == ("all-reduce", 2, ["y"], 2 * 8 * 4, "dot_general")
    assert "along y" in reason
    # a branch is not counted as a loop; in a loop, a collective runs once per iteration
    text, inside, _ = found["chosen"]
    assert {"branch"} <= {*inside} <= {"branch", ""} and text.endswith(" a call, with every branch counted")
    text, inside, times = found["turned"]
    assert "loop" in inside and "branch" not in inside and text.endswith(" a call")
    assert {each for each, where in zip(times, inside, strict=True) if where == "loop"} == {3}
    assert [each[0] for each in found["gathered"]] == ["all-gather"]
    assert found["gathered"][0][2] == ["x"]
    ((kind, size, axes, count, primitive, _),) = found["summed"]
    assert (kind, size, axes, count, primitive) == ("all-reduce", 4, ["x"], 8 * 4, "reduce_sum")
    for name, expected in REASONS.items():
        left = [tuple(each) for each in reasons[name]]
        for kind, words in expected:
            left.remove(next(each for each in left if each[0] == kind and re.search(words, each[1])))
        assert not left, name
