"""The prompt's keys: Enter runs an input if it is complete, and function keys show the panels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.application.current import get_app
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from minijax.tools.session import source

# panel -> its key, which shows the panel in full; pressed again, it turns the panel off, and then on
PANEL_KEYS = {"tracers": "F3", "jaxpr": "F4", "hlo": "F5", "cache": "F6", "time": "F7", "stack": "F8"}
ALL_PANELS = "F2"
# function key -> its command line
COMMAND_KEYS = {"F1": "%help keys", "F9": "%panels --all"}


@Condition
def _typing() -> bool:
    """Whether the input line has the focus and no completion menu is open."""
    app = get_app()
    state = app.current_buffer.complete_state
    return has_focus("DEFAULT_BUFFER")() and (state is None or state.current_completion is None)


def bindings(
    command: Callable[[str], None], toggle_panels: Callable[[], None], turn_panel: Callable[[str], None]
) -> KeyBindings:
    """The key bindings. ``command`` runs a command line and prints its output above the prompt.

    F2 calls ``toggle_panels``, and a panel's key calls ``turn_panel(name)``.
    """
    keys = KeyBindings()

    @keys.add("enter", filter=_typing)
    def enter(event: KeyPressEvent) -> None:
        """Run a complete input; continue an incomplete one on a new line."""
        buffer = event.current_buffer
        text = buffer.text
        at_end = not buffer.document.text_after_cursor.strip()
        if source.status(text) == "incomplete" or (not at_end and "\n" in text and not source.is_command(text)):
            buffer.insert_text("\n" + source.next_indent(buffer.document.text_before_cursor))
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:
        """Insert a line break, even in a complete input."""
        event.current_buffer.insert_text("\n")

    @keys.add("tab", filter=_typing)
    def tab(event: KeyPressEvent) -> None:
        """At the beginning of a line, indent it; elsewhere, complete the word."""
        buffer = event.current_buffer
        if buffer.document.current_line_before_cursor.strip():
            buffer.start_completion(insert_common_part=True)
        else:
            buffer.insert_text(source.INDENT)

    @keys.add("backspace", filter=_typing)
    def backspace(event: KeyPressEvent) -> None:
        """Delete one step of indentation; where there is none, one character."""
        buffer = event.current_buffer
        before = buffer.document.current_line_before_cursor
        step = (len(before) - 1) % len(source.INDENT) + 1 if before and not before.strip(" ") else 1
        buffer.delete_before_cursor(step)

    actions = {ALL_PANELS: toggle_panels}
    actions |= {key: partial(turn_panel, panel) for panel, key in PANEL_KEYS.items()}
    actions |= {key: partial(command, line) for key, line in COMMAND_KEYS.items()}
    for key, action in actions.items():
        keys.add(key.lower())(lambda event, action=action: run_in_terminal(action) and None)
    return keys
