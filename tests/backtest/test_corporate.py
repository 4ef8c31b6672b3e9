"""Splits, dividends and funding of a file reach what is held, at their time, on every target."""

import datetime as dt
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quantdsl
from quantdsl.backtest.verify import verify
from quantdsl.errors import DataError
from tests.backtest.test_lane_entry import checked_text

HOLD = """language 1

strategy Hold:
    bars 1d

    param lots = 10 in 5..10 step 5

    on bar:
        if flat:
            buy(floor_qty(lots))

    backtest:
        cash = 100_000 USD

    risk:
        max_notional = 100% of equity
"""
DAYS = [dt.date(2024, 1, 1) + dt.timedelta(days=n) for n in range(40)]
SPLIT, DIVIDEND, FUNDING = DAYS[20], DAYS[30], DAYS[35]
LONG = f"""time,symbol,action,value
{SPLIT},KO,split,4
{DIVIDEND},KO,dividend,0.205
{FUNDING},KO,funding,0.0001
{FUNDING},PEP,dividend,9
2031-01-01,KO,dividend,7
"""
WIDE = f"""Ex-Date,Dividends,Stock Splits,fundingRate
{SPLIT},0,4.0,
{DIVIDEND},0.205,,
{FUNDING},,0,0.0001
"""


@pytest.fixture
def bars(tmp_path):
    """100 to the day of the split, a quarter of it from there on."""
    path = tmp_path / "KO.csv"
    rows = [f"{day},{p},{p},{p},{p},1000" for day in DAYS for p in [100 if day < SPLIT else 25]]
    path.write_text("\n".join(["date,open,high,low,close,volume", *rows]))
    return path


def result(tmp_path, bars, table: str, **options):
    (tmp_path / "hold.qdsl").write_text(HOLD)
    (tmp_path / "actions.csv").write_text(table)
    named = "".join(f'{key} = "{value}"\n' for key, value in options.items())
    (tmp_path / "config.toml").write_text(
        f'[data]\nactions = "{tmp_path / "actions.csv"}"\n{named}'
    )
    config = tmp_path / "config.toml"
    return quantdsl.backtest(tmp_path / "hold.qdsl", bars, config=config)


def equity(run) -> float:
    """At the end."""
    return run.equity["equity"][-1].as_py()


@pytest.mark.parametrize("table", [LONG, WIDE], ids=["long", "wide"])
def test_what_is_held_gains_and_pays(tmp_path, bars, table):
    run = result(tmp_path, bars, table)
    paid = 40 * 0.205 - 40 * 25 * 0.0001  # of forty new shares
    assert equity(run) == pytest.approx(100_000 + paid, abs=1e-9)
    assert any("dividend 1, funding 1, split 1" in note for note in run.result.notes)
    without = quantdsl.backtest(tmp_path / "hold.qdsl", bars)
    assert run.result.data_sha256 != without.result.data_sha256


@pytest.mark.parametrize("session", ["", '    session "24/7"\n'], ids=["none", "24/7"])
@pytest.mark.parametrize("at", ["", "T00:00:00Z"], ids=["day", "instant"])
def test_a_split_comes_after_the_bar_that_ends_at_its_time(tmp_path, bars, session, at):
    """Without a session a day's bar ends where the day of the split begins."""
    result(tmp_path, bars, f"time,symbol,action,value\n{SPLIT}{at},KO,split,4\n")
    text = HOLD.replace("    bars 1d\n", "    bars 1d\n" + session)
    (tmp_path / "hold.qdsl").write_text(text)
    run = quantdsl.backtest(tmp_path / "hold.qdsl", bars, config=tmp_path / "config.toml")
    assert set(run.equity["equity"].to_pylist()) == {100_000.0}
    assert len(run.equity) == len(DAYS)


