"""The colour of every role, for terminals and for HTML.

Each role has a terminal style and two colours, for a light and for a dark page. The contrast of each colour with its
background (white or #1e1e1e) is at least 4.5 to 1.

A terminal has one of four themes. 'light' and 'dark' have the colours of the pages, 'terminal' has the terminal's own
16 ANSI colours, and 'none' has only bold and reverse. The default, 'auto', chooses one of them: see ``resolved``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minijax.core.records import NamedTuple
from minijax.tools.documents.document import Document, Highlighter, Line, folded, lay_out


class Style(NamedTuple):
    """The look of a role. ``ansi`` is the parameter of the escape code; ``terminal`` is a style for prompt_toolkit."""

    ansi: str
    terminal: str
    light: str
    dark: str
    bold: bool = False


# The colours: the ANSI code and its name in prompt_toolkit, and the colour on a light and on a dark page.
_COLOURS = {
    "plain": ("", "", "#1f2328", "#e6e6e6"),
    "grey": ("90", "ansibrightblack", "#5a6370", "#a0a8b0"),
    "red": ("31", "ansired", "#b3261e", "#ff8a80"),
    "green": ("32", "ansigreen", "#1a6b22", "#8fd18f"),
    "yellow": ("33", "ansiyellow", "#7a5200", "#e0b060"),
    "blue": ("34", "ansiblue", "#0a49b0", "#82aaff"),
    "magenta": ("35", "ansimagenta", "#8b1a8b", "#d58fd5"),
    "cyan": ("36", "ansicyan", "#0b6372", "#6cc7d8"),
}
_ROLES = {
    # jaxprs and programs, the two passes of reverse mode, texts of the tools, marks of a stepper, prompts
    "plain": "var",
    "grey": "punctuation comment drop muted",
    "green": "literal string value good prompt-in",
    "yellow": "param-name function warning linked",
    "blue": "forward",
    "magenta": "keyword backward level",
    "cyan": "type time place",
    "red": "prompt-out",
}
_BOLD = {"plain": "label heading", "blue": "primitive", "yellow": "residual current", "red": "error"}
STYLES: dict[str, Style] = {
    "param-value": Style("", "", "#444c56", "#c8c8c8"),
    # the first user line has the first of these colours; a line has the same colour in all programs
    "line-0": Style(*_COLOURS["blue"]),
    "line-1": Style("33", "ansiyellow", "#a04a00", "#ffb266"),
    "line-2": Style("35", "ansimagenta", "#a8127f", "#f490d6"),
    "line-3": Style(*_COLOURS["green"]),
    "line-4": Style("31", "ansired", "#c22018", "#ff7a70"),
    "line-5": Style("36", "ansicyan", "#006d77", "#4fd6d6"),
    "line-6": Style("95", "ansibrightmagenta", "#6a3cc8", "#c0a2ff"),
    "line-7": Style("93", "ansibrightyellow", "#6b6100", "#c8e05a"),
}
for _name, (_ansi, _terminal, _light, _dark) in _COLOURS.items():
    for _role in _ROLES[_name].split():
        STYLES[_role] = Style(_ansi, _terminal, _light, _dark)
    for _role in _BOLD.get(_name, "").split():
        STYLES[_role] = Style(f"{_ansi};1".strip(";"), f"{_terminal} bold".strip(), _light, _dark, True)

# Number of colours for the user's lines. After the last one, the first one is used again.
LINE_COLOURS = sum(role.startswith("line-") for role in STYLES)


def line_role(number: int) -> str:
    """The role for a user line. ``number`` counts the source lines of a program from 0."""
    return f"line-{number % LINE_COLOURS}"


# The numbers of light backgrounds in COLORFGBG: light grey and the bright colours.
_LIGHT_BACKGROUNDS = {7, 9, 10, 11, 12, 13, 14, 15}


def resolved(theme: str, environment: Mapping[str, str]) -> str:
    """The theme for the setting ``theme`` in a terminal with this environment.

    'auto' reads the variable COLORFGBG (such as "15;0": foreground, background), which some terminals set. Without it,
    the theme is 'terminal', because the terminal's 16 colours fit its background.
    """
    if theme != "auto":
        return theme
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    if not background.isdecimal():
        return "terminal"
    return "light" if int(background) in _LIGHT_BACKGROUNDS else "dark"


def colour_bits(environment: Mapping[str, str]) -> int:
    """The terminal's colour depth in bits, from COLORTERM and TERM: 24, 8 or 4."""
    if environment.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return 24
    return 8 if "256color" in environment.get("TERM", "") else 4


