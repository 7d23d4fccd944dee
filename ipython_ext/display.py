"""The results of magics, and the display of objects of minijax and its tools.

Every front end gets text; HTML is added unless the shell is a terminal.
"""

from __future__ import annotations

import html
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from IPython.utils.dir2 import get_real_method

from minijax.ipython_ext.places import renamer
from minijax.ipython_ext.sharing import sharing
from minijax.ir.pretty import jaxpr_document
from minijax.tools.documents.document import Block, Code, Document, Picture, Printout, Row, Text, document, line, text
from minijax.tools.documents.html import stylesheet, to_html, uncoloured
from minijax.tools.documents.lexer import highlight
from minijax.tools.documents.room import brief, brief_text
from minijax.tools.documents.theme import to_text
from minijax.tools.programs.hlo import folded
from minijax.tools.session.result import NOTHING, Browse, Result

if TYPE_CHECKING:
    from minijax.core.miss_log import Missed
    from minijax.tools.session.jax_misses import JaxMiss
    from minijax.tools.session.session import Session

# The width of a page in columns: the kernel does not know how wide a notebook is.
_PAGE = 100
# Jaxprs with more equations are cut in the display; str(jaxpr) is never cut.
MOST_EQUATIONS = 500
# Show at most this many records of a recording as text.
_MOST_LOGGED = 40
# How to see the part that a notebook's output leaves out.
_PRINTED = "(print(_) shows them)"
EXPORTED = "(%export FILE.json writes them)"


def in_terminal(shell: Any) -> bool:
    """Whether this shell writes to a terminal with colour."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    colours = getattr(shell, "colors", "nocolor").lower()
    is_terminal = type(shell).__name__ == "TerminalInteractiveShell" and sys.stdout.isatty()
    return is_terminal and colours != "nocolor"


class Shown:
    """A magic's result, which displays itself. ``value`` is the command's value, or None if the command has no value.
    Unpacking and indexing use ``value``: ``y, dy = %grad f(3.0)``.

    ``document`` is the displayed text. ``recording`` has what minijax did; pass it to functions of ``minijax.tools``.
    """

    def __init__(self, shell: Any, result: Result, ended: Callable[[], None] | None = None) -> None:
        self._shell = shell
        # called after a live stepper has run the call again
        self._ended = ended
        self.document = result.document
        self._step = None if isinstance(result.step, Browse) or in_terminal(shell) else result.step
        self.value: Any = None if result.value is NOTHING else result.value
        self.recording = result.recording
        # set after the first display, until the cell ends: a second display shows only the value
        self.quiet = False
        self._widget: Any = None

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __getitem__(self, index: Any) -> Any:
        return self.value[index]

    def __repr__(self) -> str:
        return renamer(self._shell)(to_text(self.document, page()))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        if self.quiet:
            return {"text/plain": "(shown above)" if self.value is None else repr(self.value)}
        if self._step is None:
            return bundle(self._shell, self.document)
        return self._stepping(_widget(self._shell, self._step.recording, self._step.position, renamer(self._shell)))

    def _stepping(self, page_of_steps: str) -> dict[str, str]:
        rename = renamer(self._shell)
        plain = rename(brief_text(self.document, page(), _PRINTED))
        return {"text/plain": plain, "text/html": rename(page_of_steps)}

    def _ipython_display_(self) -> None:
        """Display a live stepper as two outputs. Otherwise raise NotImplementedError: IPython asks for the bundle."""
        if not self._is_live():
            raise NotImplementedError
        for each in self.bundles():
            self._shell.display_pub.publish(each)

    def _is_live(self) -> bool:
        return self._step is not None and not self.quiet and sharing(self._shell).steps_live()

    def bundles(self) -> list[dict[str, Any]]:
        """The outputs to display: a live stepper asks the kernel for its data, and has a static version beside it."""
        step = self._step
        if step is None or not self._is_live():
            return [self._repr_mimebundle_()]
        # imported here: anywidget is optional, and only a live stepper needs it
        from minijax.ipython_ext.live import LiveStepper
        from minijax.tools.pages.live import static_html

        rename = renamer(self._shell)
        if self._widget is None:
            self._widget = LiveStepper(step, rename, self._ended)
            sharing(self._shell).opened(self._widget)
        return [self._stepping(static_html(step.recording, step.position, rename)), self._widget.bundle]


def page() -> int:
    return shutil.get_terminal_size((_PAGE, 24)).columns if sys.stdout.isatty() else _PAGE


def bundle(shell: Any, doc: Document, rest: str = _PRINTED) -> dict[str, str]:
    """``doc`` for any front end: always plain text, and HTML outside of terminals.

    A document too long for a notebook is cut; ``rest`` says how to see all of it.
    """
    rename = renamer(shell)
    if in_terminal(shell):
        return {"text/plain": rename(to_text(doc, page(), True, highlight))}
    plain = rename(brief_text(doc, page(), rest))
    for block in doc.blocks:
        if isinstance(block, Picture) and block.alone is not None:
            # no HTML: front ends would show it instead of the picture, and static viewers remove drawings from HTML
            return {"text/plain": plain, "image/svg+xml": rename(block.alone())}
    return {"text/plain": plain, "text/html": rename(_html(shell, doc, rest))}


def recompiled(shell: Any, entries: Sequence[Missed], of_jax: Sequence[JaxMiss], lost: int = 0) -> dict[str, str]:
    """The output about a cell's cache misses, minijax's and JAX's; {} if nothing was compiled again."""
    # imported here: most cells have no cache miss
    from minijax.tools.explain.recompiles import recompiles

    found = recompiles(entries, of_jax, lost)
    if found is None:
        return {}
    shown = bundle(shell, found.shown)
    # the reasons also appear as a tooltip
    reasons = html.escape(renamer(shell)("\n".join(found.reasons)))
    shown["text/html"] = shown["text/html"].replace("<summary>", f'<summary title="{reasons}">', 1)
    return shown | {"text/plain": bundle(shell, found.unfolded)["text/plain"]}


