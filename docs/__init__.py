"""The documentation: Markdown pages here, and ``site``, which makes HTML of them. ``python -m docs`` writes it."""
