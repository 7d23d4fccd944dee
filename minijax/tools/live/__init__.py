"""The interpreters that %push opens at the prompt: real levels on the engine's stack.

``kinds`` has one class or row per transformation, ``stack`` keeps them, ``views`` shows them.
"""
