"""The interpreters that %push opens at the prompt. They are real levels on the engine's stack.

``kinds`` has a class or table row for each transformation, ``stack`` manages the levels, ``views`` shows them.
"""
