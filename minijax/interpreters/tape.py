"""The tape that linearization writes: how the tangents of a function's results are computed.

Each tangent has a *place*, a number: inputs first, then results in program order. An entry computes the tangent at its
place (and the next places) from earlier tangents. It is a ``Recorded``, the equations of a jvp rule that was run, or a
tuple ``(derived, residuals, places of active operands, source)``: an operation on NumPy values stores nothing else.

In: a tape and cotangents. Out: cotangents of inputs (``transpose``), or the tape as a ``LinearProgram`` (``program``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.config import evaluated_singly
from minijax.core import lazy, observe
from minijax.core.array import CommittedArray, LiteralArray, get_aval
from minijax.core.avals import ShapedArray
from minijax.core.names import transposed
from minijax.core.numpy_warnings import quiet_numpy
from minijax.core.primitive import evaluation_watched
from minijax.core.records import NamedTuple
from minijax.core.structural import Zero, add_any_p, zero_of
from minijax.core.trace import state
from minijax.interpreters.derived import BackwardProgram, Derived, names_all
from minijax.interpreters.partial_eval import LinearProgram, Residual, dce_eqns, dce_rules
from minijax.interpreters.physical import Bottom, Type, bottom
from minijax.interpreters.transpose import Arrivals, evaluate_known, transpose_eqn, transpose_program
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var


class Recorded(NamedTuple):
    """Equations that a jvp rule recorded. ``place_of``: their operands' places; ``first``: the first result's place."""

    eqns: list[JaxprEqn]
    place_of: dict[Var, int]
    out_vars: list[Var]
    first: int


class Tape:
    """A linearized function: the entries, and the places of its outputs' tangents (None for a zero)."""

    __slots__ = (
        *("entries", "variables", "arrays", "eqns", "mixed", "bottom", "by_rules"),
        *("n_in", "out_places", "out_avals", "name", "_program", "_needed"),
    )

    def __init__(self, name: str = "") -> None:
        self.entries: list[Any] = []
        # place -> the variable of the tangent, made at first use
        self.variables: dict[int, Var] = {}
        # (id of a NumPy value that may be a residual, its type) -> the value, and the array that holds it
        self.arrays: dict[tuple[int, Type], tuple[Any, Any]] = {}
        # after ``record_all``: all equations; there are no entries any more
        self.eqns: list[JaxprEqn] | None = None
        self.n_in = 0
        self.out_places: list[int | None] = []
        self.out_avals: list[ShapedArray] = []
        self.name = name
        # whether some recorded equations have no linear operand
        self.mixed = False
        # the ``Bottom`` of NumPy values in entries; None if entries hold arrays and tracers
        self.bottom: Bottom | None = None
        # whether rules run even if a program has been derived
        self.by_rules = False
        self._program: LinearProgram | None = None
        self._needed: list[int] | None = None

    def new_input(self, aval: ShapedArray) -> int:
        """The place of a new input of type ``aval``. All inputs come before the first entry."""
        place = self.n_in
        self.n_in += 1
        self.entries.append(None)
        self.variables[place] = Var(aval)
        return place

    def add(self, eqns: list[JaxprEqn], place_of: dict[Var, int], out_vars: Sequence[Var]) -> list[int]:
        """Add a rule's equations. Return the places of ``out_vars``. A tangent of an operand keeps its place."""
        known = dict(place_of)
        new: list[Var] = []
        first = len(self.entries)
        for v in out_vars:
            if v not in known:
                known[v] = first + len(new)
                self.variables[known[v]] = v
                new.append(v)
        if new:
            self.entries.append(Recorded(eqns, place_of, new, first))
            self.entries.extend([None] * (len(new) - 1))
        return [known[v] for v in out_vars]

    def record_all(self) -> list[JaxprEqn]:
        """Turn all entries into equations. From now on the writer of the tape appends to them."""
        for place in range(len(self.entries)):
            self.variable(place)
        self.eqns = self.equations()
        del self.entries[self.n_in :]
        return self.eqns

    def add_variables(self, out_vars: Sequence[Var]) -> list[int]:
        """Places for the tangents ``out_vars``, which equations in ``eqns`` compute."""
        first = len(self.variables)
        self.variables.update(enumerate(out_vars, first))
        return [*range(first, first + len(out_vars))]

    def finish(self, out_places: list[int | None], out_avals: list[ShapedArray], mixed: bool) -> None:
        """End the tape: output tangents are at ``out_places``. ``mixed``: some equations have no linear operand."""
        self.mixed = mixed
        self.out_places = out_places
        self.out_avals = out_avals
        if self.arrays:  # drop arrays that are not residuals
            packed = [entry[1] for entry in self.entries if type(entry) is tuple]
            kept = {id(value) for values in packed for value in (values if type(values) is tuple else (values,))}
            self.arrays = {key: found for key, found in self.arrays.items() if key[0] in kept}

    def know(self, value: Any, type_: Type, x: Any) -> None:
        """Note that ``x`` is the array of ``value``. If ``value`` becomes a residual, the program holds ``x``."""
        self.arrays[id(value), type_] = value, x

    def residual(self, value: Any, type_: Type) -> Any:
        """The array of the NumPy value ``value``; all entries with that value share it."""
        assert self.bottom is not None
        if type(value) is np.bool_:  # NumPy has only two such objects, so their ids do not tell values apart
            return self.bottom.up(value, type_)
        key = id(value), type_
        found = self.arrays.get(key)
        if found is None:
            found = self.arrays[key] = value, self.bottom.up(value, type_)
        return found[1]

    def residuals(self, derived: Derived, packed: Any) -> list[Any]:
        """The residuals of an entry as arrays and tracers."""
        types = derived.residual_types
        values = (packed,) if len(types) == 1 else packed or ()
        if self.bottom is None:
            return [*values]
        return [*map(self.residual, values, types)]

    def variable(self, place: int) -> Var:
        var = self.variables.get(place)
        if var is None:
            derived, *_ = self.entries[place]  # recorded equations have their variables
            var = self.variables[place] = Var(derived.tangent.aval)
        return var

    def source(self, place: int) -> Any:
        """The user's line that made the tangent at ``place``, if known."""
        if self.eqns is not None:
            var = self.variables[place]
            return next((eqn.source for eqn in reversed(self.eqns) if any(v is var for v in eqn.outvars)), None)
        while place >= self.n_in and self.entries[place] is None:
            place -= 1
        entry = self.entries[place]
        if type(entry) is Recorded:
            return next((eqn.source for eqn in reversed(entry.eqns)), None)
        return entry[3] if type(entry) is tuple else None

    def program(self) -> LinearProgram:
        if self._program is None:
            outs = [
                zero_of(aval) if place is None else self.variable(place)
                for place, aval in zip(self.out_places, self.out_avals, strict=True)
            ]
            in_vars = [self.variables[i] for i in range(self.n_in)]
            self._program = LinearProgram(in_vars, self.equations(), outs, self.name, self.mixed)
        return self._program

    def equations(self) -> list[JaxprEqn]:
        if self.eqns is not None:
            return self.eqns
        eqns: list[JaxprEqn] = []
        for place, entry in enumerate(self.entries):
            if type(entry) is Recorded:
                eqns.extend(entry.eqns)
            elif entry is not None:
                eqns.extend(self._equations(place, *entry))
        return eqns

    def _equations(self, place: int, derived: Derived, residuals: Any, places: Any, source: Any) -> list[JaxprEqn]:
        atoms: list[Any] = [*map(Residual, derived.linear.consts), *map(Residual, self.residuals(derived, residuals))]
        atoms += map(self.variable, (places,) if type(places) is int else places)
        eqns = []
        for primitive, params, operands, results in derived.numbered:
            invars = [atoms[v] if type(v) is int else v for v in operands]
            outvars = [self.variable(place) if aval is None else Var(aval) for aval in results]
            atoms += outvars
            eqns.append(JaxprEqn(primitive, invars, params, outvars, source))
        return eqns

    def closed(self) -> ClosedJaxpr:
        """The program as a closed jaxpr: see ``LinearProgram.closed``."""
        return self.program().closed()

    def push_forward(self, tangents: Sequence[Any]) -> list[Any] | None:
        """The tangents of the outputs (None for a zero), computed by NumPy. None if the program must be evaluated."""
        now = self.bottom_now()
        if now is None or not now.carries(tangents):
            return None
        if any([isinstance(t, CommittedArray) for t in tangents]):
            return None
        quiet_numpy()
        try:
            return _ForwardRun(self, now).run(tangents)
        except (RuntimeWarning, FloatingPointError):  # the user turned NumPy's errors into exceptions
            with np.errstate(all="ignore"):
                return _ForwardRun(self, now).run(tangents)

    def bottom_now(self, counted: bool = False) -> Bottom | None:
        """The ``Bottom`` for a run over the entries, or None if equations must run instead.

        ``counted``: whether a run is allowed while observers count operations.
        """
        if self.eqns is not None or (watched() if not counted else followed()):
            return None
        now = bottom()
        return now if self.bottom is not None and self.bottom.within(now) else None

    def needed(self) -> list[int]:
        """The places of the entries that the outputs need, computed once."""
        if self._needed is None:
            read = {place for place in self.out_places if place is not None}
            needed = []
            for at in range(len(self.entries) - 1, self.n_in - 1, -1):
                entry = self.entries[at]
                if type(entry) is tuple:
                    if at in read:
                        needed.append(at)
                        read.update((entry[2],) if type(entry[2]) is int else entry[2])
                elif entry is not None and not read.isdisjoint(range(at, at + len(entry.out_vars))):
                    needed.append(at)
                    read.update(entry.place_of.values())
            needed.reverse()
            self._needed = needed
        return self._needed

    def transpose(self, cts: Sequence[Any]) -> list[Any]:
        """The cotangents of the inputs, given the cotangents of the outputs. Any of them may be a symbolic zero."""
        if self.bottom is None and not self.by_rules and self.eqns is None:
            if not watched() and not (self.mixed and state.dynamic.level):
                return _BackwardRun(self, None).run(cts)
        now = self.bottom_now(counted=True)
        if now is None:
            return transpose_program(self.program(), cts)
        quiet_numpy()
        try:
            return _BackwardRun(self, now).run(cts)
        except (RuntimeWarning, FloatingPointError):  # the user turned NumPy's errors into exceptions
            with np.errstate(all="ignore"):
                return _BackwardRun(self, now).run(cts)


