"""Recordings, linked programs and sessions as HTML that loads nothing else.

The scripts (``*.js``) are beside the modules. They draw the data that Python has computed.
"""
