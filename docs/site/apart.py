"""``python -m docs.site.apart NAME`` prints the body of the page NAME. It runs in a process with the devices that the
page needs.
"""

from __future__ import annotations

import sys

from docs.site.build import made_here
from docs.site.layout import PageError
from docs.site.prose import TOUR
from docs.site.tour import tour


def main() -> None:
    name = sys.argv[1]
    try:
        body = "".join(tour()) if f"{name}.html" == TOUR else made_here(name)
    except PageError as error:
        raise SystemExit(str(error)) from None
    sys.stdout.buffer.write(body.encode())


if __name__ == "__main__":
    main()