@pytest.mark.parametrize("session", ["", '    session "24/7"\n'], ids=["none", "24/7"])
@pytest.mark.parametrize(("hour", "said"), [(5, True), (15, False), (0, False)])
def test_a_split_comes_between_bars_that_begin_at_another_hour(tmp_path, bars, hour, said, session):
    """Midnight of New York is 5:00 UTC, in summer 4:00; that of Tokyo 15:00 of the day before."""
    result(tmp_path, bars, f"time,symbol,action,value\n{SPLIT},KO,split,4\n")
    (tmp_path / "hold.qdsl").write_text(HOLD.replace("    bars 1d\n", "    bars 1d\n" + session))
    summer = DAYS[15]
    hours = [hour - (day >= summer) - 24 * (hour > 12) for day in DAYS]
    begins = [
        dt.datetime.combine(day, dt.time(), dt.UTC) + dt.timedelta(hours=later)
        for day, later in zip(DAYS, hours, strict=True)
    ]
    prices = [100 if day < SPLIT else 25 for day in DAYS]
    names = ("open", "high", "low", "close", "volume")
    table = pa.table({"time": begins} | dict.fromkeys(names, prices))
    pq.write_table(table, tmp_path / "KO.parquet")
    config = tmp_path / "config.toml"
    run = quantdsl.backtest(tmp_path / "hold.qdsl", tmp_path / "KO.parquet", config=config)
    assert set(run.equity["equity"].to_pylist()) == {100_000.0}
    assert said == any("bars of a day begin at 05:00 UTC" in note for note in run.result.notes)


@pytest.mark.parametrize(
    "row",
    [
        f"{SPLIT},KO,dividend,99.5",  # large, and before the split in the file
        f"{DAYS[1]},KO,dividend,100",  # all that it is worth
        f"{DAYS[0]},KO,dividend,500",  # before the first close nothing is held
    ],
)
def test_a_special_dividend_may_be_large(tmp_path, bars, row):
    run = result(tmp_path, bars, f"time,symbol,action,value\n{row}\n{SPLIT},KO,split,4\n")
    assert any("dividend 1, split 1" in note for note in run.result.notes)


def test_without_the_file_a_split_is_a_loss(tmp_path, bars):
    run = result(tmp_path, bars, LONG)
    (tmp_path / "config.toml").write_text("")
    lost = quantdsl.backtest(tmp_path / "hold.qdsl", bars, config=tmp_path / "config.toml")
    assert equity(lost) == pytest.approx(100_000 - 10 * 75, abs=1e-9) != equity(run)


def test_every_target_applies_them_alike(tmp_path, bars):
    result(tmp_path, bars, LONG)
    report = verify(
        checked_text(HOLD), lambda _: None, points=2, seed=1,
        data=str(bars), config=tmp_path / "config.toml",
    )  # fmt: skip
    for _, outcomes in report:
        assert len({outcome.hash for outcome in outcomes}) == 1


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("time,symbol,action,value\n2024-01-09,KO,spilt,4\n", "'spilt' is no action"),
        ("time,symbol,action,value\n2024-01-09,KO,split,0\n", "0.0 is no ratio"),
        ("time,symbol,action,value\n2024-01-09,KO,split,1e-6\n", "1e-06 is no ratio with a div"),
        ("time,symbol,action,value\n2024-01-09,KO,dividend,\n", "None is no amount"),
        ("time,symbol,action,value\n2024-01-09,KO,dividend,-1\n", "-1.0 is no amount"),
        ("time,symbol,action,value\n,KO,split,2\n2024-01-09,KO,split,2\n", "row 1 has no time"),
        ("time,symbol,action,value\n2024-01-09,PEP,split,2\n", "holds no action of KO"),
        ("time,close\n2024-01-09,4\n", "is no table of actions"),
        (f"date,symbol,split\n{SPLIT},KO,4\n{SPLIT},KO,2\n", "splits KO twice at"),
        (
            f"date,symbol,dividend\n{SPLIT},KO,2\n{SPLIT},ko,2\n",
            "row 2: dividend of KO at 2024-01-21 00:00 UTC: it stands there twice\nhelp: leave one",
        ),
        (f"date,symbol,funding\n{SPLIT},KO,1\n", "1 is 100% of the position's value\nhelp: a"),
        (
            f"date,symbol,split\n{SPLIT},KO,4\n01/22/2024,KO,1\n",
            r"row 2: '01/22/2024' is not a time .*: use ISO 8601 \(2024-01-31 15:30\)$",
        ),
        (
            f"time,symbol,action,value\n{SPLIT},KO,split,4\n{DIVIDEND},KO,dividend,120\n",
            "csv: row 2: dividend of KO at 2024-01-31 00:00 UTC: 120 a share is more than a share "
            "is worth, by its last price before it 25",
        ),
        (f"date,symbol,dividend,split\n{SPLIT},KO,26,4\n", "before it 25"),
        (f"date,dividend\n{DAYS[1]},100.01\n", "row 1: dividend of KO at 2024-01-02 .* it 100"),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(tmp_path, bars, table, said):
    with pytest.raises(DataError, match=said) as raised:
        result(tmp_path, bars, table)
    assert "actions.csv" in str(raised.value)


