"""Recordings of what the engine did: recorders make them, files keep them, cursors walk them, panels show them.

A recording holds types, short texts and numbers, never arrays or tracers.
"""
