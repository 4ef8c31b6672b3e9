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
from quantdsl.codegen.lanes import INTERFACE, KERNEL, START
from quantdsl.codegen.panel_blocks import ENTRY, panel_block, panel_block_text
from quantdsl.codegen.primitives import DECLARED
from quantdsl.codegen.target import Target, native
from quantdsl.codegen.warps import warp_text
from quantdsl.devices.columns import HOST, Matrices, Place
from quantdsl.devices.simulated import SimulatedKernel, install, kernel_of
from quantdsl.devices.work import Words
from quantdsl.ir.ops import Module
from quantdsl.ir.own import Window
from quantdsl.passes import own_passes

LANES = 32
"""A row of a column has so many words, or some times as many."""
SLOTS = 2
"""Chunks that a device holds: one is computed while another one is filled."""
PIECES = 2
"""Of a chunk in time: each begins with a window that it only takes in. More than two took longer on
a GPU, where the parts of a stage run beside each other as well."""
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
    """[param, lane], flat."""
    before: int | None
    """The word of the State that says how many instants were before the chunk, if it has one."""
    window: Window | None = None
    """What a lane looks at, where a chunk may be cut in time."""
    amid: Words | None = None
    """A State as a lane starts from it amid time, if there is a window."""


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

    def uncut(self) -> "PanelWork":
        """It with lanes that go through whole chunks."""
        steps = [[one._replace(window=None) for one in step] for step in self.steps]
        return self._replace(steps=steps)

    def words(self, columns: int) -> tuple[int, int, int]:
        """The shape of so many columns."""
        return columns, self.instants, self.lanes


class Piece(NamedTuple):
    """Instants of a chunk for lanes of their own; those of a piece after the first are `amid`
    time, and begin with the window before."""

    first: int
    n: int
    amid: bool


def pieces(window: Window | None, n: int, before: int) -> list[Piece]:
    """A chunk of n instants, `before` having been before, cut in time.

    The first piece goes on from the chunk before, the next one from the last.
    """
    begins, ends = [0], []
    if window is not None:
        rows = max(-(-n // PIECES), 2 * window.lead)
        for row in range(rows, n, rows):
            begin = row - window.lead
            begin -= (before + begin) % window.period
            if begin > begins[-1]:
                begins.append(begin)
                ends.append(begin + window.lead)
    ends.append(n)
    return [Piece(one, end - one, one > 0) for one, end in zip(begins, ends, strict=True)]


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
        self.own = np.zeros(work.words(work.columns), np.int64)
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
        points, params = work.points.ctypes.data, work.params.ctypes.data
        for piece in pieces(work.window, n, before):
            ahead = 8 * lanes * piece.first
            own, to = self.own.ctypes.data + ahead, made.ctypes.data + ahead
            template = work.amid if piece.amid else work.template
            assert template is not None
            if piece.amid or key not in self.states:
                self.states[key] = np.zeros(len(work.template) * lanes, np.int64)
            states = self.states[key]
            mode = 0 if before and not piece.amid else START
            self.kernels[id(work)].launch(-(-lanes // LANES), LANES, (
                template.ctypes.data, points, params, len(work.params), 0, 0, 0, own, piece.n,
                to, states.ctypes.data, lanes, 0, lanes, mode,
            ))  # fmt: skip

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
    install()
    form = Form(f"simulated own {sorted(work.varying)}", own_passes, _text, INTERFACE)
    program = load(work.module, native(), Cache(), form)
    address = program.address(KERNEL.name)
    return SimulatedKernel(address, len(KERNEL.params), together=False, owner=program)


def _text(module: Module, target: Target) -> str:
    def outside(module: Module, shared: Shared) -> Iterator[str]:
        yield warp_text("", module, shared, 1)
        yield DECLARED
        yield "attributes #2 = { nounwind }"

    return emit(module, target, outside)
