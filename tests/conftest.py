"""Shared test set-up: golden files, deterministic property tests.

pytest prints the reason of every skip and the name of every failure (``-rsfE`` in pyproject.toml). Minijax and JAX both
see two CPU devices, so tests can use two. Golden files live in ``tests/golden``; run
``pytest --update-golden`` to rewrite them, and read the diff.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

from tests.quick import QUICK
from tests.sampling import sampled

# Keep bytecode: otherwise every subprocess of a test compiles minijax again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# jax reads this when imported, and minijax when its backend starts: set it here, before any test module is imported
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")

# A shell's background job ignores SIGINT. Without this, tests of interrupts would then wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

GOLDEN = Path(__file__).parent / "golden"
# Engine line numbers, in paths and beside shown source. Golden files omit them, because edits change them.
OUR_LINE = re.compile(r"(minijax/[\w/]+\.py:)(\d+)")
NUMBERED = re.compile(r"(│ *)(\d+)(?= )")

# Key of the summary line about a sampled run.
SAMPLE = pytest.StashKey[str]()

# Property tests are derandomised: one that passes here passes everywhere. They have no deadline: the first example of a
# jitted property includes an XLA compilation.
hypothesis.settings.register_profile("minijax", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("minijax")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the files in tests/golden with what the code prints now"
    )
    parser.addoption(
        "--sample",
        type=int,
        metavar="K",
        help="run slice K of the suite; a run that names no path, -k or -m runs slice 0",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the slice of the suite in the main process; workers receive the slice's number from it."""
    option = config.option
    names_something = config.args_source is pytest.Config.ArgsSource.ARGS or option.keyword or option.markexpr
    if hasattr(config, "workerinput"):
        option.sample = config.workerinput["sample"]
    elif option.sample is None and not names_something:
        option.sample = 0


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["sample"] = node.config.option.sample


def quick_files() -> set[Path]:
    """The files that ``QUICK`` lists, whose tests get the mark ``quick``."""
    folder = Path(__file__).parent
    return {folder / name for names in QUICK.values() for name in names}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m quick``, do not even import the other files: the imports take longer than the quick tests."""
    is_other = collection_path.name.startswith("test_") and collection_path not in quick_files()
    return True if config.option.markexpr == "quick" and is_other else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    quick = quick_files()
    for item in items:
        if item.path in quick:
            item.add_marker("quick")
    number = config.option.sample
    if number is None:
        return
    kept, left_out = sampled(items, number)
    line = f"sample {number}: {len(kept):,} of {len(items):,} tests; python -m tests.all runs all"
    config.stash[SAMPLE] = line
    if hasattr(config, "workeroutput"):
        config.workeroutput["sample"] = line
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Copy the summary line from a worker, because the main process collects no tests."""
    if line := getattr(node, "workeroutput", {}).get("sample"):
        node.config.stash[SAMPLE] = line


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if SAMPLE in config.stash:
        terminalreporter.write_line(config.stash[SAMPLE])


def set_heap_aside() -> None:
    """Hide all existing objects from the garbage collector."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def heap_of_the_module() -> None:
    """Hide the caches of JAX and minijax from the garbage collector, which would visit millions of objects."""
    set_heap_aside()


@pytest.fixture
def small_heap() -> None:
    """For tests that count objects: hide the objects of earlier tests in the module too."""
    set_heap_aside()


@pytest.fixture(scope="session", autouse=True)
def jax_prints_integers_plainly() -> Iterator[None]:
    """Make JAX print NumPy integers in parameters as Python's, as minijax does: ``axes=(1,)``."""
    jaxpr = importlib.import_module("jax.extend.core").Jaxpr
    printed = jaxpr.pretty_print

    @functools.wraps(printed)
    def pretty_print(*args: Any, **options: Any) -> Any:
        with np.printoptions(legacy="1.25"):
            return printed(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jaxpr, "pretty_print", pretty_print)
        yield


@pytest.fixture
def compiled_quickly() -> Iterator[None]:
    """Turn XLA's optimisations off in both libraries, for tests whose values do not depend on them."""
    with importlib.import_module("tests.oracle.subject").compiled_quickly():
        yield


@pytest.fixture(scope="module")
def tracebacks_whole() -> Iterator[None]:
    """Turn off JAX's traceback filtering for tests of messages only: it takes most of the time of an error."""
    config = importlib.import_module("jax").config
    before = config.jax_traceback_filtering
    config.update("jax_traceback_filtering", "off")
    yield
    config.update("jax_traceback_filtering", before)


def without_our_lines(text: str) -> str:
    for pattern in (OUR_LINE, NUMBERED) if OUR_LINE.search(text) else ():
        text = pattern.sub(lambda found: found[1] + "#" * len(found[2]), text)
    return text


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(name, text)``: fail unless ``text``, without engine line numbers, equals ``tests/golden/<name>``."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        text = without_our_lines(text if text.endswith("\n") else text + "\n")
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists():
            pytest.fail(f"no golden file {name}; make it with pytest --update-golden and read it")
        else:
            assert text == path.read_text(encoding="utf-8"), f"differs from tests/golden/{name}"

    return check
