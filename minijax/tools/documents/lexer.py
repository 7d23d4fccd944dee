"""Pygments lexers for jaxprs and for StableHLO and HLO text, and the roles of their tokens.

They are registered as ``jaxpr`` and ``stablehlo``, so that ``pygmentize -l jaxpr`` works. Only front ends import this
module, because the engine does not depend on Pygments. The jaxpr lexer assigns the same roles as ``ir.pretty``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pygments.lexer import Lexer, RegexLexer, bygroups
from pygments.lexers.python import PythonLexer
from pygments.token import (
    Comment,
    Keyword,
    Literal,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
    Token,
    Whitespace,
    _TokenType,
)

# Roles (see ``ir.doc.ROLES`` and ``theme``) and their tokens.
TOKENS: dict[str, _TokenType] = {
    "keyword": Keyword,
    "var": Name.Variable,
    "type": Keyword.Type,
    "primitive": Name.Function,
    "literal": Number,
    "param-name": Name.Attribute,
    "param-value": Literal,
    "punctuation": Punctuation,
    "comment": Comment.Single,
    "drop": Name.Variable.Anonymous,
    "string": String,
    "function": Name.Label,
    "": Text,
}
ROLE_OF = {token: role for role, token in TOKENS.items()}

_SPACE = re.compile(r"\s+")
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_TYPE = re.compile(r":(Ref\{\w+\[[^\]]*\]\}|[A-Za-z]\w*(?:<\w+>)?\[[^\]]*\])")
_LITERAL = re.compile(
    r"\[\.\.\.\]|\(b'',\)|\([-+]?[\dinf][^\s()]*j\)|[-+]?(?:\d[\w.+-]*|\.\d[\w.+-]*|inf\b|nan\b)|True\b|False\b"
)
_COMMENT = re.compile(r"#[^\n]*")
_CUT = re.compile(r"\.\.\. \(\d+ more equations\)")
# Operations on a reference. Brackets after a reference hold integers and slices; a slice may start at a variable.
_ARROW = re.compile(r"<-|\+=")
_BOUNDS = re.compile(r"-?\d*:(?:-?\d+)?|-?\d+")
_REST_OF_SLICE = re.compile(r"\+\d+")
# A name before a bracket is a reference or a primitive. A primitive without results has no ``=`` before it.
_CALL = re.compile(r"[A-Za-z_][\w-]*(?=\[)")
_LAMBDA = re.compile(r"\{\s*lambda\b")
_PARAM = re.compile(r"([A-Za-z_]\w*)=")
_NEXT_PARAM = re.compile(r"\s+(?:[A-Za-z_]\w*=|# )")
# 'in' ends an equation list, and a bracket follows it. A variable can be called 'in' too, but no bracket follows that.
_IN = re.compile(r"in(?=\s*\()")
_IN_AFTER_SHARED = re.compile(r"in(?=\s*(?:let\b|\{))")

Piece = tuple[int, str, str]  # (position, role, text)


class _JaxprReader:
    """Reads one text. A stack holds the grammatical context: a jaxpr, parameters, or the index of a reference."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        # contexts, outermost first: 'jaxpr' after '{', 'params' after 'primitive[', 'place' after 'reference['
        self.inside: list[str] = ["jaxpr"]
        self.expect_primitive = False
        # the variables that hold references
        self.references: set[str] = set()

    def take(self, role: str, length: int) -> Piece:
        at, self.at = self.at, self.at + length
        return at, role, self.text[at : self.at]

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        return pattern.match(self.text, self.at)

    def pieces(self) -> Iterator[Piece]:
        while self.at < len(self.text):
            if found := self.match(_SPACE):
                yield self.take("", len(found[0]))
            elif found := self.match(_COMMENT) or self.match(_CUT):
                yield self.take("comment", len(found[0]))
            elif self.inside[-1] == "params":
                yield from self.parameter()
            elif self.inside[-1] == "place":
                yield self.in_place()
            else:
                yield from self.in_jaxpr()

    def in_jaxpr(self) -> Iterator[Piece]:
        c = self.text[self.at]
        if c == "{":
            self.inside.append("jaxpr")
            self.expect_primitive = False
            yield self.take("punctuation", 1)
        elif c == "}":
            if len(self.inside) > 1:
                self.inside.pop()
            yield self.take("punctuation", 1)
        elif c == "=":
            self.expect_primitive = not self.match(re.compile(r"=\s*\{"))
            yield self.take("punctuation", 1)
        elif found := self.match(_ARROW):
            yield self.take("primitive", 2)
        elif not self.expect_primitive and (found := self.match(_CALL)) and found[0] in self.references:
            yield self.take("var", len(found[0]))
            self.inside.append("place")
            yield self.take("punctuation", 1)
        elif (self.expect_primitive and (found := self.match(_NAME))) or (found := self.match(_CALL)):
            self.expect_primitive = False
            yield self.take("primitive", len(found[0]))
            if self.text.startswith("[", self.at):
                self.inside.append("params")
                yield self.take("punctuation", 1)
            elif found := re.compile(r" \[ ").match(self.text, self.at):  # in the tutorial's style
                self.inside.append("params")
                yield self.take("punctuation", len(found[0]))
        elif found := self.match(_LITERAL):
            yield self.take("literal", len(found[0]))
            yield from self.type()
        elif found := self.match(_NAME):
            yield from self.name(found[0])
        else:
            yield self.take("punctuation", 1)

    def name(self, name: str) -> Iterator[Piece]:
        after_brace = self.text[: self.at].rstrip().endswith("}")
        if name in ("lambda", "let") or (name == "in" and self.match(_IN)):
            yield self.take("keyword", len(name))
        elif name == "in" and after_brace and self.match(_IN_AFTER_SHARED):
            yield self.take("keyword", 2)
        else:
            # a variable ends before a hyphen: only a primitive may contain one
            short = re.match(r"\w+", name)
            assert short is not None
            yield self.take("drop" if name == "_" else "var", len(short[0]))
            if self.text.startswith(":Ref{", self.at):
                self.references.add(short[0])
            yield from self.type()

    def type(self) -> Iterator[Piece]:
        if found := self.match(_TYPE):
            yield self.take("punctuation", 1)
            yield self.take("type", len(found[1]))

    def in_place(self) -> Piece:
        """The next piece of the text between the brackets after a reference."""
        if self.text[self.at] == "]":
            self.inside.pop()
        if found := self.match(_REST_OF_SLICE):
            return self.take("punctuation", len(found[0]))
        if not self.text[: self.at].endswith(("[", ",")):  # after a slice's first bound: the colon, or a variable
            return self.take("punctuation", 1) if not (found := self.match(_NAME)) else self.take("var", len(found[0]))
        if found := self.match(_BOUNDS):
            return self.take("literal", len(found[0]))
        if found := self.match(_NAME):
            return self.take("var", len(found[0]))
        return self.take("punctuation", 1)

    def parameter(self) -> Iterator[Piece]:
        if self.text[self.at] in "](),":
            if self.text[self.at] == "]":
                self.inside.pop()
            yield self.take("punctuation", 1)
        elif self.text[self.at] == "{" and self.match(_LAMBDA):
            self.inside.append("jaxpr")
            yield self.take("punctuation", 1)
        elif found := self.match(_PARAM):
            yield self.take("param-name", len(found[1]))
            yield self.take("punctuation", 1)
            if self.match(_LAMBDA):
                return
            jaxprs = found[1].endswith("jaxpr") or found[1] == "branches"
            if jaxprs and (name := self.match(_NAME)) and name[0] != "None":
                yield self.take("var", len(name[0]))
            elif jaxprs and self.text.startswith("(", self.at):
                yield self.take("punctuation", 1)
            else:
                yield self.take("param-value", self.value_length())
        elif found := self.match(_NAME):  # one name in a tuple of shared jaxprs
            yield self.take("var", len(found[0]))
        else:
            yield self.take("param-value", 1)

    def value_length(self) -> int:
        """The length of a parameter's value, which ends before the next parameter or the closing bracket."""
        depth = 0
        i = self.at
        text = self.text
        while i < len(text):
            c = text[i]
            if c in "([{":
                depth += 1
            elif c in ")]}":
                if depth == 0:
                    break
                depth -= 1
            elif depth == 0 and c.isspace() and (c == "\n" or _NEXT_PARAM.match(text, i) or text[i : i + 2] == " ]"):
                break
            i += 1
        return i - self.at


