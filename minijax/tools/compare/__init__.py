"""Programs side by side: before and after a transformation, on minijax and on JAX; and programs as graphs.

In: targets (``session.targets``). Out: documents or pictures.
"""
