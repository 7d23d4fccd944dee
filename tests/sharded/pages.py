"""Run the code of a page with both libraries, cell by cell: ``python -m tests.sharded.pages PAGE...``.

A page is a notebook or a Markdown file. The cells of a Markdown file are its ``{code-cell}`` blocks, or its Python
blocks if there are none. Each page runs twice, in processes with eight devices: once unchanged, and once with minijax
in place of jax in imports. For each cell the comparison covers its output, the error that ends it, and the values,
types and shardings of the variables that it sets.

Errors are compared by class, also those that a cell catches and prints. Caught errors with different messages are
counted.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.on_devices import COMPILED_QUICKLY

# Relative tolerance of printed numbers and of arrays. Arrays also have an absolute tolerance: this number times their
# largest element (at least 1), because sums of many products are no more precise.
NEAR = 2e-5
# Replaces the message of an error in a cell's output.
_MESSAGE = "<message of {}>"
_FENCE = re.compile(r"(?ms)^```\{code-cell\}[^\n]*\n(.*?)^```\s*$")
_PYTHON = re.compile(r"(?ms)^```(?:python|py)\s*\n(.*?)^```\s*$")
_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:e[-+]?\d+)?")


def cells(path: Path) -> list[str]:
    """The code of the cells without shell commands, magics and the page's options. %timeit keeps its statement."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        found = ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    else:
        found = [*map(_without_options, _FENCE.findall(text))] or _PYTHON.findall(text)
    return [*map(_plain, found)]


def _without_options(cell: str) -> str:
    """A cell without the options above its code: lines ``:name: value``, or YAML between two lines ``---``."""
    return re.sub(r"\A(?:---\n.*?\n---\n|(?::[\w-]+:.*\n)+)", "", cell, flags=re.DOTALL if cell[:3] == "---" else 0)


def _plain(cell: str) -> str:
    """The cell with each ``%timeit`` statement as a plain statement, and without shell commands and other magics."""
    lines = []
    for each in cell.split("\n"):
        timed = re.match(r"(\s*)%timeit(?:\s+-\w\s*\d+)*\s+(.*)", each)
        lines.append(f"{timed[1]}{timed[2]};None" if timed else re.sub(r"^\s*[!%].*", "", each))
    return "\n".join(lines)


def changed(cell: str) -> str:
    """The cell with minijax in place of jax in its imports."""
    return re.sub(r"(?m)^(\s*)(import|from) jax\b(.*)$", _changed, cell)


def _changed(line: re.Match[str]) -> str:
    begin, word, rest = line.groups()
    if word == "from" or " as " in rest:
        return f"{begin}{word} minijax{rest}"
    # ``import jax.numpy`` also binds the name jax
    return f"{begin}import minijax{rest}; import minijax as jax" if rest.strip() else f"{begin}import minijax as jax"


def described(value: Any) -> Any:
    """The compared properties of a variable: nested lists of type, sharding and NumPy value. None for other values."""
    if isinstance(value, (tuple, list)):
        found = [described(each) for each in value]
        return None if None in found else found
    if isinstance(value, dict):
        found = {str(key): described(each) for key, each in value.items()}
        return None if None in found.values() else found
    if isinstance(value, np.ndarray) and value.dtype == object:
        return described([*map(str, value.flat)])
    if isinstance(value, (bool, int, float, str, np.ndarray, np.generic)):
        return ["host", type(value).__name__, np.asarray(value)]
    if hasattr(value, "addressable_shards"):
        with contextlib.suppress(Exception):
            # JAX marks a weak type with a tilde in this text; minijax marks it in another way
            weak = ", weak" if getattr(value, "weak_type", False) else ""  # JAX's keys have no weak_type
            about = [str(value.sharding), str(value.aval).lstrip("~") + weak, bool(value.committed)]
            return [*about, None if "key<" in str(value.dtype) else np.asarray(value)]
    return None


class _Caught(ast.NodeTransformer):
    """Inserts, into each ``except ... as e`` of a cell, a call that records ``e``."""

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:  # noqa: N802, as ``ast`` names it
        self.generic_visit(node)
        if node.name is not None:
            node.body[:0] = ast.parse(f"__caught__({node.name})").body
        return node


def run(code: Sequence[str]) -> list[dict[str, Any]]:
    """For each cell: its output, the error that ends it, its variables, and the errors that it catches."""
    caught: list[tuple[str, str]] = []
    names: dict[str, Any] = {"__name__": "__main__"}
    names["__caught__"] = lambda error: caught.append((type(error).__name__, str(error)))
    found = []
    for number, cell in enumerate(code, 1):
        out = io.StringIO()
        error = ""
        caught.clear()
        before = {name: id(value) for name, value in names.items()}
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            try:
                tree = ast.fix_missing_locations(_Caught().visit(ast.parse(cell)))
                last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
                exec(compile(tree, f"<cell {number}>", "exec"), names)
                if last is not None and not cell.rstrip().endswith(";"):
                    value = eval(compile(ast.Expression(last.value), f"<cell {number}>", "eval"), names)
                    if value is not None:
                        print(repr(value))
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}"
        news = {name: described(value) for name, value in names.items() if before.get(name) != id(value)}
        news = {name: each for name, each in news.items() if name[:2] != "__" and each is not None}
        found.append({"shown": out.getvalue(), "error": error, "variables": news, "caught": [*caught]})
    return found


