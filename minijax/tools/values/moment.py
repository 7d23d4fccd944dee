"""The values of a recording, by their numbers. They are computed on demand; the user's Python never runs.

The recorder kept the values that evaluation computed. A tracer holds its value: a primal and a tangent, or a batch. The
value of a staged variable comes from replaying (``replay``) the next recorded run of its program, on the operands of
that run and in the chosen iteration. A program that never ran is evaluated on the arguments of the call.
"""

from __future__ import annotations

import math
from collections import ChainMap, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from minijax.core.array import Array, as_array
from minijax.core.avals import ShapedArray
from minijax.core.records import Frozen, NamedTuple
from minijax.core.shardings import PartitionSpec
from minijax.core.structural import Zero
from minijax.core.varying import pvary_p
from minijax.interpreters.named_axes import axes_of
from minijax.interpreters.program import program
from minijax.interpreters.stage import stage
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var, subjaxprs
from minijax.ops.custom_derivatives import StagedFunction
from minijax.tools.recording.device_records import DevicesRecord
from minijax.tools.recording.naming import Naming, naming_of
from minijax.tools.recording.records import BindRecord, LifeRecord, Recording
from minijax.tools.recording.timeline import timeline
from minijax.tools.recording.values import RunRecord
from minijax.tools.values.devices import is_mapped, manual_axes, place_in_mesh
from minijax.tools.values.examples import Unknown, apart, why
from minijax.tools.values.replay import replay

# Frames are kept for at most this many runs, each with at most this many bytes of values.
MOST_FRAMES = 12
FRAME_BYTES = 32_000_000
# Programs inside programs, and tracers inside tracers, are followed to at most this depth.
DEEPEST = 40
# A program with more NumPy calls than this is not evaluated for an overview.
MOST_GLANCED = 5_000

NOT_KEPT = Unknown("it was dropped to save memory")
ELSEWHERE = Unknown("values live in the process that recorded them")
NOT_RUN = Unknown("its program has not been run")
RUN_LEFT_OUT = Unknown("its program was not run, or was dropped to save memory")
NOT_FORWARD = Unknown("it is a tangent: it has values only when the linear program runs")
NOT_TAKEN = Unknown("this branch was not taken")
# Primitives that run a program several times: per iteration, or per device.
COUNTED = ("scan", "while", "shard_map")
NOT_FOLLOWED = Unknown("the program around it is evaluated as a whole")
NO_TURN = Unknown("the loop has no such iteration")
OWN_WAYS = Unknown("devices may take different branches here")
FORWARD_RULE = Unknown("the fwd rule was run in place of this function")
TAKES_LONG = Unknown("computing it takes long")
TOO_DEEP = Unknown("it is too deep inside other values")


class Worth(NamedTuple):
    """A value. ``axes``: labels of the vmaps that put an axis of examples in front of the array, outermost first."""

    array: Array
    axes: tuple[str, ...] = ()


class LoopShown(Frozen):
    """A loop whose iteration can be chosen: ``key`` identifies it, ``index`` is the chosen iteration.

    It may also be a mesh whose device can be chosen: ``where`` gives the device's coordinates, and ``axes`` the names
    and sizes of the mesh axes. With ``checked``, types list the axes along which a value varies.
    """

    key: tuple[int, ...]
    kind: str
    index: int
    count: int
    where: str = ""
    axes: tuple[tuple[Any, int], ...] = ()
    checked: bool = False


class DividedPart(NamedTuple):
    """An array in the outer frame, and the spec that divides it among devices."""

    spec: PartitionSpec
    frame: Any
    atom: Any

    @property
    def aval(self) -> ShapedArray:
        """The type of the undivided array."""
        return self.atom.aval  # type: ignore[no-any-return]

    def value(self) -> Found:
        """The undivided array."""
        return worth(self.frame, self.atom)


class DividedCall(NamedTuple):
    """A call that runs a program on devices: its frame, its equation, and the mesh with the chosen device."""

    frame: Any
    eqn: JaxprEqn
    mesh: LoopShown


Found = Worth | Unknown | None
# Prefix of the label of a mesh axis when all devices are shown: ``mesh 0:1:model``.
MESH = "mesh "
# variable of a program -> where it is computed: events of runs, each with the path of enclosing equations.
_Homes: TypeAlias = dict[Var, list[tuple[int, tuple[tuple[JaxprEqn, Jaxpr], ...]]]]


