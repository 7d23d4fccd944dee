"""The lifetimes of the tracers and arrays that a full recorder sees. Each is numbered and followed until it dies.

The recorder holds only weak references to them, so a value dies as it would without a recorder. Only the frames of the
last operation live longer: they and the values of their variables live until the next operation. The memory of the
arrays' elements is kept (``values``).

The notes on a value are a row of integers and strings. Many rows share their strings. ``LifeTable`` makes a record
from a row when the record is read.
"""

from __future__ import annotations

import itertools
import operator
import weakref
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core.array import Array, LiteralArray
from minijax.core.trace import Tracer
from minijax.interpreters.jvp import DualTracer, JVPTracer
from minijax.interpreters.partial_eval import PartialEvalTracer
from minijax.interpreters.stage import JaxprTracer
from minijax.interpreters.vmap import BatchTracer
from minijax.ir.jaxpr import Var
from minijax.tools.recording import preview
from minijax.tools.recording.lazily import Lazy
from minijax.tools.recording.records import NAMES_PAST, LifeRecord, TracerRecord
from minijax.tools.recording.summary import Scope
from minijax.tools.recording.timeline import HIDDEN
from minijax.tools.recording.values import Values

# Maximum number of arrays whose variables are remembered before an operation uses the arrays.
MOST_NAMED = 20_000
# Added to the rank of a path into a container that holds the result of an operation.
OF_PATH = 1 << 30
# Maximum number of variables that are kept for one value.
MOST_ALIASES = 12

# What a row describes: an array, or a tracer of one of these classes.
ARRAY, TWO, DUAL, BATCHED, STAGED, UNKNOWN, OTHER = range(7)
_KINDS = ((JVPTracer, TWO), (DualTracer, DUAL), (BatchTracer, BATCHED), (JaxprTracer, STAGED))
_shapes: dict[type, int] = {}

# A row: event, interpreter, its scope, type, physical type, what the row describes, whether it is a tangent, the values
# inside (0 for none, a number or text for one, a tuple for several), the tracer's variable or batch axis or the array's
# value, and the user's line.
Row = tuple[Any, ...]
_AT, _LEVEL, _SCOPE, _TYPE, _PHYSICAL, _SHAPE, _TANGENT, _INSIDE, _WORTH, _PLACE = range(10)


def _shape_of(kind: type) -> int:
    if issubclass(kind, PartialEvalTracer):
        found = UNKNOWN
    else:
        found = next((shape for each, shape in _KINDS if issubclass(kind, each)), OTHER)
    if len(_shapes) > 1000:
        _shapes.clear()
    _shapes[kind] = found
    return found


# The variables that held a value, the lowest rank first: rank, name, event, rank, name, event, ...
Names = tuple[Any, ...]


def with_name(known: Names, name: str, rank: int, now: int) -> Names:
    """``known`` with the variable ``name``, which holds the value by event ``now``."""
    if not known:
        return rank, name, now
    stores = list(zip(known[::3], known[1::3], known[2::3], strict=True))
    for i, (other, text, since) in enumerate(stores):
        if text == name:
            if other <= rank:
                return known
            now = since
            del stores[i]
            break
    place = next((i for i, (other, _, _) in enumerate(stores) if other > rank), len(stores))
    stores[place:place] = [(rank, name, now)]
    return tuple(itertools.chain(*stores[:MOST_ALIASES]))


class Life(weakref.ref):  # type: ignore[type-arg]
    """A tracer or an array that is followed. ``bad``: whether it holds a NaN or an infinity; None if not yet tested."""

    __slots__ = ("key", "number", "shape", "physical", "bad")
    key: int
    number: int
    shape: int
    physical: str
    bad: bool | None


class Followed(dict[int, Life]):
    """id of a living tracer or array -> its life. ``now`` is the event being recorded."""

    __slots__ = ("now", "deaths")

    def __init__(self) -> None:
        self.now = 0
        self.deaths = array("q")

    def gone(self, life: Life) -> None:
        """Record that a value is alive at this event, and dead at the next."""
        self.deaths[life.number - 1] = self.now + 1
        self.pop(life.key, None)


