"""Bars from before a session, from a file: the venue's own, and the venue is asked for the rest."""

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from quantdsl.cli import run
from quantdsl.data.times import Interval
from quantdsl.errors import DataError
from quantdsl.events.layout import BAR, Kind
from quantdsl.live.feed import FeedSpec, open_feed
from quantdsl.live.fetch import Wanted, fetch, source_of
from quantdsl.live.past import bars_between, open_past
from tests.live.test_session import finished, journalled, paper
from tests.live.test_session_binance import config
from tests.venues import binance
from tests.venues.market import Market
from tests.venues.server import Venue

MINUTE = Interval.parse("1m")
STRATEGY = """language 1

strategy Slow:
    "Long above a slow average."

    bars 1m

    let slow = ta.sma(close, 300)

    on bar:
        if close > slow:
            target(0.01 shares)
"""


@pytest.fixture(scope="module")
def venue() -> Any:
    """Its clock goes on from now."""
    tape = binance.made_up(steps=3_000, market=Market(1, start_ns=time.time_ns()))
    with Venue(tape) as one:
        yield one


def kept(venue: Venue, folder: Path, minutes: int, before: int) -> Path:
    """A file of so many minutes up to `before` minutes ago."""
    minute = MINUTE.nominal_ns
    end = venue.dialect.now_ms() // 60_000 * minute - before * minute
    asked = Wanted("binance", "BTCUSDT", MINUTE, end - minutes * minute, end)
    fetch(source_of("binance", venue.rest_url, venue.ca_file), asked, folder / "bars.parquet")
    return folder / "bars.parquet"


def spec_of(venue: Venue, path: Path) -> FeedSpec:
    return FeedSpec(
        feed="binance",
        symbols=("BTCUSDT",),
        bars=("1m",),
        stream_url=venue.stream_url,
        rest_url=venue.rest_url,
        ca_file=venue.ca_file,
        history=str(path),
    )


def test_a_files_bars_are_the_venues_in_its_own_ticks_and_lots(venue, tmp_path):
    spec = spec_of(venue, kept(venue, tmp_path, 500, 100))
    feed = open_feed(spec)
    data = open_past(spec, "BTCUSDT", feed.instruments()[0], MINUTE)
    now = venue.dialect.now_ms() * 1_000_000
    since = now - 300 * MINUTE.nominal_ns
    found = bars_between(data, since, now).view(BAR)
    asked = feed.history("BTCUSDT", MINUTE, since).view(BAR)[: len(found)]
    assert len(found) == 199 or len(found) == 200  # the minute may have turned meanwhile
    for name in ("ts_recv", "ts_event", "open", "high", "low", "close", "volume"):
        assert np.array_equal(found[name], asked[name]), name


def test_bars_of_another_length_are_refused_before_anything_runs(venue, tmp_path):
    spec = spec_of(venue, kept(venue, tmp_path, 60, 0))
    one = open_feed(spec).instruments()[0]
    with pytest.raises(DataError, match=r"holds bars of 1m, and the session takes bars of 5m"):
        open_past(spec, "BTCUSDT", one, Interval.parse("5m"))


def in_words_of_its_own(path: Path, settings: Path) -> Path:
    """The same bars with times of Tokyo's clock at a bar's end, which the config says."""
    bars = pd.read_parquet(path)
    ends = pd.to_datetime(bars.pop(bars.columns[0]), utc=True) + pd.Timedelta(minutes=1)
    bars.insert(0, "Zeit", ends.dt.tz_convert("Asia/Tokyo").dt.strftime("%d.%m.%Y %H:%M"))
    said = """
[data]
tz = "Asia/Tokyo"
time = "close"
time_format = "%d.%m.%Y %H:%M"
columns = { time = "Zeit" }
"""
    settings.write_text(settings.read_text("utf-8") + said, encoding="utf-8")
    bars.to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


@pytest.mark.parametrize("own", [False, True], ids=["as fetched", "read as the config says"])
def test_a_session_warms_up_from_the_file_and_asks_for_the_rest(venue, tmp_path, own):
    """No bar is missing, none is there twice, and what the file has is not asked for."""
    strategy, folder = tmp_path / "slow.qdsl", tmp_path / "session"
    strategy.write_text(STRATEGY, encoding="utf-8")
    path, settings = kept(venue, tmp_path, 1_500, 20), config(tmp_path, venue)
    if own:
        path = in_words_of_its_own(path, settings)
    venue.log.requests.clear()
    words = ("--config", settings, "--data", path, "--for", "2")
    said = finished(paper(folder, strategy, *words))
    assert re.search(r"[\d,]+ bars of BTCUSDT from .*bars\.", said), said
    bars = journalled(folder, "Slow")[0]
    bars = bars[bars["kind"] == Kind.BAR]
    assert len(bars) > 290  # the venue's clock stands still at the end of its tape
    assert set(np.diff(bars["ts_event"]).tolist()) == {MINUTE.nominal_ns}
    asked = " ".join(venue.log.requests)
    starts = [int(found) for found in re.findall(r"startTime=(\d+)", asked)]
    first = int(bars["ts_event"][0]) // 1_000_000
    assert starts
    assert min(starts) > first + 250 * 60_000


def test_an_invented_market_takes_no_file(tmp_path, capsys):
    strategy = tmp_path / "slow.qdsl"
    strategy.write_text(STRATEGY, encoding="utf-8")
    assert run(["paper", str(strategy), "--data", "x.csv", "--session", str(tmp_path / "s")]) == 2
    assert "has no past but its own" in capsys.readouterr().err
