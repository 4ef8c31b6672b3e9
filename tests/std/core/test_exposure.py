"""What an order would add to: the basket's value, the same however it is added up."""

import numpy as np
import pytest

from quantdsl.codegen.jit import Program
from quantdsl.codegen.proof import prove
from quantdsl.codegen.target import WIDE, native
from quantdsl.ir.interp import Interpreter
from tests.std.core.baskets import ENTRY, code, filled, module, plainly


@pytest.mark.parametrize("universe", [False, True])
@pytest.mark.parametrize("instruments", [1, 2, 3, 4, 5, 7, 30])
def test_all_forms_add_up_what_is_told_of_one(instruments: int, universe: bool) -> None:
    made = module(instruments, universe=universe, wide=True)
    for seed in range(3):
        words, calls = filled(made, instruments, seed), 2 * instruments
        wanted = plainly(made, words, instruments, calls)
        runners = [Interpreter(made)]
        for wide in (True, False):
            object_file = code(instruments, universe=universe, wide=wide)
            runners.append(Program(object_file, made, native()))
        for runner in runners:
            sums = np.zeros(2, np.int64)
            runner.call(ENTRY, words, calls, sums)
            assert sums.tolist() == wanted


@pytest.mark.skipif(not native().triple.startswith("x86_64"), reason="read back on x86-64 only")
def test_a_basket_is_added_up_in_wide_registers() -> None:
    loops = {wide: prove(code(30, wide=wide), ENTRY).loops for wide in (True, False)}
    assert max(loop.width_bytes for loop in loops[True]) == 8 * WIDE
    assert max(loop.width_bytes for loop in loops[False]) < 8 * WIDE
