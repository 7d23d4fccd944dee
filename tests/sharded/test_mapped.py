"""``shard_map`` against JAX's on eight devices, which a process of its own has: values, derivatives, errors, jaxprs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np

import minijax as mj
import minijax.numpy as jnp
from minijax import random, sharding
from tests.sharded.programs import PROGRAMS


def test_programs_compute_and_print_what_jax_does() -> None:
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "tests.sharded.compare"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found.keys() == PROGRAMS.keys()
    assert not {name: differs for name, differs in found.items() if differs}


def test_what_is_lowered_as_a_program_of_its_own_has_plain_types() -> None:
    mesh = sharding.Mesh(np.array(mj.devices()[:1]), ("x",))
    spec = sharding.PartitionSpec("x")
    keys, shapes = random.split(random.key(0), 1), jnp.array([0.5, 2.0])
    drawn = mj.shard_map(
        lambda k, a: random.gamma(k[0], a),
        mesh=mesh,
        in_specs=spec,
        out_specs=spec,
    )(keys, shapes)
    assert np.array_equal(drawn, random.gamma(keys[0], shapes))
