"""What `quantdsl bench device` measures, each beside its promise; the CPU's part of it.

A figure is the median of several rounds: one slow round says something of the machine's other
users, not of the device.
"""

import ctypes
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from quantdsl.devices.cpu import CpuRunner
from quantdsl.devices.loaded import Loaded
from quantdsl.devices.rates import CHAINS, KERNELS, STEPS
from quantdsl.devices.work import LaneWork
from quantdsl.errors import ConfigError
from quantdsl.ir.ops import Module

ROUNDS = 7
UNMEASURED = {
    "all": "figures are of one device",
    "simulated": "is played by the cores to test kernels, and no figure of it is one of a GPU",
}
"""Values of --device that have no figures, and why."""
COPY_BYTES = 1 << 28
"""Several times any cache."""


class Promise(NamedTuple):
    """What a figure should reach."""

    value: float
    unit: str
    at_most: bool
    """Whether less is better."""


PROMISES = {
    "cached load": Promise(1, "us", at_most=True),
    "launch": Promise(5, "us", at_most=True),
    "empty round trip": Promise(10, "us", at_most=True),
    "grid synchronisation": Promise(100, "us", at_most=True),
    "pinned copy up": Promise(12, "GB/s", at_most=False),
    "pinned copy down": Promise(12, "GB/s", at_most=False),
    "device bandwidth": Promise(900, "GB/s", at_most=False),
    "shared bandwidth": Promise(19_000, "GB/s", at_most=False),
    "f32 rate": Promise(19_500, "GFLOPS", at_most=False),
    "f64 rate": Promise(19_500, "GFLOPS", at_most=False),
}
"""Figure -> its promise, in the order in which they are shown."""


class Figure(NamedTuple):
    """One measured figure, or why there is none."""

    name: str
    value: float | None
    note: str = ""
    promised: bool = True
    """Whether the promise is one for this kind of device."""

    @property
    def kept(self) -> bool | None:
        """Whether it keeps its promise; None if it was not measured or not promised."""
        promise = PROMISES[self.name]
        if self.value is None or not self.promised:
            return None
        return self.value <= promise.value if promise.at_most else self.value >= promise.value


def seconds(work: Callable[[], object], turns: int = 1) -> float:
    """The median time of one turn of `work`, which does `turns` of them."""
    work()
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times) / turns


def of_device(choice: str, say: Callable[[str], None]) -> tuple[str, list[Figure]]:
    """The name of a device and its figures; `choice` is auto, cpu or cuda:N."""
    from quantdsl.devices.choose import runner
    from quantdsl.devices.cuda.lanes import CudaRunner

    if choice in UNMEASURED:
        why = UNMEASURED[choice]
        raise ConfigError(f"--device {choice}: {why}\nhelp: give auto, cpu or cuda:N")
    chosen = runner(choice, say)
    if not isinstance(chosen, CudaRunner):
        return chosen.name, of_cpu()
    from quantdsl.devices.cuda.measure import Bench

    return chosen.name, Bench(chosen.device).figures()


def of_cpu() -> list[Figure]:
    """The figures of this machine's cores; what only a GPU has is named as such."""
    from quantdsl.devices.simulated import kernel_of

    n_threads = CpuRunner().threads
    kernel = kernel_of(KERNELS["empty"], "empty", 1)
    empty = ctypes.CFUNCTYPE(None, ctypes.c_int64)(kernel.address)
    call_us = seconds(lambda: [empty(0) for _ in range(1000)], 1000) * 1e6
    one_core = f"one of {n_threads} cores, without vectors"
    figures = [
        Figure("cached load", *_cached_load()),
        Figure("launch", call_us, "a call"),
        Figure("device bandwidth", _copy(), "one core, read and written", promised=False),
        Figure("f32 rate", _rate("f32"), one_core, promised=False),
        Figure("f64 rate", _rate("f64"), one_core, promised=False),
    ]
    measured = {figure.name: figure for figure in figures}
    missing = "not measured: a GPU has it, a CPU has none"
    return [measured.get(name, Figure(name, None, missing)) for name in PROMISES]


def _cached_load() -> tuple[float, str]:
    """Time to get a program that this process has loaded."""
    loaded = Loaded(lambda _: object())
    work = no_work()
    return seconds(lambda: [loaded(work) for _ in range(1000)], 1000) * 1e6, "in-process"


def no_work() -> LaneWork:
    """Work without lanes, to look up a program for."""
    words, rows = np.zeros(0, np.int64), np.zeros((0, 0), np.int64)
    none = Module((), (), (), ())
    return LaneWork(none, frozenset({"a", "b"}), words, words, words, rows, rows, rows)


def _copy() -> float:
    """GB/s of a plain copy, counting bytes read and written."""
    source = np.ones(COPY_BYTES // 8)
    target = np.empty_like(source)
    return 2 * COPY_BYTES / seconds(lambda: np.copyto(target, source)) / 1e9


def _rate(kind: str) -> float:
    """GFLOPS of one thread."""
    from quantdsl.devices.simulated import kernel_of

    name, turns = f"rate_{kind}", 1_000_000
    out = np.zeros(1)
    kernel = kernel_of(KERNELS[name], name, 2)
    taken = seconds(lambda: kernel.launch(1, 1, (out.ctypes.data, turns)))
    return 2 * CHAINS * STEPS * turns / taken / 1e9
