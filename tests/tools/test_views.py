"""Views show only what is in the recording, not the current state of the program."""

import minijax
import minijax.numpy as jnp
from minijax.tools.documents.document import plain
from minijax.tools.recording.panel_data import panel_data
from minijax.tools.recording.panels import summary
from minijax.tools.recording.records import (
    CacheRecord,
    ExecutableRecord,
    JaxprRecord,
    ModuleRecord,
    PhaseRecord,
    Recording,
    TracerRecord,
)

SMALL = minijax.make_jaxpr(lambda x: jnp.sin(x) * 2.0)(1.0).jaxpr

MADE_UP = Recording(
    level="summary",
    stack=("eval", "partial_eval:1", "jvp:2"),
    scopes=2,
    binds=(("eval", 4), ("jvp:2", 3)),
    tracers=(
        TracerRecord(1, "jvp:2", "f32[]", (("name", "x"), ("primal", "3.0"), ("tangent", "partial_eval:1 f32[]"))),
        TracerRecord(2, "partial_eval:1", "f32[]", (("unknown", "a"),)),
    ),
    tracers_made=6,
    jaxprs=(JaxprRecord(3, "linear", "f at <minijax-1>:1", 2, SMALL), JaxprRecord(4, "staged", "g", 2, SMALL)),
    jaxprs_made=5,
    caches=(
        CacheRecord(5, "staging", "g", False, "first call"),
        CacheRecord(6, "staging", "g", True, ""),
        CacheRecord(7, "staging", "g", True, ""),
    ),
    phases=(PhaseRecord(8, "trace", "g", 0.0002, 0.0002), PhaseRecord(9, "run", "g", 9e-6, 9e-6)),
    modules=(ModuleRecord(10, "g", 5, (("stablehlo.sine", 5),), ""),),
    executables=(ExecutableRecord(11, "g", 1, 1, (("fusion", 1),), ""),),
    executions=1,
)


def test_a_summary_matches_its_golden_text(golden):
    golden("panels.txt", plain(summary(MADE_UP), 80) + "\n")


def test_truncation_and_other_threads_are_shown():
    text = plain(summary(Recording("summary", scopes=1, truncated=True, events=123456, elsewhere=7)), 120)
    assert "123,456 events" in text and "7 events on other threads" in text


def test_omissions_name_the_keys_of_the_front_end():
    shown = plain(summary(MADE_UP, keys={"tracers": "F3", "jaxpr": "F4"}), 80)
    assert "+1 more (F3)" in shown and "+3 more (F4)" in shown and "%panels" not in shown


def test_tracers_that_variables_hold_come_first():
    held = [TracerRecord(at, "jvp:2", "f32[]", (("name", name),)) for at, name in ((3, "y"), (4, "z"))]
    shown = plain(summary(MADE_UP.replace(tracers=(*MADE_UP.tracers, *held)), ["tracers"]), 80)
    assert "  x  jvp:2" in shown and "  y  jvp:2" in shown and "+2 more" in shown and "unknown" not in shown


def test_programs_with_the_same_name_have_their_own_rows():
    recording = Recording(
        "summary",
        modules=tuple(ModuleRecord(at, "g", at + 4, (("stablehlo.add", at + 4),), "") for at in (1, 3, 5)),
        executables=tuple(
            ExecutableRecord(2 * n, name, n, n, (("fusion", n),), "") for n, name in ((1, "g"), (2, "g"), (3, "h"))
        ),
        executions=1,
    )
    rows = [(each["name"], each["before"], each["after"]) for each in panel_data(recording)["hlo"]]
    assert rows[:2] == [("g", {"stablehlo.add": n + 4}, {"fusion": (n + 1) // 2}) for n in (1, 3)]
    assert rows[2:] == [("g", {"stablehlo.add": 9}, None), ("h", None, {"fusion": 3})]
    lines = [" ".join(each.split()) for each in plain(summary(recording, ["hlo"]), 80).split("\n")]
    assert lines[1:] == ["hlo 7 StableHLO ops → 2 fusions g", "hlo 9 StableHLO ops g", "hlo 3 fusions h"]
