"""Recordings, linked programs and sessions as HTML that needs nothing but itself.

The scripts beside the modules draw what Python has computed.
"""
