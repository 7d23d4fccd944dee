"""The tests. They form a package so that ``python -m tests.bench`` works and helpers import as ``tests.<name>``."""
