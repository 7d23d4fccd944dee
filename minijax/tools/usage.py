"""The error for a mistake in using the tools."""

from __future__ import annotations


class UsageError(Exception):
    """A command does not understand its arguments; the message says what it accepts."""
