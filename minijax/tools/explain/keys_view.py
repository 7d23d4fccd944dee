"""The display of ``%keys``: the result of a search, with advice."""

from __future__ import annotations

from collections.abc import Iterator

from minijax.tools.documents.document import Block, Document, Line, Row, Section, line, text
from minijax.tools.documents.words import plural, shortened
from minijax.tools.explain.keys import KeySearch, Use
from minijax.tools.explain.walk import MOST_EQUATIONS, place_text

# The most keys, uses of one key, and lines of the tree that are shown. Further ones are counted.
MOST_KEYS, MOST_USES, MOST_LINES = 8, 6, 16
_LONGEST = 100

ADVICE = "Make a key for each use: key, subkey = random.split(key), or random.fold_in(key, i) in a loop over i."


def keys_document(search: KeySearch, title: str) -> Document:
    """The result of the search in the expression ``title``."""
    reused = search.reused
    blocks: list[Block] = []
    if not search.uses:
        blocks.append(text(f"{title} uses no random key", role="muted"))
    elif not reused:
        count = len(search.uses)
        often = "once" if count == 1 else "each of them once"
        if any(len(uses) > 1 for uses in search.uses.values()):
            often += " or as often as random.clone allows"
        said = f": {title} uses {plural(count, 'random key')}, {often}"
        blocks.append(Row("reused", (line(("good", "none"), said),)))
    # keys that the same lines use, as under vmap, share a section
    alike: dict[tuple[tuple[str, str], ...], list[bytes]] = {}
    for words in reused:
        alike.setdefault(tuple((use.what, place_text(use.source)[0]) for use in search.uses[words]), []).append(words)
    for same in [*alike.values()][:MOST_KEYS]:
        blocks.append(_reused_section(search, same))
    if len(alike) > MOST_KEYS:
        blocks.append(text(f"and {plural(sum(map(len, [*alike.values()][MOST_KEYS:])), 'more key')}", role="muted"))
    if reused:
        blocks.append(Row("advice", (line(ADVICE),)))
    tree = _tree(search)
    if tree:
        blocks.append(Section(line(("heading", "keys")), (text(*tree, wrap=False),)))
    if search.unseen:
        later = f"{plural(search.unseen, 'use')} of later keys {'was' if search.unseen == 1 else 'were'} not seen"
        said = f"only the first {len(search.uses):,} keys were tracked: {later}"
        blocks.append(text(said, role="muted"))
    if search.hurried:
        said = f"after {MOST_EQUATIONS:,} equations, loops ran as a whole, and keys inside them were not seen"
        blocks.append(text(said, role="muted"))
    return Document(tuple(blocks))


def path(search: KeySearch, words: bytes) -> str:
    """The derivation of a key from its root: ``key(0) → split [1]``."""
    parts: list[str] = []
    at: bytes | None = words
    while at is not None:
        origin = search.origins.get(at)
        parts.append("a key" if origin is None else origin.how)
        at = None if origin is None else origin.parent
    return " → ".join(reversed(parts))


def _reused_section(search: KeySearch, same: list[bytes]) -> Section:
    uses = search.uses[same[0]]
    more = f", and {len(same) - 1} more like it" if len(same) > 1 else ""
    title = line(("error", f"used {_times(len(uses))}"), ": ", ("value", path(search, same[0])), ("muted", more))
    return Section(title, tuple(_use_rows(uses)))


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{count:,} times"


def _use_rows(uses: list[Use]) -> Iterator[Block]:
    """A row for each source line that uses the key, even if the line ran often."""
    places: dict[tuple[str, str, str], list[Use]] = {}
    for use in uses:
        places.setdefault((use.what, *place_text(use.source)), []).append(use)
    for number, ((what, place, source), same) in enumerate(places.items()):
        if number == MOST_USES:
            yield Row("", (line(("muted", f"and {len(places) - MOST_USES} more places")),))
            return
        count = f" {len(same):,} times" if len(same) > 1 else ""
        lines: list[Line] = [line(("primitive", what), count, ("muted", " at "), ("place", place))]
        if source:
            lines.append(line(shortened(source, _LONGEST)))
        inside = dict.fromkeys(" ▸ ".join(use.inside) for use in same if use.inside)
        if inside:
            shown = [*inside][:2]
            more = f", and {len(inside) - len(shown)} more" if len(inside) > len(shown) else ""
            lines.append(line(("muted", f"inside {'; '.join(shown)}{more}")))
        yield Row("used by" if number == 0 else "and by", tuple(lines))


def _tree(search: KeySearch) -> list[Line]:
    """The used keys as a tree, each below the key that it was derived from."""
    wanted = dict.fromkeys(search.uses)
    for words in search.uses:
        at: bytes | None = words
        while at is not None:
            wanted[at] = None
            origin = search.origins.get(at)
            at = None if origin is None else origin.parent
    children: dict[bytes | None, list[bytes]] = {}
    unknown = [words for words in wanted if words not in search.origins]
    for words in [*(each for each in search.origins if each in wanted), *unknown]:
        origin = search.origins.get(words)
        children.setdefault(None if origin is None else origin.parent, []).append(words)
    rows = list(_branches(search, children, None, 0))
    if len(rows) > MOST_LINES:
        rows[MOST_LINES:] = [line(("muted", f"and {len(rows) - MOST_LINES:,} more"))]
    return rows


def _branches(
    search: KeySearch, children: dict[bytes | None, list[bytes]], of: bytes | None, depth: int
) -> Iterator[Line]:
    reused = set(search.reused)
    below = [(of, depth)]
    while below:
        words, depth = below.pop()
        if words is not None:
            origin = search.origins.get(words)
            whats = ", ".join(dict.fromkeys(use.what for use in search.uses.get(words, ())))
            by = (("muted", "  used by "), ("primitive", whats)) if whats else ()
            times = len(search.uses.get(words, ()))
            often = (("error", f"  {_times(times)}"),) if words in reused else ()
            if times > 1 and not often:
                often = (("muted", f"  {_times(times)}, as random.clone allows"),)
            yield line("  " * (depth - 1), ("value", "a key" if origin is None else origin.how), *by, *often)
        below += [(each, depth + 1) for each in reversed(children.get(words, ()))]
