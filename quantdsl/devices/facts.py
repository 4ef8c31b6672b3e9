"""What this machine has to run lanes on: every GPU and the CPU, as facts with units.

A fact has a key for programs, with its unit at the end, and a label for people.
"""

import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import llvmlite.binding as llvm

from quantdsl.codegen.target import native_lanes
from quantdsl.devices.cpu import cores
from quantdsl.errors import UnavailableError

if TYPE_CHECKING:
    from quantdsl.devices.cuda.device import CudaDevice

Value = str | int | float | bool | list[str]

SIMD = ("avx512f", "avx512dq", "avx2", "fma", "avx", "sse4.2", "neon", "sve", "sve2")
"""Features of vectors that lanes gain by, as LLVM names them."""


class Fact(NamedTuple):
    """One thing known of a device."""

    key: str
    label: str
    value: Value
    shown: str = ""
    """The value for people, where it is not plain."""

    @property
    def text(self) -> str:
        """The value for people."""
        if self.shown:
            return self.shown
        if isinstance(self.value, bool):
            return "yes" if self.value else "no"
        return f"{self.value:,}" if isinstance(self.value, int) else str(self.value)


def cpu_facts() -> list[Fact]:
    """The CPU: model, cores, caches, vectors, lanes of one."""
    features = [name for name in SIMD if llvm.get_host_cpu_features().get(name)]
    facts = [
        Fact("model", "model", _cpu_model()),
        Fact("architecture", "architecture", platform.machine()),
        Fact("cores", "cores", os.cpu_count() or 1),
        Fact("cores_usable", "cores for this process", len(cores())),
        *_caches(),
        Fact("simd", "vector features", features, " ".join(features) or "none"),
    ]
    try:
        target = native_lanes()
        shown = f"{target.lanes} of f64 ({target.cpu})"
        facts.append(Fact("lanes", "lanes of a vector", target.lanes, shown))
    except UnavailableError as error:
        facts.append(Fact("lanes", "lanes of a vector", 0, str(error)))
    return facts


def gpu_facts(device: "CudaDevice") -> list[Fact]:
    """One GPU: what it is, its memory, its limits, its driver."""
    free, total = device.memory()
    cuda = "{}.{}".format(*device.cuda)
    return [
        Fact("device", "device", device.name),
        Fact("name", "name", device.model),
        Fact("compute_capability", "compute capability", "{}.{}".format(*device.capability)),
        Fact("memory_total_bytes", "memory", total, _bytes(total)),
        Fact("memory_free_bytes", "memory free", free, _bytes(free)),
        *(_attribute(device, *row) for row in ATTRIBUTES),
        _bandwidth(device),
        Fact("driver_cuda", "driver", cuda, f"CUDA {cuda}"),
        _ptx(device),
    ]


def _count(value: int) -> Value:
    return value


def _flag(value: int) -> Value:
    return bool(value)


ATTRIBUTES: tuple[tuple[str, str, str, Callable[[int], Value], str], ...] = (
    ("MULTIPROCESSOR_COUNT", "multiprocessors", "multiprocessors", _count, ""),
    ("MAX_THREADS_PER_BLOCK", "threads_a_block", "threads of a block", _count, ""),
    ("MAX_THREADS_PER_MULTIPROCESSOR", "threads_a_multiprocessor", "of a multiprocessor", _count,
     ""),
    ("MAX_GRID_DIM_X", "grid_x", "blocks of a grid, x", _count, ""),
    ("MAX_GRID_DIM_Y", "grid_y", "y", _count, ""),
    ("MAX_GRID_DIM_Z", "grid_z", "z", _count, ""),
    ("CLOCK_RATE", "clock_khz", "clock", _count, "MHz"),
    ("MEMORY_CLOCK_RATE", "memory_clock_khz", "memory clock", _count, "MHz"),
    ("GLOBAL_MEMORY_BUS_WIDTH", "bus_bits", "memory bus, bits", _count, ""),
    ("L2_CACHE_SIZE", "l2_bytes", "L2 cache", _count, "bytes"),
    ("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", "shared_a_block_bytes", "shared memory of a block",
     _count, "bytes"),
    ("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR", "shared_a_multiprocessor_bytes",
     "of a multiprocessor", _count, "bytes"),
    ("MAX_REGISTERS_PER_BLOCK", "registers_a_block", "registers of a block", _count, ""),
    ("MAX_REGISTERS_PER_MULTIPROCESSOR", "registers_a_multiprocessor", "of a multiprocessor",
     _count, ""),
    ("WARP_SIZE", "warp", "threads of a warp", _count, ""),
    ("ECC_ENABLED", "ecc", "ECC", _flag, ""),
    ("INTEGRATED", "integrated", "integrated", _flag, ""),
    ("UNIFIED_ADDRESSING", "unified_addressing", "unified addressing", _flag, ""),
    ("CONCURRENT_KERNELS", "concurrent_kernels", "concurrent kernels", _flag, ""),
    ("ASYNC_ENGINE_COUNT", "copy_engines", "copy engines", _count, ""),
)  # fmt: skip
"""Attribute of the driver, key, label, what it is, unit."""


def _attribute(
    device: "CudaDevice", name: str, key: str, label: str, kind: Callable[[int], Value], unit: str
) -> Fact:
    value = device.attribute(name)
    shown = {"MHz": f"{value // 1000:,} MHz", "bytes": _bytes(value)}.get(unit, "")
    return Fact(key, label, kind(value), shown)


def _bandwidth(device: "CudaDevice") -> Fact:
    """Two transfers a clock over the whole bus: what the memory's makers promise."""
    clock_khz, bits = (
        device.attribute(name) for name in ("MEMORY_CLOCK_RATE", "GLOBAL_MEMORY_BUS_WIDTH")
    )
    rate = 2 * clock_khz * 1000 * bits // 8
    return Fact("bandwidth_bytes_per_s", "peak bandwidth", rate, f"{rate / 1e9:,.0f} GB/s")


def _ptx(device: "CudaDevice") -> Fact:
    """The PTX version that kernels for it are made in."""
    try:
        target = device.target
        number = target.features.removeprefix("+ptx")
        version = f"{number[:-1]}.{number[-1]}"
        return Fact("ptx", "PTX", version, f"{version} for {target.cpu}")
    except UnavailableError as error:
        return Fact("ptx", "PTX", "", str(error).replace("\n", "; "))


def _bytes(size: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:,.1f} {unit}".replace(".0 ", " ")
    return f"{size} bytes"


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        models = (line.split(":", 1)[1] for line in lines if line.startswith("model name"))
        return next(models).strip()
    except (OSError, StopIteration):
        return platform.processor() or llvm.get_host_cpu_name()


def _caches() -> Iterator[Fact]:
    """The caches that the first core sees; none where the system does not tell."""
    for cache in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = (
                (cache / name).read_text(encoding="ascii").strip()
                for name in ("level", "type", "size")
            )
            size_bytes = int(size.removesuffix("K")) * 1024
        except (OSError, ValueError):
            continue
        short = {"Data": "d", "Instruction": "i"}.get(kind, "")
        label = f"L{level}{short} cache"
        yield Fact(f"l{level}{short}_bytes", label, size_bytes, _bytes(size_bytes))