def _html(shell: Any, doc: Document, rest: str) -> str:
    return _shared(shell, to_html(doc, highlight, rest))


def _shared(shell: Any, made: str) -> str:
    """The HTML ``made``. Its style and its script are left out if an earlier output of the notebook has them."""
    known = sharing(shell)
    if f"<style>{stylesheet()}</style>" in made and known.has("style"):
        made = uncoloured(made)
    if "<script" in made:
        # imported here, see ``_widget``
        from minijax.tools.pages.page import has_script, lent

        if has_script(made) and known.has("stepper"):
            made = lent(made)
    return made


def _widget(shell: Any, recording: Any, start: int = 0, rename: Callable[[str], str] | None = None) -> str:
    # imported here: the widget reads its script from a file, and only a stepper in a notebook needs it
    from minijax.tools.pages.widget import widget_html

    return _shared(shell, widget_html(recording, highlight, start=start, rename=rename))


def _jaxpr(jaxpr: Any) -> Document:
    """A jaxpr, cut if it would flood the page."""
    return document(Printout(jaxpr_document(jaxpr, max_eqns=MOST_EQUATIONS)))


def _stage(label: str, stage: Any, note: str, code: str, language: str) -> Document:
    named = line(("function", stage._traced.fun_name), ("muted", note))
    return document(Row(label, (named,)), Code(code.rstrip("\n"), language))


def _lowered(lowered: Any) -> Document:
    return _stage("lowered", lowered, ", not compiled yet: .compile() goes on", lowered.as_text(), "stablehlo")


def _compiled(compiled: Any) -> Document:
    note = ", by XLA; metadata left out: .as_text() has it"
    return _stage("compiled", compiled, note, folded(compiled.as_text()), "hlo")


def _recording(recording: Any) -> Document:
    # imported here: only recordings need it, and it would delay the extension's loading
    from minijax.tools.recording.log import log_document
    from minijax.tools.recording.panels import summary

    head = document(Text((line(("heading", repr(recording))),)))
    return head + (log_document(recording, _MOST_LOGGED) if recording.tree else summary(recording))


