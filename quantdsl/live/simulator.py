"""A session in one thread from one seed: its feed, disk and process fail, its core does not.

The sequencer, the engine's compiled turn, the core with its risk gate, the journal and the recovery
are the real ones. The seed chooses what fails, and how often (some faults are switched off in each
run); nothing else is random and no clock is read, so that a seed gives the same run bit for bit.

    safety      messages are lost, repeated, late, crossed; commands come; the disk fails, tears and
                loses what was not flushed; the process is killed. After every step: positions are
                the sums of fills, every fill has an order, nothing is sent while the switch is
                off. After every kill: nothing committed is lost, and the state is that of a run
                which saw the same events and was never killed.
    liveness    the faults stop, the feed goes on: the engine consumes all of it and is not halted.
"""

import errno
import hashlib
import os
import random
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quantdsl.backtest.prepare import Prepared, prepare
from quantdsl.check import compile_file
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.jit import Program
from quantdsl.codegen.target import native
from quantdsl.codegen.turn import DRY, load_turn
from quantdsl.data.tick_data import TickData
from quantdsl.errors import InternalError, JournalError
from quantdsl.events.layout import EVENT, MORE, RECORD, Command, Feed, KilledBy, Kind
from quantdsl.events.ring import CONSUMER, PRODUCER, Ring
from quantdsl.journal.files import Files
from quantdsl.journal.recovery import checkpoint, recover
from quantdsl.journal.writer import Journal, Policy
from quantdsl.live.clockwork import BEFORE_ALL, TickClock
from quantdsl.live.loop import EventLoop, module_of
from quantdsl.live.manifest import LIVE_USES
from quantdsl.live.sequencer import Lane, Sequencer
from quantdsl.shipped import shipped

STRATEGY = "strategies/skewed_maker.qdsl"
LIMITS = {
    "limits.order_value": 1e6, "limits.position_value": 1e6, "limits.gross_value": 1e6,
    "limits.daily_loss": 1e5, "limits.drawdown": 1e5, "limits.price_collar": 0.2,
    "limits.orders_per_second": 50,
}  # fmt: skip
DIGEST = hashlib.sha256(b"simulated").digest()
POLICY = Policy(segment_bytes=60_000)
STEPS, CALM = 120, 20
"""Of a run: with faults, and without."""
MESSAGES = 6
"""At most, between two steps."""
LATE_NS = 50_000_000
COMMANDS = (Command.KILL, Command.ARM, Command.CANCEL, Command.FLATTEN)
FAULTS = ("lose", "repeat", "late", "cross", "command", "checkpoint", "kill", "error", "power")
OFTEN = 0.08

Events = npt.NDArray[np.void]


class Killed(BaseException):
    """The simulated process ends here."""


class Market(NamedTuple):
    """What all runs share: a strategy that is ready, and the messages of an invented market."""

    prepared: Prepared
    turn: Program
    begin: npt.NDArray[np.int64]
    messages: list[Events]
    """Each is one instant; the first is the whole book."""

    @classmethod
    def opened(cls) -> "Market":
        """Compiled, or found compiled."""
        checked = compile_file(shipped(STRATEGY))
        prepared = prepare(checked, live=LIVE_USES, more=LIMITS)
        run, data = prepared.run, prepared.data
        run.memory.set("curve_on", False)
        events = next(iter(data.chunks())).view(EVENT)
        events = events[events["kind"] != Kind.SESSION]
        ends = np.flatnonzero((events["flags"] & MORE) == 0) + 1
        turn = load_turn(module_of(prepared), native(), Cache())
        return cls(prepared, turn, run.memory.words.copy(), np.split(events, ends[:-1]))

    def fresh(self) -> Prepared:
        """The run before its first event."""
        run = self.prepared.run
        run.memory.words = self.begin.copy()
        run.records.clear()
        return self.prepared

    def settled(self) -> bytes:
        """The state, but for what depends on who drained it, and when."""
        memory = self.prepared.run.memory
        words = memory.words.copy()
        for path in ("e.outbox", "e.outbox_count", "rows"):
            slot = memory.slot(path)
            words[slot.offset_words : slot.offset_words + slot.words] = 0
        return words.tobytes()