def test_actions_beyond_the_data_are_no_mistake(tmp_path, bars):
    """One file for all runs: a short one was refused where nothing happened within it."""
    run = result(tmp_path, bars, "time,symbol,action,value\n2023-06-01,KO,dividend,0.2\n")
    assert equity(run) == equity(quantdsl.backtest(tmp_path / "hold.qdsl", bars))
    assert any("actions.csv: no action from 2024-01-0" in note for note in run.result.notes)


def test_what_is_equal_on_days_without_a_session_is_not_told_twice(tmp_path, bars):
    """A weekend's funding comes with that of the day after it."""
    rows = [f"2024-01-{day},KO,funding,0.0001" for day in (20, 21, 22)]
    result(tmp_path, bars, "\n".join(["time,symbol,action,value", *rows]))
    text = HOLD.replace("    bars 1d\n", '    bars 1d\n    session "NYSE"\n')
    (tmp_path / "hold.qdsl").write_text(text)
    run = quantdsl.backtest(tmp_path / "hold.qdsl", bars, config=tmp_path / "config.toml")
    assert any("funding 3" in note for note in run.result.notes)
    assert equity(run) < 100_000


@pytest.mark.parametrize(
    ("day", "ratio", "doubted"),
    [(SPLIT, 4, False), (DAYS[10], 4, True), (DAYS[10], 0.1, True), (DAYS[10], 1.05, False)],
)
def test_a_split_that_no_price_shows_is_doubted(tmp_path, bars, day, ratio, doubted):
    """As of prices that are adjusted already: what is held was four times as much in silence."""
    notes = result(tmp_path, bars, f"date,split\n{day},{ratio}\n").result.notes
    assert doubted == any("do the prices hold it already? Then take it out" in one for one in notes)


QUOTED = """language 1

strategy Quoted:
    quotes

    on quote when flat:
        buy(10 shares)

    backtest:
        cash = 100_000 USD
"""


def hold_dividend(tmp_path, strategy: str, table: str, *, told: bool) -> None:
    """A run on a table of ticks with a dividend of 26 on its fifth day, more than a price of 25."""
    (tmp_path / "KO.csv").write_text(table)
    (tmp_path / "actions.csv").write_text("time,symbol,action,value\n2024-01-05,KO,dividend,26\n")
    (tmp_path / "ticks.qdsl").write_text(strategy)
    given = tmp_path / "ticks.qdsl", tmp_path / "KO.csv"
    config = {"data.actions": str(tmp_path / "actions.csv")}
    if told:
        with pytest.raises(DataError, match=r"dividend of KO .*: 26 a share .* before it 25"):
            quantdsl.backtest(*given, config=config)
    else:
        notes = quantdsl.backtest(*given, config=config).result.notes
        assert any("dividend 1" in note for note in notes)


@pytest.mark.parametrize(("asked", "told"), [("25.0", True), ("", False)], ids=["asked", "none"])
def test_quotes_alone_hold_a_dividend_too(tmp_path, asked, told):
    """Where nobody asks, nothing says what a share is worth."""
    rows = [f"2024-01-0{day}T12:00:00Z,KO,24.99,{asked},500,500" for day in range(1, 9)]
    table = "\n".join(["time,symbol,bid,ask,bid_size,ask_size", *rows])
    hold_dividend(tmp_path, QUOTED, table, told=told)


