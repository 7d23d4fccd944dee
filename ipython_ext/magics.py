"""One magic per command of the table, on a class with the traits of ``%config MinijaxMagics``."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError as IPythonUsageError
from IPython.core.magic import (
    Magics,
    cell_magic,
    line_cell_magic,
    line_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
    output_can_be_silenced,
)
from traitlets import Bool, Enum, TraitError, Unicode, validate

from minijax.ipython_ext.display import Shown
from minijax.ipython_ext.places import keep_typed, origin, shows_itself
from minijax.ipython_ext.terminal import has_screen, stepped
from minijax.tools.commands import find
from minijax.tools.commands.command import Command
from minijax.tools.commands.table import COMMANDS
from minijax.tools.documents.lexer import highlight
from minijax.tools.recording.panels import PANELS
from minijax.tools.session.result import NOTHING
from minijax.tools.session.session import Session
from minijax.tools.usage import UsageError

# The prefix of commands whose names belong to IPython's own magics.
PREFIX = "minijax_"
TAKEN = ("config", "debug", "history", "time")
# The commands that become magics.
MAGICS = [command for command in COMMANDS.values() if not command.prompt]
# Commands that extend an IPython magic of the same name: they run only if this option comes first.
OWN = {"run": "--as-jax"}
# Settings without effect here: IPython has its own colours, keys and history.
WITHOUT = ("color", "keys", "history", "warm")
# The prefix of methods, since a trait and a command may share a name.
_METHOD = "magic_"


def magic_name(command: Command) -> str:
    return PREFIX + command.name if command.name in TAKEN else command.name


def _magic(command: Command) -> Callable[..., Any]:
    def run(self: Any, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Shown | None:
        __tracebackhide__ = True
        if command.name in OWN and not line.lstrip().startswith(OWN[command.name]):
            own = self.pythons_own(command.name)
            return self.showing_errors(own, self.shell.var_expand(line))  # as IPython does for its own magics
        self.apply_traits()
        keep_typed(self.shell)
        # a final semicolon silences IPython's output; the command must not see it
        silent = line.rstrip().endswith(";")
        line = line.rstrip().rstrip(";")
        try:
            result = self.session.run_command(command.name, line, cell, local_ns)
        except UsageError as error:
            raise IPythonUsageError(str(error).replace(f"%{command.name}", f"%{name}")) from None
        self.take_settings()
        if result.step is not None and has_screen(self.shell):
            result = stepped(self.session, result)
        if command.name == "panels" and line and not line.startswith("--"):
            # a user who chooses panels wants to see them
            self.watch = bool(self.session.settings.panels)
        empty = result.value is None or result.value is NOTHING
        if result.next_input:
            self.shell.set_next_input(result.next_input)
            if has_screen(self.shell):
                return None
        shown = Shown(self.shell, result, self.session.restore) if result.document or not empty else None
        if result.error is not None:
            # show the result first, then raise the user's exception
            if shown is not None:
                self.show(shown)
            raise result.error
        if shown is not None and not silent and shows_itself(self.shell):
            self.show(shown)
        return shown

    name = magic_name(command)
    run.__name__ = _METHOD + name
    run.__qualname__ = f"MinijaxMagics.{run.__name__}"
    example = textwrap.indent(command.example, "    ")
    run.__doc__ = f"{command.usage}\n\n{command.help}\n\nFor example::\n\n{example}"
    if command.name in OWN:
        run.__doc__ += f"\n\nWithout {OWN[command.name]} it is IPython's own %{command.name}."
    kind = line_cell_magic if command.cell and command.line else cell_magic if command.cell else line_magic
    marked: Any = output_can_be_silenced(no_var_expand(needs_local_scope(run)))
    return kind(name)(marked)


class _Traits(Magics):
    """The traits, and the session behind the magics."""

    watch = Bool(False, help="Show what minijax did after every cell that traced or compiled something.").tag(
        config=True
    )
    panels = Unicode(" ".join(PANELS), help=f"What a watched cell shows: some of {' '.join(PANELS)}.").tag(config=True)
    style = Enum(("jax", "tutorial"), "jax", help="How jaxprs are printed.").tag(config=True)
    badge = Bool(True, help="Say below a cell of a notebook what was compiled again in it, and why.").tag(config=True)
    stepper = Enum(
        ("auto", "live", "page"),
        "auto",
        help="How a notebook steps: 'live' asks the kernel for data (with anywidget), 'page' puts all data into the "
        "output; 'auto' is 'live' where a person has JupyterLab or Notebook open, and anywidget is installed.",
    ).tag(config=True)
    share = Bool(True, help="One output of a notebook holds style and script, and the others refer to it.").tag(
        config=True
    )

    def __init__(self, shell: Any) -> None:
        # name in ``OWN`` -> IPython's own magic of that name
        self.pythons: dict[str, Callable[..., Any]] = {}
        # calls an IPython magic and displays its program's exceptions like those of a cell
        self.showing_errors: Callable[..., Any] = lambda own, line: own(line)
        # the outputs that the running cell's magics have displayed themselves
        self.shown: list[Shown] = []
        self.session = session = Session(find, shell.user_ns)
        session.own_prompt = False
        session.highlight = highlight
        session.renamed_commands = {name: PREFIX + name for name in TAKEN}
        session.settings.without = WITHOUT
        session.unwrapped = lambda value: value.value if isinstance(value, Shown) else value
        session.origin = lambda: origin(shell)
        # %minijax_history shows IPython's inputs
        session.inputs = shell.history_manager.input_hist_raw
        known = list(shell.configurables)
        try:
            super().__init__(shell)
        except TraitError as error:
            # a wrong word in the configuration must not stop the extension from loading
            warnings.warn(f"{error} The configuration of MinijaxMagics is not used.", stacklevel=2)
            shell.configurables[:] = known
            shell.config.pop("MinijaxMagics", None)
            super().__init__(shell)

    def pythons_own(self, name: str) -> Callable[..., Any]:
        if type(self.pythons[name]).__name__ == "LazyMagic":
            # a LazyMagic looks for IPython's magic in the table of magics, where ours now has this name
            shell: Any = self.shell
            self.pythons[name] = getattr(shell.magics_manager.registry["ExecutionMagics"], name)
        return self.pythons[name]

    @validate("panels")
    def _known_panels(self, proposal: Any) -> str:
        words: list[str] = proposal["value"].replace(",", " ").split()
        unknown = [word for word in words if word not in PANELS]
        if unknown:
            raise TraitError(f"The 'panels' trait takes some of {', '.join(PANELS)}, not {unknown[0]!r}.")
        return " ".join(words)

    def show(self, shown: Shown) -> None:
        shell: Any = self.shell
        for each in shown.bundles():
            shell.display_pub.publish(each)
        shown.quiet = True
        self.shown.append(shown)

    def apply_traits(self) -> None:
        settings = self.session.settings
        settings.panels = tuple(name for name in PANELS if name in self.panels.replace(",", " ").split())
        settings.style = self.style

    def take_settings(self) -> None:
        """Copy the session's settings, which a command may have changed, to the traits."""
        self.panels = " ".join(self.session.settings.panels)
        self.style = self.session.settings.style


# The decorators fill a global table with methods, and ``magics_class`` empties it, so one statement does both.
MinijaxMagics: Any = magics_class(
    type(
        "MinijaxMagics",
        (_Traits,),
        {
            "__doc__": "The magics of minijax.",
            "__module__": __name__,
            **{_METHOD + magic_name(command): _magic(command) for command in MAGICS},
        },
    )
)