class Lives:
    """The tracers and arrays seen so far."""

    def __init__(self) -> None:
        self.known = Followed()
        self.gone = self.known.gone
        self.rows: list[Row] = []
        self.count = 0
        # number -> the variables that held it
        self.names: dict[int, Names] = {}
        # id of an array in variables, before an operation uses it -> the array, held weakly, and the variables
        self.named: dict[int, tuple[weakref.ref[Array], Names]] = {}
        # ids of the first arrays whose names were not kept, and the event of the first of them; ``packed``: whether
        # forgetting dead arrays freed too little room
        self.unnamed: set[int] = set()
        self.unnamed_since = -1
        self.packed = False
        self.values = Values()
        # the variable of a tangent -> the number of the first value seen with that tangent
        self.primals: dict[Var, int] = {}
        # the variable of a staged program -> the number of its first tracer; filled when ``staged`` is called
        self._staged: dict[Var, int] = {}
        self._asked = 0
        # number of a tracer -> the variable whose value it is, in a staged program that runs again under interpreters
        self.ran: dict[int, Var] = {}

    def see(self, x: Any, scopes: Sequence[Scope], place: str = "", held: bool = False) -> Life | None:
        """The life of ``x``, which begins now if ``x`` is new. None for a tracer whose interpreter has ended, for an
        inline number (unless ``held``: it is inside a tracer), and for an object that is no tracer or array.
        """
        return self.known.get(id(x)) or self.begin(x, scopes, place, held)

    def begin(self, x: Any, scopes: Sequence[Scope], place: str = "", held: bool = False) -> Life | None:
        """``see``, for a value that is new."""
        bad: bool | None = False
        if isinstance(x, Tracer):
            trace = x._trace
            main = trace.main
            level = main.level
            if level >= len(scopes) or main.trace.stack is None:
                return None
            kind = type(x)
            shape = _shapes.get(kind) or _shape_of(kind)
            if shape <= BATCHED:
                return self._begin_around(x, scopes, place, shape)
            scope = scopes[level]
            aval = x.aval
            physical = preview.type_texts.get(aval) or preview.aval_text(aval)
            variable = getattr(x, "variable", None)
            worth: Any = "" if variable is None else scope.names.get(id(variable)) or scope.name(variable)
            tangent = trace is not main.trace
        elif isinstance(x, Array) and (held or type(x) is not LiteralArray):
            if self.named:
                known = self.named.pop(id(x), None)
                if known is not None and known[0]() is x:
                    self.names[self.count + 1] = known[1]
            scope, shape, variable, tangent = scopes[0], ARRAY, None, False
            aval = x.aval
            physical = preview.type_texts.get(aval) or preview.aval_text(aval)
            if type(getattr(x, "_np", None)) is np.float32:
                # the number itself, which becomes text when it is shown
                worth = x._np.item()
                bad = worth - worth != 0
            else:
                worth, bad = preview.value_text(x, fetch=True), None
            self.values.keep(self.count + 1, x)
        else:
            return None
        now = self.known.now
        row = (now, scope.label, scope.at, physical, physical, shape, tangent, 0, worth, place)
        life = self._begin(x, row, shape, physical, bad)
        if variable is not None:
            self.values.variables[life.number] = variable
        return life

    def note_run(self, variables: Sequence[Var], values: Sequence[Any], scopes: Sequence[Scope], place: str) -> None:
        """Record that ``values`` stand for the ``variables`` of a program that runs under interpreters."""
        ran = self.ran
        for variable, x in zip(variables, values, strict=True):
            if isinstance(x, Tracer):
                life = self.see(x, scopes, place)
                if life is not None:
                    ran.setdefault(life.number, variable)

    def name(self, x: Any, scopes: Sequence[Scope], place: str, name: str, rank: int) -> None:
        """Note that a user variable holds ``x``, a tracer or array. An array that no operation uses gets no number.
        Of several variables, the one of the lowest ``rank`` is the name that is shown.
        """
        life = self.known.get(id(x))
        if life is None and isinstance(x, Tracer):
            life = self.begin(x, scopes, place)
            if life is None:
                return
        elif life is not None and rank < OF_PATH and not name.isidentifier():
            # the name of an argument may be its path; a result that is put into a container keeps its variable's name
            names = self.names.get(life.number)
            if names is None or names[0] >= OF_PATH or names[1].isidentifier():
                rank += OF_PATH
        if life is not None:
            self.names[life.number] = with_name(self.names.get(life.number, ()), name, rank, self.known.now)
        else:
            known = self.named.get(id(x))
            if known is not None and known[0]() is x:
                if name not in known[1] or rank < known[1][0]:
                    self.named[id(x)] = known[0], with_name(known[1], name, rank, self.known.now)
                return
            if known is None and len(self.named) >= MOST_NAMED and not self._forget_dead():
                self.unnamed_since = self.known.now if self.unnamed_since < 0 else self.unnamed_since
                if len(self.unnamed) < MOST_NAMED:
                    self.unnamed.add(id(x))
                return
            # may replace an array that has died, with the same id
            self.named[id(x)] = weakref.ref(x), with_name((), name, rank, self.known.now)

    def _forget_dead(self) -> bool:
        """Forget the names of unused arrays that have died. Returns whether that made room."""
        if self.packed:
            return False
        self.named = {key: each for key, each in self.named.items() if each[0]() is not None}
        # if this frees too little room, do not search again
        self.packed = len(self.named) > MOST_NAMED * 9 // 10
        return len(self.named) < MOST_NAMED

    def nameless(self) -> dict[str, int]:
        """{text with the event of the first lost name: how many names were not kept}; {} if all were kept."""
        more = "or more " if len(self.unnamed) == MOST_NAMED else ""
        return {f"{more}{NAMES_PAST} {self.unnamed_since:,}": len(self.unnamed)} if self.unnamed else {}

    def staged(self) -> dict[Var, int]:
        """The variables of staged programs, each with the number of its first tracer."""
        variables = self.values.variables
        for number, variable in itertools.islice(variables.items(), self._asked, None):
            self._staged.setdefault(variable, number)
        self._asked = len(variables)
        return self._staged

    def _begin_around(self, x: Any, scopes: Sequence[Scope], place: str, shape: int) -> Life:
        """``begin``, for a tracer that holds values."""
        # the values inside come first, because they were made first
        values = (x.val,) if shape == BATCHED else (x.primal,) if shape == DUAL else (x.primal, x.tangent)
        known = self.known
        within = [known.get(id(each)) or self.begin(each, scopes, place, held=True) for each in values]
        trace = x._trace
        scope = scopes[trace.main.level]
        text = preview.aval_text(x.aval)
        first = within[0]
        variable = tangent = None
        worth: Any = ""
        if first is not None and len(within) == 1:
            physical, bad = first.physical, first.bad
            inside: Any = first.number
        else:
            physical = preview.physical_type(x) if first is None else first.physical
            inside, bad = self._inside(shape, values, within)
        if shape == DUAL:
            variable = x.variable
            worth = scope.names.get(id(variable)) or scope.name(variable)
            tangent = variable if isinstance(variable, Var) else None
        elif shape == BATCHED:
            worth = str(x.batch_dim)
        else:
            tangent = preview.tangent_variable(x)
        row = (
            known.now,
            scope.label,
            scope.at,
            text,
            physical,
            shape,
            trace is not trace.main.trace,
            inside,
            worth,
            place,
        )
        life = self._begin(x, row, shape, physical, bad)
        if variable is not None:
            self.values.variables[life.number] = variable
        if tangent is not None:
            self.primals.setdefault(tangent, life.number)
        for index, each in enumerate(within):
            if each is None and not isinstance(values[index], Tracer):
                self.values.inside.setdefault(life.number, {})[index] = values[index]
        return life

    def _inside(
        self, shape: int, values: Sequence[Any], within: Sequence[Life | None]
    ) -> tuple[tuple[Any, ...], bool | None]:
        """The values inside a tracer, each as its number or text, and whether one of them is not finite."""
        bad: bool | None = False
        inside: list[Any] = []
        for value, life in zip(values, within, strict=True):
            if life is None:
                one: bool | None = preview.nonfinite(value)
                inside.append(preview.type_text(value) if shape == BATCHED else preview.value_text(value, fetch=True))
            else:
                one = life.bad
                inside.append(life.number)
            if one is not False and bad is not True:
                bad = one
        return tuple(inside), bad

    def _begin(self, x: Any, row: Row, shape: int, physical: str, bad: bool | None) -> Life:
        self.rows.append(row)
        life = Life(x, self.gone)
        life.key = key = id(x)
        life.number = self.count = self.count + 1
        life.shape = shape
        life.physical = physical
        life.bad = bad
        self.known.deaths.append(-1)
        self.known[key] = life
        return life

    def table(self, function: Callable[[int], str]) -> LifeTable:
        """All lives. Nothing is followed after this. ``function`` gives the function of a variable by its rank."""
        deaths = array("q", self.known.deaths)
        self.known.clear()
        self.named.clear()
        self.primals = {}
        staged = self.staged() if self.ran else {}
        again = {number: staged[variable] for number, variable in self.ran.items() if variable in staged}
        self._staged, self.ran = {}, {}
        return LifeTable(self.rows, self.names, deaths, again, function)


