"""The bars of a test of a strategy on a universe, with the sessions and timers of a backtest.

The first bar that is fed closes in the first session of 2024, a Tuesday on most calendars; before
it each instrument has whole sessions of its first bar, until all is warm. A list that is shorter
than others ends earlier, as a delisted instrument does; who begins without a bar is listed late.
"""

from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl import config as configuration
from quantdsl.backtest.prepare import data_spec
from quantdsl.backtest.universe import Members
from quantdsl.check import Checked
from quantdsl.check.cases import Case
from quantdsl.check.panel_cases import NO_BAR
from quantdsl.data import times
from quantdsl.data.calendar import Schedule, schedule_of
from quantdsl.data.events import open_data
from quantdsl.data.instrument import Instrument
from quantdsl.data.spec import DataSpec, SourceSpec
from quantdsl.data.times import DAY_NS, Interval
from quantdsl.data.universe import ALWAYS, Change
from quantdsl.errors import ConfigError
from quantdsl.events.layout import BAR, EVENT, Kind, Trait

Events = npt.NDArray[np.void]
Int64s = npt.NDArray[np.int64]
START_NS = times.parse_instant("2024-01-02")
DAY = "1d"
NAMES = ("TEST",)
"""The one instrument of a feed without names."""
NAMED = frozenset({"tick", "lot"})
PRICES = ("open", "high", "low", "close")


def events(
    checked: Checked, case: Case, fed: list[Events], tick: Fraction, warm: list[int]
) -> tuple[Events, Events]:
    """What comes before the fed bars, and from the first of them on.

    `fed` are bars of each instrument in ticks, `warm` the bars that each clock needs. ConfigError
    where the strategy's finest bars are longer than a day.
    """
    names = tuple(case.panel.closes) or NAMES
    spec = _spec(checked, case, names)
    clocks = [Interval.parse(text) for text in spec.clocks or (DAY,)]
    if clocks[0].nominal_ns > DAY_NS:
        raise ConfigError(f"a test of a universe feeds bars of a day or shorter, not {clocks[0]}")
    before, opens = _grid(spec, clocks, warm, max(map(len, fed)))
    sources = tuple(
        SourceSpec(
            symbol=name,
            source=_table(bars, tick, before, opens, clocks[0]),
            instrument=Instrument(symbol=name, tick=tick, named=NAMED),
        )
        for name, bars in zip(names, fed, strict=True)
    )
    stream = open_data(msgspec.structs.replace(spec, instruments=sources)).chunks()
    every = np.concatenate(list(stream))
    closes = np.unique(every["ts_event"][every["kind"] == Kind.BAR])
    flat = int(np.count_nonzero(closes < START_NS))
    cut = int(np.searchsorted(every["ts_event"], closes[flat - 1], "right"))
    return every[:cut], every[cut:]


def _spec(checked: Checked, case: Case, names: tuple[str, ...]) -> DataSpec:
    """What a backtest would ask of its data, with what is given of the instruments."""
    members = Members(names, (None,) * len(names))
    universe = checked.strategy.universe
    assert universe is not None
    resolved = configuration.resolve()
    changes = []
    for which in universe.traits:
        values = _traits_of(case, which, len(names))
        changes += [Change(ALWAYS, n, which, value) for n, value in enumerate(values)]
    spec = data_spec(checked, resolved, [None] * len(names), members, tuple(changes))
    clocks = spec.clocks or (DAY,)
    return msgspec.structs.replace(spec, clocks=clocks, awaited=None)


def told(checked: Checked, case: Case, instruments: int, at_ns: int) -> Events:
    """What a test on ticks says of its instruments, an instant each."""
    universe = checked.strategy.universe
    traits = [] if universe is None else list(universe.traits)
    found = np.zeros(len(traits) * instruments, EVENT)
    found["kind"], found["ts_event"], found["ts_recv"] = Kind.TRAIT, at_ns, at_ns
    found["side"] = np.repeat(np.array(traits, np.uint8), instruments)
    found["instrument"] = np.tile(np.arange(instruments), len(traits))
    for n, which in enumerate(traits):
        own = slice(n * instruments, (n + 1) * instruments)
        found["payload"][own, 0] = _traits_of(case, which, instruments)
    return found


