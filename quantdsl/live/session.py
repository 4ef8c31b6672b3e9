"""The process of a session: feeds in, engines and journals at work, snapshots out.

    python -m quantdsl.live.session FOLDER [DEVICE]

Standard input: commands, standard output: snapshots.

Starting and recovering are one path: the manifest says what runs, the journal how far it came. A
process that is killed leaves nothing to tidy up; the next one goes on where the journal ends.
"""

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.data.times import Interval
from quantdsl.errors import EXIT_USER_ERROR, FeedError, JournalError, QuantDSLError
from quantdsl.events.layout import EVENT, Command, Feed, KilledBy, Kind
from quantdsl.live import view
from quantdsl.live.channel import BEAT, Beating, Receiver, Sender
from quantdsl.live.clockwork import BarClock
from quantdsl.live.feed import LiveFeed, now_ns, open_feed
from quantdsl.live.machine import read_machine, usable
from quantdsl.live.manifest import read, same_build
from quantdsl.live.measured import Measured
from quantdsl.live.past import bars_between, open_past
from quantdsl.live.placement import FEED, GPU, JOURNAL, Wish, keep_to, plan
from quantdsl.live.running import ORPHAN_S, hold
from quantdsl.live.sequencer import Answer, Sequencer
from quantdsl.live.showing import Showing
from quantdsl.live.strategy import LiveStrategy
from quantdsl.live.venues import Venues

Events = npt.NDArray[np.void]
HALT = "halt"
"""A file of this name in its folder halts a session, and while it is there nobody arms it again."""
TICK_S = 0.005
"""Between two looks at the clock: what a timer may be late."""
DRAIN_S = 0.000_5
SNAPSHOT_S = 0.1
MEASURE_S = 1.0
"""Between two rows of the file of latencies."""
SWITCH_S = 0.000_1
"""A feed that has something to say waits no longer for the thread that makes a snapshot."""
EXIT_FAILED = 1
"""Of a process whose session a fault has ended; what was committed can be gone on with."""
CANCELS_S = 1.0
GAP_S = 1.0
"""Bars that are missing in a stream are asked for, no more often than this."""