class Ledger:
    """The values of one recording.

    Attributes:
      iterations: key of a loop -> the chosen iteration; the first by default. Key of a mesh -> the chosen device; None
        for all devices: values then have an axis in front for each mesh axis along which they may differ.
      examples: label of a vmap -> the chosen example; all by default.
      arguments: the arguments of the recorded call, for programs that never ran.
    """

    def __init__(self, recording: Recording, arguments: Sequence[Any] = ()) -> None:
        self.recording = recording
        self.kept = recording.kept
        lives: Any = naming_of(recording).lives
        self.lives: ChainMap[int, LifeRecord] = ChainMap({}, lives)
        self.iterations: dict[tuple[int, ...], int | None] = {}
        self.examples: dict[str, int] = {}
        self.arguments = arguments
        self._homes: _Homes | None = None
        self._arrivals: dict[Var, list[tuple[int, Any]]] | None = None
        self._frames: OrderedDict[Any, Any] = OrderedDict()
        self._weights: dict[int, float] = {}
        self._axes: dict[int, bool] = {}
        self._single: dict[int, tuple[ClosedJaxpr, JaxprEqn]] = {}
        self._glancing = False
        self._saved: dict[int, DevicesRecord] | None = None
        self._going: set[tuple[str, int]] = set()

    @property
    def naming(self) -> Naming:
        """The names of the values."""
        return naming_of(self.recording)

    @property
    def elsewhere(self) -> bool:
        """Whether the recording comes from another process: a file holds no values."""
        return not self.recording.has_values

    # --- values by number
    # ---------------------------------------------------------------------------------------------

    def primal(self, number: int) -> Found:
        """The value of a tracer or array, taken out of the tracers of all transformations."""
        return self._guarded("primal", number)

    def tangent(self, number: int) -> Found:
        """The tangent of a tracer; None if it has none, or if it is zero."""
        return self._guarded("tangent", number)

    def glance(self, number: int, what: str = "primal") -> Worth | None:
        """The 'primal' or 'tangent' if it is known or quick to compute, else None. Used for views of many values."""
        with self.glances():
            found = self._guarded(what, number)
        return found if isinstance(found, Worth) else None

    @contextmanager
    def glances(self) -> Iterator[None]:
        """In the block, long computations are skipped."""
        before, self._glancing = self._glancing, True
        try:
            yield
        finally:
            self._glancing = before

    @contextmanager
    def chosen(
        self, iterations: Mapping[tuple[int, ...], int | None], examples: Mapping[str, int] | None = None
    ) -> Iterator[None]:
        """In the block, these iterations and examples are chosen; None: the same examples as before."""
        before = self.iterations, self.examples
        self.iterations, self.examples = dict(iterations), dict(self.examples if examples is None else examples)
        try:
            yield
        finally:
            self.iterations, self.examples = before

    def arrivals(self, number: int, at: float) -> int:
        """How often the value's cotangent changed until event ``at``."""
        fields = self._fields(number)
        if "batched" in fields:
            held = self._holds(number)
            return self.arrivals(held[0], at) if held and held[0] else 0
        own = sum([when <= at for when, _ in self._sums(number)])
        staged = not own and "variable" in fields and number in self.kept.variables
        return int(staged and self._backward_done(number, at)) or own

    def cotangent(self, number: int, at: int | None = None) -> Found:
        """The cotangent accumulated until event ``at`` (None: until the end); None if nothing arrived."""
        sums = [each for when, each in self._sums(number) if at is None or when <= at]
        if sums:
            return self._sum(sums[-1])
        fields = self._fields(number)
        if "batched" in fields:
            held = self._holds(number)
            inner = self.cotangent(held[0], at) if held and held[0] else None
            return self._batched(number, int(fields["axis"]), inner)
        if "variable" not in fields or not self._backward_done(number, at):
            return None
        return self._guarded("cotangent", number)

    def _sum(self, record: Any) -> Found:
        return self._guarded("primal", record.number) if record.number else Unknown(record.text)

    def _backward_done(self, number: int, at: float | None) -> bool:
        """Whether the backward pass has processed the run that computes a staged variable."""
        var = self.kept.variables.get(number)
        if var is None:  # an interrupt came after the tracer was made, before its variable was noted
            return False
        run, _ = self._home(var, self.lives[number].born)
        until = math.inf if at is None else at
        return run is not None and any(self.arrivals(n, until) for n in run.operands if n and n != number)

    def arrived(self, number: int, after: int, until: int) -> bool:
        """Whether a cotangent of the value arrived after event ``after`` and no later than ``until``."""
        var = self.summed(number)
        return var is not None and any(after < at <= until for at, _ in self._all_arrivals().get(var, ()))

    def _sums(self, number: int) -> Sequence[tuple[int, Any]]:
        """The successive sums of the value's cotangent, each with its event."""
        var = self._linear_variable(number)
        return () if var is None else self._all_arrivals().get(var, ())

    def summed(self, number: int) -> Var | None:
        """The variable whose tangent collects the cotangent of the value; None if there is no such variable."""
        return self._linear_variable(self.unbatched(number))

    def unbatched(self, number: int) -> int:
        """The number of the value inside all batch tracers; for other values ``number`` itself."""
        for _ in range(DEEPEST):
            held = self._holds(number) if "batched" in self._fields(number) else ()
            if not held or not held[0]:
                break
            number = held[0]
        return number

    def changes(self) -> list[tuple[int, Var]]:
        """(event, variable) for every arrival of a cotangent."""
        arrivals = self._all_arrivals()
        return [(at, var) for var, found in arrivals.items() for at, _ in found]

    def _all_arrivals(self) -> dict[Var, list[tuple[int, Any]]]:
        if self._arrivals is None:
            arrivals: dict[Var, list[tuple[int, Any]]] = {}
            for record in self.recording.backward:
                self._note_backward(record, arrivals)
            self._arrivals = arrivals  # assigned last: an interrupt leaves no half-built dict
        return self._arrivals

    def _linear_variable(self, number: int) -> Var | None:
        """The variable of the value's tangent in a linear program, or of the value itself in a staged program."""
        found = self.kept.variables.get(number)
        if found is None and number in self.lives:
            tangent = self._unknown_tangent(number)
            found = self.kept.variables.get(tangent) if tangent else None
        return found

    def _unknown_tangent(self, number: int) -> int:
        """The number of a JVP tracer's tangent if the tangent is a variable of a linear program, otherwise 0.

        The JVP tracers that linearize makes have such tangents.
        """
        holds = self.lives[number].tracer.holds
        inner = self.lives.get(holds[1]) if len(holds) == 2 else None
        return holds[1] if inner is not None and "unknown" in dict(inner.tracer.fields) else 0

    def _note_backward(self, record: Any, arrivals: dict[Var, list[tuple[int, Any]]]) -> None:
        variables = [self._linear_variable(number) for number in record.primals]
        when = [(record.begun, record.begins), *[(step.at, step.sums) for step in record.steps]]
        for at, sums in when:
            for each in sums:
                var = variables[each.variable] if 0 <= each.variable < len(variables) else None
                if var is not None:
                    arrivals.setdefault(var, []).append((at, each))

    def vmaps(self, number: int) -> dict[str, int]:
        """The vmaps that may batch a value, outermost first: label -> number of examples."""
        found = self._vmaps(number, 0)
        return {label: found[label] for label in sorted(found, key=lambda label: int(label.rpartition(":")[2]))}

    def _vmaps(self, number: int, depth: int) -> dict[str, int]:
        life = self.lives.get(number)
        if life is None or depth > DEEPEST:
            return {}
        fields = dict(life.tracer.fields)
        inner = [each for each in life.tracer.holds if each]
        if "variable" in fields and number in self.kept.variables:
            run, _ = self._home(self.kept.variables[number], life.born)
            inner = [] if run is None else [each for each in run.operands if each and each != number]
        own = {life.tracer.level: _size(fields["batched"], int(fields["axis"]))} if "batched" in fields else {}
        return own | {label: size for each in inner for label, size in self._vmaps(each, depth + 1).items()}

    def is_zero(self, number: int) -> bool:
        """Whether the value's tangent is a symbolic zero."""
        return type(self.kept.inside.get(number, {}).get(1)) is Zero

    def _guarded(self, what: str, number: int) -> Found:
        if (what, number) in self._going or len(self._going) > DEEPEST:
            return TOO_DEEP
        self._going.add((what, number))
        try:
            return getattr(self, "_" + what)(number)  # type: ignore[no-any-return]
        except Exception as error:  # the error becomes the cell's text; the view goes on
            return why(error)
        finally:
            self._going.discard((what, number))

    def _primal(self, number: int) -> Found:
        array = self.kept.array(number)
        if array is not None:
            return readable(array)
        life = self.lives.get(number)
        if life is None:
            return NOT_KEPT
        fields = dict(life.tracer.fields)
        if self.elsewhere:
            # a file has the text of a small value
            text = fields.get("value", fields.get("primal", ""))
            return ELSEWHERE if not text or text.endswith(life.tracer.type) else Unknown(text)
        if "primal" in fields:
            return self._inner(number, 0, "primal")
        if "batched" in fields:
            return self._batched(number, int(fields["axis"]), self._inner(number, 0, "primal"))
        if "tangent" in fields:
            return NOT_FORWARD
        if number not in self.kept.variables:
            return NOT_KEPT
        found = self._staged(number, "value")
        return RUN_LEFT_OUT if found is NOT_RUN and self.kept.programs_left_out else found

    def _tangent(self, number: int) -> Found:
        fields = self._fields(number)
        if "batched" in fields:
            return self._batched(number, int(fields["axis"]), self._inner(number, 0, "tangent"))
        if "primal" in fields:
            known = len(self._holds(number)) > 1 and not self._unknown_tangent(number)
            own = self._inner(number, 1, "primal") if known else None
            # if only linearize is around the value, its tangent is the tangent of the value inside
            return own if own is not None or self.is_zero(number) else self._inner(number, 0, "tangent")
        if "variable" in fields:
            found = self._staged(number, "tangent")
            return None if found is NOT_RUN else found
        return None

    def _cotangent(self, number: int) -> Found:
        found = self._staged(number, "cotangent")
        return None if found is NOT_RUN else found

    def _fields(self, number: int) -> Mapping[str, str]:
        life = self.lives.get(number)
        return {} if life is None else dict(life.tracer.fields)

    def _holds(self, number: int) -> Sequence[int]:
        """The numbers of the values inside a tracer, 0 for a value without a number."""
        holds = self.lives[number].tracer.holds
        return holds or (0,) * len(self.kept.inside.get(number, {}))

    def _inner(self, number: int, index: int, what: str) -> Found:
        """The primal or tangent of the value at ``index`` inside the tracer ``number``."""
        holds = self._holds(number)
        inner = holds[index] if index < len(holds) else 0
        if inner:
            return self._guarded(what, inner)
        raw = self.kept.inside.get(number, {}).get(index)
        if what != "primal" or type(raw) is Zero:
            return None
        if raw is None:
            return NOT_KEPT
        return readable(raw)

    def _batched(self, number: int, axis: int, inner: Found) -> Found:
        """The array of a batch tracer; the axis of its examples moves behind the axes of the outer vmaps."""
        if not isinstance(inner, Worth):
            return inner
        before = len(inner.axes)
        array = inner.array
        shape = list(array.aval.shape)
        shape.insert(before, shape.pop(before + axis))
        value = np.moveaxis(np.asarray(array._value()), before + axis, before)
        moved = Array(value, array.aval.update(shape=tuple(shape)))
        return Worth(moved, (*inner.axes, self.lives[number].tracer.level))

    # --- staged programs
    # ----------------------------------------------------------------------------------------------

    def _staged(self, number: int, what: str) -> Found:
        var = self.kept.variables[number]
        frame = self._frame_of(var, self.lives[number].born)
        if frame is None:
            return NOT_RUN
        if isinstance(frame, Unknown):
            run, _ = self._home(var, self.lives[number].born)
            around = ELSEWHERE if run is None else self._root(run)
            # without derivatives, no tangent is missing
            plain = not isinstance(around, Unknown) and what not in around[0].feed.kinds
            return None if plain and what != "value" else frame
        found, labels = frame
        value = getattr(found, what)(var)
        if value is None or isinstance(value, Unknown):
            return value  # type: ignore[no-any-return]
        return Worth(value, tuple(label for label, m in zip(labels, found.mapped(var, what), strict=False) if m))

    def loops(self, number: int) -> tuple[LoopShown, ...]:
        """The loops around a staged variable, outermost first."""
        if self.elsewhere:
            return self._saved_loops(number)
        var = self.kept.variables.get(number)
        life = self.lives.get(number)
        if var is None or life is None or "variable" not in dict(life.tracer.fields):
            return ()
        try:
            run, path = self._home(var, life.born)
            if run is None:
                return ()
            operand = next((n for n in run.operands if n in self.kept.variables), number)
            found = [*self.loops(operand)] if operand != number else []
            self._reached(run, path, found)
            return tuple(found)
        except Exception:  # a value that cannot be evaluated has no iteration to choose
            return ()

    def _saved_loops(self, number: int) -> tuple[LoopShown, ...]:
        """The mesh whose devices have the value, for a recording from a file."""
        if self._saved is None:
            shown = [moment.shown for moment in self.recording.devices if moment.shown is not None]
            self._saved = {column.number: each for each in shown for column in each.columns if column.number}
        record = self._saved.get(number)
        return () if record is None else (saved_mesh(record, self.iterations.get(record.key) or 0),)

    # --- devices
    # ----------------------------------------------------------------------------------------------------

    def variable(self, number: int) -> Var | None:
        """The variable of a tracer, or of the tracer inside it; None for an array."""
        return self.kept.variables.get(self._staged_within(number))

    def _staged_within(self, number: int) -> int:
        for _ in range(DEEPEST):
            life = self.lives.get(number)
            if life is None or "variable" in dict(life.tracer.fields):
                break
            number = next(iter(life.tracer.holds), 0)
        return number

    def devices(self, number: int) -> LoopShown | None:
        """The innermost mesh whose devices run the program with the value; None outside of ``shard_map``."""
        return next((loop for loop in reversed(self.loops(self._staged_within(number))) if loop.axes), None)

    def on_device(self, mesh: tuple[int, ...], device: int | None, number: int, what: str = "primal") -> Found:
        """The 'primal' or 'tangent' on ``device``; None: on all devices, stacked where they differ."""
        with self.chosen({**self.iterations, mesh: device}):
            return self._guarded(what, number)

    def equation_of(self, number: int) -> JaxprEqn | None:
        """The equation that computes a variable, in the program that ran."""
        var, life = self.variable(number), self.lives.get(number)
        path = () if var is None or life is None else self._home(var, life.born)[1]
        found = (eqn for eqn in path[-1][1].eqns if var in eqn.outvars) if path else iter(())
        return next(found, None)

    def place_of_part(self, number: int) -> DividedPart | None:
        """The array that a value is a part of; None unless the value enters or leaves a program on devices."""
        var, life = self.kept.variables.get(number), self.lives.get(number)
        run, path = (None, ()) if var is None or life is None else self._home(var, life.born)
        if run is None or not path or "in_specs" not in path[-1][0].params:
            return None
        eqn, jaxpr = path[-1]
        for specs, inner, outer in (("in_specs", jaxpr.invars, eqn.invars), ("out_specs", jaxpr.outvars, eqn.outvars)):
            if var in inner:
                place = inner.index(var)
                around = self._around(run, path[:-1])
                return None if around is None else DividedPart(eqn.params[specs][place], around, outer[place])
        return None

    def _around(self, run: RunRecord, path: Sequence[tuple[JaxprEqn, Jaxpr]] = ()) -> Any:
        """The frame of the program that the path leads to, in the chosen iterations; None if it is unknown."""
        found = self._reached(run, path)
        return None if isinstance(found, Unknown) else found[0]

    def frame(self, run: RunRecord) -> Any:
        """The frame around a run's single equation (see ``equation``); an Unknown says why there is none."""
        found = self._root(run)
        return found if isinstance(found, Unknown) else found[0]

    def call_of(self, bind: BindRecord) -> DividedCall | None:
        """``bind`` as a call that runs a program on devices; None for other operations."""
        run = self.kept.runs.get(bind.at)
        number = next(filter(None, bind.results), 0)
        var, life = self.variable(number), self.lives.get(number)
        path: Any = ()
        eqn = self.equation_of(number)
        if eqn is not None and var is not None and life is not None:
            run, path = self._home(var, life.born)
        elif run is not None:
            eqn = self.equation(run)[1]
        if run is None or eqn is None or not is_mapped(eqn):
            return None
        frame = self._around(run, path)
        meshes: list[LoopShown] = []
        self._reached(run, (*path, (eqn, eqn.params["jaxpr"].jaxpr)), meshes)
        return None if frame is None or not meshes else DividedCall(frame, eqn, meshes[-1])

    def _frame_of(self, var: Var, born: int) -> Any:
        """``var``'s frame and the labels of the vmaps around it. An Unknown says why not. None: never run."""
        run, path = self._home(var, born)
        if run is None:
            return self._unrun(var)
        return self._reached(run, path)

    def _reached(
        self, run: RunRecord, path: Sequence[tuple[JaxprEqn, Jaxpr]], loops: list[LoopShown] | None = None
    ) -> Any:
        """The frame that the path leads to, in the chosen iterations, and the labels of the vmaps; or an Unknown.

        The loops on the way are added to ``loops``.
        """
        known = self._root(run)
        if isinstance(known, Unknown):
            return known
        frame, labels = known
        every = False
        for step, (eqn, jaxpr) in enumerate(path):
            index = self.iterations.get((run.at, step), 0)
            if every and eqn.primitive.name in ("cond", "while"):
                return OWN_WAYS
            if loops is not None and eqn.primitive.name in COUNTED:
                loops += self._loop((run.at, step), frame, eqn, jaxpr)
            frame = self._inside(frame, eqn, jaxpr, index)
            if isinstance(frame, Unknown):
                return frame
            if index is None:
                every, axes = True, [axis.name for axis in manual_axes(eqn)]
                labels = (*labels, *[f"{MESH}{step}:{place}:{axis}" for place, axis in enumerate(axes)])
        return frame, labels

    def _loop(self, key: tuple[int, ...], frame: Any, eqn: JaxprEqn, jaxpr: Jaxpr) -> Iterator[LoopShown]:
        count, name = frame.count(eqn), eqn.primitive.name
        if not isinstance(count, int):
            return
        if name == "while" and jaxpr is eqn.params["cond_jaxpr"].jaxpr:
            count += 1  # the last check of the condition, which is false
        axes = tuple((axis.name, axis.size) for axis in manual_axes(eqn)) if is_mapped(eqn) else ()
        index = self.iterations.get(key) or 0
        yield LoopShown(key, name, index, count, place_in_mesh(axes, index), axes, bool(eqn.params.get("check_vma")))

    def _inside(self, frame: Any, eqn: JaxprEqn, jaxpr: Jaxpr, index: int | None) -> Any:
        """The frame of the program ``jaxpr`` inside ``eqn``."""
        is_cond = eqn.primitive.name == "cond"
        # if examples take different branches of a cond, each branch has a frame
        places = range(len(eqn.params["branches"])) if is_cond else (index,)
        refused: Any = NOT_TAKEN if is_cond else NO_TURN if eqn.primitive.name in COUNTED else NOT_FOLLOWED
        parts = frame.parts(eqn)
        if "fwd" in parts and jaxpr is eqn.params["call_jaxpr"].jaxpr:
            return FORWARD_RULE
        for part in parts:
            for place in places:
                try:
                    found = frame.inside(eqn, place, part)
                except IndexError:
                    continue
                if isinstance(found, Unknown):
                    refused = found
                elif found.jaxpr is jaxpr or part == "fwd" and _same_variables(found.jaxpr, jaxpr):
                    return found
        return refused

    def _home(self, var: Var, born: int) -> tuple[RunRecord | None, Any]:
        """The first execution after tracing that computes ``var``, and the path of enclosing equations."""
        if self._homes is None:
            homes: _Homes = {}
            for run in self.kept.runs.values():
                _, eqn = self.equation(run)
                _look_through(homes, run.at, (), eqn)
            self._homes = homes
        known = self._homes.get(var, ())
        later = [each for each in known if each[0] >= born] or list(known)

        # The innermost run comes first. If its devices communicate, runs of enclosing programs come before it, because
        # a frame of one device alone lacks the values of the others.
        def place(home: tuple[int, Any]) -> tuple[bool, int, int]:
            run = self.kept.runs[home[0]]
            return self._names_axes(run), home[0], len(home[1])

        for at, path in sorted(later, key=place):
            return self.kept.runs[at], path
        return None, ()

    def _names_axes(self, run: RunRecord) -> bool:
        """Whether the program of a run has collectives, or types that list the axes along which values vary."""
        found = self._axes.get(run.at)
        if found is None:
            params = dict(run.params)
            found = self._axes[run.at] = bool(axes_of(run.operation, params)) or any(map(_varies, subjaxprs(params)))
        return found

    def equation(self, run: RunRecord) -> tuple[ClosedJaxpr, JaxprEqn]:
        """A run's operation as a program with one equation, and that equation."""
        found = self._single.get(run.at)
        if found is None:
            primitive = run.operation

            def once(*xs: Any) -> Sequence[Any]:
                out = primitive.bind(*xs, **run.params)
                return out if primitive.multiple_results else [out]

            with apart():
                closed = stage(once, run.avals, "values")
            eqn = next(e for e in closed.jaxpr.eqns if e.primitive is primitive)
            found = self._single[run.at] = closed, eqn
        return found

    def _root(self, run: RunRecord) -> Any:
        """The frame around a run's single equation, and the labels of the vmaps over its operands."""
        if self._glancing and self._weight(run) > MOST_GLANCED:
            return TAKES_LONG
        # the chosen iteration of the run's own loops does not affect its operands
        outer = sorted(item for item in self.iterations.items() if item[0][0] != run.at)
        key = (run.at, tuple(outer), tuple(sorted(self.examples.items())))
        found = self._frames.get(key)
        if found is None:
            found = self._frames[key] = self._made_root(run)
            while len(self._frames) > MOST_FRAMES:
                self._frames.popitem(last=False)
        else:
            self._frames.move_to_end(key)
        return found

    def _weight(self, run: RunRecord) -> float:
        """The estimated cost of a run's program, in NumPy calls."""
        found = self._weights.get(run.at)
        if found is None:
            try:
                with apart():
                    found = program(self.equation(run)[0]).weight
            except Exception:  # NumPy has no program for some operations
                found = math.inf
            self._weights[run.at] = found
        return found

    def weight(self, number: int) -> float:
        """The cost of computing the value of a staged variable, in NumPy calls; 0 for other values."""
        var, life = self.kept.variables.get(number), self.lives.get(number)
        run = None if var is None or life is None else self._home(var, life.born)[0]
        return 0.0 if run is None else self._weight(run)

    def _made_root(self, run: RunRecord) -> Any:
        closed, _ = self.equation(run)
        operands = [self._operand(run, i, "primal") for i in range(len(run.operands))]
        tangents = [self._operand(run, i, "tangent") for i in range(len(run.operands))]
        found = [x for x in (*operands, *tangents) if isinstance(x, Worth)]
        labels = sorted({label for x in found for label in x.axes}, key=_depth)
        sizes = {label: x.array.aval.shape[i] for x in found for i, label in enumerate(x.axes)}
        names = {size: name for name, size in run.axes}
        mapped, args, moving = [], [], []
        for x, t in zip(operands, tangents, strict=True):
            flags = [any(isinstance(v, Worth) and label in v.axes for v in (x, t)) for label in labels]
            mapped.append(flags)
            args.append(_spread(x, labels, flags, sizes))
            moving.append(None if t is None else _spread(t, labels, flags, sizes))
        begun = (node for node in timeline(self.recording).begun(run.at) if node.at == run.at)
        bind = next(node for node in begun if isinstance(node, BindRecord))
        arriving = [self._result_cotangent(number, labels, sizes) for number in bind.results]
        frame = replay(
            closed,
            args,
            moving if any(t is not None for t in moving) else None,
            arriving if any(ct is not None for ct in arriving) else None,
            axes=[(_axis_name(label, names.get(sizes[label])), sizes[label]) for label in labels],
            mapped=mapped,
            most_bytes=FRAME_BYTES,
        )
        chosen = [self.examples.get(label) for label in labels]
        if any(index is not None for index in chosen):
            index = [None if i is None else min(i, sizes[label] - 1) for i, label in zip(chosen, labels, strict=True)]
            return frame.example(*index), [label for i, label in zip(index, labels, strict=True) if i is None]
        return frame, labels

    def _result_cotangent(self, number: int, labels: Sequence[str], sizes: Mapping[str, int]) -> Any:
        found = self.cotangent(number) if number else None
        if isinstance(found, Worth):
            return _spread(found, labels, [bool(found.axes)] * len(labels), sizes)
        return found

    def _operand(self, run: RunRecord, index: int, what: str) -> Found:
        number = run.operands[index]
        if number:
            return self._guarded(what, number)
        return readable(run.literals[index]) if what == "primal" and index in run.literals else None

    def _unrun(self, var: Var) -> Any:
        """The frame of a program that never ran, on the arguments of the call; None if no such program has ``var``."""
        for closed in self._own_programs():
            if var in set(_variables(closed.jaxpr)):
                key = ("call", id(closed))
                if key not in self._frames:
                    self._frames[key] = replay(closed, self.arguments, most_bytes=FRAME_BYTES), ()
                return self._frames[key]
        return None

    def _own_programs(self) -> Iterator[ClosedJaxpr]:
        """The staged programs whose inputs have the types of the call's arguments."""
        if not self.arguments:
            return
        types = [as_array(x).aval for x in self.arguments]
        outermost = {record.at for record in self.recording.jaxprs if record.depth == 1}
        for at, (kind, closed) in self.kept.programs.items():
            given = [v.aval for v in closed.jaxpr.invars]
            if (
                kind == "staged"
                and at in outermost
                and [t.update(weak_type=False) for t in types] == [t.update(weak_type=False) for t in given]
            ):
                yield closed


