"""One instrument's data of a run: its source opened, scanned and its instrument settled."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.data import times
from quantdsl.data.calendar import ALWAYS_OPEN, SessionSpec, schedule_of
from quantdsl.data.counts import counted, listed
from quantdsl.data.instrument import Instrument
from quantdsl.data.recording import RecordedBars, is_recording, known
from quantdsl.data.rows import SLACK, Reader, Reading, RowReader, Rows
from quantdsl.data.scan import KEPT_ROWS_MAX, Found, Scan, infer
from quantdsl.data.spec import DataSpec
from quantdsl.data.table import Table, list_files, open_table, stem
from quantdsl.errors import DataError
from quantdsl.zones import UTC, zone

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

FEW_ROWS = 10
"""Fewer rows than these of a file say less about its bars than those of the others do."""

BUILT_IN_CALENDAR = "XNYS"
_INVENTED = frozenset({"tick", "lot", "currency"})
BUILT_IN_SPAN = (times.parse_instant("2022-01-01"), times.parse_instant("2023-12-31"))


class Feed:
    """Rows of one instrument as whole numbers of ticks and lots.

    `notes` says in one line each what was inferred or assumed about them. `at_close`: a row's
    time is the end of its bar. `strict`: a price off the tick is an error and not rounded.
    """

    def __init__(
        self,
        name: str,
        reader: Reader,
        scan: Scan,
        instrument: Instrument,
        notes: Sequence[str],
        *,
        at_close: bool,
        strict: bool,
    ) -> None:
        self.name, self.reader, self.scan, self.instrument = name, reader, scan, instrument
        self.notes, self.at_close, self._strict = list(notes), at_close, strict

    def lasts(self, interval: times.Interval) -> None:
        """Says how long the bars are, of which its own rows told otherwise."""
        told, known = (f" of {length} from " for length in (self.scan.interval, interval))
        self.notes = [note.replace(told, known) for note in self.notes]
        self.scan.interval = interval

    def rows(self) -> Iterator[Rows]:
        return self.scan.rows()

    def whole_numbers(self, rows: Rows) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
        """Open, high, low, close in ticks and volume in lots; DataError off the tick if strict."""
        prices = [to_steps(column, self.instrument.tick) for column in rows[1:5]]
        if self._strict:
            for column, ticks in zip(rows[1:5], prices, strict=True):
                self._check_on_tick(rows, column, ticks)
        open_, high, low, close = prices
        # Rounding may move an open past the high by one tick; the span of a bar holds its prices.
        high = np.maximum(high, np.maximum(open_, close))
        low = np.minimum(low, np.minimum(open_, close))
        return open_, high, low, close, to_steps(rows.volume, self.instrument.lot)

    def _check_on_tick(self, rows: Rows, column: Float64s, ticks: Int64s) -> None:
        tick = self.instrument.tick
        off = np.abs(ticks * tick.numerator / tick.denominator - column) > SLACK * column
        if off.any():
            at = int(np.argmax(off))
            raise DataError(
                f"{self.name}: the price {column[at]:.12g} at "
                f"{times.show_instant(int(rows.ts[at]))} is not a multiple of the tick "
                f"{float(tick):.12g} that your instrument file names: mend the tick, or say there "
                'prices = "adjusted"'
            )


def share_length(spec: DataSpec, feeds: Sequence[Feed]) -> None:
    """Bars of a universe are as long as most of them are: who was listed late, ended early or
    trades now and then has rows too few or too far apart to tell."""
    rows: Counter[times.Interval] = Counter()
    for feed in feeds:
        rows[feed.scan.interval] += feed.scan.count - 1
    usual = max(rows, key=lambda interval: rows[interval])
    if rows[usual] == 0:
        raise feeds[0].scan.too_few()
    for one, feed in zip(spec.instruments, feeds, strict=True):
        longer = feed.scan.interval.nominal_ns > usual.nominal_ns
        if longer and not _sure(feed.scan, usual, own_file=_own_file(one.source)):
            feed.lasts(usual)


def _sure(scan: Scan, usual: times.Interval, *, own_file: bool) -> bool:
    """Whether rows further apart than is usual are longer bars, and not bars with gaps."""
    if usual.is_calendar:
        return own_file and scan.count >= FEW_ROWS
    return scan.count >= FEW_ROWS or (scan.interval.is_calendar and scan.count > 1)


def open_feed(spec: DataSpec, index: int, found: Found | None = None) -> Feed:
    """The feed of one instrument of the run; without a source it is the built-in market, of which
    `found` may be known."""
    source = spec.instruments[index]
    if source.source is None:
        return _built_in(spec, index, found)
    zone(spec.tz or UTC)  # a wrong name is told even where no time needs it
    venue, _, symbol = source.symbol.rpartition(":")
    path, ticker = split_source(source.source)
    if isinstance(path, str | Path) and is_recording(Path(path)):
        return _recorded(spec, RecordedBars(Path(path), ticker or symbol), source.instrument)
    tables = _tables(path, symbol)
    folder = Path(path[0]).parent if isinstance(path, list) else path
    name = tables[0].name if len(tables) == 1 else str(folder)
    reader = RowReader(
        name,
        tables,
        Reading(
            columns=spec.columns,
            ticker=ticker or symbol or None,
            tz=spec.tz or UTC,
            time_format=spec.time_format,
            bad_rows=spec.bad_rows,
        ),
    )
    if ticker is not None and not reader.by_ticker:
        raise DataError(
            f"{name}: has neither a column of symbols nor one named {ticker!r}: "
            f"{_way_to(ticker, path)}"
        )
    _refuse_shared(spec, index, reader)
    scan = Scan(reader, KEPT_ROWS_MAX // len(spec.instruments), alone=_alone(spec))
    implied, notes = infer(scan, symbol or ticker or symbol_of(path), venue)
    instrument = _merged(implied, source.instrument)
    notes = [*_facts(reader, scan, spec), instrument.statement(), *notes]
    # A tick that was inferred fits by itself; one that the user named may be wrong.
    strict = "tick" in instrument.named and instrument.prices == "traded"
    at_close = spec.time == "close"
    return Feed(name, reader, scan, instrument, notes, at_close=at_close, strict=strict)


def _recorded(spec: DataSpec, reader: RecordedBars, given: Instrument | None) -> Feed:
    """The feed of bars that a live feed told."""
    rows_max = KEPT_ROWS_MAX // len(spec.instruments)
    scan = Scan(reader, rows_max, find_steps=False, alone=_alone(spec))
    instrument = known(given, reader.instrument)
    notes = [*_facts(reader, scan, spec), instrument.statement()]
    return Feed(reader.name, reader, scan, instrument, notes, at_close=False, strict=True)


def _alone(spec: DataSpec) -> bool:
    """Whether nothing but an instrument's own rows tells how long its bars are."""
    return not spec.universe or len(spec.instruments) == 1


