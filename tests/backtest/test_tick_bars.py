"""Bars that the core builds of trades and quotes, against plain loops and a vendor's own bars."""

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest.prepare import prepare
from quantdsl.backtest.sweep import prepare_sweep
from quantdsl.backtest.testing import run_tests
from quantdsl.backtest.verify import InterpretedRunner, Target, compared, targets
from quantdsl.check import compile_file
from quantdsl.check.columns import NO_COLUMNS
from quantdsl.events.codes import TimerSide
from quantdsl.events.layout import MORE, Kind
from tests.backtest.test_lane_entry import checked_text
from tests.backtest.test_tick_sweep import (
    assert_rows_are_single_backtests,
    finished,
    hand_made,
)
from tests.backtest.tick_runs import event, flat_book, message, quote, run_both, trade
from tests.std.book.recordings import path as recorded

LOG = 20
SECOND = 1_000
NAMES = ("open", "high", "low", "close")


# ---- plain loops -------------------------------------------------------------------------------


def plain(ticks, complete):
    """Bars [time, open, high, low, close, volume] of (time, price, lots); `complete(bar, tick)`
    says whether a bar is done with that tick."""
    bars, bar, amount = [], None, 0
    for at, price, lots in ticks:
        if bar is None:
            bar, amount, count = [at, price, price, price, price, 0], 0, 0
        bar[0], bar[2], bar[3], bar[4] = at, max(bar[2], price), min(bar[3], price), price
        bar[5] += lots
        amount, count = amount + price * lots, count + 1
        if complete(count, bar[5], amount):
            bars.append(bar)
            bar = None
    return bars


def plain_time(ticks, length):
    """Bars of [k * length, (k + 1) * length), each known at its end."""
    bars = {}
    for at, price, lots in ticks:
        end = at // length * length + length
        bar = bars.setdefault(end, [end, price, price, price, price, 0])
        bar[2], bar[3], bar[4] = max(bar[2], price), min(bar[3], price), price
        bar[5] += lots
    return [bars[end] for end in sorted(bars)]


