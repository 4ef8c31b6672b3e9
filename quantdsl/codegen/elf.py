"""What an object file of ours holds and what it asks of others, read from its bytes."""

import struct
from typing import NamedTuple

from quantdsl.errors import InternalError

HEADER = struct.Struct("<IIQQQQIIQQ")
"""Of a section: name, type, flags, address, offset, size, link, info, alignment, entry size."""
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")
SYMBOLS, RELOCATIONS, EXECUTABLE = 2, 4, 4
FUNCTION = 2
UNDEFINED = 0


class Symbol(NamedTuple):
    """A name of the symbol table; section 0 is another object's."""

    name: str
    kind: int
    section: int
    value: int
    size: int


class Relocation(NamedTuple):
    """A place in section `section` that the loader fills with the address of a symbol."""

    section: int
    offset: int
    symbol: Symbol
    addend: int

    @property
    def target(self) -> tuple[int, int]:
        """(section, offset) that the place will point to; section 0 is another object's."""
        return self.symbol.section, self.symbol.value + self.addend


class Object(NamedTuple):
    """A little-endian ELF64 object file."""

    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]
    sections: tuple[bytes, ...]
    executable: frozenset[int]
    """Sections with instructions."""

    @property
    def undefined(self) -> list[str]:
        """The names that it leaves to others to define."""
        return [s.name for s in self.symbols if s.section == UNDEFINED and s.name]

    def function(self, name: str) -> tuple[int, int, bytes]:
        """(section, offset, bytes) of a function."""
        for symbol in self.symbols:
            if symbol.name == name and symbol.kind == FUNCTION:
                code = self.sections[symbol.section][symbol.value : symbol.value + symbol.size]
                return symbol.section, symbol.value, code
        raise InternalError(f"QD9511 codegen: the object has no function {name}")


def read(code: bytes) -> Object:
    """The object in these bytes; raises InternalError where they are none."""
    if not code.startswith(b"\x7fELF\x02\x01"):
        raise InternalError("QD9511 codegen: not a little-endian ELF64 object")
    (start,) = struct.unpack_from("<Q", code, 40)
    (count,) = struct.unpack_from("<H", code, 60)
    headers = [HEADER.unpack_from(code, start + HEADER.size * k) for k in range(count)]
    sections = tuple(code[h[4] : h[4] + h[5]] if h[1] != 8 else b"" for h in headers)
    symbols: tuple[Symbol, ...] = ()
    for index, header in enumerate(headers):
        if header[1] == SYMBOLS:
            symbols = tuple(_symbols(sections[index], sections[header[6]]))
    relocations = tuple(
        Relocation(header[7], offset, symbols[info >> 32], addend)
        for index, header in enumerate(headers)
        if header[1] == RELOCATIONS
        for offset, info, addend in RELOCATION.iter_unpack(sections[index])
    )
    executable = frozenset(k for k, header in enumerate(headers) if header[2] & EXECUTABLE)
    return Object(symbols, relocations, sections, executable)


def _symbols(table: bytes, names: bytes) -> list[Symbol]:
    return [
        Symbol(names[at : names.index(b"\0", at)].decode(), info & 15, section, value, size)
        for at, info, _, section, value, size in SYMBOL.iter_unpack(table)
    ]
