"""A recording of a live feed is a source of backtests: the same book, the same times."""

import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

from quantdsl.cli import run
from quantdsl.data import universe
from quantdsl.data.feed import open_feed
from quantdsl.data.instrument import Instrument
from quantdsl.data.spec import DataSpec, SourceSpec
from quantdsl.data.tick_data import open_tick_data
from quantdsl.errors import DataError
from quantdsl.events.layout import BAR, EVENT, Feed, Kind
from quantdsl.live import record as recorder
from quantdsl.live.feed import open_feed as open_live_feed
from quantdsl.live.record import record
from tests.feeds.test_binance_live import Kept, book_of, good, known, played_to_the_end, spec_of
from tests.venues import binance
from tests.venues.server import Venue
from tests.venues.tape import Message
from tests.waiting import WAIT_S, until


class Both(recorder.Recorder):
    """Keeps a second copy of what is recorded."""

    kept = Kept()

    def push(self, events: Any) -> None:
        super().push(events)
        self.kept.push(events)


def made_up_bars() -> Any:
    """An hour of bars of two instruments; the last of the second is told again."""
    rng = np.random.default_rng(3)
    bars = np.zeros(120, BAR)
    opened = 1_704_067_200 * 10**9 + np.repeat(np.arange(60), 2) * 60 * 10**9
    opened[-1] -= 60 * 10**9
    bars["kind"], bars["instrument"] = Kind.BAR, np.arange(120) % 2
    bars["ts_recv"], bars["ts_event"] = opened, opened + 60 * 10**9
    bars["open"] = rng.integers(1_000, 1_100, 120)
    bars["close"] = rng.integers(1_000, 1_100, 120)
    bars["low"] = np.minimum(bars["open"], bars["close"]) - 1
    bars["high"] = np.maximum(bars["open"], bars["close"]) + 1
    bars["volume"] = rng.integers(1, 50, 120)
    return bars.view(EVENT)


class Told:
    """A feed that has these events to tell."""

    name = "told"

    def __init__(self, events: Any) -> None:
        self.events = events

    def instruments(self) -> list[Instrument]:
        return [
            Instrument(symbol=symbol, tick=Fraction(1, 20), lot=Fraction(1, 1000), currency="USD")
            for symbol in ("ONE", "TWO")
        ]

    def run(self, sink: Any, stop: threading.Event) -> None:  # noqa: ARG002 (it ends by itself)
        for events in np.array_split(self.events, 3):
            sink.push(events)


def ticks_of(path: Path | str, kind: str = "book") -> Any:
    data = open_tick_data(
        DataSpec(instruments=(SourceSpec(source=str(path)),), ticks=frozenset({kind}))
    )
    return data, np.concatenate([chunk for feed in data.feeds for chunk in feed.chunks(0)])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Any:
    """A recording in several files, and what the feed pushed."""
    from quantdsl.live.feed import open_feed

    folder = tmp_path_factory.mktemp("recordings") / "btc"
    dialect, stop = binance.made_up(steps=1_500), threading.Event()
    patch = pytest.MonkeyPatch()
    patch.setattr(recorder, "Recorder", Both)
    Both.kept = Kept()
    with Venue(dialect, speed=5.0) as venue:
        feed = open_feed(spec_of(venue))
        told: list[int] = []
        thread = threading.Thread(
            target=lambda: record(feed, folder, stop, seconds_a_file=0.05, told=told.append)
        )
        thread.start()
        good(Both.kept)
        until(lambda: list(folder.glob("*.parquet")))
        played_to_the_end(venue, Both.kept, known(dialect))
        stop.set()
        thread.join(WAIT_S)
    patch.undo()
    assert told[-1] == len(Both.kept.events)
    return folder, Both.kept.events, dialect


def test_a_backtest_reads_what_was_received(recorded):
    folder, pushed, dialect = recorded
    assert len(list(folder.glob("*.parquet"))) > 1
    assert not list(folder.glob("*.part"))
    data, events = ticks_of(folder)
    assert data.instruments[0].tick == dialect.units["BTCUSDT"][0]
    assert data.instruments[0].lot == dialect.units["BTCUSDT"][1]
    assert book_of(events) == known(dialect)
    shift = events["ts_recv"] - pushed["ts_recv"]  # the tape's clock is years behind ours
    assert np.all(shift == shift[0])
    for name in ("kind", "side", "flags", "payload"):
        assert np.array_equal(events[name], pushed[name])
    assert Feed.GOOD in events["side"][events["kind"] == Kind.FEED]


def test_one_file_of_it_stands_alone_and_a_damaged_one_is_told(recorded, tmp_path):
    folder, pushed, _ = recorded
    first = max(folder.glob("*.parquet"), key=lambda one: one.stat().st_size)
    assert 0 < len(ticks_of(first)[1]) < len(pushed)
    damaged = tmp_path / "000000.parquet"
    data = bytearray(first.read_bytes())
    middle = len(data) // 3
    data[middle : middle + 50] = bytes(50)
    damaged.write_bytes(data)
    with pytest.raises(DataError, match="is damaged"):
        ticks_of(damaged)
    with pytest.raises(DataError, match="holds BTCUSDT and no ETHUSDT"):
        ticks_of(f"{folder}#ETHUSDT")


def test_a_strategy_on_bars_is_told_that_it_holds_ticks(recorded):
    folder, *_ = recorded
    spec = DataSpec(instruments=(SourceSpec(source=str(folder)),))
    with pytest.raises(DataError, match="is a recording of ticks, and the strategy takes bars"):
        open_feed(spec, 0)


