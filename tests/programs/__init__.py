"""The gallery: whole programs as their authors would write them for JAX, a page each.

Every page runs as it stands on both libraries: ``python -m tests.programs.mlp`` on JAX, ``minijax-repl --as-jax
tests/programs/mlp.py`` on minijax. It has

- ``start()``, the state of the training before the first step, and ``data()``, a tuple of what it learns from;
- ``step(state, *data)``, which gives the next state and the loss before it;
- ``loss``, and ``example()``, what it is called with at the first step.
"""

# page -> the libraries that it needs beside JAX
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
