"""Records JAX's explanation of each miss of its tracing cache: why real JAX traced a function.

JAX logs explanations of its misses if ``jax_explain_cache_misses`` is on. ``Watching`` turns the option on for one
input, on its thread. It removes the explanations from the log, unless the user had turned the option on. JAX does not
report cache hits.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import deque
from collections.abc import Sequence
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from minijax.api.differences import ADVICE, type_advice
from minijax.core import dtypes
from minijax.core.avals import ShapedArray
from minijax.core.records import NamedTuple
from minijax.tools.session.specs import DTYPES

if TYPE_CHECKING:
    from logging import LogRecord

MOST_KEPT = 1000
# The loggers to which JAX sends the option's messages. Only the messages of the first logger are recorded.
_TRACING = "jax._src.interpreters.partial_eval"
_LOGGERS = (_TRACING, "jax._src.compiler", "jax._src.compilation_cache")
_HEAD = "TRACING CACHE MISS at "
_FIRST = "JAX had not seen this function before"
_REDEFINED = "Define the function once, outside of code that runs repeatedly: JAX traces each new function again."


class JaxMiss(NamedTuple):
    """A miss of JAX's tracing cache.

    Attributes:
      number: its index among all misses seen, from 0.
      name: the name of the function.
      defined: the place of the function's definition, ``file.py:12``.
      place: the user line with the call, ``file.py:14 (g)``.
      reason: the differences from the most similar earlier call, separated by semicolons.
      advice: what to change; '' if there is no advice.
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
    """The number of misses seen; the next miss gets this number."""
    return _total


def since(number: int = 0) -> tuple[JaxMiss, ...]:
    """The recorded misses from ``number`` on, the earliest first."""
    return tuple(each for each in list(_kept) if each.number >= number)


def is_first(miss: JaxMiss) -> bool:
    """Whether JAX had never traced the function before."""
    return miss.reason.startswith(_FIRST)


def is_jitted(fun: Any) -> bool:
    """Whether ``fun`` is a result of the real ``jax.jit``."""
    return type(fun).__module__ == "jaxlib._jax" and hasattr(fun, "__wrapped__")


def jitted_within(fun: Any) -> Any:
    """Return ``fun`` if it is a result of ``jax.jit``. If a library's own jit (Equinox's, Flax NNX's) made ``fun``,
    return the result of ``jax.jit`` that ``fun`` contains. Return None for any other ``fun``."""
    if is_jitted(fun):
        return fun
    held = getattr(fun, "__dict__", None) if callable(fun) and not isinstance(fun, (type, FunctionType)) else None
    return next(filter(is_jitted, (held or {}).values()), None)


def of(fun: Any) -> tuple[JaxMiss, ...]:
    """The misses of a function that is, or contains, a result of ``jax.jit``."""
    inside = jitted_within(fun).__wrapped__
    code = getattr(inspect.unwrap(inside), "__code__", None)
    if code is None:
        return ()
    defined = f"{code.co_filename}:{code.co_firstlineno}"
    name = getattr(fun, "__name__", "")  # a library's jit may wrap all functions in one function of its own
    return tuple(each for each in since() if each.defined == defined and each.name == name)


class Watching:
    """Records JAX's misses between ``begin`` and ``end``; also a context manager.

    Attributes:
      seen: whether the last input was watched. Inputs that begin before JAX is imported are not.
      first: the number of the first miss that belongs to the last input.
    """

    def __init__(self) -> None:
        self.seen = False
        self.first = 0
        # the option object of JAX and its earlier value on this thread; None while this object does not watch
        self._undo: tuple[Any, Any] | None = None

    def begin(self) -> None:
        """Begin to watch an input."""
        self.end()
        self.first = total()
        jax = sys.modules.get("jax")
        self.seen = hasattr(jax, "explain_cache_misses")  # false while jax is only partly imported
        if jax is not None and self.seen:
            _filter.wanted = bool(jax.config.jax_explain_cache_misses)
            import logging  # without cost here, because JAX has imported it

            for name in _LOGGERS:
                logging.getLogger(name).addFilter(_filter)  # adding a filter again has no effect
            option = jax.explain_cache_misses
            # Ctrl-C can interrupt between any two of these lines: end() undoes each line that has run. JAX's own
            # context manager does not: an interrupt at its beginning makes it lose the earlier value.
            self._undo = option, option.get_local()
            _filter.watching.add(self)
            option.set_local(True)

    def end(self) -> None:
        """Stop watching, and restore JAX's option."""
        if self._undo is not None:
            option, before = self._undo
            option.set_local(before)
            _filter.watching.discard(self)
            self._undo = None

    def skip(self) -> None:
        """Exclude all misses up to now from the last input."""
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
    """A filter for ``logging``: removes the explanations from the log, and records those about tracing."""

    wanted = False

    def __init__(self) -> None:
        self.watching: set[Watching] = set()

    def filter(self, record: LogRecord) -> bool:
        if not self.watching:
            return True
        message = record.getMessage()
        if record.name == _TRACING:
            if not message.startswith(_HEAD):
                return True
            _keep(message, _parameters())
            return self.wanted
        return self.wanted or not ("PERSISTENT" in message or "persistent cache" in message)


