"""Linked views link each equation to its Python line, its StableHLO and its instructions, and back again."""

import re

import pytest

import minijax
import minijax.numpy as jnp
from minijax import ShapeDtypeStruct, lax
from minijax.ir.jaxpr import count_eqns
from minijax.lowering import bindings
from minijax.tools.documents.document import document, plain
from minijax.tools.programs import hlo, link_views, links
from minijax.tools.programs.links import GONE, INLINED, NO_OPERATION, UNUSED, WRITTEN_INSIDE

VECTOR = ShapeDtypeStruct((8,), "float32")


def chain(x):
    y = jnp.sin(x)
    z = jnp.exp(y)
    return z - jnp.tanh(y)


def scanned(x):
    def body(c, a):
        s = jnp.cos(a)
        return c + s, jnp.exp(c)

    return lax.scan(body, jnp.float32(0.0), x)


def branches(x):
    return lax.cond(jnp.max(x) > 0.0, lambda a: jnp.sin(a), lambda a: jnp.exp(a), x)


def gradient(x):
    def loss(a):
        y = jnp.sin(a)
        return jnp.sum(jnp.tanh(y))

    return minijax.grad(loss)(x)


@minijax.jit
def inner(x):
    return jnp.tanh(x)


def twice(x):
    y = inner(x)
    return inner(jnp.sin(y))


def loop(x):
    return lax.while_loop(lambda c: jnp.max(c) > 0.5, lambda c: jnp.sin(c), x)


PROGRAMS = {
    "chain": (chain, (VECTOR,)),
    "scanned": (scanned, (VECTOR,)),
    "branches": (branches, (VECTOR,)),
    "gradient": (gradient, (VECTOR,)),
    "twice": (twice, (VECTOR,)),
    "loop": (loop, (VECTOR,)),
}

# primitive -> pattern for the Python line from which an equation of the primitive comes.
WORDS = {
    "sin": "sin",
    "cos": "cos|sin",  # the derivative of sin is cos, on the line of sin
    "exp": "exp",
    "tanh": "tanh",
    "scan": "lax.scan",
    "cond": "lax.cond",
    "while": "lax.while_loop",
    "reduce_max": "max",
    "reduce_sum": "sum",
    "jit": r"inner\(",
}


@pytest.fixture(scope="module")
def linked():
    made = {}

    def get(name):
        if name not in made:
            fun, args = PROGRAMS[name]
            made[name] = links.linked_programs(fun, *args)
        return made[name]

    return get


