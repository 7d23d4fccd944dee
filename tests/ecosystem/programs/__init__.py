"""Small programs as the users of real libraries write them, a file a family of libraries.

Each is a function with an ``example`` of its arguments. They are listed here, so that the tests know of them without
importing the libraries: which come with ``pip install -e '.[test-ecosystem]'``.
"""

# file -> the libraries that it imports
NEEDS = {
    "decisions": ("rlax", "mctx", "ott", "e3nn_jax"),
    "distributions": ("distrax",),
    "equinox": ("equinox",),
    "flax": ("flax",),
    "haiku": ("haiku",),
    "jaxopt": ("jaxopt",),
    "kidger": ("diffrax", "lineax", "optimistix"),
    "optax": ("optax",),
    "probability": ("tinygp", "numpyro", "blackjax"),
    "pure": (),
}

# file -> its programs
PROGRAMS = {
    "decisions": ("rlax_returns", "mctx_policy", "ott_sinkhorn", "e3nn_harmonics"),
    "distributions": ("mixture", "flow"),
    "equinox": ("mlp", "filtered_gradient", "conv_net", "gru"),
    "flax": ("linen_mlp", "linen_init", "linen_conv_net", "linen_attention", "linen_lstm", "nnx_model"),
    "haiku": ("mlp", "lstm", "state_of_batch_norm"),
    "jaxopt": ("lbfgs", "projected_gradient"),
    "kidger": ("ode", "sde", "linear_solve", "root", "least_squares", "conjugate_gradients"),
    "optax": ("adam", "adamw_with_schedule", "lbfgs"),
    "probability": ("gaussian_process", "numpyro_density", "numpyro_hmc", "blackjax_nuts"),
    "pure": (
        "random_numbers",
        "random_draws",
        "convolution",
        "linear_algebra",
        "decompositions",
        "fourier",
        "sorting",
        "special_functions",
        "segments",
        "resizing",
        "custom_rules",
        "control_flow",
        "rematerialized",
        "nested_transformations",
    ),
}

ALL = tuple(f"{file}.{name}" for file, names in PROGRAMS.items() for name in names)

# What is not JAX's yet, and why.
NOT_YET = {
    "decisions.ott_sinkhorn": "a program among the params of a borrowed primitive has constants",
    "equinox.mlp": "pytrees that JAX alone knows are no arguments of minijax's transformations yet",
    "equinox.conv_net": "pytrees that JAX alone knows are no arguments of minijax's transformations yet",
    "equinox.gru": "pytrees that JAX alone knows are no arguments of minijax's transformations yet",
    "flax.nnx_model": "pytrees that JAX alone knows are no arguments of minijax's transformations yet",
    "jaxopt.lbfgs": "a borrowed rule is not derived yet",
    "jaxopt.projected_gradient": "a borrowed rule is not derived yet",
    "kidger.ode": "callbacks are borrowed",
    "kidger.sde": "its lowering holds a sharding constraint",
    "kidger.linear_solve": "a borrowed rule is not derived yet",
    "kidger.root": "a borrowed rule is not derived yet",
    "kidger.least_squares": "a borrowed rule is not derived yet",
    "kidger.conjugate_gradients": "a borrowed rule is not derived yet",
    "pure.linear_algebra": "a borrowed rule is not derived yet",
    "pure.decompositions": "a borrowed rule is not derived yet",
}
