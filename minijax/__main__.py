"""``python -m minijax`` is ``minijax-repl``."""

import sys

from minijax.repl.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
