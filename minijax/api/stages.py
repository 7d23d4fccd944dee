"""The stages of a jitted call: ``Traced`` (a jaxpr), ``Lowered`` (StableHLO), ``Compiled`` (an executable)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from minijax.api.repeated import Repeat
from minijax.backend import pjrt
from minijax.core.array import CommittedArray, device_array, get_aval
from minijax.core.lazy import HigherModule
from minijax.core.shape_structs import ShapeDtypeStruct
from minijax.core.trace import Tracer
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.ops.call import Compiled, compiled, lowered, lowered_places
from minijax.pytree import tree_flatten, tree_unflatten

if TYPE_CHECKING:
    from minijax.lowering.places import ModulePlaces

_partitioned = HigherModule("partitioned_programs")
_shardings = HigherModule("shardings")


class StagedCall:
    """One signature of a jitted function: its jaxpr, the closed-over outer tracers, its output tree."""

    def __init__(
        self,
        closed: ClosedJaxpr,
        outer: list[Any],
        in_tree: Any,
        out_tree: Any,
        params: dict[str, Any],
        refs: Sequence[Any] = (),
    ) -> None:
        self.closed = closed
        self.outer = outer
        # closed-over references; they are the last operands
        self.refs = refs
        # the tree of the dynamic (args, kwargs)
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.params = params
        self.program: Compiled | None = None
        self.repeat: Repeat | None = None
        # places of the committed leaves -> the program partitioned over a mesh, or None
        self.over: dict[tuple[Any, ...], Any] = {}
        # the calls with concrete arguments so far: the classes of all leaves, and the places of the committed leaves
        self.met: set[tuple[tuple[type, ...], tuple[Any, ...]]] = set()

    @property
    def how(self) -> tuple[Any, bool]:
        """The compile options: which arguments are donated, and whether unused arguments are passed."""
        return self.params["donated_invars"], self.params.get("keep_unused", False)


def placement_at(staged: StagedCall, leaves: Sequence[Any], name: str, label: Any) -> Any:
    """The devices and shardings of a call with these leaves; None if it runs on one device."""
    params = staged.params
    options = params.get("in_shardings", ()), params.get("out_shardings", ()), params.get("keep_unused", False)
    if not (pjrt.others_in_use or any(isinstance(x, ShapeDtypeStruct) and x.sharding is not None for x in leaves)):
        return None
    return _partitioned.placement_of(staged.closed, [*staged.outer, *leaves, *staged.refs], name, *options, label)


# The most placements kept for the arguments of one signature. Before there are more, all are dropped.
MAX_PLACES = 1024


def partitioned_at(staged: StagedCall, leaves: Sequence[Any], places: tuple[Any, ...], name: str, label: Any) -> Any:
    """The partitioned program of a call with these leaves, committed to ``places``; None if it runs on one device."""
    try:
        return staged.over[places]
    except KeyError:
        pass
    placement = placement_at(staged, leaves, name, label)
    program = None
    if placement is not None:
        program = _partitioned.partitioned(staged.closed, staged.params["name"], placement, *staged.how)
    if len(staged.over) >= MAX_PLACES:
        staged.over.clear()
    staged.over[places] = program
    return program


class Traced:
    """A staged call, with ``jaxpr`` and ``out_info``. ``lower()`` lowers it for its ``device`` or ``placement``."""

    def __init__(self, name: str, staged: StagedCall, device: Any = None, placement: Any = None) -> None:
        self.fun_name = name
        self.device = device
        self.placement = placement
        self._staged = staged
        self.jaxpr = staged.closed

    @property
    def out_info(self) -> Any:
        """The outputs' shapes and dtypes, as a tree of ``ShapeDtypeStruct``s."""
        leaves = [ShapeDtypeStruct.of(a) for a in self.jaxpr.out_avals]
        return tree_unflatten(self._staged.out_tree, leaves)

    def lower(self) -> Lowered:
        """The StableHLO program."""
        return Lowered(self, lowered(self.jaxpr, self.program_name, *self._staged.how, self.placement).text)

    def places(self) -> ModulePlaces:
        """The equation of each line of the lowered module."""
        return lowered_places(self.jaxpr, self.program_name, *self._staged.how, self.placement)

    @property
    def program_name(self) -> str:
        """The program's name, as in jaxprs."""
        return self._staged.params["name"]  # type: ignore[no-any-return]


