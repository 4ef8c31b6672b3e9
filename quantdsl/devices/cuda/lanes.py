"""The lanes of a sweep on a GPU: inputs uploaded once, chunks of lanes on streams of their own.

A chunk's points go up, its kernel runs and its results come down on one stream, while its
neighbours do the same on theirs, so that copies hide behind computing. Events too many for the
device pass through it in pieces, each uploaded while the one before is worked on; the lanes'
States wait between pieces in device memory. When memory runs out the chunk is halved.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.cubin import load_cubin
from quantdsl.codegen.lanes import KERNEL
from quantdsl.codegen.ptx import ENTRY, Bounds, in_bulk
from quantdsl.codegen.rows import RowsCode
from quantdsl.devices.cpu import tiled_rows_of
from quantdsl.devices.cuda.device import CudaDevice
from quantdsl.devices.cuda.kernel import Kernel, Library
from quantdsl.devices.cuda.measure import ceilings
from quantdsl.devices.cuda.memory import Buffer, Pinned
from quantdsl.devices.cuda.order import Lead, Order, Way, order_of, restored, way_for
from quantdsl.devices.cuda.stream import Event, Stream
from quantdsl.devices.cuda.tune import (
    ROOMY,
    SPILL_BYTES_MAX,
    USUAL,
    bounds_for,
    by_size,
    one_order,
)
from quantdsl.devices.failure import Bytes, refused
from quantdsl.devices.feed import Feed, Piece, whole_bytes
from quantdsl.devices.kernel import WORDS, grid_of, values
from quantdsl.devices.loaded import Loaded
from quantdsl.devices.profile import Profile
from quantdsl.devices.sizes import evaluate
from quantdsl.devices.work import Finished, LaneWork, Plan, Words
from quantdsl.errors import DeviceError
from quantdsl.ir.threads import WARP

STREAMS = 5
"""One copies up, one copies down, and some compute while the host takes what came down."""
PIECE_SHARE = 4
"""A piece of events takes at most this part of the free memory: two are there at a time."""
CHUNK_LANE_STEPS = 2 * 10**10
"""A chunk has more lanes than run at once where they are no more work than this, about 0.1 s: lanes
that trade much run long, and beside them run the next. What ends a run waits for its chunks."""
SCHEDULERS = 4
"""Of a multiprocessor: each has a warp to itself where there are no more warps."""
ROOM_FOR_ROWS = 200 << 10
"""Bytes of shared memory of a multiprocessor that each scheduler's warp may have whole rows in."""
LANES_TOGETHER = 4
"""Whose words memory hands over together: where lanes in front end elsewhere, a sweep took up to a
sixth longer (bench/README.md)."""
PART_OF_WARP = 4
"""Threads that a warp has at least where lanes are spread evenly, and by how many it has more: they
copy its tile together, unless copies are in bulk."""


class Compiled(NamedTuple):
    """A kernel's library and the block that its registers were bounded for."""

    library: Library
    block: int
    rows: RowsCode | None
    """What makes the rows that the kernel takes, if it takes rows."""
    spill_bytes: int
    """Stored and loaded for want of registers."""


class Part(NamedTuple):
    """Neighbouring lanes of a chunk."""

    lanes: int
    block: int


class Layout(NamedTuple):
    """How lanes are spread over the device."""

    block: int
    wave: int
    """Lanes that run at once when all multiprocessors are full."""
    chunk: int
    piece_bytes: int
    """Of rows and columns on the device at a time."""
    whole: bool
    """Whether these are all of them."""
    common: int
    """Words that a warp of lanes has in common; 0 where all read them behind their rows."""
    front: tuple[Part, ...] = ()
    """The first lanes of a chunk, in smaller blocks than the others."""

    def parts(self, n_lanes: int) -> Iterator[tuple[int, Part]]:
        """Those of a chunk, and the lane that each begins with."""
        begin = 0
        for part in self.front:
            yield begin, part
            begin += part.lanes
        yield begin, Part(n_lanes - begin, self.block)


