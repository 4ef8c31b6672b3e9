"""How long a strategy takes from an event to its order: measured, stage by stage.

Every row is an HDR histogram. From a whole span nothing is subtracted; the cost of two stamps and
the noise of the core are a row of their own. From a batch the median of that cost is taken off.

By itself: recorded events go through a probe (stages.py) in batches between two stamps, on a copy
of the state that the whole run has at that event. A stage is the difference of two probes on the
same events. Whole: every event of the stream through the turn as it runs live, from before it is
taken to after its records are in the ring.
"""

import functools
import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.backtest.prepare import Prepared
from quantdsl.backtest.stream import materialised
from quantdsl.check.step import CURVE_WORDS
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.gauges import load_gauges, load_sampled
from quantdsl.codegen.jit import Program
from quantdsl.codegen.stamped import ORDER, RETURN, WHOLE, load_stamped
from quantdsl.codegen.target import native
from quantdsl.codegen.turn import CONTROL_WORDS, STOP, load_turn
from quantdsl.errors import ConfigError
from quantdsl.events.layout import EVENT, MORE, RECORD, WORDS, Kind
from quantdsl.events.ring import CONSUMED, HEAD_WORDS, Ring
from quantdsl.ir.ops import Module
from quantdsl.live.clock import calibrate, counter
from quantdsl.live.loop import EventLoop, Pace, module_of, prefaulted
from quantdsl.live.machine import on_linux, usable
from quantdsl.live.placement import Plan, settle
from quantdsl.live.stages import Probe, book_probe, gate_probe, hold_probe, stage_probes

NOISE = "noise floor"
PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)
HIGHEST_NS, DIGITS = 10_000_000_000, 3
BATCH, WARM = 16, 128
"""Events between two stamps, events before them that bring code and state into the cache."""
LOOKS, LINE = 64, 64
"""How often a run is looked at for the words of the state that it changes; words kept together."""
SAMPLES = 4_000
"""Batches of a probe, at most."""
INPUTS = 1_000_000
"""Of a routine that is replayed by itself."""
PASSES = 5
"""Over the same events or inputs; how far their medians differ is how well a row is known."""
PASSES_WHOLE = 8
"""Over all events, where two ends of a span are compared."""
NOISE_STAMPS = 1_000_000
PINGS = 100_000
RING_RECORDS = 1 << 16
OUT_RECORDS = 1 << 16
CHUNK = 8192
"""Events in the ring at once."""
EVENTS_LEAST = 1000

PROMISES_NS = {
    "risk gate": (15.0, 100.0),
    "position update": (10.0, 200.0),
    "signal evaluation": (150.0, 1_000.0),
    "order submission": (40.0, 500.0),
    "tick to order": (250.0, 2_500.0),
    "ring hop": (200.0, 2_000.0),
}
"""Of a median on a pinned core: the aim for PROMISED, and what no strategy shipped exceeds."""
PROMISED = "SkewedMaker"
KINDS = {
    "bar": (Kind.BAR,),
    "quote": (Kind.QUOTE,),
    "trade": (Kind.TRADE,),
    "book": (Kind.BOOK_DELTA, Kind.BOOK_SNAPSHOT),
    "timer": (Kind.TIMER,),
    "stale": (Kind.FEED,),
}
"""The events on which a handler runs."""
NEWS = {"fill": (Kind.FILL,), "order": (Kind.FILL, Kind.REJECT, Kind.CANCEL)}
"""The records of whose events another one runs."""

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]


class Row(msgspec.Struct, frozen=True):
    """One thing measured."""

    name: str
    how: str
    count: int
    percentiles_ns: tuple[float, ...]
    """Those of PERCENTILES."""
    max_ns: float
    p99_at_most_ns: int = 0
    """What the strategy itself promises by @latency; 0: nothing."""
    passes_ns: tuple[float, ...] = ()
    """The median of each pass, or of each fifth of the samples; none where there was one pass."""
    step_ns: float = 0.0
    """What a median can be told apart by: the step of the counter, an input's share of it."""


class Report(msgspec.Struct, frozen=True):
    """Everything measured in one go."""

    strategy: str
    data: str
    events: int
    orders: int
    """Instants that sent or cancelled one."""
    rate: float
    core: int
    cycles_per_ns: float
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


