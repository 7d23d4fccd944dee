"""Command lines for ``tools/commands/tour.py``: see the package."""

from __future__ import annotations

GOOD: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("%tour", ("Part 1 of 7", "1.1 ", "› sin(3.0)", "0.14112")),
    ("%tour next", ("The tour uses the name f from here on; yours comes back", "1.2 ", "› def f(x)")),
    ("%tour 1.5", ("1.5 ", "JVPTracer<jvp:1>(primal=0.14112", "The tangent is the cosine of 3, -0.98999")),
    ("%tour", ("1.6 ", "eval ▸ jvp:1")),
    ("%tour back", ("1.5 ", "-0.98999")),
    ("%tour again", ("1.5 ", "-0.98999")),
    ("%tour 5", ("Part 5 of 7", "Array(3")),
    ("%tour stop", ("The tour has ended.",)),
    ("%tour 1.2", ("The tour uses the name f ",)),
    ("%tour stop", ("The tour has ended. Yours again: f",)),
    ("%tour exercises", ("0 of 11 done", "1 · Predict the jaxpr", "%tour ex 1 opens the first", "✓ done")),
    ("%tour ex 8", ("Exercise 8 of 11: Find the leaked tracer", "cache[v.shape] = scale", "%tour check runs it")),
    ("%tour check", ("8  not yet. suspect is still empty", "This is the start code still")),
    ("%tour hint", ("hint 1", "2 left")),
    ("%tour solution --use", ('suspect = "cache"', "a jitted function returns")),
    ("%tour check", ("8  ✓ right. cache keeps a tracer", "as `scale`", "%tour next: Find where the NaN begins")),
    ("%tour next", ("Exercise 9 of 11: Find where the NaN begins", "%tour edit · check · hint · solution · next")),
    ("%tour back", ("Exercise 8 of 11: Find the leaked tracer  ✓",)),
    ("%tour again", ("Exercise 8 of 11",)),
    ("%tour ex first-nan", ("Exercise 9 of 11",)),
    ("%tour stop", ("You have left the exercises",)),
)

BAD: tuple[tuple[str, str], ...] = (
    ("%tour 9", "parts 1 to 7"),
    ("%tour 1.99", "has stops 1.1 to"),
    ("%tour sideways", "takes a part such as 3"),
    ("%tour stop", "not under way"),
    ("%tour back", "not under way"),
    ("%tour ex 12", "exercises 1 to 11, and no exercise 12"),
    ("%tour ex jvp-rul", "Did you mean jvp-rule?"),
    ("%tour chek", "Did you mean check?"),
    ("%tour check answer = 3", "%tour check stands alone, without 'answer = 3'. Write your answer at the prompt first"),
    ("%tour check", "no exercise is open"),
    ("%tour hint", "no exercise is open"),
    ("%tour solution", "no exercise is open"),
    ("%tour 2 --use", "%tour --use goes with solution"),
)
