"""A full-screen browser of the stages of a call: one cursor through Python, jaxpr, StableHLO, XLA and machine code."""
