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
    "kidger": ("ode", "sde", "linear_system", "root", "least_squares", "conjugate_gradients"),
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

# What runs, value and gradient, where its libraries have been replaced: their import statements mean minijax.
REPLACED = (
    "decisions.rlax_returns",
    "decisions.mctx_policy",
    "decisions.ott_sinkhorn",
    "decisions.e3nn_harmonics",
    "distributions.mixture",
    "distributions.flow",
    "equinox.mlp",
    "equinox.filtered_gradient",
    "equinox.conv_net",
    "equinox.gru",
    "flax.linen_mlp",
    "flax.linen_init",
    "flax.linen_conv_net",
    "flax.linen_attention",
    "haiku.mlp",
    "haiku.lstm",
    "haiku.state_of_batch_norm",
    "kidger.linear_system",
    "kidger.conjugate_gradients",
    "optax.adam",
    "optax.adamw_with_schedule",
    "optax.lbfgs",
    "probability.gaussian_process",
    "probability.numpyro_density",
    "probability.numpyro_hmc",
    "probability.blackjax_nuts",
    "pure.random_draws",
    "pure.custom_rules",
    "pure.nested_transformations",
)
