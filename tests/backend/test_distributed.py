"""Several processes on the loopback interface run one program. The results equal those of one process.

``python -m minijax.distributed`` starts them. They meet through XLA's coordination service and communicate through
Gloo. Two clients are tested (see ``backend.client``): that of jaxlib alone, and jax's own, which is used with
accelerators.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from minijax.distributed.__main__ import free_port

# The program of every process. With the first argument "jax" it imports jax first. With the second argument "alone"
# there is one process, which has both devices.
PROGRAM = """
import json, sys
import numpy as np

first, how = sys.argv[1:]
if first == "jax":
    import jax
import minijax
from minijax import lax
import minijax.numpy as jnp

alone = how == "alone"
if not alone:
    minijax.distributed.initialize()
    assert minijax.distributed.is_initialized()
process = minijax.process_index()
mine = slice(0, 2) if alone else slice(process, process + 1)
data = (np.arange(6, dtype=np.float32).reshape(2, 3) + 0.5)[mine]

def instance(x, w):
    everyone = lax.all_gather(x[0], "i")
    return {"psum": lax.psum(x * w, "i"), "ratio": x / lax.psum(x, "i"), "gathered": everyone,
            "index": lax.axis_index("i"), "next": lax.ppermute(x, "i", [(0, 1), (1, 0)]),
            "scattered": lax.psum_scatter(x[:2], "i"), "size": lax.axis_size("i") + jnp.zeros(())}

pmapped = minijax.pmap(instance, axis_name="i", in_axes=(0, None))
out = pmapped(data, 2.0)
# sharded results are passed on without being fetched
again = minijax.pmap(lambda x: x + lax.psum(x, "i"), axis_name="i")(out["ratio"])
assert not out["ratio"].on_host

# a step of data-parallel training: the gradient of the mean loss, the same everywhere
def mean(x, w):
    return lax.pmean(jnp.sum(jnp.sin(x * w)), "i")

def step(x, w):
    value, gradient = minijax.value_and_grad(mean, argnums=1)(x, w)
    return value, lax.pmean(gradient, "i")

train = minijax.pmap(step, axis_name="i", in_axes=(0, None), out_axes=None, donate_argnums=0)
value, gradient = train(minijax.pmap(lambda x: x)(data), 2.0)
keys = minijax.pmap(lambda k: minijax.random.normal(k))(minijax.random.split(minijax.random.key(3), 2)[mine])
# as in JAX, a pmap in a traced function runs only on devices of its own process
own = minijax.jit(minijax.pmap(lambda x: lax.psum(x, "i"), axis_name="i"))(data)
np.testing.assert_allclose(np.asarray(own), np.broadcast_to(data.sum(0), data.shape), rtol=1e-6)
report = {name: np.asarray(x).tolist() for name, x in {**out, "again": again, "keys": keys}.items()}
print(json.dumps({
    "local": report,
    "shared": [float(value), float(gradient)],
    "devices": [minijax.device_count(), minijax.local_device_count()],
    "process": [minijax.process_index(), minijax.process_count()],
    "layout": [len(out["psum"].devices()), out["psum"].sharding.is_fully_addressable, str(out["psum"].sharding.spec)],
    "jit": float(minijax.jit(lambda x: (x * 2).sum())(data)),
}))
minijax.distributed.shutdown()
assert not minijax.distributed.is_initialized()
"""


def environment(devices: int = 1) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_COORDINATOR_ADDRESS")}
    path = os.pathsep.join(p for p in sys.path if p)
    return env | {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(devices)}


def start(code: str, *arguments: str, devices: int = 1) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment(devices))


def launch(code: str, *arguments: str, processes: int, devices: int = 1) -> subprocess.Popen[str]:
    """Run ``python -m minijax.distributed`` with this code."""
    how = ["-n", str(processes), "--devices-per-process", str(devices), "-c", textwrap.dedent(code), *arguments]
    command = [sys.executable, "-m", "minijax.distributed", *how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())


def lines_of(written: str, processes: int) -> list[str]:
    """The output of each process. The command prints the number of the process before each line of its output."""
    found = [""] * processes
    for each in written.splitlines():
        number, _, text = each.removeprefix("[").partition("] ")
        found[int(number)] += text + "\n"
    return found


def finish(process: subprocess.Popen[str]) -> str:
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, err
    return out


def report(printed: str) -> dict[str, Any]:
    """The JSON that a process printed; Gloo prints other lines."""
    return json.loads(next(each for each in printed.splitlines() if each.startswith("{")))


def reports(code: str, *arguments: str, processes: int, devices: int = 1) -> list[dict[str, Any]]:
    """The JSON that each process printed."""
    printed = finish(launch(code, *arguments, processes=processes, devices=devices))
    return [*map(report, lines_of(printed, processes))]


@pytest.mark.parametrize("first", ["jaxlib alone", "jax"])
def test_two_processes_give_the_results_of_one(first: str) -> None:
    together = reports(PROGRAM, first, "together", processes=2)
    alone = report(finish(start(PROGRAM, first, "alone", devices=2)))
    for name, value in alone["local"].items():
        parts = [each["local"][name] for each in together]
        assert parts[0] + parts[1] == value, name
    assert [each["shared"] for each in together] == [alone["shared"]] * 2
    assert [each["devices"] for each in together] == [[2, 1]] * 2
    assert [each["process"] for each in together] == [[0, 2], [1, 2]]
    # a process receives only its own results
    assert [each["layout"] for each in together] == [[1, True, "P('i',)"]] * 2
    assert (alone["devices"], alone["process"], alone["layout"]) == ([2, 2], [0, 1], [2, True, "P('i',)"])
    # each process runs its own jit programs
    assert together[0]["jit"] + together[1]["jit"] == alone["jit"]


# A training step with shardings, and a shard_map with its gradient, over a mesh of four devices. Only the arguments
# concern processes. The first is the number of a process that ends early, or "nobody". The arguments of ``initialize``
# may follow it.
OVER_A_MESH = """
import json, os, sys
import numpy as np
import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.sharding import Mesh, NamedSharding, PartitionSpec as P

