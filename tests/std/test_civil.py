"""Dates and times of day of std/civil.qdsl, against those of Python."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from tests.std.harness import run

FIGURES = ("weekday", "day", "month", "year", "hour", "minute")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR_NS = 3_600_000_000_000
DAY_NS = 24 * HOUR_NS
DAYS = (datetime(2200, 12, 31, tzinfo=UTC) - EPOCH).days + 1
ZONES = (
    *("America/New_York", "Europe/London", "Asia/Kolkata"),
    *("Pacific/Auckland", "Pacific/Honolulu"),  # the first and the last to have a day
)


def figure(name: str, moment: datetime) -> int:
    """What Python says."""
    return moment.weekday() if name == "weekday" else int(getattr(moment, name))


def civil(name: str, now: list[int], midnight: list[int], backend: str = "native") -> list[int]:
    """What the strategy's code says of times that close what they speak of."""
    arrays = {"now": np.array(now, np.int64), "midnight": np.array(midnight, np.int64)}
    return list(run(f"civil.{name}", backend=backend, **arrays))


@pytest.mark.parametrize("name", FIGURES)
def test_every_day_until_2200_is_that_of_python(name: str) -> None:
    middays = [day * DAY_NS + 13 * HOUR_NS + 7 * HOUR_NS // 60 for day in range(DAYS)]
    expected = [figure(name, EPOCH + timedelta(days=d, hours=13, minutes=7)) for d in range(DAYS)]
    assert civil(name, [ns + 1 for ns in middays], [0] * DAYS) == expected
    few = slice(0, DAYS, 997)
    found = civil(name, [ns + 1 for ns in middays[few]], [0] * len(expected[few]), "interp")
    assert found == expected[few]


@pytest.mark.parametrize("name", FIGURES)
def test_days_before_1970_and_around_leap_days(name: str) -> None:
    dates = [datetime(y, 2, 28, tzinfo=UTC) for y in (1896, 1900, 1904, 1968, 2000, 2100, 2200)]
    moments = [date + timedelta(hours=h) for date in dates for h in range(1, 72)]
    now = [(one - EPOCH) // timedelta(microseconds=1) * 1000 for one in moments]
    expected = [figure(name, one - timedelta(microseconds=1)) for one in moments]
    assert civil(name, now, [0] * len(now)) == expected


def test_a_moment_belongs_to_what_it_ends() -> None:
    midnight = 20_000 * DAY_NS  # 2024-10-04, a Friday
    edges = [midnight - 1, midnight, midnight + 1]
    assert civil("day", edges, [0] * 3) == [3, 3, 4]
    assert civil("weekday", edges, [0] * 3) == [3, 3, 4]
    assert civil("hour", edges, [0] * 3) == [23, 23, 0]
    assert civil("minute", edges, [0] * 3) == [59, 59, 0]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("name", FIGURES)
def test_a_zone_is_told_by_its_midnight_all_year(name: str, zone: str) -> None:
    """Hours from 9 to 20, which no zone's clocks are set in; and the evening before, as of a market
    whose day begins then, on days whose clocks are not set after it."""
    tz = ZoneInfo(zone)
    now, midnights, expected = [], [], []
    for day in range(3 * 366):
        midnight = datetime(2023, 1, 1, tzinfo=tz) + timedelta(days=day)
        for hour in (-6, 9, 16, 20):
            moment = midnight + timedelta(hours=hour)
            if midnight.utcoffset() != moment.utcoffset():
                continue  # the clocks are set between the two
            now.append(int(moment.timestamp()) * 10**9)
            midnights.append(int(midnight.timestamp()) * 10**9)
            expected.append(figure(name, moment - timedelta(microseconds=1)))
    assert civil(name, now, midnights) == expected
