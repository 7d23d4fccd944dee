"""Command lines for ``tools/commands/debug.py``: see the package."""

from __future__ import annotations

# what it says of a failure is in ``sessions/test_post_mortem.py``: good lines have none
GOOD: tuple[tuple[str, tuple[str, ...]], ...] = (("%debug", ("nothing has failed in this session",)),)

BAD: tuple[tuple[str, str], ...] = (("%debug f", "does not understand 'f'"),)
