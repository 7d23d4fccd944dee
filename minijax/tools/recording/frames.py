"""The user's frames in which operations run, and the values of their variables. Values are named after variables.

When a frame is first seen, the module variables that its function mentions are read. For ``m.x``, this is the variable
``x`` of the module ``m``. Values get these names before a function that is called later gives them other names.

A variable that is set after the last operation of its function is seen only when the function has ended. So the frames
of an operation are kept until the next operation, and frames that have ended by then are read once more.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FrameType, ModuleType
from typing import Any

from minijax import errors
from minijax.core.array import Array
from minijax.core.trace import Tracer
from minijax.tools.documents.words import short_path, shortened

# At most this many variables of a frame are read; in a module (a prompt has hundreds of variables) the newest ones.
MOST_NAMES = 100
# The innermost user frames, at most this many, are followed at a time.
MOST_FRAMES = 64
# At most this many leaves of one container get a name, down to this depth.
MOST_LEAVES = 1000
MOST_DEPTH = 6
_LONGEST_KEY = 40
# A container is searched by at most this many paths, each for the names in it. So many containers are remembered.
MOST_PATHS = 4
MOST_CONTAINERS = 50_000
# From one module variable at most this many containers are searched; its dotted name has at most this many modules.
MOST_OF_GLOBAL = 1000
MOST_MODULES = 3
# Flags of resumable code: generators and coroutines.
_RESUMED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
# A container with more items is searched again only if its length or its first item has changed.
MOST_COMPARED = 64

# Called with a value, its name, and the rank of the name. A call that began earlier gives lower ranks, so a function's
# result is named after the caller's variable. In a call, module variables come first, then the function's variables,
# then the paths into tuples. Last come the paths into ``args`` and ``kwargs`` of any function.
See = Callable[[Any, str, int], None]
_OF_TUPLE, _OF_FUNCTION, _OF_FRAME, _OF_FRAMES, OF_REST = 1, 2, 4, 1 << 30, 1 << 40


class Frames:
    """Follows the user's frames from operation to operation."""

    def __init__(self) -> None:
        # the frames of the last operation, outermost first, the instruction of each, and its rank
        self.known: list[FrameType] = []
        self.stood: list[int] = []
        self.ranks: list[int] = []
        # the functions of all frames that have been seen
        self.functions: list[str] = []
        # the innermost of these frames, and its instruction
        self.last: FrameType | None = None
        self.last_stood = -1
        # (id of a searched container, its state) -> the paths by which it was searched; ``searches``: how many searches
        self.containers: dict[tuple[int, int], list[str]] = {}
        self.searches = 0
        # id of a container in which no array was found -> its state then
        self.empty: dict[int, int] = {}

    def look(self, see: See, frame: FrameType | None = None) -> None:
        """Call ``see`` with the values and names of variables: first in frames that have ended, then in frames that
        have run on. Callers come before the functions they call, so a value gets the caller's name and not that of a
        parameter. ``frame`` is the innermost frame, if it is known.
        """
        if frame is not None and self.known and self.known[-1] is frame and not frame.f_code.co_flags & _RESUMED:
            # the frames around this one wait for it, so their variables cannot have changed
            self.stood[-1] = self.last_stood = frame.f_lasti
            self._variables(frame, self.ranks[-1], see)
            return
        chain = errors.user_frames(MOST_FRAMES)
        stands = [each.f_lasti for each in chain]
        common = 0
        for a, b in zip(self.known, chain, strict=False):
            if a is not b:
                break
            common += 1
        ended, stood = [*zip(self.known, self.ranks, strict=True)][common:], self.stood[:common]
        self.known, self.stood = chain, stands
        count = len(self.functions)
        self.ranks[common:] = [(count + i) * _OF_FRAME for i in range(len(chain) - common)]
        self.functions += [each.f_code.co_qualname for each in chain[common:]]
        self.last, self.last_stood = (chain[-1], stands[-1]) if chain else (None, -1)
        for each, rank in reversed(ended):
            self._variables(each, rank, see)
        resumed = [*[each.f_code.co_flags & _RESUMED for each in chain[1:]], 0]
        for i, each in enumerate(chain):
            if i >= common:
                self._globals(each, self.ranks[i], see)
            # In a loop, a frame may be at the same instruction again: the innermost frame that is still there, and the
            # callers of generators.
            if i >= common - 1 or stood[i] != stands[i] or resumed[i]:
                self._variables(each, self.ranks[i], see)

    def finish(self, see: See) -> None:
        """Read all frames that are still followed, and release them."""
        for each, rank in reversed([*zip(self.known, self.ranks, strict=True)]):
            self._variables(each, rank, see)
        self.known = []
        self.last = None
        self.containers.clear()

    def function(self, rank: int) -> str:
        """The function of a variable with this rank: ``<module>`` for a module's variable."""
        path = self.functions[rank % _OF_FRAMES // _OF_FRAME] if rank & _OF_FUNCTION else ""
        return next((part for part in reversed(path.split(".")) if part not in _NO_FUNCTION), "<module>")

    def _variables(self, frame: FrameType, rank: int, see: See) -> None:
        variables = frame.f_locals
        if variables is frame.f_globals:
            named = list(variables.items())[-MOST_NAMES:]
        else:
            named = list(variables.items())[:MOST_NAMES]
            rank += _OF_FUNCTION
        # The order is that of the function's assignments: after ``w = params["w"]`` the value is called params["w"],
        # and after ``p = {"w": w}`` it is called w. Tuples come last: after ``x, t = dual``, dual[0] is called x.
        tuples = []
        rest = _rest(frame.f_code)
        for name, value in named:
            if isinstance(value, (Tracer, Array)):
                if name[0] != "_" or not _is_nobodys(name):
                    see(value, name, rank)
            elif type(value) is tuple:
                # the ``_`` of ``_, y = f(x)`` is no name
                if name[0] != "_" or not _is_nobodys(name):
                    tuples.append((name, value))
            elif type(value) not in _NEVER and _may_hold(value):
                self._container(value, name, see, rank + OF_REST * (name in rest))
        for name, value in tuples:
            self._container(value, name, see, rank + _OF_TUPLE + OF_REST * (name in rest))

    def _globals(self, frame: FrameType, rank: int, see: See) -> None:
        """Call ``see`` with the module variables that the code of ``frame`` mentions. The names in the code include
        attributes, so a module variable with the name of an attribute is read too.
        """
        words = frame.f_code.co_names
        known = frame.f_globals
        for name in words:
            value = known.get(name)
            if type(value) in _NEVER or _is_nobodys(name):
                continue
            if type(value) is ModuleType:
                if not _is_engines(value):
                    self._module(value, name, words, see, rank)
            else:
                self._global(value, name, see, rank)

    def _module(
        self, module: ModuleType, path: str, words: tuple[str, ...], see: See, rank: int, depth: int = 1
    ) -> None:
        held = vars(module)
        for name in words:
            value = held.get(name)
            if type(value) in _NEVER:
                continue
            if type(value) is not ModuleType:
                self._global(value, f"{path}.{name}", see, rank)
            elif depth < MOST_MODULES and not _is_engines(value):
                self._module(value, f"{path}.{name}", words, see, rank, depth + 1)

    def _global(self, value: Any, name: str, see: See, rank: int) -> None:
        if isinstance(value, (Tracer, Array)):
            see(value, name, rank)
        elif _may_hold(value):
            self._container(value, name, see, rank, MOST_OF_GLOBAL)

    def _container(self, value: Any, name: str, see: See, rank: int, most: int | None = None) -> None:
        if id(value) in self.empty and self.empty[id(value)] == _state(value):
            return
        searches, found = self.searches, False
        for leaf, path in _leaves(value, name, self._new, most):
            found = True
            short = short_path(path)
            see(leaf, short, rank)
            if short != path:  # users may ask for either
                see(leaf, path, rank + 2 * OF_REST)
        if not found and self.searches > searches:
            self.empty[id(value)] = _state(value)

    def _new(self, value: Any, path: str, items: Mapping[Any, Any]) -> bool:
        """Whether to search the container ``value`` by this ``path``: the path is new, or ``items`` have changed."""
        if len(self.containers) > MOST_CONTAINERS:
            self.containers.clear()
        paths = self.containers.setdefault((id(value), _state_of(items)), [])
        if path in paths or len(paths) >= MOST_PATHS:
            return False
        paths.append(path)
        self.searches += 1
        return True


def _state(value: Any) -> int:
    """A number that changes when the items of a container change."""
    found = _items(value)
    return 0 if found is None else _state_of(found[0])


def _state_of(items: Mapping[Any, Any]) -> int:
    if len(items) <= MOST_COMPARED:
        return hash(tuple(map(id, items.values())))
    return hash((len(items), id(next(iter(items.values()), None))))


def _rest(code: CodeType) -> tuple[str, ...]:
    """The names of the parameters ``*args`` and ``**kwargs`` of a function."""
    if not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return ()
    first = code.co_argcount + code.co_kwonlyargcount
    count = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[first : first + count]


def _is_nobodys(name: str) -> bool:
    """Whether a variable's name says nothing: ``_``, or a prompt's last results ``__`` and ``_3``."""
    return name[:1] == "_" and not name.strip("_0123456789")


_CONTAINERS = {dict, list, tuple}
# Objects whose attributes are not the user's data.
_OPAQUE = (type, ModuleType, type(len), type(_CONTAINERS.add), type(lambda: None))
# Types that are common in modules and hold no arrays.
_NEVER = frozenset((type(None), type, type(len), type(lambda: None), str, bytes, bool, int, float, complex))
# Parts of a code's name that are no function: a comprehension belongs to the function around it.
_NO_FUNCTION = ("", "<locals>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
# Packages whose objects and modules hold nothing of the user.
_ENGINES = frozenset(("builtins", "minijax", "jax", "numpy"))


def _is_engines(module: ModuleType) -> bool:
    name = vars(module).get("__name__")  # a user's module may lack it
    return type(name) is str and name.partition(".")[0] in _ENGINES


def _may_hold(value: Any) -> bool:
    # hasattr is not enough: a named tuple has no ``__dict__``
    return type(value) in _CONTAINERS or hasattr(value, "__dict__") or isinstance(value, tuple)


def _items(value: Any) -> tuple[Mapping[Any, Any], Callable[[Any], str]] | None:
    """The items of a container by key, and the function that writes a key after the container's name. None if ``value``
    is no container.

    No code of the user runs: attributes are read from the instance's dictionary.
    """
    kind = type(value)
    if kind is dict:
        return value, _subscript
    if kind is list or kind is tuple:
        return dict(enumerate(value[:MOST_LEAVES])), _subscript
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return dict(zip(kind._fields, tuple.__iter__(value), strict=False)), _attribute
    if isinstance(value, _OPAQUE) or kind.__module__.partition(".")[0] in _ENGINES:
        return None
    try:
        fields = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return (fields, _attribute) if type(fields) is dict and len(fields) <= MOST_LEAVES else None


def _subscript(key: Any) -> str:
    return f"[{shortened(repr(key), _LONGEST_KEY)}]" if type(key) in (int, str) else "[…]"


def _attribute(key: Any) -> str:
    return f".{shortened(str(key), _LONGEST_KEY)}"


def _leaves(
    value: Any, name: str, new: Callable[[Any, str, Mapping[Any, Any]], bool], most: int | None = None
) -> Iterator[tuple[Any, str]]:
    """The arrays and tracers in a container, with their paths. ``new`` decides which inner containers are searched.
    ``most``: how many containers at most.
    """
    count = 0
    todo = [(value, name, 0)]
    reached = set()
    for _ in itertools.count() if most is None else range(most):
        if not todo:
            return
        container, path, depth = todo.pop()
        if id(container) in reached:  # objects that refer to each other would be searched by each of their paths
            continue
        reached.add(id(container))
        found = _items(container)
        if found is None or not found[0] or not new(container, path, found[0]):
            continue
        items, written = found
        for key, each in list(items.items())[:MOST_LEAVES]:
            if isinstance(each, (Tracer, Array)):
                count += 1
                if count > MOST_LEAVES:
                    return
                yield each, path + written(key)
            elif depth < MOST_DEPTH and _may_hold(each):
                todo.append((each, path + written(key), depth + 1))
