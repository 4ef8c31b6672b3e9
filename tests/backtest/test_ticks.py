"""A strategy on quotes and trades: what ticks, what is read, which handler runs and when."""

import pytest

import quantdsl
from quantdsl.backtest.run import run_checked
from quantdsl.check import compile_file
from quantdsl.events.layout import Aggressor, Feed, Kind
from quantdsl.report import tables
from quantdsl.shipped import shipped
from tests.backtest.tick_runs import (
    checked_strategy,
    event,
    feed,
    flat_book,
    quote,
    run_both,
    state,
    trade,
)

HEAD = "strategy S:\n    quotes\n    trades\n"


def states(text: str, events: list, *names: str) -> list[float | int]:
    """What the states hold at the end."""
    run, checked = run_both(text, events), checked_strategy(text)
    return [state(run, checked, name) for name in names]


def counting(event_: str, *names: str) -> str:
    """A strategy that adds up figures at each event."""
    held = "".join(f"    state s{n} = 0.0\n" for n in range(len(names)))
    added = "".join(f"        s{n} += float({name})\n" for n, name in enumerate(names))
    return f"{HEAD}    state count = 0\n{held}    on {event_}:\n        count += 1\n{added}"


def test_a_quote_runs_its_handler_with_its_own_prices() -> None:
    text = counting("quote", "bid", "ask", "spread", "mid", "bid_qty", "ask_qty")
    found = states(text, [quote(0, 9_999, 10_001, 300)], "count", *(f"s{n}" for n in range(6)))
    assert found == [1, 99.99, 100.01, 0.02, 100.0, 300.0, 300.0]


@pytest.mark.parametrize("sides", [(None, 10_001), (9_999, None), (10_001, 10_001), (2, 1)])
def test_a_quote_without_two_sides_that_part_does_not_tick(sides: tuple) -> None:
    text = counting("quote", "bid")
    found = states(text, [quote(0, 9_999, 10_001), quote(1, *sides)], "count", "s0")
    assert found == [1, 99.99]


def test_a_trade_reads_the_last_quote_and_its_own_side() -> None:
    text = counting("trade", "trade.price", "trade.qty", "trade.signed_qty", "mid")
    events = [
        trade(0, 10_000, 5),  # no quote yet: mid is not warm
        quote(1, 9_999, 10_001),
        trade(2, 10_001, 10, Aggressor.BUYS),
        trade(3, 9_999, 30, Aggressor.SELLS),
        trade(4, 10_000, 40),
    ]
    found = states(text, events, "count", "s0", "s1", "s2", "s3")
    assert found == [3, 300.0, 80.0, -20.0, 300.0]


def test_what_is_looked_back_at_is_the_tick_before() -> None:
    text = counting("quote when bid > bid[1] and mid[2] > 0.0", "bid[1]", "spread[2]")
    events = [quote(n, 10_000 + up, 10_002 + n) for n, up in enumerate((0, 1, 1, 2))]
    assert states(text, events, "count", "s0", "s1") == [1, 100.01, 0.02]


def test_equations_of_two_clocks_tick_with_both() -> None:
    text = counting("trade", "ts.sum(mid + float(trade.price), 2)")
    events = [quote(0, 9_900, 10_100), trade(1, 10_000, 1), quote(2, 9_902, 10_100)]
    found = states(text, [*events, trade(3, 10_001, 1)], "count", "s0")
    # The sum ticks at 1, 2 and 3 ms; it is warm when both clocks have ticked twice.
    assert found == [1, pytest.approx(200.01 + 200.02)]


def test_timers_fill_and_stale_feeds_run_beside_them() -> None:
    text = (
        f"{HEAD}    state timers = 0\n    state lost = 0\n    state quoted = 0\n"
        "    on stale(quotes):\n        lost += 1\n    on quote:\n        quoted += 1\n"
        "    every 30s:\n        timers += 1\n"
    )
    events = [
        quote(0, 1, 2),
        event(Kind.TIMER, 1, 0),
        feed(2, Feed.GOOD),
        feed(3, Feed.STALE),
        feed(4, Feed.GAP),
        event(Kind.TIMER, 5, 0),
        quote(6, 1, 2),
    ]
    assert states(text, events, "timers", "lost", "quoted") == [2, 2, 2]


