"""Recordings of the golden programs, made once in a process: what is traced again is recorded otherwise."""

from __future__ import annotations

import functools

from tests.tools.recorded_programs import recorded

recording_of = functools.cache(recorded)
