"""Command lines for ``tools/commands/panels.py``: see the package."""

from __future__ import annotations

GOOD: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("%panels", ("stack", "time")),
    ("%panels stack time", ("jaxpr (off)",)),
    ("%panels off", ("time (off)",)),
    ("%panels on", ("stack",)),
    ("%panels --all", ("",)),
)

BAD: tuple[tuple[str, str], ...] = (
    ("%panels stak", "not 'stak'"),
)
