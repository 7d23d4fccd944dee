"""``python -m tests.bench``: print every row of the speed budgets as a ratio to JAX.

    python -m tests.bench                     every row
    python -m tests.bench --rows grad,lower   rows whose names start with these
    python -m tests.bench --quick             few rounds
    python -m tests.bench --subject jax       JAX against itself: the harness should report equality

Exit status 1 if a row could not be measured, or if the libraries computed different results; a missed budget
does not fail the run without ``--strict``.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import sys
import time
from importlib import metadata

from tests.bench.measure import CLOSE, ERROR, MEETS, MISSES, SKIPPED, Result, Row, Settings, load
from tests.bench.startup import STARTUP_ROWS, Startup
from tests.bench.watching import WATCHING_ROWS, Watched
from tests.bench.workloads import ROWS

AnyRow = Row | Startup | Watched
ALL_ROWS: list[AnyRow] = [*ROWS, *WATCHING_ROWS, *STARTUP_ROWS]
WIDTH = max(len(row.title) for row in ALL_ROWS)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="Speed as ratios to JAX, measured side by side."
    )
    parser.add_argument("--rows", help="comma-separated beginnings of row names")
    parser.add_argument("--list", action="store_true", help="list the rows and stop")
    parser.add_argument("--rounds", type=int, help="rounds for a row, if its time allows (default 5)")
    parser.add_argument("--seconds", type=float, help="time for a row (default 3)")
    parser.add_argument("--quick", action="store_true", help="three rounds and one second for each row")
    parser.add_argument("--subject", default="minijax", help="the library measured (default minijax)")
    parser.add_argument("--strict", action="store_true", help="exit with status 2 when a budget is missed")
    return parser.parse_args(argv)


def pin() -> int:
    """Pin this process and its children to one core, before any library creates its thread pools."""
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def chosen(rows: str | None) -> list[AnyRow]:
    if not rows:
        return ALL_ROWS
    starts = tuple(start.strip() for start in rows.split(","))
    return [row for row in ALL_ROWS if row.key.startswith(starts)]


def make_settings(options: argparse.Namespace) -> Settings:
    return Settings(
        subject=options.subject,
        namespaces={name: load(name) for name in {"jax", options.subject}},
        rounds=options.rounds or (3 if options.quick else 5),
        max_rounds=options.rounds or 25,
        seconds=options.seconds or (1.0 if options.quick else 3.0),
    )


def measured(row: AnyRow, settings: Settings) -> Result:
    """The row's result; an error becomes its note, and the run continues."""
    try:
        return row.run(settings)
    except Exception as error:
        text = str(error).strip().splitlines() or [""]
        return Result(row.key, row.title, row.budget, ERROR, note=f"{type(error).__name__}: {text[0][:120]}")


def amount(nanoseconds: float | None, unit: str) -> str:
    if nanoseconds is None:
        return "-"
    scaled = nanoseconds / {"us": 1e3, "ms": 1e6}[unit]
    return f"{scaled:,.{2 if scaled < 100 else 0}f} {unit}"


def line(result: Result) -> str:
    if result.figure is None:
        note = f"{result.verdict}: {result.note}"
        return f"{result.title:{WIDTH}}  {note}"
    reference, subject = amount(result.reference, result.unit), amount(result.subject, result.unit)
    return (
        f"{result.title:{WIDTH}}  {reference:>13} {subject:>13}"
        f"  {result.figure:7.3f} [{result.low:.3f}, {result.high:.3f}] x{result.rounds:<2}"
        f"  <= {result.budget:<5} {result.verdict:9}  {result.note}"
    ).rstrip()


def header(settings: Settings, core: int) -> str:
    versions = "  ".join(f"{name} {metadata.version(name)}" for name in ("jax", "jaxlib", "numpy"))
    titles = f"{'row':{WIDTH}}  {settings.reference:>13} {settings.subject:>13}"
    return (
        f"Python {platform.python_version()}  {versions}  core {core}, CPU time\n\n"
        f"{titles}  ratio [quartiles] rounds, budget, verdict"
    )


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    rows = chosen(options.rows)
    if options.list or not rows:
        print("\n".join(f"{row.key:22} {row.title}" for row in ALL_ROWS))
        return 0 if options.list else 1
    core, began = pin(), time.monotonic()
    settings = make_settings(options)
    gc.collect()
    gc.freeze()  # keep the libraries' objects out of collections during workloads
    print(header(settings, core), flush=True)
    results: list[Result] = []
    for row in rows:
        results.append(measured(row, settings))
        print(line(results[-1]), flush=True)
    counts = {kind: sum(r.verdict == kind for r in results) for kind in (MEETS, CLOSE, MISSES, ERROR, SKIPPED)}
    seconds = time.monotonic() - began
    print(f"\n{', '.join(f'{n} {kind}' for kind, n in counts.items() if n)}; {seconds:.0f} s")
    return 1 if counts[ERROR] else 2 if options.strict and counts[MISSES] else 0


if __name__ == "__main__":
    sys.exit(main())