def _refuse_shared(spec: DataSpec, index: int, reader: RowReader) -> None:
    """DataError where the bars of one instrument would also be those of another."""
    own = spec.instruments[index]
    in_folder = isinstance(own.source, str | Path) and Path(own.source).is_dir()
    if reader.by_ticker or (in_folder and own.symbol):
        return
    others = [
        other.symbol
        for other in spec.instruments
        if other is not own and _same(other.source, own.source)
    ]
    if others:
        listed = isinstance(own.source, list)
        how = "as 'A.csv,B.csv': a list of paths is parts of one table" if listed else "by commas"
        raise DataError(
            f"{reader.name}: holds the bars of one instrument, and the strategy trades "
            f"{', '.join([own.symbol, *others])}: give a folder with a file for each, a table "
            f"with a column 'symbol', or one file for each, separated {how}"
        )


def _same(source: Any, other: Any) -> bool:
    paths = isinstance(source, str | Path) and isinstance(other, str | Path)
    return str(source) == str(other) if paths else source is other


def _built_in(spec: DataSpec, index: int, found: Found | None) -> Feed:
    from quantdsl.feeds.synthetic import SyntheticReader

    source = spec.instruments[index]
    venue, _, symbol = source.symbol.rpartition(":")
    calendar = spec.session.calendar if spec.session is not None else BUILT_IN_CALENDAR
    first = BUILT_IN_SPAN[0]
    last = first + 180 * times.DAY_NS if calendar == ALWAYS_OPEN else BUILT_IN_SPAN[1]
    sessions = schedule_of(SessionSpec(calendar=calendar), first, last).within(first, last)
    # Of two neighbours the first strays, so that a pair has a spread and one alone has none.
    strays = index % 2 == 0 and index + 1 < len(spec.instruments)
    reader: Reader = SyntheticReader(index, spec.seed, sessions, strays=strays)
    rows_max = KEPT_ROWS_MAX // len(spec.instruments)
    scan = Scan(reader, rows_max, find_steps=False, found=found)
    own = source.instrument
    invented = Instrument(symbol=symbol or f"SYN{index + 1}", venue=venue, named=_INVENTED)
    instrument = _merged(invented, own)
    first_time, last_time = times.show_instant(scan.first_ts), times.show_instant(scan.last_ts)
    notes = [
        f"{reader.name}: invented prices, to try a strategy out and not to judge it: "
        f"{scan.count:,} bars of {scan.interval} from {first_time} to {last_time}",
        instrument.statement(),
    ]
    return Feed(reader.name, reader, scan, instrument, notes, at_close=False, strict=False)


