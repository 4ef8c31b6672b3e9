"""Why a session's orders and fills are not those of a backtest on recorded data: one cause each.

The program, the settings and the assumptions about the venue are the same, so two runs part only
where what they were told parts. Both are walked along in time; at each order or fill that only one
run has, or that is another, these are asked in turn, and the first that holds is the cause:

    risk         one run refused or killed what the other sent, or a command stands before it
    missed data  since both last did the same, one was told of an event that the other was not
    price        since then, an event of both has other prices or sizes
    latency      since then, an event of both was received at another time
    latency      a fill of the same order at the same price came at another time
    queue        a fill of the same order is another, or there in one run only
    as before    nothing new: it follows from the difference before it, and has its cause
"""

import itertools
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from quantdsl.events.layout import Command, Kind

Cause = Literal["latency", "queue", "missed data", "price", "risk"]
Rows = npt.NDArray[np.void]
Int64s = npt.NDArray[np.int64]
MARKET = (Kind.BAR, Kind.QUOTE, Kind.TRADE, Kind.BOOK_DELTA, Kind.BOOK_SNAPSHOT)
SAME_NS_MAX = 60_000_000_000
"""An order of one run may be the one of the other that is this far from it."""
WORD_BYTES = 8


class Ran(NamedTuple):
    """What one of the two runs was told and what it did."""

    events: Rows
    records: Rows


class Told(NamedTuple):
    """A difference between what the runs were told."""

    ts: int
    """When one of them had it, ns."""
    instrument: int
    cause: Cause
    text: str


class Difference(Struct, frozen=True):
    """An order or a fill in which the runs differ; of the run that has none of it, None."""

    cause: Cause
    why: str
    kind: Kind
    session: np.void | None
    recorded: np.void | None

    @property
    def ts(self) -> int:
        """When it came, in the run in which it came first."""
        return min(int(one["ts_event"]) for one in (self.session, self.recorded) if one is not None)


class Compared(NamedTuple):
    """All orders and fills of two runs."""

    same: Mapping[Kind, int]
    differences: Sequence[Difference]


def compare(session: Ran, recorded: Ran) -> Compared:
    """Every order and fill of the time that both runs saw, each as the same or as different."""
    venue = _shared(session.events, recorded.events, _happened)
    told = sorted(differently_told(session.events, recorded.events, *venue))
    first, last = _shared(session.events, recorded.events, _had)
    alike: dict[int, list[int]] = defaultdict(list)
    pairs: list[tuple[Kind, np.void | None, np.void | None]] = []
    same = {Kind.ORDER: 0, Kind.FILL: 0}
    for kind in same:
        one, two = (_during(ran.records, kind, first, last) for ran in (session, recorded))
        equal, rest = _paired(kind, one, two)
        same[kind] = len(equal)
        for record in equal:
            alike[int(record["instrument"])].append(int(record["ts_event"]))
        pairs += [(kind, *pair) for pair in rest]
    judge = _Judge(session, recorded, told, {k: sorted(times) for k, times in alike.items()})
    return Compared(same, [judge.difference(*pair) for pair in sorted(pairs, key=_moment)])


def differently_told(one: Rows, two: Rows, first: int, last: int) -> Iterator[Told]:
    """Each event of the market, from `first` to `last`, that is not the same in both."""
    events = [_market(rows, first, last) for rows in (one, two)]
    keys = [_keys(rows) for rows in events]
    times = [
        dict(zip(k, e["ts_recv"].tolist(), strict=True)) for k, e in zip(keys, events, strict=True)
    ]
    left: list[dict[bytes, list[int]]] = [defaultdict(list), defaultdict(list)]
    for side in (0, 1):
        for at, key in enumerate(keys[side]):
            if key not in times[1 - side]:
                left[side][key[:HEAD_BYTES]].append(at)
    ticks = events[0]["kind"] != Kind.BAR
    for at in np.flatnonzero(ticks).tolist():
        here, there = int(events[0]["ts_recv"][at]), times[1].get(keys[0][at])
        if there is not None and here != there:
            yield _told(events[0][at], "latency", f"received {here - there:+,} ns later")
    for side, where in ((0, "recording"), (1, "session")):
        for head, places in left[side].items():
            other = left[1 - side].get(head, [])
            for k, at in enumerate(places):
                if k < len(other):
                    if side == 0:
                        yield _told(events[0][at], "price", "has other prices or sizes")
                    continue
                yield _told(events[side][at], "missed data", f"is not in the {where}")


