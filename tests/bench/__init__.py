"""The speed benchmark, ``python -m tests.bench``: figures as ratios to JAX, taken side by side in one run.

- ``workloads``: the table of rows, every workload written once over such a namespace;
- ``startup``: rows measured on fresh processes;
- ``watching``: rows about recorders;
- ``measure``: clocks, the interleaved comparison, verdicts;
- ``__main__``: the command line and the printed table.
"""

import os

# NumPy reads this at import: a run is pinned to one core, where two BLAS threads wait for each other, and a
# product takes six times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
