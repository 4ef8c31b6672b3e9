"""Asynchronous signals: answered after the delay, dropped past the deadline, alike everywhere."""

from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest import awaited
from quantdsl.backtest.prepare import prepare
from quantdsl.backtest.run import carry
from quantdsl.backtest.settings import of_strategy
from quantdsl.backtest.testing import run_tests
from quantdsl.check import Checked
from quantdsl.config import SignalsConfig
from quantdsl.data.signals import answered
from quantdsl.events.layout import EVENT, MORE, Kind
from tests.backtest.test_every_target import assert_one_hash
from tests.backtest.test_lane_entry import checked_text
from tests.backtest.test_same_bits import assert_same
from tests.backtest.tick_runs import checked_strategy, quote, run_both

BAR_NS = 300_000_000_000
IN_FLIGHT = 8
TEXT = """language 1

strategy Forecast:
    "Follows a forecast that comes some time after the close of its bar."

    bars 5m

    param n = 30 in 10..60 step 10

    state late = 0

    @async(deadline = {deadline})
    let fc = ta.linreg(close, n)

    on ready(fc):
        if flat and fc > close:
            buy(100 shares, {how})
        elif long and fc < close:
            close_position()

    on stale(fc):
        late += 1
        cancel_all()

    on bar:
        if flat and fc.age > 12m and late > 3:
            buy(10 shares)

    risk:
        max_position = 1_000 shares

    backtest:
        fees = 1bps
        signal_delay = {delay}
"""


def text(delay: str, deadline: str = "2ms", how: str = "limit = close + 1 tick") -> str:
    return TEXT.format(delay=delay, deadline=deadline, how=how)


