"""Themes: which one a terminal gets, and that every role can be read in each."""

import re
from itertools import combinations

import pytest

from minijax.tools.documents.document import Text, document, line
from minijax.tools.documents.theme import LINE_COLOURS, STYLES, line_role, resolved, sgr, to_text

LIGHT, DARK = "#ffffff", "#1e1e1e"


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("role", STYLES)
def test_every_role_can_be_read_on_both_pages(role):
    assert contrast(STYLES[role].light, LIGHT) >= 4.5 and contrast(STYLES[role].dark, DARK) >= 4.5


def test_the_colours_of_lines_differ():
    roles = [line_role(number) for number in range(LINE_COLOURS)]
    assert len(set(roles)) == LINE_COLOURS >= 8 and line_role(LINE_COLOURS) == roles[0]
    for theme, bits in (("terminal", 4), ("light", 24), ("light", 8), ("dark", 24), ("dark", 8), ("dark", 4)):
        assert len({sgr(STYLES[role], theme, bits) for role in roles}) == LINE_COLOURS, (theme, bits)
    for page in ("light", "dark"):
        colours = [[int(getattr(STYLES[role], page)[i : i + 2], 16) for i in (1, 3, 5)] for role in roles]
        apart = [sum((a - b) ** 2 for a, b in zip(*pair, strict=True)) ** 0.5 for pair in combinations(colours, 2)]
        assert min(apart) > 55


@pytest.mark.parametrize(
    ("theme", "environment", "expected"),
    [
        ("auto", {}, "terminal"),
        ("auto", {"COLORFGBG": "15;0"}, "dark"),
        ("auto", {"COLORFGBG": "0;15"}, "light"),
        ("auto", {"COLORFGBG": "0;default;7"}, "light"),
        ("auto", {"COLORFGBG": "default;default"}, "terminal"),
        ("auto", {"COLORFGBG": ""}, "terminal"),
        ("light", {"COLORFGBG": "15;0"}, "light"),
        ("none", {}, "none"),
    ],
)
def test_which_theme(theme, environment, expected):
    assert resolved(theme, environment) == expected


@pytest.mark.parametrize("theme", ["terminal", "light", "dark", "none"])
def test_every_role_in_every_theme(theme):
    from minijax.repl.style import style_for

    doc = document(Text(tuple(line((role, role)) for role in STYLES)))
    coloured = to_text(doc, colour=True, theme=theme, bits=24)
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == to_text(doc)
    assert (re.search(r"\x1b\[[^1]", coloured.replace("\x1b[0m", "")) is None) == (theme == "none")
    assert style_for(theme).style_rules is not None