def watched() -> bool:
    """Whether an observer or a check sees every operation."""
    return bool(observe.observers) or bool(evaluation_watched and evaluated_singly())


def followed() -> bool:
    """Like ``watched``, but without observers that only count operations."""
    if observe.observers and (observe.followers or not observe.only_counted()):
        return True
    return bool(evaluation_watched and evaluated_singly())


class _Run:
    """A run over a tape. ``values[place]`` is a NumPy value of type ``types[place]``; without a type it is an array."""

    def __init__(self, tape: Tape, bottom: Bottom | None) -> None:
        self.tape = tape
        self.bottom: Any = bottom
        self.values: list[Any] = [None] * len(tape.entries)
        self.types: list[Type | None] = [None] * len(tape.entries)

    def value(self, place: int) -> Any:
        """The tangent or cotangent at ``place``, as an array or a tracer."""
        type_ = self.types[place]
        return self.values[place] if type_ is None else self.bottom.up(self.values[place], type_)


class _ForwardRun(_Run):
    """One run forwards: the values are tangents."""

    def run(self, given: Sequence[Any]) -> list[Any]:
        """The tangents of the outputs, None for a zero."""
        tape, tangents, types = self.tape, self.values, self.types
        entries = tape.entries
        for place, t in enumerate(given):
            self.put(place, t)
        for at in tape.needed():
            entry = entries[at]
            if type(entry) is not tuple:
                self.recorded(entry)
                continue
            derived, residuals, places, _ = entry
            if type(places) is int:
                key: Any = types[places]
                values: Sequence[Any] = (tangents[places],)
            else:
                key = tuple([types[p] for p in places])
                values = [tangents[p] for p in places]
            try:
                function, type_ = derived.pushes[key]
            except KeyError:
                if key is None or (type(key) is tuple and None in key):
                    operands = map(self.value, (places,) if type(places) is int else places)
                    self.put(at, eval_closed(derived.linear, *tape.residuals(derived, residuals), *operands)[0])
                    continue
                function, type_ = derived.push(key)
            tangents[at] = function(residuals, *values)
            types[at] = type_
        return [None if place is None else self.value(place) for place in tape.out_places]

    def put(self, place: int, t: Any) -> None:
        self.values[place], self.types[place] = self.bottom.down(t, fetch=False) or (t, None)

    def recorded(self, entry: Recorded) -> None:
        """Evaluate the equations that a rule recorded."""
        env: dict[Any, Any] = {v: self.value(place) for v, place in entry.place_of.items()}
        for eqn in entry.eqns:
            args = [v.val if type(v) is Literal or type(v) is Residual else env[v] for v in eqn.invars]
            out = eqn.primitive.bind(*args, **eqn.params)
            env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True))
        for i, v in enumerate(entry.out_vars):
            self.put(entry.first + i, v.val if type(v) is Residual else env[v])


