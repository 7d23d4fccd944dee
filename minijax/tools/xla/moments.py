"""The stages of the compiled call that runs at a recording's cursor."""

from __future__ import annotations

from minijax.ops.call import compiled, lowered_places
from minijax.tools.programs.user_lines import Spot
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.naming import Naming
from minijax.tools.recording.records import place_parts
from minijax.tools.recording.values import RunRecord
from minijax.tools.xla.pipeline import program_descent
from minijax.tools.xla.stages import Stages, stages


def compiled_call(cursor: Cursor) -> RunRecord | None:
    """The innermost call of a compiled program at the cursor; None if none is open, or if it was not recorded."""
    kept = cursor.recording.kept
    for bind in reversed(cursor.state().path):
        run = None if kept is None else kept.runs.get(bind.at)
        # a call with in_shardings ran another program than its jaxpr
        if run is not None and run.primitive == "jit" and run.level == "eval" and "in_shardings" not in run.params:
            return run
    return None


def call_stages(run: RunRecord, naming: Naming) -> Stages:
    """The stages of the call, whose arguments are named after the variables that held them. The program is compiled
    again, but it does not run. Raises the errors of compiling."""
    params = run.params
    closed, name = params["jaxpr"], params["name"]
    how = params.get("donated_invars", ()), params.get("keep_unused", False)
    names = [naming.variable(number) for number in run.operands]
    # if two arguments have the same name, neither is named
    names = [each if names.count(each) == 1 else "" for each in names]
    called = names if len(names) == len(closed.in_avals) else ()
    return stages(program_descent(compiled(closed, name, *how), closed, lowered_places(closed, name, *how), called))


def spot_at(cursor: Cursor, known: Stages) -> tuple[Spot, ...]:
    """The source line at the cursor; () if no equation of the program comes from it."""
    file, line, _ = place_parts(cursor.state().place)
    return ((file, line),) if (file, line) in known.colours else ()
