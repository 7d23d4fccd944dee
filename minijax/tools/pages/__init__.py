"""Recordings, linked programs and sessions as self-contained HTML.

The scripts beside the modules draw the data that Python has computed.
"""
