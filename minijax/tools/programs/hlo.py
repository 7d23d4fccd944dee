"""Read program text: count the operations of StableHLO and HLO, and remove metadata."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from minijax.core.records import Frozen
from minijax.tools.documents.words import plural

# These patterns are strings, which ``re`` compiles at their first use, so that a session starts quickly.
# ``%3 = stablehlo.add ...``, ``%3:2 = "stablehlo.sort"(...``, ``%3 = call @f(...)``
_STABLEHLO_OP = r'(?m)^\s*(?:%[\w#:, %]+ = )?"?((?:stablehlo|chlo|func|mhlo)\.[\w.]+|call)\b'
_NOT_WORK = {"func.func", "func.return", "stablehlo.return"}
# ``  ROOT %fusion.1 = f32[8]{0} fusion(...), kind=kLoop``; with or without the percent sign
_HLO_INSTRUCTION = r"(?m)^\s+(?:ROOT )?%?[\w.-]+ = .*?\s([a-z][\w-]*)\("
_HLO_ENTRY = r"(?ms)^ENTRY [^\n]*\{\n(.*?)^\}"
_NO_INSTRUCTION = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast"}

METADATA = r',? metadata=\{(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{[^{}]*\})*\}'
_BACKEND_CONFIG = r',? backend_config=(?:\{(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{(?:[^{}]|\{[^{}]*\})*\})*\}|"[^"]*")'
_LOCATION = r"(?m)^#loc.*\n?| loc\((?:[^()]|\([^()]*\))*\)"
# XLA's tables of files, functions and stack frames after the program.
_TABLE_NAMES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_TABLES = rf"(?m)^(?:{'|'.join(_TABLE_NAMES)})\n(?:.+\n)*\n?"
# ``  ROOT %add.1 = f32[8]{0} add(%a, %b), ...``: the opcode is the first word directly before a ``(``.
_INSTRUCTION = r"\s+(?:ROOT )?%?([\w.-]+) = .*?\s([a-z][\w-]*)\("
_COMPUTATION = r"(?:ENTRY )?%?([\w.-]+) \(.*\{$"
# Prefixes of the opcodes of collectives.
_SENDING = ("all-", "reduce-scatter", "collective-")
_CALLED = (
    r"\b(?:calls|to_apply|body|condition|branch_computations|called_computations|true_computation|false_computation)"
    r"=\{?(%[\w.-]+(?:, ?%[\w.-]+)*)"
)


def stablehlo_counts(text: str) -> Counter[str]:
    """Count the operations of a StableHLO module by name, including constants and calls but not returns."""
    return Counter(op for op in re.findall(_STABLEHLO_OP, text) if op not in _NOT_WORK)


def hlo_counts(text: str) -> Counter[str]:
    """Count the entry computation's instructions by opcode, except instructions that do no work, such as parameters."""
    entry = re.search(_HLO_ENTRY, text)
    body = text if entry is None else entry[1]
    return Counter(op for op in re.findall(_HLO_INSTRUCTION, body) if op not in _NO_INSTRUCTION)


def module_name(text: str) -> str:
    """The module name of an HLO program; '' if it has none."""
    found = re.match(r"HloModule ([\w.-]+)", text)
    return "" if found is None else found[1]


class Instruction(Frozen):
    """An HLO instruction: its computation, name and opcode, its operands, and the computations it calls."""

    computation: str
    name: str
    opcode: str
    operands: tuple[str, ...]
    called: tuple[str, ...]
    metadata: str


def instructions(lines: Sequence[str]) -> dict[int, Instruction]:
    """The instructions of an HLO program, by line index."""
    head, begin = re.compile(_INSTRUCTION), re.compile(_COMPUTATION)
    called, metadata = re.compile(_CALLED), re.compile(METADATA)
    found: dict[int, Instruction] = {}
    computation = ""
    for i, line in enumerate(lines):
        match = head.match(line)
        if match is None:
            begins = begin.match(line)
            computation = begins[1] if begins is not None else computation
            continue
        note = metadata.search(line)
        arguments = line[match.end() : line.find(")", match.end())]
        found[i] = Instruction(
            computation,
            match[1],
            match[2],
            tuple(re.findall(r"%([\w.-]+)", arguments)),
            tuple(name.strip(" %") for each in called.findall(line) for name in each.split(",")),
            "" if note is None else note[0],
        )
    return found


# Instructions that only contain other instructions.
HOLDING = ("fusion", "call")


def holds(line: str) -> bool:
    """Whether a line is an instruction that contains others: a fusion, or a call."""
    found = re.match(_INSTRUCTION, line)
    return found is not None and found[2] in HOLDING


def instruction_name(line: str) -> str:
    """The name of a line's instruction; '' if there is none."""
    found = re.match(_INSTRUCTION, line)
    return "" if found is None else found[1]


def table_lines(lines: Sequence[str]) -> set[int]:
    """The line indices of XLA's tables of files, functions and stack frames."""
    found: set[int] = set()
    inside = False
    for i, line in enumerate(lines):
        inside = bool(line) and (inside or line in _TABLE_NAMES)
        if inside:
            found.add(i)
    return found


def folded_line(line: str) -> str:
    """A line of HLO without metadata and backend configuration."""
    return re.sub(_BACKEND_CONFIG, "", re.sub(METADATA, "", line))


def folded(text: str) -> str:
    """``text`` without locations, metadata and backend configurations, which distract a reader."""
    for pattern in (METADATA, _BACKEND_CONFIG, _LOCATION, _TABLES):
        text = re.sub(pattern, "", text)
    return text


def optimized_text(counts: Counter[str]) -> str:
    """``2 fusions + 1 dot``: a short summary of an entry computation."""
    parts = [plural(counts["fusion"], "fusion")] if counts["fusion"] else []
    left = Counter({kind: n for kind, n in counts.items() if kind != "fusion"})
    if len(left) > 1:
        sent = sum([left.pop(kind) for kind in tuple(left) if kind.startswith(_SENDING)])
        parts += [plural(sent, "collective")] if sent else []
    if len(left) == 1:
        parts += [plural(n, kind) for kind, n in left.items()]
    elif left:
        parts.append(plural(left.total(), "other instruction" if parts else "instruction"))
    return " + ".join(parts) or "nothing to run"
