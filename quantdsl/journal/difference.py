"""Why a session's orders and fills are not those of a backtest on recorded data: one cause each.

The program, the settings and the assumptions about the venue are the same, so two runs part only
where what they were told parts. An order is the same where it is sent on the same event, a fill
where it happens between the same two, however much later the one of the runs had them. Of what is
left each has the first of these causes that holds:

    risk         one run refused what the other sent, or a command had stopped one of them
    as before    it is a fill of an order that differs, and has its cause
    queue        the same order met the market at the same place, and another queue
    missed data  it is as in the session once the recording lacks what the session missed
    price        so once it has the prices and sizes that the session was told of
    latency      so once it has them, and answers to signals, when the session had them
    as before    nothing new: it follows from the difference before it, and has its cause

The strategy is run again on each of those streams (journal/steps.py), so that a cause is what made
the difference and not what lies near it.
"""

import itertools
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from quantdsl.events.layout import Command, Kind
from quantdsl.journal.matching import Matched, Places, Rows, had, matched, of_market
from quantdsl.journal.steps import steps
from quantdsl.journal.told import RUNS, Answered, Answers, Cause, Said, Told, answers_in

SAME_NS_MAX = 60_000_000_000
"""An order of one run may be the one of the other that is this far from it."""


Moment = tuple[int, bool]
"""When something happened, and whether it was on the answer to an asynchronous signal."""
Place = tuple[Moment, int, bool]
"""A moment, an instrument, and whether to sell."""
What = tuple[int, Moment, tuple[int, ...]]
"""Kind, moment and words of a record."""


class Ran(NamedTuple):
    """What one of the two runs was told and what it did."""

    events: Rows
    records: Rows


class Assumed(NamedTuple):
    """What holds in both runs."""

    entry_ns: int = 0
    """From sending an order to its arrival at the venue."""
    reasons: Mapping[int, str] = {}
    """Codes of reasons in words."""
    symbols: Sequence[str] = ()
    """Of the instruments."""


Again = Callable[[Rows], Ran]


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
    shared: int
    """Events of the market that both were told."""


def compare(session: Ran, recorded: Ran, again: Again, assumed: Assumed | None = None) -> Compared:
    """Every order and fill of the time that both runs saw, each as the same or as different.

    Both tell the time by one clock. `again` runs the strategy on a stream of events with the
    settings of `recorded`, and with answers to its asynchronous signals as they assume them where
    the stream has none; it is called where the runs differ.
    """
    events = [ran.events[of_market(ran.events)] for ran in (session, recorded)]
    found = matched(*events)
    first, last = _shared(*events)
    answers = (answers_in(session.events), answers_in(recorded.events))
    moments = _Moments(events[0][found.both[:, 0]], events[1][found.both[:, 1]], answers)
    alike: dict[int, list[int]] = defaultdict(list)
    pairs: list[tuple[Kind, np.void | None, np.void | None]] = []
    same = {Kind.ORDER: 0, Kind.FILL: 0}
    for kind in same:
        one, two = (_during(ran.records, kind, first, last) for ran in (session, recorded))
        equal, rest = _paired(one, two, moments)
        same[kind] = len(equal)
        for record in equal:
            alike[int(record["instrument"])].append(int(record["ts_event"]))
        pairs += [(kind, *pair) for pair in rest]
    if not pairs:
        return Compared(same, [], len(found.both))
    for times in alike.values():
        times.sort()
    turned = _Turned(session, recorded, found, moments, again)
    assumed = assumed or Assumed()
    told = Told(events[0], events[1], found, assumed.symbols)
    judge = _Judge((session, recorded), told, turned, moments, alike, assumed)
    differences = [judge.difference(*pair) for pair in sorted(pairs, key=_moment)]
    return Compared(same, differences, len(found.both))


class _Moments:
    """When records happened, in words that are the same in both runs."""

    def __init__(self, one: Rows, two: Rows, answers: Sequence[Answers]) -> None:
        """The events that both were told, and the answers that each had."""
        self.answers = answers
        self.ticks = bool(len(one)) and not (one["kind"] == Kind.BAR).any()
        """Bars fill whatever reaches a price; only ticks have queues and latencies."""
        self.heard = Places(had(one), had(two))
        """By when a run had them: what is decided."""
        self.venue = Places(one["ts_event"], two["ts_event"])
        """By when they happened: what befalls an order at the venue."""

    def of(self, run: int, record: np.void, answers: Answers | None = None) -> Moment:
        """On ticks the event that it follows, on bars the time; of an order on the answer to a
        signal that of the question. `answers` are those of a stream that is not a run's own."""
        if self.ticks and record["kind"] == Kind.FILL:
            return self.venue.of(run, int(record["ts_recv"])), False
        ts = int(record["ts_event"])
        asked = (self.answers[run] if answers is None else answers).get(ts)
        if record["kind"] == Kind.FILL or asked is None:
            return (self.heard.of(run, ts) if self.ticks else ts), False
        return (self.heard.of(run, asked) if self.ticks else asked), True

    def place(self, run: int, record: np.void) -> Place:
        """The moment and the side of an instrument."""
        return self.of(run, record), int(record["instrument"]), int(record["b"]) < 0

    def what(self, run: int, record: np.void, answers: Answers | None = None) -> What:
        """An order or a fill, with when it happened."""
        names = ("instrument", "b", "c", "d") if record["kind"] == Kind.ORDER else _FILLED
        when = self.of(run, record, answers)
        return int(record["kind"]), when, tuple(int(record[name]) for name in names)


