"""Command lines for ``tools/commands/tour.py``: see the package."""

from __future__ import annotations

GOOD: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("%tour", ("Part 1 of 6", "1.1 ", "› sin(3.0)", "0.14112")),
    ("%tour next", ("The tour uses the name f from here on; yours comes back", "1.2 ", "› def f(x)")),
    ("%tour 1.5", ("1.5 ", "JVPTracer<jvp:1>(primal=0.14112", "The tangent is the cosine of 3, -0.98999")),
    ("%tour", ("1.6 ", "eval ▸ jvp:1")),
    ("%tour back", ("1.5 ", "-0.98999")),
    ("%tour again", ("1.5 ", "-0.98999")),
    ("%tour 5", ("Part 5 of 6", "Array(3")),
    ("%tour stop", ("The tour has ended.",)),
    ("%tour 1.2", ("The tour uses the name f ",)),
    ("%tour stop", ("The tour has ended. Yours again: f",)),
)

BAD: tuple[tuple[str, str], ...] = (
    ("%tour 9", "parts 1 to 6"),
    ("%tour 1.99", "has stops 1.1 to"),
    ("%tour sideways", "takes a part such as 3"),
    ("%tour stop", "not under way"),
    ("%tour back", "not under way"),
)
