"""Finds tracers that outlived their transformation: where they were created, and what keeps them alive.

Nothing is recorded while programs run. ``find_leaks`` gets all tracers, ours and real JAX's, from the garbage
collector. From each tracer whose transformation has ended, it follows referrers up to a user variable. References from
the prompt itself (its last results, the last exception) are reported separately.
"""

from __future__ import annotations

import gc
import sys
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from minijax import errors
from minijax.core.records import Frozen
from minijax.core.trace import Tracer
from minijax.interop import jax_tracers

# The answer counts all leaks of a program, and describes at most this many.
MOST_LEAKS = 12
# Maximum number of groups of similar tracers for which the search looks for holders.
_MOST_SEARCHED = 40
# Time limit of the search in CPU seconds. Each step visits the whole heap.
_LONGEST_SEARCH = 4.0
# Maximum length of a path from a tracer to a name, in steps.
MOST_STEPS = 12
# Maximum number of holders visited for one tracer.
_MOST_HOLDERS = 20_000
_LONGEST_KEY = 30
# ``gc.get_referrers`` compares every object with each argument, so more arguments are too slow.
_MOST_COMPARED = 50

# Names under which prompts keep results and exceptions.
_HOST_NAMES = ("_", "__", "___", "Out", "_oh", "In", "_ih", "_i", "_ii", "_iii", "_dh")


class Leak(Frozen):
    """A live tracer whose transformation has ended.

    Attributes:
      type, level, function: the tracer's type 'f32[3]', its level 'jit:1' and its function 'f at file.py:3'.
      born: where it was created, 'input 0 of it' for an argument of the function, or '' if unknown.
      chain: the path from a name of the user to the tracer: ('global acc', 'list [0]').
      host: the prompt's own name for it, 'Out[3]'.
      same: how many more leaks have this type, level, function and place. ``chain`` and ``host`` are of the first.
    """

    type: str
    level: str
    function: str
    born: str
    chain: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    same: int = 0

    @property
    def only_prompt(self) -> bool:
        """Whether only the prompt keeps the tracer alive."""
        return bool(self.host) and not self.chain


def find_leaks(namespace: dict[str, Any], ignore: Sequence[Any] = ()) -> tuple[int, tuple[Leak, ...]]:
    """The number of live tracers whose transformation has ended, and descriptions of the first ones.

    Leaks that only the prompt keeps come last. At most ``MOST_LEAKS`` others are described, or fewer if the time limit
    ends the search. ``namespace`` holds the user's global names. The search does not go through the objects in
    ``ignore``, which belong to the front end.
    """
    gc.collect()
    of_jax = jax_tracers.Ended()
    dead = [x for x in gc.get_objects() if (isinstance(x, Tracer) and not x._trace.main.alive) or x in of_jax]
    # a tracer inside another leaked one is not a separate leak
    kept = [*gc.get_referents(*dead), *(each for x in dead for each in jax_tracers.inside(x))] if dead else []
    inner = set(map(id, dead)) & set(map(id, kept))
    outer = [x for x in dead if id(x) not in inner]
    holders = _Holders(namespace, [dead, outer, kept, *ignore])
    # tracers are one leak if they have the same type and come from the same line of the same function
    groups: dict[tuple[str, ...], list[Any]] = {}
    count = len(outer)
    for tracer in outer:
        groups.setdefault(_facts(tracer), []).append(tracer)
    found: list[Leak] = []
    prompts: list[Leak] = []
    until = time.thread_time() + _LONGEST_SEARCH
    for (kind, level, function, born), same in [*groups.items()][:_MOST_SEARCHED]:
        leak = Leak(kind, level, function, born, *holders.chains(same[0]), same=len(same) - 1)
        if not leak.chain and not leak.host and same[0] in of_jax:  # only JAX itself keeps these
            count -= len(same)
            continue
        (prompts if leak.only_prompt else found).append(leak)
        if len(found) == MOST_LEAKS or time.thread_time() > until:
            break
    return count, (*found, *prompts)


