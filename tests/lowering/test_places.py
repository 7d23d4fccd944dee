"""The equations and locations of a module's lines are compared with JAX's locations and XLA's metadata."""

from __future__ import annotations

import gc
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy
import numpy as np
import pytest

import minijax
import minijax.numpy
from minijax import ShapeDtypeStruct, interpreters
from minijax.backend import pjrt
from minijax.backend.failures import CompileError
from minijax.core import observe
from minijax.extend.core import Primitive
from minijax.interpreters import mlir
from minijax.lowering import bindings
from minijax.lowering.lower import lower_closed, lower_places
from minijax.lowering.places import escaped, text_lines
from minijax.ops.call import compiled
from tests.extend.examples import programs as programs_of_rows
from tests.ops import table

VECTOR = (8,)

# Programs for either library; ``lib``, ``jnp`` and ``lax`` are the modules of the library.
SOURCE = """
def chain(x):
    y = jnp.sin(x)
    y = y * 2.0
    return y - jnp.cos(x)

def branches(x):
    return lax.cond(x.sum() > 0, lambda a: a * 2.0, lambda a: jnp.exp(a), x)

def loop(x):
    return lax.while_loop(lambda c: c[0] < 10.0, lambda c: (c[0] + 1.0, jnp.sin(c[1])), (0.0, x))

def matmul(x):
    a = x.reshape(2, 4)
    return jnp.tanh(a @ a.T)

def scanned(x):
    return lax.scan(lambda c, a: (c + jnp.cos(a), c), 0.0, x)

def choice(x):
    return lax.switch(jnp.int32(x.sum()), [jnp.sin, jnp.cos, lambda a: -a], x)

def named(x):
    with lib.named_scope("layer"):
        return lib.value_and_grad(lambda a: jnp.sum(jnp.sin(a)))(x)

inner = lib.jit(lambda x: jnp.tanh(x) + 1.0)

def twice(x):
    return inner(x) * inner(x * 2.0)

@lib.custom_jvp
def ruled(x):
    return jnp.sin(x) * x
ruled.defjvps(lambda t, ans, x: jnp.cos(x) * t)

def custom(x):
    return ruled(x) + 1.0
"""
FILE = "programs.py"


def programs(lib: Any, jnp: Any) -> dict[str, Callable[..., Any]]:
    names = {"lib": lib, "jnp": jnp, "lax": lib.lax}
    exec(compile(SOURCE, FILE, "exec"), names)
    return names


OURS, JAXS = programs(minijax, minijax.numpy), programs(jax, jax.numpy)
NAMES = ("chain", "branches", "loop", "matmul", "scanned", "choice", "named", "twice", "custom")


def lowered(fun: Callable[..., Any], shape: tuple[int, ...] = VECTOR) -> Any:
    return minijax.jit(fun).lower(ShapeDtypeStruct(shape, "float32"))


def location_names(text: str) -> set[str]:
    """The names of operations and functions in the locations of a module."""
    return set(re.findall(r'^#loc\d* = loc\("([^"]*)"\(', text, re.MULTILINE))


@pytest.mark.parametrize("name", NAMES)
def test_the_text_with_places_is_the_compiled_text(name: str) -> None:
    program = lowered(OURS[name])
    places = program.places()
    assert places.text == program.as_text() and "loc(" not in places.text
    assert len(places.lines) == places.text.count("\n") + 1
    for text, place in zip(places.text.split("\n"), places.lines, strict=True):
        if "stablehlo." in text:
            assert place is not None, text


@pytest.mark.parametrize("name", NAMES)
def test_locations_are_named_as_in_jax(name: str) -> None:
    ours = location_names(lowered(OURS[name]).as_text(debug_info=True))
    theirs = location_names(jax.jit(JAXS[name]).lower(jax.ShapeDtypeStruct(VECTOR, "float32")).as_text(debug_info=True))
    # JAX writes the body of a scan, and the slices of its arrays, as separate functions
    theirs = {each.replace("closed_call/", "") for each in theirs}
    if name == "scanned":
        theirs |= {f"jit(scanned)/while/body/{each}" for each in theirs & {"cos", "add", "convert_element_type"}}
    assert len(ours) > 3 and {each for each in ours if each.startswith("jit(")} <= theirs


