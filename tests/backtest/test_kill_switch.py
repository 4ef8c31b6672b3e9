"""The kill switch on ticks: orders at the venue are called back, none goes out any more."""

import numpy as np
import pytest

from quantdsl.codegen.jit import Program, object_code
from quantdsl.codegen.target import native
from quantdsl.events.layout import Command, KilledBy, Kind
from quantdsl.ir.interp import Interpreter
from tests.backtest.tick_runs import MS, checked_strategy, event, prepared, quote
from tests.std.core.core import members

TEXT = """language 1

strategy Maker:
    "Quotes both sides at the touch."

    quotes

    on quote:
        quote(bid = bid, bid_qty = 10 shares, ask = ask, ask_qty = 10 shares)

    risk:
        max_position = 1_000 shares
"""
LATENCY = 5 * MS


@pytest.mark.parametrize("interpreted", [False, True], ids=["machine", "interpreter"])
def test_no_order_leaves_after_the_next_event_and_all_are_called_back(interpreted: bool) -> None:
    checked = checked_strategy(TEXT)
    module = checked.module()
    target = native()
    executor = (Interpreter(module) if interpreted
                else Program(object_code(module, target), module, target))
    run = prepared(checked, module, executor)
    run.memory.set("e.venues[0].latency_entry", LATENCY)
    run.memory.set("e.venues[0].latency_response", LATENCY)
    run.feed(np.concatenate([quote(10 * n, 10_000 + n, 10_002 + n) for n in range(1, 6)]))
    before = run.all_records()
    assert (before["kind"] == Kind.ORDER).sum() > 0
    assert run.memory.get("e.working") == 2
    run.memory.set("e.watch.killed", 1)
    # Each of these asks for another quote: it is refused, and both orders are called back.
    run.feed(np.concatenate([quote(60 + 10 * n, 10_004 - n, 10_008 + n) for n in range(6)]))
    after = run.all_records()[len(before) :]
    assert not (after["kind"] == Kind.ORDER).any()
    refused = after[after["kind"] == Kind.REJECT]
    ended = after[after["kind"] == Kind.CANCEL]
    killed = members("risk.Reason").index("killed")
    assert ended["flags"].tolist() == [killed, killed]
    assert len(refused) > 0
    assert set(refused["flags"].tolist()) == {killed}
    # Called back with the event at 60 ms: there by 65 ms, known by 70 ms.
    assert (ended["ts_event"] <= after["ts_event"].min() + 2 * LATENCY + 10 * MS).all()
    assert run.memory.get("e.working") == 0
    assert run.memory.get("e.watch.killed") == 1


@pytest.mark.parametrize("interpreted", [False, True], ids=["machine", "interpreter"])
def test_a_person_closes_what_is_held_while_it_is_on(interpreted: bool) -> None:
    checked = checked_strategy(TEXT)
    module, target = checked.module(frozenset({"USES_COMMAND"})), native()
    executor = (Interpreter(module) if interpreted
                else Program(object_code(module, target), module, target))
    run = prepared(checked, module, executor)
    run.memory.set("e.venues[0].latency_entry", LATENCY)
    run.memory.set("e.venues[0].latency_response", LATENCY)
    run.feed(np.concatenate([quote(10, 10_000, 10_002), quote(20, 9_990, 9_992, lots=5)]))
    run.feed(quote(40, 9_990, 9_992))
    held = run.memory.get("e.positions[0].lots")
    assert held > 0, "the falling price has filled the bid"
    run.feed(event(Kind.COMMAND, 50, KilledBy.PERSON, side=Command.KILL))
    run.feed(np.concatenate([quote(60 + 10 * n, 9_990, 9_992) for n in range(3)]))
    assert (run.memory.get("e.working"), run.memory.get("e.positions[0].lots")) == (0, held)
    before = len(run.all_records())
    run.feed(event(Kind.COMMAND, 95, side=Command.FLATTEN))
    run.feed(np.concatenate([quote(100 + 10 * n, 9_990, 9_992) for n in range(3)]))
    after = run.all_records()[before:]
    assert (after["kind"] == Kind.ORDER).sum() == 1
    assert after[after["kind"] == Kind.FILL]["b"].tolist() == [-held]
    assert (run.memory.get("e.working"), run.memory.get("e.positions[0].lots")) == (0, 0)
    assert run.memory.get("e.watch.killed") & KilledBy.PERSON