def _traits_of(case: Case, which: Trait, instruments: int) -> list[int]:
    """What is given of a trait: unless it is, all are members, eligible, and in one group."""
    usual = 1 if which in (Trait.MEMBER, Trait.ELIGIBLE) else 0
    return case.panel.traits.get(which, [usual] * instruments)


def _grid(
    spec: DataSpec, clocks: list[Interval], warm: list[int], count: int
) -> tuple[int, Int64s]:
    """How many bars come before, and the opens of all: so many more are fed."""
    fine = clocks[0]
    margin = 400 * DAY_NS
    schedule = schedule_of(spec.session, START_NS - margin, START_NS + margin)
    bars = _bars_a_session(schedule, fine)
    sessions = 1 + max(
        _sessions(need + 2, clock, bars * fine.nominal_ns)
        for clock, need in zip(clocks, warm, strict=True)
    )
    ahead = -(-count // bars) + 2
    span = 2 * DAY_NS  # of a session with its weekend, at most
    first, last = START_NS - (sessions + 10) * span, START_NS + (ahead + 10) * span
    schedule = schedule_of(spec.session, first, last)
    begin = int(np.searchsorted(schedule.open_ns, START_NS))
    chosen = slice(begin - sessions, begin + ahead)
    opens = _opens(schedule, chosen, fine)
    before = int(np.count_nonzero(opens < schedule.open_ns[begin]))
    return before, opens[: before + count]


def _bars_a_session(schedule: Schedule, fine: Interval) -> int:
    """Whole bars of a usual session."""
    length = int(np.median(schedule.close_ns - schedule.open_ns))
    return max(length // fine.nominal_ns, 1)


def _sessions(bars: int, clock: Interval, session_ns: int) -> int:
    """Sessions in which so many bars of a clock close."""
    if clock.nominal_ns < DAY_NS:
        return -(-bars * clock.nominal_ns // session_ns)
    return -(-bars * clock.nominal_ns // DAY_NS)


def _opens(schedule: Schedule, chosen: slice, fine: Interval) -> Int64s:
    """When each bar opens, of bars that end within their session."""
    opens, closes = schedule.open_ns[chosen], schedule.close_ns[chosen]
    if fine.nominal_ns >= DAY_NS:
        return opens
    step = fine.nominal_ns
    found = [np.arange(a, b - step + 1, step) for a, b in zip(opens, closes, strict=True)]
    return np.concatenate(found)


def _table(bars: Events, tick: Fraction, before: int, opens: Int64s, fine: Interval) -> Any:
    """The rows of one instrument: its first bar without a range again and again, then its own."""
    import pyarrow as pa

    first = bars[:1].copy()
    for name in PRICES:
        first[name] = first["close"]
    own = np.concatenate([np.repeat(first, before), bars])
    there = own["close"] != NO_BAR
    at = opens[: len(own)][there]
    days = np.datetime_as_string(at.view("datetime64[ns]"), "D")
    stamps = pa.array(at, pa.timestamp("ns", "UTC"))
    columns = {name: own[name][there] * float(tick) for name in PRICES}
    times_ = pa.array(days) if fine.nominal_ns >= DAY_NS else stamps
    return pa.table({"time": times_, **columns, "volume": own["volume"][there].astype(float)})


def bars_of(case: Case, name: str, tick: Fraction) -> Events:
    """The fed bars of an instrument in ticks, each open the close before; a close of 0 is none."""
    closes = [int(price / tick) for price in case.panel.closes[name]]
    bars = np.zeros(len(closes), BAR)
    half, last = int(case.range / 2 / tick), 0
    for n, close in enumerate(closes):
        start = last or close
        low, high = min(start, close) - half, max(start, close) + half
        values = (start, high, low, close) if close else (0, 0, 0, 0)
        for price, value in zip(PRICES, values, strict=True):
            bars[price][n] = value
        last = close or last
    bars["volume"] = 1_000_000
    return bars
