"""Record the values that a function reads besides its arguments when it is traced.

A cached program keeps the values from its trace. If such a value changes later, the program's results may be wrong. At
a cache miss, this module records the values of names in code objects: closure variables, globals that the function and
its callees read, and attributes of objects in such variables. Numbers, strings, booleans, None and tuples of them are
recorded by value, other objects by weak reference and identity.

The module misses changes inside objects recorded by identity, in objects that no variable names, and in modules.
"""

from __future__ import annotations

import dis
import functools
import itertools
import weakref
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any

from minijax.core.records import NamedTuple
from minijax.errors import is_user_file

# At most this many functions and values are recorded for one traced function, its callees included.
MOST_FUNCTIONS = 50
MOST_NAMES = 300
_LONGEST_VALUE = 60
_MISSING: Any = object()
GLOBAL, SELF = -1, -2


class _Noted(NamedTuple):
    """A name that a function reads, and its value.

    ``holder``: weak reference to the function, or for ``SELF`` to the instance. ``reader``: the code object that reads
    the name. ``cell``: closure index, ``GLOBAL`` or ``SELF``. ``attribute``: the attribute of the name's object that
    ``reader`` reads, or '' if the entry is for the object itself.
    """

    holder: Any
    reader: CodeType
    cell: int
    name: str
    attribute: str
    value: _Identity | Any


class _Identity:
    """Identifies an object without keeping it alive."""

    __slots__ = ("id", "ref", "kind")

    def __init__(self, value: Any) -> None:
        self.id = id(value)
        self.kind = type(value).__name__
        try:
            self.ref: Any = weakref.ref(value)
        except TypeError:
            self.ref = None

    def agrees(self, value: Any) -> bool:
        """Whether ``value`` is the same object; objects that allow no weak reference are compared by address."""
        return id(value) == self.id and (self.ref is None or self.ref() is value)


# An entry is a plain tuple of the fields of ``_Noted``, because most entries are never read, and a tuple is made in a
# fifth of the time.
Entry = tuple[Any, CodeType, int, str, str, Any]
Noted = tuple[Entry, ...]


def note(fun: Any) -> Noted:
    """Record the values that ``fun``, about to be traced, reads besides its arguments."""
    out: list[Entry] = []
    seen: set[int] = set()
    todo: list[Any] = [fun]
    while todo and len(seen) < MOST_FUNCTIONS and len(out) < MOST_NAMES:
        each = todo.pop()
        if type(each) is not FunctionType:
            call = getattr(type(each), "__call__", None)  # noqa: B004  (its value, not its existence)
            if type(call) is FunctionType and "__wrapped__" not in _own(each):
                each = MethodType(call, each)  # a callable instance
            if type(each) is MethodType:
                _note_instance(out, each.__self__, each.__func__)
        function = _plain(each)
        if function is not None and id(function) not in seen:
            seen.add(id(function))
            _note_names(out, todo, function)
    return tuple(out[:MOST_NAMES])


def _plain(fun: Any) -> FunctionType | None:
    """Return the user's function inside a wrapper, method or partial; None if there is no such function."""
    if type(fun) is FunctionType and not fun.__dict__:
        return fun if _is_users(fun) else None
    for _ in range(20):
        if isinstance(fun, functools.partial):
            fun = fun.func
        elif type(fun) is MethodType:
            fun = fun.__func__
        elif type(fun) is not FunctionType or (hasattr(fun, "__wrapped__") and not _is_users(fun)):
            fun = _own(fun).get("__wrapped__")
        else:
            break
    return fun if type(fun) is FunctionType and _is_users(fun) else None


def _is_users(fun: FunctionType) -> bool:
    return is_user_file(fun.__code__.co_filename)


def _note_names(out: list[Entry], todo: list[Any], function: FunctionType) -> None:
    """Record the closure variables of ``function``, and the globals that its code and nested code use. Append callables
    to ``todo``.
    """
    holder, code = weakref.ref(function), function.__code__
    for i, name in enumerate(code.co_freevars):
        try:
            value = (function.__closure__ or ())[i].cell_contents
        except ValueError:  # not assigned yet
            continue
        _note_name(out, todo, holder, code, i, name, value)
    space = function.__globals__
    for inner in _codes(code):
        for name in inner.co_names:
            value = space.get(name, _MISSING)
            if value is not _MISSING:
                _note_name(out, todo, holder, inner, GLOBAL, name, value)


def _codes(code: CodeType) -> list[CodeType]:
    found = [code]
    for each in found:
        for const in each.co_consts:
            if type(const) is CodeType:
                found.append(const)
    return found


def _note_name(
    out: list[Entry], todo: list[Any], holder: Any, reader: CodeType, cell: int, name: str, value: Any
) -> None:
    """Record a name, and those attributes of its value that the reader's code uses."""
    if type(value) in _VALUES:
        out.append((holder, reader, cell, name, "", value))
    elif not issubclass(type(value), (ModuleType, type, BuiltinFunctionType)):
        out.append((holder, reader, cell, name, "", _noted_form(value)))
        if callable(value):
            todo.append(value)
        else:
            _note_attributes(out, holder, reader, cell, name, value)


