"""Shared test set-up: golden files, deterministic property tests.

Skips always print their reason, failures their names (``-rsfE`` in pyproject.toml). A host counts as two devices, for
minijax as for JAX: what runs on several devices is tested on two. Golden files live in ``tests/golden``; run
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

# Bytecode is kept, as a user's Python keeps it: each program that a test starts would compile minijax once more.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Read when jax is imported and when minijax starts its backend; no test module has been imported yet.
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")

# A run in the background ignores SIGINT, and every test of an interrupt would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

GOLDEN = Path(__file__).parent / "golden"
# The number of a line of the engine, which moves with every change above it, and those beside its source.
OUR_LINE = re.compile(r"(minijax/[\w/]+\.py:)(\d+)")
NUMBERED = re.compile(r"(│ *)(\d+)(?= )")

# The line that the summary prints about a sampled run.
SAMPLE = pytest.StashKey[str]()

# Derandomised: a property test that passes here passes everywhere. No deadline: the first example of a
# jitted property pays for an XLA compilation.
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
    """Decide which slice runs, in the process that was given the command line: the workers are told."""
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
    """The files whose tests are marked ``quick``."""
    folder = Path(__file__).parent
    return {folder / name for names in QUICK.values() for name in names}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Under ``-m quick`` the other files are not even imported: that alone takes longer than the quick tests may."""
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
    """Take the line about the sample from a worker: the process that starts the workers collects nothing."""
    if line := getattr(node, "workeroutput", {}).get("sample"):
        node.config.stash[SAMPLE] = line


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if SAMPLE in config.stash:
        terminalreporter.write_line(config.stash[SAMPLE])


def set_heap_aside() -> None:
    """The garbage collector sees what is made from now on alone, however much other tests have left."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def heap_of_the_module() -> None:
    """A process keeps millions of objects in JAX's caches and ours: each search of the heap would visit them all."""
    set_heap_aside()


@pytest.fixture
def small_heap() -> None:
    """For what measures objects: not even those of the module's other tests are seen."""
    set_heap_aside()


@pytest.fixture(scope="session", autouse=True)
def jax_prints_integers_plainly() -> Iterator[None]:
    """JAX prints NumPy's integers among parameters, ``axes=(np.int64(1),)``, as Python's, as minijax does."""
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
    """Neither library's programs are optimised: for tests that ask for values, which optimising may not change."""
    with importlib.import_module("tests.oracle.subject").compiled_quickly():
        yield


@pytest.fixture(scope="module")
def tracebacks_whole() -> Iterator[None]:
    """To shorten a traceback takes JAX most of the time of an error: for modules that look at what it says alone."""
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
    """``golden(name, text)``: fail unless ``text``, without our line numbers, is ``tests/golden/<name>``."""

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