def measure(prepared: Prepared, plan: Plan, *, events: int, rate: float = 0.0) -> Report:
    """The latencies of a run that is ready for its first event, on at most `events` of its data.

    With a `rate` (events a second) each event of the whole turn is due at a time of its own and its
    latency counts from there, so that what was kept waiting is counted too. Pins the calling thread
    meanwhile. Raises ConfigError where there are too few events.
    """
    allowed, core = usable(), plan.core("engine")
    refused = settle(core)
    try:
        bench = Bench(prepared, plan, events)
        rows = [bench.noise(), *bench.whole(rate), *bench.stages(), *bench.submission()]
        rows += bench.routine(gate_probe, Kind.ORDER)
        rows += bench.routine(hold_probe, Kind.FILL)
        rows += bench.routine(book_probe, Kind.FILL)
        rows += bench.between_cores()
    finally:
        _free(allowed)
    return Report(
        prepared.checked.strategy.name, prepared.data.name, len(bench.stream),
        len(bench.ordering), rate, core, bench.clock.cycles_per_ns, tuple(rows),
        (*plan.notes, *refused, *bench.notes),
    )  # fmt: skip


class Bench:
    """The pieces of one measurement."""

    def __init__(self, prepared: Prepared, plan: Plan, events: int) -> None:
        self.prepared, self.run = prepared, prepared.run
        self.run.memory.set("curve_on", False)
        self.begin = self.run.memory.words.copy()
        self.module = module_of(prepared)
        self.stream = np.ascontiguousarray(materialised(prepared.data)[:events])
        if len(self.stream) < EVENTS_LEAST:
            raise ConfigError(
                f"there are only {len(self.stream)} events to measure on\n"
                f"help: at least {EVENTS_LEAST}"
            )
        self.clock, self.gauges = calibrate(), load_gauges(native())
        self.core, feed = plan.core("engine"), plan.core("feed")
        self.feed_core = None if feed == self.core else feed
        self.notes: list[str] = []
        self.stamp_cycles = self.step_cycles = 0.0
        """What two stamps cost; it is taken off a batch, never off a whole span. And the least by
        which two spans differ."""
        self.records = np.empty(0, RECORD)
        self.ordering = np.empty(0, np.int64)
        """The events after which orders or cancels went out."""
        self.sending = np.empty(0, np.int64)
        """Those after which orders did."""

    # ---- what is measured ----

    def noise(self) -> Row:
        """Two stamps with nothing between them, on the same core."""
        stamps = np.zeros(NOISE_STAMPS, np.int64)
        self.gauges.call("empty", stamps, len(stamps))
        self.stamp_cycles = float(np.median(stamps))
        self.step_cycles = float(np.diff(np.unique(stamps), append=np.inf).min())
        parts = np.array_split(stamps, PASSES)
        return self.row(NOISE, "two stamps and nothing between", stamps, parts)

    def whole(self, rate: float) -> list[Row]:
        """Every event through the turn as it runs live; notes what it wrote."""
        interval = round(self.clock.cycles_per_ns * 1e9 / rate) if rate else 0
        took, counts, self.records = self.through(WHOLE, interval)
        wrote = np.repeat(np.arange(len(took)), counts)
        ordered = np.isin(self.records["kind"], (Kind.ORDER, Kind.CANCEL))
        self.ordering = np.unique(wrote[ordered])
        self.sending = np.unique(wrote[self.records["kind"] == Kind.ORDER])
        how = f"due every {1e9 / rate:,.0f} ns, from when it was due" if rate else "back to back"
        spans, last = _instants(self.stream, took)
        again = [_instants(self.stream, self.through(WHOLE, 0)[0])[0]
                 for _ in range(0 if rate else PASSES - 1)]  # fmt: skip
        passes = [spans, *again]
        rows = [self.row("turn", f"instants, {how}", spans, passes)]
        with_order = np.isin(last, self.ordering)
        if with_order.any():
            what = f"instants that send or cancel an order, {how}"
            sent = [one[with_order] for one in passes]
            rows.append(self.row("tick to order", what, sent[0], sent))
        else:
            self.notes.append("tick to order: not measured: no order in the run")
        return [*rows, *self.annotated(passes, last, wrote, how)]

    def annotated(
        self, passes: list[Int64s], last: Int64s, wrote: Int64s, how: str
    ) -> Iterator[Row]:
        """The whole turn of the instants of each handler that has a @latency.

        `passes` are the spans of the instants, `wrote` the events that wrote the records.
        """
        kinds = (self.stream[: last[-1] + 1, 2] >> 32) & 0xFF
        first = np.concatenate([[0], last[:-1] + 1])
        for handler in self.prepared.checked.strategy.handlers:
            most, name = handler.promises.p99_ns, f"on {handler.event}"
            here = np.isin(kinds, KINDS.get(handler.event, ()))
            told = wrote[np.isin(self.records["kind"], NEWS.get(handler.event, ()))]
            here[told[told < len(here)]] = True
            mine = np.logical_or.reduceat(here, first)
            if most and mine.any():
                spans = [one[mine] for one in passes]
                what = f"instants of the handler with @latency, {how}"
                row = self.row(name, what, spans[0], spans)
                yield msgspec.structs.replace(row, p99_at_most_ns=most)
            elif most:
                self.notes.append(f"{name}: not measured: no such event")

    def stages(self) -> list[Row]:
        """Each stage as the difference of two probes, an event's share of a batch.

        All probes take their turns in each pass: what hurts one for a while hurts all of them.
        """
        starts = _spread(np.arange(WARM, len(self.stream) - BATCH, BATCH), SAMPLES)
        probes = stage_probes(self.module)
        passes = {
            probe.name: took
            for probe, took in zip(
                probes,
                np.swapaxes(
                    [[self.sampled(p, self.stream, starts, BATCH) for p in probes]
                     for _ in range(PASSES)], 0, 1,
                ),
                strict=True,
            )
        }  # fmt: skip
        rows: list[Row] = []
        before = np.full((PASSES, len(starts)), self.stamp_cycles)
        how = f"difference of probes, medians of {PASSES} batches of {BATCH}"
        for name, took in passes.items():
            rows.append(self.stage(name, how, before, took))
            before = took
        rows.append(self.signal(passes, starts))
        stamps = np.full_like(before, self.stamp_cycles)
        how = f"all stages, medians of {PASSES} batches of {BATCH}"
        return [*rows, self.stage("step", how, stamps, before)]

    def stage(self, name: str, how: str, until: Float64s, past: Float64s) -> Row:
        """What lies between two probes, an event's share of it: cycles[pass, batch] of each."""
        took = np.maximum(np.median(past, axis=0) - np.median(until, axis=0), 0) / BATCH
        passes = np.maximum(past - until, 0) / BATCH
        return self.row(name, how, took, list(passes), share=BATCH)

    def signal(self, passes: dict[str, Float64s], starts: Int64s) -> Row:
        """Equations and handlers, of batches after which no order was wanted in the run.

        A probe sends nothing, so it would want the same order again with each event that follows.
        """
        orders = np.searchsorted(self.ordering, [starts, starts + BATCH])
        wanted = orders[1] > orders[0]
        calm = np.ones(len(starts), bool) if wanted.all() else ~wanted
        what = "" if wanted.all() else " without an order"
        how = f"equations and handlers, as above, {calm.sum():,} batches{what}"
        until, past = passes["market"][:, calm], passes["handlers"][:, calm]
        return self.stage("signal evaluation", how, until, past)

    def submission(self) -> list[Row]:
        """From the return of the handler to the record, of the events that send an order.

        All events go through the turn as it runs live, once until there and once until here, and
        again. A span is a multiple of the counter's step (10 ns on some processors), which is a
        quarter of what is asked for: the mean of the middle passes tells it more finely.
        """
        if not len(self.sending):
            return []
        spans = np.array([
            [self.through(until, 0)[0][self.sending] for until in (RETURN, ORDER)]
            for _ in range(PASSES_WHOLE)
        ])  # fmt: skip
        middle = np.sort(spans, axis=0)[PASSES_WHOLE // 4 : -(PASSES_WHOLE // 4)].mean(axis=0)
        how = "from the handler's return to its first order in the ring, difference of whole spans"
        took = np.maximum(middle[1] - middle[0], 0)
        return [self.row("order submission", how, took, list(spans[:, 1] - spans[:, 0]))]

    def routine(self, make: Callable[[Module], Probe], kind: Kind) -> list[Row]:
        """A routine of the core on recorded inputs, an input's share of a batch."""
        probe, words = make(self.module), self.inputs(kind)
        if len(words) < BATCH:
            self.notes.append(f"{probe.name}: not measured: {len(words)} records of {kind.name}")
            return []
        starts = np.arange(0, len(words) - BATCH + 1, BATCH)
        repeated = np.tile(starts, max(min(INPUTS, len(self.stream)) // len(words), PASSES))
        took = self.sampled(probe, words, repeated, BATCH, still=True)
        how = f"by itself on {kind.name} records, batches of {BATCH}"
        took = np.maximum(took - self.stamp_cycles, 0) / BATCH
        return [self.row(probe.name, how, took, np.array_split(took, PASSES), share=BATCH)]

    def between_cores(self) -> list[Row]:
        """One hop of a ring, and from a feed's thread to its order and back."""
        if self.feed_core is None:
            self.notes.append("ring hop: not measured: it takes two cores")
            return []
        ring, other = Ring.create(None, RING_RECORDS), Ring.create(None, OUT_RECORDS)
        control = np.zeros(CONTROL_WORDS, np.int64)
        hops = self.pinged(
            ring, other, lambda: self.gauges.call("echo", ring.words, control), control
        )
        half = hops[:, 0] / 2
        what = "half of there and back between two cores"
        rows = [self.row("ring hop", what, half, np.array_split(half, PASSES), share=2)]
        loop = self.loop(load_turn(self.module, native(), Cache()))
        spans = self.pinged(
            loop.inbound, loop.outbound, lambda: loop.drive(Pace("spin")), loop.control
        )
        how = "published, run, seen again on the feed's core"
        ordered = np.isin(np.arange(len(spans)), self.ordering)
        calm = spans[~ordered, 0]
        rows.append(self.row("feed to engine and back", how, calm, np.array_split(calm, PASSES)))
        if ordered.any():
            how, sent = "the same, until its first order is seen ahead", spans[ordered, 0]
            rows.append(self.row("feed to order", how, sent, np.array_split(sent, PASSES)))
        return rows

    # ---- how ----

    def sampled(
        self,
        probe: Probe,
        inputs: Int64s,
        starts: Int64s,
        batch: int,
        *,
        still: bool = False,
    ) -> Float64s:
        """Cycles of a probe from each start on; if `still` on a state from the midst of the run."""
        state, full, warm = self.begin, self.run.executor, WARM
        parts = self.parts
        if still:
            state, full, warm, parts = self.middle(), self.gauges, 0, parts[:0]
        states = (prefaulted(state) for _ in range(3))  # they lie as a session's does
        stamps = np.zeros(len(starts), np.int64)
        load_sampled(probe.module, native(), Cache(), probe.routine).call(
            "sampled", *states, parts.reshape(-1), len(parts),
            inputs.reshape(-1), starts, len(starts), warm, batch, self.curve(), stamps,
            full.address("still" if still else "run"),
        )  # fmt: skip
        return stamps.astype(np.float64)

    @functools.cached_property
    def stamped(self) -> Program:
        """The turn as it runs live, with stamps."""
        return load_stamped(self.module, native(), Cache())

    @functools.cached_property
    def parts(self) -> Int64s:
        """The parts of the state that the run changes, the outbox left out: i64[n, 2]."""
        self.run.memory.words = self.begin.copy()
        changed = np.zeros(len(self.begin), bool)
        for piece in np.array_split(self.stream, LOOKS):
            self.run.feed(np.ascontiguousarray(piece).reshape(-1).view(EVENT))
            changed |= self.run.memory.words != self.begin
        outbox = self.run.memory.slot("e.outbox")
        changed[outbox.offset_words : outbox.offset_words + outbox.words] = False
        lines = np.unique(np.flatnonzero(changed) // LINE)
        begins = lines[np.diff(lines, prepend=-2) > 1]
        ends = lines[np.diff(lines, append=lines[-1] + 2) > 1] + 1
        return np.minimum(np.stack([begins, ends], axis=1) * LINE, len(self.begin))

    def middle(self) -> Int64s:
        """A state from the midst of the run."""
        self.run.memory.words = self.begin.copy()
        half = np.ascontiguousarray(self.stream[: len(self.stream) // 2])
        self.run.feed(half.reshape(-1).view(EVENT))
        return self.run.memory.words

    def inputs(self, kind: Kind) -> Int64s:
        """The records of a kind that the whole run wrote: i64[n, 8]."""
        found = np.ascontiguousarray(self.records[self.records["kind"] == kind])
        return found.view(np.int64).reshape(-1, WORDS)

    def loop(self, turn: Program) -> EventLoop:
        """A loop at the run's beginning, on rings whose pages are there: they last a session."""
        self.run.memory.words = self.begin.copy()
        rings = (Ring.create(None, RING_RECORDS), Ring.create(None, OUT_RECORDS))
        for ring in rings:
            ring.words[HEAD_WORDS:] = 0
        return EventLoop(self.run, turn, *rings)

    def curve(self) -> Int64s:
        """Room for a row, which nobody reads."""
        return np.zeros(CURVE_WORDS + self.run.plots, np.int64)

    def through(self, until: int, interval: int) -> tuple[Int64s, Int64s, npt.NDArray[np.void]]:
        """Cycles and records of each event, and the records; the schedule pauses between chunks."""
        loop = self.loop(self.stamped)
        feed, drain = loop.inbound.producer(), loop.outbound.consumer()
        events = self.stream.reshape(-1).view(EVENT)
        stamps, now = np.zeros((CHUNK + 1, 2), np.int64), counter()
        spans, found, done = [], [np.empty(0, RECORD)], 0
        while done < len(events):
            if not loop.inbound.waiting:
                feed.push(events[done : done + CHUNK])
            before = loop.inbound.cells[CONSUMED]
            stamps[:] = 0
            loop.turn.call(
                "stamped", loop.run.memory.words, loop.inbound.words, loop.outbound.words,
                loop.control, loop.curve, 1, stamps.reshape(-1), now() + interval, interval,
                until,
            )  # fmt: skip
            took = loop.inbound.cells[CONSUMED] - before
            spans.append(stamps[1 : took + 1].copy())
            while len(records := drain.pop(OUT_RECORDS)):
                found.append(records.view(RECORD))
            done += took
        both = np.concatenate(spans)
        return both[:, 0], both[:, 1], np.concatenate(found)

    def pinged(self, ring: Ring, back: Ring, far: Callable[[], object], control: Int64s) -> Int64s:
        """Stamps of events that this thread publishes from the feeds' core to `far` on ours."""
        assert self.feed_core is not None
        allowed = usable()

        def body() -> None:
            settle(self.core)
            far()

        thread = threading.Thread(target=body, daemon=True)
        thread.start()
        settle(self.feed_core)
        words = self.stream[:PINGS]
        stamps = np.zeros((len(words), 2), np.int64)
        try:
            flat = words.reshape(-1)
            self.gauges.call("ping", ring.words, back.words, flat, len(words), stamps.reshape(-1))
        finally:
            control[STOP] = 1
            thread.join()
            _free(allowed)
        return stamps

    def row(
        self,
        name: str,
        how: str,
        cycles: npt.NDArray[Any],
        passes: Sequence[npt.NDArray[Any]] = (),
        *,
        share: int = 1,
    ) -> Row:
        """A histogram of spans, of each of which `share` inputs have a part."""
        from hdrh.histogram import HdrHistogram  # on x86-64 alone, as the counter of cycles

        histogram = HdrHistogram(1, HIGHEST_NS * 1000, DIGITS)  # in ps: some spans are a few ns
        values, counts = np.unique(
            np.maximum(np.rint(cycles * (1000 / self.clock.cycles_per_ns)), 1).astype(np.int64),
            return_counts=True,
        )
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            histogram.record_value(min(value, HIGHEST_NS * 1000), count)
        # A percentile is the upper end of its cell, which may lie above all that was measured.
        found = (min(histogram.get_value_at_percentile(p), int(values[-1])) for p in PERCENTILES)
        told = tuple(value / 1000 for value in found)
        ns = self.clock.cycles_per_ns
        several = len(passes) > 1 and all(map(len, passes))
        medians = tuple(float(np.median(one)) / ns for one in passes) if several else ()
        most, step = float(values[-1]) / 1000, self.step_cycles / ns / share
        return Row(name, how, len(cycles), told, most, passes_ns=medians, step_ns=step)


def _free(allowed: Collection[int]) -> None:
    """Let the calling thread run where it could before it was pinned."""
    on_linux(lambda: os.sched_setaffinity(0, allowed), "giving the core back")


def _instants(stream: Int64s, took: Int64s) -> tuple[Int64s, Int64s]:
    """The span of each instant, from its first event to its last record, and its last event."""
    last = np.flatnonzero(((stream[:, 2] >> 48) & MORE) == 0)
    return np.diff(np.cumsum(took)[last], prepend=0), last


def _spread(starts: Int64s, most: int) -> Int64s:
    """So many of the starts at most, evenly."""
    step = max(-(-len(starts) // most), 1)
    return np.ascontiguousarray(starts[::step])