def source_of(programs, file, line):
    pane = next(pane for pane in programs.python if pane.title == file)
    return pane.lines[pane.index(line)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_equation_has_its_line_and_its_operations(linked, name):
    programs = linked(name)
    written = {number for numbers in programs.stablehlo.links for number in numbers}
    run = {number for numbers in programs.hlo.links for number in numbers}
    assert programs.equations
    for each in programs.equations:
        assert each.file == __file__, each
        text = source_of(programs, each.file, each.line)
        assert re.search(WORDS.get(each.primitive, ""), text), (each, text)
        assert (each.number in written) != bool(each.stablehlo_note), each
        assert (each.number in run) != bool(each.hlo_note), each
        assert each.stablehlo_note in ("", NO_OPERATION, UNUSED, WRITTEN_INSIDE)
        assert each.hlo_note in ("", each.stablehlo_note, INLINED, GONE)


@pytest.mark.parametrize("name", PROGRAMS)
def test_equations_are_numbered_as_printed(linked, name):
    programs = linked(name)
    fun, args = PROGRAMS[name]
    closed = minijax.jit(fun).trace(*args).jaxpr
    distinct = count_eqns(closed.jaxpr) - (name == "twice")  # the function that "twice" calls twice is printed once
    assert [number for _, number in firsts(programs)] == list(range(1, distinct + 1))
    assert len(programs.equations) == distinct
    for (text, _), each in zip(firsts(programs), programs.equations, strict=True):
        assert re.search(rf"(?:^|= ){each.primitive}[\[ ]", text.strip()), text
    # a line has at most one equation; apart from line breaks, the text is that of ``str(closed)``
    assert all(len(numbers) <= 1 for numbers in programs.jaxpr.links)
    assert re.sub(r"[\s;]", "", "".join(programs.jaxpr.lines)) == re.sub(r"[\s;]", "", str(closed))


def firsts(programs):
    """(first line, number) of each equation in the printed jaxpr, in printed order."""
    seen = {}
    for text, numbers in zip(programs.jaxpr.lines, programs.jaxpr.links, strict=True):
        for number in numbers:
            seen.setdefault(number, text)
    return [(text, number) for number, text in seen.items()]


def test_a_line_of_python_leads_to_all_programs_and_back(linked):
    programs = linked("chain")
    python = programs.python[0]
    (at,) = [i for i, text in enumerate(python.lines) if "jnp.exp" in text]
    for pane, found in zip(programs.panes, programs.linked(python, at), strict=True):
        texts = [pane.lines[i] for i in found]
        assert texts and all("exp" in text or " fusion(" in text for text in texts)
        for i in found:
            assert at in programs.linked(pane, i)[0]
    assert programs.at_line(python.numbers[at]) == programs.at_line(python.numbers[at], __file__) == (2,)
    assert programs.at_line(python.numbers[at], "other.py") == ()
    assert programs.linked(python, -1) == ((),) * len(programs.panes)


def test_a_loop_leads_to_its_body_and_the_body_not_to_the_loop(linked):
    programs = linked("scanned")
    by_name = {each.primitive: each for each in programs.equations}
    loop_, cos = by_name["scan"], by_name["cos"]
    assert cos.inside == (loop_.number,) and loop_.inside == ()
    assert programs.with_inner([loop_.number]) == {each.number for each in programs.equations if each.inside} | {
        loop_.number
    }
    assert programs.with_inner([cos.number]) == {cos.number}
    assert cos.name == "jit(scanned)/while/body/cos"
    text = "\n".join(programs.stablehlo.lines[i] for i in programs.stablehlo.with_equations([loop_.number]))
    assert "stablehlo.while" in text and "stablehlo.return" in text and "stablehlo.cosine" not in text


def test_a_function_called_twice_is_inside_both_calls(linked):
    programs = linked("twice")
    calls = tuple(each.number for each in programs.equations if each.primitive == "jit")
    (tanh,) = [each for each in programs.equations if each.primitive == "tanh"]
    assert len(calls) == 2 and tanh.inside == calls
    assert tanh.number == 1  # a shared jaxpr is printed before the program that uses it
    head = next(i for i, text in enumerate(programs.stablehlo.lines) if "private @inner" in text)
    assert programs.stablehlo.links[head] == calls
    assert [programs.equation(number).hlo_note for number in calls] == [INLINED, INLINED]
    written = [text for text, numbers in zip(programs.hlo.lines, programs.hlo.links, strict=True) if 1 in numbers]
    assert len([text for text in written if " tanh(" in text]) >= 2


def test_a_partly_lowered_equation_links_to_its_lowered_part():
    def program(x):
        def body(c, a):
            minijax.debug.print("{}", a)
            return (c[0] + jnp.sin(a), c[1] * jnp.cos(a)), jnp.exp(a)

        lax.scan(lambda c, a: (minijax.debug.print("{}", a), c)[::-1], 0.0, x)  # nothing uses the results of this scan
        return lax.scan(body, (jnp.float32(0.0), jnp.float32(1.0)), x)[0][0]

    programs = links.linked_programs(program, VECTOR, optimized=False)
    notes = {(each.primitive, each.stablehlo_note) for each in programs.equations}
    assert {name for name, note in notes if note == UNUSED} == {"cos", "mul", "exp"}
    assert {("scan", ""), ("sin", ""), ("debug_print", "")} <= notes and ("scan", UNUSED) not in notes
    pane = programs.stablehlo
    loops = [numbers for line, numbers in zip(pane.lines, pane.links, strict=True) if "stablehlo.while" in line]
    assert [[programs.equation(n).primitive for n in numbers] for numbers in loops] == [["scan"], ["scan"]]
    assert loops[0] != loops[1]


def test_a_function_may_have_any_name():
    names = {"jnp": jnp}
    exec(compile("def f(x):\n    return jnp.sin(x)", "<b>\n\x1b[31m.py", "exec"), names)
    names["f"].__name__ = "<script>\n%x = stablehlo.add"
    nested = minijax.jit(names["f"])
    programs = links.linked_programs(lambda x: nested(x), VECTOR)
    assert [each.primitive for each in programs.equations] == ["jit", "sin"]
    assert all("\n" not in text for pane in (programs.jaxpr, programs.stablehlo, programs.hlo) for text in pane.lines)
    assert programs.equations[1].file == "<b>\n\x1b[31m.py"
    text = plain(document(link_views.annotated(programs, programs.stablehlo)), 120)
    assert "\x1b" not in text and r"<b>\n\x1b[31m.py:2" in text
    with bindings.make_context() as context:
        assert bindings.ir().Module.parse(text, context).operation.verify()


def test_instructions_of_any_form_are_parsed():
    lines = [
        "%body (p: (s32[], f32[8])) -> f32[8] {",
        "  %p = (s32[], /*index=1*/f32[8]{0:T(256)}) parameter(0)",
        '  ROOT %a.1 = f32[8]{0} add(%x, %y), metadata={op_name="a) b" source_line=3}',
        "}",
        "ENTRY main.2 (a: f32[8]) -> (f32[8], s32[]) {",
        "  %w = (s32[], f32[8]{0}) while(%a), condition=%c, body=%body",
        "  %c.3 = (f32[8]{0}) conditional(%i, %t, %t), branch_computations={%r.1, %r.2}",
        "}",
    ]
    found = hlo.instructions(lines)
    assert {i: each.opcode for i, each in found.items()} == {1: "parameter", 2: "add", 5: "while", 6: "conditional"}
    assert found[2].operands == ("x", "y") and found[2].computation == "body" and "source_line=3" in found[2].metadata
    assert found[5].called == ("c", "body") and found[6].called == ("r.1", "r.2") and found[5].computation == "main.2"
    tables = [
        "HloModule f",
        "",
        "FileNames",
        '1 "a.py"',
        "",
        "StackFrames",
        "1 {file_location_id=1}",
        "",
        "ENTRY e () -> {",
    ]
    assert hlo.table_lines(tables) == {2, 3, 5, 6}


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("name", ["scanned", "gradient"])
def test_annotated_programs_are_valid_programs(linked, name, width):
    programs = linked(name)
    for pane in (programs.stablehlo, programs.hlo):
        text = plain(document(link_views.annotated(programs, pane)), width)
        bare = [line for line in re.sub(r"(?m)\s*// .*$", "", text).split("\n") if line.strip()]
        assert bare == [line for line in pane.lines if line.strip()]
        for each in text.split("\n"):
            if each.strip().startswith("//") or "//" in each and len(each.partition("//")[0].rstrip()) + 30 < width:
                assert len(each) <= width, each
        numbers = {int(number) for part in re.findall(r"eqns? ([\d, –]+)", text) for number in re.findall(r"\d+", part)}
        assert numbers <= {each.number for each in programs.equations} and len(numbers) > 2
        if pane is programs.stablehlo:
            with bindings.make_context() as context:
                assert bindings.ir().Module.parse(text, context).operation.verify()


def test_equations_are_described_by_number_line_and_primitive(linked):
    programs = linked("chain")
    assert link_views.ranges([3, 1, 2, 8]) == "1–3, 8"
    line = programs.equations[0].line
    assert link_views.comment(programs, (1,), 80) == f"// eqn 1 · test_links.py:{line} · sin"
    assert (
        link_views.comment(programs, (1, 2, 4), 60)
        == f"// eqns 1–2, 4 · test_links.py:{line}–{line + 2} · sin, exp, sub"
    )
    assert link_views.comment(programs, (1,), 32) == f"// eqn 1 · test_links.py:{line}"
    assert link_views.comment(programs, (1,), 5) == "// eqn 1"
    assert link_views.short_file("/home/me/model.py") == "model.py"
    cell = "/tmp/ipykernel_12/345.py"  # the file of a notebook's cell, which the notebook shows by another name
    assert link_views.short_file(cell) == cell


def test_the_lowered_forms_of_an_equation_are_shown(linked):
    programs = linked("gradient")
    (number,) = [each.number for each in programs.equations if each.primitive == "reduce_sum"]
    text = plain(document(*link_views.became(programs, (number,))))
    assert "jnp.sum(jnp.tanh(y))" in text and "reduce_sum[" in text and "stablehlo.reduce" not in text
    assert UNUSED in text
    rows = plain(document(*link_views.missing_rows(programs)), 200)
    assert GONE in rows and UNUSED in rows and "reduce_sum" in rows