def logged(records, *, tick):
    """What `on bar` logged in two lines: [time, open, high, low, close, volume], in ticks."""
    lines = records[records["kind"] == LOG]
    ts = lines["ts_event"].astype(np.int64)
    words = np.stack([lines[name] for name in "bcde"], axis=1).view(np.float64)
    found: dict[int, list] = {}
    for at, number, row in zip(ts.tolist(), lines["a"].tolist(), words, strict=True):
        own = found.setdefault(number // 2, [])
        if number % 2 == 0:
            own.append([at, *(round(x / tick) for x in row)])
        else:
            own[-1].append(round(float(row[0])))
    return found


LINES = """        log("{open} {high} {low} {close}")
        log("{volume}")
"""


def strategy(sources, *bars, session=""):
    """A strategy that logs every bar of each clock."""
    text = "language 1\n\nstrategy S:\n"
    text += "".join(f"    {one}\n" for one in sources)
    text += "".join(f"    bars {one}\n" for one in bars) + session
    for number, one in enumerate(bars):
        name = one.partition(" as ")[2]
        lines = LINES.replace('("', f'("{number} ')
        for word in (*NAMES, "volume"):
            lines = lines.replace(f"{{{word}}}", f"{{{name}.{word}}}" if name else f"{{{word}}}")
        text += f"    on bar({name}):\n{lines}" if number else f"    on bar:\n{lines}"
    return text + "    backtest:\n        cash = 1_000_000 USD\n"


# ---- made by hand ------------------------------------------------------------------------------


def closing(ms, *clocks):
    """The bars of these clocks end."""
    return message(*(event(Kind.TIMER, ms, clock, side=TimerSide.CLOSES) for clock in clocks))


def market(seed, count=400):
    """Quotes, some with one side, and trades, some on the second, whose bars close before them."""
    rng = np.random.default_rng(seed)
    made, trades, bids, ms, second = [], [], [], 0.0, SECOND
    for number in range(count):
        ms += float(rng.choice([0, 1, 7, 60, 700], p=[0.2, 0.3, 0.2, 0.27, 0.03]))
        if number % 25 == 0:
            ms = -(-ms // SECOND) * SECOND
        while second <= ms:
            made.append(closing(second, 0))
            second += SECOND
        if rng.random() < 0.4:
            bid = None if rng.random() < 0.1 else int(rng.integers(9_980, 9_999))
            made.append(quote(ms, bid, 10_001))
            bids += [] if bid is None else [(ms, bid, 0)]
        else:
            price, lots = int(rng.integers(9_990, 10_010)), int(rng.integers(1, 200))
            made.append(trade(ms, price, lots))
            trades.append((ms, price, lots))
    return made, trades, bids, second - SECOND


def test_every_kind_of_bars_is_that_of_a_plain_loop():
    made, trades, bids, end = market(3)
    bars = ("1s", "7 ticks as t", "1_000 shares as v", "30_000 USD as d")
    bars = (*bars, "5 ticks, price = bid as q")
    run = run_both(strategy(("quotes", "trades"), *bars), made)
    found = logged(run.all_records(), tick=0.01)
    start = int(made[0]["ts_event"][0]) - int(min(trades[0][0], bids[0][0]) * 1e6)
    expected = [
        [bar for bar in plain_time(trades, SECOND) if bar[0] <= end],
        plain(trades, lambda count, _lots, _money: count >= 7),
        plain(trades, lambda _count, lots, _money: lots >= 1_000),
        plain(trades, lambda _count, _lots, money: money >= 3_000_000),
        plain(bids, lambda count, _lots, _money: count >= 5),
    ]
    for number, rows in enumerate(expected):
        assert len(rows) > 5
        assert found[number] == [[start + int(row[0] * 1e6), *row[1:]] for row in rows], number


def test_a_bar_of_the_book_is_of_its_valid_messages():
    made, bids = [], []
    rng = np.random.default_rng(5)
    for step in range(60):
        bid = 10_000 + int(rng.integers(-20, 20))
        made.append(flat_book(step * 10.0, bid, bid + 2))
        bids.append((step * 10.0, bid + 2, 0))
    run = run_both(strategy(("book depth = 3",), "4 ticks, price = ask"), made)
    rows = plain(bids, lambda count, _lots, _money: count >= 4)
    start = int(made[0]["ts_event"][0])
    found = logged(run.all_records(), tick=0.01)[0]
    assert found == [[start + int(row[0] * 1e6), *row[1:]] for row in rows]


INDICATORS = """language 1

strategy Both:
    "Averages of bars beside ticks, and orders between them."

    quotes
    trades
    bars 1s
    bars 20 ticks as slow

    param n = 3 in 2..5

    let fast  = ta.sma(close, n)
    let range = ta.atr(n)
    let base  = slow.close[1]
    let gap   = trade.price - fast

    state seen = 0

    on trade when gap < 0 and base > 0:
        if flat:
            buy(10 shares, limit = bid)
    on bar(slow):
        seen += 1
        if long and close < slow.close + range:
            close_position()
"""


def test_indicators_run_on_the_closed_bars_on_every_target():
    made, *_ = market(4, 250)
    run = run_both(INDICATORS, made)
    assert int((run.all_records()["kind"] == Kind.FILL).sum()) > 1
    lanes = hand_made(checked_text(INDICATORS), np.concatenate(made))
    oracle = Target("interpreter", InterpretedRunner())
    outcomes = compared(lanes, [oracle, *targets(NO_COLUMNS, lambda _: None)])
    assert [outcome.difference for outcome in outcomes] == [""] * len(outcomes)
    assert len({outcome.hash for outcome in outcomes}) == 1


def test_a_sweep_of_bars_beside_ticks_is_its_single_backtests(tmp_path: Path) -> None:
    path = tmp_path / "both.qdsl"
    path.write_text(INDICATORS)
    sweep = prepare_sweep(compile_file(path), path, end="2023-01-03T14:35")
    result = finished(sweep)
    assert sum(result.metric("orders")) > 0
    assert_rows_are_single_backtests(sweep, result)


# ---- recordings --------------------------------------------------------------------------------


def bars_of(tmp_path, text, data, tick, **options):
    path = tmp_path / "s.qdsl"
    path.write_text(text)
    ready = prepare(compile_file(path), data=str(data), **options)
    for events in ready.data.chunks():
        ready.run.feed(events)
    found = logged(ready.run.all_records(), tick=tick)
    return found, ready


def unzipped(name):
    """The rows of a zipped table without a head."""
    with zipfile.ZipFile(recorded(name)) as packed:
        rows = io.TextIOWrapper(packed.open(packed.namelist()[0]))
        return [line.rstrip().split(",") for line in rows]


@pytest.mark.parametrize("day", ["20140501", "20140502"])
@pytest.mark.parametrize("side", ["bid", "ask"])
def test_minutes_of_quotes_are_those_that_their_vendor_gives(tmp_path, day, side):
    folder = "ticks/lean/forex/oanda"
    name = f"{folder}/tick/eurusd/{day}_quote.zip"
    text = strategy(("quotes",), f"1m, price = {side}")
    found, ready = bars_of(tmp_path, text, recorded(name), 1e-5)
    midnight = ready.data.span[0] - int(unzipped(name)[0][0]) * 1_000_000
    first = 1 if side == "bid" else 6
    expected = [
        [midnight + (int(row[0]) + 60_000) * 1_000_000]
        + [round(float(x) * 1e5) for x in row[first : first + 4]]
        + [0]
        for row in unzipped(f"{folder}/minute/eurusd/{day}_quote.zip")
    ]
    last = ready.data.span[1]
    expected = [row for row in expected if row[0] <= last]
    assert len(expected) > 1_200
    assert found[0] == expected


def test_bars_of_an_amount_are_of_the_currency_that_a_crypto_account_is_kept_in():
    made, *_ = market(5)
    found = []
    for currency in ("USD", "USDT", "USDC"):
        text = strategy(("quotes", "trades"), "30_000 USD").replace(" USD", f" {currency}")
        found.append(logged(run_both(text, made).all_records(), tick=0.01))
    assert len(found[0][0]) > 10
    assert found[0] == found[1] == found[2]


def test_a_day_of_trades_in_bars_of_every_kind(tmp_path):
    name = "ticks/lean/equity/usa/tick/ibm/20131007_trade.zip"
    session = '    session "XNYS"\n'
    bars = ("1m", "5m as five", "500 ticks as t", "10_000 shares as v", "1_000_000 USD as d")
    found, ready = bars_of(
        tmp_path, strategy(("trades",), *bars, session=session), recorded(name), 0.01
    )
    midnight = ready.data.span[0] - int(unzipped(name)[0][0]) * 1_000_000
    start, end = 34_200_000, 57_600_000  # of the session, in ms of the day
    trades = [
        (int(row[0]), int(row[1]) // 100, int(row[2]))
        for row in unzipped(name)
        if start <= int(row[0]) < end
    ]
    expected = [
        plain_time(trades, 60_000),
        plain_time(trades, 300_000),
        plain(trades, lambda count, _lots, _money: count >= 500),
        plain(trades, lambda _count, lots, _money: lots >= 10_000),
        plain(trades, lambda _count, _lots, money: money >= 100_000_000),
    ]
    for number, rows in enumerate(expected):
        assert len(rows) > 40
        assert found[number] == [[midnight + row[0] * 1_000_000, *row[1:]] for row in rows], number


def test_a_recording_of_binance_in_seconds(tmp_path):
    name, lines = "ws/binance_hftbacktest/usdm_btcusdt_20240808.gz", 60_000
    cut = tmp_path / "binance.txt"
    with gzip.open(recorded(name), "rt") as text:
        cut.write_text("".join(next(text) for _ in range(lines)))
    found, ready = bars_of(tmp_path, strategy(("trades",), "1s", "50 ticks as t"), cut, 0.1)
    ticks = []
    for events in ready.data.chunks():
        own = events[events["kind"] == Kind.TRADE]
        assert not (own["flags"] & MORE).any()
        ticks += zip(own["ts_recv"].tolist(), *own["payload"][:, :2].T.tolist(), strict=True)
    lot = ready.data.instruments[0].lot
    prices = [[row[0], *row[1:5]] for row in found[0]]
    seconds = [row[:5] for row in plain_time(ticks, 10**9) if row[0] <= ready.data.span[1]]
    assert len(seconds) > 20
    assert prices == seconds
    counted = [row[:5] for row in plain(ticks, lambda count, _lots, _money: count >= 50)]
    assert [row[:5] for row in found[1]] == counted
    assert lot < 1


@pytest.mark.parametrize("inverse", [True, False])
def test_a_contract_of_so_much_money_turns_it_over_at_any_price(tmp_path, inverse):
    name, lines = "ws/binance_hftbacktest/cm_btcusd_perp_20240808.gz", 20_000
    cut = tmp_path / "binance.txt"
    with gzip.open(recorded(name), "rt") as text:
        cut.write_text("".join(next(text) for _ in range(lines)))
    contract = 'symbol = "BTCUSD_PERP"\ntick = "0.1"\nlot = 1\nmultiplier = 100\n'
    (tmp_path / "a.toml").write_text(contract + f"inverse = {str(inverse).lower()}\n")
    config = tmp_path / "c.toml"
    config.write_text(f'[data]\ninstruments = "{tmp_path / "a.toml"}"\n')
    found, ready = bars_of(
        tmp_path, strategy(("trades",), "20_000 USD"), cut, 0.1, config=config
    )
    assert ready.data.instruments[0].inverse == inverse
    trades = []
    for events in ready.data.chunks():
        own = events[events["kind"] == Kind.TRADE]
        trades += zip(own["ts_recv"].tolist(), *own["payload"][:, :2].T.tolist(), strict=True)
    dollars = plain(trades, lambda _count, lots, money: 100 * lots >= 20_000 if inverse
                    else money * 10 >= 20_000)  # fmt: skip
    assert len(dollars) > 5
    assert len(dollars) == len(trades) or inverse
    assert found[0] == dollars


# ---- tests of a strategy -----------------------------------------------------------------------

TESTED = """strategy S:
    trades
    quotes
    bars 1m
    bars 1_000 shares as v
    let slow = ta.sma(close, 3)
    let large = ta.sma(v.close, 2)
    state seen = 0
    state filled = 0
    on bar when close > slow and large > 0:
        seen += 1
    on bar(v):
        filled += 1
    on trade when slow < 0:
        buy(1 share)
    test "a step is a bar of time":
        feed mid    = [100.00, 100.00, 100.00]
        feed trades = [100.00, 101.00, 102.00]
        feed size   = 600 shares
        expect float(close) == 102.0 and float(slow) == 101.0 and float(v.close) == 101.0
        expect seen == 2
"""


def test_a_test_needs_no_thousand_ticks_for_a_bar(tmp_path):
    path = tmp_path / "s.qdsl"
    path.write_text(TESTED)
    for one in run_tests(path):
        assert one.passed, one.message


