"""Print how big the project is: ``python -m tests.size``.

Lines are counted in the ``.py`` files. Tokens are those of ``tokenize`` without comments, docstrings, newlines and
indentation, so neither denser lines nor more prose change them. ``tests/test_size.py`` has today's sizes as bounds.
"""

from __future__ import annotations

import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


class Size(NamedTuple):
    lines: int = 0
    tokens: int = 0

    def plus(self, other: Size) -> Size:
        return Size(self.lines + other.lines, self.tokens + other.tokens)

    @property
    def density(self) -> float:
        return self.tokens / max(self.lines, 1)


def is_counted(token: tokenize.TokenInfo, previous: tokenize.TokenInfo) -> bool:
    """Whether a token counts. Layout does not, nor does a string that is a whole statement, such as a docstring."""
    return token.type not in LAYOUT and not (token.type == tokenize.STRING and previous.type in LAYOUT)


def size_of_file(path: Path) -> Size:
    with path.open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    return Size(path.read_text(encoding="utf-8").count("\n"), sum(map(is_counted, tokens[1:], tokens)))


def size_of(paths: Iterator[Path]) -> Size:
    total = Size()
    for path in paths:
        total = total.plus(size_of_file(path))
    return total


def files(*folders: str, without: str = "") -> Iterator[Path]:
    """The Python files below ``folders`` of the repository, except those below the folder ``without``."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not (without and path.is_relative_to(ROOT / without)):
                yield path


def groups() -> dict[str, Size]:
    """Group of files -> its size. ``tests/test_size.py`` bounds these."""
    return {
        "minijax without tools": size_of(files("minijax", without="minijax/tools")),
        "tools, repl, ipython_ext": size_of(files("minijax/tools", "repl", "ipython_ext")),
        "tests": size_of(files("tests")),
        "docs": size_of(files("docs")),
    }


def packages() -> dict[str, Size]:
    """The size of each folder directly in ``minijax``, and of the modules beside these folders."""
    top = ROOT / "minijax"
    folders = sorted({path.relative_to(top).parts[0] for path in top.rglob("*/*.py")})
    found = {f"minijax/{folder}": size_of(files(f"minijax/{folder}")) for folder in folders}
    return found | {"minijax/*.py": size_of(iter(sorted(top.glob("*.py"))))}


def main() -> int:
    print(f"{'':28} {'lines':>9} {'tokens':>9} {'tokens a line':>14}")
    for name, size in (packages() | groups()).items():
        print(f"{name:28} {size.lines:>9,} {size.tokens:>9,} {size.density:>14.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
