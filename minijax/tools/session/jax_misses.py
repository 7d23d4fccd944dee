"""Why real JAX traced a function: what it says of each miss of its tracing cache, kept as it happens.

JAX explains its misses in its log when ``jax_explain_cache_misses`` is on. ``Watching`` has that on for one input of
the user's, on its thread, and takes the explanations out of the log again, unless the user wanted them there. What JAX
finds in its caches it tells nobody.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import deque
from types import FunctionType
from typing import TYPE_CHECKING, Any

from minijax.core.named import NamedTuple

if TYPE_CHECKING:
    from logging import LogRecord

MOST_KEPT = 1000
# Where JAX logs what the option is about: the first is what is kept.
_TRACING = "jax._src.interpreters.partial_eval"
_LOGGERS = (_TRACING, "jax._src.compiler", "jax._src.compilation_cache")
_HEAD = "TRACING CACHE MISS at "
_FIRST = "JAX had not seen this function before"
_REDEFINED = "Define the function once, outside of what is run again: each new one is traced anew."


class JaxMiss(NamedTuple):
    """JAX traced a function.

    Attributes:
      number: its place among all that were kept, from 0.
      name: the function's.
      defined: ``file.py:12``, where it was defined.
      place: ``file.py:14 (g)``, the user's line that called it.
      reason: what differed from the nearest earlier call, parts separated by semicolons.
      advice: what to change, empty if nothing is known.
    """

    number: int
    name: str
    defined: str
    place: str
    reason: str
    advice: str


_kept: deque[JaxMiss] = deque(maxlen=MOST_KEPT)
_total = 0


def total() -> int:
    """How many misses were seen, which is the number of the next one."""
    return _total


def since(number: int = 0) -> tuple[JaxMiss, ...]:
    """The misses from ``number`` on that are kept, the earliest first."""
    return tuple(each for each in list(_kept) if each.number >= number)


def is_first(miss: JaxMiss) -> bool:
    """Whether JAX had not traced the function before: it was new."""
    return miss.reason.startswith(_FIRST)


def is_jitted(fun: Any) -> bool:
    """Whether ``fun`` is what ``jax.jit`` of the real JAX made."""
    return type(fun).__module__ == "jaxlib._jax" and hasattr(fun, "__wrapped__")


def jitted_within(fun: Any) -> Any:
    """What ``jax.jit`` made, if ``fun`` is that, or what a library's own jit (of Equinox, of Flax NNX) made around it;
    else None."""
    if is_jitted(fun):
        return fun
    held = getattr(fun, "__dict__", None) if callable(fun) and not isinstance(fun, (type, FunctionType)) else None
    return next(filter(is_jitted, (held or {}).values()), None)


def of(fun: Any) -> tuple[JaxMiss, ...]:
    """The misses of a function that ``jitted_within`` tells."""
    inside = jitted_within(fun).__wrapped__
    code = getattr(inspect.unwrap(inside), "__code__", None)
    if code is None:
        return ()
    defined = f"{code.co_filename}:{code.co_firstlineno}"
    name = getattr(fun, "__name__", "")  # all functions of a library's jit may be one function of the library's
    return tuple(each for each in since() if each.defined == defined and each.name == name)


class Watching:
    """Keeps JAX's misses between ``begin`` and ``end``; a context manager too.

    Attributes:
      seen: whether JAX was there to be watched when the last input began.
      first: the number of the first miss that the last input could have made.
    """

    def __init__(self) -> None:
        self.seen = False
        self.first = 0
        # JAX's option while it is on, with the value that it had before on this thread
        self._undo: tuple[Any, Any] | None = None

    def begin(self) -> None:
        """An input begins."""
        self.end()
        self.first = total()
        jax = sys.modules.get("jax")
        self.seen = hasattr(jax, "explain_cache_misses")  # jax may be half imported
        if jax is not None and self.seen:
            _filter.wanted = bool(jax.config.jax_explain_cache_misses)
            import logging  # which JAX has imported; without JAX nobody needs it

            for name in _LOGGERS:
                logging.getLogger(name).addFilter(_filter)  # once: a filter is not added twice
            option = jax.explain_cache_misses
            # Ctrl-C can come between any two of these lines: end() undoes all of them, done or not. JAX's own context
            # manager does not stand that, for it forgets the value from before when it is interrupted as it begins.
            self._undo = option, option.get_local()
            _filter.watching.add(self)
            option.set_local(True)

    def end(self) -> None:
        """It has ended."""
        if self._undo is not None:
            option, before = self._undo
            option.set_local(before)
            _filter.watching.discard(self)
            self._undo = None

    def skip(self) -> None:
        """What was kept so far is of no input that is asked about."""
        self.first = total()

    def __enter__(self) -> Watching:
        try:
            self.begin()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()


class _Filter:
    """Takes the explanations out of the log, and keeps those of tracing: a filter of ``logging``."""

    wanted = False

    def __init__(self) -> None:
        self.watching: set[Watching] = set()

    def filter(self, record: LogRecord) -> bool:
        if not self.watching:
            return True
        said = record.getMessage()
        if record.name == _TRACING:
            if not said.startswith(_HEAD):
                return True
            _keep(said)
            return self.wanted
        return self.wanted or not ("PERSISTENT" in said or "persistent cache" in said)


_filter = _Filter()


def _keep(said: str) -> None:
    """Keep what JAX ``said`` of a miss."""
    global _total
    head, *lines = said.split("\n")
    place = re.sub(r":(\d+):\d+ ", r":\1 ", head.removeprefix(_HEAD).rstrip(":"))
    lines = [each.strip() for each in lines]
    if lines and lines[0].startswith("never seen"):
        name, _, defined = lines[1].partition(" defined at ")
        advice = _REDEFINED if len(lines) > 2 else ""
        reason = _FIRST + ("; another was defined on the same line" if advice else "")
        name = name.rpartition(" id=")[0]
    else:
        name, _, defined = lines[0].removeprefix("for ").partition(" defined at ")
        found = [_difference(each[2:]) for each in lines[2:] if each.startswith("* ")]
        reason, advice = "; ".join(found) or " ".join(lines[2:]), ""
    _kept.append(JaxMiss(_total, name, defined, place, reason, advice))
    _total += 1


def _difference(said: str) -> str:
    """``at x, now f32[4] and before f32[3]``, as ours are said: ``x: f32[3] became f32[4]``."""
    said = re.sub(r"\(\{\}\)|https?://\S+|\{weak_type=False\}", "", said).replace("{weak_type=True}", " weak")
    match = re.fullmatch(r"(?:at (?:input path )?)?(\S+?)(?: differs:|,) now (.+) and before (.+?)(, so .+)?", said)
    if match is None:
        return said
    where, now, before, so = match.groups()
    return f"{where}: {before} became {now}{so or ''}"
