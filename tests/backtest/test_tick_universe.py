"""Universes of quotes, trades and books: each instrument's own ticks, one account."""

from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.run import run_checked
from quantdsl.backtest.signals import prepare_signals
from quantdsl.backtest.stream import materialised
from quantdsl.backtest.sweep import prepare_sweep
from quantdsl.backtest.testing import run_tests
from quantdsl.backtest.verify import InterpretedRunner, Lanes, Target, compared, draw, targets
from quantdsl.check import Checked, check_source
from quantdsl.check.columns import NO_COLUMNS
from quantdsl.errors import DataError
from quantdsl.events.layout import Kind
from quantdsl.lang.source import Source
from tests.backtest.test_signals import interpreted
from tests.backtest.test_tick_sweep import assert_rows_are_single_backtests, finished
from tests.std.universe import compiled, write

END = "2023-01-03T14:33"
SECOND_NS = 1_000_000_000
HEAD = """language 1
strategy Ticks:
    "Leans against what is far from its own average, a few lots at a time."
    {market}
    quotes
    trades
    book depth = 5
    {bars}

    param away = 0.4 in 0.2..0.6 step 0.2
"""
BARS = "bars 5s as quick\n    bars 20 ticks as counted"
EACH = """
    let {p}slow = ts.ewm_mean({i}mid, halflife = 5s)
    let {p}gap  = {i}mid - {p}slow
    let {p}was  = {p}gap[2]
    let {p}lean = {i}book.imbalance(levels = 3)

    on quote{of}:
        if abs(float({i}position)) < 300 and {i}working.bid is na and {i}working.ask is na:
            if {p}gap < -away * float({i}spread) and {p}was < 0:
                buy({a}floor_qty(100{c}), limit = {i}bid)
            elif {p}gap > away * float({i}spread) and {p}lean < 0:
                short({a}floor_qty(100{c}), limit = {i}ask)

    on trade{of}:
        if float({i}trade.qty) > 300 and float({i}position) != 0:
            close_position({only})
"""
FOOT = """
    backtest:
        cash     = 1_000_000 USD
        leverage = 4
        latency  = 5ms
"""
PLAIN = dict.fromkeys(("p", "i", "of", "a", "c", "only"), "")
ON_BARS = """
    let rank = xs.rank(close / close[3])
    let busy = counted.close > counted.open

    on bar(quick):
        if rank > 0.5 and position == 0 shares:
            buy(50 shares)
        elif busy and long:
            cancel_all()

    on stale(quotes):
        cancel_all()

    every 20s:
        for i in universe:
            if i.working.bid is not na:
                cancel_all(i)
"""


def named(name: str) -> dict[str, str]:
    """What stands in the places of EACH for an instrument with a name."""
    return {
        "p": f"{name}_", "i": f"{name}.", "of": f"({name})", "a": f"{name}, ", "c": f", {name}",
        "only": name,
    }  # fmt: skip


def universe(symbols: str, more: str = ON_BARS) -> Checked:
    head = HEAD.format(market=f"universe {symbols}", bars=BARS if more else "")
    return compiled(head + EACH.format(**PLAIN) + more + FOOT)


def fills(checked: Checked) -> np.ndarray:
    records = run_checked(checked, Path("x"), end=END).records
    return records[records["kind"] == Kind.FILL]


def test_two_members_trade_as_two_instruments_do() -> None:
    market = 'instrument "SYN1" as a\n    instrument "SYN2" as b'
    each = EACH.format(**named("a")) + EACH.format(**named("b"))
    two = fills(compiled(HEAD.format(market=market, bars="") + each + FOOT))
    both = fills(universe('"SYN1", "SYN2"', more=""))
    assert set(both["instrument"]) == {0, 1}
    assert len(both) > 40
    for name in ("ts_event", "instrument", "a", "b", "c", "d"):
        assert (both[name] == two[name]).all(), name


def test_two_members_have_the_signals_of_two_instruments() -> None:
    market = 'instrument "SYN1" as a\n    instrument "SYN2" as b'
    each = EACH.format(**named("a")) + EACH.format(**named("b"))
    apart = compiled(HEAD.format(market=market, bars="") + each + FOOT)
    two = prepare_signals(apart, end=END).table()
    prepared = prepare_signals(universe('"SYN1", "SYN2"', more=""), end=END)
    both = prepared.table()
    assert both.equals(interpreted(prepared).table())
    for alias, symbol in (("a", "SYN1"), ("b", "SYN2")):
        ours, theirs = (one.filter(pc.equal(one["instrument"], symbol)) for one in (both, two))
        assert len(ours) > 1_000
        for name in ("slow", "gap", "was", "lean"):
            assert ours[name].equals(theirs[f"{alias}_{name}"]), name


def test_a_timer_closes_a_bar_of_each_in_its_signals() -> None:
    prepared = prepare_signals(universe('"SYN1", "SYN2", "SYN3"'), end=END)
    found = prepared.table()
    assert found.equals(interpreted(prepared).table())
    at, rows = np.unique(found["time"].cast("int64").to_numpy(), return_counts=True)
    closings = rows[at % (5 * SECOND_NS) == 0]
    assert len(closings) > 10
    assert set(closings) == {3}
    assert found["rank"].null_count < len(found)


