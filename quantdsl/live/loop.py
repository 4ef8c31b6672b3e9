"""The engine's thread: one compiled function on one core, between two rings.

The order of events of one time is fixed before they come here, by who merges the sources: a
session opens, then bars (coarse before fine, instruments in declared order), then timers, then
the session's close; ticks stay in the order in which they were received.
"""

import mmap
import re
import threading
import time
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.backtest.lane_code import settings
from quantdsl.backtest.prepare import Prepared
from quantdsl.backtest.program import Run
from quantdsl.check.step import CURVE_WORDS
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.jit import Program
from quantdsl.codegen.target import native
from quantdsl.codegen.turn import CONTROL_WORDS, FULL, STOP, STOPPED, load_turn
from quantdsl.errors import RingError
from quantdsl.events.layout import RECORD
from quantdsl.events.ring import Consumer, Records, Ring
from quantdsl.ir.ops import Module
from quantdsl.live.placement import settle

PAGE_BYTES = 4096
WORD_BYTES = 8
SPIN_POLLS = 1 << 24
"""Looks at the ring in one call where the engine never yields: tens of milliseconds."""
JOIN_S = 0.001
Take = Callable[[Records], None]
SETTLED = re.compile(
    r"e\.config\.\w+|e\.instruments\[\d+\]\.\w+|e\.venues\[\d+\]\.(queue_power|latency_feed)"
    r"|p\d+|money_scale"
)
"""What the host writes before the first event and never again."""
FULL_WAIT_S = 0.000_1
"""How long the engine leaves a slow reader of its orders before it looks again."""


OFFERS_MAX = 1 << 14
"""Of the core, between two beats of an idle engine's heart: some milliseconds."""
EMPTY_WAIT_S = 0.000_5
"""How long an engine that leaves its core is away."""


class Pace(NamedTuple):
    """How the engine waits for events."""

    wait: Literal["spin", "yield", "sleep"] = "yield"
    """After `polls` empty looks: keep the core, offer it to others, or leave it for a while."""
    polls: int = 1000


YIELDS = Pace()


class EventLoop:
    """Runs a strategy on what comes through a ring; live, replay and simulator drive it alike.

    One turn, all of it in the compiled function but the last line:

    1. the next event is taken from the inbound ring, and the one after it prefetched
    2. it enters the engine: bars, quotes, the book, sessions, timers that are due; where the
       instant is not complete (the event says MORE) the turn ends here
    3. working orders meet the market, positions are marked, limits are watched
    4. equations, once, in the order of their dependence
    5. handlers: fills and orders, then market events from coarse to fine, then timers
    6. what handlers asked for passes the risk gate, in order of submission; an order that it lets
       pass is to be seen ahead in the outbound ring from then on, unless it is a leg of a block
    7. metrics are counted, the day ends where it ends
    8. all records of the instant (orders, fills, journal) are shown in the outbound ring at once
    9. nothing waits: look again, and after many empty looks yield the core, if so configured

    Steps 2 to 7 are the functions `run` of a backtest; a recorded stream gives the same records,
    byte for byte. Nothing but `stop`, and a reader that leaves no room in the outbound ring, keeps
    the engine from its next event; nothing is dropped.
    """

    def __init__(self, run: Run, turn: Program, inbound: Ring, outbound: Ring) -> None:
        """`run` is started; its state moves into memory of the loop's own, already paged in."""
        self.run, self.turn = run, turn
        self.inbound, self.outbound = inbound, outbound
        if outbound.capacity < (least := _records_of_an_instant(run)):
            raise RingError(
                f"a ring of {outbound.capacity} records may be too small for the records of one "
                f"instant\nhelp: at least {least}"
            )
        run.memory.words = prefaulted(run.memory.words)
        self.control = np.zeros(CONTROL_WORDS, np.int64)
        self.curve = np.zeros(CURVE_WORDS + run.plots, np.int64)
        run.memory.set("curve_on", False)
        self.refused: list[str] = []
        """What the system would not give the thread."""
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def start(
        self, core: int, pace: Pace = YIELDS, *, priority: int = 0, lock_memory: bool = False
    ) -> None:
        """Run on a thread of its own, pinned to `core`, until `stop`."""
        settled = threading.Event()

        def body() -> None:
            try:
                self.refused = settle(core, priority=priority, lock_memory=lock_memory)
                settled.set()
                self.drive(pace)
            except BaseException as failure:
                self._failure = failure
            finally:
                settled.set()

        self._thread = threading.Thread(target=body, name="quantdsl-engine", daemon=True)
        self._thread.start()
        settled.wait()

    def drive(self, pace: Pace = YIELDS) -> None:
        """Run on the calling thread until `stop` is called on another."""
        polls = SPIN_POLLS if pace.wait == "spin" else pace.polls
        consumer, producer = self.inbound.consumer(), self.outbound.producer()
        try:
            turns = self._attended if pace.wait == "yield" else self.turns
            while (status := turns(polls)) != STOPPED:
                self._rest(status, pace)
        finally:
            consumer.close()
            producer.close()

    def turns(self, polls: int) -> int:
        """The compiled function, once: DRY after `polls` empty looks, STOPPED or FULL.

        The calling thread owns the inbound ring's reading end and the outbound's writing end.
        """
        return int(
            self.turn.call(
                "turn",
                self.run.memory.words,
                self.inbound.words,
                self.outbound.words,
                self.control,
                self.curve,
                polls,
            )
        )

    def _attended(self, polls: int) -> int:
        """As `turns`, but while nothing comes the core is offered to others: never DRY."""
        from quantdsl.live.straight import OFFER, attend  # it imports numba

        return int(
            attend(
                self.turn.address("turn"),
                OFFER,
                self.run.memory.words.ctypes.data,
                self.inbound.words,
                self.outbound.address,
                self.control,
                self.curve.ctypes.data,
                polls,
                OFFERS_MAX,
            )
        )

    @property
    def failure(self) -> str:
        """What went wrong on the thread; empty: nothing."""
        return "" if self._failure is None else f"{type(self._failure).__name__}: {self._failure}"

    def _rest(self, status: int, pace: Pace) -> None:
        if status == FULL:
            time.sleep(FULL_WAIT_S)
        elif pace.wait == "sleep":
            time.sleep(EMPTY_WAIT_S)

    def stop(self, drain: Callable[[], object] = lambda: None) -> None:
        """Let the event at hand end, then the thread; raises what went wrong on it.

        Meanwhile `drain` is called: the engine ends once there was room for its last records.
        """
        self.control[STOP] = 1
        while self._thread is not None and self._thread.is_alive():
            drain()
            self._thread.join(JOIN_S)
        self._thread = None
        if self._failure is not None:
            raise self._failure


