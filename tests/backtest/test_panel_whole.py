"""Signals of a universe that are of it as a whole, or read the clock, go in stages, to the bit.

Event by event, on the lanes of cores and on the simulated device they have the same rows.
"""

import datetime as dt
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import quantdsl
from quantdsl.backtest.placement import Size, placement
from quantdsl.backtest.plan_text import plan_text
from quantdsl.backtest.signals import prepare_signals
from quantdsl.check.panel_stages import stages, unstaged
from quantdsl.check.panel_words import INSTANTS_MAX
from quantdsl.check.signal_turn import Signals
from quantdsl.devices import panels
from quantdsl.devices.measured import rates
from quantdsl.ir.own import Window
from tests.backtest import test_panel_device, test_panels
from tests.backtest.panel_programs import panel_program
from tests.backtest.test_calendar_values import NEW_YORK
from tests.backtest.test_every_target import assert_one_hash
from tests.backtest.test_lane_entry import checked_text
from tests.backtest.test_panels import files, targets, whole
from tests.backtest.test_signal_panel import matrices, strategy_of
from tests.backtest.test_signals import interpreted
from tests.std.universe import compiled, table, walks

FACTOR = """language 1

@warmup(len)
indicator weekly(src: series[float], len: const int) -> float:
    "An average that counts what comes late in a week."
    return ts.mean(src * float(now.weekday + 1), len)

strategy Factor:
    "A factor of the market, a breadth, a regime, and what instruments make of them."
    bars 1d
    universe "ALL"
    param look = 4 in 2..9 step 1
    let ret    = close / close[1] - 1
    let mean   = xs.mean(ret)
    let ratio  = mean / xs.std(ret)
    let avg    = ta.ema(mean, 10)
    let past   = mean[1]
    let far    = ratio[9] - avg[look]
    let z      = (ret - mean) / xs.std(ret)
    let less   = ret - mean[1] - far
    let m      = ta.macd(avg)
    let before = m[3]
    let gap    = before.hist - m.hist[2] + ret
    let up     = m.hist > 0 or mean crosses above avg
    let ago    = ta.barssince(up)
    let top    = xs.top(z, 20% if up else 40%)
    let roll   = ts.mean(mean, 7)
    let wide   = ts.std(mean, 5)
    let beta   = ts.beta(ret, mean, 20)
    let late   = close if now.weekday > 2 else open
    let spring = now.month <= 3
    let week   = weekly(mean, 4) - weekly(ret, 3)
    let alike  = xs.corr(ret, late + avg)
    let later  = ts.mean(xs.mean(xs.rank(z)) + avg, 4)
    let cold   = later > 0 and not spring
"""
MEMBERS = FACTOR.replace('"ALL"', '"ALL", point_in_time = true, filter = close > 30 USD')


def hold(text: str, instants: Iterable[int] = (16, 150), **options: Any) -> None:
    """All ways to its signals have the same rows; a device takes so many instants at once."""
    test_panels.Both(text, **options).hold()
    for many in instants:
        test_panel_device.Both(compiled(text), instants=many, **options).hold()


@pytest.mark.parametrize("count", [1, 9])
def test_of_the_universe_as_a_whole(count: int) -> None:
    """Over several blocks; with one instrument lanes are more than words of a row."""
    hold(FACTOR, data=table(whole(count, 2 * INSTANTS_MAX + 44)))


@pytest.mark.parametrize("text", [FACTOR, MEMBERS], ids=["all", "members"])
def test_whose_instruments_lack_bars(text: str, tmp_path: Path) -> None:
    """The universe has a bar at each instant, also where the first instrument has none."""
    closes = walks(21, 2 * INSTANTS_MAX + 44)
    assert None in closes["A000"]
    hold(text, data=table(closes), more=files(tmp_path, list(closes)))


def test_every_vector() -> None:
    for target in targets():
        test_panels.Both(FACTOR, target, data=table(walks(9, 150))).hold()


