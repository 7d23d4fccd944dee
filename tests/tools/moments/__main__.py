"""``python -m tests.tools.moments [NAME ...]``: how much was compared, of which programs, and what was wrong."""

from __future__ import annotations

import sys
import time

from tests.tools.moments.programs import LIBRARIES, PROGRAMS, of_ecosystem


def main(names: list[str]) -> int:
    """Compare the programs with these names, or all."""
    totals = [0, 0, 0, 0, 0]
    for name in names or (*PROGRAMS, *LIBRARIES):
        began = time.process_time()
        verdict = (PROGRAMS[name] if name in PROGRAMS else of_ecosystem(name)).verdict()
        print(f"{name}: {verdict} ({time.process_time() - began:.1f} s)")
        for said in (*verdict.wrong, *[f"missing: {each}" for each in verdict.missing]):
            print(f"    {said[:200]}")
        found = (verdict.moments, verdict.cells, verdict.values, verdict.iterations, len(verdict.wrong))
        totals = [a + b for a, b in zip(totals, found, strict=True)]
    moments, cells, values, turns, wrong = totals
    print(f"together {moments:,} moments, {cells:,} cells, {values:,} values, {turns:,} in turns; {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
