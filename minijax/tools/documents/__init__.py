"""Documents: blocks of (role, text) that every front end can show, and what turns them into HTML."""
