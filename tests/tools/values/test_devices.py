"""Programs over eight devices, in a separate process, show the values on each device and why they recompile."""

import functools

import pytest

from tests.on_devices import printed

PROGRAM = """
import json
import numpy as np
import minijax as jax
import minijax.numpy as jnp
from minijax import lax
from minijax.sharding import NamedSharding, PartitionSpec as P
from minijax.repl import batch
from minijax.tools.documents.document import plain
from minijax.tools.values.replay import replay

AUTO = jax.sharding.AxisType.Auto
mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AUTO, AUTO))
rng = np.random.default_rng(0)


def random(*shape):
    return jnp.asarray(rng.normal(size=shape).astype(np.float32))


def local(reduced):
    def body(w1, w2, x):
        h = jnp.tanh(x @ w1)
        h = lax.ppermute(h, "data", [(i, (i + 1) % 4) for i in range(4)])
        c, _ = lax.scan(lambda c, r: (jnp.sin(c + r) * lax.psum(jnp.mean(c), "data"), c), h[0], h)
        z = (h + c) @ w2 + lax.axis_index("data")
        if reduced == "no":
            return z.sum(axis=1)[:, None]
        z = lax.psum(z, "model")
        return lax.pmean(jnp.mean(z**2), "data") if reduced == "all" else z

    return body


def furthest(found, wanted):
    return float(np.abs(np.asarray(found) - np.asarray(wanted)).max())


found = {}
args, specs = [random(4, 8), random(8, 2), random(8, 4)], (P(None, "model"), P("model"), P("data"))
moving = [random(*x.shape) for x in args]
for check, reduced, out in ((True, "all", P()), (True, "model", P("data")), (False, "no", P(("model", "data")))):
    f = jax.shard_map(local(reduced), mesh=mesh, in_specs=specs, out_specs=out, check_vma=check)
    y, back = jax.vjp(f, *args)
    _, dy = jax.jvp(f, args, moving)
    arriving = random(*y.shape)
    program = jax.make_jaxpr(f)(*args)
    frame = replay(program, args, moving, [arriving])
    (result,) = program.jaxpr.outvars
    pairs = [(frame.value(result), y), (frame.tangent(result), dy)]
    pairs += [(frame.cotangent(v), ct) for v, ct in zip(program.jaxpr.invars, back(arriving))]
    found[f"{check} {reduced}"] = [furthest(*pair) for pair in pairs]

(eqn,) = program.jaxpr.eqns
index = eqn.params["jaxpr"].jaxpr
(last,) = index.outvars
each = [np.asarray(frame.inside(eqn, i).value(last)) for i in range(8)]
# the first dimension is sharded over model, then data
found["device 5 of the result"] = furthest(each[5], np.asarray(y).reshape(2, 4, 2, 1)[1, 2])

session = batch.new_session({})
session.namespace.update(np=np, jax=jax, jnp=jnp, f=f, w1=args[0], w2=args[1], x=args[2])


def shown(line):
    return plain(session.run_line(line).shown, 200)


found["values"] = shown("%values f(w1, w2, x) --iteration 5")
session.run_line("def logs(x):\\n    y = jnp.log(x - 3.)\\n    return y * 2.")
each = dict(mesh=jax.make_mesh((8,), ("i",), axis_types=(AUTO,)), in_specs=P("i"), out_specs=P("i"))
session.namespace["logs"] = jax.shard_map(session.namespace["logs"], **each)
found["nan"] = shown("%nan logs(jnp.arange(16.))")
session.run_line("def meet(x):\\n    y = jnp.log(12.5 - x)\\n    return lax.psum(y, 'i') * 2.")
session.namespace.update(lax=lax, meet=jax.shard_map(session.namespace["meet"], **{**each, "out_specs": P()}))
found["collective"] = shown("%nan meet(jnp.arange(16.))")
found["origin"] = shown("%origin logs(jnp.arange(16.) + 4.)")


session.namespace.update(lax=lax)
session.run_line(
    "def ring(x):\\n    def step(block, _):\\n"
    "        block = lax.ppermute(block, 'i', [(j, (j + 1) % 8) for j in range(8)])\\n"
    "        return block, jnp.sum(block)\\n    return lax.scan(step, x, None, length=8)[1]"
)
session.namespace["ring"] = jax.jit(jax.shard_map(session.namespace["ring"], **each))
found["ring"] = shown("%values ring(jnp.arange(16.)) --iteration 2,3")
session.namespace.update(there=lambda x, *spec: jax.device_put(x, NamedSharding(mesh, P(*spec))))
session.namespace["g"] = jax.jit(lambda p, s: p["w"].sum() * s)
for name, line in (("first", "g({'w': there(x, 'data')}, 1.)"), ("moved", "g({'w': there(x, None, 'model')}, 1.)"),
                   ("asked", "%why g({'w': there(x, 'model')}, 1.)"), ("left", "g({'w': x}, 1.)"),
                   ("again", "g({'w': there(x, 'data')}, 1.)")):
    found[name] = shown(line)
    found[name] = found[name] if name == "asked" else shown("%why")
print(json.dumps(found))
"""


@functools.cache
def shown_there():
    """The output of ``PROGRAM``, from a process with eight devices."""
    return printed("-c", PROGRAM, quickly=True)


@pytest.mark.parametrize(("check_vma", "reduced"), [(True, "all"), (True, "model"), (False, "no")])
def test_a_replay_of_a_shard_map_has_the_right_derivatives(check_vma, reduced):
    differences = shown_there()[f"{check_vma} {reduced}"]
    assert len(differences) == 5
    assert max(differences) < 1e-4


def test_each_device_has_its_part():
    found = shown_there()
    assert found["device 5 of the result"] < 1e-5
    assert "device 5 of 8 (data=2, model=1)" in found["values"]
    assert "no such iteration" not in found["values"]


def test_a_nan_is_found_on_the_device_that_makes_it():
    text = shown_there()["nan"]
    assert "y = jnp.log(x - 3.)" in text
    assert "inside   shard_map, device 0 of 8" in text

    text = shown_there()["collective"]
    assert "first NaN made by log" in text and "device 6 of 8" in text and "psum" not in text
    assert "NaN in 2 of 2 elements" in text


def test_origins_pass_through_a_shard_map():
    lines = [" ".join(line.split()) for line in shown_there()["origin"].splitlines()]
    row = next(line for line in lines if "y = log(" in line)
    # the smallest and the largest value over all devices: log 1 and log 16
    assert "f32[2]{V:i} 0.0 … 2.773" in row, row
    assert lines[0].endswith("5 of 5 operations · 1 of 1 argument"), lines[0]


def test_a_loop_inside_has_the_values_of_each_device():
    lines = shown_there()["ring"].splitlines()
    blocks = [line.split(maxsplit=1)[1] for line in lines if line.split()[0] == "block"]
    assert blocks == ["[14.0, 15.0]", "[12.0, 13.0]"]
    assert any("device 2 of 8, in it iteration 3 of 8" in line for line in lines)


def test_why_explains_a_miss_caused_by_another_sharding():
    found = shown_there()
    assert "first call" in found["first"]
    assert "p['w']: P('data',) became P(None, 'model')" in found["moved"] and " more" not in found["moved"]
    assert "device_put" in found["moved"]
    assert "g would be compiled" in found["asked"].replace("<lambda>", "g")
    assert "became P('model',)" in found["asked"]
    assert "over a mesh became on one device" in found["left"]
    assert "was compiled" not in found["again"]