def _note_instance(out: list[Entry], instance: Any, method: Any) -> None:
    """Record the attributes of ``self`` that a method reads."""
    code = getattr(method, "__code__", None)
    if not isinstance(code, CodeType) or not code.co_argcount:
        return
    try:
        holder = weakref.ref(instance)
    except TypeError:
        return
    _note_attributes(out, holder, code, SELF, code.co_varnames[0], instance)


def _note_attributes(out: list[Entry], holder: Any, reader: CodeType, cell: int, name: str, value: Any) -> None:
    held = _own(value)
    if held:
        for attribute in reader.co_names:
            inner = held.get(attribute, _MISSING)
            if inner is not _MISSING:
                out.append((holder, reader, cell, name, attribute, _noted_form(inner)))


def _own(value: Any) -> dict[str, Any]:
    """The attributes in an object's own ``__dict__``. No code of its class runs."""
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return held if type(held) is dict else {}


_VALUES = frozenset((int, float, complex, str, bytes, bool, NoneType))


def _is_value(value: Any) -> bool:
    if type(value) is tuple:
        return len(value) <= _LONGEST_VALUE and all(map(_is_value, value))
    return type(value) in _VALUES


def _noted_form(value: Any) -> Any:
    return value if _is_value(value) else _Identity(value)


def changes(recorded: Noted) -> str:
    """Describe the recorded values that have changed, as text. The cached program still uses the old values."""
    texts = []
    for entry in itertools.starmap(_Noted, recorded):
        value = _now(entry)
        if value is _MISSING or _agree(entry.value, value) or not _is_read(entry):
            continue
        where = f"{entry.name}.{entry.attribute}" if entry.attribute else entry.name
        if type(entry.value) is not _Identity:
            was, now = _text(entry.value), _text(value)
            texts.append(f"{where} was {was} when it was traced and is {now} now: the program still uses {was}")
        else:
            texts.append(
                f"{where} is another {entry.value.kind} than when it was traced: the program still uses the old one"
            )
    return "; ".join(dict.fromkeys(texts))


def unknowable(recorded: Noted) -> tuple[str, ...]:
    """List the names of mutable values that may have changed undetected: lists, dictionaries, NumPy arrays, ..."""
    names = [
        f"{entry.name}.{entry.attribute}" if entry.attribute else entry.name
        for entry in itertools.starmap(_Noted, recorded)
        if type(entry.value) is _Identity and entry.value.kind in _CHANGE_INSIDE and _is_read(entry)
    ]
    return tuple(dict.fromkeys(names))


_CHANGE_INSIDE = ("list", "dict", "set", "bytearray", "ndarray", "deque", "defaultdict", "OrderedDict", "Counter")


def _now(entry: _Noted) -> Any:
    """Look up the current value of a recorded name."""
    value = entry.holder()
    if value is None:
        return _MISSING
    if entry.cell >= 0:
        try:
            value = value.__closure__[entry.cell].cell_contents
        except ValueError:  # deleted
            return _MISSING
    elif entry.cell == GLOBAL:
        value = value.__globals__.get(entry.name, _MISSING)
    if not entry.attribute or value is _MISSING:
        return value
    return _own(value).get(entry.attribute, _MISSING)


def _agree(was: Any, now: Any) -> bool:
    if type(was) is _Identity:
        return was.agrees(now)
    # compare texts: by ``==``, 0.0 equals -0.0, (1,) equals (True,), and NaN does not equal itself
    return was is now or (type(was) is type(now) and repr(was) == repr(now))


def _text(value: Any) -> str:
    text = repr(value) if _is_value(value) else f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "..."


def _is_read(entry: _Noted) -> bool:
    """Whether the code of the entry's reader reads the name or attribute of the entry, and never assigns it."""
    code = _instructions(entry.reader)
    if entry.name in code.writes or entry.attribute in code.writes_attributes:
        return False  # the traced function assigns the name or attribute itself
    read = entry.name, entry.attribute
    return read in code.reads or (entry.cell == SELF and read in code.reads_locals)


class _Instructions(NamedTuple):
    """The names that a code object, including the code nested in it, reads and assigns.

    ``reads``, ``reads_locals``: (outer or local name, attribute or ''). ``writes``: outer names that are assigned.
    ``writes_attributes``: attributes that are assigned, of any object.
    """

    reads: set[tuple[str, str]]
    reads_locals: set[tuple[str, str]]
    writes: set[str]
    writes_attributes: set[str]


_LOADS = ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")


@functools.lru_cache(maxsize=512)
def _instructions(code: CodeType) -> _Instructions:
    out = _Instructions(set(), set(), set(), set())
    for each in _codes(code):
        loaded, into = "", out.reads
        for instruction in dis.get_instructions(each):
            name, argument = instruction.opname, instruction.argval
            if name in ("CACHE", "EXTENDED_ARG", "PUSH_NULL"):
                continue
            if name in ("LOAD_ATTR", "LOAD_METHOD") and loaded:
                into.add((loaded, argument))
            loaded = ""
            if name.startswith(_LOADS) or (name.startswith("LOAD_FAST") and type(argument) is str):
                loaded, into = argument, out.reads_locals if name.startswith("LOAD_FAST") else out.reads
                into.add((argument, ""))
            elif name in ("STORE_GLOBAL", "STORE_DEREF", "DELETE_GLOBAL"):
                out.writes.add(argument)
            elif name == "STORE_ATTR":
                out.writes_attributes.add(argument)
    return out