class _BackwardRun(_Run):
    """One run backwards, on NumPy values unless ``bottom`` is None. ``values`` has the cotangents so far, or None."""

    # counts the operations that programs replace, if an observer counts
    tally: Any = None

    def run(self, seeds: Sequence[Any]) -> list[Any]:
        """The cotangents of the inputs."""
        tape, cts, types = self.tape, self.values, self.types
        if observe.observers and self.bottom is not None:
            levels = tuple([axis.level for axis in self.bottom.axes])
            self.tally = lazy.public("minijax.core.counting", "Tally")(levels)
        entries, arrive = tape.entries, self.arrive
        runs = None if self.tally is None else self.tally.runs
        for place, seed in zip(tape.out_places, seeds, strict=True):
            if place is not None and type(seed) is not Zero:
                if (
                    type(seed) is LiteralArray
                    and cts[place] is None
                    and runs is None
                    and self.bottom is not None
                    and hasattr(seed, "_np")
                ):
                    cts[place], types[place] = seed._np, seed.aval  # the 1 that starts a gradient
                else:
                    arrive(place, seed)
        for at in range(len(entries) - 1, tape.n_in - 1, -1):
            entry = entries[at]
            if type(entry) is not tuple:
                if entry is not None:
                    self.recorded(entry)
                continue
            ct = cts[at]
            if ct is None:
                continue
            derived, residuals, places, source = entry
            ct_type = types[at]
            try:
                function, slots, new_types, *_ = derived.backward[ct_type]
            except KeyError:
                if ct_type is None:
                    self.on_values(ct, *entry)
                    cts[at] = None
                    continue
                function, slots, new_types, *_ = derived.transposed(ct_type)
            cts[at] = None
            if runs is not None:
                if function in runs:
                    runs[function] += 1
                elif not self.count(derived.backward[ct_type]):
                    self.by_measured_rules(derived.backward[ct_type], self.bottom.up(ct, ct_type), *entry)  # type: ignore[arg-type]
                    continue
            given = function(ct, residuals)
            if len(slots) == 1:
                given = (given,)
            # ``arrive`` inlined for the usual case: one operand, and the first cotangent for it
            for slot, new, new_type in zip(slots, given or (), new_types, strict=True):
                place = places if type(places) is int else places[slot]
                old = cts[place]
                if old is None:
                    cts[place], types[place] = new, new_type
                elif types[place] is new_type and runs is None:
                    cts[place] = old + new
                else:
                    arrive(place, self.bottom.up(new, new_type))
        return self.found()

    def found(self) -> list[Any]:
        """The cotangents of the inputs; symbolic zeros for inputs without one."""
        made = []
        for place in range(self.tape.n_in):
            ct, type_ = self.values[place], self.types[place]
            if ct is None:
                ct = zero_of(self.tape.variables[place].aval)
            elif type_ is not None:
                ct = self.bottom.up(ct, type_)
            made.append(ct)
        return made

    def count(self, program: BackwardProgram) -> bool:
        """Count a run of ``program`` for the observers; False if its rules must run."""
        if not self.tally.knows(program.function, (), program.binds):
            return False
        self.tally.add(program.function, ())
        return True

    def by_measured_rules(self, program: BackwardProgram, ct: Any, *entry: Any) -> None:
        """Transpose an entry by rules, and measure how many operations they bind if that is unknown."""
        arrived: list[tuple[int, Any]] = []

        def run() -> None:
            self.by_rules(ct, *entry, arrive=lambda *found: arrived.append(found))

        if self.tally.knows(program.function, (), program.binds) is None:
            self.tally.measured(program.function, (), program.binds, run)
        else:
            run()
        for place, each in arrived:  # after measuring, since sums depend on other entries' cotangents
            self.arrive(place, each)

    def arrive(self, place: int, ct: Any) -> None:
        """Add ``ct`` to the cotangent at ``place``."""
        if self.values[place] is not None:
            ct = add_any_p.bind(self.value(place), ct)
        # rules may convert an inline number without an operation
        if self.bottom is None or observe.observers and type(ct) is LiteralArray:
            self.values[place], self.types[place] = ct, None
        else:
            self.values[place], self.types[place] = self.bottom.down(ct, fetch=False) or (ct, None)

    def take(self, place: int) -> Any:
        """Remove and return the cotangent at ``place``; None if there is none."""
        ct = None if self.values[place] is None else self.value(place)
        self.values[place] = None
        return ct

    def on_values(self, ct: Any, derived: Derived, residuals: Any, places: Any, source: Any) -> None:
        """Transpose an entry from the cotangent ``ct``, which is not a NumPy value."""
        if self.bottom is not None:
            self.by_rules(ct, derived, residuals, places, source)
            return
        type_ = get_aval(ct)
        found = derived.backward.get(type_) or derived.transposed(type_)
        at = [places if type(places) is int else places[slot] for slot in found.slots]
        values = [*self.tape.residuals(derived, residuals), ct]
        staging = bool(state.dynamic.level)
        if staging and not (derived.stageable and names_all(found.program.closed)):
            self.by_rules(ct, derived, residuals, places, source)
            return
        # in a jaxpr, rules write a sum among the equations of the program: do the same
        summed = len(at) > len({*at}) or any([self.values[place] is not None for place in at])
        outer_source = state.source
        if source is not None:
            state.source = transposed(source, derived.name)
        try:
            for place, new in zip(
                at,
                found.program.parts(values, found.arrivals) if staging and summed else found.program.run(values),
                strict=True,
            ):
                self.arrive(place, new)
        finally:
            state.source = outer_source

    def by_rules(
        self,
        ct: Any,
        derived: Derived,
        residuals: Any,
        places: Any,
        source: Any,
        *,
        arrive: Callable[[int, Any], None] | None = None,
    ) -> None:
        """Transpose an entry by rules; ``arrive`` gets the cotangents."""
        jaxpr = derived.linear.jaxpr
        known = dict(zip(jaxpr.constvars, derived.linear.consts, strict=True))
        known.update(zip(jaxpr.invars, self.tape.residuals(derived, residuals), strict=False))
        operands = jaxpr.invars[derived.n_res :]
        place_of = dict(zip(operands, (places,) if type(places) is int else places, strict=True))
        self.transpose(jaxpr.eqns, known, place_of, {derived.tangent: ct}, source, arrive)

    def recorded(self, entry: Recorded) -> None:
        """Transpose the equations that a rule recorded."""
        cts = {v: self.take(entry.first + i) for i, v in enumerate(entry.out_vars)}
        cts = {v: ct for v, ct in cts.items() if ct is not None}
        if not cts:
            return
        eqns = entry.eqns
        # a loop would also run backwards for results without a cotangent
        if any(eqn.primitive in dce_rules for eqn in eqns):
            eqns, _ = dce_eqns(eqns, list(cts))
        known: dict[Var, Any] = {}
        linear = evaluate_known(eqns, known) if self.tape.mixed else eqns
        self.transpose(linear, known, entry.place_of, cts)

    def transpose(
        self,
        eqns: Sequence[JaxprEqn],
        known: dict[Var, Any],
        place_of: dict[Var, int],
        cts: dict[Var, Any],
        source: Any = None,
        arrive: Callable[[int, Any], None] | None = None,
    ) -> None:
        """Transpose ``eqns``, given the cotangents of their results."""
        ct_of = Arrivals(place_of, arrive or self.arrive)
        for v, ct in cts.items():
            ct_of[v] = ct
        outer_source = state.source
        try:
            for eqn in reversed(eqns):
                state.source = transposed(source or eqn.source, eqn.primitive.name)
                transpose_eqn(eqn, known, ct_of)
        finally:
            state.source = outer_source
