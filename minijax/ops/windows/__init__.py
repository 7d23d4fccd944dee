"""Primitives that look at arrays through windows: convolutions, reductions of windows, and what pooling needs."""