def ran(path: Path, library: str) -> list[dict[str, Any]]:
    """The results of the page's cells with this library, from a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        command = [sys.executable, "-m", "tests.sharded.pages", str(path), "--only", library, "--into", str(results)]
        flags = {"XLA_FLAGS": COMPILED_QUICKLY} | os.environ
        environment = {**flags, "JAX_NUM_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu", "COLUMNS": "80"}
        subprocess.run(command, env=environment, check=True)
        return pickle.loads(results.read_bytes())  # type: ignore[no-any-return]


def shown(text: str, caught: Sequence[tuple[str, str]] = ()) -> str:
    """Printed text for comparison: without colours, addresses, the library's name, and empty space in pictures.

    The message of each of the errors ``caught`` is replaced by the error's class.
    """
    text = re.sub(r"\x1b\[[\d;]*m", "", text)
    for kind, message in caught:
        words = r"\s+".join(map(re.escape, message.split()))
        text = re.sub(words, _MESSAGE.format(kind), text) if words else text
    text = re.sub(r"0x[0-9a-f]+", "", text).replace("minijax", "jax")
    lines = []
    for line in text.split("\n"):
        if "│" in line:
            parts = [part.strip() for part in line.split("│")]
            lines += [" │ ".join(parts)] if any(parts) else []
        elif not re.fullmatch(r"[─┌┐└┘├┤┬┴┼]+", line.strip()):
            lines.append(line.rstrip())
    return "\n".join(lines)


def near(a: str, b: str) -> bool:
    """Whether two texts are equal, except that the last digits of numbers, and so the widths of columns, may differ."""
    words = [re.sub(r"\s+", "", _NUMBER.sub("#", each)) for each in (a, b)]
    first, second = ([float(n) for n in _NUMBER.findall(each)] for each in (a, b))
    return words[0] == words[1] and np.allclose(first, second, rtol=NEAR, atol=0)


def alike(a: Any, b: Any) -> bool:
    """Whether two variables' descriptions are equal up to rounding."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        numbers = a.dtype.kind in "fc"
        largest = float(np.max(np.abs(b), initial=1.0, where=np.isfinite(b))) if numbers else 1.0
        return bool(np.allclose(a, b, rtol=NEAR, atol=NEAR * largest, equal_nan=True) if numbers else (a == b).all())
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(alike, a, b))
    return bool(type(a) is type(b) and a == b)


def short(value: Any, most: int = 300) -> str:
    """A description as text: types and shardings first, because they differ most often."""
    if isinstance(value, list) and len(value) == 4 and isinstance(value[1], str):
        return f"{value[1]} {value[0]}{'' if value[2] else ', uncommitted'}: {str(value[3])[:most]}"
    if isinstance(value, dict):
        return "\n ".join(f"{name}: {short(each, 40)}" for name, each in value.items())
    if isinstance(value, list) and value[:1] != ["host"]:
        return "[" + ",\n ".join(short(each, 40) for each in value) + "]"
    return str(value)[:most]


def differs(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, list[str]]:
    """The differences of a cell: of its output, the class of its error, and its variables."""
    found = {}
    a, b = (shown(each["shown"], each.get("caught", ())) for each in (ours, theirs))
    if a != b and not near(a, b):
        found["shown"] = [a, b]
    kinds = [each["error"].partition(":")[0] for each in (ours, theirs)]
    if kinds[0] != kinds[1]:
        found["error"] = [ours["error"], theirs["error"]]
    mine, others = ours["variables"], theirs["variables"]
    for name in sorted({*mine, *others}):
        if not alike(mine.get(name), others.get(name)):
            found[name] = [short(mine.get(name)), short(others.get(name))]
    return found


def main(argv: list[str]) -> int:
    options = argparse.ArgumentParser(prog="python -m tests.sharded.pages", description=__doc__)
    options.add_argument("pages", nargs="+", type=Path)
    options.add_argument("--only", choices=("jax", "minijax"), help=argparse.SUPPRESS)
    options.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    args = options.parse_args(argv)
    if args.only is not None:
        code = cells(args.pages[0])
        found = run(code if args.only == "jax" else [*map(changed, code)])
        args.into.write_bytes(pickle.dumps(found))
        return 0
    off = 0
    for path in args.pages:
        ours, theirs = ran(path, "minijax"), ran(path, "jax")
        equal, raising, other_words = 0, 0, 0
        for number, (mine, other) in enumerate(zip(ours, theirs, strict=True), 1):
            found = differs(mine, other)
            equal += not found
            raising += bool(other["error"])
            other_words += not found and mine["caught"] != other["caught"]
            if found:
                code = textwrap.indent(cells(path)[number - 1].strip(), "    ")
                print(f"{path.name}, cell {number}:\n{code}")
            for what, (a, b) in found.items():
                print(f"  {what} is\n{a}\n  and in JAX\n{b}")
        words = f", {other_words} of them catch an error with another message" if other_words else ""
        print(f"{path.name}: {equal} of {len(ours)} cells are equal{words}; JAX itself refuses {raising}")
        off += equal < len(ours)
    return int(off > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
