"""A full-screen browser of the stages of a call: one cursor through Python, jaxpr, StableHLO, XLA and machine code.

``model`` is its state and the actions of its keys, ``screen`` draws it for any size, ``keys`` is the table of keys,
``app`` runs it in a terminal.
"""
