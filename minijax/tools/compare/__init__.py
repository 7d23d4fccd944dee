"""Compare two programs side by side: before and after a transformation, or on minijax and JAX. Also draw graphs.

The functions take targets (``session.targets``) and return documents or pictures.
"""
