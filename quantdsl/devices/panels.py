"""The kernels of a panel on a device: columns go in chunk by chunk, columns come out.

A chunk is some instants of all instruments in flat columns (check/panel_kernels.py): a row of words
an instant. Kernels along time have a thread an instrument and a state that lives on from chunk to
chunk; kernels across have a block of threads an instant. Nothing in between leaves the device.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import Form, load
from quantdsl.codegen.emit import emit
from quantdsl.codegen.function import Shared
from quantdsl.codegen.lanes import FINISH, INTERFACE, KERNEL, START
from quantdsl.codegen.panel_blocks import ENTRY, panel_block, panel_block_text
from quantdsl.codegen.primitives import DECLARED
from quantdsl.codegen.target import Target, native
from quantdsl.codegen.warps import Tiling, apart_words, near_words, warp_text
from quantdsl.devices.blocks import primitives
from quantdsl.devices.columns import HOST, Matrices, Place
from quantdsl.devices.simulated import SimulatedKernel, kernel_of
from quantdsl.devices.work import Words
from quantdsl.ir.ops import Module
from quantdsl.ir.own import SPARE, Window
from quantdsl.passes import along_passes

LANES = 32
"""A row of a column has so many words, or some times as many."""
SLOTS = 2
"""Chunks that a device holds: one is computed while another one is filled."""
CACHE_BYTES = 20 << 20
"""For the States of a part's lanes, where they are too large for shared memory: two fifths of what
a GPU has, since columns go through it."""
ENOUGH_LANES = 1 << 16
"""Lanes of a part, its pieces counted, that are enough for the largest GPU."""
PIECE_LEADS = 6
"""A piece of a chunk in time tells at least so many times the bars that it only takes in before."""
HEAVY_ROWS = 50
"""A piece tells so many where each takes far longer: a kernel looks at `lead` values, so they take
some times as long as to take in the bars before (bench/README.md)."""
SIMULATED_THREADS = 8
"""Of a block across, where each is a thread of this process."""
SIMULATED_BLOCKS = 2
SHARED_BYTES = 227 * 1024
"""Of shared memory, as much as a block has on the GPUs that signals are made for."""


class PanelKernel(NamedTuple):
    """A kernel of a panel: linked, with the entries `init` and `lane`, over flat columns."""

    module: Module
    across: bool
    varying: frozenset[str]
    """The words of a lane's State that are its own."""
    template: Words
    """A State as every lane starts from it."""
    params: Words
    """The word of the State of each row of `points`."""
    points: Words
    """[param, lane]"""
    before: int | None
    """The word of the State that says how many instants were before the chunk, if it has one."""
    window: Window | None = None
    """What a lane looks at, where a chunk may be cut in time."""
    amid: "Amid | None" = None
    """How lanes start amid time, if there is a window."""

    def lacking(self, bars: int) -> "PanelKernel":
        """It for lanes that may lack so many of the bars that it looks at."""
        if self.window is None or self.amid is None:
            return self
        lead = self.window.lead + bars
        template = self.amid.template.copy()
        template[self.amid.skipped] = lead
        window, amid = self.window._replace(lead=lead), self.amid._replace(template=template)
        return self._replace(window=window, amid=amid)

    def pieces(self, n: int, before: int) -> list["Piece"]:
        """A chunk of n instants, `before` having been before, cut in time."""
        return pieces(self.window, self.amid.rows if self.amid else n, n, before)

    def longest(self, n: int, before: int) -> int:
        """The bars that a lane goes through at most."""
        return max(piece.n for piece in self.pieces(n, before))

    def arrays(self) -> dict[str, Words]:
        """What a device has of it beside the code, by name."""
        found: dict[str, Words] = {}
        for ahead, one in (("", self), ("amid ", self.amid)):
            if one is not None:
                found |= {f"{ahead}{name}": getattr(one, name) for name in STARTS}
        return found


class Amid(NamedTuple):
    """How lanes start amid time, and where pieces have lanes beside each other.

    As a kernel has it; points are those of the lanes of as many pieces as a chunk has at most.
    """

    rows: int
    """The instants that a piece tells."""
    template: Words
    params: Words
    points: Words
    skipped: int
    """The word of the State that says how many bars a lane only takes in."""


STARTS = ("template", "params", "points")