class CudaRunner:
    """Runs lanes on one GPU."""

    def __init__(
        self,
        device: CudaDevice,
        say: Callable[[str], None] = lambda _: None,
        profile: Profile | None = None,
        load: Callable[[LaneWork], Compiled] | None = None,
        way: Callable[[LaneWork], Way] | None = None,
    ) -> None:
        """`load` gives the code of some work, `way` how its lanes are taken (order.py)."""
        self.device, self._say, self._profile = device, say, profile
        self._load = load or _of_kind(device)
        self._way = way or self._tried
        self._ordered: tuple[Words, Way] | None = None  # points, and theirs
        self._inputs: _Inputs | None = None
        self._reached = 0  # lanes below are reported

    @property
    def name(self) -> str:
        """As Runner promises."""
        return f"{self.device.name} {self.device.model}"

    def compile(self, work: LaneWork) -> None:
        """As Runner promises."""
        self._kernel(work)

    def plan(self, work: LaneWork) -> Plan:
        """As Runner promises."""
        layout = self._layout(work, *self._kernel(work), work.n_lanes, None)
        return Plan(self.name, _bytes_a_lane(work, layout), layout.chunk)

    def run(self, work: LaneWork, lo: int, hi: int, finished: Finished) -> None:
        """As Runner promises; the words handed to `finished` are valid during the call only."""
        if lo >= hi:
            return
        kernel, compiled = self._kernel(work)
        way = self._way(work)
        layout = self._layout(work, kernel, compiled, hi - lo, way)
        kernel.spare_cache(layout.block)
        self._reached = lo
        if self._profile is not None:
            self._told(self._profile, kernel, layout)
        while lo < hi:
            try:
                inputs = self._resident(work, compiled.rows, layout)
                lo = self._run(kernel, layout, inputs, way, lo, hi, finished)
            except DeviceError as error:
                chunk = max(layout.chunk // 2 // WARP * WARP, WARP)
                if error.kind != "memory":
                    raise
                if chunk == layout.chunk:
                    raise self._short(kernel, error) from None
                lo = self._reached
                layout = layout._replace(chunk=chunk, front=())
                self.device.pinned.trim()
                self._say(f"{self.name}: out of memory, going on with {chunk:,} lanes a chunk")

    def close(self) -> None:
        """Give back memory; compiled code stays."""
        self._forget()
        self.device.pinned.trim()
        self.device.pool.trim()

    def _short(self, kernel: Kernel, error: DeviceError) -> DeviceError:
        """What no smaller chunk mends: local memory is of all threads, however few lanes run."""
        needed, (free, _) = kernel.use.local_bytes * self._resident_threads(), self.device.memory()
        if needed <= free:
            return error
        told = (
            f"the State of a lane takes {kernel.use.local_bytes:,} bytes of its thread's local "
            f"memory, which the driver keeps for all {self._resident_threads():,} threads that "
            "the device can hold"
        )
        return refused(self.device.name, "memory", told, Bytes(needed, free))

    def _resident_threads(self) -> int:
        """Threads that all multiprocessors together can hold."""
        threads = self.device.attribute("MAX_THREADS_PER_MULTIPROCESSOR")
        return self.device.attribute("MULTIPROCESSOR_COUNT") * threads

    def _tried(self, work: LaneWork) -> Way:
        """How the lanes are taken, as a trial of this kind of device has told."""

        def measured(part: LaneWork, way: Way) -> float:
            profile = Profile()
            trial = CudaRunner(
                self.device, profile=profile, load=lambda _: code, way=lambda _: way
            )
            for _ in range(2):  # the first run waits for what it allocates
                profile.intervals.clear()
                trial.run(part, 0, part.n_lanes, lambda *_: None)
            trial.close()
            return profile.rows()[0].lane_steps_per_s

        code = self._load(work)

        if self._ordered is None or self._ordered[0] is not work.points:
            kind, architecture = self.device.model, self.device.architecture
            block = self._block(work, code, work.n_lanes)
            # Lanes of several orders turn aside too often for warps of their own to gain.
            spread = one_order(work) and bool(self._front(work, block, work.n_lanes)[0])
            way = way_for(work, kind, architecture, Cache(), measured, spread=spread)
            self._ordered = work.points, way
        return self._ordered[1]

    def _kernel(self, work: LaneWork) -> tuple[Kernel, Compiled]:
        compiled = self._load(work)
        return compiled.library.kernel(self.device, ENTRY), compiled

    def _layout(
        self, work: LaneWork, kernel: Kernel, compiled: Compiled, n_lanes: int, way: Way
    ) -> Layout:
        """Full waves, as far as memory is free and a chunk is no long work; a small sweep spreads
        over the whole device.
        """
        multiprocessors = self.device.attribute("MULTIPROCESSOR_COUNT")
        common = work.common if compiled.rows is None else 0
        block = self._block(work, compiled, n_lanes)
        wave = multiprocessors * max(kernel.blocks_at_once(block), 1) * block
        free, _ = self.device.memory()
        left = max(free - kernel.use.local_bytes * self._resident_threads(), 0)
        whole = whole_bytes(work, compiled.rows)
        piece = min(whole, left // PIECE_SHARE)
        waves = max(CHUNK_LANE_STEPS // max(wave * work.lane_steps, 1), 1)
        chunk = min(n_lanes, waves * wave)
        layout = Layout(block, wave, chunk, piece, piece == whole, common)
        pieces_there = 1 if layout.whole else 2
        room = max(left - pieces_there * piece, 0) // STREAMS
        lanes = room // max(_bytes_a_lane(work, layout), 1) // WARP * WARP
        chunk = max(min(layout.chunk, lanes), min(n_lanes, WARP))
        leads = isinstance(way, Lead) and chunk == n_lanes
        front, others = self._front(work, block, n_lanes) if leads else ((), block)
        return layout._replace(chunk=chunk, front=front, block=others)

    def _block(self, work: LaneWork, compiled: Compiled, n_lanes: int) -> int:
        """Threads of a block where all lanes are spread evenly."""
        multiprocessors = self.device.attribute("MULTIPROCESSOR_COUNT")
        grouped = work.common > 0
        return threads_of_block(compiled.block, n_lanes, multiprocessors, grouped=grouped)

    def _front(self, work: LaneWork, block: int, n_lanes: int) -> tuple[tuple[Part, ...], int]:
        """The lanes in warps of one, of two and so on, and the blocks of the others."""
        if block > WARP or work.common:
            return (), block
        wider = min(2 * block, WARP)
        schedulers = SCHEDULERS * self.device.attribute("MULTIPROCESSOR_COUNT")
        front = narrow(n_lanes, wider, schedulers)
        return front, wider if front else block

    def _run(
        self,
        kernel: Kernel,
        layout: Layout,
        inputs: "_Inputs",
        way: Way,
        lo: int,
        hi: int,
        finished: Finished,
    ) -> int:
        """Run lanes until all are reported; returns hi. What is reported counts in `_reached`."""
        work = inputs.feed.work
        with ExitStack() as stack:
            n_slots = min(STREAMS if inputs.feed.whole else 1, -(-(hi - lo) // layout.chunk))
            slots = [
                stack.enter_context(_slot(self.device, work, layout, inputs.feed.whole))
                for _ in range(n_slots)
            ]
            begin = stack.enter_context(_begin(slots[0].stream))
            running: deque[_Slot] = deque()
            for number, start in enumerate(range(lo, hi, layout.chunk)):
                if len(running) == len(slots):
                    self._report(running.popleft(), begin, work, finished)
                slot = slots[number % len(slots)]
                slot.start(kernel, layout, inputs, way, start, min(start + layout.chunk, hi))
                running.append(slot)
            while running:
                self._report(running.popleft(), begin, work, finished)
        return hi

    def _told(self, profile: Profile, kernel: Kernel, layout: Layout) -> None:
        """Note what is known of the kernel and of the device's ceilings."""
        use, block = kernel.use, layout.block
        threads_max = self.device.attribute("MAX_THREADS_PER_MULTIPROCESSOR")
        resident = kernel.blocks_at_once(block) * block
        profile.facts[f"kernel on {self.device.name}"] = (
            f"{use.registers} registers and {use.local_bytes:,} bytes of local memory a thread, "
            f"blocks of {block}, occupancy {resident / threads_max:.0%}"
        )
        profile.ceilings[self.device.name] = ceilings(self.device)

    def _report(self, slot: "_Slot", begin: "_Begin", work: LaneWork, finished: Finished) -> None:
        slot.down.wait()
        if self._profile is not None:
            slot.measured(self._profile, begin, work)
        finished(slot.lo, slot.hi, slot.results(work))
        self._reached = slot.hi

    def _resident(self, work: LaneWork, rows: RowsCode | None, layout: Layout) -> "_Inputs":
        """The inputs on the device: those of the last run if they are the same arrays."""
        if self._inputs is None or not self._inputs.serves(work, layout):
            self._forget()
            feed = Feed(work, rows, max(layout.piece_bytes, 1))
            self._inputs = _Inputs(self.device, feed, layout)
        self._inputs.feed.work = work
        return self._inputs

    def _forget(self) -> None:
        if self._inputs is not None:
            self._inputs.close()
            self._inputs = None


class _Inputs:
    """What all lanes read alike, on the device: whole, or two pieces of the events at a time."""

    def __init__(self, device: CudaDevice, feed: Feed, layout: Layout) -> None:
        self.feed, self.layout, self.stream = feed, layout, device.streams.take()
        self._places = 1 if feed.whole else 2
        self._buffers: list[Buffer] = []
        self.uploaded = [Event(device) for _ in range(self._places)]
        self.worked = [Event(device) for _ in range(self._places)]
        work = feed.work
        try:
            self.fixed = [self._put(array) for array in (work.template, work.params, work.results)]
            sizes = feed.words_max, feed.rows_max * work.columns.shape[1]
            self.places = [[self._room(size) for size in sizes] for _ in range(self._places)]
            self._there = list(self._uploaded(feed)) if feed.whole else None
        except BaseException:
            self.close()
            raise

    def serves(self, work: LaneWork, layout: Layout) -> bool:
        """Whether these are the inputs of some work, already there."""
        same = all(
            getattr(work, name) is getattr(self.feed.work, name)
            for name in ("module", "template", "params", "results", "events", "columns")
        )
        return same and self.feed.whole and self.layout.piece_bytes == layout.piece_bytes

    def pieces(self) -> Iterator[tuple[int, Piece]]:
        """(place on the device, piece) in order; a piece goes up when its place is free."""
        return self._uploaded(self.feed) if self._there is None else iter(self._there)

    def close(self) -> None:
        """Give back all of it."""
        self.stream.synchronize()
        for buffer in self._buffers:
            buffer.free(self.stream)
        for event in (*self.uploaded, *self.worked):
            event.close()
        self.stream.device.streams.give(self.stream)

    def _uploaded(self, feed: Feed) -> Iterator[tuple[int, Piece]]:
        for number, piece in enumerate(feed):
            place = number % self._places
            if number >= self._places:
                self.stream.wait_for(self.worked[place])
            for buffer, array in zip(self.places[place], (piece.words, piece.columns), strict=True):
                self.stream.upload(buffer, array)
            self.stream.mark(self.uploaded[place])
            yield place, piece

    def _put(self, array: npt.NDArray[np.int64]) -> Buffer:
        buffer = self._room(array.size)
        self.stream.upload(buffer, array)
        return buffer

    def _room(self, words: int) -> Buffer:
        buffer = self.stream.device.pool.allocate(8 * words, self.stream, "inputs of the lanes")
        self._buffers.append(buffer)
        return buffer


class _Slot:
    """A stream with memory for one chunk, used for one chunk after the other."""

    def __init__(
        self, stream: Stream, points: Buffer, results: Buffer, states: Buffer, pinned: Pinned
    ) -> None:
        self.stream, self.points, self.results_there, self.states = stream, points, results, states
        self.pinned = pinned
        self.began, self.ended, self.down = (Event(stream.device) for _ in range(3))
        self.lo = self.hi = 0
        self._order: Order | None = None
        self._beside: list[Stream] = []

    def start(
        self,
        kernel: Kernel,
        layout: Layout,
        inputs: _Inputs,
        way: Way,
        lo: int,
        hi: int,
    ) -> None:
        """Start lanes lo to hi: points up, kernel (one a piece of the events), results down."""
        self.lo, self.hi = lo, hi
        work, n = inputs.feed.work, hi - lo
        points, own = self.pinned.words(len(work.points), n), work.points[:, lo:hi]
        self._order = order_of(own, way)
        points[:] = own if self._order is None else own[:, self._order]
        self.stream.upload(self.points, points)
        self.stream.mark(self.began)
        for place, piece in inputs.pieces():
            self.stream.wait_for(inputs.uploaded[place])
            self._launch(kernel, layout, inputs, place, piece)
            self.stream.mark(inputs.worked[place])
        self.stream.mark(self.ended)
        self.stream.download(self._results(work), self.results_there)
        self.stream.mark(self.down)

    def results(self, work: LaneWork) -> npt.NDArray[np.int64]:
        """The results of the chunk, which is done, lane by lane."""
        found = self._results(work)
        return found if self._order is None else restored(found, self._order)

    def _results(self, work: LaneWork) -> npt.NDArray[np.int64]:
        """Where the results of the chunk come to lie, behind its points."""
        n = self.hi - self.lo
        offset = len(work.points) * n
        return self.pinned.words(offset + len(work.results) * n)[offset:].reshape(-1, n)

    def measured(self, profile: Profile, begin: "_Begin", work: LaneWork) -> None:
        """Tell a profile of the chunk, which is done."""
        began_s = begin.host_s + self.began.seconds_since(begin.event)
        seconds = self.ended.seconds_since(self.began)
        profile.lanes(work, self.hi - self.lo, seconds, self.stream.device.name, began_s)

    def close(self) -> None:
        """Wait, and give back all of it."""
        device, streams = self.stream.device, (self.stream, *self._beside)
        try:
            for stream in streams:
                stream.synchronize()
        finally:
            for buffer in (self.points, self.results_there, self.states):
                buffer.free(self.stream)
            for event in (self.began, self.ended, self.down):
                event.close()
            device.pinned.give(self.pinned)
            for stream in streams:
                device.streams.give(stream)

    def _launch(
        self, kernel: Kernel, layout: Layout, inputs: _Inputs, place: int, piece: Piece
    ) -> None:
        device, n = self.stream.device, self.hi - self.lo
        sizes = values(inputs.feed.work, n, piece.turns)
        template, params, results = inputs.fixed
        events, columns = inputs.places[place]
        buffers = {
            "template": template, "points": self.points, "param_offsets": params,
            "results": self.results_there, "result_offsets": results, "events": events,
            "columns": columns, "states": self.states,
        }  # fmt: skip
        parts = list(layout.parts(n))
        while len(self._beside) < len(parts) - 1:
            self._beside.append(device.streams.take())
        streams = self.stream, *self._beside[: len(parts) - 1]
        for stream in streams[1:]:
            stream.follow(self.stream)
        for stream, (begin, part) in zip(streams, parts, strict=True):
            own = {**sizes, "mode": piece.mode, "lane_lo": begin, "lane_hi": begin + part.lanes}
            grid = grid_of(device.name, own, part.block, device.limits[:2])
            arguments = [
                buffers[param.name].address if param.name in buffers else own[param.name]
                for param in KERNEL.params
            ]
            kernel.prepare(arguments, grid, part.block)(stream)
        for stream in streams[1:]:
            self.stream.follow(stream)


class _Begin(NamedTuple):
    """One moment on the clocks of host and device, so that times of one are told in the other's."""

    event: Event
    host_s: float
    """Of time.perf_counter."""


@contextmanager
def _begin(stream: Stream) -> Iterator[_Begin]:
    """Now."""
    event = Event(stream.device)
    try:
        stream.mark(event)
        stream.synchronize()
        yield _Begin(event, time.perf_counter())
    finally:
        event.close()


@contextmanager
def _slot(device: CudaDevice, work: LaneWork, layout: Layout, whole: bool) -> Iterator[_Slot]:
    """A slot for chunks of the layout; what was allocated goes back if the rest is refused."""
    stream = device.streams.take()
    sizes = {**values(work, layout.chunk, 0), "common_words": layout.common}
    kept = not whole or layout.common > 0
    wanted = ("points", "results", "states") if kept else ("points", "results")
    taken: list[Buffer] = []
    try:
        for name in ("points", "results", "states"):
            words = evaluate(WORDS[name], sizes) if name in wanted else 0
            about = f"{name} of {layout.chunk:,} lanes"
            taken.append(device.pool.allocate(8 * words, stream, about))
        words = evaluate(WORDS["points"], sizes) + evaluate(WORDS["results"], sizes)
        pinned = device.pinned.take(8 * words)
    except BaseException:
        for buffer in taken:
            buffer.free(stream)
        device.streams.give(stream)
        raise
    points, results, states = taken
    slot = _Slot(stream, points, results, states, pinned)
    try:
        yield slot
    finally:
        slot.close()


def compiled(device: CudaDevice, work: LaneWork, bounds: Bounds) -> Compiled:
    """The code of some work for a device, its registers bounded."""
    architecture = device.architecture
    room = device.attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR")
    if room < ROOM_FOR_ROWS or not in_bulk(architecture):  # few threads would be long at copying
        bounds = bounds._replace(whole=False)
    cubin = load_cubin(work.module, work.kept, architecture, Cache(), bounds, varying=work.varying)
    library = Library(device.driver, cubin.code, ENTRY)
    rows = tiled_rows_of(work, bounds.tiling)
    return Compiled(library, bounds.threads, rows, cubin.spill_bytes)


def _of_kind(device: CudaDevice) -> Loaded[Compiled]:
    """What loads kernels for all devices of this kind; each is made, and tried, once."""
    if device.model not in _LOADED:
        architecture = device.architecture

        def roomier(work: LaneWork, bounds: Bounds) -> Compiled:
            made = compiled(device, work, bounds)
            if bounds == USUAL and made.spill_bytes > SPILL_BYTES_MAX:
                return compiled(device, work, ROOMY)
            return made

        def measured(work: LaneWork, bounds: Bounds) -> float:
            profile, candidate = Profile(), roomier(work, bounds)
            trial = CudaRunner(device, profile=profile, load=lambda _: candidate)
            trial.run(work, 0, work.n_lanes, lambda *_: None)
            trial.close()
            return profile.rows()[0].lane_steps_per_s

        def load(work: LaneWork) -> Compiled:
            return roomier(work, bounds_for(work, device.model, architecture, Cache(), measured))

        _LOADED[device.model] = Loaded(load, by_size)
    return _LOADED[device.model]


_LOADED: dict[str, Loaded[Compiled]] = {}


def threads_of_block(most: int, n_lanes: int, multiprocessors: int, *, grouped: bool) -> int:
    """Threads of a block: few lanes spread over the device, down to parts of a warp each.

    A warp waits for the one of its lanes that trades most. `grouped` lanes have words in common,
    such as a book's, and stay whole warps: those of a maker take 107 ms, of 20 threads each 122.
    """
    block = most
    while block > WARP and n_lanes <= multiprocessors * block:
        block //= 2
    if grouped or block > WARP:
        return block
    share = -(-n_lanes // (multiprocessors * SCHEDULERS))
    return min(max(-(-share // PART_OF_WARP) * PART_OF_WARP, PART_OF_WARP), WARP)


def narrow(n_lanes: int, block: int, warps: int) -> tuple[Part, ...]:
    """The first of some lanes in warps of one, of two and so on, as many of each as `warps` leave
    room for beside those of the others, which are blocks.

    Each begins at a multiple of LANES_TOGETHER.
    """
    widths = [1 << bits for bits in range(block.bit_length()) if 1 << bits < block]
    room = warps * block - n_lanes
    each = room // max(block * len(widths) - sum(widths), 1)
    each = min(each, (n_lanes - 1) // max(sum(widths), 1)) // LANES_TOGETHER * LANES_TOGETHER
    return tuple(Part(each * width, width) for width in widths) if each > 0 else ()


def _bytes_a_lane(work: LaneWork, layout: Layout) -> int:
    """Device memory of a lane in flight, the State included where it waits between pieces."""
    words = len(work.params) + len(work.results)
    if not layout.whole or layout.common:
        words += work.own + -(-layout.common // WARP)
    return 8 * words
