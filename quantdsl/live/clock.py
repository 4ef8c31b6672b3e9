"""The cycle counter as a clock: read in a nanosecond or ten, calibrated against the system's.

On x86-64 only: elsewhere user code may not read it, and there is no such clock.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from quantdsl.codegen.jit import Program, assemble
from quantdsl.codegen.target import native
from quantdsl.codegen.text import entry_symbol
from quantdsl.errors import UnavailableError
from quantdsl.ir.ops import I64_T, Func, Module

CYCLES = Func("cycles", (), I64_T, ())
TEXT = f"""\
define i64 @{entry_symbol(CYCLES.name)}() {{
  %now = call i64 @llvm.readcyclecounter()
  ret i64 %now
}}
declare i64 @llvm.readcyclecounter()
"""
CALIBRATION_S = 0.05
READINGS = 16


class Clock(NamedTuple):
    """Nanoseconds of a count: `wall_ns` since 1970 at `cycles`, `cycles_per_ns` from there on."""

    cycles: int
    wall_ns: int
    cycles_per_ns: float
    doubt_ns: int
    """How exactly `cycles` and `wall_ns` are the same moment."""

    def ns(self, cycles: float) -> float:
        """How long so many cycles take."""
        return cycles / self.cycles_per_ns

    def time_ns(self, cycles: int) -> int:
        """When the counter stood there, in ns since 1970."""
        return self.wall_ns + round((cycles - self.cycles) / self.cycles_per_ns)


def counter() -> Callable[[], int]:
    """A function that reads the cycle counter. Raises UnavailableError but on x86-64."""
    target = native()
    if not target.triple.startswith("x86_64"):
        raise UnavailableError("the cycle counter is read on x86-64 only")
    program = Program(assemble(TEXT, target), Module((), (), (CYCLES,), (CYCLES.name,)), target)
    return lambda: int(program.call(CYCLES.name))


def calibrate() -> Clock:
    """The clock of this machine, from two moments CALIBRATION_S apart.

    Raises UnavailableError but on x86-64.
    """
    read = counter()
    first, steady_first, doubt_first, _ = _moment(read)
    time.sleep(CALIBRATION_S)
    last, steady_last, doubt_last, wall = _moment(read)
    rate = (last - first) / (steady_last - steady_first)
    return Clock(last, wall, rate, max(doubt_first, doubt_last))


def _moment(read: Callable[[], int]) -> tuple[int, int, int, int]:
    """(cycles, steady ns, ns of doubt, wall ns): of several readings the one that took least."""
    found = []
    for _ in range(READINGS):
        before = time.monotonic_ns()
        cycles = read()
        wall = time.time_ns()
        after = time.monotonic_ns()
        found.append((after - before, cycles, before, wall))
    doubt, cycles, before, wall = min(found)
    return cycles, before + doubt // 2, doubt, wall
