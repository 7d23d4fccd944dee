"""The documentation: Markdown pages, and ``site``, which turns them into HTML. ``python -m docs`` writes the HTML."""
