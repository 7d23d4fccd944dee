"""Recordings of what the engine did: recorders make them, files keep them, cursors walk them, panels show them.

Records hold types, short texts and numbers. A full recording also keeps values, up to a memory limit (``values``).
"""
