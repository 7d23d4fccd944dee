"""Exercises at the end of the tour. Each is a task whose answer is checked by running the user's code.

``model`` defines an exercise. ``measure`` compares results and writes the messages. ``rules``, ``staging``,
``compiling``, ``debugging`` and ``gradients`` hold the exercises with their checkers. ``catalogue`` lists the
exercises, and ``course`` tracks a user's progress.
"""
