"""A fused multiply-add of binary32: one rounding, as the C library of this machine has it."""

import ctypes
import ctypes.util
import random
import struct

import pytest

from quantdsl.ir.scalar import f32, fma, fma32


def drawn(rng):
    return struct.unpack("<f", struct.pack("<I", rng.getrandbits(32)))[0]


def test_it_is_that_of_the_c_library():
    name = ctypes.util.find_library("m")
    if name is None:
        pytest.skip("this machine shows no C library")
    fmaf = ctypes.CDLL(name).fmaf
    fmaf.argtypes, fmaf.restype = [ctypes.c_float] * 3, ctypes.c_float
    rng = random.Random(2)
    for _ in range(20_000):
        x, y, z = drawn(rng), drawn(rng), drawn(rng)
        if rng.random() < 0.5:
            z = f32(-x * y * (1.0 + rng.random() * 2.0**-20)) if x * y == x * y else z
        found, wanted = fma32(x, y, z), fmaf(x, y, z)
        assert found == wanted or (found != found and wanted != wanted), (x, y, z)


def test_two_roundings_would_differ():
    """The sum lies just above a tie of binary32, and the double nearest to it is that tie."""
    values = float.fromhex("0x1.000fep+0"), float.fromhex("0x1.ffe042p-25"), 1.0
    assert fma32(*values) == 1.0 + 2.0**-23
    assert f32(fma(*values)) == 1.0
