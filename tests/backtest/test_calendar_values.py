"""`now.weekday`, `now.hour` and the like: the same on every way to them, and those of Python."""

from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import quantdsl
from quantdsl.backtest import causality
from quantdsl.backtest.plan_text import plan_text
from quantdsl.backtest.signals import prepare_signals
from quantdsl.report.messages import messages
from tests.backtest.test_every_target import assert_one_hash
from tests.backtest.test_lane_entry import checked_text
from tests.backtest.test_signals import interpreted
from tests.std.test_civil import FIGURES, figure
from tests.std.universe import compiled

NEW_YORK = ZoneInfo("America/New_York")
LETS = "\n    ".join(f"let of_{name} = now.{name}" for name in FIGURES)
SHOWN = f"""language 1
strategy Shown:
    {{source}}
    {{session}}
    {LETS}
    {{handler}}
"""
SWEPT = """language 1

@warmup(len)
indicator weighed(src: series[float], len: const int) -> float:
    return ta.sma(src * float(now.weekday + 1), len)

strategy Swept:
    bars 1h
    session "XNYS"

    param day  = monday in 0..4 step 1
    param last = 14 in 11..15 step 1
    param len  = 8 in 5..20 step 5

    let today   = now.day + 31 * now.month + 372 * now.year
    let fresh   = today != today[1]
    let morning = now.hour < last
    let heavy   = weighed(close, len)

    on session_open:
        log("{now.weekday} {now.day} {now.hour} {now.minute}")

    on bar:
        if flat and now.weekday == day and morning and heavy > close:
            buy(20 shares, tif = day)
        elif not flat and (fresh or now.minute == 59 and now.hour == 15):
            close_position()

    at 13:20:
        if flat and now.hour == 13 and now.minute == 19:
            short(20 shares)
"""
UNIVERSE = """language 1
strategy Ranked:
    bars 1d
    universe "ALL"
    param month = 2 in 1..4 step 1
    let score = close / close[5] - 1.0
    let turn  = score if now.month mod 4 < month else -score
    at 15:45:
        if now.weekday == friday and now.hour == 15 and now.minute == 44:
            rebalance(xs.scale(xs.rank(turn) - 0.5))
    backtest:
        fees = 1bps
    risk:
        max_gross = 200% of equity
"""
TICKS = """language 1
strategy Quoted:
    quotes
    trades
    param until = 40 in 20..60 step 20
    let early = now.minute < until and now.hour < 24
    on quote when early or early[1]:
        if flat:
            buy(5 shares, limit = bid)
    on trade when now.minute >= until or now.year < 2000:
        close_position()
    risk:
        max_position = 50 shares
"""


def shown(source: str, session: str, handler: str = "on bar:\n        flatten()") -> str:
    return SHOWN.format(source=source, session=session, handler=handler)


def expected(when: datetime, zone: ZoneInfo) -> list[int]:
    """What Python says of the moment before."""
    moment = when.astimezone(zone) - timedelta(microseconds=1)
    return [figure(name, moment) for name in FIGURES]


def assert_of_python(found: pa.Table, zone: ZoneInfo) -> None:
    """All columns of all rows."""
    assert len(found) > 5
    rows = zip(*(found[f"of_{name}"].to_pylist() for name in FIGURES), strict=True)
    times = found["time"].cast(pa.timestamp("us", tz="UTC"), safe=False).to_pylist()
    assert [list(row) for row in rows] == [expected(when, zone) for when in times]


@pytest.mark.parametrize(
    ("source", "session", "zone"),
    [
        ("bars 1h", 'session "XNYS"', NEW_YORK),
        ("bars 5m", 'session "XNYS", start = 10:00, tz = "America/New_York"', NEW_YORK),
        ("bars 1d", "", ZoneInfo("UTC")),
    ],
)
def test_signals_are_what_python_says(source: str, session: str, zone: ZoneInfo) -> None:
    """Over the days in March on which clocks are set."""
    checked = compiled(shown(source, session))
    assert_of_python(prepare_signals(checked, start="2022-03-09", end="2022-03-17").table(), zone)


