"""Mutable array references: ``index`` selects parts, ``primitives`` defines operations, ``discharge`` removes them."""
