"""Promise: the value of a basket is added up in wide registers, the sums those of one at a time."""

import time

import numpy as np
import pytest

from quantdsl.codegen.jit import Program
from quantdsl.codegen.target import native
from tests.std.core.baskets import ENTRY, code, filled, module, plainly

CALLS, ROUNDS = 10_000, 30


@pytest.mark.parametrize("instruments", [2, 8, 60, 500])
def test_a_basket_in_wide_registers(benchmark, instruments, full):
    """The same function in wide registers and one instrument at a time, turn about in one process;
    `scalar_ratio` is how many times as long the second takes.
    """
    made, calls = module(instruments, universe=False, wide=True), CALLS if full else 10
    words = filled(made, instruments, 1)
    forms = {wide: Program(code(instruments, wide=wide), made, native()) for wide in (True, False)}
    took: dict[bool, list[float]] = {wide: [] for wide in forms}
    sums: dict[bool, list[int]] = {}

    def both():
        for wide, program in forms.items():
            told = np.zeros(2, np.int64)
            begun = time.perf_counter()
            program.call(ENTRY, words, calls, told)
            took[wide].append(time.perf_counter() - begun)
            sums[wide] = told.tolist()

    benchmark.pedantic(both, rounds=ROUNDS if full else 1)
    assert sums[True] == sums[False]
    if not full:
        assert sums[True] == plainly(made, words, instruments, calls)
    benchmark.extra_info["scalar_ratio"] = float(np.median(took[False]) / np.median(took[True]))