class Lowered:
    """A StableHLO program: ``as_text()`` shows it, ``compile()`` compiles it."""

    def __init__(self, traced: Traced, text: str) -> None:
        self._traced = traced
        self._text = text
        self.jaxpr = traced.jaxpr

    @property
    def placement(self) -> Any:
        """The devices and shardings, a ``core.shardings.Placement``; None for one device."""
        return self._traced.placement

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The module as MLIR text; ``debug_info`` adds locations. ValueError for a dialect other than 'stablehlo'."""
        if dialect not in (None, "stablehlo"):
            raise ValueError(f"unknown dialect {dialect!r}: minijax lowers to 'stablehlo'")
        return self.places().located_text() if debug_info else self._text

    def places(self) -> ModulePlaces:
        """The equation of each line of the module."""
        return self._traced.places()

    def cost_analysis(self) -> dict[str, Any]:
        """XLA's estimates for the unoptimised module: flops, bytes accessed, ..."""
        return pjrt.text_costs(self._text, name=self._traced.fun_name)

    @property
    def out_info(self) -> Any:
        return self._traced.out_info

    def compile(self) -> CompiledFunction:
        """Compile the program with XLA."""
        traced = self._traced
        how = traced._staged.how
        if traced.placement is None:
            return CompiledFunction(traced, compiled(traced.jaxpr, traced.program_name, *how))
        program = _partitioned.partitioned(traced.jaxpr, traced.program_name, traced.placement, *how)
        return CompiledFunction(traced, program)


class CompiledFunction:
    """An XLA executable: callable on arguments of its types; shows its HLO, costs and memory."""

    def __init__(self, traced: Traced, program: Compiled) -> None:
        self._traced = traced
        self._program = program

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on arguments of the staged types. TypeError for other types or tracers, ValueError for another device."""
        leaves, in_tree = tree_flatten((args, kwargs))
        if in_tree != self._traced._staged.in_tree:
            raise TypeError(
                f"Function compiled with input pytree does not match the input pytree it was called with: {in_tree} "
                f"instead of {self._traced._staged.in_tree}. Pass what was passed to lower, without the static "
                "arguments."
            )
        for x in leaves:
            if isinstance(x, Tracer):
                raise TypeError(
                    "Cannot apply JAX transformations to a function lowered and compiled for a particular signature. "
                    f"Detected argument of Tracer type {type(x)}. Transform the function before lowering it."
                )
        expected = self._traced.jaxpr.in_avals
        found = [get_aval(x) for x in leaves]
        if [(a.shape, a.dtype) for a in found] != [(a.shape, a.dtype) for a in expected]:
            raise TypeError(
                "Argument types differ from the types for which this computation was compiled: expected "
                f"{[str(a) for a in expected]}, got {[str(a) for a in found]}."
            )
        outs = self._run(leaves) if pjrt.others_in_use else self._program(*leaves)
        return tree_unflatten(self._traced._staged.out_tree, outs)

    def _run(self, leaves: list[Any]) -> list[Any]:
        """Return the results, on the program's device. They are committed if the arguments were."""
        program, wanted = self._program, self._traced.device
        if self._traced.placement is not None:
            _partitioned.check_lies(program, leaves)
            return program(*leaves)
        found = program.device_of(leaves)
        required = pjrt.local_devices()[0] if wanted is None else wanted
        if found not in (None, required):
            raise ValueError(
                "Computation was compiled for input shardings that disagree with the shardings of arguments passed to "
                f"it: {self._traced.fun_name} was lowered for {required}, and an argument is committed to {found}. "
                "Move the argument with device_put, or lower with arguments on the same devices."
            )
        if wanted is not None:
            return program.on(wanted)(*leaves)
        return program(*[device_array(x._buffer, x.aval) if type(x) is CommittedArray else x for x in leaves])

    def as_text(self) -> str:
        """The optimised HLO. Its metadata names equations and user lines, as in JAX."""
        return self.places().hlo_text(self._program.executable.hlo_text())

    def places(self) -> ModulePlaces:
        """The equation of each line of the compiled module."""
        return self._traced.places()

    @property
    def input_shardings(self) -> Any:
        """The argument shardings, as a tree like ``(args, kwargs)``."""
        in_tree = self._traced._staged.in_tree
        return tree_unflatten(in_tree, self._shardings(0, in_tree.num_leaves))

    @property
    def output_shardings(self) -> Any:
        """The result shardings, as a tree."""
        out_tree = self._traced._staged.out_tree
        return tree_unflatten(out_tree, self._shardings(1, out_tree.num_leaves))

    def _shardings(self, which: int, count: int) -> list[Any]:
        if self._traced.placement is not None:
            return _partitioned.shardings_of(self._program)[which]  # type: ignore[no-any-return]
        device = self._traced.device or pjrt.local_devices()[0]
        return [_shardings.SingleDeviceSharding(device)] * count

    @property
    def program(self) -> Compiled:
        """The executable, for tools."""
        return self._program

    def raw_text(self) -> str:
        """The optimised HLO as XLA prints it. Its metadata names lines of the StableHLO text."""
        return self._program.executable.hlo_text()

    def cost_analysis(self) -> dict[str, Any]:
        """XLA's estimates: flops, bytes accessed, ..."""
        return self._program.executable.cost_analysis()

    def memory_analysis(self) -> Any:
        """XLA's memory plan: argument_size_in_bytes, output_size_in_bytes, temp_size_in_bytes, ..."""
        return self._program.executable.memory_analysis()

    @property
    def out_info(self) -> Any:
        return self._traced.out_info
