"""Every claim that a command prints, compared with what happened: ``python -m tests.claims``.

``programs`` writes random programs. ``log`` runs a program in JAX and logs each value; it shares nothing with minijax.
``reading`` parses what a command printed. ``checks`` compares the two, a function a command. ``faults`` puts small
faults into minijax, to see that they are noticed.
"""
