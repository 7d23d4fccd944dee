"""``python -m tests.claims``: random programs, and every claim that the commands print about them."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from tests.claims import faults
from tests.claims.audit import CHECKS, claims_of
from tests.claims.checks import Claim
from tests.claims.programs import program

# At most this share of claims may be 'unknown'.
MOST_UNKNOWN = 0.05


def report(claims: Sequence[Claim], unchecked: Counter[str], seconds: float) -> int:
    """Prints what was found; the exit status."""
    false = [claim for claim in claims if claim.true]
    unknown = sum(claim.unknown for claim in claims)
    print(f"{'command':<10}{'claims':>8}{'false':>8}{'unknown':>9}   kinds")
    for command in sorted({claim.command for claim in claims}):
        of = [claim for claim in claims if claim.command == command]
        kinds = ", ".join(f"{kind} {count}" for kind, count in Counter(claim.kind for claim in of).most_common())
        row = f"{command:<10}{len(of):>8}{sum(bool(c.true) for c in of):>8}{sum(c.unknown for c in of):>9}   {kinds}"
        print(row)
    share = unknown / max(len(claims), 1)
    print(f"{len(claims)} claims, {len(false)} false, {share:.1%} unknown, {seconds:.0f} s")
    print(f"not checked, because JAX has no value there: {sum(unchecked.values())}")
    for claim in false[:100]:
        print(f"\nFALSE: {claim.command} {claim.kind}, seed {claim.seed}: {claim.line}")
        print(f"  printed: {claim.printed}\n  true:    {claim.true}")
        print(f"  to see it: python -m tests.claims --seed {claim.seed} --programs 1 --show")
    return int(bool(false) or share > MOST_UNKNOWN)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.claims", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="check at least this many claims (2000)")
    parser.add_argument("--programs", type=int, help="take this many programs instead")
    parser.add_argument("--seed", type=int, default=0, help="the first program's seed (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many processes")
    parser.add_argument("--command", action="append", choices=sorted(CHECKS), help="only this command; repeatable")
    parser.add_argument("--show", action="store_true", help="print each program and each claim")
    parser.add_argument("--faults", action="store_true", help="put small faults into minijax: each must be noticed")
    options = parser.parse_args()
    if options.faults:
        return faults.report()
    commands = options.command or list(CHECKS)
    claims: list[Claim] = []
    unchecked: Counter[str] = Counter()
    begun, seed = time.perf_counter(), options.seed
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        at_work = set()
        while True:
            enough = (
                len(claims) >= options.count if options.programs is None else seed >= options.seed + options.programs
            )
            while not enough and len(at_work) < options.jobs + 1:
                at_work.add(pool.submit(claims_of, seed, commands))
                seed += 1
                enough = options.programs is not None and seed >= options.seed + options.programs
            if not at_work:
                break
            done = next(as_completed(at_work))
            at_work.remove(done)
            found, missed = done.result()
            claims += found
            unchecked += missed
    if options.show:
        for one in sorted({claim.seed for claim in claims}):
            shown = program(one)
            numbered = (f"{number:>3}  {text}" for number, text in enumerate(shown.source.splitlines(), 1))
            print(*numbered, f"     {shown.call}", sep="\n")
            for claim in (claim for claim in claims if claim.seed == one):
                verdict = f"FALSE: {claim.true}" if claim.true else "unknown" if claim.unknown else "true"
                print(f"{claim.line} | {claim.kind} | {claim.printed} | {verdict}")
    return report(claims, unchecked, time.perf_counter() - begun)


if __name__ == "__main__":
    sys.exit(main())
