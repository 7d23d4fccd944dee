"""Pygments lexers for jaxprs and for StableHLO and HLO text, and the roles of their tokens.

They are registered as ``jaxpr`` and ``stablehlo``, so that ``pygmentize -l jaxpr`` works. Only front ends import this
module, because the engine does not depend on Pygments. The jaxpr lexer assigns the same roles as ``ir.pretty``.
"""

from __future__ import annotations

from collections.abc import Iterator

from pygments.lexer import RegexLexer, bygroups, default, include
from pygments.lexers.asm import LlvmLexer
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

_NAME = r"[A-Za-z_][\w-]*"
# The value of a parameter ends before these.
_ENDS_VALUE = r"(?=[])}\n]|\s+(?:[A-Za-z_]\w*=|# )| \])"


class JaxprLexer(RegexLexer):
    """Jaxprs, in JAX's and in the tutorial's style."""

    name = "jaxpr"
    aliases = ["jaxpr"]
    filenames = ["*.jaxpr"]
    mimetypes: list[str] = []
    url = "https://docs.jax.dev/en/latest/jaxpr.html"

    tokens = {
        "space": [(r"\s+", Text), (r"#[^\n]*|\.\.\. \(\d+ more equations\)", TOKENS["comment"])],
        "root": [(r"\}", Punctuation), include("jaxpr")],
        "braces": [
            # 'in' after shared jaxprs; a variable can be called 'in' too
            (r"(\})(\s+)(in)(?=\s*(?:let\b|\{))", bygroups(Punctuation, Text, Keyword), "#pop"),
            (r"\}", Punctuation, "#pop"),
            include("jaxpr"),
        ],
        "jaxpr": [
            include("space"),
            (r"\{", Punctuation, "braces"),
            (r"=(?=\s*\{)", Punctuation),
            (r"=", Punctuation, "primitive"),
            # a reference is read or written: r[0] <- a
            (r"<-", TOKENS["primitive"], "read"),
            (r"\+=", TOKENS["primitive"]),
            (rf"({_NAME})(\[)(?=[^][]*\]\s*(?:<-|\+=))", bygroups(TOKENS["var"], Punctuation), "place"),
            # a primitive without results
            (rf"{_NAME}(?=\[)", TOKENS["primitive"], "parameters"),
            (
                r"\[\.\.\.\]|\(b'',\)|\([-+]?[\dinf][^\s()]*j\)"
                r"|[-+]?(?:\d[\w.+-]*|\.\d[\w.+-]*|inf\b|nan\b)|True\b|False\b",
                TOKENS["literal"],
                "type",
            ),
            (r"(?:lambda|let|in(?=\s*\())(?![\w-])", Keyword),
            (r"_(?!\w)", TOKENS["drop"], "type"),
            (r"[A-Za-z_]\w*", TOKENS["var"], "type"),
            (r".", Punctuation),
        ],
        "type": [
            (r"(:)(Ref\{\w+\[[^]]*\]\}|[A-Za-z]\w*(?:<\w+>)?\[[^]]*\])", bygroups(Punctuation, Keyword.Type), "#pop"),
            default("#pop"),
        ],
        "primitive": [include("space"), (_NAME, TOKENS["primitive"], ("#pop", "parameters")), default("#pop")],
        # in the tutorial's style, there is a space around the brackets
        "parameters": [(r"\[| \[ ", Punctuation, ("#pop", "params")), default("#pop")],
        "read": [
            include("space"),
            (rf"({_NAME})(\[)", bygroups(TOKENS["var"], Punctuation), ("#pop", "place")),
            default("#pop"),
        ],
        # integers and slices; a slice may start at a variable
        "place": [
            include("space"),
            (r"\]", Punctuation, "#pop"),
            (r"\+\d+", Punctuation),
            (r"(?<=[\[,])(?:-?\d*:(?:-?\d+)?|-?\d+)", TOKENS["literal"]),
            (_NAME, TOKENS["var"]),
            (r".", Punctuation),
        ],
        "params": [
            include("space"),
            (r"\]", Punctuation, "#pop"),
            (r"[(),]", Punctuation),
            (r"\{(?=\s*lambda\b)", Punctuation, "braces"),
            (r"(\w*jaxpr|branches)(=)(?=\()", bygroups(TOKENS["param-name"], Punctuation)),
            (r"([A-Za-z_]\w*)(=)(?=\{\s*lambda\b)", bygroups(TOKENS["param-name"], Punctuation)),
            (rf"(\w*jaxpr|branches)(=)(?!None\b)({_NAME})", bygroups(TOKENS["param-name"], Punctuation, TOKENS["var"])),
            (r"([A-Za-z_]\w*)(=)", bygroups(TOKENS["param-name"], Punctuation), "value"),
            (_NAME, TOKENS["var"]),
            (r".", TOKENS["param-value"]),
        ],
        "value": [
            (_ENDS_VALUE, Text, "#pop"),
            (r"[(\[{]", TOKENS["param-value"], "nested"),
            (r"[^][(){}\s]+|\s", TOKENS["param-value"]),
        ],
        "nested": [
            (r"[(\[{]", TOKENS["param-value"], "#push"),
            (r"[])}]", TOKENS["param-value"], "#pop"),
            (r"[^][(){}]+", TOKENS["param-value"]),
        ],
    }


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
    "llvm": LlvmLexer,
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
