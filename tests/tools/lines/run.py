"""Command lines for ``tools/commands/run.py``: see the package."""

from __future__ import annotations

from pathlib import Path

PROGRAM = Path(__file__).with_name("program_for_jax.py")

GOOD: tuple[tuple[str, tuple[str, ...]], ...] = (
    (f"%run --as-jax {PROGRAM} --steps 3 'a b'", ("cube staged",)),
    ("steps, words, made_by, here[1]", ("(3, ['a b'], 'minijax', True)",)),
    (f"%run --as-jax {PROGRAM} --leave 4", ("ended with exit code 4",)),
)

BAD: tuple[tuple[str, str], ...] = (
    ("%run --as-jax", "%run needs FILE"),
    ("%run --as-jax no_such_program.py", "%run cannot read no_such_program.py: No such file"),
    ("%run --as-jax 'unclosed.py", '%run cannot take "\'unclosed.py" apart'),
    ("%run --as-jax --steps 3 program.py", "%run has no option --steps"),
)
