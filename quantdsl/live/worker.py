"""The worker of a strategy's asynchronous signals: the events of its engine in, answers out.

    sequencer --> journal, ring of the engine
        ^   \\-> queue --> worker's thread: the same equations, on a core or a device --.
        '---------------------- SIGNAL events ----------------------------'

An answer becomes an event in the one order of all that reaches the engine, so it is in the journal
like any other input and the engine's loop looks at nothing more than its ring. The engine never
waits for an answer; one that is late is of no use, and the core counts it as stale.
"""

import queue
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quantdsl.backtest import settings, values
from quantdsl.backtest.prepare import Prepared, day_rule
from quantdsl.backtest.program import Memory
from quantdsl.check.worker import ANSWER_WORDS
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import load
from quantdsl.codegen.target import native
from quantdsl.errors import DeviceError
from quantdsl.events.layout import Kind
from quantdsl.events.merge import keep
from quantdsl.journal.reader import segments
from quantdsl.live.placement import settle
from quantdsl.live.sequencer import Answer
from quantdsl.live.signal_device import DeviceSignals, open_runner

Events = npt.NDArray[np.void]
Int64s = npt.NDArray[np.int64]
WAITING_MAX = 1 << 20
"""Events that wait for a worker at most: one that is further behind is given up."""
JOIN_S = 5.0
TOOK_MAX = 1_024


class Taken(NamedTuple):
    """Events that wait, the device in whose memory they lie, if they do, and when they came."""

    events: Events
    lent_by: DeviceSignals | None
    sent_ns: int


class Worker:
    """Computes the signals of one strategy; `take` may be called by one thread at a time."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared, checked = prepared, prepared.checked
        module = checked.worker_module(prepared.uses)
        self.program = load(module, native(), Cache())
        self.memory = Memory(module)
        settings.write(
            self.memory, prepared.resolved.config, prepared.data, day_rule(prepared.data)
        )
        values.write(self.memory, checked.strategy.params, prepared.chosen)
        self.program.call("init", self.memory.words)
        self.signals = len(checked.strategy.signals.all)
        self.device: DeviceSignals | None = None
        """What computes in place of a core; its events go on from the worker's state."""
        self.failure = ""
        """Why there are no answers any more."""
        self.notices: deque[str] = deque()
        """What happened to its device, for people."""
        self.took_ns: deque[int] = deque(maxlen=TOOK_MAX)
        """Of the newest answers, from their events to their values."""
        self.waiting = 0
        """Events that it has not computed yet."""
        self._wanted = np.ones(256, bool)
        self._wanted[[Kind.SIGNAL, Kind.COMMAND]] = False
        self._wanted[Kind.TIMER] = bool(checked.strategy.built)  # they close bars
        self._queue: queue.SimpleQueue[Taken | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def where(self) -> str:
        """The device that computes."""
        return "cpu" if self.device is None else self.device.runner.name

    def took_median_ns(self) -> float:
        """From events to their values, of the newest answers; 0 before the first."""
        took = list(self.took_ns)
        return statistics.median(took) if took else 0.0

    def catch_up(self, folder: Path, digest: bytes) -> None:
        """Bring it to where a journal ends; what was asked for until then is not answered."""
        for segment in segments(folder, digest=digest):
            self.compute(segment.inputs())

    def move(self, choice: str) -> None:
        """Go on, from where it is, on the device of `--device`; a device that refuses is one
        notice, and a core goes on. Raises ConfigError and UnavailableError as open_runner."""
        words, prepared = self.memory.words, self.prepared
        checked, told = prepared.checked, self.notices.append
        try:
            opened = open_runner(choice, checked, prepared.uses, len(words), told)
            if opened is not None:
                panel = [signal.panel for signal in checked.strategy.signals.all]
                self.device = DeviceSignals(*opened, panel, words)
        except DeviceError as failure:
            told(f"{failure}\na core computes the signals")

    def compute(self, events: Events) -> Iterable[Answer]:
        """The answers to these whole instants, in order of time."""
        if self.device is not None and self.device.takes(events):
            chosen = events
        else:
            chosen = keep(events, self._wanted[events["kind"]])
        if self.device is None:
            return self._on_core(chosen)
        try:
            return self.device.compute(chosen)
        except DeviceError as failure:
            self._lose(failure)
            return self._on_core(chosen)

    def _on_core(self, chosen: Events) -> Iterable[Answer]:
        """Parted when somebody asks: of a journal that is caught up with nobody does."""
        if not len(chosen):
            return ()
        answers = np.empty((len(chosen) * self.signals, ANSWER_WORDS), np.int64)
        words = np.ascontiguousarray(chosen).view(np.int64).reshape(-1)
        count = int(
            self.program.call("work", self.memory.words, words, len(chosen), answers.reshape(-1))
        )
        return _parted(answers[:count])

    def _lose(self, failure: DeviceError) -> None:
        """Go on without the device, from the last copy of its state and the events since."""
        assert self.device is not None
        since, self.device = self.device.since, None
        for events in since:
            self._on_core(events)
        self.notices.append(f"{failure}\nfrom now on a core computes the signals")

    def take(self, events: Events) -> None:
        """Whole instants that the engine gets now; never waits."""
        with self._lock:
            if self.failure:
                return
            if self.waiting > WAITING_MAX:
                self.failure = f"the worker of signals is {self.waiting:,} events behind"
                return
            self.waiting += len(events)
        device = self.device
        kept = device.arena.copy(events) if device is not None else None
        ours = events.copy() if kept is None else kept
        self._queue.put(Taken(ours, None if kept is None else device, time.monotonic_ns()))

    def start(self, answer: Callable[[Answer], None], core: int | None = None) -> None:
        """Compute on a thread of its own, on that core where there is one to spare, until `stop`;
        `answer` takes each answer."""
        self._thread = threading.Thread(
            target=self._run, args=(answer, core), name="quantdsl-signals", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End behind what was taken so far, or after a few seconds."""
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join(JOIN_S)
            if self.device is not None and not self._thread.is_alive():
                self._close(self.device)

    def _close(self, device: DeviceSignals) -> None:
        try:
            device.runner.close()
        except DeviceError as failure:
            self.notices.append(str(failure))

    def _run(self, answer: Callable[[Answer], None], core: int | None) -> None:
        if core is not None:
            settle(core)
        while (taken := self._queue.get()) is not None:
            events, lent_by, sent_ns = taken
            try:
                found = self.compute(events)
                took_ns = time.monotonic_ns() - sent_ns
                self.took_ns.append(took_ns)
                for said in found:
                    answer(said._replace(took_ns=took_ns))
                if lent_by is not None:
                    lent_by.arena.free()
                if self.device is not None and self._queue.empty():
                    self._rest(self.device)
            except Exception as failure:
                self.failure = f"{type(failure).__name__}: {failure}"
                return
            with self._lock:
                self.waiting -= len(events)

    def _rest(self, device: DeviceSignals) -> None:
        try:
            device.rest()
        except DeviceError as failure:
            self._lose(failure)


def _parted(found: Int64s) -> Iterator[Answer]:
    """Rows of answers, those of one signal to one request together."""
    number, of_ts = found[:, 0], found[:, 1]
    begins = np.flatnonzero((number[1:] != number[:-1]) | (of_ts[1:] != of_ts[:-1])) + 1
    for part in np.split(found, begins) if len(found) else ():
        yield Answer(int(part[0, 0]), int(part[0, 1]), part[:, 3], part[:, 2])