def open_loop(prepared: Prepared, *, inbound: Ring, outbound: Ring) -> EventLoop:
    """The loop of a run that is ready for its first event; compiles the turn or finds it cached."""
    module = module_of(prepared)
    return EventLoop(prepared.run, load_turn(module, native(), Cache()), inbound, outbound)


def module_of(prepared: Prepared) -> Module:
    """The strategy with those parts of the core that its run needs, for the settings of this run.

    Params, costs and grids of prices do not change while a session lasts: its code has them as
    constants, so that what they decide costs nothing.
    """
    module = prepared.checked.module(prepared.uses)
    assert module.given is not None
    values = settings(module, prepared.run.memory.words, (), SETTLED)
    given = msgspec.structs.replace(module.given, values=(*values, ("curve_on", 0)))
    return msgspec.structs.replace(module, given=given)


def _records_of_an_instant(run: Run) -> int:
    """More records than the outbox holds cannot come of one instant."""
    return 1 << (run.memory.view("e.outbox").nbytes // 64 - 1).bit_length()


def prefaulted(words: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A copy at the start of a page, each page of which is in memory already."""
    size = -(-words.nbytes // PAGE_BYTES) * PAGE_BYTES
    copy = np.frombuffer(mmap.mmap(-1, size), np.int64)[: len(words)]
    copy[:] = words
    return copy


def carry(loop: EventLoop, chunks: Iterable[Records], take: Take) -> None:
    """Feed chunks of events to a started loop, give `take` its records as they come, stop it."""
    feed, drain = loop.inbound.producer(), loop.outbound.consumer()
    try:
        for events in chunks:
            sent = 0
            while sent < len(events):
                sent += feed.push(events[sent:])
                _drain(drain, take)
        while loop.inbound.waiting:
            _drain(drain, take)
            feed.beat()
        loop.stop(lambda: _drain(drain, take))
        while _drain(drain, take):
            pass
    finally:
        feed.close()
        drain.close()


def _drain(drain: Consumer, take: Take) -> int:
    records = drain.pop(drain.ring.capacity)
    if len(records):
        take(records.view(RECORD))
    return len(records)