@pytest.mark.parametrize("name", NAMES)
def test_locations_change_nothing_else_in_a_module(name: str) -> None:
    program = lowered(OURS[name])
    text = program.as_text(debug_info=True)
    assert text == lowered(OURS[name]).as_text(debug_info=True)
    bare = re.sub(r"(?m)^#loc.*\n", "", re.sub(r" loc\([^()]*\)", "", text))
    assert bare == program.as_text()
    with bindings.make_context() as context:
        module = bindings.ir().Module.parse(text, context)
        assert module.operation.verify()
        printed = module.operation.get_asm(enable_debug_info=True)
    assert location_names(printed) == location_names(text)
    assert f'"{FILE}":' in printed


def test_the_text_does_not_depend_on_source_places() -> None:
    def at(first_line: int) -> Any:
        names: dict[str, Any] = {"jnp": minijax.numpy}
        exec(compile("\n" * first_line + "def f(x):\n    return jnp.sin(x)", FILE, "exec"), names)
        return lowered(names["f"])

    here, there = at(0), at(5)
    assert here.as_text() == there.as_text()
    assert f'"{FILE}":2:' in here.as_text(debug_info=True) and f'"{FILE}":7:' in there.as_text(debug_info=True)


def operations(op: Any) -> Iterator[Any]:
    yield op
    for region in op.regions:
        for block in region.blocks:
            for each in block.operations:
                yield from operations(each.operation)


NOT_OF_EQUATIONS = ("builtin.module", "func.func", "func.return", "stablehlo.constant")


def test_every_operation_of_every_primitive_is_located() -> None:
    rows = [*table.ROWS.values(), *programs_of_rows()]
    with bindings.make_context() as context:
        for row in rows:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
                closed = minijax.make_jaxpr(lambda *args, row=row: row.function(minijax, *args))(*row.args)
            places = lower_places(closed, "f", host_callbacks=[])
            assert places.text == lower_closed(closed, "f", host_callbacks=[]), row
            for text, place in zip(places.text.split("\n"), places.lines, strict=True):
                # constants may come from no equation
                assert place is not None or "stablehlo." not in text or "stablehlo.constant" in text, (row, text)
            module = bindings.ir().Module.parse(places.located_text(), context)
            for op in operations(module.operation):
                where = str(op.location)
                assert '"-"' not in where, (row, op)
                assert "loc(unknown)" != where or op.name in NOT_OF_EQUATIONS, (row, op)


def metadata_of(hlo: str) -> set[tuple[str, str]]:
    """(op_name, line) of every instruction; in JAX's text, lines are in separate tables."""
    frames: dict[str, str] = {}
    lines = dict(re.findall(r"(?m)^(\d+) \{file_name_id=\d+ function_name_id=\d+ line=(\d+)", hlo))
    for frame, place in re.findall(r"(?m)^(\d+) \{file_location_id=(\d+)", hlo):
        frames[frame] = lines[place]
    found = set()
    for metadata in re.findall(r"metadata=\{(.*?)\}", hlo):
        name = re.search(r'op_name="([^"]*)"', metadata)
        frame_id = re.search(r"stack_frame_id=(\d+)", metadata)
        line = re.search(r"source_line=(\d+)", metadata)
        if name is not None and (frame_id or line):
            found.add((name[1], frames[frame_id[1]] if frame_id else line[1]))  # type: ignore[index]
    return found


