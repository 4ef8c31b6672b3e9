"""One strategy of a running session: its engine between two rings, its journal, what it shows."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quantdsl.backtest.prepare import Prepared
from quantdsl.check.ticks import SOURCES
from quantdsl.config import Config
from quantdsl.data.tick_feed import KINDS
from quantdsl.data.times import DAY_NS, Interval
from quantdsl.data.universe import Told
from quantdsl.errors import JournalError, QuantDSLError
from quantdsl.events.layout import RECORD, KilledBy, Kind
from quantdsl.events.ring import Ring
from quantdsl.ir.ops import ArrayType
from quantdsl.journal.reader import Segment, segments
from quantdsl.journal.recovery import Recovered, checkpoint, recover
from quantdsl.journal.writer import Committed, Journal, Policy
from quantdsl.live.clockwork import BEFORE_ALL, BarClock, TickClock
from quantdsl.live.ledger import Ledger
from quantdsl.live.loop import EventLoop, Pace, open_loop
from quantdsl.live.manifest import Manifest, StrategyPart, prepared
from quantdsl.live.sequencer import STOOD_S_MAX, STOOD_WAITED_FOR_S_MAX, Answer, Lane
from quantdsl.live.straight import attend, enter, fits
from quantdsl.live.worker import Worker

INBOUND, OUTBOUND = 1 << 12, 1 << 14
"""Records of the rings: an event that has to wait for a whole ring waits milliseconds."""
FIRST_NS, PER_OCTAVE, BUCKETS = 1_000, 3, 64
"""Spans are counted in buckets from a microsecond on, three to a doubling."""
QUIET_S = 0.05
"""A checkpoint that finds no quiet moment in so long is left to the next time; feeds wait for it.
"""
FREE = 0
"""The stage of a place in the core's table that holds no order."""

Records = npt.NDArray[np.void]
Words = npt.NDArray[np.int64]


class Pending(NamedTuple):
    """Records that were written and are not yet on disk."""

    upto: int
    """How many records the journal holds with them."""
    records: Records


class Spans:
    """How long it took from an event in the ring to its records in the journal's hands."""

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.longest_ns = 0

    def add(self, took_ns: int) -> None:
        """One more; the newest event stands for those that came with it."""
        bucket = min(max(0, round(math.log2(max(took_ns, 1) / FIRST_NS) * PER_OCTAVE)), BUCKETS - 1)
        self.counts[bucket] += 1
        self.longest_ns = max(self.longest_ns, took_ns)


class Unusable:
    """In place of a journal that cannot be gone on with: takes nothing."""

    committed = taken = Committed(0, 0)

    def __init__(self, failed: str) -> None:
        self.failed = failed

    def inputs(self, events: Records) -> None:
        """None is written."""

    def outputs(self, records: Records) -> None:
        """None is written."""

    def close(self) -> None:
        """Nothing was opened."""


NEW = Recovered(0, 0, 0, 0, False, False, np.empty(0, RECORD))
"""A strategy that has no journal yet."""


