"""Columns of times whose values are wrong: what is read, what is told, and with how many casts."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from quantdsl.data.time_columns import TimeTextError, read_times

ROWS = 4_000
MINUTES = np.datetime_as_string(np.datetime64("2024-01-01T00:00") + np.arange(ROWS)).tolist()
NUMBERS = [str(1_704_067_200_000 + at) for at in range(ROWS)]
AMERICAN = "31/01/2024 10:00:00"


@pytest.fixture
def casts(monkeypatch):
    """One entry for each cast of a column."""
    made, cast = [], pc.cast

    def counted(*given, **options):
        made.append(given[1])
        return cast(*given, **options)

    monkeypatch.setattr(pc, "cast", counted)
    return made


@pytest.mark.parametrize(
    ("column", "bad", "nth", "reason"),
    [
        (MINUTES, AMERICAN, 1, "is not a time that can be read"),
        (MINUTES, AMERICAN, 10, "is not a time that can be read"),
        (MINUTES, "2024-02-30", 10, "is not a time that can be read"),
        (MINUTES, "2024-01-31 25:00", 10, "is not a time that can be read"),
        (MINUTES, "9999-12-31", 1, "lies outside the years"),
        (MINUTES, "9999-12-31", 10, "lies outside the years"),
        (NUMBERS, "none", 10, "is no number"),
    ],
)
def test_many_that_are_no_time_cost_as_few_casts_as_one(column, bad, nth, reason, casts):
    mixed = [bad if (at + 1) % nth == 0 else text for at, text in enumerate(column)]
    read = read_times(pa.array(mixed), None)
    lost = np.flatnonzero(read.unread)
    assert lost.tolist() == list(range(nth - 1, ROWS, nth))
    assert not read.valid[lost].any()
    assert read.valid.sum() == ROWS - len(lost)
    assert str(read.fault(int(lost[0]))).startswith(f"{bad!r} {reason}")
    assert len(casts) < 12


def test_a_zone_that_others_lack_costs_few_casts_too(casts):
    mixed = [text + "Z" * (at > 4) for at, text in enumerate(MINUTES)]
    with pytest.raises(TimeTextError, match="'2024-01-01T00:05Z' has a zone and the times"):
        read_times(pa.array(mixed), None)
    assert len(casts) < 12


def test_what_a_bad_value_is_beside_changes_nothing():
    """A text is read alike in a column that all can be read of and beside one that cannot."""
    draw = random.Random(5)
    seeds = ["2024-02-29", "2024-01-31 15:30", "2024-01-31T153011.5+0530", "1999-12-31 23:59:59Z"]
    for _ in range(1_500):
        text = list(draw.choice(seeds))
        for _ in range(draw.randrange(3)):
            at = draw.randrange(len(text))
            text[at : at + draw.randrange(2)] = draw.choice("0123456789-+:. TZ")
        shown = "".join(text)
        alone, beside = (read_times(pa.array(c), None) for c in ([shown], [shown, "no time"]))
        assert (alone.valid[0], alone.ns[0]) == (beside.valid[0], beside.ns[0]), shown
        for zone in (None, "UTC"):
            try:
                ns = pc.cast(pa.array([shown]), pa.timestamp("ns", zone)).cast(pa.int64())[0]
            except pa.ArrowInvalid:
                continue
            assert (alone.valid[0], alone.ns[0]) == (True, ns.as_py()), shown


@pytest.mark.parametrize("wrong", [20240015, 20240100, 20241301, 20240230, 20240000])
def test_a_date_in_digits_has_a_month_and_a_day(wrong):
    read = read_times(pa.array([20231213, wrong, 20231216]), None)
    assert read.valid.tolist() == [True, False, True]
    assert str(read.fault(1)).startswith(f"{wrong} is not a time that can be read")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string()])
@pytest.mark.parametrize("top", [[0], [0, 0], [None, 0], [7]])
def test_a_number_that_tells_no_unit_leaves_it_to_the_next(unit, kind, top):
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    seconds = [1_704_067_200, 1_704_067_260]
    column = pa.array([*top, *(one * per_second for one in seconds)])
    read = read_times(column.cast(kind, safe=False), None)
    assert read.ns[len(top) :].tolist() == [one * 10**9 for one in seconds]
    assert read.valid[len(top) :].all()


def test_dates_in_digits_after_a_0_are_dates_and_numbers_of_1970_seconds():
    dates = read_times(pa.array([0, 20240131, 20240201]), None)
    assert dates.ns[1:].tolist() == [19_753 * 86_400 * 10**9, 19_754 * 86_400 * 10**9]
    assert dates.valid.tolist() == [False, True, True]
    assert read_times(pa.array([0, 60, 19_000_200]), None).ns[2] == 19_000_200 * 10**9
    later = read_times(pa.array([20240131, 1_704_067_200_000]), None)  # that is no date
    assert later.valid.tolist() == [True, False]


@pytest.mark.parametrize("far", [float("inf"), float("-inf"), 1e30, -1e19, 1e15])
def test_a_number_too_far_away_is_no_empty_time(far):
    read = read_times(pa.array([1_704_067_200.5, far, None, float("nan")]), None)
    assert read.valid.tolist() == [True, False, False, False]
    assert read.unread.tolist() == [False, True, False, False]
    assert read.fault(1) == f"{far:.15g} lies outside the years 1678 to 2261"
    assert read.fault(2) is None


@pytest.mark.parametrize("unknown", ["0", "-1", "1970-01-01", "1969-12-31 19:00", "1970-01-01T00Z"])
@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_0_far_from_all_other_times_is_one_that_is_missing(unknown, at):
    """At the top it was a bar of 1970."""
    days = ["2024-01-01", "2024-01-02", "2024-01-03"]
    if "Z" in unknown:
        days = [f"{day}T00Z" for day in days]
    kind = pa.string()
    if len(unknown) < 3:
        days, kind = ["1704067200", "1704153600", "1704240000"], pa.int64()
    column = pa.array([*days[:at], unknown, *days[at:]]).cast(kind)
    read = read_times(column, None)
    assert read.valid.tolist() == [place != at for place in range(4)]
    assert read.fault(at).startswith("the begin of 1970, or 0, far from all other times here")


def test_data_from_the_begin_of_1970_are_read():
    for step in (1, 86_400, 366 * 86_400):
        assert read_times(pa.array([0, step, 2 * step]), None).valid.all()
    assert read_times(pa.array(["1970-01-01", "1970-01-02", "1999-01-01"]), None).valid.all()
    years = pa.array(["1960-01-04", "1965-01-04", "1970-01-01", "1975-01-02"])
    assert read_times(years, None).valid.all()


def test_a_0_among_times_in_text_is_no_time():
    """The others were refused, as no numbers."""
    assert read_times(pa.array(["0", "2024-01-02", "2024-01-03"]), None).valid.tolist() == [
        False, True, True,
    ]  # fmt: skip