def test_two_instruments_have_clocks_of_their_own() -> None:
    text = (
        'strategy S:\n    instrument "A" as y\n    instrument "B" as x\n    quotes\n'
        "    state ys = 0\n    state both = 0\n    state gap = 0.0\n"
        "    on quote(y):\n        ys += 1\n        gap = y.mid - x.mid\n"
        "    on quote:\n        both += 1\n"
    )
    events = [quote(0, 100, 102, inst=1), quote(1, 200, 202), quote(2, 300, 302)]
    assert states(text, events, "ys", "both", "gap") == [2, 3, pytest.approx(2.0)]


def test_the_curve_has_a_row_a_second_at_most() -> None:
    text = counting("quote", "bid") + '    plot(mid, "mid")\n'
    run = run_both(text, [quote(250.0 * n, 9_999, 10_001 + n) for n in range(9)])
    times = run.curve()[:, 0]
    assert [(int(ts - times[0])) // 1_000_000 for ts in times] == [0, 1_000, 2_000]


def test_state_of_type_time_pauses() -> None:
    text = (
        f"{HEAD}    state until: time = never\n    state paused = 0\n    state counted = 0\n"
        "    on trade:\n        until = now + 250ms\n"
        "    on quote:\n        counted += 1\n        if now < until:\n            paused += 1\n"
    )
    events = [trade(0, 1, 1), *(quote(100 * n, 1, 2) for n in range(1, 6))]
    assert states(text, events, "counted", "paused") == [5, 2]


def test_what_the_end_closes_is_closed_then() -> None:
    path = shipped("strategies/twap_execution.qdsl")
    result = run_checked(compile_file(path), path, end="2023-01-03T14:33")
    bought, closed = (tables.fills(result)["time"].to_pylist()[row] for row in (0, -1))
    assert closed == tables.orders(result)["time"].to_pylist()[-1]
    trips = tables.trades(result).to_pydict()
    assert (trips["entry_time"][0], *set(trips["exit_time"])) == (bought, closed)


@pytest.mark.parametrize(("lots", "filled"), [(128, 128), (130, 0)])
def test_all_or_nothing_is_of_the_levels_that_an_order_takes(lots: int, filled: int) -> None:
    """64 of the hundred that the book shows, each of two lots."""
    text = (
        "strategy S:\n    book depth = 5\n    state n = 0\n    on book:\n        n += 1\n"
        f"        if n == 1:\n            buy({lots} lots, limit = ask + 300 ticks, tif = fok)\n"
    )
    books = [flat_book(ms, 9_999, 10_001, lots=2, levels=100) for ms in range(3)]
    made = run_both(text, books)
    assert made.memory.get("e.positions[0].lots") == filled
    assert made.memory.get("e.working") == 0


@pytest.mark.parametrize("order", ["buy", "target"])
@pytest.mark.parametrize("most", ["1_000", "100"])
def test_what_buys_is_cut_and_judged_by_the_ask(order: str, most: str) -> None:
    """A target was cut by the bid and judged by the ask, so that it was refused, or overdrawn."""
    text = (
        "language 1\n\nstrategy Cut:\n    book depth = 10\n    trades\n    session \"XNYS\"\n"
        "    state done = false\n    on book when not pending:\n"
        "        if not done and now.hour >= 10:\n"
        f"            {order}(100_000 shares)\n            done = true\n"
        f"    risk:\n        max_notional = {most}% of equity\n"
        "    backtest:\n        cash = 100_056 USD\n"
    )  # fmt: skip
    report = quantdsl.backtest(text)
    fills = report.fills.to_pylist()
    paid = sum(fill["quantity"] * fill["price"] for fill in fills)
    assert report.metrics["rejected_orders"] == 0
    assert 99_900 < paid <= 100_056