def saved_mesh(record: DevicesRecord, index: int) -> LoopShown:
    """The mesh in the record of a file, with device ``index`` chosen."""
    index = min(index, record.count - 1)
    where = place_in_mesh(record.axes, index)
    return LoopShown(record.key, record.kind, index, record.count, where, record.axes, record.checked)


def _look_through(homes: _Homes, at: int, path: tuple[tuple[JaxprEqn, Jaxpr], ...], eqn: JaxprEqn) -> None:
    """Add to ``homes`` the paths to the variables of the programs inside ``eqn``."""
    if len(path) > DEEPEST:
        return
    for jaxpr in (*subjaxprs(eqn.params), *_forward_rules(eqn)):
        inner = (*path, (eqn, jaxpr))
        for var in _variables(jaxpr):
            homes.setdefault(var, []).append((at, inner))
        for each in jaxpr.eqns:
            if any(True for _ in subjaxprs(each.params)):
                _look_through(homes, at, inner, each)


def _varies(jaxpr: Jaxpr) -> bool:
    """Whether a program outside of ``shard_map`` has types that list the axes along which values vary."""
    return any(
        eqn.primitive is pvary_p or not is_mapped(eqn) and any(map(_varies, subjaxprs(eqn.params)))
        for eqn in jaxpr.eqns
    )


