"""A program that uses names of the session that runs it."""

import pathlib
import sys


def made_there():
    return kept_here  # noqa: F821


seen = (made_there(), sys.argv[1], pathlib.Path(__file__).name)
