"""`quantdsl check --races`: run each kernel's threads on the simulated device, and watch them.

The compiler proves every index and that all threads meet; whether two of them come to one word
between two barriers depends on the numbers, so it is tried.
"""

from typing import NamedTuple

from quantdsl.backtest.drawn import drawn_works
from quantdsl.check import Checked
from quantdsl.devices.batches import watched
from quantdsl.devices.watch import Fault

ROUNDS = 3
"""Blocks, each with values of its own."""


class Watched(NamedTuple):
    """A kernel that was run, and what its threads did wrong."""

    kernel: str
    threads: int
    faults: list[Fault]


def races(checked: Checked) -> list[Watched]:
    """What is found in each kernel that the strategy calls, on drawn values."""
    return [
        Watched(facts.name, facts.threads, watched(work))
        for facts, work in drawn_works(checked, ROUNDS)
    ]
