"""Random keys, their raw words, and random bits."""
