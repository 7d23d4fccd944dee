"""The settings file, ``$XDG_CONFIG_HOME/minijax/config.toml``: read at the start, written by ``%config save``.

Each setting is a TOML line ``name = value``. The engine's own settings (``jax_enable_x64 = true``) are allowed too. A
mistake in the file only causes a warning.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from minijax.config import config
from minijax.errors import did_you_mean
from minijax.tools import files
from minijax.tools.session.settings import TABLE, Settings

# A settings file has a few lines; a larger file is something else.
MOST_BYTES = 1 << 20


def settings_path() -> Path:
    """The path of the file: ``$XDG_CONFIG_HOME/minijax/config.toml``, by default under ``~/.config``."""
    base = os.environ.get("XDG_CONFIG_HOME")
    folder = Path(base) if base and os.path.isabs(base) else Path.home() / ".config"
    return folder / "minijax" / "config.toml"


def load(settings: Settings, path: Path) -> list[str]:
    """Read the settings in ``path`` into ``settings``. Returns warnings, one line each; a missing file causes none."""
    settings.file = str(path)
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"the settings in {path} are not used: {error.strerror or error}"]
    if len(content) > MOST_BYTES:
        return [f"the settings in {path} are not used: the file is larger than {MOST_BYTES:,} bytes"]
    try:
        found = parsed(content.decode("utf-8"))
    except ValueError as error:  # includes UnicodeDecodeError and TOMLDecodeError
        return [f"the settings in {path} are not used: {error}"]
    except RecursionError:
        return [f"the settings in {path} are not used: the file is nested too deeply"]
    return [f"{path}: {problem}" for name, value in found.items() if (problem := _take(settings, name, value))]


def parsed(text: str) -> dict[str, Any]:
    """Parse ``text`` as TOML; ValueError if it is not TOML."""
    import tomllib  # importing it takes 15 ms, and most users have no settings file

    return tomllib.loads(text)


def _take(settings: Settings, name: str, value: Any) -> str:
    """Set one setting. Return an error message, or '' if it could be set."""
    if name in config.values:
        try:
            config.update(name, value)
        except (TypeError, ValueError) as error:
            return f"{name}: {error}"
        return ""
    try:
        settings.set(name, value)
    except KeyError:
        return f"there is no setting {name!r}.{did_you_mean(name, TABLE)} %config lists them all"
    except ValueError as error:
        return str(error)
    return ""


def save(settings: Settings, path: Path) -> None:
    """Write the settings into ``path`` atomically. Only the owner of the file may read it.

    Other lines of the file, comments included, stay the same.

    Raises:
      OSError: the file cannot be written.
      ValueError: the file is not valid TOML, so that its other lines cannot be preserved.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = "# Settings of minijax-repl; %config save writes them, %config explains them.\n"
    kept = parsed(text)
    values = {name: _toml_value(getattr(settings, name)) for name in TABLE}
    changed = {
        name: getattr(settings, name)
        for name, choice in TABLE.items()
        if name in kept or getattr(settings, name) != choice.default
    }
    updated = _updated(text, {name: values[name] for name in changed})
    # The lines were edited as text, so check that the new values are right and all other values are unchanged.
    wanted = kept | {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}
    if parsed(updated) != wanted:
        raise ValueError("it is written in a way that cannot be edited line by line")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    files.write(path, updated, force=True, keep_mode=False)


def _toml_value(value: Any) -> str:
    import json  # TOML strings have JSON's syntax; only saving needs this import

    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(json.dumps, value)) + "]"
    return json.dumps(value)


def _updated(text: str, values: dict[str, str]) -> str:
    """``text`` with the new ``values``. Names that the text lacks are added before the first table."""
    lines = text.splitlines()
    end = next((i for i, each in enumerate(lines) if each.lstrip().startswith("[")), len(lines))
    top, rest = lines[:end], lines[end:]
    for name, value in values.items():
        new = f"{name} = {value}"
        for i, each in enumerate(top):
            # a value on one line, with or without a comment after it
            if match := re.fullmatch(rf"\s*{name}\s*=\s*(\"[^\"#]*\"|'[^'#]*'|\[[^\]#]*\]|[\w.+-]+)(\s*#.*)?", each):
                top[i] = new + (match[2] or "")
                break
        else:
            top.append(new)
    return "\n".join([*top, *rest]) + "\n"
