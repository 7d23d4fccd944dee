"""The lexers: the printer's roles for jaxprs, no character lost, and StableHLO that is read as what it is."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.token import Error

import minijax
import minijax.numpy as jnp
from minijax.ir import doc as pp
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.ir.parse import parse_jaxpr
from minijax.ir.pretty import jaxpr_document
from minijax.tools.documents.lexer import StableHLOLexer, highlight
from tests.ir.constructs import programs
from tests.ir.jax_jaxprs import convert

CONSTRUCTS = programs(minijax)
GOLDEN = sorted((Path(__file__).parent.parent / "golden").glob("jaxpr_*.txt"))[::4]


def roles(segments: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """(character, role) for every character that is no white space."""
    return [(c, role) for role, piece in segments for c in piece if not c.isspace()]


def f(x, y):
    chosen = jnp.where(x[0] > 1e-7, -3, 4)[..., None].astype("float32")
    return jnp.sum(jnp.sin(x) @ y, axis=0) * 2.0 + chosen.sum()


def scanned(x):
    def body(c, a):
        return c * a, (c, jax.lax.cond(a > 0, jax.numpy.sin, jax.numpy.cos, a))

    return jax.lax.scan(body, 1.5, x)


def nested(x):
    g = jax.jit(jax.numpy.tanh)
    return g(x) + g(x * 2) + jax.lax.while_loop(lambda i: i[0] < 3, lambda i: (i[0] + 1, -i[1]), (0, 1.0))[1]


JAX_PROGRAMS = {
    "scan": (scanned, np.ones(4, np.float32)),
    "nested": (nested, np.float32(1)),
    "complex": (lambda x: x * (1 + 2j) + np.complex64(np.inf), np.complex64(1)),
}


@pytest.mark.parametrize("style", ["jax", "tutorial"])
@pytest.mark.parametrize("name", [*JAX_PROGRAMS, "ours"])
def test_the_lexer_gives_the_printers_roles(name: str, style: str):
    if name == "ours":
        gradient = minijax.grad(lambda x, y: f(x, y).sum())
        closed = minijax.make_jaxpr(gradient)(jnp.ones((2, 3)), jnp.ones((3, 4)))
    else:
        fun, arg = JAX_PROGRAMS[name]
        closed = convert(jax.make_jaxpr(fun)(arg))
    for width in (40, 200):
        assert_same_roles(closed, width, style=style, source_info=True)


def assert_same_roles(closed: ClosedJaxpr, width: int, **options: Any) -> None:
    printed = list(pp.segments(jaxpr_document(closed, **options), width))
    read = list(highlight("".join(text for _, text in printed), "jaxpr"))
    expected, found = roles(printed), roles(read)
    for i, (a, b) in enumerate(zip(expected, found, strict=True)):
        context = "".join(c for c, _ in expected[max(i - 30, 0) : i + 10])
        assert a == b, f"near {context!r}"


@pytest.mark.parametrize("path", GOLDEN, ids=[path.stem for path in GOLDEN])
def test_golden_jaxprs(path: Path):
    """Character by character, the lexer gives the text the roles that the printer gives it."""
    text = path.read_text()
    pieces = list(highlight(text, "jaxpr"))
    assert "".join(piece for _, piece in pieces) == text
    closed = parse_jaxpr(text)
    assert str(closed) == text.rstrip("\n")
    for width in (1, 80):
        assert_same_roles(closed, width)


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_every_construct(name: str):
    function, args = CONSTRUCTS[name]
    closed = minijax.make_jaxpr(function)(*args)
    for width in (1, 80):
        assert_same_roles(closed, width)
        assert_same_roles(closed, width, style="tutorial", source_info=True, name_stack=True)


@given(st.text(st.sampled_from("{}[]()=:;,. \nabin_let 3.0lambda#<>-jaxpr"), max_size=80))
def test_no_text_breaks_the_jaxpr_lexer(text: str):
    assert "".join(piece for _, piece in highlight(text, "jaxpr")) == text.replace("\r\n", "\n")


@given(st.text(max_size=60))
def test_no_text_breaks_the_stablehlo_lexer(text: str):
    pieces = "".join(piece for _, piece in highlight(text, "stablehlo"))
    assert pieces == text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")


def test_stablehlo():
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


LLVM = """\
define noalias ptr @"a b"(ptr %0) #1 {
vector.ph:
  %8 = tail call <8 x float> @llvm.fma.f32(float 0x3FF0, float -1.0e+00), !alias.scope !10 ; why
  store i64 %8, ptr null, align 4
"""
MACHINE = """\
add_fusion:
      0  movabs        rax, 0x10
     1a  vmovups       ymm0, ymmword ptr [rax + rcx*4 - 8]
"""


def test_code_of_kernels():
    found = [(piece, role) for role, piece in highlight(LLVM, "llvm") if role]
    for pair in (
        ("define", "keyword"), ("ptr", "type"), ('@"a b"', "function"), ("%0", "var"), ("#1", "param-name"),
        ("vector.ph:", "function"), ("tail call", "primitive"), ("float", "type"), ("0x3FF0", "literal"),
        ("-1.0e+00", "literal"), ("!alias.scope", "param-name"), ("; why", "comment"), ("store", "primitive"),
        ("null", "keyword"), ("4", "literal"), ("x", "keyword"),
    ):  # fmt: skip
        assert pair in found, pair
    found = [(piece, role) for role, piece in highlight(MACHINE, "asm") if role]
    assert found[:7] == [
        ("add_fusion:", "function"), ("0", "comment"), ("movabs", "primitive"), ("rax", "var"), (",", "punctuation"),
        ("0x10", "literal"), ("1a", "comment"),
    ]  # fmt: skip
    assert {("vmovups", "primitive"), ("ymmword", "keyword"), ("4", "literal"), ("[", "punctuation")} <= set(found)


@given(st.text(max_size=80), st.sampled_from(["llvm", "asm"]))
def test_no_text_breaks_the_lexers_of_code(text: str, language: str):
    pieces = "".join(piece for _, piece in highlight(text, language))
    assert pieces == text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")


def test_pygmentize(tmp_path: Path):
    """Each of the three languages on the command line; what comes out is coloured, and is the text."""
    lowered = minijax.jit(jnp.sin).lower(jnp.ones(3))
    texts = {
        "jaxpr": GOLDEN[0].read_text(),
        "stablehlo": lowered.as_text(),
        "hlo": lowered.compile().as_text(),
    }
    for language, text in texts.items():
        file = tmp_path / f"program.{language}"
        file.write_text(text)
        command = [sys.executable, "-m", "pygments", "-l", language, "-f", "terminal", str(file)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "\x1b[" in run.stdout
        assert re.sub("\x1b\\[[0-9;]*m", "", run.stdout).strip() == text.strip()