def lanes_of(checked: Checked, n_points: int, n_events: int) -> Lanes:
    arranged = arrange(checked, end=END)
    checked = arranged.sized(checked)
    points = draw(checked, arranged, n_points, np.random.default_rng(1))
    every = materialised(arranged.data)
    return Lanes(checked, arranged, points, np.concatenate([every[:n_events], every[-1:]]))


def test_every_target_leaves_one_hash() -> None:
    checked = universe('"SYN1", "SYN2", "SYN3"')
    machine = targets(NO_COLUMNS, lambda _: None)
    oracle = Target("interpreter", InterpretedRunner())
    few = compared(lanes_of(checked, 2, 400), [oracle, *machine])
    many = compared(lanes_of(checked, 9, 10_000), machine)
    for outcomes in (few, many):
        assert [outcome.difference for outcome in outcomes] == [""] * len(outcomes)
        assert len({outcome.hash for outcome in outcomes}) == 1
    assert len(few) >= 4


def test_rows_of_a_sweep_are_single_backtests() -> None:
    checked = universe('"SYN1", "SYN2", "SYN3"')
    sweep = prepare_sweep(checked, Path("ticks.qdsl"), end=END)
    result = finished(sweep)
    assert len(result) == 3
    assert min(result.metric("fills")) > 20
    assert_rows_are_single_backtests(sweep, result)


def test_bars_of_all_close_at_one_instant_and_are_compared() -> None:
    """A member's rank is known when its bar and those of the others have closed."""
    checked = universe('"SYN1", "SYN2", "SYN3"')
    bought = fills(checked)
    assert len(bought[np.abs(bought["b"]) == 50]) > 3


def test_members_alone_trade(tmp_path: Path) -> None:
    lines = ["SYN1,,", "SYN2,2030-01-01,"]
    members = write(tmp_path, "members.csv", "symbol,entry,exit", lines)
    checked = universe('"SYN1", "SYN2", point_in_time = true')
    more = {"universe.members": members}
    records = run_checked(checked, Path("x"), end=END, more=more).records
    found = records[records["kind"] == Kind.FILL]
    assert set(found["instrument"]) == {0}


QUOTES = """language 1
strategy Near:
    universe "ALL"
    quotes
    let least = ts.min(bid, 5)
    on quote:
        if flat and bid <= least:
            buy(10 shares)
    backtest:
        cash = 100_000 USD
"""


def recorded(folder: Path, name: str, start: float) -> None:
    rng = np.random.default_rng(len(name))
    bids = (start + np.cumsum(rng.integers(-2, 3, 300)) / 100).round(2)
    rows = [f"2024-01-03T15:00:{n // 5:02}.{n % 5}00,{b},{b + 0.02:.2f},50,50"
            for n, b in enumerate(bids)]  # fmt: skip
    write(folder, f"{name}.csv", "time,bid,ask,bid_size,ask_size", rows)


def test_a_folder_holds_a_file_of_each(tmp_path: Path) -> None:
    for name, start in (("KO", 60.0), ("PEP", 170.0)):
        recorded(tmp_path, name, start)
    ran = run_checked(compiled(QUOTES), Path("x"), data=tmp_path)
    bought = ran.records[ran.records["kind"] == Kind.FILL]
    assert sorted(bought["instrument"][bought["b"] == 10].tolist()) == [0, 1]
    recorded(tmp_path, "KO_2", 61.0)
    with pytest.raises(DataError, match=r"two files of KO, KO.csv and KO_2.csv"):
        run_checked(compiled(QUOTES), Path("x"), data=tmp_path)


def test_one_file_of_many_needs_a_list(tmp_path: Path) -> None:
    recorded(tmp_path, "KO", 60.0)
    with pytest.raises(DataError, match="list the instruments"):
        run_checked(compiled(QUOTES), Path("x"), data=tmp_path / "KO.csv")


TESTED = QUOTES.replace('"ALL"', '"ALL", point_in_time = true') + """
    test "buys at its low":
        feed mid = [10.00, 9.99, 9.98], spread = 2 ticks
        expect orders.count == 1 and long

    test "leaves alone what is no member":
        given member = [0]
        feed mid = [10.00, 9.99, 9.98]
        expect orders.count == 0
"""


def test_a_test_of_the_file_feeds_one_member(tmp_path: Path) -> None:
    path = tmp_path / "near.qdsl"
    path.write_text(TESTED)
    assert [(one.passed, one.message) for one in run_tests(path)] == [(True, "")] * 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("    let r = xs.rank(mid)\n", "a tick is of one instrument"),
        ("    let r = dollar_volume\n", "'bars'"),
        ("    bars 1m, price = bid, adjust = all\n", "'adjust =' is not available yet"),
        ("    on start:\n        quote(bid = 10.0, bid_qty = 5 shares)\n", "of which instrument"),
        ('    on start:\n        cancel("x")\n', "of which instrument"),
        ('    on start:\n        replace("x", limit = 5.0)\n', "of which instrument"),
    ],
)
def test_what_cannot_be_is_refused(line: str, message: str) -> None:
    text = QUOTES.replace("    let least", f"{line}    let least")
    checked, diagnostics = check_source(Source(text, "near.qdsl"))
    assert checked is None
    assert any(message in one.message for one in diagnostics), diagnostics