def test_bars_are_kept_and_read(tmp_path, capsys):
    """Recorded bars are those that the feed told, each once."""
    folder = tmp_path / "both"
    told = made_up_bars()
    record(Told(told), folder, threading.Event(), bars="1m", ticks=False)
    feed = open_feed(DataSpec(instruments=(SourceSpec(source=f"{folder}#TWO"),)), 0)
    own = told[told["instrument"] == 1].view(BAR)
    assert feed.instrument.symbol == "TWO"
    assert [len(feed.whole_numbers(rows)[0]) for rows in feed.rows()] == [len(own) - 1]
    (rows,) = feed.rows()
    assert rows.ts.tolist() == own["ts_recv"][:-1].tolist()
    for name, column in zip(("open", "high", "low", "close", "volume"),
                            feed.whole_numbers(rows), strict=True):  # fmt: skip
        assert column.tolist() == own[name][:-1].tolist()
    assert run(["data", "check", f"{folder}#TWO"]) == 1
    said = capsys.readouterr().out
    assert "59 bars of 1m" in said
    assert "1 told again; the first: the bar of 2024-01-01 00:58 UTC was told again" in said
    assert "tick 0.05" in said
    with pytest.raises(DataError, match="holds ONE, TWO: name one, as in"):
        open_feed(DataSpec(instruments=(SourceSpec(source=str(folder)),)), 0)
    assert set(universe.sources(str(folder))) == {"ONE", "TWO"}


def kline(opened_s: int, prices: list[str], *, final: bool) -> Message:
    """A bar of a minute in Binance's words."""
    opened = 1_000 * opened_s
    names = dict(zip("ohlc", prices, strict=True))
    bar = {"t": opened, "T": opened + 59_999, "s": "BTCUSDT", "i": "1m", "v": "1.500", "x": final}
    data = {"e": "kline", "E": opened + 60_000, "s": "BTCUSDT", "k": bar | names}
    channel = "btcusdt@kline_1m"
    text = msgspec.json.encode({"stream": channel, "data": data}).decode()
    return Message((opened_s + 60) * 10**9, "BTCUSDT", channel, text)


def test_the_bars_that_a_venue_tells_are_recorded_once_they_are_whole(tmp_path):
    dialect, stop = binance.made_up(steps=100), threading.Event()
    first_s = dialect.tape[-1].at_ns // 60_000_000_000 * 60 + 60
    prices = [[f"{100 + k}.00", f"{102 + k}.25", f"{99 + k}.00", f"{101 + k}.50"] for k in range(5)]
    for k, one in enumerate(prices):
        dialect.tape.append(kline(first_s + 60 * k, [*one[:3], "101.00"], final=False))
        dialect.tape.append(kline(first_s + 60 * k, one, final=True))
    with Venue(dialect) as venue:
        spec = msgspec.structs.replace(
            spec_of(venue), ticks=frozenset({"trades"}), bars=("1m",), symbols=("BTCUSDT",)
        )
        feed = open_live_feed(spec)
        work = threading.Thread(
            target=lambda: record(feed, tmp_path / "btc", stop, bars="1m"), daemon=True
        )
        work.start()
        trades = sum(one.channel.endswith("@trade") for one in dialect.tape)
        until(lambda: feed.health.processed == trades + len(prices), lambda: feed.health)
        stop.set()
        work.join(WAIT_S)
    spec = DataSpec(instruments=(SourceSpec(source=str(tmp_path / "btc")),))
    (rows,) = open_feed(spec, 0).rows()
    assert rows.ts.tolist() == [(first_s + 60 * k) * 10**9 for k in range(5)]
    told = [*zip(rows.open, rows.high, rows.low, rows.close, strict=True)]
    assert told == [tuple(map(float, one)) for one in prices]
    assert set(rows.volume.tolist()) == {1.5}
    assert len(ticks_of(tmp_path / "btc", "trades")[1])


def test_data_check_says_what_it_holds(recorded, capsys):
    assert run(["data", "check", str(recorded[0])]) == 0
    said = capsys.readouterr().out
    assert "recording of binance" in said
    assert "tick 0.01" in said


def test_a_slow_disk_stops_the_recording_and_hides_nothing(monkeypatch):
    monkeypatch.setattr(recorder, "EVENTS_MAX", 10)
    sink = recorder.Recorder()
    events = np.zeros(6, recorder.EVENT)
    sink.push(events)
    sink.push(events)
    assert sink.overrun
    assert len(sink.take()) == 6


def test_the_command_records_and_says_what_it_did(tmp_path, capsys, monkeypatch):
    class Timer(threading.Thread):
        """Is over when something worth a recording has come."""

        def __init__(self, seconds: float, over: Any) -> None:
            assert seconds == 2
            super().__init__(target=self.wait, args=(over,))

        def wait(self, over: Any) -> None:
            until(lambda: len(Both.kept.events) > 200)
            over()

        def cancel(self) -> None:
            self.join(WAIT_S)

    Both.kept = Kept()
    monkeypatch.setattr(recorder, "Recorder", Both)
    monkeypatch.setattr("quantdsl.cli.record.threading.Timer", Timer)
    dialect = binance.made_up(steps=1_500)
    with Venue(dialect, speed=5.0) as venue:
        line = ["record", "binance", "BTCUSDT", "--out", str(tmp_path / "btc"), "--for", "2"]
        line += ["--stream-url", venue.stream_url, "--rest-url", venue.rest_url]
        line += ["--ca-file", venue.ca_file]
        assert run(line) == 0
        said = capsys.readouterr().out
        assert "0 dropped, 0 gaps, 1 connection\n" in said
        assert run(line) == 2
        assert "is not empty" in capsys.readouterr().err
        assert run([*line, "--ticks", "books"]) == 2
    assert pq.read_table(tmp_path / "btc" / "000000.parquet").num_rows > 100
