"""Documents: blocks of (role, text) that every front end can show, and their conversion to HTML."""
