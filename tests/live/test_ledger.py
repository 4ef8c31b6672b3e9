"""What committed records say to people."""

import threading
from collections import deque
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace

import numpy as np

from quantdsl.data.instrument import Instrument
from quantdsl.events.layout import EVENT, MORE, NO_PRICE, RECORD, Command, KilledBy, Kind
from quantdsl.events.ring import Ring
from quantdsl.live.ledger import CHANGED, Ledger
from quantdsl.live.strategy import LiveStrategy, Spans, Unusable
from tests.live.programs import ready
from tests.waiting import WAIT_S

BUY, SELL = 1, -1


def order(number: int, lots: int, limit: int, level: int, flags: int = 0) -> tuple[int, ...]:
    return (0, 0, 0, Kind.ORDER, int(lots < 0), flags, number, lots, limit, level, 0)


def fill(number: int, lots: int, ticks: int) -> tuple[int, ...]:
    return (0, 0, 0, Kind.FILL, int(lots < 0), 0, number, lots, ticks, 0, 0)


def read(*rows: tuple[int, ...]) -> Ledger:
    ledger = Ledger("s", (Instrument(symbol="KO"),), 2, {})
    ledger.read(np.array(list(rows), RECORD))
    return ledger


def test_an_exit_is_on_the_other_side_of_the_position_that_it_guards():
    """It has no size of its own, and may be sent before its entry fills."""
    for sign, side in ((BUY, "sell"), (SELL, "buy")):
        entry = order(1, 100 * sign, NO_PRICE, NO_PRICE)
        stop = order(2, 0, NO_PRICE, 9_000)
        for rows in ((entry, stop), (entry, fill(1, 100 * sign, 9_500), stop)):
            found = read(*rows).working[2]
            assert (found.side, found.type, found.quantity) == (side, "stop exit", 0.0)


def test_small_sizes_and_long_prices_are_told_to_the_last_digit():
    coin = Instrument(symbol="BTC", tick=Fraction(1, 100), lot=Fraction(1, 100_000))
    ledger = Ledger("s", (coin,), 7, {})
    ledger.read(np.array([order(1, 2, NO_PRICE, NO_PRICE), fill(1, 2, 6_183_763)], RECORD))
    assert [text for _, _, text in ledger.said] == ["bought 0.00002 BTC at 61837.63"]
    assert ledger.standing(kept=True).startswith("holds +0.00002 BTC;")


def test_a_session_that_goes_on_is_told_what_it_holds_and_what_guards_it():
    entry, stop = order(1, 100, NO_PRICE, NO_PRICE), order(2, 0, NO_PRICE, 9_000)
    guarded, bare = read(entry, fill(1, 100, 9_500), stop), read(entry, fill(1, 100, 9_500))
    unguarded = "no order guards what is held until the strategy places one"
    assert guarded.standing(kept=True) == "holds +100 KO; 1 working order kept"
    lost = guarded.standing(kept=False)
    assert lost == f"holds +100 KO; 1 working order cancelled; {unguarded}"
    assert bare.standing(kept=True) == f"holds +100 KO; {unguarded}"
    assert read(entry, stop).standing(kept=False) == "2 working orders cancelled"
    assert read().standing(kept=True) == ""


def test_an_exit_that_is_moved_keeps_its_side():
    ledger = read(
        order(1, -100, NO_PRICE, NO_PRICE), order(2, 0, NO_PRICE, 9_000), fill(1, -100, 8_900),
        order(3, 50, 8_000, NO_PRICE), order(2, 0, NO_PRICE, 8_950, CHANGED),
    )  # fmt: skip
    assert ledger.working[2].side == "buy"
    assert ledger.working[2].price == 8_950 * float(ledger.instruments[0].tick)
    assert ledger.orders == 3


def test_a_trailing_stop_that_is_moved_is_no_new_order():
    trails = 8
    ledger = read(order(1, -100, NO_PRICE, 8_900, trails),
                  order(1, -100, NO_PRICE, 8_950, trails | CHANGED))  # fmt: skip
    assert ledger.orders == 1


def test_a_broken_limit_is_told_in_units_for_people():
    ledger = Ledger("s", (Instrument(symbol="KO"),), 6, {19: "max daily loss"})
    row = (0, 0, 0, Kind.RISK, 0, 0, 19, 18_000_000, 15_000_000, 3, 0)
    ledger.read(np.array([row], RECORD))
    assert ledger.said == [(0, "error", "a limit was broken: max daily loss: 18.00 against 15.00")]