dies, *address = sys.argv[1:]
if address:
    minijax.distributed.initialize(address[0], *map(int, address[1:]), heartbeat_timeout_seconds=5)
mesh = Mesh(np.array(minijax.devices()).reshape(2, 2), ("data", "model"))
draw = np.random.default_rng(0).standard_normal

def lay(value, *spec):
    value = value.astype(np.float32)
    return minijax.make_array_from_callback(value.shape, NamedSharding(mesh, P(*spec)), lambda index: value[index])

params = {"w1": lay(draw((8, 16)) / 4, None, "model"), "w2": lay(draw((16, 4)) / 4, "model", None)}
x, y = lay(draw((8, 8)), "data"), lay(draw((8, 4)), "data")

def loss(params, x, y):
    return jnp.mean((jnp.tanh(x @ params["w1"]) @ params["w2"] - y) ** 2)

@minijax.jit
def step(params, x, y):
    value, gradient = minijax.value_and_grad(loss)(params, x, y)
    return value, minijax.tree.map(lambda p, g: p - 0.1 * g, params, gradient)

losses = []
for turn in range(4):
    if turn == 2 and str(minijax.process_index()) == dies:
        os._exit(7)
    value, params = step(params, x, y)
    losses.append(float(value))

mapped = minijax.jit(minijax.shard_map(
    lambda w, x: lax.psum(lax.pmean(jnp.tanh(x @ w).sum(), "data"), "model"), mesh=mesh,
    in_specs=(P(None, "model"), P("data")), out_specs=P()))
gradient = minijax.jit(minijax.grad(mapped))(params["w1"], x)
print(json.dumps({
    "losses": losses,
    "mapped": float(mapped(params["w1"], x)),
    "norm": float((gradient ** 2).sum()),
    "spec": str(params["w1"].sharding.spec),
    "local": len(params["w1"].addressable_shards),
    "whole": params["w1"].is_fully_addressable,
}))
"""


def test_programs_over_a_mesh_agree_on_one_two_and_four_processes() -> None:
    alone = report(finish(start(OVER_A_MESH, "nobody", devices=4)))
    assert alone["losses"] == sorted(alone["losses"], reverse=True)
    assert (alone.pop("local"), alone.pop("whole")) == (4, True)
    for count in (2, 4):
        for each in reports(OVER_A_MESH, "nobody", processes=count, devices=4 // count):
            assert (each.pop("local"), each.pop("whole")) == (4 // count, False)
            assert each == alone


def test_a_process_that_dies_ends_the_others_in_time() -> None:
    address = f"127.0.0.1:{free_port()}"
    left, dying = (start(OVER_A_MESH, "1", address, "2", str(i), devices=2) for i in range(2))
    try:
        assert dying.wait(timeout=120) == 7
        # the missing heartbeat is noticed after five seconds, or later on a busy machine
        _, said = left.communicate(timeout=60)
    finally:
        left.kill()
        dying.kill()
    assert left.returncode != 0
    assert "another task died" in said or re.search("Connection (closed|reset) by peer", said), said[-2000:]


MISUSE = """
import numpy as np
import minijax

