"""The terminal front end: an inline prompt over ``minijax.tools``. ``minijax.repl.__main__.main`` starts it.

Without a terminal (``-c``, a file, piped input) ``batch`` runs the same session, and prompt_toolkit is not imported.
"""
