"""What a stepper shows of one moment of a recording, as documents.

The terminal and the notebook draw the same panes.
"""