def _forward_rules(eqn: JaxprEqn) -> Iterator[Jaxpr]:
    """The fwd rule of a custom_vjp call, staged for the types of its arguments."""
    rule = eqn.params.get("fwd_jaxpr_thunk")
    if isinstance(rule, StagedFunction):
        yield from [closed.jaxpr.jaxpr for closed in rule.found.values()]


def _same_variables(a: Jaxpr, b: Jaxpr) -> bool:
    """Whether both are the same program, even if one has lost its effects."""
    return a.invars == b.invars and a.outvars == b.outvars


def _variables(jaxpr: Jaxpr) -> Iterator[Var]:
    yield from jaxpr.constvars
    yield from jaxpr.invars
    for eqn in jaxpr.eqns:
        yield from eqn.outvars


def _spread(x: Found, labels: Sequence[str], flags: Sequence[bool], sizes: Mapping[str, int]) -> Any:
    """The array of ``x``, with an axis for each label that has a flag; an Unknown is returned unchanged."""
    if not isinstance(x, Worth):
        return x
    wanted = [label for label, flag in zip(labels, flags, strict=True) if flag]
    if list(x.axes) == wanted:
        return x.array
    value, shape = np.asarray(x.array._value()), list(x.array.aval.shape)
    for place, label in enumerate(wanted):
        if label not in x.axes:
            value = np.repeat(np.expand_dims(value, place), sizes[label], place)
            shape.insert(place, sizes[label])
    return Array(value, x.array.aval.update(shape=tuple(shape)))


