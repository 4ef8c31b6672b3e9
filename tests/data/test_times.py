"""Wall clocks and UTC: what every hour asked by itself would say."""

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from quantdsl.data import times
from quantdsl.data.times import FIXED_NS, local_of_utc, parse_instant, utc_of_local

SPANS = (
    ("America/New_York", "2022-01-01", 17_520, 7),
    ("America/Recife", "2000-09-01", 1_440, 1),  # forward, and back after seven days
    ("Asia/Gaza", "2040-09-01", 1_800, 1),
    ("Africa/Casablanca", "2023-01-01", 8_760, 5),
    ("Australia/Lord_Howe", "2023-01-01", 8_760, 5),  # by half an hour
    ("UTC", "2023-01-01", 100, 1),
)


@pytest.mark.parametrize(("zone", "first", "hours", "step"), SPANS, ids=[s[0] for s in SPANS])
def test_each_hour_has_the_offset_of_its_zone(zone, first, hours, step):
    begin = parse_instant(first)
    ns = begin + np.arange(0, hours, step) * FIXED_NS["h"]
    place = ZoneInfo(zone)
    moments = [dt.datetime.fromtimestamp(t / 1e9, dt.UTC) for t in ns.tolist()]
    local = [m.astimezone(place).utcoffset() for m in moments]
    meant = [m.replace(tzinfo=place).utcoffset() for m in moments]
    shown, back = local_of_utc(ns, zone) - ns, ns - utc_of_local(ns, zone)
    assert shown.tolist() == [int(offset.total_seconds()) * 10**9 for offset in local]
    assert back.tolist() == [int(offset.total_seconds()) * 10**9 for offset in meant]


def test_no_time_is_no_error():
    none = np.empty(0, np.int64)
    assert len(local_of_utc(none, "Asia/Gaza")) == len(utc_of_local(none, "Asia/Gaza")) == 0


def test_hours_that_were_asked_for_before_are_not_asked_of_the_zone_again(monkeypatch):
    """A walk-forward opens the same sessions four times a window: most of its time was zones."""
    ns = parse_instant("2001-01-01") + np.arange(0, 90_000, 24) * FIXED_NS["h"]
    first = utc_of_local(ns, "Europe/Oslo"), local_of_utc(ns, "Europe/Oslo")
    monkeypatch.setattr(times, "_offset_of", None)
    again = utc_of_local(ns, "Europe/Oslo"), local_of_utc(ns, "Europe/Oslo")
    assert np.array_equal(first, again)
