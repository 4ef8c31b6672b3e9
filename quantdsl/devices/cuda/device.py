"""One GPU: its context, what it is, and the memory and streams that belong to it."""

import functools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from quantdsl.codegen.ptx import architecture_of, target_of
from quantdsl.codegen.target import Target
from quantdsl.devices.cuda.driver import Driver, driver
from quantdsl.devices.cuda.memory import Buffer, PinnedPool, Pool
from quantdsl.devices.cuda.stream import Stream, StreamPool
from quantdsl.errors import UnavailableError


class Limits(NamedTuple):
    """What a launch may not exceed."""

    grid: int
    """Blocks in the first dimension."""
    block: int
    """Threads of a block."""
    shared_bytes: int
    """Shared memory of a block, asked for by the kernel."""


class CudaDevice:
    """A GPU; several threads may use it, each of them its own streams."""

    kind = "cuda"

    def __init__(self, driver: Driver, number: int) -> None:
        self.driver, self.number = driver, number
        self.name = f"cuda:{number}"
        self.handle = driver.call("cuDeviceGet", number, device=self.name)
        self.model = _text(driver.call("cuDeviceGetName", 128, self.handle, device=self.name))
        self._context = driver.call("cuDevicePrimaryCtxRetain", self.handle, device=self.name)
        self.pool = Pool(self)
        self.pinned = PinnedPool(self)
        self.streams = StreamPool(self)

    def call(self, call: str, *args: Any, **told: Any) -> Any:
        """A call of the driver in this device's context; raises DeviceError with its name."""
        self.use()
        return self.driver.call(call, *args, device=self.name, **told)

    def use(self) -> None:
        """Make the context current in the calling thread; costs nothing the second time."""
        if getattr(_current, "device", None) is not self:
            self.driver.call("cuCtxSetCurrent", self._context, device=self.name)
            _current.device = self

    @property
    def context(self) -> Any:
        """The driver's handle of the context."""
        return self._context

    @functools.cache  # noqa: B019 (a device lives as long as the process)
    def attribute(self, name: str) -> int:
        """An attribute by its name in the driver's table, without CU_DEVICE_ATTRIBUTE_."""
        which = self.driver.enum("CUdevice_attribute", f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.call("cuDeviceGetAttribute", which, self.handle))

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability: (9, 0) for sm_90."""
        return (
            self.attribute("COMPUTE_CAPABILITY_MAJOR"),
            self.attribute("COMPUTE_CAPABILITY_MINOR"),
        )

    @property
    def architecture(self) -> str:
        """The newest one known here whose code it runs: sm_90. Raises UnavailableError."""
        return architecture_of(self.capability)

    @property
    def cuda(self) -> tuple[int, int]:
        """The newest CUDA that its driver serves."""
        version = self.driver.version()
        return version // 1000, version % 1000 // 10

    @property
    def target(self) -> Target:
        """What its kernels are made for. Raises UnavailableError where driver or GPU is too old."""
        return target_of(self.architecture, self.cuda)

    @property
    def limits(self) -> Limits:
        """What a launch may not exceed."""
        return Limits(
            self.attribute("MAX_GRID_DIM_X"),
            self.attribute("MAX_THREADS_PER_BLOCK"),
            self.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        )

    def memory(self) -> tuple[int, int]:
        """(free, total) bytes of the device; what the pool keeps for reuse is not free."""
        free, total = self.call("cuMemGetInfo")
        return int(free), int(total)

    @contextmanager
    def lent(self, sizes: Mapping[str, int]) -> Iterator[tuple[Stream, dict[str, Buffer]]]:
        """A stream, and memory of so many bytes each on it, by name: both go back at the end, what
        there is of them also where the device refuses the rest.
        """
        self.use()
        stream = self.streams.take()
        buffers: dict[str, Buffer] = {}
        try:
            for name, size in sizes.items():
                buffers[name] = self.pool.allocate(size, stream, name)
            yield stream, buffers
        finally:
            for buffer in buffers.values():
                buffer.free(stream)
            self.streams.give(stream)

    def synchronize(self) -> None:
        """Wait for everything that was started on the device."""
        self.call("cuCtxSynchronize")

    def can_reach(self, other: "CudaDevice") -> bool:
        """Whether this device can read the other's memory without the host."""
        return bool(self.call("cuDeviceCanAccessPeer", self.handle, other.handle))


_current = threading.local()


@functools.cache
def open_device(number: int) -> CudaDevice:
    """GPU `number`, the same object each time. Raises UnavailableError if there is none."""
    count = driver().device_count()
    if number >= count:
        raise UnavailableError(
            f"there is no cuda:{number}; this process may use cuda:0"
            + (f" to cuda:{count - 1}" if count > 1 else "")
        )
    return CudaDevice(driver(), number)


def _text(name: bytes) -> str:
    return name.split(b"\0")[0].decode("utf-8", "replace")
