"""The worker of a strategy's asynchronous signals: the events of its engine in, answers out.

    sequencer --> journal, ring of the engine
        ^   \\-> queue --> worker's thread: the same equations, compiled --.
        '---------------------- SIGNAL events ----------------------------'

An answer becomes an event in the one order of all that reaches the engine, so it is in the journal
like any other input and the engine's loop looks at nothing more than its ring. The engine never
waits for an answer; one that is late is of no use, and the core counts it as stale.
"""

import itertools
import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from quantdsl.backtest import settings, values
from quantdsl.backtest.prepare import Prepared, day_rule
from quantdsl.backtest.program import Memory
from quantdsl.check.worker import ANSWER_WORDS
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import load
from quantdsl.codegen.target import native
from quantdsl.data.tick_feed import keep
from quantdsl.events.layout import Kind
from quantdsl.journal.reader import segments
from quantdsl.live.sequencer import Answer

Events = npt.NDArray[np.void]
Int64s = npt.NDArray[np.int64]
WAITING_MAX = 1 << 20
"""Events that wait for a worker at most: one that is further behind is given up."""
JOIN_S = 5.0


class Worker:
    """Computes the signals of one strategy; `take` may be called by one thread at a time."""

    def __init__(self, prepared: Prepared) -> None:
        checked = prepared.checked
        module = checked.worker_module(prepared.uses)
        self.program = load(module, native(), Cache())
        self.memory = Memory(module)
        settings.write(
            self.memory, prepared.resolved.config, prepared.data, day_rule(prepared.data)
        )
        values.write(self.memory, checked.strategy.params, prepared.chosen)
        self.program.call("init", self.memory.words)
        self.signals = len(checked.strategy.signals.all)
        self.failure = ""
        """Why there are no answers any more."""
        self.waiting = 0
        """Events that it has not computed yet."""
        self._wanted = np.ones(256, bool)
        self._wanted[[Kind.SIGNAL, Kind.TIMER, Kind.COMMAND]] = False
        self._wanted[Kind.TIMER] = bool(checked.strategy.built)  # they close bars
        self._queue: queue.SimpleQueue[tuple[Events, int] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def catch_up(self, folder: Path, digest: bytes) -> None:
        """Bring it to where a journal ends; what was asked for until then is not answered."""
        for segment in segments(folder, digest=digest):
            self.compute(segment.inputs())

    def compute(self, events: Events) -> Int64s:
        """The answers to these whole instants, i64[n, ANSWER_WORDS], in order of time."""
        chosen = keep(events, self._wanted[events["kind"]])
        answers = np.empty((len(chosen) * self.signals, ANSWER_WORDS), np.int64)
        if not len(chosen):
            return answers
        words = np.ascontiguousarray(chosen).view(np.int64).reshape(-1)
        count = int(
            self.program.call("work", self.memory.words, words, len(chosen), answers.reshape(-1))
        )
        return answers[:count]

    def take(self, events: Events) -> None:
        """Whole instants that the engine gets now; never waits."""
        with self._lock:
            if self.failure:
                return
            if self.waiting > WAITING_MAX:
                self.failure = f"the worker of signals is {self.waiting:,} events behind"
                return
            self.waiting += len(events)
        self._queue.put((events.copy(), time.monotonic_ns()))

    def start(self, answer: Callable[[Sequence[Answer]], None]) -> None:
        """Compute on a thread of its own, until `stop`."""
        self._thread = threading.Thread(
            target=self._run, args=(answer,), name="quantdsl-signals", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End behind what was taken so far, or after a few seconds."""
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join(JOIN_S)

    def _run(self, answer: Callable[[Sequence[Answer]], None]) -> None:
        while (taken := self._queue.get()) is not None:
            events, sent_ns = taken
            try:
                found = self.compute(events)
                took_ns = time.monotonic_ns() - sent_ns
                for _, of_one in itertools.groupby(found.tolist(), key=lambda row: row[:2]):
                    answer([
                        Answer(number, instrument, of_ts, bits, took_ns)
                        for number, of_ts, bits, instrument in of_one
                    ])  # fmt: skip
            except Exception as failure:
                self.failure = f"{type(failure).__name__}: {failure}"
                return
            with self._lock:
                self.waiting -= len(events)
