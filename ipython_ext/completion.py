"""Completion after a minijax magic: its options and their values, and the user's names."""

from __future__ import annotations

from collections.abc import Callable

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from minijax.ipython_ext.magics import MAGICS, magic_name
from minijax.tools.commands.completion import command_completions
from minijax.tools.session.session import Session

_BY_MAGIC = {magic_name(command): command.name for command in MAGICS}


def matcher(session: Session) -> Callable[[CompletionContext], SimpleMatcherResult]:
    @context_matcher(identifier="minijax_matcher")
    def minijax_matcher(context: CompletionContext) -> SimpleMatcherResult:
        lines = context.full_text.split("\n")
        line = lines[min(context.cursor_line, len(lines) - 1)].lstrip()
        before = context.line_with_cursor[: context.cursor_position].lstrip()
        if not line.startswith("%") or not before.startswith("%"):
            return {"completions": []}
        percent = before[: len(before) - len(before.lstrip("%"))]
        name, space, rest = before.lstrip("%").partition(" ")
        if not space or name not in _BY_MAGIC:
            return {"completions": []}
        found = command_completions(session, f"{percent}{_BY_MAGIC[name]} {rest}")
        if not found:
            return {"completions": []}
        completions = [SimpleCompletion(each.text, type=each.kind) for each in found]
        fragment = before[len(before) - found[0].length :]
        # suppress IPython's own magics and files, which are no arguments of our magics
        return {"completions": completions, "matched_fragment": fragment, "suppress": True}

    return minijax_matcher