def message(call, kind):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("accepted")

initialize = minijax.distributed.initialize
assert "coordinator_address should be defined" in message(lambda: initialize(), ValueError)
assert "Number of processes must be defined" in message(lambda: initialize("127.0.0.1:1"), ValueError)
assert "process id of the current process must be" in message(lambda: initialize("127.0.0.1:1", 2), ValueError)
assert "process_id < num_processes" in message(lambda: initialize("127.0.0.1:1", 2, 2), ValueError)
assert "process_id must be an int" in message(lambda: initialize("127.0.0.1:1", 2, "0"), TypeError)
minijax.distributed.shutdown()  # there is nothing to shut down

import sys
initialize(sys.argv[1], 1, 0)
assert "should only be called once" in message(lambda: initialize(sys.argv[1], 1, 0), RuntimeError)
assert minijax.process_count() == 1
assert minijax.pmap(lambda x: x + 1)(np.ones((1, 2))).shape == (1, 2)
minijax.distributed.shutdown()
assert "must be called before" in message(lambda: initialize(sys.argv[1], 1, 0), RuntimeError)
"""


def test_misuse_of_initialize_raises_an_error() -> None:
    finish(start(MISUSE, f"127.0.0.1:{free_port()}"))


WRONG_SIZE = """
import sys
import numpy as np
import minijax

try:
    minijax.pmap(lambda x: x)(np.ones((2, 3)))
except ValueError as error:
    print("\\n" + str(error))
try:
    minijax.pmap(lambda x: x, axis_size=1)(np.ones((1, 3)))
except ValueError as error:
    print(error)
"""


def test_two_processes_refuse_wrong_sizes() -> None:
    _, second = found = lines_of(finish(launch(WRONG_SIZE, processes=2)), 2)
    for text in found:
        assert "compiling computation that requires 4 logical devices, but only 2 XLA devices are available" in text
        # process 0 has the only device of the pmap over one device
        assert ("pmap over 1 devices, 0 of which belong to this process" in text) == (text is second)


# Process 1 fails as the argument says; the others wait for it in a collective. With "wait", all wait for a signal.
FAILING = """
import os, signal, sys
import minijax
import minijax.numpy as jnp
from minijax.sharding import NamedSharding, PartitionSpec as P, make_mesh

how = sys.argv[1]
mesh = make_mesh((minijax.device_count(),), ("x",))
x = minijax.make_array_from_callback((6,), NamedSharding(mesh, P("x")), lambda i: jnp.arange(6.0)[i])
print("ready", float(minijax.jit(jnp.sum)(x)))
if how == "wait":
    signal.pause()
if minijax.process_index() == 1:
    if how == "raise":
        raise RuntimeError("no more")
    if how == "exit":
        sys.exit(3)
    os.kill(os.getpid(), signal.SIGKILL)
minijax.jit(jnp.sum)(x * 2).block_until_ready()
"""


@pytest.mark.parametrize(
    ("how", "processes", "code", "said"),
    [
        ("raise", 2, 1, "process 1 ended with exit code 1; the others (0) are ended"),
        ("exit", 2, 3, "process 1 ended with exit code 3; the others (0) are ended"),
        ("kill", 3, 128 + signal.SIGKILL, "process 1 was ended by SIGKILL; the others (0, 2) are ended"),
    ],
)
def test_the_command_ends_all_processes_when_one_dies(how: str, processes: int, code: int, said: str) -> None:
    command = launch(FAILING, how, processes=processes)
    try:
        out, err = command.communicate(timeout=120)
    finally:
        command.kill()
    assert command.returncode == code, err
    assert "ready 15.0" in lines_of(out, processes)[1]
    assert said in err
    if how == "raise":
        assert "[1] RuntimeError: no more" in err and "  | RuntimeError: no more" in err


def test_ctrl_c_ends_all_processes() -> None:
    command = launch(FAILING, "wait", processes=2)
    assert command.stdout is not None
    try:
        ready = {command.stdout.readline().partition("ready")[0] for _ in range(4)}
        while len([each for each in ready if each in ("[0] ", "[1] ")]) < 2:
            ready.add(command.stdout.readline().partition("ready")[0])
        command.send_signal(signal.SIGINT)
        _, err = command.communicate(timeout=60)
    finally:
        command.kill()
    assert command.returncode == 130
    assert "interrupted: stopping the 2 processes" in err
    assert "] KeyboardInterrupt" in err
