"""The speed benchmark, ``python -m tests.bench``: figures as ratios to JAX, taken side by side in one run.

- ``workloads``: the rows measured in this process; a workload is written once and takes a library's namespace;
- ``startup``: rows measured on fresh processes;
- ``watching``: the rows on the cost of recorders;
- ``measure``: clocks, the interleaved comparison, verdicts;
- ``__main__``: the command line and the printed table.
"""

import os

# NumPy reads this at import. The run is pinned to one core, on which a product with two BLAS threads takes six times
# as long, because the threads wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
