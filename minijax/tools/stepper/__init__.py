"""The panes of a stepper at one moment of a recording, as documents.

The terminal and the notebook show the same panes.
"""
