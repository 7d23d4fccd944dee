"""What is raised for a mistake in using the tools."""

from __future__ import annotations


class UsageError(Exception):
    """A command was given arguments that it does not understand; the message says what it wants."""
