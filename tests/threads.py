"""Run functions on several threads at once, in tests of shared state."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor


def at_once(*works, turn=None):
    """Run each of ``works`` on its own thread, all started together. Return their results; re-raise an exception.

    ``turn`` is the thread switch interval in seconds: a short one interleaves the threads in many places.
    """
    begun = threading.Barrier(len(works), timeout=60)

    def run(work):
        begun.wait()
        return work()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(interval if turn is None else turn)
    try:
        with ThreadPoolExecutor(len(works)) as pool:
            return list(pool.map(run, works))
    finally:
        sys.setswitchinterval(interval)