def _facts(reader: RowReader | RecordedBars, scan: Scan, spec: DataSpec) -> list[str]:
    first, last = times.show_instant(scan.first_ts), times.show_instant(scan.last_ts)
    gaps = reader.empty if isinstance(reader, RowReader) else 0
    empty = f"; none in {counted(gaps, 'cell')} without a number" if gaps else ""
    bars = f"{scan.count:,} bar{'s' * (scan.count != 1)} of {scan.interval}"
    facts = [f"{reader.name}: {bars} from {first} to {last}{empty}"]
    if reader.dropped:
        counts = listed(reader.dropped)
        facts.append(f"{reader.name}: bad rows left out: {counts}")
    if not (reader.zoned or reader.dates_only):
        said = spec.tz or "UTC (--tz names another zone)"
        facts.append(f"times without a zone are read as {said}")
    if isinstance(reader, RowReader):
        facts.append(f"a row's time is its bar's {spec.time}")
    if reader.close_only:
        facts.append(
            "closes only: each bar opens, peaks and ends at its close, so a market order "
            "fills at the next close and stops and limits are seen at closes only"
        )
    if scan.jump is not None and not spec.actions:
        ts, before, after = scan.jump
        often = f", the first of {scan.jumps} such jumps" if scan.jumps > 1 else ""
        facts.append(
            f"{reader.name}: {times.show_instant(ts)} opens at {after:g} after a close of "
            f"{before:g}, as a split makes it{often}, and nothing tells of one: it counts as a "
            "loss or a gain. Take adjusted prices, or name a file of splits, data.actions"
        )
    if not reader.has_volume:
        facts.append("no volume: it is read as 0, and with volume_share nothing fills")
    elif scan.volume_max == 0:
        facts.append(
            f"{reader.name}: every volume is 0, and with volume_share nothing fills; "
            'data.columns = { volume = "NAME" } names another column, as of ticks'
        )
    return facts


def to_steps(values: Float64s, step: Fraction) -> Int64s:
    """Each value as its nearest whole number of steps."""
    scaled = values * float(step.denominator) / float(step.numerator)
    whole: Int64s = np.rint(scaled).astype(np.int64)
    return whole


def _own_file(source: Any) -> bool:
    """Whether a file, or several, hold the bars of one instrument alone."""
    path, ticker = split_source(source)
    return ticker is None and isinstance(path, str | Path | list)


def split_source(source: Any) -> tuple[Any, str | None]:
    """`PATH#TICKER` as its parts."""
    if not isinstance(source, str) or "#" not in source or Path(source).exists():
        return source, None
    path, _, ticker = source.rpartition("#")
    return path, ticker


def _tables(path: Any, symbol: str) -> list[Table]:
    """The tables of one instrument: those listed, in a folder those named after it, or all as
    parts of one."""
    if isinstance(path, list):
        return [table for file in path for table in open_table(file)]
    if isinstance(path, str | Path) and Path(path).is_dir() and symbol:
        files = list_files(Path(path))
        own = [file for file in files if _called_after(symbol, file)]
        if not own:
            held = ", ".join(stem(file) for file in files[:8])
            raise DataError(f"{path}: has no file for {symbol}; it holds {held}")
        return [table for file in own for table in open_table(file)]
    return open_table(path)


def _way_to(ticker: str, path: Any) -> str:
    """What to write for an instrument that no column tells: its file in a folder, where it has one.
    """
    folder = isinstance(path, str | Path) and Path(path).is_dir()
    own = [one for one in list_files(Path(path)) if _called_after(ticker, one)] if folder else []
    if len(own) == 1:
        return f"name its file, {own[0]}"
    return f"leave '#{ticker}' out, or map the column in the config, as in symbol = \"NAME\""


def _called_after(symbol: str, file: Path) -> bool:
    """Of KO are KO.csv, ko.us.csv, ko_2024.csv.gz and KO-2024.csv; KO-A.csv is another's."""
    name = stem(file).upper()
    written = (symbol.upper().replace("/", sign) for sign in ("/", "-", "_", ""))
    return any(
        name.startswith(one) and _PART.fullmatch(name[len(one) :]) is not None for one in written
    )


_CLASS = re.compile(r"[A-Za-z0-9]{1,5}([.-][A-Za-z]|=[Ff])")
"""A share's class or a future as vendors name it, BRK.B, BF-B, ES=F."""

_PART = re.compile(r"(_.*|[^\w]\d.*|\.[A-Z]{2})?")
"""What may follow the symbol in the name of a file: a part, a number, a country such as .US."""


def symbol_of(path: Any) -> str:
    """The leading letters and digits of a file name, in capitals; all of one such as BRK.B."""
    if not isinstance(path, str | Path):
        return "DATA"
    name = stem(Path(path))
    if _CLASS.fullmatch(name):
        return name.upper()
    end = next((i for i, c in enumerate(name) if not c.isalnum()), len(name))
    return name[:end].upper() or "DATA"


def _merged(found: Instrument, own: Instrument | None) -> Instrument:
    """What the data imply, under what the user named."""
    if own is None:
        return found
    named = {field: getattr(own, field) for field in own.named}
    return msgspec.structs.replace(found, **named, named=own.named)
