"""Rows about arrays that lie over several devices: a process of its own has as many as a row asks for.

There both libraries call the same function in turn; the figure is the ratio of wall-clock time, since a call waits for
threads of all devices. Rounds are short and many, so that few of them are disturbed by what else the machine does. Run
as a program it prints the times of one process: ``python -m tests.bench.sharded 8``.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any

from tests.bench.measure import Result, Settings
from tests.bench.startup import environment

CALLS = 10
ROUNDS = 150


@dataclass(frozen=True)
class Sharded:
    """A call of a jitted function on arguments that are divided over ``devices``: one, or a tree of them.

    Or of a pmapped one, on what an earlier call gave or on an array on the host.
    """

    key: str
    title: str
    budget: float
    devices: int
    what: str

    def run(self, settings: Settings) -> Result:
        result = Result(self.key, self.title, self.budget, unit="us")
        with tempfile.TemporaryDirectory() as home:
            env = {**environment(home), "JAX_NUM_CPU_DEVICES": str(self.devices), "JAX_PLATFORMS": "cpu"}
            command = [sys.executable, "-m", "tests.bench.sharded", str(self.devices), self.what]
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{self.key}: {done.stderr.strip().splitlines()[-1:]}")
        ours, theirs = json.loads(done.stdout.splitlines()[-1])
        return result.judge(ours, theirs)


SHARDED_ROWS = [
    Sharded(f"sharded.{what}.{devices}", f"jit call, {title} over {devices} devices", 1.1, devices, what)
    for devices in (1, 8)
    for what, title in (("one", "1 argument"), ("tree", "a 10-leaf tree"))
] + [
    Sharded(f"sharded.{what}.{devices}", f"pmap call, {title} over {devices} devices", budget, devices, what)
    for devices in (1, 8)
    for what, title, budget in (("pmap", "an earlier result", 1.1), ("pmap_host", "a NumPy array", 1.5))
]


def call(name: str, devices: int, what: str) -> Any:
    """A function of no argument that calls a jitted function of ``name`` and waits for its result."""
    ns, of = importlib.import_module(name), importlib.import_module(name + ".sharding")
    np = importlib.import_module("numpy")
    mesh = of.Mesh(np.array(ns.devices()).reshape(devices), ("x",))
    sharding = of.NamedSharding(mesh, of.PartitionSpec("x"))
    x = ns.device_put(np.ones((8 * devices, 8), np.float32), sharding)
    if what in ("pmap", "pmap_host"):
        function = ns.pmap(lambda x: x * 2.0 + 1.0)
        host = np.ones((devices, 8, 8), np.float32)
        argument = host if what == "pmap_host" else function(host)
    elif what == "one":
        function, argument = ns.jit(lambda x: x * 2.0 + 1.0), x
    else:
        function = ns.jit(lambda tree: {key: value * 2.0 for key, value in tree.items()})
        argument = {f"w{i}": x for i in range(10)}
    return lambda: ns.block_until_ready(function(argument))


def main(devices: int, what: str) -> None:
    calls = [call(name, devices, what) for name in ("minijax", "jax")]
    times: list[list[float]] = [[], []]
    for each in calls:
        for _ in range(20):
            each()
    for number in range(ROUNDS):
        for i in (0, 1) if number % 2 else (1, 0):
            began = time.perf_counter_ns()
            for _ in range(CALLS):
                calls[i]()
            times[i].append((time.perf_counter_ns() - began) / CALLS)
    print(json.dumps(times))


if __name__ == "__main__":
    os.environ.setdefault("JAX_NUM_CPU_DEVICES", sys.argv[1])
    main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "one")
