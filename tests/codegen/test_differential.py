"""Interpreter and machine code leave the same bits, over thousands of random programs."""

import pytest

from tests.codegen.differential import difference

MODULES = 42
PROGRAMS = 50


@pytest.mark.parametrize("seed", range(MODULES))
def test_interpreter_and_machine_code_leave_the_same_bits(seed):
    assert difference(seed, PROGRAMS) is None
