# ``sessions/test_post_mortem.py`` tests %debug after a failure: no good line fails
GOOD = (("%debug", ("nothing has failed in this session",)),)

BAD = (("%debug f", "does not understand 'f'"),)
