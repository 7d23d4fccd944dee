"""The primitives, each with all its rules beside it. Importing this package registers them."""
