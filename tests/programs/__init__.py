"""The gallery: whole programs as their authors would write them for JAX, one page each.

Every page runs unchanged on both libraries: ``python -m tests.programs.mlp`` on JAX, ``minijax-repl --as-jax
tests/programs/mlp.py`` on minijax. Every page has

- ``start()``, the state before the first training step, and ``data()``, a tuple of arrays to train on;
- ``step(state, *data)``, which returns the next state and the loss before the step;
- ``loss``, and ``example()``, the arguments of ``loss`` at the first step.
"""

# page -> the libraries that it needs besides JAX
PAGES: dict[str, tuple[str, ...]] = {
    "mlp": ("sklearn",),
    "adam": (),
    "cnn": ("sklearn",),
    "transformer": (),
    "lstm": (),
    "vae": ("sklearn",),
    "kalman": (),
    "hmc": (),
    "neural_ode": (),
    "implicit_layer": (),
    "private_descent": ("sklearn",),
    "gaussian_process": (),
    "graph_network": (),
    "equinox_training": ("sklearn", "equinox", "optax"),
    "flax_training": ("sklearn", "flax", "optax"),
}
