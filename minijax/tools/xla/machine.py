"""The machine code of a kernel: read an ELF object file and disassemble its code."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from minijax.core.records import Frozen

_EXECUTABLE = 0x4
_FUNCTION = 2
_SYMBOLS = 2
# values of the field e_machine in ELF files
_X86_64, _AARCH64 = 62, 183


class Operation(Frozen):
    """One machine instruction: its offset in the section, its bytes, its mnemonic and its operands.

    ``symbol`` is the name of the function that starts at this instruction, or ''.
    """

    address: int
    bytes: bytes
    mnemonic: str
    operands: str
    symbol: str = ""


class _Part(Frozen):
    """A section of an object file."""

    kind: int
    flags: int
    offset: int
    bytes: int
    link: int


def _parts(code: bytes) -> list[_Part]:
    begin, size, count = struct.unpack_from("<40xQ10xHH", code, 0)
    found = []
    for i in range(count):
        kind, flags, offset, length, link = struct.unpack_from("<4xIQ8xQQI", code, begin + i * size)
        found.append(_Part(kind, flags, offset, length, link))
    return found


def size(code: bytes) -> int:
    """The number of bytes of machine code in an object file."""
    if code[:4] != b"\x7fELF":
        return 0
    return sum(part.bytes for part in _parts(code) if part.flags & _EXECUTABLE)


def operations(code: bytes) -> Iterator[Operation]:
    """The instructions of an object file (64-bit ELF), in order. Bytes that are no instruction are called '(bad)'.

    ValueError for another file format or an unknown processor.
    """
    # importing capstone takes 1.5 MB, and few commands need it
    import capstone

    if code[:5] != b"\x7fELF\x02":
        raise ValueError("not a 64-bit ELF object file, the only format that can be read")
    (machine,) = struct.unpack_from("<18xH", code)
    ways = {
        _X86_64: (capstone.CS_ARCH_X86, capstone.CS_MODE_64),
        _AARCH64: (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
    }
    if machine not in ways:
        raise ValueError(f"machine code of an unknown processor (ELF machine {machine})")
    reader = capstone.Cs(*ways[machine])
    reader.skipdata = True
    parts = _parts(code)
    names = _functions(code, parts)
    for index, part in enumerate(parts):
        if not part.flags & _EXECUTABLE:
            continue
        piece = code[part.offset : part.offset + part.bytes]
        for each in reader.disasm(piece, 0):
            word = "(bad)" if each.id == 0 else each.mnemonic
            symbol = names.get((index, each.address), "")
            yield Operation(each.address, bytes(each.bytes), word, each.op_str, symbol)


def _functions(code: bytes, parts: list[_Part]) -> dict[tuple[int, int], str]:
    """(index of a section, address) -> the name of the function there."""
    found: dict[tuple[int, int], str] = {}
    for part in parts:
        if part.kind != _SYMBOLS:
            continue
        names = parts[part.link].offset
        for at in range(part.offset, part.offset + part.bytes, 24):
            name, info, section, value = struct.unpack_from("<IBxHQ", code, at)
            if info & 0xF == _FUNCTION:
                end = code.index(b"\0", names + name)
                found[section, value] = code[names + name : end].decode(errors="replace")
    return found
