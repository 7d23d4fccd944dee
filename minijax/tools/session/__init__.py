"""One user's session: names, inputs and outputs, settings, what a command works on, and how errors are shown.

It knows no front end, and is given the table of commands.
"""