class LiveStrategy:
    """Prepares, recovers, runs and shows one strategy.

    Other threads than its engine's read its state a word at a time, for people's eyes alone.
    """

    def __init__(
        self, folder: Path, manifest: Manifest, part: StrategyPart, device: str = ""
    ) -> None:
        """`device` computes its signals, in place of the one of its config."""
        self.folder, self.digest, self.part = folder / part.name, manifest.digest, part
        self.simulated = manifest.simulated
        self.prepared: Prepared = prepared(folder, part.name)
        self.config: Config = part.settings.config
        self.memory = self.prepared.run.memory
        self.memory.set("curve_on", False)
        journal = self.config.journal
        policy = Policy(
            journal.fsync, journal.group_ms, journal.interval_ms, journal.segment_mb << 20
        )
        self.fault = ""
        """Why it is halted for good."""
        self.refusal = ""
        """What is wrong with its journal, with the way out."""
        self.recovered = NEW
        self.journal: Journal | Unusable
        try:
            if self.folder.joinpath("lock").exists():
                self.recovered = recover(
                    self.prepared.run, self.folder, manifest_digest=self.digest
                )
            self.journal = Journal.open(
                self.folder, manifest_digest=self.digest, policy=policy, threaded=False
            )
        except (JournalError, OSError) as damaged:
            self._give_up(folder, str(damaged))
        self.ledger = self._ledger()
        self.handed = self.journal.taken.outputs
        """Records that the journal holds, or was to hold: it takes none once it has failed."""
        self.pending: deque[Pending] = deque()
        self.spans = Spans()
        if len(self.recovered.fresh):
            self.journal.outputs(self.recovered.fresh)
            self._wait_for(self.recovered.fresh)
        self.outbound = Ring.create(None, OUTBOUND)
        self.inbound = Ring.create(None, INBOUND)
        self.lane = self._lane(manifest)
        self.lane.failed = self.fault
        self.loop: EventLoop = open_loop(
            self.prepared, inbound=self.inbound, outbound=self.outbound
        )
        self.drained = self.outbound.consumer()
        self._draining = threading.Lock()
        for one in (fits, enter, attend):
            one.ready()
        self.worker = self._worker(device or self.config.signals.device)
        self._words = self.memory.words.copy()
        """Of its state, for the next checkpoint."""
        self._checkpoint: tuple[int, int] | None = None
        """Events and records behind it, while it waits for the disk."""

    def _give_up(self, folder: Path, why: str) -> None:
        """It stays halted, as it was before its first event, and its journal as it is."""
        self.refusal, self.fault = why, "; ".join(why.splitlines())
        self.journal, self.recovered = Unusable(self.fault), NEW
        self.prepared = prepared(folder, self.part.name)
        self.memory = self.prepared.run.memory
        self.memory.set("curve_on", False)

    @property
    def name(self) -> str:
        """Its name in the session."""
        return self.part.name

    @property
    def resumed(self) -> bool:
        """Whether it goes on where an earlier process ended."""
        return self.recovered.inputs > 0

    @property
    def on_ticks(self) -> bool:
        """Whether it listens to ticks; else to bars."""
        return bool(self.prepared.checked.strategy.ticks)

    @property
    def since(self) -> int:
        """From where on bars are needed: to warm up, or to complete those that were being built."""
        if not self.resumed:
            return self.part.begin
        now, data = self.word("e.now"), self.prepared.data
        if self.on_ticks:
            return now
        longest = max((clock.nominal_ns for clock in data.clocks), default=0)
        session = max(int(np.searchsorted(data.schedule.open_ns, now, "right")) - 1, 0)
        opened = int(data.schedule.open_ns[session])
        return min(opened, now) - (2 * longest if longest > DAY_NS else 0) - 1

    def had(self) -> Iterator[Segment]:
        """What its journal had when it was opened; nothing for a new one."""
        if self.resumed:
            yield from segments(self.folder, digest=self.digest)

    def word(self, path: str) -> int:
        """One whole number of its state."""
        return int(self.memory.words[self.memory.slot(path).offset_words])

    def start(self, core: int, answer: Callable[[Answer], None], beside: int | None = None) -> None:
        """Let its engine run on a core, and the worker of its signals, which gives them to
        `answer`, on another if there is one."""
        if self.fault:
            return
        assert isinstance(self.journal, Journal)
        self.journal.start()
        live = self.config.live
        if self.worker is not None:
            self.worker.start(answer, beside)
        self.loop.start(
            core, Pace(live.wait, live.polls), priority=live.priority, lock_memory=live.lock_memory
        )

    def drain(self) -> int:
        """Hand what the engine wrote to the journal; how many records it was.

        At the return all of it is handed over, by whichever thread: a checkpoint counts on it.
        """
        with self._draining:
            records = self.drained.pop(OUTBOUND)
            if len(records):
                found = records.view(RECORD)
                self.spans.add(time.monotonic_ns() - self.lane.sent_ns)
                self.journal.outputs(found)
                self._wait_for(found)
        return len(records)

    def _wait_for(self, records: Records) -> None:
        self.handed += len(records)
        self.pending.append(Pending(self.handed, records))

    def acknowledge(self) -> bool:
        """Show what is on disk by now; whether there was anything."""
        done, some = self.journal.committed.outputs, False
        while self.pending and self.pending[0].upto <= done:
            self.ledger.read(self.pending.popleft().records)
            some = True
        return some

    def known(self) -> dict[int, float]:
        """The orders that the engine has, by their numbers, with the lots that stand before each
        in its queue; infinite where there is none, or it is not known. Read while it writes."""
        ids, stages = self._column("e.orders", "id"), self._column("e.orders", "stage")
        if self.on_ticks:
            ahead = self._column("e.resting", "ahead").view(np.float64)
        else:
            ahead = np.full(len(ids), np.inf)
        there = stages != FREE
        return dict(zip(ids[there].tolist(), ahead[there].tolist(), strict=True))

    def _column(self, table: str, name: str) -> Words:
        """One field of all rows of a table of its state, as a copy."""
        slot, first = self.memory.slot(table), self.memory.slot(f"{table}[0].{name}")
        assert isinstance(slot.type, ArrayType)
        step, end = self.memory.layout.words(slot.type.elem), slot.offset_words + slot.words
        return self.memory.words[first.offset_words : end : step].copy()

    def look(self) -> str:
        """Why it cannot go on, empty if it can."""
        if not self.fault:
            self.fault = self.lane.failed or self.journal.failed or self.loop.failure
        return self.fault

    def _worker(self, device: str) -> Worker | None:
        """What computes its asynchronous signals, where it has any, as far as its journal is."""
        if not self.prepared.checked.strategy.signals:
            return None
        worker = Worker(self.prepared)
        if self.resumed:
            worker.catch_up(self.folder, self.digest)
        worker.move(device)
        self.lane.asked = worker.take
        return worker

    def notices(self) -> Iterator[str]:
        """What happened to the device of its signals since it was asked last."""
        while self.worker is not None and self.worker.notices:
            yield self.worker.notices.popleft()

    def lost_worker(self) -> str:
        """Why the worker of its signals ended, once; the strategy goes on without answers."""
        if self.worker is None or not self.worker.failure:
            return ""
        why, self.worker = self.worker.failure, None
        return why

    def stop(self) -> None:
        """End its engine behind its last event; what it wrote is on disk at the return."""
        if self.worker is not None:
            self.worker.stop()
        lane = self.lane
        while (lane.behind or self.inbound.waiting) and not (self.loop.failure or lane.hangs):
            lane.relieve()
            if not self.drain():
                time.sleep(0.000_2)
        try:
            self.loop.stop(self.drain)
        except (QuantDSLError, OSError) as failure:
            self.fault = self.fault or str(failure)
        while self.drain():
            pass
        self.journal.close()
        self.acknowledge()

    def note_checkpoint(self) -> None:
        """Copy the state at a quiet moment: the sequencer's lock is held, so nothing comes."""
        if self._checkpoint is not None or self.fault or self.lane.behind:
            return
        until = time.monotonic() + QUIET_S
        while self.inbound.waiting and time.monotonic() < until:
            time.sleep(0.000_2)
        if self.inbound.waiting:
            return
        self.drain()
        taken = self.journal.taken
        if taken.inputs == self.recovered.inputs + self.lane.count:
            self._words[:] = self.memory.words
            self._checkpoint = (taken.inputs, taken.outputs)

    def keep_checkpoint(self) -> None:
        """Write the copy once all that it counts is on disk."""
        if self._checkpoint is None:
            return
        inputs, outputs = self._checkpoint
        committed = self.journal.committed
        if committed.inputs >= inputs and committed.outputs >= outputs:
            self._checkpoint = None
            checkpoint(self.folder, self._words, inputs, outputs, manifest_digest=self.digest)

    @property
    def state(self) -> tuple[str, str]:
        """(active, reducing or halted, why); starting while the session alone holds it, which
        catches up, or ends."""
        killed = KilledBy(self.word("e.watch.killed"))
        if self.fault:
            left = self.lane.dropped
            return "halted", self.fault + (f"; {left:,} events since are left out" if left else "")
        if killed and not killed & ~KilledBy.SESSION:
            return "starting", _WHY[KilledBy.SESSION]
        if killed:
            return "halted", "; ".join(_WHY[bit] for bit in _WHY if bit in killed)
        if self.word("e.halted"):
            return "reducing", "only orders that reduce a position pass"
        return "active", ""

    def _ledger(self) -> Ledger:
        data = self.prepared.data
        ledger = Ledger(
            self.part.name, tuple(data.instruments), data.money_digits,
            self.prepared.checked.library.reasons(),
        )  # fmt: skip
        for segment in self.had():
            ledger.read(segment.outputs())
        ledger.said.clear()
        return ledger

    def _lane(self, manifest: Manifest) -> Lane:
        strategy = self.prepared.checked.strategy
        places = [-1] * len(manifest.instruments)
        for own, place in enumerate(self.part.places):
            places[place] = own
        clock, kinds = self._clock(), {Kind.BAR}
        if strategy.ticks:
            asked = [name for name, event in SOURCES.items() if event in strategy.ticks.sources]
            kinds = {Kind.FEED, *(kind for name in asked for kind in KINDS[name])}
        if "USES_CORPORATE" in self.prepared.uses:
            kinds.add(Kind.CORPORATE)
        lane = Lane(
            self.part.name, clock, places, frozenset(kinds), self.journal, self.inbound,
            conflates=not self.simulated,
            stood_s_max=STOOD_WAITED_FOR_S_MAX if self.simulated else STOOD_S_MAX,
        )  # fmt: skip
        if self.resumed:
            lane.last_ts = self.word("e.now")
            lane.had_upto = lane.last_ts if self.simulated else None
        if self.part.finer and not self.simulated:
            feed = manifest.feeds[manifest.instruments[self.part.places[0]].feed]
            lane.bar_side = feed.bars.index(self.part.finer[0])
        return lane

    def _clock(self) -> BarClock | TickClock:
        data = self.prepared.data
        floor = self.word("e.now") if self.resumed else BEFORE_ALL
        begin, changes = self.since, self.part.changes
        told = Told(changes, data.schedule) if changes else None
        if self.on_ticks:
            return TickClock(
                data.schedule, data.spec.timers, begin_ns=begin, floor=floor, told=told
            )
        return BarClock(
            data.schedule,
            data.spec.timers,
            data.clocks,
            [Interval.parse(text) for text in self.part.finer],
            wait_ns=0 if self.simulated else round(self.config.paper.bar_wait_s * 1e9),
            begin_ns=begin,
            floor=floor,
            sync_all=data.spec.sync_all,
            told=told,
        )


_WHY = {
    KilledBy.PERSON: "halted by a person",
    KilledBy.LIMIT: "a limit of the house was broken",
    KilledBy.SESSION: "the session holds it",
}
