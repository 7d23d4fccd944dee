"""The command reference, generated from the command table: each command's help, options, and example with output."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from docs.site.blocks import Blocks
from docs.site.prose import code
from minijax.ipython_ext.magics import magic_name
from minijax.tools.commands.arguments import Param
from minijax.tools.commands.command import Command
from minijax.tools.commands.session import GROUPS
from minijax.tools.commands.table import COMMANDS
from minijax.tools.session import source

# The two lines that run before every example: the first defines ``f``, the second is a call for commands to show.
SETUP = ("def f(x): return sin(x) * 2. - x", "grad(f)(3.0)")
# Extra lines that run before these commands' examples.
BEFORE = {
    "debug": ("f('three')",),
    "why": ("h = jit(f)", "h(3.0)", "h(jnp.arange(3.0))"),
    "leaks": ("kept = []", "grad(lambda x: kept.append(x) or f(x))(3.0)"),
    "stack": ("%push jvp x=3. dx=1.", "y = sin(x)"),
    "tracers": ("%push jvp x=3. dx=1.", "y = sin(x)"),
}
# The commands whose last extra line fails on purpose.
FAILING = {"debug"}
PROGRAM = "import jax\nprint('Python wrote', jax.__name__)\n"


def reference() -> Iterator[str]:
    """The body of the page."""
    yield "<h1>Commands</h1>"
    yield (
        f"<p>All {len(COMMANDS)} commands, from the table that the prompt, IPython and <code>%help</code> read. Each "
        "example was run when this page was made, in a session of its own that began with these two lines:</p>"
    )
    with Blocks("the reference") as blocks:
        yield blocks.run("minijax", ["panels"], "\n".join(SETUP))
    for group, title in GROUPS.items():
        named = [each for each in COMMANDS.values() if each.group == group]
        links = " ".join(f'<a href="#{each.name}"><code>%{each.name}</code></a>' for each in named)
        yield f"<p><b>{title}</b> {links}</p>"
    for group, title in GROUPS.items():
        yield f'<h2 id="{group}"><a href="#{group}">{title}</a></h2>'
        for command in COMMANDS.values():
            if command.group == group:
                yield from described(command)


def described(command: Command) -> Iterator[str]:
    """The section of a command."""
    yield f'<h3 id="{command.name}"><a href="#{command.name}">%{command.name}</a></h3>'
    yield f'<p class="usage"><code>{html.escape(command.usage)}</code></p>'
    for paragraph in command.help.strip().split("\n"):
        if paragraph:
            yield f"<p>{linked(paragraph)}</p>"
    yield "".join(f'<p class="muted">{each}</p>' for each in _forms(command))
    if command.params:
        rows = "".join(
            f"<dt>{html.escape(name)}</dt><dd>{linked(text)}</dd>" for name, text in map(_option, command.params)
        )
        yield f'<dl class="options">{rows}</dl>'
    yield example(command)


def _forms(command: Command) -> Iterator[str]:
    if command.cell:
        yield f"As <code>%%{command.name}</code> it takes the lines of a cell."
    if command.prompt:
        yield "Only at minijax's prompt: IPython has its own command."
    elif (called := magic_name(command)) != command.name:
        yield f"In IPython, which has a magic of this name, it is <code>%{called}</code>."


def _option(param: Param) -> tuple[str, str]:
    if param.is_text:
        return param.name.upper(), param.help
    value = "" if param.kind == "flag" else " " + ("|".join(param.choices) or param.kind.upper())
    return f"{param.option}{value}", param.help


def example(command: Command) -> str:
    """A command's example, run in its own session, with its output."""
    with Blocks(f"the example of %{command.name}") as blocks:
        session = blocks.session()
        with open("train.py", "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        for line in SETUP:
            session.run_line(line)
        before = BEFORE.get(command.name, ())
        shown = "".join(blocks.entry(each, ["text"], command.name in FAILING) for each in before)
        shown += "".join(blocks.entry(each, ["text"]) for each in source.inputs(command.example))
        return blocks.neutral(f'<div class="block">{shown}</div>')


def linked(text: str) -> str:
    """A text of the command table, with command names linked to their descriptions."""

    def link(match: re.Match[str]) -> str:
        if match[1] not in COMMANDS:
            return match[0]
        return code(match[0])

    return re.sub(r"(?<![\w%])%{1,2}([a-z_]\w*)", link, html.escape(text))
