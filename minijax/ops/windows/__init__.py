"""Primitives on windows of arrays: convolutions, and reductions of windows, which serve for pooling."""