class Session:
    """All of it. `run` returns when a command, a signal or the loss of the supervisor ends it."""

    def __init__(self, folder: Path, commands: int, snapshots: int, device: str = "") -> None:
        """`device` computes signals, in place of the one of the config."""
        self.folder = folder
        self.manifest = read(folder)
        same_build(self.manifest)
        self._lock = hold(folder)
        self.feeds: list[LiveFeed] = [open_feed(spec) for spec in self.manifest.feeds]
        self.venues = Venues(folder, self.manifest, self.feeds)
        self.measured: Measured | None = Measured(folder)
        self.strategies = [
            LiveStrategy(folder, self.manifest, part, device) for part in self.manifest.strategies
        ]
        if all(one.fault for one in self.strategies):
            raise JournalError("\n".join(one.refusal for one in self.strategies))
        self.config = self.strategies[0].config
        self.sequencer = Sequencer(
            [one.lane for one in self.strategies], waits=self.manifest.simulated
        )
        self.receiver, self.sender = Receiver(commands), Sender(snapshots)
        self.showing = Showing(self)
        self.stopping = threading.Event()
        self.ended = threading.Event()
        self.why = self.failure = ""
        """Why it ends, and which of its own faults has ended it."""
        self._halted = False
        """By its file."""
        self._asked: dict[tuple[str, int], float] = {}
        self._told: dict[str, int] = {}
        """Quotes left out, as far as the log tells."""

    @property
    def resumed(self) -> bool:
        """Whether it goes on where an earlier process ended."""
        return any(one.resumed for one in self.strategies)

    def now_ns(self) -> int:
        """The session's time: the machine's, or that of its recorded or invented market."""
        if self.manifest.simulated:
            return min(int(feed.now_ns()) for feed in self.feeds)  # type: ignore[attr-defined]
        return now_ns()

    # ---- the life of a session ----

    def run(self) -> None:
        """Start, warm up, go on until the end."""
        self._listen_to_signals()
        self._seek()
        self.showing.log("info", "session", self._greeting())
        cores = self._cores()
        threads = [self._thread(self._drain, "drain"), self._thread(self._receive, "commands")]
        self.sequencer.hold()
        for one, (core, beside) in zip(self.strategies, cores, strict=True):
            one.start(core, self._answering(one), beside)
            if one.fault:
                self._tell_fault(one)
        if self.resumed:
            self._resume()
        try:
            self._reach()
            if not self.stopping.is_set():
                threads += [self._thread(self._feed, feed.name, feed) for feed in self.feeds]
                self._begin(threads)
        finally:
            self._end(threads)

    def _reach(self) -> None:
        """Wait for venues that are away; all see meanwhile that their feeds are down."""

        def meanwhile() -> None:
            self._heed_file()
            self.sender.send(self.showing.snapshot())

        if self.venues.away:
            self.venues.wait(self.stopping, meanwhile)

    def _begin(self, threads: list[threading.Thread]) -> None:
        """Catch up, and then go on until the end."""
        # Who has seen a snapshot expects another soon, and histories take what they take.
        with Beating(self.sender, SNAPSHOT_S) if self.showing.seen else nullcontext():
            self._warm_up()
        self.showing.started = True
        threads.append(self._thread(self._advance, "timer"))
        self._show()

    def _greeting(self) -> str:
        names = ", ".join(one.name for one in self.strategies)
        if not self.resumed:
            return f"a new session of {names}"
        events = sum(one.recovered.inputs for one in self.strategies)
        return f"{names} goes on after {events:,} events; what was committed is all there"

    def _answering(self, one: LiveStrategy) -> Callable[[Answer], None]:
        """What takes the answers of a strategy's worker."""

        def answer(said: Answer) -> None:
            self.sequencer.answer(one.lane, said, self.now_ns())

        return answer

    def _cores(self) -> list[tuple[int, int | None]]:
        """A core for each engine, and one for the helper of its device; all other threads, which
        start after this, keep off them. Where there are too few engines share, and helpers have
        none of their own."""
        machine, live = read_machine(), self.config.live
        said = [one.prepared.checked.strategy.cpu for one in self.strategies]
        wished = [live.cpu if live.cpu >= 0 else core for core in said]
        if len(wished) > len(machine.cores):
            known = sorted(usable())
            self.showing.log("warning", "session", "engines share cores: there are too few")
            return [(known[k % len(known)], None) for k in range(len(wished))]
        wishes = [Wish(one.name, core) for one, core in zip(self.strategies, wished, strict=True)]
        found = plan(machine, wishes, (FEED, JOURNAL, GPU))
        cores: list[tuple[int, int | None]] = []
        for one in self.strategies:
            worker, helper = one.worker, None
            if worker is not None and worker.device is not None:
                helper = found.core(GPU) if found.alone(GPU) else None
                where = f" beside core {helper}" if helper is not None else ""
                text = f"its signals are computed by {worker.where}{where}"
                self.showing.log("info", one.name, text)
            cores.append((found.core(one.name), helper))
        if refused := keep_to(found.beside - {helper for _, helper in cores}):
            self.showing.log("warning", "session", refused)
        return cores

    def _seek(self) -> None:
        """A market of its own time goes on where the journal ends."""
        if self.manifest.simulated and self.resumed:
            last = min(one.lane.last_ts for one in self.strategies if not one.fault)
            for feed in self.feeds:
                feed.seek(last)  # type: ignore[attr-defined]

    def _resume(self) -> None:
        """What worked when the engine was lost is cancelled, and until all is caught up nothing
        goes out; the books of a live feed are no longer what they were."""
        for one in self.strategies:
            if one.resumed and (told := one.ledger.standing(kept=self.manifest.simulated)):
                self.showing.log("warning", one.name, told)
        if self.manifest.simulated:
            return  # its market has stood still meanwhile
        lanes = [one.lane for one in self.strategies if one.resumed]
        self.sequencer.command(lanes, Command.KILL, KilledBy.SESSION, self.now_ns())
        for one in self.strategies:
            if one.resumed and one.on_ticks:
                reset = np.zeros(len(one.part.places), EVENT)
                reset["ts_event"] = reset["ts_recv"] = one.lane.last_ts
                reset["instrument"] = np.arange(len(reset))
                reset["kind"], reset["side"] = Kind.FEED, Feed.RESET
                one.lane.send(reset)

    def _warm_up(self) -> None:
        """Bars from before the first live one, then what feeds have sent meanwhile."""
        now = self.now_ns()
        for one in self.strategies:
            if isinstance(one.lane.clock, BarClock) and not one.fault:
                for own in range(len(one.part.places)):
                    past = self._past(one, own)
                    one.lane.clock.add(own, past)
                    since = int(past["ts_event"][-1]) if len(past) else one.since
                    one.lane.clock.add(own, self._history(one, own, since))
            one.lane.advance(now)
        self._heed_file()
        self.sequencer.release()
        while self.sequencer.behind and not self.stopping.is_set():
            time.sleep(DRAIN_S)
        for one in self.strategies:
            held = one.word("e.watch.killed") & KilledBy.SESSION
            if held or (one.resumed and not self.manifest.simulated):
                self.sequencer.command([one.lane], Command.ARM, KilledBy.SESSION, self.now_ns())

    def _past(self, one: LiveStrategy, own: int) -> Events:
        """Bars of a strategy's instrument from the file that its feed was given for them."""
        traded = self.manifest.instruments[one.part.places[own]]
        spec, bars = self.manifest.feeds[traded.feed], Interval.parse(one.part.finer[own])
        data = open_past(spec, traded.symbol, one.prepared.data.instruments[own], bars)
        if data is None:
            return np.empty(0, EVENT)
        found = bars_between(data, one.since, self.now_ns())
        found["instrument"] = own
        text = f"{len(found):,} bars of {traded.symbol} from {spec.history}"
        self.showing.log("info", traded.symbol, text)
        return found

    def _history(self, one: LiveStrategy, own: int, since_ns: int) -> Events:
        """Bars of a strategy's instrument, as the feed has them."""
        clock = one.lane.clock
        assert isinstance(clock, BarClock)
        traded = self.manifest.instruments[one.part.places[own]]
        try:
            found = self.feeds[traded.feed].history(traded.symbol, clock.finer[own], since_ns)
        except FeedError as refused:
            self.showing.log("error", traded.symbol, f"no history: {refused}")
            return np.empty(0, EVENT)
        found = found.copy()
        found["instrument"] = own
        return found

    def _end(self, threads: Sequence[threading.Thread]) -> None:
        """Cancel, flatten if so configured, let everything end in order."""
        with Beating(self.sender, SNAPSHOT_S):
            self._let_end(threads)
        self.showing.state = "stopped"
        self.showing.reason = self.why
        self.showing.log("info", "session", f"ended: {self.why}" if self.why else "ended")
        self.sender.send(self.showing.snapshot())

    def _let_end(self, threads: Sequence[threading.Thread]) -> None:
        if self.showing.started:
            self._wind_down()
        self.stopping.set()
        for thread in threads:
            if thread.name.startswith("feed "):
                thread.join(2.0)
        self.ended.set()
        for thread in threads:
            if thread is not threading.current_thread() and thread.name != "commands":
                thread.join(2.0)
        for one in self.strategies:
            one.stop()
        self._measure()
        if self.measured is not None:
            self.measured.close()

    def _wind_down(self) -> None:
        if self.manifest.simulated:  # its market waits for the engines, in the end too
            self.sequencer.finish(self.now_ns())
        lanes, paper = [one.lane for one in self.strategies if not one.look()], self.config.paper
        if paper.flatten_at_stop:
            self.sequencer.command(lanes, Command.FLATTEN, 0, self.now_ns())
            self._wait(
                lambda one: all(held.lots == 0 for held in one.ledger.holdings), paper.stop_s
            )
        self.sequencer.command(lanes, Command.KILL, KilledBy.SESSION, self.now_ns())
        self._wait(lambda one: one.word("e.working") == 0, min(paper.stop_s, CANCELS_S))

    def _wait(self, done: Callable[[LiveStrategy], bool], seconds: float) -> None:
        """Until it is so of every strategy, or time is over."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if all(one.fault or done(one) for one in self.strategies):
                return
            self.sender.send(self.showing.snapshot())
            time.sleep(SNAPSHOT_S / 2)

    # ---- threads ----

    def _thread(self, body: Callable[..., None], name: str, *args: object) -> threading.Thread:
        """A thread whose failure ends the session, with the reason."""

        def guarded() -> None:
            try:
                body(*args)
            except Exception as failure:
                self.showing.log("error", name, f"{type(failure).__name__}: {failure}")
                self._fail(f"{name}: {type(failure).__name__}: {failure}")

        said = f"feed {name}" if args else name
        thread = threading.Thread(target=guarded, name=said, daemon=True)
        thread.start()
        return thread

    def _feed(self, feed: LiveFeed) -> None:
        feed.run(self.sequencer, self.stopping)
        if not self.stopping.is_set() and self.manifest.simulated:
            self._stop(feed.health.reason or "the data have ended")

    def _advance(self) -> None:
        """Sessions, timers, bars that were waited for."""
        while not self.ended.wait(TICK_S):
            self.sequencer.advance(self.now_ns())

    def _drain(self) -> None:
        """Records from the engines to the journals."""
        looked = time.monotonic()
        while not self.ended.is_set():
            found = [self._drained(one) for one in self.strategies]
            if self.sequencer.behind or time.monotonic() - looked > TICK_S:
                looked = time.monotonic()
                self.sequencer.relieve()
            if not any(found):
                time.sleep(DRAIN_S)

    def _drained(self, one: LiveStrategy) -> int:
        try:
            return one.drain()
        except Exception as failure:
            one.lane.failed = one.lane.failed or f"{type(failure).__name__}: {failure}"
            return 0

    def _receive(self) -> None:
        """Commands of the supervisor; its silence halts the session."""
        while not self.ended.is_set():
            for frame in self.receiver.receive(SNAPSHOT_S):
                if frame != BEAT:
                    self._obey(msgspec.msgpack.decode(frame, type=view.Command))
            if self.receiver.ended or self.receiver.silent_s > ORPHAN_S:
                self.sender.give_up()  # one that stands still does not read either
                self._stop("its supervisor is gone")
                return

    def _obey(self, command: view.Command) -> None:
        chosen = [one for one in self.strategies if command.strategy in ("", one.name)]
        by = command.by or "somebody"
        text = f"{command.kind} asked for by {by}"
        self.showing.log("warning", command.strategy or "session", text, command.id)
        if command.kind == "stop":
            self._stop(f"stopped by {by}")
            return
        if command.kind == "rearm" and (file := self.folder / HALT).exists():
            self.showing.log("error", "session", f"nothing is armed: {file} is there", command.id)
            return
        side, bits = _COMMANDS[command.kind]
        self.sequencer.command([one.lane for one in chosen], side, bits, self.now_ns())

    def _heed_file(self) -> None:
        """Halt when the file that says so has come."""
        there = (self.folder / HALT).exists()
        if there and not self._halted:
            self._obey(view.Command("halt", by=f"the file {HALT}"))
        self._halted = there

    def _stop(self, why: str) -> None:
        self.why = self.why or why
        self.stopping.set()

    def _fail(self, why: str) -> None:
        self.failure = self.failure or why
        self._stop(why)

    def _listen_to_signals(self) -> None:
        def ask(number: int, _: object) -> None:
            self._stop(f"signal {signal.Signals(number).name}")

        signal.signal(signal.SIGTERM, ask)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor hears it and says so

    def _show(self) -> None:
        """Snapshots, ten a second, and what else is due now and then."""
        kept = measured = time.monotonic()
        while not self.stopping.wait(SNAPSHOT_S):
            self._heed_file()
            self.sender.send(self.showing.snapshot())
            if time.monotonic() - measured > MEASURE_S:
                measured = time.monotonic()
                self._measure()
            if time.monotonic() - kept > self.config.paper.checkpoint_s:
                kept = time.monotonic()
                with self.sequencer.lock:
                    for one in self.strategies:
                        one.note_checkpoint()
            for one in self.strategies:
                self._care_for(one)
            self._fill_gaps()
            if all(one.fault for one in self.strategies):
                self._fail("; ".join(f"{one.name}: {one.fault}" for one in self.strategies))

    def _measure(self) -> None:
        """A row of latencies; where it cannot be written the session goes on without."""
        if self.measured is None:
            return
        try:
            self.measured.add(self.feeds, self.manifest.feeds)
        except OSError as failure:
            self.measured = None
            text = f"latencies are measured no more: {failure}"
            self.showing.log("warning", "session", text)

    def _care_for(self, one: LiveStrategy) -> None:
        """What is due of one strategy; a fault halts it alone."""
        try:
            one.keep_checkpoint()
        except OSError as failure:  # the journal by itself is enough to go on from
            self.showing.log("warning", one.name, f"no checkpoint was written: {failure}")
        for notice in one.notices():
            self.showing.log("warning", one.name, notice)
        if lost := one.lost_worker():
            self.showing.log("error", one.name, f"its signals stay stale: {lost}")
        if not one.fault and one.look():
            self._tell_fault(one)
        if (left_out := one.lane.backlog.conflated) > 2 * self._told.get(one.name, 0):
            self._told[one.name] = left_out
            text = f"its engine is behind: {left_out:,} quotes left out for newer ones so far"
            self.showing.log("warning", one.name, text)

    def _tell_fault(self, one: LiveStrategy) -> None:
        self.showing.log("error", one.name, f"it is halted, others go on: {one.fault}")

    def _fill_gaps(self) -> None:
        """Bars that a feed missed are asked for again."""
        for one in self.strategies:
            clock = one.lane.clock
            if one.fault or self.manifest.simulated or not isinstance(clock, BarClock):
                continue
            for own, asked in enumerate(clock.missing(self.now_ns())):
                key = (one.name, own)
                if asked and time.monotonic() - self._asked.get(key, 0.0) > GAP_S:
                    self._asked[key] = time.monotonic()
                    events = self._history(one, own, clock.reached[own])
                    with self.sequencer.lock:
                        clock.add(own, events)


_COMMANDS = {
    "halt": (Command.KILL, KilledBy.PERSON),
    "reduce": (Command.REDUCE, 0),
    "cancel_all": (Command.CANCEL, 0),
    "flatten": (Command.FLATTEN, 0),
    "rearm": (Command.ARM, KilledBy.PERSON | KilledBy.LIMIT),
}


def steady() -> None:
    """Let no thread of this process keep its feeds waiting for long.

    What is there by now stays to the end; collecting garbage would look through all of it, a
    twentieth of a second, and have Python's lock meanwhile.
    """
    sys.setswitchinterval(SWITCH_S)
    gc.collect()
    gc.freeze()


def main(argv: Sequence[str]) -> int:
    """Run the session in a folder; what is wrong is said on standard error."""
    snapshots = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing but frames goes up the pipe
    try:
        session = Session(Path(argv[0]), sys.stdin.fileno(), snapshots, *argv[1:])
        steady()
        session.run()
    except (QuantDSLError, JournalError) as wrong:
        sys.stderr.write(f"error: {wrong}\n")
        return EXIT_USER_ERROR
    if session.failure:
        sys.stderr.write(f"error: {session.failure}\n")
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
