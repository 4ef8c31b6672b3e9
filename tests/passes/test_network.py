"""The network that sorts the words of a cross-section: for any number of them, any words."""

import numpy as np
import pytest

from quantdsl.ir import ops
from quantdsl.ir.interp import Interpreter
from quantdsl.passes.network import COUNT, SORT, sort_in_registers

WORK = ops.StructType("xs.Work")


def sorter(count: int) -> Interpreter:
    """The function of std, without what std says it does."""
    fields = (ops.FieldDecl("order", ops.ArrayType(ops.I64_T, count)),)
    func = ops.Func(SORT, (ops.ParamDecl("w", WORK, inout=True),), None, ())
    structs = (ops.StructDecl(WORK.name, fields),)
    module = ops.Module(structs, (), (func,), (SORT,), ((COUNT, count),))
    return Interpreter(sort_in_registers(module))


@pytest.mark.parametrize("count", [*range(1, 20), 31, 32, 33, 64, 65, 100, 127, 129, 300])
def test_sorts(count: int) -> None:
    random = np.random.default_rng(count)
    floats = random.normal(size=count)
    floats[random.random(count) < 0.2] = 0.0
    bits = floats.view(np.int64)
    words = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    found = words.copy()
    sorter(count).call(SORT, found)
    assert np.array_equal(found, np.sort(words))
