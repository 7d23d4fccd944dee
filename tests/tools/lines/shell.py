"""Command lines for ``tools/commands/shell.py``: see the package."""

from __future__ import annotations

GOOD: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("%sh echo {x + 1} $x", ("4.0 3.0",)),
    ("%sh kept = !printf 'one two'", ()),
    ("%sh echo {kept[0][:3]} $_exit_code", ("one 0",)),
    ("%sh echo wrong >&2; exit 3", ("wrong", "ended with exit code 3")),
    ("%sh for size in 1 2; do printf '%s;' $size; done", ("1;2;",)),
    ("%sh echo ${HOME:+home} {1,2}", ("home",)),
    ("%timeit -n 10 -r 2 x + 1", ("each (mean", "of 2 runs of 10)", "at best")),
    ("%edit", ("from the editor",)),
    ("%edit 1", ("from the editor",)),
    ("def doubled(x): return 2 * x", ()),
    ("%edit doubled", ("from the editor",)),
    ("%sh !printf 'one\\ntwo'", ("['one', 'two']",)),
    ("%%timeit -n 10 -r 2 y = x\ny + 1\ny + 2\n", ("of 2 runs of 10)",)),
    ("%%timeit -n 10\nx\n", ("runs of 10)",)),
    ("%cd .", ("/",)),
    ("%cd -", ("/",)),
    ("%cd", ("/",)),
)

BAD: tuple[tuple[str, str], ...] = (
    ("%sh", "%sh needs COMMAND"),
    ("%timeit 1 +", "%timeit needs a statement"),
    ("%timeit", "%timeit needs a statement"),
    ("%timeit -n 0 1 + 1", "need positive numbers"),
    ("%timeit --loops 3 1 + 1", "%timeit has no option --loops"),
    ("%edit 9999", "there are inputs 1 to"),
    ("%edit x", "takes the number of an input or the name of a function, not 'x'"),
    ("%edit len", "takes the number of an input or the name of a function"),
    ("%%timeit y = (\nx\n", "%timeit needs a statement"),
    ("%ls", "there is no command %ls. !ls is the shell's."),
    ("%cd no_such_folder", "No such file"),
)
