"""The full-screen stepper: ``model`` is its state and what its keys do, ``screen`` draws it as lines for any size of
terminal, ``keys`` is the table of keys, ``app`` runs it in a terminal.

Only ``app`` and ``keys`` know prompt_toolkit. What the panes say is computed by ``minijax.tools.stepper.panes``.
"""