@pytest.mark.parametrize(("ask", "told"), [("25.00", True), ("26.50", False)])
def test_books_alone_hold_a_dividend_too(tmp_path, ask, told):
    """It went through whatever it was; what is gone from the book is no price."""
    rows = [
        f"2024-01-0{day}T12:00:0{row},KO,{level},{snapshot}"
        for day in range(1, 9)
        for row, levels in enumerate([["buy,24.99,500", f"sell,{ask},500"], ["sell,24.995,0"]])
        for level in levels
        for snapshot in [int(row == 0)]
    ]
    table = "\n".join(["time,symbol,side,price,size,is_snapshot", *rows])
    booked = QUOTED.replace("    quotes\n", "    book depth = 1\n").replace("quote", "book")
    hold_dividend(tmp_path, booked, table, told=told)


PAIR = HOLD.replace("    bars 1d", '    universe "KO", "PEP"\n    bars 1d')


def test_whose_actions_they_are_is_told_by_symbols_of_any_case(tmp_path, bars):
    (tmp_path / "folder").mkdir()
    for name in ("KO", "PEP"):
        (tmp_path / "folder" / f"{name}.csv").write_text(bars.read_text())
    (tmp_path / "pair.qdsl").write_text(PAIR)
    (tmp_path / "config.toml").write_text(f'[data]\nactions = "{tmp_path}/actions.csv"\n')

    def notes(table: str) -> str:
        (tmp_path / "actions.csv").write_text(table)
        config = tmp_path / "config.toml"
        ran = quantdsl.backtest(tmp_path / "pair.qdsl", tmp_path / "folder", config=config)
        return "\n".join(ran.result.notes)

    assert "split 2" in notes(f"date,symbol,split\n{SPLIT},ko,4\n{SPLIT},PEP,4\n")
    with pytest.raises(DataError, match="whose actions these are, and the run has KO, PEP"):
        notes(f"date,split\n{SPLIT},4\n")


FACTORS = f"""{DAYS[0]:%Y%m%d},0.9918,0.25,1
{DAYS[19]:%Y%m%d},0.9918,0.25,100
{DAYS[29]:%Y%m%d},0.9918,1,25
20501231,1,1,0"""


def test_factor_files_tell_of_splits_and_dividends(tmp_path, bars):
    result(tmp_path, bars, LONG)
    config = tmp_path / "config.toml"
    folder = tmp_path / "factors"
    folder.mkdir()
    (folder / "ko.csv").write_text(FACTORS)
    (folder / "pep.csv").write_text(FACTORS)
    config.write_text(f'[data]\nactions = "{folder}"\n')
    run = quantdsl.backtest(tmp_path / "hold.qdsl", bars, config=config)
    assert equity(run) == pytest.approx(100_000 + 40 * 0.205, abs=1e-9)
    assert any("dividend 1, split 1" in note for note in run.result.notes)
    (folder / "ko.csv").write_text(FACTORS.replace("0.25,100", "0.25"))
    with pytest.raises(DataError, match=r"ko.csv: is no factor file: lines of day"):
        quantdsl.backtest(tmp_path / "hold.qdsl", bars, config=config)


def test_equal_dividends_of_a_factor_file_beyond_the_data_are_left_out(tmp_path, bars):
    """All before came at the first session, all behind at no time, and "stood there twice"."""
    result(tmp_path, bars, LONG)
    lines = [
        f"20010301,{0.9918**3:.9f},0.25,100",
        f"20020301,{0.9918**2:.9f},0.25,100",
        *FACTORS.split("\n")[:3],
        "20400301,1,1,100",
        f"20410301,{1 / 0.9918:.9f},1,100",
        f"20500301,{0.9918**-2:.9f},1,100",
    ]
    (tmp_path / "ko.csv").write_text("\n".join(lines))
    config = tmp_path / "config.toml"
    config.write_text(f'[data]\nactions = "{tmp_path}/ko.csv"\n')
    run = quantdsl.backtest(tmp_path / "hold.qdsl", bars, config=config)
    assert any("dividend 1, split 1" in note for note in run.result.notes)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (FACTORS.split("\n")[::-1], "line 2: its day does not come after that of line 1"),
        ([*FACTORS.split("\n")[:2], *FACTORS.split("\n")[1:]], "line 3: its day does not come"),
        (
            FACTORS.replace("0.9918,1,25", "0.9918,1,0").split("\n"),
            "line 3: its factor for dividends is 0.9918 and the next one's 1, and without",
        ),
        (FACTORS.replace("0.9918", "1.02").split("\n"), r"dividend of KO at .*: -0.5 is no amount"),
        (FACTORS.replace("0.9918", "0").split("\n"), "line 1: factors above 0 and a close"),
        (FACTORS.replace("0.25", "nan").split("\n"), "line 1: factors above 0 and a close"),
    ],
    ids=["backward", "twice", "no close", "negative", "zero", "nan"],
)
def test_a_factor_file_that_cannot_be_true_is_refused(tmp_path, bars, lines, said):
    """Read from new to old it split where shares were merged, and said nothing."""
    result(tmp_path, bars, LONG)
    (tmp_path / "ko.csv").write_text("\n".join(lines))
    config = tmp_path / "config.toml"
    config.write_text(f'[data]\nactions = "{tmp_path}/ko.csv"\n')
    with pytest.raises(DataError, match=said) as raised:
        quantdsl.backtest(tmp_path / "hold.qdsl", bars, config=config)
    assert "ko.csv" in str(raised.value)


