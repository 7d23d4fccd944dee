"""``%passes`` shows the texts that XLA dumps for the same programs. Three of the programs are written for JAX."""

import itertools
import os
import re
import tempfile

import jax
import jax.numpy as real
import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.core import miss_log
from minijax.interop import from_jax
from minijax.tools.documents.document import Document, lay_out, plain
from minijax.tools.documents.theme import line_role
from minijax.tools.programs import hlo, link_views, links
from minijax.tools.stepper import programs
from minijax.tools.usage import UsageError
from minijax.tools.xla import dumps, machine, pipeline, roofline, roofline_view, stages, views

V = np.linspace(0.1, 0.9, 8, dtype=np.float32)
M = np.outer(V, V).astype(np.float32)
LAYERS = [(M, V), (M, V)]


def network(np_):
    def loss(layers, x):
        for weight, bias in layers:
            x = np_.tanh(x @ weight + bias)
        return (x**2).mean()

    return loss


def attention(np_):
    def attend(q, k, v):
        scores = q @ k.T / 8**0.5
        weights = np_.exp(scores - scores.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True)) @ v

    return attend


def recurrence(of, np_):
    def run(c, xs):
        return of.scan(lambda c, x: (np_.sin(c) * x, c), c, xs)[1].sum()

    return run


def branches(x):
    return lax.cond(x.sum() > 1, lambda x: jnp.exp(x), lambda x: x * 2, x)


PROGRAMS = {
    "elementwise": (lambda x: jnp.sin(x) * 2.0 - x, (V,)),
    "reduction": (lambda x: jnp.exp(x).sum() / x.size, (V,)),
    "network": (minijax.grad(network(jnp)), (LAYERS, M)),
    "attention": (attention(jnp), (M, M, M)),
    "scan": (minijax.grad(recurrence(lax, jnp)), (np.float32(0.5), V)),
    "cond": (branches, (V,)),
    "sort and gather": (lambda x, i: jnp.sort(x)[i], (V, np.array([3, 1, 2]))),
    "JAX: attention": (from_jax(attention(real)), (M, M, M)),
    "JAX: scan": (from_jax(jax.grad(recurrence(jax.lax, real))), (np.float32(0.5), V)),
    "JAX: hessian": (from_jax(jax.hessian(lambda x: real.tanh(x) @ M @ x)), (V,)),
}


