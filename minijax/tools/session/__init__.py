"""One user's session: names, inputs and outputs, settings, the targets of commands, and error display.

A session knows no front end. The front end passes in the table of commands.
"""
