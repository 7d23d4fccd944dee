"""The jaxpr lexer gives the printer's roles, the StableHLO lexer has its own roles, and neither loses a character."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.token import Error

import minijax
import minijax.numpy as jnp
from minijax.ir import doc as pp
from minijax.ir.pretty import jaxpr_document
from minijax.tools.documents.lexer import StableHLOLexer, highlight
from tests.ir.constructs import programs

CONSTRUCTS = programs(minijax)
GOLDEN = sorted((Path(__file__).parent.parent / "golden").glob("jaxpr_*.txt"))[::4]


def roles(segments):
    """(character, role) for every character except white space."""
    return [(c, role) for role, piece in segments for c in piece if not c.isspace()]


def assert_same_roles(closed, width, **options):
    printed = list(pp.segments(jaxpr_document(closed, **options), width))
    read = list(highlight("".join(text for _, text in printed), "jaxpr"))
    expected, found = roles(printed), roles(read)
    for i, (a, b) in enumerate(zip(expected, found, strict=True)):
        context = "".join(c for c, _ in expected[max(i - 30, 0) : i + 10])
        assert a == b, f"near {context!r}"


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_every_construct_has_the_roles_of_the_printer(name):
    function, args = CONSTRUCTS[name]
    closed = minijax.make_jaxpr(function)(*args)
    for width in (1, 80):
        assert_same_roles(closed, width)
        assert_same_roles(closed, width, style="tutorial", source_info=True, name_stack=True)


@given(st.text(max_size=80), st.text(st.sampled_from("{}[]()=:;,. \nabin_let 3.0lambda#<>-jaxpr"), max_size=80))
def test_no_text_breaks_a_lexer(text, program):
    for language, each in (("stablehlo", text), ("llvm", text), ("asm", text), ("jaxpr", program)):
        kept = each.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")
        assert "".join(piece for _, piece in highlight(each, language)) == kept


def test_texts_of_stablehlo_and_hlo_have_roles():
    lowered = minijax.jit(lambda x, y: jnp.sum(jnp.sin(x) @ y)).lower(jnp.ones((2, 3)), jnp.ones((3, 4)))
    for text in (lowered.as_text(), lowered.compile().as_text()):
        tokens = list(StableHLOLexer().get_tokens(text))
        assert not [token for token in tokens if token[0] is Error]
    found = {(role, piece) for role, piece in highlight(lowered.as_text(), "stablehlo")}
    for each in (
        ("primitive", "stablehlo.sine"),
        ("type", "tensor<2x3xf32>"),
        ("keyword", "func.func"),
        ("function", "@main"),
        ("var", "%arg0"),
        ("keyword", "return"),
    ):
        assert each in found
    optimised = {(role, piece) for role, piece in highlight(lowered.compile().as_text(), "hlo")}
    assert {("keyword", "HloModule"), ("keyword", "ENTRY"), ("keyword", "ROOT")} <= optimised
    assert any(role == "type" and piece.startswith("f32[2,3]") for role, piece in optimised)


def test_pygmentize_finds_the_lexers(tmp_path):
    lowered = minijax.jit(jnp.sin).lower(jnp.ones(3))
    texts = {"jaxpr": GOLDEN[0].read_text(), "stablehlo": lowered.as_text(), "hlo": lowered.compile().as_text()}
    for language, text in texts.items():
        file = tmp_path / f"program.{language}"
        file.write_text(text)
        command = [sys.executable, "-m", "pygments", "-l", language, "-f", "terminal", str(file)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "\x1b[" in run.stdout
        assert re.sub("\x1b\\[[0-9;]*m", "", run.stdout).strip() == text.strip()
