"""The kernels of a strategy on a device, beside one core: the same bits, and how long it took."""

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from quantdsl.backtest.drawn import drawn_works
from quantdsl.check import Checked
from quantdsl.devices.batches import BlockWork, Ready, on_gpu, on_simulated
from quantdsl.devices.choose import GPU
from quantdsl.devices.cuda.device import open_device
from quantdsl.devices.work import Words
from quantdsl.errors import ConfigError

ROUNDS = 5


class Compared(NamedTuple):
    """A kernel over many instruments; times are seconds, the device's None where it plays one."""

    kernel: str
    instruments: int
    device: str
    core_s: float
    device_s: float | None
    same: bool

    def __str__(self) -> str:
        took = "" if self.device_s is None else f" in {1e3 * self.device_s:.3f} ms"
        bits = "the same bits" if self.same else "OTHER BITS"
        core = f"{self.instruments:,} instruments, one core {1e3 * self.core_s:.3f} ms"
        return f"{self.kernel}: {core}, {self.device}{took}, {bits}"


def compared(checked: Checked, device: str, instruments: int) -> Iterator[Compared]:
    """Each kernel that the strategy calls, on drawn values.

    Raises ConfigError for an unknown device or a file without kernels, UnavailableError where the
    device is not there, DeviceError where it refuses.
    """
    if device != "simulated" and not GPU.fullmatch(device):
        raise ConfigError(f"--device {device}: kernels run on simulated or cuda:N")
    works = list(drawn_works(checked, instruments))
    if not works:
        raise ConfigError(f"{checked.source.path} calls no kernel")
    for facts, work in works:
        core, core_s = _on_core(work)
        name, words, device_s = _on_device(work, device)
        same = bool(np.array_equal(core, words))
        yield Compared(facts.name, instruments, name, core_s, device_s, same)


def _on_core(work: BlockWork) -> tuple[Words, float]:
    """The results, and the shortest of some times that computing them took."""
    ready, times = Ready(work), []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        words = ready()
        times.append(time.perf_counter() - began)
    return words, min(times)


def _on_device(work: BlockWork, device: str) -> tuple[str, Words, float | None]:
    if device == "simulated":
        return device, on_simulated(work), None
    match = GPU.fullmatch(device)
    assert match is not None
    gpu = open_device(int(match[1] or 0))
    on_gpu(work, gpu)  # the first launch of a kernel takes longer
    words, seconds = on_gpu(work, gpu)
    return gpu.model, words, seconds
