"""Exercises at the end of the tour: tasks that are checked by running what the user wrote.

``model`` says what an exercise is, ``measure`` words what was measured; ``rules``, ``staging``, ``compiling``,
``debugging`` and ``gradients`` hold the exercises, each with its checker; ``catalogue`` lists them; ``course`` is one
user's way through them.
"""
