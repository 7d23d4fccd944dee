"""``python -m docs [FOLDER]`` writes the documentation as HTML pages, by default into ``docs/_site``."""

from __future__ import annotations

import argparse
from pathlib import Path

from docs.site.build import HERE, build
from docs.site.layout import PageError


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m docs", description="Write the documentation as HTML pages.")
    parser.add_argument("folder", nargs="?", type=Path, default=HERE / "_site", help="default: docs/_site")
    parser.add_argument("--gallery", default=None, metavar="NAMES", help="recordings that get a page, as A,B")
    asked = parser.parse_args()
    try:
        sizes = []
        for file in build(asked.folder, None if asked.gallery is None else asked.gallery.split(",")):
            sizes.append(file.stat().st_size)
            print(f"{file.relative_to(asked.folder)}  {sizes[-1] / 1000:,.0f} kB", flush=True)
    except PageError as error:
        raise SystemExit(str(error)) from None
    print(f"{len(sizes)} pages, {sum(sizes) / 1e6:.1f} MB: open {asked.folder / 'index.html'}")


if __name__ == "__main__":
    main()
