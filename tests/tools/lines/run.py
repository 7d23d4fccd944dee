from pathlib import Path

SMALL = Path(__file__).with_name("program_with_names.py")
PROGRAM = Path(__file__).with_name("program_for_jax.py")

GOOD = (
    (f"%run --as-jax {PROGRAM} --steps 3 'a b'", ("cube staged",)),
    ("steps, words, made_by, here[1]", ("(3, ['a b'], 'minijax', True)",)),
    ("kept_here = 'the session'", ()),
    (f"%run -i {SMALL.with_suffix('')} 5", ()),
    ("kept_here = 'later'", ()),
    ("seen, made_there()", ("('the session', '5', 'program_with_names.py')", "'later'")),
    (f"%run --as-jax {PROGRAM} --leave 4", ("ended with exit code 4",)),
)

BAD = (
    ("%run --as-jax", "%run needs FILE"),
    ("%run --as-jax no_such_program.py", "%run cannot read no_such_program.py: No such file"),
    ("%run --as-jax 'unclosed.py", '%run cannot split "\'unclosed.py"'),
    (f"%run --as-jax -i {SMALL}", "excludes --as-jax"),
)
