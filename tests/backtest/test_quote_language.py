"""quote(), display and the figures of one's own orders, from the source to the venue."""

import pytest

from quantdsl.events.layout import Aggressor, Kind
from tests.backtest.tick_runs import checked_strategy, quote, run_both, state, trade
from tests.std.core.core import members

HEAD = """strategy S:
    quotes
    trades
    state sent = 0
    state low = 0.0
    state high = 0.0
    state queue = 0.0
"""
MAKER = f"""{HEAD}
    on quote:
        quote(
            bid = mid - 0.0149, bid_qty = 100 shares, ask = mid + 0.0149,
            ask_qty = 100 shares if flat else 0 shares, post_only = true, requote_if = 2 ticks,
        )
    on trade:
        low = working.bid ?? -1.0
        high = working.ask ?? -1.0
        sent = order_count
"""


def held(text: str, events: list, *names: str) -> list[float | int]:
    run, checked = run_both(text, events), checked_strategy(text)
    return [state(run, checked, name) for name in names]


def test_prices_go_away_from_the_market_and_stay_where_little_changes() -> None:
    start = [quote(0, 9_999, 10_001), trade(1, 10_000, 1)]
    assert held(MAKER, start, "low", "high", "sent") == [99.98, 100.02, 2]
    # The mid moves by half a tick, then by two: only then is anything sent.
    moved = [quote(2, 9_999, 10_002), trade(3, 10_000, 1)]
    assert held(MAKER, [*start, *moved], "low", "sent") == [99.98, 2]
    moved = [quote(2, 10_001, 10_003), trade(3, 10_002, 1)]
    assert held(MAKER, [*start, *moved], "low", "high") == [100.0, 100.04]


def test_a_side_of_nothing_is_withdrawn() -> None:
    events = [
        quote(0, 9_999, 10_001),
        trade(1, 9_997, 100, Aggressor.SELLS),  # through the bid, which fills
        quote(2, 9_999, 10_001),
        trade(3, 10_000, 1),
    ]
    assert held(MAKER, events, "high") == [-1.0]


@pytest.mark.parametrize("side", ["bid", "ask"])
def test_a_size_that_is_no_number_is_refused_and_counted_and_no_quote_stands(side: str) -> None:
    text = (
        f"{HEAD}    on quote:\n        let n = 100.0 if spread < 3 ticks else 0.0 / 0.0\n"
        f"        quote({side} = {side}, {side}_qty = floor_qty(n))\n"
        f"    on trade:\n        low = working.{side} ?? -1.0\n"
    )
    stood = [quote(0, 9_999, 10_001), trade(1, 10_000, 1)]
    assert held(text, stood, "low") == [99.99 if side == "bid" else 100.01]
    gone = [quote(2, 9_999, 10_009), quote(3, 9_999, 10_009), trade(4, 10_000, 1)]
    for events in ([*stood, *gone], gone):
        run = run_both(text, events)
        assert run.memory.get("e.metrics.orders_nan") == 1, "the same terms are asked for once"
        assert run.memory.get("e.working") == 0
        assert held(text, events, "low") == [-1.0]


def test_a_quote_of_less_than_nothing_is_none() -> None:
    text = f"{HEAD}    on quote:\n        quote(bid = bid, bid_qty = floor_qty(-5.0))\n"
    run = run_both(text, [quote(0, 9_999, 10_001), trade(1, 10_000, 1)])
    assert run.memory.get("e.metrics.orders") == 0


def test_what_filled_of_a_quote_counts_in_its_record_when_it_moves() -> None:
    """It is asked for anew beside that, so the order is so much larger: 40 filled, 100 stand."""
    text = f"{HEAD}    on quote:\n        quote(bid = bid, bid_qty = 100 shares)\n"
    events = [
        quote(0, 9_999, 10_001, 0),  # nobody is ahead of the order that joins
        quote(1, 9_999, 10_001, 0),
        trade(2, 9_999, 40, Aggressor.SELLS),
        quote(3, 9_998, 10_001, 0),
    ]
    records = run_both(text, events).all_records()
    fills, orders = (records[records["kind"] == kind] for kind in (Kind.FILL, Kind.ORDER))
    assert fills["b"].tolist() == [40]
    assert orders["b"].tolist() == [100, 140]


def test_one_side_alone() -> None:
    text = f"{HEAD}    on quote:\n        quote(ask = ask, ask_qty = 50 shares)\n"
    text += "    on trade:\n        low = working.bid ?? -1.0\n        high = working.ask ?? -1.0\n"
    events = [quote(0, 9_999, 10_001), trade(1, 10_000, 1)]
    assert held(text, events, "low", "high") == [-1.0, 100.01]


@pytest.mark.parametrize("tif", ["ioc", "fok", "gtd(now + 250ms)", "day"])
def test_orders_with_a_time_in_force(tif: str) -> None:
    text = f"{HEAD}    on quote when flat and not pending:\n"
    text += f"        buy(100 shares, limit = ask, tif = {tif})\n"
    run = run_both(text, [quote(0, 9_999, 10_001), quote(1, 9_999, 10_001)])
    assert Kind.FILL in run.all_records()["kind"]


def test_an_exit_of_ones_own_that_rests_is_pending() -> None:
    text = f"{HEAD}    on quote:\n        if flat and not pending:\n"
    text += "            buy(100 shares)\n        elif long and not pending:\n"
    text += "            sell(100 shares, limit = ask)\n        sent = order_count\n"
    assert held(text, [quote(n, 9_999, 10_001) for n in range(40)], "sent") == [2]


def test_an_order_until_a_time_is_gone_then() -> None:
    text = f"{HEAD}    on quote when sent == 0:\n        sent += 1\n"
    text += "        buy(100 shares, limit = bid, tif = gtd(now + 250ms))\n"
    text += "    on trade:\n        low = working.bid ?? -1.0\n"
    start = [quote(0, 9_999, 10_001), trade(100, 10_000, 1)]
    assert held(text, start, "low") == [99.99]
    assert held(text, [*start, quote(300, 9_999, 10_001), trade(301, 10_000, 1)], "low") == [-1.0]


def test_an_iceberg_shows_a_part() -> None:
    text = f"{HEAD}    on quote when sent == 0:\n        sent += 1\n"
    text += "        buy(300 shares, limit = bid, display = 100 shares)\n"
    text += "    on trade:\n        low = float(position)\n"
    events = [quote(0, 9_999, 10_001), quote(1, 9_999, 10_001)]
    run = run_both(text, events)
    at = next(n for n in range(32) if run.memory.get(f"e.orders[{n}].id") == 1)
    assert run.memory.get(f"e.resting[{at}].display") == 100
    # Of what trades at its price only the part that is shown fills.
    sold = trade(2, 9_999, 900, Aggressor.SELLS)
    assert held(text, [*events, sold, trade(3, 10_000, 1)], "low") == [100.0]


@pytest.mark.parametrize(("shown", "why"), [("0.0", "zero_display"), ("-5.0", "zero_display"),
                                            ("0.0 / 0.0", "not_a_number")])
def test_an_iceberg_that_would_show_nothing_is_refused(shown: str, why: str) -> None:
    """It showed all of itself."""
    text = f"{HEAD}    on quote when sent == 0:\n        sent += 1\n        low = {shown}\n"
    text += "        buy(300 shares, limit = bid, display = floor_qty(low))\n"
    records = run_both(text, [quote(0, 9_999, 10_001), quote(1, 9_999, 10_001)]).all_records()
    (refused,) = records[records["kind"] == Kind.REJECT]
    assert members("risk.Reason")[refused["flags"]] == why
    assert Kind.ORDER not in records["kind"]
