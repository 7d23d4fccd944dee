# No good line fails, so %debug after a failure is tested in ``sessions/test_post_mortem.py``.
GOOD = (("%debug", ("nothing has failed in this session",)),)

BAD = (("%debug f", "does not understand 'f'"),)
