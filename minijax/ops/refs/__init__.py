"""Primitives of mutable array references: ``index`` (which part), ``primitives`` (rules), ``discharge`` (without)."""
