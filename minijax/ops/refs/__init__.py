"""Mutable array references: ``index`` (parts), ``primitives`` (their rules), ``discharge`` (programs without them)."""
