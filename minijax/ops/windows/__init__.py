"""Primitives on windows of arrays: convolutions and reductions of windows, for pooling too."""
