"""`open_data`: files or the built-in market in, the event stream of a run out.

    source -> rows (checked) -> scan -> ticks and lots -> sessions -> bars of each clock -> merge

Memory is bounded: whatever the size of the data, a few blocks of rows are held at a time.
At one instant the order is: splits, dividends and funding, session open, coarse bars before fine
ones and instruments in declared order, timers, session close; a session that opens in the instant
of the last close opens after it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import structs

from quantdsl.data.actions import Actions
from quantdsl.data.aggregate import BarBuilder, Bars, Placing, place, to_events
from quantdsl.data.calendar import Schedule, schedule_of
from quantdsl.data.feed import Feed, open_feed, share_length
from quantdsl.data.hosted import HostColumns
from quantdsl.data.instrument import Instrument, Limits, check_exact, limits, money_digits
from quantdsl.data.kept import Keeper, keeper
from quantdsl.data.many import grouped, named
from quantdsl.data.rows import Rows
from quantdsl.data.signals import answered
from quantdsl.data.spec import DataSpec
from quantdsl.data.table import joined_sha256
from quantdsl.data.timers import Clockwork
from quantdsl.data.times import DAY_NS, Interval, show_instant
from quantdsl.data.universe import Told
from quantdsl.errors import DataError
from quantdsl.events.layout import BAR, EVENT, Kind
from quantdsl.events.merge import Merge, cut, in_turns, mark

Events = npt.NDArray[np.void]
LABEL_NS = 3 * DAY_NS
"""A row's time is that of some moment of its bar, or of its day: no further off than a bar's usual
length and this."""
OUTSIDE = "rows outside the sessions or the span, left out"
MISSED = "fell on a day without a bar and did not come"
_INT64 = np.iinfo(np.int64)


def open_data(spec: DataSpec) -> "Data":
    """The data of a run, scanned and ready to stream; DataError or ConfigError if unusable."""
    kept = keeper(spec)
    if kept is None or kept.found is None:
        feeds = [open_feed(spec, index) for index in range(len(spec.instruments))]
    else:
        feeds = [open_feed(spec, *one) for one in enumerate(kept.found.scans)]
    if spec.universe:
        share_length(spec, feeds)
    return Data(spec, feeds, kept)


class Data:
    """The data of one run. `notes` are one-line statements for the report; those that count what
    was left out are complete once `chunks()` has been exhausted."""

    def __init__(self, spec: DataSpec, feeds: list[Feed], kept: Keeper | None = None) -> None:
        self.spec = spec
        self.feeds = feeds
        self._keeper = kept
        self.instruments: list[Instrument] = [feed.instrument for feed in feeds]
        self.money_digits = money_digits(self.instruments)
        for feed in feeds:
            check_exact(
                feed.instrument, feed.scan.price_max, feed.scan.volume_max, self.money_digits
            )
        first = min(feed.scan.first_ts for feed in feeds)
        last = max(feed.scan.last_ts for feed in feeds)
        self.span = (first, last)
        self.rows = sum(feed.scan.count for feed in feeds)
        self.clocks = self._clocks()
        self.schedule: Schedule = schedule_of(spec.session, first, last)
        self.clockwork = Clockwork(self.schedule, spec.timers, spec.end)
        self._begin_ns = self._day_bars_begin()
        # A day's bar belongs to the day whose midnight is nearer to its begin.
        nearer = self._begin_ns - (DAY_NS if self._begin_ns > DAY_NS // 2 else 0)
        self.actions = Actions(
            spec.actions,
            self.instruments,
            self.money_digits,
            self.schedule,
            self.span,
            begins_ns=0 if self.schedule.has_borders else nearer,
        )
        self.first_ns = _INT64.min if spec.start is None else spec.start
        self.last_ns = _INT64.max if spec.end is None else spec.end
        self.counts: Counter[str] = Counter()
        self.hosted: HostColumns | None = None
        """Columns that were computed before the run."""
        self.placing = [
            Placing(
                feed.scan.interval,
                self.schedule,
                feed.at_close,
                feed.reader.dates_only,
            )
            for feed in feeds
        ]

    @property
    def sha256(self) -> str:
        """One hash of all data: of the file itself where there is one only."""
        hashes = [feed.reader.sha256() for feed in self.feeds]
        return joined_sha256([*hashes, *self.actions.hashes()])

    @property
    def name(self) -> str:
        """What was read, for people."""
        return named(list(dict.fromkeys(feed.name for feed in self.feeds)))

    @property
    def has_volume(self) -> bool:
        return all(feed.reader.has_volume for feed in self.feeds)

    @property
    def all_week(self) -> bool:
        """Whether bars of a day come on weekends too, as those of a market that never closes do."""
        return any(
            scan.interval.unit == "d"
            and scan.last_ts - scan.first_ts >= 28 * DAY_NS
            and scan.days_a_week == 7
            for scan in (feed.scan for feed in self.feeds)
        )

    @property
    def notes(self) -> list[str]:
        """What was inferred, assumed and left out, one line each, without repeats; what holds
        alike of many instruments in one line."""
        lines = [line for feed in self.feeds for line in feed.notes]
        lines += self.actions.statement()
        if not self.schedule.named:
            lines.append("no session: every hour counts, and a day ends at midnight UTC")
            if self.clocks[0].unit == "d" and self.all_week:
                lines.append(
                    "bars of all days of the week: annual figures take 252 for a year, with "
                    'session "24/7" 365'
                )
        days = any(feed.scan.interval.unit == "d" for feed in self.feeds)
        if days and 0 < self._begin_ns <= DAY_NS // 2 and not self.schedule.has_borders:
            lines.append(
                f"bars of a day begin at {show_instant(self._begin_ns)[11:]}, so that now.day and "
                "now.weekday are those of the day after; --session XNYS or the like makes them "
                "days of an exchange"
            )
        for what, count in self.counts.items():
            if count:
                lines.append(f"{what}: {count:,}")
        if 2 * self.counts[OUTSIDE] > self.rows and not self.spec.tz and not self._zoned():
            lines.append(
                "most rows lie outside the sessions, and the zone of their times was assumed: "
                "does --tz name the right one?"
            )
        return grouped(lines)

    def _zoned(self) -> bool:
        """Whether the data fix their own times, or have none of the day."""
        return all(feed.reader.zoned or feed.reader.dates_only for feed in self.feeds)

    def limits(self, instrument: int) -> Limits:
        """Largest price, position and the money of one tick of one lot, proven to stay exact."""
        feed = self.feeds[instrument]
        return limits(feed.instrument, feed.scan.price_max, self.money_digits)

    def ended(self, time_ns: int) -> npt.NDArray[np.bool_]:
        """Which instruments have no bar any more after that of this time, as far as is certain."""
        last = np.array([feed.scan.last_ts for feed in self.feeds])
        return last + self.clocks[0].nominal_ns + LABEL_NS < time_ns

    def until(self, end_ns: int) -> "Data":
        """The same data, cut off at `end_ns`."""
        return Data(structs.replace(self.spec, end=end_ns), self.feeds)

    def chunks(self) -> Iterator[Events]:
        """Arrays of layout.EVENT in order of time, about 65,536 each, whole instants only."""
        self.counts.clear()
        chunks = _Stream(self).chunks()
        if self._keeper is not None:
            chunks = self._keeper.chunks(chunks, [f.scan for f in self.feeds], self.counts)
        chunks = self.actions.held(chunks)
        chunks = chunks if self.hosted is None else self.hosted.placed(chunks)
        awaited = self.spec.awaited
        yield from chunks if awaited is None else answered(chunks, awaited, "ts_event")

    def bars_table(self, instrument: int = 0) -> Events:
        """The bars of the finest clock of one instrument as one array of layout.BAR."""
        bars = BarTable(self.rows, instrument)
        for chunk in self.chunks():
            bars.add(chunk)
        return bars.table()

    def _day_bars_begin(self) -> int:
        """How long after midnight UTC bars of a day or longer begin."""
        begins = (
            feed.scan.first_ts % DAY_NS
            for feed in self.feeds
            if feed.scan.interval.is_calendar and not feed.at_close
        )
        return max(begins, default=0)

    def _clocks(self) -> tuple[Interval, ...]:
        """The bar lengths of the run; a file coarser than the finest of them is an error."""
        if self.spec.clocks is None:
            return (max((f.scan.interval for f in self.feeds), key=lambda i: i.nominal_ns),)
        clocks = tuple(Interval.parse(text) for text in self.spec.clocks)
        finest = clocks[0]
        lengths = {feed.name: feed.scan.interval for feed in self.feeds}
        coarse = {n: one for n, one in lengths.items() if one.nominal_ns > finest.nominal_ns}
        if coarse:
            longest = max(coarse.values(), key=lambda one: one.nominal_ns)
            comma = "," if len(coarse) > 1 else ""
            raise DataError(
                f"{_holding(coarse)}{comma} and the strategy asks for bars of {finest}: finer data "
                f"are needed, or --bars {longest} (in a config data.bars)"
                f"{self._left_out(coarse)}"
            )
        parts = () if finest.is_calendar else lengths.items()
        odd = {n: one for n, one in parts if finest.nominal_ns % one.nominal_ns}
        if odd:
            kinds = [*dict.fromkeys(map(str, odd.values()))]
            verb = "does" if len(kinds) == 1 else "do"
            raise DataError(
                f"{_holding(odd)}, of which bars of {finest} cannot be built, for "
                f"{named(kinds)} {verb} not divide {finest}"
            )
        return clocks

    def _left_out(self, names: Iterable[str]) -> str:
        """What was left out of the first of these files, as it may be why its bars are long."""
        return next((feed.scan.left_out() for feed in self.feeds if feed.name in names), "")


def _holding(lengths: dict[str, Interval]) -> str:
    """Which files hold bars of which length."""
    if len(lengths) == 1:
        ((name, length),) = lengths.items()
        return f"{name}: holds bars of {length}"
    return named([f"{name} holds bars of {one}" for name, one in lengths.items()])


class BarTable:
    """Gathers the bars of the finest clock of one instrument, `rows` at most, from chunks."""

    def __init__(self, rows: int, instrument: int = 0) -> None:
        self._bars = np.empty(rows, EVENT)  # what is not written takes no memory
        self._count, self._instrument = 0, instrument

    def add(self, events: Events) -> None:
        """The next events of the run."""
        finest = (events["kind"] == Kind.BAR) & (events["side"] == 0)
        found = events[finest & (events["instrument"] == self._instrument)]
        self._bars[self._count : self._count + len(found)] = found
        self._count += len(found)

    def table(self) -> Events:
        """All bars so far, as layout.BAR."""
        return self._bars[: self._count].view(BAR)


class BarStream:
    """Puts whole bars of the finest data, sessions and timers in order, and builds every clock.

    `finer` is the length of each instrument's own bars, `told` what a universe's files say. What
    `until` has given never comes again.
    """

    def __init__(
        self,
        clockwork: Clockwork,
        clocks: Sequence[Interval],
        finer: Sequence[Interval],
        *,
        sync_all: bool = False,
        told: Told | None = None,
    ) -> None:
        self.clockwork, self.clocks, self.finer = clockwork, clocks, finer
        self.builders = [
            [BarBuilder(clock, own, clockwork.schedule) for clock in clocks] for own in finer
        ]
        # Lanes in the order of one instant.
        bars = len(clocks) * len(finer)
        self._timer_lane, self._close_lane = bars + 2, bars + 3
        self._action_lane, self._late_open_lane = bars + 4, bars + 5
        self._merge = Merge(bars + 6)
        self._come = np.zeros(len(clockwork.schedule), bool)
        """The sessions that have come."""
        self._told_sessions = 0  # whose opens, timers and close are in the stream already
        self._told = told
        self._sync_all = sync_all and len(finer) > 1
        self.incomplete = 0
        """Instants left out because not every instrument had a bar."""

    def act(self, actions: Events) -> None:
        """Splits, dividends and funding to come, in order of time.

        Before the open at which they come, and after the bars that end at their time, whose
        prices are from before them.
        """
        opening = self.clockwork.begins(actions["ts_event"])
        self._merge.push(0, actions[opening])
        self._merge.push(self._action_lane, actions[~opening])

    def add(self, index: int, bars: Bars) -> None:
        """Bars of one instrument, later than all before."""
        self.enter(bars.session)
        n = len(self.finer)
        for clock, builder in enumerate(self.builders[index]):
            lane = 2 + (len(self.clocks) - 1 - clock) * n + index
            self._merge.push(lane, to_events(builder.add(bars), index, clock))

    def enter(self, sessions: npt.NDArray[np.int64]) -> None:
        """These sessions have come: their borders and timers belong to the stream."""
        self._come[sessions] = True

    def missed(self) -> dict[str, int]:
        """How often timers of chosen days were due in sessions that have not come."""
        return self.clockwork.missed(self._come)

    def until(self, before_ns: int | None) -> Iterator[Events]:
        """Everything earlier than `before_ns`, instants marked, in pieces of whole instants."""
        clockwork, merge, first_new = self.clockwork, self._merge, self._told_sessions
        opens = clockwork.schedule.open_ns
        end = len(opens) if before_ns is None else int(np.searchsorted(opens, before_ns, "left"))
        sessions = first_new + np.flatnonzero(self._come[first_new:end])
        if sessions.size:
            self._told_sessions = int(sessions[-1]) + 1
            first = clockwork.opens(sessions, joined=False)
            merge.push(1, first if self._told is None else self._told.before(first, sessions))
            merge.push(self._timer_lane, clockwork.timers(sessions))
            merge.push(self._close_lane, clockwork.closes(sessions))
            merge.push(self._late_open_lane, clockwork.opens(sessions, joined=True))
        for events in merge.take(before_ns):
            yield mark(self._synchronous(events) if self._sync_all else events)

    def _synchronous(self, events: Events) -> Events:
        """Without the finest bars of those instants in which an instrument has none."""
        finest = (events["kind"] == Kind.BAR) & (events["side"] == 0)
        _, where, counts = np.unique(
            events["ts_event"][finest], return_inverse=True, return_counts=True
        )
        alone = np.zeros(len(events), bool)
        alone[finest] = counts[where] < len(self.finer)
        self.incomplete += int(np.count_nonzero(counts < len(self.finer)))
        return events[~alone]


class _Stream:
    """One pass over the data: reads each feed a chunk at a time and merges what is certain."""

    def __init__(self, data: Data) -> None:
        self._data = data
        self._feeds = data.feeds
        finer = [feed.scan.interval for feed in data.feeds]
        changes = data.spec.changes
        told = Told(changes, data.schedule) if changes else None
        self._bars_in_order = BarStream(
            data.clockwork, data.clocks, finer, sync_all=data.spec.sync_all, told=told
        )
        self._bars_in_order.act(data.actions.events)

    def chunks(self) -> Iterator[Events]:
        sources = [iter(feed.rows()) for feed in self._feeds]
        stream = self._bars_in_order

        def add(index: int, rows: Rows) -> int | None:
            bars = self._bars(index, rows)
            stream.add(index, bars)
            return int(bars.end[-1]) if bars.size else None

        bound: int | None = _INT64.min
        for before in in_turns(sources, add):
            if before != bound:  # else nothing more is certain than was
                for events in stream.until(before):
                    yield from cut(events)
            bound = before
        self._count()

    def _count(self) -> None:
        """What was left out, once all is read."""
        counts, builders = self._data.counts, self._bars_in_order.builders
        counts["instants in which not every instrument has a bar, left out (sync = all)"] = (
            self._bars_in_order.incomplete
        )
        for clock, length in enumerate(self._data.clocks):
            missing = sum(own[clock].missing for own in builders)
            crossing = sum(own[clock].crossing for own in builders)
            counts[f"bars of the data missing inside bars of {length}"] = missing
            counts[f"bars of the data that cross into a bar of {length} and count to it"] = crossing
        counts["incomplete bars at the end of the data, left out"] = sum(
            own[0].unfinished for own in builders
        )
        why = " (without a session weekends are days; --session XNYS leaves them out)"
        for timer, missed in self._bars_in_order.missed().items():
            what = f"times that {timer} {MISSED}"
            counts[what if self._data.schedule.named else what + why] = missed

    def _bars(self, index: int, rows: Rows) -> Bars:
        """These rows as whole numbers, without those outside the sessions or the span."""
        feed, data = self._feeds[index], self._data
        start, end, session, inside = place(rows.ts, data.placing[index])
        inside &= (start >= data.first_ns) & (end <= data.last_ns)
        outside = int(rows.size - np.count_nonzero(inside))
        data.counts[OUTSIDE] += outside
        return Bars(start, end, session, *feed.whole_numbers(rows)).where(inside)
