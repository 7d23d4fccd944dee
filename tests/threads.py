"""Work on several threads at once, in tests of what threads share."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor


def at_once(*works, turn=None):
    """What ``works`` give, each on a thread of its own and all begun together; what one raises is raised.

    ``turn`` is after how many seconds another thread may run: few of them make the threads meet in many places.
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
