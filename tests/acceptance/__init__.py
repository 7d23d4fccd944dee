"""Facts and figures that minijax must reproduce, one test each."""
