"""What two runs were told otherwise: events that one had not, had later, or with other prices."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from quantdsl.events.layout import Feed, Kind
from quantdsl.journal.matching import Int64s, Matched, Rows, had

Cause = Literal["latency", "queue", "missed data", "price", "risk"]
RUNS = ("session", "recording")
NEVER = 1 << 62
"""When what did not come came, ns."""


class _Otherwise(NamedTuple):
    """Events of one cause and one instrument, in the order in which a run first had them."""

    first: Int64s
    """When the run that had each first had it, ns."""
    upto: Int64s
    """When both had all of them up to here, ns."""
    last: Int64s
    """When the run that had each last had it, ns."""
    weight: Int64s
    """Of several, the newest of those that weigh most is told of."""
    run: Int64s
    """Of which run `place` is."""
    place: Int64s


class Said(NamedTuple):
    """What was told otherwise."""

    ts: int
    """When the run that had it first had it, ns."""
    words: str
    fresh: bool
    """Whether a run had it after the time that was asked for."""
    weight: int
    """How far apart the runs had it, ns; 0 of what is not of times."""


class Told:
    """All events that are not the same in both runs; `said` tells of one of them."""

    def __init__(
        self, session: Rows, recorded: Rows, found: Matched, symbols: Sequence[str] = ()
    ) -> None:
        """`session` and `recorded` are the streams that were matched, by one clock; `symbols` of
        their instruments are named where there are several."""
        self._of = [f" {one}" for one in symbols] if len(symbols) > 1 else []
        self._runs, self._had = (session, recorded), (had(session), had(recorded))
        self._begins = [int(times.min()) if len(times) else 0 for times in self._had]
        self._lists: dict[tuple[Cause, int], _Otherwise] = {}
        one, two = session[found.both[:, 0]], recorded[found.both[:, 1]]
        ticks = one["kind"] != Kind.BAR
        self._late = np.where(ticks, one["ts_recv"] - two["ts_recv"], 0)
        self._moved = np.where(ticks, one["ts_event"] - two["ts_event"], 0)
        self._both = found.both[:, 0]
        weight = np.maximum(np.abs(self._late), np.abs(self._moved))
        other = np.flatnonzero(weight)
        self._add("latency", 0, self._both[other], self._spans(found.both[other]), weight[other])
        even = np.zeros(len(found.changed), np.int64)
        self._add("price", 0, found.changed[:, 0], self._spans(found.changed), even)
        # That all is well again is no news by itself.
        alone = [
            places[(own["kind"] != Kind.FEED)[places] | (own["side"] != Feed.GOOD)[places]]
            for own, places in zip(self._runs, found.alone, strict=True)
        ]
        runs = np.repeat([0, 1], [len(places) for places in alone])
        spans = np.concatenate([np.column_stack([self._had[k][alone[k]]] * 2) for k in (0, 1)])
        self._add("missed data", runs, np.concatenate(alone), spans, np.zeros_like(runs))

    def _spans(self, pairs: Int64s) -> Int64s:
        """When the first and the last of the runs had each of these events: i64[n, 2]."""
        times = [self._had[k][pairs[:, k]] for k in (0, 1)]
        return np.sort(np.column_stack(times), axis=1)

    def _add(
        self, cause: Cause, run: Int64s | int, place: Int64s, spans: Int64s, weight: Int64s
    ) -> None:
        run = np.broadcast_to(run, place.shape)
        instrument = np.empty(len(place), np.int64)
        for k in (0, 1):
            own = run == k
            instrument[own] = self._runs[k]["instrument"][place[own]]
        for one in np.unique(instrument).tolist():
            own = np.flatnonzero(instrument == one)
            own = own[np.argsort(spans[own, 0], kind="stable")]
            first, last = spans[own, 0], spans[own, 1]
            upto = np.maximum.accumulate(last)
            self._lists[cause, one] = _Otherwise(
                first, upto, last, weight[own], run[own], place[own]
            )

    @property
    def instruments(self) -> list[int]:
        """Those of which something was told otherwise."""
        return sorted({instrument for _, instrument in self._lists})

    def said(self, cause: Cause, instrument: int, since: int, until: int) -> "Said | None":
        """What an instrument's events were told otherwise by `until` for this cause: of those after
        `since` what weighs most, else the newest before; None where nothing was."""
        found = self._lists.get((cause, instrument))
        if found is None:
            return None
        begin = int(np.searchsorted(found.upto, since, "right"))
        end = int(np.searchsorted(found.first, until, "right"))
        own = begin + np.flatnonzero(found.last[begin:end] > since)
        if len(own):
            chosen = int(own[found.weight[own] == found.weight[own].max()][-1])
        elif end:
            chosen = end - 1
        else:
            return None
        words = self._words(cause, int(found.run[chosen]), int(found.place[chosen]))
        weight = int(found.weight[chosen])
        return Said(int(found.first[chosen]), words, bool(len(own)), weight)

    def _words(self, cause: Cause, run: int, place: int) -> str:
        event = self._runs[run][place]
        own = self._of[event["instrument"]] if self._of else ""
        if event["kind"] == Kind.FEED:
            state = Feed(event["side"]).name.lower()
            other = RUNS[1 - run]
            whose = f"the {RUNS[run]}'s feed{own and f' of{own}'}"
            return f"{whose} said {state} at {_when(event)}, and not the {other}'s"
        kind = Kind(event["kind"]).name.lower().replace("_", " ")
        what = f"a {kind} of{own} {_when(event)}"
        if cause == "price":
            return f"{what} has other prices or sizes"
        if cause == "missed data":
            late = self._had[run][place] < self._begins[1 - run]
            return f"{what} is not in the {RUNS[1 - run]}{', which begins later' if late else ''}"
        at = int(np.searchsorted(self._both, place))
        late_ns, moved_ns = int(self._late[at]), int(self._moved[at])
        if late_ns:
            return f"{what} was received {_apart(late_ns)} in the session"
        return f"{what} happened {_apart(moved_ns)} by the session's clock"


Answers = Mapping[int, int]
"""When a run had the answer to an asynchronous signal -> when it had asked for it, ns."""


def answers_in(events: Rows) -> Answers:
    """The answers that a stream holds."""
    own = events[events["kind"] == Kind.SIGNAL]
    return dict(zip(own["ts_event"].tolist(), own["payload"][:, 1].tolist(), strict=True))


class Answered:
    """The answers to asynchronous signals that came at other times; `said` tells of one of them."""

    def __init__(self, session: Answers, recorded: Answers, first: int, last: int) -> None:
        """What was asked for from `first` to `last` counts, the time that both runs saw."""
        came: list[dict[int, int]] = [{}, {}]
        for own, answers in zip(came, (session, recorded), strict=True):
            for ts, asked in answers.items():
                if first <= asked <= last:
                    own.setdefault(asked, ts)
        self._asked = np.array(sorted(came[0].keys() | came[1].keys()), np.int64)
        rows = [[own.get(asked, NEVER) for own in came] for asked in self._asked.tolist()]
        times = np.array(rows, np.int64).reshape(-1, 2)
        other = np.flatnonzero(times[:, 0] != times[:, 1])
        self._asked, self._times = self._asked[other], times[other]

    def said(self, since: int, until: int) -> Said | None:
        """As of `Told`; `since` what both were last the same."""
        first, last = self._times.min(axis=1), self._times.max(axis=1)
        known = np.flatnonzero(first <= until)
        if not len(known):
            return None
        own = known[last[known] > since]
        late = self._times[:, 0] - self._times[:, 1]
        if len(own):
            weight = np.abs(late[own])
            known = own[weight == weight.max()]
        chosen = int(known[-1])
        apart, run = int(late[chosen]), int(late[chosen] < 0)
        how = f"came {_apart(apart)} in the session"
        if last[chosen] == NEVER:
            how = f"did not come in the {RUNS[run]}"
        words = f"the answer to what was asked for at {_instant(self._asked[chosen])} {how}"
        return Said(int(first[chosen]), words, bool(len(own)), abs(apart))


def _when(event: np.void) -> str:
    return _instant(event["ts_event"])


def _instant(ns: np.int64) -> str:
    return str(np.datetime64(int(ns), "ns"))


def _apart(ns: int) -> str:
    return f"{abs(ns):,} ns {'later' if ns > 0 else 'earlier'}"
