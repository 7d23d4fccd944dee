"""The full-screen stepper: ``model`` is its state and the actions of its keys, ``screen`` draws it as lines for any
size of terminal, ``keys`` is the table of keys, ``app`` runs it in a terminal.

Only ``app`` and ``keys`` know prompt_toolkit. ``minijax.tools.stepper.panes`` computes the contents of the panes.
"""
