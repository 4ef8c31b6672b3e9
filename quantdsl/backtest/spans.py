"""The spans of a walk-forward: which bars each training and each test has.

    |------ train ------|- test -|
             |------ train ------|- test -|
                      |------ train ------|- test -|
"""

import calendar
import datetime as dt
import itertools
import re

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import astuple, replace

from quantdsl.config import Resolved
from quantdsl.data.times import show_instant
from quantdsl.errors import ConfigError, LimitError
from quantdsl.report.words import plural

Int64s = npt.NDArray[np.int64]
WINDOWS_MAX = 1_000
UNITS = {"d": "day", "w": "week", "mo": "month", "y": "year"}
LAST_MONTH = dt.MAXYEAR * 12 + 11
US, DAY_US = 1_000, 86_400_000_000
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Length(Struct, frozen=True):
    """A length of calendar time: 6 months are 6 months, however long those are."""

    count: int
    unit: str  # one of UNITS

    def __str__(self) -> str:
        return plural(self.count, UNITS[self.unit])


class Plan(Struct, frozen=True):
    """How long each training and each test is."""

    train: Length
    test: Length


class Window(Struct, frozen=True):
    """One training and the test after it, ns since 1970: [train, test) and [test, end)."""

    train_ns: int
    test_ns: int
    end_ns: int


def parse(text: str, named: str = "") -> Plan:
    """The plan of `train=2y test=6mo`; ConfigError where it is not one, which names the setting."""
    named = named or f"walk-forward {text}"
    words = re.sub(r"\s*=\s*", "=", text.replace(",", " ")).split()
    if sorted(word.partition("=")[0] for word in words) != ["test", "train"]:
        raise ConfigError(
            f"{named}: it needs a length for train and one for test\n"
            "help: write 'train=2y test=6mo'"
        )
    said = dict(word.partition("=")[::2] for word in words)
    return Plan(*(_length(named, said[name]) for name in ("train", "test")))


def asked(resolved: Resolved) -> Plan | None:
    """The plan of a sweep's settings, if there is to be a walk-forward."""
    said = resolved.config.sweep.walk_forward
    return parse(said, resolved.said("sweep.walk_forward", said)) if said else None


def _length(named: str, said: str) -> Length:
    match = re.fullmatch(r"(\d{1,4})(d|w|mo|y)", said)
    if match is None or int(match[1]) == 0:
        raise ConfigError(
            f"{named}: {said} is not a length\n"
            f"help: write a whole number and one of {', '.join(UNITS)}, such as 6mo"
        )
    return Length(int(match[1]), match[2])


def windows(plan: Plan, first_ns: int, last_ns: int) -> list[Window]:
    """The windows from `first_ns`, where all points are warm, to the last bar at `last_ns`.

    Each test begins where the one before it ends, its training as long before it: months and weeks
    added up the other way leave days out, or test them twice. The last test may be shorter.
    ConfigError where not one bar is left to test, LimitError where there are too many windows.
    """
    first = (EPOCH + dt.timedelta(microseconds=first_ns // US)).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    tested = _after(first, plan.train, 1)
    found: list[Window] = []
    for step in itertools.count():
        test, next_test = (_after(tested, plan.test, times) for times in (step, step + 1))
        if _ns(test) >= last_ns:
            break
        if step == WINDOWS_MAX:
            raise LimitError(
                f"tests of {plan.test} make more than {WINDOWS_MAX:,} windows of these data\n"
                "help: take a longer test in the walk-forward, or fewer data"
            )
        begin = max(_ns(_after(test, plan.train, -1)), first_ns)
        found.append(Window(begin, _ns(test), min(_ns(next_test), last_ns)))
    if not found:
        raise ConfigError(
            f"the data are too short to train for {plan.train} and to test after it: all points "
            f"are warm from {first:%Y-%m-%d} on, and the last bar is of "
            f"{EPOCH + dt.timedelta(microseconds=last_ns // US):%Y-%m-%d}\n"
            "help: take longer data, or a shorter train in the walk-forward"
        )
    return found


def windows_of(plan: Plan, start_ns: int, bar_ns: Int64s, *, ticks: bool) -> list[Window]:
    """The windows of the bars that close, or of the `ticks` that come, at `bar_ns`, but for those
    whose test has none, as a weekend has none.

    What closes at the end of a span is of it, what comes then is not: the last test ends after the
    last tick. ConfigError where a training has none: nothing could be chosen in it.
    """
    last_ns, moment = int(bar_ns[-1]), "tick moment" if ticks else "bar"
    *before, last = windows(plan, start_ns, last_ns)
    if ticks:
        last = replace(last, end_ns=(last_ns // US + 1) * US)  # as far as --to says it
    found = []
    for window in (*before, last):
        train, test, end = np.searchsorted(bar_ns, astuple(window), "left" if ticks else "right")
        if test == end:
            continue
        if train == test:
            raise ConfigError(
                f"the training of {plan.train} before "
                f"{show_instant(window.test_ns)} has no {moment}\nhelp: take a longer train"
            )
        found.append(window)
    return found


def _after(moment: dt.datetime, length: Length, times: int) -> dt.datetime:
    """`times` lengths later by the calendar, or earlier; a day that a month lacks is its last."""
    count = length.count * times
    if length.unit in ("d", "w"):
        return moment + dt.timedelta(days=count * (7 if length.unit == "w" else 1))
    months = moment.year * 12 + moment.month - 1 + count * (12 if length.unit == "y" else 1)
    year, month = divmod(min(months, LAST_MONTH), 12)
    day = min(moment.day, calendar.monthrange(year, month + 1)[1])
    return moment.replace(year=year, month=month + 1, day=day)


def _ns(moment: dt.datetime) -> int:
    since = moment - EPOCH
    return since.days * DAY_US * US