CASES = {
    "at once": text("0us"),
    "within a bar": text("250us"),
    "later than a bar": text("420s", "10m"),
    "later than many": text("4000s", "3h"),
    "too late": text("3ms"),
    "given up between bars": text("30s", "20s"),
    "with exits": text("1ms", how="stop_loss = close - 20 ticks, take_profit = close + 30 ticks"),
    "for the day": text("1ms", how="limit = close - 1 tick, tif = day"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_interpreter_and_machine_code_leave_the_same_bits(name: str) -> None:
    made = assert_same(CASES[name], events=1500)
    assert made.memory.get("e.metrics.orders") > 0


@pytest.mark.parametrize("name", CASES)
def test_every_target_decides_the_same(name: str) -> None:
    assert_one_hash(checked_text(CASES[name]), 600)


def counts(source: str) -> awaited.Answers:
    checked: Checked = checked_text(source)
    prepared = prepare(checked)
    carry(prepared.run, prepared.data)
    (found,) = awaited.answers(checked, prepared.run.memory)
    return found


def test_all_requests_are_answered_after_the_delay() -> None:
    found = counts(text("250us"))
    bars = 38_970
    assert found.asked == found.ready == bars - 29
    assert (found.stale, found.dropped, found.waiting) == (0, 0, 0)
    assert found.age_mean_ns == found.age_most_ns == 250_000


def model(bars: list[int], delay: int, deadline: int) -> dict[str, int]:
    """What becomes of the requests of these instants, by the rules as docs/async.md says them."""
    counts = {"asked": 0, "ready": 0, "stale": 0, "dropped": 0}
    waiting: list[int] = []
    moments = sorted([(ts, 0) for ts in bars] + [(ts + delay, 1) for ts in bars])
    for now, answers in moments:
        if answers and delay <= deadline and now - delay in waiting:
            waiting.remove(now - delay)
            counts["ready"] += 1
        late = [ts for ts in waiting if now > ts + deadline]
        counts["stale"] += len(late)
        waiting = [ts for ts in waiting if ts not in late]
        if not answers:
            counts["asked"] += 1
            full = len(waiting) == IN_FLIGHT
            counts["dropped"] += full
            waiting += [] if full else [now]
    return counts


@pytest.mark.parametrize(
    ("delay", "deadline"),
    [("0us", "2ms"), ("420s", "10m"), ("4000s", "3h"), ("5000s", "70m"), ("30s", "20s")],
)
def test_requests_are_counted_as_the_rules_say(delay: str, deadline: str) -> None:
    seconds = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}

    def ns(text: str) -> int:
        unit = text.lstrip("0123456789")
        return round(int(text.removesuffix(unit)) * seconds[unit] * 1e9)

    checked = checked_text(text(delay, deadline).replace("bars 5m", 'bars 5m\n    session "24/7"'))
    prepared = prepare(checked)
    bars = []
    for chunk in prepared.data.chunks():
        prepared.run.feed(chunk)
        bars += chunk["ts_event"][chunk["kind"] == Kind.BAR].tolist()
    (found,) = awaited.answers(checked, prepared.run.memory)
    expected = model(bars[29:], ns(delay), ns(deadline))
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.waiting == 0


@pytest.mark.parametrize("delay_bars", [0.0, 0.3, 1.0, 1.4])
def test_a_value_is_seen_after_the_delay_and_no_sooner(delay_bars: float) -> None:
    checked = checked_text(text(f"{int(delay_bars * 300)}s", "1h"))
    prepared = prepare(checked)
    (signal,) = checked.strategy.signals.all
    equation = signal.equation.ir.name
    memory, delay = prepared.run.memory, int(delay_bars * BAR_NS)
    at, values = [], []
    events = next(iter(prepared.data.chunks()))[:300]
    begin = 0
    for end in np.flatnonzero((events["flags"] & MORE) == 0) + 1:
        one, begin = events[begin:end], end
        now, asks = int(one["ts_event"][-1]), bool(np.any(one["kind"] == Kind.BAR))
        shown = memory.get(f"{signal.place.name}.value")
        prepared.run.feed(one)
        if asks and memory.get("e.market[0].bars") >= 30:
            at.append(now)
            values.append(memory.get(equation))
        done = [v for ts, v in zip(at, values, strict=True) if ts + delay < now]
        if asks:  # what is due at this very instant comes after it
            assert done == [] or shown == done[-1]
        elif at and now - delay in at:
            newest = values[at.index(now - delay)]
            assert memory.get(f"{signal.place.name}.value") == newest
            assert memory.get(f"{signal.place.name}.of_ts") == now - delay
    assert len(values) > 100


def test_a_test_block_has_its_answers_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s.qdsl"
    path.write_text(
        text("9s", "1us")
        + """
    test "follows the forecast":
        set n = 10
        feed close = [10, 10.1, 10.2, 10.3, 10.4, 10.3, 10.2, 10.1]
        expect fc is not na and fc ?? 0.0 > 10.0 and fc.age < 1us
        expect orders.count > 0
"""
    )
    assert [(one.passed, one.message) for one in run_tests(path)] == [(True, "")]


def test_a_deadline_that_is_never_met_is_told_in_full() -> None:
    said = awaited.notes(checked_text(text("1ms", "3h")), SignalsConfig(delay_us=12_345_678_901.5))
    assert said[0] == "asynchronous signals are answered after 12,345,678,901.5 microseconds"
    assert "its deadline is 10,800,000,000 microseconds, less than" in said[1]


@pytest.mark.parametrize(
    ("age_ns", "said"),
    [(250_500, "250.5 us"), (1_500_000, "1.5 ms"), (20 * 10**9, "20 s"), (3_600 * 10**9, "60 min")],
)
def test_an_age_is_told_in_a_unit_that_reads(age_ns: int, said: str) -> None:
    told = str(awaited.Answers("fc", 1, 1, 0, 0, age_ns, age_ns))
    assert told.endswith(f"age of what was ready {said} on average, {said} at most")


@pytest.mark.parametrize(
    ("written", "us"), [("1ns", 0.001), ("250us", 250.0), ("7m", 420e6), ("0.5h", 1_800e6)]
)
def test_a_delay_is_said_in_any_unit_of_time(written: str, us: float) -> None:
    """Minutes were refused, with the advice to give a duration."""
    chosen = checked_text(text(written)).strategy.chosen
    assert of_strategy(chosen)["signals.delay_us"] == us
    latency = text("1ms").replace("signal_delay = 1ms", f"latency = {written}")
    told = of_strategy(checked_text(latency).strategy.chosen)
    assert told["venue.latency_entry_us"] == told["venue.latency_response_us"] == us


def test_answers_lie_behind_all_events_of_their_time() -> None:
    events = np.zeros(5, EVENT)
    events["ts_event"] = [10, 10, 20, 30, 30]
    events["kind"] = [Kind.BAR, Kind.TIMER, Kind.BAR, Kind.SESSION, Kind.BAR]
    events["flags"] = [MORE, 0, 0, MORE, 0]
    asks = awaited.awaited(checked_text(text("1ms")), SignalsConfig(delay_us=0.01))
    assert asks is not None
    assert (asks.delay_ns, asks.clocks, asks.kinds) == (10, {0}, frozenset())
    for cuts in ([5], [2, 5], [2, 3, 5]):
        pieces = [events[a:b] for a, b in zip([0, *cuts], cuts, strict=False)]
        found = np.concatenate(list(answered(iter(pieces), asks, "ts_event")))
        assert found["ts_event"].tolist() == [10, 10, 20, 20, 30, 30, 30, 40]
        assert np.flatnonzero(found["kind"] == Kind.SIGNAL).tolist() == [3, 6, 7]
        assert found["payload"][[3, 6, 7], 1].tolist() == [10, 20, 30]


TICKS = """language 1

strategy S:
    quotes

    @async(deadline = 30ms)
    let fair = ts.ewm_mean(mid, 1s)

    state seen = 0

    on ready(fair):
        seen += 1
        if flat and fair > mid:
            buy(100 shares)

    on stale(fair):
        flatten()

    risk:
        max_position = 1_000 shares
"""


@pytest.mark.parametrize("delay_us", [0.0, 300.0, 25_000.0])
def test_ticks_ask_too_and_too_many_at_once_are_refused(delay_us: float) -> None:
    quotes = [quote(n * 5 - n % 4, 1000 - n % 7, 1004 - n % 3) for n in range(400)]
    burst = [quote(3000 + n // 3, 1000, 1002) for n in range(60)]
    asks = awaited.awaited(checked_strategy(TICKS), SignalsConfig(delay_us=delay_us))
    assert asks is not None
    assert asks.kinds == {Kind.QUOTE}
    stream = [np.concatenate([*quotes, *burst])]
    run = run_both(TICKS, answered(iter(stream), asks, "ts_recv"))
    (found,) = awaited.answers(checked_strategy(TICKS), run.memory)
    assert found.asked == 460
    assert found.stale == found.waiting == 0
    assert found.ready + found.dropped == 460
    assert found.dropped == (0 if delay_us < 1_000 else 60 - IN_FLIGHT)
    assert run.memory.get("e.metrics.fills") > 0


UNIVERSE = """language 1

strategy Forecasts:
    bars 1h
    universe "MANY"

    let strength = xs.rank(close / close[5])

    @async(deadline = {deadline})
    let fc = ta.linreg(close, 10)

    @async(deadline = {deadline})
    let breadth = xs.mean(close / close[1] - 1)

    state late = 0

    on ready(fc):
        if flat and fc > close and strength > 0.6:
            buy(value = 2% of equity, limit = close)
        elif long and fc < close and fc.age < 10s:
            close_position()

    on ready(breadth):
        if breadth < -0.05:
            flatten()

    on stale(fc):
        late += 1

    on session_close:
        log("{late}")

    risk:
        max_gross = 90% of equity

    backtest:
        fees         = 1bps
        signal_delay = 1s
"""


@pytest.mark.parametrize("deadline", ["2s", "500ms"])
def test_each_instrument_of_a_universe_has_its_own_answers(deadline: str) -> None:
    source = UNIVERSE.replace("{deadline}", deadline)
    made = assert_same(source, events=1_200)
    checked = checked_text(source)
    fc, breadth = awaited.answers(checked, made.memory)
    in_time = deadline == "2s"
    assert fc.asked > 14 * breadth.asked > 500
    for found in (fc, breadth):
        assert (found.ready if in_time else found.stale) == found.asked - found.waiting
        assert found.waiting <= 16  # answers to what was asked last come after the end
    assert (made.memory.get("e.metrics.orders") > 0) == in_time
    prepared, (first, _) = prepare(checked), checked.strategy.signals.all
    events = next(iter(prepared.data.chunks()))[:1_200]
    answers = np.flatnonzero(events["kind"] == Kind.SIGNAL)
    prepared.run.feed(events[: answers[-1] + 1])
    for n in range(16 * in_time):
        shown = prepared.run.memory.get(f"panel[{n}].{first.place.name}.value")
        assert shown == prepared.run.memory.get(f"panel[{n}].{first.equation.ir.name}")