_filter = _Filter()


def _parameters() -> list[str]:
    """The positional parameters of the function that JAX is explaining."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and (frame.f_code.co_name, frame.f_globals.get("__name__")) != ("explain", _TRACING):
        frame = frame.f_back
    try:
        parameters = inspect.signature(frame.f_locals["fun"]).parameters.values() if frame is not None else ()
    except (KeyError, TypeError, ValueError):
        return []
    return [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]


def _keep(said: str, parameters: Sequence[str] = ()) -> None:
    """Record a miss from JAX's message ``said``. ``parameters`` are the positional parameters of the function."""
    global _total
    head, *lines = re.sub(r"\n(?!  )", " ", said).split("\n")  # a value's repr may have several lines
    place = re.sub(r":(\d+):\d+ ", r":\1 ", head.removeprefix(_HEAD).rstrip(":"))
    lines = [each.strip() for each in lines]
    if lines and lines[0].startswith("never seen"):
        name, _, defined = lines[1].partition(" defined at ")
        advice = _REDEFINED if len(lines) > 2 else ""
        reason = _FIRST + ("; another function was defined on the same line" if advice else "")
        name = name.rpartition(" id=")[0]
    else:
        name, _, defined = lines[0].removeprefix("for ").partition(" defined at ")
        found = [_difference(each[2:], parameters) for each in lines[2:] if each.startswith("* ")]
        reason, advice = "; ".join(found) or " ".join(lines[2:]), next(filter(None, map(_advice, found)), "")
        if found and lines[2].startswith("different input pytree"):
            advice = advice or ADVICE["tree"]
            reason += "; JAX did not compare the types"
    _kept.append(JaxMiss(_total, name, defined, place, reason, advice))
    _total += 1


# How JAX writes a static value, and how it names an argument: its place among the positional or the keyword arguments.
_STATIC = r"<class 'jax\.\S+\.Static'> with pytree metadata Static\(val=(.*?)\)(?= and before <class|, so the pytree)"
_PLACE = r"^(?:\[1\]\['(\w+)'\]|\[[01]\])"


def _difference(said: str, parameters: Sequence[str] = ()) -> str:
    """``x: f32[3] became f32[4]`` for JAX's ``at x, now f32[4] and before f32[3]``."""
    said = re.sub(r"\(\{\}\)|https?://\S+|\{weak_type=False\}", "", said).replace("{weak_type=True}", " weak")
    said, static = re.subn(_STATIC, r"\1", said)
    match = re.fullmatch(r"(?:at (?:input path )?)?(\S+?)(?: differs:|,) now (.+) and before (.+?)(, so .+)?", said)
    if match is None:
        return said
    where, now, before, so = match.groups()
    where = re.sub(_PLACE, lambda found: found[1] or ("args" if found[0] == "[0]" else "kwargs"), where)
    names = {f"args[{i}]": name for i, name in enumerate(parameters)}
    where = re.sub(r"^args\[\d+\]", lambda found: names.get(found[0], found[0]), where)
    return f"{where}: static {before} became {now}" if static else f"{where}: {before} became {now}{so or ''}"


def _advice(difference: str) -> str:
    """What to do about a text of ``_difference``: advice on a static value or on the type of an array, else ''."""
    where, _, change = difference.partition(": ")
    before, _, now = change.removeprefix("static ").partition(" became ")
    if change.startswith("static "):
        number = all(re.fullmatch(r"-?[\d.]+(e[-+]\d+)?|True|False", each) for each in (before, now))
        function = any(each.startswith(("<function ", "functools.partial(")) for each in (before, now))
        return ADVICE["static function" if function else "static" if number else "static object"].format(where=where)
    types = _type(before), _type(now)
    return type_advice(where, *types) if None not in types and types[0] != types[1] else ""  # type: ignore[arg-type]


def _type(written: str) -> ShapedArray | None:
    """The type that JAX writes as ``f32[3]`` or ``f32[] weak``; None for any other text."""
    found = re.fullmatch(r"(\w+)\[([\d,]*)\]( weak)?", written)
    if found is None or found[1] not in DTYPES:
        return None
    shape = tuple(map(int, filter(None, found[2].split(","))))
    return ShapedArray(shape, dtypes.from_short_name(found[1]), weak_type=bool(found[3]))