def test_the_limit_of_the_house_that_halts_is_kept():
    reasons = {19: "max daily loss", 62: "house loss", 63: "house drawdown"}
    ledger = Ledger("s", (Instrument(symbol="KO"),), 6, reasons)
    for reason, broken in ((19, ""), (62, "daily_loss"), (63, "drawdown"), (19, "drawdown")):
        ledger.read(np.array([(0, 0, 0, Kind.RISK, 0, 0, reason, 2, 1, 3, 0)], RECORD))
        assert ledger.broken == broken


def test_an_order_that_the_core_has_no_more_is_left_out():
    """Filled by its old terms while the new ones were under way: no record says that it is over."""
    ledger = read(order(1, 100, 9_000, NO_PRICE), order(1, 101, 9_001, NO_PRICE, CHANGED),
                  fill(1, 100, 9_000), order(2, 50, 8_000, NO_PRICE))  # fmt: skip
    assert set(ledger.working) == {1, 2}
    ledger.keep({2})
    assert set(ledger.working) == {1, 2}, "one look may fall between two writes of the engine"
    ledger.keep({1, 2})
    ledger.keep({2})
    assert set(ledger.working) == {1, 2}
    ledger.keep({2})
    assert set(ledger.working) == {2}


def test_what_the_core_has_is_read_from_its_table():
    prepared = ready("crypto_maker")
    strategy = object.__new__(LiveStrategy)
    strategy.memory, strategy.prepared = prepared.run.memory, prepared
    assert strategy.known() == {}
    prepared.run.memory.set("curve_on", False)
    seen: dict[int, float] = {}
    for chunk in prepared.data.chunks():
        prepared.run.feed(chunk[: np.flatnonzero(chunk["flags"] & MORE == 0)[3_000] + 1])
        seen = strategy.known()
        break
    orders = prepared.run.all_records()
    assert len(seen) == prepared.run.memory.get("e.working") > 0
    assert seen.keys() <= set(orders["a"][orders["kind"] == Kind.ORDER].tolist())
    resting = [lots for lots in seen.values() if lots < np.inf]
    assert resting
    assert all(lots >= 0 and lots == int(lots) for lots in resting)


def test_it_is_told_whether_positions_are_closed():
    person = KilledBy.PERSON | KilledBy.CLOSING
    for killed, level in ((person, "warning"), (KilledBy.SESSION, "error")):
        asked = (0, 0, 0, Kind.COMMAND, Command.FLATTEN, 0, 0, killed, 0, 0, 0)
        ((_, told, text),) = read(asked).said
        assert told == level
        assert ("no position is closed" in text) == (level == "error")


def test_orders_are_said_to_pass_only_where_they_do():
    """A session that caught up lets orders pass, unless a person or a limit has halted it."""
    for killed, said in ((0, "orders pass"), (KilledBy.PERSON, "it stays halted: no order passes")):
        lifted = (0, 0, 0, Kind.COMMAND, Command.ARM, 0, KilledBy.SESSION, killed, 0, 0, 0)
        ((_, _, text),) = read(lifted).said
        assert text.startswith(said)


ROWS = np.array([order(1, 5, NO_PRICE, NO_PRICE), fill(1, 5, 100)], RECORD)


def drained(journal: object, pop: Callable[[int], np.ndarray]) -> LiveStrategy:
    """A strategy whose engine has written what `pop` gives."""
    strategy = object.__new__(LiveStrategy)
    strategy.journal, strategy.lane = journal, SimpleNamespace(sent_ns=0)
    strategy.drained, strategy._draining = SimpleNamespace(pop=pop), threading.Lock()
    strategy.spans, strategy.pending, strategy.handed = Spans(), deque(), 0
    return strategy


def test_who_drains_goes_on_when_all_is_in_the_journals_hands():
    """A checkpoint that counted less than the state it keeps could never be gone on with."""
    ring, taken, meanwhile, go = Ring.create(None, 4), [], threading.Event(), threading.Event()
    ring.producer().push(ROWS.view(EVENT))

    def slowly(records: np.ndarray) -> None:
        meanwhile.set()
        go.wait(WAIT_S)
        taken.extend(records.tolist())

    strategy = drained(SimpleNamespace(outputs=slowly), ring.consumer().pop)
    drains = threading.Thread(target=strategy.drain)
    drains.start()
    meanwhile.wait(WAIT_S)
    counted: list[int] = []
    checkpoint = threading.Thread(target=lambda: counted.extend((strategy.drain(), len(taken))))
    checkpoint.start()
    checkpoint.join(0.05)
    go.set()
    drains.join(WAIT_S)
    checkpoint.join(WAIT_S)
    assert counted == [0, len(ROWS)]


def test_what_a_failed_journal_has_not_taken_is_never_shown():
    strategy = drained(Unusable("the disk is full"), lambda _: ROWS)
    strategy.ledger = read()
    assert strategy.drain() == 2
    assert not strategy.acknowledge()
    assert not strategy.ledger.fills
