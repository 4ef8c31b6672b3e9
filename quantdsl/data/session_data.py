"""The data of a live session, before there are any or when it is over."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from quantdsl.data.calendar import Schedule, schedule_of
from quantdsl.data.instrument import Instrument, Limits, check_exact, limits, money_digits
from quantdsl.data.many import grouped
from quantdsl.data.spec import DataSpec
from quantdsl.data.tick_bars import TickBars, chart_length_ns
from quantdsl.data.times import Interval
from quantdsl.errors import ConfigError
from quantdsl.events.layout import BAR, EVENT, NO_PRICE, Kind

Events = npt.NDArray[np.void]
Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]


class SessionData:
    """What a run on events that come, or have come, has in place of files.

    `events` are those of a finished session, in order: then the charts and the execution of its
    report can be made. `prices` are of each instrument, in its currency, as high as it has been.
    It trades from `trade_ns` on, or from the begin.
    """

    has_volume = True

    def __init__(
        self,
        spec: DataSpec,
        prices: Sequence[float],
        begin_ns: int,
        name: str,
        events: Events | None = None,
        trade_ns: int = 0,
    ) -> None:
        self.spec, self.name, self._prices = spec, name, prices
        known = [one.instrument for one in spec.instruments]
        self.instruments: list[Instrument] = [one for one in known if one is not None]
        assert len(self.instruments) == len(known), "a live instrument is known from its venue"
        self.money_digits = money_digits(self.instruments)
        for one, price in zip(self.instruments, prices, strict=True):
            check_exact(one, price, float(one.lot), self.money_digits)
        self.events = np.empty(0, EVENT) if events is None else events
        ts = self.events["ts_event"] if not spec.ticks else self.events["ts_recv"]
        self.span = (int(ts[0]), int(ts[-1])) if len(ts) else (begin_ns, begin_ns)
        # Warming up may begin years before trading does, and the calendar goes on from there.
        self.schedule: Schedule = schedule_of(
            spec.session, self.span[0], max(self.span[1], trade_ns)
        )
        self.clocks: tuple[Interval, ...] = () if spec.ticks else _clocks(spec)
        self.counts: Counter[str] = Counter()

    @property
    def sha256(self) -> str:
        """Hash of the events."""
        return hashlib.sha256(self.events.tobytes()).hexdigest()

    @property
    def notes(self) -> list[str]:
        """What was assumed, one line each; what holds alike of many instruments in one line."""
        lines = [one.statement() for one in self.instruments]
        if not self.schedule.named:
            lines.append("no session: every hour counts, and a day ends at midnight UTC")
        return grouped(lines)

    def limits(self, instrument: int) -> Limits:
        """Largest price, position and the money of one tick of one lot, proven to stay exact."""
        return limits(self.instruments[instrument], self._prices[instrument], self.money_digits)

    def chunks(self) -> Iterator[Events]:
        """The events."""
        yield self.events

    def until(self, end_ns: int) -> "SessionData":
        """The same data, cut off at `end_ns`."""
        kept = self.events[self.events["ts_recv"] < end_ns]
        return SessionData(self.spec, self._prices, self.span[0], self.name, kept)

    def bars_table(self, instrument: int = 0) -> npt.NDArray[np.void]:
        """Bars of one instrument for the chart."""
        own = self.events[self.events["instrument"] == instrument]
        if not self.spec.ticks:
            bars = own[(own["kind"] == Kind.BAR) & (own["side"] == 0)]
            table: Events = bars.view(BAR)
            return table
        trades, quotes = own[own["kind"] == Kind.TRADE], own[own["kind"] == Kind.QUOTE]
        made = TickBars(chart_length_ns(self.span))
        made.add(trades if len(trades) else quotes)
        return made.table(instrument).view(BAR)

    @property
    def quoted(self) -> bool:
        """Whether `middles` are those of quotes, of every instrument."""
        quotes = self.events["instrument"][self.events["kind"] == Kind.QUOTE]
        return len(np.unique(quotes)) == len(self.instruments)

    def middles(self, instrument: int, moments: Int64s) -> Float64s:
        """The middle in ticks at each moment of the venue's time, NaN where it is not known."""
        own = self.events[self.events["instrument"] == instrument]
        quotes, trades = own[own["kind"] == Kind.QUOTE], own[own["kind"] == Kind.TRADE]
        chosen, payload = trades, trades["payload"]
        middle = payload[:, 0] * 1.0
        if len(quotes):
            payload = quotes["payload"]
            known = (payload[:, 0] != NO_PRICE) & (payload[:, 1] != NO_PRICE)
            chosen, payload = quotes[known], payload[known]
            middle = (payload[:, 0] + payload[:, 1]) / 2
        found = np.full(len(moments), np.nan)
        if len(chosen):
            ts = np.maximum.accumulate(chosen["ts_event"])
            there = (moments >= ts[0]) & (moments <= ts[-1])
            found[there] = middle[np.searchsorted(ts, moments[there], "right") - 1]
        return found


def _clocks(spec: DataSpec) -> tuple[Interval, ...]:
    if spec.clocks is None:
        raise ConfigError(
            "the strategy takes whatever bars the data have, and a live feed has none by itself\n"
            "help: say the bars in the strategy, as in 'bars 1m', or with --bars 1m"
        )
    return tuple(Interval.parse(text) for text in spec.clocks)