_FILLED = ("instrument", "b", "c")


class _Turned:
    """By which step from the recording to the session each order and fill became what it is."""

    def __init__(
        self, session: Ran, recorded: Ran, found: Matched, moments: _Moments, again: Again
    ) -> None:
        self.moments = moments
        self.runs: list[tuple[Cause, Counter[What]]] = []
        for cause, events in steps(session.events, recorded.events, found):
            ran = again(events)
            chosen = ran.records[np.isin(ran.records["kind"], (Kind.ORDER, Kind.FILL))]
            base = int(cause != "latency")  # whose clock its times are by
            had = answers_in(ran.events)
            self.runs.append((cause, Counter(moments.what(base, one, had) for one in chosen)))

    def cause(self, session: np.void | None, recorded: np.void | None) -> Cause | None:
        """The first step by which it is no longer as on the recording; None where none is."""
        here = None if session is None else self.moments.what(0, session)
        there = None if recorded is None else self.moments.what(1, recorded)
        for cause, records in self.runs:
            if (there is not None and not records[there]) or (here is not None and records[here]):
                return cause
        return None


def _shared(one: Rows, two: Rows) -> tuple[int, int]:
    """The times from and to which both streams tell of the market."""
    spans = []
    for events in (one, two):
        ts = had(events[of_market(events) & (events["kind"] != Kind.FEED)])
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
    one: Rows, two: Rows, moments: _Moments
) -> tuple[list[np.void], list[tuple[np.void | None, np.void | None]]]:
    """Records that both have, and those that differ: beside what they are in the other run."""
    waiting: dict[What, list[np.void]] = defaultdict(list)
    for record in two:
        waiting[moments.what(1, record)].append(record)
    equal, rest = [], []
    for record in one:
        found = waiting[moments.what(0, record)]
        if found:
            found.pop(0)
            equal.append(record)
        else:
            rest.append(record)
    others = _Others(r for found in waiting.values() for r in found)
    pairs: list[tuple[np.void | None, np.void | None]] = [(r, others.nearest(r)) for r in rest]
    return equal, [*pairs, *((None, other) for other in others.left())]


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
        self,
        runs: tuple[Ran, Ran],
        told: Told,
        turned: _Turned,
        moments: _Moments,
        alike: Mapping[int, list[int]],
        assumed: Assumed,
    ) -> None:
        self.runs, self.told, self.turned, self.moments = runs, told, turned, moments
        self.alike, self.assumed = alike, assumed
        orders = [_of_kind(ran, Kind.ORDER)[::-1] for ran in runs]
        self.sent: list[dict[int, list[int]]] = [defaultdict(list), defaultdict(list)]
        """When each order was sent, and sent anew with other terms, newest first, by its id."""
        self.places: list[dict[tuple[int, int], Place]] = [{}, {}]
        """Where each of them was sent, by its id and when."""
        for run, own in enumerate(orders):
            for one in own:
                self.sent[run][int(one["a"])].append(_ts(one))
                self.places[run][int(one["a"]), _ts(one)] = moments.place(run, one)
        self.sent_at = [
            {moments.place(run, one): _ts(one) for one in own} for run, own in enumerate(orders)
        ]
        """When the first order of a moment on a side of an instrument was sent."""
        self.refused = [
            {moments.place(run, one): int(one["flags"]) for one in _of_kind(ran, Kind.REJECT)}
            for run, ran in enumerate(runs)
        ]
        """Why an order of a moment on a side of an instrument was refused."""
        self.commands = [ran.events[ran.events["kind"] == Kind.COMMAND] for ran in runs]
        seen = _shared(*(ran.events for ran in runs))
        self.answered = Answered(moments.answers[0], moments.answers[1], *seen)
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
        cause = self.turned.cause(session, recorded)
        said = self._said(cause, int(some["ts_event"]), int(some["instrument"]))
        if kind == Kind.FILL and self.moments.ticks and self._queued(both, cause, said):
            why = "the order was the same and came at the same place: another queue lay before it"
            return "queue", f"{why}, since {said.words}" if said is not None else why
        if cause is not None and said is not None:
            return cause, said.words
        if self.before is not None:
            return self.before.cause, _after(self.before)
        return cause or "missed data", "what came before the time that both saw"

    def _queued(
        self, both: tuple[np.void | None, np.void | None], cause: Cause | None, said: Said | None
    ) -> bool:
        """Whether the order of a fill came at the same place, and all that was told otherwise lay
        there already when it was sent."""
        sent = [self._sent(run, one) for run, one in enumerate(both) if one is not None]
        if cause in ("missed data", "price"):
            return said is not None and all(ts is not None and said.ts <= ts for ts in sent)
        return not self._arrived(both)

    def _arrived(self, both: tuple[np.void | None, np.void | None]) -> bool:
        """Whether the order of a fill came to the venue at another place of the market.

        Of a run without the fill it is the order that was sent on the same event.
        """
        places = []
        for run, one in enumerate(both):
            ts = self._sent(run, one)
            if ts is None:
                ts = self._counterpart(run, both[1 - run])
            if ts is None:
                return False
            places.append(self.moments.venue.of(run, ts + self.assumed.entry_ns))
        return places[0] != places[1]

    def _sent(self, run: int, fill: np.void | None) -> int | None:
        """When a run sent the order of a fill with the terms that it had then."""
        if fill is None:
            return None
        times = self.sent[run].get(int(fill["a"]), [])
        return next((ts for ts in times if ts <= _ts(fill)), None)

    def _counterpart(self, run: int, fill: np.void | None) -> int | None:
        """When run `run` sent the order that the other run sent to have this fill."""
        sent = self._sent(1 - run, fill)
        if sent is None:
            return None
        assert fill is not None
        return self.sent_at[run].get(self.places[1 - run][int(fill["a"]), sent])

    def _refused(self, kind: Kind, both: tuple[np.void | None, np.void | None]) -> str:
        """Why one run did not send or keep what the other did; empty where it was not refused."""
        for run, one in enumerate(both):
            if one is None or both[1 - run] is not None:
                continue
            if kind == Kind.ORDER and (why := self._reject(1 - run, self.moments.place(run, one))):
                return f"the {RUNS[1 - run]} refused it: {why}"
            if _halted(self.commands[1 - run], int(one["ts_event"])):
                return f"a command had halted the {RUNS[1 - run]}"
        return ""

    def _reject(self, run: int, place: Place) -> str:
        """Why a run refused such an order at this moment; empty where it refused none."""
        reason = self.refused[run].get(place)
        return "" if reason is None else self.assumed.reasons.get(reason, f"reason {reason}")

    def _said(self, cause: Cause | None, ts: int, instrument: int) -> Said | None:
        """What was told otherwise for this cause: since both last did the same, or before."""
        if cause is None:
            return None
        same = self.alike.get(instrument, [])
        at = bisect_left(same, ts)
        since = same[at - 1] if at else 0
        if self.before is not None:
            since = max(since, self.before.ts)
        own = self.told.said(cause, instrument, since, ts)
        if own is not None and own.fresh and not own.weight:
            return own
        others = (self.told.said(cause, one, since, ts) for one in self.told.instruments)
        answer = self.answered.said(since, ts) if cause == "latency" else None
        known = [one for one in (*others, answer) if one is not None]
        return max(known, key=lambda one: _telling(one, own=one == own), default=None)


OWN_WEIGHT = 10
"""What an instrument itself was told otherwise is named unless another's was so many times later:
every tick of two listeners is some microseconds apart."""


def _telling(said: Said, *, own: bool) -> tuple[bool, int, bool, int]:
    """What explains more is greater."""
    return said.fresh, said.weight * (OWN_WEIGHT if own else 1), own, said.ts


def _of_kind(ran: Ran, kind: Kind) -> Rows:
    found: Rows = ran.records[ran.records["kind"] == kind]
    return found


def _after(earlier: Difference) -> str:
    """The words of a difference that follows from an earlier one."""
    return earlier.why if earlier.why.startswith(FOLLOWS) else f"{FOLLOWS}{earlier.why}"


FOLLOWS = "it follows from this: "


def _halted(commands: Rows, ts: int) -> bool:
    """Whether a person or the session had stopped the strategy by then."""
    halted = False
    for side in commands["side"][commands["ts_event"] <= ts].tolist():
        halted = side != Command.ARM and (halted or side in (Command.KILL, Command.REDUCE))
    return halted
