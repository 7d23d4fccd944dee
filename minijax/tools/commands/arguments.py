"""Arguments of commands. They are declared as data and parsed by one function, so all errors have the same form.

``%grad f(x) --argnums 0 --check``: a Python expression, and options that begin with two dashes. Inside brackets and
strings nothing is an option, so ``f(x --y)`` is Python.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from minijax.core.records import Frozen
from minijax.errors import did_you_mean
from minijax.tools.usage import UsageError


class Param(Frozen):
    """One parameter of a command.

    ``kind`` is 'text' (everything except options: an expression), 'words' (the same, as words in lower case, at most
    ``most``), 'program' (a file and its arguments; options after the file belong to the program), 'flag' (an option
    without a value), 'int', 'ints' (``0`` or ``0,1``), 'expression' (a Python value; the command evaluates it) or
    'word' (quoted if it contains spaces). ``choices`` are the accepted words; they complete the word that is typed.
    """

    name: str
    kind: str
    help: str
    default: Any = None
    choices: tuple[str, ...] = ()
    required: bool = False
    most: int = 100

    @property
    def is_text(self) -> bool:
        """Whether the parameter is written without an option name."""
        return self.kind in ("text", "words", "program")

    @property
    def option(self) -> str:
        """The option as the user writes it."""
        return f"--{self.name.replace('_', '-')}"


class Arguments(dict[str, Any]):
    """The parsed arguments by parameter name; ``cell`` is the body of a ``%%`` command, None in line form."""

    cell: str | None = None


def usage(name: str, params: tuple[Param, ...]) -> str:
    """``%grad EXPR [--argnums INT] [--check]``"""
    parts = [f"%{name}"]
    for param in params:
        if param.is_text:
            text = param.name.upper() + (" ..." if param.kind == "program" else "")
            parts.append(text if param.required else f"[{text}]")
        elif param.kind == "flag":
            parts.append(f"[{param.option}]")
        else:
            value = "|".join(param.choices) if param.choices else param.kind.upper()
            parts.append(f"[{param.option} {value}]")
    return " ".join(parts)


def parse(name: str, params: tuple[Param, ...], line: str, cell: str | None = None) -> Arguments:
    """Parse the arguments in ``line``.

    Raises:
      UsageError: an unknown option, a missing or invalid value, or a missing required text.
    """
    args = Arguments({param.name: False if param.kind == "flag" else param.default for param in params})
    args.cell = cell
    options = {param.option: param for param in params if not param.is_text}
    text_params = [param for param in params if param.is_text]
    line, program = _program(line) if text_params and text_params[0].kind == "program" else (line, "")
    pieces = list(_split(line))
    text = pieces[0][1].strip() or program
    for option, value in pieces[1:]:
        param = options.get(option)
        if param is None:
            hint = did_you_mean(option, options)
            known = f"It has {', '.join(options)}." if options else "It has no options."
            raise UsageError(f"%{name} has no option {option}.{hint} {known}")
        args[param.name], rest = _value(name, param, value.strip())
        if rest:
            text = f"{text} {rest}".strip()
    if text_params:
        param = text_params[0]
        args[param.name] = _words(name, param, text) if param.kind == "words" else text
        if not text and text_params[0].required and cell is None:
            raise UsageError(
                f"%{name} needs {text_params[0].name.upper()}: {text_params[0].help}\n{usage(name, params)}"
            )
    elif text:
        advice = f"%{name} runs no program. Run the line by itself, and then %{name}."
        raise UsageError(f"%{name} does not understand {text!r}. {advice}\n{usage(name, params)}")
    return args


def _words(name: str, param: Param, text: str) -> list[str]:
    """The words of a text, all of which are among the choices."""
    words = text.lower().replace(",", " ").split()
    for word in words if len(words) <= param.most else [text]:
        if word not in param.choices:
            hint = did_you_mean(word, param.choices)
            raise UsageError(f"%{name} {param.name.upper()} is one of {', '.join(param.choices)}, not {word!r}.{hint}")
    return words


def _program(line: str) -> tuple[str, str]:
    """Split a line into the options at its beginning and the rest, a program with its arguments."""
    options, rest = "", line.strip()
    while rest.startswith("--"):
        word, _, rest = rest.partition(" ")
        options, rest = f"{options} {word}", rest.strip()
    return options, rest


def _value(name: str, param: Param, value: str) -> tuple[Any, str]:
    """The value of an option at the beginning of ``value``, and the rest of the text."""
    if param.kind == "flag":
        return True, value
    if not value:
        raise UsageError(f"%{name} {param.option} needs a value: {param.help}")
    if param.kind == "expression":
        return value, ""
    word, rest = _word(name, param, value)
    if param.choices and word not in param.choices:
        hint = did_you_mean(word, param.choices)
        raise UsageError(f"%{name} {param.option} is one of {', '.join(param.choices)}, not {word!r}.{hint}")
    if param.kind in ("int", "ints"):
        try:
            numbers = tuple(int(piece) for piece in word.split(","))
        except ValueError:
            raise UsageError(f"%{name} {param.option} needs {_WANTED[param.kind]}, not {word!r}") from None
        if param.kind == "int" and len(numbers) != 1:
            raise UsageError(f"%{name} {param.option} needs {_WANTED[param.kind]}, not {word!r}")
        if param.kind == "int" and numbers[0] < 1:
            raise UsageError(f"%{name} {param.option} needs a number from 1, not {word}")
        return (numbers[0] if len(numbers) == 1 else numbers), rest.strip()
    return word, rest.strip()


def _word(name: str, param: Param, value: str) -> tuple[str, str]:
    """The first word of ``value``, and the rest. A word with spaces is quoted."""
    if value[0] not in "\"'":
        word, _, rest = value.partition(" ")
        return word, rest
    end = 1
    while end < len(value) and value[end] != value[0]:
        end += 2 if value[end] == "\\" else 1
    try:
        return str(ast.literal_eval(value[: end + 1])), value[end + 1 :]
    except (SyntaxError, ValueError):
        raise UsageError(f"%{name} {param.option}: the quotes of {value} do not match") from None


_WANTED = {"int": "an integer", "ints": "an integer, or several with commas between"}


# Tokens outside strings and comments: options, brackets, commas. A quote or ``#`` that begins a string or a comment
# without an end is a token too.
_TOKEN = re.compile(
    r"""#[^\n]*\n|('{3}|"{3}|'(?!'')|"(?!""))(?:\\.|(?!\1).)*\1|['"\#]|(?<!\S)--[A-Za-z][\w-]*=?|[()\[\]{},]""", re.S
)
OPENING, CLOSING = "([{", ")]}"


def tokens(text: str) -> Iterator[tuple[int, str, int]]:
    """The tokens of Python code or of a command: (index, token, how many brackets are open after it)."""
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if match[1] or token[-1] == "\n":  # a string or a comment
            continue
        depth += (token in OPENING) - (token in CLOSING)
        yield match.start(), token, depth
        if token in "'\"#":
            return


def _split(line: str) -> Iterator[tuple[str, str]]:
    """``('', text)``, then ``(option, text after it)`` for each option outside brackets and strings."""
    option, start = "", 0
    for i, token, depth in tokens(line):
        if token.startswith("--") and depth <= 0:
            yield option, line[start:i]
            option, start = token.rstrip("=").replace("_", "-"), i + len(token)
    yield option, line[start:]