class PanelWork(NamedTuple):
    """The kernels of a panel, in order: those of one step may run beside each other."""

    steps: Sequence[Sequence[PanelKernel]]
    given: int
    """The first columns of the table are those that the host fills."""
    columns: int
    """Of the table."""
    shown: int
    """Columns that come out."""
    instants: int
    """Rows of a column."""
    lanes: int
    """Words of a row."""

    def uneven(self) -> "PanelWork":
        """It for lanes that stand at other bars than those beside them: only what may begin
        anywhere is cut in time."""

        def kernel(one: PanelKernel) -> PanelKernel:
            anywhere = one.window is not None and one.window.anywhere
            return one if anywhere else one._replace(window=None)

        return self._replace(steps=[[kernel(one) for one in step] for step in self.steps])

    def lacking(self, bars: int) -> "PanelWork":
        """It for lanes that may lack so many of the bars that kernels look at."""
        return self._replace(steps=[[one.lacking(bars) for one in step] for step in self.steps])

    def words(self, columns: int) -> tuple[int, int, int]:
        """The shape of so many columns."""
        return columns, self.instants, self.lanes


class Piece(NamedTuple):
    """Instants of a chunk for lanes of their own.

    Those after the first are `amid` time and begin with the window before; so many `times` does
    the piece stand there, each `piece_rows` after the one before.
    """

    first: int
    n: int
    amid: bool
    times: int = 1

    def mode(self, before: int, *, last: bool) -> int:
        """Of the kernel: only the last piece leaves a State that others go on from."""
        return (0 if before and not self.amid else START) | (0 if last else FINISH)

    @property
    def start(self) -> tuple[str, str, str]:
        """The names of the template, the params and the points that its lanes start from."""
        beside = "amid " * (self.times > 1)
        return "amid " * self.amid + "template", f"{beside}params", f"{beside}points"