@pytest.mark.parametrize("seed", range(6))
def test_drawn_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "PIECE_LEADS", 2)  # pieces shorter than on a GPU
    text = panel_program(seed)
    assert any(one.whole for one in stages(Signals(compiled(text).assembly)))
    hold(text, [60], data=table(walks(13, 190)))
    hold(text, [60], data=table(whole(6, 150)))


def test_the_interpreter_shows_the_same() -> None:
    for text in (FACTOR, panel_program(3)):
        prepared = prepare_signals(compiled(text), data=table(walks(5, 50)))
        assert interpreted(prepared).table().equals(prepared.table())


def test_rows_begin_at_a_time(tmp_path: Path) -> None:
    """What comes before counts for the universe all the same."""
    path, bars = strategy_of(FACTOR, tmp_path), table(walks(5, 90))
    every = quantdsl.signals(path, bars)
    for device in ("cpu", "simulated"):
        late = quantdsl.signals(path, bars, device=device, start="2020-02-20")
        assert 0 < len(late) < len(every)
        assert late.equals(every.slice(len(every) - len(late)))


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_matrices_have_them_in_all_of_a_row(device: str, tmp_path: Path) -> None:
    path, bars = strategy_of(FACTOR, tmp_path), table(walks(9, 150))
    found, panel = quantdsl.signals(path, bars), quantdsl.panel(path, bars, device=device)
    names = ["ratio", "avg", "far", "m.hist", "later", "beta"]
    for name, matrix in matrices(found, names).items():
        values, there = np.from_dlpack(panel[name]), ~np.isnan(matrix)
        assert np.array_equal(values[there], matrix[there]), name
        alike = np.array_equal(values, np.broadcast_to(values[:, :1], values.shape), equal_nan=True)
        assert alike == (name != "beta"), name


NESTED = """language 1
strategy Nested:
    bars 1d
    universe "ALL"
    let ret  = close / close[1] - 1
    let avg  = ta.ema(xs.mean(ret), 10)
    let rest = ret - avg[1]
    let part = xs.mean(rest)
    let both = part + avg
"""


def test_their_stages_stand_between_the_others() -> None:
    found = stages(Signals(compiled(NESTED).assembly))
    kinds = ["across" if one.across else "whole" if one.whole else "along" for one in found]
    assert kinds == ["along", "across", "whole", "along", "across", "whole"]


def test_windows_of_the_universe_are_cut_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "PIECE_LEADS", 2)
    both = test_panel_device.Both(compiled(FACTOR), instants=150, data=table(whole(5, 320)))
    turn = both.device
    windows = {
        turn.signals.table[number].name: part.window
        for step in turn.stages
        for part in step
        for number in part.shown
        if part.whole
    }
    assert windows["roll"] == Window(lead=9, period=7)
    assert windows["wide"] == Window(lead=7, period=5)
    assert windows["avg"] is None
    cut = [kernel for step in turn.complete.steps for kernel in step if kernel.window]
    assert any(len(one.pieces(150, 150)) > 2 for one in cut)
    both.hold()


KERNELS = """language 1

@kernel(reduce)
kernel apart(r: window[float, 12], m: window[float, 12]) -> float:
    "How far two windows are from each other."
    var total = 0.0
    parallel for i in 0..<12 reduce(total: +):
        total += abs(r[i] - m[i])
    return total

strategy Windows:
    "Kernels of what is of the universe as a whole."
    bars 1d
    universe "ALL"
    let ret  = close / close[1] - 1
    let mean = xs.mean(ret)
    let far  = apart(mean, mean[2])
    let rest = ret - far * far[1]
"""


