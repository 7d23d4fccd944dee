"""Command lines for ``tools/commands/session.py``: see the package."""

from __future__ import annotations

GOOD: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("%help", ("%jaxpr", "%x64", "%help NAME")),
    ("%help grad", ("--argnums", "For example")),
    ("%help config", ("save them for later",)),
    ("%config", ("jax_enable_x64", "style", "the panels shown after a line")),
    ("%config theme dark", ("dark",)),
    ("%config theme = auto", ("auto",)),
    ("%config full tracers jaxpr", ("tracers jaxpr",)),
    ("%config full off", ("off",)),
    ("%config history 500", ("500",)),
    ("%config history 10_000", ("10000",)),
    ("%config frames", ("user",)),
    ("%doc grad", ("grad(fun", "autodiff.py", "gradient function")),
    ("%doc jnp.sin", ("sin(",)),
    ("%doc f --source", ("jnp.sin(x) * 2.0 - x",)),
    ("%doc len", ("built",)),
    ("%config style tutorial", ("tutorial",)),
    ("%config style jax", ("jax",)),
    ("%config jax_numpy_rank_promotion warn", ("warn",)),
    ("%config numpy_rank_promotion allow", ("allow",)),
    ("%x64 on", ("on: 64-bit",)),
    ("%x64 off", ("off: 64-bit",)),
    ("%x64", ("off",)),
    ("%history 3", ("",)),
)

BAD: tuple[tuple[str, str], ...] = (
    ("%help grd", "there is no command %grd"),
    ("%doc", "%doc needs NAME"),
    ("%doc nothing_of_this_name", "there is nothing called nothing_of_this_name"),
    ("%doc jnp.sine", "jnp has no attribute sine"),
    ("%doc f(x)", "takes a name"),
    ("%config colour", "there is no setting colour. Did you mean color?"),
    ("%config theme drak", "Did you mean dark?"),
    ("%config keys qwerty", "keys takes emacs or vi"),
    ("%config history many", "takes a number from 0"),
    ("%config save", "has no settings file"),
    ("%config style html", "takes jax or tutorial"),
    ("%config panels stak", "not 'stak'"),
    ("%config jax_enable_x64 perhaps", "takes on or off"),
    ("%config jax_numpy_rank_promotion perhaps", "rank_promotion"),
    ("%x64 maybe", "takes on or off"),
    ("%history all", "takes a number"),
    ("%gard f(3.0)", "Did you mean %grad?"),
)