@pytest.mark.parametrize("name", ["chain", "branches", "loop", "matmul", "choice", "custom"])
def test_metadata_of_optimised_instructions_matches_jax(name: str) -> None:
    ours = lowered(OURS[name]).compile().as_text()
    theirs = jax.jit(JAXS[name]).lower(jax.ShapeDtypeStruct(VECTOR, "float32")).compile().as_text()
    assert metadata_of(ours) and metadata_of(ours) == metadata_of(theirs)
    assert f'source_file="{FILE}"' in ours and '"-"' not in ours


def test_xla_metadata_has_the_lines_of_the_text() -> None:
    program = lowered(OURS["chain"])
    lines = program.as_text().split("\n")
    raw = program.compile().raw_text()
    sine = next(line for line in raw.split("\n") if " sine(" in line)
    assert "stablehlo.sine" in lines[text_lines(sine)[0] - 1]
    assert text_lines("metadata={}") == []


def test_merged_instructions_have_several_lines() -> None:
    assert text_lines('metadata={op_name="L4/dot"}') == [4]
    assert text_lines('metadata={op_name="L14/call/L4/dot"}') == [4]
    assert text_lines('metadata={op_name="(L41/end/L32/end:L18/end/L9/end)"}') == [32, 9]


def test_names_of_any_text_are_quoted() -> None:
    names: dict[str, Any] = {"jnp": minijax.numpy}
    exec(compile("def f(x):\n    return jnp.sin(x)", 'a"b\\c\nd é<script>.py', "exec"), names)
    function = names["f"]
    function.__name__ = 'f"\n\\'
    text = lowered(function).as_text(debug_info=True)
    with bindings.make_context() as context:
        printed = bindings.ir().Module.parse(text, context).operation.get_asm(enable_debug_info=True)
    assert r"a\22b\\c\0Ad" in printed or r"a\"b\\c\0Ad" in printed
    assert escaped("a\tb") == r"a\09b"
    assert 'source_file="a\\"b\\\\c\\012d é<script>.py"' in lowered(function).compile().as_text()


def test_operations_of_a_users_rule_belong_to_its_equation() -> None:
    double = Primitive("double_of_test_places")
    double.def_abstract_eval(lambda x: x)
    mlir.register_lowering(double, lambda ctx, x: [interpreters.mlir.ir_constant(np.float32(2.0))] and [x])
    places = lowered(lambda x: double.bind(x) + 1.0, ()).places()
    found = [place.eqn.primitive.name for place in places.lines if place is not None]
    assert found.count("double_of_test_places") >= 2  # the user's call, and the function that its lowering rule created
    assert places.found[0].name.endswith("/double_of_test_places")


def test_an_executable_knows_its_jaxpr_while_it_lives() -> None:
    seen = []

    class Watcher(observe.Observer):
        def compiled(self, name: str, executable: Any) -> None:
            seen.append(executable)

    closed = minijax.make_jaxpr(OURS["chain"])(np.ones(3, np.float32))
    with observe.watching(Watcher()):
        compiled(closed, "chain")
    (executable,) = seen
    origin, places = executable.origin()
    assert origin is closed and "stablehlo.sine" in places.text
    del origin, places, closed
    gc.collect()
    assert executable.origin() is None


def test_costs_are_estimated_before_optimisation() -> None:
    costs = lowered(OURS["chain"]).cost_analysis()
    assert costs["transcendentals"] == 16.0 and costs["flops"] == 16.0
    with pytest.raises(CompileError, match="broken"):
        pjrt.text_costs("module { nonsense }", name="broken")


def test_locations_outside_equations_are_removed() -> None:
    places = lowered(OURS["chain"]).places()
    nowhere = 'source_file="-" source_line=1 source_end_line=1 source_column=1 source_end_column=2'
    hlo = 'a = f32[] add(b, c), metadata={%s}\nd = f32[] custom-call(), metadata={%s}, config="x,,y"'
    assert places.hlo_text(hlo % (nowhere, nowhere)) == 'a = f32[] add(b, c)\nd = f32[] custom-call(), config="x,,y"'