@pytest.mark.parametrize("closes", [whole(5, 320), walks(7, 290)], ids=["whole", "gaps"])
def test_kernels_of_windows_of_the_universe(
    closes: dict[str, list[float | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panels, "HEAVY_ROWS", 5)
    hold(KERNELS, [150], data=table(closes))


def test_an_instrument_is_given_no_window_of_the_universe() -> None:
    """Its own bars are not all instants, so a lane of it has no such window."""
    text = KERNELS + "    let mixed = apart(ret, mean)\n"
    why = "line 19 is given a window of the universe as a whole"
    assert unstaged(compiled(text).strategy) == why


HELD = """language 1
strategy Held:
    "What the market was decides, in equations and in handlers."
    bars 1d
    universe "ALL"
    param look = 3 in 1..6 step 1
    let ret    = close / close[1] - 1
    let mean   = xs.mean(ret)
    let m      = ta.macd(mean)
    let up     = mean[1] > mean[look] or m.hist[2] > m[3].hist
    let weight = xs.weights(ret - mean[2] + (ret[1] if up else 0.0))
    on bar:
        if mean[12] < 0 and not flat:
            close_position()
    at session_close - 5m:
        if mean crosses above 0.0 or mean[4] > mean[5]:
            rebalance(weight)
    backtest:
        fees = 1bps
    risk:
        max_gross = 300% of equity
"""


def test_histories_of_the_universe_are_the_same_on_every_target() -> None:
    assert_one_hash(checked_text(HELD), 2_400)


HOURS = """language 1
strategy Hours:
    "The clock of a session, in an instrument and before the universe as a whole."
    bars 1h
    session "XNYS"
    universe "ALL"
    let ret  = close / close[1] - 1
    let hour = now.hour
    let day  = now.day
    let soon = now.hour >= 12
    let part = xs.mean(ret if soon else -ret)
    let slow = ta.ema(part, 5)
    let rank = xs.rank(ret - part[1] if now.minute == 29 and soon else slow)
"""


def hourly(count: int, days: int) -> pa.Table:
    """Bars of an hour in sessions of New York, some of them missing, around a change of clocks."""
    random = np.random.default_rng(3)
    rows = []
    first = dt.datetime(2022, 3, 7, 9, 30, tzinfo=NEW_YORK)
    for n in range(count):
        price = 50.0
        for day in range(days):
            opens = first + dt.timedelta(days=day)
            for hour in range(7 if opens.weekday() < 5 else 0):
                price = round(price * np.exp(random.normal(0.0, 0.01)), 2)
                if not n % 2 or random.random() > 0.05:
                    begin = opens + dt.timedelta(hours=hour)
                    rows.append((f"A{n}", begin.astimezone(dt.UTC), price))
    symbols, times, prices = zip(*rows, strict=True)
    bars = dict.fromkeys(("open", "high", "low", "close"), prices)
    stamps = pa.array(times, pa.timestamp("us", "UTC"))
    return pa.table(
        {"time": stamps, "symbol": symbols, **bars, "volume": [1_000.0] * len(prices)}
    )


def test_the_clock_of_a_session() -> None:
    """Of the exchange, so hours stay the same when its clocks are set."""
    bars = hourly(5, 14)
    hold(HOURS, [20, 150], data=bars)
    found = prepare_signals(compiled(HOURS), data=bars).table()
    assert set(found["hour"].to_pylist()) == {10, 11, 12, 13, 14, 15}


def test_the_plan_tells_them(tmp_path: Path) -> None:
    path = strategy_of(FACTOR, tmp_path)
    text = plan_text(path, {})
    assert "along time: one lane, the universe as a whole, " in text
    assert "time of the instant" in text
    assert "a thread an instrument, each the universe as a whole" in text
    assert "along time, the universe as a whole: " in text


def test_the_plan_counts_no_bytes_a_bar_of_what_is_moved_an_instant(tmp_path: Path) -> None:
    """The least was more than what is moved."""
    lets = "    let m = ta.macd(mean)\n    let past = mean[2]\n"
    path = strategy_of(KERNELS.partition("    let far")[0] + lets, tmp_path)
    assert "Moved 48 bytes a bar; the least is 24: 1 word in, 2 out." in plan_text(path, {})


def test_on_cores_they_take_an_instants_time_not_that_of_all_bars() -> None:
    checked = compiled(FACTOR)
    size, given = Size(5_000, 2_520, 8), (rates(gpu=False), rates(gpu=True))
    found = placement(checked, Signals(checked.assembly), size, *given).stages
    most = max(one.cores_s for one in found if one.whole)
    assert most < min(one.cores_s for one in found if not one.whole)