def terminal_style(style: Style, theme: str) -> str:
    """A style for prompt_toolkit, such as ``#82aaff bold``."""
    if theme == "terminal":
        return style.terminal
    words = style.terminal.split()
    attributes = [word for word in words if not word.startswith("ansi")]
    # a role without a colour keeps the terminal's text colour
    if theme in ("light", "dark") and len(attributes) < len(words):
        attributes.insert(0, style.light if theme == "light" else style.dark)
    return " ".join(attributes)


_ATTRIBUTES = {"bold": "1", "italic": "3", "underline": "4", "reverse": "7"}


def sgr(style: Style, theme: str, bits: int) -> str:
    """The parameter of the escape code for a style; '' for no style."""
    if theme == "terminal" or (theme in ("light", "dark") and bits == 4):
        return style.ansi
    words = terminal_style(style, theme).split()
    codes = [_ATTRIBUTES[word] for word in words if word in _ATTRIBUTES]
    colours = [word for word in words if word.startswith("#")]
    return ";".join([*(_colour_code(each, bits) for each in colours), *codes])


def _colour_code(colour: str, bits: int) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    if bits == 24:
        return f"38;2;{red};{green};{blue}"
    # the brightness levels of the 6 x 6 x 6 cube in the 256 colours
    steps = (0, 95, 135, 175, 215, 255)
    nearest = [min(range(6), key=lambda i: abs(steps[i] - part)) for part in (red, green, blue)]
    return f"38;5;{16 + 36 * nearest[0] + 6 * nearest[1] + nearest[2]}"


def coloured(segments: Iterable[tuple[str, str]], theme: str = "terminal", bits: int = 4) -> str:
    """Segments as text with ANSI codes. Control characters in the text are escaped as in ``repr``."""
    out = []
    for role, piece in segments:
        style = STYLES.get(role)
        shown = visible(piece)
        code = sgr(style, theme, bits) if style is not None and piece.strip() else ""
        out.append(f"\x1b[{code}m{shown}\x1b[0m" if code else shown)
    return "".join(out)


def visible(string: str) -> str:
    """``string`` with control characters escaped as in ``repr``, so that they cannot control the terminal."""
    if string.isprintable():
        return string
    return "".join(c if c.isprintable() or c in "\t\n" else c.encode("unicode_escape").decode() for c in string)


def shown_line(each: Line) -> Line:
    """``each`` with control characters escaped as in ``repr``."""
    return tuple((role, visible(piece)) for role, piece in each)


def to_text(
    doc: Document,
    width: int = 80,
    colour: bool = False,
    highlight: Highlighter | None = None,
    theme: str = "terminal",
    bits: int = 4,
    fold: bool = False,
) -> str:
    """``doc`` as text for a terminal or file, with or without colours, without a final line break.

    ``fold`` breaks long lines even where the document forbids it. Else the terminal would break them within words.
    """
    lines: Iterable[Line] = lay_out(doc, width, highlight if colour else None)
    if fold:
        lines = (piece for each in lines for piece in folded(shown_line(each), width))
    return "\n".join(_line_text(each, colour, theme, bits) for each in lines)


def _line_text(each: Line, colour: bool, theme: str, bits: int) -> str:
    if colour:
        return coloured(each, theme, bits).rstrip()
    return visible("".join(piece for _, piece in each).rstrip())
