"""Documents: blocks of text in roles, which every front end can show, and their conversion to HTML."""