def _facts(tracer: Any) -> tuple[str, str, str, str]:
    """The tracer's type, level and function, and where it was created."""
    if not isinstance(tracer, Tracer):
        *known, place = jax_tracers.facts(tracer)
        return known[0], known[1], known[2], "" if place is None else errors.summarize(place)
    main = tracer._trace.main
    inside: Tracer | None = tracer
    born = ""
    while inside is not None and not born:
        born, inside = inside._birth_text(), inside._inside()
    return tracer.aval.str_short(), repr(main), main.subject, born


# --- holders ------------------------------------------------------------------------------------------------


class _Holders:
    """Finds paths from names to objects, against the direction of references."""

    def __init__(self, namespace: dict[str, Any], ignore: Sequence[Any]) -> None:
        self.namespace = namespace
        self.ignored = set(map(id, ignore)) | {id(self.__dict__)}
        self.modules = {id(vars(m)): name for name, m in list(sys.modules.items()) if isinstance(m, types.ModuleType)}

    def chains(self, tracer: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The shortest path from a name of the user to ``tracer``, and the names under which the prompt keeps it."""
        # id of a holder -> (the holder, the object it holds); nearer holders come first
        held_by: dict[int, tuple[Any, Any]] = {id(tracer): (tracer, None)}
        frontier: list[Any] = [tracer]
        host: list[str] = []
        for _ in range(MOST_STEPS):
            places = {id(x): i for i, x in enumerate(frontier)}
            # containers that this search itself uses
            skip = {id(frontier), id(held_by), id(places), *map(id, held_by.values())}
            found: list[Any] = []
            for holder in _referrers(frontier):
                if id(holder) in skip or id(holder) in self.ignored or id(holder) in held_by or _is_ours(holder):
                    continue
                # a dictionary may hold several of the objects, one under the prompt's name and one under the user's
                for place in sorted({places[id(x)] for x in gc.get_referents(holder) if id(x) in places}):
                    target = frontier[place]
                    said = self.root(holder, target)
                    if said is None:
                        held_by[id(holder)] = (holder, target)
                        found.append(holder)
                        break
                    kind, text = said
                    if kind == "host":
                        if text == "Out":
                            text += next(iter(_way(held_by, target)), "")
                        if text not in host:
                            host.append(text)
                    elif kind == "user":
                        return (text, *_way(held_by, target)), tuple(host)
            if not found or len(held_by) > _MOST_HOLDERS:
                break
            frontier = found
        if not host and any(isinstance(holder, types.TracebackType) for holder, _ in held_by.values()):
            host.append("the last exception")
        return (), tuple(host)

    def root(self, holder: Any, x: Any) -> tuple[str, str] | None:
        """The start of a path at ``holder``: ('user', name) or ('host', name). ('', '') to stop here, None to go on."""
        if holder is self.namespace:
            names = [name for name, value in holder.items() if value is x]
            users = [name for name in names if not _is_host_name(name)]
            if users:
                return "user", f"global {users[0]}"
            return ("host", "Out" if names[0] in ("Out", "_oh") else names[0]) if names else None
        if holder is vars(sys):
            return "host", "the last exception"
        module = self.modules.get(id(holder))
        if module is not None:
            if module.partition(".")[0] in ("minijax", "jax", "jaxlib", "sys", "gc", "builtins"):
                return "", ""
            names = [name for name, value in holder.items() if value is x]
            return ("user", f"{module}.{names[0]}") if names else None
        family = type(holder).__module__.partition(".")[0]
        if family in ("IPython", "ipykernel", "traitlets"):
            return "host", "IPython"
        # the search goes on past a dictionary of the session, because a user variable may lead to it
        ours = type(holder).__module__.startswith(("minijax.tools.", "minijax.repl", "minijax.ipython_ext"))
        if ours and not isinstance(holder, dict):
            return "host", "the prompt"
        return None


def _is_host_name(name: str) -> bool:
    return name in _HOST_NAMES or (name[:1] == "_" and name.lstrip("_i").isdigit())


def _is_ours(holder: Any) -> bool:
    """Whether ``holder`` is a stack frame of this search."""
    if isinstance(holder, types.FrameType):
        return holder.f_globals.get("__name__", "") in (__name__, "minijax.tools.commands.explain")
    return False


def _referrers(wanted: Sequence[Any]) -> list[Any]:
    """The objects that refer to an object in ``wanted``."""
    if len(wanted) <= _MOST_COMPARED:
        return gc.get_referrers(*wanted)
    ids = set(map(id, wanted))
    return [each for each in gc.get_objects() if not ids.isdisjoint(map(id, gc.get_referents(each)))]


def _way(held_by: Mapping[int, tuple[Any, Any]], start: Any) -> Iterator[str]:
    """The steps from ``start`` to the tracer. An object and its ``__dict__`` are one step; so are function and cell."""
    way = [start]
    while held_by[id(way[-1])][1] is not None:
        way.append(held_by[id(way[-1])][1])
    i = 0
    while i + 1 < len(way):
        holder, rest = way[i], way[i + 1 :]
        if isinstance(holder, types.FunctionType) and len(rest) > 2 and rest[0] is holder.__closure__:
            cells = zip(holder.__code__.co_freevars, holder.__closure__ or (), strict=True)
            name = next((name for name, cell in cells if cell is rest[1]), "")
            yield f"variable {name} of {holder.__qualname__}"
            i += 3
        elif len(rest) > 1 and isinstance(rest[0], dict) and _is_own_dict(holder, rest[0]):
            attribute = _key(rest[0], rest[1]).strip("'")
            yield f"{_name(holder)}.{attribute}"
            i += 2
        else:
            yield _step(holder, rest[0])
            i += 1


def _name(holder: Any) -> str:
    if isinstance(holder, (type, types.FunctionType, types.ModuleType)):
        return holder.__name__
    return type(holder).__name__


def _own_dict(holder: Any) -> Any:
    try:
        return object.__getattribute__(holder, "__dict__")
    except (AttributeError, TypeError):
        return None


def _is_own_dict(holder: Any, space: dict[Any, Any]) -> bool:
    """Whether ``space`` holds the attributes of ``holder``. Always True for a class, whose ``__dict__`` is a view."""
    return isinstance(holder, type) or _own_dict(holder) is space


def _key(holder: Mapping[Any, Any], x: Any) -> str:
    """The key of ``x`` in a dictionary, as Python writes it."""
    key = next((key for key, each in holder.items() if each is x), None)
    if type(key) is str:
        return repr(key[:_LONGEST_KEY])
    return str(key) if isinstance(key, (int, float, bool, type(None))) else f"a {type(key).__name__}"


def _step(holder: Any, x: Any) -> str:
    """How ``holder`` holds ``x``, such as ``[0]`` for a list or ``['k']`` for a dictionary."""
    if isinstance(holder, (list, tuple)):
        return f"[{next((i for i, each in enumerate(holder) if each is x), '?')}]"
    if isinstance(holder, dict):
        return f"[{_key(holder, x)}]"
    if isinstance(holder, (set, frozenset)):
        return f"in a {type(holder).__name__}"
    if isinstance(holder, types.CellType):
        return "closed over"
    if isinstance(holder, types.FunctionType):
        return f"a default of {holder.__qualname__}"
    if isinstance(holder, types.MethodType):
        return f"method {holder.__func__.__qualname__}"
    if isinstance(holder, types.TracebackType):
        return "its traceback"
    if isinstance(holder, types.FrameType):
        name = next((name for name, each in holder.f_locals.items() if each is x), "")
        return f"variable {name} of the frame of {holder.f_code.co_qualname}"
    if isinstance(holder, types.GeneratorType):
        return f"generator {holder.__qualname__}"
    return _attribute(holder, x)


def _attribute(holder: Any, x: Any) -> str:
    own = _own_dict(holder)
    if own is not None and not isinstance(own, dict):
        own = dict(own)  # the dictionary of a class is a read-only view
    name = next((name for name, each in (own or {}).items() if each is x), None)
    if name is not None:
        return f"{_name(holder)}.{name}"
    for cls in type(holder).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            try:
                if object.__getattribute__(holder, name) is x:
                    return f"{_name(holder)}.{name}"
            except AttributeError:
                continue
    return f"a {type(holder).__name__}"
