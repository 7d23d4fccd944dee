"""The documentation as HTML: Markdown, with every block of code run and what it shows put below it."""
