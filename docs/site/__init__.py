"""The documentation as HTML: each Markdown page, with its code blocks run and their output below them."""
