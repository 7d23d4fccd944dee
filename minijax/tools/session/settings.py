"""The settings of the tools. The engine has its own settings (``minijax.config``).

``TABLE`` is the only list: ``%config``, its completion, the settings file and its warnings all derive from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minijax.core.records import Frozen
from minijax.errors import did_you_mean
from minijax.tools.recording.panels import PANELS

MOST_HISTORY = 1_000_000

_ON = {"on": True, "off": False, "true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


class Choice(Frozen):
    """One setting. ``kind`` is 'one' (one of ``choices``), 'panels' (some of ``choices``), 'switch' or 'count'.

    ``changed`` says when a new value takes effect: immediately ('at once') or at the next start of the program.
    """

    name: str
    kind: str
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    changed: str = "at once"

    def takes(self) -> str:
        """The accepted values in words: ``light, dark, none or auto``"""
        if self.kind == "count":
            return f"a number from 0 to {MOST_HISTORY:,}"
        if self.kind == "panels":
            return f"on, off, or some of {', '.join(self.choices)}"
        return listed(self.choices or ("on", "off"))


def listed(words: tuple[str, ...]) -> str:
    """Words as a list: ``light, dark, none or auto``."""
    return f"{', '.join(words[:-1])} or {words[-1]}"


TABLE: dict[str, Choice] = {
    choice.name: choice
    for choice in (
        Choice("panels", "panels", PANELS, "the panels shown after a line", PANELS),
        Choice("full", "panels", (), "the panels that are never cut short", PANELS),
        Choice("style", "one", "jax", "how jaxprs are printed: as JAX does, or plainer", ("jax", "tutorial")),
        Choice("trees", "switch", True, "show large containers of arrays as trees of keys"),
        Choice("frames", "one", "user", "the frames of a traceback: yours, or all", ("user", "all")),
        Choice(
            "theme",
            "one",
            "auto",
            "colours for a light or a dark background; auto asks the terminal",
            ("auto", "light", "dark", "none"),
        ),
        Choice("color", "one", "auto", "use colour; auto: on terminals without NO_COLOR", ("auto", "always", "never")),
        Choice("keys", "one", "emacs", "the keys of the prompt", ("emacs", "vi")),
        Choice("history", "count", 10_000, "how many inputs are remembered", changed="at the next start"),
        Choice("warm", "switch", True, "load the compiler in the background", changed="at the next start"),
    )
}


class Settings:
    """The settings of one session; ``TABLE`` explains them.

    Attributes that are no settings: ``panel_keys`` has the key that toggles a panel, ``file`` is the path of the
    settings file, ``columns`` is the width of the page for values (0 if unknown), and ``without`` names the settings
    that have no effect in this front end.
    """

    panels: tuple[str, ...]
    full: tuple[str, ...]
    style: str
    trees: bool
    frames: str
    theme: str
    color: str
    keys: str
    history: int
    warm: bool

    def __init__(self) -> None:
        for choice in TABLE.values():
            setattr(self, choice.name, choice.default)
        self.panel_keys: dict[str, str] = {}
        self.file = ""
        self.columns = 0
        self.without: tuple[str, ...] = ()

    def set(self, name: str, value: Any) -> None:
        """Set a setting to a value that the user wrote: text, or a TOML value.

        Raises:
          ValueError: the setting does not accept the value; the message lists the accepted ones.
          KeyError: the setting does not exist.
        """
        choice = TABLE[name]
        setattr(self, name, _READ[choice.kind](choice, value))

    def changed(self) -> dict[str, Any]:
        """The settings that differ from their defaults."""
        return {name: getattr(self, name) for name, c in TABLE.items() if getattr(self, name) != c.default}


def _refused(choice: Choice, value: Any, word: str | None = None) -> ValueError:
    shown = repr(value if word is None else word)
    hint = did_you_mean(value if word is None else word, choice.choices) if isinstance(word or value, str) else ""
    return ValueError(f"{choice.name} takes {choice.takes()}, not {shown}.{hint}".removesuffix("."))


def _one(choice: Choice, value: Any) -> str:
    if not isinstance(value, str) or value not in choice.choices:
        raise _refused(choice, value)
    return value


def _panels(choice: Choice, value: Any) -> tuple[str, ...]:
    if isinstance(value, bool):
        return choice.choices if value else ()
    words = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise _refused(choice, value)
    if list(words) in (["on"], ["all"]):
        return choice.choices
    if list(words) in (["off"], ["none"]):
        return ()
    for word in words:
        if word not in choice.choices:
            raise _refused(choice, value, word)
    return tuple(name for name in choice.choices if name in words)


def _switch(choice: Choice, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    known = _ON.get(value.lower()) if isinstance(value, str) else None
    if known is None:
        raise _refused(choice, value)
    return known


def _count(choice: Choice, value: Any) -> int:
    if isinstance(value, str) and value.replace("_", "").isdecimal():
        value = int(value.replace("_", ""))
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_HISTORY:
        raise _refused(choice, value)
    return value


_READ = {"one": _one, "panels": _panels, "switch": _switch, "count": _count}


def shown(value: Any) -> str:
    """A setting's value in the form that ``%config`` prints and accepts."""
    if isinstance(value, tuple):
        return " ".join(value) or "off"
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


# name of a setting -> the words that it accepts; () for a number
CHOICES: Mapping[str, tuple[str, ...]] = {
    name: choice.choices or ("on", "off") if choice.kind != "count" else () for name, choice in TABLE.items()
}
