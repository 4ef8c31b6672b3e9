"""Memory of a GPU: a stream-ordered pool; pinned, registered and managed memory of the host.

An allocation is rounded up to a size class, so that a freed block serves the next request of
nearly its size; the pool counts what is in use and its high-water mark, and refuses beyond its
limit before the driver does.
"""

import ctypes
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from quantdsl.devices.failure import Bytes, refused

if TYPE_CHECKING:
    from quantdsl.devices.cuda.device import CudaDevice
    from quantdsl.devices.cuda.stream import Stream

CLASS_MIN_BYTES = 512
"""The smallest class; the driver aligns to as much."""
CLASSES_AN_OCTAVE = 8
"""Classes between a size and its double: at most an eighth of a block is unused."""


def size_class(size: int) -> int:
    """The bytes that a request is rounded up to."""
    if size <= CLASS_MIN_BYTES:
        return CLASS_MIN_BYTES
    step = 1 << max((size - 1).bit_length() - CLASSES_AN_OCTAVE.bit_length(), 0)
    step = max(step, CLASS_MIN_BYTES // CLASSES_AN_OCTAVE)
    return -(-size // step) * step


class Buffer:
    """Memory of a GPU; free it on the stream that used it last."""

    def __init__(self, pool: "Pool", pointer: Any, size: int, reserved: int) -> None:
        self.pool, self.pointer, self.size, self.reserved = pool, pointer, size, reserved

    @property
    def address(self) -> int:
        """Where it begins on the device."""
        return int(self.pointer)

    def free(self, stream: "Stream") -> None:
        """Give it back once the stream has come this far; a second time does nothing."""
        self.pool.free(self, stream)


class Pool:
    """Stream-ordered memory of one GPU; safe to use from several threads."""

    def __init__(self, device: "CudaDevice", limit_bytes: int | None = None) -> None:
        self.device, self.limit_bytes = device, limit_bytes
        self.used_bytes, self.high_bytes = 0, 0
        self._lock = threading.RLock()  # what Python collects meanwhile may free a buffer here
        self._pool: Any = None

    def allocate(self, size: int, stream: "Stream", about: str = "") -> Buffer:
        """At least `size` bytes, usable on the stream from here on. Raises DeviceError (memory)."""
        reserved = size_class(size)
        with self._lock:
            if self.limit_bytes is not None and self.used_bytes + reserved > self.limit_bytes:
                left = Bytes(reserved, self.limit_bytes - self.used_bytes)
                raise refused(
                    self.device.name, "memory", f"{about or 'memory'} is beyond the limit", left
                )
            self.used_bytes += reserved
            self.high_bytes = max(self.high_bytes, self.used_bytes)
        try:
            pointer = self.device.call(
                "cuMemAllocFromPoolAsync", reserved, self._handle(), stream.handle,
                about=about, memory=Bytes(reserved, self.device.memory()[0]),
            )  # fmt: skip
        except BaseException:
            with self._lock:
                self.used_bytes -= reserved
            raise
        return Buffer(self, pointer, size, reserved)

    def free(self, buffer: Buffer, stream: "Stream") -> None:
        """As Buffer.free."""
        with self._lock:
            pointer, buffer.pointer = buffer.pointer, None
            if pointer is None:
                return
            self.used_bytes -= buffer.reserved
        self.device.call("cuMemFreeAsync", pointer, stream.handle)

    def trim(self) -> None:
        """Give what is not in use back to the device."""
        self.device.call("cuMemPoolTrimTo", self._handle(), 0)

    def reset_high(self) -> None:
        """Begin a new high-water mark at what is in use."""
        with self._lock:
            self.high_bytes = self.used_bytes

    def _handle(self) -> Any:
        """The driver's pool, made on first use; what is freed stays in it until it is trimmed."""
        with self._lock:
            if self._pool is None:
                driver = self.device.driver
                wanted = driver.api.CUmemPoolProps()
                wanted.allocType = driver.enum(
                    "CUmemAllocationType", "CU_MEM_ALLOCATION_TYPE_PINNED"
                )
                wanted.location.type = driver.enum(
                    "CUmemLocationType", "CU_MEM_LOCATION_TYPE_DEVICE"
                )
                wanted.location.id = self.device.number
                self._pool = self.device.call("cuMemPoolCreate", wanted)
                keep = driver.enum("CUmemPool_attribute", "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD")
                everything = driver.api.cuuint64_t(2**64 - 1)
                self.device.call("cuMemPoolSetAttribute", self._pool, keep, everything)
            return self._pool


class Pinned:
    """Page-locked memory of the host, which copies run from at full speed beside computing."""

    def __init__(self, device: "CudaDevice", size: int) -> None:
        portable = 1  # CU_MEMHOSTALLOC_PORTABLE: for the contexts of all devices
        self.device, self.size = device, size
        told = {"about": f"{size:,} pinned bytes"}
        self.address = int(device.call("cuMemHostAlloc", max(size, 1), portable, **told))

    def words(self, *shape: int) -> npt.NDArray[np.int64]:
        """Its first words as an array, valid as long as the memory is."""
        return words_at(self.address, *shape)

    def free(self) -> None:
        """Give it back; nothing may be copying."""
        if self.address:
            self.device.call("cuMemFreeHost", self.address)
            self.address = 0


class PinnedPool:
    """Pinned memory for reuse, since locking pages takes longer than copying them; safe to use from
    several threads.
    """

    def __init__(self, device: "CudaDevice") -> None:
        self.device = device
        self._free: dict[int, list[Pinned]] = {}

    def take(self, size: int) -> Pinned:
        """Pinned memory of at least `size` bytes."""
        reserved = size_class(size)
        try:
            return self._free[reserved].pop()
        except (KeyError, IndexError):  # asked for first, another thread might take the last one
            return Pinned(self.device, reserved)

    def give(self, memory: Pinned) -> None:
        """Keep it for the next `take`."""
        self._free.setdefault(memory.size, []).append(memory)

    def trim(self) -> None:
        """Unlock all that is not in use."""
        for kept in tuple(self._free.values()):
            with suppress(IndexError):  # one by one: another thread might take one meanwhile
                while True:
                    kept.pop().free()


class Registered:
    """An existing array, page-locked while the `with` lasts."""

    def __init__(self, device: "CudaDevice", array: npt.NDArray[Any]) -> None:
        self.device, self.array = device, array

    def __enter__(self) -> npt.NDArray[Any]:
        size, address = self.array.nbytes, self.array.ctypes.data
        self.device.call("cuMemHostRegister", address, size, 1, about=f"{size:,} bytes")
        return self.array

    def __exit__(self, *_: object) -> None:
        self.device.call("cuMemHostUnregister", self.array.ctypes.data)


class Managed:
    """Memory that host and device both reach at one address; for small, shared words."""

    def __init__(self, device: "CudaDevice", size: int) -> None:
        attach_global = 1  # CU_MEM_ATTACH_GLOBAL
        self.device, self.size = device, size
        self.pointer = device.call("cuMemAllocManaged", size, attach_global)

    def words(self, *shape: int) -> npt.NDArray[np.int64]:
        """Its words as the host sees them; the device must be idle."""
        return words_at(int(self.pointer), *shape)

    def free(self) -> None:
        """Give it back."""
        self.device.call("cuMemFree", self.pointer)


def words_at(address: int, *shape: int) -> npt.NDArray[np.int64]:
    """The int64 words at an address of the host; nothing keeps them there."""
    count = int(np.prod(shape))
    if not count:
        return np.empty(shape, np.int64)
    memory = (ctypes.c_int64 * count).from_address(address)
    return np.ctypeslib.as_array(memory).reshape(shape)
