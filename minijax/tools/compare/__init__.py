"""Programs beside each other: before and after a transformation, as a graph, and on minijax and on JAX.

It takes targets (``session.targets``) and gives documents or pictures.
"""
