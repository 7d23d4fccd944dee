"""Primitives on windows of arrays: convolutions, and reductions over windows, such as pooling."""