HEAD_BYTES = 2 * WORD_BYTES
"""Of a key: the venue's time, then instrument, kind, side; the payload follows."""


def _keys(events: Rows) -> list[bytes]:
    """Each event without the time of its receipt and its flags."""
    words = np.ascontiguousarray(events).view(np.int64).reshape(len(events), -1).copy()
    words[:, 1] = words[:, 2] & 0xFFFF_FFFF_FFFF
    words = np.delete(words, 2, axis=1)
    data, size = words.tobytes(), words.shape[1] * WORD_BYTES
    return [data[at : at + size] for at in range(0, len(data), size)]


def _told(event: np.void, cause: Cause, text: str) -> Told:
    kind = Kind(event["kind"]).name.lower().replace("_", " ")
    when = np.datetime64(int(event["ts_event"]), "ns")
    return Told(
        int(event["ts_event"]), int(event["instrument"]), cause, f"a {kind} of {when} {text}"
    )


def _market(events: Rows, first: int, last: int) -> Rows:
    ts = events["ts_event"]
    return events[np.isin(events["kind"], MARKET) & (ts >= first) & (ts <= last)]


def _happened(events: Rows) -> Int64s:
    """When each event happened at the venue."""
    times: Int64s = events["ts_event"]
    return times


def _had(events: Rows) -> Int64s:
    """When a run had each: a bar at its close, a tick when it was received."""
    return np.where(events["kind"] == Kind.BAR, events["ts_event"], events["ts_recv"])


def _shared(one: Rows, two: Rows, times: Callable[[Rows], Int64s]) -> tuple[int, int]:
    """The times from and to which there are events of the market in both streams."""
    spans = []
    for events in (one, two):
        ts = times(events[np.isin(events["kind"], MARKET)])
        spans.append((int(ts.min()), int(ts.max())) if len(ts) else (0, -1))
    return max(span[0] for span in spans), min(span[1] for span in spans)


def _during(records: Rows, kind: Kind, first: int, last: int) -> Rows:
    ts = records["ts_event"]
    own: Rows = records[(records["kind"] == kind) & (ts >= first) & (ts <= last)]
    return own


def _moment(pair: tuple[Kind, np.void | None, np.void | None]) -> tuple[int, int]:
    kind, *both = pair
    return min(int(one["ts_event"]) for one in both if one is not None), kind


def _paired(
    kind: Kind, one: Rows, two: Rows
) -> tuple[list[np.void], list[tuple[np.void | None, np.void | None]]]:
    """Records that both have, and those that differ: beside what they are in the other run."""
    what = ("instrument", "b", "c", "d") if kind == Kind.ORDER else ("instrument", "b", "c")
    waiting: dict[tuple[int, ...], list[np.void]] = defaultdict(list)
    for record in two:
        waiting[_of(record, ("ts_event", *what))].append(record)
    equal, rest = [], []
    for record in one:
        found = waiting[_of(record, ("ts_event", *what))]
        if found:
            found.pop(0)
            equal.append(record)
        else:
            rest.append(record)
    others = _Others(r for found in waiting.values() for r in found)
    pairs: list[tuple[np.void | None, np.void | None]] = [(r, others.nearest(r)) for r in rest]
    return equal, [*pairs, *((None, other) for other in others.left())]


def _of(record: np.void, names: Sequence[str]) -> tuple[int, ...]:
    return tuple(int(record[name]) for name in names)


class _Others:
    """Records of the other run, of which each may be the same thing as one of this run."""

    def __init__(self, records: Iterable[np.void]) -> None:
        self.lists: dict[tuple[int, bool], list[np.void]] = defaultdict(list)
        for record in sorted(records, key=_ts):
            self.lists[self._side(record)].append(record)

    def nearest(self, record: np.void) -> np.void | None:
        """Taken out: the one of the same instrument and side that is nearest in time."""
        there, ts = self.lists[self._side(record)], _ts(record)
        at = bisect_left(there, ts, key=_ts)
        near = [k for k in (at - 1, at) if 0 <= k < len(there)]
        best = min(near, key=lambda k: abs(_ts(there[k]) - ts), default=None)
        if best is None or abs(_ts(there[best]) - ts) > SAME_NS_MAX:
            return None
        return there.pop(best)

    def left(self) -> Iterator[np.void]:
        """What nothing was found for."""
        return itertools.chain(*self.lists.values())

    @staticmethod
    def _side(record: np.void) -> tuple[int, bool]:
        return int(record["instrument"]), int(record["b"]) < 0


