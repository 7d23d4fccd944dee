"""A session or a recording as a file: a self-contained HTML page, or JSON.

The page holds each input in colours, its output, its panels (folded), and a stepper if it has a full recording. The
page loads nothing: its content security policy allows only its own script, by hash.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable
from typing import Any

from minijax.tools.documents.document import Code, Highlighter, document, plain
from minijax.tools.documents.html import markup, shown
from minijax.tools.pages import page as widget_page
from minijax.tools.pages.widget import MOST_EXPORTED, widget_html
from minijax.tools.recording import storage
from minijax.tools.recording.panel_data import panel_data
from minijax.tools.recording.records import Recording
from minijax.tools.session.session import Entry
from minijax.tools.stepper.devices import with_devices

FORMAT, VERSION = "minijax-session", 1
_WIDTH = 100


def session_json(entries: Iterable[Entry]) -> dict[str, Any]:
    """The inputs of a session as JSON data.

    Each entry of ``inputs`` has ``number``, ``source``, the text that it ``showed``, whether it ``failed``, ``panels``
    (see ``panel_data``; null if nothing was traced), and its full ``recording`` (as ``storage`` writes it) or null.
    """
    inputs = []
    for entry in entries:
        kept = entry.recording
        inputs.append(
            {
                "number": entry.number,
                "source": entry.source,
                "showed": plain(entry.shown, _WIDTH),
                "failed": entry.failed,
                "panels": panel_data(kept) if kept is not None and kept.traced else None,
                "recording": storage.to_json(with_devices(kept)) if kept is not None and kept.tree else None,
            }
        )
    return {"format": FORMAT, "version": VERSION, "inputs": inputs}


def session_page(entries: Iterable[Entry], highlight: Highlighter | None = None, about: str = "") -> str:
    """The inputs of a session as a page. ``about`` is shown below the title."""
    parts = []
    for entry in entries:
        head = "mj-prompt-out" if entry.failed else "mj-prompt-in"
        code = markup(document(Code(entry.source.strip("\n"), "python")), highlight)
        body = markup(entry.shown, highlight)
        if entry.panels:
            body += f"<details><summary>panels</summary><div>{markup(entry.panels, highlight)}</div></details>"
        if entry.recording is not None and entry.recording.tree:
            # the stepper shows the recording; the log is below it, folded
            widget = widget_html(entry.recording, highlight, MOST_EXPORTED, in_page=True)
            log = f"<details><summary>as text</summary><div>{body}</div></details>" if entry.shown else ""
            body = widget + log
        parts.append(
            f'<section class="minijax mjx-entry" id="in-{entry.number}">'
            f'<div class="mjx-in"><span class="{head}">in [{entry.number}]:</span><div>{code}</div></div>'
            f'<div class="mjx-out">{body}</div></section>'
        )
    return page("minijax session", "".join(parts), about)


def recording_page(recording: Recording, highlight: Highlighter | None = None, about: str = "") -> str:
    """A full recording as a page with a stepper."""
    title = "minijax recording"
    source = recording.source.strip()
    code = markup(document(Code(source, "python")), highlight) if source else ""
    body = widget_html(recording, highlight, MOST_EXPORTED, in_page=True)
    return page(title, f'<section class="minijax mjx-entry"><div class="mjx-in">{code}</div>{body}</section>', about)


def page(title: str, body: str, about: str = "") -> str:
    """A page with the elements ``body``, the style and the script."""
    script = widget_page.script()[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; base-uri 'none'; "
        "form-action 'none'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{widget_page.style()}{widget_page.css_file('export')}</style></head><body>"
        f'<header class="minijax mjx-head"><h1>{html.escape(title)}</h1>'
        f'<div class="mj-muted">{html.escape(shown(about))}</div></header>'
        f"{body}<script>{script}</script></body></html>\n"
    )


def as_text(data: dict[str, Any]) -> str:
    """JSON data as text for a file."""
    return json.dumps(data, ensure_ascii=False) + "\n"