class JaxprLexer(Lexer):
    """Jaxprs, in JAX's and in the tutorial's style."""

    name = "jaxpr"
    aliases = ["jaxpr"]
    filenames = ["*.jaxpr"]
    mimetypes: list[str] = []
    url = "https://docs.jax.dev/en/latest/jaxpr.html"

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, _TokenType, str]]:
        for at, role, piece in _JaxprReader(text).pieces():
            yield at, TOKENS[role], piece


class StableHLOLexer(RegexLexer):
    """StableHLO in MLIR's text form, and XLA's HLO text."""

    name = "StableHLO and HLO"
    aliases = ["stablehlo", "hlo"]
    filenames = ["*.mlir", "*.hlo"]
    mimetypes: list[str] = []
    url = "https://openxla.org/stablehlo/spec"

    _element = r"(?:[suif]\d+|ui\d+|si\d+|bf16|f8E\w+|pred|index|complex<[^<>]*>|token|c64|c128|i1)"
    tokens = {
        "root": [
            (r"\s+", Whitespace),
            (r"//[^\n]*", TOKENS["comment"]),
            (r"/\*.*?\*/", TOKENS["comment"]),
            (r'"(?:\\.|[^"\\])*"', TOKENS["string"]),
            (r"tensor<(?:[^<>]|<[^<>]*>)*>", TOKENS["type"]),
            (r"(?:tuple|memref|vector)<(?:[^<>]|<[^<>]*>)*>", TOKENS["type"]),
            (rf"{_element}\[[\d,<= ]*\](?:\{{[^}}]*\}})?", TOKENS["type"]),
            (
                r"(?:module|func\.func|func|public|private|return|attributes|dense|true|false|HloModule"
                r"|ENTRY|ROOT|to)\b",
                TOKENS["keyword"],
            ),
            (r"%[\w.:#-]+", TOKENS["var"]),
            (r"@[\w.-]+", TOKENS["function"]),
            (r"\^\w+", TOKENS["function"]),
            (r"#\w+(?:\.\w+)*", TOKENS["param-name"]),
            (r"(?:stablehlo|chlo|mhlo|func|arith)\.[\w.]+", TOKENS["primitive"]),
            (r"[A-Za-z_][\w.]*(?=\s*=)", TOKENS["param-name"]),
            (r"(?:call|[a-z][a-z0-9-]*)(?=\()", TOKENS["primitive"]),
            (r"call\b", TOKENS["primitive"]),
            (r"0x[0-9A-Fa-f]+", TOKENS["literal"]),
            (rf"{_element}\b", TOKENS["type"]),
            (r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", TOKENS["literal"]),
            (r"->|[-+*=<>(){}\[\],:;|?.]", TOKENS["punctuation"]),
            (r"[A-Za-z_][\w.-]*", Name),
            (r".", Text),
        ]
    }


class LLVMLexer(RegexLexer):
    """The LLVM IR of a kernel."""

    name = "LLVM IR of a kernel"
    aliases: list[str] = []
    filenames: list[str] = []
    mimetypes: list[str] = []
    url = "https://llvm.org/docs/LangRef.html"

    tokens = {
        "root": [
            (r"\s+", Whitespace),
            (r";[^\n]*", TOKENS["comment"]),
            (r'c?"(?:\\.|[^"\\])*"', TOKENS["string"]),
            (r"[\w.$-]+:", TOKENS["function"]),
            (r'%(?:"[^"\n]*"|[\w.$-]+)', TOKENS["var"]),
            (r'@(?:"[^"\n]*"|[\w.$-]+)', TOKENS["function"]),
            (r"[!#][\w.]*", TOKENS["param-name"]),
            (r"(?:i\d+|half|bfloat|float|double|ptr|void|label|metadata|token)\b", TOKENS["type"]),
            (
                r"(?:define|declare|attributes|target|source_filename|to|x|poison|undef|null|true|false)\b",
                TOKENS["keyword"],
            ),
            (r"(?:ret|br|store|fence|switch|unreachable|tail call|call)\b", TOKENS["primitive"]),
            (r"(?<== )[a-z]+(?: call)?\b", TOKENS["primitive"]),
            (r"-?(?:0x\w+|\d+(?:\.\d+)?(?:e[-+]?\d+)?)\b", TOKENS["literal"]),
            (r"[=<>(){}\[\],:*.]", TOKENS["punctuation"]),
            (r"[A-Za-z_][\w.-]*", Name),
            (r".", Text),
        ]
    }


class MachineLexer(RegexLexer):
    """Machine code as ``%passes --kernel`` shows it: names of functions, and addresses with instructions."""

    name = "machine code of a kernel"
    aliases: list[str] = []
    filenames: list[str] = []
    mimetypes: list[str] = []
    url = "https://www.capstone-engine.org"

    tokens = {
        "root": [
            (r"^\S.*:$", TOKENS["function"]),
            (r"^( +)([0-9a-f]+)( +)(\S+)", bygroups(Whitespace, TOKENS["comment"], Whitespace, TOKENS["primitive"])),
            (r"\n|[^\S\n]+", Whitespace),
            (r"-?(?:0x[0-9a-f]+|\d+)\b", TOKENS["literal"]),
            (r"(?:byte|word|dword|qword|xmmword|ymmword|zmmword|ptr)\b", TOKENS["keyword"]),
            (r"[a-z]\w*", TOKENS["var"]),
            (r"[-+*\[\]{},:#!]", TOKENS["punctuation"]),
            (r".", Text),
        ]
    }


_LEXERS = {
    "jaxpr": JaxprLexer,
    "stablehlo": StableHLOLexer,
    "hlo": StableHLOLexer,
    "llvm": LLVMLexer,
    "asm": MachineLexer,
    "python": PythonLexer,
}


def highlight(text: str, language: str) -> Iterator[tuple[str, str]]:
    """``text`` as (role, text) pairs, for ``document.lay_out`` and ``html.to_html``."""
    kind = _LEXERS.get(language)
    if kind is None:
        yield "", text
        return
    for token, piece in kind(stripnl=False, ensurenl=False).get_tokens(text):
        yield role_of(token), piece


def role_of(token: _TokenType) -> str:
    """The role of a token. If it has none, the role of its nearest ancestor that has one."""
    current: _TokenType | None = token
    while current is not None and current is not Token:
        if current in ROLE_OF:
            return ROLE_OF[current]
        if current is Operator:
            return "punctuation"
        if current is Comment:
            return "comment"
        current = current.parent
    return ""
