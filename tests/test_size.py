"""The project may not grow: its sizes of today are upper bounds. A commit that deletes code lowers them."""

import pytest

from tests.size import Size, groups, size_of_file

# Maximum lines and tokens. ``python -m tests.size`` prints the sizes. After deleting code, lower the bounds.
BOUNDS = {
    "minijax without tools": Size(60_000, 424_000),
    "tools, repl, ipython_ext": Size(44_850, 345_300),
    "tests": Size(54_100, 458_300),
    "docs": Size(900, 5_600),
}
# The maximum number of tokens per line, so that nobody saves lines by making them denser. The microscope's rose from
# 7.5 when the texts of tour and exercises moved into Markdown files.
DENSITY = {"minijax without tools": 7.2, "tools, repl, ipython_ext": 7.75, "tests": 8.75, "docs": 6.4}


def test_sizes_stay_within_their_bounds():
    sizes = groups()
    assert set(sizes) == set(BOUNDS)
    too_big = {
        name: (size, BOUNDS[name])
        for name, size in sizes.items()
        if size.lines > BOUNDS[name].lines or size.tokens > BOUNDS[name].tokens
    }
    assert too_big == {}
    assert {name: size.density for name, size in sizes.items() if size.density > DENSITY[name]} == {}


@pytest.mark.parametrize(
    "text, tokens",
    [
        ('"""Docstring."""\n\nx = 1  # comment\n', 3),
        ('def f(a):\n    """Docstring."""\n    return a + "text"\n', 10),
        ("x = [\n    1,\n    2,\n]\n", 8),
    ],
)
def test_only_tokens_of_code_count(text, tokens, tmp_path):
    path = tmp_path / "file.py"
    path.write_text(text)
    assert size_of_file(path) == Size(text.count("\n"), tokens)
