"""A recording of a live feed is a source of backtests: the same book, the same times."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from quantdsl.cli import run
from quantdsl.data.feed import open_feed
from quantdsl.data.spec import DataSpec, SourceSpec
from quantdsl.data.tick_data import open_tick_data
from quantdsl.errors import DataError
from quantdsl.events.layout import Feed, Kind
from quantdsl.live import record as recorder
from quantdsl.live.record import record
from tests.feeds.test_binance_live import Kept, book_of, good, known, played_to_the_end, spec_of
from tests.venues import binance
from tests.venues.server import Venue
from tests.waiting import WAIT_S, until


class Both(recorder.Recorder):
    """Keeps a second copy of what is recorded."""

    kept = Kept()

    def push(self, events: Any) -> None:
        super().push(events)
        self.kept.push(events)


def ticks_of(path: Path | str) -> Any:
    data = open_tick_data(
        DataSpec(instruments=(SourceSpec(source=str(path)),), ticks=frozenset({"book"}))
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
        assert "0 dropped, 0 gaps, 1 connections" in said
        assert run(line) == 2
        assert "is not empty" in capsys.readouterr().err
        assert run([*line, "--ticks", "books"]) == 2
    assert pq.read_table(tmp_path / "btc" / "000000.parquet").num_rows > 100
