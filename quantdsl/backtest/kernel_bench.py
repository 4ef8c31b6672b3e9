"""The kernels of a strategy on a device, beside one core: the same bits, or how far off where
@fast lets factors be rounded; and how long it took."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from quantdsl.backtest.drawn import drawn_arguments, drawn_works
from quantdsl.backtest.tensor_kernel import TensorKernel, tensor_kernels
from quantdsl.check import Checked
from quantdsl.devices.batches import BlockWork, Ready, on_gpu, on_simulated
from quantdsl.devices.choose import GPU, hold_there
from quantdsl.devices.cuda.device import open_device
from quantdsl.devices.work import Words
from quantdsl.errors import ConfigError, CoreAloneError
from quantdsl.ir.tensors import ORDER

ROUNDS = 5
SIZE = 64
"""Of a tensor, where nothing else is said."""


APART_MOST = {"bf16": 0.01, "f16": 0.002, "tf32": 0.002, ORDER: 1e-9}
"""How far off drawn values come to be, of the largest, where @fast lets factors be rounded or the
order be another: more is another fault."""


class Compared(NamedTuple):
    """A kernel over some work; times are seconds, the device's None where it plays one."""

    kernel: str
    over: str
    device: str
    core_s: float
    device_s: float | None
    same: bool
    fast: str = ""
    """What factors may be rounded to, or ORDER, where the kernel is @fast."""
    apart: float = 0.0
    """The largest difference then, of the largest value."""
    alone: str = ""
    """Why no device runs it, where a core alone does."""

    @property
    def holds(self) -> bool:
        """Whether the bits are the same, or no further off than @fast explains."""
        return self.same or (bool(self.fast) and self.apart <= APART_MOST[self.fast])

    def __str__(self) -> str:
        took = "" if self.device_s is None else f" in {1e3 * self.device_s:.3f} ms"
        bits = "the same bits" if self.same else "OTHER BITS"
        if self.fast and not self.same:
            how = "in another order" if self.fast == ORDER else f"factors rounded to {self.fast}"
            far = "" if self.holds else ", which is TOO FAR"
            bits = f"{how}: at most {100 * self.apart:.2g}% of the largest value off{far}"
        core = f"{self.over}, one core {1e3 * self.core_s:.3f} ms"
        if self.alone:
            return f"{self.kernel}: {core}, no device runs it: {self.alone}"
        return f"{self.kernel}: {core}, {self.device}{took}, {bits}"


def compared(
    checked: Checked, device: str, instruments: int, sizes: Mapping[str, int]
) -> Iterator[Compared]:
    """Each kernel that the strategy calls, and each of tensors, on drawn values.

    `sizes` are those of tensors, by name. Raises ConfigError for an unknown device or size or a
    file without kernels, UnavailableError where the device is not there, DeviceError where it
    refuses.
    """
    if device != "simulated" and not GPU.fullmatch(device):
        raise ConfigError(f"--device {device}: kernels run on simulated or cuda:N")
    hold_there(device)
    works, tensors = list(drawn_works(checked, instruments)), list(tensor_kernels(checked))
    if not works and not tensors:
        raise ConfigError(f"{checked.source.path} calls no kernel, and has none of tensors")
    sized = list(with_sizes(tensors, sizes))
    for facts, work in works:
        core, core_s = _on_core(work)
        name, words, device_s = _on_device(work, device)
        same = bool(np.array_equal(core, words))
        yield Compared(facts.name, f"{instruments:,} instruments", name, core_s, device_s, same)
    for kernel, known in sized:
        yield _of_tensors(kernel, device, known)


def with_sizes(
    kernels: Sequence[TensorKernel], sizes: Mapping[str, int]
) -> Iterator[tuple[TensorKernel, dict[str, int]]]:
    """Each kernel with all of its sizes; ConfigError for one that none of them has."""
    known = {name for kernel in kernels for name in kernel.size_names}
    for name in sizes:
        if name not in known:
            has = ", ".join(sorted(known)) or "none"
            raise ConfigError(f"--size {name}: no tensor has such a size; there is {has}")
    for kernel in kernels:
        yield kernel, {name: sizes.get(name, SIZE) for name in kernel.size_names}


def _of_tensors(kernel: TensorKernel, device: str, known: Mapping[str, int]) -> Compared:
    """A kernel of tensors: once on a core, once on the device, then some rounds there."""
    core, other = (drawn_arguments(kernel.facts, known) for _ in range(2))
    kernel.run(kernel.bound((), drawn_arguments(kernel.facts, known)), "cpu")  # compiles it
    began = time.perf_counter()
    left, _ = kernel.run(kernel.bound((), core), "cpu")
    core_s = time.perf_counter() - began
    over = ", ".join(f"{name} = {size:,}" for name, size in known.items()) or "given sizes"
    try:
        found, _ = kernel.run(kernel.bound((), other), device)
    except CoreAloneError as error:
        why = str(error).partition("\n")[0]
        return Compared(kernel.facts.name, over, device, core_s, None, True, alone=why)
    arrays = [one.name for one in kernel.facts.tensors]
    same = left == found and all(
        np.array_equal(core[name], other[name], equal_nan=core[name].dtype.kind == "f")
        for name in arrays
    )
    name, device_s = device, None
    if match := GPU.fullmatch(device):
        name = open_device(int(match[1] or 0)).model
        device_s = min(_times(kernel, device, known))
    fast = kernel.facts.fast
    pairs = [(core[name], other[name]) for name in arrays]
    if kernel.facts.result.kind == "float":
        pairs.append((np.int64(left).view(np.float64), np.int64(found).view(np.float64)))
    apart = max(_apart(*pair) for pair in pairs) if fast else 0.0
    return Compared(kernel.facts.name, over, name, core_s, device_s, same, fast, apart)


def _times(kernel: TensorKernel, device: str, known: Mapping[str, int]) -> list[float]:
    """Seconds of some rounds on a GPU; each sort gets values as they are drawn, not in order."""
    drawn = drawn_arguments(kernel.facts, known)
    if kernel.facts.kind != "sort":
        return kernel.run(kernel.bound((), drawn), device, ROUNDS)[1]
    arrays = {name: value for name, value in drawn.items() if isinstance(value, np.ndarray)}
    times: list[float] = []
    for _ in range(ROUNDS):
        given = {**drawn, **{name: array.copy() for name, array in arrays.items()}}
        times += kernel.run(kernel.bound((), given), device)[1]
    return times


def _apart(exact: Any, rounded: Any) -> float:
    """The largest difference of two arrays, of the largest value; NaN is one value."""
    exact, rounded = np.float64(exact), np.float64(rounded)
    with np.errstate(invalid="ignore"):
        off = np.where(np.isnan(exact) & np.isnan(rounded), 0.0, np.abs(exact - rounded))
    return float(np.max(off) / max(np.nanmax(np.abs(exact)), np.finfo(np.float32).tiny))


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