def written(lowered):
    """XLA's dump of a new compilation: the first text, the texts after each pass, the last text."""
    with tempfile.TemporaryDirectory() as folder:
        flags = (("xla_dump_to", folder), ("xla_dump_hlo_pass_re", ".*"))
        lowered.compile().program.made(lowered.jaxpr, flags=flags)
        texts = {}
        for name in os.listdir(folder):
            if name.endswith(".txt"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    texts[name] = file.read().strip()
    numbered = sorted((number[1], name) for name in texts if (number := re.search(r"\.(\d{4})\.", name)))
    (first,) = (text for name, text in texts.items() if name.endswith("before_optimizations.txt"))
    (last,) = (text for name, text in texts.items() if name.endswith("after_optimizations.txt"))
    return first, [texts[name] for _, name in numbered], last


@pytest.mark.parametrize("name", PROGRAMS)
def test_passes_match_xlas_dump(name, tmp_path, monkeypatch):
    fun, args = PROGRAMS[name]
    lowered = minijax.jit(fun).lower(*args)
    # a temporary folder in which no other process writes
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = pipeline.descent(lowered)
    assert not os.listdir(tmp_path)

    # the texts of the passes are XLA's, in order; a text that a pass left unchanged occurs once
    first, texts, last = written(lowered)
    chain = [found.before.strip(), *(each.after.strip() for each in found.passes)]
    assert chain == [text for text, _ in itertools.groupby((first, *texts, last))]
    assert [each.before.strip() for each in found.passes] == chain[:-1]
    assert chain[-1] == lowered.compile().raw_text().strip()

    # each pass's counts agree with the texts before and after it
    for each in found.passes:
        before, after = (
            sum(one.opcode != "parameter" for one in hlo.instructions(text.split("\n")).values())
            for text in (each.before, each.after)
        )
        assert after - before == each.made.total() - each.gone.total()

    # every instruction that runs belongs to a user's equation or has a note
    pane = found.linked.hlo
    for i in hlo.instructions(pane.lines):
        assert pane.links[i] or pane.notes[i], pane.lines[i]

    stages_agree(stages.stages(found))

    # the memory of each kind, and at the peak, equals XLA's report
    stats = lowered.compile().memory_analysis()
    assert found.memory.reported == stats.peak_memory_in_bytes
    assert found.memory.total("temporary") == stats.temp_size_in_bytes
    assert found.memory.total("argument") == stats.argument_size_in_bytes
    sizes = {held.name + held.part: held.bytes for each in found.memory.allocations for held in each.held}
    assert [sizes[name] for name, _ in found.memory.live] == [size for _, size in found.memory.live]

    # every kernel's code is decoded to its last byte, without unknown operations
    for kernel in found.kernels:
        operations = list(machine.operations(kernel.code))
        assert sum(len(one.bytes) for one in operations) == machine.size(kernel.code) > 0
        assert all(one.mnemonic != "(bad)" for one in operations)
        assert any(one.symbol for one in operations)


def stages_agree(found):
    """Each instruction in each stage belongs to an existing line of Python or has a note, and a line of Python belongs
    to the same equations in every stage.
    """
    kinds = [each.kind for each in found.all]
    assert kinds == sorted(kinds, key=stages.KINDS.index)
    existing = {(pane.title, number) for pane in found.linked.python for number in pane.numbers}
    assert found.spots and set(found.spots) <= existing
    of_spot = {spot: {e.number for e in found.linked.equations if spot == (e.file, e.line)} for spot in found.spots}
    assert {number for numbers in of_spot.values() for number in numbers} == set(found.of_equation)
    for stage in found.all:
        texts = [each.text for each in stage.lines]
        instructions = set(hlo.instructions(texts)) if stage.language == "hlo" else set()
        for i, each in enumerate(stage.lines):
            # a line belongs to exactly the Python lines of its equations
            assert set(each.places) == {spot for spot in found.spots if of_spot[spot] & {*each.equations}}
            assert set(each.places) <= existing and (not each.equations or each.places)
            work = i in instructions or stage.kind == "machine" or "stablehlo." in each.text or "  %" in each.text
            assert each.places or not work or found.mark(each), each.text
            assert each.own == found.mark(each).startswith("XLA")
        # choosing a Python line selects the lines of each stage that hold one of its equations
        for spot in found.spots:
            chosen = {n for i in found.belonging(stage, [spot]) for n in stage.lines[i].equations}
            assert bool(chosen & of_spot[spot]) == bool(found.belonging(stage, [spot]))
            assert stage.kind not in ("python", "jaxpr") or stage.kind == "python" or of_spot[spot] <= chosen
    # the text of a pass is compared with the text before the pass
    for each, one in zip([s for s in found.all if s.kind == "pass"], found.descent.passes, strict=True):
        assert len(found.all[each.previous].lines) == len(found.descent.pane(one.before).lines)


def test_a_line_has_one_colour_in_every_text():
    def loss(w, x):
        h = jnp.tanh(w * x)
        y = jnp.sin(h) * 2.0
        return (y - h).sum()

    lowered = minijax.jit(loss).lower(V, V)
    found = stages.stages(pipeline.descent(lowered, ["w", "x"]))
    linked = links.of_lowered(lowered)
    first = found.spots[0][1]
    roles = {number: line_role(i) for i, (_, number) in enumerate(found.spots)}
    assert list(roles) == [first, first + 1, first + 2] and len(set(roles.values())) == 3

    def coloured(doc):
        pieces = {piece for each in lay_out(doc, 120) for piece in each}
        return {(role, piece.strip()) for role, piece in pieces if role.startswith("line-") and piece.strip()}

    short = {(role, f"L{number}") for number, role in roles.items()}
    last = found.descent.passes[-1]
    assert coloured(Document(tuple(views.overview(found.descent)))) == short
    assert coloured(Document(tuple(views.one_pass(found.descent, last, 99)))) <= short
    for pane in (linked.stablehlo, linked.hlo):
        name = os.path.basename(__file__)
        marks = coloured(Document((link_views.annotated(linked, pane),)))
        assert marks and marks <= {(role, f"{name}:{number}") for number, role in roles.items()}
    for i, pane in enumerate(linked.panes):
        shown = coloured(programs.linked_pane(linked, i, programs.Selection()))
        named = {(role, str(number)) for number, role in roles.items()}
        # a line that comes from several Python lines has the colour of the first
        wanted = named if pane.language == "python" else short | {(role, f"{mark}+") for role, mark in short}
        assert shown and shown <= wanted
    # the equations of a fusion are named at the end of the program, and at the fusion when it is selected
    (fusion,) = (i for i, each in enumerate(linked.hlo.lines) if " fusion(" in each)
    held = [linked.equation(number).primitive for number in linked.hlo.links[fusion]]
    listed = plain(Document(tuple(link_views.fused_rows(linked))))
    assert hlo.instruction_name(linked.hlo.lines[fusion]) in listed and ", ".join(dict.fromkeys(held)) in listed
    chosen = programs.at_line(linked, len(linked.panes) - 1, fusion)
    selected = "".join(piece for _, piece in programs.selection_line(linked, chosen))
    assert "fusion = " in selected and f"of line {first}" in selected and all(name in selected for name in held)


@pytest.mark.parametrize("name", ["network", "scan", "JAX: attention"])
def test_roofline_matches_xlas_counts_and_times_the_call(name):
    fun, args = PROGRAMS[name]
    jitted = minijax.jit(fun)
    lowered = jitted.lower(*args)
    text = lowered.compile().raw_text()
    lines = text.split("\n")
    known = hlo.instructions(lines)
    entry = next(each[len("ENTRY %") :].partition(" ")[0] for each in lines if each.startswith("ENTRY "))
    costs = roofline.instruction_costs(lines, known)
    whole = lowered.compile().cost_analysis()
    for figure in ("flops", "bytes accessed", "transcendentals"):
        parts = [costs.get(one.name, {}).get(figure, 0.0) for one in known.values() if one.computation == entry]
        assert sum(parts) == whole.get(figure, 0.0)

    calls = []
    found = roofline.measure(lowered, lambda: calls.append(0) or jitted(*args))
    assert len(calls) == 1 + found.calls + found.traced
    assert {each.name for each in found.rows} <= {one.name for one in known.values()}
    assert all(each.seconds > 0 and each.runs == int(each.runs) >= 1 for each in found.rows)
    # the profiler's clock and the clock of the calls agree, within the noise of a busy machine
    assert 0 < found.inside < 50 * found.seconds
    assert found.limits.flops > 1e8 and found.limits.bytes > 1e7


def test_instructions_without_counts_show_none():
    # a small loop is one piece of machine code: XLA's analysis counts its body once, but it runs many times
    jitted = minijax.jit(lambda x: lax.fori_loop(0, 100, lambda i, c: c * 1.5 + 2.0, x))
    counted = miss_log.total()
    roofline.limits.cache_clear()
    found = roofline.measure(jitted.lower(1.0), lambda: jitted(1.0))
    loops = [each for each in found.rows if each.opcode in roofline.CONTAINERS]
    assert loops and found.loops
    assert all(each.flops == each.moved == 0.0 for each in loops)
    shown = plain(Document(tuple(roofline_view.blocks(found, 5))), 100)
    assert "a loop's body counted once" in shown and re.search(rf"{loops[0].name} +\d.* – +– +–", shown)
    # the benchmark of the machine compiles programs, too: these cache misses are not reported as the user's
    kept = miss_log.since(counted)
    assert kept and all(__file__ in each.subject for each in kept)


@pytest.mark.parametrize(
    ("flops", "moved", "runs", "expected"),
    [
        (5e8, 1e6, 1.0, "compute 50%"),
        (1e3, 5e7, 1.0, "memory 50%"),
        (1e3, 2e7, 1e3, "memory 20%"),
        # the same data per call: in 1,000 runs, each of which fits the caches, and in one run, which does not
        (1e3, 3e8, 1e3, "cache 300%"),
        (1e3, 3e8, 1.0, "memory 300%"),
        (0.0, 0.0, 1.0, "–"),
    ],
)
def test_an_instruction_is_limited_by_compute_or_memory(flops, moved, runs, expected):
    each = roofline.Measured("dot", "dot", runs, 1e-3, 0.0, flops, 0.0, moved, ())
    assert roofline_view._limit(roofline.Limits(1e12, 1e11), each)[1] == expected


def test_programs_with_the_same_name_are_distinguished():
    def made():
        return minijax.jit(lambda x: jnp.sin(x) * 3)

    jitted, other, third = made(), made(), made()
    lowered = jitted.lower(jnp.zeros(8))
    found = roofline.measure(lowered, lambda: (other(jnp.zeros(9)), other(jnp.ones(9)), jitted(jnp.zeros(8))))
    assert found.rows and all(each.runs == 1 for each in found.rows)
    with pytest.raises(UsageError, match="2 programs named .* ran during"):
        roofline.measure(lowered, lambda: (third(jnp.zeros(9)), jitted(jnp.zeros(8))))


def test_files_of_other_formats_are_refused(tmp_path):
    assert machine.size(b"MZ") == 0
    with pytest.raises(ValueError, match="64-bit ELF"):
        list(machine.operations(b"MZ nothing"))
    with pytest.raises(FileNotFoundError, match="nothing for this program"):
        dumps.read(str(tmp_path))
