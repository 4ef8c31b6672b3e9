"""Bars fetched from a venue: whole, in order, taken up again, never half written."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from quantdsl.cli import run
from quantdsl.data.events import open_data
from quantdsl.data.spec import DataSpec, SourceSpec
from quantdsl.data.times import Interval, exact_instant
from quantdsl.errors import DataError, FeedError, UnreachableError
from quantdsl.live.fetch import Wanted, fetch, source_of
from tests.venues import binance
from tests.venues.server import Venue

MINUTE = Interval.parse("1m")


@pytest.fixture(scope="module")
def venue() -> Any:
    with Venue(binance.made_up(steps=50)) as one:
        yield one


def wanted(venue: Venue, minutes: int, before: int = 0, symbol: str = "BTCUSDT") -> Wanted:
    """So many minutes up to `before` minutes ago, by the venue's clock."""
    end = venue.dialect.now_ms() // 60_000 * MINUTE.nominal_ns - before * MINUTE.nominal_ns
    return Wanted("binance", symbol, MINUTE, end - minutes * MINUTE.nominal_ns, end)


def source(venue: Venue) -> Any:
    return source_of("binance", venue.rest_url, venue.ca_file)


def times(path: Path) -> Any:
    return pq.read_table(path).column("time").to_numpy().astype(np.int64)


def test_all_bars_come_once_and_in_order(venue, tmp_path):
    path = tmp_path / "bars.parquet"
    asked = wanted(venue, 2_345)
    assert fetch(source(venue), asked, path) == 2_345
    assert np.array_equal(times(path), asked.first_ns + np.arange(2_345) * MINUTE.nominal_ns)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["bars.parquet"]


def test_a_second_run_adds_what_is_new(venue, tmp_path):
    path, whole = tmp_path / "bars.parquet", tmp_path / "whole.parquet"
    early = wanted(venue, 1_000, before=500)
    assert fetch(source(venue), early, path) == 1_000
    asked = len(venue.log.requests)
    assert fetch(source(venue), early, path) == 0
    assert len(venue.log.requests) == asked
    late = early._replace(end_ns=wanted(venue, 1).end_ns)
    assert fetch(source(venue), late, path) == 500
    assert fetch(source(venue), late, whole) == 1_500
    assert pq.read_table(path).equals(pq.read_table(whole))


class KilledError(Exception):
    """The run ends here."""


def test_a_run_that_is_killed_is_taken_up_where_it_was(venue, tmp_path):
    path = tmp_path / "bars.parquet"
    asked = wanted(venue, 2_500)

    def killed(_: int) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        fetch(source(venue), asked, path, told=killed)
    assert not path.exists()
    assert fetch(source(venue), asked, path) == 1_500
    assert len(times(path)) == 2_500


def test_a_venue_that_is_busy_is_asked_again_after_what_it_says(venue, tmp_path):
    waits: list[float] = []
    venue.faults.rest.append((429, b'{"code":-1003,"msg":"Too many requests."}'))
    venue.faults.rest.append((503, b"later"))
    path = tmp_path / "bars.parquet"
    assert fetch(source(venue), wanted(venue, 10), path, wait=waits.append) == 10
    assert waits[0] >= 1.0  # as it says
    assert 0.8 <= waits[1] <= 1.62


def test_a_venue_that_is_busy_without_a_wait_is_asked_again(venue, tmp_path, monkeypatch):
    asked = source(venue)
    bars, failures = asked.bars, iter([UnreachableError("venue: HTTP 429: busy", retry_s=0.0)])

    def busy_once(*wanted: Any) -> Any:
        for failure in failures:
            raise failure
        return bars(*wanted)

    monkeypatch.setattr(asked, "bars", busy_once)
    assert fetch(asked, wanted(venue, 10), tmp_path / "bars.parquet", wait=lambda _: None) == 10


def test_what_is_wrong_is_told_at_once(venue, tmp_path):
    path = tmp_path / "bars.parquet"
    with pytest.raises(FeedError, match="Invalid symbol"):
        fetch(source(venue), wanted(venue, 10, symbol="NOSUCH"), path, wait=pytest.fail)
    assert fetch(source(venue), wanted(venue, 10), path) == 10
    five = wanted(venue, 10)._replace(interval=Interval.parse("5m"))
    with pytest.raises(DataError, match="holds binance BTCUSDT 1m, not binance BTCUSDT 5m"):
        fetch(source(venue), five, path)
    with pytest.raises(DataError, match="was fetched from"):
        fetch(source(venue), wanted(venue, 11), path)
    with pytest.raises(FeedError, match="known: binance"):
        source_of("nowhere")


def test_the_command_writes_what_a_backtest_reads(venue, tmp_path, capsys):
    path, asked = tmp_path / "bars.parquet", wanted(venue, 300)
    line = ["data", "fetch", "binance", "BTCUSDT", "1m", "--out", str(path)]
    line += ["--from", exact_instant(asked.first_ns), "--to", exact_instant(asked.end_ns)]
    line += ["--rest-url", venue.rest_url, "--ca-file", venue.ca_file]
    assert run(line) == 0
    assert "300 new bars" in capsys.readouterr().out
    data = open_data(DataSpec(instruments=(SourceSpec(source=str(path)),)))
    assert data.rows == 300
    assert data.instruments[0].tick == Fraction(1, 100)
    line[line.index("--to") + 1] = "2000-01-01"
    assert run(line) == 2
    assert "there is nothing there" in capsys.readouterr().err