class SimDisk(Files):
    """Real files that fail on demand; what was not flushed may be gone after a power cut."""

    def __init__(self, chance: "Chance") -> None:
        self.chance = chance
        self.open: dict[int, Path] = {}
        self.flushed: dict[Path, int] = {}
        self.dead = False

    def _step(self, descriptor: int = -1, data: bytes | memoryview = b"") -> None:
        if self.dead:
            raise Killed
        for fault in ("kill", "error"):
            if self.chance.now(fault, 0.3):
                if len(data):
                    os.write(descriptor, data[: self.chance.rng.randrange(len(data))])
                if fault == "kill":
                    self.dead = True
                    raise Killed
                code = self.chance.rng.choice((errno.EIO, errno.ENOSPC))
                raise OSError(code, os.strerror(code))

    def create(self, path: Path) -> int:
        self._step()
        descriptor = super().create(path)
        self.open[descriptor], self.flushed[path] = path, 0
        return descriptor

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        self._step(descriptor, data)
        return super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self._step()
        self.flushed[self.open[descriptor]] = os.fstat(descriptor).st_size

    def close(self, descriptor: int) -> None:
        self.open.pop(descriptor)
        super().close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)
        if source in self.flushed:
            self.flushed[target] = self.flushed.pop(source)

    def unlink(self, path: Path) -> None:
        self._step()
        super().unlink(path)
        self.flushed.pop(path, None)

    def sync_folder(self, folder: Path) -> None:  # noqa: ARG002 (names are kept as they come)
        self._step()

    def cut_power(self) -> None:
        """Of what was not flushed some is there, some is zeros and some is gone."""
        rng = self.chance.rng
        for path, flushed in self.flushed.items():
            size = path.stat().st_size
            if size > flushed:
                kept = rng.randint(flushed, size)
                holed = rng.randint(flushed, kept)
                with path.open("r+b") as file:
                    file.truncate(kept)
                    file.seek(holed)
                    file.write(bytes(rng.randint(0, kept - holed)))


