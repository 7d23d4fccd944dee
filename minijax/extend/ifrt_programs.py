"""``minijax.extend.ifrt_programs``: jaxlib's descriptions of programs for its runtimes, unchanged."""

from minijax.backend.client import load

__all__ = ["ifrt_programs"]

ifrt_programs = load()[0].ifrt_programs