def _matrix(matrix: Any) -> Document:
    # imported here, see ``_recording``
    from minijax.tools.explain.rules import matrix as matrix_document

    return matrix_document(matrix.rows)


def _repr(value: Any) -> Document:
    """The repr of ``value`` as a document, so that the front end can rename cells in it."""
    return document(text(repr(value), wrap=False))


def _programs(programs: Any) -> Document:
    # imported here, see ``_recording``
    from minijax.tools.programs.link_views import annotated, missing_rows

    blocks: list[Block] = []
    for pane in programs.panes:
        if pane.language != "python":
            blocks += [Text((line(("heading", pane.title)),)), annotated(programs, pane)]
    return document(*blocks, *missing_rows(programs))


def _html_of(shell: Any, value: Any, make: Callable[[Any], Document]) -> str:
    """An object as HTML: a stepper for a recording, linked panes for programs, a document for others."""
    kind = type(value).__name__
    if kind == "Recording" and value.tree:
        return _widget(shell, value)
    if kind == "LinkedPrograms":
        # imported here, see ``_recording``
        from minijax.tools.pages.links import programs_html

        return _shared(shell, programs_html(value, highlight))
    return _html(shell, make(value), _rest(value))


def _rest(value: Any) -> str:
    """How to see all of an object whose display is cut."""
    return "(print(_.as_text()) shows them)" if hasattr(value, "as_text") else _PRINTED


# class name -> a function that returns an object's document. Registering a name imports no module.
OBJECTS: dict[str, Callable[[Any], Document]] = {
    "minijax.ir.jaxpr.ClosedJaxpr": _jaxpr,
    "minijax.ir.jaxpr.Jaxpr": _jaxpr,
    "minijax.api.compile.JitFunction": _repr,
    "minijax.api.pmap.PmapFunction": _repr,
    "minijax.api.stages.Lowered": _lowered,
    "minijax.api.stages.CompiledFunction": _compiled,
    "minijax.tools.recording.records.Recording": _recording,
    "minijax.tools.programs.links.LinkedPrograms": _programs,
    "minijax.extend.rules.RuleMatrix": _matrix,
    "minijax.tools.documents.document.Document": lambda shown: shown,
}


class Trees:
    """Displays containers of arrays as key trees, if they are the whole output and take many lines."""

    def __init__(self, shell: Any, session: Session) -> None:
        self.shell = shell
        self.session = session
        self.formatter = shell.display_formatter
        self.own = self.formatter.format

    def install(self) -> None:
        self.formatter.format = self.format

    def remove(self) -> None:
        vars(self.formatter).pop("format", None)

    def format(self, value: Any, include: Any = None, exclude: Any = None) -> Any:
        """The bundle and the metadata of an output, in IPython's calling convention."""
        # pprint is off if the user turned pretty-printing off
        if self.formatter.formatters["text/plain"].pprint and get_real_method(value, "_repr_mimebundle_") is None:
            tree = self.session.value_tree(value, "", page())
            if tree is not None:
                return bundle(self.shell, document(tree)), {}
        return self.own(value, include, exclude)


def html_formatter(shell: Any, make: Callable[[Any], Document]) -> Callable[[Any], str]:
    """The HTML formatter of a kind of object, in IPython's calling convention."""
    return lambda value: renamer(shell)(_html_of(shell, value, make))


def text_formatter(shell: Any, make: Callable[[Any], Document]) -> Callable[[Any, Any, bool], None]:
    """The text formatter of a kind of object, in IPython's calling convention."""

    def show(value: Any, printer: Any, cycle: bool) -> None:
        if len(printer.stack) > 1:  # inside a container, colour codes would break IPython's count of columns
            said = brief(str(value), _PRINTED)
        elif in_terminal(shell):
            said = to_text(make(value), page(), True, highlight)
        else:
            said = brief_text(make(value), page(), _rest(value))
        for i, each in enumerate(renamer(shell)(said).split("\n")):
            if i:
                printer.break_()
            printer.text(each)

    return show
