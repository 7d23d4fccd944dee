"""Exercises at the end of the tour: tasks, checked by running the user's code.

``model`` defines an exercise, ``measure`` words the measurements; ``rules``, ``staging``, ``compiling``, ``debugging``
and ``gradients`` hold the exercises, each with its checker; ``catalogue`` lists them; ``course`` tracks a user's
progress.
"""