class Chance:
    """The only source of what happens."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311 (it is to be repeated, not to be secret)
        self.calm = False
        self.often = {
            fault: self.rng.uniform(0, OFTEN) if self.rng.random() < 0.6 else 0.0
            for fault in FAULTS
        }  # a fault that is switched off lets the others come far

    def now(self, fault: str, share: float = 1.0) -> bool:
        """Whether it comes now."""
        return not self.calm and self.rng.random() < self.often[fault] * share


class Ran(NamedTuple):
    """What became of a seed."""

    digest: str
    """SHA-256 of everything that happened: the same for the same seed and program."""
    events: int
    records: int
    kills: int
    failures: int
    """Of the disk."""


class Simulation:
    """One seed in one folder, which is empty."""

    def __init__(self, market: Market, seed: int, folder: Path) -> None:
        self.market, self.seed, self.folder = market, seed, folder
        self.chance = Chance(seed)
        self.trace = hashlib.sha256()
        self.at = self.kills = self.failures = 0
        self.shift_ns = 0
        self.truth: list[Events] = []
        """What was handed to the journal, in its order."""
        self.acknowledged = (0, 0)
        self.book: dict[tuple[int, int], int] = {}
        """(side, ticks) -> lots, as they are in truth."""
        self.orders: set[int] = set()
        self.position = 0
        self.killed = False
        """Whether the kill switch was thrown, as far as the engine was told."""

    def run(self) -> Ran:
        """All of it; InternalError names the first promise that was not kept."""
        self._begin()
        for step in range(STEPS + CALM):
            self.chance.calm = step >= STEPS
            try:
                self._step()
            except Killed:
                self.kills += 1
                self._restart()
            if self.journal.failed is not None:
                self.failures += 1
                self._restart()
        self._hold_liveness()
        self.journal.abandon()
        self._recovered()
        records = self.market.prepared.run.records.count
        events = sum(map(len, self.truth))
        return Ran(self.trace.hexdigest(), events, records, self.kills, self.failures)

    # ---- the process ----

    def _begin(self) -> None:
        """Start or recover: one path. A process that is killed meanwhile starts again."""
        while True:
            self.disk = SimDisk(self.chance)
            fresh = self._recovered()
            try:
                self.journal = self._opened()
            except Killed:
                self.kills += 1
                continue
            break
        self.journal.outputs(fresh)
        run = self.market.prepared.run
        self.inbound, self.outbound = Ring.create(None, 1 << 12), Ring.create(None, 1 << 14)
        self.loop = EventLoop(run, self.market.turn, self.inbound, self.outbound)
        self.drained = self.outbound.consumer()
        self.lane = self._lane()
        self.sequencer = Sequencer([self.lane])
        self.inbound.take_role(CONSUMER)
        self.outbound.take_role(PRODUCER)

    def _opened(self) -> Journal:
        """A disk that refuses is tried again by the next process, as a supervisor would."""
        while True:
            try:
                return Journal.open(
                    self.folder, manifest_digest=DIGEST, policy=POLICY, files=self.disk,
                    threaded=False,
                )  # fmt: skip
            except JournalError as refused:
                if "cannot be written" not in str(refused):
                    raise
                self.failures += 1

    def _restart(self) -> None:
        """The process is gone, or ended because its journal had failed; the next one begins."""
        self.journal.abandon()
        if self.disk.dead and self.chance.often["power"] > OFTEN / 2:
            self.disk.cut_power()
        self._begin()
        self._send(_feed(Feed.RESET, self._now()))
        self._send(self._snapshot())

    def _recovered(self) -> Events:
        """The run as its journal has it, held to one that was never killed; what is to be added."""
        run = self.market.fresh().run
        if not (self.folder / "lock").exists():
            return np.empty(0, RECORD)
        back = recover(run, self.folder, manifest_digest=DIGEST)
        fresh, words, state = back.fresh.copy(), run.memory.words, self.market.settled()
        acknowledged = back.inputs >= self.acknowledged[0] and back.outputs >= self.acknowledged[1]
        self._promise(acknowledged, "something that was committed is lost")
        self.truth = [_joined(self.truth)[: back.inputs]]
        self.market.fresh()
        if back.inputs:
            run.feed(self.truth[0])
        self._promise(self.market.settled() == state, "the state is not that of the same events")
        run.memory.words = words
        records = run.all_records()
        self._promise(
            len(records) == back.outputs + len(fresh) and records[back.outputs :].tobytes()
            == fresh.tobytes(), "the records are not those of the same events",
        )  # fmt: skip
        self.orders, self.position = set(), 0
        self.killed = False
        self._check(records)
        self.killed = bool(self._word("e.watch.killed"))
        return fresh

    def _lane(self) -> Lane:
        """Where the recovered run goes on, or at the first message."""
        data = self.market.prepared.data
        assert isinstance(data, TickData)
        now = self._word("e.now") if self.truth and len(self.truth[0]) else None
        begin = now if now is not None else int(self.market.messages[0]["ts_recv"][0])
        floor = BEFORE_ALL if now is None else now
        clock = TickClock(data.schedule, data.spec.timers, begin_ns=begin, floor=floor)
        kinds = frozenset({Kind.TRADE, Kind.BOOK_DELTA, Kind.BOOK_SNAPSHOT, Kind.FEED, Kind.QUOTE})
        lane = Lane("simulated", clock, [0], kinds, self, self.inbound)
        if now is not None:
            lane.last_ts = now
        return lane

    @property
    def failed(self) -> str | None:
        """Why its journal can write no more."""
        return self.journal.failed

    def inputs(self, events: Events) -> None:
        """What the sequencer hands to the journal: kept, to be compared with."""
        self.truth.append(events.copy())
        self.trace.update(events.tobytes())
        self.journal.inputs(events)

    # ---- what happens ----

    def _step(self) -> None:
        """Some messages with what befalls them, perhaps a command; then a commit, or not yet."""
        chance = self.chance
        for _ in range(chance.rng.randint(1, MESSAGES)):
            message = self._next()
            if chance.now("lose"):
                self._send(_feed(Feed.GAP, self._now()))
                for _ in range(chance.rng.randint(0, 3)):
                    message = self._next()
                self._send(self._snapshot())
                continue
            if chance.now("late"):
                self.shift_ns = chance.rng.randrange(LATE_NS)
            message["ts_recv"] += self.shift_ns
            self._send(message)
            if chance.now("repeat"):
                self._send(message.copy())
            if chance.now("cross"):
                self._cross()
        if chance.now("command"):
            self._command(chance.rng.choice(COMMANDS))
        if chance.rng.random() < 0.5:
            self.journal.commit()
            self.acknowledged = max(self.acknowledged, self.journal.committed)
        if chance.now("checkpoint") and self.journal.failed is None:
            self._checkpoint()

    def _checkpoint(self) -> None:
        self.journal.sync()
        if self.journal.failed is None:
            self.acknowledged = self.journal.committed
            words = self.market.prepared.run.memory.words
            try:
                checkpoint(
                    self.folder, words, *self.journal.committed,
                    manifest_digest=DIGEST, files=self.disk,
                )  # fmt: skip
            except OSError:
                self.failures += 1

    def _next(self) -> Events:
        """The next message of the market; the book is kept up with it."""
        message = self.market.messages[self.at].copy()
        self.at += 1
        for event in message[message["kind"] == Kind.BOOK_DELTA]:
            level = int(event["side"]), int(event["payload"][0])
            self.book[level] = int(event["payload"][1])
        return message

    def _snapshot(self) -> Events:
        """The whole book as it is in truth."""
        levels = sorted((level, lots) for level, lots in self.book.items() if lots)
        made = np.zeros(1 + len(levels), EVENT)
        made["ts_event"] = made["ts_recv"] = self._now()
        made["kind"], made["flags"] = Kind.BOOK_DELTA, MORE
        made[0]["kind"], made[-1]["flags"] = Kind.BOOK_SNAPSHOT, 0
        for event, ((side, ticks), lots) in zip(made[1:], levels, strict=True):
            event["side"], event["payload"][:2] = side, (ticks, lots)
        return made

    def _cross(self) -> None:
        """A bid above every ask comes, and goes again."""
        best = min((ticks for (side, ticks), lots in self.book.items() if side and lots), default=0)
        for lots in (100, 0):
            made = np.zeros(1, EVENT)
            made["ts_event"] = made["ts_recv"] = self._now()
            made["kind"], made["payload"][0, :2] = Kind.BOOK_DELTA, (best + 3, lots)
            self._send(made)

    def _command(self, side: Command) -> None:
        switches, was = side in (Command.KILL, Command.ARM), self.killed
        bits = KilledBy.PERSON | KilledBy.LIMIT if switches else 0
        self.killed = was and side != Command.FLATTEN  # these orders the switch lets pass
        self.sequencer.command([self.lane], side, bits, self._now())
        self._turn()
        self.killed = side == Command.KILL if switches else was

    def _send(self, events: Events) -> None:
        self.sequencer.push(events)
        self._turn()

    def _turn(self) -> None:
        """Let the engine consume what there is; its records go to the journal."""
        while self.loop.turns(1) != DRY or self.inbound.waiting or self.lane.behind:
            self._drain()
            self.sequencer.relieve()
        self._drain()

    def _drain(self) -> None:
        records = self.drained.pop(1 << 14).view(RECORD)
        if len(records):
            self.trace.update(records.tobytes())
            self.market.prepared.run.records.append(records.view(np.int64))
            self.journal.outputs(records)
            self._check(records)

    def _now(self) -> int:
        """The time of the newest message, as it was received."""
        return int(self.market.messages[max(self.at - 1, 0)]["ts_recv"][-1]) + self.shift_ns

    # ---- what must hold ----

    def _check(self, records: Events) -> None:
        """After every step."""
        for record in records:
            if record["kind"] == Kind.ORDER:
                self._promise(not self.killed, "an order was sent while the switch was off")
                self.orders.add(int(record["a"]))
            elif record["kind"] == Kind.FILL:
                self._promise(int(record["a"]) in self.orders, "a fill has no order")
                self.position += int(record["b"])
                self._promise(self.position == int(record["e"]), "a position is not its fills")
        self._promise(self._word("e.outbox_lost") == 0, "a record was lost")

    def _hold_liveness(self) -> None:
        """The faults are over: all is consumed, on disk, and the strategy may trade."""
        self._command(Command.ARM)
        self._send(self._snapshot())
        self.journal.sync()
        self.acknowledged = self.journal.committed
        self._promise(self.journal.committed == self.journal.taken, "something is not on disk")
        self._promise(self.inbound.waiting == 0, "the engine does not consume its events")
        self._promise(self._word("e.now") == self.lane.last_ts, "the engine's time stands still")
        self._promise(not self._word("e.watch.killed"), "nobody may trade, and nobody knows why")

    def _word(self, path: str) -> int:
        memory = self.market.prepared.run.memory
        return int(memory.words[memory.slot(path).offset_words])

    def _promise(self, kept: bool, broken: str) -> None:
        if not kept:
            raise InternalError(
                f"QD9601 simulation: {broken}\nhelp: quantdsl sim --seed {self.seed} does it again"
            )


def _feed(state: Feed, ts: int) -> Events:
    made = np.zeros(1, EVENT)
    made["ts_event"] = made["ts_recv"] = ts
    made["kind"], made["side"] = Kind.FEED, state
    return made


def _joined(parts: list[Events]) -> Events:
    return np.concatenate([np.empty(0, EVENT), *parts])
