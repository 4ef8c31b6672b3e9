"""What working orders reserve, kept order by order, is what counting all of them anew gives."""

import msgspec
import numpy as np
import pytest

from quantdsl.check.market import ENGINE
from quantdsl.check.step import STATE_PARAM
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import load
from quantdsl.codegen.target import native
from quantdsl.events.layout import EVENT, Kind
from quantdsl.ir.ops import Call, Do, Func
from tests.live.programs import ready

EVENTS, PIECE = 20_000, 50
CHANGED = 1
"""In the flags of an ORDER record: new terms for one that works."""


@pytest.mark.timeout(300)  # the strategy is compiled twice
def test_a_quote_that_moves_is_counted_by_itself():
    prepared = ready("skewed_maker")
    module, memory = prepared.checked.module(), prepared.run.memory
    anew = Func("anew", (STATE_PARAM,), None, (Do(Call("orders.renew", (ENGINE,))),))
    counted = msgspec.structs.replace(
        module, funcs=(*module.funcs, anew), entries=(*module.entries, "anew")
    )
    program = load(counted, native(), Cache())
    memory.set("curve_on", False)
    events = next(iter(prepared.data.chunks())).view(EVENT)[:EVENTS]
    reserved = set()
    for at in range(0, EVENTS, PIECE):
        prepared.run.feed(events[at : at + PIECE])
        kept = memory.words.copy()
        program.call("anew", kept)
        assert np.array_equal(kept, memory.words), at
        names = ("working_buy", "working_sell", "closing")
        reserved.add(tuple(memory.get(f"e.positions[0].{name}") for name in names))
    records = prepared.run.all_records()
    changed = (records["kind"] == Kind.ORDER) & (records["flags"] == CHANGED)
    assert np.count_nonzero(changed) > 100
    assert len(reserved) > 2