def _ts(record: np.void) -> int:
    return int(record["ts_event"])


class _Judge:
    """Finds the cause of one difference after the other, in the order of their times."""

    def __init__(
        self, session: Ran, recorded: Ran, told: Sequence[Told], alike: Mapping[int, list[int]]
    ) -> None:
        self.runs = (session, recorded)
        self.alike = alike
        self.told: dict[int, list[Told]] = defaultdict(list)
        for one in told:
            self.told[one.instrument].append(one)
        self.queues = not np.isin(session.events["kind"], (Kind.BAR,)).any()
        """Bars fill whatever reaches a price; only ticks have queues and latencies."""
        self.before: Difference | None = None
        self.parted: dict[tuple[int, int], Difference] = {}
        """(run, order id) of the orders that differ."""

    def difference(
        self, kind: Kind, session: np.void | None, recorded: np.void | None
    ) -> Difference:
        """The difference between the two, with its cause."""
        cause, why = self._cause(kind, session, recorded)
        made = Difference(cause, why, kind, session, recorded)
        if kind == Kind.ORDER:
            for run, one in enumerate((session, recorded)):
                if one is not None:
                    self.parted[run, int(one["a"])] = made
        self.before = made
        return made

    def _cause(
        self, kind: Kind, session: np.void | None, recorded: np.void | None
    ) -> tuple[Cause, str]:
        both = (session, recorded)
        some = session if session is not None else recorded
        assert some is not None
        if refused := self._refused(kind, both):
            return "risk", refused
        if kind == Kind.FILL:
            for run, one in enumerate(both):
                order = self.parted.get((run, int(one["a"]))) if one is not None else None
                if order is not None:
                    return order.cause, _after(order)
        if told := self._told(int(some["ts_event"]), int(some["instrument"])):
            return told.cause, told.text
        if kind == Kind.FILL and self.queues:
            if session is not None and recorded is not None and session["b"] == recorded["b"]:
                if session["c"] == recorded["c"]:
                    return "latency", "the same fill came at another time"
                return "price", "the same lots were filled at another price"
            return "queue", "the order was the same, and what was filled of it was not"
        if self.before is not None:
            return self.before.cause, _after(self.before)
        return "latency", "the runs were told the same and decided at different times"

    def _refused(self, kind: Kind, both: tuple[np.void | None, np.void | None]) -> str:
        """Why one run did not send or keep what the other did; empty where it was not refused."""
        for run, one in enumerate(both):
            other = both[1 - run]
            if one is None or other is not None:
                continue
            records, events = self.runs[1 - run].records, self.runs[1 - run].events
            name = ("session", "recording")[1 - run]
            near = records[
                (records["ts_event"] == one["ts_event"]) & (records["kind"] == Kind.REJECT)
            ]
            near = near[near["instrument"] == one["instrument"]]
            if kind == Kind.ORDER and len(near):
                return f"the {name} refused it for reason {int(near[0]['flags'])}"
            if _halted(events, int(one["ts_event"])):
                return f"a command had halted the {name}"
        return ""

    def _told(self, ts: int, instrument: int) -> Told | None:
        """What one run was told otherwise since both last did the same; the gravest of it."""
        same = self.alike.get(instrument, [])
        at = bisect_left(same, ts)
        since = same[at - 1] if at else 0
        if self.before is not None:
            since = max(since, self.before.ts)
        told = self.told[instrument]
        begin, end = (bisect_right(told, at, key=lambda one: one.ts) for at in (since, ts))
        found = told[begin:end]
        order: tuple[Cause, ...] = ("missed data", "price", "latency")
        for cause in order:
            for one in reversed(found):
                if one.cause == cause:
                    return one
        return None


def _after(earlier: Difference) -> str:
    """The words of a difference that follows from an earlier one."""
    return earlier.why if earlier.why.startswith(FOLLOWS) else f"{FOLLOWS}{earlier.why}"


FOLLOWS = "it follows from this: "


def _halted(events: Rows, ts: int) -> bool:
    """Whether a person or the session had stopped the strategy by then."""
    commands = events[(events["kind"] == Kind.COMMAND) & (events["ts_event"] <= ts)]
    halted = False
    for side in commands["side"].tolist():
        halted = side != Command.ARM and (halted or side in (Command.KILL, Command.REDUCE))
    return halted