class LifeTable(Lazy):
    """The lives of a recording, in order of birth. A record is made when it is read."""

    def __init__(
        self,
        rows: list[Row],
        names: dict[int, Names],
        deaths: Any,
        again: dict[int, int],
        function: Callable[[int], str],
    ) -> None:
        super().__init__(len(rows))
        self.function = function
        self.again = again
        self.rows = rows
        # interned texts of tracers as operands: there are few different ones
        self._texts: dict[str, str] = {}
        self.names = names
        self.deaths = deaths

    def make(self, index: int) -> LifeRecord:
        row = self.rows[index]
        level, kind, physical, inside = row[_LEVEL], row[_TYPE], row[_PHYSICAL], _several(row[_INSIDE])
        holds = tuple([each if type(each) is int else 0 for each in inside])
        tracer = TracerRecord(
            row[_AT],
            level,
            kind,
            self._fields(row),
            index + 1,
            "" if physical == kind else physical,
            holds if any(holds) else (),
        )
        names, again = self.names.get(index + 1, (0, "", 0)), self.again.get(index + 1, 0)
        held: tuple[tuple[str, int], ...] = ()
        if len(names) > 3 or names[2] > row[_AT]:
            held = tuple(sorted(zip(names[1::3], names[2::3], strict=True), key=operator.itemgetter(1)))
        function = self.function(names[0]) if names[1] else ""
        return LifeRecord(
            tracer, row[_SCOPE], row[_AT], self.deaths[index], names[1], row[_PLACE], again, held, function
        )

    def text(self, number: int) -> str:
        """The text of a value as an operand."""
        row = self.rows[number - 1]
        if row[_SHAPE] == ARRAY:  # the text that the value's record has
            text: str = self.tracer(number).fields[0][1]
            return text
        text = f"{row[_LEVEL]} {'tangent ' if row[_TANGENT] else ''}{row[_TYPE]}"
        return self._texts.setdefault(text, text)

    def type(self, number: int) -> str:
        """The type of a value."""
        kind: str = self.rows[number - 1][_TYPE]
        return kind

    def tracer(self, number: int) -> TracerRecord:
        """The record of a value."""
        record: LifeRecord = self[number - 1]
        return record.tracer

    def _fields(self, row: Row) -> tuple[tuple[str, str], ...]:
        """The values inside a tracer, or the value of an array, by name, as in ``preview.fields``."""
        shape, inside, worth = row[_SHAPE], _several(row[_INSIDE]), row[_WORTH]
        if shape == ARRAY:
            return (("value", _worth(worth)),)
        if shape == BATCHED:
            (each,) = inside
            return (("batched", each if type(each) is str else self.type(each)), ("axis", worth))
        texts = [each if type(each) is str else self.text(each) for each in inside]
        if shape == TWO:
            return (("primal", texts[0]), ("tangent", texts[1]))
        if shape == DUAL:
            return (("primal", texts[0]), ("tangent", worth))
        if shape == STAGED:
            return (("variable", worth),) if worth else ()
        if shape == UNKNOWN:
            return (("tangent" if row[_TANGENT] else "unknown", worth),)
        return ()

    def columns(self) -> tuple[Any, Any, Any]:
        """The scope, birth and death of each life, without making records."""
        names, rows = self.names, self.rows
        scopes = [row[_SCOPE] if i in names or ":" in row[_LEVEL] else HIDDEN for i, row in enumerate(rows, 1)]
        births = [row[_AT] for row in rows]
        return np.array(scopes, np.int64), np.array(births, np.int64), np.array(self.deaths, np.int64)


def _several(inside: Any) -> tuple[Any, ...]:
    if type(inside) is tuple:
        return inside
    return (inside,) if inside != 0 else ()


def _worth(worth: Any) -> str:
    return worth if type(worth) is str else preview.float_text(worth)