def test_signals_of_ticks_are_what_python_says() -> None:
    text = shown("quotes\n    trades", 'session "XNYS"', "on quote:\n        flatten()")
    found = prepare_signals(compiled(text)).table()
    assert_of_python(found.take(list(range(0, len(found), 5_000))), NEW_YORK)


def test_signals_of_a_universe_know_the_month() -> None:
    found = prepare_signals(compiled(UNIVERSE)).table()
    rows = found.select(["time", "score", "turn"]).to_pylist()
    known = [row for row in rows if row["score"] is not None]
    assert len(known) > 1_000
    for row in known:
        month = (row["time"].to_pydatetime().astimezone(NEW_YORK)).month
        assert row["turn"] == (row["score"] if month % 4 < 2 else -row["score"])


def test_the_interpreter_shows_the_same() -> None:
    prepared = prepare_signals(compiled(shown("bars 1h", 'session "XNYS"')), end="2022-02-01")
    assert interpreted(prepared).table().equals(prepared.table())


def said(text: str, columns: dict[str, list[object]]) -> list[str]:
    result = quantdsl.compile(text).backtest(pa.table(columns))
    return [row["text"] for row in messages(result.result).to_pylist()]


def test_a_bar_belongs_to_the_day_that_it_covers() -> None:
    bars = {
        "time": [f"2024-02-{day:02}T00:00:00Z" for day in (27, 28, 29)] + ["2024-03-01T00:00:00Z"],
        **dict.fromkeys(("open", "high", "low", "close"), [10.0] * 4),
        "volume": [100] * 4,
    }
    text = shown("bars 1d", "", 'on bar:\n        log("{now.weekday} {now.day} {now.month}")')
    assert said(text, bars) == ["1 27 2", "2 28 2", "3 29 2", "4 1 3"]


def test_a_handler_and_an_equation_agree_on_bars() -> None:
    differ = " or ".join(f"of_{name} != now.{name}" for name in FIGURES)
    handler = f'on bar:\n        if {differ}:\n            log("differs")\n        log("seen")'
    text = shown("bars 1h", 'session "XNYS"', handler)
    result = quantdsl.compile(text).backtest(end="2022-04-01")
    assert set(messages(result.result)["text"].to_pylist()) == {"seen"}


def test_a_session_opens_at_the_end_of_the_minute_before() -> None:
    handler = 'on session_open:\n        log("{now.hour} {now.minute}")'
    text = shown("bars 1h", 'session "XNYS"', handler)
    result = quantdsl.compile(text).backtest(end="2022-04-01")
    assert set(messages(result.result)["text"].to_pylist()) == {"9 29"}


@pytest.mark.parametrize(("text", "events"), [(SWEPT, 900), (UNIVERSE, 2_400), (TICKS, 900)])
def test_every_target_leaves_the_same_bits(text: str, events: int) -> None:
    assert_one_hash(checked_text(text), events)


def test_what_is_the_same_for_all_lanes_is_computed_once(tmp_path: Path) -> None:
    path = tmp_path / "swept.qdsl"
    path.write_text(SWEPT, encoding="utf-8")
    lines = {line.split()[2]: line for line in plan_text(path, {}).splitlines() if " let " in line}
    assert "once, for it is the same at every point" in lines["today"]
    assert "once, for it is the same at every point" in lines["fresh"]
    assert "last" in lines["morning"]
    assert "len" in lines["heavy"]


@pytest.mark.parametrize("text", [SWEPT, TICKS])
def test_no_value_knows_the_future(text: str, tmp_path: Path) -> None:
    path = tmp_path / "swept.qdsl"
    path.write_text(text, encoding="utf-8")
    assert causality.check(path) == []
