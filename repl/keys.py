"""Keys of the prompt: Enter that knows when an input is complete, and the panels on function keys."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.application.current import get_app
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from minijax.tools import source

# function key -> the command line it stands for
FUNCTION_KEYS = {"f3": "%tracers", "f4": "%panels --all"}


@Condition
def _typing() -> bool:
    """Whether the input line has the focus and no completion is being chosen."""
    app = get_app()
    state = app.current_buffer.complete_state
    return has_focus("DEFAULT_BUFFER")() and (state is None or state.current_completion is None)


def bindings(command: Callable[[str], None], toggle_panels: Callable[[], None]) -> KeyBindings:
    """The bindings. ``command`` runs a command line and prints what it says, above the prompt."""
    keys = KeyBindings()

    @keys.add("enter", filter=_typing)
    def enter(event: KeyPressEvent) -> None:
        """Run a complete input, go on with an incomplete one."""
        buffer = event.current_buffer
        text = buffer.text
        at_end = not buffer.document.text_after_cursor.strip()
        if source.status(text) == "incomplete" or (not at_end and "\n" in text and not source.is_command(text)):
            buffer.insert_text("\n" + source.next_indent(buffer.document.text_before_cursor))
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:
        """A line break, whatever the input."""
        event.current_buffer.insert_text("\n")

    @keys.add("tab", filter=_typing)
    def tab(event: KeyPressEvent) -> None:
        """Indentation at the beginning of a line, completion elsewhere."""
        buffer = event.current_buffer
        if buffer.document.current_line_before_cursor.strip():
            buffer.start_completion(insert_common_part=True)
        else:
            buffer.insert_text("    ")

    @keys.add("f2")
    def panels(event: KeyPressEvent) -> None:
        """Show panels after each line, or stop showing them."""
        run_in_terminal(toggle_panels)

    def add(key: str, line: str) -> None:
        @keys.add(key)
        def pressed(event: KeyPressEvent) -> None:
            run_in_terminal(lambda: command(line))

    for key, line in FUNCTION_KEYS.items():
        add(key, line)
    return keys
