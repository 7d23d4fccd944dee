"""The line of each optimised instruction, beside what its shape, its opcode and its constants say."""

import collections

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax.backend import pjrt
from minijax.backend.failures import CompileError
from minijax.tools.documents.document import Document, plain
from minijax.tools.programs import hlo, link_views, links, owners
from minijax.tools.programs.owners import GUESSED, INHERITED, MADE
from minijax.tools.programs.user_lines import user_lines
from minijax.tools.xla import pipeline, stages
from tests.tools.programs.one_operation_a_line import NO_WORK, Program

COUNT = 80


def judged(seed):
    """The number of instructions by how their lines are known; AssertionError if a line is wrong and not a guess."""
    program = Program(seed)
    lowered = program.lowered()
    linked = links.of_lowered(lowered)
    known, possible = user_lines(linked), program.possible(lowered.compile().raw_text())
    counts = collections.Counter()
    pane = linked.hlo
    for i, each in hlo.instructions(pane.lines).items():
        if each.opcode in NO_WORK or not possible.get(each.name):
            continue
        places = known.places(pane.links[i])
        lines = {number for file, number in places if file == program.file}
        counts[pane.notes[i]] += 1
        assert bool(places) == (pane.notes[i] != MADE)
        said = f"{pane.lines[i]}\n{sorted(lines)} ({pane.notes[i]}), not {sorted(possible[each.name])}"
        assert pane.notes[i] == GUESSED or lines <= possible[each.name], said + "\n" + "\n".join(program.text)
    return counts


@pytest.mark.parametrize("seed", range(COUNT))
def test_every_instruction_has_its_line_or_is_marked_as_a_guess(seed):
    assert judged(seed).total()


def test_at_most_a_tenth_is_guessed():
    counts = sum((judged(seed) for seed in range(0, COUNT, 7)), collections.Counter())
    assert counts[INHERITED] > 50 and 10 * (counts[GUESSED] + counts[MADE]) <= counts.total()


def loss(w, x):
    h = jnp.tanh(x @ w)
    err = h - 1.0
    return (err**2).mean()


@pytest.mark.parametrize("of", ["value", "gradient", "both"])
def test_views_of_an_optimised_program_agree(of):
    made = {"value": loss, "gradient": minijax.grad(loss), "both": minijax.value_and_grad(loss)}[of]
    args = np.ones((4, 3), np.float32), np.ones((2, 4), np.float32)
    lowered = minijax.jit(made).lower(*args)
    linked, found = links.of_lowered(lowered), stages.stages(pipeline.descent(lowered))
    first = loss.__code__.co_firstlineno
    final = next(stage for stage in found.all if stage.kind == "final")
    rows, known = {}, user_lines(linked)
    for each, numbers, note in zip(final.lines, linked.hlo.links, linked.hlo.notes, strict=True):
        assert (each.equations, each.note) == (numbers, note)
        if each.opcode:
            rows.setdefault(each.opcode, []).append(({line - first for _, line in known.places(numbers)}, note))
    # the matrix product, and its transpose, which XLA made of two operations
    assert rows["dot"] == [({1}, "")] + [({1}, INHERITED)] * (of != "value")
    # XLA makes an addition of -1 of the subtraction; the derivative of tanh subtracts, too
    added = [one for one in rows["add"] if one[1] == INHERITED]
    assert added and all(one == ({2}, INHERITED) for one in added)
    assert all(lines == {1} for lines, _ in rows.get("subtract", ()))
    # products by merged constants, and the division that became a product, are of the last line
    assert all(lines == {3} for lines, note in rows["multiply"] if note == INHERITED)
    assert {3} in [lines for lines, _ in rows.get("multiply", ())]
    # a fusion has the lines of its instructions
    every = {line for lines, _ in rows["fusion"] for line in lines}
    assert every == {1, 2, 3}
    # every line has something in each of XLA's stages, and a pass of simplification changes all of them
    for stage in found.all:
        if stage.kind in ("given", "pass", "final"):
            assert {line - first for each in stage.lines for _, line in each.places} == {1, 2, 3}
    shown = {each.title: [line - first for _, line in found.touched(each)] for each in found.all if each.kind == "pass"}
    assert shown["simplification · algsimp"][-2:] == [2, 3]
    # the signs, and what they mean
    text = plain(Document((link_views.annotated(linked, linked.hlo),)), 200)
    name = __file__.rpartition("/")[2]
    assert f"↳{name}:{first + 2} · sub" in text and "↳ inherited from the instruction that it replaced" in text
    assert f"// eqn 1 · {name}:{first + 1} · dot_general" in text
    (mark,) = {found.mark(each) for each in final.lines if each.opcode == "add" and each.note == INHERITED}
    assert mark == f"↳L{first + 2}"


def test_signs_say_how_a_line_is_known():
    assert [link_views.signed("L4", how) for how in ("", INHERITED, GUESSED)] == ["L4", "↳L4", "L4?"]
    assert link_views.signed("", GUESSED) == ""
    assert owners.least_certain(["", INHERITED, ""]) == INHERITED and owners.least_certain([]) == ""
    assert owners.least_certain([GUESSED, INHERITED]) == GUESSED


def test_without_the_program_that_xla_received_lines_are_guessed():
    program = minijax.jit(minijax.grad(loss)).lower(np.ones((4, 3), np.float32), np.ones((2, 4), np.float32))
    lines = program.compile().raw_text().strip("\n").split("\n")
    places = program.places()
    found = owners.owners(lines, lambda at: [at], [set()])
    hows = {each.how for each in found.values()}
    assert GUESSED in hows and INHERITED not in hows
    known = owners.owners(lines, lambda at: [at], [set()], pjrt.unoptimized_text(places.text))
    assert GUESSED not in {each.how for each in known.values()}
    with pytest.raises(CompileError, match="XLA could not compile"):
        pjrt.unoptimized_text("module @no {")
