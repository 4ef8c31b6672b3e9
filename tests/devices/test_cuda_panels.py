"""A panel on a GPU against a fake driver: what stays on the device, where, and for how long."""

import gc

import numpy as np
import pytest

from quantdsl.backtest.panel_device import DeviceTurn
from quantdsl.backtest.panels import PanelTurn
from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.signal_panel import missing_word, on_host
from quantdsl.backtest.values import chosen
from quantdsl.check.signal_turn import Signals
from quantdsl.codegen.ptx import ENTRY
from quantdsl.codegen.warps import near_words
from quantdsl.devices.columns import CUDA, HOST
from quantdsl.devices.cuda import panels
from quantdsl.devices.cuda.device import CudaDevice
from quantdsl.devices.cuda.driver import Driver
from quantdsl.devices.cuda.memory import words_at
from quantdsl.devices.cuda.panels import CudaPanel
from quantdsl.devices.panels import (
    LANES,
    PanelKernel,
    PanelWork,
    SimulatedPanel,
    _along_kernel,
)
from tests.devices.fake_driver import FakeDriver
from tests.std.universe import compiled, table, walks

TEXT = """language 1
strategy Returns:
    "One kernel along time."
    bars 1d
    universe "ALL"
    let ret  = close / close[2] - 1
    let up   = close > close[1]
"""


class Launched:
    """A kernel along time, run as the simulated device runs it."""

    count = 15

    def __init__(self) -> None:
        self.kernel, self.shared_bytes = None, 0

    def __call__(self, grid: int, block: int, arguments: list[int]) -> None:
        self.kernel.launch(grid, block, tuple(arguments), self.shared_bytes)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A fake GPU that runs the one kernel of TEXT, whichever its form."""
    fake = FakeDriver()
    launched = fake.kernels[ENTRY] = Launched()
    prepared = CudaPanel._along

    def along(self: CudaPanel, work: PanelKernel, *args: object) -> object:
        launched.kernel = _along_kernel(work)
        launched.shared_bytes = 8 * LANES * near_words(work.module)
        return prepared(self, work, *args)

    monkeypatch.setattr(CudaPanel, "_along", along)
    monkeypatch.setattr(panels, "along_code", lambda *_: b"\x7fELF")
    return fake


def turns(fake: FakeDriver) -> tuple[CudaDevice, DeviceTurn, PanelTurn, list[np.ndarray]]:
    """A fake GPU, the signals of TEXT there and on a core, and the chunks of some walks."""
    checked = compiled(TEXT)
    arranged = arrange(checked, data=table(walks(9, 150)))
    checked = arranged.sized(checked)
    given = checked, Signals(checked.assembly), arranged.data, chosen((), {})
    device = CudaDevice(Driver(fake), 0)
    turn = DeviceTurn(*given, lambda work: CudaPanel(device, work), instants=64)
    return device, turn, PanelTurn(*given), list(arranged.data.chunks())


def test_columns_stay_on_the_device_until_nobody_has_them(fake: FakeDriver) -> None:
    device, turn, core, chunks = turns(fake)
    fill = np.array([missing_word("float"), missing_word("bool")])
    times, made = turn.resident(chunks, fill)
    expected_times, expected = on_host(core, chunks, fill)
    assert np.array_equal(times, expected_times)
    assert (made.place.device, expected.place.device) == ((CUDA, 0), HOST)
    assert fake.calls["cuMemcpyDtoHAsync"] == 0
    for number in range(2):
        here, there = (one.column(number, "<i8") for one in (made, expected))
        told = here.__cuda_array_interface__
        assert told["shape"] == there.shape
        rows, count = there.shape
        words = words_at(told["data"][0], rows, told["strides"][0] // 8)[:, :count]
        nan = np.isnan(words.view(np.float64)) & np.isnan(np.from_dlpack(there).view(np.float64))
        assert np.array_equal(np.where(nan, 0, words), np.where(nan, 0, np.from_dlpack(there)))
    assert device.pool.used_bytes > 0
    lent = here.__dlpack__()
    del made, here
    gc.collect()
    assert device.pool.used_bytes > 0
    del lent
    gc.collect()
    assert device.pool.used_bytes == 0
    assert fake.used_bytes() == 0
    assert fake.live["event"] == 0


def test_what_is_shown_still_comes_down(fake: FakeDriver) -> None:
    device, turn, core, chunks = turns(fake)
    one, other = (np.concatenate(list(t.pieces(chunks)), 1) for t in (turn, core))
    missing = np.isnan(one.view(np.float64)) & np.isnan(other.view(np.float64))
    assert np.array_equal(np.where(missing, 0, one), np.where(missing, 0, other))
    assert device.pool.used_bytes == 0


def test_who_stops_amid_the_chunks_leaves_nothing(fake: FakeDriver) -> None:
    """Then one is computed that nobody takes."""
    device, turn, _, chunks = turns(fake)
    pieces = turn.pieces(chunks)
    next(pieces)
    assert fake.live["event"] > 0
    pieces.close()
    assert fake.live["event"] == 0
    assert device.pool.used_bytes == 0


def test_work_has_one_kernel() -> None:
    """What the fake GPU above counts on."""
    checked = compiled(TEXT)
    arranged = arrange(checked, data=table(walks(3, 20)))
    checked = arranged.sized(checked)
    given = checked, Signals(checked.assembly), arranged.data, chosen((), {})
    work = DeviceTurn(*given, SimulatedPanel, instants=64).complete
    assert isinstance(work, PanelWork)
    assert [len(step) for step in work.steps] == [1]
