"""What an object file asks of others."""

import pytest

from quantdsl.codegen import elf


def undefined_symbols(code: bytes) -> list[str]:
    """The names that an ELF64 object leaves to others to define."""
    if not code.startswith(b"\x7fELF\x02\x01"):
        pytest.skip("reads little-endian ELF64 only")
    return elf.read(code).undefined