ADJUSTED = """language 1

strategy Adjusted:
    bars 1d, adjust = all
    universe "{symbol}"
{session}    let ret = adj.close / adj.close[1] - 1
    plot(xs.mean(ret))
"""


@pytest.mark.parametrize("session", ["XNYS", "24/7", ""])
@pytest.mark.parametrize("symbol", ["AAPL", "SPY"])
def test_factor_files_adjust_real_bars_as_their_factors_say(tmp_path, shared_data, symbol, session):
    lean = shared_data / "bars/lean/equity/usa"
    factors = lean / "factor_files" / f"{symbol.lower()}.csv"
    with zipfile.ZipFile(lean / "daily" / f"{symbol.lower()}.zip") as packed:
        lines = packed.read(packed.namelist()[0]).decode().split("\n")
    rows = [line.strip().split(",") for line in lines if line]
    days = np.array([int(row[0][:8]) for row in rows])
    raw = np.array([[int(price) / 10_000 for price in row[1:5]] for row in rows])
    names = ("date", "open", "high", "low", "close")
    columns = ([str(dt.date.fromisoformat(str(day))) for day in days], *raw.T)
    path = tmp_path / f"{symbol}.parquet"
    pq.write_table(pa.table(dict(zip(names, columns, strict=True))), path)
    (tmp_path / "config.toml").write_text(f'[data]\nactions = "{factors}"\n')
    line = f'    session "{session}"\n' if session else ""
    (tmp_path / "a.qdsl").write_text(ADJUSTED.format(symbol=symbol, session=line))
    found = quantdsl.signals(tmp_path / "a.qdsl", path, config=tmp_path / "config.toml")
    until, paid, split, _ = np.loadtxt(factors, delimiter=",", unpack=True)
    adjusted = raw[:, 3] * (paid * split)[np.searchsorted(until, days)]
    wanted = adjusted[1:] / adjusted[:-1] - 1
    assert np.abs(found["ret"].to_numpy()[1:] - wanted).max() < 1e-5  # factors have seven digits


def test_adjusted_prices_are_not_split_again(tmp_path, bars):
    own = tmp_path / "own.toml"
    own.write_text('symbol = "KO"\nprices = "adjusted"\n')
    with pytest.raises(DataError, match="are adjusted, so they hold it already"):
        result(tmp_path, bars, LONG, instruments=own)


@pytest.mark.parametrize("session", ["", '    session "24/7"\n'], ids=["none", "24/7"])
def test_a_bar_of_a_day_is_seen_when_it_has_ended(tmp_path, session):
    """With `24/7` it was shown at the midnight before."""
    (tmp_path / "hold.qdsl").write_text(HOLD.replace("    bars 1d\n", "    bars 1d\n" + session))
    begins = [dt.datetime.combine(day, dt.time(16), dt.UTC) for day in DAYS]
    prices = dict.fromkeys(("open", "high", "low", "close", "volume"), [100.0] * len(DAYS))
    run = quantdsl.backtest(tmp_path / "hold.qdsl", pa.table({"time": begins, **prices}))
    assert run.equity["time"].to_pylist() == [begin + dt.timedelta(days=1) for begin in begins]