def piece_rows(window: Window, chunk: tuple[int, int], words: int) -> int:
    """The instants that a piece tells of a chunk of so many instants and lanes.

    A lane has so many words.
    """
    instants, lanes = chunk
    near = apart_words(words) > 0
    most = max(ENOUGH_LANES // lanes if near else CACHE_BYTES // (8 * words * lanes), 1)
    rows = PIECE_LEADS * window.lead
    rows = min(rows, HEAVY_ROWS) if window.heavy else max(rows, -(-instants // most))
    return -(-rows // window.period) * window.period


def pieces(window: Window | None, rows: int, n: int, before: int) -> list[Piece]:
    """A chunk of n instants, `before` having been before, cut into pieces of so many rows.

    The first piece goes on from the chunk before, the next one from the last.
    """
    if window is None:
        return [Piece(0, n, amid=False)]
    lead = window.lead
    begin = max(rows - lead, 0)
    begin -= (before + begin) % window.period
    begin += window.period * (begin < 0)
    more = -(-(n - begin - lead) // rows)
    if more <= 0:
        return [Piece(0, n, amid=False)]
    last = begin + (more - 1) * rows
    between = [Piece(begin, rows + lead, True, more - 1)] if more > 1 else []
    return [Piece(0, begin + lead, False), *between, Piece(last, n - last, True)]


class Panel(Protocol):
    """A panel on a device; chunks are started, and finished in the same order."""

    name: str

    def given(self, slot: int) -> Words:
        """i64[column, instant, lane]: where the host writes what goes in; `slot` is free then."""

    def keep(self) -> None:
        """Leave what is shown on the device, of all chunks from here on; see `kept`."""

    def start(
        self, slot: int, work: PanelWork, n: int, before: int, fill: Words | None = None
    ) -> None:
        """Compute n instants, `before` having been before; `work` is of the same panel.

        `fill` is what a cell of each column that is shown holds where no kernel writes it.
        """

    def finish(self, slot: int) -> Words | None:
        """i64[column, instant, lane] of what is shown, until the slot is started again; None where
        it stays on the device. Raises DeviceError when the device fails.
        """

    def kept(self, count: int) -> Matrices:
        """All that stayed on the device, of `count` instruments; chunks are finished."""

    def close(self) -> None:
        """Give back memory."""


Opened = Callable[[PanelWork], Panel]
"""Makes a panel of some work, for the time until it is closed."""


class SimulatedPanel:
    """A panel on a GPU that this CPU plays."""

    name = "simulated"

    def __init__(self, work: PanelWork, shared_bytes: int = SHARED_BYTES) -> None:
        self.shared_words = shared_bytes // 8
        self.slots = [np.zeros(work.words(work.given), np.int64) for _ in range(SLOTS)]
        rows = work.columns * work.instants
        words = np.zeros((rows + SPARE, work.lanes), np.int64)
        self.own = words[:rows].reshape(work.words(work.columns))
        self.made = [np.zeros(work.words(work.shown), np.int64) for _ in range(SLOTS)]
        self.states: dict[tuple[int, int], Words] = {}
        self.kernels: dict[int, SimulatedKernel] = {}
        self.far: dict[int, tuple[int, Words]] = {}
        self.loaded: list[PanelKernel] = []
        self.keeping: list[Words] | None = None
        self.n = [0] * SLOTS

    def given(self, slot: int) -> Words:
        """As Panel promises."""
        return self.slots[slot]

    def keep(self) -> None:
        """As Panel promises."""
        self.keeping = []

    def start(
        self, slot: int, work: PanelWork, n: int, before: int, fill: Words | None = None
    ) -> None:
        """As Panel promises."""
        self.n[slot] = n
        if fill is not None:
            self.made[slot][:] = fill[:, None, None]
        self.own[: work.given] = self.slots[slot]
        for at, step in enumerate(work.steps):
            for part, kernel in enumerate(step):
                if kernel.across:
                    self._across(kernel, self.made[slot], n, before)
                else:
                    self._along(kernel, (at, part), self.made[slot], n, before)

    def finish(self, slot: int) -> Words | None:
        """As Panel promises."""
        if self.keeping is None:
            return self.made[slot]
        self.keeping.append(self.made[slot][:, : self.n[slot]].copy())
        return None

    def kept(self, count: int) -> Matrices:
        """As Panel promises."""
        shown, _, lanes = self.made[0].shape
        words = np.concatenate([np.empty((shown, 0, lanes), np.int64), *(self.keeping or ())], 1)
        rows = words.shape[1]
        return Matrices(Place(words, words.ctypes.data, HOST), (rows, count), rows, lanes)

    def close(self) -> None:
        """As Panel promises."""

    def _along(
        self, work: PanelKernel, key: tuple[int, int], made: Words, n: int, before: int
    ) -> None:
        lanes = self.own.shape[2]
        if id(work) not in self.kernels:
            self.loaded.append(work)
            self.kernels[id(work)] = _along_kernel(work)
        if key not in self.states:
            self.states[key] = np.zeros(len(work.template) * lanes, np.int64)
        arrays, cut = work.arrays(), work.pieces(n, before)
        for piece in cut:
            ahead = 8 * lanes * piece.first
            own, to = self.own.ctypes.data + ahead, made.ctypes.data + ahead
            template, params, points = (arrays[name] for name in piece.start)
            count = piece.times * lanes
            mode = piece.mode(before, last=piece is cut[-1])
            self.kernels[id(work)].launch(-(-count // LANES), LANES, (
                template.ctypes.data, points.ctypes.data, params.ctypes.data, len(params), 0, 0, 0,
                own, piece.n, to, self.states[key].ctypes.data, points.shape[1], 0, count, mode,
            ), 8 * LANES * near_words(work.module))  # fmt: skip

    def _across(self, work: PanelKernel, made: Words, n: int, before: int) -> None:
        if id(work) not in self.kernels:
            self.loaded.append(work)
            block = panel_block(work.module, SIMULATED_THREADS, self.shared_words)
            text = panel_block_text(block, native(), gpu=False)
            self.kernels[id(work)] = kernel_of(text, ENTRY, 6)
            far = np.zeros(SIMULATED_BLOCKS * block.far_words, np.int64)
            self.far[id(work)] = block.shared_words, far
        shared_words, far = self.far[id(work)]
        template = at_instant(work, before)
        self.kernels[id(work)].launch(SIMULATED_BLOCKS, SIMULATED_THREADS, (
            template.ctypes.data, self.own.ctypes.data, made.ctypes.data, n, SIMULATED_BLOCKS,
            far.ctypes.data,
        ), 8 * shared_words)  # fmt: skip


def at_instant(work: PanelKernel, before: int) -> Words:
    """The State of a kernel for a chunk."""
    template = work.template.copy()
    if work.before is not None:
        template[work.before] = before
    return template


def _along_kernel(work: PanelKernel) -> SimulatedKernel:
    primitives()
    form = Form(f"simulated own {sorted(work.varying)}", along_passes, _text, INTERFACE)
    program = load(work.module, native(), Cache(), form)
    address = program.address(KERNEL.name)
    return SimulatedKernel(address, len(KERNEL.params), program)


def _text(module: Module, target: Target) -> str:
    def outside(module: Module, shared: Shared) -> Iterator[str]:
        yield warp_text("", module, shared, Tiling(1))
        yield DECLARED
        yield "attributes #2 = { nounwind }"

    return emit(module, target, outside)
