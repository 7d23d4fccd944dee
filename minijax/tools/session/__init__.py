"""One user's session: names, inputs and outputs, settings, the targets of commands, and error display.

It knows no front end. The front end passes in the table of commands.
"""
