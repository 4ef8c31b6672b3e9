"""Cycles of x86-64 instructions, for a static estimate.

An estimate and no more: it adds up, for each instruction, about what its result takes to be ready
on cores of the last ten years when everything is in the first-level cache; cores overlap most of
it. From the tables of Agner Fog and uops.info, rounded to what Skylake, Ice Lake, Zen 3 and Zen 4
have in common.
"""

LOAD = 5
"""An operand from memory, besides the operation on it."""
PLAIN = 1
"""Moves, integer addition, logic, shifts, comparisons, conditional moves, branches, stores."""

CYCLES = {
    "imul": 3, "mul": 4, "mulx": 4, "div": 18, "idiv": 18, "popcnt": 3, "lzcnt": 3, "tzcnt": 3,
    "bsf": 3, "bsr": 3, "pdep": 3, "pext": 3, "xchg": 20, "rdtsc": 25, "lfence": 5,
    "vaddsd": 4, "vsubsd": 4, "vmulsd": 4, "vdivsd": 14, "vsqrtsd": 16, "vminsd": 4, "vmaxsd": 4,
    "vaddpd": 4, "vsubpd": 4, "vmulpd": 4, "vdivpd": 15, "vsqrtpd": 18, "vminpd": 4, "vmaxpd": 4,
    "vroundsd": 8, "vroundpd": 8, "vucomisd": 3, "vcomisd": 3, "vcmpsd": 4, "vcmppd": 4,
    "vcvtsi2sd": 6, "vcvttsd2si": 6, "vcvtsd2si": 6, "vmovq": 2, "vmovd": 2, "vpermq": 3,
    "vperm2f128": 3, "vextractf128": 3, "vextracti128": 3, "vinsertf128": 3, "vpmulld": 10,
    "vpmuludq": 5, "vpgatherqq": 20, "vgatherqpd": 20, "vhaddpd": 6, "vpextrq": 3, "vpinsrq": 2,
}  # fmt: skip
"""By mnemonic; `vfmadd` and its kin are 4, what is not here is PLAIN."""
FUSED = 4


def cycles(mnemonic: str, *, loads: bool) -> int:
    """The estimate of one instruction; `loads`: an operand of it is read from memory."""
    fused = mnemonic.startswith(("vfmadd", "vfmsub", "vfnmadd", "vfnmsub"))
    own = FUSED if fused else CYCLES.get(mnemonic, PLAIN)
    return own + (LOAD if loads else 0)
