"""How many threads of a kernel a multiprocessor holds at once, from NVIDIA's published limits."""

from typing import NamedTuple

from quantdsl.codegen.cubin import Cubin
from quantdsl.codegen.ptx import REGISTERS

WARP = 32
REGISTER_UNIT = 256
"""A warp is given registers in multiples of so many."""


class Multiprocessor(NamedTuple):
    """What one holds at most."""

    threads: int
    blocks: int


MULTIPROCESSORS = {
    "sm_75": Multiprocessor(1024, 16),
    "sm_80": Multiprocessor(2048, 32),
    "sm_86": Multiprocessor(1536, 16),
    "sm_87": Multiprocessor(1536, 16),
    "sm_89": Multiprocessor(1536, 24),
    "sm_90": Multiprocessor(2048, 32),
    "sm_100": Multiprocessor(2048, 32),
    "sm_103": Multiprocessor(2048, 32),
    "sm_110": Multiprocessor(1536, 24),
    "sm_120": Multiprocessor(1536, 24),
    "sm_121": Multiprocessor(1536, 24),
}


def blocks_at_once(cubin: Cubin) -> int:
    """Blocks of the largest size that a multiprocessor holds; registers and threads decide."""
    limits, warps = MULTIPROCESSORS[cubin.architecture], cubin.bounds.threads // WARP
    a_warp = -(-cubin.registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    by_registers = REGISTERS // a_warp // warps
    return min(by_registers, limits.threads // cubin.bounds.threads, limits.blocks)


def occupancy(cubin: Cubin) -> str:
    """What a thread takes and how full a multiprocessor gets, for people."""
    blocks, threads = blocks_at_once(cubin), cubin.bounds.threads
    most = MULTIPROCESSORS[cubin.architecture].threads
    return (
        f"{cubin.architecture}: {cubin.registers} registers, {cubin.shared_bytes:,} bytes shared, "
        f"{cubin.stack_bytes:,} bytes of stack, {cubin.spill_bytes:,} bytes spilled; "
        f"{blocks} blocks of {threads} threads on a multiprocessor: "
        f"{blocks * threads / most:.0%} of its {most:,} threads"
    )
