"""A program as somebody wrote it for JAX: ``%run --as-jax`` runs it (``lines/run.py``)."""

import argparse
import sys

import jax
import jax.numpy as jnp

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1)
parser.add_argument("--leave", type=int, default=0)
parser.add_argument("words", nargs="*")


@jax.jit
def cube(x: jax.Array) -> jax.Array:
    return x * jnp.square(x)


if __name__ == "__main__":
    options = parser.parse_args()
    steps, words = options.steps, options.words
    made_by = type(cube(2.0)).__module__.partition(".")[0]
    here = (__file__, sys.modules["__main__"].cube is cube)
    if options.leave:
        sys.exit(options.leave)
