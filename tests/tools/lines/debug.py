# what it says of a failure is in ``sessions/test_post_mortem.py``: good lines have none
GOOD = (("%debug", ("nothing has failed in this session",)),)

BAD = (("%debug f", "does not understand 'f'"),)
