"""What an object file asks of others."""

import numpy as np
import pytest


def undefined_symbols(code: bytes) -> list[str]:
    """The names that an ELF64 object leaves to others to define."""
    if not code.startswith(b"\x7fELF\x02\x01"):
        pytest.skip("reads little-endian ELF64 only")
    start = int(np.frombuffer(code, "<u8", 1, 40)[0])
    count = int(np.frombuffer(code, "<u2", 1, 60)[0])
    sections = [np.frombuffer(code, "<u8", 8, start + 64 * i).tolist() for i in range(count)]
    # Words of a section header: 0 name and type, 3 offset, 4 size, 5 link and info.
    symbols = next(section for section in sections if section[0] >> 32 == 2)
    names = sections[symbols[5] & 0xFFFFFFFF][3]
    found = []
    for at in range(symbols[3] + 24, symbols[3] + symbols[4], 24):  # the first symbol is empty
        if code[at + 6 : at + 8] == b"\0\0":
            name = names + int.from_bytes(code[at : at + 4], "little")
            found.append(code[name : code.index(b"\0", name)].decode())
    return found