def worth(frame: Any, atom: Any) -> Found:
    """The value of a variable or literal in a frame."""
    found = frame.value(atom)
    if found is None or isinstance(found, Unknown):
        return found  # type: ignore[no-any-return]
    return Worth(found, ("",) * sum(frame.mapped(atom)))


def _size(type: str, axis: int) -> int:
    """The size of an axis in a type: 3 for axis 1 of ``f32[2,3@x]``."""
    return int(type.partition("[")[2].partition("]")[0].split(",")[axis].partition("@")[0])


def _depth(label: str) -> tuple[bool, tuple[int, ...]]:
    """Sort key for labels of leading axes: vmaps first, outermost first, then meshes."""
    if label.startswith(MESH):
        return True, tuple(map(int, label.removeprefix(MESH).split(":")[:2]))
    return False, (int(label.rpartition(":")[2]),)


def _axis_name(label: str, name: Any) -> Any:
    return label.split(":", 2)[2] if label.startswith(MESH) else name


def readable(x: Any) -> Found:
    """``x`` as a value, or an Unknown if it can no longer be read."""
    try:
        array = as_array(x)
        array._value()
    except Exception as error:  # the array was donated, or its computation failed
        return why(error)
    return Worth(array)


def at_hand(recording: Recording) -> Ledger | None:
    """The ledger of ``recording``; None if its values are in another process."""
    return ledger(recording) if recording.has_values else None


def ledger(recording: Recording) -> Ledger:
    """The ledger of ``recording``: the same object on each call."""
    found: Ledger | None = recording.__dict__.get("_ledger")
    if found is None:
        found = recording.__dict__["_ledger"] = Ledger(recording)
    return found
